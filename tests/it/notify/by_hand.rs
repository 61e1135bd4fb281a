//! States written by `set-state`, from outside and inside of commands: it notifies, once.

use super::*;

#[test]
fn a_state_set_by_hand_is_told_by_who_sets_it() {
    let repo = repo(&[]);
    repo.git(["config", "aynig.notifyStates", "review"]);
    repo.ready("task", "work");
    let output =
        repo.aynig_ok(["set-state", "--branch", "task", "--state", "review", "--subject", "look at it"]);
    assert_eq!(err(&output), "");
    repo.aynig_ok(["set-state", "--branch", "task", "--state", "other"]);
    repo.aynig_ok(["set-working", "--branch", "task"]);
    let [notice] = <[Value; 1]>::try_from(repo.told()).expect("one notice");
    assert_eq!([&notice["event"], &notice["state"], &notice["previousState"]], ["state", "review", "work"]);
    assert_eq!(notice["subject"], "look at it");
    assert_eq!(notice["commit"], repo.head("task~2").as_str());
    assert_eq!([&notice["runId"], &notice["exitCode"]], [&Value::Null; 2]);
}

#[test]
fn a_teller_that_fails_or_is_misconfigured_does_not_fail_it() {
    let repo = repo(&[]);
    repo.ready("task", "work");
    repo.git(["config", "aynig.notify", "exit 4"]);
    let output = repo.aynig_ok(["set-state", "--branch", "task", "--state", "stalled"]);
    assert!(err(&output).contains("exited with 4"), "{}", told(&output));
    repo.git(["config", "aynig.notifySeconds", "many"]);
    let output = repo.aynig_ok(["set-state", "--branch", "task", "--state", "stalled"]);
    assert!(err(&output).contains("aynig.notifySeconds"), "{}", told(&output));
}

/// The runner may stop the command once the branch has moved; notifying must not delay the command either.
#[test]
fn inside_a_command_it_is_told_beside_it_and_once() {
    let repo =
        repo(&[("work", r#""$AYNIG_BIN" set-state --state review; say set "$?$WEBHOOK_URL"; await end"#)]);
    repo.git(["config", "aynig.notifyStates", "*"]);
    repo.teller(
        r#"echo begun >>"$ROOM/begun"; env >"$ROOM/env"; pwd -P >"$ROOM/where"; await release; cat >>"$ROOM/told""#,
    );
    // A trailer becomes a variable of the command, but must not redirect the notify program.
    let asked = b"please work\n\nthe body\n\ndwp-state: work\nwebhook-url: http://example.com/\n";
    repo.branch_with_message("task", asked);
    let runner = repo.aynig_start(["run"]);
    assert_eq!(
        repo.said("set"),
        "0http://example.com/",
        "the command continues before the notice is delivered"
    );
    wait_until("a notice", || repo.beside("begun").exists());
    assert_eq!(repo.told(), Vec::<Value>::new());
    repo.release("end");
    let output = runner.finish();
    exits(&output, 0);
    repo.release("release");
    wait_until("the notice", || repo.told().len() == 1);
    assert_eq!(repo.told_briefly(), [["state", "task", "review"]]);
    assert_eq!(repo.noted_lines("begun").len(), 1, "by the process that wrote it, and only by it");
    assert_eq!(repo.said("where"), repo.path.display().to_string());
    let environment = repo.said("env");
    for name in ["AYNIG_RUN_ID=", "AYNIG_BRANCH=", "WORKTREE_PATH=", "WEBHOOK_URL="] {
        assert!(!environment.lines().any(|line| line.starts_with(name)), "{name}: {environment}");
    }
    assert!(environment.contains(&format!("AYNIG_NOTICE_COMMIT={}", repo.head("task"))), "{environment}");
    repo.assert_tidy();
}

#[test]
fn what_a_command_left_behind_sets_later_is_told() {
    let repo =
        repo(&[("work", r#"( await release; "$AYNIG_BIN" set-state --state done ) >/dev/null 2>&1 & true"#)]);
    repo.git(["config", "aynig.notifyStates", "done"]);
    repo.ready("task", "work");
    exits(&repo.aynig(["run"]), 0);
    assert_eq!(repo.told(), Vec::<Value>::new());
    repo.release("release");
    wait_until("the notice", || repo.told().len() == 1);
    assert_eq!(repo.told_briefly(), [["state", "task", "done"]]);
}

/// The notice waits in an unnamed file for the process that delivers it.
#[test]
fn it_is_told_although_the_commands_own_place_for_temporary_files_is_gone() {
    let repo = repo(&[(
        "work",
        r#"TMPDIR=$ROOM/gone; export TMPDIR; "$AYNIG_BIN" set-state --state stalled --subject over"#,
    )]);
    repo.ready("task", "work");
    exits(&repo.aynig(["run"]), 0);
    wait_until("the notice", || !repo.told().is_empty());
    assert_eq!(repo.told_briefly(), [["stalled", "task", "stalled"]]);
}
