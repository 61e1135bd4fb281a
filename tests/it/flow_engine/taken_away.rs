//! A person who takes the worktree away from a step that works in it.

use super::agent::with_agent;
use super::lease::kill_in_step;
use super::*;

/// An agent that works until it is told to end.
const WAITS: &str = "cat >/dev/null; echo mine >mine; common=$(git rev-parse --git-common-dir)
echo \"$$ $PPID\" >\"$common/up.new\"; mv \"$common/up.new\" \"$common/up\"
until test -e \"$common/go\"; do sleep 0.05; done";

const ONE: &str = agent_step!("one", "go", "STOP");

fn go(repo: &Repo) {
    std::fs::write(repo.path.join(".git/go"), "").expect("a file");
}

/// CONTRACT 15.7, 15.9
#[test]
fn a_workspace_is_neither_rolled_back_nor_removed_while_a_step_works_in_it() {
    let repo = with_agent(WAITS);
    let run = start(&repo, &flow("one", ONE));
    let runner = repo.aynig_start(["run"]);
    wait_for_file(&repo.path.join(".git/up"));
    let slug = &run.slug;
    for (verb, instead) in [
        (vec!["rollback", slug], format!("aynig flow rollback {slug}`")),
        (vec!["rollback", "--undo", slug], format!("aynig flow rollback {slug} --undo`")),
        (vec!["remove", "--apply", slug], format!("aynig flow stop {slug}`")),
    ] {
        let refused = repo.aynig([vec!["workspace"], verb.clone()].concat());
        assert_eq!(refused.status.code(), Some(1), "{verb:?}: {}", told(&refused));
        assert!(err(&refused).contains("a step works in"), "{verb:?}: {}", told(&refused));
        assert!(err(&refused).contains(&instead), "{verb:?}: {}", told(&refused));
        assert!(run.worktree.join("mine").exists(), "{verb:?}");
    }
    go(&repo);
    let ended = runner.finish();
    assert_eq!(end(&repo, &run), ["completed", "succeeded", "completed"], "{}", told(&ended));
    repo.aynig_ok(["workspace", "rollback", slug]);
    assert!(!run.worktree.join("mine").exists());
}

/// CONTRACT 15.7
#[test]
fn a_workspace_is_rolled_back_after_its_step_was_killed() {
    let repo = with_agent(WAITS);
    let run = start(&repo, &flow("one", ONE));
    kill_in_step(&repo);
    let resumed = err(&repo.aynig_ok(["flow", "resume", &run.slug]));
    assert!(resumed.contains("its runner on this host is gone; the lease ends at "), "{resumed}");
    let listed = out(&repo.aynig_ok(["flow", "list"]));
    assert!(listed.contains("its runner on this host is gone; the lease ends at "), "{listed}");
    // Nobody knows that a person did this.
    repo.git(["config", "filter.mine.clean", "cat"]);
    let found = out(&repo.aynig(["doctor"]));
    let undo = "`git config --unset-all filter.mine.clean` undoes it, or `aynig workspace snapshot --accept ";
    assert!(found.contains("was changed since a step here was cut off") && found.contains(undo), "{found}");
    repo.git(["config", "--unset-all", "filter.mine.clean"]);
    // The watchdog ends what the runner leaves.
    wait_until("the step to be gone", || repo.aynig(["workspace", "rollback", &run.slug]).status.success());
    assert!(!run.worktree.join("mine").exists());
}

/// CONTRACT 20.4
#[test]
fn the_error_of_a_step_names_that_its_worktree_was_put_back() {
    let repo = with_agent(WAITS);
    let run = start(&repo, &flow("one", ONE));
    let runner = repo.aynig_start(["run"]);
    wait_for_file(&repo.path.join(".git/up"));
    // Nothing shows that the step is live.
    let live = run.directory.join("workspaces/flow/workspace-live.json");
    let away = live.with_extension("away");
    std::fs::rename(&live, &away).expect("it is there");
    repo.aynig_ok(["workspace", "rollback", &run.slug]);
    std::fs::rename(&away, &live).expect("it is back");
    go(&repo);
    runner.finish();
    let log = out(&repo.aynig_ok(["flow", "log", &run.slug]));
    assert!(log.contains("could not be committed: another command put its worktree back meanwhile"), "{log}");
}
