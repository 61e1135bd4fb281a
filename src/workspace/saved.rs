//! Saves what is in the worktree of a workspace before it is made anew or removed (CONTRACT 9.5, 15.7).
//!
//! Invariant: all that the work branch will not have is under a ref afterwards, or the result says why the directory
//! stays. What a commit can hold is saved in either case, so that it can be brought back.

use std::path::Path;

use crate::contract::ids::CommitId;
use crate::git::contents::rescue::{Saved, Situation};
use crate::git::contents::snapshot::{Inside, Noted};
use crate::git::worktrees::held::Worktree;
use crate::supervise::{process_words, settled_workers};
use crate::words::{error_chain, pluralize};

use super::Workspaces;
use super::context::{Restore, State};
use super::refusal::Refusal;
use super::sound::damaged_index;
use super::store::{Held, Seen};

/// The work saved before the worktree is made anew.
pub(super) struct Before {
    /// The way back to it.
    pub(super) restore: Restore,
    /// The value of the branch.
    pub(super) tip: Option<CommitId>,
    /// The commit that the files were based on.
    pub(super) head: CommitId,
    /// The registration's name.
    pub(super) registration: Option<String>,
    /// Why the old directory stays.
    pub(super) keep: Option<String>,
    /// Whether it stays only for ignored files, which the new worktree can take.
    pub(super) carries: bool,
    /// How to see that nothing was written there since.
    pub(super) seen: Seen,
}

