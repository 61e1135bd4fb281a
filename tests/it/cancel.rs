//! `aynig cancel`: a request on the lease, which its holder hears, and a branch that waits is set stalled.

use super::scene::*;
use super::support::*;

/// Writes unfinished work, then waits.
const WORK: &str = "echo draft >draft; say ready $$; await release; next done";

fn repo(script: &str) -> Repo {
    let repo = Repo::scene(&[("work", script)]);
    repo.ready("task", "work");
    repo
}

/// Another person.
fn cancel(repo: &Repo, arguments: &[&str]) -> std::process::Output {
    let mut command = repo.aynig_command();
    command.env("GIT_AUTHOR_NAME", "Jane").arg("cancel").args(arguments).output().expect("aynig runs")
}

fn assert_exit(output: &std::process::Output, code: i32) {
    assert_eq!(output.status.code(), Some(code), "{}", told(output));
}

/// CONTRACT 5.30
#[test]
fn the_holder_stops_saves_the_work_and_says_who_asked() {
    let repo = repo(WORK);
    let runner = repo.aynig_start(["run"]);
    let command = repo.said_pid("ready");
    let (lease, run) = (repo.head("task"), repo.trailer("task", "dwp-run-id"));
    let output = cancel(&repo, &["task", "--reason", "wrong branch", "--wait"]);
    assert_exit(&output, 0);
    assert!(!out(&output).contains("., "), "one sentence: {}", told(&output));
    assert_exit(&runner.finish(), 1);
    assert!(!command.lives());
    let saved = repo.rescue();
    assert!(out(&output).contains(&format!("asked {} on", &run[..8])), "{}", told(&output));
    assert!(out(&output).contains(&format!("work saved as {saved}")), "{}", told(&output));
    let line = repo.linear(&format!("{lease}..task"));
    let request = line.first().expect("a request").as_str();
    assert_eq!([repo.state(request), repo.trailer(request, "aynig-cancel")], ["working", "stall"]);
    assert_eq!(repo.trailer(request, "dwp-run-id"), run);
    assert_eq!(repo.git(["log", "-1", "--format=%an", request]), "Jane");
    let left: u64 = repo.trailer(request, "dwp-lease-seconds").parse().expect("a number");
    assert!((1..=300).contains(&left), "{left}");
    assert_eq!([repo.state("task"), repo.trailer("task", "dwp-stalled-run")], ["stalled".to_owned(), run]);
    let message = repo.message("task");
    assert!(message.contains("`work` was cancelled by Jane: wrong branch."), "{message}");
    assert!(message.contains(&saved), "{message}");
    let log = out(&repo.aynig_ok(["log", "task"]));
    assert!(log.contains("cancel   asked by Jane: wrong branch\n") && !log.contains("renewed"), "{log}");
    let titles = repo.git(["log", "-3", "--format=%s", "task"]);
    let stalled = "stalled: `work` was cancelled by Jane: wrong branch";
    assert_eq!(titles, format!("{stalled}\ncancel: work\nworking: work (test-host)"));
    let log = out(&repo.aynig_ok(["log", "task", "--json"]));
    assert!(log.contains(r#""cancelBy":"Jane","cancelReason":"wrong branch""#), "{log}");
    repo.assert_tidy();
}

/// CONTRACT 5.30, 6.14
#[test]
fn with_requeue_the_state_is_asked_for_again() {
    let repo = repo(WORK);
    let trigger = repo.message("task");
    let runner = repo.aynig_start(["run"]);
    repo.said("ready");
    let output = cancel(&repo, &["--branch", "task", "--requeue", "--wait", "--timeout", "60s"]);
    assert_exit(&output, 0);
    let ran = runner.finish();
    assert_exit(&ran, 0);
    let saved = repo.rescue();
    assert_eq!(repo.message("task").trim(), format!("{}\naynig-rescued: {saved}", trigger.trim()));
    assert!(out(&output).contains("asked again, work saved as"), "{}", told(&output));
    assert!(out(&ran).contains("was cancelled by Jane"), "{}", told(&ran));
    repo.assert_tidy();
}

/// CONTRACT 5.30
#[test]
fn who_asks_again_is_told_who_asked_and_status_shows_it() {
    let repo = repo("trap 'say termed yes' TERM; say ready $$; await release; next done");
    let runner = repo.aynig_start(["run", "--grace-seconds", "3600", "--lease-seconds", "2"]);
    repo.said("ready");
    assert_exit(&cancel(&repo, &["task", "--reason", "enough"]), 0);
    let output = cancel(&repo, &["task"]);
    assert_exit(&output, 0);
    assert!(out(&output).contains("already asked by Jane: the branch becomes stalled"), "{}", told(&output));
    let status = out(&repo.aynig_ok(["status", "task"]));
    assert!(status.contains("cancel asked by Jane: enough"), "{status}");
    repo.said("termed");
    // The lease is kept while the command has its grace.
    let head = repo.head("task");
    wait_until("two renewals", || repo.linear(&format!("{head}..task")).len() >= 2);
    let output = cancel(&repo, &["task", "--wait", "--timeout", "1s"]);
    assert_exit(&output, 1);
    assert!(out(&output).contains("still under way after 1 s"), "{}", told(&output));
    repo.release("release");
    assert_exit(&runner.finish(), 1);
    assert_eq!(repo.state("task"), "stalled", "a state that was declared after the request is ignored");
}

/// CONTRACT 5.30, 6.12
#[test]
fn a_command_that_ended_first_has_its_end() {
    let repo = repo("say ready $$; await release; next done");
    let runner = repo.aynig_start(["run"]);
    repo.said("ready");
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(runner.pid()), nix::sys::signal::Signal::SIGSTOP)
        .expect("it runs");
    assert_exit(&cancel(&repo, &["task"]), 0);
    repo.release("release");
    let command = repo.said_pid("ready");
    wait_until("the end of the command", || !is_alive(command.0));
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(runner.pid()), nix::sys::signal::Signal::SIGCONT)
        .expect("it runs");
    let output = runner.finish();
    // Which the runner hears first is open. Nothing in between is.
    let state = repo.state("task");
    assert!(["done", "stalled"].contains(&state.as_str()), "{state}: {}", told(&output));
    assert!(!repo.message("task").contains("somebody pushed"), "{}", repo.message("task"));
}

