//! `aynig install` from a plain directory, and of the packs that are part of the program.

use std::fs;

use super::install::{at, put, read, source};
use super::support::*;

#[test]
fn a_pack_of_the_program_is_installed_by_its_name() {
    let repo = Repo::new();
    for (pack, file) in [("hello", "command/hello"), ("ops", "command/stalled"), ("feature", "command/plan")]
    {
        let shown = out(&repo.aynig_ok(["install", pack]));
        assert!(shown.contains(file) && !repo.path.join(".aynig/command").exists(), "{pack}: {shown}");
    }
    repo.aynig_ok(["install", "hello", "--apply"]);
    let shipped = fs::read_to_string(super::programs::shipped("contrib/packs/hello/.aynig/command/hello"));
    assert_eq!(read(&repo, ".aynig/command/hello"), shipped.expect("it is there"));
    repo.commit_all("installed");
    assert!(read(&repo, ".aynig/installed.json").contains("\"aynig:hello\""));
    let again = repo.aynig_ok(["install", "hello", "--apply"]);
    assert_eq!(repo.git(["status", "--porcelain"]), "", "{}", out(&again));
    repo.ready("task", "hello");
    repo.aynig_ok(["run"]);
    assert_ne!(repo.state("task"), "hello", "it runs");
    assert_refused(
        &repo.aynig(["install", "helo"]),
        2,
        &["no pack of aynig (feature, hello, ops, orchestration, review)"],
    );
    repo.assert_tidy();
}

#[test]
fn a_plain_directory_is_installed_as_it_is() {
    let pack = source(&[("command/work", "#!/bin/sh\nexit 0\n"), ("notes", "some\n")]);
    fs::remove_dir_all(pack.path.join(".git")).expect("a repository");
    fs::write(pack.path.join(".gitignore"), ".aynig/notes\n").expect("a file");
    let repo = Repo::new();
    for (directory, more) in
        [(at(&pack), &[][..]), (pack.room.path().to_str().expect("text"), &["HEAD", "repo"])]
    {
        let output = repo.aynig_ok(["install", directory].iter().chain(more).copied());
        assert!(out(&output).contains("command/work") && out(&output).contains("notes"), "{}", out(&output));
    }
    repo.aynig_ok(["install", at(&pack), "--apply"]);
    assert_eq!(read(&repo, ".aynig/notes"), "some\n");
    let head = repo.commit_all("installed");
    assert_eq!(repo.git(["ls-tree", &head, ".aynig/command/work"]).split(' ').next(), Some("100755"));
    put(&pack, &[("notes", "others\n")]);
    repo.aynig_ok(["install", at(&pack), "--apply"]);
    assert_eq!(read(&repo, ".aynig/notes"), "others\n", "the next install follows");
    repo.commit_all("installed again");
    assert_refused(&repo.aynig(["install", at(&pack), "v1"]), 2, &["plain directory", "v1"]);
    let empty = tempfile::tempdir().expect("a directory");
    let empty = empty.path().to_str().expect("text");
    assert_refused(&Repo::new().aynig(["install", empty]), 3, &["there is no directory .aynig"]);
}
