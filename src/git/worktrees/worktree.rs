//! Making, finding, proving ours, and removing worktrees.
//!
//! Invariant: a worktree is ours only if git's own registration says so: it is locked with the reason "aynig attempt …"
//! from its first moment (see [`crate::git::worktrees::registry`]), so that `git worktree list` shows the mark, and no `prune` takes it
//! away. The runner that uses it holds an advisory lock on that very file; when the lock is free, that runner is gone.
//! Nothing unmarked is ever touched (CONTRACT.md §9).
//!
//! What is inside a worktree is saved by [`crate::git::contents::rescue`] before it is removed; that order is the caller's.

use std::path::{Path, PathBuf};

use bstr::ByteSlice;

use crate::contract::ids::{AttemptId, CommitId};
use crate::fsutil::FileLock;
use crate::git::process::call::Git;
use crate::git::refs::cas::Swap;
use crate::git::refs::reflog;
use crate::git::repo::open::Repo;
use crate::git::worktrees::directory::{occupied, tidy_above};
use crate::git::worktrees::error::{WorktreeError, files};
use crate::git::worktrees::held::Worktree;
use crate::git::worktrees::presence::Displaced;
use crate::git::worktrees::registration::{
    Checkout, Mark, Owner, Registered, Workplace, branch_in_progress, head_branch,
};
use crate::git::worktrees::registry::Registry;

/// How often to try again when a command commits at the same moment.
const TRIES: u32 = 10;

/// What there is of an attempt's worktree.
#[derive(Debug)]
pub(crate) enum Found {
    /// None is registered.
    Missing,
    /// Some process has hold of it.
    Held,
    /// Its runner is gone, and this process has hold of it now.
    Free(Worktree),
}

impl Repo {
    /// The main worktree, if the repository has one.
    pub fn main_checkout(&self) -> Option<Checkout> {
        if self.is_bare() {
            return None;
        }
        let git_dir = self.common_dir().to_owned();
        let branch = branch_in_progress(&git_dir).or_else(|| head_branch(&git_dir));
        Some(Checkout { place: Workplace { path: self.top().to_owned(), git_dir }, branch })
    }

    /// Whether the runner that uses the worktree registered in `git_dir` is alive.
    pub fn is_held(&self, git_dir: &Path) -> bool {
        matches!(FileLock::try_acquire(&git_dir.join("locked")), Ok(None))
    }

    /// Takes hold of the worktrees of ours that are `wanted` and whose runner is gone.
    pub(crate) fn abandoned_worktrees(
        &self,
        wanted: impl Fn(&Mark) -> bool,
    ) -> Result<Vec<Worktree>, WorktreeError> {
        let is_wanted = |registered: &Registered| registered.mark().is_some_and(&wanted);
        // The usual answer, that there are none, costs no lock.
        if !self.is_half_registered() && !self.owned_worktrees()?.iter().any(is_wanted) {
            return Ok(Vec::new());
        }
        // A worktree is marked and held in one breath under this lock: what is marked and free now was left.
        let _registry = self.registry_lock()?;
        let mut held = Vec::new();
        for registered in self.owned_worktrees()?.iter().filter(|registered| is_wanted(registered)) {
            held.extend(self.take_hold(registered)?);
        }
        Ok(held)
    }

    /// Takes hold of the worktree of one attempt, if nobody else has.
    pub(crate) fn worktree_of(&self, attempt: AttemptId) -> Result<Found, WorktreeError> {
        let _registry = self.registry_lock()?;
        let all = self.owned_worktrees()?;
        let its = all.iter().find(|known| known.mark().is_some_and(|mark| mark.attempt == attempt));
        Ok(match its.map(|registered| self.take_hold(registered)).transpose()? {
            None => Found::Missing,
            Some(None) => Found::Held,
            Some(Some(worktree)) => Found::Free(worktree),
        })
    }

    /// `base`, or what was committed on top of it in the worktree since: an attached HEAD shows where others took the
    /// branch, its log what was done here.
    pub(crate) fn committed_within(&self, git_dir: &Path, base: CommitId) -> CommitId {
        match reflog::of_head(git_dir).last().map(|moved| moved.to) {
            Some(own) if self.commit(own).is_ok() && self.descends(own, base) => own,
            Some(_) | None => base,
        }
    }

