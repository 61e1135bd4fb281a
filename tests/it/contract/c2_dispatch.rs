//! Section 2, "Command Dispatch".

use super::super::probe::*;
use super::super::support::*;

/// `step` for every role and for `night`, each noting which one ran. `day` has no commands.
fn with_roles() -> Repo {
    let repo = Repo::new();
    repo.command(".aynig/command/step", r#"echo 'SET_STATE {"state":"by-all"}'"#);
    repo.command(".aynig/command/other", r#"echo 'SET_STATE {"state":"by-all"}'"#);
    repo.command(".aynig/roles/night/command/step", r#"echo 'SET_STATE {"state":"by-night"}'"#);
    repo.commit_all("commands");
    repo
}

/// CONTRACT 1.9, 2.1
#[test]
fn c2_a_state_is_a_path_below_the_commands() {
    let repo = Repo::with_commands(&[("deploy/eu-1.test_2", DONE)]);
    repo.ready("work", "deploy/eu-1.test_2");
    repo.run_expecting(0, &[]);
    assert_eq!(repo.state("work"), "done");
}

/// CONTRACT 2.2
#[test]
fn c2_role_command_is_tried_first() {
    let repo = with_roles();
    repo.ready("work", "step");
    repo.run_expecting(0, &["--role", "night"]);
    assert_eq!(repo.state("work"), "by-night");
}

/// CONTRACT 2.2
#[test]
fn c2_the_role_may_come_from_the_environment() {
    let repo = with_roles();
    for (role, state) in [("night", "by-night"), ("", "by-all")] {
        repo.ready("work", "step");
        let output = repo.run_command(&[]).env("ROLE", role).output().expect("aynig runs");
        assert_exit(&output, 0);
        assert_eq!(repo.state("work"), state, "{role:?}");
    }
}

/// CONTRACT 2.2, 2.3
#[test]
fn c2_the_flag_beats_the_environment() {
    let repo = with_roles();
    repo.ready("work", "step");
    let output = repo.run_command(&["--role", "day"]).env("ROLE", "night").output().expect("aynig runs");
    assert_exit(&output, 0);
    assert_eq!(repo.state("work"), "by-all");
}

/// CONTRACT 2.3
#[test]
fn c2_without_a_role_command_the_plain_one_runs() {
    let repo = with_roles();
    repo.ready("work", "other");
    repo.run_expecting(0, &["--role", "night"]);
    assert_eq!(repo.state("work"), "by-all");
}

/// CONTRACT 2.1
#[test]
fn c2_without_a_role_role_commands_are_not_looked_at() {
    let repo = with_roles();
    repo.ready("work", "step");
    repo.run_expecting(0, &[]);
    assert_eq!(repo.state("work"), "by-all");
}

/// CONTRACT 1.9
#[test]
fn c2_an_illegal_role_is_a_usage_error() {
    let repo = with_roles();
    let head = repo.ready("work", "step");
    let output = repo.run_expecting(2, &["--role", "../night"]);
    assert!(err(&output).contains("../night"), "{}", err(&output));
    let output = repo.run_command(&[]).env("ROLE", "-x").output().expect("aynig runs");
    assert_exit(&output, 2);
    assert!(err(&output).contains("ROLE"), "{}", err(&output));
    repo.assert_untouched("work", &head);
}

/// CONTRACT 2.5, 11.5
#[test]
fn c2_without_a_command_nothing_changes_and_the_reason_is_told() {
    let repo = with_roles();
    let head = repo.ready("work", "unheard-of");
    let output = repo.run_expecting(0, &["--log-level", "debug", "--role", "night"]);
    let line = one_message(&output, "unheard-of");
    for expected in ["work", ".aynig/roles/night/command/unheard-of or .aynig/command/unheard-of"] {
        assert!(line.contains(expected), "{line}");
    }
    repo.assert_untouched("work", &head);
    assert_eq!(out(&repo.run_expecting(0, &[])), "", "and a plain run is silent");
}

/// CONTRACT 2.4
#[test]
fn c2_the_command_is_the_committed_one() {
    let repo = Repo::with_commands(&[("step", DONE)]);
    repo.ready("work", "step");
    repo.command(".aynig/command/step", "exit 9");
    repo.run_expecting(0, &[]);
    assert_eq!(repo.state("work"), "done");
}

/// CONTRACT 2.7
#[test]
fn c2_a_command_that_is_only_on_disk_is_named_with_the_remedy() {
    let repo = Repo::new();
    let head = repo.ready("work", "step");
    repo.command(".aynig/command/step", DONE);
    let output = repo.run_expecting(0, &["--log-level", "debug"]);
    let line = one_message(&output, "git add .aynig/command/step");
    assert!(line.contains("work"), "{line}");
    repo.assert_untouched("work", &head);
}

/// CONTRACT 2.4
#[test]
fn c2_a_path_that_is_no_command_ends_the_search() {
    let repo = with_roles();
    repo.write(".aynig/roles/night/command/other", "#!/bin/sh\n");
    repo.commit_all("not executable");
    let head = repo.ready("work", "other");
    let output = repo.run_expecting(0, &["--role", "night"]);
    let line = one_message(&output, ".aynig/roles/night/command/other");
    assert!(line.contains("executable bit"), "{line}");
    repo.assert_untouched("work", &head);
}

/// CONTRACT 2.8
#[test]
fn c2_the_command_is_started_without_arguments_and_without_a_shell_around_it() {
    let look = "echo $# > \"$ROOM/count\"; cat /proc/$PPID/comm > \"$ROOM/parent\"";
    let repo = Repo::with_commands(&[("look", &format!("{look}\n{DONE}"))]);
    repo.ready("look", "look");
    repo.run_expecting(0, &[]);
    assert_eq!([repo.noted("count"), repo.noted("parent")], ["0", "aynig"]);
    // A text file without an interpreter line is run by `sh`, as everywhere.
    repo.command(".aynig/command/bare", "");
    repo.write(".aynig/command/bare", &DONE.replace("done", "bare-done"));
    repo.commit_all("a text");
    repo.ready("bare", "bare");
    repo.run_expecting(0, &[]);
    assert_eq!(repo.state("bare"), "bare-done");
}
