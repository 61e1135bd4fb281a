//! What lies at the path of a worktree by now.
//!
//! Invariant: files are read from there, and removed, only where a directory lies that no link leads to. Anything else may be a
//! person's: it is not looked into, and the registration stays (CONTRACT.md §9).

use std::path::{Path, PathBuf};

use super::repo::Repo;

/// A worktree is not where it was made, and something else may be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} is not touched: {what}", path.display())]
pub struct Misplaced {
    /// Where it was made.
    pub path: PathBuf,
    /// What is found there.
    pub what: &'static str,
}

impl Repo {
    /// Whether the directory of a worktree is there, or is gone.
    ///
    /// # Errors
    /// [`Misplaced`] where neither is sure.
    pub fn is_here(&self, worktree: &Path) -> Result<bool, Misplaced> {
        let misplaced = |what| Err(Misplaced { path: worktree.to_owned(), what });
        match worktree.symlink_metadata() {
            Ok(found) if found.is_symlink() => misplaced("a symbolic link is in its place"),
            Ok(found) if !found.is_dir() => misplaced("a file is in its place"),
            // It was made where no link leads.
            Ok(_) if worktree.canonicalize().is_ok_and(|real| real == worktree) => Ok(true),
            Ok(_) => misplaced("the way to it leads through a symbolic link now"),
            Err(_) if self.is_within(worktree) || worktree.parent().is_some_and(Path::is_dir) => Ok(false),
            Err(_) => misplaced("what it was in is not there; is that on a disk that is not mounted?"),
        }
    }

    /// Whether a path is in the main worktree, or in the repository itself.
    fn is_within(&self, path: &Path) -> bool {
        let above = |place: &Path| place.canonicalize().is_ok_and(|place| path.starts_with(place));
        above(self.top()) || above(self.common_dir())
    }
}
