//! What others do while `aynig land` is between the checkout and the branch, and what is left if it dies there: no
//! content is lost or reverted.

use std::os::unix::process::ExitStatusExt;
use std::process::{Output, Stdio};

use nix::sys::signal::Signal;

use super::land::{finished, land, landed, plain};
use super::scene::*;
use super::support::*;

/// A repository with the finished branch `task`, which changes README as well, and the checkout on `main`.
fn field() -> Repo {
    let repo = finished();
    plain(&repo, "task", "README", "theirs\n", "readme\n\ndwp-state: done");
    repo.git(["switch", "-q", "main"]);
    repo
}

fn status(repo: &Repo) -> String {
    repo.git(["status", "--porcelain"])
}

fn start(repo: &Repo, branch: &str, crash: Option<&str>) -> Running {
    let mut command = repo.aynig_command();
    command.args(["land", branch]).stdout(Stdio::piped()).stderr(Stdio::piped());
    if let Some(crash) = crash {
        command.env("AYNIG_CRASH_AT", crash);
    }
    Running::start(&mut command)
}

/// A landing that is stopped when the checkout has gone along and the branch has not.
fn stopped(repo: &Repo) -> Running {
    let running = start(repo, "task", Some("checkout-carried:stop"));
    wait_until("it to stop", || is_stopped(running.pid()));
    assert!(!repo.paths_in("main").contains(&"made.txt".to_owned()), "not moved");
    assert!(repo.path.join("made.txt").exists());
    running
}

fn goes_on(running: Running) -> Output {
    running.signal(Signal::SIGCONT);
    running.finish()
}

fn killed(repo: &Repo) {
    let output = start(repo, "task", Some("checkout-carried")).finish();
    assert_eq!(output.status.signal(), Some(9), "{}", told(&output));
}

fn mine(repo: &Repo) {
    repo.write("mine.txt", "mine\n");
    repo.git(["add", "mine.txt"]);
}

/// A commit on `main` by somebody who does not look after the checkout.
fn moved_from_outside(repo: &Repo) -> String {
    let blob = repo.git(["rev-parse", "main:README"]);
    let spare = repo.beside("spare-index");
    let git = |arguments: &[&str]| {
        let output = repo.git_command().env("GIT_INDEX_FILE", &spare).args(arguments).output().expect("git");
        assert!(output.status.success(), "{}", told(&output));
        out(&output).trim().to_owned()
    };
    git(&["read-tree", "main"]);
    git(&["update-index", "--add", "--cacheinfo", &format!("100644,{blob},x.txt")]);
    let tree = git(&["write-tree"]);
    let commit = git(&["commit-tree", "-m", "outside", "-p", "main", &tree]);
    repo.git(["update-ref", "refs/heads/main", &commit]);
    commit
}

/// CONTRACT 14.4
#[test]
fn a_commit_of_a_person_in_between_reverts_nothing() {
    let repo = field();
    let running = stopped(&repo);
    mine(&repo);
    repo.git(["commit", "-q", "-m", "mine"]);
    let commit = repo.head("main");
    let words = ["main moved meanwhile, and has these files already", "git -C", "show"];
    assert_refused(&goes_on(running), 1, &words);
    assert_eq!(repo.head("main"), commit);
    for (path, text) in [("made.txt", "made"), ("mine.txt", "mine"), ("README", "theirs")] {
        assert_eq!(repo.show(&format!("main:{path}")), text);
    }
    assert_eq!(status(&repo), "");
    assert!(out(&landed(&repo, &[])).starts_with("nothing to land"));
}

/// CONTRACT 14.4
#[test]
fn a_commit_of_one_landed_file_in_between_keeps_it() {
    let repo = field();
    let running = stopped(&repo);
    repo.git(["commit", "-q", "-m", "part", "README"]);
    assert_refused(&goes_on(running), 1, &["main moved meanwhile; nothing was landed", "the same again"]);
    assert_eq!((repo.message("main"), repo.show("main:README")), ("part".to_owned(), "theirs".to_owned()));
    assert_eq!(status(&repo), "");
    assert!(!repo.path.join("made.txt").exists());
    landed(&repo, &[]);
    assert_eq!(repo.show("main:made.txt"), "made");
    assert_eq!(status(&repo), "");
}

