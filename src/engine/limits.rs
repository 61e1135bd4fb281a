//! When a run rests by itself: a limit of its flow was reached, or its steps go round in circles (CONTRACT 20.8).
//!
//! Invariant: what counts is in the ledger, so no host and no restart counts anew. Attempts that were cut off or parked
//! count too; only waiting does not.

use std::time::Duration;

use serde_json::{Map, json};

use crate::flow::document::Flow;
use crate::flow::rounds::{Round, stuck};
use crate::model::decide::Command;
use crate::model::limits::number;
use crate::model::run::Usage;
use crate::model::state::State;
use crate::model::step::{Opcode, Step};
use crate::model::trace::Halted;

use super::driver::{GATE, Next};

/// Why a run does not begin its next step.
pub(super) fn halted(flow: &Flow, state: &State) -> Option<(Vec<Command>, Next)> {
    let usage = |of: fn(&Usage) -> f64| -> f64 {
        counted(state).filter_map(|step| step.record.as_ref()?.usage.as_ref().map(of)).sum()
    };
    let limits = &flow.limits;
    let reached = [
        ("wall_seconds", limits.wall_seconds.map(number), wall_time(state).as_secs_f64()),
        ("tokens", limits.tokens.map(number), usage(|usage| number(usage.total_tokens))),
        ("cost_usd", limits.cost_usd, usage(|usage| usage.cost_usd.unwrap_or(0.0).max(0.0))),
    ];
    for (limit, bound, value) in reached {
        if let Some(bound) = bound.filter(|bound| value >= *bound) {
            let why = format!("the limit {limit} of {bound} was reached");
            let cause = Halted::Limit { node_id: None, limit: limit.to_owned(), value, bound };
            return Some(paused(state, cause, why));
        }
    }
    let rounds = rounds(state);
    let last = rounds.last()?;
    let found = stuck(&rounds)?;
    let evidence = Map::from_iter([
        ("step".to_owned(), json!(last.step)),
        ("period".to_owned(), json!(found)),
        ("visits".to_owned(), json!(rounds.iter().filter(|round| round.step == last.step).count())),
        ("tree".to_owned(), json!(last.tree)),
    ]);
    let why = format!("{} goes round in circles", last.step);
    Some(paused(state, Halted::Stalled { evidence }, why))
}

/// The commands and the state that pause a run.
pub(super) fn paused(state: &State, cause: Halted, why: String) -> (Vec<Command>, Next) {
    let wait = format!("{why}: `aynig flow resume {}`", state.run.slug);
    let halt = Command::Halt { cause, waits_for: wait.clone() };
    let next =
        Next { state: GATE, subject: format!("flow-gate: {why}"), waits_for: Some(wait), ..Next::default() };
    (vec![halt], next)
}

/// The steps that limits count.
fn counted(state: &State) -> impl Iterator<Item = &Step> {
    state.steps.values().filter(|step| step.number > state.run.counted_from)
}

/// The time in which steps were carried out. A gate only waits.
fn wall_time(state: &State) -> Duration {
    let spent = counted(state).filter(|step| step.opcode != Opcode::Gate).filter_map(|step| {
        let millis = step.ended_at?.millis() - step.started_at.millis();
        u64::try_from(millis).ok()
    });
    Duration::from_millis(spent.sum())
}

/// How much time the flow leaves to the step that is due.
pub(super) fn time_left(flow: &Flow, state: &State) -> Option<Duration> {
    let limit = Duration::from_secs(flow.limits.wall_seconds?);
    Some(limit.saturating_sub(wall_time(state)).max(Duration::from_secs(1)))
}

/// The traces of visits that count for a loop.
#[must_use]
pub(super) fn rounds(state: &State) -> Vec<Round> {
    let round = |done: &Step| {
        let record = done.record.as_ref().filter(|record| !record.outage && !record.cut_off)?;
        Some(Round {
            step: done.id.to_string(),
            is_told: done.opcode == Opcode::RunAgent,
            tree: record.tree.clone()?,
            outcome: done.outcome?,
            exit_codes: record.exit_codes.clone(),
            failed_cases: record.failed_cases.clone(),
            blockers: record.blockers.clone(),
        })
    };
    counted(state).filter(|done| done.opcode != Opcode::Rollback).filter_map(round).collect()
}
