//! `run --watch` while its repository is missing: removed for good, or moved away for a while.

use super::scene::*;
use super::support::*;

fn watching(interval: &str) -> (Repo, Running) {
    let repo = Repo::scene(&[("quick", "next done")]);
    repo.ready("first", "quick");
    let mut shell = std::process::Command::new("sh");
    hermetic(&mut shell).current_dir(&repo.path).env("AYNIG", binary()).env("ERR", repo.beside("err"));
    shell.args(["-c", &format!("exec \"$AYNIG\" run {interval} 2>\"$ERR\"")]);
    shell.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut runner = Running::start(&mut shell);
    let line = runner.next_line();
    assert!(line.contains("first  quick → done"), "{line}");
    (repo, runner)
}

/// Waits until the runner has reported this many times that the repository is missing.
fn missed(repo: &Repo, times: usize) {
    wait_until("the absence to be told", || {
        let said = std::fs::read_to_string(repo.beside("err")).expect("a file");
        said.matches("there is no repository at").count() == times
    });
}

/// CONTRACT 11.12
#[test]
fn a_removed_repository_ends_the_watch_after_twenty_intervals() {
    let (repo, runner) = watching("--watch=1");
    // The runner may still put its worktree away.
    wait_until("it is removed", || std::fs::remove_dir_all(&repo.path).is_ok());
    let output = runner.finish();
    assert_eq!(output.status.code(), Some(3), "{}", told(&output));
    let said = std::fs::read_to_string(repo.beside("err")).expect("a file");
    let gone = format!("warning: there is no repository at {} any more", repo.path.display());
    assert_eq!(said.matches(&gone).count(), 1, "{said}");
    assert!(said.contains("error: ") && said.contains("hint: "), "{said}");
    assert!(!repo.path.exists(), "nothing was made there: {:?}", files_below(&repo.path));
}

/// CONTRACT 11.12
#[test]
fn one_that_comes_back_is_watched_on() {
    let (repo, mut runner) = watching("--watch=1");
    let away = repo.beside("away");
    std::fs::rename(&repo.path, &away).expect("moved away");
    let absent = Repo { room: tempfile::tempdir().expect("a directory"), path: away };
    absent.ready("second", "quick");
    missed(&repo, 1);
    std::fs::rename(&absent.path, &repo.path).expect("and back");
    let line = runner.next_line();
    assert!(line.contains("second  quick → done"), "{line}");
    // Changes are seen again, also those of a different repository at the same path.
    std::fs::rename(&repo.path, &absent.path).expect("moved away");
    missed(&repo, 2);
    absent.git(["clone", "--quiet", ".", repo.path.to_str().expect("text")]);
    for setting in [["user.name", "T"], ["user.email", "t@example.com"]] {
        repo.git(["config", setting[0], setting[1]]);
    }
    repo.ready("third", "quick");
    let line = runner.next_line();
    assert!(line.contains("third  quick → done"), "{line}");
    runner.signal(nix::sys::signal::Signal::SIGTERM);
    let output = runner.finish();
    assert_eq!(output.status.code(), Some(143), "{}", told(&output));
    let said = std::fs::read_to_string(repo.beside("err")).expect("a file");
    assert_eq!(said.matches("is there again").count(), 2, "{said}");
}

/// CONTRACT 11.12
#[test]
fn a_command_outlives_a_repository_that_is_away_for_a_while() {
    let repo = Repo::scene(&[("work", "say ready $$; await release; next done")]);
    repo.ready("task", "work");
    let mut runner = repo.aynig_start(["--log-level", "warn", "run"]);
    let command = repo.said_pid("ready");
    let away = repo.beside("away");
    std::fs::rename(&repo.path, &away).expect("moved away");
    let line = runner.await_error("could not look after the lease");
    assert!(line.contains("the repository is not there"), "{line}");
    assert!(command.lives() && !repo.path.exists(), "{:?}", files_below(&repo.path));
    std::fs::rename(&away, &repo.path).expect("and back");
    repo.release("release");
    let output = runner.finish();
    assert_eq!((output.status.code(), repo.state("task")), (Some(0), "done".to_owned()), "{}", told(&output));
    repo.assert_tidy();
}
