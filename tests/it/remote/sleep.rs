//! A laptop that sleeps past its lease.

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
    // The lease, and the command's own commit if a renewal took it along.
    assert_eq!(hub.state("task~1"), "working");
    hub.branch_from("task", "task", b"go on\n\ndwp-state: other\n");
    desk.aynig_ok(run);
    assert_eq!(hub.state("task"), "finished");
    let after = heads(&hub);
    runner.signal(Signal::SIGCONT);
    hub.release("release");
    let output = runner.finish();
    assert_eq!(heads(&hub), after, "{}", told(&output));
    let told_of: Vec<String> =
        out(&output).lines().filter(|line| line.starts_with("task")).map(str::to_owned).collect();
    assert_eq!(told_of.len(), 1, "{}", told(&output));
    assert!(told_of[0].contains("nothing landed") || told_of[0].contains("finished"), "{}", told(&output));
    assert_work_saved(&laptop, &output);
    assert_eq!(desk.rescues(), Vec::<String>::new());
    desk.assert_tidy();
    hub.assert_tidy();
}
