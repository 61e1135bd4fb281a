//! The rules for an EVALUATE step.

use super::{check_target, is_end, outcome_word};
use crate::flow::document::{Evaluate, Flow, STOP, Step, outcomes_of};
use crate::flow::fault::Notes;
use crate::flow::fields::listed;
use crate::model::step::{Opcode, Outcome};

/// Checks that every answer of the planner has a route, and that the routes are allowed and safe.
pub(super) fn check(flow: &Flow, step: &Step, evaluate: &Evaluate, notes: &mut Notes) {
    let allowed = &evaluate.allowed_next_steps;
    for target in allowed {
        check_target(flow, target, &[], notes);
    }
    let without = outcomes_of(Opcode::Evaluate).iter().filter(|(_, outcome)| step.route(*outcome).is_none());
    let without: Vec<&str> = without.map(|(word, _)| *word).collect();
    if !without.is_empty() && !step.routes.is_empty() {
        let what = format!("{} has no route for {}", step.id, listed(without));
        notes.fault(step.routes_at, what, "an EVALUATE step needs a route for each of its five outcomes");
    }
    for route in &step.routes {
        let (target, word) = (&route.target.name, outcome_word(route.outcome));
        let Some(opcode) = flow.step(target).map(Step::opcode).or((target == STOP).then_some(Opcode::Stop))
        else {
            continue;
        };
        if target != STOP && !allowed.iter().any(|step| step.name == *target) {
            let what = format!("{target} is not in `allowed_next_steps` of {}", step.id);
            notes.fault(route.target.at, what, "add it there, or lead the route elsewhere");
        }
        let safe = match route.outcome {
            Outcome::Unsafe => Some((Opcode::Rollback, "ROLLBACK")),
            Outcome::NeedsHuman => Some((Opcode::Gate, "GATE")),
            _ => None,
        };
        if let Some((safe, name)) = safe
            && opcode != safe
            && !is_end(flow, target)
        {
            let what = format!("{word} leads to {target}");
            notes.fault(route.target.at, what, format!("lead it to a {name} step or to {STOP}"));
        }
    }
}
