//! Signals to the runner: it stops the command, settles the branch, and names the signal in its exit code.

use nix::sys::signal::Signal;

use super::scene::*;
use super::support::*;

fn repo(script: &str) -> Repo {
    let repo = Repo::scene(&[("work", script), ("quick", "next done")]);
    repo.ready("task", "work");
    repo
}

/// CONTRACT 6.14, 10.5
#[test]
fn each_signal_asks_again_and_names_itself_in_the_exit_code() {
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143), (Signal::SIGHUP, 129)] {
        let repo = repo("( await release ) &\nsay child $!\nsay ready $$\nawait release\nnext done");
        let runner = repo.aynig_start(["run"]);
        let (command, child) = (repo.said_pid("ready"), repo.said_pid("child"));
        runner.signal(signal);
        let output = runner.finish();
        assert_eq!(output.status.code(), Some(code), "{}", told(&output));
        assert!(!command.lives() && !child.lives());
        assert_eq!(
            (repo.state("task"), repo.trailer("task", "aynig-interrupted")),
            ("work".into(), "1".into())
        );
        repo.assert_tidy();
    }
}

/// CONTRACT 6.14, 10.5
#[test]
fn where_it_is_set_each_signal_stalls_the_branch() {
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143), (Signal::SIGHUP, 129)] {
        let repo = repo("( await release ) &\nsay child $!\nsay ready $$\nawait release\nnext done");
        repo.git(["config", "aynig.onInterrupt", "stall"]);
        let runner = repo.aynig_start(["run"]);
        let (command, child) = (repo.said_pid("ready"), repo.said_pid("child"));
        let run_id = repo.trailer("task", "dwp-run-id");
        runner.signal(signal);
        let output = runner.finish();
        assert_eq!(output.status.code(), Some(code), "{}", told(&output));
        assert!(!command.lives() && !child.lives());
        assert_eq!(repo.state("task"), "stalled");
        assert_eq!(repo.trailer("task", "dwp-stalled-run"), run_id);
        assert_eq!(repo.trailer("task", "dwp-origin-state"), "work");
        assert!(repo.message("task").contains("interrupted"), "{}", repo.message("task"));
        repo.assert_tidy();
    }
}

/// CONTRACT 6.1, 6.14
#[test]
fn a_command_that_ends_with_a_state_in_its_grace_has_succeeded() {
    for how in ["requeue", "stall"] {
        let repo = repo("trap 'next done; exit 0' TERM\nsay ready $$\nawait release");
        repo.git(["config", "aynig.onInterrupt", how]);
        let runner = repo.aynig_start(["run"]);
        repo.said("ready");
        runner.signal(Signal::SIGTERM);
        let output = runner.finish();
        assert_eq!(output.status.code(), Some(143), "{}", told(&output));
        assert_eq!(repo.state("task"), "done");
        repo.assert_tidy();
    }
}

/// CONTRACT 10.5
#[test]
fn a_command_that_cleans_up_on_term_is_given_the_time() {
    let repo = repo("trap 'echo cleaned >\"$ROOM/cleaned\"; exit 0' TERM\nsay ready $$\nawait release");
    let runner = repo.aynig_start(["run", "--grace-seconds", "3600"]);
    repo.said("ready");
    runner.signal(Signal::SIGTERM);
    assert_eq!(runner.finish().status.code(), Some(143));
    assert_eq!(repo.said("cleaned"), "cleaned");
}

/// CONTRACT 10.5
#[test]
fn a_command_deaf_to_term_is_killed_after_the_grace() {
    let repo = repo("trap '' TERM\n( await release ) &\nsay child $!\nsay ready $$\nawait release");
    let runner = repo.aynig_start(["run", "--grace-seconds", "1"]);
    let (command, child) = (repo.said_pid("ready"), repo.said_pid("child"));
    runner.signal(Signal::SIGTERM);
    let output = runner.finish();
    assert_eq!(output.status.code(), Some(143), "{}", told(&output));
    assert!(!command.lives() && !child.lives());
    assert_eq!(repo.state("task"), "work");
    repo.assert_tidy();
}

