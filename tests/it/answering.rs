//! `aynig answer`: people answer what waits for them, once, from any clone.

use serde_json::{Value, json as value};

use super::scene::*;
use super::support::*;
use super::waits_for::asks;

const LISTED: &str = "dwp-answers: approved, implement\nissue: 7\ndwp-goal: g\n";

/// CONTRACT 11.23
#[test]
fn an_answer_keeps_what_was_asked_and_names_it() {
    let repo = Repo::scene(&[("approved", "next done")]);
    let asked = asks(&repo, "task", &format!("{LISTED}dwp-not-before: 2999-01-01T00:00:00Z\n"));
    let output = repo.aynig_ok([
        "answer",
        "task",
        "implement",
        "--expect",
        &asked[..10],
        "--comment",
        "Names, please.",
    ]);
    assert!(out(&output).starts_with("task  approval → implement"), "{}", told(&output));
    assert_eq!(repo.head("task~1"), asked);
    assert_eq!(repo.git(["diff", "--stat", "task~1", "task"]), "");
    let read = |key: &str| repo.trailer("task", key);
    assert_eq!(read("aynig-answers"), asked);
    assert_eq!((read("issue"), read("dwp-goal")), ("7".into(), "g".into()));
    for key in ["dwp-waits-for", "dwp-answers", "dwp-not-before"] {
        assert_eq!(read(key), "", "{key}");
    }
    let message = repo.message("task");
    assert!(message.contains("\n\nIs it right?\n\n[reply from approval by Test Person, 2"), "{message}");
    assert!(message.contains("Z]\n\nNames, please.\n\n"), "{message}");
    assert_eq!(repo.git(["log", "-1", "--format=%an: %s", "task"]), "Test Person: answer: implement");
    // The next one is not said to be an answer.
    repo.aynig_ok(["set-state", "--branch", "task", "--state", "approved", "--keep-trailers=all"]);
    assert_eq!((read("aynig-answers"), read("issue")), (String::new(), "7".into()));

    let text = out(&repo.aynig_ok(["log", "task"]));
    assert!(text.contains(&format!("answer to {}", &asked[..10])) && text.contains("Test Person"), "{text}");
    let story = listed(&repo.aynig_ok(["log", "--json", "task"]));
    assert_eq!((&story[1]["answered"], &story[1]["author"]), (&value!(asked), &value!("Test Person")));
    assert_eq!((&story[2]["waitsFor"], &story[2]["answered"]), (&value!("ana"), &Value::Null));

    // Without a comment the body is the same.
    asks(&repo, "other", "");
    let set = &json(&repo.aynig_ok(["answer", "--json", "other", "anything/at-all"]))["answer"];
    assert_eq!(
        (&set["branch"], &set["state"], &set["previousState"]),
        (&value!("other"), &value!("anything/at-all"), &value!("approval"))
    );
    assert!(repo.message("other").contains("\n\nIs it right?\n\ndwp-state: anything/at-all"));
    repo.assert_tidy();
}

#[test]
fn only_the_listed_answers_are_taken() {
    let repo = Repo::scene(&[]);
    let asked = asks(&repo, "task", LISTED);
    let by_hand = "`aynig set-state --branch task --state STATE --keep-body` sets a state by hand";
    let line = format!("`aynig answer task approved --expect {}`", &asked[..10]);
    let words =
        ["approve is not one of the answers", "approved, implement", "nothing was changed", &line, by_hand];
    assert_refused(&repo.aynig(["answer", "task", "approve"]), 2, &words);
    let words = ["working is a lease, and no answer", "`aynig answer task approved --expect "];
    assert_refused(&repo.aynig(["answer", "task", "working"]), 2, &words);
    assert_refused(&repo.aynig(["answer", "task", "a b"]), 2, &["not a legal state name"]);
    assert_refused(
        &repo.aynig(["answer", "task", "approved", "--comment", " "]),
        2,
        &["the comment is empty"],
    );
    assert_refused(&repo.aynig(["answer", "task", "--comment", "x"]), 2, &["<STATE>"]);
    assert_refused(
        &repo.aynig(["answer", "task", "approved", "--expect", "0000000"]),
        1,
        &["not at 0000000"],
    );
    asks(&repo, "odd", "dwp-answers: a b\n");
    assert_refused(
        &repo.aynig(["answer", "odd", "a"]),
        1,
        &["invalid dwp-answers", "--branch odd --state STATE"],
    );
    let shown = out(&repo.aynig_ok(["answer", "odd"]));
    assert!(shown.contains("invalid dwp-answers") && !shown.contains("aynig answer odd"), "{shown}");
    assert_eq!(repo.head("task"), asked);

    // A branch that waits for nobody is described, and no state is guessed.
    repo.ready("ready", "work");
    repo.foreign_lease("ready", "11111111-2222-4333-8444-555555555555", "far-host", 300, 0);
    repo.ready("done", "done");
    for arguments in [&["answer", "done"][..], &["answer", "done", "approved"]] {
        let words = [
            "done does not wait for an answer: HEAD is ",
            "which declares the state done",
            "--branch done --state STATE",
        ];
        assert_refused(&repo.aynig(arguments.iter().copied()), 1, &words);
    }
    let words = ["ready does not wait for an answer: HEAD is ", "a lease of far-host", "nothing was changed"];
    assert_refused(&repo.aynig(["answer", "ready", "approved"]), 1, &words);
    let output = repo.aynig(["answer", "tsak", "approved"]);
    assert_refused(&output, 1, &["there is no branch tsak", "did you mean task?"]);
    let sentence = repo.aynig(["answer", "task", "Looks good, please ship it"]);
    assert_refused(&sentence, 2, &["`--comment TEXT`", "`aynig answer BRANCH` lists the answers"]);
    assert!(!err(&output).contains("git branch tsak"), "{}", err(&output));
}

