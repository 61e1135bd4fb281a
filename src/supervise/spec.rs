//! The specification of one command to run, filled in by the caller.
//!
//! Invariant: a [`Spec`] is complete. The command inherits only the runner's user, its resource
//! limits and, if requested, its terminal. Its environment is exactly the one given, its streams
//! are files the caller opened. Stdin is a file or empty, since a program could wait forever on an
//! open one (CONTRACT 3.6).

use std::ffi::OsString;
use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

use super::leash::Leash;
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
    /// The complete environment. If a name appears twice the last value counts.
    pub(crate) environment: Vec<(OsString, OsString)>,
    /// Its stdin, read from the file's current position; `None` for an empty stdin.
    pub(crate) stdin: Option<File>,
    /// Its stdout. Open it for appending if others write to it too.
    pub(crate) stdout: File,
    /// Its stderr.
    pub(crate) stderr: File,
    /// Whether it keeps the runner's controlling terminal, for instance to ring the bell. It runs
    /// in a background group there, so a read from the terminal stops it (SIGTTIN) until it is
    /// killed. Without a terminal a prompt fails at once.
    pub(crate) terminal: bool,
    /// Time between SIGTERM and SIGKILL to the group; zero kills at once (`--grace-seconds`).
    pub(crate) grace: Duration,
    /// The time limit of the command, if any (`--command-timeout`).
    pub(crate) timeout: Option<Duration>,
    /// Ends everything that the command started, whatever its end; `None` leaves what it started
    /// alone after exit 0, and sessions of their own always.
    pub(crate) leash: Option<Leash>,
    /// Stops the command's group (everything that the command started if it is leashed) if this process is killed. Without a watchdog only the command
    /// itself dies, and only on Linux.
    pub(crate) watchdog: Option<Watchdog>,
}
