//! Holders that lose their step: runners and steps that are stopped, killed or ended.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::agent::{agent, with_agent};
use super::hosts::Field;
use super::*;

/// An agent that works until it is ended. It says its process and that of its step.
const STAYS: &str = "cat >/dev/null; echo mine >mine; common=$(git rev-parse --git-common-dir)
echo \"$$ $PPID\" >\"$common/up.new\"; mv \"$common/up.new\" \"$common/up\"; exec sleep 600";

/// An agent that is done at once.
const QUICK: &str = "read -r what; ls >seen; echo \"$what\" >>work; echo done";

const TWO: &str = concat!(
    "  - id: one
    opcode: RUN_AGENT
    agent: scripted
    prompt: one
    routes: {completed: two, error: ask}
",
    agent_step!("two", "two", "STOP"),
    "  - id: ask
    opcode: GATE
    gate: lost
    routes: {gate_approved: one, gate_rejected: STOP}
",
);

/// The process of the agent that works in a repository, and that of its step.
fn up(repo: &Repo) -> [i32; 2] {
    let text = wait_for_file(&repo.path.join(".git/up"));
    let mut ids = text.split_whitespace().map(|id| id.parse::<i32>().expect("a process id"));
    let agent = ids.next().expect("an id");
    [agent, ids.next().unwrap_or(agent)]
}

fn send(pid: i32, signal: Signal) {
    kill(Pid::from_raw(pid), signal).expect("it is there");
}

fn parent_of(pid: i32) -> Option<i32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

fn gone(pid: i32) {
    wait_until(&format!("process {pid} to end"), || !is_alive(pid));
}

/// Lets a runner begin a step, and kills both of them while the agent works. The agent writes its step's process last.
pub(super) fn kill_in_step(repo: &Repo) {
    let runner = repo.aynig_start(["run"]);
    let [agent, step] = up(repo);
    // None sees the end of another one. The parent of an agent may be a process that the step's one started to keep it.
    runner.signal(Signal::SIGSTOP);
    let below =
        std::iter::successors(Some(step), |pid| parent_of(*pid)).take_while(|pid| *pid != runner.pid());
    let below: Vec<i32> = below.take_while(|pid| *pid > 1).collect();
    for signal in [Signal::SIGSTOP, Signal::SIGKILL] {
        for pid in below.iter().rev() {
            kill(Pid::from_raw(*pid), signal).ok();
        }
    }
    runner.signal(Signal::SIGKILL);
    runner.finish();
    gone(step);
    gone(agent);
}

fn later(repo: &Repo, seconds: u64) -> std::process::Output {
    let mut command = repo.aynig_command();
    command.args(["run", "--drain"]).env("AYNIG_CLOCK_OFFSET_SECONDS", seconds.to_string());
    command.output().expect("it runs")
}

/// CONTRACT 20.3, 20.5
#[test]
fn a_holder_that_wakes_after_its_lease_records_nothing_and_its_agent_is_gone() {
    let field = Field::new(STAYS);
    let [first, second] = &field.hosts;
    first.git(["config", "aynig.orchLeaseSeconds", "15"]);
    agent(second, "scripted", QUICK);
    let run = start(first, &flow("one", TWO));
    let runner = first.aynig_start(["run"]);
    let [working, step] = up(first);
    send(step, Signal::SIGSTOP);
    runner.signal(Signal::SIGSTOP);
    let other = later(second, 3_600);
    let expected = ["one error", "one completed two", "two completed STOP"];
    assert_eq!(steps(second, &run), expected, "{}", told(&other));
    // As if another process was just unpacking them, the newest commits are there, and nothing else of them.
    let refs = [format!("refs/aynig/runs/{}", run.id), format!("refs/heads/{}", run.driver)];
    for name in &refs {
        let commit = second.git(["cat-file", "commit", &field.at_hub(name)]) + "\n";
        let file = first.beside("commit");
        std::fs::write(&file, commit).expect("a file");
        let made = first.git(["hash-object", "-t", "commit", "-w", file.to_str().expect("UTF-8")]);
        assert_eq!(made, field.at_hub(name));
    }
    let decided = field.at_hub(&refs[0]);
    runner.signal(Signal::SIGCONT);
    send(step, Signal::SIGCONT);
    gone(working);
    let woken = runner.finish();
    gone(step);
    assert_eq!(field.at_hub(&refs[0]), decided, "what others wrote stays: {}", told(&woken));
    first.aynig_ok(["orch", "run", "list"]);
    assert_eq!(steps(first, &run), expected, "{}", told(&woken));
    field.assert_same(&run);
    assert_eq!(end(first, &run)[1], "succeeded");
    first.git(["fetch", "-q", "origin", "refs/aynig/work/*:refs/aynig/work/*"]);
    let work = format!("refs/aynig/work/{}/flow", run.id);
    assert_eq!(first.git(["show", &format!("{work}:work")]), "one\ntwo");
    assert!(!first.git(["ls-tree", "-r", "--name-only", &work]).contains("mine"));
    let is_saved =
        first.rescues().iter().any(|name| first.git(["ls-tree", "-r", "--name-only", name]).contains("mine"));
    assert!(is_saved || run.worktree.join("mine").exists(), "its work is not lost");
}

