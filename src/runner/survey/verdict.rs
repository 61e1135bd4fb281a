//! The types of a survey: its question, the verdicts, and the reasons for not running a branch.
//!
//! Invariant: a verdict has facts, no sentences. Unless the branch is ready or leased it has no more of a
//! commit than its state, so tens of thousands of verdicts stay small.

use std::path::PathBuf;
use std::sync::Arc;

use bstr::BString;

use crate::contract::bounds::Bound;
use crate::contract::head::Event;
use crate::contract::ids::{AttemptId, BranchName, CommitId, RemoteName, StateName};
use crate::contract::lease::Lease;
use crate::contract::sighting::Watched;
use crate::git::Repo;
use crate::git::objects::tree::Unusable;

use super::super::options::Options;
use crate::runner::authority::Authority;

/// The input of a survey.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// The repository.
    pub repo: &'a Repo,
    /// The authority whose branches are surveyed.
    pub authority: &'a Authority,
    /// The selection of branches, and the rule for expired leases.
    pub options: &'a Options,
    /// The current time, in seconds since the epoch.
    pub now: i64,
    /// Whether first sightings of leases are stored. `status` only reads them.
    pub notes: bool,
}

/// One surveyed branch.
#[derive(Debug, Clone)]
pub struct Branch {
    /// Its name.
    pub name: BranchName,
    /// Its HEAD. `None` for a symbolic ref.
    pub head: Option<CommitId>,
    /// Its verdict.
    pub verdict: Verdict,
    /// Why it is not moved though it rests: a checkout has it, or it is the default branch and was not named.
    pub(crate) taken: Option<Box<Reason>>,
}

/// The status of one branch.
#[derive(Debug, Clone)]
pub enum Verdict {
    /// HEAD declares no state.
    Unmanaged,
    /// HEAD declares an invalid state, or cannot be read.
    Invalid(Invalid),
    /// HEAD is a lease.
    Leased(Leased),
    /// HEAD is an expired lease without a good signature. It is not closed, since our signed commit would
    /// vouch for its files (CONTRACT 13.4).
    UnsignedLease {
        /// The lease.
        leased: Leased,
        /// The problem with the signature.
        why: String,
    },
    /// HEAD is parked (CONTRACT 11.10).
    Parked {
        /// The state.
        state: StateName,
        /// The end of the parking, in seconds since the epoch.
        until: i64,
        /// Why it would not run even then, as far as known.
        trouble: Option<Reason>,
    },
    /// The branch would be run, but has reached a bound (CONTRACT 11.16 to 11.19).
    Bounded {
        /// The state.
        state: StateName,
        /// The bound.
        bound: Box<Bound>,
    },
    /// HEAD waits for somebody's answer (CONTRACT 11.21).
    WaitsForYou {
        /// The state.
        state: StateName,
        /// When it is run without an answer, in seconds since the epoch.
        until: Option<i64>,
        /// The fault of the question, or why its state would not run at that time.
        trouble: Option<Reason>,
    },
    /// The state is not run here and now.
    Waiting {
        /// The state.
        state: StateName,
        /// Why not.
        reason: Reason,
    },
    /// The branch can be claimed.
    Ready {
        /// The state that HEAD requests.
        event: Arc<Event>,
        /// Its command.
        command: Arc<Command>,
        /// Where the command runs.
        run_in: RunIn,
    },
    /// The current branch is ready, but `--current-branch skip` excludes it.
    SkippedCurrent {
        /// The state.
        state: StateName,
    },
    /// The branch is not selected, or is a symbolic ref.
    Excluded(Exclusion),
}

/// A branch under a lease.
#[derive(Debug, Clone)]
pub struct Leased {
    /// The lease.
    pub lease: Arc<Lease>,
    /// Whether it has expired: by its date or, with `--takeover observed`, by this host's sightings.
    pub over: bool,
    /// How long this host has seen it, if sightings are stored.
    pub seen: Option<Watched>,
}

/// Why HEAD is invalid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Invalid {
    /// `dwp-state` is not a valid state, or the message is invalid (CONTRACT 1.9, 1.11).
    Declared {
        /// The fault.
        why: String,
    },
    /// The commit cannot be read.
    Unreadable(Unreadable),
}

/// An object that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// The commit that needs it.
    pub(crate) commit: CommitId,
    pub(crate) error: String,
}

