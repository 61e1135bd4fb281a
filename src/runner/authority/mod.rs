//! The authority: the ref store through which every claim, renewal, result and recovery moves a branch.
//!
//! Invariant: a move succeeds only if the branch has the expected value; otherwise it returns the actual one
//! (CONTRACT 5.3). The authority is either this repository's own ref store or a remote, never both, and is
//! chosen once per run (CONTRACT 5.14). `batch` combines moves into pushes.

pub(crate) mod batch;
pub(crate) mod error;
pub(crate) mod lookout;
mod together;

use std::collections::BTreeMap;
use std::sync::mpsc::Sender;
use std::time::Duration;

use bstr::ByteSlice;

use crate::contract::ids::{AttemptId, BranchName, CommitId, RemoteName};
use crate::contract::landing::Store;
use crate::git::refs::list::Tip;
use crate::git::remote::{Move, QUESTION};
use crate::git::{RefError, Repo, Store as GitStore, Swap, Workplace};

use crate::runner::authority::batch::{Remote, UnderWay};
use crate::runner::authority::error::AuthorityError;
use crate::runner::authority::lookout::{Wake, Watched};

/// The ref store that decides races between runners.
#[derive(Debug)]
pub enum Authority {
    /// The ref store of this repository.
    Local,
    /// The ref store of a remote.
    Remote(Box<Remote>),
}

impl Authority {
    /// Makes a remote the authority.
    pub(crate) fn remote(name: RemoteName) -> Self {
        Self::Remote(Box::new(Remote::new(name)))
    }

    /// The remote recorded in leases (`dwp-source`), if the authority is a remote.
    pub fn source(&self) -> Option<&RemoteName> {
        match self {
            Self::Local => None,
            Self::Remote(remote) => Some(remote.name()),
        }
    }

