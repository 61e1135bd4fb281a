//! The state of a run, and its files in the tree of a ledger.
//!
//! | file | contains |
//! |---|---|
//! | `fold` | applies events |
//! | `entries` | the files of the tree, and their contents |

mod entries;
mod fold;

use std::collections::BTreeMap;

use super::approval::Approval;
use super::artifact::Artifact;
use super::edge::Edge;
use super::ids::{Alias, ApprovalId, ArtifactId, EdgeId, NodeId};
use super::message::InboxItem;
use super::node::{Node, NodeConfig, ORCHESTRATOR};
use super::run::Run;
use super::step::{Step, Turn};
use super::workspace::Workspace;

pub use entries::{Entry, EntryError};
pub use fold::{Fault, Folded};

/// The state of a run.
///
/// Turns that ended and their artifacts need not be loaded: no decision reads them.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    /// The run.
    pub run: Run,
    /// Its nodes.
    pub nodes: BTreeMap<NodeId, Node>,
    /// Their configurations.
    pub configs: BTreeMap<NodeId, NodeConfig>,
    /// Its edges.
    pub edges: BTreeMap<EdgeId, Edge>,
    /// Requests without an answer, and those answered since the turn of their node began.
    pub approvals: BTreeMap<ApprovalId, Approval>,
    /// Unread items, by node and number.
    pub inboxes: BTreeMap<NodeId, BTreeMap<u64, InboxItem>>,
    /// Artifacts of no step and no turn, or of a step or turn that has not ended.
    pub artifacts: BTreeMap<ArtifactId, Artifact>,
    /// Turns that ended, by number.
    pub turns: BTreeMap<u64, Turn>,
    /// Steps, by number.
    pub steps: BTreeMap<u64, Step>,
    /// Workspaces.
    pub workspaces: BTreeMap<Alias, Workspace>,
    /// Whether the run was deleted.
    pub deleted: bool,
}

impl State {
    /// A run without nodes.
    #[must_use]
    pub fn new(run: Run) -> Self {
        Self {
            run,
            nodes: BTreeMap::new(),
            configs: BTreeMap::new(),
            edges: BTreeMap::new(),
            approvals: BTreeMap::new(),
            inboxes: BTreeMap::new(),
            artifacts: BTreeMap::new(),
            turns: BTreeMap::new(),
            steps: BTreeMap::new(),
            workspaces: BTreeMap::new(),
            deleted: false,
        }
    }

    /// The node with this alias.
    #[must_use]
    pub fn node_named(&self, alias: &Alias) -> Option<&Node> {
        self.nodes.values().find(|node| node.alias == *alias)
    }

    /// The role whose runners alone take the turns of a node; `None`: any runner takes them.
    #[must_use]
    pub fn reserved_role(&self, id: NodeId) -> Option<&str> {
        self.configs.get(&id).filter(|config| config.reserve_role).map(|config| config.role_template.as_str())
    }

    /// The orchestrator that was made first.
    #[must_use]
    pub fn orchestrator(&self) -> Option<&Node> {
        let all = self.nodes.values().filter(|node| node.role_template == ORCHESTRATOR);
        all.min_by_key(|node| node.number)
    }

    /// Whether a node may declare the end of the run: an orchestrator, or any node of a run that has none.
    #[must_use]
    pub fn may_end(&self, node: &Node) -> bool {
        node.role_template == ORCHESTRATOR || self.orchestrator().is_none()
    }

    /// The unread items of a node, in reading order.
    #[must_use]
    pub fn inbox(&self, node: NodeId) -> Vec<&InboxItem> {
        let mut items: Vec<&InboxItem> =
            self.inboxes.get(&node).into_iter().flat_map(BTreeMap::values).collect();
        items.sort_by_key(|item| item.order());
        items
    }

    /// All artifacts that are loaded.
    pub fn all_artifacts(&self) -> impl Iterator<Item = (&ArtifactId, &Artifact)> {
        let ended = self.turns.values().map(|turn| &turn.artifacts);
        let ended = ended.chain(self.steps.values().map(|step| &step.artifacts));
        self.artifacts.iter().chain(ended.flatten())
    }
}
