//! All runs at a glance: for each its status in one of five words, and what waits for a person.

use serde::{Deserialize, Serialize};

use crate::git::Repo;
use crate::ledger::Tip;
use crate::model::ids::{RunId, Slug};
use crate::model::node::NodeStatus;
use crate::model::run::{GlobalMode, Mode, RunKind, RunStatus, Usage};
use crate::model::state::State;
use crate::model::time::Timestamp;

use super::error::Error;
use super::runs::{self, live};

/// What a run is doing, as people sort runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Doing {
    /// A person has to answer, or to decide how it goes on.
    NeedsYou,
    /// An agent or a program is at work.
    Working,
    /// It goes on by itself, later or when a runner takes it.
    Waiting,
    /// It was completed or stopped.
    Finished,
    /// It failed.
    Failed,
}

/// A run at a glance.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Glance {
    /// Its id.
    pub id: RunId,
    /// Its short name.
    pub slug: Slug,
    /// Flow or graph.
    pub kind: RunKind,
    /// A text for people.
    pub label: String,
    /// The status of the contract.
    pub status: RunStatus,
    /// What it is doing.
    pub doing: Doing,
    /// AUTO or INTERACTIVE.
    pub mode: Mode,
    /// PLANNING or IMPLEMENTATION.
    pub global_mode: GlobalMode,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it changed last.
    pub updated_at: Timestamp,
    /// What its agents used.
    pub usage: Usage,
    /// The number of its nodes.
    pub nodes: usize,
    /// The number of requests that wait for an answer.
    pub approvals: usize,
    /// What a person is asked for otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting_for: Option<String>,
    /// The last words of the node that was active last.
    pub summary: String,
}

/// All runs, the one that changed last first. Those that cannot be read are left out.
pub fn glances(repo: &Repo) -> Result<Vec<Glance>, Error> {
    let mut all = Vec::new();
    for listed in runs::list(repo)?.into_iter().filter(|listed| listed.run.is_ok()) {
        let mut state = Tip::read(repo, listed.id, listed.head)?.state;
        live::overlay(repo, &mut state);
        all.push(glance(&state));
    }
    all.sort_by_key(|one| std::cmp::Reverse((one.updated_at, one.id)));
    Ok(all)
}

fn glance(state: &State) -> Glance {
    let run = &state.run;
    let open = state.approvals.values().filter(|approval| approval.is_open()).count();
    let active = state.nodes.values().max_by_key(|node| node.last_activity_at);
    Glance {
        id: run.id,
        slug: run.slug.clone(),
        kind: run.kind,
        label: run.label.clone(),
        status: run.status,
        doing: doing(state),
        mode: run.mode,
        global_mode: run.global_mode,
        created_at: run.created_at,
        updated_at: run.updated_at,
        usage: run.usage,
        nodes: state.nodes.len(),
        approvals: open,
        waiting_for: run.waiting_for.clone().filter(|_| !run.status.is_ended()),
        summary: active.map(|node| node.summary.clone()).unwrap_or_default(),
    }
}

/// What a run is doing. A word that asks for a person comes before the others.
fn doing(state: &State) -> Doing {
    let has = |status| state.nodes.values().any(|node| node.status == status);
    match state.run.status {
        RunStatus::Failed => Doing::Failed,
        RunStatus::Stopped | RunStatus::Completed => Doing::Finished,
        _ if state.approvals.values().any(|approval| approval.is_open()) => Doing::NeedsYou,
        _ if state.run.waiting_for.is_some() || has(NodeStatus::Failed) => Doing::NeedsYou,
        RunStatus::Paused => Doing::NeedsYou,
        RunStatus::Queued => Doing::Waiting,
        RunStatus::Running if has(NodeStatus::Running) => Doing::Working,
        RunStatus::Running => Doing::Waiting,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::Bench;

    #[test]
    fn a_run_is_in_one_of_five_words() {
        let mut bench = Bench::new();
        let node = bench.node("a", "x");
        for (status, node_status, wanted) in [
            (RunStatus::Running, NodeStatus::Idle, Doing::Waiting),
            (RunStatus::Running, NodeStatus::Running, Doing::Working),
            (RunStatus::Running, NodeStatus::Failed, Doing::NeedsYou),
            (RunStatus::Paused, NodeStatus::Running, Doing::NeedsYou),
            (RunStatus::Stopped, NodeStatus::Failed, Doing::Finished),
            (RunStatus::Completed, NodeStatus::Idle, Doing::Finished),
            (RunStatus::Failed, NodeStatus::Idle, Doing::Failed),
            (RunStatus::Queued, NodeStatus::Idle, Doing::Waiting),
        ] {
            let mut state = bench.state.clone();
            state.run.status = status;
            state.nodes.get_mut(&node).expect("a node").status = node_status;
            assert_eq!(doing(&state), wanted, "{status:?} {node_status:?}");
            state.run.waiting_for = Some("x".to_owned());
            let needs = !status.is_ended();
            assert_eq!(doing(&state) == Doing::NeedsYou, needs, "{status:?}");
        }
    }
}
