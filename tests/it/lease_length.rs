//! The lease length that a state requests for its command.

use super::scene::*;
use super::support::*;

/// CONTRACT 5.27
#[test]
fn a_state_decides_how_long_its_lease_lasts() {
    let repo = Repo::scene(&[(
        "work",
        r#"echo "$AYNIG_LEASE_SECONDS" >>"$ROOM/lengths"; next done; [ "$AYNIG_LEASE_SECONDS" = 7 ]"#,
    )]);
    repo.git(["branch", "task"]);
    repo.aynig_ok(["set-state", "--branch", "task", "--state", "work", "--lease-seconds", "41"]);
    assert_eq!(repo.trailer("task", "dwp-lease-seconds"), "41");
    repo.aynig(["run", "--lease-seconds", "500"]);
    assert_eq!(repo.state("task"), "stalled");
    assert_eq!(repo.trailer("task~1", "dwp-lease-seconds"), "41", "the state wins over the option");
    // A retry keeps the length, unless another is given.
    repo.aynig_ok(["set-state", "--branch", "task", "--retry"]);
    repo.aynig(["run"]);
    repo.aynig_ok(["set-state", "--branch", "task", "--retry", "--lease-seconds", "7"]);
    repo.aynig_ok(["run"]);
    assert_eq!(repo.state("task"), "done");
    // Keeping trailers keeps none of the runner's.
    let keep = ["set-state", "--branch", "task", "--state", "work", "--keep-trailers=all"];
    repo.aynig_ok(keep);
    assert_eq!(repo.trailer("task", "dwp-lease-seconds"), "");
    repo.aynig(["run"]);
    assert_eq!(repo.noted_lines("lengths"), ["300", "41", "41", "7"]);
    repo.assert_tidy();
}

/// CONTRACT 5.27
#[test]
fn a_command_requests_a_length_for_the_next_state() {
    let repo = Repo::scene(&[
        ("one", r#"echo 'SET_STATE {"state":"two","lease_seconds":33,"keep_trailers":true}'"#),
        ("two", r#""$AYNIG_BIN" next three --lease-seconds 44 --keep-trailers"#),
        ("three", r#""$AYNIG_BIN" next done --keep-trailers"#),
    ]);
    repo.ready("task", "one");
    repo.aynig_ok(["run", "--drain"]);
    let length = |commit: &str| repo.trailer(commit, "dwp-lease-seconds");
    let lengths = ["task~5", "task~4", "task~3", "task~2", "task~1", "task"].map(length);
    assert_eq!(lengths, ["300", "33", "33", "44", "44", ""]);
    let output =
        repo.aynig(["set-state", "--branch", "task", "--state", "x", "--trailer", "dwp-lease-seconds: 5"]);
    assert_refused(&output, 2, &["written by the runner only"]);
}

/// CONTRACT 5.27
#[test]
fn an_invalid_length_is_ignored_with_a_warning() {
    let repo = Repo::scene(&[("work", "next done")]);
    repo.branch_with_message("task", b"s\n\ndwp-state: work\ndwp-lease-seconds: 99999999999\n");
    let output = repo.aynig_ok(["run"]);
    assert_eq!(
        (repo.state("task"), repo.trailer("task~1", "dwp-lease-seconds")),
        ("done".into(), "300".into())
    );
    assert!(err(&output).contains("\"99999999999\" is not a number from 1 to 31536000"), "{}", told(&output));
    assert!(err(&output).contains("300 s instead"), "{}", told(&output));
}
