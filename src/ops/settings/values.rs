//! The values of all settings.
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use crate::contract::ids::{RemoteName, RoleName};
use crate::publish::Forge;
use crate::runner::options::{CurrentBranch, Takeover};

/// The values of all settings that an operation reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The role whose commands are preferred.
    pub(crate) role: Option<RoleName>,
    /// The authority's remote, if it was named.
    pub remote: Option<RemoteName>,
    /// The directory of worktrees, relative to the top of the repository.
    pub(crate) worktree: PathBuf,
    /// How the checked-out branch is treated.
    pub(crate) current_branch: CurrentBranch,
    /// Globs on branches; none means all.
    pub branch: Vec<String>,
    /// The beginning of the names of branches that are never run.
    pub(crate) work_prefix: String,
    /// The beginning of the names of drivers.
    pub(crate) run_prefix: String,
    /// The length of the lease of a driver.
    pub(crate) orch_lease_seconds: u64,
    pub(crate) approval_wait_seconds: u64,
    /// How many turns without progress pause a graph.
    pub(crate) stall_repeats: u64,
    /// The pauses before a node tries again.
    pub(crate) retry_pause: Vec<Duration>,
    pub(crate) approval_expire_seconds: Option<u64>,
    pub(crate) require_signed_approvals: bool,
    /// The directory of the worktrees of workspaces.
    pub(crate) workspace_root: Option<PathBuf>,
    /// The directory of all runs' records.
    pub(crate) data_dir: Option<PathBuf>,
    /// Globs on the branches that nobody may move from a workspace; none means the usual ones.
    pub(crate) protected_branches: Vec<String>,
    /// Who makes a proposal of published work.
    pub(crate) forge: Forge,
    /// Whether a rollback keeps the old directory if it has ignored files.
    pub(crate) rollback_keep_ignored: bool,
    /// The ref whose tree holds all commands.
    pub(crate) commands_from: Option<String>,
    pub(crate) require_signed: bool,
    /// Globs on states; none means all.
    pub(crate) states: Vec<String>,
    /// Globs on the trailers that become variables; none means all.
    pub(crate) trailer_variables: Vec<String>,
    /// The most commands that run at once.
    pub(crate) jobs: NonZeroUsize,
    pub(crate) lease_seconds: u64,
    /// How an expired lease is recognised.
    pub(crate) takeover: Takeover,
    /// The tolerated difference between clocks.
    pub(crate) skew_seconds: u64,
    pub(crate) heartbeat: bool,
    /// The seconds from SIGTERM to SIGKILL.
    pub grace_seconds: u64,
    /// Whether a state whose command was interrupted is asked for again.
    pub(crate) requeue: bool,
    /// How often in a row.
    pub(crate) interrupt_retries: u64,
    /// The longest a command may run.
    pub(crate) command_timeout: Option<u64>,
    /// The most steps of a branch in an hour.
    pub(crate) max_steps: u64,
    /// The most rounds with the same files.
    pub(crate) max_rounds: u64,
    /// The command line run in a new worktree.
    pub(crate) setup: Option<String>,
    /// The command line of the hook.
    pub(crate) notify: Option<String>,
    /// The longest that the hook may run.
    pub(crate) notify_seconds: u64,
    /// Globs on the states that run the hook.
    pub(crate) notify_states: Vec<String>,
}
