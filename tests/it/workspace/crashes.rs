//! A process killed between any two of its effects on a workspace: the next one that looks undoes or finishes it.

use super::super::support::*;

/// CONTRACT 15.4
#[test]
fn a_half_made_workspace_is_undone_by_the_next_that_looks() {
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
        command.arg("list").env("AYNIG_CRASH_AT", "workspace-unmade").output().expect("aynig runs");
        let look = repo.workspace_ok(["list"]);
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
