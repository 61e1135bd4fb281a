//! Another person's commit reaches a leased branch (CONTRACT 5.10, 6.12). No result undoes it, the command's
//! work is saved, and the stalled commit names that person's commit. Commits that the command itself puts on
//! its branch, by whatever means, count as its own.

use super::scene::*;
use super::support::*;

/// Stages `out` after a release, and declares `done`.
const WORK: &str = "say ready $$; await release; echo r >out; git add out; next done";

fn repo(script: &str) -> Repo {
    let repo = Repo::scene(&[("work", script), ("noop", "next done")]);
    repo.ready("task", "work");
    repo
}

/// A commit by Jane Doe on top of `base` that adds the file `hers`. No ref points at it.
fn hers(repo: &Repo, base: &str) -> String {
    let blob = repo.git_with_input(&["hash-object", "-w", "--stdin"], b"hers\n");
    let tree = repo.git(["ls-tree", base]) + &format!("\n100644 blob {blob}\thers\n");
    let tree = repo.git_with_input(&["mktree"], tree.as_bytes());
    let mut git = repo.git_command();
    git.env("GIT_AUTHOR_NAME", "Jane Doe").args(["commit-tree", "-p", base, "-m", "by Jane", &tree]);
    let output = git.output().expect("git runs");
    assert!(output.status.success(), "{}", err(&output));
    out(&output).trim_end().to_owned()
}

/// Puts such a commit on the branch without a push, as a server's API or another tool does.
fn overtake(repo: &Repo) -> String {
    let commit = hers(repo, "task");
    repo.git(["update-ref", "refs/heads/task", &commit]);
    commit
}

/// Runs the branch to its end, and puts her commit on it while the command works.
fn overtaken(repo: &Repo, arguments: &[&str]) -> (String, std::process::Output) {
    let runner = repo.aynig_start(arguments.iter().copied());
    repo.said("ready");
    let commit = overtake(repo);
    repo.release("release");
    (commit, runner.finish())
}

/// Asserts that the branch is stalled on top of her commit, keeps her file, and has nothing of the command's
/// work.
#[track_caller]
fn assert_kept(repo: &Repo, hers: &str, output: &std::process::Output) {
    assert_eq!(output.status.code(), Some(1), "{}", told(output));
    assert_eq!(repo.state("task"), "stalled", "{}", told(output));
    repo.git(["merge-base", "--is-ancestor", hers, "task"]);
    assert_eq!(repo.paths_in("task"), repo.paths_in(hers), "{}", told(output));
    let words = format!("somebody pushed {} (Jane Doe) onto the branch meanwhile", &hers[..10]);
    let message = repo.message("task");
    for text in [&message, &out(output)] {
        assert!(text.contains(&words), "{words}\n{message}\n{}", told(output));
        assert!(!text.contains("does not descend"), "{}", told(output));
    }
}

/// Asserts that the one rescue has the command's file and removes none of hers.
#[track_caller]
fn assert_saved(repo: &Repo) {
    let rescue = repo.rescue();
    assert_eq!(repo.show(&format!("{rescue}:out")), "r");
    let changed = repo.git(["diff", "--name-only", &format!("{rescue}^"), &rescue]);
    assert_eq!(changed, "out", "what was saved is the command's work alone");
}

/// CONTRACT 6.12
#[test]
fn a_result_does_not_undo_it() {
    let repo = repo(WORK);
    let (hers, output) = overtaken(&repo, &["run"]);
    assert_kept(&repo, &hers, &output);
    assert_saved(&repo);
    assert!(repo.message("task").contains("`work` exited with 0, and its result was not landed"));
    repo.assert_tidy();
}

/// CONTRACT 5.10, 6.12
#[test]
fn nor_does_one_after_a_renewal() {
    let repo = repo(WORK);
    let runner = repo.aynig_start(["run", "--lease-seconds", "2"]);
    repo.said("ready");
    let hers = overtake(&repo);
    wait_until("a renewal on top", || repo.state("task") == "working");
    repo.release("release");
    let output = runner.finish();
    assert_kept(&repo, &hers, &output);
    assert_saved(&repo);
}

#[test]
fn nor_does_a_commit_of_the_commands_on_top() {
    // The index lacks her file, so the command's commit deletes it. The stalled commit reports that.
    let repo = repo("say ready $$; await release; echo r >out; git add out; git commit -q -m own; next done");
    let (hers, output) = overtaken(&repo, &["run"]);
    assert_eq!(repo.state("task"), "stalled", "{}", told(&output));
    assert!(repo.message("task").contains(&format!("somebody pushed {} (Jane Doe)", &hers[..10])));
}

/// CONTRACT 6.12
#[test]
fn a_failure_tells_of_it_too() {
    let repo = repo("say ready $$; await release; echo r >out; git add out; exit 3");
    let (hers, output) = overtaken(&repo, &["run"]);
    assert_kept(&repo, &hers, &output);
    assert_saved(&repo);
    assert!(
        repo.message("task").contains("`work` exited with 3; somebody pushed"),
        "{}",
        repo.message("task")
    );
}

/// CONTRACT 6.12
#[test]
fn without_a_declaration_the_lease_is_not_kept_over_it() {
    let repo = repo("say ready $$; await release; echo r >out; git add out");
    let (hers, output) = overtaken(&repo, &["run"]);
    assert_kept(&repo, &hers, &output);
    assert_saved(&repo);
}

