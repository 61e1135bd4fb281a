//! Events of record: what a ledger keeps, and the fold reads.
//!
//! Invariant: an event is one JSON object on one line, with the envelope of the shared contract (`id runId ts type
//! nodeId`). What is read from a line is written as the same fields again.

use std::collections::BTreeMap;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::approval::{Resolution, Tool};
use super::artifact::Artifact;
use super::by::By;
use super::edge::Edge;
use super::ids::{Alias, ApprovalId, EdgeId, EventId, NodeId, RunId, TurnId};
use super::message::{Envelope, UserMessage};
use super::node::{Node, NodeConfig, NodePatch, Provider};
use super::run::{GlobalMode, Mode, Run, RunPatch, Usage};
use super::step::{Outcome, Record, Step, TurnEnd};
use super::time::Timestamp;
use super::workspace::{Workspace, WorkspacePatch};

/// The longest line of an event, in bytes. More is kept as an artifact.
pub const MAX_LINE: usize = 256 * 1024;

/// An event.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// Its id.
    pub id: EventId,
    /// Its run.
    pub run_id: RunId,
    /// Its time.
    pub ts: Timestamp,
    /// The node it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_id: Option<NodeId>,
    /// Who caused it.
    pub by: By,
    /// Its type, and the fields of this type.
    #[serde(flatten)]
    pub body: Body,
}

