//! The one door through which a branch's HEAD is moved: claim, renew, settle and recover all come here.
//!
//! Invariant: whoever expects the value that is there wins, everybody else is told what is there instead (CONTRACT.md
//! §5). The arbiter is either this repository's own ref store or a remote, never both; which one is decided once per
//! run. Moves that are wanted while a push is under way go together in the next one: a push costs a connection, and one
//! connection can carry any number of refs, each judged by itself.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bstr::ByteSlice;

use crate::contract::ids::{BranchName, CommitId, RemoteName};
use crate::git::remote::{Move, Pushed, RemoteError};
use crate::git::swap::Tip;
use crate::git::{RefError, Repo, Swap};

/// Why a branch could not be moved or read: neither won nor lost.
#[derive(Debug, thiserror::Error)]
pub enum ArbiterError {
    /// The local ref store.
    #[error(transparent)]
    Local(#[from] RefError),
    /// The remote could not be talked to, so the outcome may be unknown.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// The server said no.
    #[error("{remote} refuses to move {branch}: {reason}")]
    Refused {
        /// Which remote.
        remote: RemoteName,
        /// Which branch.
        branch: BranchName,
        /// The server's own words.
        reason: String,
    },
    /// The server was asked and could not; it may be able to in a moment.
    #[error("{remote} could not move {branch}: {reason}")]
    Failed {
        /// Which remote.
        remote: RemoteName,
        /// Which branch.
        branch: BranchName,
        /// The server's own words.
        reason: String,
    },
    /// The push was not answered, and neither was the question what became of it.
    #[error("the push of {branch} to {remote} was not answered, and the remote could not be asked: {why}")]
    Unanswered {
        /// Which remote.
        remote: RemoteName,
        /// Which branch.
        branch: BranchName,
        /// What went wrong.
        why: String,
    },
}

impl ArbiterError {
    /// Whether trying again cannot help: the server understood and said no.
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Refused { .. })
    }

    /// Whether the remote is to blame (exit code 4).
    pub fn is_remote(&self) -> bool {
        match self {
            Self::Local(_) => false,
            Self::Remote(_) | Self::Refused { .. } | Self::Failed { .. } | Self::Unanswered { .. } => true,
        }
    }
}

/// Who decides which of several runners wins.
#[derive(Debug)]
pub enum Arbiter {
    /// The ref store of this repository.
    Local,
    /// A remote's.
    Remote(Remote),
}

/// A remote as arbiter, with the moves that wait for the next push.
#[derive(Debug)]
pub struct Remote {
    name: RemoteName,
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    next_ticket: u64,
    waiting: Vec<(u64, Move)>,
    done: HashMap<u64, Result<Swap, ArbiterError>>,
    pushing: bool,
}

impl Arbiter {
    /// The remote of this name decides.
    pub fn remote(name: RemoteName) -> Self {
        Self::Remote(Remote { name, queue: Mutex::default(), changed: Condvar::new() })
    }

