//! The traces that turns leave in a ledger: what loop safety compares, and what limits count.
//!
//! Invariant: bounded. A node keeps its newest traces, and a run its newest hand-offs; a resume forgets both (CONTRACT
//! 22.18, 22.20).

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::ids::NodeId;
use super::usage::Usage;

/// The traces of a node that are kept: three rounds of five trees need fifteen.
pub const MOST_TRACES: usize = 16;

/// The hand-offs of a run that are kept.
pub const MOST_PASSED: usize = 64;

/// The trace of one turn of a node. Hashes are compared, and never read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Trace {
    /// The id of the turn.
    pub turn: String,
    /// Whether a message of a person began it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_of_person: bool,
    /// The hash of its final text. `None`: it had none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// The hash of what it changed. `None`: nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// The hash of the commands that failed when they were last run. `None`: none did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verification: Option<String>,
    /// The call of a tool that failed most often.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_call: Option<FailedCall>,
    /// The tree that it left, as hex.
    pub tree: String,
    /// Its final text, shortened.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub summary: String,
    /// The hand-offs that it made.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub handed: Vec<Handed>,
}

/// A call of a tool that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedCall {
    /// The hash of the tool with its arguments.
    pub hash: String,
    /// How often it failed in the turn.
    pub count: usize,
}

/// A hand-off that a turn made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handed {
    /// The alias of the receiver.
    pub to: String,
    /// The hash of the message.
    pub message: String,
}

/// A hand-off of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passed {
    /// The alias of the sender.
    pub from: String,
    /// The alias of the receiver.
    pub to: String,
    /// The hash of the message.
    pub message: String,
    /// The tree of the sender.
    pub tree: String,
}

/// Adds to a list, and drops the oldest beyond a bound.
pub(in crate::model) fn keep_newest<T>(list: &mut Vec<T>, new: impl IntoIterator<Item = T>, most: usize) {
    list.extend(new);
    list.drain(..list.len().saturating_sub(most));
}

/// What limits count: the turns of a node or a run since a person last resumed the run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Spent {
    /// Turns, without those that an outage or a usage limit ended.
    pub turns: u64,
    /// Milliseconds in which a turn was live.
    pub wall_millis: u64,
    /// Tokens and cost.
    pub usage: Usage,
    /// Turns whose provider reported no cost.
    pub unpriced: u64,
}

impl Spent {
    /// The sum of two.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            turns: self.turns.saturating_add(other.turns),
            wall_millis: self.wall_millis.saturating_add(other.wall_millis),
            usage: self.usage.plus(&other.usage),
            unpriced: self.unpriced.saturating_add(other.unpriced),
        }
    }

    /// Whether nothing was spent.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// The time in which a turn was live.
    #[must_use]
    pub fn wall(&self) -> Duration {
        Duration::from_millis(self.wall_millis)
    }
}

/// Why a run is paused without a person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "cause")]
pub enum Halted {
    /// It makes no progress.
    Stalled {
        /// What was seen.
        evidence: serde_json::Map<String, serde_json::Value>,
    },
    /// A limit was reached.
    Limit {
        /// The node whose limit it is. `None`: the run's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node_id: Option<NodeId>,
        /// The field of [`super::run::Limits`].
        limit: String,
        /// The value that was reached.
        value: f64,
        /// The bound.
        bound: f64,
    },
}
