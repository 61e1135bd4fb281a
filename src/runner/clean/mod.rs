//! What finished attempts have left on this host, and removing what of it nobody needs any more.
//!
//! Invariant: a preview and the removal come from the same judgement, made anew under the hold of what is removed. Only what is proven
//! ours goes (the mark of a worktree, the names of files and refs that the runner makes), only once the attempt's lease is over, and
//! only if its content is in a branch, under a rescue ref, or was old enough for whoever asked (CONTRACT.md §9). Branches are never removed.

mod attempts;
mod merged;
mod rescues;
mod standing;
mod worktrees;

use std::path::Path;

use bstr::BString;

use crate::contract::ids::CommitId;
use crate::git::Repo;
use crate::git::landed::LandedError;
use crate::git::worktree_error::WorktreeError;

use super::attempt;

pub use merged::Merged;

/// What is to be looked at, and how.
#[derive(Debug, Clone)]
pub struct Wishes {
    /// Logs, records and sightings.
    pub logs: bool,
    /// Worktrees.
    pub worktrees: bool,
    /// Rescue refs.
    pub rescue: bool,
    /// The age from which logs and records go, in seconds, and rescue refs whose work is in no branch; the latter stay if nobody says.
    pub older_than: Option<u64>,
    /// How many attempts of a branch keep their logs.
    pub keep: usize,
    /// The branch that others are merged into, and what it points at.
    pub main: Option<(BString, CommitId)>,
    /// Whether to look for branches that are merged.
    pub hints: bool,
    /// Whether to remove, or only to tell.
    pub apply: bool,
    /// Now, seconds since the epoch.
    pub now: i64,
}

/// What kind of thing it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A worktree.
    Worktree,
    /// The logs and the record of an attempt, or a file that no record tells of.
    Logs,
    /// Sightings of leases.
    Sightings,
    /// A rescue ref.
    Rescue,
}

/// What becomes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It would be removed.
    Remove,
    /// It was.
    Removed,
    /// It stays.
    Stays,
    /// It was to be removed and could not be.
    Failed,
}

/// One thing that was found.
#[derive(Debug, Clone)]
pub struct Item {
    /// Its kind.
    pub kind: Kind,
    /// The path, the ref, or the attempt.
    pub name: String,
    /// The branch it was for.
    pub branch: Option<String>,
    /// Seconds since it was made or last written.
    pub age: Option<u64>,
    /// The room it takes on disk; none for a ref, whose objects are git's to remove.
    pub bytes: Option<u64>,
    /// What becomes of it.
    pub fate: Fate,
    /// Why it is safe to remove, or why it stays.
    pub why: String,
    /// What to do, where it stays.
    pub next: Option<String>,
}

impl Item {
    fn new(kind: Kind, name: impl Into<String>) -> Self {
        Self {
            kind,
            name: name.into(),
            branch: None,
            age: None,
            bytes: None,
            fate: Fate::Stays,
            why: String::new(),
            next: None,
        }
    }

    fn of(mut self, branch: &impl ToString) -> Self {
        self.branch = Some(branch.to_string());
        self
    }

    fn stays(mut self, why: impl Into<String>, next: impl Into<String>) -> Self {
        self.fate = Fate::Stays;
        self.why = why.into();
        self.next = Some(next.into());
        self
    }

    fn goes(mut self, why: impl Into<String>) -> Self {
        self.fate = Fate::Remove;
        self.why = why.into();
        self
    }

    fn failed(mut self, why: impl Into<String>) -> Self {
        self.fate = Fate::Failed;
        self.why = why.into();
        self
    }

    /// Carries out what `goes` said, if it is to be carried out.
    fn carried_out(mut self, wishes: &Wishes, act: impl FnOnce() -> Result<Option<String>, String>) -> Self {
        if self.fate != Fate::Remove || !wishes.apply {
            return self;
        }
        match act() {
            Ok(more) => {
                self.fate = Fate::Removed;
                if let Some(more) = more {
                    self.why = format!("{}; {more}", self.why);
                }
                self
            }
            Err(why) => self.failed(why),
        }
    }
}

/// All that was found.
#[derive(Debug, Clone)]
pub struct Report {
    /// Item by item.
    pub items: Vec<Item>,
    /// Attempts whose logs stay because they are too young, or among the newest of their branch.
    pub retained: usize,
    /// Branches whose work is in the main branch.
    pub merged: Vec<Merged>,
    /// Bytes on disk of worktrees, logs and records before.
    pub before: u64,
    /// The same afterwards; in a preview, what it would be.
    pub after: u64,
}

/// Why nothing could be looked at.
#[derive(Debug, thiserror::Error)]
pub enum CleanError {
    /// Worktrees could not be listed.
    #[error(transparent)]
    Worktrees(#[from] WorktreeError),
    /// What is in a branch could not be told.
    #[error(transparent)]
    Landed(#[from] LandedError),
    /// Refs could not be listed.
    #[error(transparent)]
    Refs(#[from] crate::git::RefError),
    /// The log directory is not to be used.
    #[error(transparent)]
    Logs(#[from] attempt::AttemptError),
}

/// Looks at everything that is wished for, and removes it if that is wished for.
///
/// # Errors
/// Only if nothing could be looked at; what could not be removed is in the report.
pub fn clean(repo: &Repo, wishes: &Wishes) -> Result<Report, CleanError> {
    let before = used(repo)?;
    let mut items = Vec::new();
    let mut retained = 0;
    // Before worktrees: a commit that is just now rescued out of one may be old, and goes at the earliest with the next look.
    if wishes.rescue {
        items.extend(rescues::clean(repo, wishes)?);
    }
    if wishes.worktrees {
        items.extend(worktrees::clean(repo, wishes)?);
    }
    if wishes.logs {
        let (more, left) = attempts::clean(repo, wishes)?;
        items.extend(more);
        retained = left;
    }
    let merged = merged::merged(repo, wishes)?;
    let after = if wishes.apply {
        used(repo)?
    } else {
        let freed = items.iter().filter(|item| item.fate == Fate::Remove).filter_map(|item| item.bytes).sum();
        before.saturating_sub(freed)
    };
    Ok(Report { items, retained, merged, before, after })
}

/// What worktrees of ours, kept ones among them, logs and records take on disk.
fn used(repo: &Repo) -> Result<u64, CleanError> {
    let ours = repo.linked_worktrees()?.into_iter().filter(|registered| registered.mark().is_some());
    let kept = repo.kept_worktrees()?.into_iter().map(|kept| kept.checkout.place.path);
    let places = ours.map(|registered| registered.checkout.place.path).chain(kept);
    let files = [attempt::log_directory(repo), repo.common_dir().join("aynig")];
    Ok(places.chain(files).map(|place| disk_use(&place)).sum())
}

/// The room a file, or a directory with all below it, takes on disk; links are not followed.
fn disk_use(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let mut total = 0;
    let mut ahead = vec![path.to_owned()];
    while let Some(next) = ahead.pop() {
        let Ok(found) = next.symlink_metadata() else { continue };
        total += found.blocks() * 512;
        if found.is_dir() {
            ahead.extend(std::fs::read_dir(&next).into_iter().flatten().flatten().map(|entry| entry.path()));
        }
    }
    total
}

/// Seconds since a file was last written.
fn file_age(path: &Path, now: i64) -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    let written = path.symlink_metadata().ok()?.mtime();
    Some(u64::try_from(now.saturating_sub(written)).unwrap_or(0))
}

fn age(since: i64, now: i64) -> u64 {
    u64::try_from(now.saturating_sub(since)).unwrap_or(0)
}
