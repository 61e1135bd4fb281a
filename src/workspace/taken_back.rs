//! Takes back what a step changed that must leave a worktree as it is: validators, and planners that judge
//! (CONTRACT 15.23).
//!
//! What such a step left is compared by trees, so that it can be kept as a patch before it goes. Where trees cannot tell
//! (another repository in it, HEAD moved, a merge begun) the worktree is made anew, which saves everything first.

use std::path::PathBuf;

use crate::contract::ids::{BranchName, CommitId};
use crate::git::objects::differences::{Difference, LINK, SUBMODULE};
use crate::git::worktrees::held::Worktree;
use crate::words::error_chain;

use super::Workspaces;
use super::change::Aim;
use super::context::{Context, Restore};
use super::refusal::{Refusal, Why};
use super::store::Held;

/// How often files are put back: a file that git ignored may come to light when that is taken back.
const ROUNDS: u32 = 3;

/// What is in a worktree before a step.
#[derive(Debug, Clone)]
pub struct Before {
    /// The tree of its files.
    pub files: CommitId,
    index: CommitId,
    /// The commit of the branch. Others may move that.
    tip: Option<CommitId>,
    stand: Stand,
}

/// Where the worktree is in the history.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stand {
    branch: Option<BranchName>,
    /// The commit that HEAD was moved to last. Commits that others put on the branch do not change it.
    logged: Option<CommitId>,
    is_unfinished: bool,
    /// Contents that git does not show, in words.
    hidden: Vec<String>,
}

/// What a step left in a worktree.
#[derive(Debug)]
pub enum Left {
    /// Nothing: it is as it was.
    Nothing,
    /// These files are other ones.
    Files {
        /// The tree of the files now.
        tree: CommitId,
        /// The files that differ, by path.
        changes: Vec<Difference>,
    },
    /// More than files, in words.
    More(String),
}

/// A worktree that was put back.
#[derive(Debug)]
pub struct TakenBack {
    /// The context now.
    pub context: Context,
    /// The ref that has what was there, if the worktree was made anew.
    pub rescue: Option<String>,
    /// The old directory, if it stays, and why.
    pub kept: Option<(PathBuf, String)>,
}

