//! `aynig set-working`.

use super::support::*;

const RUN: &str = "11111111-2222-4333-8444-555555555555";

#[test]
fn a_claim_by_hand() {
    let repo = Repo::new();
    repo.branch_with_message("work", b"s\n\ndwp-state: build\ndwp-pr: 7\nother: x\n");
    let trigger = repo.head("work");
    let answer = json(&repo.aynig_ok(["set-working", "--branch", "work", "--json"]));
    assert_eq!(repo.head("work~1"), trigger);
    assert_eq!(repo.git(["rev-parse", "work^{tree}"]), repo.git(["rev-parse", "main^{tree}"]));
    assert_eq!(repo.state("work"), "working");
    for (key, value) in [
        ("dwp-origin-state", "build"),
        ("dwp-runner-id", "test-host"),
        ("dwp-lease-seconds", "300"),
        ("dwp-pr", "7"),
        ("other", ""),
    ] {
        assert_eq!(repo.trailer("work", key), value, "{key}");
    }
    assert_eq!(answer["branch"], "work");
    assert_eq!(answer["state"], "working");
    assert_eq!(answer["commit"], repo.head("work").as_str());
    assert_eq!(answer["previousState"], "build");
    assert_eq!(answer["originState"], "build");
    assert_eq!(answer["runId"], repo.trailer("work", "dwp-run-id").as_str());
    assert_eq!(answer["runner"], "test-host");
    assert_eq!(answer["leaseSeconds"], 300);
    assert!(answer["expiresAt"].as_str().unwrap().ends_with('Z'));
}

#[test]
fn a_renewal_keeps_the_attempt_its_runner_and_trailers() {
    let repo = Repo::new();
    repo.ready("work", "build");
    let old = repo.foreign_lease("work", RUN, "elsewhere", 60, 30);
    let output = repo.aynig_ok(["set-working", "--branch", "work"]);
    assert_eq!(repo.head("work~1"), old);
    for (key, value) in [
        ("dwp-run-id", RUN),
        ("dwp-runner-id", "elsewhere"),
        ("dwp-lease-seconds", "60"),
        ("dwp-origin-state", "build"),
        ("dwp-pr", "7"),
    ] {
        assert_eq!(repo.trailer("work", key), value, "{key}");
    }
    let said = out(&output);
    for words in ["work  working → working", RUN, "elsewhere", "until "] {
        assert!(said.contains(words), "{words}: {said}");
    }
    repo.aynig_ok(["set-working", "--branch", "work", "--lease-seconds", "900", "--trailer", "dwp-step: 2"]);
    assert_eq!(repo.trailer("work", "dwp-lease-seconds"), "900");
    assert_eq!(repo.trailer("work", "dwp-step"), "2");
}

#[test]
fn it_needs_a_state_to_work_on() {
    let repo = Repo::new();
    assert_refused(&repo.aynig(["set-working"]), 2, &["no legal dwp-state", "hint: ", "set-state"]);
    assert_refused(&repo.aynig(["set-working", "--lease-seconds", "0"]), 2, &["--lease-seconds"]);
    assert_refused(&repo.aynig(["set-working", "--trailer", "dwp-run-id: x"]), 2, &["runner only"]);
}

#[test]
fn inside_a_command_it_renews_below_the_commands_own_commits() {
    let repo = Repo::new();
    repo.ready("work", "build");
    repo.foreign_lease("work", RUN, "host", 60, 0);
    let own = repo.branch_from("work", "work", b"my own commit\n");
    let output = repo.aynig_inside("work", RUN).args(["set-working"]).output().unwrap();
    assert!(output.status.success(), "{}", err(&output));
    assert_eq!(repo.head("work~1"), own);
    assert_eq!(repo.trailer("work", "dwp-run-id"), RUN);
    assert_eq!(repo.trailer("work", "dwp-origin-state"), "build");
    assert_eq!(repo.trailer("work", "dwp-pr"), "7");
}

#[test]
fn inside_a_command_whose_attempt_is_over_it_is_refused() {
    let repo = Repo::new();
    repo.ready("work", "build");
    let head = repo.foreign_lease("work", "99999999-2222-4333-8444-555555555555", "host", 60, 0);
    let output = repo.aynig_inside("work", RUN).args(["set-working"]).output().unwrap();
    assert_refused(&output, 1, &[RUN, "no longer holds work", "attempt 99999999", "--branch work"]);
    assert_eq!(repo.head("work"), head);
}

#[test]
fn whoever_renews_for_another_runner_is_told_whose_lease_it_is() {
    let repo = Repo::new();
    repo.ready("work", "build");
    for (runner, age, warned) in [("elsewhere", 0, true), ("test-host", 0, false), ("elsewhere", 90, false)] {
        repo.foreign_lease("work", RUN, runner, 60, age);
        let said = err(&repo.aynig_ok(["set-working", "--branch", "work"]));
        assert_eq!(
            said.starts_with("warning: work is leased to elsewhere (attempt "),
            warned,
            "{runner} {said}"
        );
        assert_eq!(said.contains(RUN) && said.contains("renewed in its name"), warned, "{said}");
    }
    repo.foreign_lease("work", RUN, "elsewhere", 60, 0);
    let inside = repo.aynig_inside("work", RUN).args(["set-working"]).output().expect("aynig runs");
    assert_eq!((inside.status.code(), err(&inside)), (Some(0), String::new()), "the attempt itself may");
}
