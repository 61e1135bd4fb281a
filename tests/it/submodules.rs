//! Submodules in our worktrees: checked out for the command, and never removed with work that exists nowhere
//! else.

use std::process::Output;

use super::scene::*;
use super::support::*;

/// Another repository beside `repo` with one commit of this subject. Returns the commit.
fn other(repo: &Repo, name: &str, subject: &str) -> String {
    let path = repo.beside(name);
    repo.git(["init", "-q", "--initial-branch=main", path.to_str().expect("text")]);
    let git = |arguments: &[&str]| {
        let output = repo.git_command().current_dir(&path).args(arguments).output().expect("git runs");
        assert!(output.status.success(), "{}", told(&output));
        out(&output).trim_end().to_owned()
    };
    git(&["config", "user.name", "Test Person"]);
    git(&["config", "user.email", "person@example.com"]);
    git(&["commit", "-q", "--allow-empty", "-m", subject]);
    git(&["rev-parse", "HEAD"])
}

/// Allows local paths as submodule URLs, which git refuses by default.
fn trust_paths(repo: &Repo) {
    let text = "[protocol \"file\"]\n\tallow = always\n[user]\n\tname = T\n\temail = t@example.com\n";
    std::fs::write(repo.beside("config"), text).expect("a file");
}

/// Adds the submodule `sub` with this name to the index and `.gitmodules`, without a checkout.
fn link(repo: &Repo, name: &str, url: &str, commit: &str) {
    let field = |field: &str| format!("submodule.{name}.{field}");
    repo.git(["config", "--file", ".gitmodules", &field("path"), "sub"]);
    repo.git(["config", "--file", ".gitmodules", &field("url"), url]);
    repo.git(["add", ".gitmodules"]);
    repo.git(["update-index", "--add", "--cacheinfo", &format!("160000,{commit},sub")]);
}

/// A branch that is ready for `work`, with the submodule `sub` of this name.
fn branch_with(repo: &Repo, branch: &str, name: &str, url: &str, commit: &str) {
    repo.git(["checkout", "-q", "-f", "-B", branch, "main"]);
    link(repo, name, url, commit);
    repo.git(["commit", "-q", "-m", "a submodule\n\nplease\n\ndwp-state: work"]);
    repo.git(["checkout", "-q", "-f", "main"]);
}

/// A repository with the submodule `sub`, whose origin is beside it.
fn repo(script: &str) -> Repo {
    let repo = Repo::scene(&[("work", script)]);
    trust_paths(&repo);
    let theirs = other(&repo, "origin", "theirs");
    link(&repo, "sub", repo.beside("origin").to_str().expect("text"), &theirs);
    repo.git(["commit", "-q", "-m", "a submodule"]);
    repo.ready("task", "work");
    repo
}

fn run(repo: &Repo) -> Output {
    run_with(repo, &[])
}

fn run_with(repo: &Repo, arguments: &[&str]) -> Output {
    let mut aynig = repo.aynig_command();
    let aynig = aynig.env("GIT_CONFIG_GLOBAL", repo.beside("config")).arg("run").args(arguments);
    aynig.output().expect("aynig runs")
}

/// Notes the subject of the submodule's commit.
const SEES: &str = "git -C sub log --format=%s -1 >\"$ROOM/$AYNIG_BRANCH\"; next done";

/// Runs the branch. Its submodule must be checked out at the commit with this subject.
fn assert_sees(repo: &Repo, branch: &str, subject: &str) {
    let output = run_with(repo, &["--branch", branch]);
    assert!(output.status.success() && err(&output).is_empty(), "{branch}: {}", told(&output));
    assert_eq!(repo.said(branch), subject, "{branch}: {}", told(&output));
    repo.assert_tidy();
}

/// CONTRACT 9.10
#[test]
fn a_submodule_is_there_and_goes_with_a_clean_worktree() {
    for (end, state) in [("next done", "done"), ("exit 1", "stalled")] {
        let repo = repo(&format!("git -C sub log --format=%s -1 >\"$ROOM/seen\"; {end}"));
        let output = run(&repo);
        assert_eq!(repo.said("seen"), "theirs", "{}", told(&output));
        assert_eq!(repo.state("task"), state);
        repo.assert_tidy();
    }
}

/// Asserts that the worktree stays, is named in the output, and holds the new work.
fn assert_kept(repo: &Repo, output: &Output) {
    let worktrees = repo.worktrees();
    assert_eq!(worktrees.len(), 1, "{}", told(output));
    assert!(out(output).contains(&format!("left in place: {}", worktrees[0])), "{}", told(output));
    let file = std::path::Path::new(&worktrees[0]).join("sub/mine.txt");
    assert_eq!(std::fs::read_to_string(file).expect("it is there"), "precious\n");
    run(repo);
    assert_eq!(repo.worktrees(), worktrees, "later passes leave it to the person");
}