#[test]
fn the_second_answer_is_told_of_the_first() {
    let repo = Repo::scene(&[]);
    let asked = asks(&repo, "task", LISTED);
    repo.git(["config", "user.name", "Ana \u{202e}B"]);
    repo.aynig_ok(["answer", "task", "implement"]);
    repo.git(["config", "user.name", "Ben"]);
    for expected in [&["--expect", &asked][..], &[]] {
        let output = repo.aynig(["answer", "task", "approved"].iter().chain(expected).copied());
        assert_refused(
            &output,
            1,
            &["which declares the state implement", "hint: Ana B answered with implement ", " ago ("],
        );
    }
    assert_eq!(repo.head("task~1"), asked, "one answer");
}

/// Both read the same question. The first one moves the branch before the second one can.
#[test]
fn of_two_answers_at_once_one_wins() {
    let hub = Repo::scene(&[]).into_bare();
    let asked = asks(&hub, "task", LISTED);
    let (ana, ben) = (hub.clone_beside("ana"), hub.clone_beside("ben"));
    ana.git(["config", "user.name", "Ana"]);
    ben.git(["config", "user.name", "Ben"]);
    ben.git(["config", "aynig.remote", "origin"]);
    // Ben's push waits until Ana's has arrived.
    let hook = "if git log -1 --format=%an \"$(cut -d' ' -f2)\" | grep -q Ben; then\n\
                say pushing yes; await go\nfi";
    hub.command("hooks/pre-receive", &hub.scripted(hook));
    let second = ben.aynig_start(["answer", "task", "approved"]);
    hub.said("pushing");
    ana.aynig_ok(["answer", "task", "implement", "--comment", "Names.", "--remote", "origin"]);
    hub.release("go");
    let output = second.finish();
    assert_refused(
        &output,
        1,
        &["task moved while", "the state implement", "hint: Ana answered with implement "],
    );
    assert_eq!((hub.state("task").as_str(), hub.head("task~1")), ("implement", asked));
    assert_eq!(hub.trailer("task", "dwp-source"), "git:origin");
    assert_eq!(hub.git(["rev-list", "--count", "task~2..task"]), "2");
}

#[test]
fn it_is_answered_from_any_clone() {
    let hub = Repo::scene(&[]).into_bare();
    let asked = asks(&hub, "task", LISTED);
    let clone = hub.clone_beside("clone");
    let line = "origin has one: `aynig answer task approved --remote origin`";
    assert_refused(&clone.aynig(["answer", "task", "approved"]), 1, &["there is no branch task", line]);
    let line = "origin has one: `aynig answer task --remote origin`";
    assert_refused(&clone.aynig(["answer", "origin/task"]), 1, &[line]);
    let shown = out(&clone.aynig_ok(["answer", "task", "--remote", "origin"]));
    let short = &asked[..10];
    assert!(
        shown.contains(&format!("\n  aynig answer task approved --expect {short} --remote origin\n")),
        "{shown}"
    );
    let rows = listed(&clone.aynig_ok(["answer", "--json", "--remote", "origin"]));
    assert_eq!((&rows[0]["branch"], &rows[0]["waitsFor"]), (&value!("task"), &value!("ana")));
    let rows = listed(&clone.aynig_ok(["status", "--waiting", "--json", "--remote", "origin"]));
    assert_eq!((&rows[0]["branch"], &rows[0]["kind"]), (&value!("task"), &value!("waits-for-you")));
    clone.aynig_ok(["answer", "task", "approved", "--expect", short, "--remote", "origin"]);
    assert_eq!((hub.state("task").as_str(), hub.head("task~1")), ("approved", asked));
    assert_eq!(clone.git(["branch", "--list", "task"]), "", "no local branch is made");
}

