//! Section 5, "Working Lease".

use std::fs;

use super::super::probe::*;
use super::super::support::*;

const MINUTE: u64 = 60;

/// CONTRACT 5.1, 5.6
#[test]
fn c5_the_claim_is_a_working_commit_on_top_of_the_trigger() {
    let repo = Repo::probed();
    let trigger = repo.branch_with_message("work", b"s\n\nb\n\ndwp-state: probe\n");
    repo.run_expecting(0, &[]);
    let lease = repo.head("work~1");
    assert_eq!(repo.noted("head"), repo.git(["cat-file", "-p", &lease]), "the command ran on it");
    assert_eq!(repo.git(["log", "-1", "--format=%P", &lease]), trigger);
    assert_eq!(
        repo.git(["rev-parse", &format!("{lease}^{{tree}}")]),
        repo.git(["rev-parse", "work~2^{tree}"])
    );
}

/// CONTRACT 5.1, 5.7
#[test]
fn c5_the_leases_trailers_in_order() {
    let repo = Repo::probed();
    repo.ready("work", "probe");
    repo.run_expecting(0, &[]);
    let run = repo.trailer("work~1", "dwp-run-id");
    assert!(is_uuid(&run), "{run}");
    assert_eq!(
        repo.message("work~1"),
        format!(
            "working: probe (test-host)\n\ndwp-state: working\ndwp-origin-state: probe\ndwp-run-id: {run}\n\
             dwp-runner-id: test-host\ndwp-lease-seconds: 300\naynig-branch: work"
        )
    );
}

/// CONTRACT 5.7
#[test]
fn c5_the_lease_length_can_be_chosen() {
    let repo = Repo::probed();
    repo.ready("work", "probe");
    repo.run_expecting(0, &["--lease-seconds", "1234"]);
    assert_eq!(repo.trailer("work~1", "dwp-lease-seconds"), "1234");
}

/// CONTRACT 5.6
#[test]
fn c5_the_triggers_own_dwp_trailers_travel_along() {
    let repo = Repo::probed();
    repo.branch_with_message(
        "work",
        b"s\n\ndwp-b: 1\ndwp-runner-id: forged\nother: x\ndwp-stalled-run: forged\ndwp-a: 2\ndwp-b: 3\ndwp-source: x\ndwp-state: probe\n",
    );
    repo.run_expecting(0, &[]);
    let trailers = repo.trailers("work~1");
    assert_eq!(trailers[..2], ["dwp-state: working", "dwp-origin-state: probe"]);
    assert_eq!(
        trailers[3..],
        [
            "dwp-runner-id: test-host",
            "dwp-lease-seconds: 300",
            "aynig-branch: work",
            "dwp-b: 1",
            "dwp-a: 2",
            "dwp-b: 3"
        ]
    );
}

/// CONTRACT 5.7
#[test]
fn c5_every_attempt_has_its_own_id() {
    let repo = Repo::probed();
    for branch in ["a", "b"] {
        repo.ready(branch, "probe");
    }
    repo.run_expecting(0, &[]);
    assert_ne!(repo.trailer("a~1", "dwp-run-id"), repo.trailer("b~1", "dwp-run-id"));
}

/// CONTRACT 5.4, 11.5
#[test]
fn c5_a_live_lease_is_left_alone() {
    let repo = Repo::with_commands(&[("step", DONE)]);
    let lease = repo.lease("work", MINUTE, &lease_trailers("300"));
    let output = repo.run_expecting(0, &["--log-level", "debug"]);
    repo.assert_untouched("work", &lease);
    assert!(one_message(&output, "other-host").contains("work"), "{}", err(&output));
}

/// CONTRACT 5.5, 5.11
#[test]
fn c5_an_expired_lease_is_recovered_as_stalled() {
    let repo = Repo::with_commands(&[("step", DONE)]);
    let lease = repo.lease("work", 11 * MINUTE, &lease_trailers("600"));
    let output = repo.run_expecting(0, &[]);
    assert_eq!(
        repo.trailers("work"),
        [
            "dwp-state: stalled",
            "dwp-stalled-run: 0f8fad5b-d9cb-469f-a165-70867728950e",
            "dwp-origin-state: step"
        ]
    );
    assert_eq!(repo.head("work~1"), lease);
    assert_eq!(repo.git(["rev-parse", "work^{tree}"]), repo.git(["rev-parse", "work~1^{tree}"]));
    assert!(out(&output).contains("work  step → stalled"), "{}", out(&output));
    assert!(repo.body("work").contains("other-host"), "{}", repo.body("work"));
    repo.assert_tidy();
}

/// CONTRACT 5.7, 5.11
#[test]
fn c5_a_lease_that_does_not_say_has_the_default_length() {
    let repo = Repo::with_commands(&[("step", DONE)]);
    let live = repo.lease("live", 4 * MINUTE, "dwp-run-id: x\n");
    repo.lease("dead", 6 * MINUTE, "dwp-run-id: x\n");
    repo.run_expecting(0, &[]);
    repo.assert_untouched("live", &live);
    assert_eq!(repo.state("dead"), "stalled");
    assert_eq!(repo.trailer("dead", "dwp-origin-state"), "unknown");
}

