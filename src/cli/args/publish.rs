//! The options of `aynig publish`.

use std::ffi::OsString;

use clap::Args;

use crate::cli::args::parse::parse_remote;
use aynig::contract::ids::RemoteName;

/// `aynig publish`.
#[derive(Debug, Args)]
#[command(
    after_help = "RUN is a slug, the beginning of a run's id, or whatever names a workspace. What is committed on the work branch is published; \
    publishing again gives the same branch and the same proposal. aynig.forge says who makes the proposal. Nothing is merged, no protected branch \
    is pushed, and commits that others put on the published branch are never pushed over.\n\
    Exit codes: 0 published, or the base has all of it; 1 the run did not succeed, commits of others are there, the proposal was closed, no such run, or called by a command; \
    2 usage; 3 set-up; 4 the remote or the forge cannot be reached or refuses."
)]
pub(crate) struct Publish {
    /// The run
    #[arg(value_name = "RUN")]
    pub(crate) run_name: OsString,

    /// The workspace of this node [default: the only one, else `flow`]
    #[arg(long, value_name = "NAME")]
    pub(crate) node: Option<String>,

    /// The branch to merge into [default: the one that the work began from, else the default branch]
    #[arg(long, value_name = "BRANCH")]
    pub(crate) into: Option<OsString>,

    /// The branch to publish as [default: the name of the work branch]
    #[arg(long, value_name = "BRANCH")]
    pub(crate) branch: Option<OsString>,

    /// Publish one commit with all changes, with you as its author
    #[arg(long)]
    pub(crate) squash: bool,

    /// Make a new proposal a draft
    #[arg(long)]
    pub(crate) draft: bool,

    /// Publish although the run did not succeed, or its work broke a policy
    #[arg(long)]
    pub(crate) unsuccessful: bool,

    /// The remote [default: the one that decides the run, else aynig.remote, else origin or the only one]
    #[arg(long, value_name = "NAME", value_parser = parse_remote)]
    pub(crate) remote: Option<RemoteName>,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
