//! How a remote is selected, and the other subcommands with one.

use super::*;

#[test]
fn what_goes_along_with_a_state_is_told() {
    let hub = hub(&[("work", "next done")]);
    let clone = clone(&hub);
    hub.ready("task", "work");
    clone.git(["fetch", "-q", "origin"]);
    clone.git(["checkout", "-q", "task"]);
    let set = ["set-state", "--state", "more", "--remote", "origin"];
    assert!(!err(&clone.aynig_ok(set)).contains("with it went"));
    clone.git(["commit", "-q", "--allow-empty", "-m", "a thought of mine"]);
    let output = clone.aynig_ok(set);
    assert!(
        err(&output).contains("with it went") && err(&output).contains("a thought of mine"),
        "{}",
        told(&output)
    );
}

/// CONTRACT 5.20
#[test]
fn a_checkout_that_is_behind_undoes_nothing() {
    let hub = hub(&[("work", "echo made >made; git add made; next done")]);
    let (here, other) = (clone(&hub), clone(&hub));
    hub.ready("task", "work");
    here.git(["fetch", "-q", "origin"]);
    here.git(["checkout", "-q", "task"]);
    other.aynig_ok(["run", "--remote", "origin"]);
    let files = || hub.git(["ls-tree", "--name-only", "task"]);
    assert!(files().contains("made"), "{}", files());
    // With files of its own the checkout would take out those that it lacks.
    here.write("mine", "m");
    here.git(["add", "mine"]);
    let (before, set) = (hub.head("task"), ["set-state", "--state", "more", "--remote", "origin"]);
    assert_refused(
        &here.aynig(set),
        1,
        &["has staged files, which would undo it", "git pull", "name the branch, task"],
    );
    assert_eq!(hub.head("task"), before);
    here.git(["stash", "--quiet"]);
    let words = err(&here.aynig_ok(set));
    assert!(words.contains("it lacks commits of task; `git pull` brings them"), "{words}");
    assert!(files().contains("made"), "{}", files());
    assert_eq!(hub.state("task"), "more");
    here.git(["pull", "--quiet"]);
    here.git(["stash", "pop", "--quiet", "--index"]);
    here.aynig_ok(set);
    assert!(files().contains("made") && files().contains("mine"), "{}", files());
    // The same where the commits changed no file.
    other.aynig_ok(["set-state", "task", "--state", "rest", "--remote", "origin"]);
    let words = err(&here.aynig_ok(set));
    assert!(
        words.contains(" is behind; `git pull` there brings ") && !words.contains("another way"),
        "{words}"
    );
    here.git(["pull", "--quiet", "--ff-only"]);
    assert_eq!(here.head("task"), hub.head("task"));
}

/// CONTRACT 3.7, 5.14
#[test]
fn the_source_at_head_turns_it_on() {
    let hub = hub(&[("work", "echo \"$AYNIG_REMOTE\" >>\"$ROOM/ran\"; next done")]);
    let clone = clone(&hub);
    hub.ready("task", "work");
    clone.commit_all("here\n\ndwp-source: git:origin");
    clone.aynig_ok(["run"]);
    assert_eq!(hub.noted_lines("ran"), ["origin"]);
    assert_eq!(hub.state("task"), "done");
    assert_eq!(hub.trailer("task", "dwp-source"), "git:origin");
    clone.assert_tidy();
}

#[test]
fn a_state_is_set_and_read_without_a_checkout() {
    let hub = hub(&[("work", "next done")]);
    let clone = clone(&hub);
    let before = heads(&clone);
    hub.ready("task", "idea");
    let set =
        ["set-state", "--remote", "origin", "--branch", "task", "--state", "work", "--subject", "please"];
    clone.aynig_ok(set);
    assert_eq!(states(&hub, "task"), ["idea", "work"]);
    assert_eq!(hub.trailer("task", "dwp-source"), "git:origin");
    let status = clone.aynig_ok(["status", "--all", "--remote", "origin"]);
    let line = out(&status).lines().find(|line| line.contains("task")).map(str::to_owned);
    assert!(line.is_some_and(|line| line.contains("work")), "{}", told(&status));
    let events = clone.aynig_ok(["events", "--remote", "origin", "--branch", "task"]);
    let events = listed(&events);
    let seen: Vec<&str> =
        events.as_array().expect("a list").iter().filter_map(|event| event["state"].as_str()).collect();
    assert_eq!(seen, ["work", "idea"]);
    assert_eq!(heads(&clone), before);
}

/// CONTRACT 5.19
#[test]
fn what_a_person_has_fetched_stays_as_it_is() {
    let hub = hub(&[("work", "next done")]);
    let clone = clone(&hub);
    clone.git(["fetch", "--quiet", "origin", "main"]);
    hub.ready("task", "work");
    hub.git(["tag", "v1", "main"]);
    hub.branch_from("main", "main", b"newer\n");
    let own = || {
        let refs = clone.git(["for-each-ref", "refs/heads", "refs/remotes", "refs/tags"]);
        (refs, fs::read(clone.path.join(".git/FETCH_HEAD")).expect("a person's"))
    };
    let before = own();
    clone.aynig_ok(RUN.iter().copied());
    clone.aynig_ok(["status", "--all", "--remote", "origin"]);
    assert_eq!(own(), before);
    for branch in ["main", "task"] {
        assert_eq!(clone.head(&format!("refs/aynig/remotes/origin/{branch}")), hub.head(branch));
    }
}

