//! The checked-out branch: run in place, beside a person's files, or skipped.

use super::scene::*;
use super::support::*;

/// A repository whose checkout is on the ready branch `task` and has a person's unstaged and untracked files.
fn personal(script: &str) -> Repo {
    let repo = Repo::scene(&[("work", script)]);
    repo.git(["checkout", "-q", "-b", "task"]);
    repo.ready("task", "work");
    repo.write("README", "changed by a person\n");
    repo.write("notes.txt", "untracked, a person's\n");
    repo
}

fn read(repo: &Repo, path: &str) -> String {
    std::fs::read_to_string(repo.path.join(path)).expect("it is there")
}

fn assert_personal_files_untouched(repo: &Repo) {
    assert_eq!(read(repo, "README"), "changed by a person\n");
    assert_eq!(read(repo, "notes.txt"), "untracked, a person's\n");
    assert_eq!(repo.show("task:README"), "a repository for a test");
    assert!(!repo.paths_in("task").contains(&"notes.txt".to_owned()));
    repo.assert_tidy();
}

/// CONTRACT 11.4
#[test]
fn skipped_by_default_with_a_reason() {
    let repo = personal("next done");
    for arguments in [vec!["run"], vec!["run", "--current-branch", "skip"]] {
        let output = repo.aynig_ok(arguments.into_iter().chain(["--log-level", "debug"]));
        assert!(err(&output).contains("is checked out here"), "{}", told(&output));
        assert_eq!(repo.state("task"), "work");
    }
    assert_personal_files_untouched(&repo);
}

#[test]
fn one_that_would_run_but_for_being_checked_out_is_told_of_where_somebody_asked() {
    let repo = personal("next done");
    let warning = "warning: task: work was not run: the branch is checked out here; `aynig run task --current-branch include` runs it in place\n";
    for (arguments, said) in [
        (["run"].as_slice(), warning),
        (&["run", "--branch", "task"], warning),
        (&["run", "--drain", "--branch", "task"], warning),
        (&["run", "--json"], warning),
        // Timers use these options, and cron mails every output.
        (&["run", "--drain"], ""),
        (&["run", "--branch", "other*"], "warning: no branch matches other*; `git branch`"),
    ] {
        let output = repo.aynig_ok(arguments.iter().copied());
        assert!(
            if said.ends_with('\n') || said.is_empty() {
                err(&output) == said
            } else {
                err(&output).starts_with(said)
            },
            "{arguments:?}: {}",
            told(&output)
        );
    }
    // A pass that ran something else does not mention the skipped branch.
    repo.ready("other", "work");
    assert_eq!(err(&repo.aynig_ok(["run"])), "");
    assert_eq!(repo.state("other"), "done");
    let (shown, exit) = repo.in_terminal((24, 200), &[], &["run", "--drain"]).finish();
    assert!(
        shown.contains("`aynig run task --current-branch include` runs it in place") && exit == 0,
        "{shown}"
    );
    // A branch that would not run elsewhere either is not mentioned.
    for message in [
        "s\n\ndwp-state: elsewhere\n",
        "s\n\ndwp-state: work\ndwp-not-before: 2999-01-01T00:00:00Z\n",
        "plain\n",
    ] {
        repo.branch_from("task", "task", message.as_bytes());
        assert_eq!(err(&repo.aynig_ok(["run"])), "", "{message}");
    }
    repo.taken_by_other("task", "task", 300);
    assert_eq!(err(&repo.aynig_ok(["run"])), "");
}

/// CONTRACT 9.3, 11.4
#[test]
fn a_branch_is_checked_out_under_the_name_of_a_symbolic_ref_too() {
    let repo = Repo::scene(&[("work", "echo made >made.txt; git add made.txt; next done")]);
    repo.git(["branch", "-m", "main", "trunk"]);
    repo.git(["symbolic-ref", "refs/heads/main", "refs/heads/trunk"]);
    for name in ["task", "other"] {
        repo.git(["branch", name]);
    }
    repo.git(["symbolic-ref", "refs/heads/alias", "refs/heads/task"]);
    repo.git(["symbolic-ref", "refs/heads/beside", "refs/heads/other"]);
    let linked = repo.beside("linked");
    repo.git(["worktree", "add", "--quiet", linked.to_str().expect("UTF-8"), "beside"]);
    repo.git(["symbolic-ref", "HEAD", "refs/heads/alias"]);
    for name in ["task", "other"] {
        repo.branch_from(name, name, b"s\n\ndwp-state: work\n");
    }
    let said = err(&repo.aynig_ok(["run"]));
    assert!(said.contains("task") && said.contains("checked out"), "{said}");
    assert_eq!([repo.state("task"), repo.state("other")], ["work", "work"], "{said}");
    assert_eq!(repo.git(["status", "--porcelain"]), "");
    // It is run in place by the name that moves, and the checkout goes along.
    repo.aynig_ok(["run", "task", "--current-branch", "include"]);
    assert_eq!(repo.state("task"), "done");
    assert_eq!(repo.git(["status", "--porcelain"]), "");
    assert_eq!(read(&repo, "made.txt"), "made\n");
    // The default branch is the one that the usual name leads to.
    repo.branch_from("trunk", "trunk", b"s\n\ndwp-state: work\n");
    let said = out(&repo.aynig_ok(["status", "trunk"]));
    assert!(said.contains("it is the default branch"), "{said}");
}

