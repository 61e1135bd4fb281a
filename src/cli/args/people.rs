//! The options of `aynig answer` and `aynig wait`.

use std::ffi::OsString;

use clap::{ArgAction, Args};

use crate::cli::args::parse::{parse_commit, parse_remote, parse_state, seconds};
use aynig::contract::ids::{RemoteName, StateName};

/// `aynig answer`.
#[derive(Debug, Args)]
#[command(
    after_help = "Without BRANCH it lists the branches that wait for an answer, without STATE it prints what BRANCH asks and the lines that answer. Neither \
    changes anything. The answer is one commit: it keeps the files, the body and the trailers of the commit that asked, and names it in \
    `aynig-answers`. Its author is who answered.\n\
    Exit codes: 0 done; 1 no such branch, or it waits for nobody, or was answered or moved meanwhile; 2 usage: no such answer; 3 set-up; \
    4 the remote cannot be reached or refuses."
)]
pub(crate) struct Answer {
    /// The branch that waits
    #[arg(value_name = "BRANCH")]
    pub(crate) branch: Option<OsString>,

    /// The answer: one of the states in `dwp-answers`, or any state if there is no such list
    #[arg(value_name = "STATE", value_parser = parse_answer)]
    pub(crate) state: Option<StateName>,

    /// Add TEXT to the body as a marked section: who, when, in which state
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, requires = "state")]
    pub(crate) comment: Option<OsString>,

    /// Only if the branch is at COMMIT still (its first 7 digits or more): an answer to what was read
    #[arg(long, value_name = "COMMIT", value_parser = parse_commit, requires = "state")]
    pub(crate) expect: Option<String>,

    /// Act on the branches of this remote [default: AYNIG_REMOTE inside a command, else what `dwp-source` at HEAD names]
    #[arg(long, value_name = "NAME", value_parser = parse_remote)]
    pub(crate) remote: Option<RemoteName>,

    /// Sign on top of a commit that aynig.requireSigned refuses, too: you have read it, and vouch for its files and its message
    #[arg(long, requires = "state")]
    pub(crate) accept_unsigned: bool,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The state of an answer. A sentence in its place belongs elsewhere.
fn parse_answer(text: &str) -> Result<StateName, String> {
    let more = "; words go into `--comment TEXT`, and `aynig answer BRANCH` lists the answers";
    parse_state(text).map_err(|why| format!("{why}{more}"))
}

/// `aynig wait`.
#[derive(Debug, Args)]
#[command(
    after_help = "A branch rests if nothing is left to run on it: it declares no state, or one without a command, is stalled, parked, or waits for somebody's \
    answer, as `aynig status` here shows it. An expired lease does not rest: the next `aynig run` sets the branch stalled. With --state a branch that is \
    parked until a time is waited for, and a state counts if the newest commit declares it, or any commit since the wait began.\n\
    Exit codes: 0 all branches rest, or with --state all have come to it; 1 a branch is stalled or was meant to run and is not; with --state, a branch \
    rests without having come to it; a branch is missing or was deleted; 2 usage; 3 set-up; 4 the remote cannot be reached at the beginning; 124 --timeout \
    passed; 128+n stopped by signal n."
)]
pub(crate) struct Wait {
    /// The branches: names, or globs on those with a state (`*` also matches `/`). They have to exist when the wait begins
    #[arg(value_name = "BRANCH", required_unless_present = "branch")]
    pub(crate) name: Vec<OsString>,

    /// Same as the BRANCH argument (repeatable)
    #[arg(long, value_name = "BRANCH", action = ArgAction::Append)]
    pub(crate) branch: Vec<OsString>,

    /// Wait until each branch has come to a state that matches GLOB (repeatable: any of them) [default: until it rests]
    #[arg(long, value_name = "GLOB", action = ArgAction::Append)]
    pub(crate) state: Vec<String>,

    /// Wait no longer than this (90s, 5m, 2h, 1d, 1h30m, or seconds)
    #[arg(long, value_name = "DURATION", allow_negative_numbers = true, value_parser = seconds(0..=31_536_000))]
    pub(crate) timeout: Option<u64>,

    /// Wait for the branches of this remote [default: what `dwp-source` at HEAD names]
    #[arg(long, value_name = "NAME", value_parser = parse_remote)]
    pub(crate) remote: Option<RemoteName>,

    /// Print JSON: a list of `branches`, each with its `outcome`
    #[arg(long)]
    pub(crate) json: bool,
}
