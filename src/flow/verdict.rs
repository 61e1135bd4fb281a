//! What became of a run of a flow: the class of its last outcome that is not of a ROLLBACK.

use std::collections::BTreeMap;

use crate::model::run::{RunStatus, Verdict};
use crate::model::step::{Opcode, Outcome, Step};

/// The verdict of a run that ended at a STOP, or because no route fits.
#[must_use]
pub fn verdict(steps: &BTreeMap<u64, Step>) -> Verdict {
    let ended = || steps.values().rev().filter(|step| step.ended_at.is_some());
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
    // What was rolled back is not there, whatever somebody said about it before.
    let changes = |step: &&Step| matches!(step.opcode, Opcode::RunAgent | Opcode::Rollback);
    let is_undone = ended()
        .find(changes)
        .is_some_and(|step| step.opcode == Opcode::Rollback && step.outcome == Some(Outcome::Completed));
    if is_undone && of_outcome == Verdict::Succeeded { Verdict::Stopped } else { of_outcome }
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
