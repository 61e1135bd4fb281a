//! A new worktree is ready to work in: files that git ignores are copied, and `aynig.setup` has run.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Command, Output, Stdio};

use nix::sys::signal::Signal;

use super::scene::*;
use super::support::*;

/// A command that lists the ignored and untracked files of its worktree, and their modes.
const LOOK: &str = r#"git status --porcelain --ignored --untracked-files=all >"$ROOM/status"
stat -c '%A %n' .env deps deps/tool deps/link 2>/dev/null >"$ROOM/modes"
cat .env >"$ROOM/env" 2>/dev/null; readlink deps/link >"$ROOM/link"; say seen yes; next done"#;

const IGNORED: &str = ".env\ndeps/\n*.log\n.worktrees/\n.aynig/logs/\n";

/// A repository whose main worktree contains all kinds of files, and a branch ready for `work`.
fn repo(script: &str, list: &str) -> Repo {
    let repo = Repo::scene(&[("work", script)]);
    repo.write(".gitignore", IGNORED);
    repo.write(".worktreeinclude", list);
    repo.commit_all("what is ignored, and what is wanted");
    repo.write(".env", "TOKEN=1\n");
    repo.write("deps/tool", "#!/bin/sh\n");
    repo.write("deps/deep/file", "deep\n");
    repo.write("build.log", "a log\n");
    repo.write("notes.txt", "not ignored\n");
    repo.write("README", "changed by a person\n");
    for (path, mode) in [(".env", 0o600), ("deps/tool", 0o755), ("deps", 0o750)] {
        fs::set_permissions(repo.path.join(path), fs::Permissions::from_mode(mode)).expect("chmod");
    }
    symlink("../no/such/place", repo.path.join("deps/link")).expect("a link");
    repo.ready("task", "work");
    repo
}

fn ignored_in_worktree(repo: &Repo) -> Vec<String> {
    let lines = repo.noted_lines("status");
    lines.iter().map(|line| line.strip_prefix("!! ").expect("nothing but ignored files").to_owned()).collect()
}

fn was_said(repo: &Repo, name: &str) -> bool {
    repo.beside(name).exists()
}

/// Asserts that the branch is stalled with these words and that its command did not run.
fn assert_not_started(repo: &Repo, output: &Output, words: &[&str]) {
    assert_eq!(output.status.code(), Some(1), "{}", told(output));
    assert_eq!(repo.state("task"), "stalled");
    for words in words {
        assert!(repo.message("task").contains(words), "{words:?}: {}", repo.message("task"));
    }
    assert!(!was_said(repo, "seen"), "the command has run");
    repo.assert_tidy();
}

/// CONTRACT 9.16
#[test]
fn what_is_ignored_and_listed_is_brought_along() {
    let repo = repo(LOOK, "# wanted\n.env\ndeps/\n!deps/deep\nnotes.txt\nREADME\n");
    let date = || fs::metadata(repo.path.join(".env")).and_then(|found| found.modified()).expect("a date");
    let before = date();
    repo.aynig_ok(["run"]);
    assert_eq!(ignored_in_worktree(&repo), [".env", "deps/deep/file", "deps/link", "deps/tool"]);
    assert_eq!(
        repo.noted_lines("modes"),
        ["-rw------- .env", "-rwxr-xr-x deps/tool", "drwxr-x--- deps", "lrwxrwxrwx deps/link"]
    );
    assert_eq!([repo.said("env"), repo.said("link")], ["TOKEN=1", "../no/such/place"]);
    assert_eq!(repo.paths_in("task"), repo.paths_in("main"), "no commit holds them");
    assert_eq!((repo.rescues(), date()), (Vec::new(), before));
    repo.assert_tidy();
}

#[test]
fn without_a_list_nothing_is() {
    let repo = repo(LOOK, "");
    repo.aynig_ok(["run"]);
    assert_eq!(ignored_in_worktree(&repo), Vec::<String>::new());
    repo.git(["rm", "--quiet", "-f", ".worktreeinclude"]);
    repo.git(["commit", "--quiet", "-m", "no list"]);
    repo.ready("task", "work");
    repo.aynig_ok(["run"]);
    assert_eq!(ignored_in_worktree(&repo), Vec::<String>::new());
}

