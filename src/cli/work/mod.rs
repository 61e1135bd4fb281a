//! Subcommands that move branches.

pub(crate) mod answer;
pub(crate) mod by_hand;
pub(crate) mod cancel;
mod drive;
pub(crate) mod dry_run;
pub(crate) mod flow_runs;
pub(crate) mod land;
pub(crate) mod next;
pub(crate) mod orch;
pub(crate) mod publish;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod set_state;
pub(crate) mod set_working;
pub(crate) mod workspace;
