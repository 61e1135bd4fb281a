//! Between claim and settling: a branch that others moved, a remote that disappears, a server that refuses.

use super::*;

/// Ends of a command that would each land something.
const ENDS: [&str; 3] = ["next done", "exit 3", "exit 0"];

/// A hub whose branch `task` is ready for [`WORK`] with this end, and a clone of it.
fn asked(end: &str) -> (Repo, Repo) {
    let hub = hub(&[("work", &format!("{WORK}\n{end}"))]);
    let clone = clone(&hub);
    hub.ready("task", "work");
    (hub, clone)
}

/// Like [`asked`], with a commit below the trigger.
fn asked_above_another(end: &str) -> (Repo, Repo) {
    let (hub, clone) = asked(end);
    hub.branch_from("main", "task", b"before\n");
    hub.branch_from("task", "task", b"go\n\ndwp-state: work\n");
    (hub, clone)
}

/// Like [`asked`], with a `git` wrapper for the runner.
fn asked_with(end: &str, git: &str) -> (Repo, Repo, Wrapper) {
    let (hub, clone) = asked(end);
    let wrapper = Wrapper::new(&hub, git);
    (hub, clone, wrapper)
}

/// Asserts that the whole result of [`WORK`] is on the branch, and that nothing had to be saved.
#[track_caller]
fn assert_landed(hub: &Repo, clone: &Repo, output: &Output) {
    assert_exit(output, 0);
    assert_eq!(states(hub, "task"), ["work", "working", "-", "done"]);
    assert_eq!(clone.rescues(), Vec::<String>::new(), "{}", told(output));
    clone.assert_tidy();
}

/// Asserts that the result of [`WORK`] did not reach the branch and was saved.
#[track_caller]
fn assert_only_leased(hub: &Repo, clone: &Repo, output: &Output) {
    assert_exit(output, 1);
    assert_eq!(states(hub, "task"), ["work", "working"]);
    assert_work_saved(clone, output);
}

/// Runs `happens` on the branch while the command runs, for each end. Asserts that the branch then has
/// nothing of ours and that the command's work was saved.
fn while_the_command_runs(code: i32, words: &str, happens: impl Fn(&Repo)) {
    for end in ENDS {
        let (hub, clone) = asked_above_another(end);
        let runner = clone.aynig_start(RUN.iter().copied());
        hub.said("at");
        happens(&hub);
        let after = heads(&hub);
        hub.release("release");
        let output = runner.finish();
        assert_eq!(heads(&hub), after, "nothing was overwritten or brought back: {}", told(&output));
        assert_eq!(hub.noted_lines("ran"), ["ran"]);
        assert_exit(&output, code);
        assert!(out(&output).contains(words), "{end}: {}", told(&output));
        assert_work_saved(&clone, &output);
        hub.assert_tidy();
    }
}

/// A command without an end: the renewal notices the change, and the command is stopped.
fn noticed_by_the_renewal(words: &str, happens: impl Fn(&Repo)) {
    let (hub, clone) = asked_above_another("next done");
    let runner =
        clone.aynig_start(["run", "--remote", "origin", "--lease-seconds", "4", "--grace-seconds", "1"]);
    let command = hub.said_pid("at");
    happens(&hub);
    let after = heads(&hub);
    let output = runner.finish();
    assert!(!command.lives());
    assert_eq!(heads(&hub), after, "nothing was overwritten or brought back: {}", told(&output));
    assert!(out(&output).contains(words), "{}", told(&output));
    assert_work_saved(&clone, &output);
    hub.assert_tidy();
}

/// CONTRACT 6.6, 6.9, 10.8
#[test]
fn rewound_while_the_command_runs() {
    let below = |hub: &Repo| drop(hub.git(["update-ref", "refs/heads/task", "task~1"]));
    while_the_command_runs(1, "lease lost", below);
    noticed_by_the_renewal("lease lost", below);
}

#[test]
fn rewound_below_the_trigger_while_the_command_runs() {
    let below = |hub: &Repo| drop(hub.git(["update-ref", "refs/heads/task", "task~2"]));
    while_the_command_runs(1, "lease lost", below);
    noticed_by_the_renewal("lease lost", below);
}

#[test]
fn deleted_while_the_command_runs() {
    let delete = |hub: &Repo| drop(hub.git(["update-ref", "-d", "refs/heads/task"]));
    while_the_command_runs(1, "deleted", delete);
    noticed_by_the_renewal("deleted", delete);
}

#[test]
fn replaced_while_the_command_runs() {
    let replace = |hub: &Repo| drop(hub.branch_with_message("task", b"another\n\ndwp-state: other\n"));
    while_the_command_runs(1, "lease lost", replace);
    noticed_by_the_renewal("lease lost", replace);
}

/// CONTRACT 6.9, 10.8
#[test]
fn taken_over_while_the_command_runs() {
    let take = |hub: &Repo| drop(hub.taken_by_other("task", "task", 300));
    while_the_command_runs(1, "other-host", take);
    noticed_by_the_renewal("other-host", take);
}

#[test]
fn closed_while_the_command_runs() {
    let close = |hub: &Repo| {
        let run = hub.trailer("task", "dwp-run-id");
        let message =
            format!("chore: stalled\n\ndwp-state: stalled\ndwp-stalled-run: {run}\ndwp-origin-state: work\n");
        hub.branch_from("task", "task", message.as_bytes());
    };
    while_the_command_runs(1, "lease lost", close);
    noticed_by_the_renewal("lease lost", close);
}

