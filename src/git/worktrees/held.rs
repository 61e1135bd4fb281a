//! A worktree of ours that this process holds: whoever has the value may use it, and nobody else sweeps it away.

use std::fs::Metadata;
use std::ops::Deref;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use bstr::BString;

use crate::contract::ids::CommitId;
use crate::fsutil::FileLock;
use crate::git::worktrees::registration::{Mark, Workplace};

/// A worktree of ours that this process holds.
#[derive(Debug)]
pub(crate) struct Worktree {
    place: Workplace,
    /// Whose it is.
    pub(crate) mark: Mark,
    /// Whether its HEAD is the branch (local mode) or a commit.
    pub(crate) attached: bool,
    /// How it was when its command began, if it is worth keeping.
    pub(crate) origin: Option<Box<Origin>>,
    /// How git left it before its command began.
    pub(crate) filled: Option<Box<Filled>>,
    /// Dropped last: while it is held nobody else sweeps this worktree away.
    _held: FileLock,
}

impl Deref for Worktree {
    type Target = Workplace;

    fn deref(&self) -> &Workplace {
        &self.place
    }
}

impl Worktree {
    pub(crate) fn held(place: Workplace, mark: Mark, attached: bool, held: FileLock) -> Self {
        Self { place, mark, attached, origin: None, filled: None, _held: held }
    }

    /// Whether it has so many files that much is spared where it is used again.
    pub(crate) fn is_large(&self) -> bool {
        self.origin.is_some()
    }

    /// The same worktree at another place and for another attempt. Its new lock is there before the old one is let go.
    pub(crate) fn passed_on(self, path: PathBuf, mark: Mark, attached: bool, held: FileLock) -> Self {
        let place = Workplace { path, git_dir: self.place.git_dir };
        Self { place, mark, attached, origin: self.origin, filled: self.filled, _held: held }
    }
}

/// How a large worktree was when its command began.
#[derive(Debug)]
pub(crate) struct Origin {
    /// Our copy of the index.
    pub(crate) index: Identity,
    /// The permissions of the directories in it.
    pub(crate) mode: u32,
    /// What decided how its files were written.
    pub(crate) ways: Vec<u8>,
}

/// A worktree as git has just filled it, noted before a command can see it.
#[derive(Debug)]
pub(crate) struct Filled {
    /// The tree of its files.
    pub(crate) tree: CommitId,
    /// The index that git wrote.
    pub(crate) index: Identity,
    /// Its top directory.
    pub(crate) top: Identity,
    /// The permissions of the directories in it.
    pub(crate) mode: u32,
}

/// What changes if somebody writes to a file, changes its permissions, or puts another in its place: inode, change time and size.
/// The change time cannot be set back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    inode: u64,
    changed: (i64, i64),
    size: u64,
}

impl Identity {
    /// Of what was found so.
    pub(crate) fn of(found: &Metadata) -> Self {
        Self { inode: found.ino(), changed: (found.ctime(), found.ctime_nsec()), size: found.size() }
    }
}

/// The spares of a run.
#[derive(Debug, Default)]
pub(crate) struct Spares {
    /// All that decides how git writes files, as it was before the first was filled; none while nothing is handed on.
    pub(crate) ways: Option<Vec<(PathBuf, Option<Identity>)>>,
    /// Whether a run is under way.
    pub(crate) open: bool,
    pub(crate) kept: Vec<Spare>,
    /// Where the last of them was.
    pub(crate) above: Option<PathBuf>,
}

/// A worktree that waits for the next step.
#[derive(Debug)]
pub(crate) struct Spare {
    /// The worktree.
    pub(crate) worktree: Worktree,
    /// The commit it is detached at.
    pub(crate) at: CommitId,
    /// The files in it that decide how others are written.
    pub(crate) attributes: Vec<(BString, CommitId)>,
}
