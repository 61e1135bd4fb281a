//! Reads the history of a branch for its bounds (CONTRACT 11.16 to 11.19).
//!
//! Invariant: commits without a state cost no more than one walk over [`MOST_BETWEEN`] of them, however
//! many branches are made from the same commit.

use std::collections::HashMap;

use crate::contract::bounds::{self, Bound, Fact, Limits};
use crate::contract::head::Head;
use crate::contract::ids::CommitId;
use crate::git::Repo;

/// The most commits without a state in a row that are read. What is below more of them is not looked at.
const MOST_BETWEEN: usize = 250;

/// Histories of branches, read for their bounds.
#[derive(Debug, Default)]
pub(crate) struct Past {
    /// The nearest commit with a state at or below one that has none.
    nearest: HashMap<CommitId, Option<CommitId>>,
}

impl Past {
    /// The bound that a branch has reached whose `head` would be run.
    pub(crate) fn bound(&mut self, repo: &Repo, head: CommitId, limits: Limits, now: i64) -> Option<Bound> {
        bounds::reached(limits, now, self.facts(repo, head))
    }

    /// How often the state of `head` was reached since it was asked for (CONTRACT 3.14).
    pub(crate) fn visits(&mut self, repo: &Repo, head: CommitId) -> usize {
        bounds::visits(self.facts(repo, head))
    }

    fn facts<'a>(&'a mut self, repo: &'a Repo, head: CommitId) -> impl Iterator<Item = Fact> + 'a {
        let mut next = Some(head);
        std::iter::from_fn(move || {
            let (fact, parent) = self.read(repo, next.take()?)?;
            next = parent;
            Some(fact)
        })
    }

    /// The nearest fact at or below `from`, with the parent of its commit.
    fn read(&mut self, repo: &Repo, from: CommitId) -> Option<(Fact, Option<CommitId>)> {
        let start = self.nearest.get(&from).copied().unwrap_or(Some(from))?;
        for (passed, stored) in repo.history(start).map_while(Result::ok).enumerate().take(MOST_BETWEEN) {
            if let Some(fact) = Fact::new(&Head::read(&stored.facts()), stored.tree, stored.committed_at) {
                if passed > 0 {
                    self.nearest.insert(from, Some(stored.id));
                }
                return Some((fact, stored.parents.first().copied()));
            }
        }
        self.nearest.insert(from, None);
        None
    }
}
