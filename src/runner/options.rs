//! What a run is asked to do: parsed and resolved by the edge, read-only from then on.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use crate::contract::ids::{BranchName, RoleName, StateName};

/// What to do with the branch that is checked out where the runner was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CurrentBranch {
    /// Leave it alone: somebody is working there.
    Skip,
    /// Treat it like the others, in place.
    Include,
    /// Look at nothing else.
    Only,
}

/// What decides that a lease of others is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takeover {
    /// The date of its commit and the wall clock here.
    Clock,
    /// That this host has seen it for as long as it lasts.
    Observed,
}

/// Which branches a pass looks at.
#[derive(Debug, Clone)]
pub struct Selection {
    /// The current branch.
    pub current: CurrentBranch,
    /// Globs on the short branch name; empty means all.
    pub globs: globset::GlobSet,
}

impl Selection {
    /// All branches, the current one included: what `status --all` shows.
    pub fn everything() -> Self {
        Self { current: CurrentBranch::Include, globs: globset::GlobSet::empty() }
    }

    /// Whether the globs let `branch` through.
    pub fn admits(&self, branch: &BranchName) -> bool {
        self.globs.is_empty() || self.globs.is_match(branch.to_string())
    }
}

/// Whose commands are run, whose commits, and which of their trailers commands are given.
#[derive(Debug, Clone, Default)]
pub struct Trust {
    /// The ref whose tree holds the commands of all branches; none where each branch has its own.
    pub commands_from: Option<String>,
    /// Whether only HEADs with a good signature are run.
    pub require_signed: bool,
    /// Globs on the states that are run; empty means all.
    pub states: globset::GlobSet,
    /// Globs on the branches that are run, where more are looked at; empty means all.
    pub branches: globset::GlobSet,
    /// Globs on the trailers that become variables besides `DWP_*`, by key or name; none means all that are not reserved.
    pub variables: Option<globset::GlobSet>,
}

impl Trust {
    /// Whether a trailer is among those that become variables.
    pub(crate) fn lists(&self, key: &str, name: &str) -> bool {
        self.variables.as_ref().is_none_or(|globs| globs.is_match(key) || globs.is_match(name))
    }
}

impl Trust {
    /// Whether `branch` is one that this runner runs.
    pub(crate) fn admits_branch(&self, branch: &BranchName) -> bool {
        self.branches.is_empty() || self.branches.is_match(branch.to_string())
    }

    /// Whether `state` is one that this runner runs.
    pub(crate) fn admits_state(&self, state: &StateName) -> bool {
        self.states.is_empty() || self.states.is_match(state.as_str())
    }
}

/// All settings of a run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Whose commands are looked for first.
    pub role: Option<RoleName>,
    /// Which branches.
    pub selection: Selection,
    /// Whose commands, and whose commits.
    pub trust: Trust,
    /// Where worktrees are made, absolute.
    pub worktrees: PathBuf,
    /// How many commands at once.
    pub jobs: NonZeroUsize,
    /// What decides that a lease is over.
    pub takeover: Takeover,
    /// How far clocks of different hosts may be apart, seconds: a remote lease is taken over only so much later.
    pub skew_seconds: u64,
    /// Length of the leases we take, seconds.
    pub lease_seconds: u64,
    /// Whether leases are renewed while a command runs.
    pub heartbeat: bool,
    /// What is run in a new worktree before the command, by `sh`.
    pub setup: Option<String>,
    /// From TERM to KILL.
    pub grace: Duration,
    /// The longest a command may run.
    pub command_timeout: Option<Duration>,
    /// Who we are in a lease.
    pub runner_id: String,
    /// What `LOG_LEVEL` a command sees, unless its trigger says otherwise.
    pub log_level: String,
    /// Whether that level was given on the command line, which beats the trigger.
    pub log_level_fixed: bool,
    /// This binary, for commands and for the watchdog.
    pub program: PathBuf,
}
