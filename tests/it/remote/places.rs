//! Places in which a runner of a remote works, and what a step may find there: a person's checkout, a bare
//! clone, a linked worktree, a submodule, a process left behind, a signal, a dead runner.

use nix::sys::signal::Signal;

use super::*;

/// In place, with a remote.
const ONLY: &[&str] = &["run", "--remote", "origin", "--current-branch", "only"];

/// CONTRACT 5.14, 6.14, 10.5
#[test]
fn a_signal_asks_again_on_the_remote() {
    let hub = hub(&[("work", &format!("{WORK}\nnext done"))]);
    let clone = clone(&hub);
    hub.ready("task", "work");
    hub.ready("z-waits", "work");
    let runner = clone.aynig_start(RUN.iter().copied());
    let command = hub.said_pid("at");
    runner.signal(Signal::SIGTERM);
    let output = runner.finish();
    assert_exit(&output, 143);
    assert!(!command.lives());
    assert_eq!(states(&hub, "task"), ["work", "working", "-", "work"], "{}", told(&output));
    assert_eq!(
        [hub.trailer("task", "dwp-source"), hub.trailer("task", "aynig-interrupted")],
        ["git:origin", "1"]
    );
    assert_eq!(hub.trailer("task", "aynig-rescued"), clone.rescue());
    assert_eq!(states(&hub, "z-waits"), ["work"], "nothing more is claimed");
    assert_work_saved(&clone, &output);
    // Another host says where the work is, too.
    let log = out(&self::clone(&hub).aynig_ok(["log", "task", "--remote", "origin"]));
    assert!(log.contains(&format!("{} (not in this clone; on test-host: ", clone.rescue())), "{log}");
    hub.assert_tidy();
}

/// CONTRACT 5.14, 6.14, 10.5
#[test]
fn where_it_is_set_a_signal_stalls_the_branch_on_the_remote() {
    for (signal, code) in [(Signal::SIGTERM, 143), (Signal::SIGINT, 130)] {
        let hub = hub(&[("work", &format!("{WORK}\nnext done"))]);
        let clone = clone(&hub);
        clone.git(["config", "aynig.onInterrupt", "stall"]);
        hub.ready("task", "work");
        hub.ready("z-waits", "work");
        let runner = clone.aynig_start(RUN.iter().copied());
        let command = hub.said_pid("at");
        let run = hub.trailer("task", "dwp-run-id");
        runner.signal(signal);
        let output = runner.finish();
        assert_exit(&output, code);
        assert!(!command.lives());
        assert_eq!(states(&hub, "task"), ["work", "working", "-", "stalled"], "{}", told(&output));
        assert_eq!(hub.trailer("task", "dwp-stalled-run"), run);
        assert_eq!(hub.trailer("task", "dwp-origin-state"), "work");
        assert_eq!(hub.trailer("task", "dwp-source"), "");
        let message = hub.message("task");
        assert!(message.contains("interrupted") && message.contains(&clone.rescue()), "{message}");
        assert_eq!(states(&hub, "z-waits"), ["work"], "nothing more is claimed");
        assert_work_saved(&clone, &output);
        hub.assert_tidy();
    }
}

/// CONTRACT 10.5
#[test]
fn a_second_signal_ends_the_wait_for_a_remote_that_is_away() {
    let hub = hub(&[("work", &format!("{WORK}\nnext done"))]);
    let clone = clone(&hub);
    hub.ready("task", "work");
    let wrapper = Wrapper::new(&hub, "");
    let runner = wrapper.start(&clone, RUN);
    let command = hub.said_pid("at");
    fs::rename(&hub.path, hub.beside("away.git")).expect("moved");
    runner.signal(Signal::SIGTERM);
    command.gone();
    wait_until("a second try", || wrapper.count("push") >= 3);
    runner.signal(Signal::SIGTERM);
    let output = runner.finish();
    assert_exit(&output, 143);
    assert_work_saved(&clone, &output);
    fs::rename(hub.beside("away.git"), &hub.path).expect("moved");
    assert_eq!(states(&hub, "task"), ["work", "working"]);
}

