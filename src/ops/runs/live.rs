//! What the drivers of a graph's nodes say about them: who has a turn now, and why one that is due does not begin.
//!
//! Invariant: the ledger changes by operations alone, and has the beginning of no turn. Whoever reads a run lays this over
//! its state, as the drivers are known here.

use std::collections::BTreeMap;

use bstr::ByteSlice;

use super::next::runner;
use crate::clock;
use crate::contract::head::{Event, Head};
use crate::contract::ids::{BranchName, CommitId};
use crate::contract::lease::{Lease, Liveness};
use crate::contract::parking::NOT_BEFORE_KEY;
use crate::contract::unable::unable;
use crate::engine::driver::{Driver, TURN};
use crate::engine::graph::operate::said;
use crate::engine::remote_of;
use crate::git::Repo;
use crate::ledger::Place;
use crate::model::ids::NodeId;
use crate::model::node::NodeStatus;
use crate::model::run::RunKind;
use crate::model::state::State;
use crate::ops::settings;
use crate::ops::view::lease::gone;

/// Sets the status of nodes whose drivers are leased, and returns what the drivers of others wait for, in words.
pub(in crate::ops) fn overlay(repo: &Repo, state: &mut State) -> BTreeMap<NodeId, String> {
    let mut words = BTreeMap::new();
    let Ok(place) = Place::of(repo, state.run.id, &state.run.decided_by) else { return words };
    let Ok(settings) = settings::workspace(repo) else { return words };
    if state.run.kind != RunKind::Graph {
        return words;
    }
    let now = clock::wall_seconds();
    let role = |id: &NodeId| Some((*id, state.reserved_role(*id)?.to_owned()));
    let reserved: BTreeMap<NodeId, String> = state.nodes.keys().filter_map(role).collect();
    for node in state.nodes.values_mut() {
        let branch = Driver::branch_of(&settings.run_prefix, &state.run.slug, node.alias.as_str());
        let Some(head) = branch.ok().and_then(|branch| known(repo, &place, &branch)) else { continue };
        let Ok(commit) = repo.commit(head) else { continue };
        match Head::read(&commit.facts()) {
            Head::Working(lease) if is_live(&lease, now) => match gone(repo, remote_of(&place), &lease) {
                Some(gone) => drop(words.insert(node.id, gone)),
                None => node.status = while_leased(node.status),
            },
            Head::Ready(event) if event.state.as_str() == TURN && node.inbox_count > 0 => {
                let why = waits(&event).filter(|_| !state.run.status.is_ended());
                // The summary is shown beside it.
                let reason = format!(": {}", said(&node.summary));
                let why = why.map(|why| why.strip_suffix(&reason).unwrap_or(&why).to_owned());
                words.extend(why.map(|why| (node.id, why)));
            }
            Head::Ready(event) if event.state.is_stalled() => {
                let next = runner(reserved.get(&node.id).map(String::as_str));
                words.insert(node.id, format!("its turn was cut off; the next `{next}` carries on"));
            }
            Head::Working(_) | Head::Ready(_) | Head::Invalid(_) | Head::Unmanaged => {}
        }
    }
    words
}

/// The status of a node whose driver is leased. One that waits for a person is still blocked, during its turn, too.
pub(super) fn while_leased(status: NodeStatus) -> NodeStatus {
    if status == NodeStatus::Blocked { status } else { NodeStatus::Running }
}

/// Whether the driver of a node, or of a flow, has a live lease.
pub(in crate::ops) fn is_at_work(repo: &Repo, state: &State, name: &str) -> bool {
    let Ok(place) = Place::of(repo, state.run.id, &state.run.decided_by) else { return false };
    let Ok(settings) = settings::workspace(repo) else { return false };
    let branch = Driver::branch_of(&settings.run_prefix, &state.run.slug, name);
    let head = branch.ok().and_then(|branch| known(repo, &place, &branch));
    let commit = head.and_then(|head| repo.commit(head).ok());
    let now = clock::wall_seconds();
    commit.is_some_and(
        |commit| matches!(Head::read(&commit.facts()), Head::Working(lease) if is_live(&lease, now)),
    )
}

/// Whether a lease has not expired.
pub(super) fn is_live(lease: &Lease, now: i64) -> bool {
    matches!(lease.liveness(now), Liveness::Live { .. })
}

fn known(repo: &Repo, place: &Place, branch: &BranchName) -> Option<CommitId> {
    let head = match place {
        Place::Here => repo.branch_head(branch),
        Place::Remote(remote) => repo.fetched_head(remote, branch),
    };
    head.ok().flatten()
}

/// Why a turn that is due does not begin at once. `None`: it does.
fn waits(event: &Event) -> Option<String> {
    if let Some(last) = unable(&event.message.trailers).pop() {
        return Some(format!("{} cannot do it now: {}", last.runner, last.why));
    }
    // Without a time the turn begins at once.
    event.message.trailers.last(NOT_BEFORE_KEY)?;
    let subject = event.message.subject.to_str_lossy();
    let subject = subject.strip_prefix(TURN).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(&subject);
    Some(subject.to_owned())
}
