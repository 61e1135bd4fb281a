//! Finds a request to stop an attempt above its lease (CONTRACT 5.30).

use crate::contract::cancel::Cancel;
use crate::contract::head::Head;
use crate::contract::ids::{AttemptId, CommitId};
use crate::contract::lease::Lease;
use crate::git::Repo;
use crate::runner::options::Trust;
use crate::runner::survey::trust;

/// The most commits that are searched for a request.
const MOST: usize = 100;

/// A request, and its commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) commit: CommitId,
    pub(crate) cancel: Cancel,
}

/// Finds the newest request for `attempt` from `head` down to `floor`, which is not searched.
pub(crate) fn find(
    repo: &Repo,
    attempt: Option<AttemptId>,
    head: CommitId,
    floor: Option<CommitId>,
) -> Option<Found> {
    for stored in repo.history(head).flatten().take(MOST).take_while(|stored| Some(stored.id) != floor) {
        match Head::read(&stored.facts()) {
            Head::Working(lease) if lease.attempt() == attempt => {
                let author = repo.author(stored.id).unwrap_or_default();
                if let Some(cancel) = Cancel::of(&lease.message, &author) {
                    return Some(Found { commit: stored.id, cancel });
                }
            }
            Head::Working(_) | Head::Ready(_) => return None,
            Head::Unmanaged | Head::Invalid(_) => {}
        }
    }
    None
}

/// The request on a lease that is HEAD, or that renewals lie on.
pub fn of_lease(repo: &Repo, lease: &Lease) -> Option<Cancel> {
    find(repo, lease.attempt(), lease.commit, None).map(|found| found.cancel)
}

impl Found {
    /// Why this runner does not heed it, if signatures are required.
    pub(crate) fn refused(&self, repo: &Repo, trust: &Trust) -> Option<String> {
        trust::refused(repo, trust, self.commit)
    }
}
