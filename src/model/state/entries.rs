//! The files of a ledger's tree.
//!
//! Invariant: a path is made of fixed words, ids and numbers, never of a text that somebody chose. A file in another
//! place, or with the contents of another entry, is refused when it is read.

use std::collections::BTreeMap;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::super::ids::{Alias, ApprovalId, ArtifactId, EdgeId, NodeId};
use super::super::step::Step;
use super::State;

/// A file of the tree.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Entry {
    /// `run.json`
    Run,
    /// `nodes/<2 hex>/<id>.json`
    Node(NodeId),
    /// `node-configs/<2 hex>/<id>.json`
    Config(NodeId),
    /// `edges/<2 hex>/<id>.json`
    Edge(EdgeId),
    /// `approvals/<2 hex>/<id>.json`
    Approval(ApprovalId),
    /// `inbox/<node>/<number>.json`
    Inbox(NodeId, u64),
    /// `artifacts/<2 hex>/<id>.json`
    Artifact(ArtifactId),
    /// `turns/<hundreds>/<number>.json`
    Turn(u64),
    /// `steps/<hundreds>/<number>.json`
    Step(u64),
    /// `workspaces/<name>.json`
    Workspace(Alias),
}

/// A file of the tree that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum EntryError {
    /// Its content is wrong.
    #[error("{path}: {source}")]
    Malformed {
        /// Its path in the tree.
        path: String,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// Its content belongs to another path.
    #[error("{path}: its content belongs to another file")]
    Misplaced {
        /// Its path in the tree.
        path: String,
    },
}

/// How many turns or steps share a directory. Each of them writes the list of its directory anew, so a long one costs
/// more than another level.
const FAN: u64 = 100;

impl Entry {
    /// The path in the tree.
    #[must_use]
    pub fn path(&self) -> String {
        fn fanned(directory: &str, id: impl std::fmt::Display) -> String {
            let id = id.to_string();
            format!("{directory}/{}/{id}.json", &id[..2])
        }
        match self {
            Self::Run => "run.json".to_owned(),
            Self::Node(id) => fanned("nodes", id),
            Self::Config(id) => fanned("node-configs", id),
            Self::Edge(id) => fanned("edges", id),
            Self::Approval(id) => fanned("approvals", id),
            Self::Inbox(node, number) => format!("inbox/{node}/{number}.json"),
            Self::Artifact(id) => fanned("artifacts", id),
            Self::Turn(number) => format!("turns/{}/{number}.json", number / FAN),
            Self::Step(number) => format!("steps/{}/{number}.json", number / FAN),
            Self::Workspace(name) => format!("workspaces/{name}.json"),
        }
    }

    /// The entry with this path. `None` for a file that is none of the model's.
    #[must_use]
    pub fn parse(path: &str) -> Option<Self> {
        let parts: Vec<&str> = path.strip_suffix(".json")?.split('/').collect();
        let entry = match parts.as_slice() {
            ["run"] => Self::Run,
            ["nodes", _, id] => Self::Node(NodeId::parse(id)?),
            ["node-configs", _, id] => Self::Config(NodeId::parse(id)?),
            ["edges", _, id] => Self::Edge(EdgeId::parse(id)?),
            ["approvals", _, id] => Self::Approval(ApprovalId::parse(id)?),
            ["inbox", node, number] => Self::Inbox(NodeId::parse(node)?, number.parse().ok()?),
            ["artifacts", _, id] => Self::Artifact(ArtifactId::parse(id)?),
            ["turns", _, number] => Self::Turn(number.parse().ok()?),
            ["steps", _, number] => Self::Step(number.parse().ok()?),
            ["workspaces", name] => Self::Workspace(Alias::parse(name).ok()?),
            _ => return None,
        };
        // Each entry has one path: no upper case, no leading zeros, no other directory.
        (entry.path() == path).then_some(entry)
    }
}

