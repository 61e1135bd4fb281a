//! `state.json`: the state of a run with the field names of the shared contract.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use crate::model::approval::Approval;
use crate::model::artifact::Artifact;
use crate::model::edge::Edge;
use crate::model::ids::{ApprovalId, ArtifactId, EdgeId, NodeId};
use crate::model::node::{Node, NodeConfig};
use crate::model::run::Run;
use crate::model::state::State;

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
    /// The state of a run whose artifacts lie below `artifacts`, with the number of the journal's last line.
    #[must_use]
    pub fn of(state: &'s State, artifacts: &Path, last_seq: u64) -> Self {
        let placed = |artifact: &'s Artifact| {
            // The id makes the path: names of strangers are shown, never followed.
            let path = artifacts.join(artifact.id.to_string());
            Placed { artifact, available: path.is_file(), path: path.display().to_string() }
        };
        Self {
            run: &state.run,
            nodes: &state.nodes,
            node_configs: &state.configs,
            edges: &state.edges,
            artifacts: state.all_artifacts().map(|(id, artifact)| (id, placed(artifact))).collect(),
            approvals: &state.approvals,
            last_seq,
        }
    }
}
