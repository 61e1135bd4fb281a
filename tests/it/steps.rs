//! Whole steps, as a person sees them.

use super::support::*;

/// CONTRACT 1.5
#[test]
fn a_ready_branch_is_run_and_advanced() {
    let repo = Repo::with_commands(&[(
        "review",
        r#"echo "$BODY" > seen.txt; git add seen.txt; echo 'SET_STATE {"state":"done","subject":"done: fine","body":"all good"}'"#,
    )]);
    let trigger = repo.ready("work", "review");
    let output = repo.aynig_ok(["run"]);
    assert!(out(&output).contains("work  review → done"), "{}", out(&output));
    assert_eq!(repo.state("work"), "done");
    assert_eq!(
        repo.git(["log", "-1", "--format=%s|%b", "work"]).split('\n').next().unwrap(),
        "done: fine|all good"
    );
    assert_eq!(repo.git(["show", "work:seen.txt"]), "the body");
    assert_eq!(repo.head("work~2"), trigger);
    repo.assert_tidy();
}
