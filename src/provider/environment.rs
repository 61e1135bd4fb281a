//! The environment of an agent.
//!
//! Invariant: it is an allow-list. An agent hands every variable on to the commands that it runs, so it gets neither the
//! keys of another provider, nor git's own variables, nor those that name the branch and the attempt of a runner.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::name::Kind;
use super::turn::{Provider, Turn};

/// Variables that every program may need: to find programs, files, its user, the network.
const PASSED: [&str; 29] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "TERM",
    "TZ",
    "TMPDIR",
    "SSH_AUTH_SOCK",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "GIT_AUTHOR_NAME",
    "GIT_AUTHOR_EMAIL",
    "GIT_COMMITTER_NAME",
    "GIT_COMMITTER_EMAIL",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_CONFIG_NOSYSTEM",
];

/// Beginnings of further names.
const PASSED_PREFIXES: [&str; 2] = ["LC_", "XDG_"];

/// Names that a configuration cannot give, by their beginning: they would lead git or aynig elsewhere.
const REFUSED: [&str; 9] = [
    "AYNIG_",
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_COMMON_DIR",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
];

/// Variables that keep Claude Code from contacting others than its model.
const QUIET: [&str; 4] = [
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
    "DISABLE_TELEMETRY",
    "DISABLE_ERROR_REPORTING",
    "DISABLE_AUTOUPDATER",
];

/// Why a variable cannot be configured for a provider. `None` if it can.
#[must_use]
pub fn refusal(name: &str) -> Option<&'static str> {
    if name.is_empty() || name.contains(['=', '\0']) {
        return Some("it names no variable");
    }
    REFUSED
        .iter()
        .any(|start| name.starts_with(start))
        .then_some("aynig and git need this variable themselves")
}

/// The variables of a turn.
pub(crate) fn environment(turn: &Turn<'_>) -> Vec<(OsString, OsString)> {
    let outer = std::env::vars_os().collect();
    let mut variables = chosen(&outer, turn.provider);
    if turn.provider.kind == Kind::Claude && turn.posture.skips() && is_root() {
        variables.entry("IS_SANDBOX".into()).or_insert_with(|| "1".into());
    }
    let ceilings = ceilings(turn.directory, outer.get(OsStr::new("GIT_CEILING_DIRECTORIES")));
    variables.insert("GIT_CEILING_DIRECTORIES".into(), ceilings);
    variables.extend(turn.environment.iter().cloned());
    variables.into_iter().collect()
}

/// Variables that a server of tools needs. It has neither keys nor the network.
const SERVED: [&str; 10] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "TZ",
    "TMPDIR",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_CONFIG_NOSYSTEM",
];

/// The command line of the turn's server of tools. It begins with `env -i`: some programs hand all of their environment on
/// to such servers, keys included. What is no text is left out.
pub(crate) fn server(turn: &Turn<'_>) -> Option<Vec<String>> {
    let tools = turn.tools?;
    let outer: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
    let is_served = |name: &OsStr| {
        let text = name.to_string_lossy();
        SERVED.contains(&&*text) || PASSED_PREFIXES.iter().any(|start| text.starts_with(start))
    };
    let mut variables: BTreeMap<OsString, OsString> =
        outer.into_iter().filter(|(name, _)| is_served(name)).collect();
    variables.extend(turn.environment.iter().cloned());
    let set =
        variables.iter().filter_map(|(name, value)| Some(format!("{}={}", name.to_str()?, value.to_str()?)));
    let mut line = vec!["env".to_owned(), "-i".to_owned()];
    line.extend(set);
    line.push(tools.program.to_str()?.to_owned());
    for arg in &tools.args {
        line.push(arg.to_str()?.to_owned());
    }
    Some(line)
}

