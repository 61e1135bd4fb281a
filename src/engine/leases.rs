//! Leases of a driver whose attempts are in no ledger yet (CONTRACT 20.5, 20.8).
//!
//! Invariant: an attempt that was interrupted writes nothing, since its host is being stopped. The driver's commits have
//! it, and the next attempt of the run, or the next command of a person that moves the driver, records it. So limits
//! count it, whatever host goes on.

use std::time::Duration;

use crate::contract::head::{Event, Head};
use crate::contract::ids::CommitId;
use crate::contract::requeue::interrupted_before;
use crate::contract::unable::handed_back;
use crate::crashpoint::{Point, reach};
use crate::flow::document::{Act, Flow, Step};
use crate::flow::due::{Due, INTERRUPTED, due};
use crate::git::Repo;
use crate::ledger::{Ledger, LedgerError};
use crate::model::decide::{Command, EndedStep, StepStart};
use crate::model::state::State;
use crate::model::step::{Outcome, Record};
use crate::model::time::Timestamp;
use crate::workspace::refusal::{Refusal, Why};

use super::attempt::id_of;
use super::driver::{MOST_READ, STEP, TURN};
use super::{Engine, FLOW, now};

/// How often a record is worked out anew.
const TRIES: u32 = 50;

/// The evidence of an attempt that was interrupted. Another host may record it.
fn why(runner: &str) -> String {
    if runner.is_empty() {
        "its runner was stopped".to_owned()
    } else {
        format!("its runner {runner} was stopped")
    }
}

/// The evidence of an attempt that was cut off.
pub(super) const CUT_OFF: &str = "its attempt was cut off";

/// A lease that was held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Held {
    /// The run id of its attempt.
    pub(super) attempt: String,
    /// Its runner.
    pub(super) runner: String,
    /// From its first commit to the commit that ended it, at the latest to its end.
    pub(super) lived: Duration,
    /// Whether it carried out a step or a turn. Others recover what was cut off.
    pub(super) of_step: bool,
    /// Whether it carried out a step or a turn, and was interrupted.
    pub(super) is_interrupted: bool,
}

/// One commit of a driver, as far as leases are concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Mark {
    /// A lease of an attempt, with its end. Whether it was taken for a step.
    Lease { attempt: String, runner: String, expires_at: i64, of_step: bool },
    /// A request that was written again. Whether after an interruption.
    Again(bool),
    /// Any other state.
    Declared,
    /// No state.
    None,
}

impl Mark {
    fn of(head: &Head) -> Self {
        match head {
            Head::Working(lease) => Self::Lease {
                attempt: lease.run_id.to_string(),
                runner: lease.runner.to_string(),
                expires_at: lease.expires_at(),
                of_step: lease.origin.as_ref().is_some_and(|state| [STEP, TURN].contains(&state.as_str())),
            },
            Head::Ready(event) => Self::of_state(event),
            Head::Invalid(_) => Self::Declared,
            Head::Unmanaged => Self::None,
        }
    }

    fn of_state(event: &Event) -> Self {
        let trailers = &event.message.trailers;
        match interrupted_before(trailers) {
            Some(_) => Self::Again(true),
            None if event.state.is_stalled() || handed_back(trailers) > 0 => Self::Again(false),
            None => Self::Declared,
        }
    }
}

/// Whether this host held a lease for an attempt, by the newest commits of a driver up to `from`.
pub(super) fn was_held(repo: &Repo, from: CommitId, attempt: &str) -> bool {
    let commits = repo.history(from).take(MOST_READ).map_while(Result::ok);
    commits.map(|commit| Head::read(&commit.facts())).any(|head| match head {
        Head::Working(lease) => lease.run_id == attempt && lease.runner == repo.runner_id(),
        Head::Ready(_) | Head::Invalid(_) | Head::Unmanaged => false,
    })
}

