//! The runs as they were read last, for those who look again and again, as the page does.
//!
//! Invariant: a commit never changes, so what was read of it holds. Refs are read anew at each look, and leases are
//! compared with the time.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::clock;
use crate::contract::head::Head;
use crate::contract::ids::CommitId;
use crate::contract::layout::{HEADS, fetched_from};
use crate::git::Repo;
use crate::ledger::{Place, Tip, runs};
use crate::model::ids::{NodeId, RunId};
use crate::model::run::{DecidedBy, RunKind};
use crate::model::state::State;
use crate::ops::error::Error;
use crate::ops::settings;

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
        let mut before = std::mem::take(&mut self.tips);
        for (run, head) in runs::all(repo)? {
            match before.remove(&run).filter(|tip| tip.id == head).map_or_else(|| read(repo, run, head), Some)
            {
                Some(tip) => drop(self.tips.insert(run, tip)),
                None => tracing::debug!(%run, "the run cannot be read"),
            }
        }
        Ok(self.tips.values())
    }

    /// The states of [`ledgers`](Self::ledgers). A node whose driver is leased is `running`.
    pub(in crate::ops) fn states(&mut self, repo: &Repo) -> Result<Vec<Cow<'_, State>>, Error> {
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
        let prefix = settings::workspace(repo)?.run_prefix;
        let (mut places, mut drivers) = (Vec::<(&DecidedBy, Option<String>)>::new(), HashMap::new());
        let (mut found, mut resting, now) = (BTreeSet::new(), HashSet::new(), clock::wall_seconds());
        for Tip { state, .. } in self.tips.values().filter(|tip| tip.state.run.kind == RunKind::Graph) {
            let by = &state.run.decided_by;
            let place = places.iter().find(|(known, _)| *known == by).map(|(_, place)| place.clone());
            let place = place.unwrap_or_else(|| {
                let refs = Place::of(repo, state.run.id, by).ok().map(|place| match place {
                    Place::Here => format!("{HEADS}{prefix}"),
                    Place::Remote(remote) => format!("{}{prefix}", fetched_from(&remote)),
                });
                places.push((by, refs.clone()));
                refs
            });
            let Some(refs) = place else { continue };
            if !drivers.contains_key(&refs) {
                let tips = repo.tips(&refs).map_err(crate::ledger::LedgerError::from)?.into_iter();
                let heads = tips.filter_map(|tip| Some((tip.branch.to_string(), tip.target.ok()?)));
                drivers.insert(refs.clone(), heads.collect::<HashMap<String, CommitId>>());
            }
            for node in state.nodes.values() {
                let head = drivers[&refs].get(&format!("{}/{}", state.run.slug, node.alias));
                let Some(head) = head.copied().filter(|head| !resting.contains(head)) else { continue };
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
