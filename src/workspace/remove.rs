//! Removes a workspace (CONTRACT 15.9).
//!
//! Why this order: all that the branch does not have is under a rescue ref and the branch is
//! archived before anything goes. The context names what is due, so that the next call carries on
//! after a crash. The record moves away last: until then the workspace is found.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use bstr::{BString, ByteSlice};

use crate::contract::ids::CommitId;
use crate::contract::layout::archive_ref;
use crate::crashpoint::{Point, reach};
use crate::fsutil;
use crate::git::Swap;
use crate::git::contents::ignored::IgnoredUse;
use crate::git::worktrees::held::Worktree;
use crate::ledger::Tip;
use crate::model::run::RunKind;
use crate::supervise::{process_words, settled_workers};
use crate::words::{error_chain, shell_quote, shows_rescued};

use super::Workspaces;
use super::aside::{left, leftovers};
use super::change::absent;
use super::context::{Context, Pending, State};
use super::heard::unheard_words;
use super::refusal::{Refusal, Why};
use super::store::{Held, is_named};

/// How often a branch that others move is archived and removed.
const TRIES: u32 = 10;

/// A workspace that was removed, or would be.
#[derive(Debug)]
pub struct Removal {
    /// The context now.
    pub context: Context,
    /// Why it cannot be removed; `None` after it was removed.
    pub obstacle: Option<String>,
    /// The number of commits since the base.
    pub commits: usize,
    /// Whether there is work that is not committed on the branch.
    pub unsaved: bool,
    /// Its ignored contents, which are not saved.
    pub ignored: IgnoredUse,
    /// The ref that has the branch now; `None` in a preview.
    pub archive: Option<String>,
    /// The ref that what was not committed is saved under.
    pub rescue: Option<String>,
    /// Directories that go with it.
    pub removed: Vec<PathBuf>,
    /// Old directories that stay.
    pub kept: Vec<PathBuf>,
}

