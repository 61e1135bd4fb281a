//! The types of a survey: what is asked, what a branch can be, and why it is not run.
//!
//! Invariant: a verdict holds facts, and no more of a commit than its state unless the branch is ready or leased, so that tens of
//! thousands of them are small. Their words are in [`super::words`].

use std::path::PathBuf;
use std::sync::Arc;

use bstr::BString;

use crate::contract::head::Event;
use crate::contract::ids::{AttemptId, BranchName, CommitId, StateName};
use crate::contract::lease::Lease;
use crate::contract::sighting::Watched;
use crate::git::Repo;
use crate::git::objects::tree::Unusable;

use super::super::options::Options;
use crate::runner::authority::Authority;

/// What is to be surveyed, and how.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// The repository.
    pub repo: &'a Repo,
    /// Whose branches.
    pub authority: &'a Authority,
    /// Which of them are run, and how leases are judged.
    pub options: &'a Options,
    /// Seconds since the epoch.
    pub now: i64,
    /// Whether leases seen for the first time are noted. `status` only reads the notes.
    pub notes: bool,
}

/// One branch as surveyed.
#[derive(Debug, Clone)]
pub struct Branch {
    /// Its name.
    pub name: BranchName,
    /// Its HEAD; none for a symbolic ref.
    pub head: Option<CommitId>,
    /// What it is.
    pub verdict: Verdict,
}

/// What one branch is.
#[derive(Debug, Clone)]
pub enum Verdict {
    /// HEAD declares no state.
    Unmanaged,
    /// HEAD declares something that is no state, or cannot be read.
    Invalid(Invalid),
    /// HEAD is a lease.
    Leased(Leased),
    /// HEAD is a lease that is over, and is not closed: our commit would vouch for files that nobody has signed.
    UnsignedLease {
        /// The lease.
        leased: Leased,
        /// What is wrong with the signature.
        why: String,
    },
    /// A state whose time has not come.
    Parked {
        /// The state.
        state: StateName,
        /// The second it may be run, since the epoch.
        until: i64,
        /// Why it would not be run even then, as far as that is known now.
        trouble: Option<Reason>,
    },
    /// A state that is not run.
    Waiting {
        /// The state.
        state: StateName,
        /// Why not here and now.
        reason: Reason,
    },
    /// A state that can be claimed.
    Ready {
        /// What HEAD requests.
        event: Arc<Event>,
        /// The command that does it.
        command: Arc<Command>,
        /// Where.
        run_in: RunIn,
    },
    /// A state that could be claimed, on the current branch, which `--current-branch skip` leaves alone.
    SkippedCurrent {
        /// The state.
        state: StateName,
    },
    /// Not selected, or not a branch to run.
    Excluded(Exclusion),
}

/// A branch under a lease.
#[derive(Debug, Clone)]
pub struct Leased {
    /// The lease.
    pub lease: Arc<Lease>,
    /// Whether it has expired, by its date or, with `--takeover observed`, by what this host has seen.
    pub over: bool,
    /// For how long passes on this host have seen it, if they note that.
    pub seen: Option<Watched>,
}

/// Why HEAD is not usable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Invalid {
    /// `dwp-state` is no state's name, or the message cannot be read.
    Declared {
        /// What is wrong.
        why: String,
    },
    /// The commit cannot be read.
    Unreadable(Unreadable),
}

/// An object that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// The commit it is needed for.
    pub(crate) commit: CommitId,
    /// What was found.
    pub(crate) error: String,
}

/// Why a branch does not belong to a pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exclusion {
    /// It is a symbolic ref; the branch it names is surveyed.
    SymbolicRef {
        /// The full name of that one.
        target: BString,
    },
    /// `--branch` does not match it.
    NotSelected,
    /// It is not the current branch, and `--current-branch only` is given.
    NotCurrent,
    /// It is the current branch, and there is nothing to run, or nothing that may be run unasked.
    Current,
}

/// Why a state is not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// `aynig.branch` does not match the branch.
    ForeignBranch,
    /// `--states` does not match the state.
    ForeignState {
        /// The state.
        state: StateName,
    },
    /// `dwp-not-before` is no time.
    NoTime {
        /// What is wrong with it.
        why: String,
    },
    /// `--commands-from` names nothing that can be read.
    CommandsNowhere {
        /// The error.
        why: Arc<str>,
    },
    /// There is no usable command.
    NoCommand(NoCommand),
    /// Another worktree uses the branch.
    InUse(Arc<InUse>),
    /// The checkout is not at the commit that the remote has.
    CheckoutBehind {
        /// The branch that is checked out.
        local: BranchName,
    },
    /// Something locks the index of the checkout.
    IndexLocked {
        /// The lock.
        lock: PathBuf,
    },
    /// The index of the checkout differs from HEAD.
    StagedChanges,
    /// The index of the checkout cannot be compared with HEAD.
    IndexUnreadable {
        /// The index.
        index: PathBuf,
        /// Why not.
        error: String,
    },
    /// HEAD has no good signature, and `aynig.requireSigned` is set.
    Unsigned {
        /// What is wrong.
        why: String,
    },
}

