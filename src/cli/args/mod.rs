//! The whole command line. `--help` and the options in the man pages are generated from here.
//!
//! Invariant: values that are wrong by themselves (an invalid state name, a trailer that only the runner may
//! write) are refused here, before a repository is opened. The subcommands check everything that depends on
//! the repository. Read-only subcommands are in `look`, those that set up and maintain a repository in
//! `upkeep`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};

use crate::cli::ui::logging::Level;
use aynig::contract::carried::KeepTrailers;
use aynig::contract::ids::{RemoteName, StateName};
use aynig::contract::lease::MAX_LEASE_SECONDS;
use aynig::contract::trailers::Trailer;

mod cancel;
mod flow;
mod flow_runs;
mod land;
mod look;
mod orch;
mod orch_artifacts;
mod orch_graphs;
mod orch_hand;
mod orch_nodes;
mod orch_runs;
mod parse;
mod people;
mod provider;
mod publish;
mod serve;
pub(crate) mod settings;
mod upkeep;
mod workspace;

pub(crate) use crate::cli::args::parse::not_an_interval;
use crate::cli::args::parse::{glob, parse_commit, parse_remote, parse_state, parse_trailer, seconds};

pub(crate) use crate::cli::args::cancel::Cancel;
pub(crate) use crate::cli::args::flow::{
    Flow, FlowAnswer, FlowCheck, FlowFork, FlowGraph, FlowRollback, FlowRun, FlowStart, FlowVerb, Format,
};
pub(crate) use crate::cli::args::flow_runs::{FlowList, FlowOne};
pub(crate) use crate::cli::args::land::Land;
pub(crate) use crate::cli::args::look::{Log, Logs, Status};
pub(crate) use crate::cli::args::orch::{
    For, Orch, OrchApprovals, OrchChat, OrchEdgeVerb, OrchEvents, OrchRunSet, OrchRunVerb, OrchVerb,
};
pub(crate) use crate::cli::args::orch_graphs::{
    Carries, OrchCheck, OrchCreate, OrchEdgeAdd, OrchTemplate, OrchTemplateVerb,
};
pub(crate) use crate::cli::args::orch_hand::{
    Expects, Keeps, OrchArtifact, OrchArtifactAdd, OrchArtifactVerb, OrchDone, OrchHandoff, OrchRoster,
    OrchSpawn,
};
pub(crate) use crate::cli::args::orch_nodes::{
    Manages, NodeSettings, OneNode, OrchNode, OrchNodeVerb, Permits,
};
pub(crate) use crate::cli::args::orch_runs::{Phase, RunMode};
pub(crate) use crate::cli::args::people::{Answer, Wait};
pub(crate) use crate::cli::args::provider::{Provider, ProviderCheck, ProviderVerb};
pub(crate) use crate::cli::args::publish::Publish;
pub(crate) use crate::cli::args::serve::Serve;
pub(crate) use crate::cli::args::settings::Given;
pub(crate) use crate::cli::args::upkeep::{
    Clean, Completions, Doctor, Hook, HookName, Init, Install, Manual, Shell,
};

pub(crate) use crate::cli::args::workspace::{One, Workspace, WorkspaceVerb};

/// All you need is git: run a workflow of states with nothing but a Git repository between the runners.
#[derive(Debug, Parser)]
#[command(
    name = "aynig",
    version,
    max_term_width = 100,
    subcommand_required = true,
    arg_required_else_help = true
)]
#[command(
    after_help = "The newest commit of a branch says what is to be done, in a trailer: `dwp-state: review`.\n\
    `aynig run` claims such a branch, runs .aynig/command/review in a worktree, and commits the next state.\n\
    See it at work: aynig demo"
)]
pub(crate) struct Arguments {
    /// Act as if started in DIR
    #[arg(short = 'C', value_name = "DIR", global = true, help_heading = "Global options")]
    pub(crate) directory: Option<PathBuf>,

    /// How much diagnosis goes to stderr; warnings and results are always shown [default: LOG_LEVEL, else error]
    #[arg(long, value_name = "LEVEL", global = true, help_heading = "Global options")]
    pub(crate) log_level: Option<Level>,

    /// Only warnings and errors on stderr: `run` and `status` print no progress and no summary there
    #[arg(short, long, global = true, help_heading = "Global options")]
    pub(crate) quiet: bool,

    /// More diagnosis: -v is --log-level info, -vv is --log-level debug
    #[arg(short, long, action = ArgAction::Count, global = true, help_heading = "Global options")]
    pub(crate) verbose: u8,

