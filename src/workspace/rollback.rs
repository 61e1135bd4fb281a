//! Rolls a workspace back to its base, and takes that back (CONTRACT 15.7, 15.8).

use std::path::Path;

use crate::contract::ids::CommitId;
use crate::fsutil;
use crate::git::Repo;
use crate::git::contents::ignored::Ignored;
use crate::ledger::Ledger;
use crate::ledger::history::operations;
use crate::model::event::Body;
use crate::model::ids::RunId;
use crate::supervise::detach;

use super::Workspaces;
use super::aside::leftovers;
use super::change::Aim;
use super::context::{Context, Restore, State, is_numbered};
use super::elsewhere::Asked;
use super::refusal::{Refusal, Why};
use super::remade::{Finished, Remade};
use super::store::Held;

/// The internal call that removes a directory.
pub const DISCARD: &str = "__discard";

/// The target of a rollback: the base.
pub const PRE_RUN: &str = "pre_run";

/// The host that rolled a workspace of a run back last, unless that was undone. `head` is the newest operation.
pub fn rolled_back_on(repo: &Repo, (run, head): (RunId, CommitId), name: &str) -> Option<String> {
    let all = operations(repo, run, head, None).unwrap_or_default();
    let last = all.iter().flat_map(|operation| &operation.events).rev().find_map(|event| match &event.body {
        Body::WorkspaceRolledBack(body) if body.name.as_str() != name => None,
        Body::WorkspaceRolledBack(body) if body.detail.is_some() => Some(None),
        Body::WorkspaceRolledBack(_) => Some(Some(event.by.runner().to_owned())),
        _ => None,
    });
    last.flatten()
}

/// Refuses targets of a rollback that do not exist yet.
pub fn check_target(target: &str) -> Result<(), Refusal> {
    if target == PRE_RUN {
        return Ok(());
    }
    if target == "pre_step" || target.starts_with("checkpoint:") {
        let message =
            format!("a rollback to {target} is deferred: only {PRE_RUN} exists; nothing was changed");
        return Err(Refusal::new(Why::Usage, message)
            .hint("each snapshot is a commit: `git log` in the worktree lists them, `git revert COMMIT` there undoes one"));
    }
    let message = format!("{target:?} is no target of a rollback: {PRE_RUN} is; nothing was changed");
    Err(Refusal::new(Why::Usage, message))
}

