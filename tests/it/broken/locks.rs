//! Stale lock files and damaged indexes.

use std::fs;

use super::*;

#[test]
fn a_stale_lock_of_a_ref_is_named_and_nothing_is_claimed() {
    let repo = Repo::one_step(DONE);
    let head = repo.head("work");
    let lock = ".git/refs/heads/work.lock";
    repo.write(lock, "");
    let path = repo.path.join(lock).display().to_string();
    let output = repo.run(&[]);
    assert_told(&output, 3, &["could not claim work", &path, "remove it", "the next pass tries again"]);
    repo.assert_untouched("work", &head);
    fs::remove_file(&path).expect("it is there");
    repo.assert_goes_on();
}

#[test]
fn a_stale_lock_of_the_packed_refs_is_in_nobodys_way() {
    let repo = Repo::one_step(DONE);
    repo.git(["pack-refs", "--all"]);
    repo.write(".git/packed-refs.lock", "");
    repo.run_expecting(0, &[]);
    assert_eq!(repo.state("work"), "done");
}

#[test]
fn a_lock_in_the_way_of_the_result_is_waited_for_only_so_long() {
    // A failed step's work is saved before the result is reported. The next pass then only removes the
    // worktree.
    for (end, next) in [(DONE, "the next pass saves what is here"), ("exit 3", "the next pass removes it")] {
        let repo = Repo::one_step(&working(&format!("touch \"$AYNIG_GIT_DIR/refs/heads/work.lock\"\n{end}")));
        let lock = repo.path.join(".git/refs/heads/work.lock");
        let start = std::time::Instant::now();
        let output = repo.run(&["--lease-seconds", "5"]);
        assert_exit(&output, 1);
        assert!(out(&output).contains("(nothing landed)"), "{}", out(&output));
        assert!(out(&output).contains(lock.to_str().expect("text")), "{}", out(&output));
        repo.assert_left(&output);
        assert!(out(&output).contains(next), "{}", out(&output));
        assert!(start.elapsed().as_secs() < 25, "{:?} is no moment", start.elapsed());
        fs::remove_file(lock).expect("it is there");
        repo.assert_recovers_with_work();
    }
}

/// A repository whose checked-out branch is ready for a step that notes its run.
fn in_place() -> Repo {
    let repo = Repo::one_step(&format!("touch \"$ROOM/ran\"\necho made > made; git add made\n{DONE}"));
    repo.ready("other", "step");
    repo.git(["checkout", "--quiet", "work"]);
    repo
}

/// Asserts that an in-place run skips `work` with these words, touches nothing else, and runs the other
/// branch.
fn assert_passed_over(repo: &Repo, words: &[&str]) {
    let head = fs::read_to_string(repo.path.join(".git/refs/heads/work")).expect("a branch");
    let index = fs::read(repo.path.join(".git/index")).expect("an index");
    let output = repo.run(&["--current-branch", "only"]);
    assert_told(&output, 0, &["work", "step was not run"]);
    assert_told(&output, 0, words);
    assert!(!repo.was_noted("ran"));
    let output = repo.run(&["--current-branch", "include"]);
    assert!(out(&output).contains("other  step → done"), "{}{}", out(&output), err(&output));
    fs::remove_file(repo.beside("ran")).expect("the other branch ran");
    assert_eq!(fs::read_to_string(repo.path.join(".git/refs/heads/work")).expect("a branch"), head);
    assert_eq!(fs::read(repo.path.join(".git/index")).expect("an index"), index);
}

fn assert_runs_in_place(repo: &Repo) {
    repo.run_expecting(0, &["--current-branch", "only"]);
    assert_eq!(repo.state("work"), "done");
    assert_eq!(repo.git(["show", "work:made"]), "made");
    repo.assert_tidy();
}

#[test]
fn in_place_a_locked_index_passes_the_branch_over() {
    let repo = in_place();
    let lock = repo.path.join(".git/index.lock");
    fs::write(&lock, "").expect("a file");
    assert_passed_over(&repo, &[lock.to_str().expect("text"), "remove it"]);
    fs::remove_file(&lock).expect("still there");
    assert_runs_in_place(&repo);
}

#[test]
fn in_place_a_damaged_index_passes_the_branch_over() {
    let repo = in_place();
    let index = repo.path.join(".git/index");
    let whole = fs::read(&index).expect("an index");
    fs::write(&index, "junk").expect("writable");
    assert_passed_over(&repo, &["index file smaller than expected", "git reset"]);
    fs::write(&index, whole).expect("writable");
    assert_runs_in_place(&repo);
}

#[test]
fn a_worktrees_index_that_a_command_damaged_keeps_its_worktree() {
    let repo = Repo::one_step(&working(&format!("echo junk > \"$(git rev-parse --git-dir)/index\"\n{DONE}")));
    let output = repo.run_expecting(1, &[]);
    assert_eq!(repo.state("work"), "stalled");
    assert!(repo.message("work").contains("index file smaller than expected"), "{}", repo.message("work"));
    let worktree = repo.assert_left(&output);
    assert!(repo.message("work").contains(&format!("Left in place: {}", worktree.display())));
    assert_eq!(fs::read_to_string(worktree.join("loose")).expect("kept"), "loose\n");
    let output = repo.run_expecting(0, &[]);
    assert_eq!((err(&output), repo.worktrees().len()), (String::new(), 1), "it is the person's now");
}
