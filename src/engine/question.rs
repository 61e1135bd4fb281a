//! The question of a gate in a ledger, and what its answer comes to.

use crate::flow::document::{GATE_TOOL, Step};
use crate::flow::due::route;
use crate::model::approval::{Answer, Approval, Resolution};
use crate::model::decide::{Command, EndedStep};
use crate::model::state::State;
use crate::model::step::Outcome;
use crate::model::time::Timestamp;

/// The id of the question of a gate that is the run's `number`-th step.
pub(super) fn gate_id(number: u64) -> String {
    format!("gate-{number}")
}

/// The request of a gate.
pub(super) fn request(state: &State, number: u64) -> Option<&Approval> {
    let id = gate_id(number);
    state.approvals.values().find(|one| one.tool.name == GATE_TOOL && one.tool.id == id)
}

/// The commands that close a gate; none if it stays open.
pub(super) fn closes(state: &State, step: &Step, number: u64, now: Timestamp) -> Vec<Command> {
    let Some(approval) = request(state, number) else { return Vec::new() };
    let is_over = approval.expires_at.is_some_and(|at| at <= now);
    let (answer, reason) = match &approval.resolution {
        Some(resolution) => (resolution.status, resolution.reason.clone()),
        None if is_over => (Answer::Expired, None),
        None => return Vec::new(),
    };
    let outcome = match answer {
        Answer::Approved | Answer::Modified => Outcome::GateApproved,
        Answer::Denied => Outcome::GateRejected,
        Answer::Expired => Outcome::GateTimedOut,
    };
    let mut commands = Vec::new();
    if approval.resolution.is_none() {
        let resolution = Resolution { status: answer, modified_args: None, reason: None };
        commands.push(Command::Answer { approval: approval.id, resolution });
    }
    let route = route(step, outcome).ok().map(str::to_owned);
    commands.push(Command::EndStep(Box::new(EndedStep::new(number, outcome, route, reason))));
    commands
}
