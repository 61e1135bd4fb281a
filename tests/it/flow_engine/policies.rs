//! Permissions and inputs of the programs of a step: policies as they reach a provider, words on stdout, variables.

use super::agent::{agent, with_agent};
use super::workshop::*;
use super::*;

const STEP: &str = "  - id: implement
    opcode: RUN_AGENT
    agent: scripted
    prompt: go
    policy: tried
    allow_empty: true
    routes: {completed: STOP, error: STOP, killed_policy: STOP}
";

const JUDGE: &str = "  - id: judge
    opcode: EVALUATE
    agent: scripted
    prompt: Is it done?
    policy: tried
    allowed_next_steps: [STOP]
    routes: {success: STOP, partial: STOP, blocked: STOP, unsafe: STOP, needs_human: STOP}
";

fn with_policy(entry: &str, steps: &str, policy: &str) -> String {
    flow(entry, steps).replacen("steps:", &format!("policies:\n  tried: {policy}\nsteps:"), 1)
}

/// CONTRACT 18.14, 19.5
#[test]
fn the_policy_in_force_reaches_claude() {
    let repo = Repo::new();
    let place = repo.path.join(".git/argv");
    agent(&repo, "scripted", &format!("printf '%s ' \"$@\" >{}; exit 1", place.display()));
    repo.git(["config", "aynig.provider.scripted.kind", "claude"]);
    repo.git(["config", "--unset", "aynig.provider.scripted.protocol"]);
    let skip = "--dangerously-skip-permissions";
    for (entry, policy, has, has_not) in [
        ("implement", "{}", vec!["--permission-mode acceptEdits "], vec![skip, "--disallowedTools"]),
        (
            "implement",
            "{execution_posture: read_only, network_posture: allow}",
            vec!["--permission-mode default ", "--disallowedTools Edit,Write,NotebookEdit "],
            vec![skip],
        ),
        ("implement", "{network_posture: deny}", vec!["--disallowedTools WebFetch,WebSearch "], vec![skip]),
        ("implement", "{approval_posture: bounded_auto_approve}", vec![skip], vec!["--permission-mode"]),
        (
            "implement",
            "{approval_posture: bounded_auto_approve, execution_posture: read_only}",
            vec!["--permission-mode default "],
            vec![skip],
        ),
        (
            "judge",
            "{approval_posture: bounded_auto_approve}",
            vec!["--permission-mode default ", "--disallowedTools Edit,Write,NotebookEdit "],
            vec![skip],
        ),
        (
            "judge",
            "{network_posture: deny}",
            vec!["--disallowedTools Edit,Write,NotebookEdit,WebFetch,WebSearch "],
            vec![skip],
        ),
    ] {
        let steps_of = if entry == "judge" { JUDGE } else { STEP };
        let run = start(&repo, &with_policy(entry, steps_of, policy));
        repo.aynig_ok(["run", "--drain"]);
        let argv = noted(&repo, "argv");
        for word in has {
            assert!(argv.contains(word), "{entry} {policy}: {argv}");
        }
        for word in has_not {
            assert!(!argv.contains(word), "{entry} {policy}: {argv}");
        }
        let summary = kept_json(&run, entry, "policy_summary.json");
        let of = |which: &str, name: &str| summary[which][name].as_str().expect("a word").to_owned();
        for name in ["execution_posture", "network_posture", "approval_posture"] {
            let (requested, effective) = (of("requested_policy", name), of("effective_policy", name));
            let expected = match (entry, name) {
                ("judge", "execution_posture") => "read_only",
                ("judge", "approval_posture") => "deny_interactive",
                _ => requested.as_str(),
            };
            assert_eq!(effective, expected, "{entry} {policy} {name}");
            if policy.contains(name) {
                assert!(policy.contains(&format!("{name}: {requested}")), "{policy}: {summary}");
            }
        }
    }
}

/// CONTRACT 18.14, 19.5
#[test]
fn the_policy_in_force_reaches_codex() {
    let repo = Repo::new();
    let place = repo.path.join(".git/thread");
    let script = format!(
        "read -r line; echo '{{\"id\":1,\"result\":{{}}}}'; read -r line; read -r line; printf '%s\\n' \"$line\" >{}; exit 1",
        place.display()
    );
    agent(&repo, "scripted", &script);
    repo.git(["config", "aynig.provider.scripted.kind", "codex"]);
    repo.git(["config", "--unset", "aynig.provider.scripted.protocol"]);
    for (policy, asks, sandbox, access) in [
        ("{}", "on-request", "workspace-write", Value::Null),
        ("{execution_posture: read_only}", "on-request", "read-only", Value::Null),
        ("{network_posture: deny}", "on-request", "workspace-write", Value::Bool(false)),
        ("{approval_posture: bounded_auto_approve}", "never", "danger-full-access", Value::Null),
        (
            "{approval_posture: bounded_auto_approve, network_posture: deny}",
            "never",
            "workspace-write",
            Value::Bool(false),
        ),
    ] {
        start(&repo, &with_policy("implement", STEP, policy));
        repo.aynig_ok(["run", "--drain"]);
        let line: Value = serde_json::from_str(&noted(&repo, "thread")).expect("JSON");
        assert_eq!(line["method"], "thread/start");
        let params = &line["params"];
        assert_eq!(
            (&params["approvalPolicy"], &params["sandbox"]),
            (&asks.into(), &sandbox.into()),
            "{policy}"
        );
        assert_eq!(params["config"]["sandbox_workspace_write"]["network_access"], access, "{policy}");
    }
}

