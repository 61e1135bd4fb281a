//! Moves of ledgers that others make are heard in seconds, and only those of a run's own place count.

use std::fs::{self, File};
use std::path::PathBuf;
use std::time::Duration;

use aynig::contract::ids::RemoteName;
use aynig::ledger::fetch::fetch;
use aynig::ledger::operate::{Ledger, here};
use aynig::ledger::watch::{Heard, Watch};
use aynig::ledger::{LedgerError, Place};
use aynig::model::ids::OpId;

use super::writers::clone;
use super::{Repo, chat, op, open, run_with_node, wait_until};

/// Longer than the time after which a watch looks by itself.
const LONG: Duration = Duration::from_secs(30);

fn origin() -> RemoteName {
    RemoteName::parse("origin").expect("a name")
}

/// CONTRACT 16.7
#[test]
fn an_operation_here_is_heard_at_once() {
    let repo = Repo::new();
    let store = open(&repo.path);
    let (run, node) = run_with_node(&store.handle(), &Place::Here);
    let watching = open(&repo.path);
    let handle = watching.handle();
    let mut watch = Watch::of(&handle, &Place::Here);
    assert!(matches!(watch.next(Duration::ZERO), Heard::Quiet | Heard::Moved));
    let writer = store.handle();
    let mut ledger = Ledger::open(&writer, run).expect("a ledger");
    ledger.operate(&op(OpId::random()), &[chat(node, "hello")], &[]).expect("an operation");
    let heard = std::time::Instant::now();
    assert!(matches!(watch.next(LONG), Heard::Moved));
    assert!(heard.elapsed() < Duration::from_secs(5), "the file of the ref, not the clock, woke it");
}

/// CONTRACT 16.7
#[test]
fn an_operation_of_another_clone_is_heard_by_all_while_one_asks() {
    let hub = Repo::new();
    let (one, other) = (clone(&hub), clone(&hub));
    let (store, place) = (open(&one.path), Place::Remote(origin()));
    // The lock is the test's, so this watch asks nobody, and the absence of the hub goes unnoticed.
    let away = hub.beside("away");
    fs::rename(&hub.path, &away).expect("the hub goes");
    let place_of_lock: PathBuf = other.path.join(".git/aynig/watch");
    fs::create_dir_all(&place_of_lock).expect("a directory");
    let lock = File::open(&place_of_lock).expect("the lock");
    lock.lock().expect("it is free");
    let watching = open(&other.path);
    let handle = watching.handle();
    let mut watch = Watch::of(&handle, &place);
    assert!(matches!(watch.next(Duration::ZERO), Heard::Quiet));
    drop(lock);
    let mut deaf = None;
    wait_until("the lock is free, so it asks", || match watch.next(LONG) {
        Heard::Deaf(error) => {
            deaf = Some(error.to_string());
            true
        }
        Heard::Moved | Heard::Quiet => false,
    });
    assert!(deaf.is_some_and(|why| why.contains("origin")));
    fs::rename(&away, &hub.path).expect("the hub comes back");

    let (run, node) = run_with_node(&store.handle(), &place);
    let writer = store.handle();
    let mut ledger = Ledger::open(&writer, run).expect("a ledger");
    ledger.operate(&op(OpId::random()), &[chat(node, "hello")], &[]).expect("an operation");
    let newest = ledger.tip().id;
    // A run that this clone never saw is taken over.
    wait_until("the operation is here", || {
        watch.next(LONG);
        here(&handle, run).is_ok_and(|tip| tip.id == newest)
    });
}

/// CONTRACT 16.7
#[test]
fn a_ledger_that_a_remote_does_not_decide_is_left_aside() {
    let hub = Repo::new();
    let (one, other) = (clone(&hub), clone(&hub));
    let (mine, theirs) = (open(&one.path), open(&other.path));
    let (run, node) = run_with_node(&mine.handle(), &Place::Here);
    let name = format!("refs/aynig/runs/{run}");
    // Somebody continues a run of another repository, and offers both.
    one.git(["push", "--quiet", "origin", &name]);
    other.git(["fetch", "--quiet", "origin", &format!("{name}:{name}")]);
    let before = one.head(&name);
    let own = theirs.handle();
    let refused = Ledger::open(&own, run).expect_err("it is decided elsewhere");
    assert!(matches!(refused, LedgerError::Elsewhere { .. }), "{refused}");
    fs::copy(one.path.join(".git/aynig/repository-id"), other.path.join(".git/aynig/repository-id"))
        .expect("a stolen id");
    let mut ledger = Ledger::open(&own, run).expect("it seems to be this repository");
    ledger.operate(&op(OpId::random()), &[chat(node, "forged")], &[]).expect("an operation");
    other.git(["push", "--quiet", "origin", &name]);

    let handle = mine.handle();
    let fetched = fetch(&handle, &origin()).expect("the hub answers");
    assert!(fetched.moved.is_empty());
    let [(of, why)] = fetched.refused.as_slice() else { panic!("{fetched:?}") };
    assert_eq!((*of, one.head(&name)), (run, before));
    assert!(why.to_string().contains("is decided in another repository"), "{why}");
    let third = clone(&hub);
    let fetched = fetch(&open(&third.path).handle(), &origin()).expect("the hub answers");
    assert_eq!((fetched.moved.len(), fetched.refused.len()), (0, 1));
    assert_eq!(third.git(["for-each-ref", "refs/aynig/runs/"]), "");
}
