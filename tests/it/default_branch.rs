//! The default branch: run only where it is named, and reported by `aynig doctor` when it declares a state.

use super::scene::*;
use super::support::*;

/// A repository whose default branch `main` is ready for a command. `away` is checked out, `task` is ready
/// too.
fn declared() -> Repo {
    let repo = Repo::scene(&[("work", "next done")]);
    repo.ready("task", "work");
    repo.git(["checkout", "-q", "-b", "away"]);
    repo.branch_from("main", "main", b"merged by mistake\n\ndwp-state: work\n");
    repo
}

const WORDS: &str = "main: work was not run: it is the default branch, which is run only if it is named";

/// CONTRACT 11.13
#[test]
fn it_is_run_only_where_it_is_named() {
    for (options, runs) in [
        (&[][..], false),
        (&["--drain"], false),
        (&["--branch", "*"], false),
        (&["--branch", "[m]ain"], false),
        (&["--current-branch", "include"], false),
        (&["--branch", "main"], true),
        (&["--branch", "t*", "--branch", "main"], true),
    ] {
        let repo = declared();
        let output = repo.aynig_ok(["run"].iter().chain(options).copied());
        assert_eq!(repo.state("main"), if runs { "done" } else { "work" }, "{options:?}: {}", told(&output));
        assert_eq!(err(&output).contains(WORDS), !runs, "{options:?}: {}", told(&output));
        assert_eq!(err(&output).contains("`aynig run main`"), !runs, "{options:?}: {}", told(&output));
    }
}

/// CONTRACT 11.13
#[test]
fn configured_by_its_name_it_is_a_branch_like_the_others() {
    let repo = declared();
    repo.git(["config", "aynig.branch", "m*"]);
    repo.aynig_ok(["run"]);
    assert_eq!(repo.state("main"), "work");
    assert!(out(&repo.aynig_ok(["status", "--all"])).contains("it is the default branch"));
    repo.git(["config", "aynig.branch", "main"]);
    assert!(!out(&repo.aynig_ok(["status", "--all"])).contains("it is the default branch"));
    repo.aynig_ok(["run"]);
    assert_eq!((repo.state("main"), repo.state("task")), ("done".to_owned(), "work".to_owned()));
}

/// CONTRACT 11.13
#[test]
fn checked_out_it_is_named_by_only() {
    let repo = declared();
    repo.git(["checkout", "-q", "main"]);
    for mode in ["skip", "include"] {
        let output = repo.aynig_ok(["run", "--current-branch", mode]);
        assert!(
            err(&output).contains("`aynig run main --current-branch include`"),
            "{mode}: {}",
            told(&output)
        );
        assert_eq!(repo.state("main"), "work", "{mode}");
        std::fs::remove_file(repo.path.join(".git/aynig/said")).expect("it was reported");
    }
    typed(&repo, &format!("'{}' run main --current-branch include", binary().display()));
    assert_eq!(repo.state("main"), "done");
}

/// CONTRACT 11.13
#[test]
fn whoever_sets_a_state_there_gets_the_line_that_runs_it() {
    let repo = declared();
    let words = "main: it is the default branch, which is run only if it is named ";
    let said = |arguments: &[&str]| err(&repo.aynig_ok(arguments.iter().copied()));
    let said_of = |state: &str| said(&["set-state", "--branch", "main", "--state", state]);
    assert!(said_of("work").contains(&format!("{words}(`aynig run main`)")));
    assert!(!said_of("done").contains(words), "nothing runs it");
    assert!(!said(&["set-state", "--branch", "task", "--state", "work"]).contains(words));
    repo.git(["checkout", "-q", "main"]);
    assert!(said_of("work").contains(&format!("{words}(`aynig run main --current-branch include`)")));
    // From another checkout the line leads to the one that has the branch.
    let beside = repo.path.with_file_name("beside");
    repo.git(["worktree", "add", "-q", beside.to_str().expect("UTF-8"), "away"]);
    let from = ["-C", beside.to_str().expect("UTF-8"), "set-state", "--branch", "main", "--state", "work"];
    let line = format!("aynig -C {} run main --current-branch include", repo.path.display());
    assert!(said(&from).contains(&format!("{words}(`{line}`)")), "{}", said(&from));
    typed(&repo, &line.replacen("aynig", &format!("'{}'", binary().display()), 1));
    assert_eq!(repo.state("main"), "done");
    repo.git(["config", "aynig.branch", "main"]);
    assert!(!said_of("work").contains(words), "a setting names it");
}

