//! Deferred states on a remote: processes that die before a push, between the push and its answer, and after it.

use std::os::unix::process::ExitStatusExt;

use super::*;
use crate::deferred::{deliveries, later, slots};

/// Notes that it ran, and rests.
const NOTES: &str = r#"echo "$AYNIG_BRANCH $DWP_N" >>"$ROOM/ran"; next done"#;

/// What a sender is called with.
const SEND: &[&str] = &["--remote", "origin", "--trailer", "dwp-n: 1"];

/// A hub whose branch `task` is busy, and two clones.
fn busy() -> (Repo, Repo, Repo) {
    let hub = hub(&[("slow", "next rests"), ("work", NOTES)]);
    hub.ready("task", "slow");
    let (one, two) = (hub.clone_beside("one"), hub.clone_beside("two"));
    (hub, one, two)
}

#[track_caller]
fn assert_once(hub: &Repo, clone: &Repo, what: &str) {
    let output = clone.aynig_ok(["run", "--remote", "origin", "--drain"]);
    let found = (deliveries(hub, "task"), slots(hub), hub.noted_lines("ran"));
    assert_eq!(found, (1, vec![], vec!["task 1".to_owned()]), "{what}: {}", told(&output));
    assert_eq!(hub.state("task"), "done", "{what}");
}

/// CONTRACT 5.32, 5.34
#[test]
fn a_sender_without_an_answer_learns_that_its_state_was_delivered() {
    let (hub, one, two) = busy();
    let script = r#"if [ "$verb$count" = push1 ]; then "$GIT" "$@" >/dev/null 2>&1; say pushed yes; await release; exit 128; fi"#;
    let wrapper = Wrapper::new(&hub, script);
    let sender = wrapper.start(&one, &later("task", SEND));
    hub.said("pushed");
    two.aynig_ok(["run", "--remote", "origin", "--drain"]);
    assert_eq!((deliveries(&hub, "task"), slots(&hub)), (1, vec![]));
    hub.release("release");
    let sent = sender.finish();
    assert_exit(&sent, 0);
    assert!(out(&sent).contains("was delivered"), "{}", told(&sent));
    assert_once(&hub, &two, "delivered before its sender looked");
}

/// CONTRACT 5.32, 5.34
#[test]
fn a_sender_without_an_answer_learns_that_its_state_waits_or_does_not() {
    for (script, code, waits) in [
        (r#"[ "$verb$count" != push1 ] || { "$GIT" "$@" >/dev/null 2>&1; exit 128; }"#, 0, 1),
        (r#"[ "$verb$count" != push1 ] || exit 128"#, 4, 0),
    ] {
        let (hub, one, two) = busy();
        let sent = Wrapper::new(&hub, script).run(&one, &later("task", SEND));
        assert_exit(&sent, code);
        assert_eq!(slots(&hub).len(), waits, "{}", told(&sent));
        if waits == 0 {
            one.aynig_ok(later("task", SEND));
        }
        assert_once(&hub, &two, script);
    }
}

/// Kills the caller of a push, before the push or after it.
const KILLS: [(&str, &str); 2] = [
    ("before", r#"kill -9 $PPID; exit 1"#),
    ("between", r#""$GIT" "$@" >/dev/null 2>&1; kill -9 $PPID; exit 1"#),
];

/// CONTRACT 5.32, 5.34
#[test]
fn a_sender_killed_over_its_push_leaves_its_state_or_nothing() {
    for (when, kill) in KILLS {
        let (hub, one, two) = busy();
        let wrapper = Wrapper::new(&hub, &format!(r#"if [ "$verb" = push ]; then {kill}; fi"#));
        let killed = wrapper.run(&one, &later("task", SEND));
        assert_eq!(killed.status.signal(), Some(9), "{when}: {}", told(&killed));
        assert_eq!(slots(&hub).len(), usize::from(when == "between"), "{when}");
        // Sent again it is no other one.
        one.aynig_ok(later("task", SEND));
        assert_once(&hub, &two, when);
    }
}

/// CONTRACT 5.28, 5.34
#[test]
fn a_runner_killed_over_the_push_of_a_delivery_delivers_nothing_twice() {
    for (when, kill) in KILLS {
        let (hub, one, two) = busy();
        one.aynig_ok(later("task", SEND));
        two.aynig_ok(["run", "--remote", "origin"]);
        assert_eq!((hub.state("task"), slots(&hub).len()), ("rests".to_owned(), 1));
        let wrapper = Wrapper::new(&hub, &format!(r#"if [ "$verb" = push ]; then {kill}; fi"#));
        let killed = wrapper.run(&one, RUN);
        assert_eq!(killed.status.signal(), Some(9), "{when}: {}", told(&killed));
        assert_eq!(deliveries(&hub, "task"), usize::from(when == "between"), "{when}");
        assert_once(&hub, &two, when);
        assert_once(&hub, &one, when);
    }
}

/// CONTRACT 5.28, 5.34
#[test]
fn a_runner_without_an_answer_goes_on_with_what_it_delivered() {
    let (hub, one, two) = busy();
    one.aynig_ok(later("task", SEND));
    two.aynig_ok(["run", "--remote", "origin"]);
    let script = r#"[ "$verb$count" != push1 ] || { "$GIT" "$@" >/dev/null 2>&1; exit 128; }"#;
    let output = Wrapper::new(&hub, script).run(&one, &["run", "--remote", "origin", "--drain"]);
    assert_exit(&output, 0);
    assert_eq!(hub.noted_lines("ran"), ["task 1"], "{}", told(&output));
    assert_once(&hub, &two, "no answer");
}

/// CONTRACT 5.34
#[test]
fn a_hub_that_died_between_two_refs_is_understood() {
    let (hub, one, two) = busy();
    one.aynig_ok(later("task", SEND));
    let slot = hub.head("refs/aynig/deferred/task");
    two.aynig_ok(["run", "--remote", "origin", "--drain"]);
    // HEAD was written, the slot not yet deleted.
    hub.git(["update-ref", "refs/aynig/deferred/task", &slot]);
    assert_once(&hub, &one, "a slot that was delivered");
}
