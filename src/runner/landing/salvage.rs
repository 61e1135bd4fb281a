//! The one disposal of a worktree: saved, then pooled or removed, or left in place (CONTRACT 9.5 to 9.8,
//! 9.15).
//!
//! Why this order: a process inside could write after the snapshot, so such a worktree stays. All work that
//! the branch does not have is under a ref before the first file is removed. A worktree whose work cannot be
//! saved is marked with the reason and left to the user, and nothing in it is removed. The mark of the
//! attempt goes last, with the registration; until then a later runner finds the worktree and starts the
//! disposal again.

use std::path::Path;

use crate::contract::ids::CommitId;
use crate::fsutil::no_mounts_in;
use crate::git::Repo;
use crate::git::contents::rescue::{Rescue, Saved, Situation};
use crate::git::worktrees::error::WorktreeError;
use crate::git::worktrees::held::{Spare, Worktree};
use crate::supervise::{is_unused, note_processes, settled_occupants};

use crate::runner::error_chain;

/// The most open files of other processes that are checked for a worktree without files. Checking more takes
/// longer than filling a new one.
const MOST_OPEN: usize = 300;

/// The number of open files that may be checked besides, for each file of the worktree.
const FOR_EACH_FILE: usize = 20;

/// The parameters of a disposal.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Disposal {
    pub(crate) work: Work,
    /// The commit to detach HEAD at, if the worktree stays. It must stay reachable.
    pub(crate) head: CommitId,
    /// Whether the worktree may be kept for a later step (CONTRACT 9.15).
    pub(crate) pool: bool,
    /// Whether it is detached from its branch if a process still works in it.
    pub(crate) frees_branch: bool,
}

/// The work in a worktree that has still to be saved.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Work {
    /// None: all was saved before.
    Saved,
    /// Differences from this commit, which is HEAD. Mostly there are none, which is found without a snapshot.
    OnHead(CommitId),
    /// Work that `kept` does not have.
    On {
        /// The commit that the files are based on.
        base: CommitId,
        /// The branch's HEAD, if the branch exists.
        kept: Option<CommitId>,
    },
}

/// The outcome of a disposal.
#[must_use]
#[derive(Debug)]
pub(crate) enum Fate {
    /// It was removed, pooled, or handed on to the next step.
    Gone { saved: Option<Saved> },
    /// It stays, since these processes work in it. A later pass tries again.
    InUse { pids: Vec<i32> },
    /// It stays for the user, since its contents could not be saved.
    Kept { why: String },
    /// Its work is saved, but it could not be removed.
    Stuck { saved: Option<Saved>, why: String },
}

/// Disposes of a worktree.
pub(crate) fn dispose(repo: &Repo, worktree: Worktree, disposal: Disposal) -> Fate {
    let mounted = no_mounts_in(&worktree.path).err();
    let handed = if mounted.is_some() { Ok(Some(worktree)) } else { hand_on(repo, worktree, disposal) };
    let worktree = match handed {
        Ok(None) => return Fate::Gone { saved: None },
        Ok(Some(worktree)) => worktree,
        Err(error) => return Fate::Stuck { saved: None, why: error_chain(&error) },
    };
    let Disposal { work, head, pool, frees_branch } = disposal;
    let pids = settled_occupants(&worktree.path);
    if !pids.is_empty() {
        if frees_branch
            && worktree.attached
            && let Err(error) = worktree.detach(head)
        {
            tracing::warn!(%error, repo = %repo.top().display(), "a worktree could not be detached from its branch");
        }
        return Fate::InUse { pids };
    }
    let saved = match (mounted, work) {
        (Some(mounted), _) => Err(mounted.to_string()),
        (None, Work::Saved) => Ok(None),
        (None, Work::OnHead(_)) if repo.is_clean(&worktree).unwrap_or(false) => Ok(None),
        (None, Work::OnHead(head)) => save(repo, &worktree, head, Some(head)),
        (None, Work::On { base, kept }) => save(repo, &worktree, base, kept),
    };
    let saved = match saved {
        Ok(saved) => saved,
        Err(why) => {
            let at = if let Work::OnHead(at) = work { at } else { head };
            keep(repo, worktree, at, &why);
            return Fate::Kept { why };
        }
    };
    let gone = if pool {
        repo.release_worktree(worktree, head, is_deserted)
    } else {
        repo.remove_worktree(worktree)
    };
    match gone {
        Ok(()) => Fate::Gone { saved },
        Err(error) => Fate::Stuck { saved, why: error_chain(&error) },
    }
}

