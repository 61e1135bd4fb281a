//! Commands: what may be asked of a run.

use serde::{Deserialize, Serialize};

use super::auto::Finding;
use crate::model::approval::{Always, Resolution, Tool};
use crate::model::artifact::ArtifactKind;
use crate::model::edge::EdgeType;
use crate::model::event::WorkspaceChanged;
use crate::model::ids::{
    Alias, ApprovalId, ArtifactId, EdgeId, FileName, MessageId, NodeId, ProviderName, RunId, Slug, StepId,
    TurnId,
};
use crate::model::message::Payload;
use crate::model::node::{Capabilities, NodeStatus, Permissions};
use crate::model::run::{
    DecidedBy, FrozenFlow, GlobalMode, Limits, Mode, Replicate, RunKind, RunStatus, Usage, Verdict,
};
use crate::model::step::{Opcode, Outcome, Record, TurnStatus};
use crate::model::time::Timestamp;
use crate::model::trace::{Halted, Trace};
use crate::model::workspace::{Workspace, WorkspaceChange};

/// A new run.
#[derive(Debug, Clone, PartialEq)]
pub struct NewRun {
    /// Its id.
    pub id: RunId,
    /// Its slug.
    pub slug: Slug,
    /// Flow or graph.
    pub kind: RunKind,
    /// A text for people.
    pub label: String,
    /// AUTO or INTERACTIVE.
    pub mode: Mode,
    /// PLANNING or IMPLEMENTATION.
    pub global_mode: GlobalMode,
    /// The base, as a full ref name or a commit.
    pub base_ref: String,
    /// The commit of the base.
    pub base_sha: String,
    /// Where it is decided.
    pub decided_by: DecidedBy,
    /// When it is done.
    pub done_when: Option<String>,
    /// Its bounds.
    pub limits: Limits,
    /// What is shared.
    pub replicate: Replicate,
    /// The status that it begins with.
    pub status: RunStatus,
    /// The flow. `None` for a graph.
    pub flow: Option<FrozenFlow>,
    /// Whether only runners of its role take the turns of a node.
    pub reserve_role: bool,
}

/// A change of a run. `None` leaves a field as it is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunEdit {
    /// The status to go to.
    pub status: Option<RunStatus>,
    /// AUTO or INTERACTIVE.
    pub mode: Option<Mode>,
    /// PLANNING or IMPLEMENTATION.
    pub global_mode: Option<GlobalMode>,
    /// A text for people.
    pub label: Option<String>,
    /// When it is done; the inner `None` clears it.
    pub done_when: Option<Option<String>>,
    /// Its bounds.
    pub limits: Option<Limits>,
    /// What it waits for; the inner `None` clears it.
    pub waiting_for: Option<Option<String>>,
    /// The number of the last step that limits do not count.
    pub counted_from: Option<u64>,
    /// The step with which a flow goes on; the inner `None` clears it.
    pub continues_at: Option<Option<String>>,
    /// How a flow ended; the inner `None` clears it.
    pub termination: Option<Option<String>>,
    /// What became of a flow; the inner `None` clears it.
    pub verdict: Option<Option<Verdict>>,
}

/// A new node.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeSpec {
    /// Its short name. `None`: made from the label.
    pub alias: Option<Alias>,
    /// A text for people.
    pub label: String,
    /// Its role.
    pub role_template: String,
    /// The text of its role.
    pub role_text: Option<String>,
    /// The provider's configuration.
    pub provider: ProviderName,
    /// The model.
    pub model: Option<String>,
    /// What it may do. `None`: by its role, and no more than the node that makes it.
    pub capabilities: Option<Capabilities>,
    /// Whether it has to ask. `None`: it has to, unless the node that makes it need not.
    pub permissions: Option<Permissions>,
    /// Its bounds.
    pub limits: Limits,
    /// Whether only runners of its role take its turns. That of the run, and of the node that makes it, hold as well.
    pub reserve_role: bool,
}

