//! A process killed between any two of its effects on a workspace: the next one that changes something undoes or finishes it.

use super::super::support::*;
use super::remove::assert_removed;

/// CONTRACT 15.4
#[test]
fn a_half_made_workspace_is_undone_by_the_next_that_changes_something() {
    for point in
        ["workspace-noted", "workspace-branched", "worktree-drafted", "worktree-registered", "workspace-made"]
    {
        let repo = Repo::new();
        let kept = repo.made("kept");
        let refs = repo.git(["for-each-ref"]);
        let mut command = repo.workspace_command();
        let killed =
            command.args(["create", "fix"]).env("AYNIG_CRASH_AT", point).output().expect("aynig runs");
        assert_eq!(killed.status.code(), None, "{point}: {}", err(&killed));
        // The one that looks may be killed, too.
        let mut command = repo.workspace_command();
        command
            .args(["snapshot", &kept.slug])
            .env("AYNIG_CRASH_AT", "workspace-unmade")
            .output()
            .expect("aynig runs");
        assert!(err(&repo.workspace_ok(["list"])).contains("was never complete"), "{point}");
        let look = repo.workspace_ok(["snapshot", &kept.slug]);
        assert!(err(&look).contains("was undone"), "{point}: {}", err(&look));
        assert_eq!(repo.git(["for-each-ref"]), refs, "{point}");
        assert_eq!(repo.workspaces().len(), 1, "{point}");
        assert_eq!(repo.worktrees(), [kept.path.to_str().expect("UTF-8")], "{point}");
        let root = kept.path.parent().and_then(std::path::Path::parent).expect("the root");
        assert_eq!(std::fs::read_dir(root).expect("a directory").count(), 1, "{point}");
        assert_eq!(std::fs::read_dir(repo.runs()).expect("a directory").count(), 1, "{point}");
    }
}

/// CONTRACT 15.4
#[test]
fn one_that_is_being_made_is_left_alone() {
    let repo = Repo::new();
    let mut command = repo.workspace_command();
    command.args(["create", "fix"]).env("AYNIG_CRASH_AT", "workspace-made:stop");
    let running = Running::start(&mut command);
    wait_until("it to stop", || is_stopped(running.pid()));
    let found = repo.workspaces();
    assert_eq!(found[0]["state"], "preparing");
    running.signal(nix::sys::signal::Signal::SIGCONT);
    wait_until("it to be made", || repo.workspaces()[0]["state"] == "ready");
}

/// Where a worktree is made anew, in their order.
const MAKING: [&str; 9] = [
    "rescue-pointed",
    "rollback-noted",
    "rollback-aside",
    "rollback-gone",
    "rollback-unregistered",
    "rollback-moved",
    "worktree-drafted",
    "worktree-registered",
    "rollback-added",
];

/// CONTRACT 15.7
#[test]
fn a_rollback_that_is_killed_is_finished_by_the_next_that_changes_something() {
    for point in MAKING.into_iter().chain(["rollback-done"]) {
        let repo = Repo::new();
        let made = repo.made("fix");
        made.sh(
            &repo,
            "echo x >>README; echo y >y; git add y; git -c user.name=A -c user.email=a@b commit -qm y",
        );
        let mut command = repo.workspace_command();
        let killed =
            command.args(["rollback", &made.slug]).env("AYNIG_CRASH_AT", point).output().expect("aynig runs");
        assert_eq!(killed.status.code(), None, "{point}: {}", err(&killed));
        let again = repo.workspace_ok(["rollback", &made.slug]);
        let said = format!("{}{}", out(&again), err(&again));
        let names_it = said.contains(&repo.rescues()[0]) && said.contains("--undo");
        assert!(names_it || point == "rollback-done", "{point}: {said}");
        assert_eq!(repo.head(&made.branch), repo.head("main"), "{point}");
        assert_eq!(made.git(&repo, &["status", "--porcelain", "--ignored"]), "", "{point}");
        assert_eq!(repo.rescues().len(), 1, "{point}");
        assert_eq!(repo.worktrees(), [made.path.to_str().expect("UTF-8")], "{point}");
        repo.workspace_ok(["rollback", "--undo", &made.slug]);
        assert_eq!(
            std::fs::read_to_string(made.path.join("README")).expect("there"),
            "a repository for a test\nx\n"
        );
        assert!(made.path.join("y").is_file(), "{point}");
    }
}

