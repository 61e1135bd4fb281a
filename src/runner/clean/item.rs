//! What `clean` looks at and what it finds: wishes in, items out, and the few facts about files that all kinds need.

use std::path::Path;

use bstr::BString;

use crate::contract::ids::CommitId;
use crate::git::objects::landed::{Landed, LandedError};
use crate::git::worktrees::error::WorktreeError;
use crate::runner::attempt::files;

/// What is to be looked at, and how.
#[derive(Debug, Clone)]
pub struct CleanOptions {
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
pub enum Action {
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
    pub action: Action,
    /// Why it is safe to remove, or why it stays.
    pub why: String,
    /// What to do, where it stays.
    pub next: Option<String>,
}

impl Item {
    pub(crate) fn new(kind: Kind, name: impl Into<String>) -> Self {
        Self {
            kind,
            name: name.into(),
            branch: None,
            age: None,
            bytes: None,
            action: Action::Stays,
            why: String::new(),
            next: None,
        }
    }

    pub(crate) fn of(mut self, branch: &impl ToString) -> Self {
        self.branch = Some(branch.to_string());
        self
    }

    pub(crate) fn stays(mut self, why: impl Into<String>, next: impl Into<String>) -> Self {
        self.action = Action::Stays;
        self.why = why.into();
        self.next = Some(next.into());
        self
    }

    pub(crate) fn goes(mut self, why: impl Into<String>) -> Self {
        self.action = Action::Remove;
        self.why = why.into();
        self
    }

    pub(crate) fn failed(mut self, why: impl Into<String>) -> Self {
        self.action = Action::Failed;
        self.why = why.into();
        self
    }

    /// Carries out what `goes` said, if it is to be carried out.
    pub(crate) fn carried_out(
        mut self,
        wanted: &CleanOptions,
        act: impl FnOnce() -> Result<Option<String>, String>,
    ) -> Self {
        if self.action != Action::Remove || !wanted.apply {
            return self;
        }
        match act() {
            Ok(more) => {
                self.action = Action::Removed;
                if let Some(more) = more {
                    self.why = format!("{}; {more}", self.why);
                }
                self
            }
            Err(why) => self.failed(why),
        }
    }
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
    Logs(#[from] files::AttemptError),
}

/// How work is in a branch.
pub(crate) fn words(how: Landed) -> &'static str {
    match how {
        Landed::Reachable => "its commit is in the history",
        Landed::SameFiles => "the newest commit has all files it changes as it has them",
        Landed::SamePatch => "one commit makes the same change (a squash merge)",
    }
}

/// The room a file, or a directory with all below it, takes on disk; links are not followed.
pub(crate) fn disk_use(path: &Path) -> u64 {
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
pub(crate) fn file_age(path: &Path, now: i64) -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    let written = path.symlink_metadata().ok()?.mtime();
    Some(u64::try_from(now.saturating_sub(written)).unwrap_or(0))
}

pub(crate) fn age(since: i64, now: i64) -> u64 {
    u64::try_from(now.saturating_sub(since)).unwrap_or(0)
}