/// CONTRACT 9.7
#[test]
fn uncommitted_work_in_a_submodule_keeps_the_worktree() {
    for (end, state) in [("next done", "done"), ("exit 1", "stalled")] {
        let repo = repo(&format!("echo precious >sub/mine.txt; {end}"));
        let output = run(&repo);
        assert_eq!(repo.state("task"), state, "{}", told(&output));
        assert_kept(&repo, &output);
    }
}

/// CONTRACT 9.7
#[test]
fn commits_in_a_submodule_that_are_nowhere_else_keep_the_worktree() {
    let make = "cd sub; echo precious >mine.txt; git add mine.txt; git commit -q -m mine; cd ..; git add sub";
    for (end, state) in [("next done", "done"), ("exit 1", "stalled")] {
        let repo = repo(&format!("{make}; {end}"));
        let output = run(&repo);
        assert_eq!(repo.state("task"), state, "{}", told(&output));
        assert_kept(&repo, &output);
    }
}

#[test]
fn pushed_commits_of_a_submodule_are_safe() {
    let repo = repo(
        "cd sub; echo precious >mine.txt; git add mine.txt; git commit -q -m mine; git push -q origin HEAD:refs/heads/mine
         cd ..; git add sub; next done",
    );
    let output = run(&repo);
    assert_eq!(repo.state("task"), "done", "{}", told(&output));
    repo.assert_tidy();
}

/// Git keeps the repository of a submodule whose files are gone.
#[test]
fn commits_in_a_submodule_that_is_gone_keep_its_registration() {
    let make = "cd sub; echo precious >mine.txt; git add mine.txt; git commit -q -m mine; git rev-parse HEAD >\"$ROOM/mine\"; cd ..";
    for (gone, end, state) in [
        ("git submodule --quiet deinit -f sub", "next done", "done"),
        ("git submodule --quiet deinit -f sub", "exit 1", "stalled"),
        ("here=$PWD; cd /; rm -rf \"$here\"", "exit 1", "stalled"),
    ] {
        let repo = repo(&format!("{make}; {gone}; {end}"));
        let output = run(&repo);
        assert_eq!(repo.state("task"), state, "{gone} {}", told(&output));
        assert!(out(&output).contains("left in place: "), "{gone} {}", told(&output));
        assert_eq!(repo.worktrees().len(), 1, "{gone}");
        let mine = repo.said("mine");
        let object = format!("{}/{}", &mine[..2], &mine[2..]);
        let kept = files_below(&repo.path.join(".git/worktrees")).iter().any(|path| path.ends_with(&object));
        assert!(kept, "{gone} {}", told(&output));
    }
}

#[test]
fn what_one_branch_names_counts_for_no_other() {
    let repo = Repo::scene(&[("work", SEES)]);
    trust_paths(&repo);
    let (good, evil) = (other(&repo, "good.git", "good"), other(&repo, "evil.git", "evil"));
    let place = |name: &str| repo.beside(name).to_str().expect("text").to_owned();
    branch_with(&repo, "evil", "lib", &place("evil.git"), &evil);
    branch_with(&repo, "good", "lib", &place("good.git"), &good);
    branch_with(&repo, "moved", "lib", &place("evil.git"), &evil);
    let config = std::fs::read(repo.path.join(".git/config")).expect("a file");
    for branch in ["evil", "good", "moved"] {
        assert_sees(&repo, branch, if branch == "good" { "good" } else { "evil" });
    }
    assert_eq!(std::fs::read(repo.path.join(".git/config")).expect("a file"), config);
    assert!(!repo.path.join(".git/modules").exists());

    // A URL that a person or an older runner has registered there is not used either.
    repo.git(["config", "submodule.lib.url", &place("gone.git")]);
    repo.git(["config", "submodule.lib.active", "false"]);
    repo.git(["branch", "again", "good~1"]);
    branch_with(&repo, "again", "lib", &place("good.git"), &good);
    assert_sees(&repo, "again", "good");
}

#[test]
fn relative_addresses_begin_where_git_has_them_begin() {
    // Without a remote, relative to the repository itself.
    let repo = Repo::scene(&[("work", SEES)]);
    trust_paths(&repo);
    let theirs = other(&repo, "lib.git", "theirs");
    branch_with(&repo, "alone", "lib", "../lib.git", &theirs);
    assert_sees(&repo, "alone", "theirs");

    // Otherwise relative to the remote, first of all the branch's own.
    let (far, near) = (other(&repo, "far/lib.git", "far"), other(&repo, "near/lib.git", "near"));
    repo.git(["remote", "add", "origin", repo.beside("far/hub.git").to_str().expect("text")]);
    repo.git(["remote", "add", "near", repo.beside("near/hub.git").to_str().expect("text")]);
    branch_with(&repo, "b-far", "lib", "../lib.git", &far);
    branch_with(&repo, "b-near", "lib", "./../lib.git", &near);
    repo.git(["config", "branch.b-near.remote", "near"]);
    assert_sees(&repo, "b-far", "far");
    assert_sees(&repo, "b-near", "near");
}

