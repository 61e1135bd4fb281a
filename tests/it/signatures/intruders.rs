//! Commits that a runner signs on top of a foreign unsigned commit never contain that commit's files
//! (CONTRACT 13.8).
//!
//! In each test someone without a key puts a commit on a leased branch. It contains a command for `stalled`,
//! which must not run.

use nix::sys::signal::Signal;

use super::*;

/// A repository whose runner signs and requires signatures; `task` is ready for `work`. `evil` is a tree with
/// a foreign command.
struct Place {
    repo: Repo,
    known: Key,
    evil: String,
}

fn place(work: &str) -> Place {
    let (repo, known, _) = signing(&[("work", work), ("noop", "true")]);
    repo.git(["config", "commit.gpgSign", "true"]);
    repo.git(["config", "user.signingKey", known.private.to_str().expect("text")]);
    repo.git(["checkout", "-q", "-b", "draft"]);
    repo.command(".aynig/command/stalled", &repo.scripted("say evil yes; next done"));
    repo.write("build.sh", &repo.scripted("say evil yes"));
    repo.git(["add", "--all"]);
    let evil = repo.git(["write-tree"]);
    repo.git(["reset", "-q", "--hard"]);
    repo.git(["checkout", "-q", "main"]);
    repo.git(["branch", "-q", "-D", "draft"]);
    signed(&repo, "task", &known);
    Place { repo, known, evil }
}

impl Place {
    /// An unsigned commit on top of `base`, `age` seconds old, with the foreign command.
    fn intruder(&self, base: &str, age: u64) -> String {
        let date = format!("{} +0000", now() - age);
        let mut git = self.repo.git_command();
        git.env("GIT_COMMITTER_DATE", &date).env("GIT_AUTHOR_NAME", "Mallory");
        let output = git.args(["commit-tree", "-p", base, "-m", "a plain commit", &self.evil]).output();
        out(&output.expect("git runs")).trim_end().to_owned()
    }

    /// Puts such a commit on the branch.
    fn intrude(&self, age: u64) -> String {
        let commit = self.intruder("task", age);
        self.repo.git(["update-ref", "refs/heads/task", &commit]);
        commit
    }
}

/// Asserts that `branch` was closed on top of `intruder` by a commit of the runner with the tree of `main`,
/// and that the foreign command did not run.
#[track_caller]
fn assert_closed(repo: &Repo, branch: &str, intruder: &str) {
    assert_eq!(repo.state(branch), "stalled");
    assert!(!repo.beside("evil").exists(), "the foreign command was run");
    assert_eq!(
        repo.git(["rev-parse", &format!("{branch}^{{tree}}")]),
        repo.git(["rev-parse", "main^{tree}"])
    );
    repo.git(["merge-base", "--is-ancestor", intruder, branch]);
    let said = repo.message(branch);
    assert!(said.contains(&intruder[..10]) && said.contains("aynig.requireSigned"), "{said}");
}

/// CONTRACT 5.11, 13.8
#[test]
fn the_closing_of_an_expired_lease_does_not_take_an_intruders_files() {
    let place = place("exit 0");
    place.repo.aynig_ok(["run", "--lease-seconds", "1"]);
    let intruder = place.intrude(1000);
    place.repo.run_until("task", "stalled", &["run", "--drain"]);
    place.repo.aynig_ok(["run", "--drain"]);
    assert_closed(&place.repo, "task", &intruder);
}

#[test]
fn nor_after_the_runner_was_killed() {
    let place = place("say ready $$; await release");
    place.repo.killed_over_its_command(&["run", "--lease-seconds", "1"]);
    let intruder = place.intrude(1000);
    place.repo.run_until("task", "stalled", &["run", "--drain"]);
    place.repo.aynig_ok(["run", "--drain"]);
    assert_closed(&place.repo, "task", &intruder);
}

/// CONTRACT 13.8
#[test]
fn a_forged_lease_below_commits_is_not_closed_either() {
    let place = place("exit 0");
    let repo = &place.repo;
    repo.aynig_ok(["run", "--lease-seconds", "1"]);
    let run = repo.trailer("task", "dwp-run-id");
    repo.git(["update-ref", "refs/heads/task", "main"]);
    repo.foreign_lease("task", &run, "test-host", 1, 1000);
    let intruder = place.intrude(1000);
    let output = repo.aynig_ok(["run", "--drain", "--log-level", "info"]);
    assert_eq!(repo.head("task"), intruder);
    assert!(err(&output).contains("its lease is over and is not closed"), "{}", told(&output));
}

/// CONTRACT 6.4, 13.8
#[test]
fn a_failure_does_not_take_them() {
    let place = place("say ready $$; await release; exit 1");
    let runner = place.repo.aynig_start(["run", "--drain"]);
    place.repo.said("ready");
    let intruder = place.intrude(0);
    place.repo.release("release");
    runner.finish();
    assert_closed(&place.repo, "task", &intruder);
}

