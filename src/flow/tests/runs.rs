//! The due step and the verdict of a run: tables over the steps that it has made.

use std::collections::BTreeMap;

use uuid::Uuid;

use crate::flow::check;
use crate::flow::document::Flow;
use crate::flow::due::{
    Due, INTERRUPTED, LIMITED, PARKED, due, end_word, route, times_cut_off, times_parked,
};
use crate::flow::verdict::{status, verdict};
use crate::model::by::By;
use crate::model::decide::{NewRun, Op, create};
use crate::model::ids::{OpId, StepId};
use crate::model::run::{FrozenFlow, Run, RunKind, RunStatus, Verdict};
use crate::model::state::State;
use crate::model::step::{Opcode, Outcome, Record, Step};
use crate::model::tests::new_run;
use crate::model::time::Timestamp;

const FLOW: &str = "workflow_id: test\nversion: 1\nentry_step: work\nsteps:\n\
    - {id: work, opcode: RUN_AGENT, agent: any, prompt: p, max_visits: 3, routes: {completed: ask, error: undo}}\n\
    - {id: ask, opcode: GATE, gate: result, routes: {gate_approved: end, gate_rejected: undo}}\n\
    - {id: undo, opcode: ROLLBACK, target: pre_run, routes: {completed: work}}\n\
    - {id: end, opcode: STOP}\n";

fn flow() -> Flow {
    let checked = check(FLOW.as_bytes());
    checked.flow.unwrap_or_else(|| panic!("{:?}", checked.notes))
}

fn time() -> Timestamp {
    Timestamp::from_millis(1_800_000_000_000).expect("a time")
}

fn state() -> State {
    let frozen = FrozenFlow {
        workflow_id: "test".to_owned(),
        version: 1,
        file: "00".to_owned(),
        inputs: BTreeMap::new(),
        begins_at: None,
        forked_from: None,
    };
    let new = NewRun { flow: Some(frozen), ..new_run(7, RunKind::Flow) };
    let by = By::Runner { runner: "host".to_owned() };
    let op = Op { id: OpId::from(Uuid::from_u128(1)), at: time(), by };
    create(&new, &op).expect("a run").state
}

fn run() -> Run {
    state().run
}

fn state_after(words: &[&str]) -> State {
    State { steps: steps(words), ..state() }
}

/// A step of a run: `work completed ask` for what ended with a route, `work error` without one, `work` while it is under
/// way. `work cut` is an attempt that was cut off, `work parked`, `work limited` and
/// `work interrupted` one that is tried again.
fn step(steps: &BTreeMap<u64, Step>, words: &str) -> Step {
    let mut words = words.split(' ');
    let id = words.next().expect("a name");
    let (outcome, flag) = match words.next() {
        None => (None, None),
        Some(word @ ("cut" | PARKED | LIMITED | INTERRUPTED)) => (Some(Outcome::Error), Some(word)),
        Some(word) => (Some(outcome(word)), None),
    };
    let opcode = match id {
        "ask" => Opcode::Gate,
        "undo" => Opcode::Rollback,
        "end" => Opcode::Stop,
        "judge" => Opcode::Evaluate,
        "test" => Opcode::RunValidation,
        _ => Opcode::RunAgent,
    };
    let number = |count: usize| u64::try_from(count).expect("a small number") + 1;
    let (visit, attempt) = match steps.values().next_back() {
        Some(last) if last.id.as_str() == id && last.route.is_none() => (last.visit, last.attempt + 1),
        _ => (number(steps.values().filter(|one| one.id.as_str() == id && one.attempt == 1).count()), 1),
    };
    let flags = flag.filter(|flag| *flag != "cut").map(str::to_owned).into_iter().collect();
    let record = Record { cut_off: flag.is_some(), flags, ..Record::default() };
    Step {
        number: number(steps.len()),
        id: StepId::parse(id).expect("a step"),
        opcode,
        visit,
        attempt,
        started_at: time(),
        ended_at: outcome.map(|_| time()),
        outcome,
        route: words.next().map(str::to_owned),
        evidence: None,
        host: None,
        record: outcome.map(|_| Box::new(record)),
        artifacts: BTreeMap::new(),
    }
}

fn steps(words: &[&str]) -> BTreeMap<u64, Step> {
    let mut steps = BTreeMap::new();
    for words in words {
        let step = step(&steps, words);
        steps.insert(step.number, step);
    }
    steps
}

