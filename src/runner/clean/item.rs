//! The types of `clean`: its options and the items it finds; disk use and age of files.

use std::path::{Path, PathBuf};

use bstr::BString;

use serde::Serialize;

use crate::contract::ids::{AttemptId, BranchName, CommitId};
use crate::fsutil::{disk_use, no_mounts_in};
use crate::git::objects::landed::{Landed, LandedError};
use crate::git::worktrees::error::WorktreeError;
use crate::git::worktrees::preserved::Kept;
use crate::runner::attempt::files;

/// A workspace that leaves old worktrees.
#[derive(Debug, Clone)]
pub struct Lasting {
    /// The id of its run.
    pub(crate) run: AttemptId,
    /// Its work branch.
    pub(crate) branch: BranchName,
    /// The name that people type.
    pub(crate) handle: String,
    /// The place of its worktree.
    pub(crate) path: PathBuf,
}

impl Lasting {
    /// Whether an old worktree was its own.
    pub(crate) fn has_left(&self, kept: &Kept) -> bool {
        let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let path = &kept.checkout.place.path;
        let begin = format!("{}.kept-", name(&self.path));
        let number = name(path).strip_prefix(&begin).map(str::to_owned);
        kept.attempt == self.run
            && path.parent() == self.path.parent()
            && number.is_some_and(|number| number.starts_with(|c: char| c.is_ascii_digit()))
    }
}

/// The kinds of items to look at, and how to treat them.
#[derive(Debug, Clone)]
pub struct CleanOptions {
    /// Logs, records and sightings.
    pub logs: bool,
    /// Worktrees.
    pub worktrees: bool,
    /// Rescue refs.
    pub rescue: bool,
    /// Deferred states that no pass can deliver.
    pub deferred: bool,
    /// Whether these were asked for by name. Else they stay.
    pub deferred_asked: bool,
    /// What workspaces left behind.
    pub workspaces: bool,
    /// Whether that was asked for by name. Else archived branches stay.
    pub workspaces_asked: bool,
    /// Journals and drivers of ended runs, and files of deleted ones.
    pub runs: bool,
    /// Whether these were asked for by name. Else the files of deleted runs stay.
    pub runs_asked: bool,
    /// The runs that have, or had, a workspace.
    pub lasting: Vec<Lasting>,
    /// The age in seconds from which logs and records are removed, and rescue refs whose work is in no
    /// branch. If `None`, logs have a default age and such rescue refs stay.
    pub older_than: Option<u64>,
    /// The number of attempts of a branch whose logs stay.
    pub keep: usize,
    /// The main branch, which others are merged into, and its commit.
    pub main: Option<(BString, CommitId)>,
    /// Whether to look for merged branches.
    pub hints: bool,
    /// Whether to remove items; otherwise a preview.
    pub apply: bool,
    /// The current time, in seconds since the epoch.
    pub now: i64,
}

/// The kind of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A worktree.
    Worktree,
    /// The logs and the record of an attempt, or a file that no record names.
    Logs,
    /// Sightings of leases.
    Sightings,
    /// A rescue ref.
    Rescue,
    /// A deferred state.
    Deferred,
    /// A workspace that is incomplete.
    Workspace,
    /// The branch of a workspace that was removed.
    Archive,
    /// Files of a run.
    Run,
    /// The driver of a run that has ended.
    Driver,
}

/// The treatment of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// It would be removed (in a preview).
    #[serde(rename = "would go")]
    Remove,
    /// It was removed.
    Removed,
    /// It stays.
    Stays,
    /// Its removal failed.
    Failed,
}

/// One finding.
#[derive(Debug, Clone, Serialize)]
pub struct Item {
    /// Its kind.
    pub kind: Kind,
    /// The path, the ref, or the attempt.
    pub name: String,
    /// The branch it was for.
    pub branch: Option<String>,
    /// Seconds since it was created or last written.
    #[serde(rename = "ageSeconds")]
    pub age: Option<u64>,
    /// Its disk use in bytes. `None` for a ref, whose objects git removes.
    pub bytes: Option<u64>,
    /// Its treatment.
    #[serde(rename = "fate")]
    pub action: Action,
    /// Why it is safe to remove, or why it stays.
    #[serde(rename = "reason")]
    pub why: String,
    /// The next step for the user, if it stays.
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

    /// Adds age and disk use of what is at `path`, unless something is mounted in it.
    pub(crate) fn on_disk(mut self, path: &Path, wanted: &CleanOptions) -> Self {
        self.bytes = no_mounts_in(path).is_ok().then(|| disk_use(path));
        self.age = file_age(path, wanted.now);
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

    /// Runs `act` if the item is to be removed and `wanted.apply` is set. `act` returns words to add to
    /// `why`.
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

/// Why nothing could be listed.
#[derive(Debug, thiserror::Error)]
pub enum CleanError {
    /// Worktrees could not be listed.
    #[error(transparent)]
    Worktrees(#[from] WorktreeError),
    /// The contents of a branch could not be determined.
    #[error(transparent)]
    Landed(#[from] LandedError),
    /// Refs could not be listed.
    #[error(transparent)]
    Refs(#[from] crate::git::RefError),
    /// The log directory cannot be used.
    #[error(transparent)]
    Logs(#[from] files::AttemptError),
}

/// Describes how a branch contains some work.
pub(crate) fn words(how: Landed) -> &'static str {
    match how {
        Landed::Reachable => "its commit is in the history",
        Landed::SameFiles => "the newest commit has all files it changes as it has them",
        Landed::SamePatch => "one commit makes the same change (a squash merge)",
    }
}

/// Seconds since `path` was last written.
pub(crate) fn file_age(path: &Path, now: i64) -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    let written = path.symlink_metadata().ok()?.mtime();
    Some(u64::try_from(now.saturating_sub(written)).unwrap_or(0))
}

/// How old something is, and whether that is older than what was asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Age {
    pub(crate) seconds: u64,
    pub(crate) is_old: bool,
}

impl Age {
    pub(crate) fn since(since: i64, wanted: &CleanOptions) -> Self {
        let seconds = age(since, wanted.now);
        Self { seconds, is_old: wanted.older_than.is_some_and(|limit| seconds > limit) }
    }
}

pub(crate) fn age(since: i64, now: i64) -> u64 {
    u64::try_from(now.saturating_sub(since)).unwrap_or(0)
}
