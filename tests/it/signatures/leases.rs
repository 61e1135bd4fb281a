//! Expired leases without a trusted signature: no runner closes them, and every subcommand that looks reports
//! them.

use super::*;

const RUN: &str = "31111111-2222-4333-8444-555555555555";

/// CONTRACT 13.4
#[test]
fn an_unsigned_lease_that_is_over_is_told_by_all_who_look() {
    let (repo, known, _) = signing(&[("work", "next done")]);
    signed(&repo, "other", &known);
    repo.git(["branch", "task"]);
    let lease = repo.foreign_lease("task", RUN, "other-host", 5, 1000);
    let short = &lease[..10];
    let told = [
        "its lease is over and is not closed",
        &format!("commit {short} is not signed"),
        &format!("git show {short}"),
        "aynig set-state --retry --accept-unsigned --branch task",
    ];
    let has_all = |text: &str| told.iter().all(|words| text.contains(words));
    let run = repo.aynig_ok(["run", "--log-level", "info"]);
    let said = err(&run);
    assert!(said.lines().any(|line| line.contains("warning: task: ") && has_all(line)), "{said}");
    let row = &listed(&repo.aynig_ok(["status", "--branch", "task", "--json"]))[0];
    for (name, value) in [("kind", "expired"), ("state", "working"), ("runId", RUN), ("runner", "other-host")]
    {
        assert_eq!(row[name], value, "{row}");
    }
    assert!(
        row["expiresAt"].is_string() && row["secondsLeft"].as_i64().is_some_and(|left| left < 0),
        "{row}"
    );
    assert!(row["note"].as_str().is_some_and(has_all), "{row}");
    for arguments in [&["status", "--all"][..], &["status", "task"]] {
        let status = out(&repo.aynig_ok(arguments.iter().copied()));
        assert!(has_all(&status) && status.contains("other-host"), "{status}");
    }
    let doctor = out(&repo.aynig(["doctor"]));
    assert!(
        doctor.lines().any(|line| line.starts_with("warning") && line.contains("task: its lease")),
        "{doctor}"
    );
    assert!(has_all(&doctor), "{doctor}");
    assert_eq!(repo.head("task"), lease, "nothing was written");
    // A live one is not reported yet.
    repo.git(["branch", "-f", "task", "main"]);
    repo.foreign_lease("task", RUN, "other-host", 500, 0);
    assert!(!err(&repo.aynig_ok(["run"])).contains("task"));
    let row = &listed(&repo.aynig_ok(["status", "--branch", "task", "--json"]))[0];
    assert_eq!((&row["kind"], &row["note"]), (&"working".into(), &serde_json::Value::Null));
}
