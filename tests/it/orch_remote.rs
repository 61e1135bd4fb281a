//! `aynig orch` in a clone: the ledgers of the remote that decides are fetched, and a run is followed there.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use aynig::contract::ids::RemoteName;
use aynig::ledger::Place;
use aynig::ledger::operate::Ledger;
use aynig::model::ids::OpId;

use super::ledger::{chat, op, open, run_with_node};
use super::scene::told;
use super::support::*;

/// A repository whose deciding remote is `hub`.
fn clone(hub: &Repo) -> Repo {
    let clone = Repo::new();
    clone.git(["remote", "add", "origin", &hub.path.display().to_string()]);
    clone.git(["config", "aynig.remote", "origin"]);
    clone
}

/// CONTRACT 16.7, 17.7
#[test]
fn runs_of_another_clone_are_listed_and_followed() {
    let hub = Repo::new();
    let (one, other) = (clone(&hub), clone(&hub));
    let store = open(&one.path);
    let writer = store.handle();
    let place = Place::Remote(RemoteName::parse("origin").expect("a name"));
    let (run, node) = run_with_node(&writer, &place);
    let list = out(&other.aynig_ok(["orch", "run", "list"]));
    assert!(list.contains("running"), "{list}");
    let id = run.to_string();
    let mut command = other.aynig_command();
    command.args(["orch", "events", "-f", &id]).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut follower = command.spawn().expect("it starts");
    let mut lines = BufReader::new(follower.stdout.take().expect("a pipe")).lines();
    let mut until = |words: &str| {
        let found = lines.by_ref().map_while(Result::ok).any(|line| line.contains(words));
        assert!(found, "{words}: it ended before");
    };
    until("run.patch");
    let mut ledger = Ledger::open(&writer, run).expect("a ledger");
    ledger.operate(&op(OpId::random()), &[chat(node, "from afar")], &[]).expect("an operation");
    until("from afar");
    follower.kill().expect("it runs");
    follower.wait().expect("it is ours");

    fs::rename(&hub.path, hub.beside("away")).expect("the hub goes");
    let output = other.aynig_ok(["orch", "show", &id]);
    assert!(err(&output).contains("runs are shown as they were last fetched"), "{}", told(&output));
    assert!(out(&output).contains(&id), "{}", told(&output));
    let words = err(&other.aynig_ok(["flow", "list"]));
    assert_eq!(words.matches("could not fetch").count(), 1, "{words}");
}

/// CONTRACT 16.7
#[test]
fn a_partial_clone_shows_runs() {
    let hub = Repo::new();
    hub.git(["config", "uploadpack.allowFilter", "true"]);
    let (one, partial) = (clone(&hub), clone(&hub));
    for (key, value) in [
        ("core.repositoryformatversion", "1"),
        ("extensions.partialClone", "origin"),
        ("remote.origin.promisor", "true"),
        ("remote.origin.partialclonefilter", "blob:none"),
    ] {
        partial.git(["config", key, value]);
    }
    let store = open(&one.path);
    let place = Place::Remote(RemoteName::parse("origin").expect("a name"));
    let (run, node) = run_with_node(&store.handle(), &place);
    let id = run.to_string();
    for text in ["first", "second"] {
        let handle = store.handle();
        let mut ledger = Ledger::open(&handle, run).expect("a ledger");
        ledger.operate(&op(OpId::random()), &[chat(node, text)], &[]).expect("an operation");
        let shown = out(&partial.aynig_ok(["orch", "show", &id]));
        assert!(shown.contains(&id), "{shown}");
        let events = out(&partial.aynig_ok(["orch", "events", &id]));
        assert!(events.contains(text), "{events}");
    }
}