/// CONTRACT 5.31
#[test]
fn a_branch_that_waits_is_stalled_and_others_say_why_not() {
    let repo = repo(WORK);
    let later = "later\n\ndwp-state: work\ndwp-not-before: 2999-01-01T00:00:00Z\n";
    repo.branch_with_message("parked", later.as_bytes());
    repo.ready("finished", "done");
    repo.git(["branch", "plain", "main"]);
    for branch in ["task", "parked"] {
        let before = repo.head(branch);
        assert_exit(&cancel(&repo, &[branch, "--requeue"]), 0);
        assert_eq!(repo.head(branch), before, "nothing to do");
        assert_exit(&cancel(&repo, &[branch, "--reason", "not now"]), 0);
        assert_eq!([repo.state(branch), repo.trailer(branch, "dwp-origin-state")], ["stalled", "work"]);
        let message = repo.message(branch);
        assert!(message.contains("Cancelled by Jane: not now\n") && message.contains("--retry"), "{message}");
        let again = cancel(&repo, &[branch]);
        assert_exit(&again, 0);
        assert!(out(&again).contains("it is stalled already"), "{}", told(&again));
    }
    for (branch, words) in [("finished", "its state done has no command"), ("plain", "declares no state")] {
        let before = repo.head(branch);
        for more in [&[][..], &["--requeue"], &["--wait"], &["feature/*"]] {
            let output = cancel(&repo, &[&[branch], more].concat());
            assert_exit(&output, 0);
            assert!(out(&output).contains(words), "{}", told(&output));
            assert_eq!(repo.head(branch), before);
        }
    }
    // It was to be requested again, and is not.
    assert_exit(&cancel(&repo, &["task", "--requeue"]), 1);
    assert_exit(&cancel(&repo, &["tusk"]), 1);
    assert_exit(&repo.aynig(["run"]), 0);
    repo.aynig_ok(["set-state", "--retry", "--branch", "task"]);
    assert_eq!(repo.state("task"), "work");
}

