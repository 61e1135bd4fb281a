//! A person puts the work of a run back, or lets a new run begin in its middle.

use super::agent::{agent, with_agent};
use super::hosts::Field;
use super::*;

/// An agent that appends its prompt to a file.
pub(super) const APPENDS: &str = "read -r what; echo \"$what\" >>work; echo \"did $what\"";

/// An agent that reports its start, and waits for `go`.
const WAITS: &str = "read -r what; echo half >>work; say began $$; await go; echo \"$what\" >>work";

/// Two steps of an agent, and a gate.
pub(super) const TWO: &str =
    concat!(agent_step!("one", "one", "two"), agent_step!("two", "two", "ask"), gate_step!("STOP"),);

fn saved(repo: &Repo) -> Vec<String> {
    let refs = repo.rescues();
    refs.iter().map(|name| repo.git(["show", &format!("{name}:work")])).collect()
}

/// CONTRACT 20.29
#[test]
fn a_person_puts_the_work_of_a_run_back_and_it_is_paused() {
    let repo = with_agent(APPENDS);
    let run = start(&repo, &flow("one", TWO));
    repo.aynig_ok(["run", "--drain"]);
    let output = repo.aynig_ok(["flow", "rollback", &run.slug]);
    let words = told(&output);
    assert!(words.contains("is saved") && words.contains("aynig flow rollback --undo"), "{words}");
    assert!(words.contains("paused") && words.contains("aynig flow resume"), "{words}");
    assert_eq!(repo.head(&run.work), repo.head("main"));
    assert_eq!(saved(&repo), ["one\ntwo"]);
    assert_eq!(shown(&repo, &run)["status"], "paused");
    repo.aynig_ok(["run", "--drain"]);
    repo.aynig_ok(["flow", "rollback", "--undo", &run.slug]);
    assert_eq!(repo.git(["show", &format!("{}:work", run.work)]), "one\ntwo");
    let again = json(&repo.aynig_ok(["flow", "rollback", &run.slug, "--json"]));
    assert_eq!((&again["status"], &again["changed"]), (&"paused".into(), &true.into()), "{again}");
    repo.aynig_ok(["flow", "resume", &run.slug]);
    // The gate asked about another tree.
    let moved = repo.aynig(["flow", "approve", &run.slug]);
    assert_eq!(moved.status.code(), Some(1), "{}", told(&moved));
    repo.aynig_ok(["flow", "approve", &run.slug]);
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(end(&repo, &run), ["stopped", "stopped", "completed"]);
}

/// CONTRACT 20.29
#[test]
fn a_run_that_succeeded_and_is_put_back_is_stopped() {
    let repo = with_agent(APPENDS);
    let run = start(&repo, &flow("one", TWO));
    repo.aynig_ok(["run", "--drain"]);
    repo.aynig_ok(["flow", "approve", &run.slug]);
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(end(&repo, &run), ["completed", "succeeded", "completed"]);
    repo.aynig_ok(["flow", "rollback", &run.slug]);
    assert_eq!(end(&repo, &run), ["stopped", "stopped", "completed"]);
    assert_eq!(repo.head(&run.work), repo.head("main"));
    repo.aynig_ok(["flow", "rollback", "--undo", &run.slug]);
    assert_eq!(end(&repo, &run), ["completed", "succeeded", "completed"]);
    repo.aynig_ok(["flow", "rollback", &run.slug]);
    // Work that comes later counts.
    repo.aynig_ok(["flow", "resume", &run.slug, "--from", "two"]);
    repo.aynig_ok(["run", "--drain"]);
    repo.aynig_ok(["flow", "approve", &run.slug]);
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(end(&repo, &run), ["completed", "succeeded", "completed"]);
    assert_eq!(repo.git(["show", &format!("{}:work", run.work)]), "two");
}

