//! A worktree of ours that this process holds: whoever has the value may use it, and nobody else sweeps it away.

use std::ops::Deref;

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
    pub(crate) origin: Option<Origin>,
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
        Self { place, mark, attached, origin: None, _held: held }
    }
}

/// How a large worktree was when its command began.
#[derive(Debug)]
pub(crate) struct Origin {
    /// Inode, change time and size of our copy of the index.
    pub(crate) index: (u64, i64, i64, u64),
    /// The permissions of the directories in it.
    pub(crate) mode: u32,
    /// What decided how its files were written.
    pub(crate) ways: Vec<u8>,
}
