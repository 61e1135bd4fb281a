//! The options of `aynig orch`.

use clap::{ArgAction, Args, Subcommand};

use super::orch_graphs::{OrchCheck, OrchCreate, OrchEdgeAdd, OrchTemplate};
use super::orch_hand::{OrchArtifact, OrchDone, OrchHandoff, OrchRoster, OrchSpawn};
use super::orch_nodes::OrchNode;
use super::orch_runs::{OneRun, Phase, RunMode};

/// `aynig orch`.
#[derive(Debug, Args)]
#[command(
    disable_help_subcommand = true,
    after_help = "RUN is a slug, the beginning of a run's id, or an id. With aynig.remote the ledgers are fetched first, except by doctor and rebuild.\n\
    Exit codes: 0 done; 1 refused, no such run, several that are meant, or a fault that `doctor` found; 2 usage; 3 set-up; 4 the remote does not answer; 5 a person was asked, and has not answered (approvals: with --exit-code)."
)]
pub(crate) struct Orch {
    /// Print JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// The subcommand
    #[command(subcommand)]
    pub(crate) verb: OrchVerb,
}

/// The subcommands of `aynig orch`.
#[derive(Debug, Subcommand)]
pub(crate) enum OrchVerb {
    /// Runs
    Run(OrchRun),
    /// Nodes: the agents of a run
    Node(OrchNode),
    /// Edges: who may hand work to whom
    Edge(OrchEdge),
    /// Send a message to a node, or to the orchestrator of the run
    Chat(OrchChat),
    /// Hand work to another node; an agent calls it in its turn, and it takes effect when that has ended well
    Handoff(OrchHandoff),
    /// Make a node; an agent calls it in its turn, and it takes effect when that has ended well
    Spawn(OrchSpawn),
    /// Files of a run
    Artifact(OrchArtifact),
    /// Show the nodes of a run and the ways between them; to an agent in its turn also what it may do
    Roster(OrchRoster),
    /// Serve the commands of an agent in its turn as tools of the Model Context Protocol, on standard input and output;
    /// only the program of an agent calls it
    #[command(hide = true)]
    Mcp,
    /// End the run; an orchestrator calls it in its turn, and it takes effect when that has ended well
    Done(OrchDone),
    /// List the requests of nodes that wait for an answer
    Approvals(OrchApprovals),
    /// Let a tool run that a node asked for
    Approve(OrchApprove),
    /// Deny a tool that a node asked for
    Deny(OrchDeny),
    /// Take back what `approve --always` gave
    Revoke(OrchRevoke),
    /// Show a run: its status, its nodes, and what it waits for
    Show(OneRun),
    /// Show the events of a run
    Events(OrchEvents),
    /// Compare a run's ledger with itself, and its files with the ledger
    Doctor(OneRun),
    /// Make the files of a run anew from its ledger; what only this host saw of it is gone then
    Rebuild(OneRun),
    /// Report all faults of a graph file at once, each with line and column
    Check(OrchCheck),
    /// Print the JSON Schema of graph files, with which editors complete them
    Schema,
    /// Texts of roles
    Template(OrchTemplate),
    /// Carry out the turn of a node that is due; only the command of a driver calls it
    #[command(hide = true)]
    Turn,
    /// Carry on after a turn that was cut off; only the command of a driver calls it
    #[command(hide = true)]
    Recover,
}

/// `aynig orch run`.
#[derive(Debug, Args)]
#[command(disable_help_subcommand = true)]
pub(crate) struct OrchRun {
    /// The subcommand
    #[command(subcommand)]
    pub(crate) verb: OrchRunVerb,
}

/// The subcommands of `aynig orch run`.
#[derive(Debug, Subcommand)]
pub(crate) enum OrchRunVerb {
    /// List all runs
    List,
    /// Make a graph: without nodes, or with those of a file
    Create(OrchCreate),
    /// Let nodes begin no further turn; those under way are ended
    Pause(OneRun),
    /// Let a run go on
    Resume(OneRun),
    /// End a run; its work stays
    Stop(OneRun),
    /// End a run that has reached its goal; its work stays
    Complete(OneRun),
    /// Change a run
    Set(OrchRunSet),
    /// Delete a run, and its worktrees on this host; its ledger and its work are archived
    Delete(OneRun),
}

/// `aynig orch run set`.
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("settings").multiple(true).required(true)
    .args(["label", "mode", "global_mode", "limits", "done_when"])))]
pub(crate) struct OrchRunSet {
    /// The run
    #[arg(value_name = "RUN")]
    pub(crate) run_name: String,

    /// A text for people
    #[arg(long, value_name = "TEXT")]
    pub(crate) label: Option<String>,

