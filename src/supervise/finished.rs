//! How a command ended, as a value: the only result of supervision.
//!
//! Invariant: anything a command can do is a variant here, never an error. That covers a command
//! that fails, is killed or cannot be started. CONTRACT 6.4 has the outcome of each.

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
    /// Whether the command exited with 0, even if it was stopped.
    pub(crate) clean: bool,
    /// Time from the start until the command exited (not until its group was gone); zero if it
    /// never started.
    pub(crate) elapsed: Duration,
    /// Processes that a leashed command left running when it exited, and that had to be ended.
    pub(crate) ended: Vec<Leftover>,
    /// Processes of a leashed command that not even SIGKILL ended in time: they may still change files.
    pub(crate) stuck: Vec<Leftover>,
}

/// A process that lived on after its leashed command had exited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Leftover {
    /// Its process id.
    pub(crate) pid: i32,
    /// The name of its program, for messages.
    pub(crate) name: String,
}

impl Finished {
    /// The end of a command that was never started.
    pub(crate) fn unstarted(how: How) -> Self {
        Self { how, clean: false, elapsed: Duration::ZERO, ended: Vec::new(), stuck: Vec::new() }
    }
}

/// How a command ended.
#[derive(Debug)]
pub(crate) enum How {
    /// It exited by itself with this code, 0 to 255.
    Exited(i32),
    /// It was killed by a signal that we did not send.
    Signalled(i32),
    /// It could not be started.
    NotStarted(NotStarted),
    /// We stopped it. This holds from the moment the stop began, even if the command then exited 0.
    Stopped(StopCause),
    /// It is gone, or not even SIGKILL ends it, and its exit status is unknown. Counts as a
    /// failure.
    Lost(String),
}

/// Why a command was stopped; the first reason counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopCause {
    /// The runner received this signal. If the command had not been started yet, it never was.
    Signal(i32),
    /// It exceeded its time limit; contains the limit, not the time used.
    TimedOut(Duration),
    /// The caller cancelled it.
    CalledOff,
    /// A thread of the runner panicked.
    Panic,
}

/// A command that could not be started, with the most precise reason available.
#[derive(Debug, thiserror::Error)]
#[error("could not start {}: {why}", program.display())]
pub(crate) struct NotStarted {
    /// The program that was to be started.
    pub(crate) program: PathBuf,
    /// The reason in words, including the usual cause (missing interpreter, missing permission
    /// bit).
    pub(crate) why: String,
    /// The error of the system call.
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
