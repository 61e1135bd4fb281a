//! States that wait for somebody's answer: no runner runs them, and every subcommand names that person.

use serde_json::{Value, json as value};

use super::scene::*;
use super::support::*;
use super::terminal::plain;

/// A HEAD that waits for an approval on a new branch; `more` are further trailers.
pub(crate) fn asks(repo: &Repo, branch: &str, more: &str) -> String {
    let message = format!("please look\n\nIs it right?\n\ndwp-state: approval\ndwp-waits-for: ana\n{more}");
    repo.branch_with_message(branch, message.as_bytes())
}

/// A time so many seconds from now, as a trailer has it.
fn seconds_from_now(seconds: i64) -> String {
    let at = format!("@{}", i64::try_from(now()).expect("a date") + seconds);
    let output = std::process::Command::new("date").args(["-u", "-d", &at, "+%Y-%m-%dT%H:%M:%SZ"]).output();
    out(&output.expect("date runs")).trim().to_owned()
}

fn row(repo: &Repo, branch: &str) -> Value {
    listed(&repo.aynig_ok(["status", "--json", branch]))[0].clone()
}

/// CONTRACT 11.21
#[test]
fn nobody_runs_it_and_everybody_sees_who_is_waited_for() {
    let repo = Repo::scene(&[("approval", "echo ran >>\"$ROOM/ran\"; next done"), ("work", "next done")]);
    let with_command = asks(&repo, "task", "dwp-answers: approved, implement\n");
    let without = repo.branch_with_message("other", b"free\n\ndwp-state: choose\ndwp-waits-for: the team\n");
    repo.branch_with_message("odd", b"odd\n\ndwp-state: stalled\ndwp-waits-for: \x1b[31mben\n");
    repo.ready("ready", "work");
    let output = repo.aynig_ok(["--log-level", "debug", "run", "--drain"]);
    assert!(err(&output).contains("approval: waits for an answer (dwp-waits-for)"), "{}", told(&output));
    assert_eq!((repo.head("task"), repo.head("other")), (with_command, without));
    assert_eq!((repo.state("ready").as_str(), repo.noted_lines("ran").len()), ("done", 0));

    let shown = repo.aynig_ok(["status", "--all"]);
    let text = out(&shown);
    let lines: Vec<&str> = text.lines().collect();
    let first: Vec<&str> = lines.iter().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(first, ["odd", "other", "task", "ready"], "{text}");
    assert!(
        lines[2].contains("approval  waits-for-you  ana, for ") && lines[2].contains(": approved, implement")
    );
    assert!(lines[2].contains("`aynig answer task` shows what is asked") && lines[2].contains("please look"));
    assert!(lines[1].contains("the team, for ") && lines[0].contains("  ben, for "), "{text}");
    assert!(err(&shown).starts_with("4 branches: 3 wait for you, 1 rests"), "{}", err(&shown));

    let found = row(&repo, "task");
    let fields = ["kind", "state", "waitsFor", "answers", "notBefore", "cause"].map(|field| &found[field]);
    let answers = value!(["approved", "implement"]);
    assert_eq!(
        fields,
        [&value!("waits-for-you"), &value!("approval"), &value!("ana"), &answers, &Value::Null, &Value::Null]
    );
    assert!(found["secondsWaited"].as_u64().is_some_and(|waited| waited < 60), "{found}");
    let found = row(&repo, "other");
    assert_eq!((&found["waitsFor"], &found["answers"]), (&value!("the team"), &Value::Null));
    assert_eq!(row(&repo, "ready")["waitsFor"], Value::Null);
    let found = out(&repo.aynig_ok(["doctor"]));
    assert!(found.contains("3 branches wait for somebody's answer"), "{found}");
    repo.assert_tidy();
}

