//! Who caused an operation, and on which host.

use serde::{Deserialize, Serialize};

use super::ids::{ApprovalId, NodeId};

/// What a host found of a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Signed {
    /// Git accepts it.
    Good,
    /// Git refuses it.
    Bad,
    /// Git could not check it, or does not trust the key.
    Unknown,
}

/// The signature of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signature {
    /// What the host found that recorded it.
    pub state: Signed,
    /// The fingerprint of the key: of a key with subkeys, that of the primary one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// Who caused an operation, and the runner id of the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum By {
    /// A person, as git knows them.
    Person {
        /// The name.
        name: String,
        /// The address.
        email: String,
        /// The host.
        runner: String,
        /// By which key they signed what they did, if they did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<Signature>,
    },
    /// A node, in a turn.
    Node {
        /// Its id.
        node: NodeId,
        /// The host.
        runner: String,
    },
    /// The program itself.
    Runner {
        /// The host.
        runner: String,
    },
    /// A rule of a person that the program carried out: an approval for good, the permissions of a node, a time limit.
    Policy {
        /// The host.
        runner: String,
        /// The approval for good.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        grant: Option<ApprovalId>,
    },
}

impl By {
    /// The host, by its runner id.
    #[must_use]
    pub fn runner(&self) -> &str {
        match self {
            Self::Person { runner, .. }
            | Self::Node { runner, .. }
            | Self::Runner { runner }
            | Self::Policy { runner, .. } => runner,
        }
    }

    /// The key of a good signature.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        match self {
            Self::Person { signature: Some(Signature { state: Signed::Good, key }), .. } => key.as_deref(),
            Self::Person { .. } | Self::Node { .. } | Self::Runner { .. } | Self::Policy { .. } => None,
        }
    }

    /// Whether two answers are of one person: by address, or by key.
    #[must_use]
    pub fn is_same_person(&self, other: &Self) -> bool {
        let is_same_key = self.key().is_some() && self.key() == other.key();
        match (self, other) {
            (Self::Person { email: one, .. }, Self::Person { email: other, .. }) => {
                one.eq_ignore_ascii_case(other) || is_same_key
            }
            _ => self == other,
        }
    }

    /// The node, if it was one.
    #[must_use]
    pub fn node(&self) -> Option<NodeId> {
        match self {
            Self::Node { node, .. } => Some(*node),
            Self::Person { .. } | Self::Runner { .. } | Self::Policy { .. } => None,
        }
    }
}
