//! The acts of an agent in its turn.
//!
//! Invariant: nodes are named by their aliases, and nothing in an act names a program or a path.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::model::artifact::ArtifactKind;
use crate::model::decide::Finding;
use crate::model::ids::{Alias, FileName, ProviderName};
use crate::model::message::Payload;
use crate::model::node::CliPermissions;

/// An act of an agent. Nodes are named by their aliases.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "act", rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Act {
    /// It hands work on.
    Handoff {
        /// The receiver.
        to: Alias,
        /// The content.
        payload: Payload,
    },
    /// It makes a node, and hands it work.
    Spawn {
        /// The node.
        node: NewNode,
        /// The text of its role.
        role_text: Option<String>,
    },
    /// It ends the run. Nothing follows it.
    Done {
        /// Its last word, for people.
        message: Option<String>,
        /// Whether the run is done. Judged when the turn has ended, and kept with its end.
        #[serde(default)]
        finding: Finding,
    },
    /// It makes an edge.
    Edge {
        /// The edge.
        edge: NewEdge,
    },
    /// It keeps a file. The content is beside the act.
    Artifact {
        /// Its kind.
        kind: ArtifactKind,
        /// Its file name.
        name: FileName,
    },
}

/// A node that an agent makes: the arguments of `spawn_node`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewNode {
    /// Its short name.
    pub alias: Alias,
    /// Its role.
    pub role: String,
    /// Its provider.
    pub provider: ProviderName,
    /// A text for people. `None`: the alias.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The model. `None`: the provider's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Whether its tools are asked for. `None`: as for the node that makes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permissions: Option<CliPermissions>,
    /// Its first work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// An edge that an agent makes: the arguments of `create_edge`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewEdge {
    /// The sender.
    pub from: Alias,
    /// The receiver.
    pub to: Alias,
}

/// The names of acts in requests for approval.
const SPAWN_NODE: &str = "spawn_node";
const CREATE_EDGE: &str = "create_edge";

impl Act {
    /// The act as a tool with arguments, if it manages the run: people may have to approve it.
    #[must_use]
    pub fn managing(&self) -> Option<(&'static str, Map<String, Value>)> {
        let (name, args) = match self {
            Self::Spawn { node, .. } => (SPAWN_NODE, serde_json::to_value(node)),
            Self::Edge { edge } => (CREATE_EDGE, serde_json::to_value(edge)),
            Self::Handoff { .. } | Self::Artifact { .. } | Self::Done { .. } => return None,
        };
        match args {
            Ok(Value::Object(args)) => Some((name, args)),
            Ok(_) | Err(_) => None,
        }
    }

    /// The act with these arguments, without the text of a role.
    ///
    /// # Errors
    /// What is wrong with the arguments.
    pub fn of_tool(name: &str, args: Map<String, Value>) -> Result<Self, String> {
        let args = Value::Object(args);
        let wrong = |error: serde_json::Error| error.to_string();
        match name {
            SPAWN_NODE => {
                serde_json::from_value(args).map(|node| Self::Spawn { node, role_text: None }).map_err(wrong)
            }
            CREATE_EDGE => serde_json::from_value(args).map(|edge| Self::Edge { edge }).map_err(wrong),
            _ => Err(format!("{name} is no act of an agent")),
        }
    }
}