/// CONTRACT 10.3, 13.8
#[test]
fn a_renewal_does_not_take_them() {
    let place = place("say ready $$; await release");
    let repo = &place.repo;
    let runner = repo.aynig_start(["run", "--lease-seconds", "2"]);
    let command = repo.said_pid("ready");
    let intruder = place.intrude(0);
    wait_until("a renewal on top", || repo.state("task") == "working");
    assert_eq!(repo.git(["rev-parse", "task^{tree}"]), repo.git(["rev-parse", "main^{tree}"]));
    runner.signal(Signal::SIGKILL);
    runner.finish();
    command.gone();
    repo.deserted();
    repo.run_until("task", "stalled", &["run", "--drain"]);
    repo.aynig_ok(["run", "--drain"]);
    assert!(!repo.beside("evil").exists(), "the foreign command was run");
    repo.git(["merge-base", "--is-ancestor", &intruder, "task"]);
}

/// CONTRACT 13.8
#[test]
fn with_a_remote_neither_a_failure_nor_a_success_takes_them() {
    for (end, renewed) in [("next done", false), ("exit 1", false), ("next done", true), ("exit 0", false)] {
        let place = place(&format!("say ready $$; await release; {end}"));
        let (work, hub) = (&place.repo, "../hub.git");
        work.git(["clone", "--quiet", "--bare", ".", hub]);
        let hub = Repo { room: tempfile::tempdir().expect("a directory"), path: work.beside("hub.git") };
        work.git(["remote", "add", "origin", hub.path.to_str().expect("text")]);
        let lease = if renewed { "2" } else { "60" };
        let run = ["run", "--drain", "--remote", "origin", "--lease-seconds", lease];
        let runner = work.aynig_start(run);
        work.said("ready");
        let intrude = || {
            let head = hub.head("task");
            work.git(["fetch", "--quiet", "origin", "task"]);
            let commit = place.intruder(&head, 0);
            // A renewal may move the branch during the push, so the push is repeated.
            let update = format!("+{commit}:refs/heads/task");
            wait_until("the push", || {
                let push = work.git_command().args(["push", "--quiet", "origin", &update]).output();
                push.expect("git runs").status.success()
            });
            commit
        };
        let intruder = intrude();
        if renewed {
            wait_until("a renewal on top", || {
                hub.state("task") == "working" && hub.head("task^") == intruder
            });
        }
        work.release("release");
        let output = runner.finish();
        assert!(!work.beside("evil").exists(), "{end}: the foreign command was run");
        assert_eq!(hub.state("task"), "stalled", "{end}: {}", told(&output));
        let tree = |revision: &str| hub.git(["rev-parse", &format!("{revision}^{{tree}}")]);
        assert_eq!(tree("task"), tree("main"), "{end}");
        hub.git(["merge-base", "--is-ancestor", &intruder, "task"]);
    }
}

/// CONTRACT 13.8
#[test]
fn what_a_trusted_person_signed_stays() {
    let place = place("say ready $$; await release; exit 1");
    let repo = &place.repo;
    let runner = repo.aynig_start(["run"]);
    repo.said("ready");
    let sign = format!("-S{}", place.known.private.display());
    let commit = repo.git(["commit-tree", &sign, "-p", "task", "-m", "by a colleague", &place.evil]);
    repo.git(["update-ref", "refs/heads/task", &commit]);
    repo.release("release");
    runner.finish();
    assert_eq!(repo.state("task"), "stalled");
    assert_eq!(repo.git(["rev-parse", "task^{tree}"]), place.evil);
}

/// CONTRACT 13.8
#[test]
fn a_commands_own_commits_need_no_signature() {
    let place = place("echo own >own; git add own; git -c commit.gpgSign=false commit -q -m own; exit 1");
    place.repo.aynig(["run"]);
    assert_eq!(place.repo.state("task"), "stalled");
    assert_eq!(place.repo.show("task:own"), "own");
}

/// CONTRACT 13.8
#[test]
fn a_push_that_git_puts_into_the_worktree_is_not_signed_either() {
    let place = place("say ready $$; await release; echo r >out; git add out; next done");
    let repo = &place.repo;
    repo.git(["config", "receive.denyCurrentBranch", "updateInstead"]);
    let runner = repo.aynig_start(["run", "--drain"]);
    repo.said("ready");
    let intruder = place.intruder(&repo.head("task"), 0);
    repo.git(["push", "--quiet", ".", &format!("{intruder}:refs/heads/task")]);
    assert!(repo.path.join(".worktrees/task/build.sh").exists(), "git has updated the worktree");
    repo.release("release");
    runner.finish();
    assert_closed(repo, "task", &intruder);
}
