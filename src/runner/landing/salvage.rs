//! The one way a worktree of ours ends (CONTRACT.md §9): saved, then pooled or removed, or left where it is.
//!
//! Why this order. A process inside could write after the snapshot, so such a worktree stays. Everything in it that the
//! branch does not have is under a ref before the first file goes; what cannot be saved is handed to a person, marked
//! with the reason, and nothing of it is removed. The mark of the attempt goes last, with the registration: until then
//! a later runner finds what is left of it and begins here again.

use std::path::Path;

use crate::contract::ids::CommitId;
use crate::git::Repo;
use crate::git::contents::rescue::{Rescue, Saved, Situation};
use crate::git::worktrees::error::WorktreeError;
use crate::git::worktrees::held::{Spare, Worktree};
use crate::supervise::{is_unused, settled_occupants};

use crate::runner::error_chain;

/// Where other processes have more files open than this, to look at all takes longer than to fill a small worktree.
const MOST_OPEN: usize = 1_000;

/// What is known of a worktree that is to end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Disposal {
    /// What has still to be saved.
    pub(crate) work: Work,
    /// A commit that stays, for the HEAD of a worktree that does.
    pub(crate) head: CommitId,
    /// Whether the files may serve a next step.
    pub(crate) pool: bool,
    /// Whether its branch is set free where somebody still works in it.
    pub(crate) frees_branch: bool,
}

/// What of a worktree has still to be saved.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Work {
    /// Nothing: that was done before.
    Saved,
    /// What differs from this commit, which HEAD is at. Mostly that is nothing, and told without a snapshot.
    OnHead(CommitId),
    /// What is not in `kept`.
    On {
        /// The commit the files are based on.
        base: CommitId,
        /// What the branch points at, if it exists.
        kept: Option<CommitId>,
    },
}

/// What became of it.
#[must_use]
#[derive(Debug)]
pub(crate) enum Fate {
    /// It is gone, or in the pool.
    Gone {
        /// Where its work is, if there was any.
        saved: Option<Saved>,
    },
    /// It stays: these processes work in it. A later pass looks again.
    InUse {
        /// The processes.
        pids: Vec<i32>,
    },
    /// It stays for a person: what it holds could not be saved.
    Kept {
        /// Why not.
        why: String,
    },
    /// Its work is saved, but it could not be removed.
    Stuck {
        /// Where its work is, if there was any.
        saved: Option<Saved>,
        /// Why not.
        why: String,
    },
}

/// Ends a worktree.
pub(crate) fn dispose(repo: &Repo, worktree: Worktree, disposal: Disposal) -> Fate {
    let worktree = match hand_on(repo, worktree, disposal) {
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
    let saved = match work {
        Work::Saved => Ok(None),
        Work::OnHead(_) if repo.is_clean(&worktree).unwrap_or(false) => Ok(None),
        Work::OnHead(head) => save(repo, &worktree, head, Some(head)),
        Work::On { base, kept } => save(repo, &worktree, base, kept),
    };
    let saved = match saved {
        Ok(saved) => saved,
        Err(why) => {
            keep(repo, worktree, head, &why);
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

/// Hands a worktree to which nothing was done to the next step of the run, as there is nothing in it to be saved; gives back any
/// other.
fn hand_on(repo: &Repo, worktree: Worktree, disposal: Disposal) -> Result<Option<Worktree>, WorktreeError> {
    let at = match disposal.work {
        Work::OnHead(head) => head,
        Work::Saved => disposal.head,
        Work::On { .. } => return Ok(Some(worktree)),
    };
    if !disposal.pool || !repo.may_be_spare(&worktree) {
        return Ok(Some(worktree));
    }
    // What a process there does would come after the look at the files.
    let most = if worktree.is_large() { usize::MAX } else { MOST_OPEN };
    match is_unused(&worktree.path, most) {
        Some(true) => repo.hand_on(worktree, at),
        Some(false) => Ok(Some(worktree)),
        None => {
            repo.end_handing_on();
            Ok(Some(worktree))
        }
    }
}

/// Whether nobody uses what is at `path`, however long it takes to find out.
fn is_deserted(path: &Path) -> bool {
    is_unused(path, usize::MAX) == Some(true)
}

/// Lets worktrees go from step to step until this is dropped.
#[derive(Debug)]
#[must_use = "dropping it ends that"]
pub(crate) struct HandingOn<'a> {
    repo: &'a Repo,
}

impl<'a> HandingOn<'a> {
    /// Begins it. What a runner that died had in its hands is removed from `directory`, where worktrees are made.
    pub(crate) fn begin(repo: &'a Repo, directory: &Path) -> Self {
        if let Err(error) = repo.clear_dead_spares(directory) {
            tracing::warn!(%error, "worktrees of earlier runners were not removed");
        }
        repo.begin_spares();
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

/// Saves what a worktree holds, on top of `base`, that `kept` does not have.
pub(crate) fn save(
    repo: &Repo,
    worktree: &Worktree,
    base: CommitId,
    kept: Option<CommitId>,
) -> Result<Option<Saved>, String> {
    let label = worktree.mark.attempt.to_string();
    let situation = Situation { branch: &worktree.mark.branch, label: &label, base, kept };
    match repo.rescue(worktree, situation) {
        Ok(Rescue::Nothing) => Ok(None),
        Ok(Rescue::Saved(saved)) => Ok(Some(saved)),
        Err(error) => Err(error_chain(&error)),
    }
}

/// Hands a worktree over to a person.
pub(crate) fn keep(repo: &Repo, worktree: Worktree, head: CommitId, why: &str) {
    if let Err(error) = repo.keep_worktree(worktree, head, why) {
        tracing::warn!(%error, "a worktree that is to be kept could not be marked as such");
    }
}