/// A clone with `mine` checked out, which tracks the remote's `task`, and with a person's files.
fn personal(hub: &Repo) -> Repo {
    let clone = clone(hub);
    clone.git(["fetch", "--quiet"]);
    clone.git(["checkout", "--quiet", "-b", "mine", "--track", "origin/task"]);
    clone.write("README", "changed by a person\n");
    clone.write("notes.txt", "untracked, a person's\n");
    clone
}

fn assert_personal(hub: &Repo, clone: &Repo) {
    assert_eq!(fs::read_to_string(clone.path.join("README")).expect("there"), "changed by a person\n");
    assert_eq!(fs::read_to_string(clone.path.join("notes.txt")).expect("there"), "untracked, a person's\n");
    assert_eq!(hub.show("task:README"), "a repository for a test");
    assert!(!hub.paths_in("task").contains(&"notes.txt".to_owned()));
    assert_eq!(clone.git(["symbolic-ref", "HEAD"]), "refs/heads/mine");
    clone.assert_tidy();
    hub.assert_tidy();
}

/// CONTRACT 9.13
#[test]
fn in_place_the_followed_branch_is_run_and_the_local_one_goes_along() {
    let script = "pwd >\"$ROOM/pwd\"; git commit -q --allow-empty -m own; say at $$; await release\n\
                  echo made >made.txt; git add made.txt; next done";
    for (mode, other) in [("only", "work"), ("include", "done")] {
        let hub = hub(&[("work", script)]);
        hub.ready("task", "work");
        hub.ready("other", "work");
        let clone = personal(&hub);
        let runner = clone.aynig_start([
            "run",
            "--remote",
            "origin",
            "--current-branch",
            mode,
            "--lease-seconds",
            "2",
        ]);
        // `include` may start with either branch.
        hub.said("at");
        if mode == "only" {
            wait_until("a renewal on top of its own commit", || {
                states(&hub, "task").ends_with(&["-".to_owned(), "working".to_owned()])
            });
        }
        hub.release("release");
        let output = runner.finish();
        assert_exit(&output, 0);
        let story = states(&hub, "task");
        assert_eq!(story[..2], ["work", "working"], "{story:?}");
        assert_eq!(story.last().map(String::as_str), Some("done"), "{story:?}");
        assert_eq!(story.iter().filter(|state| *state == "-").count(), 1, "{story:?}");
        assert_eq!(hub.show("task:made.txt"), "made");
        assert_eq!(clone.head("mine"), hub.head("task"), "the local branch went along");
        assert_eq!(clone.git(["diff", "--cached", "--name-only"]), "");
        assert_eq!(hub.state("other"), other, "{mode}");
        if mode == "only" {
            assert_eq!(hub.said("pwd"), clone.path.display().to_string());
        }
        assert_eq!(clone.rescues(), Vec::<String>::new());
        assert_personal(&hub, &clone);
    }
}

/// CONTRACT 9.13
#[test]
fn in_place_a_failure_leaves_the_files_and_a_silent_end_keeps_the_lease() {
    for (end, story, code) in
        [("exit 3", ["work", "working", "stalled"], 1), ("exit 0", ["work", "working", "working"], 0)]
    {
        let hub = hub(&[("work", &format!("echo made >made.txt; git add made.txt; {end}"))]);
        hub.ready("task", "work");
        let clone = personal(&hub);
        assert_exit(&clone.aynig(ONLY.iter().copied()), code);
        assert_eq!(states(&hub, "task"), story);
        assert_eq!(clone.head("mine"), hub.head("task"));
        assert_eq!(clone.git(["diff", "--cached", "--name-only"]), "made.txt", "it stays staged");
        assert_personal(&hub, &clone);
    }
}

#[test]
fn in_place_a_lost_lease_leaves_the_remote_and_the_persons_branch() {
    let hub = hub(&[("work", &format!("{WORK}\nnext done"))]);
    hub.ready("task", "work");
    let clone = personal(&hub);
    let runner = clone.aynig_start(ONLY.iter().copied());
    hub.said("at");
    hub.git(["update-ref", "refs/heads/task", "main"]);
    hub.release("release");
    let output = runner.finish();
    assert_exit(&output, 1);
    assert_eq!(hub.head("task"), hub.head("main"), "not brought back: {}", told(&output));
    assert_eq!(clone.show(&format!("{}:own.txt", clone.rescue())), "own", "{}", told(&output));
    assert_eq!(fs::read_to_string(clone.path.join("loose.txt")).expect("it stays"), "loose\n");
    assert_personal(&hub, &clone);
}