/// CONTRACT 20.5
#[test]
fn a_host_that_died_leaves_its_step_to_another_one_and_no_process() {
    let field = Field::new(STAYS);
    let [first, second] = &field.hosts;
    agent(second, "scripted", QUICK);
    let run = start(first, &flow("one", TWO));
    kill_in_step(first);
    let early = second.aynig_ok(["run", "--drain"]);
    assert!(steps(second, &run).is_empty(), "its lease holds: {}", told(&early));
    let other = later(second, 3_600);
    assert_eq!(
        steps(second, &run),
        ["one error", "one completed two", "two completed STOP"],
        "{}",
        told(&other)
    );
    assert_eq!(second.git(["show", &format!("{}:work", run.work)]), "one\ntwo");
    first.aynig_ok(["run", "--drain"]);
    field.assert_same(&run);
}

/// CONTRACT 20.5
#[test]
fn a_runner_that_is_told_to_end_ends_its_step_and_no_retry_is_counted() {
    for (signal, code) in [(Signal::SIGTERM, 143), (Signal::SIGINT, 130)] {
        let repo = with_agent(STAYS);
        let run = start(&repo, &flow("one", &TWO.replace("prompt: one", "prompt: one\n    retries: 0")));
        for time in 1..=3 {
            std::fs::remove_file(repo.path.join(".git/up")).ok();
            let runner = repo.aynig_start(["run"]);
            let [working, step] = up(&repo);
            runner.signal(signal);
            let ended = runner.finish();
            assert_eq!(ended.status.code(), Some(code), "{}", told(&ended));
            gone(working);
            gone(step);
            assert_eq!(steps(&repo, &run), vec!["one error"; time - 1], "{}", told(&ended));
            assert_eq!(repo.state(&run.driver), "flow-step", "{time}");
        }
        agent(&repo, "scripted", QUICK);
        let next = repo.aynig_ok(["run", "--drain"]);
        let expected = ["one error", "one error", "one error", "one completed two", "two completed STOP"];
        assert_eq!(steps(&repo, &run), expected, "{}", told(&next));
        assert!(!repo.git(["show", &format!("{}:seen", run.work)]).contains("mine"), "it began anew");
        assert_eq!(repo.show(&format!("{}:mine", repo.rescues()[0])), "mine");
    }
}

/// CONTRACT 20.5
#[test]
fn a_wait_that_is_told_to_end_hands_its_step_back_at_the_hub_too() {
    let field = Field::new(STAYS);
    let first = &field.hosts[0];
    let run = start(first, &flow("one", TWO));
    for (signal, code) in [(Signal::SIGTERM, 143), (Signal::SIGINT, 130)] {
        std::fs::remove_file(first.path.join(".git/up")).ok();
        let waits = first.aynig_start(["flow", "resume", &run.slug, "--wait"]);
        let [working, step] = up(first);
        waits.signal(signal);
        let ended = waits.finish();
        assert_eq!(ended.status.code(), Some(code), "{}", told(&ended));
        assert!(err(&ended).contains("the run goes on"), "{}", told(&ended));
        gone(working);
        gone(step);
        let due =
            first.git(["log", "-1", "--format=%B", &field.at_hub(&format!("refs/heads/{}", run.driver))]);
        assert!(due.contains("dwp-state: flow-step"), "{due}");
    }
}

/// CONTRACT 20.5
#[test]
fn a_step_that_is_interrupted_again_and_again_uses_its_retries() {
    let repo = with_agent(STAYS);
    let run = start(&repo, &flow("one", TWO));
    for _ in 0..4 {
        std::fs::remove_file(repo.path.join(".git/up")).ok();
        let runner = repo.aynig_start(["run"]);
        up(&repo);
        runner.signal(Signal::SIGTERM);
        runner.finish();
    }
    assert_eq!(repo.state(&run.driver), "stalled", "as often as aynig.interruptRetries says, and once more");
    agent(&repo, "scripted", QUICK);
    repo.aynig_ok(["run", "--drain"]);
    let done = steps(&repo, &run);
    assert_eq!(done[..4], ["one error"; 4], "three that no retry counts, and one");
    assert_eq!(done[4..], ["one completed two", "two completed STOP"]);
}

