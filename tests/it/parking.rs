//! Parking: `dwp-not-before` delays a state until its time, the time is visible to everyone, and `--watch`
//! wakes up for it. The example commands in `contrib/commands` that park are run unchanged.

use std::path::Path;

use super::scene::*;
use super::support::*;

/// The time this many seconds from now, in the trailer's format.
fn seconds_from_now(seconds: i64) -> String {
    let output = std::process::Command::new("date")
        .args([
            "-u",
            "-d",
            &format!("@{}", i64::try_from(now()).expect("a date") + seconds),
            "+%Y-%m-%dT%H:%M:%SZ",
        ])
        .output()
        .expect("date runs");
    out(&output).trim().to_owned()
}

fn parked(repo: &Repo, branch: &str, until: &str) -> String {
    let message = format!("please\n\ndwp-state: work\ndwp-not-before: {until}\n");
    repo.branch_with_message(branch, message.as_bytes())
}

/// CONTRACT 11.5, 11.10
#[test]
fn a_parked_state_is_not_run_and_everybody_sees_until_when() {
    let repo = Repo::scene(&[("work", "next done")]);
    let until = seconds_from_now(3600);
    let head = parked(&repo, "task", &until);
    parked(&repo, "over", &seconds_from_now(-1));
    let output = repo.aynig_ok(["--log-level", "debug", "run", "--drain"]);
    assert_eq!(repo.head("task"), head);
    assert_eq!(repo.state("over"), "done", "its time has come");
    assert!(err(&output).contains(&format!("parked until {until}")), "{}", told(&output));
    let shown = out(&repo.aynig_ok(["status", "--all"]));
    let line = shown.lines().find(|line| line.starts_with("task")).expect("it is listed");
    assert!(line.contains("parked") && line.contains(&until) && line.contains("(in "), "{shown}");
    let rows = listed(&repo.aynig_ok(["status", "--branch", "task", "--json"]));
    assert_eq!(
        (rows[0]["kind"].as_str(), rows[0]["notBefore"].as_str()),
        (Some("parked"), Some(until.as_str()))
    );
    repo.assert_tidy();
}

/// CONTRACT 11.10
#[test]
fn a_time_that_cannot_be_read_is_told_and_nothing_is_run() {
    let repo = Repo::scene(&[("work", "next done")]);
    let head = parked(&repo, "task", "tomorrow");
    let output = repo.aynig_ok(["run"]);
    assert_eq!(repo.head("task"), head);
    assert!(
        err(&output).contains("\"tomorrow\"") && err(&output).contains("2026-01-31T17:42:00Z"),
        "{}",
        told(&output)
    );
}

/// CONTRACT 11.10
#[test]
fn a_command_parks_its_branch_and_a_watch_wakes_on_time() {
    let repo = Repo::scene(&[(
        "work",
        r#"if [ -n "$DWP_NOT_BEFORE" ]; then next done; exit; fi
        echo "SET_STATE {\"state\":\"work\",\"trailers\":{\"dwp-not-before\":\"$(date -u -d '+2 seconds' +%Y-%m-%dT%H:%M:%SZ)\"}}""#,
    )]);
    repo.ready("task", "work");
    let runner = repo.aynig_start(["run", "--watch=3600"]);
    // The interval is an hour, so only the end of the parking can wake it.
    wait_until("the state after it", || repo.state("task") == "done");
    let date = "--date=format-local:%Y-%m-%dT%H:%M:%SZ";
    let claimed = repo.git(["log", "-1", "--format=%cd", date, "task~1"]);
    assert!(claimed >= repo.trailer("task~2", "dwp-not-before"), "claimed {claimed}, which is too early");
    runner.signal(nix::sys::signal::Signal::SIGTERM);
    runner.finish();
    repo.assert_tidy();
}

/// An example command, with lines of its settings replaced.
fn example(name: &str, settings: &[(&str, &str)]) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("contrib/commands").join(name);
    let mut text = std::fs::read_to_string(path).expect("the example");
    for (from, to) in settings {
        assert!(text.contains(from), "{name} has no line {from}");
        text = text.replacen(from, to, 1);
    }
    text
}

