//! The options of a run: parsed and resolved by the command line, read-only from then on.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use crate::contract::bounds::Limits;
use crate::contract::ids::{BranchName, RoleName, StateName};
use crate::contract::requeue::OnInterrupt;
use crate::git::repo::config::{COMMANDS_FROM, REQUIRE_SIGNED};

/// How to treat the branch that is checked out where the runner was started (CONTRACT 11.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CurrentBranch {
    /// Skip it: the user is working there.
    Skip,
    /// Run it too, in place.
    Include,
    /// Run no other branch.
    Only,
}

/// How to decide that another runner's lease has expired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takeover {
    /// By its commit date and this host's wall clock (CONTRACT 5.4).
    Clock,
    /// By this host having seen it for its full length (CONTRACT 5.21).
    Observed,
}

/// The branches that a pass looks at.
#[derive(Debug, Clone)]
pub struct Selection {
    /// Treatment of the current branch.
    pub current: CurrentBranch,
    /// Globs on the short branch name; empty means all.
    pub globs: globset::GlobSet,
    /// The values of `--branch` and `aynig.branch`, verbatim. A value that equals a branch's name names that
    /// branch.
    pub named: Vec<String>,
    /// The branches to look at, if only these are meant. Others are then not read. The globs match them.
    pub only: Vec<BranchName>,
}

impl Selection {
    /// Selects all branches, the current one included, as `status --all` does.
    pub fn everything() -> Self {
        let globs = globset::GlobSet::empty();
        Self { current: CurrentBranch::Include, globs, named: Vec::new(), only: Vec::new() }
    }

    /// Whether the globs match `branch`.
    pub(crate) fn admits(&self, branch: &BranchName) -> bool {
        self.globs.is_empty() || self.globs.is_match(branch.to_string())
    }

    /// Whether the user named `branch`. A glob that matches it does not count (CONTRACT 11.13).
    pub fn names(&self, branch: &BranchName, is_current: bool) -> bool {
        let only = is_current && self.current == CurrentBranch::Only;
        only || self.named.iter().any(|named| *named == branch.to_string())
    }
}

/// Whether a text is a glob. No name of a branch contains these characters.
pub fn is_glob(named: &[u8]) -> bool {
    named.iter().any(|byte| b"*?[".contains(byte))
}

/// Limits on the commands, commits and trailers that a run accepts (CONTRACT 13.1 to 13.5, 3.13).
#[derive(Debug, Clone, Default)]
pub struct Trust {
    /// The ref whose tree holds the commands of all branches. `None` if each branch has its own.
    pub commands_from: Option<String>,
    /// Whether only HEADs with a good signature are run.
    pub require_signed: bool,
    /// Globs on the states that are run; empty means all.
    pub states: globset::GlobSet,
    /// Globs on the branches that are run, of those selected; empty means all.
    pub branches: globset::GlobSet,
    /// Globs on the trailers that become variables besides `DWP_*`, by key or variable name. `None` means all
    /// that are not reserved.
    pub variables: Option<globset::GlobSet>,
}

impl Trust {
    /// The variables that hold what a command calls to the same commands and signatures (CONTRACT 13.13).
    pub(crate) fn variables(&self) -> Vec<(&'static str, String)> {
        let commands = self.commands_from.iter().map(|from| (COMMANDS_FROM, from.clone()));
        let signed = self.require_signed.then(|| (REQUIRE_SIGNED, "true".to_owned()));
        commands.chain(signed).collect()
    }

    /// Whether a trailer becomes a variable.
    pub(crate) fn lists(&self, key: &str, name: &str) -> bool {
        self.variables.as_ref().is_none_or(|globs| globs.is_match(key) || globs.is_match(name))
    }
}

impl Trust {
    /// Whether this runner runs `branch`.
    pub(crate) fn admits_branch(&self, branch: &BranchName) -> bool {
        self.branches.is_empty() || self.branches.is_match(branch.to_string())
    }

    /// Whether this runner runs `state`.
    pub(crate) fn admits_state(&self, state: &StateName) -> bool {
        self.states.is_empty() || self.states.is_match(state.as_str())
    }
}

/// All settings of a run.
#[derive(Debug, Clone)]
pub struct Options {
    /// The role whose commands are tried first (CONTRACT 2.2).
    pub role: Option<RoleName>,
    /// The branches that a pass looks at.
    pub selection: Selection,
    /// Limits on the commands and commits that are accepted.
    pub trust: Trust,
    /// The beginning of the names of branches that are never run (CONTRACT 11.15).
    pub work_prefix: String,
    /// The beginning of the names of drivers, whose runs have bounds of their own (CONTRACT 20.2).
    pub run_prefix: String,
    /// The bounds on loops.
    pub limits: Limits,
    /// The directory of worktrees, absolute.
    pub worktrees: PathBuf,
    /// The most commands that run at once.
    pub jobs: NonZeroUsize,
    /// How to decide that another runner's lease has expired.
    pub takeover: Takeover,
    /// The clock skew allowed between hosts, in seconds. A lease on a remote is recovered only this much
    /// after its end.
    pub skew_seconds: u64,
    /// Length of the leases we take, in seconds.
    pub lease_seconds: u64,
    /// Whether leases are renewed while a command runs.
    pub heartbeat: bool,
    /// The command line run by `sh` in a new worktree before the command.
    pub setup: Option<String>,
    /// The time between SIGTERM and SIGKILL.
    pub grace: Duration,
    /// The reaction if the runner is stopped while a command runs (CONTRACT 6.14).
    pub on_interrupt: OnInterrupt,
    /// The longest that a command may run.
    pub command_timeout: Option<Duration>,
    /// The value of `dwp-runner-id` in our leases.
    pub runner_id: String,
    /// The command's `LOG_LEVEL`, unless its trigger sets one.
    pub log_level: String,
    /// Whether the level was given on the command line, which overrides the trigger.
    pub log_level_fixed: bool,
    /// The path of this binary, for commands and the watchdog.
    pub program: PathBuf,
}
