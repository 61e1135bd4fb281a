//! Decides whether an attempt is over, as far as this repository knows.
//!
//! Invariant: when in doubt, the attempt counts as running. A remote's branch is judged by the last fetch
//! (CONTRACT 5.19). If that fetch is older than the lease, the attempt may still be running and counts as
//! such.

use crate::clock;
use crate::contract::head::Head;
use crate::contract::ids::{AttemptId, BranchName, CommitId, RemoteName};
use crate::contract::lease::Liveness;
use crate::git::Repo;

use crate::runner::attempt::files::Record;
use crate::runner::landing::recover::lease_of;
use crate::runner::shell_quote;

/// Why an attempt is not known to be over, and the user's next step.
#[derive(Debug, Clone)]
pub(crate) struct NotSettled {
    pub(crate) why: String,
    /// The command to type.
    pub(crate) next: String,
}

/// An attempt, as far as this repository knows it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Of<'a> {
    pub(crate) attempt: AttemptId,
    pub(crate) branch: &'a BranchName,
    /// The authority of the branch, if that is a remote.
    pub(crate) remote: Option<&'a RemoteName>,
    /// The lease commit, if a record names it.
    pub(crate) lease: Option<CommitId>,
}

/// The HEAD of its branch, as far as it is known here.
pub(crate) fn head(repo: &Repo, of: Of<'_>) -> Result<Option<CommitId>, NotSettled> {
    let known = match of.remote {
        None => repo.branch_head(of.branch),
        Some(remote) => repo.fetched_head(remote, of.branch),
    };
    known.map_err(|error| NotSettled { why: error.to_string(), next: "aynig doctor".to_owned() })
}

/// Checks that the attempt is over.
pub(crate) fn settled(repo: &Repo, of: Of<'_>) -> Result<(), NotSettled> {
    let there = of.remote.map(|remote| format!(" --remote {remote}")).unwrap_or_default();
    let branch = of.branch;
    let look = || format!("aynig status --branch {}{there}", shell_quote(branch));
    let Some(head) = head(repo, of)? else { return Ok(()) };
    if let Err(error) = repo.commit(head) {
        return Err(NotSettled { why: error.to_string(), next: "git fsck".to_owned() });
    }
    if let Some(lease) = lease_of(repo, of.branch, head, of.attempt) {
        if let Liveness::Expired { over } = lease.liveness(clock::wall_seconds()) {
            let why = format!(
                "the lease of this attempt on {branch} ran out {} ago and is not closed yet",
                clock::span(over)
            );
            return Err(NotSettled { why, next: closes(repo, of, lease.commit == head) });
        }
        let why = format!("{branch} is under the lease of this attempt");
        return Err(NotSettled { why, next: look() });
    }
    // For a remote's branch, only a fetch newer than the lease proves that the lease is over.
    let before = |lease: CommitId| lease != head && repo.descends(lease, head);
    if of.remote.is_some() && of.lease.is_none_or(before) {
        let why = format!("what is known of {branch} does not say that this attempt is over");
        return Err(NotSettled { why, next: look() });
    }
    Ok(())
}

/// The command that closes an expired lease. A pass closes it if it is at HEAD, or if its attempt's worktree
/// is on this host. Otherwise only the user can.
fn closes(repo: &Repo, of: Of<'_>, at_head: bool) -> String {
    let mut options = format!(" --branch {}", shell_quote(of.branch));
    options.extend(of.remote.map(|remote| format!(" --remote {}", shell_quote(remote.as_str()))));
    let is_here = || {
        let all = repo.linked_worktrees().unwrap_or_default();
        all.iter().any(|one| one.mark().is_some_and(|mark| mark.attempt == of.attempt))
    };
    if !at_head && !is_here() {
        return format!("aynig set-state --retry{options}");
    }
    let checked_out = repo.checkout().and_then(|here| here.branch);
    let current = match of.remote {
        None => checked_out,
        Some(remote) => checked_out.and_then(|local| repo.upstream_on(&local, remote)),
    };
    if current.as_ref() == Some(of.branch) {
        options.push_str(" --current-branch include");
    }
    format!("aynig run{options}")
}

/// The lease commit that a record names, and the remote in the lease's `dwp-source`.
pub(crate) fn of_record(repo: &Repo, record: &Record) -> (Option<CommitId>, Option<RemoteName>) {
    let lease = CommitId::parse_hex(&record.lease);
    let remote = lease.and_then(|lease| repo.commit(lease).ok()).and_then(|stored| {
        match Head::read(&stored.facts()) {
            Head::Working(lease) => RemoteName::from_source(bstr::BStr::new(&lease.source?)),
            Head::Unmanaged | Head::Invalid(_) | Head::Ready(_) => None,
        }
    });
    (lease, remote)
}
