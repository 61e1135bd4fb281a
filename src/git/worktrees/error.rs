//! The error of everything that creates, reads or removes worktrees.

use std::path::{Path, PathBuf};

use crate::contract::ids::{BranchName, CommitId};
use crate::git::process::call::ProcessError;
use crate::git::refs::cas::RefError;
use crate::git::worktrees::presence::Displaced;
use crate::git::worktrees::registration::Unread;
use crate::words::shell_quote;

/// Why a worktree could not be created, read or removed.
#[derive(Debug, thiserror::Error)]
pub enum WorktreeError {
    /// Git failed.
    #[error(transparent)]
    Git(#[from] ProcessError),
    /// A ref could not be moved.
    #[error(transparent)]
    Ref(#[from] RefError),
    /// A file system operation failed.
    #[error("could not {what} {}", path.display())]
    Files {
        /// The verb.
        what: &'static str,
        /// Its object.
        path: PathBuf,
        /// The error of the system call.
        #[source]
        source: std::io::Error,
    },
    /// A checkout's branch lacks commits below the new one.
    #[error("{branch} in {} is behind; `git pull` there brings {}", path.display(), to.short())]
    Behind {
        /// The checkout.
        path: PathBuf,
        /// Its branch.
        branch: BranchName,
        /// The commit it was to move to.
        to: CommitId,
    },
    /// A checkout's branch cannot be fast-forwarded.
    #[error("{branch} in {} has gone another way; `git log --oneline --graph {} {to}` shows both", path.display(), shell_quote(branch), to = to.short())]
    Diverged {
        /// The checkout.
        path: PathBuf,
        /// Its branch.
        branch: BranchName,
        /// The commit it was to move to.
        to: CommitId,
    },
    /// The worktree is not where it was created.
    #[error(transparent)]
    Displaced(#[from] Displaced),
    /// The directory for worktrees is not usable.
    #[error("{} is {what}; choose another place with --worktree", path.display())]
    Unsuitable {
        /// The directory.
        path: PathBuf,
        /// The problem.
        what: &'static str,
    },
}

impl From<Unread> for WorktreeError {
    fn from(Unread { file, source }: Unread) -> Self {
        let next = if source.kind() == std::io::ErrorKind::Other && file.ends_with("HEAD") {
            format!("`echo 'ref: refs/heads/BRANCH' >{}` puts its worktree on a branch again", file.display())
        } else {
            "make it readable, or move it away".to_owned()
        };
        let why = format!("{source}; a branch may be checked out there, so nothing was run: {next}");
        files("read", &file)(std::io::Error::new(source.kind(), why))
    }
}

pub(crate) fn files(what: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> WorktreeError {
    let path = path.to_owned();
    move |source| WorktreeError::Files { what, path, source }
}