/// CONTRACT 15.8
#[test]
fn an_undo_that_is_killed_and_typed_again_is_no_rollback() {
    for point in MAKING {
        let repo = Repo::new();
        let made = repo.made("fix");
        made.sh(&repo, "echo x >>README; echo y >y");
        repo.workspace_ok(["rollback", &made.slug]);
        made.sh(&repo, "echo z >z");
        let mut command = repo.workspace_command();
        command.args(["rollback", "--undo", &made.slug]).env("AYNIG_CRASH_AT", point);
        let killed = command.output().expect("aynig runs");
        assert_eq!(killed.status.code(), None, "{point}: {}", err(&killed));
        let is_there = |name: &str| made.path.join(name).is_file();
        repo.workspace_ok(["rollback", "--undo", &made.slug]);
        assert_eq!((is_there("y"), is_there("z")), (true, false), "{point}: as if it had not been killed");
        repo.workspace_ok(["rollback", "--undo", &made.slug]);
        assert_eq!((is_there("y"), is_there("z")), (false, true), "{point}: the way back");
    }
}

/// CONTRACT 15.7
#[test]
fn a_rollback_that_another_call_finishes_is_reported_once() {
    let repo = Repo::new();
    repo.write(".gitignore", "*.tmp\n");
    repo.commit_all("ignores");
    repo.git(["config", "aynig.rollbackKeepIgnored", "true"]);
    let made = repo.made("fix");
    made.sh(&repo, "echo x >>README; echo x >a.tmp");
    let mut command = repo.workspace_command();
    command.args(["rollback", &made.slug]).env("AYNIG_CRASH_AT", "rollback-added");
    assert_eq!(command.output().expect("aynig runs").status.code(), None);
    let said = err(&repo.workspace_ok(["snapshot", &made.slug]));
    for words in ["the old worktree stays at", "was interrupted; it is done now"] {
        assert_eq!(said.matches(words).count(), 1, "{words}: {said}");
    }
}

/// CONTRACT 15.6
#[test]
fn no_ignored_file_is_lost_where_moving_them_is_killed() {
    let files = ["a.tmp", "cache/b", "cache/deep/c", "d.tmp"];
    for point in [
        "rollback-aside",
        "rollback-moved",
        "ignored-moved",
        "ignored-moved:kill:2",
        "ignored-moved:kill:4",
        "ignored-carried",
        "unregistered",
        "rollback-added",
        "rollback-done",
    ] {
        let repo = Repo::new();
        repo.write(".gitignore", "*.tmp\ncache/\n");
        repo.commit_all("ignores");
        let made = repo.made("fix");
        made.sh(&repo, "mkdir -p cache/deep; git bisect start >/dev/null; echo x >>README");
        for file in files {
            std::fs::write(made.path.join(file), file).expect("a file");
        }
        let mut command = repo.workspace_command();
        let killed =
            command.args(["snapshot", &made.slug]).env("AYNIG_CRASH_AT", point).output().expect("aynig runs");
        assert_eq!(killed.status.code(), None, "{point}: {}", err(&killed));
        let next = repo.workspace_ok(["snapshot", &made.slug]);
        let beside = || {
            let entries = std::fs::read_dir(made.path.parent().expect("a directory")).expect("a directory");
            entries.flatten().map(|entry| entry.path()).collect::<Vec<_>>()
        };
        let is_gone = |path: &std::path::PathBuf| path.to_string_lossy().contains(".gone-");
        wait_until("what is saved to be removed", || !beside().iter().any(is_gone));
        for file in files {
            let places = beside().into_iter().filter(|place| place.join(file).is_file());
            let [place] = &places.collect::<Vec<_>>()[..] else { panic!("{point}: {file}") };
            assert_eq!(std::fs::read_to_string(place.join(file)).expect("there"), file, "{point}");
            let named = place.to_str().expect("UTF-8");
            assert!(*place == made.path || err(&next).contains(named), "{point}: {}", err(&next));
        }
        let listed = out(&repo.aynig_command().args(["clean", "--workspaces"]).output().expect("aynig runs"));
        for kept in beside().into_iter().filter(|place| *place != made.path) {
            assert!(listed.contains(kept.to_str().expect("UTF-8")), "{point}: {listed}");
        }
    }
}

