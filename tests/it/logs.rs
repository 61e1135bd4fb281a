//! `aynig logs`.

use std::fs;
use std::io::Read;
use std::process::Stdio;

use super::support::*;

fn after_a_run() -> Repo {
    let repo = Repo::with_commands(&[(
        "build",
        r#"printf 'one\377\033[31m\n'; echo trouble >&2; echo 'SET_STATE {"state":"done"}'"#,
    )]);
    repo.ready("work", "build");
    repo.aynig_ok(["run"]);
    repo
}

/// The output of `aynig logs` on a terminal.
fn on_terminal(repo: &Repo, variables: &[(&str, &str)], arguments: &[&str]) -> String {
    let (shown, code) = repo.in_terminal((24, 80), variables, arguments).finish();
    assert_eq!(code, 0, "{shown}");
    shown.split_once(".log\u{1b}[0m\r\n").or(shown.split_once(".log\r\n")).expect("where it is").1.to_owned()
}

const STDOUT: &[u8] = b"one\xff\x1b[31m\nSET_STATE {\"state\":\"done\"}\n";

#[test]
fn the_newest_attempt_of_a_branch_byte_for_byte() {
    let repo = after_a_run();
    let output = repo.aynig_ok(["logs", "--branch", "work"]);
    assert_eq!(output.stdout, STDOUT);
    assert!(err(&output).contains(".stdout.log"), "{}", err(&output));
    assert_eq!(out(&repo.aynig_ok(["logs", "--branch", "work", "--stderr"])), "trouble\n");
    repo.git(["checkout", "--quiet", "work"]);
    assert_eq!(repo.aynig_ok(["logs"]).stdout, STDOUT, "the current branch");
    let inside = repo.aynig_inside("work", "r").args(["logs"]).output().unwrap();
    assert_eq!(inside.stdout, STDOUT, "a command's own branch");
}

#[test]
fn by_attempt_and_by_commit() {
    let repo = after_a_run();
    let run = repo.trailer("work~1", "dwp-run-id");
    for arguments in [
        ["logs", "--attempt", &run].as_slice(),
        &["logs", "--attempt", &run[..6]],
        &["logs", "work"],
        &["logs", "work~1"],
        &["logs", "work~2"],
        &["logs", &repo.head("work~2")],
        &["logs", "-f", "--attempt", &run],
    ] {
        assert_eq!(repo.aynig_ok(arguments.iter().copied()).stdout, STDOUT, "{arguments:?}");
    }
}

#[test]
fn a_copy_of_a_repository_shows_its_own_logs() {
    let repo = after_a_run();
    let copy = repo.beside("copy");
    let copied = std::process::Command::new("cp").arg("-r").args([&repo.path, &copy]).status();
    assert!(copied.expect("cp runs").success());
    let log = repo.path.join(".aynig/logs").join(format!("{}.stdout.log", repo.head("work~2")));
    fs::write(log, "not that one\n").expect("a file");
    assert_eq!(repo.aynig_ok(["-C", copy.to_str().expect("UTF-8"), "logs", "work"]).stdout, STDOUT);
    fs::remove_dir_all(repo.path.join(".aynig/logs")).expect("a directory");
    assert_eq!(repo.aynig_ok(["-C", copy.to_str().expect("UTF-8"), "logs", "work"]).stdout, STDOUT);
}

/// CONTRACT 3.11
#[test]
fn a_second_attempt_at_one_commit_has_its_own_log() {
    let repo = Repo::with_commands(&[("build", "echo on $AYNIG_BRANCH")]);
    let trigger = repo.ready("one", "build");
    repo.git(["branch", "two", &trigger]);
    repo.aynig_ok(["run"]);
    for branch in ["one", "two"] {
        assert_eq!(out(&repo.aynig_ok(["logs", "--branch", branch])), format!("on {branch}\n"));
    }
}

#[test]
fn without_a_record_the_contracts_file_name_counts() {
    let repo = after_a_run();
    fs::remove_dir_all(repo.path.join(".git/aynig/attempts")).unwrap();
    for arguments in [["logs", "--branch", "work"].as_slice(), &["logs", "work~2"], &["logs", "work~1"]] {
        assert_eq!(repo.aynig_ok(arguments.iter().copied()).stdout, STDOUT, "{arguments:?}");
    }
}

