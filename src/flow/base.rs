//! The files of the base commit that a flow names: prompts and scripts. They are handed in.

use std::collections::{BTreeMap, BTreeSet};

use super::document::{Act, Flow, Judge, Prompt, PromptKind, Runs, Script};
use super::fault::{Note, Notes};
use super::read::substituted;

/// The longest file that is read, in bytes.
pub const MAX_FILE: u64 = 1024 * 1024;

/// The content of the base commit at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// Nothing.
    Nothing,
    /// Nothing, but the caller's checkout has a file there.
    Uncommitted,
    /// A file.
    File {
        /// Its content.
        content: Vec<u8>,
        /// Whether it can be executed.
        executable: bool,
    },
    /// A directory, a link or a submodule.
    Other,
}

/// A place of a flow that names a file.
enum Use<'a> {
    Prompt(&'a Prompt),
    Script(&'a Script),
}

impl Use<'_> {
    fn path(&self) -> String {
        match self {
            Self::Prompt(Prompt { kind: PromptKind::Named, text, .. }) => format!(".aynig/prompts/{text}.md"),
            Self::Prompt(prompt) => prompt.text.clone(),
            Self::Script(script) => script.entrypoint.name.clone(),
        }
    }
}

fn uses(flow: &Flow) -> Vec<Use<'_>> {
    let mut all = Vec::new();
    for step in &flow.steps {
        match &step.act {
            Act::RunAgent(agent) => all.push(Use::Prompt(&agent.prompt)),
            Act::RunValidation(validators) => {
                all.extend(validators.iter().filter_map(|validator| match &validator.runs {
                    Runs::Script(script) => Some(Use::Script(script)),
                    Runs::Builtin | Runs::Harness { .. } => None,
                }));
            }
            Act::Evaluate(evaluate) => {
                all.push(Use::Prompt(&evaluate.prompt));
                if let Judge::Script(script) = &evaluate.judge {
                    all.push(Use::Script(script));
                }
            }
            Act::Gate(_) | Act::Rollback | Act::Stop { .. } => {}
        }
    }
    all.retain(|one| !matches!(one, Use::Prompt(Prompt { kind: PromptKind::Text, .. })));
    all
}

/// The paths of the base commit that a flow names.
#[must_use]
pub fn paths(flow: &Flow) -> BTreeSet<String> {
    uses(flow).iter().map(Use::path).collect()
}

/// The directories of the scripts that a flow names, which come with them. The top is `""`.
#[must_use]
pub fn script_directories(flow: &Flow) -> BTreeSet<String> {
    let all = uses(flow);
    let scripts = all.iter().filter(|one| matches!(one, Use::Script(_))).map(Use::path);
    scripts
        .map(|path| path.rsplit_once('/').map_or_else(String::new, |(above, _)| above.to_owned()))
        .collect()
}

/// Compares a flow with the files of a base commit, whose name is `base`.
#[must_use]
pub fn compare(flow: &Flow, base: &str, files: &BTreeMap<String, Found>) -> Vec<Note> {
    let mut notes = Notes::default();
    let inputs: Vec<&str> = flow.inputs.iter().map(|input| input.name.as_str()).collect();
    for one in uses(flow) {
        let path = one.path();
        let found = files.get(&path).unwrap_or(&Found::Nothing);
        let (there, commit) = match found {
            Found::Uncommitted => ("; your checkout has it", "commit it, or name a base that has it"),
            _ => ("", "commit it, or correct the path"),
        };
        let missing = format!("{base} has no {path}{there}");
        match (&one, found) {
            (
                Use::Prompt(Prompt { at, kind: PromptKind::Named, text }),
                Found::Nothing | Found::Uncommitted,
            ) => {
                let instead = format!("add and commit it, else `{text}` itself is the prompt");
                notes.warn(*at, missing, instead);
            }
            (Use::Prompt(Prompt { at, .. }), Found::Nothing | Found::Uncommitted) => {
                notes.fault(*at, missing, commit);
            }
            (Use::Prompt(Prompt { at, .. }), Found::File { content, .. }) => {
                match std::str::from_utf8(content) {
                    Ok(text) => substituted(*at, text, &inputs, &mut notes),
                    Err(_) => notes.fault(*at, format!("{path} is not UTF-8"), "save it as UTF-8"),
                }
            }
            (Use::Script(script), Found::Nothing | Found::Uncommitted) => {
                let instead = format!("{commit}; scripts are taken from the base commit");
                notes.fault(script.entrypoint.at, missing, instead);
            }
            (Use::Script(script), Found::File { executable: false, .. }) => {
                let instead = "make it executable: `git add --chmod=+x`, then commit";
                notes.fault(script.entrypoint.at, format!("{path} is not executable in {base}"), instead);
            }
            (Use::Script(_), Found::File { .. }) => {}
            (Use::Prompt(Prompt { at, .. }), Found::Other) => {
                notes.fault(*at, format!("{path} is no file in {base}"), "name a file");
            }
            (Use::Script(script), Found::Other) => {
                notes.fault(script.entrypoint.at, format!("{path} is no file in {base}"), "name a file");
            }
        }
    }
    notes.sorted()
}
