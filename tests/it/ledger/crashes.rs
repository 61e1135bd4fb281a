//! Kills between any two writes: an operation is there or not, and repeating it makes it there once.

use aynig::contract::ids::RemoteName;
use aynig::ledger::Place;
use aynig::ledger::operate::here;
use aynig::model::ids::RunId;

use super::writers::clone;
use super::{Repo, assert_whole, messages, open, run_with_node, writer};

const POINTS: [&str; 3] = ["ref-locked", "ledger-written", "ledger-pushed"];

/// A writer that dies when it reaches `point` for the `visit`-th time.
fn killed(repo: &Repo, run: RunId, point: &str, visit: usize) -> bool {
    let mut process = writer(&repo.path, run, "w", 3);
    let output = process.env("AYNIG_CRASH_AT", format!("{point}:kill:{visit}")).output().expect("it starts");
    !output.status.success()
}

/// The same writer again, to its end.
fn repeated(repo: &Repo, run: RunId) {
    let output = writer(&repo.path, run, "w", 3).output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// CONTRACT 16.2
#[test]
fn a_killed_writer_loses_nothing_and_doubles_nothing() {
    for point in &POINTS[..2] {
        for visit in 1..=3 {
            let repo = Repo::new();
            let store = open(&repo.path);
            let (run, _) = run_with_node(&store.handle(), &Place::Here);
            assert!(killed(&repo, run, point, visit), "{point} was not reached {visit} times");
            let before = messages(&here(&store.handle(), run).expect("a ledger"));
            assert_eq!(before.len(), visit - 1, "{point}: {before:?}");
            repeated(&repo, run);
            assert_whole(&repo, run, &["w"], 3);
        }
    }
}

/// CONTRACT 16.2
#[test]
fn a_writer_killed_before_and_after_the_push_doubles_nothing() {
    for point in POINTS {
        for visit in 1..=3 {
            let hub = Repo::new();
            let clone = clone(&hub);
            let store = open(&clone.path);
            let place = Place::Remote(RemoteName::parse("origin").expect("a name"));
            let (run, _) = run_with_node(&store.handle(), &place);
            assert!(killed(&clone, run, point, visit), "{point} was not reached {visit} times");
            repeated(&clone, run);
            assert_whole(&hub, run, &["w"], 3);
            assert_whole(&clone, run, &["w"], 3);
        }
    }
}
