//! Directories that are read-only, by mount or by permission, and repositories owned by another user.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use super::*;

const ALONE: [&str; 2] = ["unshare", "-m"];

/// Shell that makes a directory read-only.
fn read_only(path: &str) -> String {
    format!("mount --bind \"{path}\" \"{path}\" && mount -o remount,ro,bind \"{path}\" || exit 77")
}

#[test]
fn read_only_directories_are_named_and_nothing_is_claimed() {
    if !may_mount() {
        return;
    }
    for (directory, words) in [
        (".git", "nothing was run: could not write in"),
        (".git/objects", "could not claim work: could not write a commit into"),
        (".git/refs", "could not claim work: could not move refs/heads/work"),
        (".worktrees", "nothing was run: could not make worktrees in"),
        (".aynig/logs", "nothing was run: could not write in"),
    ] {
        let repo = Repo::one_step(&format!("touch \"$ROOM/ran\"\n{DONE}"));
        fs::create_dir_all(repo.path.join(directory)).expect("directories");
        let head = repo.head("work");
        let output = repo.run_after(&ALONE, &read_only(directory), &[]);
        assert_told(&output, 3, &[words, "Read-only file system"]);
        assert!(err(&output).contains(repo.path.join(directory).to_str().expect("text")), "{}", err(&output));
        repo.assert_untouched("work", &head);
        assert!(!repo.was_noted("ran"), "{directory}");
        repo.assert_nothing_half_written();
        assert_eq!(repo.git(["status", "--porcelain"]), "", "{directory}");
        repo.assert_goes_on();
    }
}

#[test]
fn what_becomes_read_only_under_a_command_loses_nothing() {
    if !may_mount() {
        return;
    }
    for (directory, end) in [("objects", DONE), ("refs", "exit 1")] {
        let mount = read_only(&format!("$AYNIG_GIT_DIR/{directory}"));
        let repo = Repo::one_step(&working(&format!("{mount}\n{end}")));
        let output = repo.run_after(&ALONE, "", &["--lease-seconds", "5"]);
        assert_exit(&output, 1);
        assert!(out(&output).contains("(nothing landed)"), "{}{}", out(&output), err(&output));
        assert!(out(&output).contains("Read-only file system"), "{}", out(&output));
        repo.assert_left(&output);
        repo.assert_nothing_half_written();
        repo.assert_recovers_with_work();
    }
}

/// The user and group id of `nobody`.
const NOBODY: u32 = 65534;

/// Gives a repository to `nobody`, with a copy of the binary that this user can run.
pub(crate) fn give_away(repo: &Repo) -> std::path::PathBuf {
    let program = repo.beside("aynig");
    // A process of its own writes it. What other tests start meanwhile would inherit the open file from this one, and a
    // program that somebody writes to cannot be started.
    let copied = Command::new("cp").arg(binary()).arg(&program).status();
    assert!(copied.expect("cp runs").success());
    fs::set_permissions(repo.room.path(), fs::Permissions::from_mode(0o777)).expect("chmod");
    let given =
        Command::new("chown").arg("-R").arg(format!("{NOBODY}:{NOBODY}")).arg(repo.room.path()).status();
    assert!(given.expect("chown runs").success());
    program
}

/// A program run as `nobody` in the repository.
pub(crate) fn as_nobody(repo: &Repo, program: &std::path::Path, arguments: &[&str]) -> Output {
    let mut command = Command::new("setpriv");
    command.arg(format!("--reuid={NOBODY}")).arg(format!("--regid={NOBODY}")).arg("--clear-groups");
    hermetic(&mut command).current_dir(&repo.path).env("ROOM", repo.beside("")).env("HOME", repo.beside(""));
    command.arg(program).args(arguments).output().expect("setpriv runs")
}

