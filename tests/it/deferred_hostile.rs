//! Deferred states that somebody forged, or that are for a branch that is not a runner's to move.

use super::deferred::{deliveries, later, slots};
use super::scene::*;
use super::support::*;

/// A slot for `branch` with this message and these parents, made by git alone.
fn forge(repo: &Repo, branch: &str, message: &[u8], parents: &[&str]) -> String {
    let tree = repo.git(["rev-parse", "main^{tree}"]);
    let parents: String = parents.iter().map(|parent| format!("parent {}\n", repo.head(parent))).collect();
    let who = "Mallory <mallory@example.com> 1700000000 +0000";
    let header = format!("tree {tree}\n{parents}author {who}\ncommitter {who}\n\n");
    let object = [header.as_bytes(), message].concat();
    let slot = repo.git_with_input(&["hash-object", "--literally", "-t", "commit", "-w", "--stdin"], &object);
    repo.git(["update-ref", &format!("refs/aynig/deferred/{branch}"), &slot]);
    slot
}

fn message(branch: &str) -> Vec<u8> {
    format!("later\n\ndwp-state: work\naynig-slot: {branch}\n").into_bytes()
}

fn scene() -> Repo {
    Repo::scene(&[("slow", "next rests"), ("work", r#"echo "$AYNIG_BRANCH" >>"$ROOM/ran"; next done"#)])
}

/// CONTRACT 5.34
#[test]
fn a_commit_that_names_a_slot_does_not_deliver_it() {
    let repo = scene();
    repo.ready("task", "slow");
    repo.aynig_ok(later("task", &[]));
    let slot = repo.head("refs/aynig/deferred/task");
    let forged = format!("s\n\ndwp-state: rests\naynig-deferred: {slot}\n");
    repo.branch_from("task", "task", forged.as_bytes());
    let output = repo.aynig_ok(["run", "--drain"]);
    assert_eq!(
        (repo.noted_lines("ran"), slots(&repo)),
        (vec!["task".to_owned()], vec![]),
        "{}",
        told(&output)
    );
}

/// CONTRACT 5.34, 11.13
#[test]
fn the_default_branch_gets_no_deferred_state_unless_it_is_named() {
    let repo = scene().into_bare();
    let slot = forge(&repo, "main", &message("main"), &["main"]);
    let head = repo.head("main");
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!((repo.head("main"), repo.head("refs/aynig/deferred/main")), (head, slot));
    let output = repo.aynig_ok(["run", "--drain", "--branch", "main"]);
    assert_eq!((repo.state("main"), slots(&repo)), ("done".to_owned(), vec![]), "{}", told(&output));
}

/// CONTRACT 5.34
#[test]
fn a_branch_that_somebody_has_checked_out_is_left_alone() {
    let repo = scene();
    repo.ready("task", "slow");
    repo.aynig_ok(later("task", &[]));
    repo.branch_from("task", "task", b"s\n\ndwp-state: rests\n");
    let (head, person) = (repo.head("task"), repo.beside("person"));
    let person = person.to_str().expect("text");
    repo.git(["worktree", "add", "-q", person, "task"]);
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!((repo.head("task"), slots(&repo).len()), (head, 1));
    repo.git(["worktree", "remove", person]);
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!((repo.state("task"), slots(&repo)), ("done".to_owned(), vec![]));
}

/// CONTRACT 5.33, 5.36
#[test]
fn a_cancelled_branch_gets_the_state_at_once_whatever_stalled_would_run() {
    let repo = Repo::scene(&[("stalled", "next rests"), ("work", "next done")]);
    repo.branch_with_message("task", b"stalled: enough\n\ndwp-state: stalled\naynig-cancel: stall\n");
    repo.aynig_ok(later("task", &[]));
    assert_eq!((repo.state("task"), slots(&repo)), ("work".to_owned(), vec![]));
}

/// CONTRACT 1.11, 5.34
#[test]
fn what_is_no_slot_stays_and_stops_nothing() {
    let good = message("task");
    let nul = [&b"later\0\n"[..], &good].concat();
    let many = vec!["task", "main"];
    for (what, bytes, parents) in [
        ("NUL", nul.as_slice(), vec!["task"]),
        ("no parent", &good, vec![]),
        ("two parents", &good, many),
        ("a lease", b"later\n\ndwp-state: working\naynig-slot: task\n", vec!["task"]),
        ("another branch", b"later\n\ndwp-state: work\naynig-slot: task\naynig-slot: other\n", vec!["task"]),
        ("an escape", b"later\n\ndwp-state: ../../x\naynig-slot: task\n", vec!["task"]),
        ("nothing", b"", vec!["task"]),
    ] {
        let repo = scene();
        repo.ready("task", "rests");
        repo.ready("other", "work");
        let slot = forge(&repo, "task", bytes, &parents);
        let head = repo.head("task");
        let output = repo.aynig_ok(["run", "--drain"]);
        assert_eq!((repo.head("task"), repo.head("refs/aynig/deferred/task")), (head, slot), "{what}");
        assert_eq!(repo.noted_lines("ran"), ["other"], "{what}: {}", told(&output));
        assert!(err(&output).contains("was not delivered"), "{what}: {}", told(&output));
        for show in [["status", "task"], ["log", "task"], ["clean", "--deferred"]] {
            let shown = repo.aynig(show);
            assert_eq!(shown.status.code(), Some(0), "{what}: {}", told(&shown));
        }
    }
}

/// Makes a slot.
type Make = fn(&Repo);

/// CONTRACT 5.34
#[test]
fn a_slot_that_is_no_commit_stays_and_stops_nothing() {
    let make: [(&str, Make); 3] = [
        ("a file", |repo| {
            let blob = repo.git_with_input(&["hash-object", "-w", "--stdin"], b"x");
            repo.git(["update-ref", "refs/aynig/deferred/task", &blob]);
        }),
        ("a tag", |repo| {
            repo.git(["tag", "-a", "-m", "t", "t", "task"]);
            let tag = repo.git(["rev-parse", "t"]);
            repo.git(["update-ref", "refs/aynig/deferred/task", &tag]);
        }),
        ("a symbolic ref", |repo| {
            repo.git(["symbolic-ref", "refs/aynig/deferred/task", "refs/heads/other"]);
        }),
    ];
    for (what, make) in make {
        let repo = scene();
        repo.ready("task", "rests");
        repo.ready("other", "work");
        make(&repo);
        let (head, other) = (repo.head("task"), repo.head("other"));
        let output = repo.aynig_ok(["run", "--drain"]);
        assert_eq!(repo.head("task"), head, "{what}: {}", told(&output));
        assert_eq!(repo.noted_lines("ran"), ["other"], "{what}: {}", told(&output));
        assert_ne!(repo.head("other"), other);
        for show in [vec!["status", "task"], vec!["log", "task"], vec!["clean", "--deferred"]] {
            let shown = repo.aynig(show);
            assert_eq!(shown.status.code(), Some(0), "{what}: {}", told(&shown));
        }
        let sent = repo.aynig(later("task", &["--subject", "mine"]));
        assert!(matches!(sent.status.code(), Some(0 | 1 | 3)), "{what}: {}", told(&sent));
        assert_eq!(repo.state("other"), "done", "{what}: nothing behind it is moved");
    }
}

/// CONTRACT 3.7, 5.34
#[test]
fn a_large_state_is_delivered_whole() {
    let repo =
        Repo::scene(&[("slow", "next rests"), ("work", r#"wc -c <"$BODY_PATH" >>"$ROOM/ran"; next done"#)]);
    repo.ready("task", "rests");
    let body = "0123456789\n".repeat(300_000);
    let text = format!("later\n\n{body}\ndwp-state: work\naynig-slot: task\n");
    let slot = forge(&repo, "task", text.as_bytes(), &["task"]);
    let output = repo.aynig_ok(["run", "--drain"]);
    assert_eq!((repo.state("task"), deliveries(&repo, "task")), ("done".to_owned(), 1), "{}", told(&output));
    let taken: usize = repo.noted_lines("ran")[0].trim().parse().expect("a number");
    assert!(taken + 2 > body.len(), "{taken}");
    repo.git(["update-ref", "refs/aynig/deferred/task", &slot]);
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!((slots(&repo), deliveries(&repo, "task")), (vec![], 1));
}

/// CONTRACT 5.32
#[test]
fn a_stale_slot_in_a_clone_hides_none_below_its_name() {
    let hub = scene().into_bare();
    hub.ready("a", "slow");
    let (one, two) = (hub.clone_beside("one"), hub.clone_beside("two"));
    let remote = ["--remote", "origin"];
    one.aynig_ok(later("a", &remote));
    one.aynig_ok(["run", "--remote", "origin", "--branch", "main"]);
    assert!(one.git(["for-each-ref", "refs/aynig/slots/"]).ends_with("/a"));
    hub.git(["update-ref", "-d", "refs/aynig/deferred/a"]);
    hub.git(["branch", "-D", "a"]);
    hub.ready("a/b", "slow");
    two.aynig_ok(later("a/b", &["--remote", "origin", "--subject", "first"]));
    one.git(["update-ref", "-d", "refs/aynig/remotes/origin/a"]);
    let late = one.aynig(later("a/b", &["--remote", "origin", "--subject", "second"]));
    assert_refused(&late, 1, &["waits for a/b already"]);
}

/// CONTRACT 5.32
#[test]
fn a_slot_of_a_deleted_branch_that_is_in_the_way_is_named() {
    let repo = scene();
    repo.ready("a", "slow");
    repo.aynig_ok(later("a", &[]));
    repo.git(["branch", "-D", "a"]);
    repo.ready("a/b", "slow");
    let output = repo.aynig(later("a/b", &[]));
    assert_eq!(output.status.code(), Some(3), "{}", told(&output));
    assert!(err(&output).contains("refs/aynig/deferred/a exists"), "{}", told(&output));
    assert!(err(&output).contains("aynig clean --deferred"), "{}", told(&output));
    repo.aynig_ok(["clean", "--deferred", "--apply"]);
    repo.aynig_ok(later("a/b", &[]));
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(repo.noted_lines("ran"), ["a/b"]);
}

/// CONTRACT 5.31, 5.33, 11.21
#[test]
fn a_question_to_nobody_in_particular_is_one() {
    let repo = scene();
    let asks = "may I?\n\ndwp-state: approval\ndwp-waits-for:\ndwp-answers: work\n";
    for branch in ["slot", "cancelled"] {
        repo.branch_with_message(branch, asks.as_bytes());
    }
    repo.aynig_ok(later("slot", &[]));
    assert_eq!(
        (repo.state("slot").as_str(), slots(&repo)),
        ("approval", vec!["refs/aynig/deferred/slot".to_owned()])
    );
    repo.aynig_ok(["cancel", "cancelled"]);
    assert_eq!(repo.state("cancelled"), "stalled");
}

/// CONTRACT 5.26, 5.32
#[test]
fn a_condition_on_head_is_not_deferred() {
    let repo = scene();
    let head = repo.ready("due", "work");
    for condition in [["--expect", head.as_str()], ["--if-state", "work"]] {
        let output = repo.aynig(later("due", &condition));
        assert_refused(&output, 1, &["due is not free", "--expect", "nothing was changed", "aynig wait due"]);
    }
    assert_eq!((repo.head("due"), slots(&repo)), (head, Vec::new()));
    let head = repo.ready("rests", "nothing");
    repo.aynig_ok(later("rests", &["--expect", &head, "--if-state", "nothing"]));
    assert_eq!(repo.state("rests"), "work");
}
