//! Deferred states that are no readable commit.

use std::fs;

use super::deferred::{later, slots};
use super::scene::*;
use super::support::*;

const SLOT: &str = "refs/aynig/deferred/task";

/// Makes a slot that is no commit, and returns its name.
type Make = fn(&Repo) -> String;

const MADE: [(&str, Make); 4] = [
    ("a file", |repo| repo.git_with_input(&["hash-object", "-w", "--stdin"], b"x")),
    ("a directory", |repo| repo.git(["rev-parse", "main^{tree}"])),
    ("a tag", |repo| {
        repo.git(["tag", "-a", "-m", "t", "t", "task"]);
        repo.git(["rev-parse", "t"])
    }),
    ("a damaged object", |repo| {
        let tree = repo.git(["rev-parse", "main^{tree}"]);
        let commit = repo.git(["commit-tree", &tree, "-p", "task", "-m", "x"]);
        repo.git(["update-ref", SLOT, &commit]);
        let file = repo.path.join(".git/objects").join(&commit[..2]).join(&commit[2..]);
        fs::remove_file(file).expect("a loose object");
        commit
    }),
];

fn scene() -> Repo {
    let repo = Repo::scene(&[("work", "next done")]);
    repo.ready("task", "work");
    repo
}

/// CONTRACT 5.32, 5.34
#[test]
fn every_remedy_that_is_named_works() {
    for (what, make) in MADE {
        for remedy in [["set-state", "--withdraw", "task"], ["clean", "--deferred", "--apply"]] {
            let repo = scene();
            let object = make(&repo);
            if what != "a damaged object" {
                repo.git(["update-ref", SLOT, &object]);
            }
            for more in [&[][..], &["--wait", "--timeout", "1m"]] {
                let sent = repo.aynig(later("task", &[&["--subject", "later"], more].concat()));
                assert_refused(
                    &sent,
                    1,
                    &["is no commit that can be read", "`aynig set-state --withdraw task`"],
                );
            }
            let shown = out(&repo.aynig_ok(["status", "task"]));
            assert!(shown.contains("is no commit that can be read"), "{what}: {shown}");
            let shown = out(&repo.aynig_ok(["clean"]));
            assert!(shown.contains("clean --deferred --apply"), "{what}: {shown}");
            let check = out(&repo.aynig(["doctor"]));
            assert!(check.contains("1 deferred state cannot be delivered"), "{what}: {check}");
            repo.aynig_ok(["log", "task"]);
            let run = repo.aynig_ok(["run", "--dry-run"]);
            assert!(out(&run).contains("run"), "{what}: the branch itself is run: {}", told(&run));
            let removed = repo.aynig_ok(remedy);
            assert!(slots(&repo).is_empty(), "{what}: {}", told(&removed));
            repo.aynig_ok(later("task", &[]));
        }
    }
}

/// CONTRACT 5.34
#[test]
fn a_run_names_the_remedy() {
    let repo = scene();
    repo.git(["update-ref", SLOT, &repo.git(["rev-parse", "main^{tree}"])]);
    let run = repo.aynig_ok(["run", "--drain"]);
    assert!(err(&run).contains("`aynig set-state --withdraw task` removes it"), "{}", told(&run));
    assert_eq!(repo.state("task"), "done");
}

/// CONTRACT 5.32
#[test]
fn it_is_removed_from_a_remote_too() {
    let hub = scene().into_bare();
    hub.git(["tag", "-a", "-m", "t", "t", "task"]);
    hub.git(["update-ref", SLOT, "t"]);
    let clone = hub.clone_beside("clone");
    let sent = clone.aynig(later("task", &["--remote", "origin", "--subject", "later"]));
    assert_refused(&sent, 1, &["`aynig set-state --withdraw task --remote origin`"]);
    clone.aynig_ok(["set-state", "--withdraw", "task", "--remote", "origin"]);
    assert!(slots(&hub).is_empty());
}
