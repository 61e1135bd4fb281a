//! A live step hears a pause, a stop and a deletion of its run, and ends without waiting for a remote.

use std::time::{Duration, Instant};

use aynig::contract::ids::RemoteName;
use aynig::engine::hear::{Hearing, Live, Word};
use aynig::git::Repo as Opened;
use aynig::ledger::Place;
use aynig::ledger::deletion::delete;
use aynig::ledger::operate::Ledger;
use aynig::model::decide::{Command, RunEdit};
use aynig::model::ids::{OpId, RunId};
use aynig::model::run::RunStatus;
use aynig::stop::{Cause, Stop};

use super::writers::clone;
use super::{Repo, chat, op, open, run_with_node, wait_until};

/// Much shorter than a call that hangs.
const AT_ONCE: Duration = Duration::from_secs(10);

fn origin() -> Place {
    Place::Remote(RemoteName::parse("origin").expect("a name"))
}

fn set(repo: &Opened, run: RunId, status: RunStatus) {
    let edit = RunEdit { status: Some(status), ..RunEdit::default() };
    let mut ledger = Ledger::open(repo, run).expect("a ledger");
    ledger.operate(&op(OpId::random()), &[Command::SetRun(edit)], &[]).expect("an operation");
}

fn heard(hearing: Hearing) -> Option<Word> {
    wait_until("something is heard", || hearing.stop().cause().is_some());
    assert_eq!(hearing.stop().cause(), Some(Cause::CalledOff));
    hearing.end()
}

/// CONTRACT 16.7
#[test]
fn a_pause_a_stop_and_a_deletion_here() {
    for status in [RunStatus::Paused, RunStatus::Stopped] {
        let repo = Repo::new();
        let store = open(&repo.path);
        let handle = store.handle();
        let (run, _) = run_with_node(&handle, &Place::Here);
        let hearing = Hearing::of(&handle, &Place::Here, run, Live::Step, &Stop::manual());
        set(&open(&repo.path).handle(), run, status);
        assert_eq!(heard(hearing), Some(Word::Status(status)));
        // One that begins afterwards hears of it, too.
        let late = Hearing::of(&handle, &Place::Here, run, Live::Step, &Stop::manual());
        assert_eq!(heard(late), Some(Word::Status(status)));
    }
    let repo = Repo::new();
    let store = open(&repo.path);
    let handle = store.handle();
    let (run, _) = run_with_node(&handle, &Place::Here);
    let hearing = Hearing::of(&handle, &Place::Here, run, Live::Step, &Stop::manual());
    delete(&open(&repo.path).handle(), run, &op(OpId::random()), false).expect("deleted");
    assert_eq!(heard(hearing), Some(Word::Deleted));
}

/// CONTRACT 16.7
#[test]
fn what_is_not_for_the_step_leaves_it_alone() {
    let repo = Repo::new();
    let store = open(&repo.path);
    let handle = store.handle();
    let (run, node) = run_with_node(&handle, &Place::Here);
    let (other, _) = run_with_node(&handle, &Place::Here);
    let stop = Stop::manual();
    let hearing = Hearing::of(&handle, &Place::Here, run, Live::Step, &stop);
    set(&handle, other, RunStatus::Paused);
    let mut ledger = Ledger::open(&handle, run).expect("a ledger");
    ledger.operate(&op(OpId::random()), &[chat(node, "hello")], &[]).expect("an operation");
    assert_eq!(hearing.stop().cause(), None);
    let ends = Instant::now();
    assert_eq!(hearing.end(), None);
    assert!(ends.elapsed() < Duration::from_secs(1), "{:?}", ends.elapsed());

    let hearing = Hearing::of(&handle, &Place::Here, run, Live::Step, &stop);
    stop.panicked();
    assert_eq!(hearing.stop().cause(), Some(Cause::Panic));
    assert_eq!(hearing.end(), None);
}

/// CONTRACT 16.7
#[test]
fn a_pause_and_a_deletion_in_another_clone_though_the_hub_was_away() {
    let hub = Repo::new();
    let (one, other) = (clone(&hub), clone(&hub));
    let (mine, theirs) = (open(&one.path), open(&other.path));
    let handle = mine.handle();
    let (paused, _) = run_with_node(&handle, &origin());
    let (deleted, _) = run_with_node(&handle, &origin());
    other.git(["fetch", "--quiet", "origin", "refs/aynig/runs/*:refs/aynig/runs/*"]);
    let away = hub.beside("away");
    std::fs::rename(&hub.path, &away).expect("the hub goes");
    let first = Hearing::of(&handle, &origin(), paused, Live::Step, &Stop::manual());
    let second = Hearing::of(&handle, &origin(), deleted, Live::Step, &Stop::manual());
    let lock = one.path.join(".git/aynig/watch");
    wait_until("one of them asks", || lock.exists());
    std::fs::rename(&away, &hub.path).expect("the hub comes back");
    let fetched = format!("refs/aynig/ledgers/origin/{deleted}");
    wait_until("the hub was asked", || !one.git(["for-each-ref", &fetched]).is_empty());
    set(&theirs.handle(), paused, RunStatus::Paused);
    delete(&theirs.handle(), deleted, &op(OpId::random()), false).expect("deleted");
    assert_eq!(heard(first), Some(Word::Status(RunStatus::Paused)));
    assert_eq!(heard(second), Some(Word::Deleted));
}

/// CONTRACT 16.7
#[test]
fn the_end_of_the_step_waits_for_no_remote() {
    let hub = Repo::new();
    let one = clone(&hub);
    let store = open(&one.path);
    let (run, _) = run_with_node(&store.handle(), &origin());
    let asked = one.beside("asked");
    one.git(["config", "core.sshCommand", &format!("touch '{}'; sleep 600; false", asked.display())]);
    one.git(["config", "remote.origin.url", "ssh://nowhere.invalid/repo"]);
    let store = open(&one.path);
    let hearing = Hearing::of(&store.handle(), &origin(), run, Live::Step, &Stop::manual());
    wait_until("it asks", || asked.exists());
    let ends = Instant::now();
    assert_eq!(hearing.end(), None);
    assert!(ends.elapsed() < AT_ONCE, "{:?}", ends.elapsed());
}
