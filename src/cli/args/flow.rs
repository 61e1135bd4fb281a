//! The options of `aynig flow`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use crate::cli::args::flow_runs::{FlowList, FlowOne};
use crate::cli::args::parse::parse_label;

/// `aynig flow`.
#[derive(Debug, Args)]
#[command(
    disable_help_subcommand = true,
    after_help = "FILE is YAML or JSON, `-` is standard input. RUN is a slug, the beginning of an id, or an id.\n\
    `aynig run` carries out the steps of runs, on this host or any other that shares their remote.\n\
    Exit codes: 0 done, with or without warnings; 1 the flow has a fault, there is no such run, a rule or the state of the run forbids it, or \
    (--wait) the run ended without success; 2 usage; 3 set-up (check --host: this host lacks something); 4 the remote does not answer; \
    5 (--wait) the run waits for a person."
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
    /// Draw the steps of a flow and the routes between them; of a run also what happened, and where it stands
    Graph(FlowGraph),
    /// List the runs of flows: where each stands, and what it waits for
    List(FlowList),
    /// Show a run: where it stands, its steps, and what to type next
    Show(FlowOne),
    /// Show what happened in a run: its steps, questions and answers
    Log(FlowOne),
    /// Print the JSON Schema of flow files, with which editors complete them
    Schema,
    /// Start a run of a flow: a workspace, and a driver that `aynig run` steps
    Start(FlowStart),
    /// Approve what the gate of a run asks
    Approve(FlowAnswer),
    /// Reject what the gate of a run asks
    Reject(FlowAnswer),
    /// Let a run begin no further step; one that is under way is ended, and its work saved
    Pause(FlowRun),
    /// Let a run go on that was paused, stopped or has failed
    Resume(FlowResume),
    /// End a run; its work stays
    Stop(FlowRun),
    /// Put the work of a run back to its base; what was there is saved, and the run is paused
    Rollback(FlowRollback),
    /// Start a new run that begins with a step of this one, and with the files that it began with
    Fork(FlowFork),
    /// Carry out the step that is due; only the command of a driver calls it
    Step,
    /// Carry on after a step that was cut off; only the command of a driver calls it
    Recover,
}

/// `aynig flow start`.
#[derive(Debug, Args)]
pub(crate) struct FlowStart {
    /// The flow file
    #[arg(value_name = "FILE")]
    pub(crate) flow_file: PathBuf,

    /// The commit that the work begins with
    #[arg(long, value_name = "REF", default_value = "HEAD", allow_hyphen_values = true)]
    pub(crate) base: String,

    /// The value of an input (repeatable); `@FILE` takes it from a file. A required one may not be empty
    #[arg(long = "input", value_name = "NAME=VALUE")]
    pub(crate) inputs: Vec<String>,

    /// Carry the run out here until it ends or waits for a person, with a line for each step
    #[arg(long)]
    pub(crate) wait: bool,

    /// A text for people, one line; the flow's `workflow_id` if it is empty or not given
    #[arg(long, value_name = "TEXT", value_parser = parse_label)]
    pub(crate) label: Option<String>,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// A run.
#[derive(Debug, Args)]
pub(crate) struct FlowRun {
    /// The run
    #[arg(value_name = "RUN")]
    pub(crate) run_name: String,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `aynig flow resume`.
#[derive(Debug, Args)]
pub(crate) struct FlowResume {
    /// The run
    #[command(flatten)]
    pub(crate) run: FlowRun,

    /// The step with which it goes on; else the one that is due, or the last one if that had no route
    #[arg(long, value_name = "STEP")]
    pub(crate) from: Option<String>,

    /// Continue with what the hub has, although it has set the ledger back: steps that it lost are carried out again
    #[arg(long)]
    pub(crate) accept: bool,

    /// Carry the run out here until it ends or waits for a person, with a line for each step
    #[arg(long)]
    pub(crate) wait: bool,
}

/// `aynig flow rollback`.
#[derive(Debug, Args)]
pub(crate) struct FlowRollback {
    /// The run
    #[command(flatten)]
    pub(crate) run: FlowRun,

    /// Bring back what the last rollback, or the last --undo, discarded
    #[arg(long)]
    pub(crate) undo: bool,
}

/// `aynig flow fork`.
#[derive(Debug, Args)]
pub(crate) struct FlowFork {
    /// The run
    #[command(flatten)]
    pub(crate) run: FlowRun,

    /// The first step of the new run: its work begins with the files that the latest visit of this step began with
    #[arg(long, value_name = "STEP")]
    pub(crate) at: String,

    /// Carry the new run out here until it ends or waits for a person, with a line for each step
    #[arg(long)]
    pub(crate) wait: bool,

    /// A text for people, one line; that of the run if it is empty or not given
    #[arg(long, value_name = "TEXT", value_parser = parse_label)]
    pub(crate) label: Option<String>,
}

/// `aynig flow approve` and `aynig flow reject`.
#[derive(Debug, Args)]
pub(crate) struct FlowAnswer {
    /// The run
    #[command(flatten)]
    pub(crate) run: FlowRun,

    /// Why
    #[arg(long, value_name = "TEXT")]
    pub(crate) comment: Option<String>,

    /// Carry the run out here until it ends or waits for a person, with a line for each step
    #[arg(long)]
    pub(crate) wait: bool,
    /// Answer only if the gate asks about this commit or its tree: the one that you looked at
    #[arg(long = "for", value_name = "COMMIT", allow_hyphen_values = true)]
    pub(crate) about: Option<String>,
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

    /// Name what this host lacks to carry it out, too: providers, validators, planners, approvers
    #[arg(long)]
    pub(crate) host: bool,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `aynig flow graph`.
#[derive(Debug, Args)]
pub(crate) struct FlowGraph {
    /// The flow file, or a run; a file with that name counts first
    #[arg(value_name = "FILE|RUN")]
    pub(crate) drawn: PathBuf,

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