/// CONTRACT 9.13
#[test]
fn in_place_a_checkout_that_is_elsewhere_is_passed_over() {
    let hub = hub(&[("work", "echo ran >>\"$ROOM/ran\"; next done")]);
    hub.ready("task", "idea");
    let clone = personal(&hub);
    hub.branch_from("task", "task", b"go\n\ndwp-state: work\n");
    let before = (heads(&hub), heads(&clone));
    let output = clone.aynig_ok(ONLY.iter().copied());
    assert!(err(&output).contains("is not at the same commit"), "{}", told(&output));
    assert_eq!((heads(&hub), heads(&clone)), before);
    assert_eq!(hub.noted_lines("ran"), Vec::<String>::new());
    clone.git(["checkout", "--quiet", "README"]);
    clone.git(["pull", "--quiet", "--ff-only"]);
    clone.aynig_ok(ONLY.iter().copied());
    assert_eq!(hub.state("task"), "done");
    assert_eq!(clone.head("mine"), hub.head("task"));
}

#[test]
fn a_checkout_that_follows_nothing_is_told_how_to() {
    let hub = hub(&[("work", "next done")]);
    hub.ready("task", "work");
    let clone = clone(&hub);
    clone.git(["checkout", "--quiet", "-b", "mine"]);
    let output = clone.aynig(ONLY.iter().copied());
    let hint = "`git branch --set-upstream-to=origin/BRANCH mine`";
    let push = "`git push -u origin mine`";
    assert_refused(&output, 3, &["no current branch on origin", "mine", "follows no branch", hint, push]);
    // That of a branch which the remote lacks makes it there.
    let output = clone.aynig(["set-state", "--remote", "origin", "--state", "work"]);
    assert_refused(&output, 3, &["follows no branch of origin", "`git push -u origin mine` makes it there"]);
    clone.git(["fetch", "--quiet"]);
    clone.git(["reset", "--quiet", "--hard", "origin/task"]);
    clone.git(["branch", "--quiet", "--set-upstream-to=origin/task", "mine"]);
    clone.aynig_ok(ONLY.iter().copied());
    assert_eq!(hub.state("task"), "done");
    clone.git(["checkout", "--quiet", "--detach"]);
    assert_refused(&clone.aynig(ONLY.iter().copied()), 3, &["HEAD is detached"]);
}

/// CONTRACT 5.10, 6.3
#[test]
fn a_process_left_behind_renews_and_ends_its_branch() {
    let script = "( await renew; \"$AYNIG_BIN\" set-working --trailer 'dwp-step: 2' && say renewed yes\n\
                  await end; echo late >late.txt; git add late.txt; git commit -q -m late\n\
                  \"$AYNIG_BIN\" set-state --state review --subject 'at last' && say ended yes ) >&2 &\n\
                  say survivor $!; exit 0";
    let hub = hub(&[("work", script)]);
    hub.branch_with_message("task", b"go\n\ndwp-state: work\ndwp-pr: 7\n");
    let (here, there) = (clone(&hub), clone(&hub));
    let output = here.aynig_ok(RUN.iter().copied());
    let survivor = hub.said_pid("survivor");
    assert!(survivor.lives(), "{}", told(&output));
    assert_eq!(states(&hub, "task"), ["work", "working", "working"]);
    for key in
        ["dwp-run-id", "dwp-runner-id", "dwp-lease-seconds", "dwp-origin-state", "dwp-source", "dwp-pr"]
    {
        assert_eq!(hub.trailer("task", key), hub.trailer("task~1", key), "{key}");
    }
    let keep_off = |story: &[&str]| {
        for clone in [&here, &there] {
            clone.aynig_ok(RUN.iter().copied());
        }
        assert_eq!(states(&hub, "task"), story);
        assert!(survivor.lives());
        assert_eq!(here.worktrees().len(), 1, "it works there");
    };
    keep_off(&["work", "working", "working"]);
    hub.release("renew");
    hub.said("renewed");
    assert_eq!(hub.trailer("task", "dwp-run-id"), hub.trailer("task~1", "dwp-run-id"));
    assert_eq!(hub.trailer("task", "dwp-source"), "git:origin");
    assert_eq!(hub.trailer("task", "dwp-step"), "2");
    keep_off(&["work", "working", "working", "working"]);
    hub.release("end");
    hub.said("ended");
    survivor.gone();
    here.deserted();
    assert_eq!(states(&hub, "task"), ["work", "working", "working", "working", "-", "review"]);
    assert_eq!(hub.trailer("task", "dwp-source"), "git:origin");
    assert_eq!(hub.show("task:late.txt"), "late");
    here.aynig_ok(RUN.iter().copied());
    assert_eq!(here.rescues(), Vec::<String>::new());
    here.assert_tidy();
    there.assert_tidy();
    hub.assert_tidy();
}

