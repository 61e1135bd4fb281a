//! The line of a branch: its commits, newest first, also where a merge has them behind a later parent (CONTRACT 5.10).
//!
//! Invariant: without such a merge it is the history of first parents. A merge leads to another parent only for a lease
//! of this very branch that the first parent does not have: a person's `git pull` makes such a merge.

use super::words::driven;
use crate::contract::commits::{OF_RUN_KEY, SOURCE_KEY};
use crate::contract::head::Head;
use crate::contract::ids::{BranchName, CommitId, RemoteName};
use crate::contract::lease::Lease;
use crate::contract::message::Message;
use crate::git::Repo;
use crate::git::objects::commits::Stored;

/// The most commits behind a merge that are searched for a lease.
const SEARCHED: usize = 250;

/// The most commits of a driver that are read for the run's id.
const MOST_READ: usize = 1_000;

/// The commits of `branch` from `head` down. It ends silently at the edge of a shallow clone.
pub(crate) fn line(repo: &Repo, branch: &BranchName, head: CommitId) -> impl Iterator<Item = Stored> {
    let mut next = Some(head);
    std::iter::from_fn(move || {
        let stored = repo.commit(next.take()?).ok()?;
        next = match stored.parents.as_slice() {
            [] => None,
            [only] => Some(*only),
            [first, others @ ..] => {
                let is_merge_of_ours = |parent: &&CommitId| {
                    Head::read(&stored.facts()) == Head::Unmanaged
                        && leads_to_lease(repo, branch, *first, **parent)
                };
                Some(others.iter().find(is_merge_of_ours).copied().unwrap_or(*first))
            }
        };
        Some(stored)
    })
}

/// The nearest commit of the line from `head` down that declares a state.
pub(crate) fn nearest(repo: &Repo, branch: &BranchName, head: CommitId) -> Option<Head> {
    line(repo, branch, head).map(|stored| Head::read(&stored.facts())).find(|head| head.state().is_some())
}

/// The lease of `branch` that commits without a state lie on. Its command may be at work, with commits of its own.
pub(crate) fn lease_below(repo: &Repo, branch: &BranchName, head: CommitId) -> Option<Lease> {
    match nearest(repo, branch, head)? {
        Head::Working(lease) => Some(lease),
        Head::Unmanaged | Head::Invalid(_) | Head::Ready(_) => None,
    }
}

/// Whether `branch` drives a run that a remote decides, where none (`source`) decides here: a server that clones push to.
/// The nearest commit that names the run has the remote.
pub(crate) fn is_decided_elsewhere(
    repo: &Repo,
    source: Option<&RemoteName>,
    branch: &BranchName,
    head: CommitId,
) -> bool {
    if source.is_some() || driven(&branch.to_string()).is_none() {
        return false;
    }
    let commits = repo.history(head).take(MOST_READ).map_while(Result::ok);
    let mut states = commits.map(|stored| Message::parse(&stored.message).trailers);
    let named = states.find(|trailers| trailers.last(OF_RUN_KEY).is_some());
    named.is_some_and(|trailers| trailers.last(SOURCE_KEY).is_some())
}

/// Whether the nearest state behind `parent` is a lease of this branch that `first` does not have.
fn leads_to_lease(repo: &Repo, branch: &BranchName, first: CommitId, parent: CommitId) -> bool {
    let (mut todo, mut seen) = (vec![parent], 0);
    while let Some(id) = todo.pop() {
        let Ok(stored) = repo.commit(id) else { continue };
        seen += 1;
        match Head::read(&stored.facts()) {
            Head::Working(lease) if lease.is_of(branch) && !repo.descends(first, id) => return true,
            Head::Unmanaged if seen < SEARCHED => todo.extend(stored.parents),
            Head::Unmanaged | Head::Working(_) | Head::Invalid(_) | Head::Ready(_) => {}
        }
    }
    false
}
