//! Worktrees that are passed from one step of a run to the next (CONTRACT 9.15).
//!
//! This is the part of the pool that costs nothing: a worktree that was not changed at all needs no
//! cleaning and no checkout. Such a *spare* is in the pool's directory, marked and locked. So no
//! other runner touches it, and the next one removes it if this one dies.
//!
//! Invariant: a spare is exactly what git wrote. Its index is the very file, and everything else is
//! compared with that index ([`Repo::index_as_filled`]). Its registration contains only our own
//! files, and has a name that no earlier step knew. No process has anything in either open. The files that decide how git writes files are
//! unchanged since before it was filled ([`Repo::files_of_ways`]). If any of that is in doubt the
//! worktree is treated like any other.

use std::fs::DirEntry;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{MutexGuard, PoisonError};

use bstr::BString;

use crate::contract::ids::CommitId;
use crate::fsutil::{self, FileLock};
use crate::git::contents::index::IndexFile;
use crate::git::repo::open::Repo;
use crate::git::worktrees::directory::tidy_above;
use crate::git::worktrees::error::{WorktreeError, files};
use crate::git::worktrees::held::{Filled, Identity, Spare, Spares, Worktree};
use crate::git::worktrees::pool::{careful, entries_in};
use crate::git::worktrees::registration::{Mark, Owner, Registered, Workplace};

/// The files of a registration of ours.
const OURS: [&str; 7] = ["HEAD", "commondir", "gitdir", "locked", "index", "aynig-index", "aynig-place"];

impl Repo {
    /// Begins a run: worktrees are passed from step to step from now on, unless the pool is turned
    /// off. Of those steps `likely` come after the pass.
    pub(crate) fn begin_spares(&self, likely: usize) {
        let mut spares = self.spares_now();
        (spares.open, spares.likely) = (self.pool_limit() > 0, likely);
    }

    /// Records the number of steps that the pass has yet to start. That many spares are of use.
    pub(crate) fn expect_steps(&self, expected: usize) {
        self.spares_now().expected = expected;
    }

    /// Passes no more worktrees on from now on.
    pub(crate) fn end_handing_on(&self) {
        let mut spares = self.spares_now();
        (spares.open, spares.ways) = (false, None);
    }

    /// Ends a run and returns the remaining spares, which the caller must remove.
    pub(crate) fn end_spares(&self) -> Vec<Spare> {
        let Spares { kept, above, .. } = std::mem::take(&mut *self.spares_now());
        above.iter().for_each(|above| tidy_above(above));
        kept
    }

    fn spares_now(&self) -> MutexGuard<'_, Spares> {
        self.spares().lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the state of a worktree that git has just filled with the files of `commit`.
    pub(crate) fn note_filled(&self, place: &Workplace, commit: CommitId) -> Option<Box<Filled>> {
        let tree = self.commit(commit).ok()?.tree;
        let index = place.git_dir.join("index").symlink_metadata().ok()?;
        let top = place.path.symlink_metadata().ok()?;
        let mode = top.permissions().mode();
        let files = entries_in(&place.git_dir.join("index"))?;
        Some(Box::new(Filled { tree, index: Identity::of(&index), top: Identity::of(&top), mode, files }))
    }

    /// Records the files that decide how git writes files. Call it before git writes any.
    pub(crate) fn note_ways(&self) {
        let mut spares = self.spares_now();
        if spares.open && spares.ways.is_none() {
            spares.ways = self.files_of_ways().map(seen);
            spares.open = spares.ways.is_some();
        }
    }

    /// Whether [`Repo::hand_on`] is worth trying: nothing was written to the index.
    pub(crate) fn may_be_spare(&self, worktree: &Worktree) -> bool {
        let Some(filled) = &worktree.filled else { return false };
        let index = worktree.git_dir.join("index").symlink_metadata();
        let spares = self.spares_now();
        let is_wanted = spares.ways.is_some() && spares.kept.len() < spares.expected + spares.likely;
        is_wanted && index.is_ok_and(|index| Identity::of(&index) == filled.index)
    }

