//! Deferred states where signatures are required: each needs one of a trusted signer (CONTRACT 5.35).

use super::*;
use crate::deferred::{deliveries, slots};

/// A repository that requires signatures and whose runner signs. Its branch `task` is busy with a signed request.
fn busy() -> (Repo, Key, Key) {
    let (repo, known, unknown) =
        signing(&[("work", "next check"), ("check", r#"echo "$DWP_N" >>"$ROOM/ran"; next done"#)]);
    sign_with(&repo, &known);
    signed(&repo, "task", &known);
    (repo, known, unknown)
}

/// Makes a repository sign with a key.
fn sign_with(repo: &Repo, key: &Key) {
    repo.git(["config", "gpg.format", "ssh"]);
    repo.git(["config", "commit.gpgSign", "true"]);
    repo.git(["config", "user.signingKey", key.private.to_str().expect("text")]);
}

/// What a sender of the state `check` is called with.
fn check(more: &[&'static str]) -> Vec<&'static str> {
    let mut arguments =
        vec!["set-state", "--branch", "task", "--state", "check", "--when-free", "--trailer", "dwp-n: 1"];
    arguments.extend(more);
    arguments
}

/// Leaves a slot that is signed by `key`, or not at all, while the branch is busy; then the branch rests.
fn left(repo: &Repo, known: &Key, key: Option<&Key>) -> String {
    match key {
        Some(key) => sign_with(repo, key),
        None => drop(repo.git(["config", "commit.gpgSign", "false"])),
    }
    repo.aynig_ok(check(&[]));
    let sign = format!("-S{}", known.private.display());
    let message = "please\n\ndwp-state: rests";
    let rests = repo.git(["commit-tree", &sign, "-p", "task", "-m", message, "main^{tree}"]);
    repo.git(["update-ref", "refs/heads/task", &rests]);
    sign_with(repo, known);
    repo.head("refs/aynig/deferred/task")
}

/// CONTRACT 5.35
#[test]
fn only_a_slot_of_a_trusted_signer_is_delivered() {
    for (signer, words) in
        [("nobody", "is not signed"), ("a stranger", "not among those trusted"), ("known", "")]
    {
        let (repo, known, unknown) = busy();
        let key = match signer {
            "nobody" => None,
            "a stranger" => Some(&unknown),
            _ => Some(&known),
        };
        let slot = left(&repo, &known, key);
        let head = repo.head("task");
        let output = repo.aynig_ok(["run", "--drain"]);
        if signer == "known" {
            assert_eq!((repo.state("task"), slots(&repo)), ("done".to_owned(), vec![]), "{}", told(&output));
            assert_eq!((deliveries(&repo, "task"), repo.noted_lines("ran").len()), (1, 1));
            assert_eq!(repo.trailer("task~2", "aynig-deferred"), slot);
            repo.git(["verify-commit", "task~2"]);
        } else {
            assert_eq!((repo.head("task"), repo.head("refs/aynig/deferred/task")), (head, slot), "{signer}");
            let said = err(&output);
            assert!(said.contains("was not delivered") && said.contains(words), "{signer}: {said}");
        }
    }
}

/// CONTRACT 5.35
#[test]
fn a_changed_slot_is_not_delivered() {
    let (repo, known, _) = busy();
    let slot = left(&repo, &known, Some(&known));
    let object = repo.git(["cat-file", "commit", &slot]).replace("dwp-n: 1", "dwp-n: 2");
    let changed = repo.git_with_input(&["hash-object", "-t", "commit", "-w", "--stdin"], object.as_bytes());
    repo.git(["update-ref", "refs/aynig/deferred/task", &changed]);
    let output = repo.aynig_ok(["run", "--drain"]);
    assert_eq!((repo.state("task"), slots(&repo).len()), ("rests".to_owned(), 1));
    assert!(err(&output).contains("is bad"), "{}", told(&output));
}

/// CONTRACT 5.35
#[test]
fn a_runner_that_signs_nothing_delivers_nothing() {
    let (repo, known, _) = busy();
    left(&repo, &known, Some(&known));
    repo.git(["config", "commit.gpgSign", "false"]);
    let output = repo.aynig_ok(["run", "--drain"]);
    assert_eq!((repo.state("task"), slots(&repo).len()), ("rests".to_owned(), 1));
    assert!(err(&output).contains("signs nothing (commit.gpgSign)"), "{}", told(&output));
}

/// CONTRACT 5.24, 5.34, 5.35
#[cfg(debug_assertions)]
#[test]
fn a_runner_killed_anywhere_delivers_a_signed_slot_once() {
    use std::os::unix::process::ExitStatusExt;
    for point in ["delivery-written", "ref-locked", "refs-half-moved"] {
        let (repo, known, _) = busy();
        left(&repo, &known, Some(&known));
        let killed = repo.aynig_command().arg("run").env("AYNIG_CRASH_AT", point).output().expect("it runs");
        assert_eq!(killed.status.signal(), Some(9), "{point}: {}", told(&killed));
        repo.aynig_ok(["run", "--drain"]);
        assert_eq!((deliveries(&repo, "task"), slots(&repo)), (1, vec![]), "{point}");
        assert_eq!((repo.state("task"), repo.noted_lines("ran").len()), ("done".into(), 1), "{point}");
    }
}

/// CONTRACT 5.35, 12.11
#[test]
fn through_a_hub_a_signed_slot_is_delivered_and_others_are_not() {
    let (repo, known, unknown) = busy();
    // The clones know the keys, and sign.
    let allowed = repo.beside("allowed");
    let hub = repo.into_bare();
    hub.git(["config", "gpg.format", "ssh"]);
    let clones = ["one", "two"].map(|name| {
        let clone = hub.clone_beside(name);
        clone.git(["config", "gpg.ssh.allowedSignersFile", allowed.to_str().expect("text")]);
        clone.git(["config", "aynig.requireSigned", "true"]);
        sign_with(&clone, &known);
        clone
    });
    let [one, two] = &clones;
    for (key, delivered) in [(&unknown, 0), (&known, 1)] {
        sign_with(one, key);
        one.aynig_ok(check(&["--remote", "origin"]));
        let output = two.aynig_ok(["run", "--remote", "origin", "--drain"]);
        assert_eq!(deliveries(&hub, "task"), delivered, "{}", told(&output));
        assert_eq!(err(&output).contains("not among those trusted"), delivered == 0, "{}", told(&output));
        if delivered == 0 {
            assert_eq!(slots(&hub).len(), 1);
            hub.git(["update-ref", "-d", "refs/aynig/deferred/task"]);
            signed(&hub, "task", &known);
        }
    }
    assert_eq!((hub.state("task"), slots(&hub)), ("done".into(), vec![]));
    // `work` leads to `check` as well, without the number.
    assert_eq!(hub.noted_lines("ran").iter().filter(|line| *line == "1").count(), 1);
}
