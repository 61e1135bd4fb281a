//! `state.json`: the state of a run with the field names of the shared contract.

use std::collections::BTreeMap;

use serde::Serialize;

use super::artifacts;
use super::directory::RunDirectory;
use crate::model::approval::Approval;
use crate::model::artifact::Artifact;
use crate::model::edge::Edge;
use crate::model::ids::{Alias, ApprovalId, ArtifactId, EdgeId, NodeId};
use crate::model::node::{Node, NodeConfig};
use crate::model::run::Run;
use crate::model::state::State;
use crate::model::workspace::Workspace;

/// The state, as clients of the contract read it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Projection<'s> {
    #[serde(flatten)]
    run: &'s Run,
    nodes: &'s BTreeMap<NodeId, Node>,
    node_configs: &'s BTreeMap<NodeId, NodeConfig>,
    edges: &'s BTreeMap<EdgeId, Edge>,
    artifacts: BTreeMap<&'s ArtifactId, Placed<'s>>,
    approvals: &'s BTreeMap<ApprovalId, Approval>,
    workspaces: &'s BTreeMap<Alias, Workspace>,
    last_seq: u64,
}

/// An artifact with its place on this host.
#[derive(Debug, Serialize)]
struct Placed<'s> {
    #[serde(flatten)]
    artifact: &'s Artifact,
    /// Absolute.
    path: String,
    /// Whether its content is there.
    available: bool,
}

impl<'s> Projection<'s> {
    /// The state of a run with its places on this host, and the number of the journal's last line.
    #[must_use]
    pub fn of(state: &'s State, directory: &RunDirectory, last_seq: u64) -> Self {
        let placed = |artifact: &'s Artifact| Placed {
            artifact,
            available: artifacts::is_here(directory, artifact),
            path: artifacts::place(directory, artifact.id).display().to_string(),
        };
        Self {
            run: &state.run,
            nodes: &state.nodes,
            node_configs: &state.configs,
            edges: &state.edges,
            artifacts: state.all_artifacts().map(|(id, artifact)| (id, placed(artifact))).collect(),
            approvals: &state.approvals,
            workspaces: &state.workspaces,
            last_seq,
        }
    }
}