/// How a branch is in use elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InUse {
    /// It is checked out there.
    CheckedOut {
        /// The worktree.
        path: PathBuf,
    },
    /// A rebase or a bisect will come back to it.
    InProgress {
        /// The worktree.
        path: PathBuf,
    },
    /// A command of ours is still at work.
    Attempt {
        /// Which.
        attempt: AttemptId,
        /// Its worktree.
        path: PathBuf,
    },
}

/// What can be done about a reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Nothing: the state has no command, as the end of a workflow has none.
    Terminal,
    /// Something is in the way here and now.
    Blocked,
    /// Somebody meant it to run: worth a warning.
    Misconfigured,
}

/// Where a command runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunIn {
    /// In a worktree of its own.
    Worktree,
    /// In the checkout that the runner was started in.
    Checkout,
}

/// The command for a state, relative to the top of the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// `.aynig/command/<state>` or `.aynig/roles/<role>/command/<state>`.
    pub path: String,
    /// The tree of the `.aynig` it is in, where that is not the branch's own.
    pub(crate) tree: Option<CommitId>,
}

/// Where the commands of all branches come from (`--commands-from`), as of one survey.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandsFrom {
    /// As it was given.
    pub(crate) name: String,
    /// The commit it means now.
    pub commit: CommitId,
    /// The tree of its `.aynig`, if it has that directory.
    pub tree: Option<CommitId>,
}

/// Why there is no command for a state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoCommand {
    /// Nothing is there.
    Missing {
        /// The paths that were tried, in order.
        tried: Arc<[String]>,
        /// Where.
        source: Source,
    },
    /// HEAD does not have it, but a checkout on disk does.
    Elsewhere {
        /// HEAD.
        commit: CommitId,
        /// What the checkout has.
        found: Arc<Elsewhere>,
    },
    /// Something is there that cannot be run.
    Unusable {
        /// Its path.
        path: String,
        /// Where.
        source: Source,
        /// What it is.
        what: Unusable,
    },
    /// The tree cannot be read.
    Unreadable(Unreadable),
}

/// Where a command is looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// In the branch's own HEAD.
    Head(CommitId),
    /// In the one tree that all commands come from.
    Trusted(Arc<CommandsFrom>),
    /// On disk, for a command that runs in the checkout.
    Disk,
}

/// A command that is not in the tree it was looked for in, but in a checkout on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Elsewhere {
    /// Its path, from the top.
    pub(crate) path: String,
    /// The checkout.
    pub(crate) checkout: PathBuf,
    /// Whether it is committed there.
    pub(crate) committed: bool,
}

impl Branch {
    /// Its lease, if it is under one.
    pub(crate) fn leased_mut(&mut self) -> Option<&mut Leased> {
        match &mut self.verdict {
            Verdict::Leased(leased) => Some(leased),
            _ => None,
        }
    }
}

impl Verdict {
    /// The word for it in JSON.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Unmanaged => "unmanaged",
            Self::Invalid(_) => "invalid",
            Self::Leased(Leased { over: false, .. }) => "working",
            Self::Leased(Leased { over: true, .. }) | Self::UnsignedLease { .. } => "expired",
            Self::Parked { .. } => "parked",
            Self::Waiting { .. } => "waiting",
            Self::Ready { .. } => "ready",
            Self::SkippedCurrent { .. } | Self::Excluded(_) => "excluded",
        }
    }
}

impl Reason {
    /// What can be done about it.
    pub fn severity(&self) -> Severity {
        match self {
            Self::NoCommand(none) => none.severity(),
            Self::ForeignBranch | Self::ForeignState { .. } | Self::InUse(_) => Severity::Blocked,
            Self::NoTime { .. }
            | Self::CommandsNowhere { .. }
            | Self::CheckoutBehind { .. }
            | Self::IndexLocked { .. }
            | Self::StagedChanges
            | Self::IndexUnreadable { .. }
            | Self::Unsigned { .. } => Severity::Misconfigured,
        }
    }
}

impl NoCommand {
    /// What can be done about it.
    pub fn severity(&self) -> Severity {
        match self {
            Self::Missing { .. } => Severity::Terminal,
            Self::Elsewhere { found, .. } if found.committed => Severity::Blocked,
            Self::Elsewhere { .. } | Self::Unusable { .. } | Self::Unreadable(_) => Severity::Misconfigured,
        }
    }
}