#[test]
fn another_hosts_logs_are_there() {
    let repo = Repo::new();
    repo.ready("work", "build");
    repo.foreign_lease("work", "11111111-2222-4333-8444-555555555555", "far-host", 300, 0);
    let output = repo.aynig(["logs", "--branch", "work"]);
    assert_refused(
        &output,
        1,
        &["attempt 11111111-", "by far-host", "hint: ", "aynig logs --attempt 11111111-"],
    );
}

#[test]
fn what_is_not_there_is_said() {
    let repo = after_a_run();
    assert_refused(&repo.aynig(["logs"]), 1, &["no attempt was ever made on main", "aynig status"]);
    assert_refused(
        &repo.aynig(["logs", "--attempt", "ffffffff"]),
        1,
        &["no attempt ffffffff", "hint: `aynig log BRANCH --leases`"],
    );
    assert_refused(&repo.aynig(["logs", "nothing"]), 1, &["nothing is neither a branch nor a commit"]);
    assert_refused(&repo.aynig(["logs", "main"]), 1, &["no attempt was ever made on main"]);
    assert_refused(&repo.aynig(["logs", "main^{commit}"]), 1, &["no attempt was made at or before"]);
    assert_refused(&repo.aynig(["logs", "work", "--branch", "work"]), 2, &["cannot be used with"]);
    for file in files_below(&repo.path.join(".aynig/logs")) {
        fs::remove_file(file).unwrap();
    }
    assert_refused(&repo.aynig(["logs", "--branch", "work"]), 1, &["is not there any more"]);
}

