//! What messages name as the next step.

use super::scene::*;
use super::support::*;

#[test]
fn a_run_that_leaves_a_branch_stalled_says_what_to_type() {
    let line = |branch: &str, remote: &str| {
        format!(
            "{branch}: `aynig logs --branch {branch}{remote}` shows what it printed, `aynig set-state --retry --branch \
             {branch}{remote}` asks again"
        )
    };
    let last = |output: &std::process::Output| out(output).lines().last().unwrap_or_default().to_owned();
    let repo = Repo::scene(&[("work", "next check"), ("check", "exit 3")]);
    repo.ready("task", "work");
    let output = repo.aynig(["run", "--drain"]);
    assert_eq!((output.status.code(), last(&output)), (Some(1), line("task", "")), "{}", told(&output));
    assert_eq!(err(&output), "", "no warnings");
    assert_eq!(out(&repo.aynig_ok(["run", "--drain"])), "", "it is said once");
    repo.ready("quiet", "check");
    assert!(last(&repo.aynig(["run", "-q"])).contains("→ stalled"));
    // A command for `stalled` goes on by itself.
    repo.command(".aynig/command/stalled", "echo 'SET_STATE {\"state\":\"done\"}'");
    repo.commit_all("a command for stalled");
    repo.ready("handled", "check");
    assert!(last(&repo.aynig(["run", "handled"])).contains("→ stalled"));
    let hub = Repo::scene(&[("work", "exit 3")]).into_bare();
    hub.ready("task", "work");
    let clone = hub.clone_beside("clone");
    let output = clone.aynig(["run", "--remote", "origin", "--json"]);
    assert_eq!(
        err(&output).lines().last(),
        Some(line("task", " --remote origin").as_str()),
        "{}",
        told(&output)
    );
}

#[test]
fn logs_of_a_branch_that_only_a_remote_has_names_the_remote_and_the_host() {
    let hub = Repo::scene(&[("work", "next done")]).into_bare();
    hub.ready("task", "work");
    let (here, there) = (hub.clone_beside("here"), hub.clone_beside("there"));
    here.aynig_ok(["run", "--remote", "origin"]);
    there.git(["fetch", "--quiet"]);
    let words = ["task is neither a branch nor a commit", "`--remote origin`", "was made by test-host"];
    assert_refused(&there.aynig(["logs", "task"]), 1, &words);
    assert_refused(&there.aynig(["logs", "tosk~1"]), 2, &["tosk~1 is neither a branch nor a commit"]);
    there.git(["branch", "tusk"]);
    assert_refused(&there.aynig(["logs", "tosk"]), 1, &["did you mean tusk?"]);
    let by_id = there.aynig(["logs", "--attempt", "0123"]);
    assert_refused(&by_id, 1, &["`aynig log BRANCH --leases` names"]);
    there.git(["config", "aynig.remote", "origin"]);
    let by_id = there.aynig(["logs", "--attempt", "0123"]);
    assert_refused(&by_id, 1, &["`aynig log BRANCH --remote origin --leases` names"]);
}
