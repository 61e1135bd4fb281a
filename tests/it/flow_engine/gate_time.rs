//! When an answer counts: what it is about, the time limit, twice, and while the hub is away.

use super::gate::{GATE, asked, clone, push_answer, refused, with};
use super::*;

/// CONTRACT 20.24
#[test]
fn an_answer_names_what_it_is_about() {
    let repo = Repo::new();
    let run = asked(&repo, GATE);
    let (seen, base) = (repo.head(&run.work), repo.head("main"));
    let other = repo.git(["commit-tree", "main^{tree}", "-p", "main", "-m", "other"]);
    assert_eq!(seen, base, "nothing was changed yet");
    let (code, words) = refused(&repo, &["flow", "approve", &run.slug, "--for", &other]);
    assert_eq!(code, Some(1), "{words}");
    assert!(words.contains(&seen[..12]) && words.contains(&other[..12]), "{words}");
    let (code, words) = refused(&repo, &["flow", "approve", &run.slug, "--for", "nothing"]);
    assert_eq!(code, Some(2), "{words}");
    assert_eq!(steps(&repo, &run), ["ask"]);
    repo.aynig_ok(["flow", "approve", &run.slug, "--for", &seen[..9]]);
    let tree = repo.git(["rev-parse", &format!("{seen}^{{tree}}")]);
    repo.aynig_ok(["flow", "approve", &run.slug, "--for", &tree]);
    repo.aynig_ok(["flow", "approve", &run.slug, "--for", &run.work]);
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&repo, &run), ["ask gate_approved STOP"]);
    let (code, words) = refused(&repo, &["flow", "approve", &run.slug, "--for", &other]);
    assert_eq!(code, Some(1), "it was never approved: {words}");
}

fn timed(seconds: u32) -> String {
    let gate = with(&format!("    timeout: {seconds}s\n"));
    gate.replace("gate_rejected: STOP", "gate_rejected: STOP, gate_timed_out: STOP")
}

/// The end of the time limit of a gate that is open.
fn limit(repo: &Repo, run: &Started) -> String {
    let parked = repo.git(["log", "-1", "--format=%B", &run.driver]);
    parked.lines().find_map(|line| line.strip_prefix("dwp-not-before: ")).expect("a date").to_owned()
}

fn wait_past(until: &str) {
    wait_until("the end of the time limit", || {
        let now = std::process::Command::new("date").args(["-u", "+%Y-%m-%dT%H:%M:%SZ"]).output();
        String::from_utf8(now.expect("a date").stdout).expect("text").trim() > until
    });
}

/// CONTRACT 20.14
#[test]
fn the_time_limit_of_a_gate_is_shown() {
    let repo = Repo::new();
    for (text, has_limit) in [(timed(3_600), true), (GATE.to_owned(), false)] {
        let run = start(&repo, &flow("ask", &text));
        repo.aynig_ok(["run", "--drain"]);
        let shown = json(&repo.aynig_ok(["flow", "show", &run.slug, "--json"]));
        let until = shown["gate"]["expiresAt"].as_str();
        assert_eq!(until.is_some(), has_limit, "{shown}");
        let words = out(&repo.aynig_ok(["flow", "show", &run.slug]));
        assert_eq!(words.contains("until 20"), has_limit, "{words}");
        if let Some(until) = until {
            assert!(words.contains(&format!("until {until}")), "{words}");
            assert!(limit(&repo, &run).as_str() >= &until[..19], "{until}");
        }
    }
}

/// CONTRACT 20.6
#[test]
fn an_answer_after_the_time_limit_is_refused() {
    let repo = Repo::new();
    let run = start(&repo, &flow("ask", &timed(1)));
    repo.aynig_ok(["run"]);
    wait_past(&limit(&repo, &run));
    let shown = json(&repo.aynig_ok(["flow", "show", &run.slug, "--json"]));
    assert_eq!(
        (&shown["place"], &shown["next"]),
        (&"due".into(), &serde_json::json!(["aynig run"])),
        "{shown}"
    );
    assert!(shown["words"].as_str().is_some_and(|words| words.contains("time limit")), "{shown}");
    for verb in ["approve", "reject"] {
        let (code, words) = refused(&repo, &["flow", verb, &run.slug]);
        assert_eq!(code, Some(1), "{words}");
        assert!(words.contains("time limit") && words.contains("gate_timed_out"), "{words}");
    }
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&repo, &run), ["ask gate_timed_out STOP"]);
    let (code, words) = refused(&repo, &["flow", "approve", &run.slug]);
    assert_eq!(code, Some(1), "{words}");
    assert!(words.contains("time limit"), "{words}");
}

/// CONTRACT 20.6
#[test]
fn an_answer_in_time_counts_whenever_a_runner_notes_it() {
    let repo = Repo::new();
    let run = start(&repo, &flow("ask", &timed(15)));
    repo.aynig_ok(["run"]);
    let until = limit(&repo, &run);
    repo.aynig_ok(["flow", "reject", &run.slug]);
    wait_past(&until);
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&repo, &run), ["ask gate_rejected STOP"]);
}