    /// Whether the orchestrator goes on by itself while nothing is under way
    #[arg(long, value_enum, value_name = "MODE")]
    pub(crate) mode: Option<RunMode>,

    /// What nodes may change from their next turn on
    #[arg(long, value_enum, value_name = "MODE")]
    pub(crate) global_mode: Option<Phase>,

    /// A bound: turns, wallSeconds, costUsd, tokens, nodes or depth (repeatable; NAME=none removes one)
    #[arg(long = "limit", value_name = "NAME=NUMBER", action = ArgAction::Append)]
    pub(crate) limits: Vec<String>,

    /// When the run is done: a text for the agents, or validator:NAME for `aynig.validator.NAME`; empty: nothing is stated
    #[arg(long, value_name = "TEXT")]
    pub(crate) done_when: Option<String>,
}

/// `aynig orch edge`.
#[derive(Debug, Args)]
#[command(disable_help_subcommand = true)]
pub(crate) struct OrchEdge {
    /// The subcommand
    #[command(subcommand)]
    pub(crate) verb: OrchEdgeVerb,
}

/// The subcommands of `aynig orch edge`.
#[derive(Debug, Subcommand)]
pub(crate) enum OrchEdgeVerb {
    /// Let a node hand work to another one
    Add(OrchEdgeAdd),
    /// Remove an edge
    Remove(OrchEdgeRemove),
}

/// `aynig orch edge remove`.
#[derive(Debug, Args)]
pub(crate) struct OrchEdgeRemove {
    /// The run
    #[arg(value_name = "RUN")]
    pub(crate) run_name: String,

    /// The id of the edge, or the beginning of it; with TO the alias of its sender
    #[arg(value_name = "EDGE")]
    pub(crate) edge: String,

    /// The alias of its receiver
    #[arg(value_name = "TO")]
    pub(crate) to: Option<String>,
}

/// `aynig orch chat`.
#[derive(Debug, Args)]
pub(crate) struct OrchChat {
    /// The run
    #[arg(value_name = "RUN")]
    pub(crate) run_name: String,

    /// The alias of the node, and the text; the text alone goes to the orchestrator
    #[arg(value_names = ["ALIAS", "TEXT"], num_args = 1..=2, required = true)]
    pub(crate) words: Vec<String>,

    /// End a turn of the node that is under way, and read this first; the messages of that turn stay unread
    #[arg(long)]
    pub(crate) interrupt: bool,
}

/// `aynig orch approvals`.
#[derive(Debug, Args)]
pub(crate) struct OrchApprovals {
    /// Also requests with an answer that their node has not read
    #[arg(long)]
    pub(crate) all: bool,

    /// What nodes may do without asking, by `approve --always`
    #[arg(long, conflicts_with = "all")]
    pub(crate) grants: bool,

    /// Exit with 5 if a request waits
    #[arg(long)]
    pub(crate) exit_code: bool,
}

/// `aynig orch revoke`.
#[derive(Debug, Args)]
pub(crate) struct OrchRevoke {
    /// The id of the approval, or the beginning of it
    #[arg(value_name = "ID")]
    pub(crate) id: String,
}

/// The calls that `approve --always` allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum For {
    /// Calls with equal arguments
    Call,
    /// All calls of the tool
    Tool,
}

/// `aynig orch approve`.
#[derive(Debug, Args)]
pub(crate) struct OrchApprove {
    /// The id of the request, or the beginning of it
    #[arg(value_name = "ID")]
    pub(crate) id: String,

    /// Let it run with these arguments instead: a JSON object
    #[arg(long, value_name = "JSON")]
    pub(crate) args: Option<String>,

    /// Let the node do this without asking from now on
    #[arg(
        long,
        value_enum,
        value_name = "WHAT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "call",
        conflicts_with = "args"
    )]
    pub(crate) always: Option<For>,
}

/// `aynig orch deny`.
#[derive(Debug, Args)]
pub(crate) struct OrchDeny {
    /// The id of the request, or the beginning of it
    #[arg(value_name = "ID")]
    pub(crate) id: String,

    /// The reason, which the agent reads
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) reason: String,
}

/// `aynig orch events`.
#[derive(Debug, Args)]
pub(crate) struct OrchEvents {
    /// The run
    #[command(flatten)]
    pub(crate) one: OneRun,

    /// Go on until the run has ended
    #[arg(short = 'f', long)]
    pub(crate) follow: bool,

    /// Only events whose type matches GLOB (repeatable)
    #[arg(long = "type", value_name = "GLOB", action = ArgAction::Append)]
    pub(crate) types: Vec<String>,

    /// Only events with a greater number
    #[arg(long, value_name = "SEQ", default_value_t = 0, hide_default_value = true)]
    pub(crate) after: u64,
}
