//! Submodules in a worktree of ours: set up for the command, and never removed with work that is nowhere else.

use std::process::Output;

use super::scene::*;
use super::support::*;

/// A repository with the submodule `sub`, whose origin is beside it.
fn repo(script: &str) -> Repo {
    let repo = Repo::scene(&[("work", script)]);
    let origin = repo.beside("origin");
    repo.git(["init", "-q", "--initial-branch=main", "../origin"]);
    for arguments in [
        &["config", "user.name", "Test Person"][..],
        &["config", "user.email", "person@example.com"],
        &["commit", "-q", "--allow-empty", "-m", "theirs"],
    ] {
        let mut git = repo.git_command();
        assert!(git.current_dir(&origin).args(arguments).status().expect("git runs").success());
    }
    // Git trusts no local path as a submodule's origin unless it is told to.
    std::fs::write(
        repo.beside("config"),
        "[protocol \"file\"]\n\tallow = always\n[user]\n\tname = T\n\temail = t@example.com\n",
    )
    .expect("a file");
    let mut git = repo.git_command();
    git.env("GIT_CONFIG_GLOBAL", repo.beside("config"));
    let added = git.args(["submodule", "--quiet", "add", "../origin", "sub"]).output().expect("git runs");
    assert!(added.status.success(), "{}", told(&added));
    repo.git(["config", "--file", ".gitmodules", "submodule.sub.url", origin.to_str().expect("text")]);
    repo.commit_all("a submodule");
    repo.ready("task", "work");
    repo
}

fn run(repo: &Repo) -> Output {
    let mut aynig = repo.aynig_command();
    aynig.env("GIT_CONFIG_GLOBAL", repo.beside("config")).arg("run").output().expect("aynig runs")
}

/// CONTRACT 9.10
#[test]
fn a_submodule_is_there_and_goes_with_a_clean_worktree() {
    for (end, state) in [("next done", "done"), ("exit 1", "stalled")] {
        let repo = repo(&format!("git -C sub log --format=%s -1 >\"$ROOM/seen\"; {end}"));
        let output = run(&repo);
        assert_eq!(repo.said("seen"), "theirs", "{}", told(&output));
        assert_eq!(repo.state("task"), state);
        repo.assert_tidy();
    }
}

/// The worktree stays, is named, and holds what was made in it.
fn assert_kept(repo: &Repo, output: &Output) {
    let worktrees = repo.worktrees();
    assert_eq!(worktrees.len(), 1, "{}", told(output));
    assert!(out(output).contains(&format!("left in place: {}", worktrees[0])), "{}", told(output));
    let file = std::path::Path::new(&worktrees[0]).join("sub/mine.txt");
    assert_eq!(std::fs::read_to_string(file).expect("it is there"), "precious\n");
    run(repo);
    assert_eq!(repo.worktrees(), worktrees, "later passes leave it to the person");
}

/// CONTRACT 9.7
#[test]
fn uncommitted_work_in_a_submodule_keeps_the_worktree() {
    for (end, state) in [("next done", "done"), ("exit 1", "stalled")] {
        let repo = repo(&format!("echo precious >sub/mine.txt; {end}"));
        let output = run(&repo);
        assert_eq!(repo.state("task"), state, "{}", told(&output));
        assert_kept(&repo, &output);
    }
}

/// CONTRACT 9.7
#[test]
fn commits_in_a_submodule_that_are_nowhere_else_keep_the_worktree() {
    let make = "cd sub; echo precious >mine.txt; git add mine.txt; git commit -q -m mine; cd ..; git add sub";
    for (end, state) in [("next done", "done"), ("exit 1", "stalled")] {
        let repo = repo(&format!("{make}; {end}"));
        let output = run(&repo);
        assert_eq!(repo.state("task"), state, "{}", told(&output));
        assert_kept(&repo, &output);
    }
}

#[test]
fn pushed_commits_of_a_submodule_are_safe() {
    let repo = repo(
        "cd sub; echo precious >mine.txt; git add mine.txt; git commit -q -m mine; git push -q origin HEAD:refs/heads/mine
         cd ..; git add sub; next done",
    );
    let output = run(&repo);
    assert_eq!(repo.state("task"), "done", "{}", told(&output));
    repo.assert_tidy();
}

/// Git keeps the repository of a submodule whose files are gone.
#[test]
fn commits_in_a_submodule_that_is_gone_keep_its_registration() {
    let make = "cd sub; echo precious >mine.txt; git add mine.txt; git commit -q -m mine; git rev-parse HEAD >\"$ROOM/mine\"; cd ..";
    for (gone, end, state) in [
        ("git submodule --quiet deinit -f sub", "next done", "done"),
        ("git submodule --quiet deinit -f sub", "exit 1", "stalled"),
        ("here=$PWD; cd /; rm -rf \"$here\"", "exit 1", "stalled"),
    ] {
        let repo = repo(&format!("{make}; {gone}; {end}"));
        let output = run(&repo);
        assert_eq!(repo.state("task"), state, "{gone} {}", told(&output));
        assert!(out(&output).contains("left in place: "), "{gone} {}", told(&output));
        assert_eq!(repo.worktrees().len(), 1, "{gone}");
        let mine = repo.said("mine");
        let object = format!("{}/{}", &mine[..2], &mine[2..]);
        let kept = files_below(&repo.path.join(".git/worktrees")).iter().any(|path| path.ends_with(&object));
        assert!(kept, "{gone} {}", told(&output));
    }
}
