//! The server that decides runs and has the hooks of `contrib/hooks`: its passes leave drivers to clones.

use super::agent::agent;
use super::gate::push_answer;
use std::os::unix::fs::PermissionsExt;

use super::back::APPENDS;
use super::gone::gated;
use super::hosts::Field;
use super::*;
use crate::publish::hub_and_clone;
use crate::remote::guard::install;

const STEPS: &str = concat!(
    agent_step!("first", "one", "ask"),
    "  - id: ask\n    opcode: GATE\n    gate: result\n    routes: {gate_approved: second, gate_rejected: STOP}\n",
    agent_step!("second", "two", "STOP"),
);

/// A hub with both hooks, and a clone that has the agent and the runner's id of the hub.
fn guarded() -> (Repo, Repo) {
    let (hub, clone) = hub_and_clone();
    hub.git(["config", "receive.advertisePushOptions", "true"]);
    install(&hub, "pre-receive");
    install(&hub, "post-receive");
    clone.git(["config", "aynig.remote", "origin"]);
    place_worktrees(&clone);
    agent(&clone, "scripted", "cat >>work");
    (hub, clone)
}

/// Calls aynig whose pushes find the hooks' program.
fn call(clone: &Repo, arguments: &[&str]) -> std::process::Output {
    clone.aynig_command().args(arguments).env("AYNIG_BIN", binary()).output().expect("it runs")
}

/// The states and leases of a driver, oldest first, with the hosts that handed it back.
fn history(hub: &Repo, run: &Started) -> String {
    hub.git(["log", "--reverse", "--format=%s %(trailers:key=aynig-unable,separator=%x2C)", &run.driver])
}

/// CONTRACT 20.44
#[test]
fn its_passes_leave_the_steps_of_clones_alone() {
    let (hub, clone) = guarded();
    std::fs::write(clone.path.join(".git/flow.yaml"), flow("first", STEPS)).expect("a file");
    let file = clone.path.join(".git/flow.yaml");
    let begun =
        call(&clone, &["flow", "start", file.to_str().expect("UTF-8"), "--base", "main", "--json", "--wait"]);
    assert_eq!(begun.status.code(), Some(5), "{}", told(&begun));
    let shown = json(&begun);
    let slug = shown["slug"].as_str().expect("a slug").to_owned();
    let driver = shown["driver"].as_str().expect("a driver").to_owned();
    let ended = call(&clone, &["flow", "approve", &slug, "--wait"]);
    assert_eq!(ended.status.code(), Some(0), "{}", told(&ended));
    let said = hub.git(["log", "--format=%B", &driver]);
    assert!(!said.contains("aynig-unable") && !said.contains("handed back"), "{said}");
    let log = std::fs::read_to_string(hub.path.join("aynig-passes.log")).unwrap_or_default();
    assert!(!log.contains("handed back"), "{log}");
}

/// CONTRACT 20.44
#[test]
fn a_server_claims_no_driver_and_takes_in_no_answer() {
    let (hub, clone) = hub_and_clone();
    clone.git(["config", "aynig.remote", "origin"]);
    agent(&clone, "scripted", "cat >>work");
    let run = start(&clone, &flow("first", STEPS));
    let rests = |when: &str| {
        let before = (history(&hub, &run), hub.git(["for-each-ref"]));
        hub.aynig_ok(["run", "--drain"]);
        assert_eq!((history(&hub, &run), hub.git(["for-each-ref"])), before, "{when}");
    };
    rests("a step is due");
    let row = json(&hub.aynig_ok(["status", &run.driver, "--json"]))["branches"][0].clone();
    assert_eq!((&row["kind"], &row["cause"]), (&"waiting".into(), &"decidedElsewhere".into()), "{row}");
    let listed = json(&hub.aynig_ok(["flow", "list", "--json"]))["runs"][0].clone();
    assert_eq!(listed["place"], "due", "{listed}");
    assert!(!hub.path.join("aynig/attempts").exists());
    clone.aynig_ok(["run", "--drain"]);
    rests("a gate is open");
    push_answer(&clone, &hub, &run, "aynig-gate: result\naynig-answer: approved\naynig-tree: HEAD");
    rests("an answer was pushed");
    // A lease that is over is closed, and the next state is left to clones again.
    hub.taken_by_other(&hub.head(&run.driver), &run.driver, 1);
    let mut late = hub.aynig_command();
    let late = late.args(["run", "--drain"]).env("AYNIG_CLOCK_OFFSET_SECONDS", "3600").output();
    assert_eq!(late.expect("it runs").status.code(), Some(0));
    assert_eq!(hub.state(&run.driver), "stalled");
    rests("it is stalled");
}

/// CONTRACT 5.39, 16.4
#[test]
fn a_hub_that_refuses_refs_of_runs_is_looked_at_by_the_doctor() {
    let field = Field::new(APPENDS);
    let repo = &field.hosts[0];
    let hook = field.hub.beside("hub.git").join("hooks/pre-receive");
    std::fs::create_dir_all(hook.parent().expect("a directory")).expect("a directory");
    std::fs::write(&hook, "#!/bin/sh\n! grep -q refs/aynig/\n").expect("a hook");
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).expect("a program");
    let file = repo.path.join(".git/flow.yaml");
    std::fs::write(&file, gated()).expect("a file");
    let refused = repo.aynig(["flow", "start", file.to_str().expect("UTF-8"), "--base", "main"]);
    assert_refused(&refused, 4, &["`aynig doctor`"]);
    let doctor = told(&repo.aynig(["doctor"]));
    assert!(doctor.contains("git config aynig.refNamespace refs/heads/aynig"), "{doctor}");
}