/// Why a branch is not part of a pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exclusion {
    /// It is a symbolic ref. The branch it leads to is surveyed instead.
    SymbolicRef {
        /// The full name of the ref that it names.
        target: BString,
        /// The branch at the end. `None`: there is none, or it has no commit.
        branch: Option<BranchName>,
    },
    /// Its name begins with `aynig.workPrefix`, where nothing is ever run (CONTRACT 11.15).
    BelowWorkPrefix {
        /// The prefix.
        prefix: String,
        /// Whether it has the name of a work branch of a run.
        of_run: bool,
    },
    /// `--branch` does not match it.
    NotSelected,
    /// It is not the current branch, and `--current-branch only` is given.
    NotCurrent,
    /// It is the current branch, which `--current-branch skip` excludes, and is not known to be ready.
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
    /// It is the default branch, and the user did not name it (CONTRACT 11.13).
    DefaultBranch {
        /// The branch.
        branch: BranchName,
        /// Its remote. `None` for this repository's.
        remote: Option<RemoteName>,
        /// Whether it is checked out here.
        here: bool,
        /// Another checkout that has it.
        elsewhere: Option<PathBuf>,
    },
    /// The state is left to another runner for a while (CONTRACT 11.14).
    Preferred {
        /// That runner.
        runner: String,
        /// When any runner may run it, in seconds since the epoch.
        until: i64,
    },
    /// It drives a run that a remote decides, and no remote decides here (CONTRACT 20.44).
    DecidedElsewhere,
    /// It was cancelled, so the command for `stalled` is not run (CONTRACT 5.36).
    Cancelled,
    /// `dwp-not-before` is not a valid time.
    NoTime {
        /// The fault.
        why: String,
    },
    /// `dwp-answers` is not a list of states.
    NoAnswers {
        /// The fault.
        why: String,
    },
    /// The ref of `--commands-from` cannot be used.
    CommandsNowhere {
        /// The error.
        why: Arc<str>,
    },
    /// There is no usable command.
    NoCommand(NoCommand),
    /// Another worktree uses the branch.
    InUse(Arc<InUse>),
    /// The checkout is not at the remote's commit.
    CheckoutBehind {
        /// The checked-out branch.
        local: BranchName,
    },
    /// The checkout has an `index.lock`.
    IndexLocked {
        /// The lock file.
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
        /// The fault.
        why: String,
    },
}

/// How another worktree uses a branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InUse {
    /// It is checked out there.
    CheckedOut {
        /// The worktree.
        path: PathBuf,
    },
    /// It is checked out in a worktree whose directory is gone, or on a disk that is away.
    Gone {
        /// The place of the worktree.
        path: PathBuf,
    },
    /// It is checked out in a worktree that was kept after an attempt (CONTRACT 9.7).
    Kept {
        /// The worktree.
        path: PathBuf,
    },
    /// A rebase or a bisect of it is in progress there.
    InProgress {
        /// The worktree.
        path: PathBuf,
    },
    /// An attempt of a live runner on this host works there.
    Attempt {
        /// The attempt.
        attempt: AttemptId,
        /// Its worktree.
        path: PathBuf,
    },
}

/// The severity of a reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// The state has no command, as at the end of a workflow. Nothing needs to be done.
    Terminal,
    /// It cannot run here and now.
    Blocked,
    /// It was probably meant to run, so a warning is due.
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

/// The command for a state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// Its path from the top of the tree: `.aynig/command/<state>` or `.aynig/roles/<role>/command/<state>`.
    pub path: String,
    /// The tree of its `.aynig`, if that is not the branch's own.
    pub(crate) tree: Option<CommitId>,
}

/// The source of the commands of all branches (`--commands-from`), as of one survey.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandsFrom {
    /// The ref as given.
    pub(crate) name: String,
    /// Its commit.
    pub commit: CommitId,
    /// The tree of its `.aynig`, if it has that directory.
    pub tree: Option<CommitId>,
}

/// Why there is no command for a state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoCommand {
    /// None of the paths exists.
    Missing {
        /// The paths, in the order they were tried.
        tried: Arc<[String]>,
        /// The tree that was searched.
        source: Source,
    },
    /// HEAD does not have it, but a checkout on disk does.
    Elsewhere {
        /// HEAD.
        commit: CommitId,
        /// The command in the checkout.
        found: Arc<Elsewhere>,
    },
    /// The path exists but is not a command.
    Unusable {
        /// The path.
        path: String,
        /// The tree that was searched.
        source: Source,
        /// The kind of fault.
        what: Unusable,
    },
    /// The tree cannot be read.
    Unreadable(Unreadable),
}

