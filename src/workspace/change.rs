//! Makes the worktree of a workspace anew: for a rollback, its undoing, and mending (CONTRACT 15.7).
//!
//! Why this order: all that the work branch will not have is under a ref before anything moves, and
//! the context names what is due. The old directory is renamed, which is quick whatever is in it and
//! leaves a process that works there where it is. What was written there meanwhile is saved too,
//! and only then may the directory go: it is named `.kept-` until that is certain, and `.gone-`
//! after that. Its registration goes, the branch moves from the
//! very commit that was saved, a new worktree is made, and the context is ready again. Each step
//! finds out whether it was done already, so that the next call carries on after a crash.

use std::path::{Path, PathBuf};

use crate::contract::ids::CommitId;
use crate::crashpoint::{Point, reach};
use crate::fsutil;
use crate::git::Swap;
use crate::git::contents::ignored::IgnoredUse;
use crate::git::contents::nested::rename_in_submodules;
use crate::git::contents::rescue::Situation;
use crate::git::worktrees::error::WorktreeError;
use crate::git::worktrees::held::Worktree;
use crate::git::worktrees::registration::Workplace;
use crate::words::error_chain;

use super::Workspaces;
use super::aside::{clear_drafts, found_at, left, leftovers};
use super::context::{Context, Pending, Remaking, Restore, State};
use super::refusal::{Refusal, Why};
use super::remade::Remade;
use super::saved::Before;
use super::store::Held;

/// Why a worktree is made anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Aim {
    /// It is set right.
    Mend,
    /// It is rolled back, or that is undone: what there was can be brought back.
    Rollback,
    /// Another host did so.
    Follow,
}

/// How often a branch that others move is saved and moved.
const TRIES: u32 = 10;

/// How many worktrees a context remembers.
const REMEMBERED: usize = 20;

