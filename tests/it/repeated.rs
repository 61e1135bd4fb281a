//! Warnings about a commit: what cron is told, and how often.

use super::signatures::signing;
use super::support::*;
use super::terminal::plain;

/// The warnings of a pass without a terminal.
fn said(repo: &Repo, arguments: &[&str]) -> String {
    err(&repo.aynig_ok(arguments.iter().copied()))
}

/// CONTRACT 11.26
#[test]
fn a_branch_without_a_trusted_signature_is_reported_once_a_head_and_at_level_info() {
    let (repo, _, _) = signing(&[("work", "next done")]);
    repo.ready("task", "work");
    let info = ["run", "--log-level", "info"];
    assert_eq!(said(&repo, &["run"]), "", "cron stays silent");
    let first = said(&repo, &info);
    assert!(
        first.contains("warning: task: work was not run: ") && first.contains("is not signed"),
        "{first}"
    );
    assert_eq!(said(&repo, &info), "", "the same HEAD");
    assert_eq!(json(&repo.aynig_ok(["run", "--json"]))["warnings"][0]["code"], "notRun", "programs see all");
    repo.branch_with_message("task", b"again\n\ndwp-state: work\n");
    assert!(said(&repo, &info).contains("is not signed"), "another HEAD");
    for _ in 0..2 {
        let (shown, code) = repo.in_terminal((20, 100), &[], &["run"]).finish();
        assert!(code == 0 && plain(&shown).contains("task: work was not run"), "{shown:?}");
    }
    repo.assert_tidy();
}

/// CONTRACT 11.26
#[test]
fn a_refused_branch_is_reported_once_a_head_and_a_mistake_each_time() {
    let repo = Repo::with_commands(&[("work", "exit 0")]);
    repo.git(["checkout", "--quiet", "-b", "aside"]);
    repo.ready("main", "work");
    let first = said(&repo, &["run"]);
    assert!(first.contains("main: work was not run") && first.contains("default branch"), "{first}");
    assert_eq!(said(&repo, &["run", "--drain"]), "", "the same HEAD");
    repo.branch_with_message("task", b"odd\n\ndwp-state: ../work\n");
    for _ in 0..2 {
        let other = said(&repo, &["run"]);
        assert!(other.contains("warning: task: ") && !other.contains("main:"), "{other}");
        let (shown, _) = repo.in_terminal((20, 100), &[], &["run"]).finish();
        assert!(plain(&shown).contains("main: work was not run"), "{shown:?}");
    }
    repo.ready("main", "work");
    assert!(said(&repo, &["run"]).contains("main: work was not run"), "another HEAD");
}

/// CONTRACT 11.26
#[test]
fn what_was_reported_is_no_more_than_a_memory() {
    let repo = Repo::with_commands(&[("work", "exit 0")]);
    repo.git(["checkout", "--quiet", "-b", "aside"]);
    repo.ready("main", "work");
    let is_reported = || said(&repo, &["run"]).contains("warning: main: ");
    assert!(is_reported() && !is_reported());
    let file = repo.path.join(".git/aynig/said");
    std::fs::write(&file, b"nonsense").expect("a file");
    assert!(is_reported(), "it was lost, so it is repeated");
    std::fs::remove_file(&file).expect("it is there");
    std::fs::create_dir(&file).expect("free");
    assert!(is_reported() && is_reported(), "what cannot be remembered is repeated");
}
