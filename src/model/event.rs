//! Events of record: what a ledger keeps, and the fold reads.
//!
//! Invariant: an event is one JSON object on one line, with the envelope of the shared contract (`id runId ts type
//! nodeId`). What is read from a line is written as the same fields again.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::value::MapDeserializer;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::approval::{Always, Resolution, Tool};
use super::artifact::Artifact;
use super::by::By;
use super::edge::Edge;
use super::ids::{Alias, ApprovalId, EdgeId, EventId, NodeId, RunId, TurnId};
use super::message::{Envelope, Notice, UserMessage};
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
    /// A text of the program to a node.
    NodeNotice {
        /// The notice.
        notice: Notice,
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
    /// The approval of one person, where several must approve.
    ApprovalGiven {
        /// The request.
        approval_id: ApprovalId,
        /// The reason.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    }
    /// The answer to a request.
    ApprovalResolved {
        /// The request.
        approval_id: ApprovalId,
        /// The answer.
        resolution: Resolution,
        /// The calls that it lets run for good, too.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        always: Option<Always>,
    }
    /// A turn gets an answer: its program is given it now, and no other turn.
    ApprovalHeard {
        /// The request.
        approval_id: ApprovalId,
        /// The turn.
        turn_id: TurnId,
    }
    /// An approval for good is taken back.
    ApprovalRevoked {
        /// The request that it was the answer to.
        approval_id: ApprovalId,
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
    #[serde(rename = "node.notice")]
    NodeNotice(NodeNotice),
    #[serde(rename = "message.assistant.final")]
    MessageFinal(MessageFinal),
    #[serde(rename = "approval.requested")]
    ApprovalRequested(ApprovalRequested),
    #[serde(rename = "approval.given")]
    ApprovalGiven(ApprovalGiven),
    #[serde(rename = "approval.resolved")]
    ApprovalResolved(ApprovalResolved),
    #[serde(rename = "approval.heard")]
    ApprovalHeard(ApprovalHeard),
    #[serde(rename = "approval.revoked")]
    ApprovalRevoked(ApprovalRevoked),
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

/// A line: the envelope, and the other fields as they are written. Each part of a line is read once.
struct Line<'a> {
    id: EventId,
    run_id: RunId,
    ts: Timestamp,
    node_id: Option<NodeId>,
    by: By,
    kind: Cow<'a, str>,
    fields: Fields<'a>,
}

/// Fields by name, as they are written.
type Fields<'a> = Vec<(Cow<'a, str>, &'a RawValue)>;

/// A name that is borrowed from the line if it can be.
#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

/// Reads a [`Line`].
struct LineVisitor;

impl<'de> Visitor<'de> for LineVisitor {
    type Value = Line<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an event")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Line<'de>, A::Error> {
        let (mut id, mut run_id, mut ts, mut node_id, mut by, mut kind) =
            (None, None, None, None, None, None);
        let mut fields = Vec::with_capacity(4);
        while let Some(Name(name)) = map.next_key()? {
            match &*name {
                "id" => id = Some(map.next_value()?),
                "runId" => run_id = Some(map.next_value()?),
                "ts" => ts = Some(map.next_value()?),
                "nodeId" => node_id = map.next_value()?,
                "by" => by = Some(map.next_value()?),
                "type" => kind = Some(map.next_value::<Name<'de>>()?.0),
                _ => fields.push((name, map.next_value()?)),
            }
        }
        let missing = A::Error::missing_field;
        Ok(Line {
            id: id.ok_or_else(|| missing("id"))?,
            run_id: run_id.ok_or_else(|| missing("runId"))?,
            ts: ts.ok_or_else(|| missing("ts"))?,
            node_id,
            by: by.ok_or_else(|| missing("by"))?,
            kind: kind.ok_or_else(|| missing("type"))?,
            fields,
        })
    }
}

/// The keys that tell apart the bodies of one type.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Keys {
    #[serde(default)]
    id: Option<IgnoredAny>,
    #[serde(default)]
    node_configs: Option<IgnoredAny>,
}

impl Keys {
    /// Those of the patch.
    fn of(fields: &Fields<'_>) -> Result<Self, EventError> {
        let patch = fields.iter().find(|(name, _)| name == "patch").map(|(_, patch)| *patch);
        let patch = patch.ok_or_else(|| <serde_json::Error as Error>::missing_field("patch"))?;
        Ok(Self::deserialize(patch)?)
    }
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
        let mut reader = serde_json::Deserializer::from_slice(line);
        let Line { id, run_id, ts, node_id, by, kind, fields } = reader.deserialize_map(LineVisitor)?;
        reader.end()?;
        Ok(Self { id, run_id, ts, node_id, by, body: Body::parse(&kind, fields)? })
    }
}

impl Body {
    fn parse(kind: &str, fields: Fields<'_>) -> Result<Self, EventError> {
        fn read<'a, T: Deserialize<'a>>(fields: Fields<'a>, body: fn(T) -> Body) -> Result<Body, EventError> {
            Ok(body(T::deserialize(MapDeserializer::new(fields.into_iter()))?))
        }
        match kind {
            "run.patch" => match Keys::of(&fields)? {
                Keys { id: Some(_), .. } => read(fields, Self::RunCreated),
                Keys { node_configs: Some(_), .. } => read(fields, Self::Configured),
                Keys { .. } => read(fields, Self::RunPatched),
            },
            "run.mode" => read(fields, Self::ModeSet),
            "run.stalled" => read(fields, Self::Stalled),
            "run.deleted" => read(fields, Self::RunDeleted),
            "node.patch" => match Keys::of(&fields)?.id {
                Some(_) => read(fields, Self::NodeCreated),
                None => read(fields, Self::NodePatched),
            },
            "node.deleted" => read(fields, Self::NodeDeleted),
            "edge.created" => read(fields, Self::EdgeCreated),
            "edge.deleted" => read(fields, Self::EdgeDeleted),
            "handoff.sent" => read(fields, Self::HandoffSent),
            "message.user" => read(fields, Self::MessageUser),
            "node.notice" => read(fields, Self::NodeNotice),
            "message.assistant.final" => read(fields, Self::MessageFinal),
            "approval.requested" => read(fields, Self::ApprovalRequested),
            "approval.given" => read(fields, Self::ApprovalGiven),
            "approval.resolved" => read(fields, Self::ApprovalResolved),
            "approval.heard" => read(fields, Self::ApprovalHeard),
            "approval.revoked" => read(fields, Self::ApprovalRevoked),
            "artifact.created" => read(fields, Self::ArtifactCreated),
            "telemetry.usage" => read(fields, Self::UsageReported),
            "turn.status" => read(fields, Self::TurnEnded),
            "step.started" => read(fields, Self::StepStarted),
            "step.ended" => read(fields, Self::StepEnded),
            "step.routed" => read(fields, Self::StepRouted),
            "workspace.prepared" => read(fields, Self::WorkspacePrepared),
            "workspace.snapshot" => read(fields, Self::WorkspaceSnapshot),
            "workspace.mended" => read(fields, Self::WorkspaceMended),
            "workspace.adopted" => read(fields, Self::WorkspaceAdopted),
            "workspace.rolled_back" => read(fields, Self::WorkspaceRolledBack),
            "workspace.removed" => read(fields, Self::WorkspaceRemoved),
            "publish.pushed" => read(fields, Self::PublishPushed),
            "publish.proposed" => read(fields, Self::PublishProposed),
            "limit.reached" => read(fields, Self::LimitReached),
            other => Err(EventError::Unknown(other.chars().take(80).collect())),
        }
    }
}
