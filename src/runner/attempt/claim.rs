//! Claims branches: the lease commit and the compare-and-swap (CONTRACT 5.1 to 5.3).
//!
//! Invariant: only this file makes a [`Claim`], and only after a swap was won, so holding one means holding
//! the branch. A claim that is dropped without settlement logs an error; its branch stays `working` until the
//! lease expires.

use std::sync::Arc;
use std::time::Duration;

use crate::contract::commits::{LeaseTerms, lease_draft};
use crate::contract::head::{Event, Head};
use crate::contract::ids::{AttemptId, BranchName, CommitId};
use crate::contract::lease::requested_seconds;
use crate::contract::message::{Message, MessageError};
use crate::git::objects::commits::NewCommit;
use crate::git::process::cancel::Purpose;
use crate::git::remote::Move;
use crate::git::{CommitError, Repo, Swap};

use crate::runner::authority::Authority;
use crate::runner::authority::error::AuthorityError;
use crate::runner::events::notice::Holder;
use crate::runner::options::Options;
use crate::runner::survey::verdict::{Command, RunIn};

/// Why a branch could not be claimed, other than a lost race.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClaimError {
    /// The lease's message is refused by CONTRACT 1.14.
    #[error("the lease of {branch} cannot be written")]
    Message {
        branch: BranchName,
        #[source]
        source: MessageError,
    },
    /// The lease commit could not be written.
    #[error("could not claim {branch}")]
    Commit {
        branch: BranchName,
        #[source]
        source: CommitError,
    },
    /// The branch could not be moved.
    #[error("could not claim {branch}")]
    Ref {
        branch: BranchName,
        #[source]
        source: Box<AuthorityError>,
    },
}

/// A branch that can be claimed.
#[derive(Debug, Clone)]
pub(crate) struct Candidate {
    pub(crate) branch: BranchName,
    /// The state its HEAD requests.
    pub(crate) event: Arc<Event>,
    pub(crate) command: Arc<Command>,
    pub(crate) run_in: RunIn,
}

/// A branch that this runner holds until the lease ends.
#[derive(Debug)]
#[must_use = "a claim must be settled"]
pub(crate) struct Claim {
    pub(crate) branch: BranchName,
    pub(crate) trigger: Event,
    pub(crate) command: Arc<Command>,
    pub(crate) run_in: RunIn,
    pub(crate) attempt: AttemptId,
    /// The lease commit.
    pub(crate) lease: CommitId,
    /// The lease's message, for renewals.
    pub(crate) message: Message,
    /// The lease's committer date, in seconds since the epoch.
    pub(crate) leased_at: i64,
    /// The length of the lease.
    pub(crate) seconds: u64,
    settled: bool,
}

impl ClaimError {
    /// Whether the remote is the cause (exit code 4).
    pub(crate) fn is_remote(&self) -> bool {
        matches!(self, Self::Ref { source, .. } if source.is_remote())
    }

    /// Whether the server refused, so that a retry cannot help.
    pub(crate) fn is_refused(&self) -> bool {
        matches!(self, Self::Ref { source, .. } if source.is_final())
    }
}

impl Claim {
    /// Marks the claim as settled.
    pub(crate) fn close(&mut self) {
        self.settled = true;
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if !self.settled {
            tracing::error!(branch = %self.branch, attempt = %self.attempt,
                "a claim was dropped before it was settled; the branch is free again when the lease ends");
        }
    }
}

/// The outcome of a claim that was tried.
#[must_use]
#[derive(Debug)]
pub(crate) enum Claimed {
    Won(Box<Claim>),
    /// The branch was moved first.
    Lost {
        /// The holder, if HEAD is a lease.
        holder: Option<Holder>,
    },
}

