//! The events of a run, as data. The runner itself prints nothing.

use std::path::PathBuf;
use std::time::Duration;

use bstr::BString;

use crate::contract::ids::{AttemptId, BranchName, CommitId, StateName};
use crate::contract::kept::Kept;
use crate::contract::unable::Unable;
use crate::contract::waits_for::WaitsFor;
use crate::git::contents::rescue::Saved;
use crate::runner::events::warning::Warning;

/// One event.
#[derive(Debug, Clone)]
pub enum Notice {
    /// `--current-branch skip` skipped a branch that was ready.
    SkippedCurrent {
        /// The branch that is checked out here.
        branch: BranchName,
        /// Its state.
        state: StateName,
    },
    /// Something the user should look at. Nothing was lost.
    Warning {
        /// The branch it is about, if any.
        branch: Option<BranchName>,
        /// The commit that it is about, and its branch, if it is to be printed once for that commit where nobody
        /// watches: a branch is refused, and nothing on it has to be mended.
        at: Option<(BranchName, CommitId)>,
        /// The warning.
        warning: Warning,
    },
    /// The cause of an earlier warning is gone.
    Cleared(Cleared),
    /// Another runner claimed the branch first, a normal outcome (CONTRACT 5.9).
    LostRace {
        /// The branch.
        branch: BranchName,
        /// The other runner, if HEAD is its lease.
        holder: Option<Holder>,
    },
    /// A command started.
    Started(Started),
    /// A step ended.
    Ended(StepReport),
    /// A deferred state became HEAD.
    Delivered {
        /// The branch.
        branch: BranchName,
        /// The state.
        state: StateName,
        /// The commit, now the branch's HEAD.
        commit: CommitId,
        /// Its sender.
        author: BString,
        /// Whose answer it waits for.
        waits: Option<Box<WaitsFor>>,
    },
    /// An expired lease of another runner was closed.
    Recovered {
        /// The branch.
        branch: BranchName,
        /// The commit that closes it, now the branch's HEAD.
        commit: CommitId,
        /// The attempt's `dwp-run-id`.
        run_id: BString,
        /// The state whose command ran.
        origin: Option<StateName>,
        /// How its end was determined, as a sentence.
        why: String,
        /// Its unfinished work, if it left any on this host.
        rescued: Option<Saved>,
    },
    /// Work was saved from an abandoned worktree.
    Rescued {
        /// The branch of the attempt.
        branch: BranchName,
        /// The rescue.
        saved: Saved,
    },
}

/// A cause of warnings that is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cleared {
    /// The repository is back.
    Repository {
        /// Its path.
        path: PathBuf,
    },
    /// The remote answers again.
    Remote,
}

/// The holder of a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The runner's id.
    pub runner: BString,
    /// The end of its lease, in seconds since the epoch.
    pub until: i64,
}

/// A command that has been started.
#[derive(Debug, Clone)]
pub struct Started {
    /// The branch.
    pub branch: BranchName,
    /// The state whose command it is.
    pub state: StateName,
    /// The attempt.
    pub attempt: AttemptId,
    /// The log of its standard output.
    pub stdout: PathBuf,
}

/// The outcome of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The declared state was written.
    Advanced {
        /// The declared state.
        state: StateName,
        /// Whose answer it waits for.
        waits: Option<Box<WaitsFor>>,
    },
    /// The command exited with 0 and declared nothing valid. A fresh lease was written for any process it
    /// left running (CONTRACT 6.3).
    KeptWorking {
        /// How it ended.
        kept: Kept,
        /// The end of that lease, in seconds since the epoch.
        until: i64,
    },
    /// `stalled` was written.
    Stalled {
        /// The reason, as a sentence.
        why: String,
    },
    /// The state was asked for again, since the runner was stopped (CONTRACT 6.14).
    Requeued {
        /// The state.
        state: StateName,
        /// The reason, as a sentence.
        why: String,
        /// The hosts that cannot do it, if no host has taken it and a notice is due now (CONTRACT 6.18).
        untaken: Vec<Unable>,
    },
    /// The command, or a process it started, set the next state itself (CONTRACT 6.8).
    AdvancedByCommand {
        /// The new state.
        state: StateName,
        /// The subject of the commit that declares it. `None` if it could not be read.
        subject: Option<String>,
    },
    /// The lease was lost; nothing was written (CONTRACT 6.9).
    LeaseLost {
        /// To which runner or how, as a sentence fragment.
        how: String,
    },
    /// The result could not be written. The lease expires by itself and the work stays in place.
    Unwritten {
        /// Why not.
        why: String,
        /// Whether it may have landed nevertheless, because a remote did not answer.
        open: bool,
    },
}

impl Outcome {
    /// Whether it counts as "a command of this pass ended stalled" (exit code 1).
    pub(crate) fn is_failure(&self) -> bool {
        match self {
            Self::Stalled { .. } | Self::LeaseLost { .. } | Self::Unwritten { .. } => true,
            Self::Advanced { .. }
            | Self::KeptWorking { .. }
            | Self::Requeued { .. }
            | Self::AdvancedByCommand { .. } => false,
        }
    }

    /// The word for it in JSON.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Advanced { .. } => "advanced",
            Self::KeptWorking { .. } => "working",
            Self::Stalled { .. } => "stalled",
            Self::Requeued { .. } => "requeued",
            Self::AdvancedByCommand { .. } => "advancedByCommand",
            Self::LeaseLost { .. } => "leaseLost",
            Self::Unwritten { .. } => "unwritten",
        }
    }
}

/// The report of a finished step.
#[derive(Debug, Clone)]
pub struct StepReport {
    /// The branch.
    pub branch: BranchName,
    /// The trigger.
    pub trigger: CommitId,
    /// The state it declared.
    pub state: StateName,
    /// The attempt.
    pub attempt: AttemptId,
    /// Its outcome.
    pub outcome: Outcome,
    /// The branch's new HEAD, if the runner wrote one.
    pub commit: Option<CommitId>,
    /// How the command ended, as a sentence fragment. `None` if a bug ended the step before its settlement.
    pub ending: Option<String>,
    /// The command's exit code, if it exited.
    pub exit: Option<i32>,
    /// The running time of the command.
    pub elapsed: Duration,
    /// The rescue of its unfinished work.
    pub rescued: Option<Saved>,
    /// The worktree, if it was left in place: its contents could not be saved, or a process works in it.
    pub left: Option<Left>,
}

/// A directory that was not removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    /// Its path.
    pub path: PathBuf,
    /// Why it was not removed.
    pub why: String,
}