impl Workspaces<'_> {
    /// Finds out what removing a workspace would do. Removes nothing.
    pub fn preview_removal(&self, context: &Context) -> Result<Removal, Refusal> {
        let held = self.settled(self.hold(context)?)?;
        if held.context.pending.is_some() {
            let message = format!("{} is being made anew; nothing was changed", held.context.handle());
            return Err(Refusal::new(Why::Conflict, message)
                .hint("`aynig workspace snapshot` or `aynig workspace rollback` finishes it"));
        }
        let path = &held.context.worktree_path;
        if path.symlink_metadata().is_err() {
            (self.options.tell)(&format!("{}; `git worktree repair PLACE` notes where it is", absent(path)));
        }
        self.survey(&held)
    }

    /// A workspace whose removal a dead process had begun and this one has finished.
    pub fn finished_removal(&self, named: &OsStr) -> Option<Context> {
        self.removed.borrow().iter().find(|context| is_named(context, named)).cloned()
    }

    /// Removes a workspace, after all that is in it was saved.
    pub fn remove(&self, context: &Context) -> Result<Removal, Refusal> {
        let mut held = self.ready(context)?;
        let handle = held.context.handle();
        let mut removal = self.survey(&held)?;
        let stays = |why: &str| {
            let message = format!("{handle} cannot be removed: {why}; nothing was removed");
            let again = format!("`aynig workspace remove --apply {}`", shell_quote(&handle));
            Refusal::new(Why::Conflict, message).hint(format!("change that, then again: {again}"))
        };
        if let Some(why) = &removal.obstacle {
            return Err(stays(why));
        }
        let branch = held.context.branch();
        let kept = self.repo.branch_head(&branch).ok().flatten().unwrap_or_else(|| held.context.base());
        let before = self.save(&held, kept)?;
        if let Some(why) = &before.keep {
            return Err(stays(why));
        }
        let (path, generation) = (&held.context.worktree_path, held.context.generation);
        let aside = left(path, "kept", generation);
        held.context.pending = Some(Pending {
            from: before.tip.map(|tip| tip.to_string()),
            to: before.restore.branch.clone(),
            files: None,
            index: None,
            aside: aside.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            keep: None,
            ignored: false,
            head: before.head.to_string(),
            registration: before.registration,
            rescue: before.restore.rescue.clone(),
            undo: None,
            follows: false,
        });
        held.context.state = State::Removing;
        held.seen = Some(before.seen);
        held.save()?;
        reach(Point::RemovalNoted);
        let (archive, told) = self.finish_removal(&mut held)?;
        for words in told {
            (self.options.tell)(&words);
        }
        removal.archive = Some(archive);
        removal.removed.retain(|directory| directory.symlink_metadata().is_err());
        removal.rescue = before.restore.rescue;
        // What is no directory was renamed, and a directory that a process came into meanwhile.
        let kept = leftovers(&held.context.worktree_path, ".kept-");
        if kept.len() > removal.kept.len() {
            removal.ignored = IgnoredUse::default();
        }
        removal.kept = kept;
        removal.context = held.context;
        Ok(removal)
    }

    /// Why the steps of a flow still need a workspace. A new one would begin at the base, without the work.
    fn open_run(&self, context: &Context) -> Result<Option<String>, Refusal> {
        let Some((run, head)) = self.ledger_of(context)? else { return Ok(None) };
        let tip = Tip::read_run(self.repo, run, head)?;
        let run = tip.state.run;
        let is_open = run.kind == RunKind::Flow && !run.status.is_ended() && !tip.state.deleted;
        Ok(is_open.then(|| {
            format!(
                "run {0} has not ended, and its steps work there; `aynig flow stop {0}` ends it",
                run.slug
            )
        }))
    }

    /// Gathers the facts for a preview.
    fn survey(&self, held: &Held) -> Result<Removal, Refusal> {
        let (context, mark) = (&held.context, held.context.mark());
        let path = &context.worktree_path;
        let trying = format!("look at {}", context.handle());
        let because = |error: &dyn std::error::Error| Refusal::because(&trying, error);
        let tip = self.repo.branch_head(&mark.branch).map_err(|error| because(&error))?;
        let worktree = self.repo.hold_workspace(path, &mark).map_err(|error| because(&error))?;
        let worktree = worktree.filter(|worktree| is_directory(&worktree.path));
        let others = self.repo.checkouts_of(&mark.branch).map_err(|error| because(&error))?;
        let other = others.into_iter().map(|other| other.place.path).find(|other| other != path);
        let obstacle = self
            .open_run(context)?
            .or_else(|| Some(format!("{} works in it", process_words(*settled_workers(path).first()?))))
            .or_else(|| Some(format!("its branch is checked out at {}", other?.display())))
            .or_else(|| {
                let stored = self.repo.commit(tip.unwrap_or_else(|| context.base())).ok()?;
                let worktree = worktree.as_ref()?;
                let inside = self.repo.look_inside(worktree, &stored);
                let error = inside.and_then(|_| self.repo.check_shown(worktree)).err()?;
                Some(error_chain(&error))
            })
            .or_else(|| Some(error_chain(&self.repo.dropped_commits(&mark.branch, tip?).err()?)));
        let commits = match tip {
            Some(tip) => self.repo.commits_since(tip, context.base()).map_err(|error| because(&error))?.len(),
            None => 0,
        };
        let on_branch = |head: CommitId| tip.is_some_and(|tip| self.repo.descends(tip, head));
        let unsaved = worktree.as_ref().is_some_and(|worktree| {
            !self.repo.is_clean(worktree).unwrap_or(false)
                || !self.repo.checked_out(worktree).is_some_and(on_branch)
        });
        let used = |worktree: &Worktree| Some(self.repo.ignored(worktree).ok()?.used(&worktree.path));
        let ignored = worktree.as_ref().and_then(used);
        let mut removed = leftovers(path, ".gone-");
        removed.extend(is_directory(path).then(|| path.clone()));
        Ok(Removal {
            context: context.clone(),
            obstacle,
            commits,
            unsaved,
            ignored: ignored.unwrap_or_default(),
            archive: None,
            rescue: None,
            removed,
            kept: leftovers(path, ".kept-"),
        })
    }

    /// Carries out the removal that the context names. Returns the ref that has the branch, and what
    /// the user should know.
    pub(super) fn finish_removal(&self, held: &mut Held) -> Result<(String, Vec<String>), Refusal> {
        let handle = held.context.handle();
        let due = format!("remove {handle}; the next `aynig workspace` carries on");
        let because = |error: &dyn std::error::Error| Refusal::because(&due, error);
        let path = held.context.worktree_path.clone();
        let (mut archive, mut told) = (String::new(), Vec::new());
        if let Some(pending) = held.context.pending.clone() {
            archive = self.archive(held, pending.to())?;
            reach(Point::RemovalArchived);
            let aside = path.with_file_name(&pending.aside);
            told = self
                .put_aside(held, &aside)
                .map_err(|why| Refusal::new(Why::Setup, format!("could not {due}: {why}")))?;
            let keep = held.context.pending.as_ref().and_then(|pending| pending.keep.clone());
            // The directory may be gone.
            if let Some(why) = keep.filter(|_| aside.symlink_metadata().is_ok()) {
                told.push(format!("the old worktree stays at {}: {why}", aside.display()));
            }
            reach(Point::RemovalUnregistered);
            archive = self.remove_branch(held, &mut told)?.unwrap_or(archive);
            reach(Point::RemovalUnbranched);
            for gone in leftovers(&path, ".gone-") {
                let mut removed = fsutil::remove_all(&gone);
                // Another process removes it, too: each of these errors is its progress.
                while removed.as_ref().is_err_and(|error| error.kind() == ErrorKind::NotFound)
                    && gone.symlink_metadata().is_ok()
                {
                    removed = fsutil::remove_all(&gone);
                }
                if let Err(error) = removed
                    && gone.symlink_metadata().is_ok()
                {
                    told.push(format!("{} stays: {error}", gone.display()));
                }
            }
            self.leave_root(&path);
            held.context.head_sha = pending.to().to_string();
            held.context.state = State::Removed;
            held.context.pending = None;
            held.save()?;
            reach(Point::RemovalRecorded);
        }
        match self.let_hear(&held.context, &[], &[]) {
            Ok(()) => self.retire(held).map_err(|error| because(&error))?,
            // The record stays until the ledger of the run has heard.
            Err(error) => told.push(unheard_words(&held.context, &error)),
        }
        Ok((archive, told))
    }

    /// Removes the work branch, after every commit that it has was archived, and every one that it
    /// had was saved: its reflog goes, too. Returns the last ref.
    fn remove_branch(&self, held: &Held, told: &mut Vec<String>) -> Result<Option<String>, Refusal> {
        let branch = held.context.branch();
        let trying = format!("remove the branch {branch}; the next `aynig workspace` tries again");
        let because = |error: &dyn std::error::Error| Refusal::because(&trying, error);
        let mut archive = None;
        for _ in 0..TRIES {
            let Some(tip) = self.repo.branch_head(&branch).map_err(|error| because(&error))? else {
                return Ok(archive);
            };
            archive = Some(self.archive(held, tip)?);
            let dropped = self.repo.rescue_dropped(&branch, &held.context.run_id, tip);
            told.extend(dropped.map_err(|error| because(&error))?.map(|saved| {
                format!(
                    "commits that were taken off {branch} are saved: {}",
                    shows_rescued(saved.reference.to_string())
                )
            }));
            let name = branch.full_ref();
            if let Swap::Won =
                self.repo.delete_ref(name.as_slice().into(), tip).map_err(|error| because(&error))?
            {
                return Ok(archive);
            }
        }
        Err(Refusal::new(Why::Conflict, format!("could not {trying}: it moves all the time")))
    }

    /// Points a ref of the archive at a commit. A name that is taken gets a number.
    fn archive(&self, held: &Held, commit: CommitId) -> Result<String, Refusal> {
        let name = archive_ref(held.context.run(), &held.context.name);
        let trying = format!("archive {}; the next `aynig workspace` tries again", held.context.handle());
        for number in 1..u32::MAX {
            let mut reference: BString = name.clone();
            if number > 1 {
                reference.extend_from_slice(format!("-{number}").as_bytes());
            }
            let pointed = self.repo.swap(reference.as_bstr(), None, commit, "aynig: archived");
            match pointed.map_err(|error| Refusal::because(&trying, &error))? {
                Swap::Won => return Ok(reference.to_string()),
                Swap::Lost { actual: Some(there) } if self.repo.descends(there, commit) => {
                    return Ok(reference.to_string());
                }
                Swap::Lost { .. } => {}
            }
        }
        Err(Refusal::new(Why::Failed, format!("could not {trying}: all names are taken")))
    }
}

impl Removal {
    /// Describes the ignored contents, which are not saved.
    pub fn losses(&self) -> Option<String> {
        let ignored = self.ignored;
        (!ignored.is_empty()).then(|| format!("{} ({} bytes)", ignored.words(), ignored.bytes))
    }
}

/// Whether it is a directory itself, and not a link to one.
fn is_directory(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|found| found.is_dir())
}
