//! The options of `aynig orch`.

use clap::{ArgAction, Args, Subcommand};

/// `aynig orch`.
#[derive(Debug, Args)]
#[command(
    disable_help_subcommand = true,
    after_help = "RUN is a slug, the beginning of a run's id, or an id. With aynig.remote the ledgers are fetched first, except by doctor and rebuild.\n\
    Exit codes: 0 done; 1 no such run, several that are meant, or a fault that `doctor` found; 2 usage; 3 set-up."
)]
pub(crate) struct Orch {
    /// Print JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// The subcommand
    #[command(subcommand)]
    pub(crate) verb: OrchVerb,
}

/// The subcommands of `aynig orch`.
#[derive(Debug, Subcommand)]
pub(crate) enum OrchVerb {
    /// Runs
    Run(OrchRun),
    /// Show a run: its status, its nodes, and what it waits for
    Show(OneRun),
    /// Show the events of a run
    Events(OrchEvents),
    /// Compare a run's ledger with itself, and its files with the ledger
    Doctor(OneRun),
    /// Make the files of a run anew from its ledger; what only this host saw of it is gone then
    Rebuild(OneRun),
}

/// `aynig orch run`.
#[derive(Debug, Args)]
#[command(disable_help_subcommand = true)]
pub(crate) struct OrchRun {
    /// The subcommand
    #[command(subcommand)]
    pub(crate) verb: OrchRunVerb,
}

/// The subcommands of `aynig orch run`.
#[derive(Debug, Subcommand)]
pub(crate) enum OrchRunVerb {
    /// List all runs
    List,
}

/// A subcommand about one run.
#[derive(Debug, Args)]
pub(crate) struct OneRun {
    /// The run
    #[arg(value_name = "RUN")]
    pub(crate) run_name: String,
}

/// `aynig orch events`.
#[derive(Debug, Args)]
pub(crate) struct OrchEvents {
    /// The run
    #[command(flatten)]
    pub(crate) one: OneRun,

    /// Go on until the run has ended
    #[arg(short = 'f', long)]
    pub(crate) follow: bool,

    /// Only events whose type matches GLOB (repeatable)
    #[arg(long = "type", value_name = "GLOB", action = ArgAction::Append)]
    pub(crate) types: Vec<String>,

    /// Only events with a greater number
    #[arg(long, value_name = "SEQ", default_value_t = 0, hide_default_value = true)]
    pub(crate) after: u64,
}
