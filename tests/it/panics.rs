//! A panic in any thread of a runner: it stops its commands, saves their work and exits with 70. It never
//! hangs, and signals still stop it (CONTRACT 10.5).

use std::os::unix::process::ExitStatusExt;
use std::process::Output;

use nix::sys::signal::Signal;

use super::scene::*;
use super::support::*;

/// Leaves uncommitted work, and exits on SIGTERM once it has reported ready.
const WORKS: &str = r#"
trap 'say "cleaned-$AYNIG_BRANCH" yes; exit 0' TERM
echo staged >staged.txt; git add staged.txt; echo loose >loose.txt
say "ready-$AYNIG_BRANCH" $$
await never
"#;

/// Waits for its release and declares the next state.
const ENDS: &str = "say \"ready-$AYNIG_BRANCH\" $$\nawait release\nnext done";

fn start(repo: &Repo, crash: &str, arguments: &[&str]) -> Running {
    let mut command = repo.aynig_command();
    command.env("AYNIG_CRASH_AT", crash).arg("run").args(arguments);
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    Running::start(&mut command)
}

/// Asserts the exit code of a bug, and the advice.
fn assert_failed(output: &Output) {
    assert_eq!(output.status.code(), Some(70), "{}", told(output));
    let said = err(output);
    for words in ["panicked at", "error: aynig failed", "aynig status --all", "aynig --version"] {
        assert!(said.contains(words), "{words:?} is missing: {}", told(output));
    }
}

/// Asserts that the branch was stopped because of the runner's bug, and that its work was saved.
fn assert_stopped(repo: &Repo, branch: &str) {
    assert_eq!(repo.state(branch), "stalled", "{branch}");
    let message = repo.message(branch);
    assert!(message.contains("its runner failed"), "{message}");
    let rescue = repo.rescues().into_iter().find(|name| name.contains(&format!("/{branch}/")));
    let rescue = rescue.unwrap_or_else(|| panic!("nothing was saved for {branch}: {message}"));
    assert_eq!(repo.show(&format!("{rescue}:loose.txt")), "loose");
    assert_eq!(repo.show(&format!("{rescue}:staged.txt")), "staged");
}

/// CONTRACT 10.5
#[test]
fn a_panic_of_one_step_stops_the_others() {
    let repo = Repo::scene(&[("ends", ENDS), ("works", WORKS)]);
    repo.ready("one", "ends");
    repo.ready("two", "works");
    repo.ready("waiting", "works");
    let runner = start(&repo, "command-ended:panic", &["--jobs", "2", "--grace-seconds", "3600", "--drain"]);
    let (one, two) = (repo.said_pid("ready-one"), repo.said_pid("ready-two"));
    repo.release("release");
    let output = runner.finish();
    assert_failed(&output);
    assert!(!one.lives() && !two.lives());
    assert_eq!(repo.said("cleaned-two"), "yes", "it has its grace");
    assert_stopped(&repo, "two");
    assert_eq!(repo.state("one"), "stalled", "{}", told(&output));
    assert_eq!(repo.state("waiting"), "works", "nothing more is claimed");
    repo.assert_tidy();
}

/// CONTRACT 10.5
#[test]
fn a_panic_over_the_lease_leaves_the_command_its_grace() {
    let repo = Repo::scene(&[("works", WORKS)]);
    repo.ready("task", "works");
    let runner = start(&repo, "renewal-written:panic", &["--lease-seconds", "9", "--grace-seconds", "3600"]);
    let command = repo.said_pid("ready-task");
    let output = runner.finish();
    assert_failed(&output);
    assert!(!command.lives());
    assert_eq!(repo.said("cleaned-task"), "yes");
    assert_stopped(&repo, "task");
    repo.assert_tidy();
}

#[test]
fn a_command_whose_watcher_panics_is_stopped() {
    let repo = Repo::scene(&[("waits", "await never")]);
    repo.ready("task", "waits");
    let output = start(&repo, "command-watched:panic", &["--grace-seconds", "3600"]).finish();
    assert_failed(&output);
    assert_eq!(repo.state("task"), "stalled", "{}", told(&output));
    repo.assert_tidy();

    // Also if the command was already being stopped: it keeps the rest of its grace period.
    let repo = Repo::scene(&[("works", WORKS)]);
    repo.ready("task", "works");
    let runner = start(&repo, "command-watched:panic:2", &["--grace-seconds", "3600"]);
    let command = repo.said_pid("ready-task");
    runner.signal(Signal::SIGTERM);
    assert_failed(&runner.finish());
    assert!(!command.lives());
    assert_eq!(repo.said("cleaned-task"), "yes");
    assert_stopped(&repo, "task");
    repo.assert_tidy();
}

#[test]
fn a_panic_of_the_thread_that_claims_stops_what_runs() {
    let repo = Repo::scene(&[("ends", ENDS), ("works", WORKS)]);
    repo.ready("one", "ends");
    repo.ready("two", "works");
    repo.ready("waiting", "works");
    let runner = start(&repo, "lease-moved:panic:2", &["--jobs", "2", "--grace-seconds", "3600"]);
    let (_one, two) = (repo.said_pid("ready-one"), repo.said_pid("ready-two"));
    repo.release("release");
    let output = runner.finish();
    assert_failed(&output);
    assert!(!two.lives());
    assert_eq!(repo.state("one"), "done", "{}", told(&output));
    assert_stopped(&repo, "two");
    assert_eq!(repo.state("waiting"), "working", "its lease runs out by itself");
    repo.assert_tidy();
}