/// CONTRACT 9.3, 11.4
#[test]
fn a_branch_is_checked_out_under_another_name_of_its_file_too() {
    let repo = Repo::scene(&[("work", "echo made >made.txt; git add made.txt; next done")]);
    repo.branch_from("main", "sub/task", b"s\n\ndwp-state: work\n");
    repo.branch_from("main", "other", b"s\n\ndwp-state: work\n");
    for (to, link) in [("sub", "by"), ("other", "alias")] {
        std::os::unix::fs::symlink(to, repo.path.join(".git/refs/heads").join(link)).expect("a link");
    }
    let linked = repo.beside("linked");
    repo.git(["worktree", "add", "--quiet", linked.to_str().expect("UTF-8"), "alias"]);
    repo.git(["checkout", "--quiet", "by/task"]);
    let said = err(&repo.aynig_ok(["run"]));
    assert!(said.contains("sub/task") && said.contains("checked out"), "{said}");
    assert_eq!([repo.state("sub/task"), repo.state("other")], ["work", "work"], "{said}");
    assert_eq!(repo.git(["status", "--porcelain"]), "");
}

/// CONTRACT 9.9, 11.4
#[test]
fn included_it_runs_in_the_checkout() {
    let repo =
        personal("pwd >\"$ROOM/pwd\"; echo made >made.txt; git add made.txt; echo more >more.txt; next done");
    repo.ready("other", "work");
    repo.aynig_ok(["run", "--current-branch", "include", "--branch", "task"]);
    assert_eq!(repo.said("pwd"), repo.path.display().to_string());
    assert_eq!(repo.state("task"), "done");
    assert_eq!(repo.show("task:made.txt"), "made", "what the command staged is landed");
    assert_eq!(read(&repo, "more.txt"), "more\n", "what it did not stage stays as a file");
    assert_eq!(repo.git(["diff", "--cached", "--name-only"]), "", "index and HEAD agree");
    assert_eq!(repo.git(["symbolic-ref", "HEAD"]), "refs/heads/task");
    assert_personal_files_untouched(&repo);
    assert_eq!(repo.rescues(), Vec::<String>::new(), "no file of the person is taken");
    assert_eq!(repo.state("other"), "work");
}

/// CONTRACT 11.4
#[test]
fn include_runs_the_others_as_well_and_only_does_not() {
    for (mode, other) in [("include", "done"), ("only", "work")] {
        let repo = personal("next done");
        repo.ready("other", "work");
        repo.aynig_ok(["run", "--current-branch", mode]);
        assert_eq!(repo.state("task"), "done");
        assert_eq!(repo.state("other"), other, "{mode}");
        assert_personal_files_untouched(&repo);
    }
}

/// CONTRACT 9.9
#[test]
fn a_failure_in_place_leaves_all_files() {
    let repo = personal("echo made >made.txt; git add made.txt; echo more >>README; exit 1");
    let output = repo.aynig(["run", "--current-branch", "only"]);
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    assert_eq!(repo.state("task"), "stalled");
    assert_eq!(read(&repo, "made.txt"), "made\n");
    assert_eq!(read(&repo, "README"), "changed by a person\nmore\n");
    assert!(!repo.paths_in("task").contains(&"made.txt".to_owned()));
    assert_eq!(repo.git(["diff", "--cached", "--name-only"]), "made.txt", "it stays staged");
    repo.assert_tidy();
}

#[test]
fn without_a_declaration_the_lease_stays_and_the_files_too() {
    let repo = personal("echo made >made.txt; git add made.txt");
    repo.aynig_ok(["run", "--current-branch", "only"]);
    assert_eq!(repo.state("task"), "working");
    assert_eq!(repo.git(["diff", "--cached", "--name-only"]), "made.txt");
    assert_personal_files_untouched(&repo);
}

