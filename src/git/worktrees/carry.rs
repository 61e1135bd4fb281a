//! Updates a clean checkout of a branch when the branch is moved from outside.
//!
//! Invariant: a modified, untracked or ignored file is never overwritten. Git's two-way merge
//! refuses to, first in a trial that changes nothing; it would overwrite ignored files, which are
//! checked here. An entry of the index that is already as wanted stays, so the same again changes
//! nothing, and finishes what was cut off.

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
    Changed {
        /// Whether an untracked file would be written over as well.
        in_the_way: bool,
    },
    /// A file is in the way.
    Refused(Uncarried),
}

/// Why the files of a checkout could not be updated.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Uncarried {
    /// An untracked file, possibly an ignored one, would be overwritten.
    #[error("{} is not tracked there and would be written over", .0.display())]
    InTheWay(PathBuf),
    /// A file has contents that git does not see.
    #[error("{} has contents that its filter leaves out and no commit has, and would be written over", .0.display())]
    Filtered(PathBuf),
    /// Git refused.
    #[error(transparent)]
    Git(#[from] ProcessError),
}

/// Parts of git's messages for a refusal before any write.
const REFUSALS: [&str; 4] = ["Cannot merge", "overwritten by", "index.lock", "lose untracked files"];

impl Uncarried {
    /// The file that git names in its refusal: "Entry 'a' not uptodate. Cannot merge."
    pub(crate) fn file(&self) -> Option<&str> {
        let Self::Git(ProcessError::Failed { said, .. }) = self else { return None };
        Some(said.split_once("ntry '")?.1.split_once("' ")?.0)
    }

    /// Whether it is known that no file was written.
    pub(crate) fn changed_nothing(&self) -> bool {
        match self {
            Self::InTheWay(_) | Self::Filtered(_) => true,
            Self::Git(ProcessError::Failed { said, .. }) => REFUSALS.iter().any(|why| said.contains(why)),
            Self::Git(_) => false,
        }
    }
}

impl Repo {
    /// All checkouts that are on `branch`, or will return to it; with this branch as theirs.
    pub(crate) fn checkouts_of(&self, branch: &BranchName) -> Result<Vec<Checkout>, WorktreeError> {
        let mut found = Vec::new();
        let mut note = |checkout: Checkout, in_use: &[BranchName]| {
            if in_use.contains(branch) {
                found.push(Checkout { branch: Some(branch.clone()), ..checkout });
            }
        };
        if let Some(main) = self.main_checkout() {
            let in_use = main.in_use()?;
            note(main, &in_use);
        }
        for registered in self.linked_worktrees()? {
            let in_use = registered.in_use()?;
            note(registered.checkout, &in_use);
        }
        Ok(found)
    }

    /// The branches that are checked out anywhere.
    pub(crate) fn branches_in_use(&self) -> Result<Vec<BranchName>, WorktreeError> {
        let mut found = self.main_checkout().map_or(Ok(Vec::new()), |main| main.in_use())?;
        for registered in self.linked_worktrees()? {
            found.extend(registered.in_use()?);
        }
        Ok(found)
    }

    /// Checks whether a checkout could move from `old` to the tree `new`, and changes nothing. One that has exactly
    /// this tree already is no obstacle: whoever carried it there was killed before the branch moved.
    pub(crate) fn try_carry(&self, checkout: &Checkout, old: CommitId, new: CommitId) -> Result<(), Stuck> {
        // A registration that does not name its place has its own directory as place.
        if checkout.place.branch() != checkout.branch || checkout.path == checkout.git_dir {
            return Err(Stuck::InProgress);
        }
        if let Some(unconcluded) = Self::unconcluded(&checkout.git_dir) {
            return Err(Stuck::Unconcluded(unconcluded));
        }
        let status = Git::inside(&checkout.path, &checkout.git_dir)
            .args(["status", "--porcelain", "-z", "--untracked-files=no", "--no-renames"])
            .run()
            .map_err(|error| Stuck::Refused(error.into()))?;
        let lines = || status.stdout.split(|byte| *byte == 0).filter(|line| !line.is_empty());
        // The second letter is about the file, the first one about the index.
        let is_staged = |line: &[u8]| line.get(1) == Some(&b' ');
        let is_carried = || lines().all(is_staged) && self.index_tree(checkout).is_ok_and(|tree| tree == new);
        if !status.stdout.is_empty() && !is_carried() {
            let found = in_the_way(&checkout.place, &old.to_string(), &new.to_string());
            return Err(Stuck::Changed { in_the_way: matches!(found, Ok(Some(_))) });
        }
        self.two_way(&checkout.place, &["--dry-run"], old, new).map_err(Stuck::Refused)
    }

