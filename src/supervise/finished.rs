//! How a command ended, as a value: the only thing supervision hands on.
//!
//! Invariant: an outcome a command can bring about is never an error of ours. A failing, killed or unstartable
//! command is a variant here, and the contract's outcome table (CONTRACT.md §6) reads it elsewhere.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::stop::Cause;

/// The end of one command.
#[derive(Debug)]
#[must_use]
pub(crate) struct Finished {
    /// How it ended.
    pub(crate) how: How,
    /// From its start until it exited (not until its group was gone); zero if it never started.
    pub(crate) elapsed: Duration,
}

impl Finished {
    /// An end without a beginning.
    pub(crate) fn unstarted(how: How) -> Self {
        Self { how, elapsed: Duration::ZERO }
    }
}

/// How a command ended.
#[derive(Debug)]
pub(crate) enum How {
    /// It exited by itself with this code, 0 to 255.
    Exited(i32),
    /// A signal that we did not send ended it.
    Signalled(i32),
    /// It could not be started.
    NotStarted(NotStarted),
    /// We stopped it. This holds from the moment the stop began, even if the command then exited 0.
    Stopped(StopCause),
    /// It is gone (or beyond even SIGKILL) and the system could not say how it ended: a failure, never a success.
    Lost(String),
}

/// Why a command was stopped; the first reason counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopCause {
    /// The runner was told to stop by this signal. If the command had not been started yet, it was not.
    Signal(i32),
    /// It ran longer than it may; carries the bound, not the time used.
    TimedOut(Duration),
    /// The caller called it off.
    CalledOff,
    /// A thread of the runner panicked.
    Panic,
}

/// A command that could not be started: on what, and as precisely as can be found out why.
#[derive(Debug, thiserror::Error)]
#[error("could not start {}: {why}", program.display())]
pub(crate) struct NotStarted {
    /// What was to be started.
    pub(crate) program: PathBuf,
    /// The reason in words, including what is usually behind it (missing interpreter, missing permission bit).
    pub(crate) why: String,
    /// What the system said.
    #[source]
    pub(crate) source: io::Error,
}

impl From<Cause> for StopCause {
    fn from(cause: Cause) -> Self {
        match cause {
            Cause::Signal(signal) => Self::Signal(signal),
            Cause::CalledOff => Self::CalledOff,
            Cause::Panic => Self::Panic,
        }
    }
}
