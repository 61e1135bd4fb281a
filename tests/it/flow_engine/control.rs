//! A person pauses, stops and resumes a run.

use super::agent::with_agent;
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
    let log = out(&repo.aynig_ok(["flow", "log", &run.slug]));
    assert!(log.contains("paused: Test Person paused it") && log.contains("ended: stopped  "), "{log}");
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

/// CONTRACT 20.40
#[test]
fn a_rollback_that_fails_is_an_outcome_with_a_route() {
    let text = "  - id: implement
    opcode: RUN_AGENT
    agent: scripted
    prompt: do it
    routes: {completed: undo, error: STOP}
  - id: undo
    opcode: ROLLBACK
    target: pre_run
    routes: {completed: STOP, error: ask}
  - id: ask
    opcode: GATE
    gate: again
    routes: {gate_approved: undo, gate_rejected: STOP}
";
    // No rescue ref can be written below a ref of that name; no branch can be moved whose lock another process left.
    for obstacle in ["rescue", "lock"] {
        let repo = with_agent("read -r x; echo made >made");
        let run = start(&repo, &flow("implement", text));
        repo.aynig_ok(["run"]);
        let lock = repo.path.join(format!(".git/refs/heads/{}.lock", run.work));
        match obstacle {
            "rescue" => drop(repo.git(["update-ref", "refs/aynig/rescue", "HEAD"])),
            _ => std::fs::write(&lock, "").expect("a lock"),
        }
        let made = repo.head(&run.work);
        let failed = repo.aynig_ok(["run", "--drain"]);
        assert_eq!(
            steps(&repo, &run),
            ["implement completed undo", "undo error ask", "ask"],
            "{obstacle}: {}",
            told(&failed)
        );
        assert_eq!(repo.head(&run.work), made, "{obstacle}: the work is where it was");
        assert_eq!(shown(&repo, &run)["status"], "running");
        assert_eq!(repo.state(&run.driver), "flow-gate");
        let log = out(&repo.aynig_ok(["flow", "log", &run.slug]));
        assert!(log.contains("rescue") || log.contains("lock"), "{obstacle}: {log}");
        match obstacle {
            "rescue" => drop(repo.git(["update-ref", "-d", "refs/aynig/rescue"])),
            _ => std::fs::remove_file(&lock).expect("it is there"),
        }
        repo.aynig_ok(["flow", "approve", &run.slug]);
        repo.aynig_ok(["run", "--drain"]);
        assert_eq!(steps(&repo, &run).last().expect("a step"), "undo completed STOP", "{obstacle}");
        assert_eq!(repo.head(&run.work), repo.head("main"), "{obstacle}");
        let saved = repo.rescues();
        assert!(saved.iter().any(|name| repo.show(&format!("{name}:made")).trim() == "made"), "{saved:?}");
        assert_eq!(end(&repo, &run)[1], "stopped");
    }
}

/// CONTRACT 20.14, 20.31
#[test]
fn a_stalled_driver_names_the_command_that_carries_its_run_on() {
    let repo = Repo::new();
    let run = start(&repo, &flow("undo", LOOP));
    // As an older version left it.
    let message = "stalled\n\ndwp-state: stalled\ndwp-origin-state: flow-step\naynig-cancel: stall\n";
    let tree = format!("{}^{{tree}}", run.driver);
    let stalled = repo.git(["commit-tree", &tree, "-p", &run.driver, "-m", message]);
    repo.git(["update-ref", &format!("refs/heads/{}", run.driver), &stalled]);
    let resume = format!("aynig flow resume {}", run.slug);
    let status = out(&repo.aynig_ok(["status", &run.driver]));
    let show = out(&repo.aynig_ok(["flow", "show", &run.slug]));
    for words in [status, show] {
        assert!(words.contains(&resume) && !words.contains("--retry"), "{words}");
    }
    repo.aynig_ok(["flow", "resume", &run.slug]);
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&repo, &run), ["undo completed ask", "ask"]);
}