    /// Counts a step as running until the returned value is dropped.
    pub(crate) fn under_way(&self) -> UnderWay<'_> {
        match self {
            Self::Local => UnderWay::local(),
            Self::Remote(remote) => UnderWay::begin(remote),
        }
    }

    /// Looks after the branch of a step while the returned value lives. A local branch needs none: its keeper
    /// reads it.
    pub(crate) fn watch(
        &self,
        store: &GitStore,
        branch: &BranchName,
        lease: CommitId,
        wake: Sender<Wake>,
    ) -> Option<Watched<'_>> {
        match self {
            Self::Local => None,
            Self::Remote(remote) => Some(remote.lookout().watch(store, remote.name(), branch, lease, wake)),
        }
    }

    /// How long it pays to wait for more branches to claim at once. Each push to a remote costs a connection.
    pub(crate) fn linger(&self) -> Duration {
        match self {
            Self::Local => Duration::ZERO,
            Self::Remote(remote) => remote.linger(),
        }
    }

    /// A landing's question to the ref store: whether reading a branch costs a connection.
    pub(crate) fn store(&self) -> Store {
        match self {
            Self::Local => Store::Local,
            Self::Remote(_) => Store::Remote,
        }
    }

    /// Returns the checkout if its HEAD has to be moved along when the branch moves. A local branch is checked out
    /// itself, so there is nothing to move.
    pub(crate) fn follower<'p>(&self, checkout: Option<&'p Workplace>) -> Option<&'p Workplace> {
        checkout.filter(|_| matches!(self, Self::Remote(_)))
    }

    /// Returns the attempt if its commits must name it: a server may refuse other moves of a leased branch
    /// (CONTRACT 12.4).
    pub(crate) fn credential(&self, attempt: AttemptId) -> Option<AttemptId> {
        matches!(self, Self::Remote(_)).then_some(attempt)
    }

    /// Whether an expired lease may be closed on another host, which cannot see the worktree here.
    pub(crate) fn recovers_elsewhere(&self) -> bool {
        matches!(self, Self::Remote(_))
    }

    /// Queries a remote's branches without fetching them; all of them, or only those named. `None` if the
    /// authority is this repository.
    pub fn ask(
        &self,
        repo: &Repo,
        branches: &[BranchName],
    ) -> Option<Result<BTreeMap<BranchName, CommitId>, AuthorityError>> {
        match self {
            Self::Local => None,
            Self::Remote(remote) => Some(
                repo.ask_remote(remote.name(), branches, QUESTION)
                    .map(|all| all.into_iter().collect())
                    .map_err(Into::into),
            ),
        }
    }

    /// Fetches a remote's branches, once in a pass.
    pub fn refresh(&self, repo: &Repo) -> Result<(), AuthorityError> {
        match self {
            Self::Local => Ok(()),
            Self::Remote(remote) => Ok(repo.fetch_branches(remote.name())?),
        }
    }

    /// Lists all branches, as of the last [`refresh`](Self::refresh).
    pub fn branches(&self, repo: &Repo) -> Result<Vec<Tip>, RefError> {
        match self {
            Self::Local => repo.branches(),
            Self::Remote(remote) => repo.fetched_branches(remote.name()),
        }
    }

    /// The branch's HEAD now. On a remote, its commit is fetched as well, and a connection that hangs is
    /// given up after about `within`.
    pub(crate) fn head(
        &self,
        repo: &Repo,
        branch: &BranchName,
        within: Duration,
    ) -> Result<Option<CommitId>, AuthorityError> {
        match self {
            Self::Local => Ok(repo.branch_head(branch)?),
            Self::Remote(remote) => {
                let branches = std::slice::from_ref(branch);
                let asked = repo.ask_remote(remote.name(), branches, within.min(QUESTION))?;
                let head = asked.get(branch).copied();
                if head.is_some_and(|head| repo.commit(head).is_err()) {
                    repo.fetch_some(remote.name(), branches, within)?;
                }
                Ok(head)
            }
        }
    }

    /// Moves one branch at once; `log` is the message for the reflog.
    pub fn swap(&self, repo: &Repo, wanted: Move, log: &str) -> Result<Swap, AuthorityError> {
        self.move_one(repo, wanted, log, true)
    }

    /// Moves a branch to the result of a step, which may wait a little for those of other steps. A connection
    /// that hangs is given up after `within`, since the result is of no use later.
    pub(crate) fn land(
        &self,
        repo: &Repo,
        within: Duration,
        branch: &BranchName,
        [expected, new]: [CommitId; 2],
        log: &str,
    ) -> Result<Swap, AuthorityError> {
        let wanted = Move { branch: branch.clone(), expected, new, within: Some(within) };
        self.move_one(repo, wanted, log, false)
    }

    /// Creates a branch at `new`; lost if it exists by now. Refused on a remote (CONTRACT 5.20).
    pub fn create(
        &self,
        repo: &Repo,
        branch: &BranchName,
        new: CommitId,
        log: &str,
    ) -> Result<Swap, AuthorityError> {
        match self {
            Self::Local => Ok(repo.swap(branch.full_ref().as_bstr(), None, new, log)?),
            Self::Remote(remote) => Err(AuthorityError::Refused {
                remote: remote.name().clone(),
                branch: branch.clone(),
                reason: "it does not exist there, and new branches are pushed with `git push`".to_owned(),
            }),
        }
    }

    /// Moves several branches, each judged by itself, and returns the answers in their order. On a remote
    /// this is one push, without delay.
    pub(crate) fn swap_all(
        &self,
        repo: &Repo,
        moves: Vec<Move>,
        log: &str,
    ) -> Vec<Result<Swap, AuthorityError>> {
        self.swap_each(repo, moves, log, true)
    }

    fn move_one(&self, repo: &Repo, wanted: Move, log: &str, urgent: bool) -> Result<Swap, AuthorityError> {
        self.swap_each(repo, vec![wanted], log, urgent).pop().expect("one answer for one move")
    }

    fn swap_each(
        &self,
        repo: &Repo,
        moves: Vec<Move>,
        log: &str,
        urgent: bool,
    ) -> Vec<Result<Swap, AuthorityError>> {
        match self {
            Self::Local => moves
                .into_iter()
                .map(|Move { branch, expected, new, .. }| {
                    Ok(repo.swap(branch.full_ref().as_bstr(), Some(expected), new, log)?)
                })
                .collect(),
            Self::Remote(remote) => remote.swap_all(repo, moves, urgent),
        }
    }
}
