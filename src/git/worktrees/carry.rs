//! Updates a clean checkout of a branch when the branch is moved from outside.
//!
//! Invariant: a modified or untracked file is never overwritten. Git's two-way merge refuses to, first in a
//! trial before the branch is moved.

use crate::contract::ids::{BranchName, CommitId};
use crate::git::contents::in_progress::Unconcluded;
use crate::git::process::call::{Git, ProcessError};
use crate::git::repo::open::Repo;
use crate::git::worktrees::error::WorktreeError;
use crate::git::worktrees::registration::{Checkout, Workplace};

/// Why a checkout cannot follow its branch.
#[derive(Debug)]
pub(crate) enum Stuck {
    /// A rebase or a bisect will return to the branch.
    InProgress,
    /// An operation such as a merge is in progress there.
    Unconcluded(Unconcluded),
    /// Tracked files are modified.
    Changed,
    /// Git refused.
    Refused(ProcessError),
}

impl Repo {
    /// All checkouts that are on `branch`, or will return to it.
    pub(crate) fn checkouts_of(&self, branch: &BranchName) -> Result<Vec<Checkout>, WorktreeError> {
        let linked = self.linked_worktrees()?.into_iter().map(|registered| registered.checkout);
        let all = self.main_checkout().into_iter().chain(linked);
        Ok(all.filter(|checkout| checkout.branch.as_ref() == Some(branch)).collect())
    }

    /// Checks whether a checkout could move from `old` to `new`, and changes nothing.
    pub(crate) fn try_carry(&self, checkout: &Checkout, old: CommitId, new: CommitId) -> Result<(), Stuck> {
        if checkout.place.branch() != checkout.branch {
            return Err(Stuck::InProgress);
        }
        if let Some(unconcluded) = Self::unconcluded(&checkout.git_dir) {
            return Err(Stuck::Unconcluded(unconcluded));
        }
        let status = Git::inside(&checkout.path, &checkout.git_dir)
            .args(["status", "--porcelain", "-z", "--untracked-files=no", "--no-renames"])
            .run()
            .map_err(Stuck::Refused)?;
        if !status.stdout.is_empty() {
            return Err(Stuck::Changed);
        }
        two_way(&checkout.place, &["--dry-run"], old, new).map_err(Stuck::Refused)
    }

    /// Moves the files and the index of a checkout from `old` to `new`.
    pub(crate) fn carry(&self, place: &Workplace, old: CommitId, new: CommitId) -> Result<(), ProcessError> {
        two_way(place, &[], old, new)
    }
}

fn two_way(place: &Workplace, more: &[&str], old: CommitId, new: CommitId) -> Result<(), ProcessError> {
    // Files with changed timestamps alone would count as modified.
    Git::inside(&place.path, &place.git_dir).args(["update-index", "-q", "--refresh"]).run_unchecked()?;
    Git::inside(&place.path, &place.git_dir)
        .args(["read-tree", "-m", "-u", "--no-recurse-submodules"])
        .args(more)
        .args([old.to_string(), new.to_string()])
        .run()
        .map(drop)
}