const OUTCOMES: [(&str, Outcome, Verdict); 13] = [
    ("completed", Outcome::Completed, Verdict::Succeeded),
    ("error", Outcome::Error, Verdict::Failed),
    ("killed_timeout", Outcome::KilledTimeout, Verdict::TimedOut),
    ("killed_idle", Outcome::KilledIdle, Verdict::TimedOut),
    ("killed_policy", Outcome::KilledPolicy, Verdict::Failed),
    ("success", Outcome::Success, Verdict::Succeeded),
    ("partial", Outcome::Partial, Verdict::Failed),
    ("blocked", Outcome::Blocked, Verdict::Failed),
    ("unsafe", Outcome::Unsafe, Verdict::Failed),
    ("needs_human", Outcome::NeedsHuman, Verdict::Failed),
    ("gate_approved", Outcome::GateApproved, Verdict::Succeeded),
    ("gate_rejected", Outcome::GateRejected, Verdict::Rejected),
    ("gate_timed_out", Outcome::GateTimedOut, Verdict::TimedOut),
];

fn outcome(word: &str) -> Outcome {
    OUTCOMES.iter().find(|(name, _, _)| *name == word).unwrap_or_else(|| panic!("{word}")).1
}

/// CONTRACT 20.7
#[test]
fn the_verdict_is_the_class_of_the_last_outcome_that_is_not_of_a_rollback() {
    for (word, _, expected) in OUTCOMES {
        let last = match word {
            "success" | "partial" | "blocked" | "unsafe" | "needs_human" => "judge",
            "gate_approved" | "gate_rejected" | "gate_timed_out" => "ask",
            _ => "work",
        };
        let last = format!("{last} {word} STOP");
        let undone = if expected == Verdict::Succeeded { Verdict::Stopped } else { expected };
        let unclean = if expected == Verdict::Succeeded { Verdict::Failed } else { expected };
        for (before, after, expected) in [
            (None, None, expected),
            (Some("work completed ask"), None, expected),
            // Work that was rolled back is gone, and work that a failed rollback left is not wanted.
            (Some("work completed ask"), Some("undo completed STOP"), undone),
            (Some("work completed ask"), Some("undo error STOP"), unclean),
            (None, Some("undo completed STOP"), undone),
        ] {
            let words: Vec<&str> = before.into_iter().chain([last.as_str()]).chain(after).collect();
            assert_eq!(verdict(&state_after(&words)), expected, "{words:?}");
        }
        // An approval after a rollback is about nothing, unless an agent has worked since.
        let undone_before = if last.starts_with("work") { expected } else { undone };
        let words = ["work completed ask", "undo completed work", last.as_str()];
        assert_eq!(verdict(&state_after(&words)), undone_before, "{words:?}");
        let again = ["undo completed work", "work completed ask", last.as_str()];
        assert_eq!(verdict(&state_after(&again)), expected, "{again:?}");
    }
    assert_eq!(verdict(&state_after(&[])), Verdict::Succeeded, "a flow of a STOP alone");
    for (verdict, expected) in [
        (Verdict::Succeeded, RunStatus::Completed),
        (Verdict::Stopped, RunStatus::Stopped),
        (Verdict::Rejected, RunStatus::Failed),
        (Verdict::TimedOut, RunStatus::Failed),
        (Verdict::Failed, RunStatus::Failed),
        (Verdict::Stalled, RunStatus::Failed),
    ] {
        assert_eq!(status(verdict), expected);
    }
}

fn words(due: &Due<'_>) -> String {
    match due {
        Due::Step { step, visit, attempt } => format!("{} {visit}.{attempt}", step.id),
        Due::Answer { step, number } => format!("answer of {} at {number}", step.id),
        Due::End(step) => format!("end {}", step.map_or("-", |step| step.id.as_str())),
        Due::Exhausted { step, visits } => format!("{} was entered {visits} times", step.id),
        Due::NoRoute => "no route".to_owned(),
        Due::Unknown(name) => format!("no step {name}"),
    }
}