    /// The subcommand
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Run one step on every ready branch
    Run(Run),
    /// Make a small repository, run it to its end, and report what happened
    Demo(Demo),
    /// Declare the next state of a branch: one commit
    SetState(SetState),
    /// Claim a branch by hand, or renew the lease it is under
    SetWorking(SetWorking),
    /// Stop the commands of branches, or keep them from running
    Cancel(Cancel),
    /// Land the changes of a branch on the default branch, as one commit
    Land(Land),
    /// Answer a branch that waits for a person, or show its question
    Answer(Answer),
    /// Wait until branches rest, or reach a state
    Wait(Wait),
    /// Print the SET_STATE line with which a command declares its next state
    Next(Next),
    /// Show the state of branches, their lease holders, and the command that would run
    Status(Status),
    /// Show the history of a branch: attempts, how long they took, what failed and what followed
    Log(Log),
    /// Same as `log --json`: the history of a branch for programs
    Events(Log),
    /// Show what a command printed
    Logs(Logs),
    /// Make and show workspaces: a work branch with a worktree that lasts
    Workspace(Workspace),
    /// Push the work of a run to a branch of a remote, and propose it there
    Publish(Publish),
    /// Run graphs of agents: nodes, edges, messages, requests and events
    Orch(Orch),
    /// Check, draw and run flows: a task through agents, validators, a planner, gates and rollbacks
    Flow(Flow),
    /// List the agents that this host can run, and check whether they work
    Provider(Provider),
    /// Serve the runs: a page for browsers, REST, and a WebSocket with their events
    Serve(Serve),
    /// Remove leftovers of finished attempts: worktrees, logs, rescue refs
    Clean(Clean),
    /// Check the environment: git, the repository, its commands and its remote
    Doctor(Doctor),
    /// Prepare this checkout for commands: directories, documents, an example
    Init(Init),
    /// Copy a workflow pack, the .aynig/ of another repository, into this checkout
    Install(Install),
    /// Guard the branches of a server, as its git hook
    Hook(Hook),
    /// Show a manual page, or write all of them
    Manual(Manual),
    /// Print the completion script of a shell
    Completions(Completions),
}

/// `aynig run`.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "Exit codes: 0 done, nothing to do, or another runner was faster; 1 a command failed and its branch is stalled, \
    its result could not be landed, or a branch that was named does not exist; \
    2 usage; 3 set-up; 4 the remote cannot be reached or refuses; 70 a bug; 128+n stopped by signal n.\n\
    With --dry-run: 0 whatever it shows; 1 a branch that was named does not exist; the others as above."
)]
pub(crate) struct Run {
    /// Same as --branch: only the branches whose name matches GLOB (`*` also matches `/`)
    #[arg(value_name = "GLOB", value_parser = glob())]
    pub(crate) names: Vec<String>,

    /// The settings
    #[command(flatten)]
    pub(crate) settings: Given,

    /// Repeat until a pass finds nothing to do
    #[arg(long, conflicts_with = "watch")]
    pub(crate) drain: bool,

    /// Stay: look again on every change of a local branch, and every DURATION [default: 10s]
    #[arg(long, value_name = "DURATION", num_args = 0..=1, require_equals = true, default_missing_value = "10",
          value_parser = seconds(1..=86_400))]
    pub(crate) watch: Option<u64>,

    /// Show what one pass would do now, branch by branch, and do none of it. The remote is fetched from, as by a pass
    #[arg(long, conflicts_with_all = ["drain", "watch"])]
    pub(crate) dry_run: bool,

    /// Print a summary as JSON on stdout; with --watch a line for each round that did something
    #[arg(long)]
    pub(crate) json: bool,
}

/// `aynig demo`.
#[derive(Debug, Args)]
#[command(after_help = "Needs git; no network, no configuration. What it made stays, to be looked into.\n\
    Exit codes: 0 done; 2 usage; 3 DIR is not empty, or set-up.")]
pub(crate) struct Demo {
    /// Run a flow instead: an agent, tests, a planner and a person's approval, with scripts in the place of agent and planner
    #[arg(long)]
    pub(crate) flow: bool,

    /// Run a graph instead: an agent that writes, one that reviews, and a person's approval, with a script in the place of both
    #[arg(long, conflicts_with = "flow")]
    pub(crate) orchestration: bool,

    /// Where to make the repository: a directory that is empty or does not exist [default: a temporary one]
    #[arg(value_name = "DIR")]
    pub(crate) place: Option<PathBuf>,
}

