//! `aynig events`.

use super::support::*;

#[test]
fn the_newest_event_lies_below_plain_commits() {
    let repo = Repo::new();
    let event = repo.branch_from("main", "main", b"please\n\nbody\n\ndwp-state: review\ndwp-pr: 7\n");
    repo.git(["commit", "--quiet", "--allow-empty", "-m", "plain"]);
    let said = out(&repo.aynig_ok(["events"]));
    assert_eq!(said.lines().count(), 1);
    for words in [&event[..10], "review", "please"] {
        assert!(said.contains(words), "{said}");
    }
    let answer = &listed(&repo.aynig_ok(["events", "--json"]))[0];
    assert_eq!(answer["commit"], event.as_str());
    assert_eq!(answer["state"], "review");
    assert_eq!(answer["message"], "please\n\nbody\n\ndwp-state: review\ndwp-pr: 7\n");
    assert_eq!(answer["runId"], serde_json::Value::Null);
    assert_eq!(answer["originState"], serde_json::Value::Null);
    assert_eq!(
        answer["trailers"],
        serde_json::json!([{"key": "dwp-state", "value": "review"}, {"key": "dwp-pr", "value": "7"}])
    );
    let date = answer["date"].as_str().unwrap();
    assert!(date.ends_with('Z') && date.contains('T'), "{date}");
    let mut keys: Vec<&String> = answer.as_object().unwrap().keys().collect();
    keys.sort();
    assert_eq!(keys, ["commit", "date", "message", "originState", "runId", "state", "trailers"]);
}

#[test]
fn history_is_newest_first_and_names_attempts() {
    let repo = Repo::with_commands(&[("build", "exit 3")]);
    repo.ready("work", "build");
    assert_eq!(repo.aynig(["run"]).status.code(), Some(1));
    let answer = listed(&repo.aynig_ok(["events", "--history", "--branch", "work", "--json"]));
    let events = answer.as_array().unwrap();
    let states: Vec<&str> = events.iter().map(|event| event["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["stalled", "working", "build"]);
    let run = repo.trailer("work~1", "dwp-run-id");
    assert_eq!(events[0]["runId"], run.as_str());
    assert_eq!(events[1]["runId"], run.as_str());
    assert_eq!(events[1]["originState"], "build");
    let two = listed(&repo.aynig_ok(["events", "--history", "-n", "2", "--branch", "work", "--json"]));
    assert_eq!(two.as_array().unwrap().len(), 2);
    let lines = out(&repo.aynig_ok(["events", "--history", "--branch", "work"]));
    assert_eq!(lines.lines().count(), 3);
    assert!(lines.lines().nth(1).unwrap().contains("working (build) by test-host"), "{lines}");
}

#[test]
fn inside_a_command_it_is_about_the_commands_branch() {
    let repo = Repo::new();
    repo.ready("work", "build");
    let output = repo.aynig_inside("work", "r").args(["events", "--json"]).output().unwrap();
    assert_eq!(listed(&output)[0]["state"], "build");
}

#[test]
fn invalid_states_and_odd_bytes_are_shown_and_harmless() {
    let repo = Repo::new();
    repo.branch_with_message("odd", b"s\xff\x1b[31m\n\ndwp-state: ../x\n");
    let answer = listed(&repo.aynig_ok(["events", "--branch", "odd", "--json"]));
    assert_eq!(answer[0]["state"], "../x");
    let said = out(&repo.aynig_ok(["events", "--branch", "odd"]));
    assert!(said.contains("invalid") && !said.contains('\u{1b}'), "{said:?}");
}

#[test]
fn no_event_is_an_answer_too() {
    let repo = Repo::new();
    let output = repo.aynig_ok(["events"]);
    assert_eq!(out(&output), "");
    assert!(err(&output).contains("main has no state event yet"), "{}", err(&output));
    assert_eq!(out(&repo.aynig_ok(["events", "--json"])), "{\"version\":1,\"events\":[]}\n");
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let repo = Repo::new();
    assert_refused(&repo.aynig(["events", "-n", "2"]), 2, &["--history"]);
    assert_refused(&repo.aynig(["events", "--branch", "none"]), 1, &["no branch none", "`git branch` lists"]);
    repo.git(["checkout", "--quiet", "--detach"]);
    assert_refused(&repo.aynig(["events"]), 3, &["detached", "--branch"]);
    let unborn = Repo::unborn();
    assert_refused(&unborn.aynig(["events"]), 3, &["main has no commit yet", "git commit"]);
}
