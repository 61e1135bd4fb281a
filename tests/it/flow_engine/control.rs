//! A person pauses, stops and resumes a run.

use super::*;

const LOOP: &str = "  - id: undo
    opcode: ROLLBACK
    target: pre_run
    max_visits: 3
    routes: {completed: ask, error: STOP}
  - id: ask
    opcode: GATE
    gate: again
    routes: {gate_approved: undo, gate_rejected: STOP}
";

/// CONTRACT 20.9
#[test]
fn a_paused_run_begins_no_step_until_it_is_resumed() {
    let repo = Repo::new();
    let run = start(&repo, &flow("undo", LOOP));
    repo.aynig_ok(["flow", "pause", &run.slug]);
    repo.aynig_ok(["run", "--drain"]);
    assert!(steps(&repo, &run).is_empty());
    assert_eq!(repo.state(&run.driver), "flow-gate");
    repo.aynig_ok(["flow", "resume", &run.slug]);
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&repo, &run), ["undo completed ask", "ask"]);
    repo.aynig_ok(["flow", "stop", &run.slug]);
    assert_eq!(repo.state(&run.driver), "flow-done");
    assert_eq!(end(&repo, &run), ["stopped", "stopped", "stopped"]);
    let again = repo.aynig(["flow", "stop", &run.slug]);
    assert_eq!(again.status.code(), Some(1), "{}", told(&again));
}

/// CONTRACT 20.8
#[test]
fn a_step_is_entered_as_often_as_it_may_be() {
    let repo = Repo::new();
    let run = start(&repo, &flow("undo", LOOP));
    for _ in 0..3 {
        repo.aynig_ok(["run", "--drain"]);
        repo.aynig_ok(["flow", "approve", &run.slug]);
    }
    repo.aynig_ok(["run", "--drain"]);
    let paused = shown(&repo, &run);
    assert_eq!(paused["status"], "paused");
    assert!(paused["waitingFor"].as_str().expect("words").contains("undo was entered 3 times"), "{paused}");
    assert_eq!(repo.state(&run.driver), "flow-gate");
    repo.aynig_ok(["flow", "resume", &run.slug]);
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&repo, &run).len(), 8, "it goes on");
    let wrong = repo.aynig(["flow", "resume", &run.slug, "--from", "nothing"]);
    assert_eq!(wrong.status.code(), Some(2), "{}", told(&wrong));
}
