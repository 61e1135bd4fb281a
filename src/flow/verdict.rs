//! The verdict of a run of a flow: the class of its last outcome that is not of a ROLLBACK.

use crate::model::run::{RunStatus, Verdict};
use crate::model::state::State;
use crate::model::step::{Opcode, Outcome, Step};
use crate::model::workspace::Workspace;

/// The verdict of a run that ended at a STOP, or because no route fits.
#[must_use]
pub fn verdict(state: &State) -> Verdict {
    let ended = || state.steps.values().rev().filter(|step| step.ended_at.is_some());
    let last = ended().find(|step| step.opcode != Opcode::Rollback).and_then(|step| step.outcome);
    let of_outcome = match last {
        None | Some(Outcome::Completed | Outcome::Success | Outcome::GateApproved) => Verdict::Succeeded,
        Some(Outcome::GateRejected) => Verdict::Rejected,
        Some(Outcome::KilledTimeout | Outcome::KilledIdle | Outcome::GateTimedOut) => Verdict::TimedOut,
        Some(
            Outcome::Error
            | Outcome::KilledPolicy
            | Outcome::Partial
            | Outcome::Blocked
            | Outcome::Unsafe
            | Outcome::NeedsHuman,
        ) => Verdict::Failed,
    };
    match (of_outcome, last_change(state)) {
        // Work that was rolled back is gone, whatever was said of it before.
        (Verdict::Succeeded, _) if is_undone(state) => Verdict::Stopped,
        // Work that is not wanted is still there.
        (Verdict::Succeeded, Some(change)) if change.opcode == Opcode::Rollback => Verdict::Failed,
        _ => of_outcome,
    }
}

/// The last step of a run that changed its work, or should have. A rollback that a person took back is none.
fn last_change(state: &State) -> Option<&Step> {
    let is_back = |one: &Workspace| one.rolled_back_after.is_none() && one.head_sha != one.base_sha;
    let is_taken_back = state.workspaces.values().any(is_back);
    let changes = |step: &&Step| match step.opcode {
        Opcode::RunAgent => true,
        Opcode::Rollback => !(is_taken_back && step.outcome == Some(Outcome::Completed)),
        _ => false,
    };
    state.steps.values().rev().filter(|step| step.ended_at.is_some()).find(changes)
}

/// Whether the last change of a run put its work back to the base: a step, or a person after it.
#[must_use]
pub fn is_undone(state: &State) -> bool {
    let last = last_change(state);
    let by_person = state.workspaces.values().filter_map(|workspace| workspace.rolled_back_after).max();
    by_person.is_some_and(|after| last.is_none_or(|last| last.number <= after))
        || last
            .is_some_and(|last| last.opcode == Opcode::Rollback && last.outcome == Some(Outcome::Completed))
}

/// The status of a run with this verdict.
#[must_use]
pub fn status(verdict: Verdict) -> RunStatus {
    match verdict {
        Verdict::Succeeded => RunStatus::Completed,
        Verdict::Stopped => RunStatus::Stopped,
        Verdict::Rejected | Verdict::TimedOut | Verdict::Failed | Verdict::Stalled => RunStatus::Failed,
    }
}
