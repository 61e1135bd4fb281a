//! Commits that a command made and left, so that only the reflog of its worktree's HEAD has them: they are
//! rescued with the rest (CONTRACT 9.5). Commits that were replaced by newer ones, or were not made there,
//! are not.

use super::scene::*;
use super::support::*;

/// Commits the file `w`, and reports the commit's id.
const COMMIT: &str = "echo w >w; git add w; git commit -q -m work; say commit $(git rev-parse HEAD); ";

fn repo(script: &str) -> Repo {
    let repo = Repo::scene(&[("work", &format!("set -e; {script}"))]);
    repo.ready("task", "work");
    repo
}

/// Asserts that the commit is in the one rescue, which `said` names.
#[track_caller]
fn assert_saved(repo: &Repo, commit: &str, said: &str) {
    let rescue = repo.rescue();
    repo.git(["merge-base", "--is-ancestor", commit, &rescue]);
    assert!(said.contains(&rescue), "{rescue}: {said}");
    assert!(repo.message(&rescue).contains(&commit[..10]), "{}", repo.message(&rescue));
    repo.assert_tidy();
}

/// CONTRACT 9.5
#[test]
fn commits_that_were_left_are_saved() {
    for (what, left) in [
        ("a detached HEAD", format!("git checkout -q --detach; {COMMIT}git checkout -q task")),
        (
            "a reset",
            format!("git checkout -q --detach; {COMMIT}git reset -q --hard HEAD^; git checkout -q task"),
        ),
        (
            "a branch that was removed",
            format!("git checkout -q -b x; {COMMIT}git checkout -q task; git branch -q -D x"),
        ),
        (
            "by a ref alone",
            format!(
                "git checkout -q --detach; {COMMIT}git update-ref --no-deref HEAD HEAD^; git checkout -q -f task"
            ),
        ),
    ] {
        for end in ["exit 1", "next done"] {
            let repo = repo(&format!("{left}; {end}"));
            let output = repo.aynig(["run"]);
            let commit = repo.said("commit");
            assert_saved(&repo, &commit, &out(&output));
            if end == "exit 1" {
                assert_saved(&repo, &commit, &repo.message("task"));
            } else {
                assert_eq!(repo.state("task"), "done", "{what}: {}", told(&output));
            }
        }
    }
}

/// CONTRACT 9.5
#[test]
fn also_with_a_remote_whose_worktrees_are_always_detached() {
    for end in ["exit 1", "next done"] {
        let hub = Repo::scene(&[("work", &format!("set -e; {COMMIT}git reset -q --hard HEAD^; {end}"))]);
        let hub = hub.into_bare();
        hub.ready("task", "work");
        let clone = hub.clone_beside("clone");
        let output = clone.aynig(["run", "--remote", "origin"]);
        assert_saved(&clone, &hub.said("commit"), &out(&output));
    }
}

/// CONTRACT 9.5
#[test]
fn also_after_the_runner_was_killed() {
    let repo =
        repo(&format!("git checkout -q --detach; {COMMIT}git checkout -q task; say ready $$; await release"));
    repo.killed_over_its_command(&["run", "--lease-seconds", "1"]);
    repo.run_until("task", "stalled", &["run"]);
    assert_saved(&repo, &repo.said("commit"), &repo.message("task"));
}

