//! The drivers of runs, as they are known here.
//!
//! Invariant: the refs of each place that decides runs are listed once, so that many runs cost as much as few.

use bstr::BStr;

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

/// A place that decides runs.
struct Decided {
    by: DecidedBy,
    /// `None`: it cannot be reached from here.
    place: Option<Place>,
    /// The heads of the drivers, sorted by name after the prefix.
    heads: Heads,
}

/// The drivers of one run.
pub(super) struct Own<'d> {
    /// The length of a name up to the alias.
    before: usize,
    heads: &'d [(BranchName, CommitId)],
}

impl Own<'_> {
    pub(super) fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// The head of the driver of a node.
    pub(super) fn head(&self, alias: &str) -> Option<CommitId> {
        let at = self.heads.binary_search_by(|(name, _)| name.as_bstr()[self.before..].cmp(BStr::new(alias)));
        at.ok().map(|at| self.heads[at].1)
    }
}

impl Decided {
    fn own(&self, run: &Run) -> Own<'_> {
        let below = format!("{}/", run.slug);
        let first = self.heads.partition_point(|(name, _)| name.as_bstr() < BStr::new(&below));
        let theirs = &self.heads[first..];
        let end = theirs.partition_point(|(name, _)| name.as_bstr().starts_with(below.as_bytes()));
        Own { before: below.len(), heads: &theirs[..end] }
    }
}

impl<'r> Drivers<'r> {
    pub(in crate::ops) fn new(repo: &'r Repo) -> Result<Self, Error> {
        Ok(Self { repo, prefix: settings::workspace(repo)?.run_prefix, places: Vec::new() })
    }

    /// The drivers of a run.
    pub(super) fn own(&mut self, run: &Run) -> Result<Own<'_>, Error> {
        Ok(self.decided(run)?.own(run))
    }

    /// The place that decides a run, and its drivers. `None`: it cannot be reached from here.
    pub(in crate::ops) fn of(&mut self, run: &Run) -> Result<Option<(&Place, Heads)>, Error> {
        let prefix = self.prefix.clone();
        let decided = self.decided(run)?;
        let whole = |name: &BranchName| BranchName::new([prefix.as_bytes(), name.as_bstr()].concat()).ok();
        let own = decided.own(run).heads.iter().filter_map(|(name, head)| Some((whole(name)?, *head)));
        Ok(decided.place.as_ref().map(|place| (place, own.collect())))
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
            return Ok(Decided { by, place: None, heads: Heads::new() });
        };
        let refs = match &place {
            Place::Here => format!("{HEADS}{prefix}"),
            Place::Remote(remote) => format!("{}{prefix}", fetched_from(remote)),
        };
        let tips = self.repo.tips(&refs).map_err(LedgerError::from)?.into_iter();
        let heads = tips.filter_map(|tip| Some((tip.branch, tip.target.ok()?))).collect();
        Ok(Decided { by, place: Some(place), heads })
    }
}
