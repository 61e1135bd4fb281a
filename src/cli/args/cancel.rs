//! The options of `aynig cancel`.

use std::ffi::OsString;

use clap::{ArgAction, Args};

use crate::cli::args::parse::{parse_remote, seconds};
use aynig::contract::ids::RemoteName;

/// `aynig cancel`.
#[derive(Debug, Args)]
#[command(
    after_help = "The request is a commit on the lease. The runner that holds it, on whatever host, stops the command, saves its work and sets the \
    branch stalled, with who asked and why. A branch that waits to be run becomes stalled at once. If the command ends first, its end counts.\n\
    Exit codes: 0 requested, set stalled, or nothing runs; with --wait, the attempt was cancelled; 1 no such branch, the attempt ended \
    otherwise, its lease ran out, --timeout passed, or --requeue of a branch that is stalled, or that was asked to stall; 2 usage; 3 set-up; 4 the remote cannot be reached or refuses."
)]
pub(crate) struct Cancel {
    /// The branches: names, or globs, which pass over branches that rest (`*` also matches `/`)
    #[arg(value_name = "BRANCH", required_unless_present = "branch")]
    pub(crate) name: Vec<OsString>,

    /// Same as the BRANCH argument (repeatable)
    #[arg(long, value_name = "BRANCH", action = ArgAction::Append)]
    pub(crate) branch: Vec<OsString>,

    /// Why; it is in the request and in the stalled commit
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) reason: Option<String>,

    /// Ask again for the state instead of setting the branch stalled
    #[arg(long)]
    pub(crate) requeue: bool,

    /// Wait until it has happened, and show it
    #[arg(long)]
    pub(crate) wait: bool,

    /// Wait no longer than this (90s, 5m, 2h, 1d, 1h30m, or seconds)
    #[arg(long, value_name = "DURATION", allow_negative_numbers = true, value_parser = seconds(0..=31_536_000), requires = "wait")]
    pub(crate) timeout: Option<u64>,

    /// Act on the branches of this remote [default: what `dwp-source` at HEAD names]
    #[arg(long, value_name = "NAME", value_parser = parse_remote)]
    pub(crate) remote: Option<RemoteName>,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
