//! Words for leases.

use crate::clock;
use crate::contract::head::Head;
use crate::contract::ids::{BranchName, RemoteName};
use crate::contract::kept::Kept;
use crate::contract::lease::{Lease, Liveness};
use crate::git::Repo;
use crate::ops::settings;
use crate::runner::authority::Authority;
use crate::runner::options::Takeover;
use crate::runner::survey::line::lease_below;
use crate::runner::survey::words::takes_over;

/// Describes the holder of a lease: runner, attempt and end.
pub fn lease_words(lease: &Lease) -> String {
    let end = clock::format_utc(lease.expires_at());
    format!("{} (attempt {}, until {end})", runner_words(lease), lease.run_id)
}

/// Stands for the name of a runner that has none.
pub const UNNAMED: &str = "an unnamed runner";

/// Returns the name of a lease's runner.
pub fn runner_words(lease: &Lease) -> String {
    if lease.runner.is_empty() { UNNAMED.to_owned() } else { lease.runner.to_string() }
}

/// The words about a live lease whose runner on this host is known to be gone, with the command that takes over at once.
pub fn gone_words(
    repo: &Repo,
    remote: Option<&RemoteName>,
    lease: &Lease,
    branch: &BranchName,
) -> Option<String> {
    let gone = gone(repo, remote, lease)?;
    Some(match takes_over(branch, remote) {
        Some(command) => format!("{gone}; `{command}` does so at once, and the next run saves the work"),
        None => gone,
    })
}

/// The same without the command.
pub(crate) fn gone(repo: &Repo, remote: Option<&RemoteName>, lease: &Lease) -> Option<String> {
    let is_live = matches!(lease.liveness(clock::wall_seconds()), Liveness::Live { .. });
    let attempt = lease.attempt().filter(|_| is_live && Kept::of(&lease.message).is_none())?;
    if !repo.is_left_behind(attempt) {
        return None;
    }
    let skew = match remote {
        None => 0,
        Some(_) => settings::judging(repo).ok()?.skew_seconds,
    };
    let end = clock::format_utc(lease.expires_at());
    let then = match skew {
        0 => "then `aynig run` takes over".to_owned(),
        skew => format!("and `aynig run` takes over {skew} s later, since clocks may differ"),
    };
    Some(format!("its runner on this host is gone; the lease ends at {end}, {then}"))
}

/// The words about a lease that has ended, and is not taken over yet because clocks may differ.
pub(crate) fn in_skew(repo: &Repo, remote: Option<&RemoteName>, lease: &Lease) -> Option<String> {
    let is_live = matches!(lease.liveness(clock::wall_seconds()), Liveness::Live { .. });
    let settings = remote.and_then(|_| settings::judging(repo).ok())?;
    if is_live || settings.skew_seconds == 0 || settings.takeover == Takeover::Observed {
        return None;
    }
    let skew = settings.skew_seconds;
    let then = clock::format_utc(lease.expires_at().saturating_add_unsigned(skew));
    Some(format!(
        "`aynig run` takes over at {then}, {} after the end, since clocks may differ",
        clock::span(skew)
    ))
}

/// Those of [`gone_words`] for the lease at the HEAD of a branch, as it is known here.
pub fn gone_words_of(repo: &Repo, authority: &Authority, branch: &BranchName) -> Option<String> {
    let head = match authority.source() {
        None => repo.branch_head(branch),
        Some(remote) => repo.fetched_head(remote, branch),
    };
    let head = head.ok()??;
    let lease = match Head::read(&repo.commit(head).ok()?.facts()) {
        Head::Working(lease) => lease,
        Head::Unmanaged | Head::Invalid(_) => lease_below(repo, branch, head)?,
        Head::Ready(_) => return None,
    };
    gone_words(repo, authority.source(), &lease, branch)
}
