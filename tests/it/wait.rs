//! `aynig wait`: branches that rest, or have come to a state, for scripts.

use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::scene::*;
use super::support::*;

fn assert_exit(output: &std::process::Output, code: i32) {
    assert_eq!(output.status.code(), Some(code), "{}", told(output));
}

/// Starts a wait that has taken its first look.
fn waiting(repo: &Repo, arguments: &[&str]) -> Running {
    let file = repo.beside("diagnosis");
    let script =
        format!("exec '{}' --log-level debug wait \"$@\" 2>'{}'", binary().display(), file.display());
    let mut command = std::process::Command::new("sh");
    hermetic(&mut command).args(["-c", &script, "sh"]).args(arguments).current_dir(&repo.path);
    let wait = Running::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    wait_until("the first look", || std::fs::read_to_string(&file).unwrap_or_default().contains("looked"));
    wait
}

/// CONTRACT 11.25
#[test]
fn it_ends_when_every_branch_rests() {
    let repo = Repo::scene(&[("work", "say at $$; await release; next done")]);
    repo.ready("task", "work");
    repo.branch_with_message("parked", b"p\n\ndwp-state: work\ndwp-not-before: 2999-01-01T00:00:00Z\n");
    repo.branch_with_message("asked", b"p\n\ndwp-state: work\ndwp-waits-for: ana\n");
    repo.ready("over", "done");
    let wait = waiting(&repo, &["*", "--timeout", "1m"]);
    let runner = repo.aynig_start(["run"]);
    repo.said("at");
    assert!(is_alive(wait.pid()));
    repo.release("release");
    assert_exit(&runner.finish(), 0);
    let output = wait.finish();
    assert_exit(&output, 0);
    let said = out(&output);
    let begins: Vec<&str> = said.lines().filter_map(|line| line.split("  ").next()).collect();
    assert_eq!(begins, ["asked", "over", "parked", "task"], "one line a branch, none for main: {said}");
    assert!(
        said.contains("task  done  rests") && said.contains("parked  work  parked: until 2999"),
        "{said}"
    );
    assert!(said.contains("asked  work  waits-for-you: `aynig answer asked`"), "{said}");
    let rows = listed(&repo.aynig_ok(["wait", "task", "parked", "main", "--json"]));
    let outcomes = [0, 1, 2].map(|at| rows[at]["outcome"].as_str().expect("a word").to_owned());
    assert_eq!(outcomes, ["rests"; 3]);
    assert_eq!((rows[0]["state"].as_str(), rows[1]["kind"].as_str()), (Some("done"), Some("parked")));
}

/// CONTRACT 11.25
#[test]
fn exit_codes_tell_trouble_from_rest() {
    let repo = Repo::scene(&[("work", "next done")]);
    repo.ready("task", "work");
    repo.ready("over", "done");
    repo.branch_with_message("stalled", b"s\n\nit broke\n\ndwp-state: stalled\n");
    repo.branch_with_message("invalid", b"s\n\ndwp-state: a b\n");
    repo.branch_with_message("parked", b"p\n\ndwp-state: work\ndwp-not-before: 2999-01-01T00:00:00Z\n");
    for (arguments, code, words) in [
        (["over"].as_slice(), 0, "over  done  rests"),
        (&["over", "--state", "d*"], 0, "over  done  reached"),
        (&["over", "--state", "review", "--state", "done"], 0, "over  done  reached"),
        (&["stalled", "--state", "stalled"], 0, "stalled  stalled  reached"),
        (&["over", "stalled"], 1, "stalled  stalled  stalled: it broke"),
        (&["invalid"], 1, "invalid  a b  invalid"),
        (&["over", "--state", "review"], 1, "over  done  rests"),
        (&["main", "--state", "done"], 1, "main  -  unmanaged"),
        (&["task", "--timeout", "0"], 124, "task  work  still under way: ready"),
        (&["task", "over", "--state", "done", "--timeout=0"], 124, "over  done  reached"),
        // It will be run.
        (&["parked", "--state", "done", "--timeout", "0"], 124, "parked  work  still under way: parked"),
    ] {
        let output = repo.aynig(["wait"].iter().chain(arguments).copied());
        assert_exit(&output, code);
        assert!(out(&output).contains(words), "{arguments:?}: {}", told(&output));
    }
    assert_refused(&repo.aynig(["wait", "tusk"]), 1, &["there is no branch tusk", "did you mean task?"]);
    assert_refused(&repo.aynig(["wait", "nothing/*"]), 1, &["nothing to wait for"]);
    assert_refused(&repo.aynig(["wait"]), 2, &["BRANCH"]);
    assert_refused(&repo.aynig(["wait", "task", "--state", "["]), 2, &["--state [ is not a glob"]);
}

