//! Standard output: a full disk is an error that undoes nothing, a closed pipe is not an error, and a
//! terminal never gets control characters from foreign text.

use std::fs::OpenOptions;
use std::process::{Output, Stdio};

use super::support::*;

/// Every subcommand that prints, for a repository with a branch `old` that has a history, and branches to act
/// on.
const PRINTING: [&[&str]; 26] = [
    &["--help"],
    &["--version"],
    &["help", "run"],
    &["run", "--help"],
    &["status"],
    &["status", "--all"],
    &["status", "--all", "--json"],
    &["events", "--branch", "old"],
    &["events", "--branch", "old", "--reverse"],
    &["log", "old"],
    &["log", "old", "--json"],
    &["logs", "--branch", "old"],
    &["clean"],
    &["clean", "--json"],
    &["doctor"],
    &["doctor", "--json"],
    &["completions", "bash"],
    &["manual"],
    &["manual", "--into", "pages"],
    &["install", "../repo", "HEAD", "pack"],
    &["init"],
    &["init", "--json"],
    &["demo", "../shown"],
    &["set-state", "--branch", "by-hand", "--state", "review", "--json"],
    &["set-working", "--branch", "by-hand"],
    &["run", "--branch", "ready", "--json"],
];

fn repo() -> Repo {
    let repo = Repo::scene(&[("work", "echo worked; next done"), ("fail", "exit 7")]);
    repo.command("pack/.aynig/command/other", "true");
    repo.commit_all("a pack");
    repo.ready("old", "work");
    repo.aynig_ok(["run"]);
    repo.git(["branch", "by-hand"]);
    repo.ready("ready", "work");
    repo.ready("bad", "fail");
    repo
}

/// With `/dev/full` as standard output.
fn full(repo: &Repo, arguments: &[&str]) -> Output {
    let full = OpenOptions::new().write(true).open("/dev/full").expect("a device that Linux has");
    repo.aynig_command().args(arguments).stdout(full).output().expect("aynig runs")
}

#[test]
fn output_that_cannot_be_written_is_an_error_and_undoes_nothing() {
    let repo = repo();
    for arguments in PRINTING {
        let output = full(&repo, arguments);
        let said = err(&output);
        assert_eq!(output.status.code(), Some(3), "{arguments:?}: {said}");
        assert_eq!(
            said.matches("error: could not write to standard output: No space left").count(),
            1,
            "{arguments:?}: {said}"
        );
        assert_eq!(said.matches("hint: what was done stays done").count(), 1, "{arguments:?}: {said}");
    }
    assert_eq!([repo.state("by-hand"), repo.state("ready")], ["working", "done"]);
    assert!(
        repo.path.join("pages/man1/aynig-run.1").exists() && repo.path.join(".aynig/COMMANDS.md").exists()
    );
    let output = full(&repo, &["run", "--branch", "bad"]);
    assert_eq!(output.status.code(), Some(1), "what went wrong before counts: {}", err(&output));
    assert!(err(&output).contains("standard output"), "{}", err(&output));
    assert_eq!(repo.state("bad"), "stalled");
}

#[test]
fn a_reader_that_went_away_is_no_error() {
    let repo = repo();
    for arguments in PRINTING {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = repo.aynig_command().args(arguments).stdout(Stdio::from(writer)).output();
        let output = output.expect("aynig runs");
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", err(&output));
        assert!(!err(&output).contains("standard output"), "{arguments:?}: {}", err(&output));
    }
    assert_eq!([repo.state("by-hand"), repo.state("ready")], ["working", "done"]);
}

#[test]
fn a_watch_whose_output_is_lost_goes_on_and_says_so_once() {
    let repo = repo();
    let mut command = repo.aynig_command();
    let full = OpenOptions::new().write(true).open("/dev/full").expect("a device that Linux has");
    let mut runner = command
        .args(["run", "--watch=1", "--json"])
        .stdout(full)
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    wait_until("the ready branches", || repo.state("ready") == "done" && repo.state("bad") == "stalled");
    repo.ready("later", "work");
    wait_until("a later branch", || repo.state("later") == "done");
    let pid = nix::unistd::Pid::from_raw(i32::try_from(runner.id()).expect("a pid"));
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).expect("it runs");
    let mut said = String::new();
    std::io::Read::read_to_string(&mut runner.stderr.take().expect("piped"), &mut said).expect("text");
    assert_eq!(runner.wait().expect("it ends").code(), Some(143), "{said}");
    assert_eq!(said.matches("standard output").count(), 1, "{said}");
}

#[test]
fn names_of_others_do_not_act_on_a_terminal() {
    // Both are legal in a ref: a bidi override, and a C1 control that some terminals take for an escape
    // sequence.
    const NAME: &str = "a\u{202e}b\u{9b}31mc";
    let repo = Repo::scene(&[
        ("fail", "echo x >left.txt; git add left.txt; exit 7"),
        ("hang", "echo x >left.txt; kill -9 $PPID; await never"),
    ]);
    repo.ready(NAME, "fail");
    let mut shown = String::new();
    let mut look = |arguments: &[&str]| {
        shown.push_str(&repo.in_terminal((50, 200), &[], arguments).finish().0);
    };
    look(&["run", "--log-level", "trace"]);
    assert_eq!(repo.rescues().len(), 1);
    for arguments in [
        ["status", "--all"].as_slice(),
        &["log", NAME, "--no-pager"],
        &["events", "--branch", NAME],
        &["status", "--json", NAME],
        &["logs", "--branch", NAME],
        &["clean"],
        &["doctor"],
        &["set-state", "--branch", NAME, "--state", "hang"],
        // Killed by its own command. The next run closes the lease and saves the work.
        &["run", "--lease-seconds", "1"],
    ] {
        look(arguments);
    }
    wait_until("the lease to be closed", || {
        look(&["run", "--log-level", "trace"]);
        repo.state(NAME) == "stalled"
    });
    assert_eq!(repo.rescues().len(), 2, "{shown}");
    for bad in ['\u{202e}', '\u{9b}'] {
        assert!(!shown.contains(bad), "{bad:?} in {shown:?}");
    }
}
