//! The options of the subcommands of `aynig orch` that make graphs: from options, from a file, with texts of roles.

use std::path::PathBuf;

use clap::{ArgAction, Args, Subcommand};

use super::orch_runs::{Phase, RunMode};
use super::parse::parse_label;

/// `aynig orch run create`.
#[derive(Debug, Args)]
pub(crate) struct OrchCreate {
    /// A text for people, one line
    #[arg(long, value_name = "TEXT", value_parser = parse_label)]
    pub(crate) label: Option<String>,

    /// The commit that work branches begin at
    #[arg(long, value_name = "REF", default_value = "HEAD", allow_hyphen_values = true)]
    pub(crate) base: String,

    /// Whether the orchestrator goes on by itself when nothing else is to be done [default: INTERACTIVE]
    #[arg(long, value_enum, value_name = "MODE")]
    pub(crate) mode: Option<RunMode>,

    /// What nodes may change [default: IMPLEMENTATION]
    #[arg(long, value_enum, value_name = "MODE")]
    pub(crate) global_mode: Option<Phase>,

    /// A bound: turns, wallSeconds, costUsd, tokens, nodes or depth; the run pauses when one is reached (repeatable)
    #[arg(long = "limit", value_name = "NAME=NUMBER", action = ArgAction::Append)]
    pub(crate) limits: Vec<String>,

    /// When the run is done: validator:NAME, or a text that the orchestrator reads
    #[arg(long, value_name = "TEXT")]
    pub(crate) done_when: Option<String>,

    /// Make the nodes, edges and first messages of this graph file, too; `-` is standard input
    #[arg(long = "from", value_name = "FILE")]
    pub(crate) graph_file: Option<PathBuf>,

    /// Leave the turns of each node to runners of its role: `aynig run --role ROLE`
    #[arg(long)]
    pub(crate) reserve_role: bool,
}

/// `aynig orch check`.
#[derive(Debug, Args)]
pub(crate) struct OrchCheck {
    /// The graph file
    #[arg(value_name = "FILE")]
    pub(crate) graph_file: PathBuf,
}

/// `aynig orch edge add`.
#[derive(Debug, Args)]
pub(crate) struct OrchEdgeAdd {
    /// The run; an agent in its turn leaves it out
    #[arg(value_name = "RUN")]
    pub(crate) run_name: String,

    /// The aliases of the sender and of the receiver
    #[arg(value_names = ["FROM", "TO"], num_args = 1..=2, required = true)]
    pub(crate) ends: Vec<String>,

    /// What is handed over [default: by the roles: `report` to an orchestrator, else `handoff`]
    #[arg(long = "type", value_enum, value_name = "TYPE")]
    pub(crate) edge_type: Option<Carries>,

    /// A text for people, one line [default: by the type]
    #[arg(long, value_name = "TEXT", value_parser = parse_label)]
    pub(crate) label: Option<String>,

    /// Whether TO may hand work to FROM as well [default: by the roles: not from and to an orchestrator]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
    pub(crate) bidirectional: Option<bool>,
}

/// The type of an edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Carries {
    /// Work is handed on
    Handoff,
    /// Results are reported
    Report,
}

/// `aynig orch template`.
#[derive(Debug, Args)]
#[command(disable_help_subcommand = true)]
pub(crate) struct OrchTemplate {
    /// The subcommand
    #[command(subcommand)]
    pub(crate) verb: OrchTemplateVerb,
}

/// The subcommands of `aynig orch template`.
#[derive(Debug, Subcommand)]
pub(crate) enum OrchTemplateVerb {
    /// List the roles that have a text: those of .aynig/templates/, and those that come with aynig
    List(OfBase),
    /// Print the text that a new node of a role would get
    Show(OrchTemplateShow),
}

/// A commit that has texts of roles.
#[derive(Debug, Args)]
pub(crate) struct OfBase {
    /// The commit whose .aynig/templates/ is read
    #[arg(long, value_name = "REF", default_value = "HEAD", allow_hyphen_values = true)]
    pub(crate) base: String,
}

/// `aynig orch template show`.
#[derive(Debug, Args)]
pub(crate) struct OrchTemplateShow {
    /// The role
    #[arg(value_name = "ROLE")]
    pub(crate) role: String,

    /// The commit
    #[command(flatten)]
    pub(crate) of: OfBase,
}