/// CONTRACT 5.31
#[test]
fn globs_name_those_that_are_leased_or_wait() {
    let repo = repo(WORK);
    for branch in ["feature/a", "feature/b"] {
        repo.ready(branch, "work");
    }
    repo.ready("feature/c", "done");
    repo.ready("feature/d", "stalled");
    let output = cancel(&repo, &["feature/*", "--json"]);
    assert_exit(&output, 0);
    let rows = listed(&output);
    let named: Vec<&str> =
        rows.as_array().expect("a list").iter().filter_map(|row| row["branch"].as_str()).collect();
    assert_eq!(named, ["feature/a", "feature/b"], "a glob passes over what rests");
    assert_eq!(
        [repo.state("feature/a"), repo.state("feature/b"), repo.state("task")],
        ["stalled", "stalled", "work"]
    );
    let again = cancel(&repo, &["feature/*"]);
    assert_exit(&again, 0);
    assert!(err(&again).contains("the 4 branches that match rest: nothing to cancel"), "{}", told(&again));
    assert_eq!(listed(&cancel(&repo, &["feature/*", "--json"])), serde_json::json!([]));
    assert_refused(&cancel(&repo, &["nothing/*"]), 1, &["no branch matches"]);
    assert_exit(&cancel(&repo, &[]), 2);
}

/// CONTRACT 5.5, 5.30
#[test]
fn the_recovery_of_a_dead_holder_names_the_request() {
    let repo = repo("trap '' TERM; say ready $$; await release");
    let runner = repo.aynig_start(["run", "--lease-seconds", "4", "--no-heartbeat"]);
    let command = repo.said_pid("ready");
    let until = now() + 4;
    runner.signal(nix::sys::signal::Signal::SIGKILL);
    runner.finish();
    command.gone();
    let output = cancel(&repo, &["task", "--reason", "enough", "--wait"]);
    assert_exit(&output, 1);
    assert!(out(&output).contains("its runner did not answer"), "{}", told(&output));
    assert!(now() <= until + 3, "the request did not lengthen the lease");
    assert_exit(&cancel(&repo, &["task"]), 1);
    repo.aynig(["run"]);
    let message = repo.message("task");
    assert_eq!(repo.state("task"), "stalled");
    assert!(message.contains("Before that, it was cancelled by Jane: enough."), "{message}");
    assert_eq!(repo.trailer("task", "aynig-cancel"), "stall");
}

/// CONTRACT 5.30
#[test]
fn a_command_does_not_cancel_itself() {
    let repo =
        repo("\"$AYNIG_BIN\" cancel \"$AYNIG_BRANCH\" 2>\"$ROOM/said\"; echo $? >\"$ROOM/code\"; next done");
    repo.aynig_ok(["run"]);
    assert_eq!((repo.said("code").as_str(), repo.state("task").as_str()), ("2", "done"));
    assert!(repo.said("said").contains("exit with a code other than 0"));
}

