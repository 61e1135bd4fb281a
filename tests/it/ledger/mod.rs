//! Ledgers of runs: many writers, kills between two writes, strangers, and the place where a run is decided.
//!
//! A writer is a process of its own: this test program, started again for the test `worker` alone.

mod chaos;
mod companions;
mod contents;
mod crashes;
mod deletion;
mod hear;
mod hubs;
mod masks;
mod packing;
mod set_back;
mod strangers;
mod watch;
mod writers;

use std::path::Path;
use std::process::{Command as Process, Stdio};

use aynig::clock;
use aynig::git::repo::open::GitVariables;
use aynig::git::{RefChange, Repo as Opened, Store};
use aynig::ledger::history::{Operation, operations, replay};
use aynig::ledger::operate::{Ledger, here};
use aynig::ledger::{Place, Tip, runs};
use aynig::model::by::By;
use aynig::model::decide::{Command, NewRun, Op};
use aynig::model::ids::{NodeId, OpId, RunId};
use aynig::model::time::Timestamp;

pub(super) use super::speed::suite::made::new_run;
use super::speed::suite::made::node;
use super::support::*;

pub(super) fn open(path: &Path) -> Store {
    Store::open(path, &GitVariables::default(), None).expect("a repository")
}

pub(super) fn op(id: OpId) -> Op {
    let by = By::Person {
        name: "Ann".to_owned(),
        email: "ann@example.org".to_owned(),
        runner: "host".to_owned(),
        signature: None,
    };
    Op { id, at: Timestamp::from_millis(clock::wall_millis()).expect("a time"), by }
}

/// Makes a run with one node, and returns both ids.
pub(super) fn run_with_node(repo: &Opened, place: &Place) -> (RunId, NodeId) {
    let (id, slug) = runs::fresh(repo).expect("refs");
    create_with_node(repo, place, &new_run(repo, place, id, slug))
}

/// Makes this run with one node, and returns both ids.
pub(super) fn create_with_node(repo: &Opened, place: &Place, new: &NewRun) -> (RunId, NodeId) {
    let mut ledger =
        Ledger::create(repo, place.clone(), new, &op(OpId::random()), &[], &[]).expect("a new ledger");
    ledger.operate(&op(OpId::random()), &[Command::AddNode(Box::new(node("a")))], &[]).expect("a node");
    (new.id, *ledger.tip().state.nodes.keys().next().expect("a node"))
}

pub(super) fn chat(node: NodeId, text: &str) -> Command {
    Command::Chat { node: Some(node), content: text.to_owned(), interrupt: false }
}

/// A process that writes `count` messages, each named by `name` and its number, into the run of the repository at
/// `path`.
pub(super) fn writer(path: &Path, run: RunId, name: &str, count: usize) -> Process {
    let mut process = Process::new(std::env::current_exe().expect("this program"));
    hermetic(&mut process)
        .args(["--exact", "--ignored", "--nocapture", "ledger::worker"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .env("AYNIG_TEST_WRITER", format!("{run} {name} {count}"))
        .current_dir(path);
    process
}

/// The operation's id of a message, so that a repeated writer repeats its operations.
fn id_of(name: &str, number: usize) -> OpId {
    OpId::parse("0c0c0c0c-0000-4000-8000-000000000000").expect("an id").derive(name, number)
}

/// Not a test: the body of [`writer`].
#[test]
#[ignore = "the body of the writers' processes"]
fn worker() {
    let Ok(order) = std::env::var("AYNIG_TEST_WRITER") else { return };
    let words: Vec<&str> = order.split(' ').collect();
    let [run, name, count] = words.as_slice() else { panic!("{order}") };
    let (run, count): (_, usize) = (RunId::parse(run).expect("an id"), count.parse().expect("a number"));
    let store = open(Path::new("."));
    let repo = store.handle();
    if *name == "delete" {
        let done = aynig::ledger::deletion::delete(&repo, run, &op(id_of(name, 0)), false);
        assert_eq!(done.unwrap_or_else(|error| panic!("{error}")).run, run);
        return;
    }
    let mut ledger = Ledger::open(&repo, run).expect("a ledger");
    let node = *ledger.tip().state.nodes.keys().next().expect("a node");
    let beside = std::env::var("AYNIG_TEST_BESIDE").unwrap_or_default();
    let beside: Vec<RefChange> = beside.lines().map(companions::read).collect();
    for number in 0..count {
        let command = chat(node, &format!("{name} {number}"));
        let done = ledger.repeat(&op(id_of(name, number)), &[command], &beside);
        done.unwrap_or_else(|error| panic!("{error}"));
    }
}

/// The messages in the inbox of the run's node, in their order.
pub(super) fn messages(tip: &Tip) -> Vec<String> {
    let inbox = tip.state.inboxes.values().flat_map(std::collections::BTreeMap::values);
    let texts = inbox.map(|item| match &item.item {
        aynig::model::message::Item::Message(message) => message.content.clone(),
        aynig::model::message::Item::Handoff(_) | aynig::model::message::Item::Notice(_) => String::new(),
    });
    texts.collect()
}

/// What the writers should have left: each message once, each writer's in its order, and events that give the tree.
pub(super) fn assert_whole(repo: &Repo, run: RunId, writers: &[&str], count: usize) {
    let store = open(&repo.path);
    let here = here(&store.handle(), run).expect("a ledger");
    let found = messages(&here);
    assert_eq!(found.len(), writers.len() * count, "{found:?}");
    for writer in writers {
        let own: Vec<&String> = found.iter().filter(|text| text.starts_with(&format!("{writer} "))).collect();
        let wanted: Vec<String> = (0..count).map(|number| format!("{writer} {number}")).collect();
        assert!(own.iter().copied().eq(wanted.iter()), "{own:?}");
    }
    let all = history(&store.handle(), run, &here);
    let (replayed, faults) = replay(None, &all);
    assert_eq!(faults, Vec::new());
    assert_eq!(replayed.as_ref(), Some(&here.state), "replaying the events gives the tree of the tip");
    let mut ids: Vec<OpId> = all.iter().map(|operation| operation.op).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all.len(), "an operation is there twice");
    repo.git(["fsck", "--strict", "--no-dangling"]);
}

pub(super) fn history(repo: &Opened, run: RunId, tip: &Tip) -> Vec<Operation> {
    operations(repo, run, tip.id, None).expect("a linear history")
}