/// A change of a node. `None` leaves a field as it is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NodeEdit {
    /// A text for people.
    pub label: Option<String>,
    /// What it may do.
    pub capabilities: Option<Capabilities>,
    /// Whether it has to ask.
    pub permissions: Option<Permissions>,
    /// Its bounds.
    pub limits: Option<Limits>,
    /// Its status.
    pub status: Option<NodeStatus>,
    /// What it does, in a few words.
    pub summary: Option<String>,
    /// Its role, and the text of that.
    pub role: Option<(String, Option<String>)>,
    /// The provider's configuration.
    pub provider: Option<ProviderName>,
    /// The model; the inner `None` is the provider's own.
    pub model: Option<Option<String>>,
}

/// A person's word to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Steer {
    /// It goes on, also after it has failed, was stopped or was interrupted.
    Start,
    /// It ends its turn and its session, and begins no other turn.
    Stop,
    /// It ends its turn, and rests until a person's next message.
    Interrupt,
    /// Its next turn begins a new session.
    Reset,
}

/// A new edge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EdgeSpec {
    /// Its id. `None`: made by the operation.
    pub id: Option<EdgeId>,
    /// The sender.
    pub from: NodeId,
    /// The receiver.
    pub to: NodeId,
    /// Its type. `None`: by the roles at its ends.
    pub edge_type: Option<EdgeType>,
    /// Its label. `None`: by its type.
    pub label: Option<String>,
    /// Whether both may send. `None`: by the roles.
    pub bidirectional: Option<bool>,
}

/// A turn that ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EndedTurn {
    /// The node.
    pub node: NodeId,
    /// The turn.
    pub turn: TurnId,
    /// How it ended.
    pub status: TurnStatus,
    /// The time of its start.
    pub started_at: Timestamp,
    /// What it read. Nothing, unless it completed.
    pub consumed: Vec<MessageId>,
    /// What the agent said last.
    pub last_words: Option<String>,
    /// Tokens and cost.
    pub usage: Option<Usage>,
    /// The model that was used.
    pub model: Option<String>,
    /// What went wrong.
    pub detail: Option<String>,
    /// Whether an outage or a usage limit ended it.
    pub excused: bool,
    /// The end of a usage limit. No turn begins before it.
    pub until: Option<Timestamp>,
    /// The answers that it has heard.
    pub heard: Vec<ApprovalId>,
    /// Sentences for the agent that its protocol could not carry. The next prompt has them.
    pub unsaid: Vec<String>,
    /// Its session, for the next turn.
    pub session: Option<String>,
    /// What loop safety compares. It counts unless the turn was interrupted or is excused.
    pub trace: Option<Box<Trace>>,
    /// Its requests that the permissions of its node answered at once.
    pub answered: Vec<Answered>,
    /// The milliseconds that it lived. `None`: from its start to the operation.
    #[serde(default)]
    pub lived: Option<u64>,
}

impl EndedTurn {
    /// A turn that left nothing.
    #[must_use]
    pub fn new(node: NodeId, turn: TurnId, status: TurnStatus, started_at: Timestamp) -> Self {
        Self {
            node,
            turn,
            status,
            started_at,
            consumed: Vec::new(),
            last_words: None,
            usage: None,
            model: None,
            detail: None,
            excused: false,
            until: None,
            heard: Vec::new(),
            unsaid: Vec::new(),
            session: None,
            trace: None,
            answered: Vec::new(),
            lived: None,
        }
    }
}

/// A request that a node's permissions answered at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answered {
    /// What was asked for.
    pub tool: Tool,
    /// Its purpose, in words of the program.
    pub context: Option<String>,
    /// Whether it may run.
    pub is_approved: bool,
}

/// A step that begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepStart {
    /// The step of the flow.
    pub id: StepId,
    /// What it does.
    pub opcode: Opcode,
    /// The time of its start. `None`: that of the operation.
    pub started_at: Option<Timestamp>,
}

/// A step that ended.
#[derive(Debug, Clone, PartialEq)]
pub struct EndedStep {
    /// Its place in the run.
    pub number: u64,
    /// How it ended.
    pub outcome: Outcome,
    /// The next step, or `STOP`. `None` if no route fits, or if it is tried again.
    pub route: Option<String>,
    /// A sentence about it.
    pub evidence: Option<String>,
    /// What it left behind, without artifacts.
    pub record: Record,
    /// Its artifacts, with their roles.
    pub artifacts: Vec<(String, NewArtifact)>,
    /// The node that its tokens count for, and the model that was used.
    pub usage_of: Option<(NodeId, Option<String>)>,
}

