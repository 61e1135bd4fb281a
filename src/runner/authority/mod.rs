//! The one door through which a branch's HEAD is moved: claim, renew, settle and recover all come here.
//!
//! Invariant: whoever expects the value that is there wins, everybody else is told what is there instead (CONTRACT.md
//! §5). The authority is either this repository's own ref store or a remote, never both; which one is decided once per
//! run. How moves share a push is left to `batch`.

pub(crate) mod batch;
pub(crate) mod error;

use std::collections::BTreeMap;
use std::time::Duration;

use bstr::ByteSlice;

use crate::contract::ids::{BranchName, CommitId, RemoteName};
use crate::git::refs::cas::Tip;
use crate::git::remote::{Move, QUESTION};
use crate::git::{RefError, Repo, Swap};

use crate::runner::authority::batch::{Remote, UnderWay};
use crate::runner::authority::error::AuthorityError;

/// Who decides which of several runners wins.
#[derive(Debug)]
pub enum Authority {
    /// The ref store of this repository.
    Local,
    /// A remote's.
    Remote(Box<Remote>),
}

impl Authority {
    /// The remote of this name decides.
    pub(crate) fn remote(name: RemoteName) -> Self {
        Self::Remote(Box::new(Remote::new(name)))
    }

    /// The remote to be recorded in leases (`dwp-source`), if a remote decides.
    pub fn source(&self) -> Option<&RemoteName> {
        match self {
            Self::Local => None,
            Self::Remote(remote) => Some(remote.name()),
        }
    }

    /// Notes that a step is under way, whose result will have to be pushed.
    pub(crate) fn under_way(&self) -> UnderWay<'_> {
        match self {
            Self::Local => UnderWay::local(),
            Self::Remote(remote) => UnderWay::begin(remote),
        }
    }

    /// How long it pays to wait for what can be claimed together: moves of a remote's branches cost a connection.
    pub(crate) fn linger(&self) -> Duration {
        match self {
            Self::Local => Duration::ZERO,
            Self::Remote(remote) => remote.linger(),
        }
    }

    /// Whether worktrees have the branch itself checked out, so that a command's own commits move it.
    pub fn attaches(&self) -> bool {
        match self {
            Self::Local => true,
            Self::Remote(_) => false,
        }
    }

    /// Asks a remote what its branches are, without fetching them; `None` where no remote decides.
    pub fn ask(&self, repo: &Repo) -> Option<Result<BTreeMap<BranchName, CommitId>, AuthorityError>> {
        match self {
            Self::Local => None,
            Self::Remote(remote) => Some(
                repo.ask_remote(remote.name(), &[], QUESTION)
                    .map(|all| all.into_iter().collect())
                    .map_err(Into::into),
            ),
        }
    }

    /// Learns what the branches are; the one fetch of a pass.
    pub fn refresh(&self, repo: &Repo) -> Result<(), AuthorityError> {
        match self {
            Self::Local => Ok(()),
            Self::Remote(remote) => Ok(repo.fetch_branches(remote.name())?),
        }
    }

    /// All branches, as of the last refresh.
    pub fn branches(&self, repo: &Repo) -> Result<Vec<Tip>, RefError> {
        match self {
            Self::Local => repo.branches(),
            Self::Remote(remote) => repo.fetched_branches(remote.name()),
        }
    }

    /// What the branch points at now; of a remote, its objects are fetched as well, and a connection that hangs is given up after
    /// about `within`.
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

    /// Moves one branch, for the reason in `log`.
    pub fn swap(&self, repo: &Repo, wanted: Move, log: &str) -> Result<Swap, AuthorityError> {
        self.move_one(repo, wanted, log, true)
    }

    /// The same for the result of a step, which may wait a little for those of other steps. It is of no use after `within`: a
    /// connection that hangs is given up then.
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

    /// Makes a branch that does not exist yet point at `new`; lost if it exists by now.
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

    /// Moves several branches, each judged by itself; answers in their order. Of a remote: in one push, at once.
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
