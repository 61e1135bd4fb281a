//! Approvals: requests that people answer.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::by::By;
use super::ids::{ApprovalId, NodeId, TurnId};
use super::time::Timestamp;

/// A tool that a node wants to use, or a question of a gate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    /// The id of this call: in a ledger a UUID, in a provider its own.
    pub id: String,
    /// The tool.
    pub name: String,
    /// Its arguments.
    #[serde(default)]
    pub args: Map<String, Value>,
    /// In a ledger the provider's id of the call, if it has one.
    #[serde(default, rename = "providerId", skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
}

impl Tool {
    /// A call. Without an id it gets one from the operation that records it.
    #[must_use]
    pub fn new(id: impl Into<String>, name: impl Into<String>, args: Map<String, Value>) -> Self {
        Self { id: id.into(), name: name.into(), args, provider_id: None }
    }

    /// A provider's call in a turn, with the id that the run has for it.
    #[must_use]
    pub fn of_turn(&self, turn: TurnId) -> Self {
        let theirs = Some(&self.id).filter(|id| !id.is_empty());
        let id = theirs.map(|id| turn.call(id).to_string()).unwrap_or_default();
        Self { id, provider_id: theirs.cloned(), ..self.clone() }
    }
}

/// An answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// The tool may run.
    Approved,
    /// It may not.
    Denied,
    /// It may run with other arguments.
    Modified,
    /// Nobody answered in time.
    Expired,
    /// The question is no longer asked.
    Withdrawn,
}

/// An answer with what belongs to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Resolution {
    /// The answer.
    pub status: Answer,
    /// The arguments to use instead; only with [`Answer::Modified`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified_args: Option<Map<String, Value>>,
    /// The reason, for the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The calls of its node that an approval lets run for good, besides the one that was asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Always {
    /// Calls of the tool with equal arguments.
    Call,
    /// All calls of the tool.
    Tool,
}

/// The approval of one person, where several must approve.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Consent {
    /// Who approved.
    pub by: By,
    /// The time.
    pub at: Timestamp,
    /// The reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A request for approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Approval {
    /// Its id.
    pub id: ApprovalId,
    /// The node that asks.
    pub node_id: NodeId,
    /// What it asks for.
    pub tool: Tool,
    /// What people need to decide: a command line, a diff.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// The time of the request.
    pub requested_at: Timestamp,
    /// After this time it counts as [`Answer::Expired`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// Who approved so far, where one is not enough.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub consents: Vec<Consent>,
    /// The answer, once there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution: Option<Resolution>,
    /// Who answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_by: Option<By>,
    /// The calls that it lets run for good. It stays until it is revoked, or its node is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub always: Option<Always>,
    /// The turn whose program was given the answer. No other turn gets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heard_by: Option<TurnId>,
}

/// What is written in place of a secret.
pub const MASK: &str = "***";

/// Whether a secret may be masked in arguments. Two of them can be equal although the calls differ.
#[must_use]
pub fn has_mask(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains(MASK),
        Value::Array(values) => values.iter().any(has_mask),
        Value::Object(fields) => fields.iter().any(|(key, value)| key.contains(MASK) || has_mask(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

impl Approval {
    /// Whether nobody has answered.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.resolution.is_none()
    }

    /// Whether it lets this call of a node run for good. Arguments are compared as JSON values, and those that may have a
    /// masked secret are equal to none.
    #[must_use]
    pub fn covers(&self, node: NodeId, tool: &Tool) -> bool {
        let is_approved = self.resolution.as_ref().is_some_and(|given| given.status == Answer::Approved);
        is_approved
            && match self.always {
                Some(Always::Tool) => self.node_id == node && self.tool.name == tool.name,
                Some(Always::Call) => {
                    self.asks_for(node, tool) && !has_mask(&Value::Object(tool.args.clone()))
                }
                None => false,
            }
    }

    /// Whether the time for an answer is over.
    #[must_use]
    pub fn is_overdue(&self, now: Timestamp) -> bool {
        self.is_open() && self.expires_at.is_some_and(|at| at <= now)
    }

    /// Whether a request asks for the same: the same node, tool and arguments.
    #[must_use]
    pub fn asks_for(&self, node: NodeId, tool: &Tool) -> bool {
        self.node_id == node && self.tool.name == tool.name && self.tool.args == tool.args
    }
}