/// CONTRACT 20.29
#[test]
fn a_live_step_is_ended_before_its_work_is_put_back() {
    let repo = Repo::new();
    agent(&repo, "scripted", &repo.scripted(WAITS));
    let run = start(&repo, &flow("one", TWO));
    let runner = repo.aynig_start(["run"]);
    wait_for_file(&repo.beside("began"));
    let output = repo.aynig_ok(["flow", "rollback", &run.slug]);
    assert!(told(&output).contains("waiting for"), "{}", told(&output));
    assert_eq!(runner.finish().status.code(), Some(0));
    assert!(steps(&repo, &run).is_empty());
    assert_eq!(saved(&repo), ["half"]);
    let words =
        format!("the step that was under way was ended; its work: git show --first-parent {}", repo.rescue());
    assert!(out(&output).contains(&words), "{}", told(&output));
    let undo = repo.aynig(["flow", "rollback", "--undo", &run.slug]);
    assert_refused(&undo, 1, &["was not rolled back", &format!("aynig flow log {}", run.slug)]);
    assert_eq!((repo.head(&run.work), repo.state(&run.driver)), (repo.head("main"), "flow-gate".to_owned()));
    repo.write("../go", "now");
    repo.aynig_ok(["flow", "resume", &run.slug, "--from", "two"]);
    repo.aynig_ok(["run"]);
    assert_eq!(steps(&repo, &run), ["two completed ask"]);
}

/// CONTRACT 20.29
#[test]
fn a_run_whose_host_is_gone_is_paused_and_put_back_after_a_takeover() {
    let repo = with_agent(APPENDS);
    let run = start(&repo, &flow("one", TWO));
    repo.aynig_ok(["run"]);
    expired(&repo, &run.driver, &repo.state(&run.driver));
    for _ in 0..2 {
        let output = repo.aynig(["flow", "rollback", &run.slug]);
        let not = format!("is gone; run {} is paused, and its work was not put back", run.slug);
        assert_refused(&output, 1, &[&not, "takes its step over, from 20", "then the same again"]);
        let shown = out(&repo.aynig_ok(["flow", "show", &run.slug]));
        assert!(shown.contains(" paused it to put its work back"), "{shown}");
    }
    repo.aynig_ok(["run"]);
    repo.aynig_ok(["flow", "rollback", &run.slug]);
    assert_eq!(repo.head(&run.work), repo.head("main"));
}

/// CONTRACT 20.29
#[test]
fn a_step_on_another_host_is_ended_before_its_work_is_put_back() {
    let field = Field::new("true");
    let [first, second] = &field.hosts;
    agent(first, "scripted", &first.scripted(WAITS));
    let run = start(first, &flow("one", TWO));
    let runner = first.aynig_start(["run"]);
    wait_for_file(&first.beside("began"));
    let output = second.aynig_ok(["flow", "rollback", &run.slug]);
    assert!(told(&output).contains("waiting for"), "{}", told(&output));
    assert_eq!(runner.finish().status.code(), Some(0));
    assert_eq!(field.at_hub(&format!("refs/aynig/work/{}/flow", run.id)), first.head("main"));
    assert_eq!(saved(first), ["half"]);
    let shown = json(&first.aynig_ok(["flow", "show", &run.slug, "--json"]));
    assert_eq!((&shown["place"], &shown["steps"]), (&"paused".into(), &serde_json::json!([])), "{shown}");
}

/// CONTRACT 20.30
#[test]
fn a_fork_begins_with_the_files_that_its_step_began_with() {
    let repo = with_agent(APPENDS);
    let run = start(&repo, &flow("one", TWO));
    let early = repo.aynig(["flow", "fork", &run.slug, "--at", "two"]);
    assert_refused(&early, 1, &["two has not begun"]);
    repo.aynig_ok(["run"]);
    // A person's work before a step is what the step begins with.
    std::fs::write(run.worktree.join("by-hand"), "a person").expect("written");
    repo.aynig_ok(["run"]);
    let arguments = ["flow", "fork", &run.slug, "--at", "two", "--label", "again", "--json"];
    let fork = json(&repo.aynig_ok(arguments));
    let (work, slug) =
        (fork["workBranch"].as_str().expect("a branch"), fork["slug"].as_str().expect("a slug"));
    assert_eq!(fork["baseSha"], repo.head("main").as_str());
    let file = |name: &str| repo.git(["show", &format!("{work}:{name}")]);
    assert_eq!((file("work").as_str(), file("by-hand").as_str()), ("one", "a person"));
    let worktree = std::path::Path::new(fork["worktreePath"].as_str().expect("a path"));
    assert_eq!(std::fs::read_to_string(worktree.join("work")).expect("a file"), "one\n");
    repo.aynig_ok(["run", "--drain"]);
    let shown = json(&repo.aynig_ok(["flow", "show", slug, "--json"]));
    assert_eq!((&shown["forkedFrom"], &shown["beginsAt"]), (&run.id.as_str().into(), &"two".into()));
    let ids: Vec<&str> =
        shown["steps"].as_array().expect("a list").iter().filter_map(|step| step["id"].as_str()).collect();
    assert_eq!(ids, ["two", "ask"]);
    assert_eq!(file("work"), "one\ntwo");
    assert_eq!(repo.git(["show", &format!("{}:work", run.work)]), "one\ntwo", "the other run is as it was");
    assert!(told(&repo.aynig_ok(["flow", "show", slug])).contains(&run.slug));
    repo.aynig_ok(["flow", "rollback", slug]);
    assert_eq!(repo.head(work), repo.head("main"));
    assert_refused(
        &repo.aynig(["flow", "fork", &run.slug, "--at", "three"]),
        2,
        &["has no step three", "one, two, ask"],
    );
}

