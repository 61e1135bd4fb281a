//! Removing a workspace: it is previewed; all work in it is saved, its branch is archived, and the operator's
//! checkout is what it was.

use std::fs;
use std::process::Command;

use serde_json::Value;

use super::super::support::*;
use super::Made;
use super::rollback::{STATES, field, operators};

fn removal(output: &std::process::Output) -> Value {
    let value: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    value["removal"].clone()
}

fn has_branch(repo: &Repo, made: &Made) -> bool {
    !repo.git(["for-each-ref", &format!("refs/heads/{}", made.branch)]).is_empty()
}

/// All that is left of a removed workspace are refs and its record.
pub(super) fn assert_removed(repo: &Repo, made: &Made, what: &str) {
    assert!(!has_branch(repo, made), "{what}");
    assert!(made.path.symlink_metadata().is_err(), "{what}");
    assert!(repo.worktrees().iter().all(|path| !path.ends_with("/fix")), "{what}: {:?}", repo.worktrees());
    assert!(repo.workspaces().is_empty(), "{what}");
    assert_eq!(fs::read_dir(repo.runs()).expect("a directory").count(), 0, "{what}");
    let record = repo
        .path
        .join(".git/aynig/data/archive")
        .join(&made.run)
        .join("workspaces/fix/workspace-context.json");
    let record: Value = serde_json::from_slice(&fs::read(record).expect("the record")).expect("JSON");
    assert_eq!(record["state"], "removed", "{what}");
}

/// CONTRACT 15.9
#[test]
fn without_apply_nothing_is_removed() {
    let (repo, made, _) = field();
    made.sh(
        &repo,
        "echo x >>b; git -c user.name=A -c user.email=a@b commit -qam own; echo y >>b; echo z >z.tmp",
    );
    let refs = repo.git(["for-each-ref"]);
    let shown = repo.workspace_ok(["remove", &made.slug]);
    for words in ["would go", "1 commit since", "under a rescue ref", "1 ignored file (2 bytes)", "--apply"] {
        assert!(out(&shown).contains(words), "{words}: {}", out(&shown));
    }
    let shown = removal(&repo.workspace_ok(["remove", &made.slug, "--json"]));
    assert_eq!((&shown["applied"], &shown["unsaved"]), (&Value::from(false), &Value::from(true)), "{shown}");
    assert_eq!(repo.git(["for-each-ref"]), refs);
    assert_eq!(made.git(&repo, &["status", "--porcelain"]), " M b");
}

/// CONTRACT 15.9
#[test]
fn whatever_state_it_is_in_its_work_is_saved() {
    for (what, script, _) in STATES {
        let (repo, made, base) = field();
        repo.write("b", "the operator's\n");
        let before = operators(&repo);
        made.sh(&repo, script);
        let is_hindered = [".git a repository", "nested"].contains(&what);
        let shown = removal(&repo.workspace_ok(["remove", &made.slug, "--json"]));
        assert_eq!(shown["obstacle"].is_string(), is_hindered, "{what}: {shown}");
        let tip =
            repo.git(["for-each-ref", "--format=%(objectname)", &format!("refs/heads/{}", made.branch)]);
        let output = repo.workspace(["remove", "--apply", &made.slug, "--json"]);
        if is_hindered {
            assert_refused(&output, 1, &["cannot be removed", "nothing was removed"]);
            assert!(made.path.is_dir(), "{what}");
            assert_eq!(repo.workspaces()[0]["state"], "ready", "{what}");
            assert_eq!(operators(&repo), before, "{what}");
            continue;
        }
        assert!(output.status.success(), "{what}: {}", err(&output));
        let done = removal(&output);
        assert_removed(&repo, &made, what);
        let archive = done["archiveRef"].as_str().expect("a ref");
        assert_eq!(archive, format!("refs/aynig/archive/{}/fix", made.run), "{what}");
        let archived = repo.git(["rev-parse", archive]);
        assert_eq!(archived, if tip.is_empty() { base } else { tip }, "{what}");
        let loses_nothing = ["commits", "a file", "a link"].contains(&what) || what.starts_with("gone");
        assert_eq!(done["rescueRef"].is_string(), !loses_nothing, "{what}: {done}");
        let is_left = ["a file", "a link"].contains(&what);
        let slug = made.path.parent().expect("above");
        assert_eq!(slug.exists(), is_left, "{what}");
        assert_eq!(done["keptPaths"].as_array().expect("a list").len(), usize::from(is_left), "{what}");
        assert_eq!(operators(&repo), before, "{what}");
        let fsck = repo.git_command().args(["fsck", "--strict", "--no-dangling", "--no-progress"]).output();
        assert!(fsck.expect("git runs").status.success(), "{what}");
    }
}