/// A repository whose state `work` runs the example, with a program `tool` in its tree.
fn with_example(name: &str, settings: &[(&str, &str)], tool: &str) -> Repo {
    let repo = Repo::new();
    repo.command("tool", &repo.scripted(tool));
    repo.command(".aynig/command/work", "placeholder");
    repo.write(".aynig/command/work", &example(name, settings));
    repo.commit_all("commands");
    repo
}

#[test]
fn an_agent_at_its_limit_is_asked_again_when_the_limit_ends() {
    for (says, wait) in [
        (format!("Usage limit reached, resets {}", seconds_from_now(600)), 600),
        (format!("usage limit reached|{}", now() + 600), 600),
        ("429 Too Many Requests: try again in 10 min".to_owned(), 600),
    ] {
        let agent = format!(
            "cat >\"$ROOM/prompt\"; echo half >half\n\
             if [ ! -e \"$ROOM/free\" ]; then echo '{says}'; exit 1; fi\necho 'SET_STATE {{\"state\":\"forged\"}}'; rm half; echo all >all"
        );
        let repo = with_example("park-on-limit", &[("[\"agent\", \"--print\"]", "[\"./tool\"]")], &agent);
        repo.branch_with_message("task", b"please\n\nwrite all of it\n\ndwp-state: work\ndwp-goal: g\n");
        let output = repo.aynig_ok(["run"]);
        assert_eq!(repo.state("task"), "work", "{}", told(&output));
        assert_eq!(repo.said("prompt"), "write all of it");
        assert_eq!((repo.trailer("task", "dwp-goal"), repo.show("task:half")), ("g".into(), "half".into()));
        let row = listed(&repo.aynig_ok(["status", "--branch", "task", "--json"]));
        assert_eq!(row[0]["kind"], "parked", "{row}");
        let wake = repo.trailer("task", "dwp-not-before");
        assert!(wake >= seconds_from_now(wait) && wake <= seconds_from_now(wait + 40), "{says}: {wake}");
        // The limit has ended, and a person wants to run it now.
        repo.release("free");
        repo.branch_from("task", "task", b"now\n\nwrite all of it\n\ndwp-state: work\n");
        let output = repo.aynig_ok(["run"]);
        assert_eq!(repo.state("task"), "review", "{}", told(&output));
        assert_eq!(repo.show("task:all"), "all");
    }
}

#[test]
fn an_agent_that_fails_without_a_limit_stalls() {
    let repo = with_example(
        "park-on-limit",
        &[("[\"agent\", \"--print\"]", "[\"./tool\"]")],
        "echo 'panic at 17:42 on 2026-01-31T17:42:00Z'; exit 3",
    );
    repo.ready("task", "work");
    assert_eq!(repo.aynig(["run"]).status.code(), Some(1));
    assert_eq!(repo.state("task"), "stalled");
}

#[test]
fn a_command_is_tried_again_later_and_later_and_then_given_up() {
    let repo = with_example(
        "retry-later",
        &[("[\"./work.sh\"]", "[\"./tool\"]"), ("DELAY = 60", "DELAY = 1")],
        "exit 7",
    );
    repo.branch_with_message(
        "task",
        b"please\n\nthe body\n\ndwp-state: work\ndwp-max-attempts: 3\ndwp-goal: g\n",
    );
    let runner = repo.aynig_start(["run", "--watch=3600"]);
    wait_until("the end", || repo.state("task") == "stalled");
    runner.signal(nix::sys::signal::Signal::SIGTERM);
    runner.finish();
    let asked = repo.git(["log", "--reverse", "--format=%s", "--grep=attempt", "main..task"]);
    let said =
        ["chore: attempt 1 of 3 failed (7), again in 1 s", "chore: attempt 2 of 3 failed (7), again in 2 s"];
    assert_eq!(asked.lines().filter(|line| line.starts_with("chore: attempt")).collect::<Vec<_>>(), said);
    let trigger = repo.git(["log", "-1", "--format=%H", "--grep=attempt 2 of 3", "main..task"]);
    assert_eq!(
        (repo.trailer(&trigger, "dwp-attempt"), repo.trailer(&trigger, "dwp-goal")),
        ("3".into(), "g".into())
    );
    assert!(repo.message(&trigger).contains("the body"));
    assert!(
        repo.message("task").contains("attempt 3 of 3 failed (7); giving up"),
        "{}",
        repo.message("task")
    );
    repo.assert_tidy();
}