#[test]
fn a_process_left_behind_cannot_write_over_its_successor() {
    let script = "( await go; \"$AYNIG_BIN\" set-working 2>\"$ROOM/why\"; echo $? >\"$ROOM/first\"\n\
                  \"$AYNIG_BIN\" set-state --state review; say second $? ) >&2 &\nsay survivor $!";
    let hub = hub(&[("work", script)]);
    let clone = clone(&hub);
    hub.ready("task", "work");
    clone.aynig_ok(RUN.iter().copied());
    hub.branch_from("task", "task", b"somebody else\n\ndwp-state: other\n");
    let after = heads(&hub);
    hub.release("go");
    assert_eq!((hub.said("second"), hub.said("first")), ("1".to_owned(), "1".to_owned()));
    assert!(hub.said("why").contains("no longer holds task"), "{}", hub.said("why"));
    assert_eq!(heads(&hub), after);
    hub.said_pid("survivor").gone();
    clone.deserted();
    clone.aynig_ok(RUN.iter().copied());
    clone.assert_tidy();
}

/// CONTRACT 9.10
#[test]
fn a_bare_clone_is_a_runner_like_any_other() {
    let hub = hub(&[
        ("work", "echo own >own.txt; git add own.txt; next done"),
        ("fail", "echo loose >loose.txt; exit 1"),
    ]);
    hub.ready("task", "work");
    hub.ready("worse", "fail");
    let room = tempfile::tempdir().expect("a temporary directory");
    let path = room.path().canonicalize().expect("it exists").join("clone.git");
    hub.git(["clone", "--quiet", "--bare", hub.path.to_str().expect("UTF-8"), path.to_str().expect("UTF-8")]);
    let bare = Repo { room, path };
    let before = heads(&bare);
    let output = bare.aynig(["run", "--remote", "origin", "--jobs", "2"]);
    assert_exit(&output, 1);
    assert_eq!(states(&hub, "task"), ["work", "working", "done"], "{}", told(&output));
    assert_eq!(hub.show("task:own.txt"), "own");
    assert_eq!(states(&hub, "worse"), ["fail", "working", "stalled"]);
    assert_eq!(bare.show(&format!("{}:loose.txt", bare.rescue())), "loose");
    assert_eq!(heads(&bare), before, "its own branches are as they were");
    assert_refused(&bare.aynig(ONLY.iter().copied()), 3, &["bare"]);
    bare.assert_tidy();
    hub.assert_tidy();
}

#[test]
fn a_linked_worktree_is_a_runner_and_a_place() {
    let hub = hub(&[("work", "pwd >\"$ROOM/pwd-$AYNIG_BRANCH\"; next done")]);
    hub.ready("task", "work");
    hub.ready("other", "work");
    let clone = clone(&hub);
    clone.git(["fetch", "--quiet"]);
    clone.git(["worktree", "add", "--quiet", "--track", "-b", "mine", "../linked", "origin/task"]);
    let linked = clone.beside("linked");
    let run = |arguments: &[&str]| {
        let mut command = clone.aynig_command();
        let output = command.current_dir(&linked).args(arguments).output().expect("aynig runs");
        assert_exit(&output, 0);
    };
    run(RUN);
    assert_eq!((hub.state("task"), hub.state("other")), ("work".to_owned(), "done".to_owned()));
    let place = hub.said("pwd-other");
    assert!(place.starts_with(&format!("{}/.worktrees/", clone.path.display())), "{place}");
    run(ONLY);
    assert_eq!(states(&hub, "task"), ["work", "working", "done"]);
    assert_eq!(hub.said("pwd-task"), linked.display().to_string());
    assert_eq!(clone.head("mine"), hub.head("task"));
    clone.git(["worktree", "remove", "../linked"]);
    clone.assert_tidy();
}

