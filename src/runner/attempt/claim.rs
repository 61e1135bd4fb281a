//! From a candidate to a claim: the lease commit and the compare-and-swap (CONTRACT.md §5).
//!
//! Invariant: only this file makes a [`Claim`], and only for a swap that was won; so holding one means holding the
//! branch. A claim that is dropped without having been settled says so in the log: its branch stays `working` until
//! the lease runs out.

use std::sync::Arc;
use std::time::Duration;

use crate::contract::commits::{LeaseTerms, lease_draft};
use crate::contract::head::{Event, Head};
use crate::contract::ids::{AttemptId, BranchName, CommitId};
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

/// Why a claim could not even be tried.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClaimError {
    /// The lease's message cannot be written faithfully.
    #[error("the lease of {branch} cannot be written")]
    Message {
        /// On which branch.
        branch: BranchName,
        /// Which part, and why.
        #[source]
        source: MessageError,
    },
    /// The lease commit could not be written.
    #[error("could not claim {branch}")]
    Commit {
        /// On which branch.
        branch: BranchName,
        /// Why.
        #[source]
        source: CommitError,
    },
    /// The branch could not be moved.
    #[error("could not claim {branch}")]
    Ref {
        /// On which branch.
        branch: BranchName,
        /// Why.
        #[source]
        source: Box<AuthorityError>,
    },
}

/// A branch that can be claimed.
#[derive(Debug, Clone)]
pub(crate) struct Candidate {
    /// The branch.
    pub(crate) branch: BranchName,
    /// What its HEAD requests.
    pub(crate) event: Arc<Event>,
    /// The command that does it.
    pub(crate) command: Arc<Command>,
    /// Where.
    pub(crate) run_in: RunIn,
}

/// A branch that is ours until the lease ends.
#[derive(Debug)]
#[must_use = "a claim must be settled"]
pub(crate) struct Claim {
    /// The branch.
    pub(crate) branch: BranchName,
    /// What its HEAD asked for.
    pub(crate) trigger: Event,
    /// The command.
    pub(crate) command: Arc<Command>,
    /// Where it runs.
    pub(crate) run_in: RunIn,
    /// This attempt.
    pub(crate) attempt: AttemptId,
    /// The lease commit.
    pub(crate) lease: CommitId,
    /// The lease's message, for renewals.
    pub(crate) message: Message,
    /// Its committer date.
    pub(crate) leased_at: i64,
    /// Its length.
    pub(crate) seconds: u64,
    settled: bool,
}

impl ClaimError {
    /// Whether the remote is to blame (exit code 4).
    pub(crate) fn is_remote(&self) -> bool {
        matches!(self, Self::Ref { source, .. } if source.is_remote())
    }

    /// Whether a server refused.
    pub(crate) fn is_refused(&self) -> bool {
        matches!(self, Self::Ref { source, .. } if source.is_final())
    }
}

impl Claim {
    /// The claim has had its end, whichever.
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

/// What became of trying.
#[must_use]
#[derive(Debug)]
pub(crate) enum Claimed {
    /// It is ours.
    Won(Box<Claim>),
    /// Somebody else moved the branch first.
    Lost {
        /// Who holds it now, where HEAD tells.
        holder: Option<Holder>,
    },
}

/// Tries to claim all `candidates` at once; one answer each, in their order.
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

/// Writes the lease commit; until the branch points at it, it is nobody's.
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
    let terms = LeaseTerms {
        attempt,
        runner: options.runner_id.clone(),
        seconds: options.lease_seconds,
        source: authority.source().cloned(),
    };
    let encoded = lease_draft(&trigger, &terms)
        .encode()
        .map_err(|source| ClaimError::Message { branch: branch.clone(), source })?;
    let tree = repo.commit(trigger.commit).map_err(failed)?.tree;
    // Dated now: a signature that took longer would come too late to hold anything.
    let within = Duration::from_secs((options.lease_seconds / 2).max(1));
    let new = NewCommit { tree, parents: &[trigger.commit], message: &encoded, attempt: None };
    let lease = repo.write_commit_for(&new, Purpose::Scan, within).map_err(failed)?;
    crate::crashpoint::reach(crate::crashpoint::Point::LeaseWritten);
    let leased_at = repo.commit(lease).map_err(failed)?.committed_at;
    let message = Message::parse(&encoded);
    let seconds = options.lease_seconds;
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

/// Who holds a branch whose HEAD is `head`.
pub(crate) fn holder(repo: &Repo, head: CommitId) -> Option<Holder> {
    match Head::read(&repo.commit(head).ok()?.facts()) {
        Head::Working(lease) => Some(Holder { until: lease.expires_at(), runner: lease.runner }),
        Head::Unmanaged | Head::Invalid(_) | Head::Ready(_) => None,
    }
}
