//! The fields of steps.

use super::{Case, FIX, assert_changed};

const CASES: &[Case] = &[
    (
        "  - id: implement\n",
        "  - id: Implement\n",
        &["@:9: fault: Implement is no id of a step; write implement"],
    ),
    (
        "  - id: implement\n",
        "  - id: implement!\n",
        &[
            "@:9: fault: implement! is no id of a step; write lower-case letters, digits, _ and -, at most 64",
            ": fault: there is no step implement; did you mean implement!?",
        ],
    ),
    ("  - id: done\n", "  - id: STOP\n", &[": fault: there is no step done; write one of: implement, "]),
    (
        "    opcode: ROLLBACK",
        "    opcode: ROLBACK",
        &["@:13: fault: ROLBACK is no value of `opcode`; did you mean ROLLBACK?"],
    ),
    ("    opcode: ROLLBACK\n", "", &[":5: fault: this step has no `opcode`"]),
    (
        "    max_visits: 3",
        "    max_visits: 1001",
        &["@:17: fault: this is no value of `max_visits`; write a whole number, 1 to 1000"],
    ),
    ("    max_visits: 3", "    retries: -1", &["@:14: fault: this is no value of `retries`"]),
    (
        "    max_visits: 3",
        "    max_visit: 3",
        &["@:5: fault: `max_visit` is no field of a RUN_AGENT step; did you mean max_visits?"],
    ),
    (
        "    max_visits: 3",
        "    question: why",
        &["@:5: fault: `question` is no field of a RUN_AGENT step; write one of: id, opcode, "],
    ),
    (
        "    session: continue",
        "    session: resume",
        &["@:14: fault: resume is no value of `session`; write one of: fresh, continue"],
    ),
    (
        "    session: continue",
        "    allow_empty: 1",
        &["@:18: fault: `allow_empty` is a number, and not true or false"],
    ),
    (
        "[diff, validation_report, fix_instructions]",
        "[dif, validation_reports, 7, a.response, judge.response]",
        &[
            "@:14: fault: there is no artifact dif; did you mean diff? (the answer of an agent, or of a gate, is ID.response)",
            "@:19: fault: there is no artifact validation_reports; did you mean validation_report?",
            "@:39: fault: an entry of `inputs` is a number",
            "@:42: fault: there is no step a",
            "@:54: fault: judge is an EVALUATE step, without a response",
        ],
    ),
    (
        "[diff, validation_report, fix_instructions]",
        "diff",
        &["@:13: fault: `inputs` is text, and not a list of texts; write a list: [\"diff\"]"],
    ),
    (
        "    prompt: Do what the fix instructions say.\n",
        "",
        &[": fault: a RUN_AGENT step has no `prompt`; add `prompt:`"],
    ),
    (
        "    prompt: Do what the fix instructions say.",
        "    prompt: ../fix.md",
        &["@:13: fault: the path of this prompt leaves the repository"],
    ),
    (
        "      {{inputs.issue}}",
        "      {{inputs.isue}}",
        &[": fault: there is no input isue; declare it below `inputs`, or did you mean issue?"],
    ),
    ("    run: [tests, lint]", "    run: []", &["@:10: fault: `run` is no list of validators"]),
    ("    run: [tests, lint]\n", "", &[": fault: a RUN_VALIDATION step has no `run`"]),
    (
        "    run: [tests, lint]",
        "    run: [tests, tests, 'a b', 3]",
        &[
            "@:18: fault: the validator tests is here twice",
            "@:25: fault: this is no name of a validator",
            "@:32: fault: a validator is a number, and not a map of fields",
        ],
    ),
    (
        "    run: [tests, lint]",
        "    run: [{name: x}, {kind: shell, name: x}]",
        &[
            "@:11: fault: this validator has no `kind`",
            "@:29: fault: shell is no kind of validator; write one of: builtin, script, harness",
        ],
    ),
    (
        "    run: [tests, lint]",
        "    run: [{kind: script, id: x}, {kind: script, entrypoint: a}, {kind: script, id: y, entrypoint: /bin/sh, cwd: sub}]",
        &[
            "@:11: fault: a script has no `entrypoint`",
            "@:34: fault: this validator has no `id`; add `id: NAME`, by which reports call it",
            "@:99: fault: this script is not in the repository",
            "@:113: fault: validators run at the top of the worktree",
        ],
    ),
    (
        "    run: [tests, lint]",
        "    run: [tests/run.sh, ../run.sh]",
        &[
            "@:11: fault: this is no name of a validator; for a script write {kind: script, id: run, entrypoint: tests/run.sh}",
            "@:25: fault: this is no name of a validator; write a name such as tests or lint",
        ],
    ),
    (
        "    run: [tests, lint]",
        "    run: [{kind: script, id: x, entrypoint: a b, command: make}, {kind: script, id: y, entrypoint: a --fast}]",
        &[
            "@:50: fault: `command` is no field of a script; write a command line into a script of the repository",
            "@:100: warning: the whole text of `entrypoint` is a path, also what follows the space; write arguments as a list",
        ],
    ),
    (
        "    prompt: Do what the fix instructions say.",
        "    prompt: {{inputs.issue}}",
        &[
            "@:13: fault: `{{inputs.issue}}` is a map here, and not text; put it in quotes: \"{{inputs.issue}}\"",
        ],
    ),
    (
        "    prompt: Do what the fix instructions say.",
        "    prompt: prompts/{{inputs.issue}}.md",
        &["@:13: fault: this path has an input, and a file of the base commit has the same path in each run"],
    ),
    (
        "    prompt: Do what the fix instructions say.",
        "    prompt: Do {{input.issue}}.",
        &["@:13: warning: `{{input.issue}}` is text, and not replaced; an input is `{{inputs.issue}}`"],
    ),
    (
        "    run: [tests, lint]",
        "    run: [{kind: script, id: x, entrypoint: 'a/{{inputs.issue}}', artifacts: ['{{inputs.nope}}', '{{inputs.issue}}']}]",
        &[": fault: this path has an input", ": fault: there is no input nope"],
    ),
    (
        "    prompt: Do what the fix instructions say.",
        "    prompt: [a]",
        &["@:13: fault: `prompt` is a list, and not text; write a text, in quotes if it has {, [ or `: `"],
    ),
    (
        "    run: [tests, lint]",
        "    run: [{kind: script, id: x, entrypoint: a, may_propose_goldens: true}]",
        &["@:48: fault: `may_propose_goldens` is no field of a script"],
    ),
    (
        "    run: [tests, lint]",
        "    run: [{kind: builtin, id: x, timeout: 5, timeout_seconds: 5}]",
        &["@:34: fault: `timeout` and `timeout_seconds` mean the same"],
    ),
    (
        "    allowed_next_steps: [repair, approve, undo]\n",
        "",
        &[
            ": fault: an EVALUATE step has no `allowed_next_steps`",
            ": fault: approve is not in",
            ": fault: approve is not in",
            ": fault: approve is not in",
            ": fault: repair is not in",
            ": fault: undo is not in",
        ],
    ),
    (
        "    prompt: Is the issue",
        "    agent: claude\n    command: mine\n    prompt: Is the issue",
        &[":5: fault: `agent` and `command` both say who judges"],
    ),
    (
        "    prompt: Is the issue",
        "    command: {kind: script, entrypoint: '.tnh/run/${run_id}/judge'}\n    prompt: Is the issue",
        &["@:41: fault: an agent could write the program that judges it"],
    ),
    ("    gate: result\n", "", &[": fault: a GATE step has no `gate`"]),
    (
        "    gate: result\n",
        "    gate: result\n    approvers: [a@b, 'x y', 'key:', lead]\n",
        &[":22: fault: this is nobody who could answer", ":29: fault: this is nobody who could answer"],
    ),
    (
        "    gate: result\n",
        "    gate: result\n    approvers: [a@b, a@b]\n    required: 2\n",
        &[": fault: the gate approve needs 2 people, and 1 may answer"],
    ),
    ("    gate: result\n", "    gate: result\n    approvers: [leads]\n    required: 2\n", &[]),
    (
        "    timeout: 2d\n",
        "    timeout: 2d\n    timeout_seconds: 5\n",
        &["@:5: fault: `timeout` and `timeout_seconds` mean the same"],
    ),
    (
        "    target: pre_run",
        "    target: pre_step",
        &["@:13: fault: pre_step does not exist yet; write pre_run"],
    ),
    ("    target: pre_run", "    target: main", &["@:13: fault: main is no target of a rollback"]),
    ("    reason: approved", "    routes: {completed: undo}", &["@:5: fault: a STOP step ends the run"]),
];

/// CONTRACT 18.3, 18.4
#[test]
fn every_field_of_a_step_is_checked() {
    assert_changed(FIX, CASES);
}
