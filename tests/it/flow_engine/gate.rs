//! The approvers of a gate, and the commit of an answer.

use super::*;

pub(super) const GATE: &str = "  - id: ask
    opcode: GATE
    gate: result
    question: Is this right?
    routes: {gate_approved: STOP, gate_rejected: STOP}
";

/// A run of this flow whose gate is open.
pub(super) fn asked(repo: &Repo, steps: &str) -> Started {
    let run = start(repo, &flow("ask", steps));
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(repo.state(&run.driver), "flow-gate");
    run
}

/// A repository whose deciding remote is `hub`, of this person.
pub(super) fn clone(hub: &Repo, email: &str) -> Repo {
    let clone = Repo::new();
    clone.git(["remote", "add", "origin", &hub.path.display().to_string()]);
    clone.git(["config", "aynig.remote", "origin"]);
    clone.git(["config", "user.email", email]);
    clone
}

/// A refused call: its exit code, and all of its words.
pub(super) fn refused(repo: &Repo, arguments: &[&str]) -> (Option<i32>, String) {
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
    assert!(words.contains("approved already, by Test Person <person@example.com>"), "{words}");
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
pub(super) fn with(more: &str) -> String {
    GATE.replace("    gate: result\n", &format!("    gate: result\n{more}"))
}

pub(super) fn become_person(repo: &Repo, email: &str) {
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
    repo.git(["config", "aynig.approver.broken", "ann@example.com bob"]);
    let file = repo.path.join(".git").join("flow.yaml");
    let cases = [
        ("[lead]", "git config aynig.approver.lead"),
        ("[\"key:abc\"]", "key:abc is no whole fingerprint"),
        ("[broken]", "nobody is known here as broken"),
        ("[ann@example.com, Ann@example.com]\n    required: 2", "2 people must approve, and only 1 may"),
    ];
    for (approvers, words) in cases {
        let text = flow("ask", &with(&format!("    approvers: {approvers}\n")));
        std::fs::write(&file, text).expect("a file");
        let path = file.to_str().expect("UTF-8");
        let (code, told) = refused(&repo, &["flow", "start", path, "--base", "main"]);
        assert_eq!(code, Some(3), "{told}");
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

/// CONTRACT 20.6, 20.25
#[test]
fn one_rejection_decides() {
    for who in ["other@example.com", "person@example.com"] {
        let repo = Repo::new();
        let run = asked(&repo, &with("    required: 2\n"));
        become_person(&repo, "person@example.com");
        repo.aynig_ok(["flow", "approve", &run.slug]);
        become_person(&repo, who);
        repo.aynig_ok(["flow", "reject", &run.slug]);
        repo.aynig_ok(["run", "--drain"]);
        assert_eq!(steps(&repo, &run), ["ask gate_rejected STOP"], "{who}");
    }
}

/// Pushes an answer with nothing but git.
pub(super) fn push_answer(from: &Repo, hub: &Repo, run: &Started, trailers: &str) {
    push_signed(from, hub, run, trailers, None);
}

/// An answer that the key in a file signs.
pub(super) fn push_signed(from: &Repo, hub: &Repo, run: &Started, trailers: &str, key: Option<&str>) {
    from.git(["fetch", "-q", "origin", &run.driver]);
    let driver = &run.driver;
    let message = format!(
        "my answer\n\nIt is good.\n\ndwp-state: flow-step\naynig-slot: {driver}\naynig-wake: true\n{trailers}\n"
    );
    let parent = hub.head(driver);
    let tree = format!("{parent}^{{tree}}");
    let sign = key.map(|key| format!("-S{key}"));
    let mut arguments = vec!["commit-tree", &tree, "-p", &parent, "-m", &message];
    arguments.extend(sign.as_deref());
    let slot = from.git(arguments);
    from.git(["push", "-q", "origin", &format!("{slot}:refs/aynig/deferred/{driver}")]);
}

pub(super) fn subject(repo: &Repo, branch: &str) -> String {
    repo.git(["log", "-1", "--format=%s", branch])
}

/// CONTRACT 20.26
#[test]
fn a_plain_push_answers_a_gate() {
    let hub = Repo::new();
    let (one, other) = (clone(&hub, "one@example.com"), clone(&hub, "other@example.com"));
    let run = start(&one, &flow("ask", &with("    approvers: [other@example.com]\n")));
    one.aynig_ok(["run", "--drain"]);
    let seen = one.head(&run.work);
    push_answer(
        &other,
        &hub,
        &run,
        &format!("aynig-gate: result\naynig-answer: approved\naynig-tree: {seen}"),
    );
    one.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&one, &run), ["ask gate_approved STOP"]);
    let events = out(&one.aynig_ok(["orch", "events", &run.id, "--json"]));
    let answered = events.lines().find(|line| line.contains("approval.resolved")).expect("an answer");
    assert!(answered.contains("other@example.com") && answered.contains("It is good."), "{answered}");
    assert_eq!(hub.state(&run.driver), "flow-done");
}

/// CONTRACT 20.26
#[test]
fn a_pushed_answer_that_does_not_count_leaves_the_gate_open_and_says_why() {
    let hub = Repo::new();
    let one = clone(&hub, "one@example.com");
    let run = start(&one, &flow("ask", &with("    approvers: [one@example.com]\n")));
    one.aynig_ok(["run", "--drain"]);
    let seen = one.head(&run.work);
    let tree = one.git(["rev-parse", &format!("{seen}^{{tree}}")]);
    let cases = [
        (format!("aynig-gate: other\naynig-answer: approved\naynig-tree: {seen}"), "result is open"),
        (format!("aynig-gate: result\naynig-answer: yes\naynig-tree: {seen}"), "neither `approved` nor"),
        ("aynig-gate: result\naynig-answer: approved".to_owned(), "aynig-tree is not"),
        (
            format!("aynig-gate: result\naynig-answer: approved\naynig-tree: {}", "0".repeat(40)),
            "aynig-tree is not",
        ),
    ];
    for (trailers, words) in cases {
        push_answer(&one, &hub, &run, &trailers);
        one.aynig_ok(["run", "--drain"]);
        assert_eq!(hub.state(&run.driver), "flow-gate", "{trailers}");
        let subject = subject(&hub, &run.driver);
        assert!(subject.contains("does not count") && subject.contains(words), "{subject}");
    }
    let good = format!("aynig-gate: result\naynig-answer: rejected\naynig-tree: {tree}");
    become_person(&one, "eve@example.com");
    push_answer(&one, &hub, &run, &good);
    one.aynig_ok(["run", "--drain"]);
    assert!(subject(&hub, &run.driver).contains("one@example.com may answer"));
    assert_eq!(steps(&one, &run), ["ask"]);
    become_person(&one, "one@example.com");
    push_answer(&one, &hub, &run, &good);
    one.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&one, &run), ["ask gate_rejected STOP"]);
    push_answer(&one, &hub, &run, &good.replace("rejected", "approved"));
    one.aynig_ok(["run", "--drain"]);
    assert_eq!(hub.state(&run.driver), "flow-done", "it is too late");
    assert_eq!(steps(&one, &run), ["ask gate_rejected STOP"]);
}