#[test]
fn a_list_of_everything_leaves_out_worktrees_and_logs() {
    let repo = repo(LOOK, "*\n");
    repo.write(".worktrees/mine", "x\n");
    repo.write(".aynig/logs/old", "x\n");
    // A nested repository is not copied.
    repo.git(["init", "--quiet", "deps/vendor"]);
    repo.write("deps/vendor/file", "x\n");
    repo.aynig_ok(["run"]);
    assert_eq!(ignored_in_worktree(&repo), [".env", "build.log", "deps/deep/file", "deps/link", "deps/tool"]);
}

/// CONTRACT 9.16
#[test]
fn it_happens_at_every_step_and_writes_over_nothing() {
    let repo = Repo::scene(&[
        ("one", r#"cat .env >"$ROOM/one"; next two"#),
        ("two", r#"cat .env >"$ROOM/two"; next done"#),
    ]);
    repo.write(".gitignore", ".env\n");
    repo.write(".worktreeinclude", ".env\n");
    repo.commit_all("lists");
    repo.git(["checkout", "-q", "-b", "own"]);
    repo.write(".env", "of the branch\n");
    repo.git(["add", "-f", ".env"]);
    repo.git(["commit", "--quiet", "-m", "its own", "-m", "dwp-state: one"]);
    repo.git(["checkout", "-q", "main"]);
    repo.write(".env", "of the main worktree\n");
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!([repo.said("one"), repo.said("two")], ["of the branch"; 2]);
    assert_eq!(repo.show("own:.env"), "of the branch");
    repo.ready("task", "one");
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!([repo.said("one"), repo.said("two")], ["of the main worktree"; 2]);
}

/// CONTRACT 9.16
#[test]
fn nothing_is_written_through_a_link_of_the_branch() {
    let repo = repo(LOOK, "deps/\n.env\n");
    fs::create_dir(repo.beside("outside")).expect("a directory");
    repo.git(["checkout", "-q", "-b", "sly"]);
    fs::rename(repo.path.join("deps"), repo.beside("deps")).expect("out of the way");
    symlink(repo.beside("outside"), repo.path.join("deps")).expect("a link");
    repo.git(["add", "-f", "deps"]);
    repo.git(["commit", "--quiet", "-m", "a link", "-m", "dwp-state: work"]);
    repo.git(["checkout", "-q", "main"]);
    fs::rename(repo.beside("deps"), repo.path.join("deps")).expect("back again");
    let output = repo.aynig_ok(["run", "--branch", "sly"]);
    assert!(err(&output).contains("their directory is a link"), "{}", told(&output));
    assert_eq!(files_below(&repo.beside("outside")), Vec::<std::path::PathBuf>::new());
    assert_eq!(repo.said("env"), "TOKEN=1", "the others are there");
}

/// CONTRACT 9.16
#[test]
fn what_the_branch_does_not_ignore_stays_out_of_it() {
    let repo = repo(LOOK, ".env\ndeps/\n");
    repo.git(["checkout", "-q", "-f", "-b", "older"]);
    repo.write(".gitignore", "deps/\n");
    repo.git(["commit", "--quiet", "-a", "-m", "ignores less", "-m", "dwp-state: work"]);
    repo.git(["checkout", "-q", "main"]);
    let output = repo.aynig_ok(["run", "--branch", "older"]);
    assert!(
        err(&output).contains("1 of the files") && err(&output).contains("does not ignore"),
        "{}",
        told(&output)
    );
    assert!(!ignored_in_worktree(&repo).contains(&".env".to_owned()));
    assert_eq!(repo.rescues(), Vec::<String>::new(), "no secret is rescued");
}

/// CONTRACT 9.16
#[test]
fn the_branchs_list_counts_else_that_of_the_main_worktree_and_with_commands_from_only_that() {
    let repo = repo(LOOK, ".env\n");
    repo.git(["rm", "--quiet", "--cached", ".worktreeinclude"]);
    repo.git(["commit", "--quiet", "-m", "no list"]);
    repo.ready("task", "work");
    repo.aynig_ok(["run"]);
    assert_eq!(ignored_in_worktree(&repo), [".env"], "the file in the main worktree, committed or not");
    let list = repo.git_with_input(&["hash-object", "-w", "--stdin"], b"*.log\n");
    repo.git(["update-index", "--add", "--cacheinfo", &format!("100644,{list},.worktreeinclude")]);
    let tree = repo.git(["write-tree"]);
    repo.git(["update-index", "--force-remove", ".worktreeinclude"]);
    for (arguments, expected) in
        [(vec!["run"], "build.log"), (vec!["run", "--commands-from", "main"], ".env")]
    {
        let commit =
            repo.git(["commit-tree", "-p", "main", "-m", "another list", "-m", "dwp-state: work", &tree]);
        repo.git(["update-ref", "refs/heads/task", &commit]);
        repo.aynig_ok(arguments);
        assert_eq!(ignored_in_worktree(&repo), [expected]);
    }
}

/// CONTRACT 9.17
#[test]
fn a_list_that_is_none_stalls_the_branch() {
    let repo = repo(LOOK, "");
    repo.git(["rm", "--quiet", "-f", ".worktreeinclude"]);
    repo.write(".worktreeinclude/x", "a directory\n");
    repo.git(["add", ".worktreeinclude"]);
    repo.git(["commit", "--quiet", "-m", "a directory"]);
    repo.ready("task", "work");
    let output = repo.aynig(["run"]);
    assert_not_started(&repo, &output, &["could not be made ready", "not a regular file"]);
}

/// CONTRACT 9.16, 9.17
#[test]
fn in_place_and_in_a_bare_repository_nothing_is_brought() {
    let repo = repo(LOOK, "*\n");
    repo.git(["config", "aynig.setup", "echo ran >>\"$ROOM/setup\""]);
    repo.git(["checkout", "-q", "-f", "task"]);
    let room = repo.beside("");
    let mut here = repo.aynig_command();
    let output =
        here.env("ROOM", &room).args(["run", "--current-branch", "only"]).output().expect("aynig runs");
    assert_eq!((output.status.code(), repo.state("task")), (Some(0), "done".into()), "{}", told(&output));
    assert!(!was_said(&repo, "setup"));
    repo.ready("task", "work");
    let bare = repo.into_bare();
    bare.aynig_ok(["run"]);
    assert_eq!(ignored_in_worktree(&bare), Vec::<String>::new());
}

// aynig.setup

/// CONTRACT 9.17
#[test]
fn setup_runs_in_the_worktree_before_the_command() {
    let repo = Repo::scene(&[("work", r#"cat made >"$ROOM/seen"; git add -A; next done"#)]);
    repo.ready("task", "work");
    let line = "pwd >made; echo \"$AYNIG_BRANCH|$BODY\" >>made; echo to-stdout; echo to-stderr >&2; \
                echo 'SET_STATE {\"state\":\"wrong\"}'";
    repo.git(["config", "aynig.setup", line]);
    repo.aynig_ok(["run"]);
    let seen = repo.said("seen");
    assert_eq!(seen, format!("{}\ntask|the body", repo.path.join(".worktrees/task").display()));
    assert_eq!(repo.state("task"), "done");
    assert_eq!(repo.show("task:made"), seen);
    let log = out(&repo.aynig_ok(["logs", "--branch", "task", "--stderr"]));
    assert!(log.contains("to-stdout") && log.contains("to-stderr"), "{log}");
    let log = out(&repo.aynig_ok(["logs", "--branch", "task"]));
    assert!(!log.contains("to-stdout"), "{log}");
    repo.assert_tidy();
}

/// CONTRACT 9.17
#[test]
fn a_setup_that_fails_stalls_the_branch_with_its_words() {
    for (line, arguments, words) in [
        ("echo no network >&2; exit 3", vec!["run"], ["exited with 3", "no network"]),
        ("kill -9 $$", vec!["run"], ["signal 9", "aynig.setup"]),
        ("exec sleep 600", vec!["run", "--command-timeout", "1"], ["1 s", "aynig.setup"]),
    ] {
        let repo = Repo::scene(&[("work", "say seen yes; next done")]);
        repo.ready("task", "work");
        repo.git(["config", "aynig.setup", line]);
        let output = repo.aynig(arguments);
        assert_not_started(&repo, &output, &["could not be made ready", words[0], words[1]]);
    }
}

#[test]
fn the_lease_is_renewed_during_setup_and_a_signal_ends_it() {
    let repo = Repo::scene(&[("work", "say seen yes; next done")]);
    repo.ready("task", "work");
    let setup = repo.scripted("say setup $$; await go");
    repo.git(["config", "aynig.setup", &setup]);
    let runner = repo.aynig_start(["run", "--lease-seconds", "3"]);
    let process = repo.said_pid("setup");
    let lease = repo.head("task");
    wait_until("a renewal", || repo.head("task") != lease);
    assert_eq!(repo.state("task"), "working");
    assert!(process.lives());
    runner.signal(Signal::SIGTERM);
    let output = runner.finish();
    process.gone();
    assert_eq!(output.status.code(), Some(128 + 15), "{}", told(&output));
    assert_eq!(repo.state("task"), "work");
    assert!(!was_said(&repo, "seen"));
    repo.assert_tidy();
}

#[test]
fn a_lease_that_is_lost_during_setup_starts_nothing() {
    let repo = Repo::scene(&[("work", "say seen yes; next done")]);
    repo.ready("task", "work");
    let setup = repo.scripted("say setup $$; await go");
    repo.git(["config", "aynig.setup", &setup]);
    let runner = repo.aynig_start(["run"]);
    repo.said("setup");
    let other = repo.taken_by_other("main", "task", 300);
    repo.release("go");
    let output = runner.finish();
    assert_eq!(repo.head("task"), other, "{}", told(&output));
    assert!(!was_said(&repo, "seen"));
    repo.assert_tidy();
}

#[test]
fn a_setup_that_moves_the_branch_on_itself_starts_nothing() {
    let repo = Repo::scene(&[("work", "say seen yes; next done")]);
    repo.ready("task", "work");
    repo.git(["config", "aynig.setup", "\"$AYNIG_BIN\" set-state --state later"]);
    repo.aynig(["run"]);
    assert_eq!(repo.state("task"), "later");
    assert!(!was_said(&repo, "seen"));
}

#[test]
fn the_lease_is_renewed_while_files_are_brought() {
    let repo = repo(LOOK, ".env\n");
    let bin = repo.beside("bin");
    fs::create_dir(&bin).expect("a directory");
    let found = out(&Command::new("sh").args(["-c", "command -v git"]).output().expect("sh runs"));
    let script = repo.scripted(&format!(
        "case \" $* \" in *\" ls-files -z --others \"*) say asked yes; await go;; esac\nexec '{}' \"$@\"",
        found.trim()
    ));
    fs::write(bin.join("git"), format!("#!/bin/sh\n{script}\n")).expect("a file");
    fs::set_permissions(bin.join("git"), fs::Permissions::from_mode(0o755)).expect("chmod");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").expect("a PATH"));
    let mut command = repo.aynig_command();
    command.env("PATH", path).args(["run", "--lease-seconds", "3"]);
    let runner = Running::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    repo.said("asked");
    let lease = repo.head("task");
    wait_until("a renewal", || repo.head("task") != lease);
    assert_eq!(repo.state("task"), "working");
    repo.release("go");
    assert_eq!(runner.finish().status.code(), Some(0));
    assert_eq!((repo.state("task"), repo.said("env")), ("done".into(), "TOKEN=1".into()));
}
