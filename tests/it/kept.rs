//! Worktrees that are kept for the user (CONTRACT 9.7) hold no branch, wherever their runner is killed.

use super::scene::*;
use super::support::*;

/// Leaves another repository in the worktree, which no rescue can save.
const UNSAVABLE: &str = "git init -q inner && git -C inner commit -q --allow-empty -m own\nnext b";

/// How far ahead the clock of later runners is.
const LATER: &str = "40";

fn unsavable() -> Repo {
    let repo = Repo::scene(&[("a", UNSAVABLE), ("b", "next done")]);
    repo.ready("work", "a");
    repo
}

/// Whether `work` is checked out in a worktree that is marked as kept.
fn holds_its_branch(repo: &Repo) -> bool {
    let list = repo.git(["worktree", "list", "--porcelain"]);
    list.split("\n\n").any(|one| one.contains("aynig kept") && one.contains("branch refs/heads/work"))
}

/// Runs one step that is killed at `point`, and then later runners. Returns whether it was killed.
fn killed_at(point: &str) -> bool {
    let repo = unsavable();
    let mut killed = repo.aynig_command();
    killed.args(["run", "--lease-seconds", "30"]).env("AYNIG_CRASH_AT", point).env("ROOM", repo.beside(""));
    let output = killed.output().expect("aynig runs");
    let was_killed = output.status.code().is_none();
    for _ in 0..2 {
        let mut later = repo.aynig_command();
        later.args(["run", "--drain"]).env("AYNIG_CLOCK_OFFSET_SECONDS", LATER).env("ROOM", repo.beside(""));
        let output = later.output().expect("aynig runs");
        assert!(!holds_its_branch(&repo), "{point}: {}", told(&output));
    }
    let state = repo.state("work");
    assert!(["done", "stalled"].contains(&state.as_str()), "{point}: {state}");
    let inner = repo.worktrees().iter().any(|path| std::path::Path::new(path).join("inner/.git").is_dir());
    assert!(inner || state == "stalled", "{point}: the other repository is gone");
    was_killed
}

/// CONTRACT 9.7
#[test]
fn a_kept_worktree_is_detached_before_it_is_marked() {
    let visits = (1..100).take_while(|visit| killed_at(&format!("file-drafted:{visit}"))).count();
    assert!((2..50).contains(&visits), "{visits}");
    assert!(killed_at("kept-detached"));
}

/// CONTRACT 9.3, 9.7
#[test]
fn a_branch_in_a_kept_worktree_is_freed_by_the_line_that_is_printed() {
    let repo = unsavable();
    repo.aynig_ok(["run"]);
    let path = repo.worktrees().remove(0);
    repo.git(["-C", &path, "switch", "--quiet", "work"]);
    let line = format!("git -C {path} switch --detach");
    for arguments in [&["status", "--all"][..], &["run"], &["run", "--branch", "work"]] {
        let output = repo.aynig(arguments.iter().copied());
        assert!(told(&output).contains(&format!("`{line}`")), "{arguments:?}: {}", told(&output));
    }
    assert_eq!(repo.state("work"), "b");
    let words: Vec<&str> = line.split(' ').skip(1).collect();
    repo.git(words);
    repo.aynig_ok(["run"]);
    assert_eq!(repo.state("work"), "done");
}

/// CONTRACT 9.7
#[test]
fn a_worktree_that_is_kept_in_the_middle_of_a_rebase_or_bisect_frees_its_branch() {
    let begun = "for i in 1 2; do echo $i >$i; git add $i; git commit -qm $i; done\n";
    for (what, begin) in [
        ("a rebase", "GIT_SEQUENCE_EDITOR='sed -i s/^pick/edit/' git rebase -q -i --update-refs HEAD~2"),
        (
            "a rebase of patches",
            "git format-patch -q -1; echo x >2; git commit -qam x; git am -q 0001* || true",
        ),
        ("a bisect", "git bisect start HEAD HEAD~2"),
    ] {
        let inner = "git init -q inner; git -C inner commit -q --allow-empty -m own";
        let repo = Repo::scene(&[("a", &format!("{begun}{begin}\n{inner}\nexit 1"))]);
        repo.ready("work", "a");
        let output = repo.aynig(["run"]);
        assert_eq!(repo.state("work"), "stalled", "{what}: {}", told(&output));
        repo.write(".aynig/command/a", "#!/bin/sh\necho 'SET_STATE {\"state\":\"done\"}'\n");
        repo.commit_all("a command that ends");
        repo.aynig_ok(["set-state", "--retry", "work"]);
        let again = repo.aynig_ok(["run", "--commands-from", "main", "--log-level", "debug"]);
        assert_eq!(repo.state("work"), "done", "{what}: {}", told(&again));
        // The person can end it there.
        let path = repo.worktrees().remove(0);
        let end = if what == "a bisect" { vec!["bisect", "reset"] } else { vec!["rebase", "--abort"] };
        if what != "a rebase of patches" {
            repo.git([vec!["-C", &path], end].concat());
            assert_eq!(repo.git(["-C", &path, "branch", "--show-current"]), "", "{what}");
        }
    }
}
