//! The values of all settings, as operations read them.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use crate::contract::ids::{RemoteName, RoleName};
use crate::runner::options::{CurrentBranch, Takeover};

/// The values of all settings that an operation reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Whose commands are looked for first.
    pub role: Option<RoleName>,
    /// The remote that decides, where it was named.
    pub remote: Option<RemoteName>,
    /// Where worktrees are made, relative to the top of the repository.
    pub worktree: PathBuf,
    /// What to do with the branch that is checked out.
    pub current_branch: CurrentBranch,
    /// Globs on branches; none means all.
    pub branch: Vec<String>,
    /// The ref whose tree holds all commands.
    pub commands_from: Option<String>,
    /// Whether only signed HEADs are run.
    pub require_signed: bool,
    /// Globs on states; none means all.
    pub states: Vec<String>,
    /// Globs on the trailers that become variables; none means all.
    pub trailer_variables: Vec<String>,
    /// How many commands at once.
    pub jobs: NonZeroUsize,
    /// Length of a lease.
    pub lease_seconds: u64,
    /// What decides that a lease is over.
    pub takeover: Takeover,
    /// How far clocks may be apart.
    pub skew_seconds: u64,
    /// Whether leases are renewed.
    pub heartbeat: bool,
    /// From TERM to KILL.
    pub grace_seconds: u64,
    /// The longest a command may run.
    pub command_timeout: Option<u64>,
    /// What is run in a new worktree.
    pub setup: Option<String>,
    /// What is run to notify somebody.
    pub notify: Option<String>,
    /// The longest that may run.
    pub notify_seconds: u64,
    /// Globs on the states that somebody is notified of.
    pub notify_states: Vec<String>,
}
