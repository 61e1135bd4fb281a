//! Sets right what no git could work with, before anything else is done: the registration of a worktree, and a work
//! branch that names nothing (CONTRACT 15.6).

use std::path::Path;

use crate::contract::ids::CommitId;
use crate::git::Swap;
use crate::git::objects::unread::Unread;
use crate::words::shell_quote;

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

    /// Puts a branch whose file lost its value at the newest commit that is known. One that names a commit is never moved:
    /// the commit may be back once what cannot be read now can be.
    fn mend_branch(&self, held: &mut Held) -> Result<(), Refusal> {
        let branch = held.context.branch();
        let name = branch.full_ref();
        let because = |error: &dyn std::error::Error| Refusal::because(&format!("mend {branch}"), error);
        self.repo.clear_odd_ref(name.as_slice().into()).map_err(|error| because(&error))?;
        let is_gone = match self.repo.branch_head(&branch) {
            Ok(Some(tip)) => {
                return self.repo.commit(tip).map(drop).map_err(|error| self.out_of_reach(held, tip, &error));
            }
            // Its file was lost, or a line of `packed-refs`.
            Ok(None) if self.repo.is_only_logged(name.as_slice().into()) => true,
            Ok(None) => return Ok(()),
            // Only damage of its own file: anything else goes away, and the branch is as it was.
            Err(error) => match self.repo.damage_of(name.as_slice().into()) {
                Some(damaged) if damaged.is_lost() => false,
                _ => return Err(because(&error)),
            },
        };
        let logged = self.repo.last_logged(name.as_slice().into()).map_err(|error| because(&error))?;
        let mut newest = self.newest_known(held);
        if let Some(logged) = logged {
            self.repo.commit(logged).map_err(|error| self.out_of_reach(held, logged, &error))?;
            if self.repo.descends(logged, newest) {
                newest = logged;
            }
        }
        if self.repo.commit(newest).is_err() {
            return Ok(());
        }
        let (name, log) = (name.as_slice().into(), "aynig: mended");
        let is_mended = if is_gone {
            self.repo.swap(name, None, newest, log).map(|swapped| swapped == Swap::Won)
        } else {
            self.repo.overwrite_ref(name, newest, log)
        };
        if is_mended.map_err(|error| because(&error))? {
            let was = if is_gone { "was gone, but its log was not" } else { "could not be read" };
            held.mended.push(format!("its branch {was}; it is at {} again", newest.short()));
        }
        Ok(())
    }

    /// Refuses a change while the newest commit of the branch cannot be read.
    fn out_of_reach(&self, held: &Held, tip: CommitId, error: &dyn std::error::Error) -> Refusal {
        let (handle, name) = (held.context.handle(), held.context.branch().full_ref());
        let trying = format!("read the newest commit of {handle}");
        let older = self.newest_known(held);
        let refusal = Refusal::because(&trying, error)
            .hint("`git fetch --all` brings it if a remote has it; `git fsck` names what is damaged");
        if older == tip || self.repo.commit(older).is_err() {
            return refusal;
        }
        refusal.hint(format!(
            "if it is lost: `git update-ref {} {older}`, then again",
            shell_quote(name.to_string())
        ))
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
