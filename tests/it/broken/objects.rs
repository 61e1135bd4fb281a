//! Damaged and missing objects: the branch is reported, other branches run, and nothing overwrites the
//! object.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::*;

/// The kinds of damage.
const DAMAGES: [&str; 4] = ["emptied", "cut", "zeroed", "gone"];

fn damage(object: &Path, how: &str, whole: &[u8]) {
    fs::set_permissions(object, fs::Permissions::from_mode(0o644)).ok();
    match how {
        "emptied" => fs::write(object, ""),
        "cut" => fs::write(object, &whole[..whole.len() / 2]),
        "zeroed" => fs::write(object, vec![0; whole.len()]),
        _ => fs::remove_file(object),
    }
    .expect("it is ours");
}

/// `work` and `other`, ready; `work` has a commit, trees and files of its own.
fn repo() -> Repo {
    let repo = Repo::with_commands(&[("step", &format!("echo \"$AYNIG_BRANCH\" >> \"$ROOM/ran\"\n{DONE}"))]);
    repo.ready("other", "step");
    repo.command(".aynig/command/step", &format!("# work's own\necho work >> \"$ROOM/ran\"\n{DONE}"));
    repo.write("deep/er/file", "deep\n");
    repo.commit_all("more");
    repo.ready("work", "step");
    repo
}

#[test]
fn what_the_scan_cannot_read_is_passed_over() {
    for revision in ["work", "work^{tree}", "work:.aynig", "work:.aynig/command"] {
        let repo = repo();
        let (object, head) = (repo.object(revision), repo.path.join(".git/refs/heads/work"));
        let whole = fs::read(&object).expect("loose");
        let before = fs::read(&head).expect("a branch");
        for how in DAMAGES {
            damage(&object, how, &whole);
            let output = repo.run(&["--branch", "work"]);
            assert_told(&output, 0, &["warning: work: ", "could not read commit", "git fsck"]);
            assert_eq!(fs::read(&head).expect("a branch"), before, "{revision} {how}");
            let output = repo.aynig_ok(["status", "--branch", "work"]);
            assert!(out(&output).contains("could not read commit"), "{revision} {how}: {}", out(&output));
        }
        let output = repo.aynig(["set-state", "--state", "elsewhere", "--branch", "work"]);
        if revision == "work" {
            assert_refused(&output, 3, &["could not read", "commit"]);
            assert_eq!(fs::read(&head).expect("a branch"), before, "nothing is written over it");
        }
        repo.run_expecting(0, &["--branch", "other"]);
        assert_eq!(repo.noted("ran"), "other");
        fs::write(&object, &whole).expect("it is ours");
        if revision == "work" {
            repo.assert_goes_on();
        }
    }
}

#[test]
fn what_the_checkout_cannot_read_stalls_the_branch_with_the_reason() {
    for revision in ["work:deep/er", "work:deep/er/file", "work:.aynig/command/step"] {
        for how in DAMAGES {
            let repo = repo();
            let object = repo.object(revision);
            let whole = fs::read(&object).expect("loose");
            damage(&object, how, &whole);
            let output = repo.run(&[]);
            assert_exit(&output, 1);
            assert_eq!(repo.state("work"), "stalled", "{revision} {how}: {}", err(&output));
            let message = repo.message("work");
            assert!(message.contains("its worktree could not be made"), "{message}");
            assert!(message.contains("aynig set-state --retry --branch work"), "{message}");
            assert_eq!((repo.noted("ran"), repo.worktrees().len()), ("other".to_owned(), 0));
            fs::write(&object, &whole).expect("it is ours");
            repo.assert_goes_on_after_retry();
        }
    }
}