#[test]
fn a_terminal_shows_it_first_and_bright_and_the_checkout_too() {
    let repo = Repo::scene(&[]);
    asks(&repo, "task", "dwp-answers: approved, implement\ndwp-not-before: 2999-01-01T00:00:00Z\n");
    repo.ready("broke", "stalled");
    let (shown, code) =
        repo.in_terminal((30, 120), &[("NO_COLOR", ""), ("TERM", "xterm")], &["status", "--all"]).finish();
    assert_eq!(code, 0);
    assert!(shown.contains("\u{1b}[1m\u{1b}[96mapproval"), "{shown:?}");
    let lines: Vec<String> = plain(&shown).lines().map(|line| line.trim_end().to_owned()).collect();
    assert!(lines[1].starts_with("task    approval  waits-for-you  ana     "), "{lines:#?}");
    assert!(lines[1].contains(" left") && lines[1].ends_with("please look"), "{lines:#?}");
    assert!(
        lines[2].starts_with(
            "    answers: approved, implement; `aynig answer task` shows what is asked; no command"
        ),
        "{lines:#?}"
    );
    assert!(lines[3].starts_with("broke"), "{lines:#?}");
    let (shown, _) = repo.in_terminal((30, 120), &[("NO_COLOR", "1")], &["status", "--all"]).finish();
    assert!(!shown.contains("\u{1b}[9"), "{shown:?}");

    repo.git(["switch", "--quiet", "task"]);
    let text = out(&repo.aynig_ok(["status"]));
    for words in ["task  approval  waits-for-you", "waits    for ana, ", "answers  approved, implement"] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

/// CONTRACT 11.22
#[test]
fn with_a_deadline_it_is_run_when_that_has_come() {
    let repo = Repo::scene(&[(
        "approval",
        r#"echo "SET_STATE {\"state\":\"reminded\",\"keep_trailers\":\"all\"}""#,
    )]);
    let head = asks(&repo, "later", &format!("dwp-not-before: {}\n", seconds_from_now(3600)));
    asks(&repo, "over", &format!("x: y\ndwp-goal: g\ndwp-not-before: {}\n", seconds_from_now(-5)));
    let message = format!(
        "no command\n\ndwp-state: choose\ndwp-waits-for: ana\ndwp-not-before: {}\n",
        seconds_from_now(-5)
    );
    repo.branch_with_message("nothing", message.as_bytes());
    assert_eq!(row(&repo, "over")["kind"], "ready");
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!((repo.head("later"), repo.state("over")), (head, "reminded".to_owned()));
    // Neither the question nor its time is passed on.
    for key in ["dwp-waits-for", "dwp-answers", "dwp-not-before"] {
        assert_eq!((repo.trailer("over", key), repo.trailer("over~1", key)), Default::default(), "{key}");
    }
    assert_eq!((repo.trailer("over", "dwp-goal"), repo.trailer("over", "x")), ("g".into(), "y".into()));
    let found = row(&repo, "later");
    assert_eq!((&found["kind"], found["notBefore"].is_string()), (&value!("waits-for-you"), true), "{found}");
    // Nothing can be run then, so it still waits.
    let found = row(&repo, "nothing");
    assert_eq!(
        (&found["kind"], &found["cause"]),
        (&value!("waits-for-you"), &value!("noCommand")),
        "{found}"
    );

    let runner = repo.aynig_start(["run", "--watch=86400"]);
    asks(&repo, "soon", &format!("dwp-not-before: {}\n", seconds_from_now(2)));
    wait_until("the deadline", || repo.state("soon") == "reminded");
    runner.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(runner.finish().status.code(), Some(143));
}

/// CONTRACT 4.18
#[test]
fn nothing_that_is_kept_asks_again() {
    let repo = Repo::scene(&[("work", r#"echo "SET_STATE {\"state\":\"next\",\"keep_trailers\":true}""#)]);
    let asked =
        "dwp-goal: g\nx: y\ndwp-waits-for: ana\ndwp-answers: yes\ndwp-not-before: 2026-01-01T00:00:00Z\n";
    for (at, options) in
        [&["--keep-trailers"][..], &["--keep-trailers=all"], &["--keep-trailers=all", "--keep-body"]]
            .iter()
            .enumerate()
    {
        let branch = format!("task{at}");
        repo.branch_with_message(&branch, format!("s\n\nbody\n\ndwp-state: approval\n{asked}").as_bytes());
        repo.aynig_ok(
            ["set-state", "--state", "next", "--branch", &branch].iter().chain(options.iter()).copied(),
        );
        let keys = ["dwp-goal", "dwp-waits-for", "dwp-answers", "dwp-not-before"];
        let kept = keys.map(|key| repo.trailer(&branch, key));
        assert_eq!(kept, ["g", "", "", ""].map(str::to_owned), "{options:?}");
    }
    repo.branch_with_message("work", format!("s\n\nbody\n\ndwp-state: work\n{asked}").as_bytes());
    repo.aynig_ok(["run", "--branch", "work"]);
    assert_eq!((repo.state("work").as_str(), repo.trailer("work", "dwp-goal").as_str()), ("next", "g"));
    assert_eq!(repo.trailer("work", "dwp-waits-for"), "");
    // By hand a lease is taken over what waits; it does not wait either.
    asks(&repo, "held", "");
    repo.aynig_ok(["set-working", "--branch", "held"]);
    assert_eq!(repo.trailer("held", "dwp-waits-for"), "");
    // A retry repeats the last request as a whole.
    let until = seconds_from_now(3600);
    asks(&repo, "covered", &format!("dwp-answers: yes\ndwp-not-before: {until}\n"));
    repo.branch_from("covered", "covered", b"an ordinary commit\n");
    repo.aynig_ok(["set-state", "--retry", "--branch", "covered"]);
    let again = ["dwp-state", "dwp-waits-for", "dwp-answers", "dwp-not-before"];
    assert_eq!(
        again.map(|key| repo.trailer("covered", key)),
        ["approval", "ana", "yes", &until].map(str::to_owned)
    );
}

#[test]
fn an_invalid_list_of_answers_is_a_mistake_and_nothing_is_guessed() {
    let repo = Repo::scene(&[("approval", "next done")]);
    let head = asks(&repo, "task", "dwp-answers: approved, no way\n");
    let output = repo.aynig_ok(["run"]);
    let wrong = "invalid dwp-answers: \"no way\" is not a legal state name";
    assert!(err(&output).contains(wrong), "{}", told(&output));
    assert_eq!(repo.head("task"), head);
    let found = row(&repo, "task");
    assert_eq!((&found["kind"], &found["answers"]), (&value!("waits-for-you"), &Value::Null), "{found}");
    assert_eq!(found["cause"], "noAnswers");
    assert!(found["note"].as_str().is_some_and(|reason| reason.contains(wrong)), "{found}");
    assert!(out(&repo.aynig_ok(["doctor"])).contains(wrong));
    // By hand it is refused at once.
    let trailers = ["--trailer", "dwp-waits-for: ana", "--trailer", "dwp-answers: yes,"];
    let set = ["set-state", "--branch", "task", "--state", "approval"];
    assert_refused(&repo.aynig([&set[..], &trailers].concat()), 2, &["invalid dwp-answers"]);
    assert_refused(&repo.aynig([&["next", "approval"][..], &trailers].concat()), 2, &["invalid dwp-answers"]);
    assert_eq!(repo.head("task"), head);
    let said = err(&repo.aynig_ok([&set[..], &["--trailer", "dwp-wait-for: ana"]].concat()));
    assert!(said.contains("did you mean dwp-waits-for?"), "{said}");
}

#[test]
fn branches_are_filtered_by_state_and_kind() {
    let repo = Repo::with_commands(&[("work", "exit 0")]);
    asks(&repo, "a", "");
    repo.branch_with_message("b", b"free\n\ndwp-state: choose\ndwp-waits-for: ben\n");
    repo.ready("c", "work");
    repo.ready("d", "done");
    repo.ready("e", "stalled");
    let shown = |options: &[&str]| {
        let text = out(&repo.aynig_ok(["status"].iter().chain(options).copied()));
        let rows = listed(&repo.aynig_ok(["status", "--json"].iter().chain(options).copied()));
        let of_json: Vec<String> = rows
            .as_array()
            .expect("a list")
            .iter()
            .map(|row| row["branch"].as_str().unwrap().into())
            .collect();
        let mut of_text: Vec<String> =
            text.lines().filter_map(|line| Some(line.split(' ').next()?.to_owned())).collect();
        of_text.sort();
        assert_eq!(of_text, of_json, "{options:?}");
        of_json.concat()
    };
    for (options, expected) in [
        (&["--waiting"][..], "ab"),
        (&["--kind", "waits-for-you"], "ab"),
        (&["--waiting", "--state", "cho*"], "b"),
        (&["--state", "approval", "--state", "w*"], "ac"),
        (&["--kind", "ready", "--kind", "rests"], "cd"),
        (&["--kind", "ready", "--waiting"], "abc"),
        (&["--kind", "waiting"], ""),
        (&["--kind", "stalled"], "e"),
        (&["--kind", "stalled", "d"], ""),
        (&["--waiting", "a", "c"], "a"),
        (&["--kind", "unmanaged"], "main"),
    ] {
        assert_eq!(shown(options), expected, "{options:?}");
    }
    let output = repo.aynig_ok(["status", "--waiting"]);
    assert_eq!(err(&output), "2 branches: 2 wait for you\n");
    assert_eq!(err(&repo.aynig_ok(["status", "--kind", "expired"])), "no branch matches\n");
    assert_refused(
        &repo.aynig(["status", "--kind", "asleep"]),
        2,
        &["possible values: waits-for-you, stalled"],
    );
    assert_refused(&repo.aynig(["status", "--state", "a["]), 2, &["--state"]);
}

#[test]
fn a_run_and_the_log_say_who_is_waited_for() {
    let line = r#"{"state":"approval","trailers":{"dwp-waits-for":"ana","dwp-answers":"approved, work"}}"#;
    let repo = Repo::scene(&[("work", &format!("echo 'SET_STATE {line}'"))]);
    repo.ready("task", "work");
    repo.ready("second", "work");
    let told = out(&repo.aynig_ok(["run", "--branch", "task"]));
    assert!(told.contains("work → approval") && told.contains("waits for ana (approved, work)"), "{told}");
    let ran = json(&repo.aynig_ok(["run", "--json", "--branch", "second"]));
    assert_eq!(ran["steps"][0]["waitsFor"], "ana", "{ran}");
    let text = out(&repo.aynig_ok(["log", "task"]));
    assert!(text.contains("waits for ana (approved, work)"), "{text}");
    let story = listed(&repo.aynig_ok(["log", "--json", "task"]));
    assert_eq!(
        (&story[0]["waitsFor"], &story[0]["answers"]),
        (&value!("ana"), &value!(["approved", "work"]))
    );
    assert_eq!((&story[0]["answered"], &story[1]["waitsFor"]), (&Value::Null, &Value::Null));
}

/// CONTRACT 11.11
#[test]
fn somebody_is_told_without_being_asked() {
    let line = r#"{"state":"approval","trailers":{"dwp-waits-for":"ana","dwp-answers":"approved, work"}}"#;
    let repo = Repo::scene(&[("work", &format!("echo 'SET_STATE {line}'"))]);
    let hook = r#"cat >>"$ROOM/told"; printf '%s|%s\n' "$AYNIG_NOTICE_WAITS_FOR" "$AYNIG_NOTICE_ANSWERS" >>"$ROOM/told.sh""#;
    let room = repo.beside("");
    repo.git(["config", "aynig.notify", &format!("ROOM={}; {hook}", room.display())]);
    repo.ready("task", "work");
    repo.aynig_ok(["run"]);
    let by_hand = ["set-state", "--branch", "task", "--state", "choose", "--trailer", "dwp-waits-for: ben"];
    repo.aynig_ok(by_hand);
    repo.aynig_ok(["set-state", "--branch", "task", "--state", "done"]);
    let text = std::fs::read_to_string(repo.beside("told")).expect("notices");
    let told: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(told.len(), 2, "{text}");
    let fields =
        |notice: &Value| ["event", "state", "waitsFor", "answers"].map(|field| notice[field].clone());
    let answers = value!(["approved", "work"]);
    assert_eq!(fields(&told[0]), [value!("waits-for-you"), value!("approval"), value!("ana"), answers]);
    assert_eq!(fields(&told[1]), [value!("waits-for-you"), value!("choose"), value!("ben"), Value::Null]);
    assert_eq!(told[0]["next"][0], "aynig answer task");
    let variables = std::fs::read_to_string(repo.beside("told.sh")).expect("notices");
    assert_eq!(variables, "ana|approved\nwork\nben|\n");
}
