//! Who caused an operation, and on which host.

use serde::{Deserialize, Serialize};

use super::ids::NodeId;

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
}

impl By {
    /// The host, by its runner id.
    #[must_use]
    pub fn runner(&self) -> &str {
        match self {
            Self::Person { runner, .. } | Self::Node { runner, .. } | Self::Runner { runner } => runner,
        }
    }

    /// The node, if it was one.
    #[must_use]
    pub fn node(&self) -> Option<NodeId> {
        match self {
            Self::Node { node, .. } => Some(*node),
            Self::Person { .. } | Self::Runner { .. } => None,
        }
    }
}
