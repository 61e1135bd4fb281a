//! Hubs that cannot carry out an operation at once, or whose answer is lost.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use aynig::contract::ids::RemoteName;
use aynig::ledger::Place;
use aynig::ledger::operate::Ledger;
use aynig::model::ids::OpId;

use super::writers::clone;
use super::{assert_whole, chat, messages, op, open, run_with_node};
use crate::support::*;

/// Writes an executable file with this shell script.
fn script(path: &std::path::Path, text: &str) {
    fs::write(path, format!("#!/bin/sh\n{text}\n")).expect("a file");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("an executable file");
}

/// CONTRACT 16.2
#[test]
fn a_ref_that_is_locked_for_a_moment_delays_an_operation() {
    let hub = Repo::new();
    let clone = clone(&hub);
    let store = open(&clone.path);
    let place = Place::Remote(RemoteName::parse("origin").expect("a name"));
    let (run, node) = run_with_node(&store.handle(), &place);
    // What another push does: it has the lock, and has not written yet. The lock goes at the second push.
    let lock = hub.path.join(".git").join(format!("refs/aynig/runs/{run}.lock"));
    fs::write(&lock, "").expect("a lock");
    let hook = hub.path.join(".git").join("hooks/pre-receive");
    script(
        &hook,
        &format!("if test -e pushed; then rm -f refs/aynig/runs/{run}.lock; else touch pushed; fi"),
    );
    let handle = store.handle();
    let mut ledger = Ledger::open(&handle, run).expect("a ledger");
    let done = ledger.operate(&op(OpId::random()), &[chat(node, "w 0")], &[]);
    done.unwrap_or_else(|error| panic!("{error:?}"));
    assert!(!lock.exists());
    assert_whole(&hub, run, &["w"], 1);
    // A lock that stays is an error, which names the file at the server.
    fs::write(&lock, "").expect("a lock");
    fs::remove_file(&hook).expect("a hook");
    let error = ledger.operate(&op(OpId::random()), &[chat(node, "w 1")], &[]).expect_err("a lock");
    assert!(aynig::words::error_chain(&error).contains(".lock"), "{}", aynig::words::error_chain(&error));
}

/// CONTRACT 16.2
#[test]
fn an_operation_whose_answer_was_lost_is_not_repeated() {
    let hub = Repo::new();
    let clone = clone(&hub);
    let store = open(&clone.path);
    let place = Place::Remote(RemoteName::parse("origin").expect("a name"));
    let (run, node) = run_with_node(&store.handle(), &place);
    // The server dies after it has moved the ref, and the next question is not answered either.
    script(
        &hub.path.join(".git").join("hooks/reference-transaction"),
        "test \"$1\" = committed && test ! -e dead && touch dead && kill -9 $PPID\nexit 0",
    );
    let asked = clone.beside("upload-pack");
    let dead = hub.path.join(".git").join("dead");
    let failed = clone.beside("failed");
    script(
        &asked,
        &format!(
            "if test -e {dead} && test ! -e {failed}; then touch {failed}; exit 1; fi\nexec git-upload-pack \"$@\"",
            dead = dead.display(),
            failed = failed.display()
        ),
    );
    clone.git(["config", "remote.origin.uploadpack", &asked.display().to_string()]);
    let handle = store.handle();
    let mut ledger = Ledger::open(&handle, run).expect("a ledger");
    let done = ledger.operate(&op(OpId::random()), &[chat(node, "w 0")], &[]);
    done.unwrap_or_else(|error| panic!("{error:?}"));
    assert!(dead.exists() && failed.exists());
    assert_eq!(messages(ledger.tip()), ["w 0"]);
    assert_whole(&hub, run, &["w"], 1);
}
