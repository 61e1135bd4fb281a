//! Finds a request to stop an attempt above its lease (CONTRACT 5.30).

use crate::contract::cancel::Cancel;
use crate::contract::head::Head;
use crate::contract::ids::{AttemptId, BranchName, CommitId};
use crate::contract::lease::Lease;
use crate::git::Repo;
use crate::runner::options::Trust;
use crate::runner::survey::line::line;
use crate::runner::survey::trust;

/// The most commits that are searched for a request.
const MOST: usize = 100;

/// The requests on an attempt.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// The newest that this runner heeds.
    pub(crate) heeded: Option<Cancel>,
    /// The newest above it that lacks a good signature where one is required, and why it is refused.
    pub(crate) refused: Option<(Cancel, String)>,
}

/// Finds requests for `attempt` from `head` down to `floor`, which is not searched. A refused one hides none below it.
pub(crate) fn find(
    repo: &Repo,
    trust: &Trust,
    attempt: Option<AttemptId>,
    branch: &BranchName,
    head: CommitId,
    floor: Option<CommitId>,
) -> Found {
    let mut found = Found::default();
    for stored in line(repo, branch, head).take(MOST).take_while(|stored| Some(stored.id) != floor) {
        match Head::read(&stored.facts()) {
            Head::Working(lease) if lease.attempt() == attempt => {
                let author = repo.author(stored.id).unwrap_or_default();
                let Some(cancel) = Cancel::of(&lease.message, &author) else { continue };
                match trust::refused(repo, trust, stored.id) {
                    None => return Found { heeded: Some(cancel), ..found },
                    Some(why) => found.refused = found.refused.or(Some((cancel, why))),
                }
            }
            Head::Working(_) | Head::Ready(_) => break,
            Head::Unmanaged | Head::Invalid(_) => {}
        }
    }
    found
}

/// The request on a lease that is HEAD, or that renewals lie on.
pub fn of_lease(repo: &Repo, trust: &Trust, branch: &BranchName, lease: &Lease) -> Option<Cancel> {
    find(repo, trust, lease.attempt(), branch, lease.commit, None).heeded
}
