//! Loops are stopped by their bound, in both modes, with the evidence and the command that requests the state anew.
//! Progress, pauses and new requests are not stopped.

use std::process::Output;

use nix::sys::signal::Signal;

use super::scene::*;
use super::support::*;

/// Every command notes its state.
fn looping() -> Repo {
    let note = r#"echo "$DWP_STATE $AYNIG_VISITS" >>"$ROOM/noted""#;
    let repo =
        Repo::scene(&[("ping", &format!("{note}; next pong")), ("pong", &format!("{note}; next ping"))]);
    repo.ready("task", "ping");
    repo
}

fn at(repo: &Repo, seconds: u32, arguments: &[&str]) -> Output {
    let mut command = repo.aynig_command();
    command.args(arguments).env("AYNIG_CLOCK_OFFSET_SECONDS", seconds.to_string());
    command.output().expect("aynig runs")
}

fn runs(repo: &Repo) -> usize {
    repo.noted_lines("noted").len()
}

const RETRY: &str = "aynig set-state --retry --branch task";

/// CONTRACT 3.14, 11.17, 11.20
#[test]
fn two_states_that_set_each_other_are_stopped_and_everybody_sees_why() {
    let repo = looping();
    let output = repo.aynig_ok(["run", "--drain"]);
    let head = repo.head("task");
    assert_eq!((runs(&repo), repo.state("task").as_str()), (10, "ping"), "{}", told(&output));
    assert_eq!(repo.noted_lines("noted")[..5], ["ping 1", "ping 2", "ping 3", "ping 4", "ping 5"]);
    let evidence = "ping was run 5 times in a row with the same files";
    assert_eq!(err(&output).matches(evidence).count(), 1, "{}", told(&output));
    assert!(!err(&repo.aynig_ok(["run"])).contains(evidence), "once a HEAD");
    std::fs::remove_file(repo.path.join(".git/aynig/said")).expect("it was reported");
    for (name, text) in [
        ("run", err(&repo.aynig_ok(["run"]))),
        ("status", out(&repo.aynig_ok(["status", "task"]))),
        ("status --all", out(&repo.aynig_ok(["status", "--all"]))),
        ("log", err(&repo.aynig_ok(["log", "task"]))),
        ("doctor", out(&repo.aynig(["doctor"]))),
    ] {
        assert!(text.contains(evidence) && text.contains(RETRY), "{name}: {text}");
    }
    let summary = json(&repo.aynig_ok(["run", "--json"]));
    assert_eq!(summary["warnings"][0]["code"], "maxRounds");
    let row = &listed(&repo.aynig_ok(["status", "task", "--json"]))[0];
    assert_eq!((&row["kind"], &row["cause"]), (&"parked".into(), &"maxRounds".into()));
    assert_eq!((repo.head("task"), runs(&repo)), (head, 10), "nothing was written");

    repo.aynig_ok(["set-state", "--retry", "--branch", "task"]);
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(runs(&repo), 20, "asked anew, it goes on");
    assert_eq!(repo.noted_lines("noted").iter().filter(|line| *line == "ping 1").count(), 2);
    repo.git(["config", "aynig.maxRounds", "0"]);
    repo.git(["config", "aynig.maxSteps", "23"]);
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(runs(&repo), 33, "of those asked anew, 23 in an hour");
    repo.assert_tidy();
}

/// CONTRACT 11.16, 11.17
#[test]
fn the_history_is_read_no_further_than_the_bounds_need() {
    let repo = looping();
    // A commit of two hours ago whose parent is missing. The request is on top of it.
    let (tree, date) = (repo.git(["rev-parse", "main^{tree}"]), now() - 7200);
    let missing = "1".repeat(40);
    let who = format!("A <a@example.org> {date} +0000");
    let text = format!("tree {tree}\nparent {missing}\nauthor {who}\ncommitter {who}\n\nold\n");
    let old = repo.git_with_input(&["hash-object", "-t", "commit", "-w", "--stdin"], text.as_bytes());
    repo.git(["branch", "-D", "--quiet", "task"]);
    repo.branch_from(&old, "task", b"go\n\ndwp-state: ping\n");
    let output = repo.aynig_ok(["run", "--drain"]);
    assert_eq!((runs(&repo), repo.state("task").as_str()), (10, "ping"), "{}", told(&output));
    assert!(!err(&output).contains(&missing[..7]), "{}", told(&output));
    repo.git(["config", "aynig.maxRounds", "0"]);
    repo.git(["config", "aynig.maxSteps", "15"]);
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(runs(&repo), 15);
}