#[test]
fn a_submodule_is_there_and_work_in_it_is_not_lost() {
    let make = "cd sub; echo precious >mine.txt; git add mine.txt; git commit -q -m mine; cd ..; git add sub";
    for (work, kept) in [("true", 0), (make, 1)] {
        let source = Repo::scene(&[(
            "work",
            &format!("git -C sub log --format=%s -1 >\"$ROOM/seen\"; {work}; next done"),
        )]);
        let inner = Repo::new();
        inner.commit_all("theirs");
        // By default git refuses a local path as a submodule's URL (`protocol.file.allow`).
        let config = source.beside("config");
        let text = "[protocol \"file\"]\n\tallow = always\n[user]\n\tname = T\n\temail = t@example.com\n";
        fs::write(&config, text).expect("a file");
        let mut add = source.git_command();
        add.env("GIT_CONFIG_GLOBAL", &config)
            .args(["submodule", "--quiet", "add"])
            .arg(&inner.path)
            .arg("sub");
        assert!(add.status().expect("git runs").success());
        source.commit_all("a submodule");
        source.ready("task", "work");
        let hub = source.into_bare();
        let clone = clone(&hub);
        let mut command = clone.aynig_command();
        let output = command.env("GIT_CONFIG_GLOBAL", &config).args(RUN).output().expect("aynig runs");
        assert_exit(&output, 0);
        assert_eq!(hub.said("seen"), "theirs", "{}", told(&output));
        assert_eq!(states(&hub, "task"), ["work", "working", "done"]);
        let worktrees = clone.worktrees();
        assert_eq!(worktrees.len(), kept, "{}", told(&output));
        match worktrees.first() {
            None => clone.assert_tidy(),
            Some(worktree) => {
                assert!(out(&output).contains(&format!("left in place: {worktree}")), "{}", told(&output));
                let file = PathBuf::from(worktree).join("sub/mine.txt");
                assert_eq!(fs::read_to_string(file).expect("it is there"), "precious\n");
            }
        }
    }
}

/// CONTRACT 5.5, 9.14
#[test]
fn the_lease_of_a_dead_runner_is_closed_by_another_clone() {
    let hub = hub(&[("work", &format!("{WORK}\nnext done"))]);
    let (dead, living) = (clone(&hub), clone(&hub));
    hub.ready("task", "work");
    let runner = dead.aynig_start(["run", "--remote", "origin", "--lease-seconds", "1", "--no-heartbeat"]);
    let command = hub.said_pid("at");
    let run = hub.trailer("task", "dwp-run-id");
    runner.signal(Signal::SIGKILL);
    drop(runner.finish());
    command.gone();
    dead.deserted();
    let pass = ["run", "--remote", "origin", "--skew-seconds", "0"];
    wait_until("the lease to be closed", || {
        living.aynig_ok(pass);
        hub.state("task") == "stalled"
    });
    assert_eq!(states(&hub, "task"), ["work", "working", "stalled"]);
    assert_eq!(hub.trailer("task", "dwp-stalled-run"), run);
    assert_eq!(hub.trailer("task", "dwp-origin-state"), "work");
    assert!(hub.message("task").contains("test-host"), "{}", hub.message("task"));
    assert_eq!(living.rescues(), Vec::<String>::new());
    // The next pass on the dead runner's host saves the work there.
    let output = dead.aynig_ok(pass);
    let rescue = dead.rescue();
    assert!(err(&output).contains(&rescue), "{}", told(&output));
    assert_eq!(dead.show(&format!("{rescue}:own.txt")), "own");
    assert_eq!(dead.show(&format!("{rescue}:loose.txt")), "loose");
    dead.assert_tidy();
    hub.release("release");
    living.aynig_ok(["set-state", "--retry", "--remote", "origin", "--branch", "task"]);
    assert_eq!(hub.state("task"), "work");
    living.aynig_ok(pass);
    assert_eq!(states(&hub, "task"), ["work", "working", "stalled", "work", "working", "-", "done"]);
    living.assert_tidy();
    hub.assert_tidy();
}
