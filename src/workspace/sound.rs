//! Sets right what no git could work with, before anything else is done: the registration of a worktree, and a work
//! branch that names nothing (CONTRACT 15.6).

use std::path::Path;

use crate::contract::ids::CommitId;
use crate::git::Swap;
use crate::git::objects::unread::Unread;

use super::Workspaces;
use super::context::State;
use super::refusal::{Refusal, Why};
use super::store::Held;

impl Workspaces<'_> {
    /// Sets a locked workspace right. The repairs are noted in words.
    pub(super) fn make_sound(&self, held: &mut Held) -> Result<(), Refusal> {
        let trying = format!("set {} right", held.context.handle());
        let because = |error: &dyn std::error::Error| Refusal::because(&trying, error);
        // Commits in it would count as lost, and older ones take their place.
        if let Some(unread) = self.repo.unread_objects() {
            let message = format!("{trying}: {unread}; nothing was changed");
            return Err(Refusal::new(Why::Setup, message).hint(Unread::NEXT));
        }
        if matches!(held.context.state, State::Preparing | State::Removed) {
            return Ok(());
        }
        let (path, mark) = (&held.context.worktree_path, held.context.mark());
        held.mended = self.repo.mend_workspace(path, &mark).map_err(|error| because(&error))?;
        if held.context.state == State::Ready && held.context.pending.is_none() {
            self.mend_branch(held)?;
        }
        Ok(())
    }

    /// Puts a branch that cannot be read, or that names no commit that is here, at the newest commit that is known.
    fn mend_branch(&self, held: &mut Held) -> Result<(), Refusal> {
        let branch = held.context.branch();
        let name = branch.full_ref();
        let because = |error: &dyn std::error::Error| Refusal::because(&format!("mend {branch}"), error);
        self.repo.clear_odd_ref(name.as_slice().into()).map_err(|error| because(&error))?;
        let (had, why) = match self.repo.branch_head(&branch) {
            Ok(None) => return Ok(()),
            Ok(Some(tip)) if self.repo.commit(tip).is_ok() => return Ok(()),
            Ok(Some(tip)) => (Some(tip), format!("its branch named {tip}, a commit that is not here")),
            // Only damage of its own file: anything else goes away, and the branch is as it was.
            Err(error) => match self.repo.damage_of(name.as_slice().into()) {
                Some(damaged) if damaged.is_lost() => (None, "its branch could not be read".to_owned()),
                _ => return Err(because(&error)),
            },
        };
        let mut newest = self.newest_known(held);
        let logged = self.repo.newest_logged(name.as_slice().into());
        if let Some(logged) = logged.filter(|logged| self.repo.descends(*logged, newest)) {
            newest = logged;
        }
        if self.repo.commit(newest).is_err() {
            return Ok(());
        }
        let log = "aynig: mended";
        match had {
            Some(tip) => match self.repo.swap(name.as_slice().into(), Some(tip), newest, log) {
                Ok(Swap::Won) => {}
                Ok(Swap::Lost { .. }) => return Ok(()),
                Err(error) => return Err(because(&error)),
            },
            None => match self.repo.overwrite_ref(name.as_slice().into(), newest, log) {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(error) => return Err(because(&error)),
            },
        }
        held.mended.push(format!("{why}; it is at {} again", newest.short()));
        Ok(())
    }

    /// The newest commit of the work that the worktree or the context names, and that is here.
    fn newest_known(&self, held: &Held) -> CommitId {
        let noted = self.newest_noted(&held.context).unwrap_or_else(|| held.context.base());
        let its = self.repo.worktrees_of(&held.context.mark()).unwrap_or_default();
        its.first().map_or(noted, |its| self.repo.committed_within(&its.checkout.place.git_dir, noted))
    }
}

/// The words for an index that git could not read.
pub(super) fn damaged_index(aside: &Path) -> String {
    format!("its index could not be read and was made anew: {} has the old one", aside.display())
}
