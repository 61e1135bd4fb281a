//! Where the program of a provider is on this host.

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use uuid::Uuid;

use super::environment::chosen;
use super::name::Kind;
use super::turn::Provider;
use crate::fsutil::{found_in, is_executable, tail_of};
use crate::stop::Stop;
use crate::supervise::{self, Leash, Spec};

/// The time limit of `--version`.
const VERSION_TIME: Duration = Duration::from_secs(10);

/// Finds the program. The error is a reason for people.
pub fn find(provider: &Provider) -> Result<PathBuf, String> {
    let command = &provider.command;
    if command.components().count() > 1 || command.is_absolute() {
        return match std::path::absolute(command) {
            Ok(path) if is_executable(&path) => Ok(path),
            _ => Err(format!("{} is not an executable file", command.display())),
        };
    }
    let outer = std::env::vars_os().collect();
    let variables = chosen(&outer, provider);
    let path = variables.get(OsStr::new("PATH")).cloned().unwrap_or_default();
    let found = found_in(&command.to_string_lossy(), &path).and_then(|path| std::path::absolute(path).ok());
    found.ok_or_else(|| format!("the program {} is not in PATH", command.display()))
}

/// The leash on all processes of a program. Its value is that of the turn, if that is an id.
#[must_use]
pub fn leash(turn: &str) -> Leash {
    Leash::new("AYNIG_ORCH_TURN", Uuid::parse_str(turn).unwrap_or_else(|_| Uuid::new_v4()))
}

/// Runs a program with `--version`. A custom program is left out: it would take that for a turn.
pub fn version(provider: &Provider, program: &Path, stop: &Stop) -> Option<String> {
    if matches!(provider.kind, Kind::Text | Kind::Jsonl) {
        return None;
    }
    let answer = tempfile::tempfile().ok()?;
    let null = || File::options().write(true).open("/dev/null").ok();
    let outer = std::env::vars_os().collect();
    let spec = Spec {
        program: program.to_owned(),
        args: vec!["--version".into()],
        directory: std::env::temp_dir(),
        environment: chosen(&outer, provider).into_iter().collect(),
        stdin: None,
        stdout: answer.try_clone().ok()?,
        stderr: null()?,
        terminal: false,
        grace: Duration::from_secs(1),
        timeout: Some(VERSION_TIME),
        leash: Some(leash("")),
        watchdog: None,
    };
    let finished = supervise::run(spec, stop, || {});
    if !finished.clean {
        return None;
    }
    let text = tail_of(&answer, 4_096).ok()?;
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().find(|line| !line.trim().is_empty())?.trim().to_owned();
    Some(line.chars().take(80).collect())
}