#[test]
fn a_panic_in_the_settlement_leaves_the_lease_to_run_out() {
    let repo = Repo::scene(&[(
        "works",
        "echo loose >loose.txt; echo staged >staged.txt; git add staged.txt; exit 1",
    )]);
    repo.ready("task", "works");
    let output = start(&repo, "rescue-written:panic", &["--lease-seconds", "5"]).finish();
    assert_failed(&output);
    assert_eq!(repo.state("task"), "working", "{}", told(&output));
    assert!(out(&output).contains("when the lease ends"), "{}", told(&output));
    repo.run_until("task", "stalled", &["run"]);
    assert_eq!(repo.show(&format!("{}:loose.txt", repo.rescue())), "loose");
    repo.assert_tidy();
}

#[test]
fn those_who_wait_for_a_push_that_panics_are_answered() {
    let hub = Repo::scene(&[("ends", ENDS)]);
    for branch in ["one", "two", "three"] {
        hub.ready(branch, "ends");
    }
    let hub = hub.into_bare();
    let laptop = hub.clone_beside("laptop");
    // The first push carries the claims.
    let arguments = ["--remote", "origin", "--jobs", "3", "--lease-seconds", "600"];
    let runner = start(&laptop, "push-begun:panic:2", &arguments);
    for branch in ["one", "two", "three"] {
        hub.said(&format!("ready-{branch}"));
    }
    hub.release("release");
    let output = runner.finish();
    assert_failed(&output);
    for branch in ["one", "two", "three"] {
        assert!(["working", "done", "stalled"].contains(&hub.state(branch).as_str()), "{}", told(&output));
    }
}

#[test]
fn signals_still_end_a_runner_that_panicked() {
    let deaf = "trap 'say termed yes' TERM\nsay ready $$\nawait never";
    let repo = Repo::scene(&[("ends", ENDS), ("deaf", deaf)]);
    repo.ready("one", "ends");
    repo.ready("two", "deaf");
    let runner = start(&repo, "command-ended:panic", &["--jobs", "2", "--grace-seconds", "3600"]);
    let (_one, two) = (repo.said_pid("ready-one"), repo.said_pid("ready"));
    repo.release("release");
    repo.said("termed");
    runner.signal(Signal::SIGTERM);
    let output = runner.finish();
    assert_failed(&output);
    assert!(!two.lives());
    assert_eq!(repo.state("two"), "stalled");
    repo.assert_tidy();
}

/// A runner that has panicked may hang: here in a git filter that its rescue needs.
#[test]
fn a_runner_that_hangs_after_a_panic_dies_of_the_second_signal() {
    let repo = Repo::scene(&[("works", "echo '*.txt filter=slow' >.gitattributes; echo x >x.txt; exit 1")]);
    let room = repo.beside("");
    let filter = format!(
        "trap '' TERM; cd '{}'; cat; echo $$ >.f; mv .f filtering; until [ -e never ]; do [ -d . ] || exit; sleep 0.05; done",
        room.display()
    );
    repo.git(["config", "filter.slow.clean", &filter]);
    repo.ready("task", "works");
    let runner = start(&repo, "command-ended:panic", &["--grace-seconds", "0"]);
    let filtering = repo.said_pid("filtering");
    runner.signal(Signal::SIGTERM);
    wait_until("the runner to die", || {
        runner.signal(Signal::SIGINT);
        !is_alive(runner.pid())
    });
    let output = runner.finish();
    assert!([Some(2), Some(15)].contains(&output.status.signal()), "{}", told(&output));
    assert!(filtering.lives(), "it did hang");
}

#[test]
fn a_watch_ends_after_a_panic() {
    let repo = Repo::scene(&[("ends", "next done")]);
    repo.ready("task", "ends");
    let output = start(&repo, "command-ended:panic", &["--watch=3600"]).finish();
    assert_failed(&output);
    assert_eq!(repo.state("task"), "stalled");
    repo.assert_tidy();
}

#[test]
fn a_panic_over_a_notice_does_not_keep_the_run_from_ending() {
    let repo = Repo::scene(&[("fails", "exit 1")]);
    repo.git(["config", "aynig.notify", "cat"]);
    repo.git(["config", "aynig.notifySeconds", "3600"]);
    repo.ready("task", "fails");
    let output = start(&repo, "notice-taken:panic", &[]).finish();
    assert_failed(&output);
    assert!(err(&output).contains("was not run because of a bug"), "{}", told(&output));
    assert_eq!(repo.state("task"), "stalled");
    repo.assert_tidy();
}

#[test]
fn every_subcommand_ends_with_70_after_a_panic() {
    let repo = Repo::new();
    let mut command = repo.aynig_command();
    command.env("AYNIG_CRASH_AT", "ref-locked:panic").args(["set-state", "--branch", "main", "--state", "x"]);
    let output = command.output().expect("it runs");
    assert_failed(&output);
    assert_eq!(repo.state("main"), "");
    repo.assert_tidy();
}