/// CONTRACT 5.33, 5.36
#[test]
fn no_command_for_stalled_starts_it_again() {
    let repo = Repo::scene(&[("work", WORK), ("stalled", "echo ran >>\"$ROOM/ran\"; next work")]);
    repo.ready("task", "work");
    repo.ready("waits", "work");
    repo.ready("failed", "stalled");
    let runner = repo.aynig_start(["run", "--branch", "task"]);
    repo.said("ready");
    for branch in ["task", "waits", "failed"] {
        assert_exit(&cancel(&repo, &[branch, "--reason", "enough"]), 0);
    }
    assert_exit(&runner.finish(), 1);
    let heads = ["task", "waits", "failed"].map(|branch| repo.head(branch));
    assert_exit(&repo.aynig(["run", "--drain"]), 0);
    assert_eq!(["task", "waits", "failed"].map(|branch| repo.head(branch)), heads);
    assert_eq!(repo.noted_lines("ran").len(), 0);
    for branch in ["task", "waits", "failed"] {
        assert_eq!([repo.state(branch), repo.trailer(branch, "aynig-cancel")], ["stalled", "stall"]);
        let row = &listed(&repo.aynig_ok(["status", branch, "--json"]))[0];
        assert_eq!((&row["kind"], &row["cause"]), (&"stalled".into(), &"cancelled".into()), "{row}");
        let text = out(&repo.aynig_ok(["status", branch]));
        assert!(text.contains("ancelled by Jane: enough") && text.contains("--retry --branch"), "{text}");
        let again = cancel(&repo, &[branch]);
        assert!(out(&again).contains("it is stalled already"), "{}", told(&again));
    }
    // A person requests it anew, or has left a state for a branch that rests.
    repo.release("release");
    repo.aynig_ok(["set-state", "--retry", "task"]);
    assert_eq!(repo.trailer("task", "aynig-cancel"), "");
    repo.aynig_ok(["set-state", "waits", "--state", "work", "--when-free"]);
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!([repo.state("task"), repo.state("waits"), repo.state("failed")], ["done", "done", "stalled"]);
    repo.assert_tidy();
}

/// CONTRACT 5.31, 6.3
#[test]
fn a_kept_lease_has_nobody_to_ask() {
    let repo = repo("exit 0");
    repo.aynig(["run"]);
    let run = repo.trailer("task", "dwp-run-id");
    assert_eq!(repo.state("task"), "working");
    assert_exit(&cancel(&repo, &["task"]), 0);
    assert_eq!([repo.state("task"), repo.trailer("task", "dwp-stalled-run")], ["stalled".to_owned(), run]);
}

/// CONTRACT 5.30, 6.14
#[test]
fn a_stop_of_the_runner_is_no_answer_to_a_request() {
    let repo = repo("trap 'say termed yes' TERM; say ready $$; await release; exit 1");
    let runner = repo.aynig_start(["run", "--grace-seconds", "3600"]);
    repo.said("ready");
    runner.signal(nix::sys::signal::Signal::SIGTERM);
    repo.said("termed");
    assert_exit(&cancel(&repo, &["task"]), 0);
    repo.release("release");
    assert_exit(&runner.finish(), 143);
    assert_eq!(repo.state("task"), "stalled");
    assert!(repo.message("task").contains("cancelled by Jane"), "{}", repo.message("task"));
}

/// Asks to cancel while the runner is stopped, and then ends the command, or the runner if the command waits for ever.
fn unheard(script: &str, settings: &[(&str, &str)], arguments: &[&str]) -> Repo {
    let repo = Repo::scene(&[("work", script), ("stalled", "echo ran >>\"$ROOM/ran\"; next work")]);
    for (key, value) in settings {
        repo.git(["config", key, value]);
    }
    repo.ready("task", "work");
    let runner = repo.aynig_start(["run"]);
    repo.said("ready");
    let signal = |signal| {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(runner.pid()), signal).expect("it runs");
    };
    signal(nix::sys::signal::Signal::SIGSTOP);
    assert_exit(&cancel(&repo, &[&["task", "--reason", "enough"], arguments].concat()), 0);
    if script.contains("release") {
        let command = repo.said_pid("ready");
        repo.release("release");
        wait_until("the end of the command", || !is_alive(command.0));
    } else {
        signal(nix::sys::signal::Signal::SIGTERM);
    }
    signal(nix::sys::signal::Signal::SIGCONT);
    runner.finish();
    repo
}

/// What was cancelled stays so: no command for `stalled` starts it again.
fn assert_cancelled(repo: &Repo) {
    let message = repo.message("task");
    assert_eq!([repo.state("task"), repo.trailer("task", "aynig-cancel")], ["stalled", "stall"], "{message}");
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(repo.noted_lines("ran").len(), 0);
}

