//! What is to be run: everything about one command, decided by the caller, and nothing about why.
//!
//! Invariant: a [`Spec`] is complete. Nothing is inherited from the runner but its user, its limits and, if so said, its terminal: the
//! environment is exactly the one given, stdin is empty or a file (programs wait on an open one, and a file waits for
//! nobody), the streams are files the caller opened (CONTRACT.md §3, §10). Which variables, which log files and how long a grace are the
//! caller's to say.

use std::ffi::OsString;
use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

use super::watchdog::Watchdog;

/// One command to run.
#[derive(Debug)]
pub(crate) struct Spec {
    /// The executable, as an absolute path; it is not looked up in `PATH`.
    pub(crate) program: PathBuf,
    /// Its arguments, without the program's own name.
    pub(crate) args: Vec<OsString>,
    /// The working directory; must exist.
    pub(crate) directory: PathBuf,
    /// The complete environment. When a name appears twice the last one counts.
    pub(crate) environment: Vec<(OsString, OsString)>,
    /// What it reads, from where this file stands; none for nothing at all.
    pub(crate) stdin: Option<File>,
    /// Where its stdout goes. Open it for appending if others write to it too.
    pub(crate) stdout: File,
    /// Where its stderr goes.
    pub(crate) stderr: File,
    /// Whether it sees the terminal we are on, to ring its bell, say. What asks a question there would be stopped for ever, as
    /// its group is not the terminal's; without a terminal it fails at once.
    pub(crate) terminal: bool,
    /// How long the group may take after SIGTERM before SIGKILL; zero kills at once (`--grace-seconds`).
    pub(crate) grace: Duration,
    /// How long the command may take, if there is a bound (`--command-timeout`).
    pub(crate) timeout: Option<Duration>,
    /// Who ends the command's whole group if this process is killed; without one only the command itself dies, and
    /// only on Linux.
    pub(crate) watchdog: Option<Watchdog>,
}
