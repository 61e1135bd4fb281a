//! Subcommands that change nothing in a repository.

pub(crate) mod flow;
pub(crate) mod flow_runs;
pub(crate) mod graph_file;
pub(crate) mod log;
pub(crate) mod logs;
pub(crate) mod orch;
pub(crate) mod provider;
pub(crate) mod status;
pub(crate) mod wait;
