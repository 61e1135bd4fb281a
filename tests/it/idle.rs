//! A pass that finds nothing to do is cheap: it reads HEADs without starting a process for them.

use std::os::unix::fs::PermissionsExt;
use std::time::Instant;

use super::scene::*;
use super::support::*;

/// Runs with a `git` first in the PATH that logs every call before it runs it.
#[expect(
    clippy::print_stdout,
    reason = "the time is for people to read; a busy machine decides it, so no test does"
)]
fn idle(repo: &Repo, arguments: &[&str]) -> std::process::Output {
    let inherited = std::env::var_os("PATH").expect("a path");
    let mut git = std::env::split_paths(&inherited).map(|directory| directory.join("git"));
    let git = git.find(|git| git.is_file()).expect("git is installed");
    let directory = repo.beside("bin");
    std::fs::create_dir_all(&directory).expect("a directory");
    let script = format!(
        "#!/bin/sh\nprintf '%s\\n' \"$*\" >>'{}'\nexec '{}' \"$@\"\n",
        repo.beside("calls").display(),
        git.display()
    );
    std::fs::write(directory.join("git"), script).expect("a file");
    std::fs::set_permissions(directory.join("git"), std::fs::Permissions::from_mode(0o755)).expect("chmod");
    let path = std::env::join_paths([directory].into_iter().chain(std::env::split_paths(&inherited)));
    let start = Instant::now();
    let output = repo
        .aynig_command()
        .env("PATH", path.expect("no separator in it"))
        .args(arguments)
        .output()
        .expect("aynig runs");
    println!("{arguments:?}: {} ms", start.elapsed().as_millis());
    assert!(output.status.success(), "{}", told(&output));
    output
}

fn assert_idle(repo: &Repo, branches: usize) {
    let output = idle(repo, &["run", "--json"]);
    assert_eq!(repo.noted_lines("calls"), Vec::<String>::new(), "not one call of git");
    let summary: serde_json::Value = serde_json::from_str(&out(&output)).expect("JSON");
    assert_eq!(summary["branchCount"], branches + 1);
    assert_eq!(summary["steps"], serde_json::Value::Array(Vec::new()));
    idle(repo, &["run", "--drain", "--current-branch", "include"]);
    assert_eq!(repo.noted_lines("calls"), Vec::<String>::new());
    repo.assert_tidy();
}

/// Number of branches in the large repositories.
fn many() -> usize {
    sized(2_000, 10_000)
}

#[test]
fn thousands_of_branches_at_one_commit() {
    let repo = Repo::scene(&[("work", "next done")]);
    let parked = repo.ready("parked", "done");
    let updates: String =
        (1..many()).map(|n| format!("create refs/heads/area{}/b{n} {parked}\n", n % 10)).collect();
    repo.git_with_input(&["update-ref", "--stdin"], updates.as_bytes());
    assert_idle(&repo, many());
}

#[test]
fn thousands_of_branches_with_heads_of_their_own() {
    let repo = Repo::scene(&[("work", "next done")]);
    let names: Vec<String> = (0..many()).map(|n| format!("b{n}")).collect();
    repo.ready_many(&names[..many() / 2], "done");
    repo.ready_many(&names[many() / 2..], "unknown");
    repo.git(["pack-refs", "--all", "--prune"]);
    assert_idle(&repo, many());
}

#[test]
fn the_noting_git_does_note() {
    let repo = Repo::scene(&[("work", "next done")]);
    repo.ready("task", "work");
    idle(&repo, &["run"]);
    assert_eq!(repo.state("task"), "done");
    let calls = repo.noted_lines("calls");
    // The whole cost of a step whose command changes nothing: two calls at startup, and the checkout.
    assert_eq!(calls.len(), 3, "{calls:?}");
    for call in ["config --list -z --show-origin", "rev-parse --git-dir", "read-tree"] {
        assert!(calls.iter().any(|line| line.contains(call)), "{calls:?}");
    }
}
