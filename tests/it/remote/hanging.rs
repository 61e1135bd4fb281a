//! Connections that hang, and servers that keep refusing. A runner waits for others no longer than its own
//! lease allows, and does not flood a server with retries.

use nix::sys::signal::Signal;

use super::*;

/// Two branches. `a` ends first: its result hangs on the way, and `b` is released.
const HANG_A: &str = r#"if [ "$verb" = push ] && [ -e "$ROOM/a-done" ]; then case "$*" in *heads/a*) say hangs yes; await never;; esac; fi"#;

const TWO: &str = r#"echo "$AYNIG_BRANCH" >>"$ROOM/ran"
    if [ "$AYNIG_BRANCH" = a ]; then say a-done yes; else await hangs; say b-on yes; await release; fi; next done"#;

/// CONTRACT 5.23
#[test]
fn a_result_does_not_wait_for_one_that_hangs() {
    let hub = hub(&[("work", TWO)]);
    let clone = clone(&hub);
    hub.ready("a", "work");
    hub.ready("b", "work");
    let wrapper = Wrapper::new(&hub, HANG_A);
    let start = std::time::Instant::now();
    hub.release("release");
    let runner =
        wrapper.start(&clone, &["run", "--remote", "origin", "--jobs", "2", "--lease-seconds", "300"]);
    wait_until("the result of b", || hub.state("b") == "done");
    assert!(start.elapsed().as_secs() < 45, "after {:?}", start.elapsed());
    assert_eq!(hub.state("a"), "working");
    // The hanging push is killed and tried again.
    fs::remove_file(hub.beside("a-done")).expect("it is there");
    hub.release("never");
    assert_exit(&runner.finish(), 0);
    assert_eq!(states(&hub, "a"), ["work", "working", "done"]);
    assert_eq!(hub.noted_lines("ran"), ["a", "b"]);
    clone.assert_tidy();
}

/// CONTRACT 5.23
#[test]
fn a_renewal_does_not_wait_for_a_push_that_hangs() {
    let hub = hub(&[("work", TWO)]);
    let clone = clone(&hub);
    hub.ready("a", "work");
    hub.ready("b", "work");
    let wrapper = Wrapper::new(&hub, HANG_A);
    let arguments = ["run", "--remote", "origin", "--jobs", "2", "--lease-seconds", "9"];
    let runner = wrapper.start(&clone, &arguments);
    hub.said("b-on");
    wait_until("renewals of b, or the end", || {
        states(&hub, "b").iter().filter(|state| *state == "working").count() >= 3 || !is_alive(runner.pid())
    });
    hub.release("release");
    let output = runner.finish();
    assert_eq!(hub.state("b"), "done", "{}", told(&output));
    assert_eq!(hub.state("a"), "working", "{}", told(&output));
    assert_exit(&output, 1);
    clone.assert_tidy();
}

/// CONTRACT 5.23
#[test]
fn a_fetch_that_hangs_does_not_keep_other_runners_of_the_clone() {
    let hub = hub(&[("work", "echo ran >>\"$ROOM/ran\"; next done")]);
    let clone = clone(&hub);
    let wrapper = Wrapper::new(&hub, r#"if [ "$verb" = fetch ]; then say hangs yes; await never; fi"#);
    let first = wrapper.start(&clone, RUN);
    hub.said("hangs");
    hub.ready("task", "work");
    let start = std::time::Instant::now();
    assert_exit(&clone.aynig_ok(RUN.iter().copied()), 0);
    assert!(start.elapsed().as_secs() < 40, "after {:?}", start.elapsed());
    assert_eq!(hub.state("task"), "done");
    hub.release("never");
    assert_exit(&first.finish(), 0);
    assert_eq!(hub.noted_lines("ran"), ["ran"]);
    clone.assert_tidy();
}

/// Notes when branch `no` is pushed, in milliseconds.
const NOTE_NO: &str =
    r#"if [ "$verb" = push ]; then case "$*" in *heads/no*) date +%s%3N >>"$ROOM/no";; esac; fi"#;

const REFUSE_NO: &str = "if [ $1 = refs/heads/no ]; then echo 'no is protected' >&2; exit 1; fi";

/// CONTRACT 5.17
#[test]
fn a_refused_claim_is_tried_once_in_a_drain() {
    let hub = hub(&[("work", "next more"), ("more", "next last"), ("last", "next done")]);
    hook(&hub, "update", REFUSE_NO);
    let clone = clone(&hub);
    hub.ready("no", "work");
    hub.ready("yes", "work");
    let wrapper = Wrapper::new(&hub, NOTE_NO);
    let output = wrapper.run(&clone, &["run", "--remote", "origin", "--drain"]);
    assert_exit(&output, 4);
    assert_eq!(hub.state("yes"), "done");
    assert_eq!(hub.noted_lines("no").len(), 1, "{}", told(&output));
    assert_eq!(err(&output).matches("no is protected").count(), 1, "{}", told(&output));
    clone.assert_tidy();
}

/// CONTRACT 5.17
#[test]
fn a_refused_claim_is_tried_less_and_less_often_by_a_watch() {
    let hub = hub(&[("work", "next more"), ("more", "next work")]);
    hook(&hub, "update", REFUSE_NO);
    let clone = clone(&hub);
    hub.ready("no", "work");
    // The other branch never rests, so there is always a reason for a pass.
    hub.ready("yes", "work");
    let wrapper = Wrapper::new(&hub, NOTE_NO);
    let runner = wrapper.start(&clone, &["run", "--remote", "origin", "--watch=1"]);
    wait_until("a third try", || hub.noted_lines("no").len() >= 3);
    let moves = hub.linear("main..yes").len();
    assert!(moves > 4, "only {moves} commits on the other");
    let times: Vec<u64> = hub.noted_lines("no").iter().map(|line| line.parse().expect("a time")).collect();
    assert!(times[1] - times[0] >= 1000 && times[2] - times[1] >= 2000, "{times:?}");
    fs::remove_file(hub.path.join("hooks/update")).expect("it was there");
    wait_until("the claim", || hub.state("no") != "work");
    runner.signal(Signal::SIGTERM);
    let output = runner.finish();
    assert_eq!(err(&output).matches("no is protected").count(), 1, "{}", told(&output));
}

/// CONTRACT 5.17, 11.9
#[test]
fn a_refused_recovery_is_tried_again_by_a_watch_when_nothing_changes() {
    let hub = hub(&[("work", "next done")]);
    hook(&hub, "update", REFUSE_NO);
    let clone = clone(&hub);
    hub.ready("no", "work");
    hub.dated_lease("no", "gone-host", 10, -100);
    let wrapper = Wrapper::new(&hub, NOTE_NO);
    let runner = wrapper.start(&clone, &["run", "--remote", "origin", "--watch=1"]);
    wait_until("a second try", || hub.noted_lines("no").len() >= 2);
    fs::remove_file(hub.path.join("hooks/update")).expect("it was there");
    wait_until("the recovery", || hub.state("no") == "stalled");
    runner.signal(Signal::SIGTERM);
    assert_exit(&runner.finish(), 143);
    assert!(hub.noted_lines("no").len() <= 5, "{:?}", hub.noted_lines("no"));
}