/// CONTRACT 11.25
#[test]
fn a_state_that_was_passed_meanwhile_counts() {
    let repo = Repo::scene(&[("work", "next check"), ("check", "next done")]);
    repo.ready("task", "work");
    let wait = waiting(&repo, &["task", "--state", "check", "--timeout", "1m"]);
    kill(Pid::from_raw(wait.pid()), Signal::SIGSTOP).expect("it runs");
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(repo.state("task"), "done");
    kill(Pid::from_raw(wait.pid()), Signal::SIGCONT).expect("it runs");
    let output = wait.finish();
    assert_exit(&output, 0);
    assert!(
        out(&output).contains("task  check  reached at") && out(&output).contains("now done"),
        "{}",
        told(&output)
    );
    // A state that was passed before the wait does not count.
    assert_exit(&repo.aynig(["wait", "task", "--state", "check"]), 1);
}

/// CONTRACT 11.25
#[test]
fn a_branch_that_is_stalled_or_deleted_meanwhile_ends_it() {
    let repo = Repo::scene(&[("work", "exit 3")]);
    for branch in ["task", "gone"] {
        repo.ready(branch, "work");
    }
    let wait = waiting(&repo, &["task", "gone", "--state", "done"]);
    repo.git(["branch", "-D", "gone"]);
    repo.aynig(["run"]);
    let output = wait.finish();
    assert_exit(&output, 1);
    let said = out(&output);
    assert!(said.contains("task  stalled  stalled: `work` exited with 3"), "{said}");
    assert!(said.contains("gone  -  the branch is gone"), "{said}");
}

/// CONTRACT 5.34, 11.25
#[test]
fn a_deferred_state_beside_the_branch_is_waited_for() {
    let repo = Repo::scene(&[("slow", "say at $$; await release; next over"), ("work", "next done")]);
    repo.ready("task", "slow");
    let runner = repo.aynig_start(["run"]);
    repo.said("at");
    repo.aynig_ok(["set-state", "task", "--state", "work", "--when-free"]);
    repo.release("release");
    assert_exit(&runner.finish(), 0);
    assert_eq!(repo.state("task"), "over");
    assert_exit(&repo.aynig(["wait", "task", "--timeout", "0"]), 124);
    let wait = waiting(&repo, &["task"]);
    repo.aynig_ok(["run", "--drain"]);
    assert_exit(&wait.finish(), 0);
    assert_eq!(repo.state("task"), "done");
}

/// CONTRACT 11.25
#[test]
fn a_signal_ends_it_at_once() {
    let repo = Repo::scene(&[("work", "next done")]);
    repo.ready("task", "work");
    let wait = waiting(&repo, &["task"]);
    wait.signal(Signal::SIGINT);
    let output = wait.finish();
    assert!(output.status.signal() == Some(2) || output.status.code() == Some(130), "{}", told(&output));
    assert_eq!(repo.state("task"), "work");
}

/// CONTRACT 11.25
#[test]
fn a_command_does_not_wait_for_its_own_branch() {
    let repo = Repo::scene(&[(
        "work",
        "\"$AYNIG_BIN\" wait \"$AYNIG_BRANCH\" 2>\"$ROOM/said\"; echo $? >\"$ROOM/code\"; next done",
    )]);
    repo.ready("task", "work");
    repo.aynig_ok(["run"]);
    assert_eq!((repo.said("code").as_str(), repo.state("task").as_str()), ("2", "done"));
    assert!(repo.said("said").contains("its own end"));
}