/// CONTRACT 9.9
#[test]
fn staged_changes_at_the_start_are_a_reason_to_pass_over() {
    let repo = personal("next done");
    repo.git(["add", "README"]);
    let before = repo.head("task");
    for mode in ["include", "only"] {
        let output = repo.aynig_ok(["run", "--current-branch", mode, "--log-level", "debug"]);
        assert!(err(&output).contains("has staged changes"), "{}", told(&output));
    }
    assert_eq!(repo.head("task"), before);
    assert_eq!(repo.git(["diff", "--cached", "--name-only"]), "README");
    repo.git(["restore", "--staged", "README"]);
    repo.aynig_ok(["run", "--current-branch", "only"]);
    assert_eq!(repo.state("task"), "done");
    assert_personal_files_untouched(&repo);
}

/// CONTRACT 2.6
#[test]
fn the_file_on_disk_is_the_command() {
    let repo = personal("next committed");
    repo.command(".aynig/command/work", "echo 'SET_STATE {\"state\":\"edited\"}'");
    repo.aynig_ok(["run", "--current-branch", "only"]);
    assert_eq!(repo.state("task"), "edited");
}

/// CONTRACT 2.6
#[test]
fn on_disk_a_command_is_a_program_inside_the_checkout() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    for (target, words) in [
        (None, "is not executable"),
        (Some("../../../outside"), "outside the checkout"),
        (Some("../../.git/inside"), "outside the checkout"),
    ] {
        let repo = personal("next done");
        for program in ["../outside", ".git/inside"] {
            repo.command(program, &repo.scripted("say escaped yes; next done"));
        }
        let command = repo.path.join(".aynig/command/work");
        match target {
            None => std::fs::set_permissions(&command, PermissionsExt::from_mode(0o644)).expect("chmod"),
            Some(target) => {
                std::fs::remove_file(&command).expect("it was there");
                symlink(target, &command).expect("a link");
            }
        }
        let head = repo.head("task");
        let output = repo.aynig_ok(["run", "--current-branch", "only"]);
        assert!(err(&output).contains(words), "{target:?}: {}", told(&output));
        assert_eq!(repo.head("task"), head);
        assert!(!repo.beside("escaped").exists());
    }
}

#[test]
fn a_detached_head_has_no_current_branch() {
    let repo = personal("next done");
    repo.git(["checkout", "-q", "--detach"]);
    let output = repo.aynig(["run", "--current-branch", "only"]);
    assert_eq!(output.status.code(), Some(3), "{}", told(&output));
    assert!(err(&output).contains("HEAD is detached"), "{}", told(&output));
    assert_eq!(repo.state("task"), "work");
    repo.aynig_ok(["run", "--current-branch", "include"]);
    assert_eq!(repo.state("task"), "done", "include has the others to run");
    assert_eq!(read(&repo, "README"), "changed by a person\n");
    repo.assert_tidy();
}

#[test]
fn a_bare_repository_has_no_current_branch() {
    let repo = personal("next done").into_bare();
    let output = repo.aynig(["run", "--current-branch", "only"]);
    assert_eq!(output.status.code(), Some(3), "{}", told(&output));
    assert!(err(&output).contains("bare"), "{}", told(&output));
    assert_eq!(repo.state("task"), "work");
}

/// CONTRACT 9.3
#[test]
fn a_branch_checked_out_elsewhere_is_passed_over_with_its_path() {
    let repo = Repo::scene(&[("work", "next done")]);
    repo.ready("task", "work");
    repo.git(["worktree", "add", "-q", "../elsewhere", "task"]);
    let output = repo.aynig_ok(["run", "--log-level", "debug"]);
    let elsewhere = repo.beside("elsewhere");
    assert!(
        err(&output).contains(&format!("is checked out in {}", elsewhere.display())),
        "{}",
        told(&output)
    );
    assert_eq!(repo.state("task"), "work");
    repo.git(["worktree", "remove", "../elsewhere"]);
    repo.aynig_ok(["run"]);
    assert_eq!(repo.state("task"), "done");
    repo.assert_tidy();
}

/// CONTRACT 9.3, 11.4
#[test]
fn a_branch_is_checked_out_where_head_is_a_link_to_it() {
    let repo = Repo::scene(&[("work", "next done")]);
    for branch in ["here", "there"] {
        repo.ready(branch, "work");
    }
    repo.git(["config", "core.preferSymlinkRefs", "true"]);
    repo.git(["switch", "-q", "here"]);
    repo.git(["worktree", "add", "-q", "../elsewhere", "there"]);
    assert!(repo.path.join(".git/HEAD").is_symlink());
    let output = repo.aynig_ok(["run", "--log-level", "debug"]);
    let elsewhere = repo.beside("elsewhere");
    for said in ["is checked out here", &format!("is checked out in {}", elsewhere.display())] {
        assert!(err(&output).contains(said), "{}", told(&output));
    }
    assert_eq!((repo.state("here"), repo.state("there")), ("work".to_owned(), "work".to_owned()));
    assert!(out(&repo.aynig_ok(["status"])).contains("here"));
    repo.aynig_ok(["run", "--current-branch", "only"]);
    assert_eq!(repo.state("here"), "done");
    repo.git(["worktree", "remove", "../elsewhere"]);
    repo.aynig_ok(["run"]);
    assert_eq!(repo.state("there"), "done");
    repo.assert_tidy();
}

