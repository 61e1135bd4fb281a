//! The options of `aynig land`.

use std::ffi::OsString;

use clap::Args;

use crate::cli::args::parse::parse_remote;
use aynig::contract::ids::RemoteName;

/// `aynig land`.
#[derive(Debug, Args)]
#[command(
    after_help = "No checkout is needed: git merges the trees, and the branch moves only if it is where it was. A checkout of it goes along if it is \
    clean; else nothing is done. The message has no trailers of the workflow. No hook runs; where commit.gpgSign is set the commit is \
    signed. BRANCH stays as it is.\n\
    Exit codes: 0 landed, or nothing to land; 1 no such branch, conflicts, a live lease, work of a run that is refused, or the branch moved meanwhile; 2 usage; 3 set-up, or changes in the \
    way; 4 the remote cannot be reached or refuses."
)]
pub(crate) struct Land {
    /// The branch to land
    #[arg(value_name = "BRANCH")]
    pub(crate) branch: OsString,

    /// The branch to land on [default: the default branch: HEAD of origin, else init.defaultBranch, main or master]
    #[arg(long, value_name = "BRANCH")]
    pub(crate) into: Option<OsString>,

    /// One commit with all changes (the default)
    #[arg(long, conflicts_with = "merge")]
    pub(crate) squash: bool,

    /// A merge commit, which keeps the commits of the branch
    #[arg(long)]
    pub(crate) merge: bool,

    /// The commit's subject [default: that of the branch's only own commit, else of what was asked]
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) subject: Option<String>,

    /// The commit's body [default: from where the subject is]
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) body: Option<String>,

    /// Land on the branch of this remote, by a push [default: what `dwp-source` at HEAD names]
    #[arg(long, value_name = "NAME", value_parser = parse_remote)]
    pub(crate) remote: Option<RemoteName>,

    /// Sign over what aynig.requireSigned refuses, too: you have read it, and vouch for it
    #[arg(long)]
    pub(crate) accept_unsigned: bool,

    /// Land although the run has not ended, ended without success, or a step broke its policy. A run at a gate lands without
    /// it, and a warning names the open answer
    #[arg(long)]
    pub(crate) unsuccessful: bool,

    /// Print what was landed as JSON
    #[arg(long)]
    pub(crate) json: bool,
}
