//! Section 8, "Guarantees".

use std::fs;

use super::super::probe::*;
use super::super::support::*;

/// CONTRACT 8.1
#[test]
fn c8_one_active_executor_per_branch() {
    let repo = Repo::one_step("mkfifo \"$ROOM/gate\"; echo in >> \"$ROOM/entered\"; cat \"$ROOM/gate\"");
    let lease = repo.run_start(&[]);
    wait_for_file(&repo.beside("entered"));
    let held = repo.head("work");
    assert_eq!(repo.state("work"), "working");
    for _ in 0..3 {
        assert_exit(&repo.run(&[]), 0);
    }
    assert_eq!(repo.head("work"), held);
    fs::write(repo.beside("gate"), "SET_STATE {\"state\":\"done\"}\n").expect("somebody reads");
    assert_exit(&lease.finish(), 0);
    assert_eq!(repo.noted("entered"), "in");
    assert_eq!(repo.state("work"), "done");
}

/// CONTRACT 8.2
#[test]
fn c8_transitions_can_be_audited_in_the_history() {
    let repo = Repo::with_commands(&[
        ("one", r#"echo 'SET_STATE {"state":"two"}'"#),
        ("two", "exit 1"),
        ("three", DONE),
    ]);
    let start = repo.ready("work", "one");
    repo.run_expecting(1, &["--drain"]);
    let states = repo.git([
        "log",
        "--reverse",
        "--first-parent",
        "--format=%(trailers:key=dwp-state,valueonly,separator=) <%cn>",
        &format!("{start}^..work"),
    ]);
    assert_eq!(
        states,
        ["one", "working", "two", "working", "stalled"].map(|s| format!("{s} <Test Person>")).join("\n")
    );
}

/// CONTRACT 8.3
#[test]
fn c8_recovery_from_abandoned_leases() {
    let repo = Repo::one_step("echo $$ > \"$ROOM/pid\"; echo begun > begun; exec sleep 600");
    let runner = repo.run_start(&["--lease-seconds", "1"]);
    let pid: i32 = wait_for_file(&repo.beside("pid")).trim().parse().expect("a pid");
    let begun = repo.path.join(".worktrees/work/begun");
    wait_until("the worktree's file", || fs::read_to_string(&begun).is_ok_and(|text| text == "begun\n"));
    runner.signal(nix::sys::signal::Signal::SIGKILL);
    drop(runner);
    wait_until("the command to end with its runner", || !is_alive(pid));
    wait_until("the lease to be recovered", || {
        repo.run_expecting(0, &[]);
        repo.state("work") == "stalled"
    });
    assert_eq!(repo.trailer("work", "dwp-origin-state"), "step");
    let rescue = repo.rescues();
    assert_eq!(rescue.len(), 1, "what it had begun was saved");
    assert_eq!(repo.git(["show", &format!("{}:begun", rescue[0])]), "begun");
    repo.assert_tidy();
}

/// CONTRACT 1.1, 8.4
#[test]
fn c8_head_alone_decides() {
    let repo = Repo::with_commands(&[("one", r#"echo 'SET_STATE {"state":"two"}'"#), ("two", DONE)]);
    repo.ready("work", "one");
    repo.run_expecting(0, &[]);
    assert_eq!(repo.state("work"), "two");
    // Everything except the commits is cache and log: without it the branch continues as before.
    for cache in [".git/aynig", ".aynig/logs"] {
        fs::remove_dir_all(repo.path.join(cache)).expect("it was made");
    }
    repo.run_expecting(0, &[]);
    assert_eq!(repo.state("work"), "done");
}

/// CONTRACT 8.5
#[test]
fn c8_another_clone_continues_where_the_first_stopped() {
    let repo = Repo::with_commands(&[("one", r#"echo 'SET_STATE {"state":"two"}'"#), ("two", DONE)]);
    repo.ready("work", "one");
    repo.run_expecting(0, &[]);
    let clone = Repo::new();
    let source = repo.path.to_str().expect("text").to_owned();
    clone.git(["fetch", "--quiet", &source, "work:work"]);
    clone.run_expecting(0, &[]);
    assert_eq!(clone.state("work"), "done");
    assert_eq!(clone.head("work~2"), repo.head("work"));
}