/// `aynig set-state`.
#[derive(Debug, Args)]
#[command(
    after_help = "Without BRANCH it acts on the branch that is checked out here, with the index as its tree; inside a command, on the \
    branch the command was started for, as long as its attempt holds it. With BRANCH it moves a branch without a checkout.\n\
    Exit codes: 0 done; 1 no such branch, the branch moved meanwhile, or the attempt no longer holds it; 2 usage; 3 set-up; \
    4 the remote cannot be reached or refuses."
)]
#[command(group(clap::ArgGroup::new("wanted").required(true)))]
pub(crate) struct SetState {
    /// The state to declare; the command .aynig/command/STATE does what it asks for
    #[arg(long, value_name = "STATE", alias = "dwp-state", value_parser = parse_state, group = "wanted")]
    pub(crate) state: Option<StateName>,

    /// Request the last state again: state, subject, body and trailers (dwp-not-before left out, so at once) of the newest commit
    /// below that is neither a lease nor stalled. A --trailer replaces its trailers with the same key
    #[arg(long, group = "wanted", conflicts_with_all = ["subject", "body", "body_file", "body_stdin", "keep_trailers"])]
    pub(crate) retry: bool,

    /// The branch, whatever is checked out. With --retry several; a glob selects those that are stalled (`*` also matches `/`)
    #[arg(value_name = "BRANCH", conflicts_with = "branch")]
    pub(crate) name: Vec<OsString>,

    /// Keep the body of the commit that requested the work: HEAD's, or that below a lease or a stalled commit. A --body
    /// then becomes a marked section below it
    #[arg(long, conflicts_with = "retry")]
    pub(crate) keep_body: bool,

    /// Keep that body and add TEXT below it as a marked section: who, when, in which state. Works with --retry too
    #[arg(
        long,
        value_name = "TEXT",
        allow_hyphen_values = true,
        conflicts_with = "body_source",
        group = "reply_source"
    )]
    pub(crate) reply: Option<OsString>,

    /// Read the text of --reply from FILE (`-`: from stdin)
    #[arg(long, value_name = "FILE", conflicts_with = "body_source", group = "reply_source")]
    pub(crate) reply_file: Option<PathBuf>,

    /// Length of the lease that the command runs under [default: as before with --retry, else
    /// that of the runner]
    #[arg(long, value_name = "DURATION", allow_negative_numbers = true, value_parser = seconds(1..=MAX_LEASE_SECONDS))]
    pub(crate) lease_seconds: Option<u64>,

    /// Override the live lease of another runner, which then stops the command and saves its work; the commit names the attempt
    #[arg(long)]
    pub(crate) force: bool,

    /// Set the state at once if the branch rests; else leave it beside the branch, and the next runner that finds the
    /// branch at rest sets it
    #[arg(long, conflicts_with = "force")]
    pub(crate) when_free: bool,

    /// Remove the state that --when-free has left beside the branch
    #[arg(long, group = "wanted", conflicts_with_all = ["subject", "body", "body_file", "body_stdin", "trailer", "keep_trailers", "keep_body", "reply_source", "lease_seconds", "force", "when_free", "accept_unsigned"])]
    pub(crate) withdraw: bool,

    /// With --when-free: also replace a parked state, and one that waits for an answer
    #[arg(long, requires = "when_free")]
    pub(crate) wake: bool,

    /// With --when-free: wait until the state is set, also for another one that waits already
    #[arg(long, requires = "when_free")]
    pub(crate) wait: bool,

    /// With --wait: give up waiting after DURATION (exit code 1); the state stays where it is
    #[arg(long, value_name = "DURATION", allow_negative_numbers = true, requires = "wait", value_parser = seconds(1..=31_536_000))]
    pub(crate) timeout: Option<u64>,

    /// What to write, and where
    #[command(flatten)]
    pub(crate) commit: CommitOptions,
}

/// `aynig set-working`.
#[derive(Debug, Args)]
#[command(
    after_help = "A renewal keeps the attempt, the runner, the length and the trailers of the lease it follows. For a process that a command \
    left behind: it keeps the branch while the work goes on, and ends it with set-state.\n\
    Exit codes: 0 done; 1 no such branch, the branch moved meanwhile, or the attempt no longer holds it; 2 usage; 3 set-up; \
    4 the remote cannot be reached or refuses."
)]
pub(crate) struct SetWorking {
    /// The branch, whatever is checked out
    #[arg(value_name = "BRANCH", conflicts_with = "branch")]
    pub(crate) name: Option<OsString>,

    /// Length of the lease from now (5m, 2h, or seconds) [default: as before, else 300]
    #[arg(long, value_name = "DURATION", allow_negative_numbers = true, value_parser = seconds(1..=MAX_LEASE_SECONDS))]
    pub(crate) lease_seconds: Option<u64>,