    /// Moves the files and the index of a checkout from `old` to `new`.
    pub(crate) fn carry(&self, place: &Workplace, old: CommitId, new: CommitId) -> Result<(), Uncarried> {
        self.two_way(place, &[], old, new)
    }

    /// Moves them before the branch moves.
    pub(crate) fn carry_ahead(
        &self,
        place: &Workplace,
        old: CommitId,
        new: CommitId,
    ) -> Result<(), Uncarried> {
        self.carry(place, old, new)?;
        crate::crashpoint::reach(crate::crashpoint::Point::CheckoutCarried);
        Ok(())
    }

    fn two_way(
        &self,
        place: &Workplace,
        more: &[&str],
        old: CommitId,
        new: CommitId,
    ) -> Result<(), Uncarried> {
        if let Some(file) = self.filtered_between(place, old, new)? {
            return Err(Uncarried::Filtered(file));
        }

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

    /// Whether the index is at `old` again, for a path where `new` is otherwise: somebody who had read it before wrote
    /// it back.
    pub(crate) fn is_behind(
        &self,
        place: &Workplace,
        old: CommitId,
        new: CommitId,
    ) -> Result<bool, ProcessError> {
        let (old, new) = (old.to_string(), new.to_string());
        let differing = |from: &str| {
            let found = paths(place, &["diff-index", "--cached", "-z", "--no-renames", "--name-only", from])?;
            Ok::<BTreeSet<PathBuf>, ProcessError>(found.into_iter().collect())
        };
        let from_new = differing(&new)?;
        if from_new.is_empty() {
            return Ok(false);
        }
        let from_old = differing(&old)?;
        let moved = paths(place, &["diff-tree", "-r", "-z", "--no-renames", "--name-only", &old, &new])?;
        Ok(moved.iter().any(|path| from_new.contains(path) && !from_old.contains(path)))
    }
}

/// The paths that git lists with these arguments, which contain `-z`.
fn paths(place: &Workplace, arguments: &[&str]) -> Result<Vec<PathBuf>, ProcessError> {
    let listed = Git::inside(&place.path, &place.git_dir).args(arguments).run()?.stdout;
    let names = listed.split(|byte| *byte == 0).map(|name| name.strip_suffix(b"/").unwrap_or(name));
    let paths = names.filter(|name| !name.is_empty()).map(|name| PathBuf::from(OsStr::from_bytes(name)));
    Ok(paths.collect())
}

/// An untracked file where a file that `new` adds would be written.
fn in_the_way(place: &Workplace, old: &str, new: &str) -> Result<Option<PathBuf>, ProcessError> {
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
        paths(place, &["diff-tree", "-r", "-z", "--no-renames", "--name-only", "--diff-filter=A", old, new])?;
    let occupied: BTreeSet<PathBuf> = added.into_iter().filter_map(occupant).collect();
    if occupied.is_empty() {
        return Ok(None);
    }
    let untracked = paths(place, &["ls-files", "--others", "-z"])?;
    Ok(untracked.into_iter().find(|file| file.ancestors().any(|way| occupied.contains(way))))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn the_file_that_git_names() {
        for (said, file) in [
            ("error: Entry 'a b' not uptodate. Cannot merge.", Some("a b")),
            ("error: Entry 'it's' would be overwritten by merge. Cannot merge.", Some("it's")),
            ("fatal: Unable to create '/r/.git/index.lock': File exists.", None),
        ] {
            let refused = Uncarried::Git(ProcessError::Failed {
                what: "read-tree".to_owned(),
                directory: PathBuf::new(),
                status: std::process::ExitStatus::from_raw(256),
                said: said.to_owned(),
            });
            assert_eq!(refused.file(), file, "{said}");
        }
    }
}