/// CONTRACT 9.3
#[test]
fn a_rebase_in_progress_counts_as_checked_out() {
    let repo = Repo::scene(&[("work", "next done")]);
    repo.ready("task", "work");
    repo.git(["worktree", "add", "-q", "../elsewhere", "task"]);
    let mut rebase = repo.git_command();
    rebase.current_dir(repo.beside("elsewhere")).args([
        "rebase",
        "-q",
        "--force-rebase",
        "--exec",
        "false",
        "task~1",
    ]);
    assert!(!rebase.output().expect("git runs").status.success(), "it stops in the middle");
    let listed = repo.git(["worktree", "list", "--porcelain"]);
    assert!(listed.contains("detached"), "HEAD is on no branch: {listed}");
    let before = repo.head("task");
    let output = repo.aynig_ok(["run", "--log-level", "debug"]);
    assert!(err(&output).contains("is checked out in"), "{}", told(&output));
    assert_eq!(repo.head("task"), before);
}

/// CONTRACT 9.3
#[test]
fn a_bisect_in_progress_counts_as_checked_out() {
    let repo = Repo::scene(&[("work", "next done")]);
    repo.ready("task", "work");
    repo.git(["worktree", "add", "-q", "../elsewhere", "task"]);
    let elsewhere = repo.beside("elsewhere");
    let elsewhere = elsewhere.to_str().expect("text");
    repo.git(["-C", elsewhere, "bisect", "start"]);
    repo.git(["-C", elsewhere, "checkout", "-q", "--detach"]);
    let before = repo.head("task");
    let output = repo.aynig_ok(["run", "--log-level", "debug"]);
    assert!(err(&output).contains("is checked out in"), "{}", told(&output));
    assert_eq!(repo.head("task"), before);
}

/// CONTRACT 9.3
#[test]
fn a_rebase_in_progress_here_is_not_run_in_place_nor_beside() {
    let repo = Repo::scene(&[("work", "next done")]);
    repo.git(["checkout", "-q", "-b", "task"]);
    repo.ready("task", "work");
    let mut rebase = repo.git_command();
    rebase.args(["rebase", "-q", "--force-rebase", "--exec", "false", "task~1"]);
    assert!(!rebase.output().expect("git runs").status.success(), "it stops in the middle");
    let before = repo.head("task");
    for mode in ["skip", "include"] {
        let output = repo.aynig_ok(["run", "--current-branch", mode, "--log-level", "debug"]);
        assert!(err(&output).contains("a rebase or bisect of it is under way in"), "{}", told(&output));
        assert_eq!(repo.head("task"), before, "{mode}");
    }
    repo.git(["rebase", "--abort"]);
    assert_eq!(repo.head("task"), before);
}

/// CONTRACT 11.4
#[test]
fn started_from_a_linked_worktree() {
    let repo = Repo::scene(&[("work", "pwd >\"$ROOM/pwd-$AYNIG_BRANCH\"; next done")]);
    repo.ready("task", "work");
    repo.ready("other", "work");
    repo.git(["worktree", "add", "-q", "../linked", "task"]);
    let linked = repo.beside("linked");
    let run = |arguments: &[&str]| {
        let output =
            repo.aynig_command().current_dir(&linked).arg("run").args(arguments).output().expect("it runs");
        assert!(output.status.success(), "{}", told(&output));
        output
    };
    run(&[]);
    assert_eq!(repo.state("task"), "work", "it is this checkout's own");
    assert_eq!(repo.state("other"), "done");
    let place = repo.said("pwd-other");
    assert!(place.starts_with(&format!("{}/.worktrees/", repo.path.display())), "{place}");
    run(&["--current-branch", "only"]);
    assert_eq!(repo.state("task"), "done");
    assert_eq!(repo.said("pwd-task"), linked.display().to_string());
    repo.git(["worktree", "remove", "../linked"]);
    assert!(repo.path.join(".aynig/logs").read_dir().expect("logs are at the main top").next().is_some());
    repo.assert_tidy();
}

#[test]
fn in_place_from_a_directory_below_the_top() {
    let repo = personal("pwd >\"$ROOM/pwd\"; next done");
    std::fs::create_dir(repo.path.join("sub")).expect("a directory");
    let output = repo
        .aynig_command()
        .current_dir(repo.path.join("sub"))
        .args(["run", "--current-branch", "only"])
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{}", told(&output));
    assert_eq!(repo.said("pwd"), repo.path.display().to_string(), "the top, from any directory");
    assert_personal_files_untouched(&repo);
}
