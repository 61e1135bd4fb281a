//! A laptop that sleeps longer than its lease.

use nix::sys::signal::Signal;

use super::*;

#[test]
fn a_sleeper_lands_nothing_and_loses_nothing() {
    let hub = hub(&[("work", &format!("{WORK}\nnext done")), ("other", "next finished")]);
    let (laptop, desk) = (clone(&hub), clone(&hub));
    hub.ready("task", "work");
    let runner = laptop.aynig_start(["run", "--remote", "origin", "--lease-seconds", "1"]);
    hub.said("at");
    runner.signal(Signal::SIGSTOP);
    let run = ["run", "--remote", "origin", "--skew-seconds", "0"];
    wait_until("the other to take over", || {
        desk.aynig_ok(run);
        hub.state("task") == "stalled"
    });
    // The lease, or a renewal that pushed the command's own commit.
    assert_eq!(hub.state("task~1"), "working");
    hub.branch_from("task", "task", b"go on\n\ndwp-state: other\n");
    desk.aynig_ok(run);
    assert_eq!(hub.state("task"), "finished");
    let after = heads(&hub);
    runner.signal(Signal::SIGCONT);
    hub.release("release");
    let output = runner.finish();
    assert_eq!(heads(&hub), after, "{}", told(&output));
    assert_exit(&output, 1);
    // One line, on either stream, says that nothing landed and where the work is.
    let rescue = laptop.rescue();
    let all = out(&output) + &err(&output);
    let about: Vec<&str> = all.lines().filter(|line| line.starts_with("task")).collect();
    assert_eq!(about.len(), 1, "{all}");
    assert!(about[0].contains("nothing landed"), "{all}");
    assert_eq!(all.matches(&rescue).count(), 1, "{all}");
    let commits = hub.linear("main..task");
    let runs: std::collections::BTreeSet<String> = commits
        .iter()
        .map(|commit| hub.trailer(commit, "dwp-run-id"))
        .filter(|run| !run.is_empty())
        .collect();
    assert_eq!(runs.len(), 2, "the sleeper's and the other's");
    assert_eq!(hub.noted_lines("ran"), ["ran"], "nothing ran twice");
    assert_work_saved(&laptop, &output);
    assert_eq!(desk.rescues(), Vec::<String>::new());
    desk.assert_tidy();
    hub.assert_tidy();
}
