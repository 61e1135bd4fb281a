//! Claims candidates as places become free, and runs each on a thread of its own (CONTRACT.md §11).
//!
//! Invariant: no branch is claimed before its command can start at once, so at most `--jobs` leases of ours are
//! alive, and a stop claims nothing more. Candidates that fit together are claimed together.

use std::collections::VecDeque;
use std::sync::mpsc;
use std::thread;

use crate::git::Repo;

use super::claim::{Claimed, claim};
use super::notice::{Notice, StepReport};
use super::scan::Candidate;
use super::{Context, error_words, step};

/// What became of a pass's candidates.
#[derive(Debug, Default)]
pub struct Dispatched {
    /// Steps that were run, in the order they ended.
    pub steps: Vec<StepReport>,
    /// Candidates somebody else took first.
    pub beaten: usize,
    /// Candidates that could not be claimed, with the reasons.
    pub failed: Vec<String>,
}

/// Claims and runs `candidates`; returns when the last step is settled.
pub fn dispatch(context: &Context<'_>, repo: &Repo, candidates: Vec<Candidate>) -> Dispatched {
    let mut waiting: VecDeque<Candidate> = candidates.into();
    let mut done = Dispatched::default();
    let (ended, endings) = mpsc::channel::<StepReport>();
    let take = |done: &mut Dispatched, report: StepReport| {
        (context.tell)(Notice::Ended(report.clone()));
        done.steps.push(report);
    };
    thread::scope(|scope| {
        let mut running = 0;
        loop {
            while running < context.options.jobs.get() && context.shutdown.requested().is_none() {
                let Some(candidate) = waiting.pop_front() else { break };
                let branch = candidate.branch.clone();
                match claim(repo, context.arbiter, context.options, candidate) {
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
                        done.beaten += 1;
                        (context.tell)(Notice::Beaten { branch, holder });
                    }
                    Err(error) => {
                        let words = error_words(&error);
                        (context.tell)(Notice::Warning { branch: Some(branch), text: words.clone() });
                        done.failed.push(words);
                    }
                }
            }
            if running == 0 {
                break;
            }
            let report = endings.recv().expect("a running step holds a sender");
            running -= 1;
            take(&mut done, report);
        }
    });
    done
}
