//! Tests of the model: its words in JSON, its rules by table, and its properties on random runs.

mod approvals;
mod auto;
mod names;
mod properties;
mod rules;
mod spawn;
mod steps;
mod texts;
mod waits;

use uuid::Uuid;

use super::by::By;
use super::decide::{Command, Decided, EdgeSpec, NewRun, NodeSpec, Op, Refusal, Rules, create, decide};
use super::ids::{Alias, NodeId, OpId, RunId, Slug};
use super::run::{DecidedBy, GlobalMode, Limits, Mode, Replicate, RunKind, RunStatus};
use super::state::State;
use super::time::Timestamp;

/// All statuses of a run.
const STATUSES: [RunStatus; 6] = [
    RunStatus::Queued,
    RunStatus::Running,
    RunStatus::Paused,
    RunStatus::Stopped,
    RunStatus::Completed,
    RunStatus::Failed,
];

/// A person's operation. Its id follows from the number.
pub(crate) fn op(number: u64) -> Op {
    let person = By::Person {
        name: "Ann".to_owned(),
        email: "ann@example.org".to_owned(),
        runner: "host-1".to_owned(),
        signature: None,
    };
    by(number, person)
}

/// A node's operation.
pub(super) fn node_op(number: u64, node: NodeId) -> Op {
    by(number, By::Node { node, runner: "host-1".to_owned() })
}

fn by(number: u64, by: By) -> Op {
    let at = Timestamp::from_millis(1_800_000_000_000 + i64::try_from(number).unwrap()).unwrap();
    Op { id: OpId::from(Uuid::from_u128(u128::from(number) + 1)), at, by }
}

/// A new run with this id.
pub(crate) fn new_run(id: u128, kind: RunKind) -> NewRun {
    let id = RunId::from(Uuid::from_u128(id));
    NewRun {
        id,
        slug: Slug::of(id, 8),
        kind,
        label: "fix 412".to_owned(),
        mode: Mode::Interactive,
        global_mode: GlobalMode::Implementation,
        base_ref: "refs/heads/main".to_owned(),
        base_sha: "0123456789012345678901234567890123456789".to_owned(),
        decided_by: DecidedBy::Repository("here".to_owned()),
        done_when: None,
        limits: Limits::default(),
        replicate: Replicate::All,
        status: RunStatus::Running,
        flow: None,
        reserve_role: false,
    }
}

/// A run without nodes.
pub(super) fn fresh() -> Decided {
    create(&new_run(0xabcd_ef01_2345_6789_abcd_ef01_2345_6789, RunKind::Graph), &op(0)).unwrap()
}

/// A run on which operations are decided one after the other.
pub(crate) struct Bench {
    pub(crate) state: State,
    number: u64,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self { state: fresh().state, number: 0 }
    }

    /// A person's command.
    pub(crate) fn run(&mut self, command: Command) -> Result<Decided, Refusal> {
        self.number += 1;
        self.decide(command, &op(self.number))
    }

    /// A node's command.
    pub(super) fn run_as(&mut self, node: NodeId, command: Command) -> Result<Decided, Refusal> {
        self.number += 1;
        self.decide(command, &node_op(self.number, node))
    }

    fn decide(&mut self, command: Command, op: &Op) -> Result<Decided, Refusal> {
        let decided = decide(&self.state, &[command], op, Rules::default())?;
        self.state = decided.state.clone();
        Ok(decided)
    }

    /// Adds a node, and returns its id.
    pub(crate) fn node(&mut self, alias: &str, role: &str) -> NodeId {
        self.run(Command::AddNode(Box::new(spec(alias, role)))).unwrap();
        self.state.node_named(&Alias::parse(alias).unwrap()).unwrap().id
    }

    /// Adds an edge with the defaults of the roles.
    pub(crate) fn edge(&mut self, from: NodeId, to: NodeId) -> Result<Decided, Refusal> {
        self.run(Command::AddEdge(edge(from, to)))
    }
}

pub(super) fn spec(alias: &str, role: &str) -> NodeSpec {
    NodeSpec {
        alias: Some(Alias::parse(alias).unwrap()),
        label: alias.to_owned(),
        role_template: role.to_owned(),
        role_text: None,
        provider: super::ids::ProviderName::parse("claude").unwrap(),
        model: None,
        capabilities: None,
        permissions: None,
        limits: Limits::default(),
        reserve_role: false,
    }
}

pub(super) fn edge(from: NodeId, to: NodeId) -> EdgeSpec {
    EdgeSpec { id: None, from, to, edge_type: None, label: None, bidirectional: None }
}
