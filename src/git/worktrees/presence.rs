//! Checks what is at the path of a worktree now.
//!
//! Invariant: files are read and removed only in a directory that no symbolic link leads to.
//! Anything else may belong to the user: it is not read, and the registration stays (CONTRACT 9.7).

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::fsutil;
use crate::git::repo::open::Repo;

/// The file of a registration that records the inode of the directory above the worktree at its
/// creation.
const PLACE: &str = "aynig-place";

/// The worktree is not where it was created, and something else may be there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} is not touched: {what}", path.display())]
pub struct Displaced {
    /// Where it was created.
    pub(crate) path: PathBuf,
    /// The entries that exist there now.
    pub(crate) what: &'static str,
}

impl Repo {
    /// Whether the directory of a worktree, registered in `git_dir`, exists; false if it was
    /// removed.
    ///
    /// # Errors
    /// [`Displaced`] if neither is certain.
    pub(crate) fn is_here(&self, worktree: &Path, git_dir: &Path) -> Result<bool, Displaced> {
        let misplaced = |what| Err(Displaced { path: worktree.to_owned(), what });
        match worktree.symlink_metadata() {
            Ok(found) if found.is_symlink() => misplaced("a symbolic link is in its place"),
            Ok(found) if !found.is_dir() => misplaced("a file is in its place"),
            // No link led there when it was created.
            Ok(_) if worktree.canonicalize().is_ok_and(|real| real == worktree) => Ok(true),
            Ok(_) => misplaced("the way to it leads through a symbolic link now"),
            Err(_) if self.is_within(worktree) || is_where_it_was(worktree, git_dir) => Ok(false),
            Err(_) => misplaced("what it was in is not there; is that on a disk that is not mounted?"),
        }
    }

    /// Records in a registration the directory in which the worktree is created, if that may be on
    /// another disk.
    pub(crate) fn note_place(&self, worktree: &Path, git_dir: &Path) -> std::io::Result<()> {
        match inode_above(worktree).filter(|_| !self.is_within(worktree)) {
            Some(inode) => fsutil::replace(&git_dir.join(PLACE), format!("{inode}\n").as_bytes()),
            None => Ok(()),
        }
    }

    /// Whether a path is in the main worktree, or in the repository itself.
    fn is_within(&self, path: &Path) -> bool {
        let above = |place: &Path| place.canonicalize().is_ok_and(|place| path.starts_with(place));
        above(self.top()) || above(self.common_dir())
    }
}

/// Whether the directory above `worktree` is the one it was created in. If a disk is not mounted it
/// is the mount point below, or a new one.
fn is_where_it_was(worktree: &Path, git_dir: &Path) -> bool {
    let noted = fsutil::read_plain_text(git_dir.join(PLACE)).ok();
    inode_above(worktree).is_some_and(|inode| noted.is_none_or(|noted| noted.trim() == inode.to_string()))
}

fn inode_above(worktree: &Path) -> Option<u64> {
    Some(worktree.parent()?.metadata().ok().filter(std::fs::Metadata::is_dir)?.ino())
}
