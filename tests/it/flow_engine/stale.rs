//! A published branch that is not at the newest commit of its run: it never lands, and no host takes back the work of another.

use super::back::{APPENDS, TWO};
use super::gone::gated;
use super::hosts::Field;
use super::*;

/// An agent, a gate, and, if it is rejected, a rollback and the agent again.
const AGAIN: &str = concat!(agent_step!("one", "one", "ask"), gate_step!("undo"), undo_step!("one"));

/// Writes another version each time.
const VERSIONS: &str = "read -r what; echo \"$AYNIG_ORCH_TURN\" >work";

fn next(repo: &Repo, run: &Started) -> Vec<String> {
    let shown = json(&repo.aynig_ok(["flow", "show", &run.slug, "--json"]));
    let next = shown["next"].as_array().expect("a list").iter();
    next.map(|one| one.as_str().expect("a command").to_owned()).collect()
}

fn landed(repo: &Repo) -> String {
    repo.git(["fetch", "-q", "origin"]);
    repo.git(["show", "origin/main:work"])
}

/// The worktree of a run on a host.
fn worktree(host: &Repo, run: &Started) -> String {
    out(&host.aynig_ok(["workspace", "path", &run.slug])).trim().to_owned()
}

fn commit_by_hand(host: &Repo, run: &Started, words: &str) -> String {
    let worktree = worktree(host, run);
    std::fs::write(std::path::Path::new(&worktree).join("work"), words).expect("a file");
    host.git(["-C", &worktree, "commit", "-qam", "by hand"]);
    host.git(["-C", &worktree, "rev-parse", "HEAD"])
}

/// CONTRACT 21.14
#[test]
fn what_was_rejected_after_it_was_published_never_lands() {
    let field = Field::new(VERSIONS);
    let [first, second] = &field.hosts;
    let run = start(first, &flow("one", AGAIN));
    first.aynig_ok(["run", "--drain"]);
    first.aynig_ok(["publish", &run.slug]);
    let old = first.head(&run.work);
    second.aynig_ok(["flow", "reject", &run.slug, "--comment", "no"]);
    first.aynig_ok(["run", "--drain"]);
    let new = first.head(&run.work);
    let publish = format!("aynig publish {}", run.slug);
    let words = [&old[..10], &new[..10], &publish, "nothing was landed"];
    // At the gate, and at the end.
    assert_refused(&first.aynig(["land", &run.work]), 1, &words);
    first.aynig_ok(["flow", "approve", &run.slug]);
    first.aynig_ok(["run", "--drain"]);
    assert_eq!(end(first, &run)[1], "succeeded");
    for host in [first, second] {
        let next = next(host, &run);
        assert_eq!(next[0], publish);
        assert!(!next.iter().any(|one| one.starts_with("aynig land")), "{next:?}");
        assert_refused(&host.aynig(["land", &run.work]), 1, &words);
    }
    // Another clone publishes it, as the ledger has the rollback.
    let said = err(&second.aynig_ok(["publish", &run.slug]));
    assert!(said.contains(&old[..10]) && said.contains("rolled back"), "{said}");
    assert_eq!(field.at_hub(&format!("refs/heads/{}", run.work)), new);
    for host in [first, second] {
        assert_eq!(next(host, &run)[0], format!("aynig land {}", run.work));
    }
    first.aynig_ok(["land", &run.work]);
    assert_eq!(landed(first), first.git(["show", &format!("{new}:work")]));
}

/// CONTRACT 21.14
#[test]
fn a_branch_that_lacks_a_later_step_never_lands() {
    for squash in [None, Some("--squash")] {
        let field = Field::new(APPENDS);
        let [first, second] = &field.hosts;
        let run = start(first, &gated());
        let publish = [vec!["publish", &run.slug], squash.into_iter().collect()].concat();
        first.aynig_ok(["run", "--drain"]);
        first.aynig_ok(publish.clone());
        let old = field.at_hub(&format!("refs/heads/{}", run.work));
        second.aynig_ok(["flow", "approve", &run.slug]);
        second.aynig_ok(["run", "--drain"]);
        assert_eq!(end(first, &run)[1], "succeeded");
        let words = [&old[..10], &second.head(&run.work)[..10], "aynig publish"];
        assert_refused(&first.aynig(["land", &run.work]), 1, &words);
        assert_eq!(next(first, &run)[0], format!("aynig publish {}", run.slug));
        let again = first.aynig_ok(publish.clone());
        assert!(!err(&again).contains("rolled back"), "{}", told(&again));
        assert_eq!(next(second, &run)[0], format!("aynig land {}", run.work), "{squash:?}");
        let done = second.aynig_ok(["land", &run.work]);
        assert!(!err(&done).contains("since then"), "{}", told(&done));
        assert_eq!(landed(first), "one\ntwo", "{squash:?}");
    }
}

