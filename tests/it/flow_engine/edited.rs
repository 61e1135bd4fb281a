//! Changes of a person in the worktree between a question and the next step.

use super::agent::{agent, with_agent};
use super::back::APPENDS;
use super::gate::{clone, push_answer};
use super::gone::asked;
use super::hosts::Field;
use super::*;

fn edit(run: &Started) {
    let work = run.worktree.join("work");
    let text = std::fs::read_to_string(&work).expect("the work");
    std::fs::write(work, text + "mine\n").expect("a file");
    std::fs::write(run.worktree.join("new"), "mine\n").expect("a file");
}

fn log(repo: &Repo, run: &Started) -> String {
    out(&repo.aynig_ok(["flow", "log", &run.slug]))
}

fn approval_names_what_it_is_not_about(repo: &Repo) {
    let run = asked(repo);
    edit(&run);
    let snapshot = format!("aynig workspace snapshot {}", run.slug);
    let shown = out(&repo.aynig_ok(["flow", "show", &run.slug]));
    assert!(shown.contains("2 files") && shown.contains(&snapshot), "{shown}");
    let beside = json(&repo.aynig_ok(["flow", "show", &run.slug, "--json"]))["beside"].clone();
    assert!(beside.as_str().is_some_and(|words| shown.contains(words)), "{beside}");
    assert_refused(&repo.aynig(["flow", "approve", &run.slug]), 1, &["2 files", &snapshot, "--for"]);
    assert_eq!(steps(repo, &run), ["one completed ask", "ask"]);
    assert!(shown.contains("and the next answer here is refused once"), "{shown}");
    repo.aynig_ok(["workspace", "snapshot", &run.slug]);
    repo.aynig_ok(["run", "--drain"]);
    // There is nothing to commit any more, and the question is the old one until somebody answers.
    let shown = out(&repo.aynig_ok(["flow", "show", &run.slug]));
    assert!(
        shown.contains("has commits that the gate does not ask about; an answer here is refused"),
        "{shown}"
    );
    assert!(!shown.contains(&snapshot), "{shown}");
    assert_refused(&repo.aynig(["flow", "approve", &run.slug]), 1, &["asks anew"]);
    repo.aynig_ok(["flow", "approve", &run.slug]);
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(repo.git(["show", &format!("{}:work", run.work)]), "one\nmine\ntwo");
}

/// CONTRACT 20.24
#[test]
fn an_approval_names_changes_that_its_gate_does_not_ask_about() {
    approval_names_what_it_is_not_about(&with_agent(APPENDS));
    approval_names_what_it_is_not_about(&Field::new(APPENDS).hosts[0]);
}

fn approval_of_a_commit_leaves_changes_to_the_next_step(repo: &Repo) {
    let run = asked(repo);
    edit(&run);
    repo.aynig_ok(["flow", "approve", &run.slug, "--for", &repo.head(&run.work)]);
    repo.aynig_ok(["run", "--drain"]);
    let log = log(repo, &run);
    assert!(log.contains("changes that no step made") && log.contains("2 files"), "{log}");
    assert_eq!(repo.git(["show", &format!("{}:work", run.work)]), "one\nmine\ntwo");
}

/// CONTRACT 20.4, 20.24
#[test]
fn changes_beside_an_approved_commit_are_named_in_the_log() {
    approval_of_a_commit_leaves_changes_to_the_next_step(&with_agent(APPENDS));
    approval_of_a_commit_leaves_changes_to_the_next_step(&Field::new(APPENDS).hosts[0]);
}

/// CONTRACT 20.4, 20.26
#[test]
fn changes_beside_a_commit_that_a_push_approved_are_named_in_the_log() {
    let hub = Repo::new();
    let repo = clone(&hub, "one@example.com");
    agent(&repo, "scripted", APPENDS);
    let run = asked(&repo);
    edit(&run);
    let seen = repo.head(&run.work);
    push_answer(
        &repo,
        &hub,
        &run,
        &format!("aynig-gate: result\naynig-answer: approved\naynig-tree: {seen}"),
    );
    repo.aynig_ok(["run", "--drain"]);
    let log = log(&repo, &run);
    assert!(log.contains("changes that no step made") && log.contains("2 files"), "{log}");
}

/// CONTRACT 20.24
#[test]
fn a_rejection_names_changes_and_counts() {
    let repo = with_agent(APPENDS);
    let run = asked(&repo);
    edit(&run);
    let output = repo.aynig_ok(["flow", "reject", &run.slug]);
    let told = err(&output);
    assert!(told.contains("changes in 2 files that the answer is not about; they stay"), "{told}");
    assert!(!told.contains("refused"), "{told}");
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&repo, &run), ["one completed ask", "ask gate_rejected STOP"]);
    assert!(run.worktree.join("new").exists());
}

