//! Paths and branches that are not UTF-8: everything works as elsewhere, and JSON shows them with U+FFFD.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::scene::*;
use super::support::*;

/// The end of the path.
const END: &[u8] = b"caf\xe9";
const SHOWN: &str = "caf\u{fffd}";

impl Repo {
    /// Moves the repository to a path that is not UTF-8.
    fn at_odd_place(mut self) -> Self {
        let mut name = self.path.file_name().expect("a name").to_owned();
        name.push(OsStr::from_bytes(END));
        let place = self.path.with_file_name(name);
        std::fs::rename(&self.path, &place).expect("a file system that takes any bytes");
        self.path = place;
        self
    }
}

const GOOD: &str = "echo said by $AYNIG_BRANCH; cp .env env; git add env; next done";
const BAD: &str = "echo loose >loose.txt; echo why >&2; exit 3";

fn repo() -> Repo {
    let repo = Repo::scene(&[("good", GOOD), ("bad", BAD)]).at_odd_place();
    repo.write(".gitignore", ".env\n");
    repo.write(".worktreeinclude", ".env\n");
    repo.commit_all("what is copied");
    repo.write(".env", "secret\n");
    repo.git(["config", "aynig.setup", "echo set up"]);
    repo.ready("good", "good");
    repo.ready("bad", "bad");
    repo
}

