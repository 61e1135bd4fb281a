//! Ways to start passes automatically, as shipped and as the README shows them: the crontab in cron's
//! environment, the hook of a clone in git's.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use super::programs::shipped;
use super::support::*;

fn text(path: &str) -> String {
    fs::read_to_string(shipped(path)).expect("it is shipped")
}

/// A repository whose command notes its environment, and a directory beside it that contains `aynig`.
fn scene() -> Repo {
    let repo = Repo::scene(&[
        ("note", r#"git --version && say "$AYNIG_BRANCH" "$PATH" && next done"#),
        ("commit", r#"say before yes; git commit --quiet --allow-empty -m own; await go; next done"#),
    ]);
    fs::create_dir(repo.beside("bin")).expect("a directory");
    symlink(binary(), repo.beside("bin/aynig")).expect("a link");
    repo
}

#[test]
fn the_crontab_runs_as_cron_runs_it() {
    let repo = scene();
    repo.ready("monday", "note");
    let crontab = text("contrib/cron/aynig.crontab");
    let mut lines = crontab.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let variable = lines.next().expect("a variable");
    let job = lines.next().expect("a job");
    assert_eq!(lines.next(), None);
    assert!(
        text("contrib/docs/operating.md").contains(&format!("```text\n{variable}\n{job}\n```\n")),
        "the guide shows the same lines"
    );
    // The first five fields are the schedule.
    let command = job.splitn(7, ' ').collect::<Vec<_>>();
    assert_eq!(command[..5], ["*/5", "*", "*", "*", "*"]);
    let command = job.split_once("  ").expect("two spaces before the command").1;
    assert!(!command.contains('%'), "cron takes it for the end of the line");
    let here = |text: &str| {
        text.replace("/srv/project", &repo.path.display().to_string())
            .replace("/usr/local/bin", &repo.beside("bin").display().to_string())
    };
    let run = || {
        let mut cron = Command::new("env");
        cron.args(["-i", "SHELL=/bin/sh", "LOGNAME=somebody", &here(variable)]);
        cron.arg(format!("HOME={}", repo.beside("").display())).args(["/bin/sh", "-c", &here(command)]);
        cron.current_dir(repo.beside("")).output().expect("env runs")
    };
    let output = run();
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert_eq!(repo.state("monday"), "done");
    assert_eq!(repo.said("monday"), here(variable).trim_start_matches("PATH="));
    let idle = run();
    assert_eq!((out(&idle), err(&idle)), (String::new(), String::new()), "cron has nothing to write");
    repo.assert_tidy();
}

/// Copies the hook, as the README says.
fn hook(repo: &Repo, name: &str) {
    let hooks = repo.path.join(".git/hooks");
    fs::create_dir_all(&hooks).expect("a directory");
    fs::copy(shipped("contrib/hooks/post-commit"), hooks.join(name)).expect("copied");
}

/// Runs git as a person would, with `aynig` in the PATH.
fn person(repo: &Repo, directory: &Path, arguments: &[&str]) {
    let path = format!("{}:{}", repo.beside("bin").display(), std::env::var("PATH").expect("a PATH"));
    let mut git = repo.git_command();
    let output = git.current_dir(directory).env("PATH", path).args(arguments).output().expect("git runs");
    assert_eq!((output.status.code(), err(&output).as_str()), (Some(0), ""), "{arguments:?}");
}

#[test]
fn a_commit_and_a_merge_start_a_pass() {
    let repo = scene();
    for name in ["post-commit", "post-merge"] {
        hook(&repo, name);
    }
    repo.ready("monday", "note");
    person(&repo, &repo.path, &["commit", "--quiet", "--allow-empty", "-m", "an ordinary commit"]);
    wait_until("the pass after the commit", || repo.state("monday") == "done");
    repo.ready("tuesday", "note");
    repo.branch_with_message("other", b"another ordinary commit\n");
    person(&repo, &repo.path, &["merge", "--quiet", "--ff-only", "other"]);
    wait_until("the pass after the merge", || repo.state("tuesday") == "done");
    let log = || fs::read_to_string(repo.path.join(".git/aynig-passes.log")).unwrap_or_default();
    wait_until("both passes to be told", || log().contains("monday") && log().contains("tuesday"));
}

#[test]
fn a_commands_own_commits_start_none() {
    let repo = scene();
    hook(&repo, "post-commit");
    repo.ready("monday", "commit");
    let path = format!("{}:{}", repo.beside("bin").display(), std::env::var("PATH").expect("a PATH"));
    let mut run = repo.aynig_command();
    run.args(["run", "--branch", "monday"]).env("PATH", path);
    run.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let runner = Running::start(&mut run);
    repo.said("before");
    repo.ready("tuesday", "note");
    repo.release("go");
    assert_eq!(runner.finish().status.code(), Some(0));
    assert_eq!([repo.state("monday"), repo.state("tuesday")], ["done", "note"]);
    assert!(!repo.path.join(".git/aynig-passes.log").exists(), "no pass was started");
}

#[test]
fn a_hook_that_finds_no_aynig_says_so_and_lets_the_commit_be() {
    let repo = scene();
    hook(&repo, "post-commit");
    let mut git = repo.git_command();
    let output = git
        .args(["commit", "--quiet", "--allow-empty", "-m", "x"])
        .env("AYNIG_BIN", "/no/such/aynig")
        .output()
        .expect("git runs");
    assert_eq!(output.status.code(), Some(0));
    assert!(err(&output).contains("/no/such/aynig is not in the PATH"), "{}", err(&output));
}

#[test]
fn shipped_scripts_are_executable_and_sound() {
    for file in files_below(&shipped("contrib")) {
        let start = fs::read(&file).expect("a file");
        let is_script = start.starts_with(b"#!");
        let executable = fs::metadata(&file).expect("it is there").permissions().mode() & 0o111 != 0;
        assert_eq!(is_script, executable, "{}", file.display());
        if start.starts_with(b"#!/bin/sh") {
            let checked = Command::new("sh").arg("-n").arg(&file).output().expect("sh runs");
            assert!(checked.status.success(), "{}: {}", file.display(), err(&checked));
        }
    }
}
