//! The rules for a flow as a whole: every way through it is known, and ends.

mod goldens;
mod planner;

use std::collections::BTreeSet;

use super::document::{
    Act, Artifact, Flow, Gate, Name, OUTCOMES, RunAgent, STOP, Step, a_step, outcomes_of, word,
};
use super::fault::{Notes, Place};
use super::fields::{choose, listed};
use crate::model::step::{Opcode, Outcome};

/// Whether a target ends the run.
fn is_end(flow: &Flow, target: &str) -> bool {
    match flow.step(target) {
        Some(step) => step.opcode() == Opcode::Stop,
        None => target == STOP,
    }
}

/// Proves a flow of which every step could be read.
pub(super) fn prove(flow: &Flow, notes: &mut Notes) {
    let mut is_sound = check_ids(flow, notes);
    for step in &flow.steps {
        for route in &step.routes {
            is_sound &= check_target(flow, &route.target, &[], notes);
        }
        is_sound &= step.opcode() == Opcode::Stop || !step.routes.is_empty();
        check_outcomes(step, notes);
        match &step.act {
            Act::Evaluate(evaluate) => planner::check(flow, step, evaluate, notes),
            Act::RunAgent(agent) => check_artifacts(flow, agent, notes),
            Act::Gate(gate) => {
                check_approvers(step, gate, notes);
                check_comment(flow, step, notes);
            }
            Act::RunValidation(_) | Act::Rollback | Act::Stop { .. } => {}
        }
    }
    // Where a target is unknown, what follows from it is, too.
    if is_sound {
        check_reached(flow, notes);
        check_ends(flow, notes);
        goldens::check(flow, notes);
    }
}

fn check_ids(flow: &Flow, notes: &mut Notes) -> bool {
    let mut is_sound = true;
    let mut seen: Vec<(&str, Place)> = Vec::new();
    for step in &flow.steps {
        if let Some((_, first)) = seen.iter().find(|(id, _)| *id == step.id) {
            let what = format!("the step {} is here twice, first in line {}", step.id, first.line);
            notes.fault(step.at, what, "give it another id");
            is_sound = false;
        }
        seen.push((&step.id, step.at));
    }
    // A name that is empty was reported.
    if flow.entry_step.name.is_empty() {
        return false;
    }
    is_sound & check_target(flow, &flow.entry_step, &[], notes)
}

/// Checks the targets of a flow with steps that could not be read: of these only the ids are known.
pub(super) fn check_targets(flow: &Flow, unread: &[String], notes: &mut Notes) {
    let routes = flow.steps.iter().flat_map(|step| &step.routes).map(|route| &route.target);
    for target in routes.chain(Some(&flow.entry_step).filter(|entry| !entry.name.is_empty())) {
        check_target(flow, target, unread, notes);
    }
}

/// Reports a target that there is not.
fn check_target(flow: &Flow, target: &Name, unread: &[String], notes: &mut Notes) -> bool {
    let Name { at, name } = target;
    let is_entry = *at == flow.entry_step.at;
    let exists = flow.step(name).is_some() || unread.contains(name) || (name == STOP && !is_entry);
    if !exists {
        let ids = flow.steps.iter().map(|step| step.id.as_str()).chain(unread.iter().map(String::as_str));
        let ids: Vec<&str> = ids.collect();
        let stop = (!is_entry).then_some(STOP);
        notes.fault(*at, format!("there is no step {name}"), choose(name, ids.into_iter().chain(stop)));
    }
    exists
}

/// Names the outcomes without a route. A planner's are faults, which [`planner`] reports.
fn check_outcomes(step: &Step, notes: &mut Notes) {
    let wanted = |outcome: Outcome| match step.opcode() {
        Opcode::Evaluate | Opcode::Stop => false,
        Opcode::Rollback => matches!(outcome, Outcome::Completed | Outcome::Error),
        Opcode::Gate => outcome != Outcome::GateTimedOut || step.timeout_seconds.is_some(),
        Opcode::RunAgent | Opcode::RunValidation => true,
    };
    let all = outcomes_of(step.opcode()).iter();
    let without: Vec<&str> = all
        .filter(|(_, outcome)| wanted(*outcome) && step.route(*outcome).is_none())
        .map(|(word, _)| *word)
        .collect();
    if let (Some(first), false) = (without.first(), step.routes.is_empty()) {
        let words = listed(without.iter().copied());
        let what = format!("{} has no route for {words}", step.id);
        let them = if without.len() == 1 { "it" } else { "them" };
        let instead =
            format!("add {them}, else the run ends there with `no route for {first} at {}`", step.id);
        notes.warn(step.routes_at, what, instead);
    }
}