#[test]
fn a_pass_runs_and_everything_can_be_looked_at() {
    let repo = repo();
    repo.git([
        "config",
        "aynig.notify",
        "cat >\"$ROOM/notice\"; printf %s \"$AYNIG_NOTICE_STDERR_LOG\" >\"$ROOM/log\"",
    ]);
    let mut command = repo.aynig_command();
    let output = command.env("ROOM", repo.beside("")).args(["run", "--jobs", "2"]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    assert_eq!((repo.state("good"), repo.state("bad")), ("done".to_owned(), "stalled".to_owned()));
    assert_eq!(repo.show("good:env"), "secret");
    assert_eq!(repo.show(&format!("{}:loose.txt", repo.rescue())), "loose");
    repo.assert_tidy();

    let notice: serde_json::Value = serde_json::from_str(&repo.said("notice")).expect("JSON");
    assert!(notice["repository"].as_str().expect("text").ends_with(SHOWN), "{notice}");
    let log = std::fs::read(repo.beside("log")).expect("it was told");
    assert!(log.windows(END.len()).any(|part| part == END), "a variable holds the exact bytes of the path");
    assert_eq!(std::fs::read_to_string(OsStr::from_bytes(&log)).expect("a log"), "set up\nwhy\n");

    assert_eq!(
        out(&repo.aynig_ok(["logs", "--branch", "good"])),
        "said by good\nSET_STATE {\"state\":\"done\"}\n"
    );
    assert_eq!(out(&repo.aynig_ok(["logs", "--branch", "bad", "--stderr"])), "set up\nwhy\n");
    for arguments in [
        &["log", "bad"][..],
        &["log", "--json", "good"],
        &["events", "--branch", "bad"],
        &["events", "--json", "--branch", "bad"],
        &["status", "--all"],
        &["status", "--all", "--json"],
        &["doctor"],
        &["doctor", "--json"],
        &["clean", "--older-than", "0s", "--keep", "0"],
        &["clean", "--json"],
        &["init"],
        &["set-state", "--retry", "--branch", "bad"],
    ] {
        let output = repo.aynig(arguments.iter().copied());
        assert!(output.status.success(), "{arguments:?}: {}", told(&output));
    }
    wait_until("the logs to be old enough and go", || {
        repo.aynig_ok(["clean", "--apply", "--older-than", "0s", "--keep", "0"]);
        std::fs::metadata(OsStr::from_bytes(&log)).is_err()
    });
}

#[test]
fn a_remote_at_such_a_place() {
    let hub = repo().into_bare().at_odd_place();
    let room = tempfile::tempdir().expect("a temporary directory");
    let path = room.path().canonicalize().expect("it exists").join(OsStr::from_bytes(b"na\xefve"));
    let cloned = hub.git_command().args(["clone", "--quiet", "."]).arg(&path).status().expect("git runs");
    assert!(cloned.success());
    let laptop = Repo { room, path };
    laptop.git(["config", "user.name", "Test Person"]);
    laptop.git(["config", "user.email", "person@example.com"]);
    laptop.git(["config", "aynig.commandsFrom", "refs/remotes/origin/main"]);
    laptop.write(".env", "secret\n");
    let output = laptop.aynig(["run", "--remote", "origin", "--worktree", "../places"]);
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    assert_eq!((hub.state("good"), hub.state("bad")), ("done".to_owned(), "stalled".to_owned()));
    assert_eq!(laptop.show(&format!("{}:loose.txt", laptop.rescue())), "loose");
    laptop.aynig_ok(["doctor", "--remote", "origin"]);
    laptop.aynig_ok(["status", "--all", "--remote", "origin"]);
    laptop.assert_tidy();

    // A hook, as the server's git runs it.
    let hook = hub.path.join("hooks/pre-receive");
    std::fs::write(&hook, format!("#!/bin/sh\nexec '{}' hook pre-receive\n", binary().display()))
        .expect("a hook");
    std::fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("chmod");
    laptop.git(["push", "--quiet", "origin", "HEAD:refs/heads/pushed"]);
    hub.dated_lease("pushed", "other", 600, 0);
    let refused = laptop.git_command().args(["push", "origin", ":pushed"]).output().expect("git runs");
    assert!(!refused.status.success() && err(&refused).contains("pushed"), "{}", told(&refused));
}

#[test]
fn the_current_branch_and_a_killed_runner() {
    let repo = Repo::scene(&[("waits", "echo loose >loose.txt; say ready $$; await release; next done")])
        .at_odd_place();
    repo.ready("task", "waits");
    repo.killed_over_its_command(&["run", "--lease-seconds", "2"]);
    repo.run_until("task", "stalled", &["run"]);
    assert_eq!(repo.show(&format!("{}:loose.txt", repo.rescue())), "loose");
    repo.assert_tidy();

    repo.git(["checkout", "--quiet", "-b", "here"]);
    repo.release("release");
    repo.aynig_ok(["set-state", "--state", "waits"]);
    repo.aynig_ok(["run", "--current-branch", "only"]);
    assert_eq!(repo.state("here"), "done");
}

#[test]
fn a_branch_is_named_by_its_bytes() {
    let repo = Repo::scene(&[("good", "echo said; next done")]);
    repo.ready("plain", "good");
    let odd = OsStr::from_bytes(b"caf\xe9");
    let twin = OsStr::from_bytes(b"caf\xe8");
    let call = |arguments: &[&OsStr]| repo.aynig_command().args(arguments).output().expect("aynig runs");
    for name in [odd, twin] {
        let made =
            repo.git_command().arg("branch").args([name, OsStr::new("plain")]).status().expect("git runs");
        assert!(made.success());
    }
    let only = call(&["status".as_ref(), "--json".as_ref(), odd]);
    assert_eq!(listed(&only).as_array().expect("rows").len(), 1, "{}", told(&only));
    // A run takes globs, which are text.
    for arguments in [&["run".as_ref(), odd][..], &["run".as_ref(), "--branch".as_ref(), odd]] {
        assert_refused(&call(arguments), 2, &["it is not UTF-8", "`*` stands for what is not: 'caf*'"]);
    }
    for odd in [OsStr::new(""), OsStr::from_bytes(b"\xff")] {
        let refused = call(&["run".as_ref(), odd]);
        assert_refused(&refused, 2, &["invalid value"]);
        assert!(!err(&refused).contains("'*'"), "all branches were not meant: {}", err(&refused));
    }
    repo.aynig_ok(["run", "caf*"]);
    assert_eq!(repo.state("plain"), "good");
    for name in [odd, twin] {
        let logs = call(&["logs".as_ref(), name]);
        assert!(out(&logs).starts_with("said\n"), "{}", told(&logs));
        assert!(out(&call(&["status".as_ref(), name])).contains("done"));
    }
}
