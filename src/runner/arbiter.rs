//! The one door through which a branch's HEAD is moved: claim, renew, settle and recover all come here.
//!
//! Invariant: whoever expects the value that is there wins, everybody else is told what is there instead. Today the
//! arbiter is the local repository's ref store; a remote is to become the other one, behind the same calls.

use bstr::ByteSlice;

use crate::contract::ids::{BranchName, CommitId, RemoteName};
use crate::git::{RefError, Repo, Swap};

/// Who decides which of several runners wins.
#[derive(Debug, Clone, Default)]
pub struct Arbiter {
    _local: (),
}

impl Arbiter {
    /// The ref store of this repository decides.
    pub fn local() -> Self {
        Self::default()
    }

    /// The remote to be recorded in leases (`dwp-source`), if a remote decides.
    pub fn source(&self) -> Option<&RemoteName> {
        None
    }

    /// Whether worktrees have the branch itself checked out, so that a command's own commits move it.
    pub fn attaches(&self) -> bool {
        true
    }

    /// What the branch points at now.
    pub fn head(&self, repo: &Repo, branch: &BranchName) -> Result<Option<CommitId>, RefError> {
        repo.branch_head(branch)
    }

    /// Moves the branch from `expected` to `new`, for the reason in `log`.
    pub fn swap(
        &self,
        repo: &Repo,
        branch: &BranchName,
        expected: CommitId,
        new: CommitId,
        log: &str,
    ) -> Result<Swap, RefError> {
        repo.swap(branch.full_ref().as_bstr(), Some(expected), new, log)
    }

    /// Makes a branch that does not exist yet point at `new`; lost if it exists by now.
    pub fn create(
        &self,
        repo: &Repo,
        branch: &BranchName,
        new: CommitId,
        log: &str,
    ) -> Result<Swap, RefError> {
        repo.swap(branch.full_ref().as_bstr(), None, new, log)
    }
}
