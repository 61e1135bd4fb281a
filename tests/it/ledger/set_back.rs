//! Ledgers that a hub has set back.

use aynig::contract::ids::RemoteName;
use aynig::ledger::deletion::delete;
use aynig::ledger::fetch::fetch;
use aynig::ledger::held::held;
use aynig::ledger::operate::{Ledger, here};
use aynig::ledger::{LedgerError, Place};
use aynig::model::ids::OpId;

use super::writers::clone;
use super::{Repo, chat, op, open, run_with_node};

fn origin() -> RemoteName {
    RemoteName::parse("origin").expect("a name")
}

/// CONTRACT 16.11
#[test]
fn a_ledger_stays_here_until_the_hub_has_it_again() {
    let hub = Repo::new();
    let clone = clone(&hub);
    let store = open(&clone.path);
    let repo = store.handle();
    let (run, node) = run_with_node(&repo, &Place::Remote(origin()));
    let name = format!("refs/aynig/runs/{run}");
    let old = hub.head(&name);
    let mut ledger = Ledger::open(&repo, run).expect("a ledger");
    ledger.operate(&op(OpId::random()), &[chat(node, "one")], &[]).expect("an operation");
    let new = hub.head(&name);
    hub.git(["update-ref", &name, &old]);
    // An operation finds it out, and so does a question.
    for _ in 0..2 {
        let refused = ledger.operate(&op(OpId::random()), &[chat(node, "two")], &[]).expect_err("held");
        assert!(matches!(refused, LedgerError::SetBack(_)), "{refused:?}");
        assert!(matches!(ledger.refresh(), Err(LedgerError::SetBack(_))));
    }
    assert_eq!(clone.head(&name), new);
    assert!(fetch(&repo, &origin()).expect("fetched").refused.is_empty(), "it was reported");
    assert_eq!(hub.head(&name), old);
    assert!(held(&repo, run).expect("refs").is_some());
    hub.git(["update-ref", &name, &new]);
    ledger.operate(&op(OpId::random()), &[chat(node, "two")], &[]).expect("an operation");
    ledger.refresh().expect("it is as it was");
    assert!(held(&repo, run).expect("refs").is_none());
    assert_eq!(clone.git(["for-each-ref", "refs/aynig/rescue"]), "");
}

/// CONTRACT 16.11
#[test]
fn what_is_no_operation_is_given_up() {
    let hub = Repo::new();
    let clone = clone(&hub);
    let store = open(&clone.path);
    let repo = store.handle();
    let (run, _) = run_with_node(&repo, &Place::Remote(origin()));
    let name = format!("refs/aynig/runs/{run}");
    let good = hub.head(&name);
    let message = hub.git(["log", "-1", "--format=%B", &good]);
    let forged = hub.git(["commit-tree", &format!("{good}^{{tree}}"), "-p", &good, "-m", &message]);
    hub.git(["update-ref", &name, &forged]);
    let fetched = fetch(&repo, &origin()).expect("fetched");
    assert!(matches!(&fetched.refused[..], [(_, LedgerError::Planted(_))]), "{fetched:?}");
    assert_eq!(clone.head(&name), good, "it is not taken over");
    hub.git(["update-ref", &name, &good]);
    // Put into the clone by a program there.
    clone.git(["update-ref", &name, &forged]);
    let fetched = fetch(&repo, &origin()).expect("fetched");
    assert!(fetched.refused.is_empty(), "{fetched:?}");
    assert_eq!(clone.head(&name), good);
    assert_eq!(clone.head(&format!("refs/aynig/rescue/ledgers/{run}/{forged}")), forged);
}

/// A killed git leaves its lock empty.
#[test]
fn a_lock_that_a_killed_fetch_left_holds_a_run_up_for_minutes_only() {
    let hub = Repo::new();
    let clone = clone(&hub);
    let store = open(&clone.path);
    let repo = store.handle();
    let (run, node) = run_with_node(&repo, &Place::Remote(origin()));
    fetch(&repo, &origin()).expect("fetched");
    let mut ledger = Ledger::open(&repo, run).expect("a ledger");
    let locked = || {
        let lock = clone.path.join(format!(".git/refs/aynig/ledgers/origin/{run}.lock"));
        std::fs::File::create(&lock).expect("a file")
    };
    assert!(ledger.operate(&op(OpId::random()), &[chat(node, "one")], &[]).is_ok());
    for round in 0..2 {
        let hour_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(3_600);
        locked().set_modified(hour_ago).expect("set");
        match round {
            0 => ledger.refresh().expect("refreshed"),
            _ => drop(fetch(&repo, &origin()).expect("fetched")),
        }
    }
}

/// CONTRACT 16.8, 16.11
#[test]
fn a_run_that_was_deleted_at_a_hub_that_was_set_back_goes_to_the_archive() {
    let hub = Repo::new();
    let clones = [clone(&hub), clone(&hub)];
    let stores = clones.each_ref().map(|clone| open(&clone.path));
    let [first, second] = stores.each_ref().map(aynig::git::Store::handle);
    let (run, node) = run_with_node(&first, &Place::Remote(origin()));
    let name = format!("refs/aynig/runs/{run}");
    let old = hub.head(&name);
    let mut ledger = Ledger::open(&first, run).expect("a ledger");
    ledger.operate(&op(OpId::random()), &[chat(node, "one")], &[]).expect("an operation");
    let new = hub.head(&name);
    hub.git(["update-ref", &name, &old]);
    fetch(&second, &origin()).expect("fetched");
    delete(&second, run, &op(OpId::random()), false).expect("deleted");
    assert!(matches!(ledger.refresh(), Err(LedgerError::Deleted { .. })));
    assert!(matches!(here(&first, run), Err(LedgerError::Deleted { .. })));
    let archive = format!("refs/aynig/archive/{run}/");
    let archived = clones[0].git(["for-each-ref", "--format=%(objectname)", &archive]);
    assert!(archived.lines().any(|commit| commit == new), "{archived}");
}
