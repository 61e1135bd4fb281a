//! Deferred states that cannot be delivered (`clean`, `doctor`), and those that wait (`log`).

use super::deferred::{later, slots};
use super::scene::*;
use super::support::*;

/// A repository with a slot without a branch, one whose branch was made anew, and one that waits.
fn stranded() -> Repo {
    let repo = Repo::scene(&[("slow", "next rests"), ("work", "next done")]);
    for branch in ["gone", "anew", "waits"] {
        repo.ready(branch, "slow");
        repo.aynig_ok(later(branch, &[]));
    }
    repo.git(["branch", "-D", "gone"]);
    repo.git(["branch", "-f", "anew", "main"]);
    repo
}

/// The items of the kind `deferred`: name and fate.
fn items(output: &std::process::Output) -> Vec<(String, String)> {
    let report = json(output);
    let items = report["items"].as_array().expect("a list").iter().filter(|item| item["kind"] == "deferred");
    let text = |value: &serde_json::Value| value.as_str().expect("text").to_owned();
    items.map(|item| (text(&item["name"]), text(&item["fate"]))).collect()
}

fn with_fate(fate: &str) -> Vec<(String, String)> {
    ["refs/aynig/deferred/anew", "refs/aynig/deferred/gone"]
        .map(|name| (name.to_owned(), fate.to_owned()))
        .into()
}

/// CONTRACT 5.34
#[test]
fn what_cannot_be_delivered_is_removed_only_when_that_is_asked_for() {
    let repo = stranded();
    assert_eq!(items(&repo.aynig_ok(["clean", "--json"])), with_fate("stays"));
    assert_eq!(items(&repo.aynig_ok(["clean", "--apply", "--json"])), with_fate("stays"));
    let shown = out(&repo.aynig_ok(["clean"]));
    assert!(
        shown.contains("there is no branch gone") && shown.contains("clean --deferred --apply"),
        "{shown}"
    );
    assert!(shown.contains("was made anew") && shown.contains("left by "), "{shown}");
    let check = out(&repo.aynig(["doctor"]));
    assert!(check.contains("2 deferred states cannot be delivered: refs/aynig/deferred/anew"), "{check}");
    assert_eq!(items(&repo.aynig_ok(["clean", "--deferred", "--json"])), with_fate("would go"));
    assert_eq!(slots(&repo).len(), 3);
    let slot = repo.head("refs/aynig/deferred/gone");
    let removed = repo.aynig_ok(["clean", "--deferred", "--apply"]);
    assert!(out(&removed).contains(&slot), "{}", told(&removed));
    assert_eq!(slots(&repo), ["refs/aynig/deferred/waits"]);
    assert!(!out(&repo.aynig(["doctor"])).contains("deferred state"));
    repo.assert_tidy();
}

/// CONTRACT 5.34
#[test]
fn a_slot_on_a_remote_comes_with_the_push_that_removes_it() {
    let hub = Repo::scene(&[("slow", "next rests"), ("work", "next done")]).into_bare();
    hub.ready("gone", "slow");
    let clone = hub.clone_beside("clone");
    clone.aynig_ok(later("gone", &["--remote", "origin"]));
    hub.git(["branch", "-D", "gone"]);
    clone.aynig_ok(["run", "--remote", "origin"]);
    let report = json(&clone.aynig_ok(["clean", "--deferred", "--apply", "--json"]));
    let item = &report["items"][0];
    assert_eq!(
        (item["name"].as_str(), item["fate"].as_str()),
        (Some("refs/aynig/slots/origin/gone"), Some("stays"))
    );
    let next = item["next"].as_str().expect("a next step").to_owned();
    let push = next.split('`').nth(3).expect("the second command").to_owned();
    let pushed =
        hermetic(std::process::Command::new("sh").args(["-c", &push]).current_dir(&clone.path)).output();
    assert!(pushed.expect("sh runs").status.success(), "{push}");
    assert_eq!(slots(&hub), Vec::<String>::new());
    clone.aynig_ok(["run", "--remote", "origin"]);
    assert_eq!(items(&clone.aynig_ok(["clean", "--json"])), vec![]);
}

/// CONTRACT 5.32, 5.34
#[test]
fn a_log_shows_what_waits_and_who_left_what_was_delivered() {
    let repo = Repo::scene(&[("slow", "next rests"), ("work", "next done")]);
    repo.ready("task", "slow");
    let mut sender = repo.aynig_command();
    sender.args(later("task", &["--subject", "do it"])).env("GIT_AUTHOR_NAME", "Ann Other");
    sender.env("GIT_COMMITTER_NAME", "Ann Other");
    assert!(sender.output().expect("it runs").status.success());
    let slot = repo.head("refs/aynig/deferred/task");
    let author = repo.git(["log", "-1", "--format=%an", &slot]);
    let text = out(&repo.aynig_ok(["log", "task"]));
    let first = text.lines().next().expect("a line");
    assert!(first.starts_with(&slot[..10]) && first.contains("(work)"), "{text}");
    assert!(first.contains(&format!("left by {author}, is set when it rests")), "{text}");
    let last = out(&repo.aynig_ok(["log", "--reverse", "task"]));
    assert_eq!(last.lines().next_back(), Some(first), "{last}");
    let log = json(&repo.aynig_ok(["log", "--json", "task"]));
    let entries = &log["entries"];
    let waiting = &entries[0];
    assert_eq!(
        (waiting["kind"].as_str(), waiting["commit"].as_str()),
        (Some("deferred"), Some(slot.as_str()))
    );
    assert_eq!(
        (waiting["state"].as_str(), waiting["sender"].as_str()),
        (Some("work"), Some(author.as_str()))
    );
    repo.aynig_ok(["run", "--drain"]);
    let text = out(&repo.aynig_ok(["log", "task"]));
    assert!(text.contains(&format!("deferred by {author}: do it")), "{text}");
    let log = json(&repo.aynig_ok(["log", "--json", "task"]));
    let entries = &log["entries"];
    let delivered: Vec<_> = entries
        .as_array()
        .expect("a list")
        .iter()
        .filter(|entry| entry["delivers"].as_str() == Some(slot.as_str()))
        .collect();
    assert_eq!(delivered.len(), 1, "{entries}");
    assert_eq!(
        (delivered[0]["kind"].as_str(), delivered[0]["author"].as_str()),
        (Some("state"), Some(author.as_str()))
    );
}
