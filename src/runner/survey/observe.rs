//! Leases judged by how long this host has seen them, for `--takeover observed` (CONTRACT.md §5).
//!
//! Invariant: a first sighting is dated after its commit was read, and looked up before the swap that closes the lease, which
//! proves that HEAD has not moved since. Sightings are kept in one small file in the shared git directory, so that they outlive a
//! pass; where it cannot be read or written no lease is found to be over. The rule itself is `contract::sighting`'s.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::clock;
use crate::contract::ids::{BranchName, CommitId, RemoteName};
use crate::contract::lease::Lease;
use crate::contract::sighting::{Reading, Sight, Sightings, Watched, watched};
use crate::fsutil::{self, DirLock};
use crate::git::Repo;

use super::super::arbiter::Arbiter;
use super::super::options::Options;
use super::scan::{Scanned, Verdict};

/// How long to wait for another runner that is at the file, for moments only.
const PATIENCE: Duration = Duration::from_secs(5);

/// Notes all leases in `scanned`, and lets what was seen decide which of them are over, whatever their dates say.
///
/// # Errors
/// What kept the sightings from being read or kept; then no lease is over.
pub fn observe(repo: &Repo, arbiter: &Arbiter, options: &Options, scanned: &mut [Scanned]) -> io::Result<()> {
    let result = note(repo, arbiter, options, scanned);
    for one in scanned {
        let over = matches!(one.watched, Some(Watched::Over { .. }));
        one.verdict = match std::mem::replace(&mut one.verdict, Verdict::Unmanaged) {
            Verdict::Held(lease) | Verdict::Expired(lease) if over => Verdict::Expired(lease),
            Verdict::Held(lease) | Verdict::Expired(lease) => Verdict::Held(lease),
            other => other,
        };
    }
    result
}

/// Fills in how long the leases in `scanned` have been seen by passes on this host; notes nothing.
pub fn recall(repo: &Repo, arbiter: &Arbiter, options: &Options, scanned: &mut [Scanned]) {
    let Ok(place) = place(repo) else { return };
    let seen = read(&place);
    let now = reading();
    for (one, sight, seconds) in leases(arbiter.source(), scanned) {
        if let Some(first) = seen.first(&sight, &now) {
            one.watched = Some(watched(first, now.millis, seconds, options.skew_seconds));
        }
    }
}

/// How long until the first of the leases that are held will have been seen for long enough.
pub fn next_due(scanned: &[Scanned]) -> Option<Duration> {
    let left = scanned.iter().filter_map(|one| match (&one.verdict, one.watched) {
        (Verdict::Held(_), Some(Watched::Remaining { left, .. })) => Some(Duration::from_millis(left)),
        _ => None,
    });
    left.min()
}

/// How many sightings are of commits that are not (as last fetched) at the HEAD of their branch; forgets them if `apply`. Those of another
/// boot may be another host's, whose count goes on.
///
/// # Errors
/// What kept the sightings from being kept.
pub fn forget_gone(repo: &Repo, apply: bool) -> io::Result<usize> {
    if !repo.common_dir().join("aynig/sightings").join(FILE).exists() {
        return Ok(0);
    }
    let place = place(repo)?;
    let _turn = DirLock::acquire(&place, PATIENCE)?;
    let mut seen = read(&place);
    let before = seen.len();
    seen.retain(|sight| {
        let head = match &sight.remote {
            None => repo.branch_head(&sight.branch),
            Some(remote) => repo.fetched_head(remote, &sight.branch),
        };
        head.is_err() || head.is_ok_and(|head| head == Some(sight.head))
    });
    let gone = before - seen.len();
    if apply && gone > 0 {
        fsutil::replace(&place.join(FILE), &seen.encode())?;
    }
    Ok(gone)
}

fn note(repo: &Repo, arbiter: &Arbiter, options: &Options, scanned: &mut [Scanned]) -> io::Result<()> {
    let place = place(repo)?;
    let remote = arbiter.source();
    let heads: HashMap<BranchName, CommitId> =
        scanned.iter().filter_map(|one| Some((one.branch.clone(), one.head?))).collect();
    let _turn = DirLock::acquire(&place, PATIENCE)?;
    let before = read(&place);
    let mut seen = before.clone();
    // Not only those that are selected here: other runners of this host may look at others.
    seen.retain(|sight| sight.remote.as_ref() != remote || heads.get(&sight.branch) == Some(&sight.head));
    let now = reading();
    let mut found = Vec::new();
    for (one, sight, seconds) in leases(remote, scanned) {
        let first = seen.note(&sight, &now);
        found.push((one, watched(first, now.millis, seconds, options.skew_seconds)));
    }
    if seen != before {
        fsutil::replace(&place.join(FILE), &seen.encode())?;
    }
    for (one, watched) in found {
        one.watched = Some(watched);
    }
    Ok(())
}

fn leases<'a>(
    remote: Option<&RemoteName>,
    scanned: &'a mut [Scanned],
) -> impl Iterator<Item = (&'a mut Scanned, Sight, u64)> {
    scanned.iter_mut().filter_map(move |one| {
        let (Verdict::Held(Lease { seconds, .. }) | Verdict::Expired(Lease { seconds, .. })) = &one.verdict
        else {
            return None;
        };
        let (seconds, head) = (*seconds, one.head?);
        let sight = Sight { remote: remote.cloned(), branch: one.branch.clone(), head };
        Some((one, sight, seconds))
    })
}

const FILE: &str = "seen";

fn place(repo: &Repo) -> io::Result<PathBuf> {
    let place = repo.state_dir()?.join("sightings");
    match std::fs::create_dir(&place) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        Ok(()) | Err(_) => Ok(place),
    }
}

/// What is kept; nothing if it is not what we wrote, which starts all counts anew.
fn read(place: &Path) -> Sightings {
    let text = match std::fs::read(place.join(FILE)) {
        Ok(text) => text,
        Err(error) => {
            if error.kind() != ErrorKind::NotFound {
                tracing::warn!(%error, "earlier sightings of leases could not be read; they count from now on");
            }
            return Sightings::default();
        }
    };
    Sightings::parse(&text).unwrap_or_else(|| {
        tracing::warn!(place = %place.display(), "earlier sightings of leases cannot be understood; they count from now on");
        Sightings::default()
    })
}

fn reading() -> Reading {
    let millis = u64::try_from(clock::since_boot().as_millis()).unwrap_or(u64::MAX);
    Reading { boot: clock::boot().to_owned(), millis }
}
