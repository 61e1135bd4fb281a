//! A command that did not finish because its runner was stopped: its state is requested again, a few times in a row.

use nix::sys::signal::Signal;

use super::scene::*;
use super::support::*;

/// Writes unfinished work, then waits.
const WORK: &str =
    "echo draft >draft; git add draft; echo more >>draft; say ready $$; await release; next done";

/// A request with trailers of all kinds.
const ASK: &str =
    "build: the parser\n\nDo it.\nAll of it.\n\ndwp-state: work\nx: y\ndwp-pr: 7\naynig-note: once\n";

fn asked(script: &str) -> Repo {
    let repo = Repo::scene(&[("work", script), ("stalled", script)]);
    repo.branch_with_message("task", ASK.as_bytes());
    repo
}

/// Runs until the command is at work, and stops the runner.
fn interrupt(repo: &Repo, arguments: &[&str]) -> std::process::Output {
    std::fs::remove_file(repo.beside("ready")).ok();
    let runner = repo.aynig_start(arguments.iter().copied());
    let command = repo.said_pid("ready");
    runner.signal(Signal::SIGTERM);
    let output = runner.finish();
    assert_eq!(output.status.code(), Some(143), "{}", told(&output));
    assert!(!command.lives());
    output
}

/// CONTRACT 6.14, 6.15
#[test]
fn the_branch_goes_back_to_what_was_asked_for() {
    let repo = asked(WORK);
    let tree = repo.git(["rev-parse", "task^{tree}"]);
    let output = interrupt(&repo, &["run", "--json"]);
    let saved = repo.rescue();
    let again = ASK.replace("aynig-note: once", &format!("aynig-interrupted: 1\naynig-rescued: {saved}"));
    assert_eq!(repo.message("task").trim_end(), again.trim_end());
    assert_eq!(repo.git(["rev-parse", "task^{tree}"]), tree);
    assert_eq!(repo.show(&format!("{saved}:draft")), "draft\nmore");
    let summary: serde_json::Value =
        serde_json::from_str(out(&output).lines().last().expect("a summary")).expect("JSON");
    let step = &summary["steps"][0];
    assert_eq!(
        (step["outcome"].as_str(), step["state"].as_str()),
        (Some("requeued"), Some("work")),
        "{step:#}"
    );
    assert_eq!(step["rescueRef"].as_str(), Some(saved.as_str()));
    let reason = step["reason"].as_str().expect("a reason");
    assert!(reason.contains("SIGTERM") && reason.contains("asked again (1 of 3)"), "{reason}");
    assert_eq!(reason.matches("interrupted").count(), 1, "{reason}");

    let row = &listed(&repo.aynig_ok(["status", "task", "--json"]))[0];
    assert_eq!((row["kind"].as_str(), row["interrupted"].as_u64()), (Some("ready"), Some(1)), "{row:#}");
    assert_eq!(row["rescueRef"].as_str(), Some(saved.as_str()));
    let status = out(&repo.aynig_ok(["status", "task"]));
    assert!(status.contains("interrupted, asked again (1 of 3)") && status.contains(&saved), "{status}");
    let log = out(&repo.aynig_ok(["log", "task"]));
    assert!(log.contains("interrupted, asked again (1 of 3)") && log.contains(&saved), "{log}");
    let log = out(&repo.aynig_ok(["log", "task", "--json"]));
    assert!(log.contains(r#""outcome":"requeued""#), "{log}");
    repo.assert_tidy();
}

/// CONTRACT 6.14
#[test]
fn a_few_times_in_a_row_then_it_stalls() {
    let repo = asked(WORK);
    repo.git(["config", "aynig.interruptRetries", "2"]);
    for times in ["1", "2"] {
        interrupt(&repo, &["run"]);
        assert_eq!(
            (repo.state("task"), repo.trailer("task", "aynig-interrupted")),
            ("work".into(), times.into())
        );
    }
    interrupt(&repo, &["run"]);
    assert_eq!(
        (repo.state("task"), repo.trailer("task", "dwp-origin-state")),
        ("stalled".into(), "work".into())
    );
    let message = repo.message("task");
    assert!(
        message.contains("it was interrupted 2 times in a row before (aynig.interruptRetries is 2)"),
        "{message}"
    );
    assert!(message.contains("set-state --retry"), "{message}");
    // A person asks again: the count begins anew.
    repo.aynig_ok(["set-state", "--retry", "--branch", "task"]);
    assert_eq!(repo.trailer("task", "aynig-interrupted"), "");
    assert_eq!([repo.trailer("task", "x"), repo.trailer("task", "dwp-pr")], ["y", "7"]);
    interrupt(&repo, &["run"]);
    assert_eq!(repo.trailer("task", "aynig-interrupted"), "1");
    repo.assert_tidy();
}

#[test]
fn retry_takes_globs_and_means_the_stalled_ones() {
    let repo = asked(WORK);
    let ask = ASK.replace("aynig-note: once\n", "");
    for branch in ["feature/a", "feature/b", "feature/c"] {
        repo.branch_with_message(branch, ask.as_bytes());
    }
    repo.branch_with_message("feature/odd", b"chore: set stalled\n\ndwp-state: stalled\n");
    let never = repo.head("feature/odd");
    for branch in ["feature/a", "feature/b"] {
        repo.aynig_ok(["set-state", "--state", "stalled", "--branch", branch]);
    }
    let running = repo.head("feature/c");
    let output = repo.aynig(["set-state", "--retry", "feature/*"]);
    assert_eq!(output.status.code(), Some(1), "nothing was ever asked on one: {}", told(&output));
    assert_eq!(out(&output).lines().count(), 2, "{}", told(&output));
    assert_eq!(err(&output).matches("error:").count(), 1, "{}", told(&output));
    assert_eq!([repo.head("feature/odd"), repo.head("feature/c")], [never, running.clone()]);
    for branch in ["feature/a", "feature/b"] {
        assert_eq!(repo.message(branch).trim(), ask.trim());
        repo.aynig_ok(["set-state", "--state", "stalled", "--branch", branch]);
    }
    let rows = listed(&repo.aynig_ok(["set-state", "--retry", "--branch", "feature/[ab]", "--json"]));
    assert_eq!(rows.as_array().map(Vec::len), Some(2), "{rows}");
    assert_eq!(repo.aynig(["set-state", "--retry", "feature/[ab]"]).status.code(), Some(1), "none is left");
    // A name means that branch, stalled or not.
    repo.aynig_ok(["set-state", "--retry", "feature/c"]);
    assert_ne!(repo.head("feature/c"), running);
    assert_eq!(repo.aynig(["set-state", "--state", "x", "feature/*"]).status.code(), Some(2));
}

#[test]
fn retry_of_a_glob_names_the_parked_ones_that_it_leaves_out() {
    let repo = asked(WORK);
    let ask = ASK.replace("aynig-note: once\n", "");
    let parked = ask.replace("x: y", "dwp-not-before: 2999-01-01T00:00:00Z");
    for branch in ["feature/a", "feature/it's", "feature/c"] {
        repo.branch_with_message(
            branch,
            if branch == "feature/a" { ask.as_bytes() } else { parked.as_bytes() },
        );
    }
    repo.branch_with_message("feature/asks", format!("{parked}dwp-waits-for: ana\n").as_bytes());
    repo.aynig_ok(["set-state", "--state", "stalled", "--branch", "feature/a"]);
    let output = repo.aynig_ok(["set-state", "--retry", "feature/*"]);
    assert_eq!(out(&output).lines().count(), 1, "{}", told(&output));
    let command = "`aynig set-state --retry feature/c 'feature/it'\\''s'`";
    for words in ["2 parked branches match and stay parked", "requests them now", command] {
        assert!(err(&output).contains(words), "{}", told(&output));
    }
    let none = repo.aynig(["set-state", "--retry", "feature/[ci]*"]);
    assert_refused(&none, 1, &["no stalled branch matches", "2 parked branches match", command]);
    repo.aynig_ok(["set-state", "--retry", "feature/c", "feature/it's"]);
    assert_eq!(
        [repo.trailer("feature/c", "dwp-not-before"), repo.trailer("feature/asks", "dwp-state")],
        ["", "work"]
    );
    // A bound parks a branch as well.
    let repo = Repo::scene(&[("loop", "next loop")]);
    repo.git(["config", "aynig.maxSteps", "2"]);
    repo.ready("round", "loop");
    repo.aynig(["run", "--drain"]);
    let words =
        ["1 parked branch matches and stays parked", "`aynig set-state --retry round` requests it now"];
    assert_refused(&repo.aynig(["set-state", "--retry", "ro*"]), 1, &words);
}

/// CONTRACT 6.14
#[test]
fn any_new_state_clears_the_count() {
    let repo = Repo::scene(&[
        (
            "work",
            "[ -e \"$ROOM/release\" ] || { say ready $$; await release; }; echo 'SET_STATE {\"state\":\"work2\",\"keep_trailers\":\"all\"}'",
        ),
        ("work2", "next done"),
    ]);
    repo.branch_with_message("task", ASK.as_bytes());
    interrupt(&repo, &["run"]);
    repo.release("release");
    repo.aynig_ok(["run"]);
    assert_eq!((repo.state("task"), repo.trailer("task", "x")), ("work2".into(), "y".into()));
    assert_eq!([repo.trailer("task", "aynig-interrupted"), repo.trailer("task", "aynig-rescued")], ["", ""]);
}

/// CONTRACT 6.14, 11.1
#[test]
fn the_run_that_was_stopped_does_not_start_it_again_and_the_next_one_does() {
    for arguments in [["run", "--drain"].as_slice(), &["run", "--watch=3600"], &["run", "--jobs=4"]] {
        let repo = asked("echo ran >>\"$ROOM/ran\"; say ready $$; await release; next done");
        interrupt(&repo, arguments);
        assert_eq!(repo.noted_lines("ran").len(), 1);
        assert_eq!(repo.state("task"), "work");
        repo.release("release");
        repo.aynig_ok(["run", "--drain"]);
        assert_eq!((repo.noted_lines("ran").len(), repo.state("task")), (2, "done".into()));
        repo.assert_tidy();
    }
}

/// CONTRACT 6.14
#[test]
fn a_stalled_that_is_interrupted_keeps_what_stalled() {
    let repo = asked(WORK);
    let stalled =
        "chore: set stalled\n\nwhy\n\ndwp-state: stalled\ndwp-stalled-run: r-1\ndwp-origin-state: work\n";
    repo.branch_with_message("task", stalled.as_bytes());
    interrupt(&repo, &["run"]);
    let again = format!("{stalled}aynig-interrupted: 1\naynig-rescued: {}", repo.rescue());
    assert_eq!(repo.message("task").trim_end(), again);
    repo.aynig_ok(["log", "task"]);
}

/// CONTRACT 6.14, 9.17
#[test]
fn an_attempt_that_never_got_to_its_command_is_asked_for_again() {
    let repo = asked(WORK);
    let room = repo.beside("x");
    let room = room.parent().expect("the room").display();
    repo.git(["config", "aynig.setup", &format!("echo $$ >'{room}/ready'; exec tail -f /dev/null")]);
    interrupt(&repo, &["run"]);
    assert_eq!((repo.state("task"), repo.trailer("task", "aynig-interrupted")), ("work".into(), "1".into()));
    assert!(repo.rescues().is_empty());
    repo.assert_tidy();
}

/// A host that shuts down sends the signal to all processes.
#[test]
fn a_command_that_the_same_signal_killed_was_interrupted() {
    for script in ["exec tail -f /dev/null", "trap 'exit 143' TERM; await never"] {
        let repo = asked(&format!("say ready $$; {script}"));
        let runner = repo.aynig_start(["run"]);
        let command = repo.said_pid("ready");
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(command.0), Signal::SIGTERM).expect("it lives");
        runner.signal(Signal::SIGTERM);
        let output = runner.finish();
        assert_eq!(output.status.code(), Some(143), "{}", told(&output));
        assert_eq!(repo.state("task"), "work", "{}", repo.message("task"));
    }
}

/// CONTRACT 6.14
#[test]
fn commits_of_the_command_stay_below_and_work_that_cannot_be_saved_stalls() {
    let repo = asked("git commit -q --allow-empty -m mine; say ready $$; await release");
    let asked_at = repo.head("task");
    interrupt(&repo, &["run"]);
    assert_eq!(
        repo.git(["log", "--format=%s", &format!("{asked_at}..task")]).lines().collect::<Vec<_>>(),
        ["build: the parser", "mine", "working: work (test-host)"]
    );

    let repo = asked("git init -q inner; echo x >inner/x; say ready $$; await release");
    interrupt(&repo, &["run"]);
    assert_eq!(repo.state("task"), "stalled");
    let message = repo.message("task");
    assert!(
        message.contains("its work could not be saved") && message.contains("Left in place"),
        "{message}"
    );
}

/// CONTRACT 6.14, 11.11
#[test]
fn it_is_told_only_if_the_state_is_named() {
    for (states, told) in [("review", false), ("work", true)] {
        let repo = asked("say ready $$; await release");
        let room = repo.beside("x");
        let room = room.parent().expect("the room").display();
        repo.git(["config", "aynig.notify", &format!("cat >'{room}/notice'")]);
        repo.git(["config", "aynig.notifyStates", states]);
        interrupt(&repo, &["run"]);
        assert_eq!(repo.beside("notice").exists(), told);
    }
}
