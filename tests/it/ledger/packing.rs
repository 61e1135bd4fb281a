//! `git gc` at work beside writers and readers.

use std::sync::atomic::{AtomicBool, Ordering};

use aynig::contract::ids::CommitId;
use aynig::git::objects::edit::Blob;
use aynig::ledger::{Ledger, Place};

use super::{OpId, Repo, RunId, assert_whole, chat, op, open, run_with_node, sized, writer};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// Git packs loose objects, and removes them and their directories. Whoever reads or writes one meanwhile tries again.
#[test]
fn a_gc_beside_writers_disturbs_none() {
    let repo = Repo::new();
    let store = open(&repo.path);
    let (run, _) = run_with_node(&store.handle(), &Place::Here);
    let count = sized(40, 80);
    let start = |name: &&str| writer(&repo.path, run, name, count).spawn().expect("a process");
    let writers: Vec<_> = NAMES.iter().map(start).collect();
    let over = AtomicBool::new(false);
    let outputs: Vec<_> = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                repo.git(["gc", "--quiet"]);
            }
        });
        let outputs = writers.into_iter().map(|writer| writer.wait_with_output().expect("it ends")).collect();
        over.store(true, Ordering::Relaxed);
        outputs
    });
    for output in outputs {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    assert_whole(&repo, run, &NAMES, count);
}

/// A process that knows an object from a pack has to write it again when that pack is gone.
#[test]
fn an_object_of_a_removed_pack_is_written_again() {
    let repo = Repo::new();
    let files = [("file".to_owned(), Some(b"once\n".to_vec()))];
    let tree = open(&repo.path).handle().edit_tree(None, &files).expect("a tree").to_string();
    repo.git(["update-ref", "refs/aynig/kept", &tree]);
    repo.git(["gc", "--quiet"]);
    let handle = open(&repo.path).handle();
    assert_eq!(handle.edit_tree(None, &files).expect("a tree").to_string(), tree);
    repo.git(["update-ref", "-d", "refs/aynig/kept"]);
    repo.git(["gc", "--quiet", "--prune=now"]);
    assert!(!repo.git_command().args(["cat-file", "-e", &tree]).status().expect("git runs").success());
    assert_eq!(handle.edit_tree(None, &files).expect("a tree").to_string(), tree);
    repo.git(["cat-file", "-e", &format!("{tree}:file")]);
}

/// A process sees every new pack, and the removal of old ones, also after more of them than gix expects.
#[test]
fn packs_that_come_and_go_are_followed() {
    let repo = Repo::new();
    let handle = open(&repo.path).handle();
    // gix has 32 places by default. The pack in the last one is kept; the others take turns.
    for number in 0..40 {
        let content = format!("{number}\n");
        let id = repo.git_with_input(&["hash-object", "-w", "--stdin"], content.as_bytes());
        repo.git(["update-ref", &format!("refs/aynig/test/{number}"), &id]);
        repo.git(["repack", "-adq"]);
        let id = CommitId::parse_hex(id.as_bytes()).expect("an id");
        let blob = Blob { path: "file".to_owned(), id };
        assert_eq!(handle.read_blob(&blob, 100).expect("it is there"), content.as_bytes());
        if number == 31 {
            let packs = std::fs::read_dir(repo.path.join(".git/objects/pack")).expect("packs").flatten();
            let mut packs = packs.map(|entry| entry.path());
            let pack = packs.find(|path| path.extension().is_some_and(|name| name == "pack")).expect("one");
            std::fs::write(pack.with_extension("keep"), "").expect("a file");
        }
    }
}

/// CONTRACT 16.10
#[test]
fn git_packs_what_operations_left() {
    let repo = Repo::new();
    let packs = || {
        repo.git(["count-objects", "-v"]).lines().find(|line| line.starts_with("packs:")).map(str::to_owned)
    };
    let write = |ids: &[&str]| {
        let handle = open(&repo.path).handle();
        let run = RunId::parse(&repo.git(["config", "test.run"])).expect("an id");
        let mut ledger = Ledger::open(&handle, run).expect("a ledger");
        let node = *ledger.tip().state.nodes.keys().next().expect("a node");
        for id in ids {
            let id = OpId::parse(&format!("{id}-0000-4000-8000-000000000000")).expect("an id");
            ledger.operate(&op(id), &[chat(node, "x")], &[]).expect("an operation");
        }
        super::messages(ledger.tip()).len()
    };
    let (run, _) = run_with_node(&open(&repo.path).handle(), &Place::Here);
    for (key, value) in [
        ("test.run", run.to_string().as_str()),
        ("gc.autoPackLimit", "1"),
        ("gc.autoDetach", "false"),
        ("gc.reflogExpire", "now"),
        ("gc.reflogExpireUnreachable", "now"),
    ] {
        repo.git(["config", key, value]);
    }
    repo.git(["repack", "-q"]);
    write(&["01000000"]);
    repo.git(["repack", "-q"]);
    for (key, value) in [("maintenance.auto", "false"), ("gc.auto", "0")] {
        repo.git(["config", key, value]);
        write(&["00000001", "01000001"]);
        repo.git(["config", "--unset", key]);
        assert_eq!(packs().as_deref(), Some("packs: 2"), "{key}");
    }
    write(&["01000002"]);
    assert_eq!(packs().as_deref(), Some("packs: 2"));
    // The same process goes on.
    assert_eq!(write(&["00000002", "01000003"]), 8);
    assert_eq!(packs().as_deref(), Some("packs: 1"));
    // A git that is killed while it expires reflogs would leave its locks on refs.
    assert!(!repo.git(["reflog", "show", "main"]).is_empty());
    repo.git(["fsck", "--strict", "--no-dangling"]);
}
