//! Creates, finds and removes worktrees, and proves that they are ours.
//!
//! Invariant: a worktree is ours only if git's own registration is locked with the reason "aynig
//! attempt …", which it is from its first moment (see [`crate::git::worktrees::registry`]). The
//! runner that uses it holds an advisory lock on that file; if the lock is free, that runner is
//! gone. A worktree without the mark is never touched (CONTRACT 9.2).
//!
//! The caller must save the contents by [`crate::git::contents::rescue`] before it removes a
//! worktree.

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
use crate::git::worktrees::registration::{Checkout, Mark, Owner, Registered, Workplace};
use crate::git::worktrees::registry::{NewWorktree, Registry};

/// How often to try again when a command commits at the same moment.
const TRIES: u32 = 10;

/// The state of an attempt's worktree.
#[derive(Debug)]
pub(crate) enum Found {
    /// No worktree is registered.
    Missing,
    /// Another process has locked it.
    Held,
    /// Its runner is gone, and this process has now locked it.
    Free(Worktree),
}

impl Repo {
    /// The main worktree, if the repository has one.
    pub fn main_checkout(&self) -> Option<Checkout> {
        if self.is_bare() {
            return None;
        }
        let git_dir = self.common_dir().to_owned();
        Some(Checkout::at(Workplace { path: self.top().to_owned(), git_dir }))
    }

    /// Whether the runner that uses the worktree registered in `git_dir` is alive.
    pub fn is_held(&self, git_dir: &Path) -> bool {
        matches!(FileLock::try_acquire(&git_dir.join("locked")), Ok(None))
    }

    /// Locks the worktrees of ours that are `wanted` and whose runner is gone.
    pub(crate) fn abandoned_worktrees(
        &self,
        wanted: impl Fn(&Mark) -> bool,
    ) -> Result<Vec<Worktree>, WorktreeError> {
        let is_wanted = |registered: &Registered| registered.mark().is_some_and(&wanted);
        // Usually there are none, and no lock is needed.
        if !self.is_half_registered() && !self.owned_worktrees()?.iter().any(is_wanted) {
            return Ok(Vec::new());
        }
        // Under this lock a worktree is marked and locked together. So one that is marked and not
        // locked now was abandoned.
        let _registry = self.registry_lock()?;
        let mut held = Vec::new();
        for registered in self.owned_worktrees()?.iter().filter(|registered| is_wanted(registered)) {
            held.extend(self.take_hold(registered)?);
        }
        Ok(held)
    }

    /// Locks the worktree of one attempt, unless another process has it.
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

    /// The newest commit made in the worktree on top of `base`, or `base`. Read from HEAD's reflog,
    /// since an attached HEAD also moves when the branch is moved from elsewhere.
    pub(crate) fn committed_within(&self, git_dir: &Path, base: CommitId) -> CommitId {
        let log = reflog::of_head(git_dir);
        match log.iter().rev().map(|moved| moved.to).find(|own| self.commit(*own).is_ok()) {
            Some(own) if self.descends(own, base) => own,
            Some(_) | None => base,
        }
    }

    /// Locks a worktree of ours whose runner is gone; `None` while it is alive.
    fn take_hold(&self, registered: &Registered) -> Result<Option<Worktree>, WorktreeError> {
        registered.mark().map_or(Ok(None), |mark| self.hold(&registered.checkout, mark.clone()))
    }

    /// Locks a registered worktree; `None` if another process has it.
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