/// CONTRACT 5.30, 5.36, 6.14
#[test]
fn a_request_that_meets_the_stop_of_the_runner_is_marked() {
    const WAITS: &str = "say ready $$; await forever";
    for settings in [&[][..], &[("aynig.onInterrupt", "stall")], &[("aynig.interruptRetries", "0")]] {
        let repo = unheard(WAITS, settings, &[]);
        assert!(repo.message("task").contains("was cancelled by Jane: enough"), "{}", repo.message("task"));
        assert_cancelled(&repo);
    }
    let repo = unheard(WAITS, &[("aynig.onInterrupt", "stall")], &["--requeue"]);
    assert_eq!(
        [repo.state("task"), repo.trailer("task", "aynig-interrupted")],
        ["work".to_owned(), String::new()]
    );
}

/// CONTRACT 5.30, 5.36
#[test]
fn a_command_that_fails_under_a_request_stays_stalled() {
    // Which the runner hears first is open.
    assert_cancelled(&unheard("say ready $$; await release; exit 3", &[], &[]));
}

/// CONTRACT 5.30, 6.3
#[test]
fn no_lease_is_kept_above_a_request() {
    let leaves = "(trap '' TERM; say left $BASHPID; await forever) >/dev/null 2>&1 & await left; say ready $$; await release";
    let repo = unheard(leaves, &[], &[]);
    assert!(repo.message("task").contains("was cancelled by Jane: enough"), "{}", repo.message("task"));
    assert_cancelled(&repo);
}

/// CONTRACT 5.31, 11.21
#[test]
fn a_question_is_cancelled_whether_its_state_has_a_command_or_not() {
    let repo = repo(WORK);
    for (branch, state) in [("without", "approval"), ("with", "work")] {
        let asks = format!("please\n\ndwp-state: {state}\ndwp-waits-for: ana\n");
        repo.branch_with_message(branch, asks.as_bytes());
        assert_exit(&cancel(&repo, &[branch, "--requeue"]), 0);
        assert_exit(&cancel(&repo, &[&branch.replace("with", "w*th"), "--reason", "not needed"]), 0);
        assert_eq!([repo.state(branch), repo.trailer(branch, "dwp-origin-state")], ["stalled", state]);
        repo.aynig_ok(["set-state", branch, "--retry"]);
        assert_eq!([repo.state(branch), repo.trailer(branch, "dwp-waits-for")], [state, "ana"]);
    }
}

/// CONTRACT 5.30
#[test]
fn the_log_of_a_running_attempt_says_asked_and_not_cancelled() {
    let repo = repo("trap 'say termed yes' TERM; say ready $$; await release; next done");
    let runner = repo.aynig_start(["run", "--grace-seconds", "3600"]);
    repo.said("ready");
    assert_exit(&cancel(&repo, &["task", "--requeue", "--reason", "again, please"]), 0);
    let log = out(&repo.aynig_ok(["log", "task"]));
    assert!(log.contains("cancel   asked by Jane, to run it again: again, please\n"), "{log}");
    assert!(!log.contains("cancelled") && !log.contains("renewed"), "{log}");
    assert_eq!(repo.git(["log", "-1", "--format=%s", "task"]), "cancel: work, to run it again");
    repo.said("termed");
    repo.release("release");
    assert_exit(&runner.finish(), 0);
    assert_eq!(repo.state("task"), "work");
}

/// CONTRACT 5.30
#[test]
fn a_lease_by_hand_keeps_the_request_for_its_recovery() {
    let repo = repo(WORK);
    repo.aynig_ok(["set-working", "task", "--lease-seconds", "2"]);
    assert_exit(&cancel(&repo, &["task", "--reason", "enough"]), 0);
    let status = out(&repo.aynig_ok(["status", "task"]));
    assert!(status.contains("cancel asked by Jane: enough"), "{status}");
    wait_until("the end of the lease", || {
        repo.aynig(["run"]);
        repo.state("task") == "stalled"
    });
    assert!(repo.message("task").contains("cancelled by Jane: enough"), "{}", repo.message("task"));
    assert_eq!(repo.trailer("task", "aynig-cancel"), "stall");
}
