//! The options of `aynig orch node`.

use clap::{ArgAction, Args, Subcommand};

/// `aynig orch node`.
#[derive(Debug, Args)]
#[command(disable_help_subcommand = true)]
pub(crate) struct OrchNode {
    /// The subcommand
    #[command(subcommand)]
    pub(crate) verb: OrchNodeVerb,
}

/// The subcommands of `aynig orch node`.
#[derive(Debug, Subcommand)]
pub(crate) enum OrchNodeVerb {
    /// Make a node
    Add(OrchNodeAdd),
    /// Change a node; its next turn has the new settings
    Set(OrchNodeSet),
    /// Let a node go on that has failed, was stopped or was interrupted
    Start(OneNode),
    /// End the turn of a node, and let it begin no other one until it is started; its messages stay
    Stop(OneNode),
    /// End the turn of a node; it reads its messages again when a person sends one
    Interrupt(OneNode),
    /// Let the next turn of a node begin a new session; its messages stay
    Reset(OneNode),
    /// Remove a node, its edges, and its workspace on this host; its work is archived
    Remove(OneNode),
}

/// `aynig orch node add`.
#[derive(Debug, Args)]
pub(crate) struct OrchNodeAdd {
    /// The run
    #[arg(value_name = "RUN")]
    pub(crate) run_name: String,

    /// Its alias: a-z, 0-9 and dashes, at most 32 [default: made from the label]
    #[arg(value_name = "ALIAS")]
    pub(crate) alias: Option<String>,

    /// Its role; `aynig orch template list` lists those that have a text
    #[arg(long, value_name = "ROLE")]
    pub(crate) role: String,

    /// Leave its turns to runners of its role: `aynig run --role ROLE`
    #[arg(long)]
    pub(crate) reserve_role: bool,

    /// Its provider: a name of `aynig provider list`
    #[arg(long, value_name = "NAME")]
    pub(crate) provider: String,

    /// What it may do, and its texts
    #[command(flatten)]
    pub(crate) settings: NodeSettings,
}

/// `aynig orch node set`.
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("wanted").multiple(true).required(true).args([
    "role", "provider", "label", "model", "permissions", "management_approval", "edge_management", "capabilities", "limits",
])))]
pub(crate) struct OrchNodeSet {
    /// The node
    #[command(flatten)]
    pub(crate) one: OneNode,

    /// Its role; what it may do stays
    #[arg(long, value_name = "ROLE")]
    pub(crate) role: Option<String>,

    /// Its provider: a name of `aynig provider list`
    #[arg(long, value_name = "NAME")]
    pub(crate) provider: Option<String>,

    /// What it may do, and its texts
    #[command(flatten)]
    pub(crate) settings: NodeSettings,
}

/// Settings of a new node and of a known one.
#[derive(Debug, Args)]
pub(crate) struct NodeSettings {
    /// A text for people [default of a new node: the alias]
    #[arg(long, value_name = "TEXT")]
    pub(crate) label: Option<String>,

    /// The model, as the provider names it; empty: the provider's own
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,

    /// Whether a person is asked before each tool that changes something [default of a new node: gated]
    #[arg(long, value_enum, value_name = "MODE")]
    pub(crate) permissions: Option<Permits>,

    /// Whether a person is asked before it makes nodes or edges [default of a new node: true]
    #[arg(long, value_name = "BOOL", action = ArgAction::Set)]
    pub(crate) management_approval: Option<bool>,

    /// The edges that it may change in its turn [default of a new node: by its role]
    #[arg(long, value_enum, value_name = "WHICH")]
    pub(crate) edge_management: Option<Manages>,

    /// What it may do: writeCode, writeDocs, runCommands, delegateOnly; with =true or =false (repeatable) [default of a new node: by its role]
    #[arg(long = "capability", value_name = "NAME=BOOL", action = ArgAction::Append)]
    pub(crate) capabilities: Vec<String>,

    /// A bound: turns, wallSeconds, costUsd or tokens; the run pauses when it is reached (repeatable; NAME=none removes one)
    #[arg(long = "limit", value_name = "NAME=NUMBER", action = ArgAction::Append)]
    pub(crate) limits: Vec<String>,
}

/// The permissions of a node's program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Permits {
    /// Nobody is asked: all requests are granted
    Skip,
    /// A person is asked, and answers with `aynig orch approvals`
    Gated,
}

/// The edges that a node may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Manages {
    /// None
    None,
    /// Edges from or to itself
    #[value(name = "self")]
    Own,
    /// All edges, and nodes
    All,
}

/// A subcommand about one node.
#[derive(Debug, Args)]
pub(crate) struct OneNode {
    /// The run
    #[arg(value_name = "RUN")]
    pub(crate) run_name: String,

    /// The alias of the node
    #[arg(value_name = "ALIAS")]
    pub(crate) alias: String,
}