/// CONTRACT 11.17
#[test]
fn a_watch_stops_such_a_loop_and_lives_on() {
    let repo = looping();
    let running = repo.aynig_start(["run", "--watch=1"]);
    wait_until("the bound", || runs(&repo) == 10 && repo.state("task") == "ping");
    repo.branch_with_message("other", b"go\n\ndwp-state: pong\n");
    wait_until("the other branch", || runs(&repo) == 20);
    running.signal(Signal::SIGINT);
    let output = running.finish();
    assert_eq!(err(&output).matches("task: ping was run 5 times").count(), 1, "{}", told(&output));
    assert_eq!(runs(&repo), 20);
}

/// CONTRACT 11.17
#[test]
fn every_clone_of_a_hub_comes_to_the_same_verdict() {
    let repo = looping();
    let hub = repo.beside("hub.git");
    repo.git(["clone", "--quiet", "--bare", ".", hub.to_str().expect("UTF-8")]);
    let clone = repo.clone_beside("clone");
    for one in [&repo, &clone] {
        one.git(["config", "--replace-all", "remote.origin.url", hub.to_str().expect("UTF-8")]);
        one.git(["config", "remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*"]);
    }
    let output = repo.aynig_ok(["run", "--remote", "origin", "--drain"]);
    assert_eq!(runs(&repo), 10, "{}", told(&output));
    let output = clone.aynig_ok(["run", "--remote", "origin", "--drain"]);
    let said = err(&output);
    assert!(
        said.contains("ping was run 5 times") && said.contains(&format!("{RETRY} --remote origin")),
        "{said}"
    );
    clone.aynig_ok(["set-state", "--retry", "--branch", "task", "--remote", "origin"]);
    repo.aynig_ok(["run", "--remote", "origin", "--drain"]);
    assert_eq!(runs(&repo), 20);
}

