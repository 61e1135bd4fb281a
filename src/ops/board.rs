//! All runs at a glance: for each its status in one of five words, and what waits for a person.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::model::approval::Approval;
use crate::model::ids::{RunId, Slug, StepId};
use crate::model::node::NodeStatus;
use crate::model::run::{GlobalMode, Mode, RunKind, RunStatus, Usage, Verdict};
use crate::model::state::State;
use crate::model::time::Timestamp;
use crate::model::trace::Halted;

/// The status of a run in five words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Doing {
    /// A person has to answer, or to decide how it goes on.
    #[serde(rename = "needs you")]
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
pub struct Glance<'s> {
    /// Its id.
    pub id: RunId,
    /// Its short name.
    pub slug: &'s Slug,
    /// Flow or graph.
    pub kind: RunKind,
    /// A text for people.
    pub label: &'s str,
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
    /// Its nodes.
    pub counts: Counts,
    /// The number of requests that wait for an answer.
    pub open_approvals: usize,
    /// Why it was paused, if by a rule: `stalled` or `limit`.
    pub halted: Option<&'static str>,
    /// The end of a flow.
    pub verdict: Option<&'static str>,
    /// Its last word.
    pub termination: Option<&'s str>,
    /// What a person is asked for otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting_for: Option<&'s str>,
    /// The last words of the node that was active last.
    pub last_words: &'s str,
    /// The newest step of a flow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<&'s StepId>,
}

/// How many nodes of a run do what.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// All.
    pub nodes: usize,
    /// Those with a turn under way.
    pub running: usize,
    /// Those that failed.
    pub failed: usize,
    /// The items that they have not read, without those of nodes that a person holds.
    pub unread: u64,
    /// Those that a person holds, and that have something to read.
    pub held: usize,
}

impl Counts {
    fn of(state: &State) -> Self {
        let with = |status| state.nodes.values().filter(|node| node.status == status).count();
        let free = || state.nodes.values().filter(|node| node.hold.is_none());
        let held = state.nodes.values().filter(|node| node.hold.is_some());
        Self {
            nodes: state.nodes.len(),
            running: with(NodeStatus::Running),
            failed: with(NodeStatus::Failed),
            unread: free().map(|node| node.inbox_count).sum(),
            held: held.filter(|node| node.inbox_count > 0).count(),
        }
    }
}

/// All runs, the one that changed last first.
#[must_use]
pub fn glances<'s>(states: &'s [Cow<'_, State>]) -> Vec<Glance<'s>> {
    let mut all: Vec<Glance<'_>> = states.iter().map(|state| glance(state)).collect();
    all.sort_by_key(|one| std::cmp::Reverse((one.updated_at, one.id)));
    all
}

fn glance(state: &State) -> Glance<'_> {
    let run = &state.run;
    let is_open = |approval: &&Approval| approval.is_open() && !run.status.is_ended();
    let open = state.approvals.values().filter(is_open).count();
    let active = state.nodes.values().max_by_key(|node| node.last_activity_at);
    Glance {
        id: run.id,
        slug: &run.slug,
        kind: run.kind,
        label: &run.label,
        status: run.status,
        doing: doing(state),
        mode: run.mode,
        global_mode: run.global_mode,
        created_at: run.created_at,
        updated_at: run.updated_at,
        usage: run.usage,
        counts: Counts::of(state),
        open_approvals: open,
        halted: halted(state),
        verdict: run.verdict.map(Verdict::word),
        termination: run.termination.as_deref(),
        waiting_for: run.waiting_for.as_deref().filter(|_| !run.status.is_ended()),
        last_words: active.map(|node| node.summary.as_str()).unwrap_or_default(),
        step: state.steps.values().next_back().map(|step| &step.id),
    }
}

/// Why a rule paused a run.
fn halted(state: &State) -> Option<&'static str> {
    state.run.halted.as_ref().map(|halted| match halted {
        Halted::Limit { .. } => "limit",
        _ => "stalled",
    })
}

/// The status of a run. `NeedsYou` precedes the others.
fn doing(state: &State) -> Doing {
    let counts = Counts::of(state);
    let has_failed =
        [Verdict::Failed, Verdict::TimedOut, Verdict::Stalled].map(Some).contains(&state.run.verdict);
    match state.run.status {
        RunStatus::Failed => Doing::Failed,
        RunStatus::Stopped | RunStatus::Completed | RunStatus::Paused if has_failed => Doing::Failed,
        RunStatus::Stopped | RunStatus::Completed => Doing::Finished,
        _ if state.approvals.values().any(|approval| approval.is_open()) => Doing::NeedsYou,
        RunStatus::Paused if state.run.halted.is_some() => Doing::NeedsYou,
        RunStatus::Paused => Doing::Waiting,
        _ if counts.running > 0 => Doing::Working,
        _ if counts.failed > 0 || state.run.waiting_for.is_some() => Doing::NeedsYou,
        RunStatus::Queued | RunStatus::Running => Doing::Waiting,
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
            (RunStatus::Paused, NodeStatus::Running, Doing::Waiting),
            (RunStatus::Stopped, NodeStatus::Failed, Doing::Finished),
            (RunStatus::Completed, NodeStatus::Idle, Doing::Finished),
            (RunStatus::Failed, NodeStatus::Idle, Doing::Failed),
            (RunStatus::Queued, NodeStatus::Idle, Doing::Waiting),
        ] {
            let mut state = bench.state.clone();
            state.run.status = status;
            state.nodes.get_mut(&node).expect("a node").status = node_status;
            assert_eq!(doing(&state), wanted, "{status:?} {node_status:?}");
        }
    }
}