/// CONTRACT 6.8, 10.8
#[test]
fn advanced_to_a_state_while_the_command_runs() {
    let advance = |hub: &Repo| drop(hub.branch_from("task", "task", b"moved on\n\ndwp-state: review\n"));
    while_the_command_runs(0, "review", advance);
    noticed_by_the_renewal("review", advance);
}

/// CONTRACT 5.10, 6.5, 7.6
#[test]
fn a_plain_commit_of_others_is_kept_below_the_end() {
    let (hub, clone) = asked("next done");
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

/// CONTRACT 6.11
#[test]
fn a_remote_that_comes_back_in_time_gets_the_result() {
    let (hub, clone, wrapper) = asked_with("rm loose.txt; next done", "");
    let runner = wrapper.start(&clone, &["run", "--remote", "origin", "--lease-seconds", "60"]);
    hub.said("at");
    put(&hub, "bare.git", "away.git");
    hub.release("release");
    wait_until("a second try", || wrapper.count("push") >= 3);
    put(&hub, "away.git", "bare.git");
    let output = runner.finish();
    assert_landed(&hub, &clone, &output);
}

#[test]
fn a_remote_that_comes_back_in_time_gets_the_renewal() {
    let (hub, clone, wrapper) = asked_with("rm loose.txt; next done", "");
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

/// CONTRACT 6.11
#[test]
fn a_remote_that_stays_away_leaves_the_work_on_a_rescue_ref() {
    let (hub, clone, wrapper) = asked_with("next done", "");
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

/// The push of a result arrives but its answer is lost, and the remote is unreachable until the lease
/// expires.
#[test]
fn a_result_of_which_nobody_knows_is_not_called_lost() {
    let hub = hub(&[("work", "say on yes; next done")]);
    let clone = clone(&hub);
    hub.ready("task", "work");
    let wrapper = Wrapper::new(
        &hub,
        r#"if [ -e "$ROOM/cut" ]; then exit 128; fi
if [ "$verb" = push ] && [ -e "$ROOM/on" ]; then "$GIT" "$@" >/dev/null 2>&1; say cut yes; exit 128; fi"#,
    );
    let output = wrapper.run(&clone, &["run", "--remote", "origin", "--lease-seconds", "3"]);
    assert_exit(&output, 1);
    assert!(out(&output).contains("not known to have landed"), "{}", told(&output));
    assert_eq!(hub.state("task"), "done");
}

/// CONTRACT 10.4
#[test]
fn a_command_is_stopped_when_its_lease_cannot_be_renewed() {
    let (hub, clone) = asked("next done");
    let runner = clone.aynig_start(["run", "--remote", "origin", "--lease-seconds", "3"]);
    let command = hub.said_pid("at");
    put(&hub, "bare.git", "away.git");
    let output = runner.finish();
    assert_exit(&output, 1);
    command.gone();
    assert_work_saved(&clone, &output);
}

/// CONTRACT 5.17, 6.11
#[test]
fn a_refused_result_is_saved_and_the_reason_shown() {
    let (hub, clone, wrapper) = asked_with("next done", "");
    hook(
        &hub,
        "update",
        "if git log -1 --format=%B $3 | grep -q 'dwp-state: done'; then echo 'nobody is done here' >&2; exit 1; fi",
    );
    hub.release("release");
    let output = wrapper.run(&clone, RUN);
    assert!(told(&output).contains("nobody is done here"), "{}", told(&output));
    assert_eq!(wrapper.count("push"), 2, "{}", told(&output));
    assert_only_leased(&hub, &clone, &output);
}

#[test]
fn a_lock_on_the_server_is_no_refusal() {
    let (hub, clone, wrapper) = asked_with("rm loose.txt; next done", "");
    let runner = wrapper.start(&clone, RUN);
    hub.said("at");
    // As `git gc` on the server does for a moment.
    let lock = hub.path.join("refs/heads/task.lock");
    fs::write(&lock, "").expect("a lock");
    hub.release("release");
    wait_until("a second try, or the end", || wrapper.count("push") >= 3 || !is_alive(runner.pid()));
    fs::remove_file(&lock).expect("still there");
    let output = runner.finish();
    assert_landed(&hub, &clone, &output);
}

#[test]
fn a_refused_renewal_is_tried_less_and_less_often() {
    let (hub, clone, wrapper) = asked_with("next done", "");
    hook(
        &hub,
        "update",
        "if git log -1 --format=%B $3^ | grep -q 'dwp-state: working'; then exit 1; fi\n\
        if git log -1 --format=%s $3^ | grep -q 'own work'; then exit 1; fi",
    );
    let runner = wrapper.start(&clone, &["run", "--remote", "origin", "--lease-seconds", "9"]);
    let command = hub.said_pid("at");
    let output = runner.finish();
    command.gone();
    let pushes = wrapper.count("push");
    assert!((2..=6).contains(&pushes), "{pushes} pushes");
    assert_only_leased(&hub, &clone, &output);
}

/// CONTRACT 5.23
#[test]
fn a_hanging_renewal_does_not_keep_a_command_beyond_its_lease() {
    let (hub, clone, wrapper) =
        asked_with("next done", r#"if [ "$verb" = push ] && [ "$count" -ge 2 ]; then await never; fi"#);
    let runner = wrapper.start(&clone, &["run", "--remote", "origin", "--lease-seconds", "3"]);
    let command = hub.said_pid("at");
    command.gone();
    let output = runner.finish();
    assert_exit(&output, 1);
    assert_work_saved(&clone, &output);
}
