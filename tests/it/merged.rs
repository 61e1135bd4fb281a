//! A lease behind a merge: somebody with a commit of their own pulls a leased branch, and pushes the merge.

use super::scene::*;
use super::support::*;

const WORK: &str = "echo draft >draft; say ready $$; await release; next done";

fn scene() -> Repo {
    let repo = Repo::scene(&[("work", WORK), ("other", "echo ran >>\"$ROOM/ran\"; next done")]);
    repo.ready("task", "work");
    repo
}

/// Merges `branch` into a commit that lies on `main`, which becomes the first parent, as `git pull` does.
fn pulled(repo: &Repo, branch: &str) -> String {
    let blob = repo.git_with_input(&["hash-object", "-w", "--stdin"], b"mine\n");
    let entries = repo.git(["ls-tree", branch]) + &format!("\n100644 blob {blob}\tmine.txt\n");
    let tree = repo.git_with_input(&["mktree"], entries.as_bytes());
    let own = repo.git(["commit-tree", &tree, "-p", "main", "-m", "my own commit"]);
    repo.git(["commit-tree", &tree, "-p", &own, "-p", branch, "-m", "Merge branch 'task' of hub"])
}

fn move_to(repo: &Repo, branch: &str, commit: &str) {
    repo.git(["update-ref", &format!("refs/heads/{branch}"), commit]);
}

/// CONTRACT 5.25, 5.33, 5.37
#[test]
fn a_merge_hides_no_lease() {
    let repo = scene();
    let runner = repo.aynig_start(["run"]);
    let command = repo.said_pid("ready");
    let merge = pulled(&repo, "task");
    move_to(&repo, "task", &merge);
    let refused = repo.aynig(["set-state", "task", "--state", "other"]);
    assert_eq!(refused.status.code(), Some(1), "{}", told(&refused));
    assert!(err(&refused).contains("is leased to"), "{}", told(&refused));
    repo.aynig_ok(["set-state", "task", "--state", "other", "--when-free"]);
    repo.aynig_ok(["run"]);
    assert_eq!((repo.head("task"), repo.noted_lines("ran").len()), (merge, 0), "nothing was delivered");
    assert!(command.lives());
    let landed = repo.aynig(["land", "task"]);
    assert!(!landed.status.success(), "{}", told(&landed));
    repo.aynig_ok(["cancel", "task", "--wait"]);
    runner.finish();
    assert!(!command.lives());
    assert_eq!([repo.state("task"), repo.trailer("task", "aynig-cancel")], ["stalled", "stall"]);
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(repo.noted_lines("ran").len(), 1, "the deferred state was delivered once");
}

/// CONTRACT 5.37, 6.12
#[test]
fn what_was_asked_is_found_behind_a_merge() {
    let repo = scene();
    let runner = repo.aynig_start(["run"]);
    repo.said("ready");
    move_to(&repo, "task", &pulled(&repo, "task"));
    repo.release("release");
    runner.finish();
    assert_eq!(repo.state("task"), "stalled");
    repo.aynig_ok(["set-state", "task", "--retry"]);
    assert_eq!(repo.state("task"), "work");
}

/// CONTRACT 5.5, 5.37
#[test]
fn a_lease_behind_a_merge_is_recovered() {
    let repo = scene();
    let runner = repo.aynig_start(["run", "--lease-seconds", "2"]);
    let command = repo.said_pid("ready");
    move_to(&repo, "task", &pulled(&repo, "task"));
    runner.signal(nix::sys::signal::Signal::SIGKILL);
    runner.finish();
    command.gone();
    wait_until("the recovery", || {
        repo.aynig(["run", "--states", "none"]);
        repo.state("task") == "stalled"
    });
    assert_eq!(repo.trailer("task", "dwp-origin-state"), "work");
    assert_eq!(repo.show(&format!("{}:draft", repo.rescue())), "draft");
}

/// CONTRACT 5.37
#[test]
fn a_lease_of_another_branch_is_none_of_this_one() {
    let repo = scene();
    let runner = repo.aynig_start(["run"]);
    repo.said("ready");
    repo.git(["branch", "mine", &pulled(&repo, "task")]);
    repo.aynig_ok(["set-state", "mine", "--state", "other"]);
    repo.aynig_ok(["run", "mine"]);
    assert_eq!((repo.state("mine"), repo.noted_lines("ran").len()), ("done".into(), 1));
    // Neither is one that has ended, though an old commit above it is merged again.
    let lease = repo.head("task");
    repo.release("release");
    runner.finish();
    assert_eq!(repo.state("task"), "done");
    let tree = repo.git(["rev-parse", "task^{tree}"]);
    let old = repo.git(["commit-tree", &tree, "-p", &lease, "-m", "late"]);
    let merge = repo.git(["commit-tree", &tree, "-p", "task", "-p", &old, "-m", "Merge"]);
    move_to(&repo, "task", &merge);
    repo.aynig_ok(["set-state", "task", "--state", "other"]);
    assert_eq!(repo.state("task"), "other");
}