/// CONTRACT 20.24
#[test]
fn files_that_a_snapshot_leaves_out_are_no_changes() {
    let repo = with_agent(APPENDS);
    let run = asked(&repo);
    std::fs::write(run.worktree.join(".env"), "SECRET=1\n").expect("a file");
    repo.aynig_ok(["flow", "approve", &run.slug]);
}

/// CONTRACT 20.24
#[test]
fn a_commit_by_hand_before_the_answer_is_asked_about_also_with_a_hub() {
    let field = Field::new(APPENDS);
    let [first, second] = &field.hosts;
    let run = asked(first);
    let asked_about = first.head(&run.work);
    let worktree = run.worktree.to_str().expect("UTF-8");
    std::fs::write(run.worktree.join("hand"), "by hand\n").expect("a file");
    first.git(["-C", worktree, "add", "hand"]);
    first.git(["-C", worktree, "commit", "-q", "-m", "by hand"]);
    let mine = first.head(&run.work);
    let about = ["flow", "approve", &run.slug, "--for", &asked_about];
    assert_refused(&first.aynig(about), 1, &["asks anew"]);
    assert_eq!(field.at_hub(&format!("refs/aynig/work/{}/flow", run.id)), mine);
    let shown = out(&second.aynig_ok(["flow", "show", &run.slug]));
    assert!(shown.contains(&mine[..10]), "{shown}");
    second.aynig_ok(["flow", "approve", &run.slug, "--for", &mine]);
    first.aynig_ok(["run", "--drain"]);
    assert_eq!(first.git(["show", &format!("{}:work", run.work)]), "one\ntwo");
    assert_eq!(first.git(["show", &format!("{}:hand", run.work)]), "by hand");
}

/// CONTRACT 20.24
#[test]
fn an_amended_commit_is_not_left_out_by_an_approval_with_a_hub() {
    let field = Field::new(APPENDS);
    let [first, _] = &field.hosts;
    let run = asked(first);
    let published = first.head(&run.work);
    let worktree = run.worktree.to_str().expect("UTF-8");
    std::fs::write(run.worktree.join("hand"), "by hand\n").expect("a file");
    first.git(["-C", worktree, "add", "hand"]);
    first.git(["-C", worktree, "commit", "-q", "--amend", "-m", "amended"]);
    let mine = first.head(&run.work);
    let words = ["in the place of", "nothing was answered", "reset --soft"];
    assert_refused(&first.aynig(["flow", "approve", &run.slug]), 1, &words);
    assert_eq!(first.head(&run.work), mine);
    first.git(["-C", worktree, "reset", "-q", "--soft", &published]);
    first.git(["-C", worktree, "commit", "-q", "-m", "by hand"]);
    assert_refused(&first.aynig(["flow", "approve", &run.slug]), 1, &["asks anew"]);
    first.aynig_ok(["flow", "approve", &run.slug]);
    first.aynig_ok(["run", "--drain"]);
    assert_eq!(first.git(["show", &format!("{}:hand", run.work)]), "by hand");
}

/// CONTRACT 15.6, 20.5
#[test]
fn changes_that_hinder_work_of_another_host_are_saved_and_named() {
    let field = Field::new(APPENDS);
    let [first, second] = &field.hosts;
    let steps_of = [
        agent_step!("one", "one", "ask"),
        &gate_step!("STOP").replace("gate_approved: STOP", "gate_approved: two"),
        agent_step!("two", "two", "three"),
        agent_step!("three", "three", "STOP"),
    ];
    let run = start(first, &flow("one", &steps_of.concat()));
    first.aynig_ok(["run", "--drain"]);
    edit(&run);
    second.aynig_ok(["flow", "approve", &run.slug]);
    // The answer, and the second step.
    second.aynig_ok(["run"]);
    second.aynig_ok(["run"]);
    assert_eq!(steps(second, &run).last().expect("a step"), "two completed three");
    let output = first.aynig_ok(["run", "--drain"]);
    assert_eq!(end(first, &run), ["completed", "succeeded", "completed"], "{}", told(&output));
    assert_eq!(first.git(["show", &format!("{}:work", run.work)]), "one\ntwo\nthree");
    let rescue = first.rescues().into_iter().next().expect("saved");
    assert_eq!(first.git(["show", &format!("{rescue}:work")]), "one\nmine");
    assert_eq!(first.git(["show", &format!("{rescue}:new")]), "mine");
    let log = log(first, &run);
    let shown = out(&first.aynig_ok(["flow", "show", &run.slug]));
    for words in [&log, &shown, &told(&output)] {
        assert!(words.contains(&rescue), "{rescue}: {words}");
    }
}