#[test]
fn all_that_waits_is_listed_and_one_is_shown_in_full() {
    let repo = Repo::scene(&[]);
    assert_eq!(err(&repo.aynig_ok(["answer"])), "no branch waits for an answer\n");
    let asked = asks(&repo, "task", LISTED);
    repo.branch_with_message(
        "b;c",
        b"free\n\none\n\n  two \x1b[1m\n\ndwp-state: choose\ndwp-waits-for: the team\n",
    );
    repo.ready("done", "done");
    let listed = repo.aynig_ok(["answer"]);
    let text = out(&listed);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert!(
        lines[0].starts_with("b;c   choose    the team, for ") && lines[0].contains("any state"),
        "{text}"
    );
    assert!(
        lines[1].contains("ana, for ") && lines[1].contains("approved, implement  please look"),
        "{text}"
    );
    assert!(err(&listed).contains("`aynig answer BRANCH` shows what is asked"), "{}", err(&listed));

    let shown = out(&repo.aynig_ok(["answer", "task"]));
    let short = &asked[..10];
    for words in [
        "task  approval  waits for ana  for ",
        &format!("\n  asked    {short} by Test Person: please look\n"),
        "\n\n    Is it right?\n\n",
        "one of these answers; `--comment TEXT` adds words:\n",
        &format!(
            "\n  aynig answer task approved --expect {short}\n  aynig answer task implement --expect {short}\n"
        ),
    ] {
        assert!(shown.replace("ana, for", "ana  for").contains(words), "{words:?}: {shown}");
    }
    let shown = out(&repo.aynig_ok(["answer", "b;c"]));
    assert!(shown.contains("    one\n\n      two \u{fffd}[1m\n"), "{shown:?}");
    assert!(shown.contains("\n  aynig answer 'b;c' STATE --expect "), "{shown}");
    let asked = &super::support::listed(&repo.aynig_ok(["answer", "--json", "task"]))[0];
    let fields = ["branch", "state", "waitsFor", "answers", "subject", "body", "notBefore"]
        .map(|field| asked[field].clone());
    let expected =
        value!(["task", "approval", "ana", ["approved", "implement"], "please look", "Is it right?", null]);
    assert_eq!(Value::from(fields.to_vec()), expected);
    assert_eq!(repo.head("task"), repo.head(short), "nothing changes");
}

/// Staged changes in a checkout are a person's, and no answer.
#[test]
fn what_is_staged_stays_staged() {
    let repo = Repo::scene(&[]);
    asks(&repo, "task", LISTED);
    repo.git(["switch", "--quiet", "task"]);
    repo.write("README", "changed\n");
    repo.git(["add", "README"]);
    repo.aynig_ok(["answer", "task", "approved"]);
    assert_eq!(repo.git(["diff", "--name-only", "task~1", "task"]), "");
    assert_eq!(repo.git(["status", "--porcelain"]), "M  README");
}

/// CONTRACT 11.11
#[test]
fn an_answer_is_told_as_any_state_is() {
    let repo = Repo::scene(&[]);
    asks(&repo, "task", LISTED);
    let told = repo.beside("told");
    repo.git(["config", "aynig.notify", &format!("cat >>{}", told.display())]);
    repo.git(["config", "aynig.notifyStates", "approved"]);
    repo.aynig_ok(["answer", "task", "approved"]);
    let notice: Value =
        serde_json::from_str(&std::fs::read_to_string(told).expect("a notice")).expect("JSON");
    assert_eq!(
        (&notice["event"], &notice["state"], &notice["waitsFor"]),
        (&value!("state"), &value!("approved"), &Value::Null)
    );
}

/// The branch may be stalled and wait, as where a handler of failures hands over.
#[test]
fn a_stalled_branch_that_waits_keeps_the_request_below() {
    let repo = Repo::scene(&[("build", "exit 0")]);
    repo.branch_with_message("task", b"please build\n\nAll of it.\n\ndwp-state: build\nissue: 7\n");
    repo.branch_from("task", "task", b"broken\n\nIt broke.\n\ndwp-state: stalled\ndwp-waits-for: ana\n");
    repo.aynig_ok(["answer", "task", "build", "--comment", "Again."]);
    let message = repo.message("task");
    assert!(message.contains("All of it.\n\n[reply from stalled by Test Person"), "{message}");
    assert_eq!(repo.trailer("task", "issue"), "7");
}