/// CONTRACT 15.6
#[test]
fn a_snapshot_that_is_killed_is_taken_by_the_next() {
    for point in ["snapshot-written", "head-logged", "snapshot-moved"] {
        let repo = Repo::new();
        let made = repo.made("fix");
        made.sh(&repo, "echo x >>README; echo y >y");
        let mut command = repo.workspace_command();
        let killed =
            command.args(["snapshot", &made.slug]).env("AYNIG_CRASH_AT", point).output().expect("aynig runs");
        assert_eq!(killed.status.code(), None, "{point}: {}", err(&killed));
        repo.workspace_ok(["snapshot", &made.slug]);
        assert_eq!(repo.git(["rev-list", "--count", &format!("main..{}", made.branch)]), "1", "{point}");
        assert_eq!(repo.git(["show", "--format=", "--name-only", &made.branch]), "README\ny", "{point}");
        assert_eq!(made.git(&repo, &["status", "--porcelain"]), "", "{point}");
    }
}

/// CONTRACT 15.9
#[test]
fn a_removal_that_is_killed_is_finished_by_the_next_that_changes_something() {
    for point in [
        "rescue-pointed",
        "removal-noted",
        "removal-archived",
        "rollback-aside",
        "rollback-gone",
        "removal-unregistered",
        "removal-unbranched",
        "removal-recorded",
    ] {
        let repo = Repo::new();
        let made = repo.made("fix");
        made.sh(
            &repo,
            "echo y >y; git add y; git -c user.name=A -c user.email=a@b commit -qm y; echo x >>README",
        );
        let tip = repo.head(&made.branch);
        for time in 0..2 {
            // The one that carries on may be killed, too.
            let mut command = repo.workspace_command();
            command.args(["remove", "--apply", &made.slug]).env("AYNIG_CRASH_AT", point);
            let killed = command.output().expect("aynig runs");
            assert!(time > 0 || killed.status.code().is_none(), "{point}: {}", err(&killed));
        }
        repo.workspace(["remove", "--apply", &made.slug]);
        assert_removed(&repo, &made, point);
        let archive = format!("refs/aynig/archive/{}/", made.run);
        let refs = repo.git(["for-each-ref", "--format=%(refname) %(objectname)", &archive]);
        assert_eq!(refs, format!("{archive}fix {tip}"), "{point}");
        assert_eq!(repo.rescues().len(), 1, "{point}");
        let rescued = format!("{}:README", repo.rescues()[0]);
        assert!(repo.git(["show", &rescued]).ends_with("\nx"), "{point}");
    }
}

/// CONTRACT 15.9
#[test]
fn a_removal_that_is_killed_and_typed_again_is_done() {
    for point in ["removal-archived", "removal-recorded"] {
        let repo = Repo::new();
        let made = repo.made("fix");
        let mut command = repo.workspace_command();
        command.args(["remove", "--apply", &made.slug]).env("AYNIG_CRASH_AT", point);
        assert_eq!(command.output().expect("aynig runs").status.code(), None, "{point}");
        let again = out(&repo.workspace_ok(["remove", "--apply", &made.slug]));
        assert_eq!(again.trim_end(), format!("removed  {}", made.handle), "{point}");
        assert_removed(&repo, &made, point);
    }
}
