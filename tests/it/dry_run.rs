//! `aynig run --dry-run`: shows what a pass would do, and does none of it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::deferred::later;
use super::scene::*;
use super::support::*;

/// Every file beside and in a repository, with its contents.
fn everything(repo: &Repo) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = files_below(repo.path.parent().expect("the room"));
    files.into_iter().map(|file| (file.clone(), std::fs::read(&file).unwrap_or_default())).collect()
}

/// The action on each branch.
fn plan(repo: &Repo, more: &[&str]) -> BTreeMap<String, String> {
    let output = repo.aynig_ok(["run", "--dry-run", "--json"].into_iter().chain(more.iter().copied()));
    let answer = json(&output);
    assert_eq!(answer["passes"], 0, "{}", told(&output));
    let text = |value: &serde_json::Value| value.as_str().expect("a text").to_owned();
    let plan = answer["plan"].as_array().expect("a list");
    plan.iter().map(|one| (text(&one["branch"]), text(&one["action"]))).collect()
}

/// CONTRACT 11.27
#[test]
fn a_plan_is_what_the_pass_then_does_and_changes_nothing() {
    let repo = Repo::scene(&[("work", r#"echo "$AYNIG_BRANCH" >>"$ROOM/ran"; next done"#)]);
    repo.git(["config", "aynig.notify", "touch ../notified"]);
    repo.ready("due", "work");
    repo.ready("rests", "done");
    repo.ready("expired", "work");
    repo.ready("held", "work");
    repo.branch_with_message("parked", b"s\n\ndwp-state: work\ndwp-not-before: 2999-01-01T00:00:00Z\n");
    repo.branch_with_message("odd", b"s\n\ndwp-state: ../x\n");
    repo.foreign_lease("held", "11111111-2222-4333-8444-555555555555", "other", 300, 0);
    repo.foreign_lease("expired", "21111111-2222-4333-8444-555555555555", "other", 10, 600);
    let before = everything(&repo);
    let output = repo.aynig_ok(["run", "--dry-run"]);
    let lines: Vec<String> = out(&output).lines().map(str::to_owned).collect();
    let line = |branch: &str| {
        let found = lines.iter().find(|line| line.split_whitespace().nth(1) == Some(branch));
        found.unwrap_or_else(|| panic!("{branch}: {}", told(&output)))
    };
    for (branch, action, words) in [
        ("due", "run", ".aynig/command/work"),
        ("expired", "close", "expired"),
        ("held", "-", "left"),
        ("main", "-", "checked out here"),
        ("odd", "-", "invalid"),
        ("parked", "-", "2999-01-01"),
        ("rests", "-", "rests"),
    ] {
        assert!(line(branch).starts_with(action) && line(branch).contains(words), "{}", told(&output));
    }
    let sum = err(&output);
    assert!(sum.contains("run 1 command, close 1 expired lease"), "{sum}");
    let found = plan(&repo, &[]);
    assert_eq!(found["due"], "run");
    assert_eq!(found["expired"], "close");
    assert_eq!(found["parked"], "nothing");
    assert_eq!(plan(&repo, &["d*", "main"]).keys().collect::<Vec<_>>(), ["due", "main"]);
    assert_eq!(everything(&repo), before, "nothing was written");
    repo.aynig(["run"]);
    assert_eq!(repo.said("ran"), "due");
    assert_eq!(repo.state("expired"), "stalled");
}

/// CONTRACT 5.33, 11.27
#[test]
fn a_deferred_state_that_is_due_is_delivered_by_the_plan() {
    let repo = Repo::scene(&[("work", "say at $$; await release; next done")]);
    repo.ready("task", "work");
    let runner = repo.aynig_start(["run"]);
    repo.said("at");
    repo.aynig_ok(later("task", &[]));
    assert_eq!(plan(&repo, &[])["task"], "nothing", "it is held");
    repo.release("release");
    runner.finish();
    assert_eq!(plan(&repo, &[])["task"], "deliver");
    // A checkout of the branch keeps the state from being delivered.
    repo.git(["checkout", "-q", "task"]);
    assert_eq!(plan(&repo, &[])["task"], "nothing");
    repo.git(["checkout", "-q", "main"]);
    repo.aynig_ok(["run"]);
    assert_eq!(repo.state("task"), "done");
    assert_eq!(plan(&repo, &[])["task"], "nothing");
}

/// CONTRACT 11.8, 11.27
#[test]
fn a_remote_is_fetched_from_and_nothing_else_is_written() {
    let hub = Repo::scene(&[("work", "next done")]);
    let clone = hub.clone_beside("clone");
    hub.ready("new", "work");
    let heads = hub.git(["for-each-ref"]);
    assert_eq!(plan(&clone, &["--remote", "origin"])["new"], "run");
    assert_eq!(hub.git(["for-each-ref"]), heads);
    clone.assert_tidy();
    clone.git(["remote", "set-url", "origin", "/nowhere"]);
    assert_refused(&clone.aynig(["run", "--dry-run", "--remote", "origin"]), 4, &["origin"]);
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let repo = Repo::new();
    for more in ["--watch", "--drain"] {
        assert_refused(&repo.aynig(["run", "--dry-run", more]), 2, &["--dry-run"]);
    }
    assert_refused(&repo.aynig(["run", "--dry-run", "mian"]), 1, &["mian", "main"]);
    assert!(err(&repo.aynig_ok(["run", "--dry-run"])).contains("nothing to do"));
    // The commands' ref is checked as by a pass.
    assert_refused(&repo.aynig(["run", "--dry-run", "--commands-from", "nowhere"]), 3, &["nowhere"]);
}