/// CONTRACT 9.5
#[test]
fn what_was_replaced_or_made_elsewhere_is_not() {
    let elsewhere = "git checkout -q -f v1; git checkout -q --detach task";
    for (what, script) in [
        ("an amended commit", format!("{COMMIT}echo more >>w; git commit -q -a --amend -m better")),
        (
            "a squash",
            format!(
                "{COMMIT}echo x >x; git add x; git commit -q -m x; git reset -q --soft HEAD~2; git commit -q -m both"
            ),
        ),
        ("a rebase", format!("{COMMIT}git rebase -q side")),
        ("a pick", format!("{COMMIT}git reset -q --hard HEAD^; git cherry-pick -x HEAD@{{1}} >&2")),
        ("a tag that was looked at", elsewhere.to_owned()),
        (
            "what somebody else made",
            "git fetch -q origin refs/odd/one; git checkout -q FETCH_HEAD; git checkout -q -".to_owned(),
        ),
    ] {
        let hub = Repo::scene(&[("work", &format!("set -e; {script}; next done"))]).into_bare();
        hub.ready("task", "work");
        let odd = hub.git(["commit-tree", "-p", "main", "-m", "odd", "main^{tree}"]);
        hub.git(["update-ref", "refs/odd/one", &odd]);
        let side = hub.git(["commit-tree", "-p", "task~1", "-m", "side", "main^{tree}"]);
        hub.git(["update-ref", "refs/heads/side", &side]);
        hub.git(["update-ref", "refs/tags/v1", &odd]);
        let clone = hub.clone_beside("clone");
        clone.git(["update-ref", "refs/heads/task", "origin/task"]);
        clone.git(["update-ref", "refs/heads/side", &side]);
        let output = clone.aynig(["run", "--remote", "origin"]);
        let rebased = what == "a rebase";
        assert_eq!(hub.state("task"), if rebased { "stalled" } else { "done" }, "{what}: {}", told(&output));
        assert_eq!(clone.rescues().len(), usize::from(rebased), "{what}: {}", told(&output));
    }
    // On a branch, the branch's own reflog has the reset commit.
    let repo = repo(&format!("{COMMIT}git reset -q --hard HEAD^; next done"));
    repo.aynig_ok(["run"]);
    assert_eq!(repo.rescues(), Vec::<String>::new());
}

/// A rebase that is aborted leaves what was committed in it; one of another branch, what HEAD was at.
/// CONTRACT 9.5
#[test]
fn what_a_rebase_left_is_saved() {
    let edits = "echo a >a; git add a; git commit -qm a; GIT_SEQUENCE_EDITOR='sed -i 1s/pick/edit/' git rebase -q -i HEAD~1";
    for left in [
        format!("{edits}; {COMMIT}git rebase --abort"),
        format!("git checkout -q --detach; {COMMIT}git branch other main; git rebase -q main other"),
        // The base of one that stopped at its first conflict.
        format!(
            "git checkout -q --detach; {COMMIT}b=$(git rev-parse HEAD); git checkout -q task; echo z >w; git add w; git commit -qm z; git rebase -q $b >&2 || git rebase --abort"
        ),
    ] {
        let repo = repo(&format!("{left}; exit 1"));
        let output = repo.aynig(["run"]);
        assert_saved(&repo, &repo.said("commit"), &out(&output));
    }
    let ended = "echo a >a; git add a; git commit -qm a; git rebase -q --no-ff HEAD~1; next done";
    // A copy whose conflict was resolved is work, one as it was is not. Both have the same entry with --apply.
    let both = |backend: &str, first: &str, meanwhile: &str, end: &str| {
        format!(
            "git checkout -q -b up; echo t >f; echo t >g; git add f g; git commit -qm theirs; git checkout -q task
             echo m >{first}; git add {first}; git commit -qm one; echo m >g; git add g; git commit -qm two
             git rebase {backend} up >&2 || true; {meanwhile}say commit $(git rev-parse HEAD); git rebase --abort; {end}"
        )
    };
    let resolve = "echo by hand >f; git add f; GIT_EDITOR=: git rebase --continue >&2 || true; ";
    for backend in ["--apply", "--merge"] {
        let repo = self::repo(&both(backend, "f", resolve, "exit 1"));
        let output = repo.aynig(["run"]);
        assert_saved(&repo, &repo.said("commit"), &out(&output));
        let repo = self::repo(&both(backend, "h", "", "next done"));
        repo.aynig_ok(["run"]);
        assert_eq!(repo.rescues(), [""; 0], "{backend}");
    }
    let repo = repo(ended);
    repo.aynig_ok(["run"]);
    assert_eq!(repo.rescues(), [""; 0], "a rebase that ended left nothing");
}

/// CONTRACT 9.6
#[test]
fn the_printed_way_back_takes_the_commits_below_it_too() {
    let repo = repo(&format!("git checkout -q --detach; {COMMIT}echo more >more; exit 1"));
    repo.aynig(["run"]);
    let message = repo.message("task");
    let line = message.split("(or git ").nth(1).and_then(|rest| rest.split(").").next()).expect("a command");
    repo.git(line.split(' '));
    assert_eq!(repo.git(["diff", "--cached", "--name-only"]), "more\nw");
}
