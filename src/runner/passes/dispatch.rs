//! Claims candidates as job slots become free, and runs each on a thread of its own (CONTRACT 11.6).
//!
//! Invariant: a branch is claimed only when its command can start at once, so at most `--jobs` leases of ours
//! are alive. After a stop nothing more is claimed. Candidates for which there are slots are claimed
//! together.

use std::collections::VecDeque;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::contract::ids::{BranchName, CommitId};
use crate::git::Repo;
use crate::runner::events::warning::Warning;

use crate::runner::attempt::claim::{Candidate, Claimed, claim_all};
use crate::runner::attempt::step;
use crate::runner::events::notice::{Notice, StepReport};
use crate::runner::{Context, error_chain};

/// The outcome of a pass's candidates.
#[derive(Debug, Default)]
pub(crate) struct Dispatched {
    /// Steps that were run, in the order they ended.
    pub(crate) steps: Vec<StepReport>,
    /// The number of candidates that another runner claimed first.
    pub(crate) lost_races: usize,
    /// Candidates that could not be claimed, with the reasons.
    pub(crate) failed: Vec<Unclaimed>,
}

/// A candidate that could not be claimed.
#[derive(Debug)]
pub(crate) struct Unclaimed {
    pub(crate) branch: BranchName,
    pub(crate) head: CommitId,
    /// The error, as text.
    pub(crate) words: String,
    /// Whether the remote is the cause.
    pub(crate) remote: bool,
    /// Whether the server refused, so that a retry is of little use.
    pub(crate) refused: bool,
}

/// Claims and runs `candidates`. Returns when the last step is settled.
pub(crate) fn dispatch(context: &Context<'_>, repo: &Repo, candidates: Vec<Candidate>) -> Dispatched {
    let mut waiting: VecDeque<Candidate> = candidates.into();
    let mut done = Dispatched::default();
    let (ended, endings) = mpsc::channel::<StepReport>();
    let take = |done: &mut Dispatched, report: StepReport| {
        context.report(&Notice::Ended(report.clone()));
        done.steps.push(report);
    };
    thread::scope(|scope| {
        let mut running = 0;
        loop {
            // As many as can start at once, claimed together.
            let free = context.options.jobs.get() - running;
            let stopping = context.shutdown.cause().is_some();
            let batch: Vec<Candidate> =
                if stopping { Vec::new() } else { waiting.drain(..free.min(waiting.len())).collect() };
            let tried = !batch.is_empty();
            repo.expect_steps(waiting.len());
            let heads: Vec<CommitId> = batch.iter().map(|candidate| candidate.event.commit).collect();
            for ((branch, outcome), head) in
                claim_all(repo, context.authority, context.options, batch).into_iter().zip(heads)
            {
                match outcome {
                    Ok(Claimed::Won(claimed)) => {
                        running += 1;
                        let ended = ended.clone();
                        scope.spawn(move || {
                            let report = step::run(context, *claimed);
                            // The receiver lives as long as this scope.
                            if ended.send(report).is_err() {
                                tracing::error!("a step ended after its pass");
                            }
                        });
                    }
                    Ok(Claimed::Lost { holder }) => {
                        done.lost_races += 1;
                        context.report(&Notice::LostRace { branch, holder });
                    }
                    Err(error) => {
                        let words = error_chain(&error);
                        let (remote, refused) = (error.is_remote(), error.is_refused());
                        context.warn(Some(&branch), Warning::NotClaimed { why: words.clone(), remote });
                        done.failed.push(Unclaimed { branch, head, words, remote, refused });
                    }
                }
            }
            if tried && running < context.options.jobs.get() && !waiting.is_empty() {
                continue;
            }
            if running == 0 {
                break;
            }
            // Starts the watchdog, if it does not run yet, while the first commands get their worktrees.
            context.watchdog.ready();
            let report = endings.recv().expect("a running step holds a sender");
            running -= 1;
            take(&mut done, report);
            // Slots that become free at about the same time are filled by one claim.
            let linger = if waiting.is_empty() { Duration::ZERO } else { context.authority.linger() };
            while running > 0
                && let Ok(report) = endings.recv_timeout(linger)
            {
                running -= 1;
                take(&mut done, report);
            }
        }
    });
    done
}