/// The tree in which a command is looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The branch's own HEAD.
    Head(CommitId),
    /// The tree of `--commands-from`.
    Trusted(Arc<CommandsFrom>),
    /// The files on disk, for a command that runs in the checkout.
    Disk,
}

/// A command that is missing in HEAD but exists in a checkout on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Elsewhere {
    /// Its path from the top.
    pub(crate) path: String,
    pub(crate) checkout: PathBuf,
    /// Whether it is committed there.
    pub(crate) committed: bool,
}

impl Branch {
    /// Its lease, if HEAD is one.
    pub(crate) fn leased_mut(&mut self) -> Option<&mut Leased> {
        match &mut self.verdict {
            Verdict::Leased(leased) => Some(leased),
            _ => None,
        }
    }
}

impl Verdict {
    /// The word in JSON.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Unmanaged => "unmanaged",
            Self::Invalid(_) => "invalid",
            Self::Leased(Leased { over: false, .. }) => "working",
            Self::Leased(Leased { over: true, .. }) | Self::UnsignedLease { .. } => "expired",
            Self::Parked { .. } | Self::Bounded { .. } => "parked",
            Self::WaitsForYou { .. } => "waits-for-you",
            Self::Waiting { .. } => "waiting",
            Self::Ready { .. } => "ready",
            Self::SkippedCurrent { .. } | Self::Excluded(_) => "excluded",
        }
    }
}

impl Exclusion {
    /// The word in JSON. It never changes its meaning.
    pub fn word(&self) -> &'static str {
        match self {
            Self::SymbolicRef { .. } => "symbolicRef",
            Self::BelowWorkPrefix { .. } => "belowWorkPrefix",
            Self::NotSelected => "notSelected",
            Self::NotCurrent => "notCurrent",
            Self::Current => "current",
        }
    }
}

impl Reason {
    /// The word in JSON. It never changes its meaning.
    pub fn word(&self) -> &'static str {
        match self {
            Self::ForeignBranch => "foreignBranch",
            Self::ForeignState { .. } => "foreignState",
            Self::DefaultBranch { .. } => "defaultBranch",
            Self::Preferred { .. } => "preferredRunner",
            Self::DecidedElsewhere => "decidedElsewhere",
            Self::Cancelled => "cancelled",
            Self::NoTime { .. } => "noTime",
            Self::NoAnswers { .. } => "noAnswers",
            Self::CommandsNowhere { .. } => "commandsNowhere",
            Self::NoCommand(NoCommand::Missing { .. }) => "noCommand",
            Self::NoCommand(NoCommand::Elsewhere { .. }) => "commandElsewhere",
            Self::NoCommand(NoCommand::Unusable { .. }) => "commandUnusable",
            Self::NoCommand(NoCommand::Unreadable(_)) => "unreadable",
            Self::InUse(_) => "inUse",
            Self::CheckoutBehind { .. } => "checkoutBehind",
            Self::IndexLocked { .. } => "indexLocked",
            Self::StagedChanges => "stagedChanges",
            Self::IndexUnreadable { .. } => "indexUnreadable",
            Self::Unsigned { .. } => "unsigned",
        }
    }

    /// Whether a rule of the runner refuses the branch, rather than a mistake on it keeps it from running.
    pub(crate) fn is_rule(&self) -> bool {
        matches!(self, Self::Unsigned { .. } | Self::DefaultBranch { .. })
    }

    /// The suggested fix.
    pub fn severity(&self) -> Severity {
        match self {
            Self::NoCommand(none) => none.severity(),
            Self::Cancelled => Severity::Terminal,
            // Without the user it would wait forever.
            Self::InUse(in_use) if matches!(**in_use, InUse::Kept { .. }) => Severity::Misconfigured,
            Self::ForeignBranch
            | Self::ForeignState { .. }
            | Self::Preferred { .. }
            | Self::DecidedElsewhere
            | Self::InUse(_) => Severity::Blocked,
            Self::DefaultBranch { .. }
            | Self::NoTime { .. }
            | Self::NoAnswers { .. }
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
    /// The suggested fix.
    pub fn severity(&self) -> Severity {
        match self {
            Self::Missing { .. } => Severity::Terminal,
            Self::Elsewhere { found, .. } if found.committed => Severity::Blocked,
            Self::Elsewhere { .. } | Self::Unusable { .. } | Self::Unreadable(_) => Severity::Misconfigured,
        }
    }
}
