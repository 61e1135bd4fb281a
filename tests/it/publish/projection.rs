//! Publishing once, again, after new work, and after somebody else changed the branch.

use aynig::model::decide::{Command, StepStart};
use aynig::model::ids::StepId;
use aynig::model::step::Opcode;

use super::super::orch::perform;
use super::super::workspace::runs::{assert_whole, known};
use super::*;

/// CONTRACT 21.1, 21.12
#[test]
fn publishing_again_gives_the_same_branch() {
    let field = Field::new();
    let first = field.head();
    let done = field.published(&[]);
    assert_eq!(field.there(), first);
    assert_eq!((&done["branch"], &done["base"]), (&field.made.branch.as_str().into(), &"main".into()));
    assert_eq!((&done["commit"], &done["pushed"]), (&first.as_str().into(), &true.into()));
    assert!(done["proposal"].is_null() && done["compareUrl"].is_null(), "{done}");
    assert_eq!(field.events(), ["publish.pushed"]);
    assert_eq!(known(&field.repo, field.run)["flow"]["remoteBranch"], field.made.branch.as_str());
    assert_eq!(field.context()["remote_branch"], field.made.branch.as_str());
    assert!(field.context()["publishing"].is_null());
    // Nothing is new.
    let again = field.published(&[]);
    assert_eq!((&again["commit"], &again["pushed"]), (&first.as_str().into(), &false.into()));
    assert_eq!(field.events(), ["publish.pushed"]);
    let second = field.work("two");
    assert_eq!(field.published(&[])["pushed"], true);
    assert_eq!((field.there(), field.events().len()), (second, 2));
    // The work, and nothing else of the run, is on the hub.
    let refs = field.hub.git(["for-each-ref", "--format=%(refname)"]);
    assert_eq!(
        refs.lines().collect::<Vec<_>>(),
        ["refs/heads/main", &format!("refs/heads/{}", field.made.branch)]
    );
    assert_whole(&field.repo, field.run);
    let shown = out(&field.repo.workspace_ok(["show", &field.made.slug]));
    assert!(shown.contains("published") && shown.contains(&field.made.branch), "{shown}");
    assert!(out(&field.repo.aynig_ok(["orch", "show", &field.made.slug])).contains(", published: work/"));
}

/// CONTRACT 21.1
#[test]
fn what_is_not_committed_is_named_and_not_published() {
    let field = Field::new();
    field.made.sh(&field.repo, "echo loose >loose");
    let output = field.publish(&[]);
    let said = err(&output);
    assert!(output.status.success() && said.contains("workspace snapshot"), "{said}");
    assert_eq!(field.there(), field.head());
    assert!(
        out(&output).contains("to be merged into main") && out(&output).contains("pushed"),
        "{}",
        out(&output)
    );
    field.repo.workspace_ok(["snapshot", &field.made.slug]);
    assert_eq!(field.published(&[])["uncommitted"], false);
    assert!(field.hub.paths_in(&field.made.branch).contains(&"loose".to_owned()));
}

/// CONTRACT 21.1
#[test]
fn a_step_that_is_under_way_is_named() {
    let field = Field::new();
    let start =
        StepStart { id: StepId::parse("fix").expect("an id"), opcode: Opcode::RunAgent, started_at: None };
    perform(&field.repo, field.run, Command::StartStep(start));
    let output = field.publish(&[]);
    assert!(output.status.success() && err(&output).contains("step 1 (fix)"), "{}", told(&output));
    assert_eq!(field.there(), field.head());
}

/// CONTRACT 21.1
#[test]
fn a_workspace_without_a_run_is_published_too() {
    let (hub, repo) = hub_and_clone();
    let made = repo.made("fix");
    let nothing = publish_command(&repo).arg(&made.slug).output().expect("aynig runs");
    assert!(out(&nothing).contains("nothing to publish"), "{}", told(&nothing));
    made.sh(&repo, "echo x >x; git add x; git commit -qm x");
    let output = publish_command(&repo).arg("fix").output().expect("aynig runs");
    assert!(output.status.success(), "{}", told(&output));
    assert_eq!(hub.head(&made.branch), repo.head(&made.branch));
    assert_eq!(repo.workspaces()[0]["remoteBranch"], made.branch.as_str());
}

/// CONTRACT 21.4
#[test]
fn a_commit_of_somebody_else_is_never_pushed_over() {
    let field = Field::new();
    field.published(&[]);
    let theirs = field.foreign();
    for new in [None, Some("two")] {
        if let Some(new) = new {
            field.work(new);
        }
        let refused = field.publish(&[]);
        let shows = format!("git fetch origin refs/heads/{} && git log", field.made.branch);
        assert_refused(&refused, 1, &[&theirs[..7], "not published from here", &shows]);
        assert_eq!(field.there(), theirs);
    }
    assert_refused(&field.publish(&["--squash"]), 1, &[&theirs[..7]]);
    // Another branch is free.
    let other = field.published(&["--branch", "other"]);
    assert_eq!(field.hub.head("other"), field.head());
    assert_eq!(other["branch"], "other");
    // Once the work branch has the commit, it is published on top of it.
    field.made.sh(&field.repo, "git fetch -q origin \"$BRANCH\"; git merge -q --no-edit FETCH_HEAD");
    assert_eq!(field.published(&[])["pushed"], true);
    assert_eq!(field.there(), field.head());
}

