//! The options of `aynig workspace`.

use std::ffi::OsString;

use clap::{Args, Subcommand};

/// `aynig workspace`.
#[derive(Debug, Args)]
#[command(
    disable_help_subcommand = true,
    after_help = "WORKSPACE is a slug, the beginning of a run's id, a name, slug/name, a branch or a path in it. RUN is a slug, the beginning of an id, or an id. A \
    workspace lasts until it is removed. Your \
    checkout may be dirty, and is not touched.\n\
    Exit codes: 0 done; 1 not done, no such workspace, or somebody was faster; 2 usage: a name or a base; 3 set-up; 4 the remote cannot be reached or refuses."
)]
pub(crate) struct Workspace {
    /// Print JSON: the workspaces meant, and what was done
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// The subcommand
    #[command(subcommand)]
    pub(crate) verb: WorkspaceVerb,
}

/// The subcommands of `aynig workspace`.
#[derive(Debug, Subcommand)]
pub(crate) enum WorkspaceVerb {
    /// Make a workspace: a work branch at a base commit, and a worktree of its own
    Create(Create),
    /// List all workspaces
    List,
    /// Show a workspace: its context and the condition of its worktree
    Show(One),
    /// Print the path of a workspace's worktree
    Path(One),
    /// Commit what is in a worktree on its work branch, and set the worktree right
    Snapshot(Snapshot),
    /// Put branch and worktree back to the base; what was there is saved
    Rollback(Rollback),
    /// Remove a workspace: its branch is archived, what is not committed is saved
    Remove(Remove),
}

/// `aynig workspace create`.
#[derive(Debug, Args)]
pub(crate) struct Create {
    /// Its name: letters, digits, dots, underscores and dashes
    #[arg(value_name = "NAME", allow_hyphen_values = true)]
    pub(crate) workspace_name: String,

    /// The run that it belongs to: a slug, the beginning of an id, or an id [default: a run by itself]
    #[arg(long = "run", value_name = "RUN")]
    pub(crate) run_name: Option<String>,

    /// The ref or commit to begin from [default: the base of the run, else the commit that is checked out here]
    #[arg(long, value_name = "REF", allow_hyphen_values = true)]
    pub(crate) base: Option<String>,
}

/// `aynig workspace rollback`.
#[derive(Debug, Args)]
pub(crate) struct Rollback {
    /// The workspace
    #[command(flatten)]
    pub(crate) one: One,

    /// Where to: `pre_run`, the base [default: pre_run]
    #[arg(long, value_name = "TARGET", conflicts_with = "undo")]
    pub(crate) to: Option<String>,

    /// Bring back what the last rollback, or the last --undo, discarded: branch, index and files
    #[arg(long)]
    pub(crate) undo: bool,
}

/// `aynig workspace snapshot`.
#[derive(Debug, Args)]
pub(crate) struct Snapshot {
    /// The workspace
    #[command(flatten)]
    pub(crate) one: One,

    /// Take hooks, settings and branches as they are now for what they are to be
    #[arg(long)]
    pub(crate) accept: bool,
}

/// `aynig workspace remove`.
#[derive(Debug, Args)]
pub(crate) struct Remove {
    /// The workspace
    #[command(flatten)]
    pub(crate) one: One,

    /// Remove it; without this, only show what would be done
    #[arg(long)]
    pub(crate) apply: bool,
}

/// A subcommand about one workspace.
#[derive(Debug, Args)]
pub(crate) struct One {
    /// The workspace
    #[arg(value_name = "WORKSPACE")]
    pub(crate) workspace: OsString,
}
