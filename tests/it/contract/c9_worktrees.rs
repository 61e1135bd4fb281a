//! Section 9, "Worktrees and rescued work": the registration of worktrees. `lost_work`, `misplaced` and
//! `pool` test the work in them.

use std::fs;

use super::super::probe::*;
use super::super::support::*;

/// CONTRACT 9.1
#[test]
fn c9_no_upstream_is_configured() {
    let repo = Repo::one_step(&format!("git config --get-regexp '^branch' > \"$ROOM/upstream\"\n{DONE}"));
    repo.git(["config", "branch.autoSetupMerge", "always"]);
    let before = repo.git(["config", "--list", "--local"]);
    repo.run_expecting(0, &[]);
    assert_eq!(repo.noted("upstream"), "branch.autosetupmerge always");
    assert_eq!(repo.git(["config", "--list", "--local"]), before);
}

/// CONTRACT 9.2
#[test]
fn c9_a_worktree_is_marked_and_held_while_its_runner_lives() {
    let repo = Repo::scene(&[("work", "say ready $$; await release; next done")]);
    repo.ready("task", "work");
    let runner = repo.aynig_start(["run"]);
    let command = repo.said_pid("ready");
    let list = repo.git(["worktree", "list", "--porcelain"]);
    let run = repo.trailer("task", "dwp-run-id");
    assert!(list.contains(&format!("\nlocked aynig attempt {run} branch task")), "{list}");
    let own = fs::read_dir(repo.path.join(".git/worktrees")).expect("a list").next().expect("one");
    let mark = fs::File::open(own.expect("readable").path().join("locked")).expect("the mark");
    assert!(mark.try_lock().is_err(), "its runner lives");
    runner.signal(nix::sys::signal::Signal::SIGKILL);
    runner.finish();
    command.gone();
    repo.deserted();
    assert!(mark.try_lock().is_ok(), "its runner is gone");
}

/// CONTRACT 9.11
#[test]
fn c9_a_runner_stays_in_its_own_directory() {
    let repo = Repo::one_step(&format!("readlink \"/proc/$PPID/cwd\" > \"$ROOM/cwd\"\n{DONE}"));
    repo.write("deep/er/file", "x\n");
    let below = repo.path.join("deep/er");
    let output = repo.run_command(&[]).current_dir(&below).output().expect("aynig runs");
    assert_exit(&output, 0);
    assert_eq!(repo.noted("cwd"), below.display().to_string());
}