    /// Passes a worktree on to the next step, detached at `at`. No process may be in it or have
    /// anything in it open. Returns it if it is not fit.
    pub(crate) fn hand_on(
        &self,
        worktree: Worktree,
        at: CommitId,
    ) -> Result<Option<Worktree>, WorktreeError> {
        let Some(index_file) = self.fit_index(&worktree, at) else { return Ok(Some(worktree)) };
        let attributes = index_file.attribute_files();
        let slot = self.new_slot(&worktree);
        let held = mark(&worktree, &Owner::Spare)?;
        crate::crashpoint::reach(crate::crashpoint::Point::PoolMarked);
        let shelved = self
            .state_dir()
            .and_then(|_| fsutil::create_private_dir_all(&self.pool_directory()))
            .and_then(|()| worktree.detach(at))
            .and_then(|()| slot.shelve(&worktree));
        if let Err(error) = shelved {
            tracing::debug!(%error, "a worktree could not be handed on");
            self.remove_proven(&self.registry_lock()?, &self.stranded(&worktree, slot))?;
            return Ok(None);
        }
        crate::crashpoint::reach(crate::crashpoint::Point::PoolShelved);
        let (above, own) = (worktree.path.clone(), worktree.mark.clone());
        let mut worktree = worktree.passed_on(slot, own, false, held);
        // The move changed it, and what changes it from here on is not ours.
        let top = worktree.path.symlink_metadata().ok().map(|top| Identity::of(&top));
        worktree.filled =
            worktree.filled.take().zip(top).map(|(filled, top)| Box::new(Filled { top, ..*filled }));
        let mut spares = self.spares_now();
        spares.kept.push(Spare { worktree, at, attributes });
        spares.above = Some(above);
        Ok(None)
    }

    /// The index of a worktree, if it can be passed on.
    fn fit_index(&self, worktree: &Worktree, at: CommitId) -> Option<IndexFile> {
        let filled = worktree.filled.as_ref()?;
        let is_fit = self.commit(at).ok()?.tree == filled.tree
            && self.is_here(&worktree.path, &worktree.git_dir) == Ok(true)
            && worktree.is_linked_both_ways()
            && worktree.has_our_link()
            && holds_only_ours(&worktree.git_dir, filled.mode)?;
        if is_fit { self.index_as_filled(worktree, filled) } else { None }
    }

    /// A spare for an attempt, with the files of `commit`; `None` if there is none that is fit.
    pub(crate) fn take_spare(
        &self,
        directory: &Path,
        new: &Mark,
        commit: CommitId,
        attached: bool,
    ) -> Result<Option<Worktree>, WorktreeError> {
        let Some(spare) = self.pop_spare(commit) else { return Ok(None) };
        let Spare { mut worktree, attributes, .. } = spare;
        let place = {
            let registry = self.registry_lock()?;
            let filled = worktree.filled.as_ref();
            if filled.and_then(|filled| self.index_as_filled(&worktree, filled)).is_none() {
                tracing::debug!("somebody wrote into a spare");
                self.remove_proven(&registry, &worktree)?;
                return Ok(None);
            }
            let path = self.choose_path(directory, new)?;
            let place = Workplace { path, git_dir: worktree.git_dir.clone() };
            if let Err(error) = place.come_out_of_pool(&worktree.path) {
                tracing::debug!(%error, "a spare could not be moved into place");
                self.remove_proven(&registry, &worktree)?;
                return Ok(None);
            }
            place
        };
        crate::crashpoint::reach(crate::crashpoint::Point::PoolTaken);
        let Some(filled) = self.filled_anew(&place, &mut worktree, commit, &attributes) else {
            self.remove_proven(&self.registry_lock()?, &place)?;
            return Ok(None);
        };
        let log = place.git_dir.join("logs").join("HEAD");
        self.first_of_head_log(commit, "aynig: handed on")
            .and_then(|line| fsutil::replace(&log, &line))
            .and_then(|()| place.detach(commit))
            .map_err(files("write in", &place.git_dir))?;
        crate::crashpoint::reach(crate::crashpoint::Point::PoolRefilled);
        let held = mark(&place, &Owner::Attempt(new.clone()))?;
        if attached {
            place.attach(&new.branch).map_err(files("attach", &place.git_dir))?;
        }
        let mut worktree = worktree.passed_on(place, new.clone(), attached, held);
        worktree.filled = Some(filled);
        Ok(Some(worktree))
    }

    /// Takes a spare, preferably one with the tree of `commit`. If files would now be written in
    /// another way, removes all spares and returns `None`.
    fn pop_spare(&self, commit: CommitId) -> Option<Spare> {
        let tree = self.commit(commit).ok()?.tree;
        let mut spares = self.spares_now();
        if spares.kept.is_empty() {
            return None;
        }
        let same = |(file, before): &(PathBuf, Option<Identity>)| seen_now(file) == *before;
        if !spares.ways.as_ref().is_some_and(|ways| ways.iter().all(same)) {
            let kept = std::mem::take(&mut spares.kept);
            drop(spares);
            self.end_handing_on();
            for Spare { worktree, .. } in kept {
                if let Err(error) = self.remove_worktree(worktree) {
                    tracing::warn!(%error, "a worktree that cannot be handed on was left behind");
                }
            }
            return None;
        }
        let has_tree =
            |spare: &Spare| spare.worktree.filled.as_ref().is_some_and(|filled| filled.tree == tree);
        let at = spares.kept.iter().position(has_tree).unwrap_or(spares.kept.len() - 1);
        Some(spares.kept.swap_remove(at))
    }

