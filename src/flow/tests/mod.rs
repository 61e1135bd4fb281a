//! Every field and every proof, by tables. A case is a change of a flow that is fine.

mod proofs;
mod runs;
mod steps;

use proptest::prelude::*;

use super::base::{Found, compare, paths};
use super::document::{Act, Artifact, PromptKind, Runs};
use super::fault::Severity;
use super::*;

const FIX: &str = include_str!("../../../tests/flows/fix.yaml");
const LOADER: &str = include_str!("../../../tests/flows/loader.yaml");
const CONTRACT: &str = include_str!("../../../tests/flows/contract.yaml");
const OLDER: &str = include_str!("../../../tests/flows/older.yaml");
const SMALL: &str = include_str!("../../../tests/flows/small.json");

/// A place of a flow, what is written there instead, and the notes that follow.
type Case = (&'static str, &'static str, &'static [&'static str]);

/// The notes about a file, as lines.
fn lines(text: &str) -> Vec<String> {
    check(text.as_bytes()).notes.iter().map(ToString::to_string).collect()
}

/// Changes the one place of a flow that is `from`. Returns the difference if the new notes are not those whose parts
/// are expected; `@` stands for the line of the change.
fn difference(flow: &str, (from, to, expected): &Case) -> Option<String> {
    assert_eq!(flow.matches(from).count(), 1, "{from:?} has one place");
    let (before, _) = flow.split_once(from).expect("it is there");
    let line = before.matches('\n').count() + 1;
    let found = lines(&flow.replace(from, to));
    let was = lines(flow);
    let mut found: Vec<&String> = found.iter().filter(|one| !was.contains(one)).collect();
    let mut missing = Vec::new();
    for part in *expected {
        let part = part.replace('@', &line.to_string());
        match found.iter().position(|note| note.contains(&part)) {
            Some(at) => drop(found.remove(at)),
            None => missing.push(part),
        }
    }
    let differs = !missing.is_empty() || !found.is_empty();
    differs.then(|| format!("{from:?} -> {to:?}: no {missing:#?}, but {found:#?}"))
}