/// CONTRACT 21.13, 21.14
#[test]
fn a_branch_of_another_name_lands_only_with_the_newest_work() {
    let field = Field::new(APPENDS);
    let [first, second] = &field.hosts;
    let run = start_with(first, &gated(), &["--label", "Two lines"]);
    first.aynig_ok(["run", "--drain"]);
    let publish = ["publish", &run.slug, "--branch", "other"];
    first.aynig_ok(publish);
    let old = field.at_hub("refs/heads/other");
    let third = field.third(APPENDS);
    first.aynig_ok(["flow", "approve", &run.slug]);
    let words = ["has not ended", "nothing was landed", "--unsuccessful"];
    assert_refused(&third.aynig(["land", "other"]), 1, &words);
    first.aynig_ok(["run", "--drain"]);
    let words = [&old[..10], &first.head(&run.work)[..10], &format!("`aynig {}`", publish.join(" "))];
    for host in [&third, second, first] {
        assert_refused(&host.aynig(["land", "other"]), 1, &words);
    }
    first.aynig_ok(publish);
    assert_eq!(next(first, &run)[0], "aynig land other");
    third.aynig_ok(["land", "other"]);
    assert_eq!(landed(first), "one\ntwo");
    assert_eq!(first.git(["log", "-1", "--format=%s", "origin/main"]), "Two lines");
}

/// CONTRACT 21.14
#[test]
fn a_reviewers_branch_without_a_later_step_never_lands() {
    let field = Field::new(APPENDS);
    let [first, second] = &field.hosts;
    let run = start(first, &gated());
    first.aynig_ok(["run", "--drain"]);
    first.aynig_ok(["publish", &run.slug]);
    let reviewed = field.hub.clone_beside("reviewed");
    reviewed.git(["remote", "set-url", "origin", &first.git(["remote", "get-url", "origin"])]);
    reviewed.git(["fetch", "-q", "origin", &run.work]);
    reviewed.git(["switch", "-q", "--detach", "FETCH_HEAD"]);
    reviewed.write("review", "a review\n");
    reviewed.commit_all("a review");
    reviewed.git(["push", "-q", "origin", &format!("HEAD:refs/heads/{}", run.work)]);
    let theirs = reviewed.git(["rev-parse", "HEAD"]);
    first.aynig_ok(["flow", "approve", &run.slug]);
    first.aynig_ok(["run", "--drain"]);
    assert_refused(&first.aynig(["land", &run.work]), 1, &[&theirs[..10], "aynig publish"]);
    // The printed line brings the review into the work branch of either host.
    let refused = err(&second.aynig(["publish", &run.slug]));
    let pull = line_with(&refused, " pull ");
    sh(second, &pull);
    second.aynig_ok(["publish", &run.slug]);
    let done = first.aynig_ok(["land", &run.work]);
    assert!(err(&done).contains("since then"), "{}", told(&done));
    assert_eq!(landed(first), "one\ntwo");
    assert_eq!(first.git(["show", "origin/main:review"]), "a review");
}

/// CONTRACT 21.13
#[test]
fn work_of_a_run_that_goes_on_lands_only_on_request() {
    for stops in ["due", "paused"] {
        let field = Field::new(APPENDS);
        let first = &field.hosts[0];
        let run = start(first, &flow("one", TWO));
        first.aynig_ok(["run"]);
        if stops == "paused" {
            first.aynig_ok(["flow", "pause", &run.slug]);
        }
        let published = err(&first.aynig_ok(["publish", &run.slug]));
        assert!(published.contains(&format!("run {} has not ended", run.slug)), "{published}");
        let show = format!("aynig flow show {}", run.slug);
        let words = ["has not ended", "nothing was landed", &show, "--unsuccessful"];
        assert_refused(&first.aynig(["land", &run.work]), 1, &words);
        let landing = err(&first.aynig_ok(["land", &run.work, "--unsuccessful"]));
        assert!(landing.contains("has not ended"), "{landing}");
        assert_eq!(landed(first), "one");
    }
}

