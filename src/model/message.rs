//! Messages of people, hand-offs between nodes, notices of the program, and the inboxes they go to.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::ids::{MessageId, NodeId, RunId};
use super::time::Timestamp;

/// The longest message, in bytes. More is attached as artifacts.
pub const MAX_MESSAGE: usize = 64 * 1024;

/// The most artifacts of a hand-off: those that its sender names, and the commit of its work.
pub const MAX_ATTACHED: usize = 65;

/// The role of a message's author; people are always `user`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// A person.
    User,
}

/// A message of a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UserMessage {
    /// Its id.
    pub id: MessageId,
    /// Its run.
    pub run_id: RunId,
    /// The receiver.
    pub node_id: NodeId,
    /// Its author's role.
    pub role: Role,
    /// Its text.
    pub content: String,
    /// Whether it ends a live turn, and is read before what came earlier.
    pub interrupt: bool,
    /// The time of its creation.
    pub created_at: Timestamp,
}

/// A reference to an artifact in a hand-off.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactRef {
    /// The kind, in the sender's words.
    #[serde(rename = "type")]
    pub kind: String,
    /// `artifact://…` or `git:…`.
    #[serde(rename = "ref")]
    pub reference: String,
}

/// Whether the work of a hand-off went well.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PayloadStatus {
    /// Whether it did.
    pub ok: bool,
    /// A reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Whether the sender waits for an answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Expectation {
    /// It does not.
    #[default]
    None,
    /// It may be answered.
    Optional,
    /// It must be answered.
    Required,
}

/// What the sender expects back, or what this answers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResponseSpec {
    /// Whether it waits for an answer.
    #[serde(default)]
    pub expectation: Expectation,
    /// The hand-off that this one answers, or the node that an answer goes to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<String>,
}

/// The content of a hand-off.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Payload {
    /// A short summary.
    pub message: String,
    /// Data for the receiver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured: Option<Map<String, Value>>,
    /// Files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<ArtifactRef>,
    /// Whether the work went well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<PayloadStatus>,
    /// What is expected back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<ResponseSpec>,
}

/// The kind of an envelope: always a hand-off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EnvelopeKind {
    /// A hand-off.
    Handoff,
}

/// A hand-off from node to node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Envelope {
    /// Always `handoff`.
    pub kind: EnvelopeKind,
    /// Its id.
    pub id: MessageId,
    /// The sender.
    pub from_node_id: NodeId,
    /// The receiver.
    pub to_node_id: NodeId,
    /// The time of its creation.
    pub created_at: Timestamp,
    /// Its content.
    pub payload: Payload,
}

/// What a notice is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum NoticeKind {
    /// Hand-offs of the node that get no answer. It does not wait for them any more.
    Unanswered,
    /// Nodes that wait for each other.
    Cycle,
    /// A run in mode AUTO in which nothing is under way.
    GoOn,
    /// A run that is not done, although the node called it done.
    NotDone,
}

/// A text of the program to a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Notice {
    /// Its id.
    pub id: MessageId,
    /// Its run.
    pub run_id: RunId,
    /// The receiver.
    pub node_id: NodeId,
    /// Its kind.
    pub kind: NoticeKind,
    /// Its text.
    pub content: String,
    /// The hand-offs that it is about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub handoffs: Vec<MessageId>,
    /// The time of its creation.
    pub created_at: Timestamp,
}

/// An unread item of an inbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InboxItem {
    /// Its place in the order of the ledger, from 1.
    pub number: u64,
    /// What it is.
    #[serde(flatten)]
    pub item: Item,
}

/// The kinds of items.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Item {
    /// A message of a person.
    Message(UserMessage),
    /// A hand-off.
    Handoff(Envelope),
    /// A text of the program.
    Notice(Notice),
}

impl InboxItem {
    /// The item's id.
    #[must_use]
    pub fn id(&self) -> MessageId {
        match &self.item {
            Item::Message(message) => message.id,
            Item::Handoff(envelope) => envelope.id,
            Item::Notice(notice) => notice.id,
        }
    }

    /// Whether it is a message that interrupts a live turn.
    #[must_use]
    pub fn interrupts(&self) -> bool {
        matches!(&self.item, Item::Message(message) if message.interrupt)
    }

    /// The key of the reading order: interrupting messages first, then the order of the ledger.
    #[must_use]
    pub fn order(&self) -> (bool, u64) {
        (!self.interrupts(), self.number)
    }
}
