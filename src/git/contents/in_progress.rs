//! Commits that only a worktree's private git directory refers to: those of an unfinished merge or
//! rebase (MERGE_HEAD, autostash, …), of the worktree's own refs, and those only its reflog names.
//! They would be lost with it.
//!
//! Invariants: only reads, and names no commit that a branch contains. What cannot be read is an error, since the caller
//! removes what names it. `rescue` saves the commits (CONTRACT 9.5).

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use bstr::ByteSlice;

use crate::contract::headlog::{self, Moved};
use crate::contract::ids::{BranchName, CommitId};
use crate::contract::layout::{ARCHIVE, BRANCHES, FETCHED, HEADS, RESCUES, TAGS, TRACKED};
use crate::git::process::call::ProcessError;
use crate::git::refs::reflog;
use crate::git::repo::open::Repo;
use crate::git::worktrees::held::Worktree;

/// Files that name such commits, with a description (gitrepository-layout(5), git-rebase(1),
/// git-merge(1)).
pub(super) const FILES: [(&str, &str); 8] = [
    ("MERGE_HEAD", "what was being merged"),
    ("CHERRY_PICK_HEAD", "what was being picked"),
    ("REVERT_HEAD", "what was being reverted"),
    ("MERGE_AUTOSTASH", "the changes that `git merge --autostash` had put aside"),
    ("rebase-merge/autostash", "the changes that `git rebase --autostash` had put aside"),
    ("rebase-apply/autostash", "the changes that `git rebase --autostash` had put aside"),
    ("rebase-merge/orig-head", "the commits that were being rebased"),
    ("rebase-apply/orig-head", "the commits that were being rebased"),
];

/// An operation that git has begun and that another call must conclude. A commit made without git
/// would drop its other parents (CONTRACT 6.13).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unconcluded {
    /// The file that marks it.
    file: &'static str,
    /// Its name, with an article.
    pub what: &'static str,
    /// The command that concludes it.
    pub conclude: &'static str,
    /// The command that aborts it.
    pub abort: &'static str,
}

const UNCONCLUDED: [Unconcluded; 3] = [
    Unconcluded { file: "MERGE_HEAD", what: "a merge", conclude: "git commit", abort: "git merge --abort" },
    Unconcluded {
        file: "CHERRY_PICK_HEAD",
        what: "a cherry-pick",
        conclude: "git cherry-pick --continue",
        abort: "git cherry-pick --abort",
    },
    Unconcluded {
        file: "REVERT_HEAD",
        what: "a revert",
        conclude: "git revert --continue",
        abort: "git revert --abort",
    },
];

/// A commit that only the private git directory refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InProgress {
    pub(crate) commit: CommitId,
    /// Its description, for users.
    pub(crate) what: String,
}

/// Refs that may name a commit, tags included: a commit that has a tag was hardly made in a
/// worktree.
const NAMED: [&str; 4] = [HEADS, TRACKED, FETCHED, TAGS];

impl Repo {
    /// The operation in progress in the checkout whose private git directory is `git_dir`.
    pub(crate) fn unconcluded(git_dir: &Path) -> Option<Unconcluded> {
        UNCONCLUDED.into_iter().find(|begun| git_dir.join(begun.file).symlink_metadata().is_ok())
    }

    /// Whether git has begun anything there that another call must conclude, a rebase or a bisect
    /// included.
    pub(crate) fn is_unfinished(&self, git_dir: &Path) -> bool {
        let is_begun = |name: &&str| git_dir.join(name).symlink_metadata().is_ok();
        Self::unconcluded(git_dir).is_some()
            || ["rebase-merge", "rebase-apply", "BISECT_START"].iter().any(is_begun)
    }

    /// Whether there may be any such commit. Cheap: checks a few files.
    pub(crate) fn may_have_in_progress(&self, git_dir: &Path) -> bool {
        FILES.iter().any(|(name, _)| git_dir.join(name).symlink_metadata().is_ok())
            || own_refs(git_dir.join("refs")).map_or(true, |refs| !refs.is_empty())
            || reflog::known(git_dir, "HEAD".into())
                .map_or(true, |log| !headlog::left(&log, |_, _| false).is_empty())
    }