/// CONTRACT 21.4
#[test]
fn a_commit_that_another_host_published_is_not_taken_back() {
    for ends in [true, false] {
        let field = Field::new(APPENDS);
        let [first, second] = &field.hosts;
        let run = start(first, &flow("one", AGAIN));
        first.aynig_ok(["run", "--drain"]);
        if ends {
            first.aynig_ok(["flow", "approve", &run.slug]);
            first.aynig_ok(["run", "--drain"]);
        }
        let corrected = commit_by_hand(first, &run, "one\ncorrected\n");
        first.aynig_ok(["publish", &run.slug]);
        let refused = second.aynig(["publish", &run.slug]);
        assert_refused(&refused, 1, &[&corrected[..10], "another host", "nothing was changed"]);
        assert_eq!(field.at_hub(&format!("refs/heads/{}", run.work)), corrected);
        assert_refused(&second.aynig(["publish", &run.slug, "--squash"]), 1, &[&corrected[..10]]);
        second.aynig_ok(["publish", &run.slug, "--branch", "other"]);
        assert_refused(&second.aynig(["publish", &run.slug]), 1, &[&corrected[..10]]);
        // The printed line brings it here.
        sh(second, &line_with(&err(&refused), " pull "));
        second.aynig_ok(["publish", &run.slug]);
        assert_eq!(field.at_hub(&format!("refs/heads/{}", run.work)), corrected);
        // In the clone that made it a person takes it back.
        let worktree = worktree(first, &run);
        first.git(["-C", &worktree, "reset", "-q", "--hard", "HEAD~1"]);
        let back = err(&first.aynig_ok(["publish", &run.slug]));
        assert!(back.contains(&corrected[..10]) && back.contains("taken back"), "{back}");
        assert_eq!(field.at_hub(&format!("refs/heads/{}", run.work)), first.head(&run.work));
    }
}

/// CONTRACT 14.2
#[test]
fn the_printed_lines_of_a_conflict_work_where_the_run_has_its_worktree() {
    for remote in [true, false] {
        let field = Field::new(APPENDS);
        let first = &field.hosts[0];
        if !remote {
            first.git(["config", "aynig.remote", ""]);
        }
        let run = start(first, &flow("one", AGAIN));
        first.aynig_ok(["run", "--drain"]);
        first.write("work", "other\n");
        first.commit_all("other");
        if remote {
            first.git(["push", "-q", "origin", "main"]);
        }
        first.aynig_ok(["flow", "approve", &run.slug]);
        first.aynig_ok(["run", "--drain"]);
        if remote {
            first.aynig_ok(["publish", &run.slug]);
        }
        let said = err(&first.aynig(["land", &run.work]));
        let merge = line_with(&said, "git merge");
        let output = typed(first, &merge);
        assert!(told(&output).contains("CONFLICT"), "{merge}: {}", told(&output));
        let worktree = worktree(first, &run);
        std::fs::write(std::path::Path::new(&worktree).join("work"), "other\none\n").expect("a file");
        first.git(["-C", &worktree, "commit", "-qam", "merged"]);
        if remote {
            let publish = line_with(&said, "aynig publish");
            first.aynig_ok(publish.split(' ').skip(1));
        }
        first.aynig_ok(["land", &run.work]);
        let main = if remote { landed(first) } else { first.show("main:work") };
        assert_eq!(main, "other\none");
    }
}

/// CONTRACT 20.14, 20.35
#[test]
fn what_has_landed_is_known_without_a_fetch_of_the_user() {
    let field = Field::new(APPENDS);
    let [first, second] = &field.hosts;
    let run = start(first, &flow("one", AGAIN));
    second.aynig_ok(["run", "--drain"]);
    first.aynig_ok(["flow", "approve", &run.slug]);
    second.aynig_ok(["run", "--drain"]);
    first.aynig_ok(["publish", &run.slug]);
    first.aynig_ok(["land", &run.work]);
    second.aynig_ok(["run"]);
    for host in [first, second] {
        assert!(host.git(["log", "--format=%s", "origin/main"]) != "one", "no fetch");
        let clean = json(&host.aynig_ok(["clean", "--workspaces", "--older-than", "0s", "--json"]));
        let items = clean["items"].as_array().expect("a list");
        let own = items.iter().find(|item| item["name"] == format!("{}/flow", run.slug));
        assert_eq!(own.expect("the workspace")["fate"], "would go", "{clean}");
        let next = next(host, &run);
        assert!(!next.iter().any(|one| one.starts_with("aynig land")), "{next:?}");
    }
}