/// CONTRACT 11.13
#[test]
fn on_a_remote_the_line_is_that_of_the_checkout_too() {
    let repo = declared();
    let hub = repo.path.with_file_name("hub.git");
    let hub = hub.to_str().expect("UTF-8");
    repo.git(["checkout", "-q", "main"]);
    repo.git(["clone", "-q", "--bare", ".", hub]);
    repo.git(["remote", "add", "origin", hub]);
    repo.git(["fetch", "-q", "origin"]);
    repo.git(["branch", "-q", "--set-upstream-to=origin/main"]);
    repo.git(["config", "aynig.remote", "origin"]);
    let said = err(&repo.aynig_ok(["set-state", "--state", "work"]));
    let line = "aynig run main --remote origin --current-branch include";
    assert!(said.contains(&format!("named (`{line}`)")), "{said}");
    typed(&repo, &line.replacen("aynig", &format!("'{}'", binary().display()), 1));
    assert!(out(&repo.aynig_ok(["status", "main"])).contains("done"));
}

/// CONTRACT 11.13
#[test]
fn which_one_it_is() {
    let said = |repo: &Repo, branch: &str| {
        let output = repo.aynig_ok(["status", "--all"]);
        let found: Vec<_> = out(&output)
            .lines()
            .filter(|line| line.contains("it is the default"))
            .map(str::to_owned)
            .collect();
        assert_eq!(found.len(), 1, "{}", told(&output));
        assert!(found[0].starts_with(branch), "{}", told(&output));
    };
    let repo = declared();
    for branch in ["master", "trunk", "devel"] {
        repo.ready(branch, "work");
    }
    said(&repo, "main");
    repo.git(["config", "init.defaultBranch", "gone"]);
    said(&repo, "main");
    repo.git(["config", "init.defaultBranch", "trunk"]);
    said(&repo, "trunk");
    repo.git(["remote", "add", "hub", "../nowhere"]);
    repo.git(["symbolic-ref", "refs/remotes/hub/HEAD", "refs/remotes/hub/master"]);
    said(&repo, "master");
    // With several remotes only `origin` counts.
    repo.git(["remote", "add", "other", "../nowhere"]);
    said(&repo, "trunk");
    repo.git(["remote", "rename", "other", "origin"]);
    repo.git(["symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/devel"]);
    said(&repo, "devel");
}

/// CONTRACT 11.13
#[test]
fn that_of_the_remote_which_decides_is_what_its_head_was_when_it_was_cloned() {
    let hub = Repo::scene(&[("work", "next done")]).into_bare();
    hub.ready("task", "work");
    let clone = hub.clone_beside("clone");
    hub.branch_from("main", "main", b"merged by mistake\n\ndwp-state: work\n");
    let output = clone.aynig_ok(["run", "--remote", "origin"]);
    assert!(err(&output).contains(WORDS), "{}", told(&output));
    assert_eq!((hub.state("main"), hub.state("task")), ("work".to_owned(), "done".to_owned()));
    clone.git(["checkout", "-q", "--detach"]);
    clone.aynig_ok(["run", "--remote", "origin", "--branch", "main"]);
    assert_eq!(hub.state("main"), "done");
}

/// The line of `aynig doctor` about the default branch.
fn line(repo: &Repo, options: &[&str]) -> Option<(String, String)> {
    let report = json(&repo.aynig_ok(["doctor", "--json"].iter().chain(options).copied()));
    let findings = report["findings"].as_array().expect("a list").clone();
    let found = findings.iter().find(|finding| finding["check"] == "default")?;
    assert_eq!(found["level"], "warning", "{found:#}");
    let text = |key: &str| found[key].as_str().expect("text").to_owned();
    Some((text("text"), text("next")))
}

fn typed(repo: &Repo, line: &str) {
    let mut shell = std::process::Command::new("sh");
    let done = hermetic(&mut shell).current_dir(&repo.path).args(["-ec", line]).output().expect("sh runs");
    assert!(done.status.success(), "{line}: {}", told(&done));
}

#[test]
fn doctor_says_what_undoes_its_state() {
    let repo = declared();
    let (text, next) = line(&repo, &[]).expect("a finding");
    assert!(text.contains("main is the default branch and declares the state work"), "{text}");
    typed(&repo, &next);
    assert_eq!(repo.state("main"), "");
    assert_eq!(line(&repo, &[]), None);
    // A user who names it wants it to run.
    repo.branch_from("main", "main", b"again\n\ndwp-state: work\n");
    repo.git(["config", "aynig.branch", "main"]);
    assert_eq!(line(&repo, &[]), None);

    let bare = declared().into_bare();
    typed(&bare, &line(&bare, &[]).expect("a finding").1);
    assert_eq!(bare.state("main"), "");

    let hub = declared().into_bare();
    hub.git(["symbolic-ref", "HEAD", "refs/heads/main"]);
    let clone = hub.clone_beside("clone");
    typed(&clone, &line(&clone, &["--remote", "origin"]).expect("a finding").1);
    assert_eq!(hub.state("main"), "");

    let repo = declared();
    repo.taken_by_other("main", "main", 300);
    let (text, next) = line(&repo, &[]).expect("a finding");
    assert!(
        text.contains("declares the state working") && next == "aynig status --branch main",
        "{text} {next}"
    );
}