/// Declares a struct that is the body of a type.
macro_rules! bodies {
    ($($(#[$meta:meta])* $name:ident { $($(#[$field_meta:meta])* $field:ident: $type:ty,)* })*) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase")]
        pub struct $name { $($(#[$field_meta])* pub $field: $type,)* }
    )*};
}

bodies! {
    /// Nothing but the envelope.
    Plain {}
    /// A new run.
    RunCreated {
        /// All of it.
        patch: Box<Run>,
    }
    /// Fields of the run that changed.
    RunPatched {
        /// The fields.
        patch: RunPatch,
    }
    /// The contents of [`Configured`].
    Configs {
        /// By node.
        node_configs: BTreeMap<NodeId, NodeConfig>,
    }
    /// Configurations of nodes.
    Configured {
        /// The configurations.
        patch: Configs,
    }
    /// The modes of the run.
    ModeSet {
        /// AUTO or INTERACTIVE.
        mode: Mode,
        /// PLANNING or IMPLEMENTATION.
        global_mode: GlobalMode,
    }
    /// The run was paused because it makes no progress.
    Stalled {
        /// What was seen.
        evidence: Map<String, Value>,
    }
    /// A new node.
    NodeCreated {
        /// All of it.
        patch: Box<Node>,
    }
    /// Fields of the node that changed.
    NodePatched {
        /// The fields.
        patch: NodePatch,
    }
    /// A new edge.
    EdgeCreated {
        /// The edge.
        edge: Edge,
    }
    /// An edge is gone.
    EdgeDeleted {
        /// Its id.
        edge_id: EdgeId,
    }
    /// A hand-off.
    HandoffSent {
        /// The hand-off.
        envelope: Envelope,
    }
    /// A message of a person.
    MessageUser {
        /// The message.
        message: UserMessage,
    }
    /// What an agent said last in a turn.
    MessageFinal {
        /// The text.
        content: String,
        /// `interrupted`, or nothing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<String>,
        /// The turn.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        turn_id: Option<TurnId>,
    }
    /// A request for approval.
    ApprovalRequested {
        /// Its id.
        approval_id: ApprovalId,
        /// What is asked for.
        tool: Tool,
        /// What people need to decide.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        context: Option<String>,
        /// The time after which it counts as expired.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expires_at: Option<Timestamp>,
    }
    /// The answer to a request.
    ApprovalResolved {
        /// The request.
        approval_id: ApprovalId,
        /// The answer.
        resolution: Resolution,
    }
    /// A new artifact.
    ArtifactCreated {
        /// The artifact.
        artifact: Artifact,
    }
    /// Tokens and cost of a turn or a part of it. Added to the totals.
    UsageReported {
        /// The provider.
        provider: Provider,
        /// The model, as the provider names it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        /// Tokens and cost.
        usage: Usage,
    }
    /// A step began.
    StepStarted {
        /// The step.
        step: Step,
    }
    /// A step ended.
    StepEnded {
        /// Its place in the run.
        number: u64,
        /// How it ended.
        outcome: Outcome,
        /// A sentence about it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        evidence: Option<String>,
        /// What it left behind.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        record: Option<Box<Record>>,
    }
    /// The step that follows.
    StepRouted {
        /// The place of the step that ended.
        number: u64,
        /// The next step, or `STOP`.
        route: String,
    }
    /// A new workspace.
    WorkspacePrepared {
        /// The workspace.
        workspace: Workspace,
    }
    /// A workspace changed.
    WorkspaceChanged {
        /// Its name.
        name: Alias,
        /// The fields that changed.
        patch: WorkspacePatch,
        /// The ref with what was saved.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rescue: Option<String>,
        /// What was found, for people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        detail: Option<String>,
    }
    /// A bound was reached.
    LimitReached {
        /// The field of [`super::run::Limits`].
        limit: String,
        /// The value that was reached.
        value: f64,
        /// The bound.
        bound: f64,
    }
}

/// The bodies, by type.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type")]
#[expect(missing_docs, reason = "each body documents itself")]
pub enum Body {
    #[serde(rename = "run.patch")]
    RunCreated(RunCreated),
    #[serde(rename = "run.patch")]
    RunPatched(RunPatched),
    #[serde(rename = "run.patch")]
    Configured(Configured),
    #[serde(rename = "run.mode")]
    ModeSet(ModeSet),
    #[serde(rename = "run.stalled")]
    Stalled(Stalled),
    #[serde(rename = "run.deleted")]
    RunDeleted(Plain),
    #[serde(rename = "node.patch")]
    NodeCreated(NodeCreated),
    #[serde(rename = "node.patch")]
    NodePatched(NodePatched),
    #[serde(rename = "node.deleted")]
    NodeDeleted(Plain),
    #[serde(rename = "edge.created")]
    EdgeCreated(EdgeCreated),
    #[serde(rename = "edge.deleted")]
    EdgeDeleted(EdgeDeleted),
    #[serde(rename = "handoff.sent")]
    HandoffSent(HandoffSent),
    #[serde(rename = "message.user")]
    MessageUser(MessageUser),
    #[serde(rename = "message.assistant.final")]
    MessageFinal(MessageFinal),
    #[serde(rename = "approval.requested")]
    ApprovalRequested(ApprovalRequested),
    #[serde(rename = "approval.resolved")]
    ApprovalResolved(ApprovalResolved),
    #[serde(rename = "artifact.created")]
    ArtifactCreated(ArtifactCreated),
    #[serde(rename = "telemetry.usage")]
    UsageReported(UsageReported),
    #[serde(rename = "turn.status")]
    TurnEnded(TurnEnd),
    #[serde(rename = "step.started")]
    StepStarted(StepStarted),
    #[serde(rename = "step.ended")]
    StepEnded(StepEnded),
    #[serde(rename = "step.routed")]
    StepRouted(StepRouted),
    #[serde(rename = "workspace.prepared")]
    WorkspacePrepared(WorkspacePrepared),
    #[serde(rename = "workspace.snapshot")]
    WorkspaceSnapshot(WorkspaceChanged),
    #[serde(rename = "workspace.mended")]
    WorkspaceMended(WorkspaceChanged),
    #[serde(rename = "workspace.adopted")]
    WorkspaceAdopted(WorkspaceChanged),
    #[serde(rename = "workspace.rolled_back")]
    WorkspaceRolledBack(WorkspaceChanged),
    #[serde(rename = "workspace.removed")]
    WorkspaceRemoved(WorkspaceChanged),
    #[serde(rename = "publish.pushed")]
    PublishPushed(WorkspaceChanged),
    #[serde(rename = "publish.proposed")]
    PublishProposed(WorkspaceChanged),
    #[serde(rename = "limit.reached")]
    LimitReached(LimitReached),
}

/// A line that is no event of record.
#[derive(Debug, thiserror::Error)]
pub enum EventError {
    /// It is too long.
    #[error("the line has {0} bytes, and an event has at most {MAX_LINE}")]
    TooLong(usize),
    /// It is not JSON, or a field is missing or wrong.
    #[error("the line is no event: {0}")]
    Malformed(#[from] serde_json::Error),
    /// Its type is none of record, or of a later version.
    #[error("events of the type {0:?} are not kept in a ledger")]
    Unknown(String),
}

/// The envelope alone.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Header<'a> {
    id: EventId,
    run_id: RunId,
    ts: Timestamp,
    #[serde(default)]
    node_id: Option<NodeId>,
    by: By,
    #[serde(rename = "type", borrow)]
    kind: std::borrow::Cow<'a, str>,
}

/// The keys that tell apart the bodies of one type.
#[derive(Deserialize)]
struct Probe {
    patch: Keys,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Keys {
    #[serde(default)]
    id: Option<IgnoredAny>,
    #[serde(default)]
    node_configs: Option<IgnoredAny>,
}

impl Event {
    /// Reads a line.
    ///
    /// # Errors
    /// [`EventError`]; the line is then ignored as a whole.
    pub fn parse(line: &[u8]) -> Result<Self, EventError> {
        if line.len() > MAX_LINE {
            return Err(EventError::TooLong(line.len()));
        }
        let header: Header<'_> = serde_json::from_slice(line)?;
        let body = Body::parse(&header.kind, line)?;
        Ok(Self {
            id: header.id,
            run_id: header.run_id,
            ts: header.ts,
            node_id: header.node_id,
            by: header.by,
            body,
        })
    }
}

impl Body {
    fn parse(kind: &str, line: &[u8]) -> Result<Self, EventError> {
        fn read<'a, T: Deserialize<'a>>(line: &'a [u8], body: fn(T) -> Body) -> Result<Body, EventError> {
            Ok(body(serde_json::from_slice(line)?))
        }
        match kind {
            "run.patch" => match serde_json::from_slice::<Probe>(line)?.patch {
                Keys { id: Some(_), .. } => read(line, Self::RunCreated),
                Keys { node_configs: Some(_), .. } => read(line, Self::Configured),
                Keys { .. } => read(line, Self::RunPatched),
            },
            "run.mode" => read(line, Self::ModeSet),
            "run.stalled" => read(line, Self::Stalled),
            "run.deleted" => read(line, Self::RunDeleted),
            "node.patch" => match serde_json::from_slice::<Probe>(line)?.patch.id {
                Some(_) => read(line, Self::NodeCreated),
                None => read(line, Self::NodePatched),
            },
            "node.deleted" => read(line, Self::NodeDeleted),
            "edge.created" => read(line, Self::EdgeCreated),
            "edge.deleted" => read(line, Self::EdgeDeleted),
            "handoff.sent" => read(line, Self::HandoffSent),
            "message.user" => read(line, Self::MessageUser),
            "message.assistant.final" => read(line, Self::MessageFinal),
            "approval.requested" => read(line, Self::ApprovalRequested),
            "approval.resolved" => read(line, Self::ApprovalResolved),
            "artifact.created" => read(line, Self::ArtifactCreated),
            "telemetry.usage" => read(line, Self::UsageReported),
            "turn.status" => read(line, Self::TurnEnded),
            "step.started" => read(line, Self::StepStarted),
            "step.ended" => read(line, Self::StepEnded),
            "step.routed" => read(line, Self::StepRouted),
            "workspace.prepared" => read(line, Self::WorkspacePrepared),
            "workspace.snapshot" => read(line, Self::WorkspaceSnapshot),
            "workspace.mended" => read(line, Self::WorkspaceMended),
            "workspace.adopted" => read(line, Self::WorkspaceAdopted),
            "workspace.rolled_back" => read(line, Self::WorkspaceRolledBack),
            "workspace.removed" => read(line, Self::WorkspaceRemoved),
            "publish.pushed" => read(line, Self::PublishPushed),
            "publish.proposed" => read(line, Self::PublishProposed),
            "limit.reached" => read(line, Self::LimitReached),
            other => Err(EventError::Unknown(other.chars().take(80).collect())),
        }
    }
}