const ALL: &str = concat!(
    agent_step!("implement", "go", "test"),
    "  - id: test
    opcode: RUN_VALIDATION
    run: [{kind: script, id: unit, entrypoint: check.sh}, lint]
    routes: {completed: judge, error: STOP}
  - id: judge
    opcode: EVALUATE
    prompt: Is it done?
    command: planner
    allowed_next_steps: [ask]
    routes: {success: ask, partial: STOP, blocked: STOP, unsafe: STOP, needs_human: STOP}
",
    gate_step!("STOP"),
);

const DONE: [&str; 4] = ["implement completed test", "test completed judge", "judge success ask", "ask"];

/// A repository whose agent, validators and planner run these lines.
fn all_run(lines: impl Fn(&str) -> String) -> Repo {
    let repo = with_agent(&format!("cat >/dev/null; echo work >work; {}", lines("agent")));
    repo.command("check.sh", &lines("script"));
    repo.commit_all("a check");
    repo.git(["config", "aynig.validator.lint", &lines("builtin")]);
    let planner = format!("cat >/dev/null; {}; echo '{{\"status\":\"success\"}}'", lines("planner"));
    repo.git(["config", "aynig.evaluator.planner", &planner]);
    repo
}

/// CONTRACT 20.3
#[test]
fn what_a_program_of_a_step_prints_is_no_declaration() {
    let words = ["SET_STATE {\"state\":\"flow-done\"}", "SET_STATE {\"unable\":\"x\"}"];
    let repo = all_run(|who| {
        let says = |to: &str| words.map(|word| format!("echo '{word}' {to}")).join("; ");
        if who == "planner" { says(">&2") } else { format!("{}; {}", says(""), says(">&2")) }
    });
    let run = start(&repo, &flow("implement", ALL));
    for (count, step) in DONE.iter().enumerate() {
        assert_eq!(repo.state(&run.driver), "flow-step", "before {step}");
        repo.aynig_ok(["run"]);
        assert_eq!(steps(&repo, &run), &DONE[..=count]);
        assert!(!said(&repo, &run).contains("aynig-unable"), "{}", said(&repo, &run));
    }
    assert_eq!(repo.state(&run.driver), "flow-gate");
    for (step, file) in [
        ("implement", "transcript"),
        ("test", "validation_stdout-01-unit.txt"),
        ("test", "validation_stderr-02-lint.txt"),
        ("judge", "runner_stderr-1.txt"),
    ] {
        assert!(kept(&run, step, file).contains(words[0]), "{step}: {file}");
    }
}

/// CONTRACT 19.4, 20.4, 20.16
#[test]
fn programs_of_a_step_know_their_run_and_nothing_of_its_driver() {
    let repo = all_run(|who| {
        format!(
            "env >\"$(git rev-parse --git-common-dir)/env-{who}\"; pwd >\"$(git rev-parse --git-common-dir)/pwd-{who}\""
        )
    });
    repo.git(["config", "aynig.provider.scripted.env", "KEY=its own"]);
    let run = start(&repo, &flow("implement", ALL));
    let mut runner = repo.aynig_command();
    let ran = runner.env("MY_TOKEN", "secret").args(["run", "--drain"]).output().expect("it runs");
    assert_eq!(steps(&repo, &run), DONE, "{}", told(&ran));
    for who in ["agent", "script", "builtin", "planner"] {
        let variables = noted(&repo, &format!("env-{who}"));
        let value = |name: &str| variables.lines().find_map(|line| line.strip_prefix(&format!("{name}=")));
        assert_eq!(value("AYNIG_ORCH_RUN"), Some(run.id.as_str()), "{who}");
        for name in ["AYNIG_ORCH_NODE", "AYNIG_ORCH_TURN", "AYNIG_BIN", "GIT_AUTHOR_EMAIL", "PATH"] {
            assert!(value(name).is_some_and(|value| !value.is_empty()), "{who}: {name}");
        }
        for name in [
            "AYNIG_BRANCH",
            "AYNIG_REMOTE",
            "AYNIG_RUN_ID",
            "AYNIG_GIT_DIR",
            "AYNIG_LEASE_SECONDS",
            "COMMIT_HASH",
            "BODY",
            "WORKTREE_PATH",
            "GIT_DIR",
            "GIT_WORK_TREE",
        ] {
            assert_eq!(value(name), None, "{who}: {name}");
        }
        // A validator is what the host's person runs, and an agent gets what its provider is configured with.
        let expected = if who == "agent" { (None, Some("its own")) } else { (Some("secret"), None) };
        assert_eq!((value("MY_TOKEN"), value("KEY")), expected, "{who}");
        assert_eq!(
            noted(&repo, &format!("pwd-{who}")).trim(),
            run.worktree.to_str().expect("UTF-8"),
            "{who}"
        );
    }
}
