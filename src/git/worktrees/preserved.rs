//! Worktrees that were left to the user because their contents could not be saved, and rescue refs.
//!
//! Invariant: reading changes nothing in such a worktree. It is read only if its registration names
//! the attempt that left it, and registration and `.git` file name each other (CONTRACT 9.7).

use bstr::{BString, ByteSlice};

use crate::contract::ids::{AttemptId, BranchName, CommitId};
use crate::contract::layout::{HEADS, OURS, RESCUES, TRACKED};
use crate::git::contents::rescue::RescueError;
use crate::git::process::call::Git;
use crate::git::refs::cas::{RefError, Swap};
use crate::git::repo::open::Repo;
use crate::git::worktrees::error::WorktreeError;
use crate::git::worktrees::held::Worktree;
use crate::git::worktrees::registration::{Checkout, Mark, Owner, Registered};

/// A worktree left to the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// Its directories and branch.
    pub checkout: Checkout,
    /// The attempt it was made for.
    pub(crate) attempt: AttemptId,
    /// Why it was left.
    pub why: String,
}

/// A ref below `refs/aynig/rescue/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RescueRef {
    /// Its full name.
    pub name: BString,
    /// The branch the work was for.
    pub(crate) branch: BranchName,
    /// The attempt, if the last part of the name is one, with or without a number.
    pub attempt: Option<AttemptId>,
    pub(crate) commit: CommitId,
}

impl Repo {
    /// All worktrees left to the user.
    pub fn kept_worktrees(&self) -> Result<Vec<Kept>, WorktreeError> {
        let kept = |Registered { checkout, owner }| match owner {
            Some(Owner::Kept { attempt, why }) => Some(Kept { checkout, attempt, why }),
            Some(Owner::Attempt(_) | Owner::Workspace(_) | Owner::Pool | Owner::Spare) | None => None,
        };
        Ok(self.linked_worktrees()?.into_iter().filter_map(kept).collect())
    }

    /// Locks such a worktree as the one of its attempt for `branch`; `None` while another process
    /// has it.
    pub(crate) fn hold_kept(
        &self,
        kept: &Kept,
        branch: &BranchName,
    ) -> Result<Option<Worktree>, WorktreeError> {
        let mark = Mark { attempt: kept.attempt, branch: branch.clone(), remote: None };
        self.hold(&kept.checkout, mark)
    }

    /// The trees of a worktree's contents besides `base`: its files as they are on disk, and its
    /// index.
    ///
    /// # Errors
    /// [`RescueError::OtherRepositories`] if a commit could not hold everything.
    pub(crate) fn holdings(&self, worktree: &Worktree, base: CommitId) -> Result<[CommitId; 2], RescueError> {
        let inside = self.look_inside(worktree, &self.commit(base)?)?;
        self.check_shown(worktree)?;
        Ok([inside.whole, inside.index])
    }

    /// A ref from which `commit` is reachable, rescue refs included.
    pub(crate) fn saved_somewhere(
        &self,
        commit: CommitId,
    ) -> Result<Option<BString>, crate::git::ProcessError> {
        self.held_below(commit, &[HEADS, TRACKED, OURS])
    }

    /// A ref below one of these prefixes from which `commit` is reachable.
    pub(crate) fn held_below(
        &self,
        commit: CommitId,
        places: &[&str],
    ) -> Result<Option<BString>, crate::git::ProcessError> {
        let output = Git::shared(self.common_dir())
            // A graft is no parent that git keeps.
            .env("GIT_GRAFT_FILE", "/dev/null")
            .args(["for-each-ref", "--count=1", "--format=%(refname)", "--contains", &commit.to_string()])
            .args(places)
            .run()?;
        let name = output.stdout.trim();
        Ok((!name.is_empty()).then(|| name.into()))
    }

    /// All rescue refs, sorted by name.
    pub(crate) fn rescue_refs(&self) -> Result<Vec<RescueRef>, RefError> {
        Ok(self
            .tips(RESCUES)?
            .into_iter()
            .filter_map(|tip| {
                let below: &[u8] = tip.branch.as_bstr();
                let (branch, label) = below.rsplit_once_str("/")?;
                let id = label
                    .get(..36)
                    .filter(|_| label.len() == 36 || label[36] == b'-')
                    .and_then(AttemptId::parse);
                let mut name = BString::from(RESCUES);
                name.extend_from_slice(below);
                Some(RescueRef {
                    name,
                    branch: BranchName::new(branch).ok()?,
                    attempt: id,
                    commit: tip.target.ok()?,
                })
            })
            .collect())
    }

    /// Removes a rescue ref if it still points at its commit.
    pub(crate) fn drop_rescue(&self, rescue: &RescueRef) -> Result<Swap, RefError> {
        self.delete_ref(rescue.name.as_bstr(), rescue.commit)
    }
}