impl Workspaces<'_> {
    /// Renames what is no directory away from a worktree's place, and makes the directory above it.
    pub(super) fn clear_place(&self, held: &Held, worktree: Option<&Workplace>) -> std::io::Result<()> {
        let path = &held.context.worktree_path;
        if path.symlink_metadata().is_ok_and(|found| !found.is_dir()) {
            std::fs::rename(path, left(path, "kept", held.context.generation))?;
        }
        let above = path.parent().unwrap_or(path);
        if above.symlink_metadata().is_err() {
            crate::fsutil::create_private_dir_all(above)?;
            if let Some(worktree) = worktree {
                self.repo.note_place(path, &worktree.git_dir)?;
            }
        }
        Ok(())
    }

    /// Makes the worktree anew, with the branch at `to` and the files of `restore` or else of `to`.
    pub(super) fn remake(
        &self,
        held: &mut Held,
        before: Before,
        (to, restore): (CommitId, Option<&Restore>),
        aim: Aim,
    ) -> Result<Remade, Refusal> {
        let Before { restore: mut old, tip, head, registration, keep, seen, .. } = before;
        let ignored = seen.used;
        held.seen = Some(seen);
        let (path, generation) = (held.context.worktree_path.clone(), held.context.generation);
        let aside = left(&path, "kept", generation);
        old.kept = old.kept.map(|_| aside.clone());
        // What is in its way is in the renamed directory.
        let (from, to_aside) = (path.display().to_string(), aside.display().to_string());
        let keep = keep.map(|why| why.replace(&from, &to_aside));
        let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        held.context.pending = Some(Pending {
            from: tip.map(|tip| tip.to_string()),
            to: to.to_string(),
            files: restore.map(|restore| restore.files.clone()),
            index: restore.map(|restore| restore.index.clone()),
            aside: name(&aside),
            keep,
            ignored: false,
            head: head.to_string(),
            registration,
            rescue: old.rescue.clone(),
            undo: (aim == Aim::Rollback).then_some(old.clone()),
            follows: aim == Aim::Follow,
        });
        held.save()?;
        reach(Point::RollbackNoted);
        let mut remade = self.finish(held)?;
        remade.rescue = remade.rescue.or(old.rescue);
        remade.ignored = ignored;
        Ok(remade)
    }

    /// Carries out what is due by the context.
    pub(super) fn finish(&self, held: &mut Held) -> Result<Remade, Refusal> {
        let handle = held.context.handle();
        let nothing = || Refusal::new(Why::Failed, format!("nothing is due in {handle}"));
        let pending = held.context.pending.clone().ok_or_else(nothing)?;
        let noted = pending.rescue.clone();
        let due = format!("make the worktree of {handle} anew; the next `aynig workspace` carries on");
        let because = |error: &dyn std::error::Error| Refusal::because(&due, error);
        let path = held.context.worktree_path.clone();
        let aside = path.with_file_name(&pending.aside);
        let mut warnings = self
            .put_aside(held, &aside)
            .map_err(|why| Refusal::new(Why::Setup, format!("could not {due}: {why}")))?;
        let mut pending = held.context.pending.clone().ok_or_else(nothing)?;
        reach(Point::RollbackUnregistered);
        warnings.extend(self.move_branch(held, &pending)?);
        reach(Point::RollbackMoved);
        let to = pending.to();
        let worktree = self
            .made_in_place(&held.context, to, pending.trees())
            .map_err(|why| Refusal::new(Why::Setup, format!("could not {due}: {why}")))?;
        warnings.extend(self.take_settings(held, &worktree).map_err(|error| because(&error))?);
        if pending.ignored {
            match self.carry_ignored(held, &aside, &worktree) {
                Ok(true) => {
                    pending.keep = None;
                    let gone = left(&path, "gone", held.context.generation);
                    std::fs::rename(&aside, gone).map_err(|error| because(&error))?;
                }
                Ok(false) => {}
                Err(why) => warnings.push(format!("could not move its ignored files: {why}")),
            }
        }
        if !pending.follows {
            held.context.generation = held.context.generation.saturating_add(1);
        }
        warnings.extend(self.make_ready(held, &worktree).unwrap_or_else(|refusal| vec![refusal.message]));
        reach(Point::RollbackAdded);
        held.context.head_sha = to.to_string();
        held.context.state = State::Ready;
        held.context.pending = None;
        if !pending.follows {
            held.context.remade.push(Remaking {
                generation: held.context.generation,
                is_rollback: pending.undo.is_some(),
                is_undone: pending.undo.is_some() && pending.files.is_some(),
                head: to.to_string(),
                rescue: pending.rescue.clone(),
            });
        }
        let more = held.context.remade.len().saturating_sub(REMEMBERED);
        held.context.remade.drain(..more);
        let earlier = held.context.undo.clone();
        let is_worth = |undo: &Restore| !self.equals_target(undo, &pending);
        held.context.undo =
            pending.undo.clone().filter(is_worth).or(earlier).or_else(|| pending.undo.clone());
        let is_there = aside.symlink_metadata().is_ok();
        held.save()?;
        self.drop_settings(held);
        reach(Point::RollbackDone);
        drop(worktree);
        for gone in leftovers(&path, ".gone-") {
            self.discard(&gone);
        }
        let kept = pending.keep.filter(|_| is_there).map(|why| (aside, why));
        let context = held.context.clone();
        let rescue = pending.rescue.filter(|name| noted.as_ref() != Some(name));
        Ok(Remade { context, rescue, kept, ignored: IgnoredUse::default(), warnings })
    }

    /// Makes a worktree beside its place, checks it, and puts it there: git would write over changes that are made in it
    /// meanwhile.
    fn made_in_place(
        &self,
        context: &Context,
        commit: CommitId,
        trees: Option<(CommitId, CommitId)>,
    ) -> Result<Worktree, String> {
        let words = |error: &dyn std::error::Error| error_chain(error);
        let path = &context.worktree_path;
        // Git may name the registration after it, and that must not be the name of the old one.
        let draft = left(path, "new", context.generation.saturating_add(1));
        let made = self.repo.draft_workspace((&draft, path), &context.mark(), commit, trees);
        let worktree = made.map_err(|error| words(&error))?;
        let is_right = trees.is_some()
            || self.repo.is_as_filled(&worktree, commit)
            || self.repo.is_clean(&worktree).map_err(|error| words(&error))?;
        if !is_right {
            return Err(format!("it differs from {commit} after it was made"));
        }
        worktree.put_at(path).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Whether what was there is what is made, so that nothing can be brought back.
    fn equals_target(&self, undo: &Restore, pending: &Pending) -> bool {
        let Ok(to) = self.repo.commit(pending.to()) else { return false };
        let (files, index) = pending.trees().unwrap_or((to.tree, to.tree));
        undo.rescue.is_none()
            && undo.kept.is_none()
            && undo.branch == pending.to
            && undo.files == files.to_string()
            && undo.index == index.to_string()
    }

    /// Renames the old worktree, saves what was written there since it was saved, and gives up its
    /// registration. A new one that a killed process did not complete is put aside as well. Returns
    /// what the user should know.
    pub(super) fn put_aside(&self, held: &mut Held, aside: &Path) -> Result<Vec<String>, String> {
        let path = held.context.worktree_path.clone();
        let words = |error: &dyn std::error::Error| error_chain(error);
        let mark = held.context.mark();
        let Some(pending) = held.context.pending.clone() else { return Ok(Vec::new()) };
        let its = self.repo.worktrees_of(&mark).map_err(|error| words(&error))?;
        let its = its.into_iter().map(|one| one.checkout.place);
        let is_old = |place: &Workplace| {
            place.git_dir.file_name().and_then(|name| name.to_str()) == pending.registration.as_deref()
        };
        let (old, new): (Vec<Workplace>, Vec<Workplace>) = its.partition(is_old);
        let is_there = |path: &Path| path.symlink_metadata().is_ok();
        let mut told = Vec::new();
        for place in &new {
            told.extend(self.put_half_made_aside(held, place)?);
        }
        clear_drafts(&path);
        // A process that was killed may have renamed the old one already.
        let is_elsewhere = |place: &Workplace| found_at(&path, place).is_some_and(|at| at != path);
        let is_here = pending.keep.is_some() || !old.is_empty() && !old.iter().any(is_elsewhere);
        let is_first = !is_there(aside) && is_here;
        if is_there(&path) && is_first && new.is_empty() {
            std::fs::rename(&path, aside).map_err(|error| words(&error))?;
        } else if is_there(&path) {
            told.extend(self.put_unlisted_aside(held)?);
        }
        reach(Point::RollbackAside);
        if is_there(aside) {
            self.rename_inside(&path, aside).map_err(|error| words(&error))?;
        }
        for place in &old {
            rename_in_submodules(&place.git_dir, &path, aside);
            told.extend(self.copy_settings(held, &place.git_dir).map_err(|error| words(&error))?);
        }
        for place in old {
            told.extend(self.give_up(held, &place, aside)?);
        }
        Ok(told)
    }

    /// Records that worktrees of the repository which are inside a renamed one were renamed with it.
    fn rename_inside(&self, from: &Path, to: &Path) -> Result<(), WorktreeError> {
        for one in self.repo.linked_worktrees()? {
            let place = one.checkout.place;
            let Ok(below) = place.path.strip_prefix(from) else { continue };
            let moved = Workplace { path: to.join(below), git_dir: place.git_dir.clone() };
            if below.as_os_str().is_empty() || !moved.names_its_registration() {
                continue;
            }
            if let Err(error) = moved.write_back_link() {
                tracing::warn!(place = %moved.path.display(), %error, "git does not know its new place");
            }
        }
        Ok(())
    }

    /// Saves what is in the old worktree, which was renamed to `aside`, and gives up its registration or leaves it to the
    /// user.
    fn give_up(&self, held: &mut Held, place: &Workplace, aside: &Path) -> Result<Vec<String>, String> {
        let words = |error: &dyn std::error::Error| error_chain(error);
        let (path, generation) = (held.context.worktree_path.clone(), held.context.generation);
        let Some(pending) = held.context.pending.clone() else { return Ok(Vec::new()) };
        let mut told = Vec::new();
        let forget = |told| {
            self.repo.forget_worktree(place).map_err(|error| words(&error))?;
            Ok(told)
        };
        if aside.symlink_metadata().is_err() {
            // Else a process that was killed had saved all of it.
            if found_at(&path, place).is_none() {
                told.push(absent(&path));
            }
            return forget(told);
        }
        if pending.keep.is_none() {
            told.extend(self.save_again(held, aside)?);
        }
        let keep = held.context.pending.as_ref().and_then(|pending| pending.keep.as_deref());
        if let Some(why) = keep.filter(|_| aside.is_dir()) {
            let now = Workplace { path: aside.to_owned(), git_dir: place.git_dir.clone() };
            let left = self.repo.leave_workspace(&now, &held.context.mark(), pending.head(), why);
            return left.map(|()| told).map_err(|error| words(&error));
        }
        if keep.is_none() {
            // From now on its name says that all in it is saved.
            std::fs::rename(aside, left(&path, "gone", generation)).map_err(|error| words(&error))?;
            reach(Point::RollbackGone);
        }
        forget(told)
    }

    /// Saves what is in the renamed worktree: somebody may have written there since it was saved.
    fn save_again(&self, held: &mut Held, aside: &Path) -> Result<Option<String>, String> {
        let Some(mut pending) = held.context.pending.clone() else { return Ok(None) };
        let again = self.save_renamed(held, aside, pending.to()).map_err(|refusal| refusal.message)?;
        let is_newer = again.restore.rescue != pending.rescue;
        pending.from = again.tip.map(|tip| tip.to_string());
        pending.head = again.head.to_string();
        pending.ignored = again.carries;
        pending.keep = again.keep;
        pending.rescue = again.restore.rescue.clone();
        pending.undo = pending.undo.map(|_| again.restore);
        let told = pending.rescue.clone().filter(|_| is_newer);
        held.context.pending = Some(pending);
        held.save().map_err(|refusal| refusal.message)?;
        Ok(told.map(|name| format!("what was written there meanwhile is saved, too: {name}")))
    }

    /// Puts aside the worktree of a killed change, in which somebody may have worked since. It goes if all in it is saved.
    /// Another process that was killed may have put it aside already.
    fn put_half_made_aside(&self, held: &Held, place: &Workplace) -> Result<Option<String>, String> {
        let words = |error: &dyn std::error::Error| error_chain(error);
        let (path, generation) = (&held.context.worktree_path, held.context.generation);
        let Some(pending) = &held.context.pending else { return Ok(None) };
        let forget = || self.repo.forget_worktree(place).map_err(|error| words(&error));
        let is_filled = place.git_dir.join("index").symlink_metadata().is_ok();
        let is_draft = |at: &Path| leftovers(path, ".new-").iter().any(|draft| draft == at);
        let is_gone = |at: &Path| leftovers(path, ".gone-").iter().any(|gone| gone == at);
        let is_unnamed = path.is_dir() && path.join(".git").symlink_metadata().is_err();
        let renamed = match found_at(path, place) {
            Some(at) if is_gone(&at) => return forget().map(|()| None),
            // Git has not completed it, and it was never at its place.
            Some(at) if is_draft(&at) && !is_filled => {
                fsutil::remove_all(&at).map_err(|error| words(&error))?;
                return forget().map(|()| None);
            }
            Some(at) if at == *path || is_draft(&at) => self.renamed_aside(held, &at)?,
            Some(at) => at,
            // Its link was removed.
            None if is_unnamed && is_filled => self.renamed_aside(held, path)?,
            None => return forget().map(|()| None),
        };
        rename_in_submodules(&place.git_dir, path, &renamed);
        let saved = self.save_renamed(held, &renamed, pending.to()).map_err(|refusal| refusal.message)?;
        let now = Workplace { path: renamed.clone(), ..place.clone() };
        if let Some(why) = saved.keep {
            let left = self.repo.leave_workspace(&now, &held.context.mark(), pending.to(), &why);
            left.map_err(|error| words(&error))?;
            return Ok(Some(format!(
                "a worktree that was not complete stays at {}: {why}",
                renamed.display()
            )));
        }
        let gone = left(path, "gone", generation);
        std::fs::rename(&renamed, &gone).map_err(|error| words(&error))?;
        self.repo.forget_worktree(place).map_err(|error| words(&error))?;
        self.discard(&gone);
        let rescue = saved.restore.rescue;
        Ok(rescue.map(|name| format!("what was in a worktree that was not complete is saved: {name}")))
    }

    /// Renames a directory, so that it stays.
    fn renamed_aside(&self, held: &Held, at: &Path) -> Result<PathBuf, String> {
        let renamed = other_kept(held);
        std::fs::rename(at, &renamed).map_err(|error| error_chain(&error))?;
        reach(Point::HalfMadeAside);
        Ok(renamed)
    }

    /// Puts aside a directory in the place of the worktree that git does not list.
    fn put_unlisted_aside(&self, held: &Held) -> Result<Option<String>, String> {
        let (path, generation) = (&held.context.worktree_path, held.context.generation);
        let is_empty = is_bare(path);
        let renamed = if is_empty { left(path, "gone", generation) } else { other_kept(held) };
        std::fs::rename(path, &renamed).map_err(|error| error_chain(&error))?;
        if is_empty {
            self.discard(&renamed);
            return Ok(None);
        }
        Ok(Some(format!(
            "what was at {} stays at {}: git does not list it",
            path.display(),
            renamed.display()
        )))
    }

    /// Moves the branch to where it is due. If somebody moved it meanwhile, that is saved first.
    /// Returns what the user should know of that.
    fn move_branch(&self, held: &Held, pending: &Pending) -> Result<Vec<String>, Refusal> {
        let (branch, label) = (held.context.branch(), held.context.run_id.as_str());
        let trying = format!("move {branch}; the next `aynig workspace` tries again");
        let because = |error: &dyn std::error::Error| Refusal::because(&trying, error);
        let (mut from, to) = (pending.from(), pending.to());
        let mut told = Vec::new();
        for _ in 0..TRIES {
            if from == Some(to) && self.repo.branch_head(&branch).is_ok_and(|head| head == from) {
                return Ok(told);
            }
            let name = branch.full_ref();
            match self
                .repo
                .swap(name.as_slice().into(), from, to, "aynig: workspace")
                .map_err(|error| because(&error))?
            {
                Swap::Won => return Ok(told),
                Swap::Lost { actual: Some(actual) } if actual == to => return Ok(told),
                Swap::Lost { actual } => {
                    if let Some(base) = actual {
                        let situation =
                            Situation { branch: &branch, label, base, kept: Some(to), also: None };
                        let saved = self.repo.rescue_commits(situation).map_err(|error| because(&error))?;
                        told.extend(saved.map(|saved| {
                            format!("{branch} moved meanwhile; {} has what it had", saved.reference)
                        }));
                    }
                    from = actual;
                }
            }
        }
        Err(Refusal::new(Why::Conflict, format!("could not {trying}: it moves all the time")))
    }

    /// Finishes what a dead process left due in a workspace. Returns what the user should know if
    /// there was something.
    pub(super) fn carry_on(&self, held: &mut Held) -> Result<Option<Vec<String>>, Refusal> {
        match (held.context.state, &held.context.pending) {
            (State::Removing | State::Removed, _) => self.finish_removal(held).map(|(_, told)| Some(told)),
            (State::Ready | State::Preparing, Some(_)) => self.finish(held).map(|remade| Some(remade.told())),
            (State::Ready | State::Preparing, None) => Ok(None),
        }
    }
}

/// What the user should know if there is nothing at the place of a registered worktree.
pub(super) fn absent(path: &Path) -> String {
    format!(
        "there is no worktree at {}: if it was moved, its files are where they are now, and are not saved",
        path.display()
    )
}

/// A free name for a directory that stays and is not the old worktree, whose own name may be free again.
fn other_kept(held: &Held) -> PathBuf {
    let (path, generation) = (&held.context.worktree_path, held.context.generation);
    let free = left(path, "kept", generation);
    let is_old = |pending: &Pending| path.with_file_name(&pending.aside) == free;
    if held.context.pending.as_ref().is_some_and(is_old) {
        return left(path, "kept", generation.saturating_add(1));
    }
    free
}

/// Whether a directory has nothing in it but git's link, which is a file: a directory of that name is a repository.
fn is_bare(directory: &Path) -> bool {
    let is_link = |entry: std::fs::DirEntry| {
        entry.file_name() == ".git" && entry.file_type().is_ok_and(|kind| kind.is_file())
    };
    directory.symlink_metadata().is_ok_and(|found| found.is_dir())
        && std::fs::read_dir(directory).is_ok_and(|entries| entries.flatten().all(is_link))
}