/// CONTRACT 14.4
#[test]
fn what_a_killed_landing_leaves_is_finished_by_the_same_again() {
    let repo = field();
    let main = repo.head("main");
    killed(&repo);
    assert_eq!(repo.head("main"), main);
    assert_eq!(status(&repo), "M  README\nA  made.txt");
    landed(&repo, &[]);
    assert_eq!(
        (repo.show("main:made.txt"), repo.show("main:README")),
        ("made".to_owned(), "theirs".to_owned())
    );
    assert_eq!(repo.git(["rev-parse", "main~1"]), main);
    assert_eq!(status(&repo), "");
}

/// CONTRACT 14.4
#[test]
fn what_a_killed_landing_leaves_may_be_committed_or_changed() {
    let repo = field();
    plain(&repo, "away", "o.txt", "o\n", "other");
    killed(&repo);
    let changed = ["differ from what is committed"];
    assert_refused(&repo.aynig(["land", "away"]), 3, &changed);
    // A change on top is a person's.
    repo.write("made.txt", "made by me\n");
    assert_refused(&land(&repo, &[]), 3, &changed);
    assert_eq!(status(&repo), "M  README\nAM made.txt");
    repo.write("made.txt", "made\n");
    mine(&repo);
    assert_refused(&land(&repo, &[]), 3, &changed);
    repo.git(["commit", "-q", "-m", "as the hint says"]);
    assert!(out(&landed(&repo, &[])).starts_with("nothing to land"));
    assert_eq!(repo.aynig(["land", "away"]).status.code(), Some(0));
    for (path, text) in [("made.txt", "made"), ("mine.txt", "mine"), ("README", "theirs"), ("o.txt", "o")] {
        assert_eq!(repo.show(&format!("main:{path}")), text);
    }
    assert_eq!(status(&repo), "");
}

/// CONTRACT 14.1, 14.4
#[test]
fn a_checkout_goes_back_if_the_branch_was_moved_from_outside() {
    let repo = field();
    let running = stopped(&repo);
    mine(&repo);
    let theirs = moved_from_outside(&repo);
    assert_refused(&goes_on(running), 1, &["main moved meanwhile; nothing was landed", "the same again"]);
    assert_eq!(repo.head("main"), theirs);
    assert_eq!(status(&repo), "A  mine.txt");
    assert!(!repo.path.join("made.txt").exists());
    repo.git(["commit", "-q", "-m", "mine"]);
    landed(&repo, &[]);
    for (path, text) in [
        ("made.txt", "made"),
        ("mine.txt", "mine"),
        ("README", "theirs"),
        ("x.txt", "a repository for a test"),
    ] {
        assert_eq!(repo.show(&format!("main:{path}")), text);
    }
    assert_eq!(status(&repo), "");
}

/// CONTRACT 14.4
#[test]
fn a_checkout_that_cannot_go_back_is_brought_along_by_the_commands_that_are_shown() {
    let repo = field();
    let running = stopped(&repo);
    moved_from_outside(&repo);
    repo.write("made.txt", "made by me\n");
    let output = goes_on(running);
    let words = ["main moved meanwhile", "still has what was to be landed", "switch --detach", "switch main"];
    assert_refused(&output, 1, &words);
    assert_eq!(repo.message("main"), "outside");
    let words = err(&output);
    let commands: Vec<&str> = words.split('`').filter(|part| part.starts_with("git -C")).collect();
    let [detach, switch] = commands[..] else { panic!("{words}") };
    let sh = |command: &str| {
        let mut shell = std::process::Command::new("/bin/sh");
        hermetic(&mut shell).args(["-c", command]).output().expect("a shell")
    };
    assert!(sh(detach).status.success(), "{words}");
    assert_eq!(status(&repo), " M made.txt");
    // Git itself looks after the change.
    assert!(!sh(switch).status.success(), "{words}");
    repo.git(["checkout", "--", "made.txt"]);
    assert!(sh(switch).status.success(), "{words}");
    assert_eq!(repo.git(["status", "--porcelain", "--branch"]), "## main");
    assert!(!repo.path.join("made.txt").exists() && repo.path.join("x.txt").is_file());
}

