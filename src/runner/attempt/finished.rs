//! A step whose command is over: what supervision hands to settlement.
//!
//! Invariant: it holds the claim by value, so what was not claimed cannot be settled, and nothing is settled twice
//! (CONTRACT.md §6). What becomes of it is decided in `settle`.

use std::path::Path;
use std::time::Duration;

use crate::contract::declaration::Declaration;
use crate::contract::ids::CommitId;
use crate::contract::settlement::{Ending, StopReason};
use crate::git::worktrees::held::Worktree;
use crate::git::{Checkout, Workplace};
use crate::supervise::{How, StopCause};

use crate::runner::attempt::claim::Claim;
use crate::runner::attempt::files::Files;

/// Where a command ran.
#[derive(Debug)]
pub(crate) enum Site {
    /// In its own worktree.
    Worktree(Worktree),
    /// In a person's checkout.
    InPlace(Checkout),
    /// Nowhere: there was no place for it.
    None,
}

impl Site {
    /// Where that is, if there is a place.
    pub(crate) fn place(&self) -> Option<&Workplace> {
        match self {
            Self::Worktree(worktree) => Some(worktree),
            Self::InPlace(checkout) => Some(checkout),
            Self::None => None,
        }
    }

    /// The directory, if there is one.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Self::Worktree(worktree) => Some(&worktree.path),
            Self::InPlace(checkout) => Some(&checkout.path),
            Self::None => None,
        }
    }

    /// The git directory of that checkout, its own and not the shared one.
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
    /// The claim.
    pub(crate) claim: Claim,
    /// Where it ran.
    pub(crate) site: Site,
    /// How it ended.
    pub(crate) ending: Ending,
    /// The last valid declaration in its output.
    pub(crate) declaration: Option<Declaration>,
    /// Whether there were declarations that are not valid.
    pub(crate) malformed: bool,
    /// Its logs, if it got that far.
    pub(crate) files: Option<Files>,
    /// The last HEAD that was seen to be ours.
    pub(crate) held: CommitId,
    /// How long it ran.
    pub(crate) elapsed: Duration,
    /// What was left of the lease when it ended.
    pub(crate) lease_left: Duration,
}

/// What a signature may take however little of the lease is left.
const SIGNING: Duration = Duration::from_secs(10);

impl Finished {
    /// How long the signature of the result may take: half of what was left of the lease, as there may be another to make.
    pub(crate) fn signing_time(&self) -> Duration {
        (self.lease_left / 2).max(SIGNING)
    }

    /// How the lease was lost where it is still the branch's HEAD.
    pub(crate) fn unrenewed(&self) -> String {
        let how = "it could not be renewed before it ended";
        match &self.ending {
            Ending::Stopped { why: StopReason::LeaseUnrenewable { why } } => format!("{how}: {why}"),
            _ => how.to_owned(),
        }
    }
}

/// What the end of a process means as the end of an attempt; `given_up` says why the lease's keeper called it off, if it did.
pub(crate) fn ending(how: How, given_up: Option<StopReason>) -> Ending {
    match how {
        How::Exited(code) => Ending::Exited(code),
        How::Signalled(signal) => Ending::Signalled(signal),
        How::NotStarted(error) => Ending::NotStarted(error.why),
        How::Lost(why) => Ending::NotStarted(format!("its end could not be learned: {why}")),
        How::Stopped(StopCause::Signal(signal)) => {
            Ending::Stopped { why: StopReason::Interrupted { signal } }
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
