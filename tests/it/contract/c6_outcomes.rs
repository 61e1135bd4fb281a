//! Section 6, "Completion Outcomes". Every row and its neighbours are in `settle_table`.

use super::super::probe::*;
use super::super::support::*;

/// CONTRACT 6.1
#[test]
fn c6_successful_completion() {
    let repo = Repo::one_step(DONE);
    repo.run_expecting(0, &[]);
    assert_eq!(repo.trailers("work"), ["dwp-state: done"]);
    assert_eq!(repo.state("work~1"), "working");
    repo.assert_tidy();
}

/// CONTRACT 6.2
#[test]
fn c6_command_failure() {
    let repo = Repo::one_step(&format!("{DONE}\necho on stdout\necho on stderr >&2\nexit 4"));
    repo.run_expecting(1, &[]);
    let run = repo.trailer("work~1", "dwp-run-id");
    assert_eq!(
        repo.trailers("work"),
        [
            "dwp-state: stalled".to_owned(),
            format!("dwp-stalled-run: {run}"),
            "dwp-origin-state: step".to_owned()
        ]
    );
    let body = repo.body("work");
    for expected in ["exited with 4", "    on stdout", "    on stderr"] {
        assert!(body.contains(expected), "{expected:?} is not in {body}");
    }
    repo.assert_tidy();
}

/// CONTRACT 6.3
#[test]
fn c6_no_declared_state() {
    let repo = Repo::one_step("echo nothing to declare");
    repo.run_expecting(0, &[]);
    assert_eq!(repo.state("work"), "working");
    assert_eq!(repo.trailers("work"), repo.trailers("work~1"), "a fresh lease with the same trailers");
    assert_eq!(repo.trailer("work~2", "dwp-state"), "step");
}