impl Workspaces<'_> {
    /// Notes what is in a worktree.
    pub fn note(&self, context: &Context) -> Result<Before, Refusal> {
        let held = self.settled_here(context)?;
        let worktree = self.worktree_of(&held)?;
        self.inside_of(&held, &worktree).map_err(|why| unread(&held, &why))
    }

    /// What a step left that was not there before.
    pub fn left_since(&self, context: &Context, before: &Before) -> Result<Left, Refusal> {
        let held = self.settled_here(context)?;
        let worktree = match self.worktree_of(&held) {
            Ok(worktree) => worktree,
            Err(refusal) => return Ok(Left::More(refusal.message)),
        };
        let now = self.stand(&worktree);
        if now.hidden != before.stand.hidden {
            return Ok(Left::More(format!("git does not show what it left: {}", now.hidden.join(", "))));
        }
        if now != before.stand {
            return Ok(Left::More("HEAD was moved, or a merge or rebase was begun".to_owned()));
        }
        match self.inside_of(&held, &worktree) {
            Err(why) => Ok(Left::More(why)),
            Ok(now) if (now.files, now.index) == (before.files, before.index) => Ok(Left::Nothing),
            Ok(now) => {
                let changes = self.repo.differences(before.files, now.files);
                let changes = changes.map_err(|error| unread(&held, &error_chain(&error)))?;
                Ok(Left::Files { tree: now.files, changes })
            }
        }
    }

    /// The tree of the files before a step, with these changes of it.
    pub fn with_changes(&self, before: &Before, changes: &[&Difference]) -> Result<CommitId, Refusal> {
        let files: Vec<_> = changes
            .iter()
            .filter(|change| change.new.is_some_and(|(mode, _)| ![LINK, SUBMODULE].contains(&mode)))
            .map(|change| (change.path.as_slice(), change.new))
            .collect();
        if files.is_empty() {
            return Ok(before.files);
        }
        let made = self.repo.tree_with(before.files, &files);
        made.map_err(|error| Refusal::because("keep some of the files", &error))
    }

    /// Puts a worktree back to what was noted, with the files of the tree `to`.
    pub fn take_back(
        &self,
        context: &Context,
        before: &Before,
        left: &Left,
        to: CommitId,
    ) -> Result<TakenBack, Refusal> {
        let mut held = self.settled_here(context)?;
        if !matches!(left, Left::More(_)) && self.put_files_back(&held, before, to)? {
            return Ok(TakenBack { context: held.context.clone(), rescue: None, kept: None });
        }
        let tip = before.tip.unwrap_or_else(|| held.context.base());
        self.check_branch(&held.context)?;
        let saved = self.save(&held, tip)?;
        let restore = Restore {
            branch: tip.to_string(),
            files: to.to_string(),
            index: before.index.to_string(),
            rescue: None,
            kept: None,
        };
        let remade = self.remake(&mut held, saved, (tip, Some(&restore)), Aim::Mend)?;
        for words in &remade.warnings {
            (self.options.tell)(words);
        }
        Ok(TakenBack { context: remade.context, rescue: remade.rescue, kept: remade.kept })
    }

    /// Returns whether files and index are as they should be.
    fn put_files_back(&self, held: &Held, before: &Before, to: CommitId) -> Result<bool, Refusal> {
        let Ok(worktree) = self.worktree_of(held) else { return Ok(false) };
        let because = |error: &dyn std::error::Error| {
            Refusal::because(&format!("put {} back", worktree.path.display()), error)
        };
        for _ in 0..ROUNDS {
            let Ok(now) = self.inside_of(held, &worktree) else { return Ok(false) };
            if now.files == to && now.index == before.index {
                return Ok(self.stand(&worktree) == before.stand);
            }
            let taken = self.repo.take_back(&worktree, now.files, to, before.index);
            taken.map_err(|error| because(&error))?;
        }
        Ok(false)
    }

    /// Locks a workspace, after what was interrupted in it is finished. Nobody else is asked.
    fn settled_here(&self, context: &Context) -> Result<Held, Refusal> {
        let mut held = self.hold(context)?;
        for words in self.carry_on(&mut held)?.into_iter().flatten() {
            (self.options.tell)(&words);
        }
        self.settled(held)
    }

    fn worktree_of(&self, held: &Held) -> Result<Worktree, Refusal> {
        let path = &held.context.worktree_path;
        let found = self.repo.hold_workspace(path, &held.context.mark());
        let found =
            found.map_err(|error| Refusal::because(&format!("look into {}", path.display()), &error))?;
        let found = found.filter(|worktree| {
            path.symlink_metadata().is_ok_and(|found| found.is_dir())
                && worktree.names_its_registration()
                && worktree.git_dir.join("index.lock").symlink_metadata().is_err()
        });
        let what = "is no worktree any more, or a git that was killed there has left its index locked";
        found.ok_or_else(|| Refusal::new(Why::Failed, format!("{} {what}", path.display())))
    }

    fn stand(&self, worktree: &Worktree) -> Stand {
        Stand {
            branch: worktree.branch(),
            logged: self.repo.head_of_log(&worktree.git_dir),
            is_unfinished: self.repo.is_unfinished(&worktree.git_dir),
            hidden: self.repo.hidden_contents(worktree).unwrap_or_default(),
        }
    }

    fn inside_of(&self, held: &Held, worktree: &Worktree) -> Result<Before, String> {
        let head = self.repo.checked_out(worktree).unwrap_or_else(|| held.context.base());
        let stored = self.repo.commit(head).map_err(|error| error_chain(&error))?;
        let (stand, tip) =
            (self.stand(worktree), self.repo.branch_head(&held.context.branch()).ok().flatten());
        if self.repo.is_clean(worktree).unwrap_or(false) {
            return Ok(Before { files: stored.tree, index: stored.tree, tip, stand });
        }
        let inside = self.repo.look_inside(worktree, &stored).map_err(|error| error_chain(&error))?;
        Ok(Before { files: inside.whole, index: inside.index, tip, stand })
    }
}

fn unread(held: &Held, why: &str) -> Refusal {
    let path = held.context.worktree_path.display();
    Refusal::new(Why::Failed, format!("could not read what is in {path}: {why}"))
}
