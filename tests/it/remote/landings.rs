//! Between claim and settle: a branch that others moved, a remote that goes away, a server that says no.

use super::*;

/// Lets something happen to the branch while the command runs; nothing of ours may be on the branch after that.
fn while_the_command_runs(happens: impl FnOnce(&Repo)) -> Output {
    let hub = hub(&[("work", &format!("{WORK}\nnext done"))]);
    let clone = clone(&hub);
    hub.ready("task", "work");
    let runner = clone.aynig_start(RUN.iter().copied());
    hub.said("at");
    happens(&hub);
    let after = heads(&hub);
    hub.release("release");
    let output = runner.finish();
    assert_eq!(heads(&hub), after, "nothing was overwritten or brought back: {}", told(&output));
    assert_eq!(hub.noted_lines("ran"), ["ran"]);
    assert_work_saved(&clone, &output);
    hub.assert_tidy();
    output
}

#[test]
fn rewound_while_the_command_runs() {
    let output = while_the_command_runs(|hub| {
        hub.git(["update-ref", "refs/heads/task", "task~1"]);
    });
    assert_exit(&output, 1);
    assert!(out(&output).contains("lease lost"), "{}", told(&output));
}

#[test]
fn deleted_while_the_command_runs() {
    let output = while_the_command_runs(|hub| {
        hub.git(["update-ref", "-d", "refs/heads/task"]);
    });
    assert_exit(&output, 1);
    assert!(out(&output).contains("deleted"), "{}", told(&output));
}

#[test]
fn replaced_while_the_command_runs() {
    let output = while_the_command_runs(|hub| {
        hub.branch_with_message("task", b"another\n\ndwp-state: other\n");
    });
    assert_exit(&output, 1);
}

#[test]
fn taken_over_while_the_command_runs() {
    let output = while_the_command_runs(|hub| {
        hub.taken_by_other("task", "task", 300);
    });
    assert_exit(&output, 1);
    assert!(out(&output).contains("other-host"), "{}", told(&output));
}

#[test]
fn advanced_to_a_state_while_the_command_runs() {
    let output = while_the_command_runs(|hub| {
        hub.branch_from("task", "task", b"moved on\n\ndwp-state: review\n");
    });
    assert_exit(&output, 0);
}

#[test]
fn a_plain_commit_of_others_is_kept_below_the_end() {
    let hub = hub(&[("work", &format!("{WORK}\nnext done"))]);
    let clone = clone(&hub);
    hub.ready("task", "work");
    let runner = clone.aynig_start(RUN.iter().copied());
    hub.said("at");
    let theirs = hub.branch_from("task", "task", b"a person's fix\n");
    hub.release("release");
    let output = runner.finish();
    assert_exit(&output, 1);
    assert_eq!(hub.state("task"), "stalled", "{}", told(&output));
    assert_eq!(hub.head("task~1"), theirs);
    assert_work_saved(&clone, &output);
    assert!(hub.message("task").contains(&clone.rescue()));
}

/// Moves the hub out of reach, or back.
fn put(hub: &Repo, from: &str, to: &str) {
    fs::rename(hub.beside(from), hub.beside(to)).expect("moved");
}

#[test]
fn a_remote_that_comes_back_in_time_gets_the_result() {
    let hub = hub(&[("work", &format!("{WORK}\nrm loose.txt; next done"))]);
    let clone = clone(&hub);
    hub.ready("task", "work");
    let wrapper = Wrapper::new(&hub, "");
    let runner = wrapper.start(&clone, &["run", "--remote", "origin", "--lease-seconds", "60"]);
    hub.said("at");
    put(&hub, "bare.git", "away.git");
    hub.release("release");
    wait_until("a second try", || wrapper.count("push") >= 3);
    put(&hub, "away.git", "bare.git");
    let output = runner.finish();
    assert_exit(&output, 0);
    assert_eq!(states(&hub, "task"), ["work", "working", "-", "done"]);
    assert_eq!(clone.rescues(), Vec::<String>::new());
    clone.assert_tidy();
}

#[test]
fn a_remote_that_comes_back_in_time_gets_the_renewal() {
    let hub = hub(&[("work", &format!("{WORK}\nrm loose.txt; next done"))]);
    let clone = clone(&hub);
    hub.ready("task", "work");
    let wrapper = Wrapper::new(&hub, "");
    let runner = wrapper.start(&clone, &["run", "--remote", "origin", "--lease-seconds", "12"]);
    let command = hub.said_pid("at");
    put(&hub, "bare.git", "away.git");
    wait_until("two tries to renew", || wrapper.count("push") >= 3);
    assert!(command.lives());
    put(&hub, "away.git", "bare.git");
    wait_until("a renewal, or the end", || hub.linear("main..task").len() >= 4 || !is_alive(runner.pid()));
    hub.release("release");
    let output = runner.finish();
    assert_exit(&output, 0);
    assert_eq!(hub.noted_lines("ran"), ["ran"]);
    assert_eq!(hub.state("task"), "done");
    assert_eq!(clone.rescues(), Vec::<String>::new(), "{}", told(&output));
    clone.assert_tidy();
}

