//! `-q` and `-v`: how much goes to standard error.

use super::support::*;

/// CONTRACT 3.12
#[test]
fn quiet_is_silent_about_everything_but_warnings_and_errors() {
    let repo = Repo::scene(&[("work", r#"echo "$LOG_LEVEL" >>"$ROOM/level"; next done"#)]);
    repo.ready("rests", "done");
    for arguments in [&["run", "rests"][..], &["status", "--all"], &["run", "--dry-run"]] {
        let loud = err(&repo.aynig_ok(arguments.iter().copied()));
        let first = repo.aynig_ok(["-q"].into_iter().chain(arguments.iter().copied()));
        let last = repo.aynig_ok(arguments.iter().copied().chain(["--quiet"]));
        assert!(!loud.is_empty(), "{arguments:?}");
        assert_eq!((err(&first), err(&last)), (String::new(), String::new()), "{arguments:?}");
    }
    repo.ready("due", "work");
    let output = repo.aynig_command().args(["run", "-q", "--json"]).env("LOG_LEVEL", "debug").output();
    let output = output.expect("it runs");
    assert_eq!(err(&output), "", "with JSON the transitions are narration");
    assert_eq!((repo.state("due"), repo.said("level")), ("done".to_owned(), "error".to_owned()));
    repo.branch_with_message("odd", b"s\n\ndwp-state: ../x\n");
    assert!(err(&repo.aynig_ok(["run", "-q"])).contains("warning: odd"));
    assert_refused(&repo.aynig(["-q", "status", "none"]), 1, &["no branch none"]);
}

/// CONTRACT 3.12
#[test]
fn verbose_names_a_level() {
    let repo = Repo::scene(&[("work", r#"echo "$LOG_LEVEL" >"$ROOM/$AYNIG_BRANCH"; next done"#)]);
    for (branch, option, level, has_debug) in
        [("one", "-v", "info", false), ("two", "-vv", "debug", true), ("three", "-vvv", "debug", true)]
    {
        repo.ready(branch, "work");
        let output = repo.aynig_ok([option, "run"]);
        assert_eq!(repo.said(branch), level);
        let said = err(&output);
        assert!(said.contains("started"), "{said}");
        assert_eq!(said.contains("passed over"), has_debug, "{said}");
    }
}

#[test]
fn they_exclude_each_other() {
    let repo = Repo::new();
    for arguments in [
        &["-q", "run", "-v"][..],
        &["run", "-q", "-v"],
        &["-v", "run", "--log-level", "info"],
        &["-q", "--log-level", "info", "run"],
    ] {
        assert_refused(&repo.aynig(arguments.iter().copied()), 2, &["exclude each other"]);
    }
}

/// What is remembered of earlier warnings costs a repeated warning at most.
#[test]
fn a_memory_of_warnings_that_is_no_plain_file_stops_nothing() {
    let repo = Repo::scene(&[("work", "next done")]);
    repo.aynig_ok(["set-state", "main", "--state", "work"]);
    std::fs::create_dir_all(repo.path.join(".git/aynig")).expect("a directory");
    let said = repo.path.join(".git/aynig/said");
    let warned = |what: &str| {
        let runner = repo.aynig_start(["run"]);
        let output = runner.finish();
        assert!(err(&output).contains("warning: main"), "{what}: {}", err(&output));
    };
    nix::unistd::mkfifo(&said, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    warned("a pipe");
    std::fs::remove_file(&said).expect("removed");
    std::fs::create_dir(&said).expect("a directory");
    warned("a directory");
    std::fs::remove_dir(&said).expect("removed");
    std::fs::File::create(&said).and_then(|file| file.set_len(1 << 40)).expect("a sparse file");
    warned("a huge file");
}