    /// What to write, and where
    #[command(flatten)]
    pub(crate) commit: CommitOptions,
}

/// `aynig next`.
#[derive(Debug, Args)]
#[command(
    after_help = "For commands without a JSON library: \"$AYNIG_BIN\" next review --subject \"review: $DWP_TITLE\" --body-file notes.txt\n\
    It prints one line that the runner accepts and nothing else, or an error on stderr and no line. It moves no branch and needs no repository.\n\
    Exit codes: 0 done; 2 usage: a state, trailer or text that cannot be declared; 3 set-up."
)]
pub(crate) struct Next {
    /// The next state
    #[arg(value_name = "STATE", value_parser = parse_state, required_unless_present = "unable")]
    pub(crate) state: Option<StateName>,

    /// Hand the request back instead: this host cannot do it, and TEXT says why. Other hosts may run it at once, this
    /// one after a pause that grows from 30 seconds to 10 minutes
    #[arg(long, value_name = "TEXT", exclusive = true, allow_hyphen_values = true)]
    pub(crate) unable: Option<String>,

    /// Keep the body of the commit that requested the work; a --body then becomes a marked section below it
    #[arg(long)]
    pub(crate) keep_body: bool,

    /// Length of the lease that the command of STATE runs under [default: the runner's aynig.leaseSeconds]
    #[arg(long, value_name = "DURATION", allow_negative_numbers = true, value_parser = seconds(1..=MAX_LEASE_SECONDS))]
    pub(crate) lease_seconds: Option<u64>,

    /// What the commit says
    #[command(flatten)]
    pub(crate) text: Text,
}

/// Which trailers are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Keep {
    /// Those whose key begins with dwp-
    Dwp,
    /// All of them
    All,
}

impl From<Keep> for KeepTrailers {
    fn from(keep: Keep) -> Self {
        match keep {
            Keep::Dwp => Self::Dwp,
            Keep::All => Self::All,
        }
    }
}

/// What a commit says.
#[derive(Debug, Args)]
pub(crate) struct Text {
    /// The commit's subject [default: chore: set STATE]
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) subject: Option<String>,

    /// The commit's body, which the command gets as BODY
    #[arg(long, value_name = "TEXT", alias = "prompt", allow_hyphen_values = true, group = "body_source")]
    pub(crate) body: Option<OsString>,

    /// Read the body from FILE (`-`: from stdin)
    #[arg(long, value_name = "FILE", alias = "prompt-file", group = "body_source")]
    pub(crate) body_file: Option<PathBuf>,

    /// Read the body from stdin
    #[arg(long, alias = "prompt-stdin", group = "body_source")]
    pub(crate) body_stdin: bool,

    /// Add a trailer (repeatable); commands get it as a variable. `dwp-not-before: +2h` becomes the time two hours from now
    #[arg(long, value_name = "KEY: VALUE", action = ArgAction::Append, value_parser = parse_trailer)]
    pub(crate) trailer: Vec<Trailer>,

    /// Keep the dwp-* trailers of the commit before, except the runner's own. With `all`, also every other trailer of
    /// the commit that requested the work. A --trailer replaces kept ones of the same key
    #[arg(long, value_name = "WHICH", num_args = 0..=1, require_equals = true, default_missing_value = "dwp")]
    pub(crate) keep_trailers: Option<Keep>,
}

/// What a commit by hand may hold.
#[derive(Debug, Args)]
pub(crate) struct CommitOptions {
    /// Put the commit on the branch of this remote [default: AYNIG_REMOTE inside a command, else what
    /// `dwp-source` at HEAD names]
    #[arg(long, alias = "dwp-remote", value_name = "NAME", value_parser = parse_remote)]
    pub(crate) remote: Option<RemoteName>,

    /// What it says
    #[command(flatten)]
    pub(crate) text: Text,

    /// Same as the BRANCH argument
    #[arg(long, value_name = "BRANCH")]
    pub(crate) branch: Option<OsString>,

    /// Sign on top of a commit that aynig.requireSigned refuses, too: you have read it, and vouch for its files and its message
    #[arg(long)]
    pub(crate) accept_unsigned: bool,

    /// Only if the branch is at COMMIT still (its first 7 digits or more)
    #[arg(long, value_name = "COMMIT", value_parser = parse_commit)]
    pub(crate) expect: Option<String>,

    /// Only if the newest commit of the branch declares STATE (`working` under a lease)
    #[arg(long, value_name = "STATE", value_parser = parse_state)]
    pub(crate) if_state: Option<StateName>,

    /// Print what was set as JSON
    #[arg(long)]
    pub(crate) json: bool,
}
