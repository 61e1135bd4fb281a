//! A worktree or a work branch that is gone between two steps: the next step has the work all the same.

use super::agent::with_agent;
use super::back::APPENDS;
use super::hosts::Field;
use super::*;

/// A step of an agent, a gate, and a second step.
pub(super) fn gated() -> String {
    let gate = gate_step!("STOP").replace("gate_approved: STOP", "gate_approved: two");
    flow("one", &[agent_step!("one", "one", "ask"), &gate, agent_step!("two", "two", "STOP")].concat())
}

/// A run whose gate is open.
pub(super) fn asked(repo: &Repo) -> Started {
    let run = start(repo, &gated());
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(repo, &run), ["one completed ask", "ask"]);
    run
}

/// A way to lose a worktree.
type Loss = fn(&Repo, &Started);

fn directory(_: &Repo, run: &Started) {
    std::fs::remove_dir_all(&run.worktree).expect("removed");
}

fn with_all_above(_: &Repo, run: &Started) {
    let above =
        run.worktree.parent().and_then(std::path::Path::parent).expect("the directory of all worktrees");
    std::fs::remove_dir_all(above).expect("removed");
}

fn registration(repo: &Repo, run: &Started) {
    repo.git(["worktree", "remove", "-f", "-f", run.worktree.to_str().expect("UTF-8")]);
}

fn branch_too(repo: &Repo, run: &Started) {
    registration(repo, run);
    repo.git(["branch", "-q", "-D", &run.work]);
}

const LOSSES: [(&str, Loss); 4] = [
    ("directory", directory),
    ("with all above", with_all_above),
    ("registration", registration),
    ("branch, too", branch_too),
];

fn goes_on_with_its_work(repo: &Repo, (what, loss): (&str, Loss)) {
    let run = asked(repo);
    loss(repo, &run);
    repo.aynig_ok(["flow", "approve", &run.slug]);
    let output = repo.aynig_ok(["run", "--drain"]);
    assert_eq!(
        steps(repo, &run),
        ["one completed ask", "ask gate_approved two", "two completed STOP"],
        "{what}: {}",
        told(&output)
    );
    assert_eq!(repo.git(["show", &format!("{}:work", run.work)]), "one\ntwo", "{what}");
    assert_eq!(end(repo, &run), ["completed", "succeeded", "completed"], "{what}");
}

/// CONTRACT 15.6, 20.4
#[test]
fn a_step_makes_a_worktree_anew_that_is_gone() {
    for loss in LOSSES {
        goes_on_with_its_work(&with_agent(APPENDS), loss);
    }
}

/// CONTRACT 15.6, 20.4
#[test]
fn a_step_of_a_run_that_a_hub_decides_makes_a_worktree_anew_that_is_gone() {
    for loss in LOSSES {
        let field = Field::new(APPENDS);
        goes_on_with_its_work(&field.hosts[0], loss);
    }
}

/// CONTRACT 15.6, 20.4
#[test]
fn a_worktree_that_is_gone_is_made_anew_with_the_work_of_another_host() {
    for (what, loss) in [LOSSES[0], LOSSES[3]] {
        let field = Field::new(APPENDS);
        let [first, second] = &field.hosts;
        let run = asked(first);
        second.aynig_ok(["flow", "approve", &run.slug]);
        second.aynig_ok(["run", "--drain"]);
        assert_eq!(end(second, &run), ["completed", "succeeded", "completed"], "{what}");
        loss(first, &run);
        first.aynig_ok(["flow", "show", &run.slug]);
        first.aynig_ok(["workspace", "snapshot", &run.slug]);
        assert_eq!(first.git(["show", &format!("{}:work", run.work)]), "one\ntwo", "{what}");
    }
}

fn another_directory(repo: &Repo, run: &Started) {
    registration(repo, run);
    std::fs::create_dir_all(&run.worktree).expect("a directory");
    std::fs::write(run.worktree.join("theirs"), "x").expect("a file");
}

fn a_file(repo: &Repo, run: &Started) {
    directory(repo, run);
    std::fs::write(&run.worktree, "x").expect("a file");
}

fn another_repository(repo: &Repo, run: &Started) {
    directory(repo, run);
    repo.git(["init", "-q", run.worktree.to_str().expect("UTF-8")]);
}

