//! States that are left to one runner for a while: `dwp-prefer-runner` and `dwp-prefer-seconds`.

use nix::sys::signal::Signal;

use super::scene::*;
use super::support::*;

/// A branch that is left to `laptop`.
fn left_to_laptop(repo: &Repo, branch: &str, seconds: u64) -> String {
    let message =
        format!("please\n\ndwp-state: work\ndwp-prefer-runner: laptop\ndwp-prefer-seconds: {seconds}\n");
    repo.branch_with_message(branch, message.as_bytes())
}

/// CONTRACT 11.14
#[test]
fn a_state_is_left_to_the_runner_it_prefers() {
    let repo = Repo::scene(&[("work", "next done")]);
    let head = left_to_laptop(&repo, "task", 3_600);
    repo.branch_with_message("any", b"s\n\ndwp-state: work\ndwp-prefer-runner: \ndwp-prefer-seconds: 3600\n");
    let output = repo.aynig_ok(["--log-level", "debug", "run", "--drain"]);
    assert_eq!((repo.head("task"), repo.state("any")), (head, "done".into()), "{}", told(&output));
    assert!(err(&output).contains("it is left to the runner laptop until "), "{}", told(&output));
    let rows = listed(&repo.aynig_ok(["status", "--branch", "task", "--json"]));
    let shown = ["kind", "cause", "preferredRunner"].map(|field| rows[0][field].as_str().unwrap_or_default());
    assert_eq!(shown, ["waiting", "preferredRunner", "laptop"]);
    assert!(rows[0]["preferredUntil"].as_str().is_some_and(|time| time.ends_with('Z')), "{rows}");
    let text = out(&repo.aynig_ok(["status", "task"]));
    assert!(text.contains("left to the runner laptop until "), "{text}");
    let mut laptop = repo.aynig_command();
    laptop.args(["run"]).env("AYNIG_RUNNER_ID", "laptop");
    assert!(laptop.output().expect("it runs").status.success());
    assert_eq!(
        (repo.state("task"), repo.trailer("task~1", "dwp-runner-id")),
        ("done".into(), "laptop".into())
    );
    repo.assert_tidy();
}

/// CONTRACT 11.14
#[test]
fn a_watch_wakes_when_the_preference_ends() {
    let repo = Repo::scene(&[("work", "next done")]);
    left_to_laptop(&repo, "task", 2);
    let end = repo.git(["log", "-1", "--format=%ct", "task"]).parse::<u64>().expect("a date") + 2;
    let runner = repo.aynig_start(["run", "--watch=3600"]);
    // The interval is an hour: only the end of the preference can wake it.
    wait_until("the state after it", || repo.state("task") == "done");
    let claimed: u64 = repo.git(["log", "-1", "--format=%ct", "task~1"]).parse().expect("a date");
    assert!(claimed >= end, "claimed at {claimed}, before {end}");
    runner.signal(Signal::SIGTERM);
    runner.finish();
    repo.assert_tidy();
}
