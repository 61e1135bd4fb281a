//! Facts of a run that override what its planner says.

use super::agent::with_agent;
use super::workshop::*;
use super::*;

const STEPS: &str = concat!(
    "  - id: implement
    opcode: RUN_AGENT
    agent: scripted
    prompt: go
    routes: {completed: judge, error: judge, killed_timeout: judge, killed_idle: judge, killed_policy: judge}
  - id: judge
    opcode: EVALUATE
    prompt: Is it done?
    allowed_next_steps: [implement, ask]
    routes: {success: STOP, partial: implement, blocked: implement, unsafe: STOP, needs_human: ask}
",
    gate_step!("STOP"),
);

const SUCCESS: &str = r#"{"status":"success"}"#;
const PARTIAL: &str = r#"{"status":"partial"}"#;
const BLOCKED: &str = r#"{"status":"blocked","blockers":[{"code":"E1","summary":"no key"}]}"#;

/// The steps, with a validation by the harness `h` after the agent.
fn with_harness(extra: &str) -> String {
    let test = format!(
        "  - id: test
    opcode: RUN_VALIDATION
    run: [{{kind: harness, name: h{extra}}}]
    routes: {{completed: judge, error: judge, killed_timeout: judge, killed_idle: judge, killed_policy: judge}}
"
    );
    let judge = "  - id: judge\n";
    STEPS
        .replace("{completed: judge, error: judge", "{completed: test, error: judge")
        .replace(judge, &(test + judge))
}

/// An agent that writes the harness `h` with this script.
fn writes_harness(script: &str) -> String {
    format!("cat >/dev/null; cat >h <<'END'\n#!/bin/sh\n{script}\nEND\nchmod +x h")
}