    /// Creates the worktree of an attempt in `directory`, with the files of `commit`. Its HEAD is
    /// the branch, or the commit for a remote's branch. No upstream configuration is written, and no
    /// hooks run.
    pub(crate) fn create_worktree(
        &self,
        directory: &Path,
        mark: &Mark,
        commit: CommitId,
    ) -> Result<Worktree, WorktreeError> {
        let attached = mark.remote.is_none();
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
            let new = NewWorktree {
                path: &path,
                place: &path,
                owner: &Owner::Attempt(mark.clone()),
                id: mark.attempt,
                branch: attached.then_some(&mark.branch),
                commit,
            };
            let (git_dir, held) = self.register(&registry, &new)?;
            self.note_place(&path, &git_dir).map_err(files("write in", &git_dir))?;
            crate::crashpoint::reach(crate::crashpoint::Point::WorktreeAdded);
            Worktree::held(Workplace { path, git_dir }, mark.clone(), attached, held)
        };
        // The long part runs without the lock: it writes files from the commit and touches no ref.
        if let Err(error) = worktree.fill(commit) {
            if let Err(left) = self.remove_worktree(worktree) {
                tracing::warn!(%left, "a worktree that could not be filled was left behind");
            }
            return Err(error.into());
        }
        self.note_state(&mut worktree, commit);
        crate::crashpoint::reach(crate::crashpoint::Point::WorktreeFilled);
        Ok(worktree)
    }

    /// Records the state of a worktree before its command begins, unless the previous step did.
    fn note_state(&self, worktree: &mut Worktree, commit: CommitId) {
        if worktree.filled.is_none() {
            worktree.filled = self.note_filled(worktree, commit);
        }
        if worktree.origin.is_none() {
            worktree.origin = self.note_origin(worktree);
        }
    }

    /// Chooses the path of an attempt's worktree, named after its branch; creates its parent.
    pub(crate) fn choose_path(&self, directory: &Path, mark: &Mark) -> Result<PathBuf, WorktreeError> {
        self.prepare_directory(directory)?;
        let directory = directory.canonicalize().map_err(files("find", directory))?;
        let name = mark.branch.directory_name();
        let path = directory.join(&name);
        if occupied(&path) || self.is_registered(&path)? {
            // The name is taken, by the user or by another attempt's worktree: never take it over.
            return Ok(directory.join(format!("{name}~{}", mark.attempt.short())));
        }
        Ok(path)
    }

    /// Moves a detached HEAD from `from` to `to`, which is on top of it with the same tree. Commits
    /// that a command makes meanwhile are rewritten onto `to`.
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

    /// The commit a checkout is at; `None` on an unborn branch.
    pub fn checked_out(&self, place: &Workplace) -> Option<CommitId> {
        match place.branch() {
            Some(local) => self.branch_head(&local).ok().flatten(),
            None => place.detached_at(),
        }
    }

    /// Moves a checkout's branch, or its detached HEAD, from `from` to `to`, which is on top of it
    /// with the tree of its index.
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
                Swap::Lost { actual } => {
                    let (path, branch) = (place.path.clone(), local);
                    Err(if actual.is_some_and(|actual| self.descends(to, actual)) {
                        WorktreeError::Behind { path, branch, to }
                    } else {
                        WorktreeError::Diverged { path, branch, to }
                    })
                }
            },
        }
    }

    /// Removes a worktree and its registration. Its contents must have been saved.
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
            // The long part runs without the lock, which is safe because no other process touches a
            // worktree that we have locked. By then the result has landed and the lease is over.
            // Renaming the directory and deleting it beside the next step was measured, with 50,000
            // ignored files a step: three steps took 78 s on ext4 either way, five 14 s on tmpfs. A
            // run would have to wait for the deletion at its end, and a killed run would leave it
            // to others.
            remove_files(&worktree.path)?;
        }
        crate::crashpoint::reach(crate::crashpoint::Point::RemovalHalfDone);
        let registry = self.registry_lock()?;
        // Anything at the path now is not ours.
        self.unregister(&registry, &worktree.git_dir)?;
        tidy_above(&worktree.path);
        crate::crashpoint::reach(crate::crashpoint::Point::RemovalDone);
        Ok(())
    }

    /// Removes a worktree of ours that is where its registration says: files first, as git does.
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

    /// Leaves a worktree in place for the user: detaches it from its branch, and then gives up its
    /// ownership. In this order, because nobody detaches a kept worktree later. One that is only
    /// detached is still the attempt's, so the next pass disposes of it again.
    pub(crate) fn keep_worktree(
        &self,
        worktree: Worktree,
        head: CommitId,
        why: &str,
    ) -> Result<(), WorktreeError> {
        worktree.let_go(head).map_err(files("detach", &worktree.git_dir))?;
        crate::crashpoint::reach(crate::crashpoint::Point::KeptDetached);
        let owner = Owner::Kept { attempt: worktree.mark.attempt, why: why.to_owned() };
        let file = worktree.git_dir.join("locked");
        crate::fsutil::replace(&file, &owner.text()).map_err(files("write", &file))
    }
}

/// Removes the directory at `path`, if it exists.
fn remove_files(path: &Path) -> Result<(), WorktreeError> {
    let mut tries = 0;
    loop {
        match crate::fsutil::remove_all(path) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(files("remove", path)(error));
            }
            Err(_) if path.symlink_metadata().is_err() => return Ok(()),
            // Another process removed something in it at the same moment.
            Err(_) if tries < TRIES => tries += 1,
            Err(error) => return Err(files("remove", path)(error)),
        }
    }
}