    /// Moves a spare at `place` to the files of `commit`, and records its state; `None` if that
    /// fails.
    fn filled_anew(
        &self,
        place: &Workplace,
        spare: &mut Worktree,
        commit: CommitId,
        attributes: &[(BString, CommitId)],
    ) -> Option<Box<Filled>> {
        let tree = self.commit(commit).ok()?.tree;
        if let Some(filled) = spare.filled.take().filter(|filled| filled.tree == tree) {
            let top = place.path.symlink_metadata().ok()?;
            return Some(Box::new(Filled { top: Identity::of(&top), ..*filled }));
        }
        spare.origin = None;
        careful(place)
            .args(["read-tree", "--reset", "-u", "--no-recurse-submodules", &commit.to_string()])
            .run()
            .ok()?;
        let filled = self.note_filled(place, commit)?;
        let index_file = self.index_as_filled(place, &filled)?;
        // Otherwise files that are equal in both trees might now be written in another way.
        (index_file.attribute_files() == attributes).then_some(filled)
    }

    /// Removes the spares of dead runners; no command has seen them since they were clean.
    /// `directory` is the directory for worktrees.
    pub(crate) fn clear_dead_spares(&self, directory: &Path) -> Result<(), WorktreeError> {
        let is_spare = |registered: &Registered| registered.owner == Some(Owner::Spare);
        if !self.owned_worktrees()?.iter().any(is_spare) {
            return Ok(());
        }
        let registry = self.registry_lock()?;
        for spare in self.owned_worktrees()?.into_iter().filter(is_spare) {
            let place = spare.checkout.place;
            let locked = place.git_dir.join("locked");
            let Ok(Some(_held)) = FileLock::try_acquire(&locked) else { continue };
            // An attempt may have taken it since it was listed, and died with work in it.
            if fsutil::read_plain(&locked).ok().and_then(|text| Owner::parse(&text)) != Some(Owner::Spare) {
                continue;
            }
            self.remove_proven(&registry, &self.at_either_end(place))?;
            tidy_above(&directory.join("any"));
        }
        Ok(())
    }
}

/// Writes the owner of a worktree and takes the lock on it.
fn mark(place: &Workplace, owner: &Owner) -> Result<FileLock, WorktreeError> {
    let locked = place.git_dir.join("locked");
    FileLock::replace(&locked, &owner.text()).map_err(files("write", &locked))
}

/// Whether a registration contains only our files. They must have the permissions of new files, and
/// directories `mode`.
fn holds_only_ours(git_dir: &Path, mode: u32) -> Option<bool> {
    let is_file = |entry: &DirEntry| {
        let found = entry.metadata();
        found.is_ok_and(|found| {
            found.is_file() && found.nlink() == 1 && found.permissions().mode() & 0o7777 == mode & 0o666
        })
    };
    let has_mode =
        |path: &Path| path.symlink_metadata().is_ok_and(|found| found.permissions().mode() == mode);
    for entry in std::fs::read_dir(git_dir).ok()? {
        let entry = entry.ok()?;
        let is_ours = if entry.file_name() == "logs" {
            let mut logs = std::fs::read_dir(entry.path()).ok()?.flatten();
            has_mode(&entry.path()) && logs.all(|log| log.file_name() == "HEAD" && is_file(&log))
        } else {
            OURS.iter().any(|ours| entry.file_name() == *ours) && is_file(&entry)
        };
        if !is_ours {
            return Some(false);
        }
    }
    let whole = fsutil::read_plain(git_dir.join("commondir")).is_ok_and(|text| text == b"../..\n");
    Some(whole && has_mode(git_dir))
}

fn seen(files: Vec<PathBuf>) -> Vec<(PathBuf, Option<Identity>)> {
    files
        .into_iter()
        .map(|file| {
            let now = seen_now(&file);
            (file, now)
        })
        .collect()
}

/// A file's current identity; follows symbolic links, as git does.
fn seen_now(file: &Path) -> Option<Identity> {
    file.metadata().ok().map(|found| Identity::of(&found))
}
