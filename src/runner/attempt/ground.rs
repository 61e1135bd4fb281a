//! The origin of the commits above a lease, and the choice of the commit whose tree a new commit may take.
//!
//! Invariant: a runner that requires signatures never signs files from another's unsigned commit
//! (CONTRACT 13.8). A commit is accepted if the log of the worktree's HEAD shows that it was made there
//! ([`crate::contract::headlog`]), or by a signature that a survey accepts.

use std::collections::HashSet;
use std::path::Path;

use crate::contract::head::Head;
use crate::contract::headlog::{Moved, Origin, origin};
use crate::contract::ids::{AttemptId, CommitId};
use crate::contract::report::plain_line;
use crate::git::Repo;
use crate::git::objects::trusted::refusals;
use crate::git::process::cancel::Purpose;
use crate::git::refs::reflog;

use crate::runner::options::Trust;

/// The most foreign commits whose signatures are checked. Below them only the lease counts.
const MOST: usize = 100;

/// The longest author name shown, in characters.
const MOST_OF_A_NAME: usize = 60;

/// An attempt's lease, with the log of HEAD of the checkout it works in.
#[derive(Debug)]
pub(crate) struct Ground<'a> {
    repo: &'a Repo,
    attempt: AttemptId,
    lease: CommitId,
    log: Vec<Moved>,
}

/// The commit whose tree a new commit takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) from: CommitId,
    /// The newest commit above `from`, if its files are left out.
    pub(crate) without: Option<CommitId>,
}

impl<'a> Ground<'a> {
    /// `git_dir` is the checkout's own git directory, if there is a checkout.
    pub(crate) fn new(repo: &'a Repo, attempt: AttemptId, lease: CommitId, git_dir: Option<&Path>) -> Self {
        let log = git_dir.map(reflog::of_head).unwrap_or_default();
        Self { repo, attempt, lease, log }
    }

    /// Where `head`, a descendant of the lease, was made.
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

    /// Foreign commits from `head` down, and the newest commit below them that is this attempt's own.
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

    /// Whether the index `tree` has all changes of `commit`. Never true if signatures are required and
    /// `commit` is not accepted: a push may have put it into the index
    /// (`receive.denyCurrentBranch=updateInstead`).
    pub(crate) fn is_in(&self, trust: &Trust, commit: CommitId, tree: CommitId) -> bool {
        if self.taken(trust, commit).without.is_some() {
            return false;
        }
        let tree_of = |id| self.repo.commit(id).map(|stored| stored.tree);
        let compared =
            tree_of(self.own(commit)).and_then(|base| self.repo.tree_landed(base, tree_of(commit)?, tree));
        compared.unwrap_or(false)
    }

    /// The commit whose files go into a new commit on top of `head`. This is `head`, unless signatures are
    /// required and it is not accepted. Then it is the newest commit below that is this attempt's own or has
    /// a good signature.
    pub(crate) fn taken(&self, trust: &Trust, head: CommitId) -> Taken {
        if !trust.require_signed {
            return Taken { from: head, without: None };
        }
        let (others, floor) = self.others(head);
        let asked: HashSet<CommitId> = others.iter().copied().collect();
        let refused = refusals(self.repo, &asked, &[], Purpose::Signature);
        let from = others.into_iter().find(|commit| !refused.contains_key(commit)).unwrap_or(floor);
        Taken { from, without: (from != head).then_some(head) }
    }
}

impl Taken {
    pub(crate) fn tree(&self, repo: &Repo) -> Result<CommitId, String> {
        repo.commit(self.from).map(|stored| stored.tree).map_err(|error| crate::runner::error_chain(&error))
    }

    /// The sentence for a stalled commit about the files that are left out.
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

/// Formats a commit and its author: `1234abcd (Name)`.
pub(crate) fn named(repo: &Repo, commit: CommitId) -> String {
    match repo.author(commit).map(|name| plain_line(&name, MOST_OF_A_NAME)) {
        Ok(name) if !name.is_empty() => format!("{} ({name})", commit.short()),
        Ok(_) | Err(_) => commit.short(),
    }
}
