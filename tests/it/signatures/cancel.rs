//! A request to cancel, where signatures are required.

use super::*;

/// CONTRACT 5.30, 13.4
#[test]
fn only_a_signed_request_is_heeded() {
    let (repo, known, _) = signing(&[("work", "say ready $$; await release; next done")]);
    repo.git(["config", "commit.gpgSign", "true"]);
    repo.git(["config", "user.signingKey", known.private.to_str().expect("text")]);
    signed(&repo, "task", &known);
    let runner = repo.aynig_start(["run", "--lease-seconds", "3"]);
    let command = repo.said_pid("ready");
    let mut unsigned = repo.aynig_command();
    unsigned.envs([
        ("GIT_CONFIG_COUNT", "1"),
        ("GIT_CONFIG_KEY_0", "commit.gpgSign"),
        ("GIT_CONFIG_VALUE_0", "false"),
    ]);
    let output = unsigned.args(["cancel", "task"]).output().expect("aynig runs");
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    let request = repo.head("task");
    assert_eq!(repo.trailer(&request, "aynig-cancel"), "stall");
    wait_until("two renewals on top", || repo.linear(&format!("{request}..task")).len() >= 2);
    assert!(command.lives(), "an unsigned request is not heeded");
    let row = listed(&repo.aynig_ok(["status", "task", "--json"]))[0].clone();
    let note = row["note"].as_str().unwrap_or_default();
    assert!(note.starts_with("a request to cancel by Test Person was not heeded: "), "{row:#}");
    assert_eq!(row["cancelBy"], serde_json::Value::Null, "{row:#}");
    let output = repo.aynig(["cancel", "task", "--reason", "enough", "--wait"]);
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    let ran = runner.finish();
    assert_eq!(ran.status.code(), Some(1), "{}", told(&ran));
    assert_eq!(err(&ran).matches("was not heeded").count(), 1, "{}", told(&ran));
    assert_eq!(repo.state("task"), "stalled");
    assert!(repo.message("task").contains("enough"), "{}", repo.message("task"));
}

/// CONTRACT 5.30, 13.4
#[test]
fn an_unsigned_request_does_not_hide_a_signed_one_below_it() {
    let (repo, known, _) = signing(&[("work", "say ready $$; await release; next done")]);
    repo.git(["config", "commit.gpgSign", "true"]);
    repo.git(["config", "user.signingKey", known.private.to_str().expect("text")]);
    signed(&repo, "task", &known);
    let runner = repo.aynig_start(["run"]);
    repo.said("ready");
    let pid = nix::unistd::Pid::from_raw(runner.pid());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGSTOP).expect("it runs");
    let output = repo.aynig(["cancel", "task", "--reason", "enough"]);
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    let request = repo.message("task");
    let forged = repo.git(["commit-tree", "--no-gpg-sign", "-p", "task", "-m", &request, "task^{tree}"]);
    repo.git(["update-ref", "refs/heads/task", &forged]);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGCONT).expect("it runs");
    let ran = runner.finish();
    assert_eq!(ran.status.code(), Some(1), "{}", told(&ran));
    assert_eq!(err(&ran).matches("was not heeded").count(), 1, "{}", told(&ran));
    assert_eq!(repo.state("task"), "stalled");
    assert!(repo.message("task").contains("enough"), "{}", repo.message("task"));
}
