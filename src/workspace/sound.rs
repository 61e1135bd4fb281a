//! Sets right what no git could work with, before anything else is done: the registration of a worktree, and a work
//! branch that names nothing (CONTRACT 15.6).

use std::fmt::{Display, Formatter};
use std::path::Path;

use crate::contract::ids::CommitId;
use crate::git::Swap;
use crate::words::shell_quote;

use super::Workspaces;
use super::context::State;
use super::refusal::{Refusal, Why};
use super::store::Held;

/// The fault of a branch.
enum Was {
    /// It names a commit that is nowhere.
    At(CommitId),
    /// It is nowhere but in its log.
    Gone,
    /// Its file has lost its value.
    Damaged,
}

impl Display for Was {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::At(tip) => write!(f, "its branch named {tip}, a commit that is not here"),
            Self::Gone => f.write_str("its branch was gone, but its log was not"),
            Self::Damaged => f.write_str("its branch could not be read"),
        }
    }
}

impl Workspaces<'_> {
    /// Sets a locked workspace right. The repairs are noted in words.
    pub(super) fn make_sound(&self, held: &mut Held) -> Result<(), Refusal> {
        let trying = format!("set {} right", held.context.handle());
        let because = |error: &dyn std::error::Error| Refusal::because(&trying, error);
        // Commits in it would count as lost, and older ones take their place.
        if let Some(unread) = self.repo.unread_objects() {
            let message = format!("{trying}: {unread}; nothing was changed");
            return Err(Refusal::new(Why::Setup, message).hint(unread.next()));
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

    /// Puts a branch whose file lost its value, or that names a commit that is nowhere, at the newest commit that is known.
    /// It is not moved away from a commit that only cannot be read.
    fn mend_branch(&self, held: &mut Held) -> Result<(), Refusal> {
        let branch = held.context.branch();
        let full = branch.full_ref();
        let (name, log) = (full.as_slice().into(), "aynig: mended");
        let because = |error: &dyn std::error::Error| Refusal::because(&format!("mend {branch}"), error);
        self.repo.clear_odd_ref(name).map_err(|error| because(&error))?;
        let was = match self.repo.branch_head(&branch) {
            Ok(Some(tip)) => match self.repo.commit(tip) {
                Ok(_) => return Ok(()),
                Err(_) if self.repo.is_absent(tip) => Was::At(tip),
                Err(error) => return Err(self.out_of_reach(held, tip, &error)),
            },
            // Its file was lost, or a line of `packed-refs`.
            Ok(None) if self.repo.is_only_logged(name) => Was::Gone,
            Ok(None) => return Ok(()),
            // Only damage of its own file: anything else goes away, and the branch is as it was.
            Err(error) => match self.repo.damage_of(name) {
                Some(damaged) if damaged.is_lost() => Was::Damaged,
                _ => return Err(because(&error)),
            },
        };
        let mut newest = self.newest_known(held);
        if let Some((logged, is_last)) = self.newest_logged(held)?
            && (is_last || !self.repo.descends(newest, logged))
        {
            newest = logged;
        }
        if self.repo.commit(newest).is_err() {
            return Ok(());
        }
        let is_mended = match was {
            Was::Damaged => self.repo.overwrite_ref(name, newest, log),
            Was::At(tip) => self.repo.swap(name, Some(tip), newest, log).map(|swapped| swapped == Swap::Won),
            Was::Gone => self.repo.swap(name, None, newest, log).map(|swapped| swapped == Swap::Won),
        };
        if is_mended.map_err(|error| because(&error))? {
            held.mended.push(format!("{was}; it is at {} again", newest.short()));
        }
        Ok(())
    }

    /// The newest commit in the log of the branch that is not lost, and whether the branch was there last.
    fn newest_logged(&self, held: &Held) -> Result<Option<(CommitId, bool)>, Refusal> {
        let name = held.context.branch().full_ref();
        let log = self.repo.log_of(name.as_slice().into());
        let log = log.map_err(|error| Refusal::because(&format!("mend {name}"), &error))?;
        for (at, commit) in log.into_iter().rev().enumerate() {
            match self.repo.commit(commit) {
                Ok(_) => return Ok(Some((commit, at == 0))),
                Err(_) if self.repo.is_absent(commit) => {}
                Err(error) => return Err(self.out_of_reach(held, commit, &error)),
            }
        }
        Ok(None)
    }

    /// Refuses a change while the newest commit of the branch cannot be read.
    fn out_of_reach(&self, held: &Held, tip: CommitId, error: &dyn std::error::Error) -> Refusal {
        let (handle, name) = (held.context.handle(), held.context.branch().full_ref());
        let trying = format!("read the newest commit of {handle}");
        let older =
            self.repo.newest_logged(name.as_slice().into()).unwrap_or_else(|| self.newest_known(held));
        let remotes = self.repo.remote_names();
        let remote = if let [only] = &remotes[..] { only } else { "REMOTE" };
        let refusal = Refusal::because(&trying, error).hint(format!(
            "`git fetch {remote} {tip}` brings it if {remote} has it; `git fsck` names what is damaged"
        ));
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
