//! The directory that contains worktrees: checks it and creates it.
//!
//! Invariant: no worktree is created behind a symbolic link, which could have come with a commit of
//! another author, nor among the repository's own files (CONTRACT 9.4).

use std::path::Path;

use crate::git::process::call::Git;
use crate::git::repo::open::Repo;
use crate::git::worktrees::error::{WorktreeError, files};

impl Repo {
    /// Checks that `directory` is usable for worktrees. Called before anything is claimed.
    pub fn check_worktree_directory(&self, directory: &Path) -> Result<(), WorktreeError> {
        self.check_way_to(directory)?;
        if self.is_bare() || !directory.starts_with(self.top()) || !directory.exists() {
            return Ok(());
        }
        let tracked = Git::inside(self.top(), self.common_dir())
            .args(["--literal-pathspecs", "ls-files", "-z", "--"])
            .arg(directory)
            .run()?;
        if tracked.stdout.is_empty() {
            return Ok(());
        }
        let what = "a directory with files of the repository in it";
        Err(WorktreeError::Unsuitable { path: directory.to_owned(), what })
    }

    /// The part of that check that is repeated for each worktree: a command may have created a link
    /// there meanwhile.
    pub(crate) fn check_way_to(&self, directory: &Path) -> Result<(), WorktreeError> {
        let unsuitable = |path: &Path, what| Err(WorktreeError::Unsuitable { path: path.to_owned(), what });
        // A link here could have come with a commit of another author; worktrees would be created
        // wherever it points.
        let inside = |path: &&Path| path.starts_with(self.top()) && *path != self.top();
        for path in directory.ancestors().take_while(inside) {
            if path.is_symlink() {
                return unsuitable(
                    path,
                    "a symbolic link inside the repository, which worktrees are not made through",
                );
            }
        }
        crate::fsutil::check_place(directory).map_err(files("make worktrees in", directory))?;
        if self.is_bare() {
            return Ok(());
        }
        // The directory gets a `.gitignore` that hides everything in it, so it must contain no
        // files of the user.
        if directory == self.top() {
            return unsuitable(directory, "the repository's own top directory");
        }
        if directory.starts_with(self.common_dir()) {
            return unsuitable(directory, "inside the repository's git directory");
        }
        Ok(())
    }

    /// Creates the directory for worktrees; inside a checkout it hides itself from git.
    pub(crate) fn prepare_directory(&self, directory: &Path) -> Result<(), WorktreeError> {
        self.check_way_to(directory)?;
        std::fs::create_dir_all(directory).map_err(files("make", directory))?;
        crate::fsutil::remove_drafts(directory);
        if directory.starts_with(self.top()) && !self.is_bare() && holds_only_worktrees(directory) {
            crate::fsutil::hide_from_git(directory).map_err(files("write .gitignore in", directory))?;
        }
        Ok(())
    }
}

/// Whether hiding `directory` would hide no file of the user.
fn holds_only_worktrees(directory: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(directory) else { return false };
    entries.flatten().all(|entry| entry.file_name() == ".gitignore" || entry.path().join(".git").exists())
}

/// Whether `path` exists and is not an empty directory: git would not create a worktree there.
pub(crate) fn occupied(path: &Path) -> bool {
    match std::fs::read_dir(path) {
        Ok(mut entries) => entries.next().is_some(),
        Err(error) => error.kind() != std::io::ErrorKind::NotFound,
    }
}

/// Removes the directory for worktrees that contained `path` once its last worktree is gone, with
/// the `.gitignore` that hid it.
pub(crate) fn tidy_above(path: &Path) {
    let Some(directory) = path.parent() else { return };
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    let names: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
    if names.iter().all(|name| name == ".gitignore") && crate::fsutil::hidden_by_us(directory) {
        let removed =
            std::fs::remove_file(directory.join(".gitignore")).and_then(|()| std::fs::remove_dir(directory));
        if let Err(error) = removed {
            tracing::debug!(directory = %directory.display(), %error, "left in place");
        }
    }
}