    /// Takes hold of a worktree of ours whose runner is gone; `None` while it is alive.
    fn take_hold(&self, registered: &Registered) -> Result<Option<Worktree>, WorktreeError> {
        registered.mark().map_or(Ok(None), |mark| self.hold(&registered.checkout, mark.clone()))
    }

    /// Takes hold of the worktree that is registered so, if nobody else has.
    pub(crate) fn hold(&self, checkout: &Checkout, mark: Mark) -> Result<Option<Worktree>, WorktreeError> {
        let file = checkout.git_dir.join("locked");
        let held = match FileLock::try_acquire(&file) {
            Ok(held) => held,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(files("lock", &file)(error)),
        };
        let attached = checkout.place.branch().is_some();
        Ok(held.map(|held| Worktree::held(checkout.place.clone(), mark, attached, held)))
    }

    /// Makes the worktree for an attempt in `directory`, with the files of `commit`; its HEAD is the branch when
    /// `attached`, else the commit. Upstream configuration is not written, hooks do not run.
    pub(crate) fn create_worktree(
        &self,
        directory: &Path,
        mark: &Mark,
        commit: CommitId,
        attached: bool,
    ) -> Result<Worktree, WorktreeError> {
        self.note_ways();
        if let Some(mut worktree) = self.worktree_from_pool(directory, mark, commit, attached) {
            self.note_place(&worktree.path, &worktree.git_dir)
                .map_err(files("write in", &worktree.git_dir))?;
            self.note_state(&mut worktree, commit);
            return Ok(worktree);
        }
        let mut worktree = {
            let registry = self.registry_lock()?;
            let path = self.choose_path(directory, mark)?;
            let (git_dir, held) = self.register(&registry, &path, mark, commit, attached)?;
            self.note_place(&path, &git_dir).map_err(files("write in", &git_dir))?;
            crate::crashpoint::reach(crate::crashpoint::Point::WorktreeAdded);
            Worktree::held(Workplace { path, git_dir }, mark.clone(), attached, held)
        };
        // The long part, outside of the lock: files are written from the commit, no ref is touched.
        let checkout = Git::new(&worktree.path)
            .args(["read-tree", "--reset", "-u", "--no-recurse-submodules", &commit.to_string()])
            .run();
        if let Err(error) = checkout {
            if let Err(left) = self.remove_worktree(worktree) {
                tracing::warn!(%left, "a worktree that could not be filled was left behind");
            }
            return Err(error.into());
        }
        self.note_state(&mut worktree, commit);
        crate::crashpoint::reach(crate::crashpoint::Point::WorktreeFilled);
        Ok(worktree)
    }

    /// Notes how a worktree is before its command begins, unless that is known from the step before.
    fn note_state(&self, worktree: &mut Worktree, commit: CommitId) {
        if worktree.filled.is_none() {
            worktree.filled = self.note_filled(worktree, commit);
        }
        if worktree.origin.is_none() {
            worktree.origin = self.note_origin(worktree);
        }
    }

    /// Where the worktree of an attempt is to be, by the name git would give it; its parent is made.
    pub(crate) fn choose_path(&self, directory: &Path, mark: &Mark) -> Result<PathBuf, WorktreeError> {
        self.prepare_directory(directory)?;
        let directory = directory.canonicalize().map_err(files("find", directory))?;
        let name = mark.branch.directory_name();
        let path = directory.join(&name);
        if occupied(&path) || self.is_registered(&path)? {
            // Somebody's directory, or a worktree of ours that is still in use: never taken over.
            return Ok(directory.join(format!("{name}~{}", mark.attempt.short())));
        }
        Ok(path)
    }

    /// Moves a detached HEAD from `from` to `to`, which lies on top of it with the same tree; commits that a command made in the
    /// same moment are put on top of `to`.
    fn advance_detached(
        &self,
        place: &Workplace,
        from: CommitId,
        to: CommitId,
        log: &str,
    ) -> Result<(), WorktreeError> {
        let (mut expected, mut target) = (from, to);
        for _ in 0..TRIES {
            let moved = Git::new(&place.path)
                .args(["update-ref", "--no-deref", "-m", log, "HEAD"])
                .args([target.to_string(), expected.to_string()])
                .run();
            let error = match moved {
                Ok(_) => return Ok(()),
                Err(error) => error,
            };
            let Some(head) = place.detached_at().filter(|head| *head != expected) else {
                return Err(error.into());
            };
            let Ok(replanted) = self.replant(head, from, to) else { return Err(error.into()) };
            (expected, target) = (head, replanted);
        }
        Err(WorktreeError::Unsuitable { path: place.path.clone(), what: "changing too fast" })
    }