/// CONTRACT 20.26
#[test]
fn a_pushed_answer_of_a_program_of_a_step_does_not_count() {
    let hub = Repo::new();
    let (one, other) = (clone(&hub, "one@example.com"), clone(&hub, "other@example.com"));
    let run = start(&one, &flow("ask", GATE));
    one.aynig_ok(["run", "--drain"]);
    let seen = one.head(&run.work);
    let answer = format!("aynig-gate: result\naynig-answer: approved\naynig-tree: {seen}");
    // The identity that agents get, and that with another author.
    become_person(&other, "flow+0a1b2c3d@workspace.aynig.invalid");
    for author in [None, Some("one@example.com")] {
        if let Some(address) = author {
            other.git(["config", "author.email", address]);
        }
        push_answer(&other, &hub, &run, &answer);
        one.aynig_ok(["run", "--drain"]);
        let subject = subject(&hub, &run.driver);
        assert!(subject.contains("does not count") && subject.contains("program of a step"), "{subject}");
        assert_eq!(steps(&one, &run), ["ask"], "{author:?}");
    }
    become_person(&other, "other@example.com");
    push_answer(&other, &hub, &run, &answer);
    one.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&one, &run), ["ask gate_approved STOP"]);
}

/// CONTRACT 20.26
#[test]
fn no_answer_passes_a_pushed_one_that_waits() {
    let hub = Repo::new();
    let (one, other) = (clone(&hub, "one@example.com"), clone(&hub, "other@example.com"));
    let run = start(&one, &flow("ask", &with("")));
    one.aynig_ok(["run", "--drain"]);
    let seen = one.head(&run.work);
    let trailers = format!("aynig-gate: result\naynig-answer: rejected\naynig-tree: {seen}");
    push_answer(&other, &hub, &run, &trailers);
    let refused = one.aynig(["flow", "approve", &run.slug]);
    assert_eq!(refused.status.code(), Some(1), "{}", told(&refused));
    let said = err(&refused);
    assert!(said.contains("(rejected)") && said.contains("`aynig run` takes it in"), "{said}");
    one.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&one, &run), ["ask gate_rejected STOP"]);
}