/// Asserts what is reported of a flow after each of these changes.
fn assert_changed(flow: &str, cases: &[Case]) {
    let wrong: Vec<String> = cases.iter().filter_map(|case| difference(flow, case)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_examples_are_as_they_should_be() {
    assert_eq!(lines(FIX), Vec::<String>::new());
    assert_eq!(lines(SMALL), Vec::<String>::new());
    let flow = check(FIX.as_bytes()).flow.expect("a flow");
    let Act::RunAgent(repair) = &flow.step("repair").expect("a step").act else { panic!("an agent") };
    assert_eq!(
        (repair.agent.as_str(), repair.continues, &repair.prompt.kind),
        ("claude", true, &PromptKind::Text)
    );
    assert_eq!(repair.inputs, [Artifact::Diff, Artifact::ValidationReport, Artifact::FixInstructions]);
    assert_eq!(flow.defaults.timeout_seconds, Some(3_600));
    assert_eq!(flow.step("approve").expect("a step").timeout_seconds, Some(172_800));
    assert_eq!((flow.steps[0].max_visits, flow.steps[0].retries), (10, 1));
}

/// CONTRACT 18.2
#[test]
fn a_target_is_checked_beside_a_step_that_cannot_be_read() {
    let step = |id: &str, opcode: &str, to: &str| {
        format!(
            "  - {{{id}opcode: {opcode}, agent: claude, prompt: hi, routes: {{completed: {to}, error: STOP}}}}\n"
        )
    };
    let flow = |one: &str, other: &str, to: &str| {
        let head = "workflow_id: x\nversion: 1\nentry_step: one\nsteps:\n";
        let whole = format!("{head}{}{}", step("id: one, ", "RUN_AGENT", one), step(other, "RUN_AGNT", to));
        lines(&whole)
            .iter()
            .map(|line| line.split("fault: ").nth(1).unwrap_or(line).to_owned())
            .collect::<Vec<_>>()
    };
    let opcode = "RUN_AGNT is no value of `opcode`; did you mean RUN_AGENT?";
    assert_eq!(flow("jugde", "id: judge, ", "STOP"), ["there is no step jugde; did you mean judge?", opcode]);
    assert_eq!(flow("judge", "id: judge, ", "none"), [opcode], "its routes are not read");
    let found = flow("jugde", "", "STOP");
    assert!(
        found.len() == 2 && !found.concat().contains("jugde"),
        "it may be the step without an id: {found:?}"
    );
}

/// CONTRACT 18.8
#[test]
fn both_public_dialects_are_read_and_what_is_foreign_is_named() {
    let ignored = |field: &str, what: &str| {
        format!("warning: `{field}` of {what} means nothing to aynig; it is ignored")
    };
    let defaults =
        ["artifacts_dir", "component_kind", "eval_profile"].map(|field| ignored(field, "`defaults`"));
    let found = lines(LOADER);
    assert_eq!(found.len(), 3, "{found:#?}");
    assert!(found.iter().zip(&defaults).all(|(one, other)| one.ends_with(other)), "{found:#?}");
    let found = lines(CONTRACT);
    assert_eq!(found.len(), 6, "{found:#?}");
    assert!(found[3].starts_with("18:22: warning: `component_kind` is no artifact"), "{found:#?}");
    assert!(found[4].ends_with(&ignored("limits", "a RUN_AGENT step")), "{found:#?}");
    assert!(found[5].contains("warning: a gate that nobody answers ends as gate_timed_out"), "{found:#?}");
    let flow = check(CONTRACT.as_bytes()).flow.expect("a flow");
    let Act::RunAgent(write) = &flow.steps[0].act else { panic!("an agent") };
    assert_eq!((write.agent.as_str(), &write.prompt.kind), ("claude", &PromptKind::Named));
    let Act::RunValidation(all) = &flow.steps[1].act else { panic!("validators") };
    assert!(matches!(all[0].runs, Runs::Builtin) && matches!(all[1].runs, Runs::Script(_)));
    assert!(matches!(&all[2].runs, Runs::Harness { script: Some(script), .. } if script.args.len() == 2));
}

/// CONTRACT 18.8
#[test]
fn the_older_form_is_refused_with_what_to_change() {
    let found = lines(OLDER);
    assert_eq!(found.len(), 2, "{found:#?}");
    assert!(
        found[0]
            .starts_with("1:1: fault: this is the older form of a workflow file; write `workflow_id: NAME`")
    );
    assert!(
        found[1].starts_with("6:5: fault: `on_fail`")
            && found[1].ends_with("write `error: rollback` below `routes`")
    );
    assert_changed(
        FIX,
        &[(
            "    policy: source-only\n    prompt: |",
            "    on_fail: undo\n    prompt: |",
            &["@:5: fault: `on_fail` is no field of a RUN_AGENT step; write `error: STEP` below `routes`"],
        )],
    );
}

const DOCUMENT_CASES: &[Case] = &[
    (
        "workflow_id: fix",
        "workflow_ide: fix",
        &[
            "@:1: fault: `workflow_ide` is no field of a flow; did you mean workflow_id?",
            ": fault: the flow has no `workflow_id`; add `workflow_id:`",
        ],
    ),
    (
        "workflow_id: fix",
        "workflow_id: 7",
        &["@:14: fault: `workflow_id` is a number, and not text; write it in quotes: \"7\""],
    ),
    ("workflow_id: fix", "workflow_id: ' '", &["@:14: fault: `workflow_id` is empty"]),
    (
        "version: 1\n",
        "version: one\n",
        &["@:10: fault: `version` is text, and not a whole number; write 1 to 4294967295"],
    ),
    ("version: 1\n", "version: 0\n", &["@:10: fault: this is no value of `version`"]),
    ("version: 1\n", "version: 1.5\n", &["@:10: fault: this is no value of `version`"]),
    ("version: 1\n", "", &[": fault: the flow has no `version`"]),
    (
        "entry_step: implement",
        "entry_step: implment",
        &["@:13: fault: there is no step implment; did you mean implement?"],
    ),
    ("entry_step: implement", "entry_step: STOP", &["@:13: fault: there is no step STOP"]),
    (
        "defaults:\n",
        "defaults: []\nx:\n",
        &[
            "@:11: fault: `defaults` is a list, and not a map of fields",
            ":1: fault: `x` is no field of a flow",
            "has no `agent`, and `defaults` has none",
            "has no `agent`, and `defaults` has none",
        ],
    ),
    (
        "  agent: claude\n",
        "  agent: the best\n",
        &["@:10: fault: this is no name for `agent`", "has no `agent`, and", "has no `agent`, and"],
    ),
    (
        "idle_seconds: 10m",
        "idle_seconds: 10min",
        &["@:17: fault: this is no duration for `idle_seconds`; write seconds from 1 to a year"],
    ),
    ("idle_seconds: 10m", "idle_seconds: 0", &["@:17: fault: this is no duration"]),
    ("idle_seconds: 10m", "idle_seconds: 53w", &["@:17: fault: this is no duration"]),
    (
        "idle_seconds: 10m",
        "idle_seconds: [1]",
        &["@:17: fault: `idle_seconds` is a list, and not a duration"],
    ),
    (
        "  wall_seconds: 4h",
        "  wall: 4h",
        &[
            "@:3: fault: `wall` is no field of `limits`; write one of: wall_seconds, tokens, cost_usd, best_effort",
        ],
    ),
    ("  wall_seconds: 4h", "  tokens: 1e6", &["@:11: fault: this is no value of `tokens`"]),
    ("  wall_seconds: 4h", "  cost_usd: 0", &["@:13: fault: this is no value of `cost_usd`"]),
    ("  wall_seconds: 4h", "  cost_usd: .inf", &["@:13: fault: this is no value of `cost_usd`"]),
    (
        "  wall_seconds: 4h",
        "  best_effort: yes",
        &["@:16: fault: `best_effort` is text, and not true or false; write true or false"],
    ),
    (
        "    required: true\n",
        "    required: true\n    default: none\n",
        &[":5: fault: the input issue is required, so its default is never used"],
    ),
    ("    required: true\n", "    needed: true\n", &["@:5: fault: `needed` is no field of an input"]),
    (
        "  issue:\n",
        "  1ssue:\n",
        &["@:3: fault: this is no name of an input", ": fault: there is no input issue"],
    ),
    (
        "  source-only:\n",
        "  step.review_assist:\n",
        &[
            "@:3: fault: every flow has the policy step.review_assist",
            ": fault: there is no policy source-only",
            ": fault: there is no policy source-only",
        ],
    ),
    (
        "    forbidden_paths: [",
        "    forbidden_paths: [../x, /y, 'a[', ",
        &[
            "@:23: fault: this pattern leaves",
            "@:29: fault: this pattern leaves",
            "@:33: fault: this is no pattern: ",
        ],
    ),
    (
        "    forbidden_paths: [",
        "    network_posture: denied\n    forbidden_paths: [",
        &["@:22: fault: denied is no value of `network_posture`; write one of: deny, allow"],
    ),
    (
        "    forbidden_paths: [",
        "    approval_posture: ask\n    execution_posture: read_only\n    forbidden_paths: [",
        &[
            "@:23: fault: ask is no value of `approval_posture`; write one of: fail_on_prompt, deny_interactive, bounded_auto_approve",
        ],
    ),
];

/// CONTRACT 18.3
#[test]
fn every_field_of_the_document_is_checked() {
    assert_changed(FIX, DOCUMENT_CASES);
    for (text, expected) in [
        (
            "steps\n",
            "1:1: fault: the file is text, and not a map of fields; write fields, each as `NAME: VALUE`",
        ),
        ("workflow_id: a\nversion: 1\nentry_step: b\nsteps: []\n", "4:8: fault: the flow has no steps"),
        (
            "workflow_id: a\nversion: 1\nentry_step: b\nsteps: {}\n",
            "4:8: fault: `steps` is a map, and not a list",
        ),
        ("workflow_id: a\nversion: 1\nentry_step: b\n", "1:1: fault: the flow has no `steps`"),
        (
            "workflow_id: a\nversion: 1\nentry_step: b\nsteps: [c]\n",
            "4:9: fault: a step is text, and not a map",
        ),
    ] {
        assert_eq!(lines(text).len(), 1, "{text}: {:?}", lines(text));
        assert!(lines(text)[0].starts_with(expected), "{text}: {:?}", lines(text));
    }
    let many = format!(
        "{}{}",
        "workflow_id: a\nversion: 1\nentry_step: b\nsteps:\n",
        "  - {id: b, opcode: STOP}\n".repeat(501)
    );
    assert!(
        lines(&many).iter().any(|note| note.starts_with("505:5: fault: the flow has more than 500 steps"))
    );
}

/// CONTRACT 18.9
#[test]
fn prompts_and_scripts_are_those_of_the_base() {
    let flow = check(CONTRACT.as_bytes()).flow.expect("a flow");
    let named = ["planner.evaluate_harness_report", "task.fix", "task.synthesize_harness"];
    let prompts = named.map(|name| format!(".aynig/prompts/{name}.v1.md"));
    let all = paths(&flow);
    assert_eq!(
        all.iter().map(String::as_str).collect::<Vec<_>>(),
        [&prompts[0], &prompts[1], &prompts[2], "scripts/check.sh"]
    );
    let with = |path: &str, found: Found| {
        let text = |content: &str| Found::File { content: content.into(), executable: true };
        let mut files: std::collections::BTreeMap<String, Found> =
            all.iter().map(|path| (path.clone(), text("a prompt"))).collect();
        files.insert(path.to_owned(), found);
        let notes = compare(&flow, "main", &files);
        notes.iter().map(|note| (note.severity, note.what.clone())).collect::<Vec<_>>()
    };
    let file = |content: &[u8], executable: bool| Found::File { content: content.to_vec(), executable };
    let (fault, warning) = (Severity::Fault, Severity::Warning);
    for (path, found, expected) in [
        ("other", Found::Nothing, None),
        ("scripts/check.sh", Found::Nothing, Some((fault, "main has no scripts/check.sh"))),
        ("scripts/check.sh", Found::Other, Some((fault, "scripts/check.sh is no file in main"))),
        ("scripts/check.sh", file(b"", false), Some((fault, "scripts/check.sh is not executable in main"))),
        (&prompts[1], Found::Nothing, Some((warning, "main has no .aynig/prompts/task.fix.v1.md"))),
        (&prompts[1], Found::Other, Some((fault, ".aynig/prompts/task.fix.v1.md is no file in main"))),
        (&prompts[1], file(b"\xff", false), Some((fault, ".aynig/prompts/task.fix.v1.md is not UTF-8"))),
        (&prompts[1], file(b"{{inputs.none}}", false), Some((fault, "there is no input none"))),
    ] {
        let expected: Vec<(Severity, String)> =
            expected.into_iter().map(|(severity, what)| (severity, what.to_owned())).collect();
        assert_eq!(with(path, found.clone()), expected, "{path} {found:?}");
    }
    let flow = FIX.replace("prompt: Do what the fix instructions say.", "prompt: docs/fix.md");
    let flow = check(flow.as_bytes()).flow.expect("a flow");
    assert_eq!(compare(&flow, "main", &[].into()).len(), 1, "a path is never text");
}

/// CONTRACT 18.2
#[test]
fn notes_are_sorted_and_the_flow_of_a_file_with_a_fault_is_for_show() {
    let text = FIX
        .replace("version: 1", "version: x")
        .replace("    run: [tests, lint]", "    run: [a b]")
        .replace("timeout: 2d", "timeout: x");
    let checked = check(text.as_bytes());
    assert!(checked.notes.is_sorted() && checked.notes.len() == 3, "{:#?}", checked.notes);
    assert!(checked.flow.is_some());
    assert!(check(FIX.replace("opcode: STOP", "opcode: HALT").as_bytes()).flow.is_none());
}

/// CONTRACT 18.10
#[test]
fn a_flow_is_drawn() {
    let graph = |text: &str| graph::Graph::of(&check(text.as_bytes()).flow.expect("a flow"));
    let text = graph(FIX).text();
    assert!(
        text.starts_with("fix (version 1)\n\n> implement  RUN_AGENT  claude\n    completed       -> check\n"),
        "{text}"
    );
    assert!(text.contains("\n  check  RUN_VALIDATION  tests, lint\n"), "{text}");
    let mermaid = graph(FIX).mermaid();
    assert!(mermaid.starts_with("flowchart TD\n  s0[\"implement<br/>RUN_AGENT\"]\n"), "{mermaid}");
    for line in [
        "  s2{{\"judge<br/>EVALUATE\"}}\n",
        "  s4{\"approve<br/>GATE\"}\n",
        "  STOP([\"STOP\"])\n",
        "  s0 -->|\"error, killed_policy\"| s5\n",
        "  s5 -->|\"completed, error\"| STOP\n",
    ] {
        assert_eq!(mermaid.matches(line).count(), 1, "{line} in {mermaid}");
    }
    let dot = graph(&FIX.replace("workflow_id: fix", "workflow_id: 'a\"\\b'")).dot();
    assert!(dot.starts_with("digraph \"a\\\"\\\\b\" {\n"), "{dot}");
    assert!(
        dot.contains("  \"undo\" -> \"STOP\" [label=\"completed, error\"];\n") && dot.ends_with("}\n"),
        "{dot}"
    );
    assert_eq!(graph(LOADER).dot().matches("\n  \"STOP\" [").count(), 1, "a declared STOP is drawn once");
}

proptest! {
    /// Lines are left out, doubled, moved and cut.
    #[test]
    fn a_damaged_flow_never_panics(at in 0_usize..120, to in 0_usize..120, cut in 0_usize..60, which in 0_usize..5) {
        let text = [FIX, LOADER, CONTRACT, OLDER, SMALL][which];
        let mut lines: Vec<&str> = text.lines().collect();
        let line = lines.remove(at % lines.len());
        lines.insert(to % (lines.len() + 1), line.get(cut.min(line.len())..).unwrap_or(line));
        let checked = check(lines.join("\n").as_bytes());
        if let Some(flow) = &checked.flow {
            let graph = graph::Graph::of(flow);
            prop_assert!(!graph.text().is_empty() && !graph.mermaid().is_empty() && !graph.dot().is_empty());
        }
    }
}
