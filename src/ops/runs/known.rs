//! The runs as they were read last, for those who look again and again, as the page does.
//!
//! Invariant: a commit never changes, so what was read of it holds. Refs are read anew at each look, and leases are
//! compared with the time.

use std::borrow::Cow;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashSet};

use crate::clock;
use crate::contract::head::Head;
use crate::contract::ids::CommitId;
use crate::git::Repo;
use crate::ledger::{Tip, runs};
use crate::model::ids::{NodeId, RunId};
use crate::model::run::RunKind;
use crate::model::state::State;
use crate::ops::error::Error;

use super::drivers::Drivers;
use super::live::{is_live, while_leased};

/// All runs and their drivers, as they were read last.
#[derive(Debug, Default)]
pub struct Known {
    /// The newest state of each run that can be read.
    tips: BTreeMap<RunId, Tip>,
    /// Commits of drivers that are no lease.
    resting: HashSet<CommitId>,
}

impl Known {
    /// The newest state of each run as its ledger has it, without what only the run itself needs. Runs that cannot be read
    /// are left out.
    pub(in crate::ops) fn ledgers(&mut self, repo: &Repo) -> Result<impl Iterator<Item = &Tip>, Error> {
        super::follow_deleted(repo)?;
        let heads: BTreeMap<RunId, CommitId> = runs::all(repo)?.into_iter().collect();
        self.tips.retain(|run, tip| heads.get(run) == Some(&tip.id));
        for (run, head) in heads {
            if let Entry::Vacant(missing) = self.tips.entry(run) {
                match read(repo, run, head) {
                    Some(tip) => drop(missing.insert(tip)),
                    None => tracing::debug!(%run, "the run cannot be read"),
                }
            }
        }
        Ok(self.tips.values())
    }

    /// The states of [`ledgers`](Self::ledgers). A node whose driver is leased is `running`.
    pub(crate) fn states(&mut self, repo: &Repo) -> Result<Vec<Cow<'_, State>>, Error> {
        drop(self.ledgers(repo)?);
        let at_work = self.at_work(repo)?;
        let state = |tip: &'_ Tip| {
            let is_at_work = |node: &NodeId| at_work.contains(&(tip.state.run.id, *node));
            if !tip.state.nodes.keys().any(is_at_work) {
                return None;
            }
            let mut state = tip.state.clone();
            let nodes = state.nodes.iter_mut().filter(|(id, _)| is_at_work(id));
            nodes.for_each(|(_, node)| node.status = while_leased(node.status));
            Some(state)
        };
        Ok(self.tips.values().map(|tip| state(tip).map_or(Cow::Borrowed(&tip.state), Cow::Owned)).collect())
    }

    /// The nodes whose drivers have a live lease.
    fn at_work(&mut self, repo: &Repo) -> Result<BTreeSet<(RunId, NodeId)>, Error> {
        let (mut drivers, now) = (Drivers::new(repo)?, clock::wall_seconds());
        let (mut found, mut resting) = (BTreeSet::new(), HashSet::new());
        for Tip { state, .. } in self.tips.values().filter(|tip| tip.state.run.kind == RunKind::Graph) {
            let own = drivers.own(&state.run)?;
            if own.is_empty() {
                continue;
            }
            for node in state.nodes.values() {
                let head = own.head(node.alias.as_str());
                let Some(head) = head.filter(|head| !resting.contains(head)) else { continue };
                if self.resting.contains(&head) {
                    resting.insert(head);
                    continue;
                }
                let Ok(commit) = repo.commit(head) else { continue };
                match Head::read(&commit.facts()) {
                    Head::Working(lease) if is_live(&lease, now) => {
                        found.insert((state.run.id, node.id));
                    }
                    Head::Working(_) => {}
                    Head::Ready(_) | Head::Invalid(_) | Head::Unmanaged => drop(resting.insert(head)),
                }
            }
        }
        self.resting = resting;
        Ok(found)
    }
}

/// A run at a commit, without what only the run itself needs.
fn read(repo: &Repo, run: RunId, head: CommitId) -> Option<Tip> {
    let mut tip = Tip::read(repo, run, head).ok()?;
    let state = &mut tip.state;
    (state.inboxes, state.artifacts, state.edges) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    state.configs = BTreeMap::new();
    // The newest step is the one that is shown.
    state.steps = state.steps.pop_last().into_iter().collect();
    Some(tip)
}
