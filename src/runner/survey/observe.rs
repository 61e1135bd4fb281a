//! Tracks how long this host has seen each lease, for `--takeover observed` (CONTRACT 5.21, 5.22).
//!
//! Invariant: a first sighting is dated after its commit was read. It is looked up before the swap that
//! closes the lease, and that swap proves that HEAD has not moved since. Sightings outlive a pass in a small
//! file in the shared git directory. If the file cannot be read or written, no lease counts as expired.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::clock;
use crate::contract::ids::{BranchName, CommitId};
use crate::contract::layout::Own;
use crate::contract::sighting::{Reading, Sight, Sightings, Watched, watched};
use crate::fsutil;
use crate::fsutil::DirLock;
use crate::git::Repo;

use super::super::options::Takeover;
use super::verdict::{Branch, Leased, Question, Verdict};

/// The longest wait for another runner's lock on the file, which is held only briefly.
const PATIENCE: Duration = Duration::from_secs(5);

/// Sets [`Leased::seen`] of each lease, and stores first sightings if [`Question::notes`] is set. With
/// `--takeover observed` that alone decides which leases have expired, whatever their dates.
///
/// # Errors
/// If sightings could not be stored. With `--takeover observed` no lease counts as expired then.
pub(crate) fn observe(question: &Question<'_>, branches: &mut [Branch]) -> io::Result<()> {
    let noted = if question.notes {
        note(question, branches)
    } else {
        recall(question, branches);
        Ok(())
    };
    if question.options.takeover == Takeover::Observed {
        for leased in branches.iter_mut().filter_map(Branch::leased_mut) {
            leased.over = matches!(leased.seen, Some(Watched::Over { .. }));
        }
    }
    noted
}

/// Counts the sightings of commits that are no longer HEAD of their branch, as last fetched, and removes them
/// if `apply`. Those of another boot are kept as long, since they may be another host's, whose count
/// continues.
///
/// # Errors
/// If the file could not be locked or written.
pub(crate) fn forget_gone(repo: &Repo, apply: bool) -> io::Result<usize> {
    if !directory(repo).join(FILE).exists() {
        return Ok(0);
    }
    let directory = made(repo)?;
    let _turn = DirLock::acquire(&directory, PATIENCE)?;
    let mut seen = read(&directory);
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
        fsutil::replace(&directory.join(FILE), &seen.encode())?;
    }
    Ok(gone)
}

/// Sets [`Leased::seen`] from stored sightings, and stores nothing.
fn recall(question: &Question<'_>, branches: &mut [Branch]) {
    let mut leases = leases(question, branches).peekable();
    if leases.peek().is_none() {
        return;
    }
    let seen = read(&directory(question.repo));
    let now = reading();
    for (leased, sight) in leases {
        leased.seen = seen.first(&sight, &now).map(|first| watched_for(question, leased, first, &now));
    }
}

fn note(question: &Question<'_>, branches: &mut [Branch]) -> io::Result<()> {
    let directory = made(question.repo)?;
    let remote = question.authority.source();
    let _turn = DirLock::acquire(&directory, PATIENCE)?;
    let before = read(&directory);
    let mut seen = before.clone();
    let heads: HashMap<&BranchName, CommitId> =
        branches.iter().filter_map(|branch| Some((&branch.name, branch.head?))).collect();
    // Branches that are not selected here are included, because other runners on this host may watch them.
    seen.retain(|sight| sight.remote.as_ref() != remote || heads.get(&sight.branch) == Some(&sight.head));
    let now = reading();
    let mut found = Vec::new();
    for (leased, sight) in leases(question, branches) {
        let first = seen.note(&sight, &now);
        let watched = watched_for(question, leased, first, &now);
        found.push((leased, watched));
    }
    if seen != before {
        fsutil::replace(&directory.join(FILE), &seen.encode())?;
    }
    // Only after they are stored: a sighting that is not stored does not count (CONTRACT 5.22).
    for (leased, watched) in found {
        leased.seen = Some(watched);
    }
    Ok(())
}

fn watched_for(question: &Question<'_>, leased: &Leased, first: u64, now: &Reading) -> Watched {
    watched(first, now.millis, leased.lease.seconds, question.options.skew_seconds)
}

fn leases<'a>(
    question: &Question<'_>,
    branches: &'a mut [Branch],
) -> impl Iterator<Item = (&'a mut Leased, Sight)> {
    let remote = question.authority.source().cloned();
    branches.iter_mut().filter_map(move |branch| {
        let Branch { name, head, verdict: Verdict::Leased(leased), .. } = branch else { return None };
        let sight = Sight { remote: remote.clone(), branch: name.clone(), head: (*head)? };
        Some((leased, sight))
    })
}

const FILE: &str = "seen";

fn directory(repo: &Repo) -> PathBuf {
    Own::Sightings.within(repo.common_dir())
}

/// Creates the directory of the sightings if it is missing.
fn made(repo: &Repo) -> io::Result<PathBuf> {
    repo.state_dir()?;
    let directory = directory(repo);
    match std::fs::create_dir(&directory) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        Ok(()) | Err(_) => Ok(directory),
    }
}

/// Reads the stored sightings. If the file is damaged they are empty, so all counts start anew.
fn read(directory: &Path) -> Sightings {
    let text = match fsutil::read_plain(directory.join(FILE)) {
        Ok(text) => text,
        Err(error) => {
            if error.kind() != ErrorKind::NotFound {
                tracing::warn!(%error, "earlier sightings of leases could not be read; they count from now on");
            }
            return Sightings::default();
        }
    };
    Sightings::parse(&text).unwrap_or_else(|| {
        tracing::warn!(directory = %directory.display(), "earlier sightings of leases cannot be understood; they count from now on");
        Sightings::default()
    })
}

fn reading() -> Reading {
    let millis = u64::try_from(clock::since_boot().as_millis()).unwrap_or(u64::MAX);
    Reading { boot: clock::boot().to_owned(), millis }
}
