//! Durations on the command line and in git's configuration: `90s`, `5m`, `1h30m`, or a number of seconds.

use super::support::*;

/// CONTRACT 11.24
#[test]
fn lengths_of_leases_are_durations() {
    let repo = Repo::scene(&[("work", "say lease \"$AYNIG_LEASE_SECONDS\"; next done")]);
    for (given, seconds) in [("90", "90"), ("90s", "90"), ("5m", "300"), ("1h30m", "5400")] {
        let branch = format!("task-{given}");
        repo.ready(&branch, "work");
        repo.aynig_ok(["set-state", &branch, "--state", "later", "--lease-seconds", given]);
        assert_eq!(repo.trailer(&branch, "dwp-lease-seconds"), seconds);
        repo.aynig_ok(["set-working", &branch, "--lease-seconds", given]);
        assert_eq!(repo.trailer(&branch, "dwp-lease-seconds"), seconds);
        let line = out(&repo.aynig_ok(["next", "review", "--lease-seconds", given]));
        assert!(line.contains(&format!("\"lease_seconds\":{seconds}")), "{line}");
    }
}

/// CONTRACT 11.24
#[test]
fn settings_in_seconds_are_durations() {
    let repo = Repo::scene(&[("work", "say lease \"$AYNIG_LEASE_SECONDS\"; next done")]);
    repo.ready("task", "work");
    for name in ["leaseSeconds", "skewSeconds", "graceSeconds", "commandTimeout", "notifySeconds"] {
        repo.git(["config", &format!("aynig.{name}"), "2m"]);
    }
    repo.aynig_ok(["run"]);
    assert_eq!((repo.said("lease").as_str(), repo.state("task").as_str()), ("120", "done"));
    repo.ready("again", "work");
    repo.aynig_ok([
        "run",
        "--lease-seconds",
        "1h",
        "--skew-seconds=1m",
        "--grace-seconds=0",
        "--command-timeout=1d",
    ]);
    assert_eq!((repo.said("lease").as_str(), repo.state("again").as_str()), ("3600", "done"));
}

#[test]
fn a_wrong_duration_is_named_with_the_accepted_forms() {
    let repo = Repo::new();
    for arguments in [
        ["run", "--watch=5min"].as_slice(),
        &["run", "--grace-seconds=5min"],
        &["status", "--watch=5min"],
        &["set-state", "--state", "x", "--lease-seconds=5min"],
        &["set-state", "--state", "x", "--when-free", "--wait", "--timeout=5min"],
        &["set-working", "--lease-seconds=5min"],
        &["next", "x", "--lease-seconds=5min"],
        &["cancel", "x", "--wait", "--timeout=5min"],
        &["hook", "pre-receive", "--tolerance-seconds=5min"],
    ] {
        let output = repo.aynig(arguments.iter().copied());
        assert_refused(&output, 2, &["5min", "90s, 5m, 2h, 14d, 1h30m, or a number of seconds"]);
    }
}

/// A number alone might be meant in days.
#[test]
fn an_age_without_a_unit_is_refused_with_the_one_to_type() {
    let repo = Repo::new();
    assert_refused(&repo.aynig(["clean", "--older-than", "7"]), 2, &["7 has no unit: write 7d for days"]);
    for odd in ["d", "7x", "1.5d", "-1"] {
        assert_refused(&repo.aynig(["clean", "--older-than", odd]), 2, &["12h, 14d, 2w or 1d12h"]);
    }
}

#[test]
fn a_negative_duration_is_refused_as_a_duration() {
    let repo = Repo::new();
    for arguments in [
        &["wait", "main", "--timeout"][..],
        &["cancel", "main", "--wait", "--timeout"],
        &["set-state", "--state", "x", "--when-free", "--wait", "--timeout"],
        &["set-state", "--state", "x", "--lease-seconds"],
        &["set-working", "--lease-seconds"],
        &["next", "x", "--lease-seconds"],
        &["run", "--command-timeout"],
    ] {
        let output = repo.aynig(arguments.iter().copied().chain(["-1"]));
        assert_refused(&output, 2, &["'-1'", "not a duration: write 90s"]);
    }
    assert_refused(&repo.aynig(["run", "--jobs", "-1"]), 2, &["'-1'", "write a number from 1 on"]);
}