/// CONTRACT 14.4
#[test]
fn a_checkout_goes_back_if_the_branch_cannot_be_moved() {
    let repo = field();
    let main = repo.head("main");
    let running = stopped(&repo);
    let lock = repo.path.join(".git/refs/heads/main.lock");
    std::fs::write(&lock, "").expect("a file");
    assert_refused(&goes_on(running), 3, &["main.lock"]);
    assert_eq!((repo.head("main"), status(&repo)), (main, String::new()));
    std::fs::remove_file(&lock).expect("it is there");
    landed(&repo, &[]);
    assert_eq!(status(&repo), "");
}

/// CONTRACT 14.4
#[test]
fn an_index_that_is_written_back_in_between_reverts_nothing() {
    let repo = field();
    let running = stopped(&repo);
    repo.git(["reset", "-q", "--hard"]);
    mine(&repo);
    let output = goes_on(running);
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    assert_eq!(repo.show("main:made.txt"), "made");
    assert_eq!(status(&repo), "A  mine.txt");
}

/// CONTRACT 14.4
#[test]
fn who_switches_in_between_takes_nothing_of_the_landing_along() {
    let repo = field();
    plain(&repo, "main", "x.txt", "x\n", "x");
    repo.git(["branch", "side", "main~1"]);
    for (switch, words, there) in [
        (["switch", "-q", "side"], "is on side now, so it did not go along with main", "side"),
        (["switch", "-q", "--detach"], "is on no branch now, so it did not go along with main", "HEAD"),
    ] {
        let running = stopped(&repo);
        mine(&repo);
        repo.git(switch);
        let output = goes_on(running);
        assert_eq!(output.status.code(), Some(0), "{}", told(&output));
        assert!(err(&output).contains(words), "{}", told(&output));
        assert!(!err(&output).contains("went along"), "{}", told(&output));
        assert_eq!(repo.show("main:made.txt"), "made");
        assert_eq!(
            (status(&repo), repo.git(["rev-parse", "--abbrev-ref", "HEAD"])),
            ("A  mine.txt".to_owned(), there.to_owned())
        );
        repo.git(["rm", "-q", "-f", "mine.txt"]);
        repo.git(["switch", "-q", "main"]);
        assert_eq!(status(&repo), "");
        repo.git(["reset", "-q", "--hard", "main~1"]);
    }
}

/// CONTRACT 14.4
#[test]
fn what_cannot_be_taken_out_of_another_branch_is_named_with_the_commands() {
    let repo = field();
    let running = stopped(&repo);
    repo.git(["switch", "-q", "-c", "side"]);
    repo.write("made.txt", "made by me\n");
    let output = goes_on(running);
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    let words = err(&output);
    assert!(words.contains("is on side now") && words.contains("what landed may be staged there"), "{words}");
    assert!(!words.contains("went along"), "{words}");
    let commands: Vec<&str> = words.split('`').filter(|part| part.starts_with("git -C")).collect();
    let [_, switch] = commands[..] else { panic!("{words}") };
    let mut shell = std::process::Command::new("/bin/sh");
    assert!(hermetic(&mut shell).args(["-c", switch]).status().expect("a shell").success(), "{words}");
    assert_eq!(repo.git(["status", "--porcelain", "--branch"]), "## main\n M made.txt");
}

