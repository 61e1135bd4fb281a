//! Saves the contents of a worktree before it is removed.
//!
//! Invariant: after [`Repo::rescue`] returns `Ok`, everything in the worktree that git does not
//! ignore, everything staged, and every commit made there is reachable from the branch or from a
//! ref below `refs/aynig/rescue/`. Contents that our objects cannot hold (another repository inside
//! the worktree) are an error, and the caller keeps the directory (CONTRACT 9.5, 9.7). The
//! worktree's own index is not touched.

use std::collections::BTreeSet;
use std::path::PathBuf;

use bstr::{BString, ByteSlice};

use crate::contract::ids::{BranchName, CommitId};
use crate::contract::layout::rescue_ref;
use crate::fsutil::{Mounted, no_mounts_in};
use crate::git::contents::in_progress::InProgress;
use crate::git::contents::snapshot::Inside;
use crate::git::objects::commits::{CommitError, NewCommit, Stored};
use crate::git::process::call::ProcessError;
use crate::git::refs::cas::{RefError, Swap};
use crate::git::repo::open::Repo;
use crate::git::worktrees::held::Worktree;
use crate::git::worktrees::presence::Displaced;
use crate::git::worktrees::registration::Checkout;

/// The beginning of the message of a commit that holds what was staged.
const STAGED: &str = "rescue: what was staged on ";

/// The result of a rescue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Rescue {
    /// The branch already has everything.
    Nothing,
    /// The work is saved under this ref.
    Saved(Saved),
}

/// The ref of rescued work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Saved {
    /// The full ref name.
    pub reference: BString,
    pub(crate) commit: CommitId,
}

