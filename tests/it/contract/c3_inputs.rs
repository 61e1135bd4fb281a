//! Section 3, "Command Inputs And Logs".

use std::fs;

use super::super::probe::*;
use super::super::support::*;

const TRIGGER: &[u8] = b"please\n\nfirst line\n\nlast line\n\nissue: 7\ndwp-state: probe\n";

/// CONTRACT 3.1, 3.2, 9.1
#[test]
fn c3_the_working_directory_is_the_worktree() {
    let repo = Repo::probed();
    let seen = repo.probe_message(TRIGGER);
    let expected = repo.path.join(".worktrees/work");
    assert_eq!(repo.noted("pwd"), expected.display().to_string());
    assert_eq!(seen.path("WORKTREE_PATH"), expected);
}

/// CONTRACT 9.1
#[test]
fn c3_another_place_for_worktrees_may_be_chosen() {
    let repo = Repo::probed();
    repo.ready("work", "probe");
    repo.run_expecting(0, &["--worktree", "../elsewhere"]);
    assert_eq!(repo.noted("pwd"), repo.beside("elsewhere/work").display().to_string());
}

/// CONTRACT 1.2, 1.10, 3.2
#[test]
fn c3_body_is_the_message_without_subject_and_trailers() {
    let seen = Repo::probed().probe_message(TRIGGER);
    assert_eq!(seen.text("BODY"), "first line\n\nlast line");
    let seen = Repo::probed().probe_message(b"subject\n\ndwp-state: probe\n");
    assert_eq!(seen.text("BODY"), "", "an empty body is an empty variable, not a missing one");
}

/// CONTRACT 3.7
#[test]
fn c3_body_path_is_a_file_with_the_whole_body() {
    let repo = Repo::with_commands(&[("probe", &format!("cp \"$BODY_PATH\" \"$ROOM/body\"\n{PROBE}"))]);
    let seen = repo.probe_message(TRIGGER);
    assert_eq!(fs::read_to_string(repo.beside("body")).expect("copied"), "first line\n\nlast line");
    assert!(!seen.path("BODY_PATH").exists(), "it does not outlive its attempt");
}

/// CONTRACT 3.2
#[test]
fn c3_commit_hash_is_the_trigger() {
    let repo = Repo::probed();
    let seen = repo.probe_message(TRIGGER);
    assert_eq!(seen.text("COMMIT_HASH"), repo.head("work~2"));
    assert_eq!(repo.trailer("work~2", "dwp-state"), "probe");
}

/// CONTRACT 3.2, 3.4
#[test]
fn c3_log_paths_are_named_for_the_trigger() {
    let repo = Repo::probed();
    let trigger = repo.branch_with_message("work", TRIGGER);
    repo.run_expecting(0, &[]);
    let logs = repo.path.join(".aynig/logs");
    assert_eq!(repo.seen().path("STDOUT_LOG_PATH"), logs.join(format!("{trigger}.stdout.log")));
    assert_eq!(repo.seen().path("STDERR_LOG_PATH"), logs.join(format!("{trigger}.stderr.log")));
}

/// CONTRACT 3.4, 3.11
#[test]
fn c3_stdout_and_stderr_are_logged_separately() {
    let repo = Repo::one_step("echo to out; echo to err >&2; echo again");
    let trigger = repo.head("work");
    repo.run_expecting(0, &[]);
    let log = |stream: &str| {
        fs::read_to_string(repo.path.join(format!(".aynig/logs/{trigger}.{stream}.log"))).expect("a log")
    };
    assert_eq!(log("stdout"), "to out\nagain\n");
    assert_eq!(log("stderr"), "to err\n");
    assert_eq!(repo.git(["status", "--porcelain"]), "", "logs do not show up in the checkout");
}

/// CONTRACT 3.11
#[test]
fn c3_a_command_may_write_into_its_own_log() {
    let repo = Repo::one_step("echo one; echo two >> \"$STDOUT_LOG_PATH\"; echo three");
    let trigger = repo.head("work");
    repo.run_expecting(0, &[]);
    let log = fs::read_to_string(repo.path.join(format!(".aynig/logs/{trigger}.stdout.log")));
    assert_eq!(log.expect("a log"), "one\ntwo\nthree\n");
}

/// CONTRACT 3.2
#[test]
fn c3_role_is_set_when_there_is_one() {
    let repo = Repo::probed();
    assert_eq!(repo.probe_message(TRIGGER).get("ROLE"), None);
    repo.branch_with_message("work", TRIGGER);
    repo.run_expecting(0, &["--role", "night"]);
    assert_eq!(repo.seen().text("ROLE"), "night");
}

/// CONTRACT 3.2, 3.12
#[test]
fn c3_log_level_comes_from_flag_then_trailer_then_variable_then_error() {
    let rows = [
        (Some("info"), Some("debug"), Some("warn"), "info"),
        (None, Some("debug"), Some("warn"), "debug"),
        (None, None, Some("warn"), "warn"),
        (None, None, None, "error"),
        (None, Some("shouting"), Some("warn"), "warn"),
        (None, Some("debug"), None, "debug"),
    ];
    let repo = Repo::probed();
    for (flag, trailer, variable, expected) in rows {
        let trailer_line = trailer.map_or(String::new(), |level| format!("dwp-log-level: {level}\n"));
        repo.branch_with_message("work", format!("s\n\ndwp-state: probe\n{trailer_line}").as_bytes());
        let mut command = repo.run_command(&[]);
        if let Some(level) = flag {
            command.args(["--log-level", level]);
        }
        if let Some(level) = variable {
            command.env("LOG_LEVEL", level);
        }
        assert_exit(&command.output().expect("aynig runs"), 0);
        assert_eq!(repo.seen().text("LOG_LEVEL"), expected, "{flag:?} {trailer:?} {variable:?}");
    }
}