/// CONTRACT 15.6, 15.13
#[test]
fn a_place_that_is_taken_is_named_with_a_way_to_the_work() {
    let takers: [(&str, Loss); 3] =
        [("a directory", another_directory), ("a file", a_file), ("another repository", another_repository)];
    for (what, taken) in takers {
        let repo = with_agent(APPENDS);
        let run = asked(&repo);
        taken(&repo, &run);
        repo.aynig_ok(["flow", "approve", &run.slug]);
        let words = told(&repo.aynig(["run", "--drain"]));
        let place = run.worktree.display();
        let command = format!("mv {place} {place}.old");
        assert!(words.contains(&command) && !words.contains("rollback"), "{what}: {words}");
        let doctor = told(&repo.aynig(["doctor"]));
        assert!(!doctor.contains("rollback"), "{what}: {doctor}");
        sh(&repo, &line_with(&doctor, "mv "));
        let snapshot = line_with(&doctor, "aynig workspace snapshot");
        repo.aynig_ok(snapshot.split(' ').skip(1));
        assert!(run.worktree.with_extension("old").exists(), "{what}");
        repo.aynig_ok(["flow", "resume", &run.slug]);
        repo.aynig_ok(["run", "--drain"]);
        assert_eq!(repo.git(["show", &format!("{}:work", run.work)]), "one\ntwo", "{what}");
    }
}

/// CONTRACT 15.6, 15.15
#[test]
fn a_clone_that_was_moved_carries_its_runs_on() {
    let field = Field::new(APPENDS);
    for repo in [&with_agent(APPENDS), &field.hosts[0]] {
        let program = repo.beside("agent.sh");
        std::fs::copy(repo.path.join(".git/scripted.sh"), &program).expect("a script");
        repo.git(["config", "aynig.provider.scripted.command", program.to_str().expect("UTF-8")]);
        for name in ["info/exclude", "hooks/post-merge"] {
            let file = repo.path.join(".git").join(name);
            std::fs::create_dir_all(file.parent().expect("a directory")).expect("a directory");
            std::fs::write(file, "# mine\n").expect("a file");
        }
        let run = asked(repo);
        let moved = repo.beside("moved");
        std::fs::rename(&repo.path, &moved).expect("moved");
        let there = |arguments: &[&str]| {
            let output = repo.aynig_command().current_dir(&moved).args(arguments).output().expect("it runs");
            assert!(output.status.success(), "{arguments:?}: {}", told(&output));
            told(&output)
        };
        there(&["flow", "approve", &run.slug]);
        let ran = there(&["run", "--drain"]);
        std::fs::rename(&moved, &repo.path).expect("moved back");
        assert_eq!(end(repo, &run), ["completed", "succeeded", "completed"], "{ran}");
        assert_eq!(repo.git(["show", &format!("{}:work", run.work)]), "one\ntwo");
    }
}

/// CONTRACT 20.4
#[test]
fn a_step_does_not_begin_without_the_work_that_the_ledger_has() {
    let repo = with_agent(APPENDS);
    let run = asked(&repo);
    let worktree = run.worktree.to_str().expect("UTF-8");
    let newest = repo.head(&run.work);
    repo.aynig_ok(["flow", "approve", &run.slug]);
    repo.git(["-C", worktree, "reset", "-q", "--hard", "HEAD~1"]);
    let words = told(&repo.aynig(["run", "--drain"]));
    assert_eq!(steps(&repo, &run), ["one completed ask", "ask gate_approved two"], "{words}");
    let merge = format!("git -C {worktree} merge --ff-only {}", &newest[..10]);
    let take = format!("aynig workspace snapshot {}/flow", run.slug);
    let shown = out(&repo.aynig_ok(["flow", "show", &run.slug]));
    for words in [&words, &shown] {
        assert!(words.contains(&merge) && words.contains(&take), "{words}");
    }
    repo.git(["-C", worktree, "merge", "-q", "--ff-only", &newest[..10]]);
    repo.aynig_ok(["flow", "resume", &run.slug]);
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(repo.git(["show", &format!("{}:work", run.work)]), "one\ntwo");
}

/// CONTRACT 20.4
#[test]
fn work_that_a_person_set_back_and_recorded_is_where_the_next_step_begins() {
    let repo = with_agent(APPENDS);
    let run = asked(&repo);
    repo.aynig_ok(["flow", "approve", &run.slug]);
    repo.git(["-C", run.worktree.to_str().expect("UTF-8"), "reset", "-q", "--hard", "HEAD~1"]);
    repo.aynig_ok(["workspace", "snapshot", &run.slug]);
    let words = told(&repo.aynig_ok(["run", "--drain"]));
    assert!(words.contains("the gate asks anew"), "other work was approved: {words}");
    repo.aynig_ok(["flow", "approve", &run.slug]);
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(repo.git(["show", &format!("{}:work", run.work)]), "two");
}

/// CONTRACT 20.4, 20.24
#[test]
fn work_that_was_set_back_and_approved_is_where_the_next_step_begins() {
    let repo = with_agent(APPENDS);
    let run = asked(&repo);
    repo.git(["-C", run.worktree.to_str().expect("UTF-8"), "reset", "-q", "--hard", "HEAD~1"]);
    assert_eq!(repo.aynig(["flow", "approve", &run.slug]).status.code(), Some(1));
    repo.aynig_ok(["flow", "approve", &run.slug]);
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(repo.git(["show", &format!("{}:work", run.work)]), "two");
}