/// CONTRACT 5.4
#[test]
fn c5_the_committers_date_counts_not_the_authors() {
    let repo = Repo::with_commands(&[("step", DONE)]);
    let lease = repo.lease("work", MINUTE, &lease_trailers("300"));
    let object = repo.git(["cat-file", "commit", &lease]);
    let author = format!("author Test Person <person@example.com> {} +0000", now() - 999_999);
    let old: Vec<&str> = object.lines().map(|l| if l.starts_with("author ") { &author } else { l }).collect();
    let forged = repo.git_with_input(
        &["hash-object", "-t", "commit", "-w", "--stdin"],
        (old.join("\n") + "\n").as_bytes(),
    );
    repo.git(["update-ref", "refs/heads/work", &forged]);
    repo.run_expecting(0, &[]);
    repo.assert_untouched("work", &forged);
}

/// CONTRACT 5.4
#[test]
fn c5_a_lease_is_alive_through_its_last_second() {
    let repo = Repo::with_commands(&[("step", DONE)]);
    // This second is its last. A pass that does not fit into the second is tried again with another lease.
    for attempt in 0_u32.. {
        assert!(attempt < 100, "no pass ever fits into one second here");
        let start = now();
        wait_until("the next second to begin", || now() > start);
        let second = now();
        let branch = format!("work-{attempt}");
        repo.ready(&branch, "step");
        let lease = repo.lease_at(&branch, second - 300, &lease_trailers("300"));
        repo.run_expecting(0, &["--branch", &branch]);
        if now() > second {
            continue;
        }
        repo.assert_untouched(&branch, &lease);
        wait_until("the last second to be over", || now() > second);
        repo.run_expecting(0, &["--branch", &branch]);
        assert_eq!(repo.state(&branch), "stalled");
        return;
    }
}

/// CONTRACT 5.8, 5.11
#[test]
fn c5_of_two_recoverers_one_wins() {
    let repo = Repo::with_commands(&[("step", DONE)]);
    let branches = ["a", "b", "c", "d", "e"];
    let leases = branches.map(|branch| repo.lease(branch, 11 * MINUTE, &lease_trailers("600")));
    let both = [repo.aynig_start(["run"]), repo.aynig_start(["run"])];
    let outputs = both.map(Running::finish);
    let mut told = 0;
    for output in &outputs {
        assert_exit(output, 0);
        assert!(!err(output).contains("error"), "{}", err(output));
        told += out(output).matches("→ stalled").count();
    }
    for (branch, lease) in branches.iter().zip(&leases) {
        assert_eq!(repo.state(branch), "stalled");
        assert_eq!(repo.head(&format!("{branch}~1")), *lease, "one stalled commit");
    }
    assert_eq!(told, branches.len(), "each recovery is reported by the runner that made it");
    repo.assert_tidy();
}

/// CONTRACT 5.3, 5.9, 8.1
#[test]
fn c5_of_two_claimants_one_wins() {
    let repo = Repo::with_commands(&[("step", &format!("echo \"$AYNIG_RUN_ID\" >> \"$ROOM/ran\"\n{DONE}"))]);
    let branches = ["a", "b", "c", "d", "e", "f"];
    for branch in branches {
        repo.ready(branch, "step");
    }
    let all = [repo.run_start(&[]), repo.run_start(&[]), repo.run_start(&["--jobs", "3"])];
    for output in all.map(Running::finish) {
        assert_exit(&output, 0);
    }
    for branch in branches {
        assert_eq!(repo.state(branch), "done");
        let states =
            repo.git(["log", "-3", "--format=%(trailers:key=dwp-state,valueonly,separator=)", branch]);
        assert_eq!(states, "done\nworking\nstep");
    }
    assert_eq!(repo.noted("ran").lines().count(), branches.len(), "each ran once");
    repo.assert_tidy();
}

/// CONTRACT 3.11
#[test]
fn c5_two_branches_at_one_commit_run_separately() {
    let repo = Repo::with_commands(&[(
        "step",
        "echo \"I am $AYNIG_BRANCH\"\necho \"$AYNIG_BRANCH $STDOUT_LOG_PATH $STDERR_LOG_PATH\" >> \"$ROOM/logs\"\n\
         echo \"SET_STATE {\\\"state\\\":\\\"done-$AYNIG_BRANCH\\\"}\"",
    )]);
    let trigger = repo.ready("a", "step");
    repo.git(["update-ref", "refs/heads/b", &trigger]);
    repo.run_expecting(0, &["--jobs", "2"]);
    let mut logs = Vec::new();
    for line in repo.noted("logs").lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [branch, stdout, stderr] = words[..] else { panic!("{line}") };
        assert!(stdout.contains(&trigger) && stderr.contains(&trigger), "{line}");
        let text = fs::read_to_string(stdout).expect("a log");
        assert!(text.contains(&format!("I am {branch}")) && text.lines().count() == 2, "{text}");
        logs.extend([stdout.to_owned(), stderr.to_owned()]);
    }
    logs.sort();
    logs.dedup();
    assert_eq!(logs.len(), 4, "{logs:?}");
    for branch in ["a", "b"] {
        assert_eq!(repo.state(branch), format!("done-{branch}"));
        assert_eq!(repo.head(&format!("{branch}~2")), trigger);
    }
    assert_ne!(repo.head("a~1"), repo.head("b~1"));
    repo.assert_tidy();
}