/// Why the work could not be saved; the worktree must stay.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RescueError {
    /// Git could not take the snapshot.
    #[error("could not take a snapshot of {}", path.display())]
    Snapshot {
        path: PathBuf,
        #[source]
        source: ProcessError,
    },
    /// The worktree contains other repositories, whose contents a commit of ours cannot hold.
    #[error("it holds other repositories ({what}), which a commit cannot save")]
    OtherRepositories {
        /// Their paths, those of submodules with the reason.
        what: String,
    },
    /// The worktree contains what git passes over.
    #[error("it has contents that git does not show ({what}), and a commit cannot save them")]
    Hidden {
        /// The contents, in words.
        what: String,
    },
    /// The worktree is not where it was made.
    #[error(transparent)]
    Displaced(#[from] Displaced),
    /// A file system is mounted in the worktree. Its files belong to others, and could be endless.
    #[error(transparent)]
    Mounted(#[from] Mounted),
    /// The commit could not be written or read.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// The ref could not be written.
    #[error(transparent)]
    Ref(#[from] RefError),
    /// Git refused.
    #[error(transparent)]
    Git(#[from] ProcessError),
}

/// The facts that a rescue needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Situation<'a> {
    /// The branch the work was for.
    pub(crate) branch: &'a BranchName,
    /// The last path segment of the ref: the attempt, or the lease commit if the lease has no
    /// usable run id.
    pub(crate) label: &'a str,
    /// The commit the worktree's files and index are based on.
    pub(crate) base: CommitId,
    /// The branch's HEAD, if the branch exists: everything reachable from it is safe.
    pub(crate) kept: Option<CommitId>,
    /// The branch's HEAD, if the branch is about to lose it.
    pub(crate) also: Option<CommitId>,
}

impl Repo {
    /// Saves everything in `worktree` that is not reachable from `situation.kept`.
    pub(crate) fn rescue(
        &self,
        worktree: &Worktree,
        situation: Situation<'_>,
    ) -> Result<Rescue, RescueError> {
        let (saved, _) = self.rescue_whole(worktree, situation, None)?;
        Ok(saved.map_or(Rescue::Nothing, Rescue::Saved))
    }

    /// Saves like [`Repo::rescue`]. Also returns what is in the worktree, which may be `known`.
    pub(crate) fn rescue_whole(
        &self,
        worktree: &Worktree,
        situation: Situation<'_>,
        known: Option<[CommitId; 3]>,
    ) -> Result<(Option<Saved>, Inside), RescueError> {
        let base = self.commit(situation.base)?;
        let inside = if let Some([files, whole, index]) = known {
            Inside { files, whole, index, noted: None }
        } else if !self.is_here(&worktree.path, &worktree.git_dir)?
            && !worktree.git_dir.join("index").exists()
        {
            // Files and index were removed by hand. Commits made there still exist as objects and
            // are saved.
            Inside { files: base.tree, whole: base.tree, index: base.tree, noted: None }
        } else {
            let inside = self.look_inside(worktree, &base)?;
            self.check_shown(worktree)?;
            inside
        };
        self.rescue_inside(worktree, situation, &base, inside)
    }

    /// Saves what a commit can hold of a worktree that also has what no commit can: other repositories, and what git does
    /// not show. The worktree must stay.
    pub(crate) fn rescue_rest(
        &self,
        worktree: &Worktree,
        situation: Situation<'_>,
    ) -> Result<(Option<Saved>, Inside), RescueError> {
        let base = self.commit(situation.base)?;
        let (inside, _) = self.look_at(worktree, &base)?;
        self.rescue_inside(worktree, situation, &base, inside)
    }

    /// Saves what is in a worktree whose files are based on `base`.
    fn rescue_inside(
        &self,
        worktree: &Worktree,
        situation: Situation<'_>,
        base: &Stored,
        inside: Inside,
    ) -> Result<(Option<Saved>, Inside), RescueError> {
        let failed = |source| RescueError::Snapshot { path: worktree.path.clone(), source };
        let (snapshot, staged) = (inside.files, inside.index);
        let mut in_progress = self.commits_in_progress(worktree).map_err(failed)?;
        let is_safe = |commit| {
            self.descends(situation.base, commit)
                || situation.kept.is_some_and(|kept| self.descends(kept, commit))
        };
        if let Some(commit) = situation.also.filter(|also| !is_safe(*also)) {
            in_progress.push(InProgress { commit, what: "the newest commit of the branch".to_owned() });
        }
        let kept_tree = match situation.kept {
            Some(kept) if self.descends(kept, situation.base) => self.commit(kept)?.tree,
            Some(_) | None => base.tree,
        };
        let same = |tree: CommitId| tree == base.tree || tree == kept_tree;
        if same(snapshot) && inside.whole == snapshot && same(staged) && in_progress.is_empty() {
            let saved = match self.keep_commits(situation)? {
                Rescue::Nothing => None,
                Rescue::Saved(saved) => Some(saved),
            };
            return Ok((saved, inside));
        }
        let mut parents = vec![situation.base];
        if staged != snapshot && !same(staged) {
            let message = format!("{STAGED}{}\n", situation.branch);
            let new = NewCommit {
                tree: staged,
                parents: &[situation.base],
                message: message.as_bytes(),
                attempt: None,
            };
            parents.push(self.write_commit(&new)?);
        }
        let mut message = format!(
            "rescue: unfinished work on {}\n\nWhat was in its worktree ({}), saved before the worktree was removed.\n",
            situation.branch, situation.label
        );
        if inside.whole != snapshot {
            // Not in its own tree: what a person takes from there goes into a commit, as git would not make it.
            let message = format!("rescue: what a filter leaves out of the files of {}\n", situation.branch);
            let (tree, parents, message) = (inside.whole, &[situation.base], message.as_bytes());
            let commit = self.write_commit(&NewCommit { tree, parents, message, attempt: None })?;
            in_progress
                .push(InProgress { commit, what: "the files with what a filter leaves out".to_owned() });
        }
        if !in_progress.is_empty() {
            message.push_str("\nAmong its parents:\n");
        }
        for InProgress { commit, what } in in_progress {
            message.push_str(&format!("- {}: {what}\n", commit.short()));
            parents.push(commit);
        }
        let commit = self.write_commit(&NewCommit {
            tree: snapshot,
            parents: &parents,
            message: message.as_bytes(),
            attempt: None,
        })?;
        Ok((Some(self.point_rescue_at(situation, commit)?), inside))
    }

    /// Saves the commits of a situation alone, each by a ref of its own.
    pub(crate) fn rescue_commits(&self, situation: Situation<'_>) -> Result<Option<Saved>, RescueError> {
        let mut saved: Option<Saved> = None;
        for commit in [Some(situation.base), situation.also].into_iter().flatten() {
            let has = |place: CommitId| self.descends(place, commit);
            if !situation.kept.is_some_and(has) && !saved.as_ref().is_some_and(|saved| has(saved.commit)) {
                saved = Some(self.point_rescue_at(situation, commit)?);
            }
        }
        Ok(saved)
    }

    /// The trees of a worktree's files and of its index; an error if a commit could not hold
    /// everything in it that git shows.
    pub(crate) fn look_inside(&self, worktree: &Worktree, base: &Stored) -> Result<Inside, RescueError> {
        let (inside, foreign) = self.look_at(worktree, base)?;
        if foreign.is_empty() {
            return Ok(inside);
        }
        Err(RescueError::OtherRepositories { what: foreign.join(", ") })
    }

    /// The trees of a worktree, and the other repositories in it that a commit cannot hold.
    fn look_at(&self, worktree: &Worktree, base: &Stored) -> Result<(Inside, Vec<String>), RescueError> {
        let path = &worktree.path;
        self.is_here(path, &worktree.git_dir)?;
        no_mounts_in(path)?;
        let snapshot_failed = |source| RescueError::Snapshot { path: path.clone(), source };
        if worktree.is_another_repository() {
            let what = "one was made at its top".to_owned();
            return Err(RescueError::OtherRepositories { what });
        }
        let unread = self.programmed_submodules(worktree).map_err(snapshot_failed)?;
        if !unread.is_empty() {
            return Err(RescueError::OtherRepositories { what: unread.join(", ") });
        }
        if let Some(tree) = self.untouched_tree(worktree) {
            let whole = self.with_filtered(worktree, tree)?;
            return Ok((Inside { files: tree, whole, index: tree, noted: None }, Vec::new()));
        }
        let mut inside = self.snapshot_trees(worktree, base.tree).map_err(snapshot_failed)?;
        let mut foreign = self.foreign_repositories(base.tree, inside.files)?;
        if !foreign.is_empty() {
            // Of a submodule, the commit has to be elsewhere, like all else in it.
            let submodules = self.declared_submodules(worktree, base).map_err(snapshot_failed)?;
            foreign.retain(|path| !submodules.contains(path));
        }
        let foreign = foreign.iter().map(|path| path.display().to_string());
        let unsaved = self.unsaved_submodules(worktree).map_err(snapshot_failed)?;
        let foreign: BTreeSet<String> = foreign.chain(unsaved).collect();
        inside.whole = self.with_filtered(worktree, inside.files)?;
        Ok((inside, foreign.into_iter().collect()))
    }

    /// An error if git passes over something in a worktree, which goes with it.
    pub(crate) fn check_shown(&self, worktree: &Worktree) -> Result<(), RescueError> {
        let failed = |source| RescueError::Snapshot { path: worktree.path.clone(), source };
        let hidden = self.hidden_contents(worktree).map_err(failed)?;
        if hidden.is_empty() {
            return Ok(());
        }
        Err(RescueError::Hidden { what: hidden.join(", ") })
    }

    /// Saves the tree of the index of a user's checkout, which stays where it is.
    pub(crate) fn rescue_index(
        &self,
        checkout: &Checkout,
        situation: Situation<'_>,
    ) -> Result<Rescue, RescueError> {
        let base = self.commit(situation.base)?;
        let snapshot_failed = |source| RescueError::Snapshot { path: checkout.path.clone(), source };
        let staged = self.index_tree(checkout).map_err(snapshot_failed)?;
        if staged == base.tree {
            return self.keep_commits(situation);
        }
        self.rescue_staged(situation, staged).map(Rescue::Saved)
    }

    /// Saves the tree of an index, on top of the base.
    pub(crate) fn rescue_staged(
        &self,
        situation: Situation<'_>,
        staged: CommitId,
    ) -> Result<Saved, RescueError> {
        let message = format!("rescue: the index of {} ({})\n", situation.branch, situation.label);
        let new = NewCommit {
            tree: staged,
            parents: &[situation.base],
            message: message.as_bytes(),
            attempt: None,
        };
        let commit = self.write_commit(&new)?;
        self.point_rescue_at(situation, commit)
    }

    /// Saves the commits that only the reflog of a branch names, before it is removed with the
    /// branch. `tip` is the branch's newest commit.
    pub(crate) fn rescue_dropped(
        &self,
        branch: &BranchName,
        label: &str,
        tip: CommitId,
    ) -> Result<Option<Saved>, RescueError> {
        let dropped = self.dropped_commits(branch, tip)?;
        if dropped.is_empty() {
            return Ok(None);
        }
        let mut message = format!(
            "rescue: commits that were taken off {branch}\n\nOnly the reflog of the branch named them. Its newest commit and they are the parents:\n"
        );
        let parents: Vec<CommitId> = std::iter::once(tip).chain(dropped).collect();
        for commit in &parents {
            message.push_str(&format!("- {commit}\n"));
        }
        let tree = self.commit(tip)?.tree;
        let new = NewCommit { tree, parents: &parents, message: message.as_bytes(), attempt: None };
        let commit = self.write_commit(&new)?;
        let situation = Situation { branch, label, base: tip, kept: Some(tip), also: None };
        self.point_rescue_at(situation, commit).map(Some)
    }

    /// Saves commits that the branch does not have, by a ref alone.
    fn keep_commits(&self, situation: Situation<'_>) -> Result<Rescue, RescueError> {
        match situation.kept {
            Some(kept) if self.descends(kept, situation.base) => Ok(Rescue::Nothing),
            Some(_) | None => self.point_rescue_at(situation, situation.base).map(Rescue::Saved),
        }
    }

    /// Creates the rescue ref; a name that is taken by other work gets a number.
    fn point_rescue_at(&self, situation: Situation<'_>, commit: CommitId) -> Result<Saved, RescueError> {
        let name = rescue_ref(situation.branch, situation.label);
        crate::crashpoint::reach(crate::crashpoint::Point::RescueWritten);
        let mut number = 1;
        loop {
            let mut reference = name.clone();
            if number > 1 {
                reference.extend_from_slice(format!("-{number}").as_bytes());
            }
            match self.swap(reference.as_bstr(), None, commit, "aynig: rescue")? {
                Swap::Won => {
                    crate::crashpoint::reach(crate::crashpoint::Point::RescuePointed);
                    return Ok(Saved { reference, commit });
                }
                Swap::Lost { actual: Some(there) } if self.same_work(there, commit, situation.kept) => {
                    return Ok(Saved { reference, commit: there });
                }
                Swap::Lost { .. } => number += 1,
            }
        }
    }

    /// Whether `there` already saves the same work as `new`. Their base commits may differ if the
    /// branch has the newer one: it moved between two snapshots of the same files.
    fn same_work(&self, there: CommitId, new: CommitId, kept: Option<CommitId>) -> bool {
        if there == new {
            return true;
        }
        let (Ok(old), Ok(new)) = (self.commit(there), self.commit(new)) else { return false };
        // What was staged is committed anew by each rescue. Other parents are commits made in the
        // worktree: one with the same tree may have another history.
        let staged = |commit: &Stored, parent: CommitId| {
            let found = self.commit(parent).ok()?;
            let is_ours = found.message.starts_with(STAGED.as_bytes())
                && found.parents.len() == 1
                && found.parents.first() == commit.parents.first();
            is_ours.then_some(found.tree)
        };
        let rest = |commit: &Stored| commit.parents.iter().skip(1).copied().collect::<Vec<_>>();
        let (its, own) = (rest(&old), rest(&new));
        let same_parents = its.len() == own.len()
            && its.iter().zip(&own).all(|(its, own)| {
                its == own || staged(&new, *own).is_some_and(|tree| staged(&old, *its) == Some(tree))
            });
        let base_is_safe = new.parents.first().is_none_or(|base| {
            self.descends(there, *base) || kept.is_some_and(|kept| self.descends(kept, *base))
        });
        old.tree == new.tree && same_parents && base_is_safe
    }
}
