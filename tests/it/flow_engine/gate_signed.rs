//! Approvers that are keys: an answer counts if git says that this key signed it.

use std::process::Command;

use super::gate::{asked, become_person, clone, push_answer, push_signed, refused, subject, with};
use super::*;
use crate::signatures::{Key, key};

/// The fingerprint of a key, as `approvers` has it.
fn named(key: &Key) -> String {
    let mut keygen = Command::new("ssh-keygen");
    let shown = keygen.arg("-lf").arg(key.private.with_extension("pub")).output().expect("ssh-keygen runs");
    let line = String::from_utf8(shown.stdout).expect("UTF-8");
    format!("key:{}", line.split(' ').nth(1).expect("a fingerprint"))
}

/// Lets git check signatures by these keys, and sign by the first one.
pub(super) fn trusts(repo: &Repo, keys: &[&Key]) {
    let allowed = repo.beside("allowed");
    let lines: String = keys.iter().map(|key| format!("person@example.com {}", key.public)).collect();
    std::fs::write(&allowed, lines).expect("a file");
    signs_by(repo, keys[0]);
    repo.git(["config", "gpg.ssh.allowedSignersFile", allowed.to_str().expect("text")]);
}

fn signs_by(repo: &Repo, key: &Key) {
    repo.git(["config", "gpg.format", "ssh"]);
    repo.git(["config", "user.signingKey", key.private.to_str().expect("text")]);
}

/// The answers of record: addresses, signatures and fingerprints.
fn answers(repo: &Repo, run: &Started) -> Vec<[String; 3]> {
    let lines = out(&repo.aynig_ok(["orch", "events", &run.id, "--json"]));
    let events =
        lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON")["event"].clone());
    let answers =
        events.filter(|event| matches!(event["type"].as_str(), Some("approval.given" | "approval.resolved")));
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    answers
        .map(|event| {
            let by = &event["by"]["person"];
            [text(&by["email"]), text(&by["signature"]["state"]), text(&by["signature"]["key"])]
        })
        .collect()
}

/// CONTRACT 20.25
#[test]
fn an_answer_by_key_is_signed_and_nobody_else_answers() {
    let repo = Repo::new();
    let (own, other) = (key(&repo, "own"), key(&repo, "other"));
    trusts(&repo, &[&own, &other]);
    repo.git(["config", "aynig.approver.lead", &named(&own)]);
    let run = asked(&repo, &with("    approvers: [lead]\n"));
    // An address in git's configuration is not the key.
    signs_by(&repo, &other);
    let (code, words) = refused(&repo, &["flow", "approve", &run.slug]);
    assert_eq!(code, Some(1), "{words}");
    assert!(words.contains("is not asked") && words.contains(&named(&other)), "{words}");
    repo.git(["config", "user.signingKey", "/nowhere/key"]);
    let (code, words) = refused(&repo, &["flow", "approve", &run.slug]);
    assert_eq!(code, Some(3), "{words}");
    assert!(words.contains("the answer was not signed") && words.contains("user.signingKey"), "{words}");
    assert_eq!(steps(&repo, &run), ["ask"]);
    signs_by(&repo, &own);
    let approved = repo.aynig_ok(["flow", "approve", &run.slug, "--comment", "fine"]);
    assert!(told(&approved).contains(&format!("signed by {}", named(&own))), "{}", told(&approved));
    let key = named(&own).replace("key:", "");
    assert_eq!(answers(&repo, &run), [["person@example.com".to_owned(), "good".to_owned(), key]]);
    // What was signed stays: it is below the driver's state.
    let signed = repo.git(["log", "--format=%G? %s %b", &run.driver]);
    assert!(signed.lines().any(|line| line.starts_with("G result: approved fine")), "{signed}");
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&repo, &run), ["ask gate_approved STOP"]);
}

