//! Requests that a host cannot do: the command hands them back, other hosts run them, and this one tries again later.

use std::process::Stdio;

use nix::sys::signal::Signal;

use super::scene::*;
use super::support::*;

/// Leaves work behind and hands the request back, until this host has what it needs.
const WORK: &str = r#"echo "$DWP_STATE $AYNIG_VISITS" >>"$ROOM/noted"
[ -e "$ROOM/$AYNIG_RUNNER_ID" ] && { next done; exit; }
echo draft >draft; "$AYNIG_BIN" next --unable 'codex is not installed'"#;

const ASK: &str = "build: the parser\n\nDo it.\n\ndwp-state: work\nx: y\ndwp-pr: 7\n";

/// Runs one pass as this runner.
fn run_as(repo: &Repo, runner: &str) -> std::process::Output {
    let mut command = repo.aynig_command();
    command.args(["run", "--json"]).env("AYNIG_RUNNER_ID", runner);
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{}", told(&output));
    output
}

/// CONTRACT 4.19, 6.17, 11.29
#[test]
fn another_host_runs_it_at_once_and_this_one_after_a_pause() {
    let repo = Repo::scene(&[("work", WORK)]);
    repo.branch_with_message("task", ASK.as_bytes());
    let tree = repo.git(["rev-parse", "task^{tree}"]);
    let output = run_as(&repo, "here");
    let summary: serde_json::Value =
        serde_json::from_str(out(&output).lines().last().expect("a summary")).expect("JSON");
    let step = &summary["steps"][0];
    assert_eq!(step["outcome"].as_str(), Some("requeued"), "{step:#}");
    let reason = step["reason"].as_str().expect("a reason");
    assert!(reason.contains("this host cannot do it: codex is not installed"), "{reason}");
    assert!(reason.contains("tried here again in 30 s"), "{reason}");
    let facts = |times: &str, who: &[&str]| {
        let named = |runner: &&str| format!("aynig-unable: {runner} codex is not installed\n");
        let named: String = who.iter().map(named).collect();
        let (time, saved) = (repo.trailer("task", "dwp-not-before"), repo.trailer("task", "aynig-rescued"));
        assert_eq!(repo.show(&format!("{saved}:draft")), "draft");
        format!("{ASK}dwp-not-before: {time}\n{named}aynig-handed-back: {times}\naynig-rescued: {saved}\n")
    };
    assert_eq!(repo.message("task").trim_end(), facts("1", &["here"]).trim_end());
    assert_eq!(repo.git(["rev-parse", "task^{tree}"]), tree);

    let head = repo.head("task");
    run_as(&repo, "here");
    assert_eq!(repo.head("task"), head, "it is parked for the host that handed it back");
    let shown = |runner: &str| {
        let mut command = repo.aynig_command();
        command.args(["status", "task", "--json"]).env("AYNIG_RUNNER_ID", runner);
        listed(&command.output().expect("it runs"))[0].clone()
    };
    let row = shown("here");
    assert_eq!(row["kind"].as_str(), Some("parked"), "{row:#}");
    assert_eq!(row["unable"][0]["runner"].as_str(), Some("here"));
    assert_eq!(row["unable"][0]["reason"].as_str(), Some("codex is not installed"));
    let note = row["note"].as_str().expect("a note");
    assert!(note.contains("here cannot do it: codex is not installed; work saved: refs/"), "{note}");
    let row = shown("there");
    assert_eq!(row["kind"].as_str(), Some("ready"), "{row:#}");
    assert!(row["note"].as_str().is_some_and(|note| note.contains("here cannot do it")), "{row:#}");

    run_as(&repo, "there");
    assert_eq!(repo.message("task").trim_end(), facts("2", &["here", "there"]).trim_end());
    repo.release("third");
    run_as(&repo, "third");
    assert_eq!((repo.state("task"), repo.trailer("task", "aynig-unable")), ("done".into(), String::new()));
    assert_eq!(repo.noted_lines("noted"), ["work 1", "work 1", "work 1"], "none of them was a visit");
    let log = out(&repo.aynig_ok(["log", "task"]));
    assert!(log.contains("handed back: there cannot do it: codex is not installed"), "{log}");
    repo.assert_tidy();
}

/// CONTRACT 6.17, 11.29
#[test]
fn a_watch_tries_again_when_the_time_has_come() {
    let repo = Repo::scene(&[("work", WORK)]);
    let soon = repo.git(["log", "-1", "--format=%ct"]).parse::<i64>().expect("a date") + 3;
    let time = aynig::clock::format_utc(soon);
    let message = format!("{ASK}dwp-not-before: {time}\naynig-unable: box no codex\naynig-handed-back: 4\n");
    repo.branch_with_message("task", message.as_bytes());
    repo.release("box");
    let mut command = repo.aynig_command();
    command.args(["run", "--watch=3600"]).env("AYNIG_RUNNER_ID", "box");
    let runner = Running::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    wait_until("the state after it", || repo.state("task") == "done");
    let claimed: i64 = repo.git(["log", "-1", "--format=%ct", "task~1"]).parse().expect("a date");
    assert!(claimed >= soon, "claimed at {claimed}, before {soon}");
    runner.signal(Signal::SIGTERM);
    runner.finish();
}

/// CONTRACT 11.14
#[test]
fn a_preferred_runner_that_cannot_do_it_is_not_waited_for() {
    let repo = Repo::scene(&[("work", WORK)]);
    let message = ASK.replace("x: y", "dwp-prefer-runner: here\ndwp-prefer-seconds: 3600");
    repo.branch_with_message("task", message.as_bytes());
    repo.release("there");
    run_as(&repo, "here");
    run_as(&repo, "there");
    assert_eq!(repo.state("task"), "done");
}

/// CONTRACT 4.19
#[test]
fn it_stands_alone_and_says_why() {
    let repo = Repo::scene(&[("work", r#"echo 'SET_STATE {"unable":"no","state":"done"}'"#)]);
    repo.ready("task", "work");
    let output = repo.aynig_ok(["run"]);
    assert!(err(&output).contains(r#""unable" hands the request back as it is"#), "{}", told(&output));
    assert_eq!(repo.state("task"), "working");
    for (arguments, words) in [
        (["next", "--unable", " "].as_slice(), "say why this host cannot do it"),
        (&["next", "done", "--unable", "no"], "cannot be used with"),
        (&["next", "--unable", "no", "--subject", "s"], "cannot be used with"),
        (&["next"], "<STATE>"),
    ] {
        let output = repo.aynig(arguments.iter().copied());
        assert_eq!(output.status.code(), Some(2), "{}", told(&output));
        assert!(err(&output).contains(words) && output.stdout.is_empty(), "{}", told(&output));
    }
    let line = out(&repo.aynig_ok(["next", "--unable", "no\ntty"]));
    assert_eq!(line, "SET_STATE {\"unable\":\"no\\ntty\"}\n");
}
