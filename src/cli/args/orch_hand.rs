//! The options of `aynig orch` that an agent gives in its turn.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

use super::orch_artifacts::{OrchArtifactExport, OrchArtifactList, OrchArtifactShow};
use super::orch_nodes::Permits;

/// `aynig orch handoff`.
#[derive(Debug, Args)]
pub(crate) struct OrchHandoff {
    /// The alias of the receiver
    #[arg(long, value_name = "ALIAS")]
    pub(crate) to: String,

    /// The text; `-` reads it from standard input
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) message: String,

    /// Data for the receiver: a JSON object
    #[arg(long, value_name = "JSON")]
    pub(crate) structured: Option<String>,

    /// An artifact of the run by its id, artifact://ID or artifact://diff/ID, or git: and the id of a commit (repeatable)
    #[arg(long = "artifact", value_name = "REF")]
    pub(crate) artifacts: Vec<String>,

    /// How the work went: ok, or failed:REASON
    #[arg(long, value_name = "STATUS")]
    pub(crate) status: Option<String>,

    /// Whether an answer is expected
    #[arg(long, value_enum, value_name = "WHEN", default_value = "none")]
    pub(crate) expect: Expects,

    /// The id of the hand-off that this one answers, as the prompt has it
    #[arg(long, value_name = "ID")]
    pub(crate) reply_to: Option<String>,
}

/// `aynig orch done`.
#[derive(Debug, Args)]
pub(crate) struct OrchDone {
    /// A text for people; `-` reads it from standard input
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) message: Option<String>,
}

/// Whether a hand-off expects an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Expects {
    /// No answer
    None,
    /// It may be answered
    Optional,
    /// The sender waits for the answer
    Required,
}

/// `aynig orch spawn`.
#[derive(Debug, Args)]
pub(crate) struct OrchSpawn {
    /// The alias of the new node
    #[arg(value_name = "ALIAS")]
    pub(crate) alias: String,

    /// Its role
    #[arg(long = "role", value_name = "ROLE")]
    pub(crate) role: String,

    /// Its provider: one that a node of the run has
    #[arg(long, value_name = "NAME")]
    pub(crate) provider: String,

    /// A text for people [default: the alias]
    #[arg(long, value_name = "TEXT")]
    pub(crate) label: Option<String>,

    /// The model, as the provider names it
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,

    /// Whether a person is asked before each tool that changes something [default: as for the node that makes it]
    #[arg(long, value_enum, value_name = "MODE")]
    pub(crate) permissions: Option<Permits>,

    /// Its first work; `-` reads it from standard input
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) message: Option<String>,
}

/// `aynig orch artifact`.
#[derive(Debug, Args)]
#[command(disable_help_subcommand = true)]
pub(crate) struct OrchArtifact {
    /// The subcommand
    #[command(subcommand)]
    pub(crate) verb: OrchArtifactVerb,
}

/// The subcommands of `aynig orch artifact`.
#[derive(Debug, Subcommand)]
pub(crate) enum OrchArtifactVerb {
    /// Keep a file with the run; an agent calls it in its turn, and it takes effect when that has ended well
    Add(OrchArtifactAdd),
    /// List the artifacts of a run, the oldest first
    List(OrchArtifactList),
    /// Print the content of an artifact
    Show(OrchArtifactShow),
    /// Write the contents of a run's artifacts below a directory, as ALIAS/TURN/NAME
    Export(OrchArtifactExport),
}

/// `aynig orch artifact add`.
#[derive(Debug, Args)]
pub(crate) struct OrchArtifactAdd {
    /// A plain file of the node's worktree
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) kept_file: PathBuf,

    /// Its kind
    #[arg(long, value_enum, value_name = "KIND", default_value = "report")]
    pub(crate) kind: Keeps,

    /// Its name in the run [default: the name of the file]
    #[arg(long = "name", value_name = "NAME")]
    pub(crate) kept_name: Option<String>,
}

/// The kinds of files that an agent keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Keeps {
    /// Anything to read
    Report,
    /// A patch
    Diff,
    /// The output of a program
    Log,
}

/// `aynig orch roster`.
#[derive(Debug, Args)]
pub(crate) struct OrchRoster {
    /// The run; an agent in its turn names none
    #[arg(value_name = "RUN")]
    pub(crate) run_name: Option<String>,
}