/// CONTRACT 20.25
#[test]
fn people_are_told_apart_by_address_and_by_key() {
    let repo = Repo::new();
    let (own, other) = (key(&repo, "own"), key(&repo, "other"));
    trusts(&repo, &[&own, &other]);
    let both = format!("    approvers: [\"{}\", \"{}\"]\n    required: 2\n", named(&own), named(&other));
    let run = asked(&repo, &with(&both));
    repo.aynig_ok(["flow", "approve", &run.slug]);
    become_person(&repo, "else@example.com");
    let again = repo.aynig_ok(["flow", "approve", &run.slug]);
    assert!(told(&again).contains("1 of 2 approvals are there"), "{}", told(&again));
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&repo, &run), ["ask"], "one key is one person");
    become_person(&repo, "person@example.com");
    signs_by(&repo, &other);
    repo.aynig_ok(["flow", "approve", &run.slug]);
    assert_eq!(steps(&repo, &run), ["ask"], "one address is one person");
    become_person(&repo, "other@example.com");
    repo.aynig_ok(["flow", "approve", &run.slug]);
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&repo, &run), ["ask gate_approved STOP"]);
}

/// CONTRACT 20.25, 20.26
#[test]
fn a_pushed_answer_by_key_counts_if_git_says_so() {
    let hub = Repo::new();
    let (one, other) = (clone(&hub, "one@example.com"), clone(&hub, "other@example.com"));
    let (own, foreign) = (key(&other, "own"), key(&other, "foreign"));
    trusts(&other, &[&own]);
    trusts(&one, &[&own, &foreign]);
    let run = start(&one, &flow("ask", &with(&format!("    approvers: [\"{}\"]\n", named(&own)))));
    one.aynig_ok(["run", "--drain"]);
    let seen = one.head(&run.work);
    let yes = format!("aynig-gate: result\naynig-answer: approved\naynig-tree: {seen}");
    push_answer(&other, &hub, &run, &yes);
    one.aynig_ok(["run", "--drain"]);
    assert!(subject(&hub, &run.driver).contains("did not sign it"), "{}", subject(&hub, &run.driver));
    push_signed(&other, &hub, &run, &yes, foreign.private.to_str());
    one.aynig_ok(["run", "--drain"]);
    assert!(subject(&hub, &run.driver).contains(&named(&foreign)), "{}", subject(&hub, &run.driver));
    push_signed(&other, &hub, &run, &yes, own.private.to_str());
    one.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&one, &run), ["ask gate_approved STOP"]);
    let key = named(&own).replace("key:", "");
    assert_eq!(answers(&one, &run), [["other@example.com".to_owned(), "good".to_owned(), key]]);
}

/// CONTRACT 20.25, 20.26
#[test]
fn a_host_that_cannot_check_a_pushed_answer_hands_the_driver_back() {
    let hub = Repo::new();
    let (one, other) = (clone(&hub, "one@example.com"), clone(&hub, "other@example.com"));
    let own = key(&other, "own");
    trusts(&other, &[&own]);
    one.git(["config", "aynig.runnerId", "blind"]);
    let run = start(&one, &flow("ask", &with(&format!("    approvers: [\"{}\"]\n", named(&own)))));
    one.aynig_ok(["run", "--drain"]);
    let yes = format!("aynig-gate: result\naynig-answer: approved\naynig-tree: {}", one.head(&run.work));
    push_signed(&other, &hub, &run, &yes, own.private.to_str());
    one.aynig(["run", "--drain"]);
    let told = hub.git(["log", "-1", "--format=%B", &run.driver]);
    assert!(told.contains("cannot be checked here"), "{told}");
    other.aynig_ok(["flow", "approve", &run.slug]);
    place_worktrees(&other);
    other.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&other, &run), ["ask gate_approved STOP"]);
}

/// CONTRACT 20.25
#[test]
fn any_answer_that_is_signed_is_recorded_as_such() {
    let repo = Repo::new();
    let own = key(&repo, "own");
    signs_by(&repo, &own);
    repo.git(["config", "commit.gpgSign", "true"]);
    let run = asked(&repo, &with("    required: 2\n"));
    repo.aynig_ok(["flow", "approve", &run.slug]);
    repo.git(["config", "commit.gpgSign", "false"]);
    become_person(&repo, "other@example.com");
    repo.aynig_ok(["flow", "approve", &run.slug]);
    let found = answers(&repo, &run);
    assert_eq!(found[0][..2], ["person@example.com".to_owned(), "unknown".to_owned()]);
    assert_eq!(found[1], ["other@example.com", "-", "-"]);
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&repo, &run), ["ask gate_approved STOP"]);
}
