//! A workspace belongs to one repository, and its branch moves only where nobody else has it checked out.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use super::super::support::*;
use super::rollback::field;

/// `aynig workspace …` in another repository.
fn there(repo: &Repo, directory: &Path, arguments: &[&str]) -> Output {
    repo.workspace_command().current_dir(directory).args(arguments).output().expect("aynig runs")
}

/// CONTRACT 15.10
#[test]
fn a_copy_of_the_repository_leaves_its_workspaces_alone_and_a_moved_one_has_them() {
    let (repo, made, _) = field();
    let copy = repo.beside("copy");
    let copied = Command::new("cp").arg("-a").arg(&repo.path).arg(&copy).status().expect("cp runs");
    assert!(copied.success());
    fs::write(made.path.join("new"), "new\n").expect("written");
    let link = fs::read(made.path.join(".git")).expect("a link");
    let owner = repo.path.join(".git").display().to_string();
    for action in [&["snapshot"][..], &["rollback"], &["remove", "--apply"], &["show"]] {
        let arguments = [action, &[&made.handle]].concat();
        let output = there(&repo, &copy, &arguments);
        assert_refused(&output, 1, &[&owner, "another repository", "aynig workspace create", "rm -r"]);
    }
    assert!(!out(&there(&repo, &copy, &["list"])).contains(&made.slug));
    assert_eq!(fs::read(made.path.join(".git")).expect("a link"), link);
    assert_eq!(fs::read_to_string(made.path.join("new")).expect("it stays"), "new\n");
    repo.workspace_ok(["snapshot", &made.slug]);

    fs::remove_dir_all(&copy).expect("removed");
    let moved = repo.beside("moved");
    fs::rename(&repo.path, &moved).expect("moved");
    fs::write(made.path.join("new"), "newer\n").expect("written");
    let output = there(&repo, &moved, &["snapshot", &made.slug]);
    assert!(output.status.success(), "{}", err(&output));
    // Another repository where it was does not know the workspace.
    fs::create_dir(&repo.path).expect("made");
    repo.git(["init", "--quiet"]);
    let output = there(&repo, &moved, &["rollback", &made.slug]);
    assert!(output.status.success(), "{}", err(&output));
    // A copy of the moved one does not get it either, though the record names neither.
    fs::remove_dir_all(&repo.path).expect("removed");
    let copied = Command::new("cp").arg("-a").arg(&moved).arg(&copy).status().expect("cp runs");
    assert!(copied.success());
    assert_refused(&there(&repo, &copy, &["rollback", &made.slug]), 1, &["another repository"]);
    fs::rename(&moved, &repo.path).expect("moved back");
}

/// CONTRACT 15.10
#[test]
fn repositories_that_share_a_directory_of_records_leave_each_others_workspaces_alone() {
    let (repo, made, _) = field();
    let clone = repo.beside("clone");
    let path = clone.to_str().expect("UTF-8");
    repo.git(["clone", "--quiet", ".", path]);
    let data = repo.path.join(".git/aynig/data");
    repo.git(["-C", path, "config", "aynig.dataDir", data.to_str().expect("UTF-8")]);
    assert!(!out(&there(&repo, &clone, &["list"])).contains(&made.slug));
    assert_refused(&there(&repo, &clone, &["rollback", &made.slug]), 1, &["another repository"]);
    let file = made.record(&repo).join("workspace-context.json");
    let text = fs::read_to_string(&file).expect("a context");
    fs::write(&file, text.replace("\"ready\"", "\"preparing\"")).expect("written");
    let list = there(&repo, &clone, &["list"]);
    assert!(list.status.success() && !err(&list).contains("undone"), "{}", err(&list));
    fs::write(&file, &text).expect("written");
    repo.workspace_ok(["snapshot", &made.slug]);
    assert!(made.path.join("b").is_file());
}

/// CONTRACT 15.11
#[test]
fn a_branch_that_is_checked_out_elsewhere_as_well_is_not_moved() {
    let (repo, made, _) = field();
    fs::write(made.path.join("new"), "new\n").expect("written");
    let tip = repo.head(&made.branch);
    let second = repo.beside("second");
    let path = second.to_str().expect("UTF-8");
    repo.git(["worktree", "add", "--quiet", "--force", path, &made.branch]);
    for action in ["snapshot", "rollback"] {
        let words = [path, "as well", "nothing was changed", "switch --detach"];
        assert_refused(&repo.workspace([action, &made.slug]), 1, &words);
    }
    repo.git(["-C", path, "switch", "--quiet", "--detach"]);
    repo.git(["switch", "--quiet", "--ignore-other-worktrees", &made.branch]);
    let main = repo.path.to_str().expect("UTF-8");
    for action in ["snapshot", "rollback"] {
        assert_refused(&repo.workspace([action, &made.slug]), 1, &[main, "as well", "nothing was changed"]);
    }
    assert_eq!(repo.head(&made.branch), tip);
    repo.git(["switch", "--quiet", "main"]);
    repo.workspace_ok(["rollback", &made.slug]);
    repo.git(["switch", "--quiet", "--ignore-other-worktrees", &made.branch]);
    assert_refused(&repo.workspace(["rollback", "--undo", &made.slug]), 1, &[main, "as well"]);
}

/// CONTRACT 15.11
#[test]
fn a_branch_that_cannot_be_moved_is_named_before_anything_moves() {
    let (repo, made, _) = field();
    fs::write(made.path.join("new"), "new\n").expect("written");
    let full = format!("refs/heads/{}", made.branch);
    let below = format!("{}/x", made.branch);
    let above = made.branch.rsplit_once('/').expect("a name").0.to_owned();
    let refused = |words: &[&str]| {
        for action in ["snapshot", "rollback"] {
            assert_refused(&repo.workspace([action, &made.slug]), 1, words);
            assert!(made.path.join("new").is_file(), "{words:?}");
        }
    };
    repo.git(["symbolic-ref", &full, "refs/heads/main"]);
    refused(&[
        "a symbolic ref to refs/heads/main",
        &format!("git symbolic-ref -d {full}"),
        "nothing was changed",
    ]);
    repo.git(["symbolic-ref", "-d", &full]);
    for other in [&below, &above] {
        repo.git(["branch", other, "main"]);
        refused(&[&format!("the branch {other} is in the way"), "git branch --move", "nothing was changed"]);
        repo.git(["branch", "-D", other]);
    }
    repo.workspace_ok(["rollback", &made.slug]);
}

/// CONTRACT 15.2
#[test]
fn the_top_of_a_checkout_holds_no_worktrees_and_a_directory_of_the_user_stays() {
    let (repo, other) = (Repo::new(), Repo::new());
    repo.git(["worktree", "add", "--quiet", "../linked", "-b", "side"]);
    for place in [&other.path, &repo.beside("linked"), &repo.path] {
        repo.git(["config", "aynig.workspaceRoot", place.to_str().expect("UTF-8")]);
        assert_refused(&repo.workspace(["create", "fix"]), 3, &["cannot be at", "nothing was changed"]);
    }
    let root = repo.beside("root");
    fs::create_dir(&root).expect("made");
    repo.git(["config", "aynig.workspaceRoot", root.to_str().expect("UTF-8")]);
    repo.git(["config", "aynig.setup", "exit 3"]);
    assert_refused(&repo.workspace(["create", "fix"]), 1, &["nothing of it is left"]);
    assert_eq!(fs::read_dir(&root).expect("it stays").count(), 0);
}
