//! Graphs under load and with agents and hosts that misbehave. At the end each message is read once.

use std::process::Stdio;

use nix::sys::signal::Signal;

use super::*;

/// Says that it has begun, and waits until the file `ready` is there.
const WAITS: &str = r#"
: >../../begun
until [ -e ../../ready ]; do sleep 0.05; done
echo x >>file
echo done
"#;

/// Carries out what is due, by a clock that is ahead.
fn drain_at(repo: &Repo, offset: i64) -> String {
    let mut command = repo.aynig_command();
    command.args(["run", "--drain"]).env("AYNIG_CLOCK_OFFSET_SECONDS", offset.to_string());
    err(&command.output().expect("aynig runs"))
}

fn hub(names: &[&str], script: &str) -> (Repo, Vec<Repo>) {
    let hub = Repo::new();
    let bare = hub.beside("hub.git");
    let path = bare.to_str().expect("UTF-8").to_owned();
    hub.git(["clone", "-q", "--bare", ".", &path]);
    let hosts = names.iter().map(|name| hosts::host(&path, name, script)).collect();
    (hub, hosts)
}

/// CONTRACT 22.2, 22.3
#[test]
fn many_senders_at_once_lose_no_message() {
    let graph = Graph::new("echo x >>file; echo done", &["a"]);
    let runner = graph.repo.aynig_start(["run", "--watch"]);
    let send = |number: usize| {
        let mut command = graph.repo.aynig_command();
        command.args(["orch", "chat", &graph.slug, "a", &format!("message {number}")]);
        command.stderr(Stdio::piped()).spawn().expect("aynig starts")
    };
    let senders: Vec<_> = (0..32).map(send).collect();
    for sender in senders {
        let output = sender.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{}", err(&output));
    }
    wait_until("the messages to be read", || graph.node("a")["inboxCount"] == 0);
    runner.signal(Signal::SIGTERM);
    runner.finish();
    graph.drain();
    assert_eq!(graph.events(&["message.user"]).len(), 32);
    graph.assert_read_once(0);
    graph.ok(&["doctor", "RUN"]);
}

/// CONTRACT 5.1, 22.5
#[test]
fn a_clock_one_hour_ahead_takes_a_live_turn_over_and_nothing_is_read_twice() {
    let (_hub, mut hosts) = hub(&["first", "second"], WAITS);
    let [second, first] = [hosts.pop(), hosts.pop()].map(|host| host.expect("a host"));
    let graph = Graph::of(first, &["a"]);
    graph.ok(&["chat", "RUN", "a", "Write it."]);
    let mut runner = people::live(&graph.repo);
    // Its clock says that the lease is over. What it records is all there is.
    people::ready(&second);
    for offset in [3_600, 3_700] {
        drain_at(&second, offset);
    }
    people::ready(&graph.repo);
    runner.wait().expect("it ends");
    graph.drain();
    graph.assert_read_once(0);
    let turns = graph.turns();
    assert_eq!(turns.iter().filter(|turn| *turn == "a completed").count(), 1, "{turns:?}");
    assert_eq!(driver_state_at(&graph, "a"), "orch-idle");
}

/// The state of a driver at the hub, as it was last heard of.
fn driver_state_at(graph: &Graph, alias: &str) -> String {
    graph.repo.git(["fetch", "-q", "origin"]);
    let branch = format!("refs/remotes/origin/run/{}/{alias}", graph.slug);
    graph.repo.git(["log", "-1", "--format=%(trailers:key=dwp-state,valueonly)", &branch]).trim().to_owned()
}

/// CONTRACT 22.3
#[test]
fn a_hub_that_goes_away_during_a_turn_loses_nothing() {
    let (hub, mut hosts) = hub(&["first"], WAITS);
    let host = hosts.pop().expect("a host");
    // So long a runner tries to hand a driver back.
    host.git(["config", "aynig.orchLeaseSeconds", "10"]);
    let graph = Graph::of(host, &["a"]);
    graph.ok(&["chat", "RUN", "a", "Write it."]);
    let mut runner = people::live(&graph.repo);
    let (there, away) = (hub.beside("hub.git"), hub.beside("away.git"));
    std::fs::rename(&there, &away).expect("renamed");
    people::ready(&graph.repo);
    runner.wait().expect("it ends");
    std::fs::rename(&away, &there).expect("renamed");
    for offset in [600, 1_300, 2_000] {
        drain_at(&graph.repo, offset);
    }
    graph.assert_read_once(0);
    assert_eq!(driver_state_at(&graph, "a"), "orch-idle");
}

/// CONTRACT 22.3
#[test]
fn what_an_agent_prints_or_leaves_behind_ends_no_turn_badly() {
    for (what, script) in [
        ("a long answer", "head -c 1048576 /dev/zero | tr '\\0' x"),
        ("no text", "printf '\\377\\376\\000'"),
        ("a child that keeps the pipes", "sleep 1000 & echo done"),
        ("a child with a session of its own", "setsid sleep 1000 & echo done"),
        ("packed refs and objects", "git gc -q --prune=now; git pack-refs --all; echo done"),
        ("a worktree without its link", "rm .git; echo done"),
    ] {
        let graph = Graph::new(&format!("echo x >>file\n{script}"), &["a"]);
        graph.ok(&["chat", "RUN", "a", "Write it."]);
        let said = graph.drain();
        assert_eq!(graph.turns(), ["a completed"], "{what}: {said}");
        graph.assert_read_once(0);
        assert_eq!(graph.repo.git(["show", &format!("work/{}/a:file", graph.slug)]).trim(), "x", "{what}");
        graph.repo.deserted();
        graph.ok(&["doctor", "RUN"]);
    }
}

/// An agent that does this, unless the file `ready` is beside it.
fn once(script: &str) -> Graph {
    let graph = Graph::new("echo never", &["a"]);
    let ready = graph.repo.beside("ready");
    let script = script.replace('@', graph.repo.path.join(".git").to_str().expect("UTF-8"));
    let script = format!("[ -e '{}' ] || {{ {script}; exit; }}\necho x >>file; echo done", ready.display());
    agent(&graph.repo, &script);
    graph.ok(&["chat", "RUN", "a", "Write it."]);
    graph.drain();
    std::fs::write(ready, "").expect("a file");
    graph
}

/// CONTRACT 22.4
#[test]
fn an_agent_that_removes_its_worktree_gets_another_one() {
    let graph = once(r#"rm -rf "$PWD"; echo done"#);
    drain_at(&graph.repo, 600);
    assert_eq!(graph.turns(), ["a failed", "a completed"]);
    graph.assert_read_once(0);
    assert_eq!(driver_state(&graph.repo, &graph.slug, "a"), "orch-idle");
    graph.ok(&["doctor", "RUN"]);
}

/// CONTRACT 22.3
#[test]
fn an_agent_that_removes_the_record_of_its_run_makes_a_person_look() {
    let graph = once("rm -rf @/aynig/data/runs/*; echo done");
    let path = graph.repo.beside("worktrees").join(&graph.slug).join("a");
    let mut later = graph.repo.aynig_command();
    later.args(["run", "--drain"]).env("AYNIG_CLOCK_OFFSET_SECONDS", "600");
    let said = out(&later.output().expect("aynig runs"));
    assert!(said.contains("something is at") && said.contains("move it away"), "{said}");
    graph.assert_read_once(1);
    std::fs::rename(&path, graph.repo.beside("moved")).expect("renamed");
    drain_at(&graph.repo, 4_000);
    assert_eq!(graph.turns(), ["a completed"]);
    graph.assert_read_once(0);
    graph.ok(&["doctor", "RUN"]);
}