/// CONTRACT 6.12
#[test]
fn a_command_cannot_set_a_state_over_it_either() {
    let repo = repo(
        "say ready $$; await release; echo r >out; git add out
        \"$AYNIG_BIN\" set-state --state done 2>\"$ROOM/refused\"; say code $?; exit 1",
    );
    let (hers, output) = overtaken(&repo, &["run"]);
    assert_kept(&repo, &hers, &output);
    assert_eq!(repo.said("code"), "1");
    let words = format!("somebody pushed {} (Jane Doe) onto task meanwhile", &hers[..10]);
    assert!(repo.said("refused").contains(&words), "{}", repo.said("refused"));
}

/// CONTRACT 6.12
#[test]
fn in_place_a_result_does_not_undo_it() {
    let repo = repo(WORK);
    repo.git(["checkout", "-q", "task"]);
    repo.git(["worktree", "add", "-q", "--detach", "../other"]);
    let runner = repo.aynig_start(["run", "--current-branch", "only"]);
    repo.said("ready");
    let hers = hers(&repo, "task");
    repo.git(["-C", "../other", "update-ref", "refs/heads/task", &hers]);
    repo.release("release");
    let output = runner.finish();
    assert_kept(&repo, &hers, &output);
    assert_saved(&repo);
}

/// CONTRACT 5.10, 5.11
#[test]
fn a_recovery_keeps_it_and_saves_the_work_beside_it() {
    let repo = repo("echo r >out; git add out; say ready $$; await release");
    repo.killed_over_its_command(&["run", "--lease-seconds", "1"]);
    let hers = overtake(&repo);
    repo.run_until("task", "stalled", &["run"]);
    assert_eq!(repo.paths_in("task"), repo.paths_in(&hers));
    assert_saved(&repo);
    repo.assert_tidy();
}

/// CONTRACT 6.12
#[test]
fn with_a_remote_a_push_is_not_blamed_on_the_command() {
    for renewed in [false, true] {
        let hub = Repo::scene(&[("work", WORK)]).into_bare();
        hub.ready("task", "work");
        let clone = hub.clone_beside("clone");
        let lease = if renewed { "2" } else { "60" };
        let runner = clone.aynig_start(["run", "--remote", "origin", "--lease-seconds", lease]);
        hub.said("ready");
        let hers = overtake(&hub);
        if renewed {
            wait_until("a renewal on top", || hub.state("task") == "working" && hub.head("task^") == hers);
        }
        hub.release("release");
        let output = runner.finish();
        assert_kept(&hub, &hers, &output);
        assert_saved(&clone);
    }
}

/// CONTRACT 6.12
#[test]
fn what_the_command_itself_puts_onto_its_branch_is_its_own() {
    let work = "echo r >out; git add out; ";
    for (what, script) in [
        ("a commit", "git commit -q -m own"),
        ("two", "git commit -q -m own; git commit -q --allow-empty -m more"),
        ("an amended commit", "git commit -q -m own; git commit -q --amend -m other"),
        (
            "one that was left and taken again",
            "git commit -q -m own; git reset -q --hard HEAD^; git reset -q --hard HEAD@{1}",
        ),
        (
            "a ref moved by hand",
            "git update-ref refs/heads/task $(git commit-tree -p HEAD -m own $(git write-tree))",
        ),
        (
            "one made detached",
            "git checkout -q --detach; git commit -q -m own; git branch -q -f task HEAD; git checkout -q task",
        ),
        ("one on a renewal by hand", "\"$AYNIG_BIN\" set-working >&2; git commit -q --allow-empty -m own"),
        ("a renewal by hand", "git commit -q -m own; \"$AYNIG_BIN\" set-working >&2"),
        ("a merge", "git commit -q -m own; git merge -q --no-edit side"),
        ("a fast-forward", "git stash -q; git merge -q --ff-only ahead; git stash pop -q --index"),
        (
            "a rebase",
            "git commit -q -m own; git checkout -q -b x HEAD^; git commit -q --allow-empty -m y; git rebase -q task; git branch -q -f task; git checkout -q task",
        ),
        // As by a program that writes no reflogs.
        (
            "a commit without a log",
            "c=$(git commit-tree -p HEAD -m own $(git write-tree)); GIT_DIR=$AYNIG_GIT_DIR git update-ref refs/heads/task $c",
        ),
        ("a log that was thrown away", "git commit -q -m own; git reflog expire --expire=now --all"),
        ("no logs", "git config core.logAllRefUpdates false; git commit -q -m own"),
    ] {
        let repo = repo(&format!("set -e; say ready $$; await release; {work}{script}; next done"));
        let runner = repo.aynig_start(["run"]);
        repo.said("ready");
        repo.git(["branch", "ahead", &hers(&repo, "task")]);
        let side = repo.git(["commit-tree", "-p", "main", "-m", "side", "main^{tree}"]);
        repo.git(["branch", "side", &side]);
        repo.release("release");
        let output = runner.finish();
        assert_eq!(repo.state("task"), "done", "{what}: {}", told(&output));
        assert_eq!(repo.show("task:out"), "r", "{what}");
    }
}

/// CONTRACT 6.12
#[test]
fn a_push_by_the_command_itself_is_its_own() {
    for script in [
        "git commit -q -m own; git push -q origin HEAD:task",
        "git commit -q -m own; git push -q origin HEAD:task; git commit -q --allow-empty -m more",
        "git push -q origin $(git commit-tree -p HEAD -m own HEAD^{tree}):refs/heads/side; git pull -q --no-rebase origin side",
    ] {
        let hub = Repo::scene(&[("work", &format!("set -e; echo r >out; git add out; {script}; next done"))]);
        let hub = hub.into_bare();
        hub.ready("task", "work");
        let clone = hub.clone_beside("clone");
        let output = clone.aynig(["run", "--remote", "origin"]);
        assert_eq!(hub.state("task"), "done", "{script}: {}", told(&output));
        assert_eq!(hub.show("task:out"), "r", "{script}");
    }
}
