//! How a command ended, as a value: the only thing supervision hands on.
//!
//! Invariant: an outcome a command can bring about is never an error of ours. A failing, killed or unstartable
//! command is a variant here, and the contract's outcome table (CONTRACT.md §6) reads it elsewhere.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// The end of one command.
#[derive(Debug)]
#[must_use]
pub struct Finished<R> {
    /// How it ended.
    pub how: How<R>,
    /// Its process id, which was also its group's; `None` if it never started.
    pub pid: Option<u32>,
    /// From its start until it exited (not until its group was gone); zero if it never started.
    pub elapsed: Duration,
    /// Living processes of its group when supervision ended. After exit 0 these are what it left in the background on
    /// purpose; otherwise they are processes that even SIGKILL did not end in time.
    pub survivors: Vec<i32>,
}

impl<R> Finished<R> {
    /// An end without a beginning.
    pub(super) fn unstarted(how: How<R>) -> Self {
        Self { how, pid: None, elapsed: Duration::ZERO, survivors: Vec::new() }
    }
}

/// How a command ended. `R` is the caller's own reason for stopping one.
#[derive(Debug)]
pub enum How<R> {
    /// It exited by itself with this code, 0 to 255.
    Exited(i32),
    /// A signal that we did not send ended it.
    Signalled(i32),
    /// It could not be started.
    NotStarted(NotStarted),
    /// We stopped it. This holds from the moment the stop began, even if the command then exited 0.
    Stopped(StopCause<R>),
    /// It is gone (or beyond even SIGKILL) and the system could not say how it ended: a failure, never a success.
    Lost(String),
}

impl<R> How<R> {
    /// Whether the command ended by itself with exit code 0: the only end that lets a declared state count.
    #[must_use]
    pub fn is_success(&self) -> bool {
        matches!(self, Self::Exited(0))
    }
}

/// Why a command was stopped; the first reason counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopCause<R> {
    /// The runner was told to stop by this signal. If the command had not been started yet, it was not.
    Signal(i32),
    /// It ran longer than it may; carries the bound, not the time used.
    TimedOut(Duration),
    /// The caller's own decision, such as a lost lease.
    Caller(R),
}

/// A command that could not be started: on what, and as precisely as can be found out why.
#[derive(Debug, thiserror::Error)]
#[error("could not start {}: {why}", program.display())]
pub struct NotStarted {
    /// What was to be started.
    pub program: PathBuf,
    /// The reason in words, including what is usually behind it (missing interpreter, missing permission bit).
    pub why: String,
    /// What the system said.
    #[source]
    pub source: io::Error,
}
