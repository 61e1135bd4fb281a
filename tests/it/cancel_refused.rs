//! `aynig cancel` where it changes nothing, or has to say more than that it asked.

use super::scene::*;
use super::support::*;

/// CONTRACT 5.31, 13.9
#[test]
fn a_source_of_commands_that_is_missing_cancels_nothing() {
    let repo = Repo::scene(&[("work", "next done")]);
    for (branch, state) in [("t-done", "done"), ("t-waits", "work")] {
        repo.ready(branch, state);
    }
    repo.git(["config", "aynig.commandsFrom", "nowhere"]);
    let heads = ["t-done", "t-waits"].map(|branch| repo.head(branch));
    for names in [&["t-*"][..], &["t-done"], &["t-waits"]] {
        let output = repo.aynig(["cancel"].into_iter().chain(names.iter().copied()));
        assert_refused(
            &output,
            3,
            &["commands are to come from nowhere", "nothing was changed", "git for-each-ref"],
        );
    }
    assert_eq!(["t-done", "t-waits"].map(|branch| repo.head(branch)), heads);
}

/// CONTRACT 11.15
#[test]
fn the_branch_of_a_workspace_is_not_cancelled() {
    let repo = Repo::scene(&[("work", "next done")]);
    repo.ready("work/fix", "work");
    let head = repo.head("work/fix");
    let output = repo.aynig(["cancel", "work/fix"]);
    assert_refused(&output, 3, &["work/fix is below work/", "nothing was changed"]);
    let output = repo.aynig_ok(["cancel", "*"]);
    assert!(err(&output).contains("nothing to cancel"), "{}", told(&output));
    assert_eq!(repo.head("work/fix"), head);
}

/// CONTRACT 5.30
#[test]
fn stall_prevails_over_a_request_to_run_it_again() {
    let repo = Repo::scene(&[("work", "trap 'say termed yes' TERM; say ready $$; await release; exit 1")]);
    repo.ready("task", "work");
    let runner = repo.aynig_start(["run", "--grace-seconds", "3600"]);
    repo.said("ready");
    repo.aynig_ok(["cancel", "task", "--requeue", "--reason", "hangs"]);
    let output = repo.aynig_ok(["cancel", "task", "--requeue"]);
    assert!(
        out(&output).contains("already asked by Test Person: its state is requested again"),
        "{}",
        told(&output)
    );
    repo.said("termed");
    let row = |more: &[&str], code| {
        let output = repo.aynig([&["cancel", "task", "--json"], more].concat());
        assert_eq!(output.status.code(), Some(code), "{}", told(&output));
        listed(&output)[0].clone()
    };
    let asked = row(&["--reason", "stop it for good"], 0);
    assert_eq!((&asked["outcome"], &asked["then"]), (&"asked".into(), &"stall".into()), "{asked}");
    assert_eq!(repo.trailer("task", "aynig-cancel"), "stall");
    for (more, code) in [(&[][..], 0), (&["--requeue"], 1)] {
        let again = row(more, code);
        assert_eq!((&again["outcome"], &again["then"]), (&"alreadyAsked".into(), &"stall".into()), "{again}");
    }
    let late = repo.aynig(["cancel", "task", "--requeue"]);
    let next =
        "the branch becomes stalled; after that, `aynig set-state --retry --branch task` requests it again";
    assert!(out(&late).contains(next), "{}", told(&late));
    repo.release("release");
    runner.finish();
    assert_eq!([repo.state("task"), repo.trailer("task", "aynig-cancel")], ["stalled", "stall"]);
    assert!(repo.message("task").contains("stop it for good"), "{}", repo.message("task"));
    repo.assert_tidy();
}

/// CONTRACT 5.30
#[test]
fn a_loop_that_ended_first_was_not_cancelled() {
    for more in [&[][..], &["--requeue"]] {
        let repo = Repo::scene(&[("poll", "say ready $$; await release; next poll")]);
        repo.ready("task", "poll");
        let runner = repo.aynig_start(["run"]);
        let command = repo.said_pid("ready");
        let signal = |signal| {
            nix::sys::signal::kill(nix::unistd::Pid::from_raw(runner.pid()), signal).expect("it runs");
        };
        signal(nix::sys::signal::Signal::SIGSTOP);
        let waiting = repo.aynig_start([&["cancel", "task", "--wait"], more].concat());
        wait_until("the request", || !repo.trailer("task", "aynig-cancel").is_empty());
        repo.release("release");
        command.gone();
        signal(nix::sys::signal::Signal::SIGCONT);
        let output = waiting.finish();
        assert_eq!(output.status.code(), Some(1), "{}", told(&output));
        assert!(out(&output).contains("ended first: the branch is in the state poll"), "{}", told(&output));
        runner.finish();
    }
}
