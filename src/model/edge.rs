//! Edges: who may hand work to whom.

use serde::{Deserialize, Serialize};

use super::ids::{EdgeId, NodeId};
use super::node::ORCHESTRATOR;

/// The type of an edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EdgeType {
    /// Work is handed on.
    Handoff,
    /// Results are reported.
    Report,
}

/// An edge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Edge {
    /// Its id.
    pub id: EdgeId,
    /// The sender.
    pub from: NodeId,
    /// The receiver.
    pub to: NodeId,
    /// Whether the receiver may send as well.
    pub bidirectional: bool,
    /// Its type.
    #[serde(rename = "type")]
    pub edge_type: EdgeType,
    /// `task`, `report`, or a text of its own.
    pub label: String,
}

impl Edge {
    /// Whether a hand-off may go this way.
    #[must_use]
    pub fn permits(&self, from: NodeId, to: NodeId) -> bool {
        (self.from == from && self.to == to) || (self.bidirectional && self.from == to && self.to == from)
    }

    /// Whether both edges permit a hand-off the same way.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.permits(other.from, other.to) || other.permits(self.from, self.to)
    }
}

/// Whether both ends of an edge may send. Work goes down from an orchestrator, and reports come up: these are two edges.
#[must_use]
pub fn is_bidirectional(from_role: &str, to_role: &str, wanted: Option<bool>) -> bool {
    let (_, _, by_roles) = defaults(from_role, to_role);
    by_roles && wanted.unwrap_or(true)
}

/// Type, label and direction of an edge, by the roles at its ends.
#[must_use]
pub fn defaults(from_role: &str, to_role: &str) -> (EdgeType, &'static str, bool) {
    match (from_role == ORCHESTRATOR, to_role == ORCHESTRATOR) {
        (false, true) => (EdgeType::Report, "report", false),
        (true, _) => (EdgeType::Handoff, "task", false),
        (false, false) => (EdgeType::Handoff, "task", true),
    }
}
