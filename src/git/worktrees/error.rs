//! Why a worktree could not be made, read or removed: what all that deal with worktrees fail with.

use std::path::{Path, PathBuf};

use crate::contract::ids::{BranchName, CommitId};
use crate::git::process::call::ProcessError;
use crate::git::refs::cas::RefError;
use crate::git::worktrees::presence::Displaced;

/// Why a worktree could not be made, read or removed.
#[derive(Debug, thiserror::Error)]
pub enum WorktreeError {
    /// Git refused.
    #[error(transparent)]
    Git(#[from] ProcessError),
    /// A ref could not be moved.
    #[error(transparent)]
    Ref(#[from] RefError),
    /// The file system refused.
    #[error("could not {what} {}", path.display())]
    Files {
        /// The verb.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// A checkout has gone another way.
    #[error("{branch} in {} has gone another way; `git log --oneline --graph {branch} {to}` shows both", path.display(), to = to.short())]
    Diverged {
        /// The checkout.
        path: PathBuf,
        /// What it has checked out.
        branch: BranchName,
        /// Where it was to go.
        to: CommitId,
    },
    /// It is not where it was made.
    #[error(transparent)]
    Displaced(#[from] Displaced),
    /// The place for worktrees is not one we may use.
    #[error("{} is {what}; choose another place with --worktree", path.display())]
    Unsuitable {
        /// The place.
        path: PathBuf,
        /// What is wrong with it.
        what: &'static str,
    },
}

pub(crate) fn files(what: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> WorktreeError {
    let path = path.to_owned();
    move |source| WorktreeError::Files { what, path, source }
}
