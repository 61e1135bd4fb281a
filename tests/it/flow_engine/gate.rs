//! Who may answer a gate, and what an answer is about.

use super::*;

const GATE: &str = "  - id: ask
    opcode: GATE
    gate: result
    question: Is this right?
    routes: {gate_approved: STOP, gate_rejected: STOP}
";

/// A run of this flow whose gate is open.
fn asked(repo: &Repo, steps: &str) -> Started {
    let run = start(repo, &flow("ask", steps));
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(repo.state(&run.driver), "flow-gate");
    run
}

/// A repository whose deciding remote is `hub`, of this person.
fn clone(hub: &Repo, email: &str) -> Repo {
    let clone = Repo::new();
    clone.git(["remote", "add", "origin", &hub.path.display().to_string()]);
    clone.git(["config", "aynig.remote", "origin"]);
    clone.git(["config", "user.email", email]);
    clone
}

/// A refused call: its exit code, and all of its words.
fn refused(repo: &Repo, arguments: &[&str]) -> (Option<i32>, String) {
    let output = repo.aynig(arguments.iter().copied());
    (output.status.code(), err(&output))
}

/// CONTRACT 20.6
#[test]
fn a_gate_is_answered_from_another_clone() {
    let hub = Repo::new();
    let (one, other) = (clone(&hub, "one@example.com"), clone(&hub, "other@example.com"));
    let run = start(&one, &flow("ask", GATE));
    one.aynig_ok(["run", "--drain"]);
    assert_eq!(hub.state(&run.driver), "flow-gate");
    other.aynig_ok(["flow", "approve", &run.slug]);
    one.aynig_ok(["run", "--drain"]);
    assert_eq!(hub.state(&run.driver), "flow-done");
    assert_eq!(steps(&one, &run), ["ask gate_approved STOP"]);
}

/// CONTRACT 20.24
#[test]
fn an_answer_about_work_that_moved_is_refused_and_the_gate_asks_anew() {
    let repo = Repo::new();
    let run = asked(&repo, GATE);
    let moved = repo.git(["commit-tree", &format!("{}^{{tree}}", run.work), "-p", &run.work, "-m", "mine"]);
    repo.git(["update-ref", &format!("refs/heads/{}", run.work), &moved]);
    let (code, words) = refused(&repo, &["flow", "approve", &run.slug]);
    assert_eq!(code, Some(1), "{words}");
    assert!(words.contains(&moved[..7]) && words.contains("asks anew"), "{words}");
    assert_eq!(repo.state(&run.driver), "flow-gate");
    assert_eq!(steps(&repo, &run), ["ask"], "it stays open");
    repo.aynig_ok(["flow", "approve", &run.slug]);
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&repo, &run), ["ask gate_approved STOP"]);
}

/// CONTRACT 20.6
#[test]
fn the_same_answer_again_is_fine_and_one_that_is_too_late_names_the_first() {
    let repo = Repo::new();
    let run = asked(&repo, GATE);
    repo.aynig_ok(["flow", "approve", &run.slug, "--comment", "good"]);
    repo.aynig_ok(["flow", "approve", &run.slug]);
    repo.aynig_ok(["run", "--drain"]);
    repo.aynig_ok(["flow", "approve", &run.slug, "--comment", "very good"]);
    let (code, words) = refused(&repo, &["flow", "reject", &run.slug]);
    assert_eq!(code, Some(1), "{words}");
    assert!(words.contains("approved, by Test Person <person@example.com>"), "{words}");
    assert_eq!(repo.state(&run.driver), "flow-done");
}

/// CONTRACT 20.7
#[test]
fn a_step_answers_no_gate() {
    let repo = Repo::new();
    let run = asked(&repo, GATE);
    let inside =
        repo.aynig_command().args(["flow", "approve", &run.slug]).env("AYNIG_ORCH_RUN", "x").output();
    let inside = inside.expect("it runs");
    assert_eq!(inside.status.code(), Some(2), "{}", told(&inside));
    assert_eq!(steps(&repo, &run), ["ask"]);
}

/// A GATE with these lines besides.
fn with(more: &str) -> String {
    GATE.replace("    gate: result\n", &format!("    gate: result\n{more}"))
}

fn become_person(repo: &Repo, email: &str) {
    repo.git(["config", "user.email", email]);
}

/// CONTRACT 20.25
#[test]
fn only_an_approver_answers() {
    let repo = Repo::new();
    repo.git(["config", "aynig.approver.lead", "Ann@example.com"]);
    let run = asked(&repo, &with("    approvers: [lead, bob@example.com]\n"));
    for verb in ["approve", "reject"] {
        let (code, words) = refused(&repo, &["flow", verb, &run.slug]);
        assert_eq!(code, Some(1), "{words}");
        let expected =
            "Test Person <person@example.com> is not asked: ann@example.com, bob@example.com may answer";
        assert!(words.contains(expected), "{words}");
    }
    assert_eq!(repo.state(&run.driver), "flow-gate");
    become_person(&repo, "ann@example.com");
    repo.aynig_ok(["flow", "approve", &run.slug]);
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&repo, &run), ["ask gate_approved STOP"]);
}

/// CONTRACT 20.25
#[test]
fn a_run_whose_approvers_are_unknown_is_not_started() {
    let repo = Repo::new();
    let file = repo.path.join(".git").join("flow.yaml");
    let cases = [
        ("[lead]", "git config aynig.approver.lead"),
        ("[\"key:abc\"]", "key:abc"),
        ("[ann@example.com, Ann@example.com]\n    required: 2", "2 people must approve, and only 1 may"),
    ];
    for (approvers, words) in cases {
        let text = flow("ask", &with(&format!("    approvers: {approvers}\n")));
        std::fs::write(&file, text).expect("a file");
        let path = file.to_str().expect("UTF-8");
        let (code, told) = refused(&repo, &["flow", "start", path, "--base", "main"]);
        assert_eq!(code, Some(2), "{told}");
        assert!(told.contains(words), "{told}");
        assert!(!repo.git(["for-each-ref"]).contains("/flow"), "{told}");
    }
}

/// CONTRACT 20.25
#[test]
fn two_different_people_approve() {
    let hub = Repo::new();
    let (one, other) = (clone(&hub, "one@example.com"), clone(&hub, "other@example.com"));
    let run = start(&one, &flow("ask", &with("    required: 2\n")));
    one.aynig_ok(["run", "--drain"]);
    one.aynig_ok(["flow", "approve", &run.slug]);
    one.aynig_ok(["flow", "approve", &run.slug, "--comment", "again"]);
    one.aynig_ok(["run", "--drain"]);
    assert_eq!(hub.state(&run.driver), "flow-gate", "one person is not two");
    other.aynig_ok(["flow", "approve", &run.slug]);
    one.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&one, &run), ["ask gate_approved STOP"]);
}

/// CONTRACT 20.25
#[test]
fn one_rejection_decides() {
    let repo = Repo::new();
    let run = asked(&repo, &with("    required: 2\n"));
    repo.aynig_ok(["flow", "approve", &run.slug]);
    become_person(&repo, "other@example.com");
    repo.aynig_ok(["flow", "reject", &run.slug]);
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&repo, &run), ["ask gate_rejected STOP"]);
}
