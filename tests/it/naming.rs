//! Branches are named by position in every subcommand. `--branch` is an alias.

use super::support::*;

#[test]
fn a_run_takes_globs() {
    let repo = Repo::scene(&[("work", "next done")]);
    for branch in ["a/one", "a/two", "b/one"] {
        repo.ready(branch, "work");
    }
    repo.aynig_ok(["run", "a/*"]);
    let states = ["a/one", "a/two", "b/one"].map(|branch| repo.state(branch));
    assert_eq!(states, ["done", "done", "work"]);
    assert_refused(&repo.aynig(["run", "["]), 2, &["--branch [ is not a glob"]);
    let refused = &["5 would be the name of a branch", "--watch=5"];
    assert_refused(&repo.aynig(["run", "--watch", "5"]), 2, refused);
}

#[test]
fn each_subcommand_takes_a_branch() {
    let repo = Repo::scene(&[("work", "echo hello; next done")]);
    repo.git(["branch", "task"]);
    repo.aynig_ok(["set-state", "--state", "work", "task"]);
    assert_eq!(repo.state("task"), "work");
    repo.aynig_ok(["run"]);
    assert!(out(&repo.aynig_ok(["logs", "task"])).contains("hello"));
    assert!(out(&repo.aynig_ok(["events", "task"])).contains("done"));
    repo.aynig_ok(["set-working", "task"]);
    assert_eq!(repo.state("task"), "working");
    for verb in [&["set-state", "--state", "a"][..], &["set-working"], &["events"], &["log"]] {
        let both = verb.iter().copied().chain(["task", "--branch", "task"]);
        assert_refused(&repo.aynig(both), 2, &["cannot be used with"]);
    }
    let several = repo.aynig(["set-state", "--state", "a", "task", "main"]);
    assert_refused(&several, 2, &["several are named", "nothing was changed"]);
}