#[test]
fn following_ends_with_the_attempt_and_misses_nothing() {
    let repo = Repo::with_commands(&[(
        "build",
        r#"echo first; until test -e "$GATE"; do sleep 0.05; done; echo last; echo 'SET_STATE {"state":"done"}'"#,
    )]);
    repo.ready("work", "build");
    let gate = repo.beside("gate");
    let mut runner = repo.aynig_command();
    let mut runner =
        runner.env("GATE", &gate).args(["run"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("the command's first line", || {
        files_below(&repo.path.join(".aynig/logs"))
            .iter()
            .any(|file| fs::read(file).is_ok_and(|text| text == b"first\n"))
    });
    let mut logs = repo.aynig_command();
    let mut logs = logs
        .args(["logs", "-f", "--branch", "work"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdout = logs.stdout.take().unwrap();
    let mut first = [0; 6];
    stdout.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"first\n");
    fs::write(&gate, "").unwrap();
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "last\nSET_STATE {\"state\":\"done\"}\n");
    assert!(wait_for("logs to end", || logs.try_wait().unwrap()).success());
    assert!(wait_for("the runner to end", || runner.try_wait().unwrap()).success());
}

/// A window title, an erased screen, a clipboard write, colours, a redrawn line, a C1 control and a bidi
/// override.
const HOSTILE: &str = r"printf '\033]0;TITLE\007a\033[2J\033]52;c;ZXZpbA==\007\033[1;31mred\033[0m\tend\r\n50%%\r\302\233x\342\200\256y\377\033[38;5;1m'";

#[test]
fn a_terminal_is_shown_colours_and_no_other_sequences() {
    let repo = Repo::with_commands(&[
        ("build", &format!("{HOSTILE}; exit 1")),
        ("broken", &format!("{HOSTILE} >&2; exit 1")),
    ]);
    repo.ready("work", "build");
    repo.ready("other", "broken");
    repo.aynig(["run"]);
    let raw = repo.aynig_ok(["logs", "--branch", "work"]).stdout;
    assert!(raw.starts_with(b"\x1b]0;TITLE\x07"), "a pipe is given every byte: {raw:?}");
    let coloured = "^[]0;TITLE^Ga^[[2J^[]52;c;ZXZpbA==^G\u{1b}[1;31mred\u{1b}[0m\tend\r\n50%^M<U+009B>x<U+202E>y\u{fffd}\u{1b}[38;5;1m\u{1b}[0m";
    for options in [["work"].as_slice(), &["other", "--stderr"], &["work", "-f"]] {
        let arguments: Vec<&str> = ["logs"].iter().chain(options).copied().collect();
        assert_eq!(on_terminal(&repo, &[], &arguments), coloured, "{options:?}");
        let bare =
            coloured.replace("\u{1b}[1;31m", "").replace("\u{1b}[0m", "").replace("\u{1b}[38;5;1m", "");
        assert_eq!(on_terminal(&repo, &[("NO_COLOR", "1")], &arguments), bare, "{options:?}");
    }
}

#[test]
fn a_failed_attempt_that_printed_on_both_streams_shows_both() {
    let repo = Repo::with_commands(&[("bad", "echo begun; echo trouble >&2; exit 1")]);
    repo.ready("bad", "bad");
    repo.aynig(["run"]);
    let failed = repo.aynig_ok(["logs", "bad"]);
    assert_eq!(out(&failed), "begun\ntrouble\n");
    assert!(err(&failed).contains("standard error: "), "{}", err(&failed));
    assert_eq!(out(&repo.aynig_ok(["logs", "bad", "--stderr"])), "trouble\n");
    // After a success it is only mentioned.
    let done = after_a_run().aynig_ok(["logs", "work"]);
    assert!(done.stdout == STDOUT && err(&done).contains("add --stderr"), "{}", err(&done));
}

#[test]
fn a_failed_attempt_that_only_printed_errors_shows_them() {
    let repo = Repo::with_commands(&[
        ("bad", "echo trouble >&2; exit 1"),
        ("good", "echo fine >&2; git commit -q --allow-empty -m done -m 'dwp-state: done'"),
    ]);
    repo.ready("bad", "bad");
    repo.ready("good", "good");
    repo.aynig(["run"]);
    let failed = repo.aynig_ok(["logs", "--branch", "bad"]);
    assert_eq!(out(&failed), "trouble\n");
    assert!(err(&failed).contains("nothing was printed there; standard error: "), "{}", err(&failed));
    let done = repo.aynig_ok(["logs", "--branch", "good"]);
    assert_eq!(out(&done), "", "standard output is standard output");
    assert!(err(&done).contains("add --stderr"), "{}", err(&done));
    repo.command(".aynig/command/quiet", "exit 3");
    repo.commit_all("quiet");
    repo.ready("silent", "quiet");
    repo.aynig(["run"]);
    let silent = repo.aynig_ok(["logs", "silent"]);
    assert!(err(&silent).ends_with("nothing was printed\n"), "{}", err(&silent));
}

#[test]
fn following_goes_on_when_the_command_empties_its_log() {
    let repo = Repo::with_commands(&[(
        "build",
        r#"echo a long first line; until test -e "$GATE"; do sleep 0.05; done; : > /dev/stdout
           echo new; until test -e "$GATE.2"; do sleep 0.05; done; echo 'SET_STATE {"state":"done"}'"#,
    )]);
    repo.ready("work", "build");
    let gate = repo.beside("gate");
    let mut runner = repo.aynig_command();
    let mut runner =
        runner.env("GATE", &gate).args(["run"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let logs = repo.path.join(".aynig/logs");
    let printed = |wanted: &str| {
        wait_until(wanted, || {
            files_below(&logs)
                .iter()
                .any(|file| fs::read_to_string(file).is_ok_and(|text| text.contains(wanted)))
        });
    };
    printed("a long first line");
    let mut command = repo.aynig_command();
    command.args(["logs", "-f", "--branch", "work"]).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut following = command.spawn().unwrap();
    let mut stdout = following.stdout.take().unwrap();
    let mut first = [0; 18];
    stdout.read_exact(&mut first).unwrap();
    fs::write(&gate, "").unwrap();
    printed("new");
    let mut second = [0; 4];
    let (sender, receiver) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        stdout.read_exact(&mut second).map(|()| sender.send(second)).ok();
        let mut rest = String::new();
        stdout.read_to_string(&mut rest).map(|_| rest)
    });
    let shown = receiver.recv_timeout(std::time::Duration::from_secs(20));
    fs::write(repo.beside("gate.2"), "").unwrap();
    assert_eq!(shown.as_ref().map(|bytes| bytes.as_slice()), Ok(b"new\n".as_slice()));
    assert_eq!(reader.join().unwrap().unwrap(), "SET_STATE {\"state\":\"done\"}\n");
    assert!(wait_for("logs to end", || following.try_wait().unwrap()).success());
    assert!(wait_for("the runner to end", || runner.try_wait().unwrap()).success());
}