/// CONTRACT 10.5
#[test]
fn a_second_signal_kills_at_once() {
    let repo = repo("trap 'say termed yes' TERM\nsay ready $$\nawait release");
    let runner = repo.aynig_start(["run", "--grace-seconds", "3600"]);
    let command = repo.said_pid("ready");
    runner.signal(Signal::SIGINT);
    repo.said("termed");
    runner.signal(Signal::SIGTERM);
    let output = runner.finish();
    assert_eq!(output.status.code(), Some(130), "the first one counts: {}", told(&output));
    assert!(!command.lives());
    assert_eq!(repo.state("task"), "work");
    repo.assert_tidy();
}

#[test]
fn nothing_more_is_claimed_after_a_signal() {
    for arguments in [["run", "--jobs=1"], ["run", "--drain"], ["run", "--watch=3600"]] {
        let repo = repo("say ready $$\nawait release\nnext done");
        let waiting: Vec<String> = (0..5).map(|n| format!("z{n}")).collect();
        repo.ready_many(&waiting, "quick");
        let runner = repo.aynig_start(arguments);
        repo.said("ready");
        runner.signal(Signal::SIGTERM);
        let output = runner.finish();
        assert_eq!(output.status.code(), Some(143), "{}", told(&output));
        assert_eq!(repo.state("task"), "work");
        for branch in &waiting {
            assert_eq!(repo.state(branch), "quick", "{branch} was not touched");
        }
        repo.assert_tidy();
    }
}

#[test]
fn all_running_commands_are_stopped() {
    let repo = Repo::scene(&[("work", "say \"pid-$AYNIG_BRANCH\" $$\nawait release\nnext done")]);
    let branches: Vec<String> = (0..4).map(|n| format!("b{n}")).collect();
    repo.ready_many(&branches, "work");
    let runner = repo.aynig_start(["run", "--jobs", "4"]);
    let commands: Vec<Process> =
        branches.iter().map(|branch| repo.said_pid(&format!("pid-{branch}"))).collect();
    runner.signal(Signal::SIGTERM);
    let output = runner.finish();
    assert_eq!(output.status.code(), Some(143), "{}", told(&output));
    assert!(commands.iter().all(|command| !command.lives()));
    assert!(branches.iter().all(|branch| repo.state(branch) == "work"));
    repo.assert_tidy();
}

/// CONTRACT 10.5
#[test]
fn an_ignored_hangup_stays_ignored() {
    let repo = repo("say ready $$\nawait release\nnext done");
    let mut shell = std::process::Command::new("sh");
    hermetic(&mut shell).current_dir(&repo.path);
    shell.args(["-c", "trap '' HUP; exec \"$0\" run"]).arg(binary());
    let mut runner = shell.stdout(std::process::Stdio::null()).spawn().expect("sh starts");
    let started = Process(i32::try_from(runner.id()).expect("a pid"));
    let command = repo.said_pid("ready");
    for process in [&started, &command] {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(process.0), Signal::SIGHUP).expect("it runs");
    }
    repo.release("release");
    let status = wait_for("aynig to end", || runner.try_wait().expect("ours"));
    assert_eq!(status.code(), Some(0));
    assert_eq!(repo.state("task"), "done");
    repo.assert_tidy();
}

#[test]
fn an_idle_watch_ends_promptly() {
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143), (Signal::SIGHUP, 129)] {
        let repo = Repo::scene(&[("quick", "next done")]);
        repo.ready("task", "quick");
        let mut runner = repo.aynig_start(["run", "--watch=3600"]);
        let line = runner.next_line();
        assert!(line.contains("quick → done"), "{line}");
        runner.signal(signal);
        let output = runner.finish();
        assert_eq!(output.status.code(), Some(code), "{}", told(&output));
        assert!(err(&output).is_empty(), "{}", told(&output));
        repo.assert_tidy();
    }
}

#[test]
fn a_commands_own_death_by_signal_is_a_failure_that_says_so() {
    let repo = repo("kill -TERM $$; await release");
    let output = repo.aynig(["run"]);
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    assert_eq!(repo.state("task"), "stalled");
    assert!(repo.message("task").contains("15"), "{}", repo.message("task"));
    repo.assert_tidy();
}
