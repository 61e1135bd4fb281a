//! The options of `aynig flow` about runs that are there: list, show, log.

use clap::Args;

/// `aynig flow list`.
#[derive(Debug, Args)]
pub(crate) struct FlowList {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `aynig flow show` and `aynig flow log`.
#[derive(Debug, Args)]
pub(crate) struct FlowOne {
    /// The run: its slug, the beginning of its id, or its id
    #[arg(value_name = "RUN")]
    pub(crate) run_name: String,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
