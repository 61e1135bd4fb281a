//! A merge, cherry-pick or revert without its commit is no result (CONTRACT 6.13). Its other parent would be
//! silently lost, and the next merge of the same branch would conflict or find nothing to do.

use super::scene::*;
use super::support::*;

/// How to begin it, its name, and how to conclude it.
const BEGUN: [(&str, &str, &str); 3] = [
    ("git merge -q --no-commit --no-ff side", "a merge", "git commit"),
    ("git cherry-pick clash >&2 || echo both >README", "a cherry-pick", "git cherry-pick --continue"),
    ("git revert --no-edit HEAD~1 >&2 || echo neither >README", "a revert", "git revert --continue"),
];

/// `task` is at a commit that conflicts with `clash`; `side` adds a file.
fn repo(script: &str) -> Repo {
    let repo = Repo::scene(&[("work", script)]);
    for (branch, file) in [("side", "side.txt"), ("clash", "README"), ("task", "README")] {
        repo.git(["checkout", "-q", "-b", branch, "main"]);
        repo.write(file, &format!("{branch}\n"));
        repo.commit_all(branch);
    }
    repo.write("README", "task, again\n");
    repo.commit_all("again");
    repo.git(["checkout", "-q", "main"]);
    repo
}

fn ask(repo: &Repo) -> String {
    repo.branch_from("task", "task", b"please\n\ndwp-state: work\n")
}

/// CONTRACT 6.13
#[test]
fn a_command_has_to_conclude_what_it_began() {
    for (begin, what, next) in BEGUN {
        let begin = begin.replace("HEAD~1", "HEAD~3");
        let repo = repo(&format!("{begin}; git add -A; next done"));
        ask(&repo);
        let output = repo.aynig(["run"]);
        assert_eq!(output.status.code(), Some(1), "{what}: {}", told(&output));
        assert_eq!(repo.state("task"), "stalled", "{what}");
        let words = format!(
            "`work` exited with 0, but its result could not be written: {what} is not concluded (`{next}`)"
        );
        for text in [out(&output), repo.message("task")] {
            assert!(text.contains(&words), "{words}: {text}");
        }
        assert!(repo.paths_in(&repo.rescue()).contains(&"README".to_owned()), "{what}");
        repo.assert_tidy();
    }
}

/// CONTRACT 6.13
#[test]
fn one_that_is_concluded_or_given_up_is_landed() {
    for (script, merged) in [
        ("git merge -q --no-commit --no-ff side; git commit -q -m merged; echo x >x; git add x", true),
        ("git merge -q --no-commit --no-ff side; git merge --abort", false),
        ("git cherry-pick clash >&2 || git cherry-pick --abort", false),
        ("git cherry-pick --no-commit side", false),
    ] {
        let repo = repo(&format!("{script}; next done"));
        ask(&repo);
        let output = repo.aynig_ok(["run"]);
        assert_eq!(repo.state("task"), "done", "{script}: {}", told(&output));
        let branches = repo.git(["branch", "--contains", "side"]);
        assert_eq!(branches.contains("task"), merged, "{script}: {branches}");
    }
}

/// CONTRACT 6.13
#[test]
fn a_command_cannot_set_a_state_over_it() {
    let repo = repo(
        "git merge -q --no-commit --no-ff side
        \"$AYNIG_BIN\" set-state --state done 2>\"$ROOM/refused\"; say code $?; exit 1",
    );
    ask(&repo);
    repo.aynig(["run"]);
    assert_eq!(repo.said("code"), "3");
    assert!(repo.said("refused").contains("a merge is not concluded in "), "{}", repo.said("refused"));
    assert_eq!(repo.state("task"), "stalled");
}

/// CONTRACT 6.13
#[test]
fn nor_can_a_person_in_a_checkout() {
    for (begin, what, next) in BEGUN {
        let repo = repo("true");
        ask(&repo);
        repo.git(["checkout", "-q", "task"]);
        let begin = begin.replace("HEAD~1", "HEAD~2");
        let script = format!("{begin}; git add -A");
        let mut shell = std::process::Command::new("sh");
        hermetic(&mut shell).current_dir(&repo.path).args(["-c", &script]);
        shell.output().expect("sh runs");
        let head = repo.head("task");
        for verb in [&["set-state", "--state", "done"][..], &["set-working"]] {
            let output = repo.aynig(verb.iter().copied());
            let words = format!("{what} is not concluded in {}", repo.path.display());
            let hint = format!("`{next}`");
            assert_refused(&output, 3, &[&words, &hint, "--abort"]);
            assert_eq!(repo.head("task"), head);
        }
        // A write to another branch takes nothing from this checkout.
        repo.aynig_ok(["set-state", "--state", "done", "--branch", "clash"]);
    }
}
