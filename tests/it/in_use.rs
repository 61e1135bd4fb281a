//! Branches that are in use in other worktrees: by HEAD, a rebase or a bisect, also where a file cannot be read.

use std::fs;
use std::process::Command;

use super::support::*;

/// A repository with a ready branch `task`, a branch `top` above it, and a linked worktree on another branch.
fn field() -> (Repo, std::path::PathBuf) {
    let repo = Repo::scene(&[("work", "echo made >made.txt; git add made.txt; next done")]);
    for subject in ["one", "two"] {
        repo.write(subject, subject);
        repo.commit_all(subject);
    }
    repo.git(["branch", "task"]);
    repo.ready("task", "work");
    let linked = repo.beside("linked");
    repo.git(["worktree", "add", "--quiet", "-b", "top", linked.to_str().expect("UTF-8"), "task"]);
    sh(&linked, "git commit -q --allow-empty -m above; echo last >last; git add last; git commit -qm last");
    (repo, linked)
}

fn sh(place: &std::path::Path, script: &str) {
    let mut shell = Command::new("sh");
    shell.env("GIT_SEQUENCE_EDITOR", "sed -i 1s/pick/edit/").env("GIT_EDITOR", ":");
    for (variable, value) in
        [("GIT_AUTHOR_NAME", "a"), ("GIT_AUTHOR_EMAIL", "a@b"), ("GIT_COMMITTER_NAME", "a")]
    {
        shell.env(variable, value);
    }
    shell.env("GIT_COMMITTER_EMAIL", "a@b");
    let ran = hermetic(&mut shell).args(["-ec", script]).current_dir(place).output().expect("a shell");
    assert!(ran.status.success(), "{script}: {}", err(&ran));
}

/// CONTRACT 9.3
#[test]
fn a_worktree_can_use_several_branches() {
    for (what, script) in [
        ("checked out", "git checkout -q task"),
        (
            "after a bisect",
            "git bisect start; git bisect bad HEAD; git bisect good HEAD~2; git checkout -q task",
        ),
        (
            "in a bisect",
            "git checkout -q task; git bisect start; git bisect bad HEAD; git bisect good HEAD~2",
        ),
        ("after a rebase", "git rebase -q -i HEAD~1; git checkout -q task"),
        ("in a rebase", "git rebase -q -i --update-refs HEAD~3"),
    ] {
        let (repo, linked) = field();
        sh(&linked, script);
        let said = err(&repo.aynig_ok(["run", "--log-level", "debug"]));
        assert!(said.contains("task") && said.contains("checked out"), "{what}: {said}");
        assert_eq!(repo.state("task"), "work", "{what}");
        if what.starts_with("in ") {
            let refused = repo.aynig(["land", "top", "--into", "task"]);
            assert_refused(&refused, 3, &["a rebase or a bisect of it is under way"]);
        }
    }
}

/// CONTRACT 9.3
#[test]
fn a_registration_that_cannot_be_read_is_still_one() {
    let (repo, linked) = field();
    sh(&linked, "git checkout -q task");
    let registration = repo.path.join(".git/worktrees/linked");
    let (gitdir, head) = (registration.join("gitdir"), registration.join("HEAD"));
    let name = fs::read(&gitdir).expect("a file");
    for damage in ["", "gone"] {
        if damage.is_empty() {
            fs::write(&gitdir, "").expect("written");
        } else {
            fs::remove_file(&gitdir).expect("removed");
        }
        let said = err(&repo.aynig_ok(["run", "--log-level", "debug"]));
        let place = registration.display().to_string();
        assert!(said.contains("checked out") && said.contains(&place), "{said}");
        assert_eq!(repo.state("task"), "work");
    }
    fs::write(&gitdir, name).expect("written");
    let branch = fs::read(&head).expect("a file");
    for damage in [Some(""), Some("garbage"), None] {
        fs::remove_file(&head).expect("removed");
        match damage {
            Some(content) => fs::write(&head, content).expect("written"),
            None => fs::create_dir(&head).expect("made"),
        }
        let refused = repo.aynig(["run"]);
        assert_refused(
            &refused,
            3,
            &[&format!("could not read {}", head.display()), "a branch may be checked out there"],
        );
        assert_eq!(repo.state("task"), "work", "{damage:?}");
        if damage.is_none() {
            fs::remove_dir(&head).expect("removed");
            fs::write(&head, "").expect("written");
        }
    }
    fs::write(&head, branch).expect("written");
    sh(&linked, "git checkout -q top");
    repo.aynig_ok(["run"]);
    assert_eq!(repo.state("task"), "done");
}

/// CONTRACT 9.3
#[test]
fn a_worktree_whose_directory_is_gone_is_named_with_the_way_out() {
    let (repo, linked) = field();
    sh(&linked, "git checkout -q task");
    fs::rename(&linked, repo.beside("away")).expect("moved");
    let said = err(&repo.aynig_ok(["run", "--log-level", "debug"]));
    assert!(said.contains("which is not there; `git worktree prune` frees it"), "{said}");
    assert_eq!(repo.state("task"), "work");
    repo.git(["worktree", "prune"]);
    repo.aynig_ok(["run"]);
    assert_eq!(repo.state("task"), "done");
}
