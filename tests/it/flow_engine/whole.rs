//! The seed's whole flow on two hosts in turn, through a hub, and its result as a proposal.

use std::os::unix::fs::PermissionsExt;

use super::hosts::Field;
use super::seed::{AGENT, FIX, PLANNER};
use super::*;

/// Two hosts with all that the flow needs, and a forge that keeps one proposal.
fn field() -> Field {
    let field = Field::new(AGENT);
    let [first, second] = &field.hosts;
    first.write("check.sh", "#!/bin/sh\ngrep -q right result\n");
    std::fs::set_permissions(first.path.join("check.sh"), std::fs::Permissions::from_mode(0o755))
        .expect("a mode");
    first.commit_all("a check");
    first.git(["push", "-q", "origin", "main"]);
    second.git(["fetch", "-q", "origin"]);
    second.git(["reset", "-q", "--hard", "origin/main"]);
    let (forge, room) = (field.hub.beside("forge"), field.hub.beside(""));
    let room = room.display();
    let script = format!(
        "#!/bin/sh\nread -r asked; echo \"$asked\" >>'{room}asked'\ncase $asked in\n\
         *'\"action\":\"find\"'*) cat '{room}open' 2>/dev/null;;\n\
         *) echo '{{\"url\":\"https://forge.example/p/1\",\"number\":1}}' >'{room}open'; cat '{room}open';;\nesac\nexit 0\n"
    );
    std::fs::write(&forge, script).expect("a script");
    std::fs::set_permissions(&forge, std::fs::Permissions::from_mode(0o755)).expect("a mode");
    for host in &field.hosts {
        host.git(["config", "aynig.evaluator.planner", PLANNER]);
        host.git(["config", "aynig.forge", forge.to_str().expect("UTF-8")]);
    }
    field
}

/// Lets the hosts carry out one step each in turn, until the driver is in this state.
fn in_turn(field: &Field, run: &Started, state: &str, turn: &mut usize) {
    let is_there = || {
        field.hosts[0].git(["fetch", "-q", "origin", &run.driver]);
        field.hosts[0].state("FETCH_HEAD") == state
    };
    for _ in 0..30 {
        if is_there() {
            return;
        }
        let output = field.hosts[*turn % 2].aynig(["run"]);
        assert!(matches!(output.status.code(), Some(0 | 1)), "{}", told(&output));
        *turn += 1;
    }
    panic!("{:?}", steps(&field.hosts[0], run));
}

fn assert_in_order(field: &Field, run: &Started, what: &str) {
    for host in &field.hosts {
        let list = out(&host.aynig_ok(["workspace", "list"]));
        assert!(!list.contains("broken"), "{what}: {list}");
        let status = host.aynig_ok(["flow", "show", &run.slug]);
        assert!(!out(&status).contains("broken"), "{what}: {}", told(&status));
    }
}

/// CONTRACT 20.3, 21.1
#[test]
fn every_kind_of_step_is_carried_out_on_two_hosts_in_turn_and_the_result_is_published() {
    let field = field();
    let [first, second] = &field.hosts;
    let text =
        FIX.replace("routes: {completed: STOP, error: STOP}", "routes: {completed: implement, error: STOP}");
    let run = start_with(first, &text, &["--input", "task=write the result"]);
    let mut turn = 1;
    in_turn(&field, &run, "flow-gate", &mut turn);
    assert_in_order(&field, &run, "at the gate");
    // The result can be seen while the gate waits.
    let early = first.aynig_ok(["publish", &run.slug]);
    let published = field.at_hub(&format!("refs/heads/{}", run.work));
    assert_eq!(published, field.at_hub(&format!("refs/aynig/work/{}/flow", run.id)), "{}", told(&early));
    second.aynig_ok(["flow", "reject", &run.slug, "--comment", "no"]);
    in_turn(&field, &run, "flow-gate", &mut turn);
    assert_in_order(&field, &run, "after the rollback");
    let round = [
        "implement completed test",
        "test error judge",
        "judge partial implement",
        "implement completed test",
        "test completed judge",
        "judge success approve",
    ];
    let mut expected: Vec<&str> = round.to_vec();
    expected.extend(["approve gate_rejected undo", "undo completed implement"]);
    expected.extend(round);
    first.aynig_ok(["orch", "run", "list"]);
    assert_eq!(steps(first, &run)[..14], expected[..]);
    first.aynig_ok(["flow", "approve", &run.slug]);
    in_turn(&field, &run, "flow-done", &mut turn);
    field.assert_same(&run);
    for host in [first, second] {
        host.aynig_ok(["orch", "run", "list"]);
        assert_eq!(end(host, &run), ["completed", "succeeded", "completed"]);
    }
    assert_in_order(&field, &run, "at the end");
    // The rework replaces what was published, in the same proposal, from either host.
    for host in [first, second] {
        let done = host.aynig_ok(["publish", &run.slug]);
        assert!(told(&done).contains("https://forge.example/p/1"), "{}", told(&done));
        let work = field.at_hub(&format!("refs/aynig/work/{}/flow", run.id));
        assert_eq!(field.at_hub(&format!("refs/heads/{}", run.work)), work);
    }
    let asked = std::fs::read_to_string(field.hub.beside("asked")).expect("requests");
    assert_eq!(asked.matches("\"action\":\"create\"").count(), 1, "{asked}");
    first.git(["fetch", "-q", "origin", &run.work]);
    assert_eq!(first.show("FETCH_HEAD:result"), "right");
    for host in &field.hosts {
        host.aynig_ok(["clean"]);
    }
    assert_in_order(&field, &run, "after clean");
}