/// Pushes what says that it is an answer, with these parents.
fn push_with(from: &Repo, run: &Started, parents: &[&str], trailers: &str) {
    let driver = &run.driver;
    let message =
        format!("late\n\ndwp-state: flow-step\naynig-slot: {driver}\naynig-wake: true\n{trailers}\n");
    let mut arguments = vec!["commit-tree", "main^{tree}", "-m", &message];
    parents.iter().for_each(|parent| arguments.extend(["-p", parent]));
    let slot = from.git(arguments);
    from.git(["push", "-q", "--force", "origin", &format!("{slot}:refs/aynig/deferred/{driver}")]);
}

/// CONTRACT 20.26
#[test]
fn a_pushed_answer_to_an_earlier_visit_does_not_count() {
    let hub = Repo::new();
    let one = clone(&hub, "one@example.com");
    let again = with("").replace("gate_rejected: STOP", "gate_rejected: ask");
    let run = start(&one, &flow("ask", &again));
    one.aynig_ok(["run", "--drain"]);
    let (seen, visit) = (one.head(&run.work), hub.head(&run.driver));
    let answer = |word: &str| format!("aynig-gate: result\naynig-answer: {word}\naynig-tree: {seen}");
    one.git(["fetch", "-q", "origin", &run.driver]);
    push_with(&one, &run, &[&visit], &answer("rejected"));
    one.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&one, &run), ["ask gate_rejected ask", "ask"]);
    push_with(&one, &run, &[&visit], &answer("approved"));
    one.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&one, &run), ["ask gate_rejected ask", "ask"]);
    // Its author sees why.
    let shown = out(&one.aynig_ok(["flow", "show", &run.slug]));
    assert!(
        shown.contains("an answer does not count") && shown.contains("no answer to this visit"),
        "{shown}"
    );
    // One that was given while the run was paused is to this visit.
    one.aynig_ok(["flow", "pause", &run.slug]);
    one.git(["fetch", "-q", "origin", &run.driver]);
    let paused = hub.head(&run.driver);
    one.aynig_ok(["flow", "resume", &run.slug]);
    push_with(&one, &run, &[&paused], &answer("approved"));
    one.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&one, &run), ["ask gate_rejected ask", "ask gate_approved STOP"]);
}

