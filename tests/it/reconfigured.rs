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

/// CONTRACT 13.11
#[test]
fn a_mistake_in_a_new_setting_ends_the_watch() {
    let repo = Repo::scene(&[("bad", "exit 1"), ("go", "next done")]);
    let runner = repo.aynig_start(["run", "--watch=3600"]);
    repo.ready("first", "bad");
    wait_until("the first branch to stall", || repo.state("first") == "stalled");
    repo.git(["config", "aynig.requireSigned", "perhaps"]);
    repo.ready("second", "go");
    let output = runner.finish();
    assert_eq!(output.status.code(), Some(3), "{}", told(&output));
    assert!(err(&output).contains("aynig.requireSigned = \"perhaps\""), "{}", told(&output));
    assert_eq!(repo.state("second"), "go");
    repo.assert_tidy();
}
