//! Proves that proposed golden files are not taken without a person's approval.
//!
//! While a proposal is open, EVALUATE ends as `needs_human` or `unsafe`, whatever the planner says. An approval
//! closes it, and so does a ROLLBACK, which removes the files.

use std::collections::BTreeSet;

use super::{is_end, outcome_word};
use crate::flow::document::{Act, Flow, Route, Step, Validator};
use crate::flow::fault::Notes;
use crate::model::step::{Opcode, Outcome};

/// Reports ways from a proposal to a success without an approval.
pub(super) fn check(flow: &Flow, notes: &mut Notes) {
    for step in &flow.steps {
        if let Act::RunValidation(validators) = &step.act
            && validators.iter().any(Validator::proposes_goldens)
        {
            for (last, route) in unapproved(flow, step) {
                let word = outcome_word(route.outcome);
                let what = format!(
                    "golden files that {} proposes succeed here ({word} of {}) without a GATE",
                    step.id, last.id
                );
                notes.fault(
                    route.at,
                    what,
                    "lead this route to a GATE, or to an EVALUATE step that leads to one",
                );
            }
        }
    }
}

/// The routes by which a run with an open proposal of `start` would succeed.
fn unapproved<'a>(flow: &'a Flow, start: &'a Step) -> Vec<(&'a Step, &'a Route)> {
    let mut found = Vec::new();
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let mut open = vec![start];
    while let Some(step) = open.pop() {
        if !seen.insert(&step.id) {
            continue;
        }
        for route in step.routes.iter().filter(|route| stays_open(step.opcode(), route.outcome)) {
            if !is_end(flow, &route.target.name) {
                open.extend(flow.step(&route.target.name));
            } else if route.outcome == Outcome::Completed {
                found.push((step, route));
            }
        }
    }
    found
}

/// Whether a step with this opcode can end so while a proposal is open, and leave it open.
fn stays_open(opcode: Opcode, outcome: Outcome) -> bool {
    match opcode {
        Opcode::Evaluate => matches!(outcome, Outcome::NeedsHuman | Outcome::Unsafe),
        Opcode::Gate => outcome != Outcome::GateApproved,
        Opcode::Rollback => outcome != Outcome::Completed,
        Opcode::RunAgent | Opcode::RunValidation | Opcode::Stop => true,
    }
}