impl State {
    /// The content of a file. `None` if it is not in the tree.
    #[must_use]
    pub fn content(&self, entry: &Entry) -> Option<Vec<u8>> {
        match entry {
            Entry::Run => encode(Some(&self.run)),
            Entry::Node(id) => encode(self.nodes.get(id)),
            Entry::Config(id) => encode(self.configs.get(id)),
            Entry::Edge(id) => encode(self.edges.get(id)),
            Entry::Approval(id) => encode(self.approvals.get(id)),
            Entry::Inbox(node, number) => encode(self.inboxes.get(node).and_then(|inbox| inbox.get(number))),
            Entry::Artifact(id) => encode(self.artifacts.get(id)),
            Entry::Turn(number) => encode(self.turns.get(number)),
            Entry::Step(number) => encode(self.steps.get(number)),
            Entry::Workspace(name) => encode(self.workspaces.get(name)),
        }
    }

    /// All files of the state.
    #[must_use]
    pub fn entries(&self) -> Vec<Entry> {
        let mut entries = vec![Entry::Run];
        entries.extend(self.nodes.keys().map(|id| Entry::Node(*id)));
        entries.extend(self.configs.keys().map(|id| Entry::Config(*id)));
        entries.extend(self.edges.keys().map(|id| Entry::Edge(*id)));
        entries.extend(self.approvals.keys().map(|id| Entry::Approval(*id)));
        let inboxes = self.inboxes.iter();
        entries.extend(
            inboxes.flat_map(|(node, inbox)| inbox.keys().map(|number| Entry::Inbox(*node, *number))),
        );
        entries.extend(self.artifacts.keys().map(|id| Entry::Artifact(*id)));
        entries.extend(self.turns.keys().map(|number| Entry::Turn(*number)));
        entries.extend(self.steps.keys().map(|number| Entry::Step(*number)));
        entries.extend(self.workspaces.keys().map(|name| Entry::Workspace(name.clone())));
        entries
    }

    /// Adds a file that was read from a tree.
    ///
    /// # Errors
    /// [`EntryError`] if its content is wrong, or belongs elsewhere.
    pub fn load(&mut self, entry: &Entry, content: &[u8]) -> Result<(), EntryError> {
        let right = match entry {
            Entry::Run => {
                self.run = decode(entry, content)?;
                true
            }
            Entry::Node(id) => add(&mut self.nodes, *id, decode(entry, content)?, |node| node.id == *id),
            Entry::Config(id) => add(&mut self.configs, *id, decode(entry, content)?, |_| true),
            Entry::Edge(id) => add(&mut self.edges, *id, decode(entry, content)?, |edge| edge.id == *id),
            Entry::Approval(id) => {
                add(&mut self.approvals, *id, decode(entry, content)?, |one| one.id == *id)
            }
            Entry::Inbox(node, number) => {
                let inbox = self.inboxes.entry(*node).or_default();
                add(inbox, *number, decode(entry, content)?, |item| item.number == *number)
            }
            Entry::Artifact(id) => {
                add(&mut self.artifacts, *id, decode(entry, content)?, |one| one.id == *id)
            }
            Entry::Turn(number) => {
                add(&mut self.turns, *number, decode(entry, content)?, |t| t.end.number == *number)
            }
            Entry::Step(number) => {
                let belongs = |step: &Step| {
                    step.number == *number && step.artifacts.iter().all(|(id, artifact)| artifact.id == *id)
                };
                add(&mut self.steps, *number, decode(entry, content)?, belongs)
            }
            Entry::Workspace(name) => {
                add(&mut self.workspaces, name.clone(), decode(entry, content)?, |one| one.name == *name)
            }
        };
        if right { Ok(()) } else { Err(EntryError::Misplaced { path: entry.path() }) }
    }

    /// A state from its `run.json`; the other files are added by [`State::load`].
    ///
    /// # Errors
    /// [`EntryError`] if its content is wrong.
    pub fn from_run(content: &[u8]) -> Result<Self, EntryError> {
        Ok(Self::new(decode(&Entry::Run, content)?))
    }
}

fn add<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, value: V, belongs: impl Fn(&V) -> bool) -> bool {
    let right = belongs(&value);
    if right {
        map.insert(key, value);
    }
    right
}

/// JSON in lines, so that `git diff` of two operations shows fields.
fn encode(value: Option<&impl Serialize>) -> Option<Vec<u8>> {
    let mut text = serde_json::to_vec_pretty(value?).ok()?;
    text.push(b'\n');
    Some(text)
}

fn decode<T: DeserializeOwned>(entry: &Entry, content: &[u8]) -> Result<T, EntryError> {
    serde_json::from_slice(content).map_err(|source| EntryError::Malformed { path: entry.path(), source })
}
