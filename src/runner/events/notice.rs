//! What a run reports, as data. The runner itself prints nothing.

use std::path::PathBuf;
use std::time::Duration;

use bstr::BString;

use crate::contract::ids::{AttemptId, BranchName, CommitId, StateName};
use crate::git::contents::rescue::Saved;
use crate::runner::events::warning::Warning;

/// One thing worth telling.
#[derive(Debug, Clone)]
pub enum Notice {
    /// `--current-branch skip` left a branch alone that would have been run.
    SkippedCurrent {
        /// The branch that is checked out here.
        branch: BranchName,
        /// Its state.
        state: StateName,
    },
    /// Something a person should look at; nothing was lost.
    Warning {
        /// Which branch it is about, if any.
        branch: Option<BranchName>,
        /// What, and what to do.
        warning: Warning,
    },
    /// What a warning was about is over.
    Cleared(Cleared),
    /// Another runner was faster. A normal outcome.
    LostRace {
        /// On which branch.
        branch: BranchName,
        /// Who has it now, and until when, where HEAD tells.
        holder: Option<Holder>,
    },
    /// A command started.
    Started(Started),
    /// A step ended.
    Ended(StepReport),
    /// An expired lease of another runner was closed.
    Recovered {
        /// On which branch.
        branch: BranchName,
        /// The commit that closes it, now the branch's HEAD.
        commit: CommitId,
        /// Whose attempt it was, as its lease says.
        run_id: BString,
        /// The state it was in.
        origin: Option<StateName>,
        /// How it was known to be over, as a sentence.
        why: String,
        /// Where its unfinished work is, if it left any on this host.
        rescued: Option<Saved>,
    },
    /// Work was saved from a worktree nobody uses any more.
    Rescued {
        /// Whose branch.
        branch: BranchName,
        /// Where it is.
        saved: Saved,
    },
}

/// What is well again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cleared {
    /// The repository is there again.
    Repository {
        /// Where.
        path: PathBuf,
    },
    /// The remote answers again.
    Remote,
}

/// Who holds a branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The runner's id.
    pub runner: BString,
    /// When its lease ends, seconds since the epoch.
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
    /// Where its output goes.
    pub stdout: PathBuf,
}

/// What became of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The declared state was written.
    Advanced {
        /// Which.
        state: StateName,
    },
    /// Exit 0 without a valid declaration: a fresh lease was written for whatever the command left running.
    KeptWorking {
        /// Whether it tried to declare one, and could not be understood.
        malformed: bool,
        /// When that lease ends, seconds since the epoch.
        until: i64,
    },
    /// `stalled` was written.
    Stalled {
        /// What happened, one sentence.
        why: String,
    },
    /// The command (or what it started) moved the branch on itself.
    AdvancedByCommand {
        /// To which state.
        state: StateName,
    },
    /// The lease was lost; nothing was written.
    LeaseLost {
        /// To whom or how, one sentence fragment.
        how: String,
    },
    /// The result could not be written; the lease runs out by itself and the work stays where it is.
    Unwritten {
        /// Why not.
        why: String,
        /// Whether it may have landed all the same: a remote did not say.
        open: bool,
    },
}

impl Outcome {
    /// Whether it counts as "a command of this pass ended stalled" (exit code 1).
    pub(crate) fn is_failure(&self) -> bool {
        match self {
            Self::Stalled { .. } | Self::LeaseLost { .. } | Self::Unwritten { .. } => true,
            Self::Advanced { .. } | Self::KeptWorking { .. } | Self::AdvancedByCommand { .. } => false,
        }
    }

    /// The word for it in JSON.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Advanced { .. } => "advanced",
            Self::KeptWorking { .. } => "working",
            Self::Stalled { .. } => "stalled",
            Self::AdvancedByCommand { .. } => "advancedByCommand",
            Self::LeaseLost { .. } => "leaseLost",
            Self::Unwritten { .. } => "unwritten",
        }
    }
}

/// One step, told from its end.
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
    /// What became of it.
    pub outcome: Outcome,
    /// The branch's new HEAD, where we wrote one.
    pub commit: Option<CommitId>,
    /// How the command ended, as a sentence fragment; none if it never got that far.
    pub ending: Option<String>,
    /// Its exit code, if it exited.
    pub exit: Option<i32>,
    /// How long it ran.
    pub elapsed: Duration,
    /// Where unfinished work was saved.
    pub rescued: Option<Saved>,
    /// A worktree that was left in place because its contents could not be saved, or somebody is in it.
    pub left: Option<Left>,
}

/// A directory that was not removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    /// Where it is.
    pub path: PathBuf,
    /// Why it is still there.
    pub why: String,
}