#[test]
fn submodules_of_submodules_have_their_own_addresses() {
    let repo =
        Repo::scene(&[("work", "git -C sub/sub log --format=%s -1 >\"$ROOM/$AYNIG_BRANCH\"; next done")]);
    trust_paths(&repo);
    let inner = other(&repo, "inner.git", "inner");
    other(&repo, "outer.git", "outer");
    let room = tempfile::tempdir().expect("a temporary directory");
    let outer = Repo { room, path: repo.beside("outer.git") };
    // Named like the submodule that contains it, with a URL relative to the one that was fetched.
    link(&outer, "lib", "../inner.git", &inner);
    outer.git(["commit", "-q", "-m", "with a submodule"]);
    branch_with(
        &repo,
        "nested",
        "lib",
        repo.beside("outer.git").to_str().expect("text"),
        &outer.head("HEAD"),
    );
    assert_sees(&repo, "nested", "inner");
}

#[test]
fn a_submodule_that_cannot_be_had_leaves_nothing() {
    let repo = Repo::scene(&[("work", "ls -A sub >\"$ROOM/seen\"; echo end >>\"$ROOM/seen\"; exit 1")]);
    trust_paths(&repo);
    let lacks = other(&repo, "lacks.git", "lacks it");
    let place = repo.beside("lacks.git");
    branch_with(&repo, "lacking", "lib", place.to_str().expect("text"), &"1".repeat(40));
    branch_with(&repo, "gone", "gone", repo.beside("none.git").to_str().expect("text"), &lacks);
    for branch in ["lacking", "gone", "lacking", "gone"] {
        let output = run_with(&repo, &["--branch", branch]);
        assert!(err(&output).contains("submodules were not initialised"), "{}", told(&output));
        assert!(err(&output).contains("sub"), "it is named: {}", told(&output));
        assert_eq!(repo.said("seen"), "end", "the directory is empty");
        assert_eq!(repo.rescues(), Vec::<String>::new(), "{}", told(&output));
        repo.assert_tidy();
        repo.aynig_ok(["set-state", "--retry", "--branch", branch]);
    }
}

#[test]
fn odd_names_and_addresses_are_git_s_to_refuse() {
    let repo = Repo::scene(&[("work", SEES), ("none", "ls -A sub >\"$ROOM/none\"; next done")]);
    trust_paths(&repo);
    let theirs = other(&repo, "lib.git", "theirs");
    let place = repo.beside("lib.git").to_str().expect("text").to_owned();
    for (at, name) in ["a=b.c", "x y", "deep/er.url", "-q"].into_iter().enumerate() {
        let branch = format!("fine-{at}");
        branch_with(&repo, &branch, name, &place, &theirs);
        assert_sees(&repo, &branch, "theirs");
    }
    let config = std::fs::read(repo.path.join(".git/config")).expect("a file");
    for (at, (name, url)) in [
        ("../../hooks", place.as_str()),
        ("lib", "--upload-pack=touch here"),
        ("lib", "ext::sh -c touch% here"),
    ]
    .into_iter()
    .enumerate()
    {
        let branch = format!("odd-{at}");
        branch_with(&repo, &branch, name, url, &theirs);
        let output = run_with(&repo, &["--branch", &branch]);
        assert!(err(&output).contains("submodules were not initialised"), "{name} {url} {}", told(&output));
        assert_eq!(repo.worktrees(), Vec::<String>::new(), "{name} {url} {}", told(&output));
    }
    assert!(files_below(&repo.beside("")).iter().all(|path| !path.ends_with("here")));
    assert_eq!(std::fs::read(repo.path.join(".git/config")).expect("a file"), config);
}

#[test]
fn a_stop_ends_the_fetch_of_a_submodule() {
    let repo = Repo::scene(&[("work", "next done")]);
    trust_paths(&repo);
    let theirs = other(&repo, "lib.git", "theirs");
    branch_with(&repo, "slow", "lib", "ssh://host/lib.git", &theirs);
    let ssh = repo.scripted("say fetching $$; await never");
    repo.command(".ssh", &ssh);
    let mut command = repo.aynig_command();
    command
        .env("GIT_SSH", repo.path.join(".ssh"))
        .env("GIT_SSH_VARIANT", "simple")
        .args(["run", "--branch", "slow"]);
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let runner = Running::start(&mut command);
    let ssh = repo.said_pid("fetching");
    runner.signal(nix::sys::signal::Signal::SIGTERM);
    let output = runner.finish();
    assert_eq!(output.status.code(), Some(143), "{}", told(&output));
    assert!(!ssh.lives());
    assert_eq!(repo.state("slow"), "work");
    assert!(!repo.path.join(".worktrees/slow").exists(), "{}", told(&output));
    repo.assert_tidy();
}