/// CONTRACT 21.4
#[test]
fn a_branch_that_somebody_else_made_stays() {
    let field = Field::new();
    let main = field.hub.head("main");
    field.hub.git(["branch", &field.made.branch, "main"]);
    assert_refused(&field.publish(&[]), 1, &["not published from here"]);
    assert_eq!(field.there(), main);
}

/// CONTRACT 21.4
#[test]
fn a_branch_that_was_deleted_is_made_again() {
    let field = Field::new();
    field.published(&[]);
    field.hub.git(["update-ref", "-d", &format!("refs/heads/{}", field.made.branch)]);
    let output = field.publish(&[]);
    assert!(output.status.success() && err(&output).contains("was deleted on origin"), "{}", told(&output));
    assert_eq!(field.there(), field.head());
    // A merge brought all of it into the base.
    field.hub.git(["update-ref", "-d", &format!("refs/heads/{}", field.made.branch)]);
    field.hub.git(["update-ref", "refs/heads/main", &field.head()]);
    let output = field.publish(&[]);
    assert!(out(&output).contains("nothing to publish"), "{}", told(&output));
    assert_eq!(field.there(), "");
    let done = field.published(&[]);
    assert!(done["commit"].is_null() && done["pushed"] == false, "{done}");
}

/// CONTRACT 21.4
#[test]
fn what_was_rolled_back_is_published_as_it_is_then() {
    let field = Field::new();
    field.work("two");
    field.published(&[]);
    field.repo.workspace_ok(["rollback", &field.made.slug]);
    let new = field.work("three");
    assert_eq!(field.published(&[])["pushed"], true);
    assert_eq!(field.there(), new);
}

/// CONTRACT 21.2
#[test]
fn a_base_that_moved_changes_nothing() {
    let field = Field::new();
    field.published(&[]);
    let tree = field.hub.git(["rev-parse", "main^{tree}"]);
    let moved = field.hub.git(["commit-tree", "-p", "main", "-m", "moved", &tree]);
    field.hub.git(["update-ref", "refs/heads/main", &moved]);
    assert_eq!(field.published(&[])["pushed"], false);
    let new = field.work("two");
    field.published(&[]);
    assert_eq!((field.there(), field.hub.head("main")), (new.clone(), moved.clone()));
    // One commit stands on what both have.
    let squashed = field.published(&["--squash"]);
    let commit = squashed["commit"].as_str().expect("a commit");
    assert_eq!(field.hub.head(&format!("{commit}^")), field.context()["base_sha"].as_str().expect("an id"));
    assert_eq!(field.repo.git(["diff", "--name-only", commit, &new]), "");
}

/// CONTRACT 21.12
#[test]
fn two_processes_publish_once() {
    let field = Field::new();
    let outputs = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..3).map(|_| scope.spawn(|| field.publish(&["--squash", "--json"]))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect::<Vec<_>>()
    });
    let pushed = outputs.iter().filter(|output| {
        assert!(output.status.success(), "{}", told(output));
        json(output)["pushed"] == true
    });
    assert_eq!(pushed.count(), 1);
    assert_eq!(field.events(), ["publish.pushed"]);
    assert_whole(&field.repo, field.run);
}

/// CONTRACT 21.12
#[test]
fn another_host_publishes_on() {
    let field = Field::of_hub();
    field.repo.workspace_ok(["snapshot", &field.made.slug]);
    field.published(&[]);
    let host = field.hub.clone_beside("host");
    host.git(["config", "aynig.remote", "origin"]);
    let publish = |options: &[&str]| {
        publish_command(&host).arg(field.run.to_string()).args(options).output().expect("aynig runs")
    };
    let output = publish(&["--json"]);
    assert!(output.status.success() && json(&output)["pushed"] == false, "{}", told(&output));
    // It goes on there, and the first host knows what was published.
    let made = Made::of(&host.workspaces()[0]);
    made.sh(&host, "echo more >more");
    host.workspace_ok(["snapshot", &made.slug]);
    let output = publish(&["--squash", "--json"]);
    assert!(output.status.success() && json(&output)["pushed"] == true, "{}", told(&output));
    let squashed = field.there();
    assert_eq!(field.hub.head(&format!("{squashed}^")), field.hub.head("main"));
    field.repo.git(["config", "aynig.remote", "origin"]);
    field.made.sh(&field.repo, "echo again >again");
    field.repo.workspace_ok(["snapshot", &field.made.slug]);
    field.published(&["--squash"]);
    assert_ne!(field.there(), squashed);
    assert!(field.hub.paths_in(&field.made.branch).contains(&"more".to_owned()));
    assert_eq!(field.events(), ["publish.pushed"; 3]);
    assert_whole(&field.repo, field.run);
}
