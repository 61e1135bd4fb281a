//! Routes, and ways through a flow.

use super::{Case, FIX, LOADER, assert_changed, lines};

const ROUTES: &[Case] = &[
    (
        "      gate_approved: done",
        "      gate_approved: don",
        &["@:22: fault: there is no step don; did you mean done?"],
    ),
    (
        "      gate_approved: done",
        "      gate_aproved: done",
        &[
            "@:7: fault: gate_aproved is no outcome; did you mean gate_approved?",
            ": warning: approve has no route for gate_approved",
            ": fault: no route leads to done from implement",
        ],
    ),
    (
        "      gate_approved: done",
        "      completed: done",
        &[
            "@:7: fault: a GATE step never ends as completed; it ends as one of: gate_approved, gate_rejected, gate_timed_out",
            ": warning: approve has no route for gate_approved",
            ": fault: no route leads to done from implement",
        ],
    ),
    (
        "      gate_approved: done\n",
        "      gate_approved: done\n      gate_rejected: done\n",
        &[": fault: `gate_rejected` is here twice"],
    ),
    (
        "      gate_rejected: undo",
        "      gate_rejected: repair",
        &[
            ":13: warning: repair is not handed the comment of a rejection at approve; add approve.response to its inputs",
        ],
    ),
    (
        "      completed: STOP\n      error: STOP\n",
        "      completed: repair\n      error: STOP\n",
        &[":13: warning: repair is not handed the comment of a rejection at approve"],
    ),
    (
        "      gate_timed_out: STOP\n",
        "",
        &[
            ": warning: approve has no route for gate_timed_out; add it, else the run ends there with `no route for gate_timed_out at approve`",
        ],
    ),
    ("    timeout: 2d\n", "", &[]),
    (
        "      unsafe: undo",
        "      unsafe: repair",
        &["@:15: fault: unsafe leads to repair; lead it to a ROLLBACK step or to STOP"],
    ),
    ("      unsafe: undo", "      unsafe: STOP", &[]),
    (
        "      unsafe: undo",
        "      unsafe: done",
        &["@:15: fault: done is not in `allowed_next_steps` of judge"],
    ),
    (
        "      needs_human: approve",
        "      needs_human: repair",
        &["@:20: fault: needs_human leads to repair; lead it to a GATE step or to STOP"],
    ),
    (
        "      partial: repair\n",
        "",
        &[": fault: judge has no route for partial", ": fault: no route leads to repair from implement"],
    ),
    (
        "[repair, approve, undo]",
        "[repair, approve]",
        &[": fault: undo is not in `allowed_next_steps` of judge"],
    ),
    (
        "[repair, approve, undo]",
        "[repair, approve, undo, nowhere]",
        &["@:49: fault: there is no step nowhere"],
    ),
    (
        "  - id: done\n",
        "  - id: undo\n",
        &[
            "@:9: fault: the step undo is here twice, first in line",
            ": fault: there is no step done; write one of: implement, ",
        ],
    ),
    (
        "    reason: approved\n",
        "    reason: approved\n  - id: more\n    opcode: STOP\n",
        &[": fault: no route leads to more from implement"],
    ),
    (
        "    reason: approved\n",
        "    reason: approved\n  - id: more\n    opcode: STOP\n    allow_unreachable: true\n",
        &[],
    ),
    (
        "    reason: approved\n",
        "    reason: approved\n  - id: more\n    opcode: RUN_VALIDATION\n    run: [tests]\n    allow_unreachable: true\n    routes: {completed: more}\n",
        &[
            ": warning: more has no route for error, killed_timeout, killed_idle, killed_policy",
            ": fault: from more no route leads to an end",
        ],
    ),
];

/// Routes that are a list.
const LISTED: &[Case] = &[
    (
        "      - {outcome: error, target: STOP}",
        "      - {outcome: completed, target: STOP}",
        &["@:19: fault: completed has two routes", ": warning: build has no route for error"],
    ),
    (
        "      - {outcome: error, target: STOP}",
        "      - {outcome: error}",
        &["@:9: fault: a route has no `target`", ": warning: build has no route for error"],
    ),
    (
        "      - {outcome: error, target: STOP}",
        "      - error",
        &["@:9: fault: a route is text", ": warning: build has no route for error"],
    ),
];

/// CONTRACT 18.5
#[test]
fn routes_are_checked() {
    assert_changed(FIX, ROUTES);
    assert_changed(LOADER, LISTED);
}

/// CONTRACT 18.5
#[test]
fn a_flow_without_an_end_is_one_fault() {
    let flow = "workflow_id: a\nversion: 1\nentry_step: b\nsteps:\n  - {id: b, opcode: ROLLBACK, target: pre_run, routes: {completed: c, error: c}}\n  \
        - {id: c, opcode: ROLLBACK, target: pre_run, routes: {completed: b, error: b}}\n";
    let found = lines(flow);
    assert_eq!(
        found,
        ["3:13: fault: no route of the flow leads to an end; let one lead to STOP, as in `completed: STOP`"]
    );
}

#[test]
fn an_agent_may_be_handed_the_comment_at_a_gate() {
    let from = FIX.replace("gate_rejected: undo", "gate_rejected: repair");
    assert_eq!(lines(&from.replace("[diff, ", "[approve.response, diff, ")), Vec::<String>::new());
}

/// CONTRACT 18.6
#[test]
fn golden_files_need_an_approval() {
    let gate = "      completed: evaluate\n      error: evaluate\n";
    let without = "golden files that run_harness proposes succeed here (completed of";
    for (from, to, expected) in [
        (
            gate,
            "      completed: STOP\n      error: evaluate\n",
            &[&format!(":7: fault: {without} run_harness) without a GATE")[..]][..],
        ),
        (gate, "      completed: evaluate\n      error: STOP\n", &[]),
        (gate, "      completed: golden_gate\n      error: evaluate\n", &[]),
        (
            "      gate_rejected: STOP",
            "      gate_rejected: last\n",
            &[
                &format!(": fault: {without} last)"),
                ": warning: last has no route for error",
                ": warning: last is not handed the comment of a rejection at golden_gate; add golden_gate.response",
            ],
        ),
        (
            "      gate_approved: STOP",
            "      gate_approved: last",
            &[": warning: last has no route for error"],
        ),
        (
            "      unsafe: STOP",
            "      unsafe: undo",
            &[": fault: undo is not in `allowed_next_steps`", ": warning: last has no route for error"],
        ),
    ] {
        let more = if to.contains("last") || to.contains("undo") {
            "  - id: last\n    opcode: RUN_AGENT\n    agent: codex\n    prompt: p\n    routes: {completed: STOP}\n"
        } else {
            ""
        };
        let undo = if to.contains("undo") {
            "  - id: undo\n    opcode: ROLLBACK\n    target: pre_run\n    routes: {completed: last, error: STOP}\n"
        } else {
            ""
        };
        let flow = LOADER.replace("  - id: STOP\n", &format!("{more}{undo}  - id: STOP\n"));
        let changed = flow.replace(from, to);
        let found: Vec<String> =
            lines(&changed).into_iter().filter(|note| !note.contains("means nothing")).collect();
        assert_eq!(found.len(), expected.len(), "{to}: {found:#?}");
        for words in expected {
            assert!(found.iter().any(|note| note.contains(words)), "{to}: no {words} in {found:#?}");
        }
    }
}
