//! `aynig events`: an alias of `aynig log --json`.

use serde_json::{Value, json};

use super::support::*;

/// The newest entry.
fn newest(repo: &Repo, arguments: &[&str]) -> Value {
    listed(&repo.aynig_ok(["events"].iter().chain(arguments).copied()))[0].clone()
}

#[test]
fn every_option_of_log_has_the_same_effect() {
    let repo = Repo::scene(&[("build", "next done"), ("fail", "echo loose >loose; exit 3")]);
    repo.ready("work", "build");
    repo.ready("bad", "fail");
    repo.aynig(["run"]);
    repo.git(["checkout", "--quiet", "bad"]);
    for options in [
        &[][..],
        &["work"],
        &["--branch", "work"],
        &["-n", "1"],
        &["--max-count", "0"],
        &["--reverse"],
        &["--leases", "--no-pager", "work"],
        &["--json", "-q"],
    ] {
        let [alias, log] = [&["events"][..], &["log", "--json"]]
            .map(|verb| repo.aynig(verb.iter().chain(options.iter().filter(|o| **o != "--json")).copied()));
        assert_eq!(out(&alias), out(&log), "{options:?}");
        assert_eq!((alias.status.code(), err(&alias)), (Some(0), String::new()), "{options:?}");
        assert_eq!(out(&alias).lines().count(), 1, "{options:?}");
    }
    assert_eq!(out(&repo.aynig_ok(["events", "--json"])), out(&repo.aynig_ok(["events"])));
}

#[test]
fn the_newest_event_lies_below_plain_commits() {
    let repo = Repo::new();
    let event = repo.branch_from("main", "main", b"please\n\nbody\n\ndwp-state: review\ndwp-pr: 7\n");
    repo.git(["commit", "--quiet", "--allow-empty", "-m", "plain"]);
    let entries = listed(&repo.aynig_ok(["events"]));
    assert_eq!((&entries[0]["kind"], &entries[0]["subject"]), (&"commits".into(), &"plain".into()));
    let state = &entries[1];
    for (key, value) in [
        ("kind", json!("state")),
        ("commit", json!(event)),
        ("state", json!("review")),
        ("subject", json!("please")),
        ("body", json!("body")),
        ("trailers", json!([{"key": "dwp-state", "value": "review"}, {"key": "dwp-pr", "value": "7"}])),
        ("reason", Value::Null),
    ] {
        assert_eq!(state[key], value, "{state:#}");
    }
    assert!(state.get("runId").is_none() && state.get("originState").is_none(), "no attempt: {state:#}");
    let date = state["date"].as_str().expect("a time");
    assert!(date.ends_with('Z') && date.contains('T'), "{date}");
}

#[test]
fn history_is_newest_first_and_names_attempts() {
    let repo = Repo::with_commands(&[("build", "exit 3")]);
    repo.ready("work", "build");
    assert_eq!(repo.aynig(["run"]).status.code(), Some(1));
    let entries = listed(&repo.aynig_ok(["events", "--branch", "work"]));
    let states: Vec<&Value> =
        entries.as_array().expect("a list").iter().filter_map(|entry| entry.get("state")).collect();
    assert_eq!(states, ["stalled", "build"]);
    let attempt = &entries[0];
    assert_eq!(attempt["runId"], repo.trailer("work~1", "dwp-run-id").as_str());
    assert_eq!(attempt["leases"][0]["commit"], repo.head("work~1").as_str());
    assert_eq!((&attempt["originState"], &attempt["runner"]), (&"build".into(), &"test-host".into()));
    let trailers = attempt["trailers"].as_array().expect("a list");
    assert!(trailers.contains(&json!({"key": "dwp-stalled-run", "value": attempt["runId"]})), "{attempt:#}");
    let two = listed(&repo.aynig_ok(["events", "-n", "2", "--branch", "work"]));
    assert_eq!(two.as_array().expect("a list").len(), 2);
}

#[test]
fn inside_a_command_it_is_about_the_commands_branch() {
    let repo = Repo::new();
    repo.ready("work", "build");
    let output = repo.aynig_inside("work", "r").args(["events", "--json"]).output().expect("it runs");
    assert_eq!(listed(&output)[0]["state"], "build");
}

#[test]
fn invalid_states_and_odd_bytes_are_shown_and_harmless() {
    let repo = Repo::new();
    repo.branch_with_message("odd", b"s\xff\x1b[31m\n\ndwp-state: ../x\n");
    let entry = newest(&repo, &["--branch", "odd"]);
    assert_eq!(entry["kind"], "invalid");
    assert!(entry["reason"].as_str().expect("words").contains("../x"), "{entry:#}");
    repo.branch_with_message("even", b"s\xff\x1b[31m\n\ndwp-state: x\n");
    assert_eq!(newest(&repo, &["even"])["subject"], "s\u{fffd}\u{1b}[31m");
    for branch in ["odd", "even"] {
        let said = out(&repo.aynig_ok(["events", branch])) + &out(&repo.aynig_ok(["log", branch]));
        assert!(!said.contains('\u{1b}'), "{said:?}");
    }
    assert!(out(&repo.aynig_ok(["log", "odd"])).contains("invalid"));
}

#[test]
fn no_event_is_an_answer_too() {
    let repo = Repo::new();
    let output = repo.aynig_ok(["events"]);
    assert_eq!(err(&output), "", "the reader is a program");
    let entries = listed(&output);
    assert_eq!((entries.as_array().expect("a list").len(), &entries[0]["kind"]), (1, &"before".into()));
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let repo = Repo::new();
    assert_refused(&repo.aynig(["events", "-n", "two"]), 2, &["--max-count"]);
    assert_refused(&repo.aynig(["events", "--branch", "none"]), 1, &["no branch none", "`git branch` lists"]);
    repo.git(["checkout", "--quiet", "--detach"]);
    assert_refused(&repo.aynig(["events"]), 3, &["detached", "--branch"]);
    let unborn = Repo::unborn();
    assert_refused(&unborn.aynig(["events"]), 3, &["main has no commit yet", "git commit"]);
}
