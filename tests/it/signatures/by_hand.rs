//! Signatures of `set-state` and `set-working`: they sign nothing on top of an untrusted HEAD unless a person
//! accepts it (CONTRACT 13.10).

use super::*;

/// A repository that signs and requires signatures.
fn place(commands: &[(&str, &str)]) -> (Repo, Key) {
    let (repo, known, _) = signing(commands);
    repo.git(["config", "commit.gpgSign", "true"]);
    repo.git(["config", "user.signingKey", known.private.to_str().expect("text")]);
    (repo, known)
}

/// A commit by someone without a key on `branch`, with an own command for `work`.
fn intrude(repo: &Repo, branch: &str, message: &str) -> String {
    repo.git(["checkout", "-q", "--detach", "main"]);
    repo.command(".aynig/command/work", &repo.scripted("say evil yes; next done"));
    repo.git(["add", "--all"]);
    let tree = repo.git(["write-tree"]);
    repo.git(["reset", "-q", "--hard"]);
    repo.git(["checkout", "-q", "main"]);
    let base = repo.git(["rev-parse", "--verify", "--quiet", &format!("refs/heads/{branch}")]);
    let commit = repo.git(["commit-tree", "--no-gpg-sign", "-p", &base, "-m", message, &tree]);
    repo.git(["update-ref", &format!("refs/heads/{branch}"), &commit]);
    commit
}

/// CONTRACT 13.10
#[test]
fn an_unsigned_head_is_not_signed_without_a_word() {
    let (repo, known) = place(&[("work", "say good yes; next done")]);
    signed(&repo, "task", &known);
    let evil = intrude(&repo, "task", "stalled\n\ndwp-state: stalled");
    let short = &evil[..10];
    for verb in [
        &["set-state", "--retry", "--branch", "task"][..],
        &["set-state", "--state", "work", "--branch", "task"],
        &["set-working", "--branch", "task"],
    ] {
        let output = repo.aynig(verb.iter().copied());
        assert_refused(&output, 3, &["task", short, "is not signed", "git show", "--accept-unsigned"]);
        assert_eq!(repo.head("task"), evil, "{verb:?}");
    }
    repo.git(["checkout", "-q", "task"]);
    assert_refused(&repo.aynig(["set-state", "--state", "work"]), 3, &["is not signed"]);
    repo.git(["checkout", "-q", "main"]);
    // The messages about such a branch do not lead anyone to sign it blindly.
    let status = reason(&repo, "task");
    for words in ["is not signed", "git show", "--retry --accept-unsigned --branch task"] {
        assert!(status.contains(words), "{words}: {status}");
    }
    let doctor = out(&repo.aynig(["doctor"]));
    let line = doctor.lines().find(|line| line.starts_with("warning") && line.contains("task"));
    assert!(line.is_some_and(|line| line.contains(short) && line.contains("not signed")), "{doctor}");
    assert!(doctor.contains(&format!("git show {short}")), "{doctor}");
    repo.aynig_ok(["run"]);
    assert!(!was_said(&repo, "evil"));
    repo.aynig_ok(["set-state", "--retry", "--branch", "task", "--accept-unsigned"]);
    assert_eq!(repo.git(["log", "-1", "--no-show-signature", "--format=%G?", "task"]), "G");
    repo.aynig_ok(["run"]);
    assert!(was_said(&repo, "evil"), "a person accepts it");
}

/// CONTRACT 13.10
#[test]
fn what_is_asked_again_was_asked_with_a_signature() {
    let (repo, known) = place(&[("work", "say body \"$BODY\"; next done")]);
    signed(&repo, "task", &known);
    let evil = intrude(&repo, "task", "please\n\nsteal\n\ndwp-state: work");
    let sign = format!("-S{}", known.private.display());
    let stalled =
        repo.git(["commit-tree", &sign, "-p", "task", "-m", "s\n\ndwp-state: stalled", "main^{tree}"]);
    repo.git(["update-ref", "refs/heads/task", &stalled]);
    let output = repo.aynig(["set-state", "--retry", "--branch", "task"]);
    assert_refused(&output, 3, &[&evil[..10], "is not signed", "--accept-unsigned"]);
    assert_eq!(repo.head("task"), stalled);
    repo.aynig_ok(["set-state", "--state", "work", "--branch", "task"]);
}

/// CONTRACT 13.10
#[test]
fn a_commit_that_is_not_signed_itself_vouches_for_nothing() {
    let (repo, known) = place(&[("work", "next done")]);
    signed(&repo, "task", &known);
    intrude(&repo, "task", "stalled\n\ndwp-state: stalled");
    repo.git(["config", "commit.gpgSign", "false"]);
    repo.aynig_ok(["set-state", "--retry", "--branch", "task"]);
    repo.aynig_ok(["run"]);
    assert_eq!(repo.state("task"), "work", "and it is not run");
    repo.git(["config", "commit.gpgSign", "true"]);
    repo.git(["config", "aynig.requireSigned", "false"]);
    repo.aynig_ok(["set-state", "--retry", "--branch", "task"]);
}

/// CONTRACT 13.10
#[test]
fn a_command_is_asked_as_well_but_for_its_own_commits() {
    let own = "echo own >own; git add own; git commit -q --no-gpg-sign -m own";
    let (repo, known) = place(&[
        ("work", &format!(r#"{own}; "$AYNIG_BIN" set-state --state done"#)),
        ("away", &format!(r#"{own}; cd "$AYNIG_GIT_DIR"; "$AYNIG_BIN" set-state --state done"#)),
        ("child", r#""$AYNIG_BIN" set-state --branch other --state work 2>"$ROOM/told"; say code "$?""#),
    ]);
    signed(&repo, "task", &known);
    repo.aynig_ok(["run"]);
    assert_eq!((repo.state("task").as_str(), repo.show("task:own").as_str()), ("done", "own"));
    repo.aynig_ok(["set-state", "--branch", "task", "--state", "away"]);
    repo.aynig_ok(["run"]);
    assert_eq!(repo.state("task"), "done");
    signed(&repo, "other", &known);
    let evil = intrude(&repo, "other", "plain");
    repo.aynig_ok(["set-state", "--branch", "task", "--state", "child"]);
    repo.aynig(["run"]);
    assert_eq!(repo.said("code"), "3");
    assert!(repo.noted_lines("told").iter().any(|line| line.contains("--accept-unsigned")));
    assert_eq!(repo.head("other"), evil);
}
