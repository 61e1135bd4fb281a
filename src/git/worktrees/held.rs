//! A worktree of ours that this process has locked: only the owner of the value uses it, and no
//! other process removes it.

use std::fs::Metadata;
use std::ops::Deref;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use bstr::BString;

use crate::clock::Moment;
use crate::contract::ids::CommitId;
use crate::fsutil::FileLock;
use crate::git::worktrees::registration::{Mark, Workplace};

/// A worktree of ours that this process has locked.
#[derive(Debug)]
pub(crate) struct Worktree {
    place: Workplace,
    /// Its attempt.
    pub(crate) mark: Mark,
    /// Whether its HEAD is the branch (local mode) or a commit.
    pub(crate) attached: bool,
    /// Its state when its command began, if it is worth keeping in the pool.
    pub(crate) origin: Option<Box<Origin>>,
    /// When it was made or taken for this attempt, before its command began.
    pub(crate) since: Moment,
    /// How git left it before its command began.
    pub(crate) filled: Option<Box<Filled>>,
    /// Last field, so dropped last. While it is held no other process removes this worktree.
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
        Self { place, mark, attached, origin: None, since: Moment::now(), filled: None, _held: held }
    }

    /// Puts it where its registration says. Fails if anything but an empty directory is there.
    pub(crate) fn put_at(mut self, path: &Path) -> std::io::Result<Self> {
        std::fs::rename(&self.place.path, path)?;
        path.clone_into(&mut self.place.path);
        Ok(self)
    }

    /// The number of files that git has written to it; 0 if unknown.
    pub(crate) fn files(&self) -> usize {
        self.filled.as_ref().map_or(0, |filled| filled.files)
    }

    /// This worktree at another place and for another attempt. The caller has taken the new lock
    /// before the old one is released.
    pub(crate) fn passed_on(self, place: Workplace, mark: Mark, attached: bool, held: FileLock) -> Self {
        Self {
            place,
            mark,
            attached,
            origin: self.origin,
            since: Moment::now(),
            filled: self.filled,
            _held: held,
        }
    }
}

/// The state of a large worktree when its command began.
#[derive(Debug)]
pub(crate) struct Origin {
    /// Our copy of the index.
    pub(crate) index: Identity,
    /// The permissions of its directories.
    pub(crate) mode: u32,
    /// Everything that determined how its files were written.
    pub(crate) ways: Vec<u8>,
}

/// The state of a worktree that git has just filled, recorded before a command can change it.
#[derive(Debug)]
pub(crate) struct Filled {
    /// The tree of its files.
    pub(crate) tree: CommitId,
    /// The index that git wrote.
    pub(crate) index: Identity,
    /// Its top directory.
    pub(crate) top: Identity,
    /// The permissions of its directories.
    pub(crate) mode: u32,
    /// The number of its files.
    pub(crate) files: usize,
}

/// Inode, change time and size of a file. They change if the file is written, gets other
/// permissions or is replaced, since the change time cannot be set back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    inode: u64,
    changed: (i64, i64),
    size: u64,
}

impl Identity {
    /// Reads it from a file's metadata.
    pub(crate) fn of(found: &Metadata) -> Self {
        Self { inode: found.ino(), changed: (found.ctime(), found.ctime_nsec()), size: found.size() }
    }

    /// The change time, in seconds since 1970.
    pub(crate) fn changed_at(&self) -> i64 {
        self.changed.0
    }
}

/// The spares of a run: clean worktrees that wait for its next step.
#[derive(Debug, Default)]
pub(crate) struct Spares {
    /// The files that decide how git writes files, as they were before the first worktree was
    /// filled; `None` while no worktree is passed on.
    pub(crate) ways: Option<Vec<(PathBuf, Option<Identity>)>>,
    /// Whether a run is in progress.
    pub(crate) open: bool,
    /// The number of steps that the pass has yet to start.
    pub(crate) expected: usize,
    /// The number of steps that are likely after the pass.
    pub(crate) likely: usize,
    pub(crate) kept: Vec<Spare>,
    /// The path of the last spare when it was an attempt's worktree.
    pub(crate) above: Option<PathBuf>,
}

/// A worktree that waits for the next step.
#[derive(Debug)]
pub(crate) struct Spare {
    /// The worktree.
    pub(crate) worktree: Worktree,
    /// The commit it is detached at.
    pub(crate) at: CommitId,
    /// The `.gitattributes` files in it.
    pub(crate) attributes: Vec<(BString, CommitId)>,
}
