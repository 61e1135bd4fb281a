//! The choice of the planner, by the flow and the host's settings.

use std::collections::BTreeMap;
use std::ffi::OsStr;

use crate::engine::validation::{lacking_program, setting_name};
use crate::flow::document::{Evaluate, Judge, Script};

/// A planner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Chosen<'a> {
    /// A command line for `sh`.
    Line(&'a str),
    /// A script of the base commit.
    Script(&'a Script),
    /// The agent of the provider with this name.
    Agent(&'a str),
}

/// Chooses the planner. `lines` are those of the host, `agent` the provider if neither flow nor host names one. The
/// program of a line is searched in `path`, a value of `PATH`. The error says what the host lacks.
pub fn choose<'a>(
    evaluate: &'a Evaluate,
    lines: &'a BTreeMap<String, String>,
    agent: Option<&'a str>,
    path: &OsStr,
) -> Result<Chosen<'a>, String> {
    let of_line = |setting: &str, line: &'a str| match lacking_program(setting, line, path) {
        Some(what) => Err(what),
        None => Ok(Chosen::Line(line)),
    };
    match &evaluate.judge {
        Judge::Agent(name) => Ok(Chosen::Agent(name)),
        Judge::Script(script) => Ok(Chosen::Script(script)),
        Judge::Command(name) => {
            let key = setting_name(name);
            match lines.get(&key) {
                Some(line) => of_line(&format!("aynig.evaluator.{key}"), line),
                None => Err(format!("the planner {name} (`git config aynig.evaluator.{key} COMMAND`)")),
            }
        }
        Judge::Configured => match (lines.get(""), agent) {
            (Some(line), _) => of_line("aynig.evaluator", line),
            (None, Some(agent)) => Ok(Chosen::Agent(agent)),
            (None, None) => Err("a planner (`git config aynig.evaluator COMMAND`)".to_owned()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::document::{Name, Prompt, PromptKind};
    use crate::flow::fault::Place;

    /// CONTRACT 20.22
    #[test]
    fn who_judges() {
        let at = Place::default();
        let script = Script {
            entrypoint: Name { at, name: "judge.sh".to_owned() },
            args: Vec::new(),
            timeout_seconds: None,
        };
        let all: BTreeMap<String, String> =
            [("", "sh plain"), ("strict", "sh strict"), ("gone", "no-such-program -x"), ("own", "./judge")]
                .map(|(name, line)| (name.to_owned(), line.to_owned()))
                .into();
        let none = BTreeMap::new();
        let command = |name: &str| Judge::Command(name.to_owned());
        for (judge, lines, agent, chosen) in [
            (Judge::Agent("claude".to_owned()), &all, Some("codex"), Ok(Chosen::Agent("claude"))),
            (Judge::Script(script.clone()), &all, None, Ok(Chosen::Script(&script))),
            (command("Strict"), &all, None, Ok(Chosen::Line("sh strict"))),
            (command("gone"), &all, None, Err("no-such-program is not in PATH")),
            (command("own"), &all, None, Ok(Chosen::Line("./judge"))),
            (command("lax"), &all, Some("codex"), Err("aynig.evaluator.lax COMMAND")),
            (Judge::Configured, &all, Some("codex"), Ok(Chosen::Line("sh plain"))),
            (Judge::Configured, &none, Some("codex"), Ok(Chosen::Agent("codex"))),
            (Judge::Configured, &none, None, Err("aynig.evaluator COMMAND")),
        ] {
            let prompt = Prompt { at, kind: PromptKind::Text, text: String::new() };
            let evaluate = Evaluate { prompt, allowed_next_steps: Vec::new(), judge };
            match (choose(&evaluate, lines, agent, OsStr::new("/usr/bin:/bin")), chosen) {
                (Ok(found), Ok(wanted)) => assert_eq!(found, wanted),
                (Err(found), Err(wanted)) => assert!(found.contains(wanted), "{found}"),
                (found, wanted) => panic!("{found:?} instead of {wanted:?}"),
            }
        }
    }
}
