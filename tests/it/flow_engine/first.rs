//! Steps without an agent: rollbacks, gates and ends.

use super::*;

const GATE: &str = concat!(
    undo_step!("ask"),
    "  - id: ask
    opcode: GATE
    gate: result
    question: Is this right?
    routes: {gate_approved: end, gate_rejected: undo}
  - id: end
    opcode: STOP
    reason: it is
",
);

/// CONTRACT 20.1, 20.2, 20.3
#[test]
fn a_run_is_started_and_each_attempt_carries_out_one_step() {
    let repo = Repo::new();
    let run = start(&repo, &flow("undo", GATE));
    assert_eq!(run.driver, format!("run/{}/flow", run.slug));
    assert_eq!(
        repo.git(["ls-tree", "-r", "--name-only", &run.driver]).trim(),
        ".aynig/command/flow-step\n.aynig/command/stalled"
    );
    assert_eq!(repo.git(["rev-list", "--count", &run.driver]).trim(), "1");
    assert_eq!(repo.head(&run.work), repo.head("main"));
    assert_eq!(repo.state(&run.driver), "flow-step");
    assert!(run.worktree.join(".git").is_file() && run.directory.is_dir());
    repo.aynig_ok(["run"]);
    assert_eq!(steps(&repo, &run), ["undo completed ask"]);
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&repo, &run), ["undo completed ask", "ask"]);
    assert_eq!(repo.state(&run.driver), "flow-gate");
    assert_eq!(repo.state("main"), "", "the branch of the person is not touched");
}

/// CONTRACT 20.6, 20.7
#[test]
fn a_gate_waits_for_a_person_and_its_answer_decides() {
    let repo = Repo::new();
    let run = start(&repo, &flow("ask", GATE));
    repo.aynig_ok(["run", "--drain"]);
    let waits = out(&repo.aynig_ok(["status", "--all"]));
    assert!(waits.contains(&format!("aynig flow approve {}", run.slug)), "{waits}");
    repo.aynig_ok(["flow", "reject", &run.slug, "--comment", "not yet"]);
    repo.aynig_ok(["run", "--drain"]);
    let expected = ["ask gate_rejected undo", "undo completed ask", "ask"];
    assert_eq!(steps(&repo, &run), expected);
    repo.aynig_ok(["flow", "approve", &run.slug]);
    repo.aynig_ok(["flow", "approve", &run.slug]);
    let other = repo.aynig(["flow", "reject", &run.slug]);
    assert_eq!(other.status.code(), Some(1), "{}", told(&other));
    assert!(err(&other).contains("approved"), "{}", err(&other));
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&repo, &run)[2..], ["ask gate_approved end", "end completed"]);
    assert_eq!(end(&repo, &run), ["stopped", "stopped", "completed"]);
    assert_eq!(repo.state(&run.driver), "flow-done");
}

/// CONTRACT 20.6
#[test]
fn a_gate_with_a_time_limit_ends_by_itself() {
    let repo = Repo::new();
    let gate = GATE
        .replace("question: Is this right?", "timeout: 1s")
        .replace("gate_rejected: undo", "gate_rejected: undo, gate_timed_out: STOP");
    let run = start(&repo, &flow("ask", &gate));
    repo.run_until(&run.driver, "flow-done", &["run"]);
    assert_eq!(steps(&repo, &run), ["ask gate_timed_out STOP"]);
    assert_eq!(end(&repo, &run), ["failed", "timed_out", "completed"]);
}

/// CONTRACT 20.7
#[test]
fn an_outcome_without_a_route_ends_the_run() {
    let repo = Repo::new();
    let gate = GATE
        .replace(", gate_rejected: undo", "")
        .replace("target: pre_run", "target: pre_run\n    allow_unreachable: true");
    let run = start(&repo, &flow("ask", &gate));
    repo.aynig_ok(["run", "--drain"]);
    repo.aynig_ok(["flow", "reject", &run.slug]);
    repo.aynig_ok(["run", "--drain"]);
    let expected = ["failed", "rejected", "error: no route for gate_rejected at ask"];
    assert_eq!(end(&repo, &run), expected);
}

/// CONTRACT 20.4, 20.5
#[test]
fn an_attempt_that_was_cut_off_is_tried_again_and_then_gives_up() {
    let repo = Repo::new();
    let steps_of = "  - id: undo
    opcode: ROLLBACK
    target: pre_run
    retries: 1
    routes: {completed: STOP}
";
    let run = start(&repo, &flow("undo", steps_of));
    for attempt in 1..=2 {
        std::fs::write(run.worktree.join("left"), format!("{attempt}")).expect("a file");
        let crash = ("AYNIG_CRASH_AT", "step-decided:kill:1");
        let output = repo.aynig_command().arg("run").env(crash.0, crash.1).output().expect("it runs");
        assert!(repo.state(&run.driver) == "stalled", "{}", told(&output));
        repo.aynig_ok(["run"]);
    }
    assert_eq!(steps(&repo, &run), ["undo error", "undo error"]);
    assert_eq!(end(&repo, &run), ["failed", "stalled", "error: undo was cut off, and no retry is left"]);
}

/// CONTRACT 20.5
#[test]
fn what_fails_before_a_step_has_begun_is_handed_back_and_not_counted() {
    let repo = Repo::new();
    let run = start(&repo, &flow("undo", GATE));
    let git_dir = std::fs::read_to_string(run.worktree.join(".git")).expect("a link");
    let lock = std::path::Path::new(git_dir.trim().trim_start_matches("gitdir: ")).join("index.lock");
    std::fs::write(&lock, "").expect("a lock");
    repo.aynig_ok(["run"]);
    assert!(steps(&repo, &run).is_empty());
    let message = repo.git(["log", "-1", "--format=%B", &run.driver]);
    assert!(message.contains("dwp-state: flow-step") && message.contains("aynig-unable:"), "{message}");
    assert!(message.contains("index.lock"), "{message}");
}

/// CONTRACT 20.1
#[test]
fn a_run_does_not_begin_with_the_work_of_another_one_unasked() {
    let repo = super::agent::with_agent(super::back::APPENDS);
    let text = flow("one", super::back::TWO);
    let run = start(&repo, &text);
    repo.aynig_ok(["run", "--drain"]);
    let file = repo.path.join(".git/flow.yaml");
    let begin = |more: &[&str]| {
        let mut command = repo.aynig_command();
        command.current_dir(&run.worktree).args(["flow", "start"]).arg(&file).args(more);
        command.output().expect("it runs")
    };
    let typed = format!("--base {}", run.work);
    assert_refused(&begin(&["--base", "HEAD"]), 2, &["nothing was started"]);
    assert_refused(&begin(&[]), 2, &[&format!("run {}", run.slug), "`--base main`", &typed]);
    assert_eq!(out(&repo.aynig_ok(["flow", "list"])).lines().filter(|line| line.contains("ask")).count(), 1);
    for base in ["main", &run.work] {
        let begun = begin(&["--base", base]);
        assert!(begun.status.success(), "{base}: {}", told(&begun));
    }
}