/// The leases since the last declared state, the newest first. `commits` are a driver's, with their dates, the newest
/// first.
fn held(commits: impl IntoIterator<Item = (i64, Mark)>) -> Vec<Held> {
    let mut found: Vec<Held> = Vec::new();
    // What ended the lease that comes next.
    let (mut above, mut is_interrupted, mut until) = (i64::MAX, false, i64::MAX);
    for (at, mark) in commits {
        match mark {
            Mark::Declared => break,
            Mark::Again(was_interrupted) => is_interrupted = was_interrupted,
            Mark::None => continue,
            Mark::Lease { attempt, runner, expires_at, of_step } => {
                // What ended a lease is directly above its newest commit.
                let is_same = found.last().is_some_and(|last| last.attempt == attempt);
                if !is_same {
                    until = above.min(expires_at);
                    let is_interrupted = std::mem::take(&mut is_interrupted) && of_step;
                    found.push(Held { attempt, runner, lived: Duration::ZERO, of_step, is_interrupted });
                }
                let seconds = u64::try_from(until.saturating_sub(at)).unwrap_or(0);
                if let Some(last) = found.last_mut() {
                    last.lived = Duration::from_secs(seconds);
                }
            }
        }
        above = at;
    }
    found
}

/// The leases below a commit of a driver since its last declared state, the newest first.
pub(super) fn held_below(repo: &Repo, head: CommitId) -> Vec<Held> {
    let commits = repo.history(head).take(MOST_READ).map_while(Result::ok);
    held(commits.map(|commit| (commit.committed_at, Mark::of(&Head::read(&commit.facts())))))
}

/// The lease of the step or turn that was cut off, below a commit of a driver. `None` if that is not `stalled`. The attempts
/// that were to recover it, and were cut off as well, are above it.
pub(super) fn cut_off_below(repo: &Repo, head: CommitId) -> Option<Held> {
    let commit = repo.commit(head).ok()?;
    let Head::Ready(event) = Head::read(&commit.facts()) else { return None };
    if !event.state.is_stalled() {
        return None;
    }
    held_below(repo, head).into_iter().find(|held| held.of_step)
}

impl Engine<'_> {
    /// Records the attempts that were interrupted below a commit of the driver. Returns whether there are any.
    pub(super) fn record_interrupted(
        &self,
        ledger: &mut Ledger<'_>,
        flow: &Flow,
        head: CommitId,
    ) -> Result<bool, Refusal> {
        self.record_lost(ledger, flow, head, None)
    }

    /// The same for a person who moves a driver, also from `stalled`. Then the attempt that was cut off is recorded as well:
    /// nothing recovers it any more. What the person asks for may be tried once, whatever retries are left.
    pub(super) fn record_before_person(
        &self,
        ledger: &mut Ledger<'_>,
        flow: &Flow,
        head: CommitId,
    ) -> Result<(), Refusal> {
        self.record_lost(ledger, flow, head, cut_off_below(self.repo, head)).map(drop)
    }

    fn record_lost(
        &self,
        ledger: &mut Ledger<'_>,
        flow: &Flow,
        head: CommitId,
        cut_off: Option<Held>,
    ) -> Result<bool, Refusal> {
        let mut lost = held_below(self.repo, head);
        let is_cut_off = |held: &Held| cut_off.as_ref().is_some_and(|one| one.attempt == held.attempt);
        lost.retain(|held| held.is_interrupted || is_cut_off(held));
        lost.reverse();
        for _ in 0..TRIES {
            let state = &ledger.tip().state;
            let is_new = |held: &&Held| !state.steps.values().any(|step| step.is_of_lease(&held.attempt));
            let new: Vec<Held> = lost.iter().filter(is_new).cloned().collect();
            let step = match due(flow, &state.run, &state.steps) {
                Due::Step { step, .. } if !matches!(step.act, Act::Gate(_)) => step,
                _ => return Ok(false),
            };
            if new.is_empty() || state.run.status.is_ended() {
                return Ok(!lost.is_empty());
            }
            let commands = self.interrupted(ledger, step, &new)?;
            match ledger.operate_on_this(&self.op()?, &commands, &[]) {
                Ok(_) => reach(Point::InterruptedRecorded),
                Err(LedgerError::Moved { .. }) => ledger.refresh()?,
                Err(error) => return Err(error.into()),
            }
        }
        let slug = &ledger.tip().state.run.slug;
        Err(Refusal::new(Why::Conflict, format!("the ledger of run {slug} moves all the time; try again")))
    }

    /// The commands that record attempts of a step that were interrupted or cut off.
    fn interrupted(
        &self,
        ledger: &mut Ledger<'_>,
        step: &Step,
        lost: &[Held],
    ) -> Result<Vec<Command>, Refusal> {
        let here = self.marked(ledger.tip().state.run.id, FLOW);
        let mut commands = Vec::new();
        for (number, held) in (ledger.tip().state.run.counts.steps + 1..).zip(lost) {
            let started = ago(held.lived)?;
            let (why, flag) = match held.is_interrupted {
                true => (why(&held.runner), Some(INTERRUPTED.to_owned())),
                false => (CUT_OFF.to_owned(), None),
            };
            // The files of another one are on its host.
            let (usage, artifacts) = match &here {
                Some(here) if *here == held.attempt => self.killed_record(
                    ledger,
                    (&id_of(step)?, step.opcode(), number),
                    (started, &why),
                    |_| Ok(()),
                )?,
                _ => (None, Vec::new()),
            };
            let record = Record {
                cut_off: true,
                outage: true,
                lease: Some(held.attempt.clone()),
                flags: flag.into_iter().collect(),
                usage,
                ..Record::default()
            };
            let end =
                EndedStep { record, artifacts, ..EndedStep::new(number, Outcome::Error, None, Some(why)) };
            commands.extend(lost_step(&ledger.tip().state, step, started, end)?);
        }
        Ok(commands)
    }
}