/// Reports artifacts that no step of the flow makes.
fn check_artifacts(flow: &Flow, agent: &RunAgent, notes: &mut Notes) {
    let has = |opcode: Opcode| flow.steps.iter().any(|step| step.opcode() == opcode);
    for input in &agent.inputs {
        let maker = match input {
            Artifact::Diff => continue,
            Artifact::ValidationReport => ("validation_report", Opcode::RunValidation),
            Artifact::FixInstructions => ("fix_instructions", Opcode::Evaluate),
            Artifact::Response(Name { at, name }) => {
                match flow.step(name).map(Step::opcode) {
                    Some(Opcode::RunAgent | Opcode::Gate) => {}
                    Some(opcode) => {
                        let what = format!("{name} is {}, without a response", a_step(opcode));
                        notes.fault(*at, what, "name a RUN_AGENT or a GATE step");
                    }
                    None => {
                        let answer = |step: &&Step| matches!(step.opcode(), Opcode::RunAgent | Opcode::Gate);
                        let ids: Vec<&str> =
                            flow.steps.iter().filter(answer).map(|step| step.id.as_str()).collect();
                        notes.fault(*at, format!("there is no step {name}"), choose(name, ids));
                    }
                }
                continue;
            }
        };
        if !has(maker.1) {
            let what = format!("no step makes {}", maker.0);
            notes.warn(agent.prompt.at, what, format!("add {}, or leave it out", a_step(maker.1)));
        }
    }
}

/// Reports an agent that takes over after a rejection and is not handed its reason.
fn check_comment(flow: &Flow, gate: &Step, notes: &mut Notes) {
    let mut next = gate.route(Outcome::GateRejected);
    // A way back to the base often comes first.
    for _ in &flow.steps {
        let Some(step) = next.and_then(|route| flow.step(&route.target.name)) else { return };
        match &step.act {
            Act::Rollback => next = step.route(Outcome::Completed),
            Act::RunAgent(agent) => {
                let is_comment =
                    |input: &Artifact| matches!(input, Artifact::Response(from) if from.name == gate.id);
                if !agent.inputs.iter().any(is_comment) {
                    let what = format!("{} is not handed the comment of a rejection at {}", step.id, gate.id);
                    notes.warn(agent.prompt.at, what, format!("add {}.response to its inputs", gate.id));
                }
                return;
            }
            _ => return,
        }
    }
}

/// Reports a gate that needs more people than may answer. A label can stand for several people.
fn check_approvers(step: &Step, gate: &Gate, notes: &mut Notes) {
    let Gate { approvers, required, .. } = gate;
    let are_people = approvers.iter().all(|one| one.contains('@') || one.starts_with("key:"));
    let count = approvers.iter().collect::<BTreeSet<_>>().len();
    if are_people && count > 0 && u64::try_from(count).is_ok_and(|count| count < *required) {
        let what = format!("the gate {} needs {required} people, and {count} may answer", step.id);
        notes.fault(step.at, what, "name more approvers, or require fewer");
    }
}

/// Reports steps to which nothing leads.
fn check_reached(flow: &Flow, notes: &mut Notes) {
    let mut reached: BTreeSet<&str> = BTreeSet::new();
    let mut open = vec![flow.entry_step.name.as_str()];
    while let Some(id) = open.pop() {
        if let Some(step) = flow.step(id)
            && reached.insert(id)
        {
            open.extend(step.routes.iter().map(|route| route.target.name.as_str()));
        }
    }
    let lost = |step: &&Step| !reached.contains(step.id.as_str()) && !step.allow_unreachable;
    for step in flow.steps.iter().filter(lost) {
        let what = format!("no route leads to {} from {}", step.id, flow.entry_step.name);
        notes.fault(step.at, what, "add one, remove the step, or give it `allow_unreachable: true`");
    }
}

/// Reports steps from which no route leads to an end.
fn check_ends(flow: &Flow, notes: &mut Notes) {
    let mut ending: BTreeSet<&str> = BTreeSet::new();
    loop {
        let ends = |step: &&Step| {
            let leads = |target: &str| is_end(flow, target) || ending.contains(target);
            !ending.contains(step.id.as_str())
                && (step.opcode() == Opcode::Stop
                    || step.routes.iter().any(|route| leads(&route.target.name)))
        };
        let more: Vec<&str> = flow.steps.iter().filter(ends).map(|step| step.id.as_str()).collect();
        if more.is_empty() {
            break;
        }
        ending.extend(more);
    }
    if ending.is_empty() {
        let instead = format!("let one lead to {STOP}, as in `completed: {STOP}`");
        notes.fault(flow.entry_step.at, "no route of the flow leads to an end", instead);
        return;
    }
    for step in flow.steps.iter().filter(|step| !ending.contains(step.id.as_str())) {
        let what = format!("from {} no route leads to an end", step.id);
        notes.fault(
            step.routes_at,
            what,
            format!("let one of its routes, or of those that follow, lead to {STOP}"),
        );
    }
}

/// The words of outcomes, for messages.
fn outcome_word(outcome: Outcome) -> &'static str {
    word(&OUTCOMES, &outcome)
}