    /// The commit a checkout is at; none while unborn.
    pub fn checked_out(&self, place: &Workplace) -> Option<CommitId> {
        match place.branch() {
            Some(local) => self.branch_head(&local).ok().flatten(),
            None => place.detached_at(),
        }
    }

    /// Moves what a checkout is at, its branch or its detached HEAD, from `from` to `to`, which lies on top of it with the tree of
    /// its index.
    pub fn advance(
        &self,
        place: &Workplace,
        from: CommitId,
        to: CommitId,
        log: &str,
    ) -> Result<(), WorktreeError> {
        match place.branch() {
            None => self.advance_detached(place, from, to, log),
            Some(local) => match self.swap(local.full_ref().as_bstr(), Some(from), to, log)? {
                Swap::Won => Ok(()),
                Swap::Lost { .. } => {
                    Err(WorktreeError::Diverged { path: place.path.clone(), branch: local, to })
                }
            },
        }
    }

    /// Removes a worktree and its registration. What was worth saving has been saved.
    pub(crate) fn remove_worktree(&self, worktree: Worktree) -> Result<(), WorktreeError> {
        if !worktree.git_dir.exists() {
            let _registry = self.registry_lock()?;
            crate::crashpoint::reach(crate::crashpoint::Point::RemovalDone);
            tidy_above(&worktree.path);
            return Ok(());
        }
        let is_here = self.is_here(&worktree.path, &worktree.git_dir)?;
        if is_here {
            worktree.mend_link().map_err(files("write .git in", &worktree.path))?;
        }
        crate::crashpoint::reach(crate::crashpoint::Point::RemovalBegun);
        if is_here {
            if !worktree.is_linked_both_ways() {
                let what = "its .git is no link to this repository";
                return Err(Displaced { path: worktree.path.clone(), what }.into());
            }
            // The long part, outside of the lock: what we hold nobody else touches. The result has landed and the lease is over by
            // then. To rename it aside and delete it beside the next step was tried with 50,000 ignored files a step: three steps
            // took 78 s on ext4 either way, five 14 s on tmpfs. A run would have to wait for it in the end, and a killed one
            // leave it to others.
            remove_files(&worktree.path)?;
        }
        crate::crashpoint::reach(crate::crashpoint::Point::RemovalHalfDone);
        let registry = self.registry_lock()?;
        // What lies there by now is somebody else's.
        self.unregister(&registry, &worktree.git_dir)?;
        tidy_above(&worktree.path);
        crate::crashpoint::reach(crate::crashpoint::Point::RemovalDone);
        Ok(())
    }

    /// Removes a worktree of ours that lies where its registration says: files first, as git does it.
    pub(crate) fn remove_proven(
        &self,
        registry: &Registry<'_>,
        place: &Workplace,
    ) -> Result<(), WorktreeError> {
        remove_files(&place.path)?;
        crate::crashpoint::reach(crate::crashpoint::Point::RemovalHalfDone);
        self.unregister(registry, &place.git_dir)?;
        tidy_above(&place.path);
        Ok(())
    }

    /// Leaves a worktree in place for a person: its branch is set free, and it is no longer ours to remove.
    pub(crate) fn keep_worktree(
        &self,
        worktree: Worktree,
        head: CommitId,
        why: &str,
    ) -> Result<(), WorktreeError> {
        let owner = Owner::Kept { attempt: worktree.mark.attempt, why: why.to_owned() };
        let file = worktree.git_dir.join("locked");
        crate::fsutil::replace(&file, &owner.text()).map_err(files("write", &file))?;
        worktree.detach(head).map_err(files("detach", &worktree.git_dir))
    }
}

/// Removes the directory at `path`, if there is one.
fn remove_files(path: &Path) -> Result<(), WorktreeError> {
    let mut tries = 0;
    loop {
        match crate::fsutil::remove_all(path) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(files("remove", path)(error));
            }
            Err(_) if path.symlink_metadata().is_err() => return Ok(()),
            // Something in it was removed by somebody else at the same moment.
            Err(_) if tries < TRIES => tries += 1,
            Err(error) => return Err(files("remove", path)(error)),
        }
    }
}
