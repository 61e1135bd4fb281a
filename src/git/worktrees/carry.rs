//! Updates a clean checkout of a branch when the branch is moved from outside.
//!
//! Invariant: a modified, untracked or ignored file is never overwritten. Git's two-way merge
//! refuses to, first in a trial before the branch is moved; it would overwrite ignored files, which
//! are checked here.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

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
    /// A file is in the way.
    Refused(Uncarried),
}

/// Why the files of a checkout could not be updated.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Uncarried {
    /// An untracked file, possibly an ignored one, would be overwritten.
    #[error("{} is not tracked there and would be written over", .0.display())]
    InTheWay(PathBuf),
    /// Git refused.
    #[error(transparent)]
    Git(#[from] ProcessError),
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
            .map_err(|error| Stuck::Refused(error.into()))?;
        if !status.stdout.is_empty() {
            return Err(Stuck::Changed);
        }
        two_way(&checkout.place, &["--dry-run"], old, new).map_err(Stuck::Refused)
    }

    /// Moves the files and the index of a checkout from `old` to `new`.
    pub(crate) fn carry(&self, place: &Workplace, old: CommitId, new: CommitId) -> Result<(), Uncarried> {
        two_way(place, &[], old, new)
    }
}

fn two_way(place: &Workplace, more: &[&str], old: CommitId, new: CommitId) -> Result<(), Uncarried> {
    let git = || Git::inside(&place.path, &place.git_dir);
    let (old, new) = (old.to_string(), new.to_string());
    // Files with changed timestamps alone would count as modified.
    git().args(["update-index", "-q", "--refresh"]).run_unchecked()?;
    if let Some(file) = in_the_way(place, &old, &new)? {
        return Err(Uncarried::InTheWay(file));
    }
    git()
        .args(["read-tree", "-m", "-u", "--no-recurse-submodules"])
        .args(more)
        .args([old, new])
        .run()
        .map(drop)
        .map_err(Uncarried::Git)
}

/// An untracked file where a file that `new` adds would be written.
fn in_the_way(place: &Workplace, old: &str, new: &str) -> Result<Option<PathBuf>, ProcessError> {
    let paths = |arguments: &[&str]| {
        let listed = Git::inside(&place.path, &place.git_dir).args(arguments).run()?.stdout;
        let names = listed.split(|byte| *byte == 0).map(|name| name.strip_suffix(b"/").unwrap_or(name));
        let paths = names.filter(|name| !name.is_empty()).map(|name| PathBuf::from(OsStr::from_bytes(name)));
        Ok::<_, ProcessError>(paths.collect::<Vec<_>>())
    };
    // What exists at the path, or is no directory and above it.
    let occupant = |path: PathBuf| {
        let mut ways: Vec<_> = path.ancestors().filter(|way| !way.as_os_str().is_empty()).collect();
        ways.reverse();
        let is_in_the_way = |way: &&std::path::Path| {
            let found = place.path.join(way).symlink_metadata();
            found.is_ok_and(|found| *way == path || !found.is_dir())
        };
        ways.into_iter().find(is_in_the_way).map(std::path::Path::to_owned)
    };
    let added =
        paths(&["diff-tree", "-r", "-z", "--no-renames", "--name-only", "--diff-filter=A", old, new])?;
    let occupied: BTreeSet<PathBuf> = added.into_iter().filter_map(occupant).collect();
    if occupied.is_empty() {
        return Ok(None);
    }
    let untracked = paths(&["ls-files", "--others", "-z"])?;
    Ok(untracked.into_iter().find(|file| file.ancestors().any(|way| occupied.contains(way))))
}
