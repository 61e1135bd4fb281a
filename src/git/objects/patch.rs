//! The difference of two trees, for people and for `git apply`.
//!
//! Invariant: no program that a repository configures is started (external diffs, text conversions), and no setting of
//! a person changes the format.

use std::path::Path;

use crate::contract::ids::CommitId;
use crate::git::process::call::{Git, ProcessError};
use crate::git::repo::open::Repo;

impl Repo {
    /// Writes the difference of two trees (or commits) into `file` as a patch that `git apply` takes, with the contents
    /// of binary files. The file should exist, and keeps its mode. It is written by git, so its length is not bounded by
    /// memory.
    ///
    /// # Errors
    /// [`ProcessError`] if an object is missing, or the file cannot be written.
    pub(crate) fn write_patch(&self, from: CommitId, to: CommitId, file: &Path) -> Result<(), ProcessError> {
        let mut output = std::ffi::OsString::from("--output=");
        output.push(file);
        self.difference(from, to)
            .args(["-p", "--binary", "--full-index", "--no-ext-diff", "--no-textconv"])
            .arg(output)
            .args([&from.to_string(), &to.to_string()])
            .run()
            .map(drop)
    }

    /// The paths that differ, one a line: `A`, `M`, `D` or `T`, a tab, and the path as git quotes it.
    ///
    /// # Errors
    /// [`ProcessError`] if an object is missing.
    pub(crate) fn changed_paths(&self, from: CommitId, to: CommitId) -> Result<Vec<u8>, ProcessError> {
        let ids = [from.to_string(), to.to_string()];
        Ok(self.difference(from, to).arg("--name-status").args(ids).run()?.stdout)
    }

    /// `git diff-tree` reads no settings for people, such as `diff.noprefix`.
    fn difference(&self, from: CommitId, to: CommitId) -> Git {
        Git::shared(self.common_dir())
            .args(["diff-tree", "-r", "--no-renames", "--no-color"])
            .known_as(format!("diff-tree {from} {to}"))
    }
}