/// CONTRACT 20.26
#[test]
fn a_pushed_answer_without_its_one_parent_is_named_with_the_command_that_does_it_right() {
    let hub = Repo::new();
    let one = clone(&hub, "one@example.com");
    let run = start(&one, &flow("ask", GATE));
    one.aynig_ok(["run", "--drain"]);
    let seen = one.head(&run.work);
    one.git(["fetch", "-q", "origin", &run.driver]);
    let driver = hub.head(&run.driver);
    let answer = format!("aynig-gate: result\naynig-answer: approved\naynig-tree: {seen}");
    for parents in [&[][..], &[&*driver, "main"]] {
        push_with(&one, &run, parents, &answer);
        let ran = told(&one.aynig(["run", "--drain"]));
        let shown = out(&one.aynig_ok(["flow", "show", &run.slug]));
        for words in [&ran, &shown] {
            assert!(
                words.contains("missing as the one parent") && words.contains("git fetch origin"),
                "{words}"
            );
        }
    }
    let shown = out(&one.aynig_ok(["flow", "show", &run.slug]));
    let command = shown.split('`').find(|words| words.starts_with("git fetch ")).expect("a command");
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", command]).current_dir(&one.path);
    for (name, value) in one.git_command().get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    let typed = shell.output().expect("a shell");
    assert!(typed.status.success(), "{command}: {}", told(&typed));
    one.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&one, &run), ["ask gate_approved STOP"]);
}

/// CONTRACT 20.26
#[test]
fn a_pushed_answer_outlives_the_attempt_that_reads_it() {
    let hub = Repo::new();
    let one = clone(&hub, "one@example.com");
    let run = start(&one, &flow("ask", GATE));
    one.aynig_ok(["run", "--drain"]);
    let seen = one.head(&run.work);
    push_answer(&one, &hub, &run, &format!("aynig-gate: result\naynig-answer: approved\naynig-tree: {seen}"));
    let crashed = one
        .aynig_command()
        .arg("run")
        .env("AYNIG_CRASH_AT", "step-decided:kill:1")
        .output()
        .expect("it runs");
    assert_eq!(hub.state(&run.driver), "stalled", "{}", told(&crashed));
    one.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&one, &run), ["ask gate_approved STOP"]);
}

/// CONTRACT 20.24
#[test]
fn work_that_moved_on_another_host_is_noticed() {
    let hub = Repo::new();
    let (one, other) = (clone(&hub, "one@example.com"), clone(&hub, "other@example.com"));
    let run = start(&one, &flow("ask", GATE));
    one.aynig_ok(["run", "--drain"]);
    let worktree = run.worktree.to_str().expect("UTF-8");
    one.git(["-C", worktree, "commit", "-q", "--allow-empty", "-m", "mine"]);
    one.aynig_ok(["workspace", "snapshot", &run.slug]);
    let (code, words) = refused(&other, &["flow", "approve", &run.slug]);
    assert_eq!(code, Some(1), "{words}");
    assert!(words.contains("asks anew"), "{words}");
    other.aynig_ok(["flow", "approve", &run.slug]);
    one.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&one, &run), ["ask gate_approved STOP"]);
}

/// CONTRACT 20.31
#[test]
fn a_pushed_answer_is_withdrawn() {
    let hub = Repo::new();
    let one = clone(&hub, "one@example.com");
    let run = start(&one, &flow("ask", &with("")));
    one.aynig_ok(["run", "--drain"]);
    push_answer(&one, &hub, &run, "aynig-gate: result\naynig-answer: approved");
    one.aynig_ok(["set-state", "--withdraw", &run.driver]);
    one.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&one, &run), ["ask"]);
    assert!(!subject(&hub, &run.driver).contains("does not count"), "{}", subject(&hub, &run.driver));
}

/// CONTRACT 15.9
#[test]
fn the_workspace_of_a_run_whose_ledger_cannot_be_read_stays() {
    let repo = Repo::new();
    let run = start(&repo, &flow("ask", GATE));
    let head = repo.head(&format!("refs/aynig/runs/{}", run.id));
    let object = repo.path.join(".git/objects").join(&head[..2]).join(&head[2..]);
    let away = repo.path.join(".git/away");
    std::fs::rename(&object, &away).expect("moved");
    std::fs::create_dir(&object).expect("made");
    let refused = repo.aynig(["workspace", "remove", "--apply", &run.slug]);
    assert!(!refused.status.success(), "{}", told(&refused));
    assert!(run.worktree.exists(), "{}", told(&refused));
    std::fs::remove_dir(&object).expect("removed");
    std::fs::rename(&away, &object).expect("moved");
    repo.aynig_ok(["run"]);
    repo.aynig_ok(["flow", "approve", &run.slug]);
}
