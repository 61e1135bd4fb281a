//! When a remote decides, and the other subcommands with one.

use super::*;

#[test]
fn the_source_at_head_turns_it_on() {
    let hub = hub(&[("work", "echo \"$AYNIG_REMOTE\" >>\"$ROOM/ran\"; next done")]);
    let clone = clone(&hub);
    hub.ready("task", "work");
    clone.commit_all("here\n\ndwp-source: git:origin");
    clone.aynig_ok(["run"]);
    assert_eq!(hub.noted_lines("ran"), ["origin"]);
    assert_eq!(hub.state("task"), "done");
    assert_eq!(hub.trailer("task", "dwp-source"), "git:origin");
    clone.assert_tidy();
}

#[test]
fn a_state_is_set_and_read_without_a_checkout() {
    let hub = hub(&[("work", "next done")]);
    let clone = clone(&hub);
    let before = heads(&clone);
    hub.ready("task", "idea");
    let set =
        ["set-state", "--remote", "origin", "--branch", "task", "--state", "work", "--subject", "please"];
    clone.aynig_ok(set);
    assert_eq!(states(&hub, "task"), ["idea", "work"]);
    assert_eq!(hub.trailer("task", "dwp-source"), "git:origin");
    let status = clone.aynig_ok(["status", "--all", "--remote", "origin"]);
    let line = out(&status).lines().find(|line| line.contains("task")).map(str::to_owned);
    assert!(line.is_some_and(|line| line.contains("work")), "{}", told(&status));
    let events = clone.aynig_ok(["events", "--remote", "origin", "--branch", "task", "--history", "--json"]);
    let events: serde_json::Value = serde_json::from_slice(&events.stdout).expect("JSON");
    let seen: Vec<&str> =
        events.as_array().expect("a list").iter().filter_map(|event| event["state"].as_str()).collect();
    assert_eq!(seen, ["work", "idea"]);
    assert_eq!(heads(&clone), before);
}

#[test]
fn a_command_sets_its_state_itself() {
    let script = "echo own >own.txt; git add own.txt; git commit -q -m own\n\
                  \"$AYNIG_BIN\" set-state --state review --subject 'by itself' >&2 || exit 7\n\
                  git symbolic-ref -q HEAD; git rev-parse HEAD >\"$ROOM/after\"";
    let hub = hub(&[("work", script)]);
    let clone = clone(&hub);
    let before = heads(&clone);
    hub.ready("task", "work");
    let output = clone.aynig_ok(RUN.iter().copied());
    assert!(out(&output).contains("review"), "{}", told(&output));
    assert_eq!(states(&hub, "task"), ["work", "working", "-", "review"]);
    assert_eq!(hub.show("task:own.txt"), "own");
    assert_eq!(hub.said("after"), hub.head("task"), "the worktree went along");
    assert_eq!(heads(&clone), before);
    assert_eq!(clone.rescues(), Vec::<String>::new(), "{}", told(&output));
    clone.assert_tidy();
}