/// CONTRACT 20.6, 20.26
#[test]
fn an_answer_that_was_pushed_too_late_does_not_count() {
    let hub = Repo::new();
    let one = clone(&hub, "one@example.com");
    let run = start(&one, &flow("ask", &timed(1)));
    one.aynig_ok(["run"]);
    wait_past(&limit(&hub, &run));
    let seen = one.head(&run.work);
    push_answer(&one, &hub, &run, &format!("aynig-gate: result\naynig-answer: approved\naynig-tree: {seen}"));
    one.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&one, &run), ["ask gate_timed_out STOP"]);
    assert_eq!(hub.state(&run.driver), "flow-done");
}

/// CONTRACT 20.6
#[test]
fn an_answer_says_what_was_answered_by_whom_and_what_is_next() {
    let repo = Repo::new();
    let run = start(&repo, &flow("ask", &with("    required: 2\n")));
    let (code, words) = refused(&repo, &["flow", "approve", &run.slug]);
    assert_eq!(code, Some(1), "{words}");
    assert!(words.contains("not open yet") && words.contains("`aynig run` opens it"), "{words}");
    repo.aynig_ok(["run", "--drain"]);
    let first = told(&repo.aynig_ok(["flow", "approve", &run.slug]));
    assert!(
        first.contains("ask: Test Person <person@example.com> approved: 1 of 2 approvals are there"),
        "{first}"
    );
    let again = told(&repo.aynig_ok(["flow", "approve", &run.slug]));
    assert!(again.contains("had approved already: 1 of 2"), "{again}");
    let rejected = told(&repo.aynig_ok(["flow", "reject", &run.slug]));
    assert!(
        rejected.contains("ask: rejected by Test Person") && rejected.contains("`aynig run` notes it"),
        "{rejected}"
    );
    let again = told(&repo.aynig_ok(["flow", "reject", &run.slug]));
    assert!(again.contains("ask was rejected already, by Test Person"), "{again}");
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&repo, &run), ["ask gate_rejected STOP"]);
}

/// CONTRACT 20.6
#[test]
fn an_answer_while_the_hub_is_away_changes_nothing_and_counts_later() {
    let hub = Repo::new();
    let (one, other) = (clone(&hub, "one@example.com"), clone(&hub, "other@example.com"));
    let run = start(&one, &flow("ask", GATE));
    one.aynig_ok(["run", "--drain"]);
    other.aynig_ok(["flow", "list"]);
    let away = hub.beside("away");
    std::fs::rename(&hub.path, &away).expect("it moves");
    for repo in [&one, &other] {
        let before = repo.git(["for-each-ref", "refs/aynig", "refs/remotes"]);
        let (code, words) = refused(repo, &["flow", "approve", &run.slug]);
        assert_eq!(code, Some(4), "{words}");
        assert_eq!(repo.git(["for-each-ref", "refs/aynig", "refs/remotes"]), before);
    }
    std::fs::rename(&away, &hub.path).expect("it is back");
    other.aynig_ok(["flow", "approve", &run.slug]);
    let (code, words) = refused(&one, &["flow", "reject", &run.slug]);
    assert_eq!(code, Some(1), "{words}");
    assert!(words.contains("other@example.com"), "{words}");
    one.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&one, &run), ["ask gate_approved STOP"]);
}

/// CONTRACT 20.6, 20.24
#[test]
fn a_question_says_what_was_changed_and_how_the_step_before_ended() {
    let repo = Repo::new();
    let undo = "  - id: undo\n    opcode: ROLLBACK\n    target: pre_run\n    routes: {completed: ask, error: STOP}\n";
    let run = start(&repo, &flow("undo", &format!("{undo}{GATE}")));
    repo.aynig_ok(["run", "--drain"]);
    std::fs::write(run.worktree.join("new.txt"), "new").expect("a file");
    let worktree = run.worktree.to_str().expect("UTF-8");
    repo.git(["-C", worktree, "add", "new.txt"]);
    repo.git(["-C", worktree, "commit", "-q", "-m", "mine"]);
    let (code, words) = refused(&repo, &["flow", "approve", &run.slug]);
    assert_eq!(code, Some(1), "{words}");
    let lines = out(&repo.aynig_ok(["orch", "events", &run.id, "--json"]));
    let events =
        lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON")["event"].clone());
    let asked: Vec<Value> = events
        .filter(|event| event["type"] == "approval.requested")
        .map(|event| event["tool"]["args"].clone())
        .collect();
    assert_eq!(asked[0]["changes"], serde_json::json!({ "files": 0, "paths": [] }));
    assert_eq!(asked[1]["changes"], serde_json::json!({ "files": 1, "paths": ["new.txt"] }));
    for args in &asked {
        assert_eq!(
            (&args["evidence"]["step"], &args["evidence"]["outcome"]),
            (&"undo".into(), &"completed".into())
        );
    }
}