/// CONTRACT 11.16, 11.20
#[test]
fn steps_that_change_files_are_bounded_by_the_hour() {
    let repo = Repo::scene(&[("work", r#"echo x >>"$ROOM/noted"; echo x >>file; git add file; next work"#)]);
    repo.ready("task", "work");
    repo.git(["config", "aynig.maxSteps", "4"]);
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(runs(&repo), 4);
    let row = &listed(&repo.aynig_ok(["status", "task", "--json"]))[0];
    assert_eq!((&row["kind"], &row["cause"]), (&"parked".into(), &"maxSteps".into()));
    let until = row["notBefore"].as_str().expect("a time");
    assert_eq!(row["note"].as_str().expect("words").matches(until).count(), 1, "said once: {row:#}");
    let text = out(&repo.aynig_ok(["status", "task"]));
    assert!(text.contains("has made 4 steps since") && text.contains(RETRY), "{text}");
    at(&repo, 3_000, &["run", "--drain"]);
    assert_eq!(runs(&repo), 4);
    at(&repo, 3_601, &["run", "--drain"]);
    assert_eq!(runs(&repo), 8, "an hour later");
    repo.git(["config", "aynig.maxSteps", "0"]);
    repo.git(["config", "aynig.maxRounds", "1"]);
    for _ in 0..3 {
        at(&repo, 3_602, &["run"]);
    }
    assert_eq!(runs(&repo), 11, "other files each time are progress");
}

/// CONTRACT 11.16
#[test]
fn a_watch_wakes_when_the_hour_has_passed() {
    let repo = Repo::scene(&[("work", r#"echo x >>"$ROOM/noted"; echo x >>file; git add file; next work"#)]);
    repo.ready("task", "work");
    repo.git(["config", "aynig.maxSteps", "1"]);
    repo.aynig_ok(["run"]);
    let mut command = repo.aynig_command();
    command.args(["run", "--watch=3600"]).env("AYNIG_CLOCK_OFFSET_SECONDS", "3597");
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let running = Running::start(&mut command);
    wait_until("the second step", || runs(&repo) == 2);
    running.signal(Signal::SIGINT);
    running.finish();
}

/// CONTRACT 11.18
#[test]
fn two_branches_that_set_each_other_are_stopped() {
    let repo = Repo::scene(&[(
        "ping",
        r#"echo x >>"$ROOM/noted"; other=x; [ "$AYNIG_BRANCH" = x ] && other=y
           "$AYNIG_BIN" set-state --branch $other --state ping --body 'your turn'; next rest"#,
    )]);
    repo.ready("y", "rest");
    repo.ready("x", "ping");
    let output = repo.aynig(["run", "--drain"]);
    assert_eq!(runs(&repo), 10, "{}", told(&output));
    assert!(err(&output).contains("ping was run 5 times"), "{}", told(&output));
    repo.aynig_ok(["set-state", "--branch", "x", "--state", "ping", "--body", "by hand"]);
    assert_eq!(repo.trailer("x", "aynig-from-attempt"), "");
    repo.aynig(["run", "--drain"]);
    assert!(runs(&repo) > 10, "asked for by hand");
}

/// CONTRACT 11.17
#[test]
fn polling_with_pauses_is_not_stopped() {
    let repo = Repo::scene(&[(
        "poll",
        r#"echo x >>"$ROOM/noted"
           until=$(date -u -d "@$(($(date +%s) + AYNIG_CLOCK_OFFSET_SECONDS + 100))" +%Y-%m-%dT%H:%M:%SZ)
           echo "SET_STATE {\"state\":\"poll\",\"trailers\":[\"dwp-not-before: $until\"]}""#,
    )]);
    repo.ready("task", "poll");
    repo.git(["config", "aynig.maxRounds", "2"]);
    for round in 0..6 {
        at(&repo, round * 150, &["run", "--drain"]);
    }
    assert_eq!(runs(&repo), 6);
}

/// CONTRACT 11.19
#[test]
fn a_stalled_command_that_fails_is_tried_again_after_growing_pauses() {
    let repo = Repo::scene(&[("work", "exit 1"), ("stalled", r#"echo x >>"$ROOM/noted"; exit 1"#)]);
    repo.ready("task", "work");
    repo.aynig(["run", "--drain"]);
    assert_eq!(runs(&repo), 1, "not again and again");
    let row = &listed(&repo.aynig_ok(["status", "task", "--json"]))[0];
    assert_eq!((&row["kind"], &row["cause"]), (&"parked".into(), &"stalledAgain".into()));
    assert!(row["notBefore"].is_string() && row["note"].as_str().expect("words").contains(RETRY), "{row}");
    let report = out(&repo.aynig_ok(["doctor"]));
    assert!(report.contains("task: the command for stalled has failed 1 time in a row"), "{report}");
    let mut later = 0;
    for (pause, count) in [(50, 1), (15, 2), (110, 2), (15, 3), (230, 3), (15, 4)] {
        later += pause;
        at(&repo, later, &["run", "--drain"]);
        assert_eq!(runs(&repo), count, "{later} s later");
    }
    repo.aynig_ok(["set-state", "--retry", "--branch", "task"]);
    repo.aynig(["run", "--drain"]);
    assert_eq!(runs(&repo), 5, "asked again by hand, it goes on at once");
}

/// CONTRACT 3.14
#[test]
fn a_state_set_over_a_lease_by_hand_is_asked_for() {
    let repo = Repo::scene(&[("work", r#"echo "$AYNIG_VISITS" >>"$ROOM/noted""#)]);
    repo.ready("task", "work");
    repo.aynig_ok(["run"]);
    assert_eq!(repo.state("task"), "working", "the lease is kept");
    repo.aynig_ok(["set-state", "--retry", "--branch", "task"]);
    repo.aynig_ok(["run"]);
    at(&repo, 9_999, &["set-state", "--retry", "--branch", "task"]);
    at(&repo, 9_999, &["run"]);
    assert_eq!(repo.noted_lines("noted"), ["1", "1", "1"]);
    repo.aynig_ok(["set-state", "--retry", "--branch", "task"]);
    assert_eq!(
        repo.git(["log", "-1", "--format=%(trailers:key=aynig-overrides)", "task"]).lines().count(),
        1
    );
}
