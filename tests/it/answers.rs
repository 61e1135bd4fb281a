//! `set-state` on a branch under a lease, or on one that moved since the caller looked at it (`--expect`).

use super::scene::told;
use super::support::*;

const RUN: &str = "11111111-2222-4333-8444-555555555555";

/// CONTRACT 5.25
#[test]
fn a_live_lease_is_overridden_by_force_alone() {
    let repo = Repo::new();
    repo.ready("work", "build");
    repo.foreign_lease("work", RUN, "far-host", 300, 0);
    let head = repo.head("work");
    for wanted in [&["--state", "a"][..], &["--retry"]] {
        let output = repo.aynig([&["set-state", "--branch", "work"], wanted].concat());
        let hints = ["work is leased to far-host", RUN, "nothing was changed", "`--force`", "aynig log work"];
        assert_refused(&output, 1, &hints);
    }
    assert_eq!(repo.head("work"), head);
    let output = repo.aynig_ok(["set-state", "--state", "a", "--branch", "work", "--force"]);
    let said = err(&output);
    for words in ["warning:", "work was leased to far-host", RUN, " s; its runner will notice"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert_eq!(repo.trailer("work", "aynig-overrides"), RUN);
    let log = out(&repo.aynig_ok(["log", "work"]));
    assert!(log.contains("set by   Test Person, over the lease (--force)"), "{log}");
    // The next command gets no warning about the overridden lease.
    repo.command(".aynig/command/a", r#"echo 'SET_STATE {"state":"done"}'"#);
    repo.commit_all("a command");
    repo.git(["config", "aynig.commandsFrom", "main"]);
    let output = repo.aynig_ok(["run", "--branch", "work"]);
    assert_eq!((repo.state("work").as_str(), err(&output).as_str()), ("done", ""));
    repo.git(["config", "--unset", "aynig.commandsFrom"]);
    repo.foreign_lease("work", RUN, "far-host", 10, 100);
    let output = repo.aynig_ok(["set-state", "--state", "a", "--branch", "work"]);
    assert_eq!(err(&output), "", "an expired lease protects nothing");
}

/// CONTRACT 5.25
#[test]
fn a_live_lease_on_a_remote_is_overridden_by_force_alone() {
    let hub = Repo::scene(&[]).into_bare();
    hub.ready("work", "build");
    let head = hub.foreign_lease("work", RUN, "far-host", 300, 0);
    let clone = hub.clone_beside("clone");
    let set = ["set-state", "work", "--state", "a", "--remote", "origin"];
    let hints = ["work is leased to far-host", RUN, "nothing was changed", "`--force`", "--remote origin"];
    assert_refused(&clone.aynig(set), 1, &hints);
    assert_eq!(hub.head("work"), head);
    clone.aynig_ok(set.into_iter().chain(["--force"]));
    assert_eq!((hub.head("work~1"), hub.trailer("work", "aynig-overrides")), (head, RUN.to_owned()));
    let log = out(&clone.aynig_ok(["log", "work", "--remote", "origin"]));
    assert!(log.contains("set by   Test Person, over the lease (--force)"), "{log}");
}

/// A command's name may be close to a state, as `approved` is to `approval`. That is no answer.
#[test]
fn no_line_offers_a_state_that_was_guessed() {
    let repo = Repo::scene(&[("approved", "next done"), ("implement", "next done")]);
    repo.ready("task", "approval");
    repo.ready("typo", "implemnt");
    repo.branch_with_message("asks", b"s\n\ndwp-state: approval\ndwp-waits-for: ana\n");
    repo.ready("failed", "stalled");
    for arguments in [
        &["doctor"][..],
        &["status", "--all"],
        &["status", "task"],
        &["--log-level", "debug", "run"],
        &["log", "task"],
        &["answer"],
        &["answer", "asks"],
        &["answer", "task", "approved"],
        &["cancel", "task"],
        &["set-state", "task", "--state", "approvd", "--if-state", "other"],
    ] {
        let text = told(&repo.aynig(arguments.iter().copied()));
        for line in ["--state approved", "--state implement", "answer asks approved", "answer task approved"]
        {
            assert!(!text.contains(line), "{arguments:?} offers `{line}`: {text}");
        }
    }
}

/// CONTRACT 5.25
#[test]
fn the_lease_of_a_command_that_ended_without_a_state_is_nobodys() {
    let repo = Repo::scene(&[("forgot", "true")]);
    repo.ready("work", "forgot");
    let told = out(&repo.aynig_ok(["run"]));
    assert!(told.contains("then stalled unless `aynig set-state` sets a state"), "{told}");
    let said = err(&repo.aynig_ok(["set-state", "--state", "done", "--branch", "work"]));
    assert!(said.contains("its command had ended"), "{said}");
    let run = repo.trailer("work~1", "dwp-run-id");
    let state = (repo.state("work"), repo.trailer("work", "aynig-overrides"));
    assert_eq!(state, ("done".to_owned(), run), "it is known not to be the attempt's");
}

/// CONTRACT 5.26
#[test]
fn only_what_was_seen_is_answered() {
    let repo = Repo::new();
    let seen = repo.ready("work", "review");
    let set = |options: &[&str]| {
        repo.aynig([&["set-state", "--branch", "work", "--state", "done"], options].concat())
    };
    assert_refused(
        &set(&["--if-state", "approval"]),
        1,
        &[
            "work is not in the state approval (--if-state): HEAD is ",
            "which declares the state review; nothing was changed",
            "aynig log work",
        ],
    );
    assert_refused(&set(&["--expect", "0000000"]), 1, &["work is not at 0000000 (--expect): HEAD is "]);
    for wrong in ["abc", "main", ""] {
        assert_refused(
            &set(&["--expect", wrong]),
            2,
            &["7 or more hexadecimal digits", "git rev-parse BRANCH"],
        );
    }
    assert_eq!(repo.head("work"), seen);
    assert_eq!(set(&["--expect", &seen[..9].to_uppercase(), "--if-state", "review"]).status.code(), Some(0));
    // The second answer is refused.
    let output = set(&["--expect", &seen]);
    assert_refused(&output, 1, &["which declares the state done; nothing was changed"]);

    repo.foreign_lease("work", RUN, "far-host", 300, 0);
    for verb in [&["set-working"][..], &["set-state", "--state", "x", "--force"]] {
        let output = repo.aynig([verb, &["--branch", "work", "--if-state", "done"]].concat());
        assert_refused(
            &output,
            1,
            &["work is not in the state done (--if-state): HEAD is ", "a lease of far-host"],
        );
    }
    assert!(repo.aynig(["set-working", "--branch", "work", "--if-state", "working"]).status.success());
}

#[test]
fn over_a_lease_by_hand_no_runner_is_promised() {
    let repo = Repo::scene(&[("build", "say ready yes; await release")]);
    repo.ready("work", "build");
    repo.aynig_ok(["set-working", "--branch", "work"]);
    let said = err(&repo.aynig_ok(["set-state", "--state", "a", "--branch", "work"]));
    assert!(said.contains("work was leased to test-host") && said.contains("taken by hand"), "{said}");
    assert!(!said.contains("its runner will notice"), "{said}");
    repo.ready("held", "build");
    let runner = repo.aynig_start(["run", "--branch", "held"]);
    repo.said("ready");
    let said = err(&repo.aynig_ok(["set-state", "--state", "a", "--branch", "held", "--force"]));
    assert!(said.contains("its runner will notice"), "{said}");
    // The command waits for a file that never appears: its runner stops it.
    let output = runner.finish();
    let answer = out(&output);
    assert!(answer.contains("lease lost: the state a was set over the lease (--force)"), "{answer}");
}