/// CONTRACT 20.30
#[test]
fn a_run_of_another_host_is_forked_through_the_hub() {
    let field = Field::new(APPENDS);
    let [first, second] = &field.hosts;
    let run = start(first, &flow("one", TWO));
    first.aynig_ok(["run", "--drain"]);
    let fork = json(&second.aynig_ok(["flow", "fork", &run.slug, "--at", "two", "--json"]));
    first.aynig_ok(["run", "--drain"]);
    let id = fork["runId"].as_str().expect("an id");
    first.git(["fetch", "-q", "origin", "refs/aynig/work/*:refs/aynig/work/*"]);
    assert_eq!(first.git(["show", &format!("refs/aynig/work/{id}/flow:work")]), "one\ntwo");
    // What only a rescue ref of the other host has cannot be forked here.
    first.aynig_ok(["flow", "rollback", &run.slug]);
    let third = field.third(APPENDS);
    let refused = third.aynig(["flow", "fork", &run.slug, "--at", "two"]);
    assert_refused(&refused, 3, &["is not in this repository", "fork the run there"]);
}

/// CONTRACT 20.14, 20.29
#[test]
fn a_rollback_on_one_host_is_shown_on_each_and_undone_where_it_was_made() {
    let field = Field::new(APPENDS);
    let [first, second] = &field.hosts;
    let third = field.third(APPENDS);
    let run = start(first, &flow("one", TWO));
    second.aynig_ok(["run", "--drain"]);
    first.aynig_ok(["flow", "rollback", &run.slug]);
    let base = first.head("main");
    for host in [first, second, &third] {
        let shown = json(&host.aynig_ok(["flow", "show", &run.slug, "--json"]));
        assert_eq!(
            shown["workspace"]["headSha"].as_str().or(shown["workspace"]["head_sha"].as_str()),
            Some(base.as_str()),
            "{shown}"
        );
        let shown = out(&host.aynig_ok(["flow", "show", &run.slug]));
        assert!(!shown.contains("git diff"), "{shown}");
    }
    let handle = format!("{}/flow", run.slug);
    let undoes = format!("aynig flow rollback --undo {}", run.slug);
    assert!(out(&first.aynig_ok(["flow", "show", &run.slug])).contains(&undoes));
    let before = second.head(&run.work);
    let undo = second.aynig(["workspace", "rollback", "--undo", &handle]);
    let back = format!("`aynig workspace rollback --undo {handle}` on test-host");
    assert_refused(&undo, 1, &["was rolled back on test-host", "nothing was changed", &back]);
    assert_eq!((second.head(&run.work), err(&undo).contains("anew")), (before, false), "{}", err(&undo));
    for host in [second, &third] {
        assert!(!out(&host.aynig_ok(["flow", "show", &run.slug])).contains(&undoes));
        let undo = host.aynig(["flow", "rollback", "--undo", &run.slug]);
        assert_refused(
            &undo,
            1,
            &["was rolled back on test-host", &format!("aynig flow rollback --undo {}", run.slug)],
        );
    }
    first.aynig_ok(["flow", "rollback", "--undo", &run.slug]);
    for host in [first, second, &third] {
        let shown = out(&host.aynig_ok(["flow", "show", &run.slug]));
        assert!(shown.contains("git diff"), "{shown}");
    }
}