    /// The remote to be recorded in leases (`dwp-source`), if a remote decides.
    pub fn source(&self) -> Option<&RemoteName> {
        match self {
            Self::Local => None,
            Self::Remote(remote) => Some(&remote.name),
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
    pub fn ask(&self, repo: &Repo) -> Option<Result<BTreeMap<BranchName, CommitId>, ArbiterError>> {
        match self {
            Self::Local => None,
            Self::Remote(remote) => Some(
                repo.ask_remote(&remote.name, &[], false)
                    .map(|all| all.into_iter().collect())
                    .map_err(Into::into),
            ),
        }
    }

    /// Learns what the branches are; the one fetch of a pass.
    pub fn refresh(&self, repo: &Repo) -> Result<(), ArbiterError> {
        match self {
            Self::Local => Ok(()),
            Self::Remote(remote) => Ok(repo.fetch_branches(&remote.name)?),
        }
    }

    /// All branches, as of the last refresh.
    pub fn branches(&self, repo: &Repo) -> Result<Vec<Tip>, RefError> {
        match self {
            Self::Local => repo.branches(),
            Self::Remote(remote) => repo.fetched_branches(&remote.name),
        }
    }

    /// What the branch points at now; of a remote, its objects are fetched as well.
    pub fn head(&self, repo: &Repo, branch: &BranchName) -> Result<Option<CommitId>, ArbiterError> {
        match self {
            Self::Local => Ok(repo.branch_head(branch)?),
            Self::Remote(remote) => {
                let asked = repo.ask_remote(&remote.name, std::slice::from_ref(branch), false)?;
                let head = asked.get(branch).copied();
                if head.is_some_and(|head| repo.commit(head).is_err()) {
                    repo.fetch_some(&remote.name, std::slice::from_ref(branch))?;
                }
                Ok(head)
            }
        }
    }

    /// What the branch points at as far as is known without a connection: for local branches the truth, for remote
    /// ones what was last fetched or pushed.
    pub fn known_head(&self, repo: &Repo, branch: &BranchName) -> Result<Option<CommitId>, RefError> {
        match self {
            Self::Local => repo.branch_head(branch),
            Self::Remote(remote) => repo.fetched_head(&remote.name, branch),
        }
    }

    /// Moves one branch from `expected` to `new`, for the reason in `log`.
    pub fn swap(
        &self,
        repo: &Repo,
        branch: &BranchName,
        expected: CommitId,
        new: CommitId,
        log: &str,
    ) -> Result<Swap, ArbiterError> {
        let wanted = Move { branch: branch.clone(), expected, new, within: None };
        self.swap_all(repo, vec![wanted], log).pop().expect("one answer for one move")
    }

    /// The same where it is of no use after `within`: a connection that hangs is given up then.
    pub fn swap_within(
        &self,
        repo: &Repo,
        within: Duration,
        branch: &BranchName,
        [expected, new]: [CommitId; 2],
        log: &str,
    ) -> Result<Swap, ArbiterError> {
        let wanted = Move { branch: branch.clone(), expected, new, within: Some(within) };
        self.swap_all(repo, vec![wanted], log).pop().expect("one answer for one move")
    }

    /// Makes a branch that does not exist yet point at `new`; lost if it exists by now.
    pub fn create(
        &self,
        repo: &Repo,
        branch: &BranchName,
        new: CommitId,
        log: &str,
    ) -> Result<Swap, ArbiterError> {
        match self {
            Self::Local => Ok(repo.swap(branch.full_ref().as_bstr(), None, new, log)?),
            Self::Remote(remote) => Err(ArbiterError::Refused {
                remote: remote.name.clone(),
                branch: branch.clone(),
                reason: "it does not exist there, and new branches are pushed with `git push`".to_owned(),
            }),
        }
    }

    /// Moves several branches, each judged by itself; answers in their order. Of a remote: in one push.
    pub fn swap_all(&self, repo: &Repo, moves: Vec<Move>, log: &str) -> Vec<Result<Swap, ArbiterError>> {
        match self {
            Self::Local => moves
                .into_iter()
                .map(|Move { branch, expected, new, .. }| {
                    Ok(repo.swap(branch.full_ref().as_bstr(), Some(expected), new, log)?)
                })
                .collect(),
            Self::Remote(remote) => remote.swap_all(repo, moves),
        }
    }
}

impl Remote {
    /// Queues the moves; whoever finds nobody pushing pushes for all.
    fn swap_all(&self, repo: &Repo, moves: Vec<Move>) -> Vec<Result<Swap, ArbiterError>> {
        let mut queue = self.lock();
        let tickets: Vec<u64> = moves
            .into_iter()
            .map(|wanted| {
                let ticket = queue.next_ticket;
                queue.next_ticket += 1;
                queue.waiting.push((ticket, wanted));
                ticket
            })
            .collect();
        loop {
            if tickets.iter().all(|ticket| queue.done.contains_key(ticket)) {
                return tickets.iter().map(|ticket| queue.done.remove(ticket).expect("just seen")).collect();
            }
            if queue.pushing {
                queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            queue.pushing = true;
            let batch = std::mem::take(&mut queue.waiting);
            drop(queue);
            let (tickets_of_batch, moves_of_batch): (Vec<u64>, Vec<Move>) = batch.into_iter().unzip();
            let answers = self.push(repo, &moves_of_batch);
            queue = self.lock();
            queue.done.extend(tickets_of_batch.into_iter().zip(answers));
            queue.pushing = false;
            self.changed.notify_all();
        }
    }

    /// One push, and a question where its answer is not enough.
    fn push(&self, repo: &Repo, moves: &[Move]) -> Vec<Result<Swap, ArbiterError>> {
        let mut answers = match repo.push_moves(&self.name, moves) {
            Ok(answers) => answers,
            Err(error) => {
                tracing::warn!(remote = %self.name, %error, "a push broke off; asking the remote what became of it");
                vec![Pushed::Unknown; moves.len()]
            }
        };
        answers.resize(moves.len(), Pushed::Unknown);
        let doubtful: Vec<BranchName> = moves
            .iter()
            .zip(&answers)
            .filter(|(_, answer)| **answer != Pushed::Accepted)
            .map(|(wanted, _)| wanted.branch.clone())
            .collect();
        let hurried = moves.iter().any(|wanted| wanted.within.is_some());
        let truth = if doubtful.is_empty() { Ok(HashMap::new()) } else { self.ask(repo, &doubtful, hurried) };
        moves
            .iter()
            .zip(answers)
            .map(|(wanted, answer)| self.judge(repo, wanted, answer, truth.as_ref()))
            .collect()
    }

    /// What the remote has, with the objects, so that HEAD can tell who won.
    fn ask(
        &self,
        repo: &Repo,
        branches: &[BranchName],
        hurried: bool,
    ) -> Result<HashMap<BranchName, CommitId>, String> {
        let asked =
            repo.ask_remote(&self.name, branches, hurried).map_err(|error| super::error_words(&error))?;
        let unknown: Vec<BranchName> = asked
            .iter()
            .filter(|(_, head)| repo.commit(**head).is_err())
            .map(|(branch, _)| branch.clone())
            .collect();
        if !unknown.is_empty()
            && let Err(error) = repo.fetch_some(&self.name, &unknown)
        {
            tracing::debug!(%error, "what others pushed could not be fetched; who they are stays unsaid");
        }
        Ok(asked)
    }

    fn judge(
        &self,
        repo: &Repo,
        wanted: &Move,
        answer: Pushed,
        truth: Result<&HashMap<BranchName, CommitId>, &String>,
    ) -> Result<Swap, ArbiterError> {
        let (remote, branch) = (self.name.clone(), wanted.branch.clone());
        if answer == Pushed::Accepted {
            repo.note_fetched(&self.name, &wanted.branch, wanted.new);
            return Ok(Swap::Won);
        }
        let actual = match (truth, &answer) {
            (Ok(truth), _) => truth.get(&wanted.branch).copied(),
            // The push itself said that it lost; only by whom is not known.
            (Err(_), Pushed::Stale) => return Ok(Swap::Lost { actual: None }),
            (Err(why), _) => return Err(ArbiterError::Unanswered { remote, branch, why: why.clone() }),
        };
        if actual == Some(wanted.new) {
            repo.note_fetched(&self.name, &wanted.branch, wanted.new);
            return Ok(Swap::Won);
        }
        if actual != Some(wanted.expected) {
            return Ok(Swap::Lost { actual });
        }
        // The remote still has what we expected: it was not moved, and nobody else moved it.
        let reason = match answer {
            Pushed::Refused(reason) => reason,
            Pushed::Failed(reason) => return Err(ArbiterError::Failed { remote, branch, reason }),
            Pushed::Unknown => {
                return Err(ArbiterError::Unanswered { remote, branch, why: "nothing was moved".to_owned() });
            }
            Pushed::Stale | Pushed::Accepted => {
                "it says that the branch is not where it is; try again".to_owned()
            }
        };
        Err(ArbiterError::Refused { remote, branch, reason })
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