impl EndedStep {
    /// A step that ended and left nothing behind.
    #[must_use]
    pub fn new(number: u64, outcome: Outcome, route: Option<String>, evidence: Option<String>) -> Self {
        let (record, artifacts) = (Record::default(), Vec::new());
        Self { number, outcome, route, evidence, record, artifacts, usage_of: None }
    }
}

/// A new artifact. Its content lies in the ledger's `content/`, under its digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewArtifact {
    /// Its id. `None`: made by the operation.
    pub id: Option<ArtifactId>,
    /// Its node. `None` for a flow's.
    pub node: Option<NodeId>,
    /// Its turn.
    pub turn: Option<TurnId>,
    /// Its kind.
    pub kind: ArtifactKind,
    /// Its file name.
    pub name: FileName,
    /// Its media type.
    pub media_type: String,
    /// Bytes.
    pub size: u64,
    /// The SHA-256 of its content, as hex.
    pub sha256: String,
}

/// What may be asked of a run.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Changes the run.
    SetRun(RunEdit),
    /// Deletes it.
    DeleteRun,
    /// Makes a node.
    AddNode(Box<NodeSpec>),
    /// Changes a node.
    SetNode(NodeId, NodeEdit),
    /// Starts, stops, interrupts or resets a node.
    SteerNode(NodeId, Steer),
    /// Removes a node, with its edges.
    RemoveNode(NodeId),
    /// Makes an edge.
    AddEdge(EdgeSpec),
    /// Removes an edge.
    RemoveEdge(EdgeId),
    /// Sends a message of a person.
    Chat {
        /// The receiver. `None`: the oldest orchestrator.
        node: Option<NodeId>,
        /// The text.
        content: String,
        /// Whether it ends a live turn, and is read first.
        interrupt: bool,
    },
    /// Hands work from node to node.
    HandOff {
        /// The sender.
        from: NodeId,
        /// The receiver.
        to: NodeId,
        /// The content.
        payload: Payload,
    },
    /// Tells a node for whose hand-offs nobody had an answer in time.
    Overdue(NodeId),
    /// Asks for approval.
    Ask {
        /// The node that asks.
        node: NodeId,
        /// What it asks for.
        tool: Tool,
        /// What people need to decide.
        context: Option<String>,
        /// When it expires.
        expires_at: Option<Timestamp>,
        /// The answers that its turn has heard. They do not count for this request.
        heard: Vec<ApprovalId>,
        /// The turn. An approval for good lets its call run at once, and is heard by it.
        turn: Option<TurnId>,
    },
    /// Records that a turn gets an answer that lets its tool run. Refused if another turn has got it.
    Hear {
        /// The request.
        approval: ApprovalId,
        /// The turn.
        turn: TurnId,
    },
    /// Approves a request, and the calls of its node that are like it for good.
    Grant {
        /// The request.
        approval: ApprovalId,
        /// Which calls.
        always: Always,
    },
    /// Takes an approval for good back.
    Revoke(ApprovalId),
    /// Ends the requests of a node whose time is over.
    Expire(NodeId),
    /// Answers a request.
    Answer {
        /// The request.
        approval: ApprovalId,
        /// The answer.
        resolution: Resolution,
    },
    /// Approves a request that so many different people must approve.
    Approve {
        /// The request.
        approval: ApprovalId,
        /// How many.
        required: u64,
        /// The reason.
        reason: Option<String>,
    },
    /// Ends the run, as a node says in its turn.
    Done {
        /// The node.
        node: NodeId,
        /// Its last word, for people.
        message: Option<String>,
        /// Whether the run is done.
        finding: Finding,
    },
    /// Ends a turn.
    EndTurn(Box<EndedTurn>),
    /// Begins a step of a flow.
    StartStep(StepStart),
    /// Ends the step that is under way.
    EndStep(Box<EndedStep>),
    /// Pauses the run because a limit was reached, or because it makes no progress.
    Halt {
        /// The cause.
        cause: Halted,
        /// What it waits for, for people.
        waits_for: String,
    },
    /// Adds an artifact.
    AddArtifact(NewArtifact),
    /// Records a new workspace.
    PrepareWorkspace(Workspace),
    /// Records a change of a workspace.
    ChangeWorkspace(WorkspaceChange, WorkspaceChanged),
}
