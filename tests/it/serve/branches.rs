//! Branches that wait for somebody, answered over the server.

use super::*;

/// A branch that waits, and its newest commit.
fn waiting(repo: &Repo, branch: &str, answers: &[&str]) -> String {
    repo.git(["branch", branch]);
    let list = format!("dwp-answers: {}", answers.join(", "));
    let mut words =
        vec!["set-state", "--branch", branch, "--state", "approval", "--subject", "May it go out?"];
    words.extend(["--body", "The notes.", "--trailer", "dwp-waits-for: ana"]);
    if !answers.is_empty() {
        words.extend(["--trailer", &list]);
    }
    repo.aynig_ok(words);
    repo.git(["rev-parse", branch])
}

/// CONTRACT 23.10
#[test]
fn a_branch_that_waits_is_answered_over_the_server() {
    let repo = Repo::new();
    let server = Server::of(&repo);
    let asked = waiting(&repo, "release", &["approved", "rejected"]);
    let answer = |branch: &str, state: &str, expect: &str, more: &str| {
        let body = format!(r#"{{"branch":"{branch}","state":"{state}","expect":"{expect}"{more}}}"#);
        server.post("/api/branches/answer", &body)
    };
    let main = repo.git(["rev-parse", "main"]);
    for (branch, state, expect, more, wanted, field) in [
        ("nope", "approved", &asked[..], "", (404, "not_found"), ""),
        ("-x", "approved", &asked, "", (422, "invalid"), "branch"),
        ("release", "of course", &asked, "", (422, "invalid"), "state"),
        ("release", "maybe", &asked, "", (422, "invalid"), ""),
        ("release", "working", &asked, "", (422, "invalid"), ""),
        ("release", "approved", "abc", "", (422, "invalid"), "expect"),
        ("release", "approved", "release", "", (422, "invalid"), "expect"),
        ("release", "approved", &main, "", (409, "conflict"), ""),
        ("release", "approved", &asked, r#","comment":" ""#, (422, "invalid"), "comment"),
        ("release", "approved", &asked, r#","force":true"#, (422, "invalid"), "force"),
        ("main", "approved", &main, "", (409, "conflict"), ""),
    ] {
        let given = answer(branch, state, expect, more);
        let what = format!("{branch} {state} {expect} {more}: {}", given.json());
        assert_eq!(given.refused(), (wanted.0, wanted.1.to_owned()), "{what}");
        if !field.is_empty() {
            assert_eq!(given.json()["field"], field, "{what}");
        }
    }
    assert_eq!(repo.git(["rev-parse", "release"]), asked, "nothing was changed");

    let given = answer("release", "approved", &asked[..10], r#","comment":"Well done."#);
    assert_eq!(given.status, 400, "no JSON");
    let given = answer("release", "approved", &asked[..10], r#","comment":"Well done.""#).ok();
    let commit = given["answer"]["commit"].as_str().expect("a commit");
    assert_eq!(commit, repo.git(["rev-parse", "release"]));
    assert_eq!(given["answer"]["parent"], asked);
    assert_eq!(given["answer"]["previousState"], "approval");
    assert_eq!(given["warnings"], serde_json::json!([]));
    let message = repo.git(["log", "-1", "--format=%B", "release"]);
    for words in ["dwp-state: approved", "The notes.", "Well done.", &format!("aynig-answers: {asked}")] {
        assert!(message.contains(words), "{words}: {message}");
    }
    let late = answer("release", "rejected", &asked, "");
    assert_eq!(late.refused(), (409, "conflict".to_owned()), "somebody else was first");
    assert!(late.json()["hint"].as_str().is_some_and(|hint| hint.contains("answered with approved")));

    let asked = waiting(&repo, "open", &[]);
    answer("open", "anything", &asked, "").ok();
    assert!(repo.git(["log", "-1", "--format=%B", "open"]).contains("dwp-state: anything"));
}
