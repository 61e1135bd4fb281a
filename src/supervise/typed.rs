//! Runs a command line as if somebody had typed it into this terminal.

use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};

use super::pager::program;

/// Runs `line` with `sh` in `directory`, and waits until it has ended. It has the streams of this process but for stdin, its
/// environment without variables that begin with `AYNIG_`, and `variables`. `named` is a word and the program that it starts.
///
/// # Errors
/// The error from starting the shell.
pub fn typed(
    line: &str,
    named: (&str, &Path),
    directory: &Path,
    variables: &[(&str, &str)],
) -> io::Result<ExitStatus> {
    let (word, path) = named;
    let mut shell = program("sh");
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("AYNIG_")) {
            shell.env_remove(name);
        }
    }
    shell.arg("-c").arg(format!("{word}() {{ \"$0\" \"$@\"; }}\n{line}")).arg(path);
    shell.envs(variables.iter().copied()).current_dir(directory).stdin(Stdio::null()).status()
}