/// CONTRACT 14.4
#[test]
fn a_git_that_was_killed_in_the_checkout_is_named_with_its_lock() {
    let repo = field();
    let lock = repo.path.join(".git/index.lock");
    // Others open it, since a process that this one is about to start may have its files for a moment.
    let shell = |script: &str| {
        let mut shell = std::process::Command::new("/bin/sh");
        hermetic(&mut shell).current_dir(&repo.path).args(["-c", script]).stdout(Stdio::piped());
        shell.spawn().expect("a shell")
    };
    shell(": >.git/index.lock").wait().expect("it ends");
    let words = ["index.lock: a git was killed there", "`rm ", "nothing was changed"];
    assert_refused(&land(&repo, &[]), 3, &words);
    // Its files were written in part.
    repo.write("README", "theirs\n");
    repo.write("made.txt", "made\n");
    let mut holder = shell("exec 3<.git/index.lock; echo; exec sleep 600");
    std::io::Read::read_exact(holder.stdout.as_mut().expect("piped"), &mut [0]).expect("it is open");
    let its = format!("process {} holds ", holder.id());
    assert_refused(&land(&repo, &[]), 3, &["differ from what is committed", &its]);
    holder.kill().and_then(|()| holder.wait()).expect("it ends");
    let output = land(&repo, &[]);
    let words = ["differ from what is committed", "a git was killed there", "stash --include-untracked`"];
    assert_refused(&output, 3, &words);
    std::fs::remove_file(&lock).expect("it is there");
    let words = err(&output);
    let stash = words.split('`').find(|part| part.ends_with("stash --include-untracked")).expect("a command");
    let mut shell = std::process::Command::new("/bin/sh");
    assert!(hermetic(&mut shell).args(["-c", stash]).status().expect("a shell").success(), "{words}");
    landed(&repo, &[]);
    assert_eq!((repo.show("main:made.txt"), status(&repo)), ("made".to_owned(), String::new()));
}

/// CONTRACT 14.4
#[test]
fn landings_into_one_checkout_wait_for_each_other() {
    let repo = field();
    plain(&repo, "away", "o.txt", "o\n", "other");
    let first = stopped(&repo);
    let second = start(&repo, "away", None);
    let place = repo.path.join(".git").canonicalize().expect("it exists");
    // It has opened what the first one has locked.
    wait_until("the second one to wait", || {
        let open = std::fs::read_dir(format!("/proc/{}/fd", second.pid())).expect("it runs");
        open.flatten().any(|entry| std::fs::read_link(entry.path()).is_ok_and(|file| file == place))
    });
    for output in [goes_on(first), second.finish()] {
        assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    }
    assert_eq!((repo.show("main:made.txt"), repo.show("main:o.txt")), ("made".to_owned(), "o".to_owned()));
    assert_eq!(status(&repo), "");
}

/// CONTRACT 14.4
#[test]
fn what_was_written_before_a_file_could_not_be_is_put_aside_by_the_command_that_is_shown() {
    let repo = field();
    let main = repo.head("main");
    plain(&repo, "task", "z.bad", "z\n", "a file that a filter refuses\n\ndwp-state: done");
    repo.git(["config", "filter.x.required", "true"]);
    repo.git(["config", "filter.x.clean", "cat"]);
    repo.git(["config", "filter.x.smudge", "false"]);
    std::fs::create_dir_all(repo.path.join(".git/info")).expect("made");
    std::fs::write(repo.path.join(".git/info/attributes"), "*.bad filter=x\n").expect("written");
    let output = land(&repo, &[]);
    let words =
        ["so main was not moved: ", "z.bad", "status`", "put that aside", "stash --include-untracked`"];
    assert_refused(&output, 1, &words);
    assert!(!err(&output).contains("nothing was changed"), "{}", told(&output));
    assert_eq!(repo.head("main"), main);
    repo.git(["config", "filter.x.smudge", "cat"]);
    repo.git(["stash", "--include-untracked"]);
    landed(&repo, &[]);
    assert_eq!((status(&repo), repo.show("main:z.bad")), (String::new(), "z".to_owned()));
}
