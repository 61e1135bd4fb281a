//! A clean checkout of a branch goes along when the branch is moved from outside.
//!
//! Invariant: a file that differs from what is committed, or is not tracked, is never written over: git's two-way merge refuses then, first
//! as a trial, before the branch is moved.

use crate::contract::ids::{BranchName, CommitId};
use crate::git::contents::in_progress::Unconcluded;
use crate::git::process::call::{Git, ProcessError};
use crate::git::repo::open::Repo;
use crate::git::worktrees::error::WorktreeError;
use crate::git::worktrees::registration::{Checkout, Workplace};

/// Why a checkout cannot go along.
#[derive(Debug)]
pub(crate) enum Stuck {
    /// A rebase or a bisect will come back to the branch.
    InProgress,
    /// Something is not concluded there, such as a merge.
    Unconcluded(Unconcluded),
    /// Tracked files differ from what is committed.
    Changed,
    /// Git would not do it.
    Refused(ProcessError),
}

impl Repo {
    /// All checkouts that are on `branch`, or will come back to it.
    pub(crate) fn checkouts_of(&self, branch: &BranchName) -> Result<Vec<Checkout>, WorktreeError> {
        let linked = self.linked_worktrees()?.into_iter().map(|registered| registered.checkout);
        let all = self.main_checkout().into_iter().chain(linked);
        Ok(all.filter(|checkout| checkout.branch.as_ref() == Some(branch)).collect())
    }

    /// Tries whether a checkout could go from `old` to `new`, and changes nothing.
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

    /// Brings the files and the index of a checkout from `old` to `new`.
    pub(crate) fn carry(&self, place: &Workplace, old: CommitId, new: CommitId) -> Result<(), ProcessError> {
        two_way(place, &[], old, new)
    }
}

fn two_way(place: &Workplace, more: &[&str], old: CommitId, new: CommitId) -> Result<(), ProcessError> {
    // Files that were only touched would count as changed.
    Git::inside(&place.path, &place.git_dir).args(["update-index", "-q", "--refresh"]).run_unchecked()?;
    Git::inside(&place.path, &place.git_dir)
        .args(["read-tree", "-m", "-u", "--no-recurse-submodules"])
        .args(more)
        .args([old.to_string(), new.to_string()])
        .run()
        .map(drop)
}
