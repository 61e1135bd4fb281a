//! `aynig publish` of runs that did not succeed.

use super::agent::agent;
use super::*;
use crate::publish::hub_and_clone;

/// A step that may change `docs` only, and a gate behind a violation.
const STEPS: &str = concat!(
    "  - id: implement
    opcode: RUN_AGENT
    agent: scripted
    prompt: do it
    policy: docs
    routes: {completed: STOP, error: STOP, killed_policy: ask}
",
    gate_step!("undo"),
    undo_step!("again"),
    "  - id: again
    opcode: GATE
    gate: again
    routes: {gate_approved: implement, gate_rejected: STOP}
",
);

fn text() -> String {
    flow("implement", STEPS).replace("steps:", "policies:\n  docs: {allowed_paths: [\"docs/**\"]}\nsteps:")
}

fn published(hub: &Repo, run: &Started) -> String {
    hub.git(["for-each-ref", "--format=%(objectname)", &format!("refs/heads/{}", run.work)])
}

/// Asserts that publishing is refused in these words, and that `--unsuccessful` publishes all the same.
fn assert_needs_an_option(hub: &Repo, repo: &Repo, run: &Started, words: &[&str]) {
    assert_refused(&repo.aynig(["publish", &run.slug]), 1, &[words, &["--unsuccessful"]].concat());
    assert_eq!(published(hub, run), "");
    let forced = repo.aynig_ok(["publish", &run.slug, "--unsuccessful"]);
    assert!(err(&forced).contains("warning: ") && err(&forced).contains(words[0]), "{}", told(&forced));
    assert_eq!(published(hub, run), repo.head(&run.work));
}

/// CONTRACT 21.13
#[test]
fn a_run_that_ended_without_success_is_published_only_on_request() {
    for (script, verdict) in
        [("read -r x; echo half >half; exit 3", "failed"), ("read -r x; echo x >work", "stopped")]
    {
        let (hub, repo) = hub_and_clone();
        agent(&repo, "scripted", script);
        let run = start(
            &repo,
            &flow("implement", STEPS)
                .replace("    policy: docs\n", "")
                .replace("completed: STOP, error", "completed: ask, error"),
        );
        repo.aynig_ok(["run", "--drain"]);
        if verdict == "stopped" {
            repo.aynig_ok(["flow", "stop", &run.slug]);
        }
        assert_eq!(end(&repo, &run)[1], verdict);
        let words = [&*format!("has not succeeded ({verdict})"), &format!("aynig flow log {}", run.slug)];
        assert_needs_an_option(&hub, &repo, &run, &words);
    }
}

/// CONTRACT 21.13
#[test]
fn work_that_broke_its_policy_is_published_only_on_request() {
    let (hub, repo) = hub_and_clone();
    agent(&repo, "scripted", "read -r x; echo x >outside");
    let run = start(&repo, &text());
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&repo, &run), ["implement killed_policy ask", "ask"]);
    assert_needs_an_option(&hub, &repo, &run, &["step 1 (implement)", "killed_policy", "aynig flow log"]);
}

/// CONTRACT 21.13
#[test]
fn commits_of_a_live_step_are_published_only_on_request() {
    let (hub, repo) = hub_and_clone();
    let (began, go) = (repo.beside("began"), repo.beside("go"));
    let script = format!(
        "read -r x; echo x >outside; git add -A; git commit -qm x; echo x >'{}'; until [ -e '{}' ]; do sleep 0.05; done",
        began.display(),
        go.display()
    );
    agent(&repo, "scripted", &script);
    let run = start(&repo, &text());
    let runner = repo.aynig_start(["run"]);
    wait_for_file(&began);
    assert_needs_an_option(&hub, &repo, &run, &["is under way and has made commits", "aynig status"]);
    std::fs::write(go, "").expect("a file");
    runner.finish();
    assert_eq!(steps(&repo, &run), ["implement killed_policy ask"]);
}

/// CONTRACT 21.13
#[test]
fn a_rollback_or_a_success_after_a_violation_lets_the_work_be_published() {
    for rolls_back in [true, false] {
        let (hub, repo) = hub_and_clone();
        agent(
            &repo,
            "scripted",
            "read -r x; mkdir -p docs; echo x >docs/x; [ -e docs/y ] || echo x >outside",
        );
        let run = start(&repo, &text());
        repo.aynig_ok(["run", "--drain"]);
        if rolls_back {
            repo.aynig_ok(["flow", "reject", &run.slug]);
            repo.aynig_ok(["run", "--drain"]);
            std::fs::create_dir(run.worktree.join("docs")).expect("a directory");
            std::fs::write(run.worktree.join("docs/y"), "a person's").expect("a file");
            repo.aynig_ok(["workspace", "snapshot", &run.slug]);
            // The gate asked about another tree.
            assert_eq!(repo.aynig(["flow", "approve", &run.slug]).status.code(), Some(1));
            repo.aynig_ok(["flow", "approve", &run.slug]);
            repo.aynig_ok(["run", "--drain"]);
        } else {
            repo.aynig_ok(["flow", "approve", &run.slug]);
            repo.aynig_ok(["run", "--drain"]);
            assert_eq!(end(&repo, &run)[1], "succeeded");
        }
        repo.aynig_ok(["publish", &run.slug]);
        assert_eq!(published(&hub, &run), repo.head(&run.work));
    }
}

/// CONTRACT 21.2, 21.3
#[test]
fn a_branch_in_the_way_and_a_base_that_is_not_there_are_named_with_a_way_out() {
    let (hub, repo) = hub_and_clone();
    agent(&repo, "scripted", "read -r x; echo x >work");
    let run = start(&repo, &flow("one", agent_step!("one", "one", "STOP")));
    repo.aynig_ok(["run", "--drain"]);
    hub.git(["branch", "work"]);
    assert_refused(&repo.aynig(["publish", &run.slug]), 4, &["in the way", "`--branch NAME`"]);
    repo.aynig_ok(["publish", &run.slug, "--branch", "mine"]);
    repo.git(["branch", "feature"]);
    let file = repo.path.join(".git/flow.yaml");
    let start = ["flow", "start", file.to_str().expect("UTF-8"), "--base", "feature", "--json"];
    let other = started(&json(&repo.aynig_ok(start)));
    repo.aynig_ok(["run", "--drain"]);
    let refused = repo.aynig(["publish", &other.slug, "--branch", "other"]);
    assert_refused(&refused, 2, &["no branch feature", "--into BRANCH"]);
    sh(&repo, &line_with(&err(&refused), "git push "));
    repo.aynig_ok(["publish", &other.slug, "--branch", "other"]);
}
