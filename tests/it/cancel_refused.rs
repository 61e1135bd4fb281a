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