/// Hands an unchanged worktree on to the next step of the run, since there is nothing in it to save. Returns
/// any other worktree.
fn hand_on(repo: &Repo, worktree: Worktree, disposal: Disposal) -> Result<Option<Worktree>, WorktreeError> {
    let at = match disposal.work {
        Work::OnHead(head) => head,
        Work::Saved => disposal.head,
        Work::On { .. } => return Ok(Some(worktree)),
    };
    if !disposal.pool || !repo.may_be_spare(&worktree) {
        return Ok(Some(worktree));
    }
    // A process in it could write after the check of the files.
    let most = worktree.files().saturating_mul(FOR_EACH_FILE).saturating_add(MOST_OPEN);
    match is_unused(&[&worktree.path, &worktree.git_dir], worktree.since, most) {
        Some(true) => repo.hand_on(worktree, at),
        Some(false) => Ok(Some(worktree)),
        None => {
            tracing::debug!(
                most,
                "worktrees are not handed on: there are too many open files of other processes"
            );
            repo.end_handing_on();
            Ok(Some(worktree))
        }
    }
}

/// Whether no process uses the worktree or its registration, however long the check takes.
fn is_deserted(worktree: &Worktree) -> bool {
    is_unused(&[&worktree.path, &worktree.git_dir], worktree.since, usize::MAX) == Some(true)
}

/// Hands worktrees on from step to step until dropped.
#[derive(Debug)]
#[must_use = "dropping it ends that"]
pub(crate) struct HandingOn<'a> {
    repo: &'a Repo,
}

impl<'a> HandingOn<'a> {
    /// Starts handing on; `likely` steps come after the pass. Removes worktrees that dead runners were handing
    /// on from `directory`, the directory of worktrees.
    pub(crate) fn begin(repo: &'a Repo, directory: &Path, likely: usize) -> Self {
        if let Err(error) = repo.clear_dead_spares(directory) {
            tracing::warn!(%error, "worktrees of earlier runners were not removed");
        }
        repo.begin_spares(likely);
        note_processes();
        Self { repo }
    }
}

impl Drop for HandingOn<'_> {
    fn drop(&mut self) {
        for Spare { worktree, at, .. } in self.repo.end_spares() {
            if let Err(error) = self.repo.release_worktree(worktree, at, is_deserted) {
                tracing::warn!(%error, "a worktree that was handed on was left behind");
            }
        }
    }
}

/// Saves the work in a worktree that `kept` does not have, as a commit on top of `base`.
pub(crate) fn save(
    repo: &Repo,
    worktree: &Worktree,
    base: CommitId,
    kept: Option<CommitId>,
) -> Result<Option<Saved>, String> {
    let label = worktree.mark.attempt.to_string();
    let situation = Situation { branch: &worktree.mark.branch, label: &label, base, kept, also: None };
    match repo.rescue(worktree, situation) {
        Ok(Rescue::Nothing) => Ok(None),
        Ok(Rescue::Saved(saved)) => Ok(Some(saved)),
        Err(error) => Err(error_chain(&error)),
    }
}

/// Keeps a worktree for the user, detached at `head` and marked with the reason (CONTRACT 9.7).
pub(crate) fn keep(repo: &Repo, worktree: Worktree, head: CommitId, why: &str) {
    if let Err(error) = repo.keep_worktree(worktree, head, why) {
        tracing::warn!(%error, "a worktree that is to be kept could not be marked as such");
    }
}