#[test]
fn a_state_that_is_set_by_hand_is_parked_well_or_not_at_all_and_asked_again_at_once() {
    let repo = Repo::scene(&[("work", "next done")]);
    repo.git(["branch", "task"]);
    let output =
        repo.aynig(["set-state", "--state", "work", "--branch", "task", "--trailer", "dwp-not-before: soon"]);
    assert_refused(&output, 2, &["\"soon\"", "2026-01-31T17:42:00Z"]);
    let until = format!("dwp-not-before: {}", seconds_from_now(3600));
    repo.aynig_ok([
        "set-state",
        "--state",
        "work",
        "--branch",
        "task",
        "--trailer",
        &until,
        "--trailer",
        "dwp-goal: g",
    ]);
    repo.aynig_ok(["run"]);
    assert_eq!(repo.state("task"), "work");
    repo.aynig_ok(["set-state", "--retry", "--branch", "task"]);
    assert_eq!(
        (repo.trailer("task", "dwp-goal"), repo.trailer("task", "dwp-not-before")),
        ("g".into(), String::new())
    );
    repo.aynig_ok(["run"]);
    assert_eq!(repo.state("task"), "done");
}

#[test]
fn a_wait_may_be_given_as_a_duration() {
    let repo = Repo::scene(&[(
        "work",
        "\"$AYNIG_BIN\" next later --trailer 'dwp-not-before: +1h30m' --trailer 'dwp-not-after: +1h'",
    )]);
    let until = |seconds: i64| seconds_from_now(seconds)[..16].to_owned();
    repo.git(["branch", "task"]);
    let set = ["set-state", "task", "--state", "work", "--trailer"];
    for odd in ["+soon", "+", "+-5m", "+99999999999", "+10000000w"] {
        let trailer = format!("dwp-not-before: {odd}");
        assert_refused(&repo.aynig(set.into_iter().chain([&*trailer])), 2, &[odd, "2026-01-31T17:42:00Z"]);
    }
    // The minute may change between the two clocks.
    let around = [until(7_200), {
        repo.aynig_ok(set.into_iter().chain(["dwp-not-before: +2h"]));
        until(7_200)
    }];
    let read = repo.trailer("task", "dwp-not-before");
    assert!(around.iter().any(|time| read.starts_with(time)), "{read}: {around:?}");
    repo.aynig_ok(["run"]);
    assert_eq!(repo.state("task"), "work");
    repo.aynig_ok(set.into_iter().chain(["dwp-not-before: +0"]));
    let around = [until(5_400), {
        repo.aynig_ok(["run"]);
        until(5_400)
    }];
    let read = repo.trailer("task", "dwp-not-before");
    assert!(around.iter().any(|time| read.starts_with(time)), "{read}: {around:?}");
    assert_eq!(repo.trailer("task", "dwp-not-after"), "+1h", "only this one is a time");
}

#[test]
fn the_status_of_a_stalled_branch_says_what_to_type() {
    let repo = Repo::scene(&[("work", "exit 1")]);
    repo.ready("task", "work");
    assert_eq!(repo.aynig(["run"]).status.code(), Some(1));
    let shown = out(&repo.aynig_ok(["status", "--all"]));
    let stalled = repo.head("task");
    assert!(shown.contains(&format!("`git log -1 {}` says why", &stalled[..10])), "{shown}");
    assert!(shown.contains("`aynig set-state --retry --branch task` asks again"), "{shown}");
}