#[test]
fn without_permission_nothing_is_claimed() {
    if !is_root() {
        return;
    }
    for (directory, words) in [
        (".git", "nothing was run: could not write in"),
        (".git/objects", "could not claim work: could not write a commit into"),
        (".git/refs/heads", "could not claim work: could not move refs/heads/work"),
        (".aynig/logs", "nothing was run: could not write in"),
        (".worktrees", "nothing was run: could not make worktrees in"),
    ] {
        let repo = Repo::one_step(DONE);
        fs::create_dir_all(repo.path.join(directory)).expect("directories");
        let program = give_away(&repo);
        let closed = repo.path.join(directory);
        let mode = |mode: &str| {
            let changed = Command::new("chmod").arg("-R").arg(mode).arg(&closed).status();
            assert!(changed.expect("chmod runs").success());
        };
        mode("a-w");
        let output = as_nobody(&repo, &program, &["run"]);
        assert_told(&output, 3, &[words, "ermission denied", closed.to_str().expect("text")]);
        mode("u+w");
        let output = as_nobody(&repo, &program, &["run"]);
        assert_exit(&output, 0);
        assert!(out(&output).contains("work  step → done"), "{directory}: {}{}", out(&output), err(&output));
    }
}

#[test]
fn the_doctor_names_the_directory_that_cannot_be_written() {
    if !is_root() {
        return;
    }
    for (directory, place) in [(".git", ".git/aynig/attempts"), (".aynig/logs", ".aynig/logs")] {
        let repo = Repo::one_step(DONE);
        fs::create_dir_all(repo.path.join(directory)).expect("directories");
        let program = give_away(&repo);
        let changed = Command::new("chmod").args(["-R", "a-w"]).arg(repo.path.join(directory)).status();
        assert!(changed.expect("chmod runs").success());
        let output = as_nobody(&repo, &program, &["doctor"]);
        assert_exit(&output, 3);
        let next =
            out(&output).lines().find(|line| line.contains("next: ls -ld ")).expect("a hint").to_owned();
        assert!(next.split(' ').any(|word| word == place), "{directory}: {next}");
    }
}

#[test]
fn a_git_directory_that_cannot_be_read_is_not_taken_for_none() {
    if !is_root() {
        return;
    }
    let repo = Repo::one_step(DONE);
    let program = give_away(&repo);
    let git = repo.path.join(".git");
    fs::set_permissions(&git, fs::Permissions::from_mode(0o0)).expect("chmod");
    let output = as_nobody(&repo, &program, &["run"]);
    assert_told(&output, 3, &[git.to_str().expect("text"), "ermission denied", "hint:"]);
    fs::set_permissions(&git, fs::Permissions::from_mode(0o755)).expect("chmod");
    assert_exit(&as_nobody(&repo, &program, &["run"]), 0);
}

#[test]
fn another_persons_repository_is_not_run() {
    if !is_root() {
        return;
    }
    let repo = Repo::one_step(&format!("touch \"$ROOM/ran\"\n{DONE}"));
    let bare = repo.beside("bare.git");
    repo.git(["clone", "--quiet", "--bare", ".", bare.to_str().expect("text")]);
    give_away(&repo);
    for place in [&repo.path, &bare] {
        let output = repo.run_command(&[]).current_dir(place).output().expect("aynig runs");
        let hint = format!("safe.directory {}\n", place.display());
        assert_told(&output, 3, &["belongs to another user", &hint]);
        assert!(!repo.was_noted("ran"));
        // It runs after the advice was followed.
        let config = repo.beside("config");
        fs::write(&config, format!("[safe]\n\tdirectory = {}\n", place.display())).expect("a file");
        let output = repo
            .run_command(&[])
            .current_dir(place)
            .env("GIT_CONFIG_GLOBAL", &config)
            .output()
            .expect("runs");
        assert_exit(&output, 0);
        assert!(out(&output).contains("work  step → done"), "{}{}", out(&output), err(&output));
        fs::remove_file(repo.beside("ran")).expect("it ran");
    }
}
