//! The files of a run on a disk that is full or read-only.

use std::fs;

use aynig::journal::directory::RunDirectory;
use aynig::journal::writer::Writer;
use aynig::model::ids::OpId;
use serde_json::json;

use super::full::Small;
use super::*;
use crate::ledger::{chat, open};
use crate::orch::{make, perform};

const RUN: &str = "0a1b2c3d-0000-4000-8000-000000000001";

/// CONTRACT 17.3
#[test]
fn on_a_full_disk_nothing_is_half_written() {
    if !may_mount() {
        return;
    }
    let repo = Repo::new();
    let small = Small::mount(repo.beside("small"), "size=256k");
    repo.git(["config", "aynig.dataDir", small.0.join("data").to_str().expect("UTF-8")]);
    let (run, node) = make(&repo, RUN, "");
    repo.aynig_ok(["orch", "show", RUN]);
    let store = open(&repo.path);
    let handle = store.handle();
    let directory = RunDirectory::of(&handle, run);
    let mut writer = Writer::open(&handle, &directory).expect("a journal");
    let mut appended = 0;
    let failed = loop {
        let line = json!({"id": OpId::random().to_string(), "type": "node.log", "line": "x".repeat(5_000)});
        match writer.append(&[line.to_string().into_bytes()]) {
            Ok(_) => appended += 1,
            Err(error) => break error,
        }
        assert!(appended < 100, "the disk is never full");
    };
    assert!(failed.to_string().contains("events.jsonl"), "{failed}");
    drop(writer);
    let text = fs::read(directory.events()).expect("a journal");
    assert_eq!(text.last(), Some(&b'\n'), "no half line");
    fs::write(small.0.join("filler"), vec![0; 1 << 20]).expect_err("the rest");
    perform(&repo, run, chat(node, &"a message ".repeat(2_000)));
    let output = repo.aynig(["orch", "events", RUN]);
    assert_told(&output, 3, &["No space left on device", "make room and try again", "KiB"]);
    let shown = repo.aynig_ok(["orch", "show", RUN]);
    assert!(
        err(&shown).contains("the ledger is shown") && out(&shown).contains("1 unread"),
        "{}",
        err(&shown)
    );
    fs::remove_file(small.0.join("filler")).expect("it is there");
    fs::remove_dir_all(small.0.join("data/runs").join(RUN)).expect("it is there");
    assert!(out(&repo.aynig_ok(["orch", "events", RUN])).contains("a message"));
    repo.aynig_ok(["orch", "doctor", RUN]);
    drop(small);
}

/// CONTRACT 17.3
#[test]
fn on_a_read_only_disk_the_ledger_is_shown() {
    if !may_mount() {
        return;
    }
    let repo = Repo::new();
    let small = Small::mount(repo.beside("small"), "size=256k,ro");
    repo.git(["config", "aynig.dataDir", small.0.join("data").to_str().expect("UTF-8")]);
    make(&repo, RUN, "");
    let words = ["could not create", "Read-only file system", "git config aynig.dataDir"];
    assert_told(&repo.aynig(["orch", "events", RUN]), 3, &words);
    assert_told(&repo.aynig(["orch", "rebuild", RUN]), 3, &words);
    let shown = repo.aynig_ok(["orch", "show", RUN]);
    assert!(
        out(&shown).contains("running") && err(&shown).contains("the ledger is shown"),
        "{}",
        err(&shown)
    );
    drop(small);
}
