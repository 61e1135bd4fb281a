//! The settings of a worktree's own, such as an identity or a sparse checkout: they live in its
//! registration, so a worktree that is made anew gets them from a copy (CONTRACT 15.7).

use std::io::{ErrorKind, Result};
use std::path::{Path, PathBuf};

use bstr::ByteSlice;

use crate::fsutil;
use crate::git::worktrees::held::Worktree;
use crate::words::error_chain;

use super::Workspaces;
use super::store::Held;

/// The files in the private git directory of a worktree.
const FILES: [&str; 2] = ["config.worktree", "info/sparse-checkout"];

/// The directory of their copies, in that of the workspace.
const COPIES: &str = "settings";

/// A longer file is not copied.
const MOST_BYTES: u64 = 1024 * 1024;

impl Workspaces<'_> {
    /// Copies the settings of a registration that goes. Returns what the user should know.
    pub(super) fn copy_settings(&self, held: &Held, git_dir: &Path) -> Result<Vec<String>> {
        let mut told = Vec::new();
        for file in FILES {
            let copy = copy_of(held, file);
            match read(&git_dir.join(file)) {
                Ok(text) => {
                    fsutil::create_private_dir_all(copy.parent().unwrap_or(&copy))?;
                    fsutil::replace_private(&copy, &text)?;
                }
                Err(error) => {
                    if error.kind() != ErrorKind::NotFound {
                        told.push(format!("the new worktree does not get the old {file}: {error}"));
                    }
                    std::fs::remove_file(&copy).or_else(|error| match error.kind() {
                        ErrorKind::NotFound => Ok(()),
                        _ => Err(error),
                    })?;
                }
            }
        }
        Ok(told)
    }

    /// Gives the copies to a new worktree, whose files are there. A file outside of a sparse
    /// checkout goes only if it is as the index has it. Returns what the user should know.
    pub(super) fn take_settings(&self, held: &Held, new: &Worktree) -> Result<Vec<String>> {
        for file in FILES {
            let text = match read(&copy_of(held, file)) {
                Ok(text) => text,
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            let target = new.git_dir.join(file);
            std::fs::create_dir_all(target.parent().unwrap_or(&target))?;
            fsutil::replace(&target, &text)?;
        }
        let is_sparse = new.git(["config", "--type=bool", "core.sparseCheckout"]).run_unchecked();
        if !new.git_dir.join(FILES[1]).is_file() || !is_sparse.is_ok_and(|told| told.stdout.trim() == b"true")
        {
            return Ok(Vec::new());
        }
        let reapplied = new.git(["sparse-checkout", "reapply"]).run();
        let failed = reapplied.err().map(|error| {
            format!("all files are there again: the sparse checkout failed: {}", error_chain(&error))
        });
        Ok(failed.into_iter().collect())
    }

    /// Removes the copies.
    pub(super) fn drop_settings(&self, held: &Held) {
        if let Err(error) = fsutil::remove_all(&held.directory.join(COPIES)) {
            tracing::debug!(%error, "left behind");
        }
    }
}

fn copy_of(held: &Held, file: &str) -> PathBuf {
    held.directory.join(COPIES).join(file)
}

fn read(file: &Path) -> Result<Vec<u8>> {
    let opened = fsutil::open_plain(file)?;
    if opened.metadata()?.len() > MOST_BYTES {
        return Err(ErrorKind::FileTooLarge.into());
    }
    fsutil::tail_of(&opened, MOST_BYTES)
}
