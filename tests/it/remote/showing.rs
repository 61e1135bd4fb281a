//! `status --watch` and `log` with a remote.

use super::*;
use crate::terminal::plain;

#[test]
fn a_watched_remote_is_asked_once_an_interval_and_fetched_from_when_it_changed() {
    let hub = hub(&[("work", "next done")]);
    hub.ready("task", "work");
    let clone = clone(&hub);
    hub.foreign_lease("task", "11111111-2222-4333-8444-555555555555", "other", 300, 0);
    let git = Wrapper::new(&hub, "");
    let arguments = ["status", "--all", "--remote", "origin", "--watch=1"];
    let mut terminal = clone.in_terminal((20, 100), &[("PATH", &git.path())], &arguments);
    let of_task = |picture: &[String]| picture.iter().find(|line| line.starts_with("task")).cloned();
    let first = of_task(&terminal.wait_for_picture("the table", |picture| of_task(picture).is_some()));
    assert_eq!((git.count("fetch"), git.count("ls-remote")), (1, 0));
    // The clock continues without a connection.
    terminal.wait_for_picture("two strokes", |picture| of_task(picture) != first);
    assert_eq!((git.count("fetch"), git.count("ls-remote")), (1, 0));
    wait_until("a question", || git.count("ls-remote") > 0);
    assert_eq!(git.count("fetch"), 1, "nothing has changed");
    hub.ready("second", "work");
    terminal
        .wait_for_picture("the new branch", |picture| picture.iter().any(|line| line.starts_with("second")));
    assert_eq!(git.count("fetch"), 2);
    // A lost remote is reported, and the table stays.
    fs::rename(&hub.path, hub.beside("away.git")).expect("it is ours");
    let picture = terminal
        .wait_for_picture("the trouble", |picture| picture.iter().any(|line| line.contains("trying again")));
    assert!(of_task(&picture).is_some(), "{picture:#?}");
    fs::rename(hub.beside("away.git"), &hub.path).expect("it is ours");
    terminal.press(b"\x03");
    assert_eq!(terminal.finish().1, 130);
}

#[test]
fn a_remote_that_hangs_does_not_hold_up_the_end() {
    let hub = hub(&[("work", "next done")]);
    hub.ready("task", "work");
    let clone = clone(&hub);
    let git = Wrapper::new(&hub, "[ $verb = ls-remote ] && { say hangs $$; exec tail -f /dev/null; }");
    let arguments = ["status", "--all", "--remote", "origin", "--watch=5"];
    let mut terminal = clone.in_terminal((20, 100), &[("PATH", &git.path())], &arguments);
    terminal.wait_for_picture("the table", |picture| picture.iter().any(|line| line.starts_with("task")));
    let hung = hub.said_pid("hangs");
    terminal.press(b"\x03");
    let (shown, code) = terminal.finish();
    assert_eq!(code, 130, "{shown:?}");
    assert!(!hung.lives(), "no process is left behind");
}

#[test]
fn the_story_of_a_branch_is_the_same_in_any_clone() {
    let hub = hub(&[("work", "echo loose >loose.txt; exit 3")]);
    hub.ready("task", "work");
    let here = clone(&hub);
    let there = clone(&hub);
    assert_eq!(here.aynig(RUN.iter().copied()).status.code(), Some(1));
    let story = |clone: &Repo| out(&clone.aynig_ok(["log", "--remote", "origin", "task"]));
    let (ours, theirs) = (story(&here), story(&there));
    let rescue = here.rescue();
    assert!(
        ours.contains(&format!("saved    {rescue}\n")) && ours.contains("printed  `aynig logs "),
        "{ours}"
    );
    assert!(
        theirs.contains(&format!(
            "saved    {rescue} (not in this clone; on test-host: `git show --first-parent {rescue}`)\n"
        )),
        "{theirs}"
    );
    assert!(!theirs.contains("printed"), "{theirs}");
    assert_eq!(ours.lines().next(), theirs.lines().next());
    let (shown, _) = there
        .in_terminal((20, 100), &[("GIT_PAGER", "cat")], &["log", "--remote", "origin", "task"])
        .finish();
    assert!(plain(&shown).contains("work → stalled"), "{shown:?}");
}

#[test]
fn in_a_clone_the_remote_is_named_that_has_the_branch() {
    let hub = hub(&[("work", "next done")]);
    hub.ready("task", "work");
    let clone = clone(&hub);
    for arguments in [
        ["log", "task"].as_slice(),
        &["events", "--branch", "task"],
        &["logs", "--branch", "task"],
        &["set-state", "--retry", "--branch", "task"],
    ] {
        let output = clone.aynig(arguments.iter().copied());
        assert_refused(&output, 1, &["there is no branch task in", "origin has one", "`--remote origin`"]);
        assert!(!err(&output).contains("git branch task"), "{}", err(&output));
    }
    for name in ["origin/task", "refs/remotes/origin/task"] {
        assert_refused(&clone.aynig(["log", name]), 1, &["`--remote origin --branch task`"]);
        let there = clone.aynig(["log", "--remote", "origin", name]);
        assert_refused(&there, 1, &["there is no branch", "`--branch task`"]);
    }
    let nowhere = clone.aynig(["set-state", "--state", "work", "--branch", "nowhere"]);
    assert_refused(&nowhere, 1, &["there is no branch nowhere"]);
    assert!(!err(&nowhere).contains("git branch nowhere"), "{}", err(&nowhere));
    // Known only through aynig's own fetches.
    clone.aynig_ok(["status", "--all", "--remote", "origin"]);
    clone.git(["update-ref", "-d", "refs/remotes/origin/task"]);
    assert_refused(&clone.aynig(["log", "task"]), 1, &["`--remote origin`"]);
}