impl Workspaces<'_> {
    /// Saves what is in a workspace and what its branch has, but for what is reachable from `kept`.
    pub(super) fn save(&self, held: &Held, kept: CommitId) -> Result<Before, Refusal> {
        let (context, mark) = (&held.context, held.context.mark());
        let path = &context.worktree_path;
        let because = |error: &dyn std::error::Error| {
            Refusal::because(&format!("save what is in {}; nothing was changed", path.display()), error)
        };
        for words in &held.mended {
            (self.options.tell)(&format!("{}: {words}", context.handle()));
        }
        let worktree = self.repo.hold_workspace(path, &mark).map_err(|error| because(&error))?;
        self.clear_place(held, worktree.as_deref()).map_err(|error| because(&error))?;
        // Files of other hosts' commits that the worktree does not have yet would be saved as deleted.
        if let Some(Err(refusal)) = worktree.as_ref().map(|worktree| self.catch_up(held, worktree)) {
            tracing::debug!(refusal.message, "saved as it is");
        }
        self.save_in(held, path, worktree, kept)
    }

    /// Saves what is in the worktree in the directory `path`.
    fn save_in(
        &self,
        held: &Held,
        path: &Path,
        worktree: Option<Worktree>,
        kept: CommitId,
    ) -> Result<Before, Refusal> {
        let (context, mark) = (&held.context, held.context.mark());
        let because = |error: &dyn std::error::Error| {
            Refusal::because(&format!("save what is in {}", path.display()), error)
        };
        let tip = self.repo.branch_head(&mark.branch).map_err(|error| because(&error))?;
        let known = |commit: &CommitId| self.repo.commit(*commit).is_ok();
        let head = worktree.as_ref().and_then(|worktree| self.repo.checked_out(worktree)).filter(known);
        // Of a branch that is gone the newest commit is known, from the worktree or else from the record.
        let noted = self.newest_noted(context).unwrap_or_else(|| context.base());
        let noted =
            worktree.as_ref().map_or(noted, |worktree| self.repo.committed_within(&worktree.git_dir, noted));
        let head = head.or(tip).unwrap_or(noted);
        let label = mark.attempt.to_string();
        let situation =
            Situation { branch: &mark.branch, label: &label, base: head, kept: Some(kept), also: tip };
        let tree = self.repo.commit(head).map_err(|error| because(&error))?.tree;
        let mut keep =
            settled_workers(path).first().map(|pid| format!("{} worked in it", process_words(*pid)));
        let seen = held.seen.as_ref().filter(|seen| {
            let same =
                |place: &Worktree, noted: &Noted| self.repo.is_as_noted(place, noted, &seen.ignored.files);
            worktree.as_ref().zip(seen.inside.noted.as_ref()).is_some_and(|(place, noted)| same(place, noted))
        });
        let known = seen.map(|Seen { inside, .. }| [inside.files, inside.whole, inside.index]);
        let whole = self.whole_of(held, worktree.as_ref(), path, (situation, known));
        let mut kept = None;
        let (saved, inside) = match whole {
            Ok(whole) => whole,
            Err(why) => {
                let is_there = !why.is_empty() && path.symlink_metadata().is_ok();
                keep = (!why.is_empty()).then_some(why).or(keep);
                let there = worktree.as_ref().filter(|_| is_there);
                if let Some(rest) = there.and_then(|one| self.repo.rescue_rest(one, situation).ok()) {
                    rest
                } else {
                    kept = is_there.then(|| path.to_owned());
                    let saved = self.repo.rescue_commits(situation).map_err(|error| because(&error))?;
                    (saved, Inside { files: tree, whole: tree, index: tree, noted: None })
                }
            }
        };
        let (ignored, used) = match (seen, &worktree) {
            (Some(seen), _) => (seen.ignored.clone(), seen.used),
            (None, Some(worktree)) if worktree.path.is_dir() => {
                let ignored = self.repo.ignored(worktree).unwrap_or_default();
                let used = ignored.used(&worktree.path);
                (ignored, used)
            }
            (None, _) => Default::default(),
        };
        let registration =
            worktree.as_ref().and_then(|worktree| Some(worktree.git_dir.file_name()?.to_str()?.to_owned()));
        let restore = Restore {
            branch: tip.unwrap_or(head).to_string(),
            files: inside.whole.to_string(),
            index: inside.index.to_string(),
            rescue: saved.map(|Saved { reference, .. }| reference.to_string()),
            kept,
        };
        let seen = Seen { inside, ignored, used };
        Ok(Before { restore, tip, head, registration, keep, carries: false, seen })
    }

    /// Saves the whole of a worktree. An index that git cannot read is put aside. An error says why it could not be saved; it
    /// is empty if there is no worktree.
    fn whole_of(
        &self,
        held: &Held,
        worktree: Option<&Worktree>,
        path: &Path,
        (situation, known): (Situation<'_>, Option<[CommitId; 3]>),
    ) -> Result<(Option<Saved>, Inside), String> {
        let Some(worktree) = worktree else {
            let is_there = path.symlink_metadata().is_ok();
            return Err(if is_there { "git does not list it as a worktree" } else { "" }.to_owned());
        };
        let saved = || self.repo.rescue_whole(worktree, situation, known);
        let aside = |error| match self.repo.set_damaged_index_aside(worktree) {
            Ok(Some(aside)) => {
                (self.options.tell)(&format!("{}: {}", held.context.handle(), damaged_index(&aside)));
                saved()
            }
            Ok(None) | Err(_) => Err(error),
        };
        saved().or_else(aside).map_err(|error| error_chain(&error))
    }

    /// Saves what is in a renamed worktree, and says why it must stay.
    pub(super) fn save_renamed(&self, held: &Held, renamed: &Path, to: CommitId) -> Result<Before, Refusal> {
        let because = |error: &dyn std::error::Error| {
            Refusal::because(&format!("save what is in {}", renamed.display()), error)
        };
        let worktree =
            self.repo.hold_workspace(renamed, &held.context.mark()).map_err(|error| because(&error))?;
        // Only a rollback and a removal may take ignored files away, and a rollback only where it is not set otherwise.
        let is_rollback = held.context.pending.as_ref().is_some_and(|pending| pending.undo.is_some());
        let takes = worktree.as_ref().filter(|_| is_rollback || held.context.state == State::Removing);
        let beyond = takes.map_or(Ok(0), |worktree| self.repo.ignored_beyond(worktree, to));
        let carries = !is_rollback || self.options.keeps_ignored;
        let mut saved = self.save_in(held, renamed, worktree, to)?;
        let ignored = saved.seen.used;
        let beyond = match beyond {
            Ok(0) => None,
            Ok(count) => Some(format!(
                "it has {} that no .gitignore of {} names, and no commit holds",
                match ignored.repositories {
                    0 => pluralize(count, "ignored file"),
                    repositories if count == ignored.files + repositories => ignored.words(),
                    _ => format!("{count} of {}", ignored.words()),
                },
                to.short()
            )),
            Err(error) => Some(format!("its ignored files could not be judged: {}", error_chain(&error))),
        };
        saved.keep = saved.keep.or(beyond);
        if held.context.state == State::Ready && carries && saved.keep.is_none() {
            let keys = if is_rollback {
                0
            } else {
                let rescue = saved.restore.rescue.as_deref();
                self.saved_keys(renamed, to, rescue).map_err(|error| because(&error))?.len()
            };
            saved.keep = match (ignored.is_empty(), keys) {
                (true, 0) => None,
                (true, _) => Some(format!("it has {}", pluralize(keys, "file that looks like a key"))),
                (false, _) => Some(format!("it has {}, which no commit holds", ignored.words())),
            };
            saved.carries = !is_rollback;
        }
        Ok(saved)
    }
}