#[test]
fn a_remote_that_stays_away_leaves_the_work_on_a_rescue_ref() {
    let hub = hub(&[("work", &format!("{WORK}\nnext done"))]);
    let clone = clone(&hub);
    hub.ready("task", "work");
    let wrapper = Wrapper::new(&hub, "");
    let runner =
        wrapper.start(&clone, &["run", "--remote", "origin", "--lease-seconds", "4", "--no-heartbeat"]);
    hub.said("at");
    put(&hub, "bare.git", "away.git");
    hub.release("release");
    let output = runner.finish();
    assert_exit(&output, 1);
    assert_work_saved(&clone, &output);
    let pushes = wrapper.count("push");
    assert!((2..=8).contains(&pushes), "with back-off: {pushes}");
    put(&hub, "away.git", "bare.git");
    assert_eq!(states(&hub, "task"), ["work", "working"]);
    let other = self::clone(&hub);
    wait_until("the lease to be closed", || {
        other.aynig_ok(["run", "--remote", "origin", "--skew-seconds", "0"]);
        hub.state("task") == "stalled"
    });
}

#[test]
fn a_command_is_stopped_when_its_lease_cannot_be_renewed() {
    let hub = hub(&[("work", &format!("{WORK}\nnext done"))]);
    let clone = clone(&hub);
    hub.ready("task", "work");
    let runner = clone.aynig_start(["run", "--remote", "origin", "--lease-seconds", "3"]);
    let command = hub.said_pid("at");
    put(&hub, "bare.git", "away.git");
    let output = runner.finish();
    assert_exit(&output, 1);
    command.gone();
    assert_work_saved(&clone, &output);
}

#[test]
fn a_refused_result_is_saved_and_the_reason_shown() {
    let hub = hub(&[("work", &format!("{WORK}\nnext done"))]);
    hook(
        &hub,
        "update",
        "if git log -1 --format=%B $3 | grep -q 'dwp-state: done'; then echo 'nobody is done here' >&2; exit 1; fi",
    );
    let clone = clone(&hub);
    hub.ready("task", "work");
    hub.release("release");
    let wrapper = Wrapper::new(&hub, "");
    let output = wrapper.run(&clone, RUN);
    assert_exit(&output, 1);
    assert!(told(&output).contains("nobody is done here"), "{}", told(&output));
    assert_eq!(wrapper.count("push"), 2, "{}", told(&output));
    assert_eq!(states(&hub, "task"), ["work", "working"]);
    assert_work_saved(&clone, &output);
}

#[test]
fn a_lock_on_the_server_is_no_refusal() {
    let hub = hub(&[("work", &format!("{WORK}\nrm loose.txt; next done"))]);
    let clone = clone(&hub);
    hub.ready("task", "work");
    let wrapper = Wrapper::new(&hub, "");
    let runner = wrapper.start(&clone, RUN);
    hub.said("at");
    // As a `git gc` of the server does for a moment.
    let lock = hub.path.join("refs/heads/task.lock");
    fs::write(&lock, "").expect("a lock");
    hub.release("release");
    wait_until("a second try, or the end", || wrapper.count("push") >= 3 || !is_alive(runner.pid()));
    fs::remove_file(&lock).expect("still there");
    let output = runner.finish();
    assert_exit(&output, 0);
    assert_eq!(states(&hub, "task"), ["work", "working", "-", "done"]);
    assert_eq!(clone.rescues(), Vec::<String>::new());
    clone.assert_tidy();
}

#[test]
fn a_refused_renewal_is_tried_less_and_less_often() {
    let hub = hub(&[("work", &format!("{WORK}\nnext done"))]);
    hook(
        &hub,
        "update",
        "if git log -1 --format=%B $3^ | grep -q 'dwp-state: working'; then exit 1; fi\n\
        if git log -1 --format=%s $3^ | grep -q 'own work'; then exit 1; fi",
    );
    let clone = clone(&hub);
    hub.ready("task", "work");
    let wrapper = Wrapper::new(&hub, "");
    let runner = wrapper.start(&clone, &["run", "--remote", "origin", "--lease-seconds", "9"]);
    let command = hub.said_pid("at");
    let output = runner.finish();
    assert_exit(&output, 1);
    command.gone();
    let pushes = wrapper.count("push");
    assert!((2..=6).contains(&pushes), "{pushes} pushes");
    assert_eq!(states(&hub, "task"), ["work", "working"]);
    assert_work_saved(&clone, &output);
}

#[test]
fn a_hanging_renewal_does_not_keep_a_command_beyond_its_lease() {
    let hub = hub(&[("work", &format!("{WORK}\nnext done"))]);
    let clone = clone(&hub);
    hub.ready("task", "work");
    let wrapper = Wrapper::new(&hub, r#"if [ "$verb" = push ] && [ "$count" -ge 2 ]; then await never; fi"#);
    let runner = wrapper.start(&clone, &["run", "--remote", "origin", "--lease-seconds", "3"]);
    let command = hub.said_pid("at");
    command.gone();
    let output = runner.finish();
    assert_exit(&output, 1);
    assert_work_saved(&clone, &output);
}
