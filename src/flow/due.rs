//! The due step of a run of a flow, by the steps that it has made.
//!
//! Invariant: it follows from the flow and the steps alone, so any host concludes the same, and a step that has ended is
//! never due again.

use std::collections::BTreeMap;

use super::document::{Flow, Route, STOP, Step, word_of};
use crate::model::run::Run;
use crate::model::step::{Opcode, Outcome, Step as Done};

/// A due act.
#[derive(Debug, Clone, PartialEq)]
pub enum Due<'f> {
    /// This attempt of a visit of a step.
    Step {
        /// The step.
        step: &'f Step,
        /// How often it was entered, with this time.
        visit: u64,
        /// The attempt of this visit.
        attempt: u64,
    },
    /// The answer to a gate that is open.
    Answer {
        /// The step.
        step: &'f Step,
        /// Its place in the run.
        number: u64,
    },
    /// The end of the run: a step led there.
    End(Option<&'f Step>),
    /// A step was entered as often as it may be.
    Exhausted {
        /// The step.
        step: &'f Step,
        /// How often.
        visits: u64,
    },
    /// Nothing: the last step ended without a route.
    NoRoute,
    /// The flow has no step of this name.
    Unknown(String),
}

/// The due act after these steps, if the run continues.
#[must_use]
pub fn due<'f>(flow: &'f Flow, run: &Run, steps: &BTreeMap<u64, Done>) -> Due<'f> {
    if let Some(wanted) = &run.continues_at {
        return enter(flow, run, steps, wanted);
    }
    let entry = || run.flow.as_ref().and_then(|frozen| frozen.begins_at.as_deref());
    let Some(last) = steps.values().next_back() else {
        return enter(flow, run, steps, entry().unwrap_or(&flow.entry_step.name));
    };
    let Some(step) = flow.step(last.id.as_str()) else { return Due::Unknown(last.id.to_string()) };
    match (&last.route, last.outcome) {
        (Some(target), _) => enter(flow, run, steps, target),
        (None, None) if last.opcode == Opcode::Gate => Due::Answer { step, number: last.number },
        // An attempt that was cut off, or one whose end somebody else wrote in part.
        (None, outcome) if outcome.is_none() || was_cut_off(last) => {
            Due::Step { step, visit: last.visit, attempt: last.attempt + 1 }
        }
        (None, _) => Due::NoRoute,
    }
}

/// Whether a step was recorded for an attempt that was cut off, and that is tried again.
#[must_use]
pub fn was_cut_off(step: &Done) -> bool {
    step.outcome == Some(Outcome::Error)
        && step.route.is_none()
        && step.record.as_ref().is_some_and(|record| record.cut_off)
}

/// The flag of an attempt that a usage limit ended: it is tried again when that is over.
pub const PARKED: &str = "parked";

/// The flag of an attempt that a limit of the flow ended: it is tried again when a person resumes the run.
pub const LIMITED: &str = "limited";

/// The flag of an attempt that was interrupted: it is tried again at once, and no retry counts it.
pub const INTERRUPTED: &str = "interrupted";

fn has_flag(step: &Done, flag: &str) -> bool {
    step.record.iter().any(|record| record.flags.iter().any(|one| one == flag))
}

/// Whether an attempt ended so that its step is tried again later.
#[must_use]
pub fn is_parked(step: &Done) -> bool {
    has_flag(step, PARKED)
}

/// Whether an attempt was interrupted: its runner was stopped.
#[must_use]
pub fn is_interrupted(step: &Done) -> bool {
    has_flag(step, INTERRUPTED)
}

/// How an execution of a step ended, in a word for people: its outcome, but for an attempt that is tried again.
#[must_use]
pub fn end_word(step: &Done) -> Option<&'static str> {
    step.outcome.map(|outcome| match step {
        _ if is_parked(step) => PARKED,
        _ if is_interrupted(step) => INTERRUPTED,
        _ => word_of(outcome),
    })
}

/// How many attempts of a step in a row were parked, until now.
#[must_use]
pub fn times_parked(steps: &BTreeMap<u64, Done>, id: &str) -> u32 {
    let newest = steps.values().rev().filter(|step| !is_interrupted(step));
    let parked = newest.take_while(|step| step.id.as_str() == id && is_parked(step));
    u32::try_from(parked.count()).unwrap_or(u32::MAX)
}

/// How many attempts of a visit of a step were cut off: those that its retries count.
#[must_use]
pub fn times_cut_off(steps: &BTreeMap<u64, Done>, id: &str, visit: u64) -> u64 {
    let is_no_retry = |step: &Done| [PARKED, LIMITED, INTERRUPTED].iter().any(|flag| has_flag(step, flag));
    let of_visit = steps.values().filter(|step| step.id.as_str() == id && step.visit == visit);
    let cut_off = of_visit.filter(|step| was_cut_off(step) && !is_no_retry(step));
    u64::try_from(cut_off.count()).unwrap_or(u64::MAX)
}

fn enter<'f>(flow: &'f Flow, run: &Run, steps: &BTreeMap<u64, Done>, target: &str) -> Due<'f> {
    let Some(step) = flow.step(target) else {
        return if target == STOP { Due::End(None) } else { Due::Unknown(target.to_owned()) };
    };
    if step.opcode() == Opcode::Stop {
        return Due::End(Some(step));
    }
    let entered = |since: u64| {
        let visits = steps.values().filter(|done| done.id.as_str() == target && done.attempt == 1);
        u64::try_from(visits.filter(|done| done.number > since).count()).unwrap_or(u64::MAX)
    };
    // A person who resumes a run lets its steps be entered as often again.
    match entered(run.counted_from) {
        visits if visits >= step.max_visits => Due::Exhausted { step, visits },
        _ => Due::Step { step, visit: entered(0) + 1, attempt: 1 },
    }
}

/// The route of an outcome, or why there is none.
pub fn route(step: &Step, outcome: Outcome) -> Result<&str, String> {
    let found = step.route(outcome).map(|Route { target, .. }| target.name.as_str());
    found.ok_or_else(|| format!("no route for {} at {}", super::document::word_of(outcome), step.id))
}
