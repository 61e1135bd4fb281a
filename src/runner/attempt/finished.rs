//! A step whose command is over, as it is passed to settlement.
//!
//! Invariant: it holds the claim by value, so only a claimed branch can be settled, and only once.

use std::path::Path;
use std::time::Duration;

use crate::contract::declaration::Declared;
use crate::contract::ids::CommitId;
use crate::contract::protocol::MalformedLine;
use crate::contract::settlement::{Ending, StopReason};
use crate::git::worktrees::held::Worktree;
use crate::git::{Checkout, Workplace};
use crate::supervise::{Finished as Ended, How, StopCause};

use crate::runner::attempt::claim::Claim;
use crate::runner::attempt::files::Files;

/// The place where a command ran.
#[derive(Debug)]
pub(crate) enum Site {
    Worktree(Worktree),
    /// The user's checkout.
    InPlace(Checkout),
    /// The worktree could not be made.
    None,
}

impl Site {
    /// The worktree or checkout, if there is one.
    pub(crate) fn place(&self) -> Option<&Workplace> {
        match self {
            Self::Worktree(worktree) => Some(worktree),
            Self::InPlace(checkout) => Some(checkout),
            Self::None => None,
        }
    }

    /// Its directory.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Self::Worktree(worktree) => Some(&worktree.path),
            Self::InPlace(checkout) => Some(&checkout.path),
            Self::None => None,
        }
    }

    /// Its own git directory, not the shared one.
    pub(crate) fn git_dir(&self) -> Option<&Path> {
        match self {
            Self::Worktree(worktree) => Some(&worktree.git_dir),
            Self::InPlace(checkout) => Some(&checkout.git_dir),
            Self::None => None,
        }
    }
}

/// A step whose command is over.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) claim: Claim,
    pub(crate) site: Site,
    pub(crate) ending: Ending,
    /// The last valid declaration in the command's output (CONTRACT 4.4).
    pub(crate) declared: Option<Declared>,
    /// The last of its invalid declarations (CONTRACT 4.10).
    pub(crate) invalid: Option<MalformedLine>,
    /// The command's files, if they were made.
    pub(crate) files: Option<Files>,
    /// The last HEAD that was ours (CONTRACT 5.10).
    pub(crate) held: CommitId,
    /// The running time of the command.
    pub(crate) elapsed: Duration,
    /// The remaining time of the lease at the end of the command.
    pub(crate) lease_left: Duration,
}

/// The least time that a signature gets, however little of the lease is left.
const SIGNING: Duration = Duration::from_secs(10);

impl Finished {
    /// The time limit for signing the result: half of the remaining lease, since there may be another
    /// signature to make.
    pub(crate) fn signing_time(&self) -> Duration {
        (self.lease_left / 2).max(SIGNING)
    }

    /// Describes how the lease was lost while it is still the branch's HEAD.
    pub(crate) fn unrenewed(&self) -> String {
        let how = "it could not be renewed before it ended";
        match &self.ending {
            Ending::Stopped { why: StopReason::LeaseUnrenewable { why } } => format!("{how}: {why}"),
            _ => how.to_owned(),
        }
    }
}

/// Converts the end of a process into the end of an attempt. `given_up` is the reason if the keeper called it
/// off.
pub(crate) fn ending(finished: Ended, given_up: Option<StopReason>) -> Ending {
    match finished.how {
        How::Exited(code) => Ending::Exited(code),
        How::Signalled(signal) => Ending::Signalled(signal),
        How::NotStarted(error) => Ending::NotStarted(error.why),
        How::Lost(why) => Ending::NotStarted(format!("its end could not be learned: {why}")),
        // A stop of the runner is no answer to a request.
        How::Stopped(StopCause::Signal(_)) if matches!(given_up, Some(StopReason::Cancelled(_))) => {
            Ending::Stopped { why: given_up.unwrap_or(StopReason::LeaseLost) }
        }
        How::Stopped(StopCause::Signal(signal)) => {
            Ending::Stopped { why: StopReason::Interrupted { signal, clean: finished.clean } }
        }
        How::Stopped(StopCause::TimedOut(limit)) => {
            Ending::Stopped { why: StopReason::TimedOut { seconds: limit.as_secs() } }
        }
        How::Stopped(StopCause::Panic) => Ending::Stopped { why: StopReason::RunnerFailed },
        How::Stopped(StopCause::CalledOff) => {
            let unknown = || StopReason::LeaseUnrenewable { why: "its keeper did not say why".to_owned() };
            Ending::Stopped { why: given_up.unwrap_or_else(unknown) }
        }
    }
}
