//! `--watch` with a remote: one cheap request per interval.

use nix::sys::signal::Signal;

use super::*;

const WATCH: &[&str] = &["run", "--remote", "origin", "--watch=1"];

/// CONTRACT 11.9
#[test]
fn idle_intervals_only_ask_and_a_push_wakes_it() {
    let hub = hub(&[("work", "echo ran >>\"$ROOM/ran\"; next done")]);
    let clone = clone(&hub);
    let wrapper = Wrapper::new(&hub, "");
    let runner = wrapper.start(&clone, WATCH);
    wait_until("three questions", || wrapper.count("ls-remote") >= 3);
    let fetches = wrapper.count("fetch");
    assert!(fetches <= 1, "{fetches} fetches for nothing");
    hub.ready("task", "work");
    wait_until("the step", || hub.state("task") == "done");
    wait_until("another question", || {
        let asked = wrapper.count("ls-remote");
        let fetched = wrapper.count("fetch");
        wait_until("two more questions", || wrapper.count("ls-remote") >= asked + 2);
        wrapper.count("fetch") == fetched
    });
    assert_eq!(hub.noted_lines("ran"), ["ran"]);
    runner.signal(Signal::SIGTERM);
    assert_exit(&runner.finish(), 143);
    clone.assert_tidy();
}

/// CONTRACT 11.9
#[test]
fn a_remote_that_goes_away_is_mentioned_once_and_so_is_its_return() {
    let hub = hub(&[("work", "echo ran >>\"$ROOM/ran\"; next done")]);
    let clone = clone(&hub);
    let wrapper = Wrapper::new(&hub, "");
    let runner = wrapper.start(&clone, WATCH);
    wait_until("a question", || wrapper.count("ls-remote") >= 2);
    fs::rename(&hub.path, hub.beside("away.git")).expect("moved");
    let asked = wrapper.count("ls-remote");
    wait_until("questions without an answer", || wrapper.count("ls-remote") >= asked + 3);
    fs::rename(hub.beside("away.git"), &hub.path).expect("moved");
    hub.ready("task", "work");
    wait_until("the step", || hub.state("task") == "done");
    runner.signal(Signal::SIGTERM);
    let output = runner.finish();
    assert_exit(&output, 143);
    let said = err(&output);
    assert_eq!(said.matches("warning").count(), 1, "{}", told(&output));
    assert_eq!(said.matches("answers again").count(), 1, "{}", told(&output));
    assert_eq!(hub.noted_lines("ran"), ["ran"]);
    clone.assert_tidy();
}

#[test]
fn a_branch_that_is_set_back_is_run_again() {
    let hub = hub(&[("work", "echo ran >>\"$ROOM/ran\"; next done")]);
    let clone = clone(&hub);
    let trigger = hub.ready("task", "work");
    let runner = clone.aynig_start(["run", "--remote", "origin", "--watch=1"]);
    for times in 1..3 {
        wait_until("a run", || hub.noted_lines("ran").len() == times && hub.state("task") == "done");
        hub.git(["update-ref", "refs/heads/task", &trigger]);
    }
    wait_until("the last", || hub.noted_lines("ran").len() == 3 && hub.state("task") == "done");
    runner.signal(nix::sys::signal::Signal::SIGTERM);
    runner.finish();
}