/// CONTRACT 20.5
#[test]
fn retries_that_are_used_up_follow_the_route_of_error() {
    for (retries, lost) in [(0, 1), (1, 2), (2, 3)] {
        let repo = with_agent(QUICK);
        let run = start(
            &repo,
            &flow("one", &TWO.replace("prompt: one", &format!("prompt: one\n    retries: {retries}"))),
        );
        for _ in 0..lost {
            let crash = ("AYNIG_CRASH_AT", "agent-ended:kill:1");
            repo.aynig_command().arg("run").env(crash.0, crash.1).output().expect("it runs");
            assert_eq!(repo.state(&run.driver), "stalled", "{retries}");
            repo.aynig_ok(["run"]);
        }
        repo.aynig_ok(["run", "--drain"]);
        let mut expected = vec!["one error"; lost - 1];
        expected.extend(["one error ask", "ask"]);
        assert_eq!(steps(&repo, &run), expected, "{retries}");
        repo.aynig_ok(["flow", "approve", &run.slug]);
        repo.aynig_ok(["run", "--drain"]);
        assert_eq!(end(&repo, &run)[1], "succeeded", "{retries}");
    }
}

/// CONTRACT 20.5, 20.38
#[test]
fn what_cannot_be_carried_on_for_the_same_reason_waits_for_a_person_the_third_time() {
    let repo = with_agent(QUICK);
    let run = start(&repo, &flow("one", TWO));
    let crash = ("AYNIG_CRASH_AT", "agent-ended:kill:1");
    repo.aynig_command().arg("run").env(crash.0, crash.1).output().expect("it runs");
    // A person looks at the work in another checkout, so its branch cannot be put back.
    let other = repo.beside("other");
    let other = other.to_str().expect("UTF-8");
    repo.git(["worktree", "add", "-q", "--force", other, &run.work]);
    for time in 1..=2 {
        let output = later(&repo, time * 3_600);
        assert_eq!(repo.state(&run.driver), "stalled", "{time}: {}", told(&output));
        assert!(repo.message(&run.driver).contains("checked out at"), "{}", repo.message(&run.driver));
    }
    let output = later(&repo, 4 * 3_600);
    let shown = shown(&repo, &run);
    assert_eq!(shown["status"], "paused", "{}", told(&output));
    let words = shown["waitingFor"].as_str().expect("words");
    assert!(words.contains("checked out at") && words.contains("aynig flow resume"), "{words}");
    assert_eq!(repo.state(&run.driver), "flow-gate");
    repo.git(["worktree", "remove", "--force", other]);
    repo.aynig_ok(["flow", "resume", &run.slug]);
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&repo, &run), ["one completed two", "two completed STOP"]);
}

/// CONTRACT 5.27, 20.2, 20.31
#[test]
fn the_lease_of_a_driver_that_stalls_is_as_long_as_its_others_and_its_run_is_resumed() {
    let repo = Repo::new();
    agent(&repo, "scripted", STAYS);
    repo.git(["config", "aynig.orchLeaseSeconds", "15"]);
    let run = start(&repo, &flow("one", TWO));
    kill_in_step(&repo);
    let mut command = repo.aynig_command();
    command.args(["run", "--drain"]);
    command.env("AYNIG_CLOCK_OFFSET_SECONDS", "3600").env("AYNIG_CRASH_AT", "step-decided:kill:1");
    let crashed = told(&command.output().expect("it runs"));
    assert_eq!(repo.state(&run.driver), "stalled", "{crashed}");
    let format = "--format=%(trailers:key=dwp-run-id,valueonly,separator=)/%(trailers:key=dwp-lease-seconds,valueonly,separator=)";
    let leases = repo.git(["log", format, &run.driver]);
    let lengths: Vec<&str> = leases
        .lines()
        .filter_map(|line| line.split_once('/').filter(|(id, _)| !id.is_empty()))
        .map(|(_, length)| length)
        .collect();
    assert!(lengths.len() >= 2 && lengths.iter().all(|length| *length == "15"), "{leases}");
    for words in [crashed, told(&repo.aynig(["status", "--branch", &run.driver]))] {
        assert!(words.contains(&format!("aynig flow resume {}", run.slug)), "{words}");
        assert!(!words.contains("set-state --retry"), "{words}");
    }
}