/// CONTRACT 15.9
#[test]
fn a_process_inside_keeps_it() {
    let (repo, made, _) = field();
    let mut inside = Command::new("sleep").arg("600").current_dir(&made.path).spawn().expect("sleep");
    let words = format!("process {} (sleep) works in it", inside.id());
    let shown = repo.workspace_ok(["remove", &made.slug]);
    assert!(err(&shown).contains(&words), "{}", err(&shown));
    assert_refused(&repo.workspace(["remove", "--apply", &made.slug]), 1, &[&words, "nothing was removed"]);
    assert!(made.path.join("b").is_file());
    inside.kill().expect("it runs");
    inside.wait().expect("it ends");
    repo.workspace_ok(["remove", "--apply", &made.slug]);
    assert_removed(&repo, &made, "afterwards");
}

/// CONTRACT 15.9
#[test]
fn a_branch_that_is_checked_out_elsewhere_keeps_it() {
    let (repo, made, _) = field();
    made.sh(&repo, "git checkout -q --detach");
    repo.git(["switch", "-q", &made.branch]);
    let refused = repo.workspace(["remove", "--apply", &made.slug]);
    assert_refused(&refused, 1, &["its branch is checked out at", "nothing was removed"]);
    assert!(made.path.is_dir() && has_branch(&repo, &made));
}

/// CONTRACT 15.9
#[test]
fn leftovers_of_rollbacks_go_and_what_was_kept_stays() {
    let (repo, made, _) = field();
    let [gone, kept] = ["fix.gone-1", "fix.kept-1"].map(|name| made.path.with_file_name(name));
    fs::create_dir_all(gone.join("deep")).expect("made");
    fs::create_dir_all(kept.join("deep")).expect("made");
    let other = made.path.with_file_name("fix2.gone-1");
    fs::create_dir_all(&other).expect("made");
    let output = repo.workspace_ok(["remove", "--apply", &made.slug]);
    assert!(err(&output).contains(&format!("{} stays", kept.display())), "{}", err(&output));
    assert!(!gone.exists() && kept.is_dir() && other.is_dir());
    assert_removed(&repo, &made, "leftovers");
}

/// CONTRACT 9.5, 15.9
#[test]
fn commits_that_were_taken_off_the_branch_are_saved() {
    let commit = "git -c user.name=A -c user.email=a@b commit -q";
    for (what, script, is_lost) in [
        ("reset", format!("echo o >own; git add own; {commit} -m own; git reset -q --hard HEAD^"), true),
        ("amended", format!("echo o >>b; {commit} -am own; echo p >b; {commit} -a --amend -m own"), true),
        ("reworded", format!("echo o >>b; {commit} -am own; {commit} --amend -m other"), false),
    ] {
        let (repo, made, _) = field();
        made.sh(&repo, &script);
        let before = made.git(&repo, &["rev-parse", "HEAD@{1}"]);
        let removed = repo.workspace_ok(["remove", "--apply", &made.slug]);
        assert_eq!(repo.rescues().len(), usize::from(is_lost), "{what}: {:?}", repo.rescues());
        for rescue in repo.rescues() {
            assert!(err(&removed).contains(&rescue), "{what}: {}", err(&removed));
            repo.git(["merge-base", "--is-ancestor", &before, &rescue]);
        }
        assert_removed(&repo, &made, what);
        repo.git(["gc", "--quiet", "--prune=now"]);
        assert_eq!(
            repo.git_command().args(["cat-file", "-e", &before]).status().expect("git").success(),
            is_lost
        );
    }
}
