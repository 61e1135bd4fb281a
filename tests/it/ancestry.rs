//! What descends from what, where commits are dated before their parents, as those of hosts whose clocks differ.

use std::process::Command;

use aynig::contract::ids::CommitId;
use aynig::git::Store;
use aynig::git::repo::open::GitVariables;

use super::support::*;

/// Makes a commit of the empty tree with this date.
fn commit(repo: &Repo, name: &str, seconds: u32, parents: &[&str]) -> String {
    let tree = repo.git(["mktree"]);
    let date = format!("{} +0000", 1_700_000_000 + seconds);
    let mut command: Command = repo.git_command();
    command.args(["commit-tree", &tree, "-m", name]);
    for parent in parents {
        command.args(["-p", parent]);
    }
    let output =
        command.env("GIT_AUTHOR_DATE", &date).env("GIT_COMMITTER_DATE", &date).output().expect("git runs");
    String::from_utf8(output.stdout).expect("UTF-8").trim().to_owned()
}

#[test]
fn what_descends_does_not_depend_on_dates() {
    let repo = Repo::new();
    let root = commit(&repo, "root", 100, &[]);
    let below = commit(&repo, "below", 110, &[&root]);
    let beside = commit(&repo, "beside", 120, &[&root]);
    let merge = commit(&repo, "merge", 190, &[&beside, &below]);
    let ancestor = commit(&repo, "ancestor", 200, &[&merge]);
    let early = commit(&repo, "early", 50, &[&ancestor]);
    let other = commit(&repo, "other", 210, &[&below]);
    let tip = commit(&repo, "tip", 300, &[&early, &other]);
    repo.git(["update-ref", "refs/heads/tip", &tip]);
    repo.git(["merge-base", "--is-ancestor", &ancestor, &tip]);
    let id = |text: &str| CommitId::parse_hex(text).expect("an id");
    for with_graph in [false, true] {
        if with_graph {
            repo.git(["commit-graph", "write", "--reachable"]);
        }
        let store = Store::open(&repo.path, &GitVariables::default(), None).expect("a repository");
        let handle = store.handle();
        for one in [&root, &below, &beside, &merge, &ancestor, &early, &other, &tip] {
            assert!(handle.descends(id(&tip), id(one)), "{with_graph}: {one}");
            assert_eq!(handle.descends(id(one), id(&tip)), *one == tip, "{with_graph}: {one}");
        }
        assert!(!handle.descends(id(&other), id(&ancestor)), "{with_graph}");
    }
}
