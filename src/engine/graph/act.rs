//! The acts of an agent in its turn.
//!
//! Invariant: nodes are named by their aliases, and nothing in an act names a program or a path.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::contract::ids::CommitId;
use crate::model::artifact::ArtifactKind;
use crate::model::decide::Finding;
use crate::model::ids::{Alias, ArtifactId, FileName, ProviderName};
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
        /// The text of its role. It is read anew from the base when the turn ends, and never from a file that the agent
        /// could write.
        #[serde(skip)]
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

/// Checks acts again that were in files, since the agent may have written them itself.
///
/// # Errors
/// The act that no command would have staged, in words.
pub(super) fn check(acts: &[Act]) -> Result<(), String> {
    let end = acts.iter().position(|act| matches!(act, Act::Done { .. }));
    if end.is_some_and(|at| at + 1 != acts.len()) {
        return Err("nothing comes after the end of the run".to_owned());
    }
    for act in acts {
        match act {
            Act::Artifact { kind, name } => {
                if !matches!(kind, ArtifactKind::Report | ArtifactKind::Diff | ArtifactKind::Log) {
                    return Err(format!("an agent keeps no artifact of the kind {}: {name}", kind.word()));
                }
            }
            Act::Handoff { payload, .. } => {
                if let Some(odd) = payload.artifacts.iter().find(|one| !is_reference(&one.reference)) {
                    return Err(format!("{:?} names no artifact and no commit", odd.reference));
                }
            }
            Act::Spawn { .. } | Act::Edge { .. } | Act::Done { .. } => {}
        }
    }
    Ok(())
}

/// Whether a text is the reference of an artifact or of a commit.
fn is_reference(text: &str) -> bool {
    if let Some(commit) = text.strip_prefix("git:") {
        return CommitId::parse_hex(commit.as_bytes()).is_some();
    }
    let id = text.strip_prefix("artifact://").map(|rest| rest.strip_prefix("diff/").unwrap_or(rest));
    id.is_some_and(|id| ArtifactId::parse(id).is_some())
}

/// The names of acts in requests for approval.
pub(super) const SPAWN_NODE: &str = "spawn_node";
pub(super) const CREATE_EDGE: &str = "create_edge";

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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// CONTRACT 22.6, 22.15, 22.24
    #[test]
    fn acts_that_no_command_stages_are_found() {
        let act = |value: Value| serde_json::from_value::<Act>(value).map_err(|error| error.to_string());
        let done = json!({ "act": "done", "message": "x", "finding": "accepted" });
        let edge = json!({ "act": "edge", "edge": { "from": "a", "to": "b" } });
        let file = |kind: &str| json!({ "act": "artifact", "kind": kind, "name": "a" });
        let hands = |reference: &str| {
            let artifacts = json!([{ "type": "x", "ref": reference }]);
            json!({ "act": "handoff", "to": "b", "payload": { "message": "m", "artifacts": artifacts } })
        };
        let id = "3fa85f64-5717-4562-b3fc-2c963f66afa6";
        for (acts, fine) in [
            (vec![edge.clone(), done.clone()], true),
            (vec![done.clone(), done.clone()], false),
            (vec![done, edge], false),
            (vec![file("report")], true),
            (vec![file("prompt")], false),
            (vec![file("transcript")], false),
            (vec![hands(&format!("artifact://{id}"))], true),
            (vec![hands(&format!("artifact://diff/{id}"))], true),
            (vec![hands(&format!("git:{}", "0".repeat(40)))], true),
            (vec![hands("git:main")], false),
            (vec![hands("../../etc/passwd")], false),
            (vec![hands("artifact://../x")], false),
        ] {
            let read: Result<Vec<Act>, String> = acts.iter().cloned().map(act).collect();
            assert_eq!(check(&read.expect("acts")).is_ok(), fine, "{acts:?}");
        }
        let spawn = json!({ "act": "spawn", "node": { "alias": "a", "role": "x", "provider": "y" }, "roleText": "mine" });
        assert!(act(spawn).is_err(), "the text of a role is in no file");
    }
}
