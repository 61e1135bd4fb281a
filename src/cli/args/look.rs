//! The options of the read-only subcommands `status`, `log` (of `events` too) and `logs`.

use std::ffi::OsString;

use clap::builder::PossibleValuesParser;
use clap::{ArgAction, Args};

use crate::cli::args::parse::{count, parse_remote, parse_role, seconds};
use aynig::contract::ids::{RemoteName, RoleName};
use aynig::ops::view::branch::KINDS;

/// `aynig status`.
#[derive(Debug, Args)]
#[command(
    after_help = "On a terminal --all and GLOB draw a table, cut to its width, what needs a person first; elsewhere each branch is one line \
    with nothing cut.\n\
    Exit codes: 0 done; 1 no such branch; 2 usage; 3 set-up; 4 the remote cannot be reached; 128+n --watch was stopped by signal n.\n\
    With --exit-code, the highest that holds for a branch shown: 0 all rest; 10 one runs, is due or is parked; 11 one waits for an answer; \
    12 one is stalled, or a mistake keeps it from running."
)]
pub(crate) struct Status {
    /// The branches whose name matches GLOB (`*` also matches `/`) [default: the one checked out here]
    #[arg(value_name = "GLOB")]
    pub(crate) names: Vec<OsString>,

    /// Show the branches of this remote [default: what `dwp-source` at HEAD names]
    #[arg(long, value_name = "NAME", value_parser = parse_remote)]
    pub(crate) remote: Option<RemoteName>,

    /// All branches; those without a state are only counted
    #[arg(long)]
    pub(crate) all: bool,

    /// Same as the GLOB argument (repeatable)
    #[arg(long, value_name = "GLOB", action = ArgAction::Append)]
    pub(crate) branch: Vec<OsString>,

    /// Only branches that wait for somebody's answer (`aynig answer`); of all, unless GLOB is given
    #[arg(long)]
    pub(crate) waiting: bool,

    /// Only branches whose state matches GLOB (repeatable); of all, unless GLOB is given
    #[arg(long, value_name = "GLOB", action = ArgAction::Append)]
    pub(crate) state: Vec<String>,

    /// Only branches of this kind (repeatable), as the table or the JSON names it; of all, unless GLOB is given
    #[arg(long, value_name = "KIND", action = ArgAction::Append, value_parser = PossibleValuesParser::new(KINDS))]
    pub(crate) kind: Vec<String>,

    /// Prefer the commands in .aynig/roles/NAME/command/ [default: ROLE, if set]
    #[arg(long, value_name = "NAME", value_parser = parse_role)]
    pub(crate) role: Option<RoleName>,

    /// Stay: show it anew on every change of a local branch, and every DURATION (a remote is asked every 5s at most) [default: 10s]
    #[arg(long, value_name = "DURATION", num_args = 0..=1, require_equals = true, default_missing_value = "10",
          value_parser = seconds(1..=86_400))]
    pub(crate) watch: Option<u64>,

    /// Report by the exit code what the branches shown need, see below
    #[arg(long, conflicts_with = "watch")]
    pub(crate) exit_code: bool,

    /// Print JSON; with --watch a line of it for each change
    #[arg(long)]
    pub(crate) json: bool,
}

/// `aynig log` and `aynig events`.
#[derive(Debug, Args)]
#[command(
    after_help = "Told from the commits alone, newest first, along first parents; times are the dates of commits, so hosts whose clocks disagree \
    make them wrong. On a terminal it goes through git's pager (GIT_PAGER, core.pager, PAGER).\n\
    Exit codes: 0 done; 1 no such branch; 2 usage; 3 set-up; 4 the remote cannot be reached."
)]
pub(crate) struct Log {
    /// The branch to tell of [default: the one checked out here]
    #[arg(value_name = "BRANCH", conflicts_with = "branch")]
    pub(crate) name: Option<OsString>,

    /// Same as the BRANCH argument
    #[arg(long, value_name = "BRANCH")]
    pub(crate) branch: Option<OsString>,

    /// Read the branch of this remote [default: what `dwp-source` at HEAD names]
    #[arg(long, value_name = "NAME", value_parser = parse_remote)]
    pub(crate) remote: Option<RemoteName>,

    /// No more than N entries, the newest
    #[arg(short = 'n', long = "max-count", value_name = "N", value_parser = count)]
    pub(crate) max_count: Option<usize>,

    /// Oldest first
    #[arg(long)]
    pub(crate) reverse: bool,

    /// Show every lease of an attempt, not only how many there were
    #[arg(long)]
    pub(crate) leases: bool,

    /// Do not use a pager
    #[arg(long)]
    pub(crate) no_pager: bool,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `aynig logs`.
#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 done; 1 there is no such log on this host; 2 usage; 3 set-up.")]
pub(crate) struct Logs {
    /// The newest attempt on this branch, or at or before this commit [default: the branch checked out here]
    #[arg(value_name = "BRANCH|COMMIT", conflicts_with_all = ["branch", "attempt"])]
    pub(crate) commit: Option<OsString>,

    /// Read the history of the branch of this remote [default: what `dwp-source` at HEAD names]
    #[arg(long, value_name = "NAME", value_parser = parse_remote, conflicts_with = "attempt")]
    pub(crate) remote: Option<RemoteName>,

    /// The newest attempt on this branch
    #[arg(long, value_name = "BRANCH", conflicts_with = "attempt")]
    pub(crate) branch: Option<OsString>,

    /// This attempt: its dwp-run-id, or the beginning of it
    #[arg(long, value_name = "ID")]
    pub(crate) attempt: Option<String>,

    /// Its stderr instead of its stdout
    #[arg(long)]
    pub(crate) stderr: bool,

    /// Go on printing until the attempt is over
    #[arg(short = 'f', long)]
    pub(crate) follow: bool,
}