    /// Whether the private git directory refers to commits that no ref contains.
    pub(crate) fn holds_in_progress(&self, worktree: &Worktree) -> Result<bool, ProcessError> {
        for found in self.commits_in_progress(worktree)? {
            if self.saved_somewhere(found.commit)?.is_none() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The commits that only the private git directory refers to and that no branch contains. A
    /// commit in a rescue ref is included: a second rescue of the worktree, such as after a crash,
    /// must have the same result.
    pub(crate) fn commits_in_progress(&self, worktree: &Worktree) -> Result<Vec<InProgress>, ProcessError> {
        let git_dir = worktree.git_dir.as_path();
        let named = FILES.iter().map(|(name, what)| (git_dir.join(name), (*what).to_owned()));
        let refs = own_refs(git_dir.join("refs"))?.into_iter().map(|path| {
            let name = path.strip_prefix(git_dir).unwrap_or(&path).display().to_string();
            (path, format!("{name} of the worktree"))
        });
        let mut found: Vec<InProgress> = Vec::new();
        for (file, what) in named.chain(refs) {
            let text = reflog::read_if_there(&file)?;
            let text = text.to_str_lossy();
            // An octopus merge names several commits; a tag is peeled to its commit.
            let ids = text.lines().map(str::trim).filter(|id| CommitId::parse_hex(id.as_bytes()).is_some());
            for id in ids {
                let Some(commit) = self.parse_commit(id) else {
                    let is_damaged = CommitId::parse_hex(id).is_some_and(|id| self.is_damaged(id));
                    if is_damaged {
                        let what = format!("{id}, which {} names,", file.display());
                        let why =
                            "`git fsck` names what is damaged; if it is lost, remove that file".to_owned();
                        return Err(ProcessError::Unread { what, why });
                    }
                    continue;
                };
                let is_new = !found.iter().any(|known| known.commit == commit);
                if is_new && self.held_below(commit, &BRANCHES)?.is_none() {
                    found.push(InProgress { commit, what: what.clone() });
                }
            }
        }
        for commit in self.left_commits(worktree)? {
            if !found.iter().any(|known| known.commit == commit) {
                found.push(InProgress { commit, what: "a commit that was made here and left".to_owned() });
            }
        }
        Ok(found)
    }

    /// Commits that were made in the worktree and left, and that only its HEAD's reflog names. A
    /// commit whose contents HEAD has was only rewritten, and is left out.
    fn left_commits(&self, worktree: &Worktree) -> Result<Vec<CommitId>, ProcessError> {
        let log = reflog::known(&worktree.git_dir, "HEAD".into())?;
        let Some(last) = log.last().map(|moved| moved.to) else { return Ok(Vec::new()) };
        let log_of = |name: &[u8]| reflog::known(self.common_dir(), name.as_bstr());
        let has = |log: &[Moved], commit| log.iter().any(|moved| moved.from == commit || moved.to == commit);
        let branch_log = log_of(&worktree.mark.branch.full_ref())?;
        // The log of a branch that cannot be read shows nothing: then the commit is saved.
        let was_at = |name: &[u8], commit| log_of(name).is_ok_and(|log| has(&log, commit));
        let in_worktree = format!("git -C {} reflog delete --rewrite HEAD", worktree.path.display());
        let mut found = Vec::new();
        for commit in headlog::left(&log, was_at) {
            let copies = headlog::copies(&log, commit);
            let is_copied = |copies: Vec<CommitId>| {
                copies.iter().all(|copy| matches!(self.has_copy(*copy, last), Ok(true)))
            };
            if !has(&branch_log, commit)
                && !copies.is_some_and(is_copied)
                && self.is_logged_here(commit, &log, &in_worktree)?
                && !matches!(self.landed(commit, last), Ok(Some(_)))
                && self.held_below(commit, &NAMED)?.is_none()
            {
                found.push(commit);
            }
        }
        Ok(found)
    }

    /// Whether a commit of a reflog is here. One that only cannot be read is an error: if the log goes, nothing names it.
    /// `delete` begins the command that takes its entry out of the log.
    fn is_logged_here(&self, commit: CommitId, log: &[Moved], delete: &str) -> Result<bool, ProcessError> {
        match self.commit(commit) {
            Ok(_) => Ok(true),
            Err(_) if self.is_absent(commit) => Ok(false),
            Err(error) => {
                let at = log.iter().rev().position(|moved| moved.to == commit);
                let at = at
                    .or_else(|| log.iter().rev().position(|moved| moved.from == commit))
                    .unwrap_or_default();
                Err(ProcessError::Unread {
                    what: format!("commit {commit}, which only a reflog may name,"),
                    why: format!(
                        "{error}; `git fsck` names what is damaged; if it is lost, `{delete}@{{{at}}}` takes it out of the log"
                    ),
                })
            }
        }
    }

    /// Commits that only the reflog of a branch names, the newest first; a later one may contain
    /// others. A commit whose contents `tip` has was only rewritten, and is left out.
    pub(crate) fn dropped_commits(
        &self,
        branch: &BranchName,
        tip: CommitId,
    ) -> Result<Vec<CommitId>, ProcessError> {
        let name = branch.full_ref();
        let log = reflog::known(self.common_dir(), name.as_ref())?;
        let (mut seen, mut found) = (BTreeSet::from([tip]), Vec::new());
        for commit in log.iter().rev().flat_map(|moved| [moved.to, moved.from]) {
            let is_held = |by: &CommitId| self.descends(*by, commit);
            if !commit.is_null()
                && seen.insert(commit)
                && self.is_logged_here(commit, &log, &format!("git reflog delete --rewrite {name}"))?
                && !is_held(&tip)
                && !found.iter().any(is_held)
                && !matches!(self.landed(commit, tip), Ok(Some(_)))
                && self.held_below(commit, &[HEADS, TRACKED, FETCHED, TAGS, ARCHIVE, RESCUES])?.is_none()
            {
                found.push(commit);
            }
        }
        Ok(found)
    }
}

/// All files below a directory of refs.
fn own_refs(directory: PathBuf) -> Result<Vec<PathBuf>, ProcessError> {
    let (mut ahead, mut found) = (vec![directory], Vec::new());
    while let Some(next) = ahead.pop() {
        let entries = match std::fs::read_dir(&next) {
            Ok(entries) => entries,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => continue,
            Err(error) => {
                return Err(ProcessError::Unread {
                    what: next.display().to_string(),
                    why: error.to_string(),
                });
            }
        };
        for entry in entries.flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => ahead.push(entry.path()),
                Ok(kind) if kind.is_file() => found.push(entry.path()),
                Ok(_) | Err(_) => {}
            }
        }
    }
    found.sort();
    Ok(found)
}
