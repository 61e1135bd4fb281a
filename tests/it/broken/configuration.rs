//! Unreadable configuration, and repositories of an unexpected kind.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::*;

/// Asserts that `aynig run` in `directory` is refused with these words and moves no branch.
fn assert_refused_in(repo: &Repo, directory: &Path, words: &[&str]) {
    let output = repo.run_command(&[]).current_dir(directory).output().expect("aynig runs");
    assert_refused(&output, 3, words);
    assert!(err(&output).contains("hint: "), "{}", err(&output));
    assert!(!repo.was_noted("ran"));
}

fn repo() -> Repo {
    Repo::one_step(&format!("touch \"$ROOM/ran\"\n{DONE}"))
}

#[test]
fn configuration_with_a_syntax_error() {
    let repo = repo();
    let config = repo.path.join(".git/config");
    let whole = fs::read_to_string(&config).expect("a file");
    fs::write(&config, format!("{whole}[broken\n")).expect("writable");
    assert_refused_in(
        &repo,
        &repo.path,
        &["could not open the repository", "configuration", "git config --list"],
    );
    fs::write(&config, whole).expect("writable");
    let mine = repo.beside("gitconfig");
    fs::write(&mine, "[broken\n").expect("writable");
    let output = repo.run_command(&[]).env("GIT_CONFIG_GLOBAL", &mine).output().expect("aynig runs");
    assert_refused(&output, 3, &["configuration", "git config --list"]);
    repo.assert_goes_on();
}

#[test]
fn configuration_that_only_git_refuses() {
    let repo = repo();
    let head = repo.head("work");
    repo.git(["config", "core.fileMode", "banana"]);
    assert_refused_in(
        &repo,
        &repo.path,
        &["nothing was run", "bad boolean config value 'banana'", "git status"],
    );
    repo.git(["config", "core.fileMode", "true"]);
    repo.assert_untouched("work", &head);
    repo.assert_goes_on();
}

#[test]
fn a_git_file_that_leads_nowhere_is_named() {
    let repo = repo();
    let linked = repo.beside("linked");
    repo.git(["worktree", "add", "--quiet", "-b", "other", linked.to_str().expect("text")]);
    let file = linked.join(".git");
    let whole = fs::read(&file).expect("a file");
    let named = file.to_str().expect("text");
    for (text, words) in
        [("gitdir: /nowhere/at/all\n", "/nowhere/at/all"), ("nonsense\n", "no link"), ("", "no link")]
    {
        fs::write(&file, text).expect("writable");
        assert_refused_in(&repo, &linked, &[named, words, "git worktree repair"]);
        fs::create_dir_all(linked.join("below")).expect("a directory");
        assert_refused_in(&repo, &linked.join("below"), &[named, words]);
    }
    fs::write(&file, whole).expect("writable");
    repo.assert_goes_on_from(&linked);
}

impl Repo {
    /// Asserts that a run in `directory` advances `work`.
    fn assert_goes_on_from(&self, directory: &Path) {
        let output = self.run_command(&[]).current_dir(directory).output().expect("aynig runs");
        assert_exit(&output, 0);
        assert!(out(&output).contains("work  step → done"), "{}{}", out(&output), err(&output));
    }
}

#[test]
fn a_bare_repository_with_a_damaged_head_claims_nothing() {
    let repo = repo();
    let bare = repo.beside("bare.git");
    repo.git(["clone", "--quiet", "--bare", ".", "../bare.git"]);
    let (head, branch) = (bare.join("HEAD"), bare.join("packed-refs"));
    let whole = fs::read(&head).expect("a file");
    let before = fs::read(&branch).expect("a file");
    for text in [Some("garbage\n"), Some(""), None] {
        match text {
            Some(text) => fs::write(&head, text).expect("writable"),
            None => fs::remove_file(&head).expect("it is there"),
        }
        assert_refused_in(&repo, &bare, &["git repository"]);
        assert_eq!(fs::read(&branch).expect("a file"), before);
        assert!(!bare.join("refs/heads/work").exists(), "{text:?}");
    }
    fs::write(&head, whole).expect("writable");
    repo.assert_goes_on_from(&bare);
}

#[test]
fn a_head_that_names_no_branch_is_no_trouble() {
    let repo = repo();
    repo.git(["symbolic-ref", "HEAD", "refs/heads/nowhere"]);
    repo.run_expecting(0, &[]);
    assert_eq!(repo.state("work"), "done");
}

#[test]
fn a_wrong_core_bare_is_no_trouble() {
    let repo = repo();
    repo.git(["config", "core.bare", "true"]);
    repo.run_expecting(0, &[]);
    assert_eq!(repo.state("work"), "done");
    repo.git(["config", "core.bare", "false"]);
    let bare = repo.beside("bare.git");
    repo.ready("work", "step");
    repo.git(["clone", "--quiet", "--bare", ".", "../bare.git"]);
    repo.git(["--git-dir=../bare.git", "config", "core.bare", "false"]);
    repo.assert_goes_on_from(&bare);
}

#[test]
fn a_work_tree_that_is_not_there_is_named() {
    let repo = repo();
    repo.git(["config", "core.worktree", "/nowhere/at/all"]);
    assert_refused_in(&repo, &repo.path, &["core.worktree", "/nowhere/at/all"]);
    repo.git(["--git-dir=.git", "--work-tree=.", "config", "--unset", "core.worktree"]);
    repo.assert_goes_on();
}

#[test]
fn hooks_and_monitors_that_fail_and_flood_are_not_asked() {
    let repo = repo();
    let hook =
        "#!/bin/sh\ntouch \"$ROOM/hooked\"\nyes | head -c 1000000; yes | head -c 1000000 >&2; exit 1\n";
    for name in ["post-checkout", "post-index-change", "reference-transaction", "pre-commit", "fsmonitor"] {
        repo.write(&format!("hooks/{name}"), hook);
        fs::set_permissions(repo.path.join("hooks").join(name), fs::Permissions::from_mode(0o755))
            .expect("chmod");
    }
    let hooks = repo.path.join("hooks");
    repo.git(["config", "core.fsmonitor", hooks.join("fsmonitor").to_str().expect("text")]);
    repo.git(["config", "core.hooksPath", hooks.to_str().expect("text")]);
    let output = repo.run_expecting(0, &[]);
    assert_eq!(err(&output), "");
    assert!(!repo.was_noted("hooked"));
    repo.git(["config", "--unset", "core.hooksPath"]);
    repo.git(["config", "--unset", "core.fsmonitor"]);
    assert_eq!(repo.state("work"), "done");
}