/// A name, the agent's script, the steps, the planner's answers and what came of them.
type Case<'a> = (&'a str, String, &'a str, &'a [&'a str], &'a [&'a str]);

/// CONTRACT 18.12
#[test]
fn each_fact_of_a_run_overrides_the_planner() {
    let passes = r#"echo '{"cases":[{"id":"a","status":"passed"}]}' >"$2""#;
    let proposes = r#"mkdir -p gold; echo new >gold/a.txt; echo '{"proposed_goldens":["gold/a.txt"]}' >"$2""#;
    let (may, plain) = (with_harness(", may_propose_goldens: true"), with_harness(""));
    let docs = "policies:\n  docs: {allowed_paths: [\"docs/**\"]}\nsteps:";
    let empty = STEPS.replace("    prompt: go\n", "    prompt: go\n    allow_empty: true\n");
    let narrow = STEPS.replace("    prompt: go\n", "    prompt: go\n    policy: docs\n");
    let cases: [Case<'_>; 9] = [
        ("work", "cat >/dev/null; echo x >x".to_owned(), STEPS, &[SUCCESS], &["success"]),
        ("policy", "cat >/dev/null; echo x >x".to_owned(), &narrow, &[SUCCESS], &["unsafe policy_violation"]),
        (
            "contradiction",
            writes_harness(&format!("{passes}; exit 1")),
            &plain,
            &[SUCCESS],
            &["unsafe report_execution_mismatch"],
        ),
        ("honest", writes_harness(passes), &plain, &[SUCCESS], &["success"]),
        ("goldens", writes_harness(proposes), &may, &[SUCCESS], &["needs_human proposed_goldens_present"]),
        (
            "nothing",
            "cat >/dev/null".to_owned(),
            STEPS,
            &[SUCCESS, r#"{"status":"needs_human"}"#],
            &["partial transcript_workspace_mismatch", "needs_human transcript_workspace_mismatch"],
        ),
        ("allowed to do nothing", "cat >/dev/null".to_owned(), &empty, &[SUCCESS], &["success"]),
        (
            "three times partial",
            "cat >/dev/null; echo more >>work".to_owned(),
            STEPS,
            &[PARTIAL, PARTIAL, PARTIAL],
            &["partial", "partial", "needs_human repeated_partial_loop"],
        ),
        (
            "the same blocker",
            "cat >/dev/null; echo same >work".to_owned(),
            STEPS,
            &[BLOCKED, BLOCKED],
            &["blocked", "needs_human repeated_blocker"],
        ),
    ];
    for (name, script, steps, answers, expected) in cases {
        let repo = with_agent(&script);
        planner(&repo, answers);
        let run = start(&repo, &flow("implement", steps).replacen("steps:", docs, 1));
        let ran = repo.aynig_ok(["run", "--drain"]);
        assert_eq!(rulings(&repo, &run, "judge"), expected, "{name}: {}", told(&ran));
        let log = out(&repo.aynig_ok(["flow", "log", &run.slug]));
        for flag in expected.iter().filter_map(|words| words.split_once(' ')) {
            assert!(
                !log.contains(flag.1) && log.contains(", since "),
                "{name}: a sentence, not {}: {log}",
                flag.1
            );
        }
        let decision = kept_json(&run, "judge", "planner_decision.json");
        let last: Value = serde_json::from_str(answers[answers.len() - 1]).expect("JSON");
        assert_eq!(decision["said"]["status"], last["status"], "{name}: what it said is kept");
        let words = expected[expected.len() - 1];
        assert!(words.starts_with(decision["outcome"].as_str().expect("a word")), "{name}: {decision}");
        if words.starts_with("needs_human") {
            assert_eq!(repo.state(&run.driver), "flow-gate", "{name}");
        }
    }
}

/// CONTRACT 18.12
#[test]
fn a_blocker_that_is_back_after_other_work_is_a_new_one() {
    let repo = with_agent("cat >/dev/null; echo more >>work");
    planner(&repo, &[BLOCKED, BLOCKED, SUCCESS]);
    let run = start(&repo, &flow("implement", STEPS));
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(rulings(&repo, &run, "judge"), ["blocked", "blocked", "success"]);
    assert_eq!(end(&repo, &run)[1], "succeeded");
}

/// CONTRACT 18.12
#[test]
fn a_question_that_ended_an_agent_is_a_violation() {
    let repo = Repo::new();
    let asks = r#"echo work >work; echo '{"type":"approval.requested","approvalId":"a","tool":{"id":"1","name":"shell","args":{}}}'; read -r answer"#;
    speaker(&repo, "scripted", asks);
    planner(&repo, &[SUCCESS]);
    let run = start(&repo, &flow("implement", STEPS));
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(
        steps(&repo, &run),
        ["implement killed_policy judge", "judge unsafe STOP"],
        "{:?}",
        ended(&repo, &run)
    );
    assert_eq!(rulings(&repo, &run, "judge"), ["unsafe policy_violation"]);
    assert_eq!(end(&repo, &run)[1], "failed");
}

/// CONTRACT 18.12, 20.5
#[test]
fn a_planner_that_was_cut_off_forgets_no_fact() {
    let docs = "policies:\n  docs: {allowed_paths: [\"docs/**\"]}\nsteps:";
    let narrow = STEPS.replace("    prompt: go\n", "    prompt: go\n    policy: docs\n");
    for (steps_of, answers, before, expected) in [
        (&narrow, vec![SUCCESS; 2], 1, vec!["error", "unsafe policy_violation"]),
        (
            &STEPS.to_owned(),
            vec![PARTIAL; 4],
            5,
            vec!["partial", "partial", "error", "needs_human repeated_partial_loop"],
        ),
    ] {
        let repo = with_agent("cat >/dev/null; echo more >>work");
        planner(&repo, &answers);
        let run = start(&repo, &flow("implement", steps_of).replacen("steps:", docs, 1));
        for _ in 0..before {
            repo.aynig_ok(["run"]);
        }
        let killed = repo.aynig_command().arg("run").env("AYNIG_CRASH_AT", "step-decided:kill:1").output();
        assert_eq!(repo.state(&run.driver), "stalled", "{}", told(&killed.expect("it runs")));
        repo.aynig_ok(["run", "--drain"]);
        assert_eq!(rulings(&repo, &run, "judge"), expected);
    }
}

/// CONTRACT 18.6, 18.12, 20.20
#[test]
fn golden_files_that_a_person_approved_are_in_the_work() {
    let proposes = r#"mkdir -p gold; echo new >gold/a.txt; echo junk >junk; echo '{"proposed_goldens":["gold/a.txt"]}' >"$2""#;
    let repo = with_agent(&writes_harness(proposes));
    planner(&repo, &[SUCCESS, SUCCESS]);
    let steps_of =
        with_harness(", may_propose_goldens: true").replace("gate_approved: STOP", "gate_approved: judge");
    let run = start(&repo, &flow("implement", &steps_of));
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(rulings(&repo, &run, "judge"), ["needs_human proposed_goldens_present"]);
    assert_eq!(envelope(&repo, 1)["evidence"]["validation"]["proposed_goldens"][0], "gold/a.txt");
    repo.aynig_ok(["flow", "approve", &run.slug]);
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(rulings(&repo, &run, "judge")[1..], ["success"], "nothing is open after the approval");
    assert_eq!(end(&repo, &run)[1], "succeeded");
    let files = repo.git(["ls-tree", "-r", "--name-only", &run.work]);
    assert!(files.contains("gold/a.txt") && !files.contains("junk"), "{files}");
}
