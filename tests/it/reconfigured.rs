//! A run that stays reads git's configuration anew when it changes.

use nix::sys::signal::Signal;

use super::scene::told;
use super::support::*;

/// CONTRACT 13.11
#[test]
fn watch_reads_its_settings_anew() {
    let repo = Repo::scene(&[("work", "next done"), ("go", "next done")]);
    let runner = repo.aynig_start(["run", "--watch=3600"]);
    repo.ready("first", "work");
    wait_until("the first branch to be done", || repo.state("first") == "done");
    repo.git(["config", "aynig.states", "go"]);
    repo.ready("second", "work");
    repo.ready("third", "go");
    wait_until("the third branch to be done", || repo.state("third") == "done");
    assert_eq!(repo.state("second"), "work", "the new setting does not admit it");
    repo.git(["config", "--unset", "aynig.states"]);
    repo.ready("fourth", "work");
    for branch in ["second", "fourth"] {
        wait_until(&format!("the {branch} branch to be done"), || repo.state(branch) == "done");
    }
    wait_until("the last worktree to go", || repo.worktrees().is_empty());
    runner.signal(Signal::SIGTERM);
    assert_eq!(runner.finish().status.code(), Some(143));
    repo.assert_tidy();
}

fn set(repo: &Repo, value: &str) {
    repo.git(["config", "aynig.requireSigned", value]);
}

fn stop(runner: Running) {
    runner.signal(Signal::SIGTERM);
    assert_eq!(runner.finish().status.code(), Some(143));
}

/// CONTRACT 13.11
#[test]
fn a_mistake_in_a_new_setting_runs_nothing_until_it_is_mended() {
    let repo = Repo::scene(&[("go", "next done")]);
    let mut runner = repo.aynig_start(["run", "--watch=1"]);
    repo.ready("first", "go");
    wait_until("the first branch to be done", || repo.state("first") == "done");
    for wrong in ["perhaps", "maybe"] {
        set(&repo, wrong);
        let line = runner.await_error("nothing is run");
        assert!(line.contains(&format!("aynig.requireSigned = \"{wrong}\"")), "{line}");
        repo.ready(wrong, "go");
    }
    assert_eq!(repo.state("perhaps"), "go");
    set(&repo, "false");
    for branch in ["perhaps", "maybe"] {
        wait_until("the others to be done", || repo.state(branch) == "done");
    }
    wait_until("the last worktree to go", || repo.worktrees().is_empty());
    stop(runner);
    // At the start it is still an error, and a stop ends the waiting.
    set(&repo, "perhaps");
    assert_eq!(repo.aynig(["run", "--watch"]).status.code(), Some(3));
    set(&repo, "false");
    let mut runner = repo.aynig_start(["run", "--watch=3600"]);
    repo.ready("last", "go");
    wait_until("the last branch to be done", || repo.state("last") == "done");
    set(&repo, "perhaps");
    repo.ready("woken", "go");
    runner.await_error("nothing is run");
    stop(runner);
    repo.assert_tidy();
}

/// An editor may take the file away for a moment, which turns `aynig.requireSigned` off for git.
///
/// CONTRACT 13.11
#[test]
fn a_configuration_that_is_away_for_a_moment_turns_nothing_off() {
    let repo = Repo::scene(&[("go", "next done")]);
    set(&repo, "true");
    let mut runner = repo.aynig_start(["--log-level", "debug", "run", "--watch=1"]);
    let (config, away) = (repo.path.join(".git/config"), repo.beside("config"));
    repo.ready("first", "go");
    runner.await_error("first: go was not run");
    // While it runs passes.
    std::fs::rename(&config, &away).expect("moved");
    repo.ready("second", "go");
    runner.await_error("second: go was not run");
    std::fs::rename(&away, &config).expect("moved back");
    // A full disk leaves an empty file, which no git makes.
    let text = std::fs::read(&config).expect("readable");
    std::fs::write(&config, "").expect("emptied");
    repo.ready("emptied", "go");
    runner.await_error("emptied: go was not run");
    std::fs::write(&config, text).expect("written");
    // While it waits for a value to be mended.
    set(&repo, "perhaps");
    runner.await_error("nothing is run");
    std::fs::rename(&config, &away).expect("moved");
    runner.await_error("git's configuration is missing");
    std::fs::rename(&away, &config).expect("moved back");
    set(&repo, "true");
    repo.ready("third", "go");
    runner.await_error("third: go was not run");
    for branch in ["first", "second", "emptied", "third"] {
        assert_eq!(repo.state(branch), "go", "{branch}");
    }
    stop(runner);
    repo.assert_tidy();
}

/// CONTRACT 13.2
#[test]
fn commands_that_are_away_for_a_moment_do_not_end_the_watch() {
    let repo = Repo::scene(&[("go", "next done")]);
    repo.git(["branch", "tools", "main"]);
    let mut runner = repo.aynig_start(["run", "--watch=1", "--commands-from", "tools"]);
    repo.ready("first", "go");
    wait_until("the first branch to be done", || repo.state("first") == "done");
    repo.git(["branch", "-D", "tools"]);
    repo.ready("second", "go");
    let line = runner.await_error("nothing is run");
    assert!(line.contains("--commands-from"), "{line}");
    assert_eq!(repo.state("second"), "go");
    repo.git(["branch", "tools", "main"]);
    wait_until("the second branch to be done", || repo.state("second") == "done");
    wait_until("the last worktree to go", || repo.worktrees().is_empty());
    stop(runner);
    let absent = repo.aynig(["run", "--watch", "--commands-from", "nowhere"]);
    assert_eq!(absent.status.code(), Some(3), "{}", told(&absent));
    // The same for a setting that is made while it runs.
    let mut runner = repo.aynig_start(["run", "--watch=1"]);
    repo.ready("third", "go");
    wait_until("the third branch to be done", || repo.state("third") == "done");
    repo.git(["config", "aynig.commandsFrom", "nowhere"]);
    runner.await_error("nothing is run");
    repo.git(["config", "--unset", "aynig.commandsFrom"]);
    repo.ready("fourth", "go");
    wait_until("the fourth branch to be done", || repo.state("fourth") == "done");
    stop(runner);
}

/// CONTRACT 13.11
#[test]
fn a_wrong_setting_of_steps_is_an_error_before_anything_is_run() {
    for (name, value, why) in [
        ("orchLeaseSeconds", "5", "10"),
        ("dataDir", "relative", "no absolute path"),
        ("retryPause", "soon", "write durations"),
        ("requireSignedApprovals", "perhaps", "neither true nor false"),
    ] {
        let repo = Repo::scene(&[("work", "next done")]);
        repo.ready("task", "work");
        repo.git(["config", &format!("aynig.{name}"), value]);
        let output = repo.aynig(["run"]);
        let told = err(&output);
        assert!(!output.status.success(), "{name}: {told}");
        assert!(told.contains(&format!("aynig.{name}")) && told.contains(why), "{name}: {told}");
        assert_eq!(repo.state("task"), "work", "{name}");
    }
}
