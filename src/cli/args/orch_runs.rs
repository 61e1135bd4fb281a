//! Words and arguments that several subcommands of `aynig orch` share.

use clap::Args;

/// A subcommand about one run.
#[derive(Debug, Args)]
pub(crate) struct OneRun {
    /// The run
    #[arg(value_name = "RUN")]
    pub(crate) run_name: String,
}

/// Whether a run goes on by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum RunMode {
    /// Its orchestrator goes on until the run is done
    #[value(name = "AUTO")]
    Auto,
    /// It waits for messages of people
    #[value(name = "INTERACTIVE")]
    Interactive,
}

/// What the nodes of a run may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Phase {
    /// Files below docs/
    #[value(name = "PLANNING")]
    Planning,
    /// All files
    #[value(name = "IMPLEMENTATION")]
    Implementation,
}