/// CONTRACT 3.7
#[test]
fn c3_the_runners_own_variables() {
    let repo = Repo::probed();
    repo.branch_with_message("feat/a", TRIGGER);
    repo.run_expecting(0, &["--lease-seconds", "77"]);
    let seen = repo.seen();
    assert_eq!(seen.path("AYNIG_BIN"), binary().canonicalize().expect("it was built"));
    assert_eq!(seen.text("AYNIG_BRANCH"), "feat/a");
    assert_eq!(seen.path("AYNIG_GIT_DIR"), repo.path.join(".git"));
    assert_eq!(seen.text("AYNIG_LEASE_SECONDS"), "77");
    assert_eq!(seen.text("AYNIG_RUN_ID"), repo.trailer("feat/a~1", "dwp-run-id"));
    assert!(is_uuid(&seen.text("AYNIG_RUN_ID")));
    assert_eq!(seen.get("AYNIG_REMOTE"), None, "no remote decides here");
}

/// CONTRACT 3.2, 3.7
#[test]
fn c3_what_an_outer_runner_set_does_not_shine_through() {
    let repo = Repo::probed();
    repo.branch_with_message("work", TRIGGER);
    let mut command = repo.run_command(&[]);
    for name in ["AYNIG_REMOTE", "AYNIG_RUN_ID", "AYNIG_BRANCH", "BODY", "COMMIT_HASH", "WORKTREE_PATH"] {
        command.env(name, "outer");
    }
    assert_exit(&command.output().expect("aynig runs"), 0);
    let seen = repo.seen();
    assert_eq!(seen.get("AYNIG_REMOTE"), None);
    assert_eq!(seen.text("AYNIG_BRANCH"), "work");
    assert_eq!(seen.text("BODY"), "first line\n\nlast line");
    assert_eq!(seen.text("COMMIT_HASH"), repo.head("work~2"));
    assert!(seen.names().iter().all(|name| seen.text(name) != "outer"));
}

/// CONTRACT 3.3, 3.8
#[test]
fn c3_trailers_become_variables() {
    let seen = Repo::probed()
        .probe_message(b"s\n\nIssue-Id: 41\nissue-id: 42\ndwp-pr: 7\nempty:\ndwp-state: probe\n");
    assert_eq!(seen.text("ISSUE_ID"), "42", "the last value wins");
    assert_eq!(seen.text("DWP_PR"), "7");
    assert_eq!(seen.text("EMPTY"), "");
    assert_eq!(seen.text("DWP_STATE"), "probe");
}

/// CONTRACT 3.3, 3.8
#[test]
fn c3_trailers_do_not_overwrite_existing_variables() {
    let repo = Repo::probed();
    repo.branch_with_message("work", b"s\n\ntaken: trailer\nfree: trailer\ndwp-state: probe\n");
    let output = repo.run_command(&[]).env("TAKEN", "mine").output().expect("aynig runs");
    assert_exit(&output, 0);
    assert_eq!(repo.seen().text("TAKEN"), "mine");
    assert_eq!(repo.seen().text("FREE"), "trailer");
    let line = one_message(&output, "taken");
    assert!(line.contains("work") && line.contains("exists"), "{line}");
}

/// CONTRACT 3.3, 3.9
#[test]
fn c3_trailers_do_not_overwrite_reserved_variables() {
    let repo = Repo::probed();
    let names = [
        "body",
        "body-path",
        "commit-hash",
        "worktree-path",
        "stdout-log-path",
        "stderr-log-path",
        "log-level",
        "role",
        "aynig-branch",
        "aynig-run-id",
        "aynig-anything",
    ];
    let lines: String = names.iter().map(|name| format!("{name}: forged\n")).collect();
    let seen = repo.probe_message(format!("s\n\ntrue body\n\n{lines}dwp-state: probe\n").as_bytes());
    let forged: Vec<String> = seen.names().into_iter().filter(|name| seen.text(name) == "forged").collect();
    assert_eq!(forged, Vec::<String>::new());
    assert_eq!(seen.text("BODY"), "true body");
    assert_eq!(seen.text("AYNIG_BRANCH"), "work");
    assert_eq!(seen.get("ROLE"), None);
}

/// CONTRACT 3.5, 7.5
#[test]
fn c3_stderr_is_not_parsed() {
    let repo = Repo::one_step(r#"echo 'SET_STATE {"state":"forged"}' >&2"#);
    let output = repo.run_expecting(0, &[]);
    assert_eq!(repo.state("work"), "working", "{}", out(&output));
}

/// CONTRACT 3.6
#[test]
fn c3_standard_input_is_empty() {
    let repo = Repo::probed();
    repo.branch_with_message("work", TRIGGER);
    let mut command = repo.run_command(&[]);
    let stdin = fs::File::open(repo.path.join("README")).expect("a file");
    assert_exit(&command.stdin(stdin).output().expect("aynig runs"), 0);
    assert_eq!(repo.noted("stdin"), "");
}
