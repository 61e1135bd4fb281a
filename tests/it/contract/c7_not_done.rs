//! Section 7, "What aynig does not do".

use super::super::probe::*;
use super::super::support::*;

/// CONTRACT 1.6, 2.5, 7.1, 7.2
#[test]
fn c7_no_state_means_anything_by_itself() {
    let names = ["build", "done", "failed", "stalled", "success", "merge"];
    let without = Repo::new();
    for name in names {
        without.ready(name, name);
    }
    let heads = names.map(|name| without.head(name));
    without.run_expecting(0, &["--drain"]);
    for (name, head) in names.iter().zip(&heads) {
        without.assert_untouched(name, head);
    }
    // If a command exists for such a state, it runs like any other.
    let commands = names.map(|name| (name, format!("echo 'SET_STATE {{\"state\":\"after-{name}\"}}'")));
    let with = Repo::with_commands(&commands.each_ref().map(|(name, script)| (*name, script.as_str())));
    for name in names {
        with.ready(name, name);
    }
    with.run_expecting(0, &["--drain"]);
    for name in names {
        assert_eq!(with.state(name), format!("after-{name}"));
    }
}

/// CONTRACT 7.3
#[test]
fn c7_a_failed_command_is_not_tried_again() {
    let repo = Repo::one_step("echo ran >> \"$ROOM/ran\"; exit 1");
    repo.run_expecting(1, &["--drain"]);
    let stalled = repo.head("work");
    repo.run_expecting(0, &["--drain"]);
    repo.assert_untouched("work", &stalled);
    assert_eq!(repo.noted("ran"), "ran");
}

/// CONTRACT 7.6, 7.7
#[test]
fn c7_merges_are_the_commands_business() {
    let repo = Repo::with_commands(&[
        ("change", &format!("echo $AYNIG_BRANCH > README; git add README\n{DONE}")),
        ("merge", &format!("git merge -q -s ours -m merged a; git rev-parse HEAD > \"$ROOM/merge\"\n{DONE}")),
    ]);
    let main = repo.head("main");
    for branch in ["a", "b"] {
        repo.ready(branch, "change");
    }
    repo.run_expecting(0, &[]);
    // Both changed the same line, and there was no merge.
    assert_eq!(["a", "b"].map(|branch| repo.git(["show", &format!("{branch}:README")])), ["a", "b"]);
    repo.branch_from("b", "b", b"merge\n\ndwp-state: merge\n");
    repo.run_expecting(0, &[]);
    assert_eq!(repo.head("b~1"), repo.noted("merge"), "what the command merged is history as it stands");
    assert_eq!(repo.head("b~1^2"), repo.head("a"));
    assert_eq!(repo.head("main"), main);
}

/// CONTRACT 7.8
#[test]
fn c7_a_command_is_taken_at_its_word() {
    let repo = Repo::one_step(&format!("echo 'nothing was done' >&2; false\n{DONE}"));
    repo.run_expecting(0, &[]);
    assert_eq!(repo.state("work"), "done");
}
