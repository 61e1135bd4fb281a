//! The worktrees of managed workspaces: made, found and locked (CONTRACT 15.2).
//!
//! Invariant: such a worktree is at the path that its context names, whatever its registration says
//! now: what works in it may have changed that. The caller has checked the path.

use std::path::Path;

use crate::clock;
use crate::contract::ids::{AttemptId, CommitId};
use crate::fsutil;
use crate::git::repo::open::Repo;
use crate::git::worktrees::error::{WorktreeError, files};
use crate::git::worktrees::held::Worktree;
use crate::git::worktrees::registration::{Mark, Owner, Registered, Workplace};
use crate::git::worktrees::registry::{NewWorktree, owner_of};
use std::time::Duration;

/// How often the lock of a registration is tried: a scan may hold it for a moment.
const TRIES: u32 = 50;

/// The pause between.
const PAUSE: Duration = Duration::from_millis(10);

impl Repo {
    /// All worktrees of workspaces.
    pub(crate) fn workspace_worktrees(&self) -> Result<Vec<Registered>, WorktreeError> {
        self.registered(|git_dir| {
            owner_of(git_dir).filter(|owner| matches!(owner, Owner::Workspace(_))).map(Some)
        })
    }

    /// Whether the runner of an attempt is known to be gone: its worktree is here, and nobody holds it.
    pub(crate) fn is_left_behind(&self, attempt: AttemptId) -> bool {
        let its = self.registered(|git_dir| {
            let is_its = |owner: &Owner| matches!(owner, Owner::Attempt(found) if found.attempt == attempt);
            owner_of(git_dir).filter(is_its).map(Some)
        });
        its.is_ok_and(|its| its.iter().any(|one| !self.is_held(&one.checkout.git_dir)))
    }

    /// The worktrees of one workspace. Of others only the lock's reason is read.
    pub(crate) fn worktrees_of(&self, mark: &Mark) -> Result<Vec<Registered>, WorktreeError> {
        self.registered(|git_dir| {
            let is_its = |owner: &Owner| matches!(owner, Owner::Workspace(found) if found == mark);
            owner_of(git_dir).filter(is_its).map(Some)
        })
    }

    /// Locks the worktree of a workspace at `path`; `None` if it is not registered. A registration
    /// that names another place is set right.
    pub(crate) fn hold_workspace(&self, path: &Path, mark: &Mark) -> Result<Option<Worktree>, WorktreeError> {
        let _registry = self.registry_lock()?;
        let its = match self.worktrees_of(mark)?.into_iter().next() {
            Some(its) => Some(its),
            // `git worktree unlock` takes the mark away.
            None => self
                .linked_worktrees()?
                .into_iter()
                .find(|other| other.owner.is_none() && other.checkout.place.path == path),
        };
        let Some(Registered { mut checkout, owner }) = its else { return Ok(None) };
        if owner.is_none() {
            let locked = checkout.place.git_dir.join("locked");
            let text = Owner::Workspace(mark.clone()).text();
            fsutil::replace(&locked, &text).map_err(files("write", &locked))?;
        }
        if checkout.place.path != path {
            checkout.place.path = path.to_owned();
            checkout.place.write_back_link().map_err(files("write in", &checkout.place.git_dir))?;
        }
        for _ in 0..TRIES {
            if let Some(worktree) = self.hold(&checkout, mark.clone())? {
                return Ok(Some(worktree));
            }
            clock::pause(PAUSE);
        }
        Err(WorktreeError::Unsuitable { path: path.to_owned(), what: "held by another process" })
    }

    /// Takes a worktree whose directory is elsewhere now off the list.
    pub(crate) fn forget_worktree(&self, place: &Workplace) -> Result<(), WorktreeError> {
        let registry = self.registry_lock()?;
        self.unregister(&registry, &place.git_dir)
    }

    /// Leaves the worktree of a workspace, which is at `place` now, to the user, detached at `head`.
    pub(crate) fn leave_workspace(
        &self,
        place: &Workplace,
        mark: &Mark,
        head: CommitId,
        why: &str,
    ) -> Result<(), WorktreeError> {
        let failed = |error| files("leave", &place.path)(error);
        place.write_back_link().map_err(failed)?;
        place.mend_link().map_err(|error| files("leave", &place.path)(error))?;
        place.let_go(head).map_err(|error| files("leave", &place.path)(error))?;
        let owner = Owner::Kept { attempt: mark.attempt, why: why.to_owned() };
        fsutil::replace(&place.git_dir.join("locked"), &owner.text())
            .map_err(|error| files("leave", &place.path)(error))
    }

    /// Makes the worktree of a workspace in the directory `draft`, on the branch of `mark`, with the files and the index of
    /// these trees, or else of `commit`. Its registration names `path`, where [`Worktree::put_at`] puts it: git would write
    /// over changes that are made in it meanwhile.
    pub(crate) fn draft_workspace(
        &self,
        (draft, path): (&Path, &Path),
        mark: &Mark,
        commit: CommitId,
        trees: Option<(CommitId, CommitId)>,
    ) -> Result<Worktree, WorktreeError> {
        let owner = Owner::Workspace(mark.clone());
        let worktree = {
            let registry = self.registry_lock()?;
            let above = path.parent().unwrap_or(path);
            fsutil::create_private_dir_all(above).map_err(files("make", above))?;
            let (id, branch) = (AttemptId::random(), Some(&mark.branch));
            let new = NewWorktree { path: draft, place: path, owner: &owner, id, branch, commit };
            let (git_dir, held) = self.register(&registry, &new)?;
            self.note_place(path, &git_dir).map_err(files("write in", &git_dir))?;
            Worktree::held(Workplace { path: draft.to_owned(), git_dir }, mark.clone(), true, held)
        };
        let filled = match trees {
            Some((files, index)) => self.restore_files(&worktree, files, index),
            None => worktree.fill(commit),
        };
        if let Err(error) = filled {
            // A full disk needs its room.
            let removed = fsutil::remove_all(draft).map_err(files("remove", draft));
            if let Err(left) = removed.and_then(|()| self.forget_worktree(&worktree)) {
                tracing::warn!(%left, "a worktree that could not be filled was left behind");
            }
            return Err(error.into());
        }
        crate::crashpoint::reach(crate::crashpoint::Point::WorktreeFilled);
        Ok(worktree)
    }
}
