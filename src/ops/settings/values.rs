//! The values of all settings, as operations read them.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use crate::contract::ids::{RemoteName, RoleName};
use crate::runner::options::{CurrentBranch, Takeover};

/// The values of all settings that an operation reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Whose commands are looked for first.
    pub(crate) role: Option<RoleName>,
    /// The remote that decides, where it was named.
    pub remote: Option<RemoteName>,
    /// Where worktrees are made, relative to the top of the repository.
    pub(crate) worktree: PathBuf,
    /// What to do with the branch that is checked out.
    pub(crate) current_branch: CurrentBranch,
    /// Globs on branches; none means all.
    pub branch: Vec<String>,
    /// The ref whose tree holds all commands.
    pub(crate) commands_from: Option<String>,
    /// Whether only signed HEADs are run.
    pub(crate) require_signed: bool,
    /// Globs on states; none means all.
    pub(crate) states: Vec<String>,
    /// Globs on the trailers that become variables; none means all.
    pub(crate) trailer_variables: Vec<String>,
    /// How many commands at once.
    pub(crate) jobs: NonZeroUsize,
    /// Length of a lease.
    pub(crate) lease_seconds: u64,
    /// What decides that a lease is over.
    pub(crate) takeover: Takeover,
    /// How far clocks may be apart.
    pub(crate) skew_seconds: u64,
    /// Whether leases are renewed.
    pub(crate) heartbeat: bool,
    /// From TERM to KILL.
    pub grace_seconds: u64,
    /// The longest a command may run.
    pub(crate) command_timeout: Option<u64>,
    /// What is run in a new worktree.
    pub(crate) setup: Option<String>,
    /// What is run to notify somebody.
    pub(crate) notify: Option<String>,
    /// The longest that may run.
    pub(crate) notify_seconds: u64,
    /// Globs on the states that somebody is notified of.
    pub(crate) notify_states: Vec<String>,
}
