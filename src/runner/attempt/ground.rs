//! What a commit of ours is put on: who made the branch's HEAD, and which commit's files may be taken.
//!
//! Invariant: a runner that asks for signatures never signs files that came from somebody else without one (CONTRACT 13.8). The
//! proof is the log of the worktree's HEAD, judged by [`crate::contract::headlog`], or a signature that a scan would accept.

use std::collections::HashSet;
use std::path::Path;

use crate::contract::head::Head;
use crate::contract::headlog::{Moved, Origin, origin};
use crate::contract::ids::{AttemptId, CommitId};
use crate::contract::report::plain_line;
use crate::git::Repo;
use crate::git::process::cancel::Purpose;
use crate::git::refs::reflog;

use crate::runner::options::Trust;
use crate::runner::survey::trust;

/// The most commits of others whose signatures are looked at. Below them only the lease counts.
const MOST: usize = 100;

/// The most characters of an author's name.
const MOST_OF_A_NAME: usize = 60;

/// An attempt's lease, and the log of the checkout it works in.
#[derive(Debug)]
pub(crate) struct Ground<'a> {
    repo: &'a Repo,
    attempt: AttemptId,
    lease: CommitId,
    log: Vec<Moved>,
}

/// The commit whose tree is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Taken {
    /// The commit.
    pub(crate) from: CommitId,
    /// The newest commit above it, whose files are left out.
    pub(crate) without: Option<CommitId>,
}

impl<'a> Ground<'a> {
    /// `git_dir` is the checkout's own git directory, if there is a checkout.
    pub(crate) fn new(repo: &'a Repo, attempt: AttemptId, lease: CommitId, git_dir: Option<&Path>) -> Self {
        let log = git_dir.map(reflog::of_head).unwrap_or_default();
        Self { repo, attempt, lease, log }
    }

    /// Who put `head` onto the branch; it descends from the lease.
    pub(crate) fn origin(&self, head: CommitId) -> Origin {
        origin(head, self.lease, &self.log, |commit| {
            let stored = self.repo.commit(commit).ok()?;
            match Head::read(&stored.facts()) {
                Head::Working(lease) if lease.attempt() == Some(self.attempt) => {
                    stored.parents.first().copied()
                }
                Head::Working(_) | Head::Unmanaged | Head::Invalid(_) | Head::Ready(_) => None,
            }
        })
    }

    /// Commits of others from `head` down, and the newest commit below them that is this attempt's own.
    fn others(&self, head: CommitId) -> (Vec<CommitId>, CommitId) {
        let mut others = Vec::new();
        for commit in self.repo.history(head).flatten().map(|stored| stored.id).take(MOST) {
            if self.origin(commit) == Origin::Here {
                return (others, commit);
            }
            others.push(commit);
        }
        (others, self.lease)
    }

    /// The newest commit from `head` down that is this attempt's own.
    pub(crate) fn own(&self, head: CommitId) -> CommitId {
        self.others(head).1
    }

    /// Whether `tree`, an index, has everything that `commit` changes, as `commit` has it. That does not count where signatures are
    /// asked for and nobody vouches for `commit`: a push may put it into the index (`receive.denyCurrentBranch=updateInstead`).
    pub(crate) fn is_in(&self, trust: &Trust, commit: CommitId, tree: CommitId) -> bool {
        if self.taken(trust, commit).without.is_some() {
            return false;
        }
        let tree_of = |id| self.repo.commit(id).map(|stored| stored.tree);
        let compared =
            tree_of(self.own(commit)).and_then(|base| self.repo.tree_landed(base, tree_of(commit)?, tree));
        compared.unwrap_or(false)
    }

    /// The commit whose files go into a commit on top of `head`: `head`, unless signatures are asked for and nobody vouches for it.
    /// Then it is the newest commit below that is this attempt's own or has a good signature.
    pub(crate) fn taken(&self, trust: &Trust, head: CommitId) -> Taken {
        if !trust.require_signed {
            return Taken { from: head, without: None };
        }
        let (others, floor) = self.others(head);
        let asked: HashSet<CommitId> = others.iter().copied().collect();
        let refused = trust::refusals(self.repo, &asked, &[], Purpose::Signature);
        let from = others.into_iter().find(|commit| !refused.contains_key(commit)).unwrap_or(floor);
        Taken { from, without: (from != head).then_some(head) }
    }
}

impl Taken {
    /// The tree.
    pub(crate) fn tree(&self, repo: &Repo) -> Result<CommitId, String> {
        repo.commit(self.from).map(|stored| stored.tree).map_err(|error| crate::runner::error_chain(&error))
    }

    /// What a stalled commit says of the files that are left out, as a sentence.
    pub(crate) fn note(&self, repo: &Repo) -> Option<String> {
        let without = self.without?;
        Some(format!(
            "{} is not signed by anybody trusted here (aynig.requireSigned), so the files here are those of {}. \
             To see what was left out: git diff {} {}",
            named(repo, without),
            self.from.short(),
            self.from.short(),
            without.short()
        ))
    }
}

/// A commit and its author, in words.
pub(crate) fn named(repo: &Repo, commit: CommitId) -> String {
    match repo.author(commit).map(|name| plain_line(&name, MOST_OF_A_NAME)) {
        Ok(name) if !name.is_empty() => format!("{} ({name})", commit.short()),
        Ok(_) | Err(_) => commit.short(),
    }
}
