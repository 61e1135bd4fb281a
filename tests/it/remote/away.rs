//! A hub that is away for a while: whoever waits there asks again, and does not fail.

use super::*;
use crate::deferred::{deliveries, slots};

/// Takes the hub away after a push, whose answer arrives.
const AFTER_A_PUSH: &str = r#""$GIT" "$@"; code=$?; : >"$ROOM/away"; exit $code"#;

/// Takes it away before the answer.
const BEFORE_THE_ANSWER: &str = r#""$GIT" "$@" >"$ROOM/said" 2>&1; : >"$ROOM/away"; exit 128"#;

const WAIT: &[&str] = &["--state", "work", "--when-free", "--wait", "--remote", "origin"];

/// A hub whose branch `task` is in the state `slow`, and two clones.
fn scene() -> (Repo, Repo, Repo) {
    let slow = "say ready $$; await release; next rests";
    let hub = hub(&[("slow", slow), ("work", "echo ran >>\"$ROOM/ran\"; next done")]);
    hub.ready("task", "slow");
    let (one, two) = (hub.clone_beside("one"), hub.clone_beside("two"));
    (hub, one, two)
}

/// A `git` to which the hub is away while the file `away` is there. `push` is done instead of a push.
fn unsteady(hub: &Repo, push: &str) -> Wrapper {
    let script = format!(
        r#"if [ "$verb" = push ]; then {push}; fi
           if [ -e "$ROOM/away" ]; then echo 'fatal: the hub is away' >&2; exit 128; fi"#
    );
    Wrapper::new(hub, &script)
}

fn send(more: &[&'static str]) -> Vec<&'static str> {
    ["set-state", "task"].iter().chain(WAIT).chain(more).copied().collect()
}

/// Brings the hub back once `waiting` has said that it is away.
fn back(hub: &Repo, waiting: &mut Running) {
    waiting.await_error("asking again");
    fs::remove_file(hub.beside("away")).expect("it is away");
    waiting.await_error("answers again");
}

/// Asserts the end of a wait that [`back`] has seen.
#[track_caller]
fn assert_silent(output: &Output) {
    assert_exit(output, 0);
    assert!(!err(output).contains("again"), "{}", told(output));
}

/// CONTRACT 5.38
#[test]
fn a_sender_waits_for_it_and_sends_once() {
    for push in [AFTER_A_PUSH, BEFORE_THE_ANSWER] {
        let (hub, one, two) = scene();
        let mut sender = unsteady(&hub, push).start(&one, &send(&[]));
        back(&hub, &mut sender);
        assert_eq!(slots(&hub).len(), 1);
        hub.release("release");
        two.aynig_ok(["run", "--remote", "origin", "--drain"]);
        let sent = sender.finish();
        assert_silent(&sent);
        assert!(out(&sent).contains("was delivered"), "{}", told(&sent));
        assert_eq!((deliveries(&hub, "task"), hub.noted_lines("ran").len()), (1, 1), "{push}");
    }
}

/// CONTRACT 5.38
#[test]
fn a_sender_waits_for_it_while_another_is_first() {
    let (hub, one, two) = scene();
    one.aynig_ok([
        "set-state",
        "task",
        "--state",
        "work",
        "--when-free",
        "--remote=origin",
        "--trailer=dwp-n: 1",
    ]);
    let wrapper = unsteady(&hub, ":");
    let mut sender = wrapper.start(&two, &send(&["--log-level", "debug"]));
    sender.await_error("another deferred state is first");
    hub.release("away");
    back(&hub, &mut sender);
    hub.release("release");
    let runner = one.aynig_start(["run", "--remote", "origin", "--watch"]);
    assert_exit(&sender.finish(), 0);
    assert_eq!(states(&hub, "task").iter().filter(|state| *state == "work").count(), 2);
    runner.signal(nix::sys::signal::Signal::SIGTERM);
    runner.finish();
}

/// CONTRACT 5.38
#[test]
fn whoever_cancels_sees_the_end_all_the_same() {
    for push in [AFTER_A_PUSH, BEFORE_THE_ANSWER] {
        let (hub, one, two) = scene();
        let runner = one.aynig_start(RUN.iter().copied());
        hub.said("ready");
        let mut cancel =
            unsteady(&hub, push).start(&two, &["cancel", "task", "--wait", "--remote", "origin"]);
        back(&hub, &mut cancel);
        let cancelled = cancel.finish();
        assert_silent(&cancelled);
        assert!(out(&cancelled).contains("was cancelled by"), "{}", told(&cancelled));
        assert_eq!(hub.state("task"), "stalled");
        assert_exit(&runner.finish(), 1);
    }
}

/// CONTRACT 5.38
#[test]
fn nobody_waits_for_it_longer_than_for_the_end() {
    let (hub, one, two) = scene();
    let away = unsteady(&hub, AFTER_A_PUSH);
    let sent = away.run(&one, &send(&["--timeout", "1"]));
    assert_exit(&sent, 1);
    assert!(err(&sent).contains("still waits for task"), "{}", told(&sent));
    assert_eq!(err(&sent).matches("asking again").count(), 1, "{}", told(&sent));
    // At first it has to be there.
    assert_exit(&away.run(&two, &send(&[])), 4);
    assert_exit(&away.run(&two, &["cancel", "task", "--wait", "--remote", "origin"]), 4);
}
