//! Deferred states that no pass delivers until somebody acts.

use super::deferred::{later, slots};
use super::scene::*;
use super::support::*;

const PARKED: &[u8] = b"s\n\ndwp-state: a\ndwp-not-before: 2999-01-01T00:00:00Z\n";

const SLOT: &str = "refs/aynig/deferred/task";

fn scene() -> Repo {
    let repo = Repo::scene(&[("work", r#"echo "$AYNIG_BRANCH $DWP_N" >>"$ROOM/ran"; next done"#)]);
    repo.branch_with_message("task", PARKED);
    repo
}

/// A parked branch that was made anew since its deferred state was left. Returns the slot.
fn made_anew(repo: &Repo) -> String {
    repo.aynig_ok(later("task", &[]));
    repo.branch_from("main", "again", b"rebased\n");
    repo.branch_from("again", "task", PARKED);
    repo.head(SLOT)
}

/// CONTRACT 5.32, 5.34
#[test]
fn a_slot_that_cannot_be_delivered_swallows_no_message() {
    let repo = scene();
    let slot = made_anew(&repo);
    let again = repo.aynig_ok(later("task", &["--json"]));
    let again = &listed(&again)[0];
    assert_eq!(
        (again["outcome"].as_str(), again["replaced"].as_str()),
        (Some("deferred"), Some(slot.as_str())),
        "{again}"
    );
    assert_ne!(repo.head(SLOT), slot);
    let same = repo.aynig_ok(later("task", &[]));
    assert!(out(&same).contains("waits already"), "{}", told(&same));
    repo.branch_from("task", "task", b"s\n\ndwp-state: rests\n");
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!((repo.noted_lines("ran").len(), slots(&repo).len()), (1, 0));
}

/// CONTRACT 5.32
#[test]
fn the_replaced_state_is_named() {
    let repo = scene();
    let slot = made_anew(&repo);
    let output = repo.aynig_ok(later("task", &["--trailer", "dwp-n: 2"]));
    let said = out(&output);
    assert!(said.contains("waits until the branch rests"), "{said}");
    assert!(said.contains(&format!("git show {}", &slot[..10])) && said.contains("replaced"), "{said}");
    // Beside a branch that rests it is in nobody's way.
    let repo = scene();
    let slot = made_anew(&repo);
    repo.branch_from("again", "task", b"s\n\ndwp-state: rests\n");
    repo.aynig_ok(later("task", &[]));
    assert_eq!((repo.state("task"), repo.head(SLOT)), ("work".to_owned(), slot));
}

/// CONTRACT 5.34, 11.25, 11.28
#[test]
fn status_and_wait_judge_the_slot_too() {
    let repo = scene();
    made_anew(&repo);
    for branch in ["parked", "rests"] {
        if branch == "rests" {
            repo.branch_from("again", "task", b"s\n\ndwp-state: rests\n");
        }
        let shown = out(&repo.aynig_ok(["status", "task"]));
        assert!(shown.contains("is not set: the branch was made anew"), "{branch}: {shown}");
        assert!(shown.contains("aynig set-state --withdraw task"), "{branch}: {shown}");
        assert!(!shown.contains("is set when it rests"), "{branch}: {shown}");
        let waited = repo.aynig(["wait", "task", "--timeout", "20s"]);
        assert_eq!(waited.status.code(), Some(1), "{branch}: {}", told(&waited));
        assert!(out(&waited).contains("was made anew"), "{branch}: {}", told(&waited));
    }
    let rows = listed(&repo.aynig_ok(["status", "--json", "task"]));
    assert!(rows[0]["deferred"]["stuck"].as_str().is_some_and(|why| why.contains("made anew")), "{rows}");
    assert_eq!(repo.aynig(["status", "--exit-code", "task"]).status.code(), Some(12));
    let logged = out(&repo.aynig_ok(["log", "task"]));
    assert!(logged.contains("is not set: the branch was made anew"), "{logged}");
    let run = repo.aynig_ok(["run"]);
    assert!(err(&run).contains("aynig set-state --withdraw task"), "{}", told(&run));
}

/// CONTRACT 5.32
#[test]
fn a_sender_does_not_wait_for_what_cannot_be_delivered() {
    let repo = scene();
    let sender = repo.aynig_start(later("task", &["--wait", "--timeout", "1m"]));
    wait_until("the slot", || slots(&repo).len() == 1);
    repo.branch_from("main", "task", b"rebased\n");
    let output = sender.finish();
    assert_refused(&output, 1, &["cannot be delivered", "made anew", "aynig set-state --withdraw task"]);
    assert_eq!(slots(&repo), [SLOT], "it stays");
}

/// CONTRACT 5.32
#[test]
fn a_shallow_clone_takes_no_slot_for_one_of_another_branch() {
    let hub = scene().into_bare();
    hub.clone_beside("whole").aynig_ok(later("task", &["--remote", "origin"]));
    let slot = hub.head(SLOT);
    hub.branch_from("task", "task", PARKED);
    let shallow = hub.clone_beside("shallow");
    shallow.git(["fetch", "-q", "--depth", "1", "origin", "task"]);
    let sent = shallow.aynig(later("task", &["--remote", "origin", "--trailer", "dwp-n: 2"]));
    assert_refused(&sent, 1, &["waits for task already"]);
    assert_eq!(hub.head(SLOT), slot);
}
