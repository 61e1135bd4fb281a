//! The flow engine: starts runs of flows, and carries out one step of a run at a time (CONTRACT.md §20).
//!
//! # Theory of operation
//!
//! A run of a flow has a ledger, a workspace named `flow`, and a *driver*: a branch whose commands call this program. Each
//! attempt of the driver executes one step: it reads from the ledger what is due, does it in the workspace's worktree,
//! takes a snapshot, and ends in one transaction, which records the step, moves the work branch and declares the driver's
//! next state, and which only the holder of the driver's lease can make. So a step happened wholly or not at all, and
//! the next holder of the lease, on any host, reads the same ledger.
//!
//! Invariant: what is due follows from the ledger alone. A step that has ended is never carried out again.
//!
//! | file | contains |
//! |---|---|
//! | [`driver`] | the branch that the runner steps, and its commits |
//! | [`start`] | makes a run |
//! | [`attempt`] | one attempt of the driver: from what is due to its end |
//! | `course` | how a step went |
//! | `conclude` | the transaction that ends it |
//! | `limits` | when a run rests by itself |
//! | `agent` | RUN_AGENT |
//! | `checking` | RUN_VALIDATION |
//! | `judging` | EVALUATE |
//! | `prompt` | the text that an agent is given |
//! | `gate` | GATE |
//! | `question` | the question of a gate, and its answer |
//! | `answered` | what became of an answer, in words |
//! | `signed` | who signed an answer |
//! | [`validation`] | RUN_VALIDATION |
//! | [`evaluation`] | EVALUATE |
//! | [`policy`] | what a step may do |
//! | [`record`] | what a step leaves |
//! | `program`, `script` | runs one program; scripts of the base commit |
//! | `stirred` | whether files are changing |
//! | `outside` | what a step changed outside of its worktree |
//! | `kept_end` | the end of an attempt until the remote has taken it |
//! | `leases` | attempts that were interrupted, by the driver's commits |
//! | `salvage` | what an attempt that was cut off left in the worktree |
//! | `session` | sessions of agents that are continued |
//! | [`recover`] | after an attempt that was cut off |
//! | [`lacking`] | what this host lacks for a flow |
//! | [`hear`] | a live step reads that its run rests |
//! | [`control`] | a person stops, pauses or resumes a run |
//! | [`rollback`] | a person puts the work of a run back |
//! | [`graph`] | the turns of nodes, and operations on graphs |
//! | [`fork`] | a person lets a new run begin in the middle of another one |

mod agent;
mod answered;
pub mod attempt;
mod checking;
mod conclude;
pub mod control;
mod course;
pub mod driver;
pub mod evaluation;
pub mod fork;
mod gate;
pub mod graph;
pub mod hear;
mod judging;
mod kept_end;
pub mod lacking;
mod leases;
mod limits;
mod outside;
pub mod policy;
pub(crate) mod program;
mod prompt;
mod question;
pub mod record;
pub mod recover;
pub mod rollback;
mod salvage;
pub(crate) mod script;
mod session;
mod signed;
pub mod start;
mod stirred;
pub mod validation;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use crate::clock;
use crate::contract::ids::{BranchName, CommitId, RemoteName, StateName};
use crate::flow::document::Flow;
use crate::git::Repo;
use crate::journal::directory::RunDirectory;
use crate::ledger::{Ledger, LedgerError, Place, content};
use crate::model::by::By;
use crate::model::decide::Op;
use crate::model::ids::{OpId, RunId};
use crate::model::run::Run;
use crate::model::state::State;
use crate::model::time::Timestamp;
use crate::provider::Provider;
use crate::stop::Stop;
use crate::supervise::Watchdog;
use crate::workspace::Workspaces;
use crate::workspace::refusal::{Refusal, Why};

pub use program::Bounds;
pub use stirred::Stirred;

/// The name of the one node and of the one workspace of a flow run.
pub const FLOW: &str = "flow";

/// Finds a provider that this host has by its name. The error says why it cannot be used here.
pub type Providers<'a> = dyn Fn(&str) -> Result<Provider, String> + 'a;

/// Finds the text of a role for a node of a run with this base.
pub type Roles<'a> = dyn Fn(&str, &str) -> Result<Option<String>, Refusal> + 'a;

/// Refuses the flow of a run with this base, whose file has this content, if no step of it may be carried out here.
pub type Vets<'a> = dyn Fn(&Flow, &[u8], CommitId) -> Result<(), Refusal> + 'a;

