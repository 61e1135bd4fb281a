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
    repo.ready("lost", "work");
    repo.foreign_lease("lost", "31111111-2222-4333-8444-555555555555", "other-host", 10, 60);
    let output = repo.aynig(["run"]);
    let elsewhere = "lost: `aynig set-state --retry --branch lost` asks again; this host has no log of it";
    assert_eq!(last(&output), elsewhere, "its lease was closed: {}", told(&output));
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

/// CONTRACT 11.25
#[test]
fn a_wait_shows_on_a_terminal_and_with_v_what_it_waits_for() {
    let repo = Repo::scene(&[("work", "say at $$; await release; next done")]);
    repo.ready("task", "work");
    repo.ready("over", "done");
    let mut wait = repo.aynig_start(["wait", "-v", "task", "over"]);
    wait.await_error("waiting for 1 branch: task");
    let runner = repo.aynig_start(["run"]);
    repo.said("at");
    wait.await_error("task  working (work)  working");
    repo.release("release");
    runner.finish();
    wait.await_error("task  done  rests");
    assert_eq!(out(&wait.finish()).lines().count(), 2, "the answer is as without it");
    repo.ready("task", "work");
    let ask = ["wait", "task", "--timeout", "0"];
    assert_eq!(err(&repo.aynig(ask)), "");
    let shown = |more: &[&str]| repo.in_terminal((24, 80), &[], &[&ask[..], more].concat()).finish().0;
    assert!(shown(&[]).contains("waiting for 1 branch: task") && !shown(&["-q"]).contains("waiting for"));
}

#[test]
fn a_retry_says_that_it_leaves_a_pause_out() {
    let repo = Repo::scene(&[("work", "next done")]);
    repo.git(["branch", "task"]);
    repo.aynig_ok([
        "set-state",
        "task",
        "--state",
        "work",
        "--trailer",
        "dwp-not-before: 2999-01-01T00:00:00Z",
    ]);
    repo.aynig_ok(["cancel", "task"]);
    let said = err(&repo.aynig_ok(["set-state", "--retry", "task"]));
    assert!(said.contains("task was to wait until 2999-01-01T00:00:00Z (dwp-not-before)"), "{said}");
    assert_eq!(repo.trailer("task", "dwp-not-before"), "");
    let line =
        said.split('`').nth(1).expect("a command").replacen("aynig", &binary().display().to_string(), 1);
    let mut shell = std::process::Command::new("sh");
    let typed = hermetic(&mut shell).current_dir(&repo.path).args(["-ec", &line]).output().expect("sh runs");
    assert!(typed.status.success(), "{}", told(&typed));
    assert_eq!(repo.trailer("task", "dwp-not-before"), "2999-01-01T00:00:00Z");
    repo.aynig_ok(["set-state", "--retry", "task"]);
    assert_eq!(err(&repo.aynig_ok(["set-state", "--retry", "task"])), "", "there is none any more");
}

#[test]
fn a_branch_of_a_remote_is_found_by_every_verb() {
    let hub = Repo::scene(&[("work", "next done")]).into_bare();
    hub.ready("task", "work");
    let clone = hub.clone_beside("clone");
    for name in ["task", "ta*"] {
        let said = err(&clone.aynig(["run", name]));
        assert!(
            said.contains("origin has one: add `--remote origin`") && !said.contains("`git branch`"),
            "{said}"
        );
    }
    for verb in [&["cancel", "tosk"][..], &["set-state", "tosk", "--state", "work"], &["answer", "tosk"]] {
        let output = clone.aynig(verb.iter().copied());
        assert_refused(&output, 1, &["did you mean task of origin? add `--remote origin`"]);
    }
    let output = clone.aynig(["cancel", "elsewhere", "--remote", "origin"]);
    assert_refused(&output, 1, &["no branch elsewhere on origin"]);
    assert!(!err(&output).contains("git push"), "there is nothing to cancel: {}", told(&output));
    let fresh = Repo::new();
    fresh.git(["remote", "add", "hub", "../nowhere"]);
    assert_refused(&fresh.aynig(["log", "task"]), 1, &["nothing was fetched from hub yet: `git fetch hub`"]);
}

#[test]
fn an_answer_to_a_cancelled_question_names_what_asks_it_again() {
    let repo = Repo::scene(&[]);
    repo.branch_with_message(
        "task",
        b"well?\n\ndwp-state: approval\ndwp-waits-for: ana\ndwp-answers: yes, no\n",
    );
    repo.aynig_ok(["cancel", "task"]);
    for arguments in [&["answer", "task"][..], &["answer", "task", "yes"]] {
        let words = "the question was cancelled; `aynig set-state task --retry` asks it again";
        assert_refused(&repo.aynig(arguments.iter().copied()), 1, &[words]);
    }
    repo.aynig_ok(["set-state", "task", "--retry"]);
    repo.aynig_ok(["answer", "task", "yes"]);
    assert_eq!(repo.state("task"), "yes");
}

#[test]
fn a_clone_without_states_says_where_to_look() {
    let hub = Repo::scene(&[("work", "next done")]).into_bare();
    let clone = hub.clone_beside("clone");
    hub.ready("task", "work");
    let line = "no branch here declares a state; `aynig status --all --remote origin` shows whether one of origin does";
    assert!(err(&clone.aynig_ok(["status", "--all"])).contains(line));
    assert!(out(&clone.aynig(["doctor"])).contains(line));
    assert!(clone.in_terminal((24, 200), &[], &["run"]).finish().0.contains(line));
    assert_eq!(err(&clone.aynig_ok(["run"])), "", "cron mails every output");
    clone.git(["config", "aynig.remote", ""]);
    assert!(!err(&clone.aynig_ok(["status", "--all"])).contains("no branch here"));
    clone.git(["config", "--unset", "aynig.remote"]);
    clone.ready("own", "work");
    assert!(!err(&clone.aynig_ok(["status", "--all"])).contains("no branch here"));
}

/// CONTRACT 5.32
#[test]
fn a_state_that_waits_names_the_holder() {
    let repo = Repo::scene(&[("work", "next done")]);
    repo.ready("task", "work");
    repo.taken_by_other("task", "task", 300);
    let said = out(&repo.aynig_ok(["set-state", "task", "--state", "work", "--when-free"]));
    let words = "work waits until the branch rests, held by other-host (attempt 11111111-";
    assert!(said.contains(words), "{said}");
}

/// `approved` is what becomes of `approve`, and no slip.
#[test]
fn a_final_state_that_inflects_a_command_is_not_asked_about() {
    let repo = Repo::scene(&[
        ("approve", "next approved"),
        ("close", "next closed"),
        ("approval", "next done"),
        ("release", "next relaese"),
    ]);
    for (branch, state) in [("one", "approve"), ("two", "close"), ("three", "release")] {
        repo.ready(branch, state);
    }
    repo.aynig_ok(["run"]);
    assert_eq!([repo.state("one"), repo.state("two")], ["approved", "closed"]);
    let status = out(&repo.aynig_ok(["status", "--all"]));
    assert_eq!(status.matches("did you mean").count(), 1, "{status}");
    assert!(status.contains("did you mean release?"), "{status}");
    let doctor = out(&repo.aynig(["doctor"]));
    assert!(!doctor.contains("did you mean approv") && !doctor.contains("did you mean close"), "{doctor}");
    let set = repo.aynig_ok(["set-state", "one", "--state", "approved"]);
    assert!(!err(&set).contains("did you mean"), "{}", err(&set));
}
