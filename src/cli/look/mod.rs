//! Subcommands that only read.

pub(crate) mod flow;
pub(crate) mod log;
pub(crate) mod logs;
pub(crate) mod orch;
pub(crate) mod status;
pub(crate) mod wait;