/// The variables that do not depend on the turn.
pub(crate) fn chosen(
    outer: &BTreeMap<OsString, OsString>,
    provider: &Provider,
) -> BTreeMap<OsString, OsString> {
    let is_passed = |name: &OsStr| {
        let text = name.to_string_lossy();
        PASSED.contains(&&*text) || PASSED_PREFIXES.iter().any(|start| text.starts_with(start))
    };
    let mut variables: BTreeMap<OsString, OsString> =
        outer.iter().filter(|(name, _)| is_passed(name)).map(|(a, b)| (a.clone(), b.clone())).collect();
    if provider.kind == Kind::Claude {
        variables.extend(QUIET.map(|name| (name.into(), "1".into())));
    }
    for (name, value) in &provider.env {
        let name = OsString::from(name);
        if let Some(value) = value.as_ref().or_else(|| outer.get(&name)) {
            variables.insert(name, value.clone());
        }
    }
    variables
}

/// Whether this process is root's, on systems with `/proc`. Claude Code then wants to know that it is in a sandbox.
fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// The value of `GIT_CEILING_DIRECTORIES`: if the worktree's `.git` is gone, the repository around it is the wrong one.
fn ceilings(directory: &Path, outer: Option<&OsString>) -> OsString {
    let mut paths: Vec<PathBuf> = directory.parent().map(Path::to_owned).into_iter().collect();
    paths.extend(outer.iter().flat_map(std::env::split_paths).filter(|path| !path.as_os_str().is_empty()));
    std::env::join_paths(paths).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::name::named;

    /// CONTRACT 19.4
    #[test]
    fn nothing_but_what_is_listed() {
        let outer: BTreeMap<OsString, OsString> = [
            "PATH",
            "HOME",
            "LC_ALL",
            "XDG_CONFIG_HOME",
            "TERM",
            "ANTHROPIC_API_KEY",
            "OPENAI_API_KEY",
            "CLAUDECODE",
            "CLAUDE_CODE_SESSION_ID",
            "ANTHROPIC_BASE_URL",
            "AYNIG_BRANCH",
            "AYNIG_RUN_ID",
            "GIT_DIR",
            "GIT_INDEX_FILE",
            "BODY",
            "MY_TOKEN",
        ]
        .map(|name| (name.into(), "x".into()))
        .into();
        let provider = |kind, env: &[(&str, Option<&str>)]| Provider {
            name: named("some").expect("a name"),
            kind,
            command: PathBuf::new(),
            args: Vec::new(),
            model: None,
            env: env.iter().map(|(name, value)| ((*name).to_owned(), value.map(OsString::from))).collect(),
            idle: None,
            wall: None,
        };
        let names = |kind, env| {
            let chosen = chosen(&outer, &provider(kind, env));
            chosen.into_iter().map(|(a, b)| format!("{}={}", a.display(), b.display())).collect::<Vec<_>>()
        };
        let basic = ["HOME=x", "LC_ALL=x", "PATH=x", "TERM=x", "XDG_CONFIG_HOME=x"];
        assert_eq!(names(Kind::Text, &[]), basic);
        let mut keyed = names(Kind::Codex, &[("OPENAI_API_KEY", None), ("ABSENT", None), ("Z", Some("1"))]);
        assert_eq!(keyed.pop().as_deref(), Some("Z=1"));
        assert!(keyed.contains(&"OPENAI_API_KEY=x".to_owned()) && keyed.len() == basic.len() + 1);
        assert!(names(Kind::Claude, &[]).contains(&"DISABLE_AUTOUPDATER=1".to_owned()));
    }

    #[test]
    fn variables_that_cannot_be_configured() {
        for name in ["", "A=B", "AYNIG_BRANCH", "AYNIG_RUN_ID", "GIT_DIR", "GIT_INDEX_FILE"] {
            assert!(refusal(name).is_some(), "{name:?}");
        }
        for name in ["OPENAI_API_KEY", "GIT_SSH_COMMAND", "GIT_AUTHOR_DATE"] {
            assert_eq!(refusal(name), None, "{name}");
        }
    }
}
