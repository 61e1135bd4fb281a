//! The drivers of runs, as they are known here.
//!
//! Invariant: the refs of each place that decides runs are listed once, so that many runs cost as much as few.

use std::collections::BTreeMap;

use bstr::BString;

use crate::contract::ids::{BranchName, CommitId};
use crate::contract::layout::{HEADS, fetched_from};
use crate::git::Repo;
use crate::ledger::{LedgerError, Place};
use crate::model::run::{DecidedBy, Run};
use crate::ops::error::Error;
use crate::ops::settings;

/// Drivers with their newest commits.
type Heads = Vec<(BranchName, CommitId)>;

/// The drivers of the places that were asked for.
pub(in crate::ops) struct Drivers<'r> {
    repo: &'r Repo,
    /// The beginning of each driver's name.
    prefix: String,
    places: Vec<Decided>,
}

/// A place that decides runs, with the heads of their drivers, by name after the prefix.
struct Decided {
    by: DecidedBy,
    /// `None`: it cannot be reached from here.
    place: Option<Place>,
    heads: BTreeMap<BString, CommitId>,
}

impl<'r> Drivers<'r> {
    pub(in crate::ops) fn new(repo: &'r Repo) -> Result<Self, Error> {
        Ok(Self { repo, prefix: settings::workspace(repo)?.run_prefix, places: Vec::new() })
    }

    /// The head of the driver of a node, or of a flow.
    pub(super) fn head(&mut self, run: &Run, alias: &str) -> Result<Option<CommitId>, Error> {
        let name = BString::from(format!("{}/{alias}", run.slug));
        Ok(self.decided(run)?.heads.get(&name).copied())
    }

    /// The place that decides a run, and its drivers. `None`: it cannot be reached from here.
    pub(in crate::ops) fn of(&mut self, run: &Run) -> Result<Option<(&Place, Heads)>, Error> {
        let (prefix, below) = (self.prefix.clone(), BString::from(format!("{}/", run.slug)));
        let Decided { place, heads, .. } = self.decided(run)?;
        let own = heads.range(below.clone()..).take_while(|(name, _)| name.starts_with(&below));
        let whole = |name: &BString| BranchName::new([prefix.as_bytes(), name].concat()).ok();
        let own = own.filter_map(|(name, head)| Some((whole(name)?, *head))).collect();
        Ok(place.as_ref().map(|place| (place, own)))
    }

    fn decided(&mut self, run: &Run) -> Result<&Decided, Error> {
        let at = match self.places.iter().position(|one| one.by == run.decided_by) {
            Some(at) => at,
            None => {
                let decided = self.list(run)?;
                self.places.push(decided);
                self.places.len() - 1
            }
        };
        Ok(&self.places[at])
    }

    fn list(&self, run: &Run) -> Result<Decided, Error> {
        let (by, prefix) = (run.decided_by.clone(), &self.prefix);
        let Ok(place) = Place::of(self.repo, run.id, &by) else {
            return Ok(Decided { by, place: None, heads: BTreeMap::new() });
        };
        let refs = match &place {
            Place::Here => format!("{HEADS}{prefix}"),
            Place::Remote(remote) => format!("{}{prefix}", fetched_from(remote)),
        };
        let tips = self.repo.tips(&refs).map_err(LedgerError::from)?.into_iter();
        let heads =
            tips.filter_map(|tip| Some((tip.branch.as_bstr().to_owned(), tip.target.ok()?))).collect();
        Ok(Decided { by, place: Some(place), heads })
    }
}
