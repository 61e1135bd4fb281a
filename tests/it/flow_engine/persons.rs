//! Commands of a person that change git's settings while a step is live.

use super::agent::with_agent;
use super::beside::{begun, go, waiting};
use super::*;

const ONE: &str = "  - id: work
    opcode: RUN_AGENT
    agent: scripted
    prompt: do it
    routes: {completed: STOP, error: STOP, killed_policy: STOP}
";

/// A repository with the remote `origin`, whose main branch tracks that of the remote, with a directory `src`.
fn tracking() -> Repo {
    let repo = with_agent("");
    repo.write("src/a", "a");
    repo.write("other/b", "b");
    repo.commit_all("two directories");
    let hub = repo.beside("hub.git");
    let hub = hub.to_str().expect("UTF-8");
    repo.git(["clone", "-q", "--bare", ".", hub]);
    repo.git(["remote", "add", "origin", hub]);
    repo.git(["push", "-q", "-u", "origin", "main"]);
    repo
}

/// Carries a step out, during which a person types this.
fn beside_a_step(repo: &Repo, typed: &str) -> Started {
    waiting(repo, "scripted", "true");
    let run = start(repo, &flow("work", ONE));
    let runner = repo.aynig_start(["run", "--drain"]);
    begun(repo, "scripted");
    let mut shell = std::process::Command::new("sh");
    let shell = hermetic(&mut shell).args(["-ec", typed]).current_dir(&repo.path).output().expect("a shell");
    assert!(shell.status.success(), "{typed}: {}", told(&shell));
    go(repo, "scripted");
    runner.finish();
    run
}

/// CONTRACT 20.33
#[test]
fn a_remote_is_put_back_with_the_settings_of_its_branches() {
    for (typed, advice) in [
        ("git remote rename origin upstream", "git fetch origin"),
        ("git remote remove origin", "git fetch origin"),
        ("git remote add up ../hub.git; git push -q -u up main:other", "refs/remotes/up/"),
    ] {
        let repo = tracking();
        place_worktrees(&repo);
        waiting(&repo, "scripted", "true");
        let before = repo.git(["config", "--local", "--list"]);
        let run = beside_a_step(&repo, typed);
        assert_eq!(steps(&repo, &run), ["work killed_policy STOP"], "{typed}");
        let sorted = |text: &str| {
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        assert_eq!(sorted(&repo.git(["config", "--local", "--list"])), sorted(&before), "{typed}");
        let log = out(&repo.aynig_ok(["flow", "log", &run.slug]));
        assert!(log.contains(advice), "{typed}: {log}");
        let events = out(&repo.aynig_ok(["orch", "events", &run.id, "--json"]));
        assert!(events.contains("the setting branch.main.remote was"), "{typed}: {events}");
        repo.git(["fetch", "-q", "origin"]);
        repo.git(["pull", "-q"]);
        repo.git(["push", "-q"]);
    }
}

/// CONTRACT 20.33
#[test]
fn a_checkout_becomes_sparse_beside_a_step() {
    let repo = tracking();
    let run = beside_a_step(&repo, "git sparse-checkout set src");
    assert_eq!(steps(&repo, &run), ["work completed STOP"]);
    assert_eq!(repo.git(["config", "extensions.worktreeConfig"]).trim(), "true");
    assert!(!repo.path.join("other").exists());
    repo.git(["sparse-checkout", "disable"]);
    assert!(repo.path.join("other/b").exists());
}

/// CONTRACT 20.33
#[test]
fn settings_of_each_worktree_are_not_turned_on_where_git_would_stop_working() {
    let repo = tracking();
    repo.git(["config", "core.bare", "true"]);
    let run = beside_a_step(&repo, "git config extensions.worktreeConfig true");
    assert_eq!(steps(&repo, &run), ["work killed_policy STOP"]);
    assert!(!git_output(&repo, &["config", "extensions.worktreeConfig"]).status.success());
}

/// CONTRACT 20.33
#[test]
fn settings_of_other_branches_stay_when_a_remote_is_put_back() {
    let repo = tracking();
    let run = beside_a_step(
        &repo,
        "git config branch.topic.description words; git config branch.topic.remote .; git remote add up ../hub.git",
    );
    assert_eq!(steps(&repo, &run), ["work killed_policy STOP"]);
    assert!(!git_output(&repo, &["config", "remote.up.url"]).status.success());
    assert_eq!(repo.git(["config", "branch.topic.description"]).trim(), "words");
    assert_eq!(repo.git(["config", "branch.topic.remote"]).trim(), ".");
}
