//! `aynig cancel` of a step on another host, where a remote decides.

use super::*;

fn cancel(clone: &Repo, arguments: &[&str]) -> Output {
    let mut command = clone.aynig_command();
    command.env("AYNIG_RUNNER_ID", "desk").args(["cancel", "--remote", "origin"]).args(arguments);
    command.output().expect("aynig runs")
}

/// A hub whose real hook guards it, and two clones of it.
fn guarded() -> (Repo, Repo, Repo) {
    let hub = hub(&[("work", &format!("{WORK} next done"))]);
    let program = binary();
    hook(&hub, "pre-receive", &format!("exec '{}' hook pre-receive", program.display()));
    let (laptop, desk) = (hub.clone_beside("laptop"), hub.clone_beside("desk"));
    hub.ready("task", "work");
    (hub, laptop, desk)
}

/// CONTRACT 5.30, 10.8, 12.3
#[test]
fn it_is_heard_in_seconds_on_another_host_through_a_guarded_hub() {
    let (hub, laptop, desk) = guarded();
    let mut command = laptop.aynig_command();
    command.env("AYNIG_RUNNER_ID", "laptop").args(["run", "--remote", "origin"]);
    let runner = Running::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    let process = hub.said_pid("at");
    let began = std::time::Instant::now();
    let output = cancel(&desk, &["task", "--reason", "enough", "--wait"]);
    assert_exit(&output, 0);
    assert!(began.elapsed().as_secs() < 60, "{:?}", began.elapsed());
    let ran = runner.finish();
    assert_exit(&ran, 1);
    assert!(!process.lives());
    assert!(out(&output).contains("on laptop to stop"), "{}", told(&output));
    assert_eq!(states(&hub, "task").last().map(String::as_str), Some("stalled"));
    assert!(hub.message("task").contains("cancelled by") && hub.message("task").contains("enough"));
    assert_work_saved(&laptop, &ran);
    hub.assert_tidy();
}

/// CONTRACT 5.30, 12.3
#[test]
fn with_requeue_another_host_runs_it() {
    let (hub, laptop, desk) = guarded();
    let runner = laptop.aynig_start(RUN.iter().copied());
    hub.said("at");
    assert_exit(&cancel(&desk, &["task", "--requeue", "--wait"]), 0);
    assert_exit(&runner.finish(), 0);
    assert_eq!(hub.state("task"), "work");
    hub.release("release");
    assert_exit(&desk.aynig(RUN.iter().copied()), 0);
    assert_eq!(hub.state("task"), "done");
}

/// CONTRACT 10.8
#[test]
fn a_forced_state_is_heard_in_seconds() {
    let hub = hub(&[("work", &format!("{WORK} next done"))]);
    let (laptop, desk) = (hub.clone_beside("laptop"), hub.clone_beside("desk"));
    hub.ready("task", "work");
    let runner = laptop.aynig_start(RUN.iter().copied());
    let command = hub.said_pid("at");
    desk.aynig_ok(["set-state", "--state", "done", "--branch", "task", "--force", "--remote", "origin"]);
    // The lease lasts five minutes.
    assert_exit(&runner.finish(), 1);
    assert!(!command.lives());
    assert_eq!(hub.state("task"), "done");
}

/// CONTRACT 10.8
#[test]
fn one_look_serves_all_steps_and_short_steps_cause_none() {
    let hub =
        hub(&[("work", "say \"at-$AYNIG_BRANCH\" $$; await release; next done"), ("quick", "next done")]);
    let clone = clone(&hub);
    for branch in ["a", "b", "c"] {
        hub.ready(branch, "work");
    }
    let wrapper = Wrapper::new(&hub, "");
    let runner = wrapper.start(&clone, &["run", "--remote", "origin", "--jobs", "3"]);
    for branch in ["a", "b", "c"] {
        hub.said(&format!("at-{branch}"));
    }
    wait_until("two looks", || wrapper.count("ls-remote") >= 2);
    hub.release("release");
    assert_exit(&runner.finish(), 0);
    assert!(wrapper.count("ls-remote") <= 4, "{} looks", wrapper.count("ls-remote"));
    assert_eq!(wrapper.count("fetch"), 1);
}

/// CONTRACT 10.8
#[test]
fn a_look_that_hangs_disturbs_nothing_and_ends_with_the_steps() {
    let hub = hub(&[("work", "say at $$; await release; next done")]);
    let clone = clone(&hub);
    hub.ready("task", "work");
    let wrapper =
        Wrapper::new(&hub, r#"if [ "$verb" = ls-remote ]; then say hangs $$; exec tail -f /dev/null; fi"#);
    let runner = wrapper.start(&clone, &["run", "--remote", "origin", "--lease-seconds", "3"]);
    let call = hub.said_pid("hangs");
    wait_until("two renewals", || states(&hub, "task").len() >= 4);
    hub.release("release");
    assert_exit(&runner.finish(), 0);
    call.gone();
    assert_eq!(hub.state("task"), "done");
}