/// CONTRACT 5.14, 12.4
#[test]
fn a_command_sets_its_state_itself() {
    let script = "echo own >own.txt; git add own.txt; git commit -q -m own\n\
                  \"$AYNIG_BIN\" set-state --state review --subject 'by itself' >&2 || exit 7\n\
                  git symbolic-ref -q HEAD; git rev-parse HEAD >\"$ROOM/after\"";
    let hub = hub(&[("work", script)]);
    let clone = clone(&hub);
    let before = heads(&clone);
    hub.ready("task", "work");
    let output = clone.aynig_ok(RUN.iter().copied());
    assert!(out(&output).contains("review"), "{}", told(&output));
    assert_eq!(states(&hub, "task"), ["work", "working", "-", "review"]);
    assert_eq!(hub.show("task:own.txt"), "own");
    assert_eq!(header_of_attempt(&hub, "task"), Some(hub.trailer("task~2", "dwp-run-id")));
    assert_eq!(hub.said("after"), hub.head("task"), "the worktree went along");
    assert_eq!(heads(&clone), before);
    assert_eq!(clone.rescues(), Vec::<String>::new(), "{}", told(&output));
    clone.assert_tidy();
}

#[test]
fn logs_of_a_remotes_branch() {
    let script = "echo first; say at $$; await release; echo last; next done";
    let hub = hub(&[("work", script)]);
    let (here, there) = (clone(&hub), clone(&hub));
    hub.ready("task", "work");
    let ask = ["logs", "--remote", "origin", "--branch", "task"];
    assert_refused(
        &here.aynig(ask),
        1,
        &["no attempt was ever made on task", "aynig status --branch task --remote origin"],
    );
    let runner = here.aynig_start(["run", "--remote", "origin", "--lease-seconds", "4"]);
    hub.said("at");
    let run = hub.trailer("task", "dwp-run-id");
    let follow: Vec<Running> =
        [vec!["logs", "-f", "--remote", "origin", "--branch", "task"], vec!["logs", "-f", "--attempt", &run]]
            .into_iter()
            .map(|arguments| {
                let mut follower = here.aynig_start(arguments);
                assert_eq!(follower.next_line(), "first");
                follower
            })
            .collect();
    // Longer than the leases lasted when they were taken.
    wait_until("renewals", || states(&hub, "task").iter().filter(|state| *state == "working").count() >= 4);
    hub.release("release");
    assert_exit(&runner.finish(), 0);
    let rest = "last\nSET_STATE {\"state\":\"done\"}\n";
    for follower in follow {
        let output = follower.finish();
        assert_exit(&output, 0);
        assert_eq!(out(&output), rest);
    }
    assert_eq!(out(&here.aynig_ok(ask)), format!("first\n{rest}"));
    assert_eq!(out(&here.aynig_ok(ask.into_iter().chain(["--stderr"]))), "");
    // Logs stay where the command ran.
    assert_refused(&there.aynig(ask), 1, &["by test-host", "logs stay where the command ran"]);
    assert_refused(
        &here.aynig(["logs", "--remote", "origin", "--branch", "nope"]),
        1,
        &["no branch nope on origin"],
    );
    assert_refused(&here.aynig(["logs", "--remote", "nowhere"]), 2, &["nowhere", "git remote"]);
    for (more, code, why) in
        [(&["--attempt", &run][..], 2, "cannot be used with"), (&["nope"], 1, "no branch nope on origin")]
    {
        let output = here.aynig(["logs", "--remote", "origin"].into_iter().chain(more.iter().copied()));
        assert_refused(&output, code, &[why]);
    }
    assert_eq!(out(&here.aynig_ok(["logs", "--remote", "origin", "task"])), format!("first\n{rest}"));
}

#[test]
fn a_remotes_branch_that_is_named_is_moved_as_it_stands_there() {
    let hub = hub(&[("work", "next done")]);
    hub.ready("task", "work");
    let clone = clone(&hub);
    clone.git(["checkout", "--quiet", "--track", "origin/task"]);
    clone.write("private", "mine\n");
    clone.git(["add", "private"]);
    clone.git(["commit", "--quiet", "-m", "not pushed"]);
    clone.write("staged", "mine\n");
    clone.git(["add", "staged"]);
    let own = clone.head("task");
    for verb in [&["set-state", "--state", "check"][..], &["set-working"]] {
        let before = hub.head("task");
        clone.aynig_ok([verb, &["--remote", "origin", "--branch", "task"]].concat());
        assert_eq!(hub.git(["rev-parse", "task^"]), before, "{verb:?} lies on what is there");
        assert_eq!(
            hub.git(["rev-parse", "task^{tree}"]),
            hub.git(["rev-parse", &format!("{before}^{{tree}}")])
        );
    }
    assert_eq!(
        (clone.head("task"), clone.git(["diff", "--cached", "--name-only"])),
        (own, "staged".to_owned())
    );
}

#[test]
fn a_relative_address_counts_from_the_checkout() {
    let hub = hub(&[("work", "next done")]);
    hub.ready("task", "work");
    let clone = clone(&hub);
    std::os::unix::fs::symlink(&hub.path, clone.beside("near.git")).expect("a link");
    clone.git(["remote", "set-url", "origin", "../near.git"]);
    let output = clone.aynig(["run", "--remote", "origin"]);
    assert_exit(&output, 0);
    assert_eq!(hub.state("task"), "done", "{}", told(&output));
}