/// CONTRACT 20.3, 20.5, 20.8
#[test]
fn what_is_due_follows_from_the_steps() {
    let flow = flow();
    for (made, expected) in [
        (&[][..], "work 1.1"),
        (&["work completed ask"], "ask 1.1"),
        (&["work completed STOP"], "end -"),
        (&["work completed end"], "end end"),
        (&["work error"], "no route"),
        (&["work killed_idle"], "no route"),
        (&["work completed gone"], "no step gone"),
        (&["gone completed gone"], "no step gone"),
        (&["gone"], "no step gone"),
        // The same visit is tried again.
        (&["work"], "work 1.2"),
        (&["work cut"], "work 1.2"),
        (&["work cut", "work cut"], "work 1.3"),
        (&["work parked", "work limited", "work cut"], "work 1.4"),
        (&["work cut", "work completed ask"], "ask 1.1"),
        // A gate waits, and its answer leads on.
        (&["work completed ask", "ask"], "answer of ask at 2"),
        (&["work completed ask", "ask gate_rejected undo"], "undo 1.1"),
        (&["work completed ask", "ask gate_timed_out"], "no route"),
        // Visits are counted, attempts are not.
        (&["work error undo", "undo completed work"], "work 2.1"),
        (&["work error work", "work cut", "work error work"], "work 3.1"),
        (&["work error work", "work error work", "work error work"], "work was entered 3 times"),
    ] {
        let steps = steps(made);
        let due = due(&flow, &run(), &steps);
        assert_eq!(words(&due), expected, "{made:?}");
    }
}

/// CONTRACT 20.8, 20.9
#[test]
fn a_resumed_or_forked_run_begins_where_it_should() {
    let flow = flow();
    let thrice = ["work error work", "work error work", "work error work"];
    for (made, counted_from, continues_at, begins_at, expected) in [
        (&[][..], 0, None, Some("ask"), "ask 1.1"),
        (&[][..], 0, Some("undo"), Some("ask"), "undo 1.1"),
        (&["work completed ask"][..], 0, None, Some("undo"), "ask 1.1"),
        (&["work error"][..], 1, Some("work"), None, "work 2.1"),
        (&["work completed ask"][..], 1, Some("gone"), None, "no step gone"),
        (&["work completed ask"][..], 1, Some("end"), None, "end end"),
        (&thrice[..], 0, Some("work"), None, "work was entered 3 times"),
        (&thrice[..], 3, None, None, "work 4.1"),
        (&thrice[..], 2, None, None, "work 4.1"),
    ] {
        let mut run = run();
        run.counted_from = counted_from;
        run.continues_at = continues_at.map(str::to_owned);
        run.flow.as_mut().expect("a flow").begins_at = begins_at.map(str::to_owned);
        assert_eq!(
            words(&due(&flow, &run, &steps(made))),
            expected,
            "{made:?} {continues_at:?} {begins_at:?}"
        );
    }
}

/// CONTRACT 20.5
#[test]
fn retries_count_what_was_cut_off_in_this_visit() {
    for (made, visit, expected) in [
        (&[][..], 1, 0),
        (&["work cut"], 1, 1),
        (&["work cut", "work parked", "work limited", "work cut"], 1, 2),
        (&["work cut", "work error work", "work cut"], 1, 1),
        (&["work cut", "work error work", "work cut"], 2, 1),
        (&["work error"], 1, 0),
        (&["work interrupted", "work interrupted", "work cut"], 1, 1),
    ] {
        assert_eq!(times_cut_off(&steps(made), "work", visit), expected, "{made:?} {visit}");
    }
    assert_eq!(times_cut_off(&steps(&["work cut"]), "ask", 1), 0);
}

/// CONTRACT 20.5, 20.37
#[test]
fn an_attempt_that_was_interrupted_is_tried_again_and_ends_no_row() {
    let made = steps(&["work parked", "work interrupted", "work parked", "work interrupted"]);
    assert_eq!(times_parked(&made, "work"), 2);
    assert_eq!(
        made.values().filter_map(end_word).collect::<Vec<_>>(),
        [PARKED, INTERRUPTED, PARKED, INTERRUPTED]
    );
    assert_eq!(words(&due(&flow(), &run(), &made)), "work 1.5");
}

#[test]
fn a_route_that_is_missing_is_named() {
    let flow = flow();
    let work = flow.step("work").expect("a step");
    assert_eq!(route(work, Outcome::Completed), Ok("ask"));
    assert_eq!(route(work, Outcome::KilledIdle), Err("no route for killed_idle at work".to_owned()));
}