/// The engine, with what this host lends to it.
pub struct Engine<'a> {
    /// The repository.
    pub repo: &'a Repo,
    /// Its workspaces.
    pub workspaces: Workspaces<'a>,
    /// The beginning of the names of drivers: `aynig.runPrefix`.
    pub run_prefix: String,
    /// The length of a driver's lease, in seconds.
    pub lease_seconds: u64,
    /// How much later a host takes over a lease on a remote: `aynig.skewSeconds`.
    pub skew_seconds: u64,
    /// How many turns without progress pause a graph: `aynig.stallRepeats`.
    pub stall_repeats: usize,
    /// The pauses before a node tries again: `aynig.retryPause`.
    pub pauses: Vec<Duration>,
    /// How requests of nodes are treated here.
    pub manners: graph::answers::Manners,
    /// The providers of this host.
    pub providers: Box<Providers<'a>>,
    /// The text of a role for a node of a run with this base, if there is one.
    pub roles: Box<Roles<'a>>,
    /// Whether steps of a flow are carried out here (`aynig.commandsFrom`).
    pub vets: Box<Vets<'a>>,
    /// The command lines of validators: `aynig.validator.<name>`.
    pub validators: BTreeMap<String, String>,
    /// The command lines of planners: `aynig.evaluator`, and those with a name.
    pub evaluators: BTreeMap<String, String>,
    /// Variables for programs of a step, besides their own.
    pub environment: Vec<(OsString, OsString)>,
    /// This executable.
    pub program: PathBuf,
    /// Ends the programs of a step if this process is killed.
    pub watchdog: Watchdog,
    /// The id of the next operation, for a client that may ask for it twice.
    pub op: Cell<Option<OpId>>,
    /// Ends a step early.
    pub stop: Stop,
    /// Tells the user something at once.
    pub tell: fn(&str),
    /// Hears of each new state of a driver that this process wrote, once the place of decision has it.
    pub moved: Box<dyn Fn(&Moved<'_>) + 'a>,
}

/// A driver that has a new state.
#[derive(Debug)]
pub struct Moved<'s> {
    /// The driver.
    pub branch: &'s BranchName,
    /// The remote that decides it.
    pub remote: Option<&'s RemoteName>,
    /// The commit of the new state.
    pub commit: CommitId,
    /// The state before. Of an attempt, the one that asked for it.
    pub previous: Option<StateName>,
    /// The run, as its ledger has it.
    pub run: &'s State,
}

impl Engine<'_> {
    /// An operation of this program on this host.
    pub(crate) fn op(&self) -> Result<Op, Refusal> {
        self.op_by(By::Runner { runner: self.repo.runner_id().to_owned() })
    }

    /// An operation of the person who typed the command.
    pub(crate) fn op_of_person(&self) -> Result<Op, Refusal> {
        self.op_by(self.workspaces.options.by.clone())
    }

    pub(crate) fn op_by(&self, by: By) -> Result<Op, Refusal> {
        Ok(Op { id: self.op.take().unwrap_or_else(OpId::random), at: now()?, by })
    }

    /// The directory of a run on this host.
    pub fn directory(&self, run: RunId) -> RunDirectory {
        RunDirectory::of(self.repo, run)
    }
}

/// The time now.
pub(crate) fn now() -> Result<Timestamp, Refusal> {
    let now = Timestamp::from_millis(clock::wall_millis());
    now.ok_or_else(|| Refusal::new(Why::Setup, "the clock of this host is out of range"))
}

/// The frozen file of a run's flow.
pub(crate) fn frozen_file(repo: &Repo, ledger: &Ledger<'_>) -> Result<Vec<u8>, Refusal> {
    let run = &ledger.tip().state.run;
    let frozen = run.flow.as_ref().ok_or_else(|| no_flow(run))?;
    frozen_content(repo, ledger, &frozen.file)
}

/// A content that was frozen into a run.
pub(crate) fn frozen_content(repo: &Repo, ledger: &Ledger<'_>, digest: &str) -> Result<Vec<u8>, Refusal> {
    let found = content::read(repo, ledger.tip(), digest)?;
    found.ok_or_else(|| {
        let message = format!("the ledger of run {} lacks a part of its flow", ledger.tip().state.run.slug);
        Refusal::new(Why::Failed, message).hint(format!(
            "`aynig orch doctor {}` shows what else is wrong with it",
            ledger.tip().state.run.slug
        ))
    })
}

fn no_flow(run: &Run) -> Refusal {
    Refusal::new(Why::Failed, format!("run {} is a graph, and no flow", run.slug))
        .hint("`aynig flow list` lists the runs of flows")
}

/// The remote that decides a run, if one does.
pub(crate) fn remote_of(place: &Place) -> Option<&RemoteName> {
    match place {
        Place::Here => None,
        Place::Remote(remote) => Some(remote),
    }
}

/// Opens the ledger of a run, as the place of decision has it now.
pub(crate) fn open<'r>(repo: &'r Repo, run: RunId) -> Result<Ledger<'r>, LedgerError> {
    let mut ledger = Ledger::open(repo, run)?;
    ledger.refresh()?;
    Ok(ledger)
}