/// The commands that record an attempt of a step that did not record itself.
pub(super) fn lost_step(
    state: &State,
    step: &Step,
    started_at: Timestamp,
    end: EndedStep,
) -> Result<Vec<Command>, Refusal> {
    let usage_of = state.nodes.keys().next().map(|node| (*node, None));
    let start = StepStart { id: id_of(step)?, opcode: step.opcode(), started_at: Some(started_at) };
    Ok(vec![Command::StartStep(start), Command::EndStep(Box::new(EndedStep { usage_of, ..end }))])
}

/// The beginning of something that took so long and ends now.
pub(super) fn ago(time: Duration) -> Result<Timestamp, Refusal> {
    let at = now()?;
    let time = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
    Ok(Timestamp::from_millis(at.millis().saturating_sub(time)).unwrap_or(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(attempt: &str) -> Mark {
        Mark::Lease { attempt: attempt.to_owned(), runner: String::new(), expires_at: 100, of_step: true }
    }

    /// CONTRACT 20.5, 20.8
    #[test]
    fn leases_since_the_last_declared_state() {
        let recovers =
            Mark::Lease { attempt: "r".to_owned(), runner: String::new(), expires_at: 100, of_step: false };
        let (again, back) = (Mark::Again(true), Mark::Again(false));
        for (what, commits, expected) in [
            ("nothing", vec![], vec![]),
            ("a step that is due", vec![(9, Mark::Declared), (5, lease("a"))], vec![]),
            ("interrupted", vec![(9, again.clone()), (5, lease("a"))], vec![("a", 4, true)]),
            (
                "the lease of who asks",
                vec![(9, lease("b")), (8, again.clone()), (5, lease("a"))],
                vec![("b", 91, false), ("a", 3, true)],
            ),
            (
                "renewed",
                vec![
                    (9, again.clone()),
                    (7, lease("a")),
                    (5, lease("a")),
                    (2, Mark::Declared),
                    (1, lease("z")),
                ],
                vec![("a", 4, true)],
            ),
            (
                "twice",
                vec![(9, again.clone()), (7, lease("b")), (5, again.clone()), (4, lease("a"))],
                vec![("b", 2, true), ("a", 1, true)],
            ),
            (
                "then handed back",
                vec![(9, back.clone()), (7, lease("b")), (5, again.clone()), (4, lease("a"))],
                vec![("b", 2, false), ("a", 1, true)],
            ),
            ("killed", vec![(200, back.clone()), (5, lease("a"))], vec![("a", 95, false)]),
            (
                "what follows a kill was interrupted",
                vec![(9, again.clone()), (8, recovers.clone()), (7, back.clone()), (5, lease("a"))],
                vec![("r", 1, false), ("a", 2, false)],
            ),
            (
                "its recovery was cut off as well",
                vec![(9, back.clone()), (8, recovers), (7, back), (5, lease("a"))],
                vec![("r", 1, false), ("a", 2, false)],
            ),
            (
                "commits without a state",
                vec![(9, again), (8, Mark::None), (5, lease("a"))],
                vec![("a", 4, true)],
            ),
        ] {
            let found = held(commits);
            assert!(found.iter().all(|one| one.of_step == (one.attempt != "r")), "{what}");
            let found: Vec<_> = found
                .iter()
                .map(|one| (one.attempt.as_str(), one.lived.as_secs(), one.is_interrupted))
                .collect();
            assert_eq!(found, expected, "{what}");
        }
    }
}
