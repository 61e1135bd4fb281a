//! Senders that wait for their turn behind another's deferred state.

use super::deferred::{later, slots};
use super::scene::*;
use super::support::*;

const PARKED: &[u8] = b"s\n\ndwp-state: a\ndwp-not-before: 2999-01-01T00:00:00Z\n";

const SLOT: &str = "refs/aynig/deferred/task";

fn scene() -> Repo {
    let repo = Repo::scene(&[("work", r#"echo "$DWP_N" >>"$ROOM/ran"; next done"#)]);
    repo.branch_with_message("task", PARKED);
    repo.aynig_ok(later("task", &["--trailer", "dwp-n: 1"]));
    repo
}

/// CONTRACT 5.32
#[test]
fn a_sender_that_gives_up_before_its_turn_says_that_nothing_was_left() {
    let repo = scene();
    let output = repo.aynig(later("task", &["--trailer", "dwp-n: 2", "--wait", "--timeout", "1"]));
    let words = ["work, left by ", "still waits for task", "nothing of this call was left"];
    assert_refused(&output, 1, &words);
    assert!(!err(&output).contains("leave it there"), "{}", told(&output));
    assert_eq!(repo.trailer(SLOT, "dwp-n"), "1");
}

/// CONTRACT 5.32
#[test]
fn the_withdrawal_of_another_state_is_no_failure() {
    let repo = scene();
    let mut sender = repo.aynig_start(
        ["--log-level", "debug"]
            .into_iter()
            .chain(later("task", &["--trailer", "dwp-n: 2", "--wait", "--timeout", "1m"])),
    );
    sender.await_error("another deferred state is first");
    repo.aynig_ok(["set-state", "--withdraw", "task"]);
    wait_until("the second", || slots(&repo) == [SLOT] && repo.trailer(SLOT, "dwp-n") == "2");
    repo.branch_from("task", "task", b"s\n\ndwp-state: rests\n");
    repo.aynig_ok(["run", "--drain"]);
    let output = sender.finish();
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    assert!(out(&output).contains("was delivered"), "{}", told(&output));
    assert_eq!(repo.noted_lines("ran"), ["2"]);
}
