//! `aynig cancel` where it changes nothing, or has to say more than that it asked.

use super::scene::*;
use super::support::*;

/// CONTRACT 5.31, 13.9
#[test]
fn a_source_of_commands_that_is_missing_cancels_nothing() {
    let repo = Repo::scene(&[("work", "next done")]);
    for (branch, state) in [("t-done", "done"), ("t-waits", "work")] {
        repo.ready(branch, state);
    }
    repo.git(["config", "aynig.commandsFrom", "nowhere"]);
    let heads = ["t-done", "t-waits"].map(|branch| repo.head(branch));
    for names in [&["t-*"][..], &["t-done"], &["t-waits"]] {
        let output = repo.aynig(["cancel"].into_iter().chain(names.iter().copied()));
        assert_refused(
            &output,
            3,
            &["commands are to come from nowhere", "nothing was changed", "git for-each-ref"],
        );
    }
    assert_eq!(["t-done", "t-waits"].map(|branch| repo.head(branch)), heads);
}

/// CONTRACT 11.15
#[test]
fn the_branch_of_a_workspace_is_not_cancelled() {
    let repo = Repo::scene(&[("work", "next done")]);
    repo.ready("work/fix", "work");
    let head = repo.head("work/fix");
    let output = repo.aynig(["cancel", "work/fix"]);
    assert_refused(&output, 3, &["work/fix is below work/", "nothing was changed"]);
    let output = repo.aynig_ok(["cancel", "*"]);
    assert!(err(&output).contains("nothing to cancel"), "{}", told(&output));
    assert_eq!(repo.head("work/fix"), head);
}
