//! Many writers at once: every operation lands once, in one line of history.

use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};

use aynig::contract::ids::RemoteName;
use aynig::ledger::Place;
use aynig::ledger::operate::Ledger;
use aynig::model::decide::Command;
use aynig::model::ids::OpId;

use super::{Repo, assert_whole, chat, op, open, run_with_node, sized, writer};
use crate::programs::skipped;
use crate::remote::servers::sshd;

const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

fn wait(children: Vec<Child>) {
    for child in children {
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

/// CONTRACT 16.1, 16.2
#[test]
fn eight_processes_write_into_one_ledger() {
    let repo = Repo::new();
    let store = open(&repo.path);
    let (run, _) = run_with_node(&store.handle(), &Place::Here);
    let count = sized(25, 60);
    let start = |name: &&str| writer(&repo.path, run, name, count).spawn().expect("a process");
    wait(NAMES.iter().map(start).collect());
    assert_whole(&repo, run, &NAMES, count);
}

/// CONTRACT 16.2
#[test]
fn a_large_operation_lands_beside_a_stream_of_small_ones() {
    let repo = Repo::new();
    let store = open(&repo.path);
    let (run, node) = run_with_node(&store.handle(), &Place::Here);
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for name in ["a", "b"] {
            let (path, ended) = (&repo.path, &ended);
            scope.spawn(move || {
                let store = open(path);
                let repo = store.handle();
                let mut ledger = Ledger::open(&repo, run).expect("a ledger");
                while !ended.load(Ordering::Relaxed) {
                    let done = ledger.operate(&op(OpId::random()), &[chat(node, name)], &[]);
                    assert!(done.is_ok(), "{done:?}");
                }
            });
        }
        let handle = store.handle();
        let mut ledger = Ledger::open(&handle, run).expect("a ledger");
        let large: Vec<Command> = (0..400).map(|number| chat(node, &number.to_string())).collect();
        let done = ledger.operate(&op(OpId::random()), &large, &[]);
        ended.store(true, Ordering::Relaxed);
        done.expect("it lands");
    });
}

/// A repository whose remote `origin` is `hub`.
pub(super) fn clone(hub: &Repo) -> Repo {
    let clone = Repo::new();
    clone.git(["remote", "add", "origin", &hub.path.display().to_string()]);
    clone
}

/// CONTRACT 16.1, 16.2
#[test]
fn eight_clones_write_through_one_hub() {
    let hub = Repo::new();
    let clones: Vec<Repo> = NAMES.iter().map(|_| clone(&hub)).collect();
    through_one_hub(&hub, &clones, sized(4, 10));
}

/// CONTRACT 16.1, 16.2
#[test]
fn eight_clones_write_through_one_hub_over_ssh() {
    let hub = Repo::new();
    let server = match sshd(&hub) {
        Ok(server) => server,
        Err(why) => return skipped(&why),
    };
    let clones: Vec<Repo> = NAMES.iter().map(|_| clone(&hub)).collect();
    for clone in &clones {
        clone.git(["remote", "set-url", "origin", &server.url]);
        for (name, value) in &server.environment {
            assert_eq!(*name, "GIT_SSH_COMMAND");
            clone.git(["config", "core.sshCommand", value]);
        }
    }
    through_one_hub(&hub, &clones, sized(1, 3));
}

/// Every clone writes `count` messages, all of which have to be everywhere in the end.
fn through_one_hub(hub: &Repo, clones: &[Repo], count: usize) {
    let place = Place::Remote(RemoteName::parse("origin").expect("a name"));
    let first = open(&clones[0].path);
    let (run, _) = run_with_node(&first.handle(), &place);
    for clone in clones {
        clone.git(["fetch", "--quiet", "origin", "+refs/aynig/runs/*:refs/aynig/runs/*"]);
    }
    let start =
        |(name, clone): (&&str, &Repo)| writer(&clone.path, run, name, count).spawn().expect("a process");
    wait(NAMES.iter().zip(clones).map(start).collect());
    assert_whole(hub, run, &NAMES, count);
    // Every clone comes to the same state, whoever wrote last.
    for clone in clones {
        let store = open(&clone.path);
        let repo = store.handle();
        let mut ledger = Ledger::open(&repo, run).expect("a ledger");
        ledger.refresh().expect("the hub");
        assert_eq!(ledger.tip().id.to_string(), hub.head(&format!("refs/aynig/runs/{run}")));
    }
}