impl Workspaces<'_> {
    /// Puts branch and worktree back to the base; `None` if they are there already.
    pub fn rollback(&self, context: &Context) -> Result<Option<Remade>, Refusal> {
        // The lock is held until the ledger has heard.
        let (remade, _held) = self.rolled_back(context)?;
        if let Some(remade) = &remade {
            self.hears(&remade.context, &[]);
        }
        Ok(remade)
    }

    /// Rolls back, and returns the lock. The ledger does not hear of it here.
    pub(super) fn rolled_back(&self, context: &Context) -> Result<(Option<Remade>, Held), Refusal> {
        let (mut held, finished) = self.carried(context, Asked::Now)?;
        let finished = match finished {
            Some(Finished { remade, is_undo: false, .. }) => Some(remade),
            finished => {
                self.tell_finished(finished);
                None
            }
        };
        let base = held.context.base();
        if self.repo.commit(base).is_err() {
            return Err(Refusal::new(
                Why::Setup,
                format!(
                    "the base {base} of {} is not in this repository; nothing was changed",
                    held.context.handle()
                ),
            ));
        }
        if self.is_as_new(&held, base) {
            return Ok((finished, held));
        }
        self.check_branch(&held.context)?;
        let before = self.save(&held, base)?;
        let told = before.tip.is_none().then(|| self.gone_words(&held.context));
        let mut remade = self.remake(&mut held, before, (base, None), Aim::Rollback)?;
        remade.warnings.extend(told);
        Ok((Some(remade), held))
    }

    /// Brings back what the last rollback, or the last undoing of one, discarded.
    pub fn undo_rollback(&self, context: &Context) -> Result<Remade, Refusal> {
        // A worktree that follows the host that rolled it back has nothing to bring back.
        if context.undo.is_none() && context.pending.is_none() {
            // Without an answer, the ledger as last known decides.
            if let Ok(Some((run, _))) = self.ledger_of(context)
                && let Ok(mut ledger) = Ledger::open(self.repo, run)
                && let Err(error) = ledger.refresh()
            {
                tracing::debug!(%error, "the ledger as it was last known");
            }
            self.rolled_back_elsewhere(context, "; nothing was changed").map_or(Ok(()), Err)?;
        }
        let (mut held, finished) = self.carried(context, Asked::Now)?;
        match finished {
            // What it discarded is the next to be brought back, which would be the opposite.
            Some(Finished { remade, is_undo: true, .. }) => {
                self.hears(&remade.context, &[]);
                return Ok(remade);
            }
            finished => self.tell_finished(finished),
        }
        let handle = held.context.handle();
        let Some(restore) = held.context.undo.clone() else {
            return Err(self.rolled_back_elsewhere(&held.context, "").unwrap_or_else(|| {
                Refusal::new(Why::Usage, format!("{handle} was not rolled back; nothing was changed"))
                    .hint(format!("`aynig workspace list` shows {handle}, and `git log` in it its commits"))
            }));
        };
        let to = self.all_there(&restore).ok_or_else(|| {
            let rescue = restore.rescue.as_deref().unwrap_or("its branch");
            Refusal::new(
                Why::Setup,
                format!("what was rolled back in {handle} is not in this repository any more ({rescue}); nothing was changed"),
            )
        })?;
        self.check_branch(&held.context)?;
        let before = self.save(&held, to)?;
        let mut remade = self.remake(&mut held, before, (to, Some(&restore)), Aim::Rollback)?;
        remade.warnings.extend(restore.kept.as_ref().map(|kept| {
            format!(
                "files and index are not brought back: that rollback could not save them, and left them in {}",
                kept.display()
            )
        }));
        self.hears(&remade.context, &[]);
        Ok(remade)
    }

    /// Refuses to undo what another host rolled back last, as far as its ledger is known here.
    fn rolled_back_elsewhere(&self, context: &Context, so: &str) -> Option<Refusal> {
        let handle = context.handle();
        let (run, head) = self.ledger_of(context).ok()??;
        let host = rolled_back_on(self.repo, (run, head), &context.name)?;
        let message = format!("{handle} was rolled back on {host}, which has what to bring back{so}");
        let again = format!("`aynig workspace rollback --undo {handle}` on {host} takes it back");
        Some(Refusal::new(Why::Failed, message).hint(again))
    }

    /// Locks a workspace that is complete, after what was interrupted in it is finished.
    pub(super) fn ready(&self, context: &Context) -> Result<Held, Refusal> {
        self.ready_after(context, Asked::Now)
    }

    /// The same, if the ledger of its run was read by this process.
    pub(super) fn ready_after(&self, context: &Context, asked: Asked) -> Result<Held, Refusal> {
        let (held, finished) = self.carried(context, asked)?;
        self.tell_finished(finished);
        Ok(held)
    }

    /// The same, with the rollback, or the undoing of one, that a dead process had begun and that is finished now.
    fn carried(&self, context: &Context, asked: Asked) -> Result<(Held, Option<Finished>), Refusal> {
        let mut held = self.hold(context)?;
        let earlier = self.finished.borrow_mut().remove(&held.context.handle());
        let finished = match earlier {
            Some(earlier) => Some(earlier),
            None => self.finish_begun(&mut held)?,
        };
        for words in self.carry_on(&mut held)?.into_iter().flatten() {
            (self.options.tell)(&words);
        }
        for gone in leftovers(&held.context.worktree_path, ".gone-") {
            self.discard(&gone);
        }
        let mut held = self.settled(held)?;
        for words in self.follow(&mut held, asked)? {
            (self.options.tell)(&words);
        }
        Ok((held, finished))
    }

    /// Finishes a rollback, or the undoing of one, that a dead process had begun.
    pub(super) fn finish_begun(&self, held: &mut Held) -> Result<Option<Finished>, Refusal> {
        let begun = held.context.pending.clone().filter(|pending| pending.undo.is_some());
        let is_here = matches!(held.context.state, State::Ready | State::Preparing);
        let Some(begun) = begun.filter(|_| is_here) else { return Ok(None) };
        let remade = self.finish(held)?;
        let rescue = remade.rescue.clone().or(begun.rescue);
        let (is_undo, remade) = (begun.files.is_some(), Remade { rescue, ..remade });
        Ok(Some(Finished { is_undo, is_told: false, remade }))
    }

    /// Prints what a person should know of a change that was finished for another call.
    fn tell_finished(&self, finished: Option<Finished>) {
        let Some(Finished { remade, is_told: false, .. }) = finished else { return };
        remade.told().iter().for_each(|words| (self.options.tell)(words));
    }

    /// Passes on a workspace that is complete.
    pub(super) fn settled(&self, held: Held) -> Result<Held, Refusal> {
        match held.context.state {
            State::Ready => Ok(held),
            State::Preparing => {
                let message = format!("{} is not complete; nothing was changed", held.context.handle());
                Err(Refusal::new(Why::Conflict, message))
            }
            State::Removing | State::Removed => {
                Err(Refusal::new(Why::NotFound, format!("{} was removed", held.context.handle())))
            }
        }
    }

    /// Whether there is nothing to roll back.
    fn is_as_new(&self, held: &Held, base: CommitId) -> bool {
        let (mark, path) = (held.context.mark(), &held.context.worktree_path);
        let Ok(Some(worktree)) = self.repo.hold_workspace(path, &mark) else { return false };
        self.repo.branch_head(&mark.branch).is_ok_and(|head| head == Some(base))
            && worktree.branch().as_ref() == Some(&mark.branch)
            && worktree.names_its_registration()
            && self.repo.ignored(&worktree).is_ok_and(|ignored| ignored == Ignored::default())
            && self.repo.is_clean(&worktree).unwrap_or(false)
    }

    /// The newest commit that the record names, if it is here.
    pub(super) fn newest_noted(&self, context: &Context) -> Option<CommitId> {
        CommitId::parse_hex(&context.head_sha).filter(|head| self.repo.commit(*head).is_ok())
    }

    /// Describes a branch that is gone.
    fn gone_words(&self, context: &Context) -> String {
        let head = context.head_sha.get(..10).unwrap_or_default();
        match self.newest_noted(context) {
            Some(newest) if newest == context.base() => "its branch was deleted".to_owned(),
            Some(_) => format!("its branch was deleted; its newest commit that is known, {head}, is saved"),
            None => format!("its branch was deleted; its newest commit, {head}, is not in this repository"),
        }
    }

    /// The commit of the branch, if all that is to be brought back is in the repository.
    fn all_there(&self, restore: &Restore) -> Option<CommitId> {
        let id = |text: &str| CommitId::parse_hex(text);
        let [files, index] = [id(&restore.files)?, id(&restore.index)?];
        let branch = id(&restore.branch)?;
        let is_there =
            self.repo.commit(branch).is_ok() && self.repo.has_tree(files) && self.repo.has_tree(index);
        is_there.then_some(branch)
    }

    /// Removes a directory of ours in the background.
    pub(super) fn discard(&self, directory: &Path) {
        use std::os::unix::ffi::OsStrExt;
        let started = fsutil::nameless(directory.as_os_str().as_bytes()).and_then(|stdin| {
            let environment = std::env::vars_os().collect();
            detach(&self.options.program, vec![DISCARD.into()], environment, Path::new("/"), stdin)
        });
        if let Err(error) = started {
            tracing::debug!(%error, "removing it here");
            if let Err(error) = fsutil::remove_all(directory) {
                tracing::warn!(directory = %directory.display(), %error, "left behind");
            }
        }
    }
}

/// Removes a directory whose name says that all in it is saved ([`DISCARD`]). Returns whether the
/// name is such a one.
pub fn discard(directory: &Path) -> bool {
    let name = directory.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let is_gone = name.split_once(".gone-").is_some_and(|(_, end)| is_numbered(end));
    if !directory.is_absolute() || !is_gone {
        return false;
    }
    if let Err(error) = fsutil::remove_all(directory) {
        tracing::debug!(directory = %directory.display(), %error, "left behind");
    }
    true
}