/// Tries to claim all `candidates` together. Returns the answers in their order.
pub(crate) fn claim_all(
    repo: &Repo,
    authority: &Authority,
    options: &Options,
    candidates: Vec<Candidate>,
) -> Vec<(BranchName, Result<Claimed, ClaimError>)> {
    let drafted: Vec<(BranchName, Result<Claim, ClaimError>)> = candidates
        .into_iter()
        .map(|candidate| (candidate.branch.clone(), draft(repo, authority, options, candidate)))
        .collect();
    let moves = drafted
        .iter()
        .filter_map(|(branch, claim)| {
            let claim = claim.as_ref().ok()?;
            Some(Move {
                branch: branch.clone(),
                expected: claim.trigger.commit,
                new: claim.lease,
                within: None,
            })
        })
        .collect();
    let log = format!("aynig: claim by {}", options.runner_id);
    let mut answers = authority.swap_all(repo, moves, &log).into_iter();
    crate::crashpoint::reach(crate::crashpoint::Point::LeaseMoved);
    drafted
        .into_iter()
        .map(|(branch, drafted)| {
            let outcome = drafted.and_then(|mut claim| {
                let answer = answers.next().expect("one answer for each move");
                match answer {
                    Ok(Swap::Won) => Ok(Claimed::Won(Box::new(claim))),
                    Ok(Swap::Lost { actual }) => {
                        claim.close();
                        Ok(Claimed::Lost { holder: actual.and_then(|head| holder(repo, head)) })
                    }
                    Err(source) => {
                        claim.close();
                        Err(ClaimError::Ref { branch: branch.clone(), source: Box::new(source) })
                    }
                }
            });
            (branch, outcome)
        })
        .collect()
}

/// Writes the lease commit. It has no effect until the branch points at it.
fn draft(
    repo: &Repo,
    authority: &Authority,
    options: &Options,
    candidate: Candidate,
) -> Result<Claim, ClaimError> {
    let Candidate { branch, event, command, run_in } = candidate;
    let trigger = Arc::unwrap_or_clone(event);
    let failed = |source| ClaimError::Commit { branch: branch.clone(), source };
    let attempt = AttemptId::random();
    let requested = requested_seconds(&trigger.message.trailers).ok().flatten();
    let seconds = requested.or_else(|| closed_seconds(repo, &trigger)).unwrap_or(options.lease_seconds);
    let terms = LeaseTerms {
        attempt,
        runner: options.runner_id.clone(),
        seconds,
        source: authority.source().cloned(),
        branch: branch.clone(),
    };
    let encoded = lease_draft(&trigger, &terms)
        .encode()
        .map_err(|source| ClaimError::Message { branch: branch.clone(), source })?;
    let tree = repo.commit(trigger.commit).map_err(failed)?.tree;
    // The commit is dated now, so a signature that takes longer would leave too little of the lease.
    let within = Duration::from_secs((seconds / 2).max(1));
    let new = NewCommit { tree, parents: &[trigger.commit], message: &encoded, attempt: None };
    let lease = repo.write_commit_for(&new, Purpose::Scan, within).map_err(failed)?;
    crate::crashpoint::reach(crate::crashpoint::Point::LeaseWritten);
    let leased_at = repo.commit(lease).map_err(failed)?.committed_at;
    let message = Message::parse(&encoded);
    Ok(Claim {
        branch,
        trigger,
        command,
        run_in,
        attempt,
        lease,
        message,
        leased_at,
        seconds,
        settled: false,
    })
}

/// The length of the lease that a `stalled` commit has closed.
fn closed_seconds(repo: &Repo, trigger: &Event) -> Option<u64> {
    let closed = repo.commit(trigger.commit).ok().filter(|_| trigger.state.is_stalled())?;
    match Head::read(&repo.commit(*closed.parents.first()?).ok()?.facts()) {
        Head::Working(lease) => requested_seconds(&lease.message.trailers).ok().flatten(),
        Head::Unmanaged | Head::Invalid(_) | Head::Ready(_) => None,
    }
}

/// The holder of the lease `head`. `None` if `head` is no lease.
pub(crate) fn holder(repo: &Repo, head: CommitId) -> Option<Holder> {
    match Head::read(&repo.commit(head).ok()?.facts()) {
        Head::Working(lease) => Some(Holder { until: lease.expires_at(), runner: lease.runner }),
        Head::Unmanaged | Head::Invalid(_) | Head::Ready(_) => None,
    }
}
