//! Deferred states beside branches that rest but are not a plain run's to move.

use super::deferred::{later, slots};
use super::scene::*;
use super::support::*;

fn assert_exit(output: &std::process::Output, code: i32) {
    assert_eq!(output.status.code(), Some(code), "{}", told(output));
}

/// CONTRACT 5.34, 11.25, 11.26
#[test]
fn a_checkout_in_the_way_is_named() {
    let repo = Repo::scene(&[("work", "next done")]);
    repo.branch_with_message("task", b"s\n\ndwp-state: a\ndwp-not-before: 2999-01-01T00:00:00Z\n");
    repo.aynig_ok(later("task", &[]));
    let person = repo.beside("person");
    let person = person.to_str().expect("text");
    repo.git(["worktree", "add", "-q", person, "task"]);
    repo.branch_from("task", "task", b"s\n\ndwp-state: rests\n");
    let step = format!("git -C {person} switch --detach");
    let run = repo.aynig_ok(["run"]);
    assert!(err(&run).contains(&format!("is checked out in {person}")), "{}", told(&run));
    assert!(err(&run).contains(&step), "{}", told(&run));
    assert!(!err(&repo.aynig_ok(["run"])).contains("checked out"), "it is said once");
    let warnings = json(&repo.aynig_ok(["run", "--json"]))["warnings"].clone();
    assert_eq!(warnings[0]["code"].as_str(), Some("notDelivered"), "{warnings}");
    for arguments in [["status", "task"], ["run", "--dry-run"]] {
        let shown = out(&repo.aynig_ok(arguments));
        assert!(shown.contains(&step) && !shown.contains("is set when it rests"), "{shown}");
    }
    let waited = repo.aynig(["wait", "task", "--timeout", "20s"]);
    assert_exit(&waited, 1);
    assert!(out(&waited).contains(&step), "{}", told(&waited));
    repo.git(["-C", person, "switch", "-q", "--detach"]);
    repo.aynig_ok(["run"]);
    assert_eq!((repo.state("task"), slots(&repo)), ("done".to_owned(), vec![]));
}

/// CONTRACT 5.34, 11.13, 11.25
#[test]
fn the_default_branch_is_said_to_need_its_name() {
    let repo = Repo::scene(&[("work", "next done")]).into_bare();
    repo.branch_from("main", "main", b"s\n\ndwp-state: a\ndwp-not-before: 2999-01-01T00:00:00Z\n");
    repo.aynig_ok(later("main", &[]));
    repo.branch_from("main", "main", b"s\n\ndwp-state: rests\n");
    let run = repo.aynig_ok(["run"]);
    assert!(
        err(&run).contains("the default branch") && err(&run).contains("`aynig run main`"),
        "{}",
        told(&run)
    );
    let shown = out(&repo.aynig_ok(["status", "main"]));
    assert!(shown.contains("`aynig run main`") && !shown.contains("is set when it rests"), "{shown}");
    assert_exit(&repo.aynig(["wait", "main", "--timeout", "20s"]), 1);
    repo.aynig_ok(["run", "main"]);
    assert_eq!((repo.state("main"), slots(&repo)), ("done".to_owned(), vec![]));
}

/// CONTRACT 5.33, 11.25
#[test]
fn a_bound_is_no_parking_that_a_state_wakes() {
    let repo = Repo::scene(&[("ping", "next ping"), ("work", "next done")]);
    repo.git(["config", "aynig.maxRounds", "2"]);
    repo.ready("task", "ping");
    repo.aynig_ok(["run", "--drain"]);
    repo.aynig_ok(later("task", &["--wake"]));
    let shown = out(&repo.aynig_ok(["status", "task"]));
    assert!(shown.contains("is not set: a bound parks the branch"), "{shown}");
    assert!(shown.contains("aynig set-state --retry"), "{shown}");
    let waited = repo.aynig(["wait", "task", "--timeout", "20s"]);
    assert_exit(&waited, 1);
    assert_eq!((repo.state("task"), slots(&repo).len()), ("ping".to_owned(), 1));
}
