//! The options of `aynig flow`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// `aynig flow`.
#[derive(Debug, Args)]
#[command(
    disable_help_subcommand = true,
    after_help = "This version checks and draws flows; commands that run them are not there yet.\n\
    FILE is YAML or JSON, `-` is standard input. No repository is needed, except for --base.\n\
    Exit codes: 0 done, with or without warnings; 1 the flow has a fault; 2 usage: the file or the base cannot be read; 3 set-up."
)]
pub(crate) struct Flow {
    /// The subcommand
    #[command(subcommand)]
    pub(crate) verb: FlowVerb,
}

/// The subcommands of `aynig flow`.
#[derive(Debug, Subcommand)]
pub(crate) enum FlowVerb {
    /// Report all faults of a flow file at once, each with line and column
    Check(FlowCheck),
    /// Draw the steps of a flow and the routes between them
    Graph(FlowGraph),
    /// Print the JSON Schema of flow files, with which editors complete them
    Schema,
}

/// `aynig flow check`.
#[derive(Debug, Args)]
pub(crate) struct FlowCheck {
    /// The flow file
    #[arg(value_name = "FILE")]
    pub(crate) flow_file: PathBuf,

    /// Check the prompts and scripts that the flow names, too: they must be in the commit that REF leads to
    #[arg(long, value_name = "REF", allow_hyphen_values = true)]
    pub(crate) base: Option<String>,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `aynig flow graph`.
#[derive(Debug, Args)]
pub(crate) struct FlowGraph {
    /// The flow file
    #[arg(value_name = "FILE")]
    pub(crate) flow_file: PathBuf,

    /// How it is drawn
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) format: Format,
}

/// How a flow is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A paragraph for each step
    Text,
    /// A flowchart for Mermaid, which Markdown viewers draw
    Mermaid,
    /// A digraph for Graphviz
    Dot,
    /// An object for programs
    Json,
}
