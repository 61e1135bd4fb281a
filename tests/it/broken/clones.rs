//! Incomplete clones: shallow, partial, or without the filter program for large files.

use std::fs;
use std::path::PathBuf;

use super::*;

/// A clone of `repo` beside it, as a `Repo` with `work` as a local branch. `repo` itself moves into a
/// directory of its own first.
fn cloned(repo: &mut Repo, arguments: &[&str]) -> PathBuf {
    let origin = repo.path.clone();
    for (name, value) in [("uploadpack.allowFilter", "true"), ("uploadpack.allowAnySHA1InWant", "true")] {
        repo.git(["config", name, value]);
    }
    let url = format!("file://{}", origin.display());
    let mut all = vec!["clone", "--quiet"];
    all.extend(arguments);
    all.extend([url.as_str(), "../clone"]);
    repo.git(all);
    repo.path = repo.beside("clone");
    repo.git(["config", "user.name", "Test Person"]);
    repo.git(["config", "user.email", "person@example.com"]);
    repo.git(["branch", "--quiet", "--no-track", "work", "origin/work"]);
    origin
}

const READ: &str = r#"cat README > "$ROOM/read"; echo made > made; git add made
echo 'SET_STATE {"state":"done"}'"#;

#[test]
fn a_shallow_clone_works_whole() {
    let mut repo = Repo::one_step(READ);
    let origin = cloned(&mut repo, &["--depth=1", "--no-single-branch"]);
    assert_eq!(repo.git(["rev-list", "--count", "work"]), "1", "it is shallow");
    repo.assert_goes_on();
    let history = listed(&repo.aynig_ok(["events", "--branch", "work"]));
    let attempt = &history[0];
    let leases = attempt["leases"].as_array().map(Vec::len);
    assert_eq!((&attempt["state"], leases, &history[1]["state"]), (&"done".into(), Some(1), &"step".into()));
    // The pushed results are complete for other clones.
    repo.git(["push", "--quiet", "origin", "work"]);
    repo.path = origin;
    assert_eq!(repo.state("work"), "done");
    repo.assert_tidy();
}

#[test]
fn a_shallow_clone_works_with_its_remote() {
    let mut repo = Repo::one_step(READ);
    let origin = cloned(&mut repo, &["--depth=1", "--no-single-branch"]);
    repo.git(["branch", "--quiet", "-D", "work"]);
    repo.run_expecting(0, &["--remote", "origin"]);
    repo.path = origin;
    assert_eq!(repo.state("work"), "done");
    assert_eq!(repo.git(["show", "work:made"]), "made");
    repo.assert_tidy();
}

#[test]
fn a_partial_clone_fetches_what_it_needs() {
    let mut repo = Repo::one_step(READ);
    cloned(&mut repo, &["--no-checkout", "--filter=blob:none"]);
    repo.run_expecting(0, &[]);
    assert_eq!(
        (repo.state("work").as_str(), repo.noted("read").as_str()),
        ("done", "a repository for a test")
    );
}

#[test]
fn a_partial_clone_whose_origin_is_gone_stalls_with_the_reason() {
    let mut repo = Repo::one_step(READ);
    let origin = cloned(&mut repo, &["--no-checkout", "--filter=blob:none"]);
    let away = repo.beside("away");
    fs::rename(&origin, &away).expect("it is ours");
    repo.run_expecting(1, &[]);
    let message = repo.message("work");
    assert!(message.contains("promisor remote"), "{message}");
    assert!(message.contains("aynig set-state --retry --branch work"), "{message}");
    fs::rename(&away, &origin).expect("it is ours");
    repo.assert_goes_on_after_retry();
    assert_eq!(repo.noted("read"), "a repository for a test");
}

#[test]
fn a_clone_without_trees_is_told_how_to_get_them() {
    let mut repo = Repo::one_step(READ);
    cloned(&mut repo, &["--no-checkout", "--filter=tree:0"]);
    let head = repo.head("work");
    let output = repo.run_expecting(0, &[]);
    let line = one_message(&output, "step was not run");
    repo.assert_untouched("work", &head);
    let (_, advice) = line.split_once("and `git ").expect("a next step");
    let (advice, _) = advice.split_once('`').expect("a next step");
    repo.git(advice.split(' '));
    repo.run_expecting(0, &[]);
    assert_eq!(repo.state("work"), "done");
}

#[test]
fn large_files_without_their_program_stall_with_the_reason() {
    let repo = Repo::one_step(&format!("cat big.bin > \"$ROOM/big\"\n{DONE}"));
    repo.write(".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n");
    repo.write("big.bin", "version https://git-lfs.github.com/spec/v1\n");
    repo.commit_all("a large file");
    repo.ready("work", "step");
    for (name, value) in [
        ("filter.lfs.process", "no-such-git-lfs filter-process"),
        ("filter.lfs.smudge", "no-such-git-lfs smudge -- %f"),
        ("filter.lfs.required", "true"),
    ] {
        repo.git(["config", name, value]);
    }
    repo.run_expecting(1, &[]);
    assert!(!repo.was_noted("big"));
    let message = repo.message("work");
    assert!(message.contains("no-such-git-lfs: not found"), "{message}");
    repo.assert_tidy();
    repo.git(["config", "--remove-section", "filter.lfs"]);
    repo.assert_goes_on_after_retry();
}
