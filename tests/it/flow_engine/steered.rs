//! A person steers a run whose driver is gone, was moved by hand, or carries a step out.

use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::agent::{agent, with_agent};
use super::back::{APPENDS, TWO};
use super::hosts::Field;
use super::*;

const ASK: &str = gate_step!("STOP");

/// CONTRACT 20.31
#[test]
fn a_driver_that_is_gone_is_made_again() {
    let repo = with_agent(APPENDS);
    let run = start(&repo, &flow("one", TWO));
    repo.aynig_ok(["run"]);
    repo.git(["update-ref", "-d", &format!("refs/heads/{}", run.driver)]);
    let words = told(&repo.aynig_ok(["flow", "show", &run.slug]));
    assert!(words.contains("its driver is gone") && words.contains("aynig flow resume"), "{words}");
    let doctor = out(&repo.aynig(["doctor"]));
    let words = format!("the driver of run {} is gone, so no pass carries it on", run.slug);
    assert!(
        doctor.contains(&words) && doctor.contains(&format!("next: aynig flow resume {}", run.slug)),
        "{doctor}"
    );
    repo.aynig_ok(["flow", "resume", &run.slug]);
    assert_eq!(repo.state(&run.driver), "flow-step");
    assert!(!out(&repo.aynig(["doctor"])).contains("driver of run"));
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&repo, &run), ["one completed two", "two completed ask", "ask"]);
    repo.aynig_ok(["flow", "approve", &run.slug]);
    repo.aynig_ok(["run", "--drain"]);
    repo.git(["update-ref", "-d", &format!("refs/heads/{}", run.driver)]);
    // A run that has ended needs none.
    assert_eq!(repo.aynig(["flow", "stop", &run.slug]).status.code(), Some(1));
    assert!(repo.git(["for-each-ref", &format!("refs/heads/{}", run.driver)]).is_empty());
}

/// CONTRACT 20.31
#[test]
fn a_driver_that_is_gone_at_the_hub_is_made_there() {
    let field = Field::new(APPENDS);
    let [first, second] = &field.hosts;
    let run = start(first, &flow("one", TWO));
    let branch = format!("refs/heads/{}", run.driver);
    let before = field.at_hub(&branch);
    // Here alone it says nothing.
    first.git(["update-ref", "-d", &format!("refs/remotes/origin/{}", run.driver)]);
    first.aynig_ok(["flow", "resume", &run.slug]);
    assert!(first.git(["log", "--format=%H", &field.at_hub(&branch)]).contains(&before));
    first.git(["push", "-q", "origin", "--delete", &run.driver]);
    second.aynig_ok(["flow", "resume", &run.slug]);
    first.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(first, &run), ["one completed two", "two completed ask", "ask"]);
}

/// CONTRACT 20.31
#[test]
fn a_pattern_of_cancel_passes_over_drivers() {
    let repo = with_agent(APPENDS);
    let run = start(&repo, &flow("ask", ASK));
    repo.aynig_ok(["run", "--drain"]);
    let before = repo.head(&run.driver);
    for others in [false, true] {
        if others {
            repo.branch_from("main", "task", b"ask\n\ndwp-state: asked\ndwp-waits-for: ana\n");
        }
        let output = repo.aynig_ok(["cancel", "*"]);
        let words = format!("{} drives run {}", run.driver, run.slug);
        assert!(told(&output).contains(&words), "{}", told(&output));
        assert!(told(&output).contains(&format!("aynig flow stop {}", run.slug)), "{}", told(&output));
    }
    assert_eq!(repo.head(&run.driver), before);
    assert_refused(&repo.aynig(["cancel", &run.driver]), 1, &["drives run", "aynig flow stop"]);
}

/// CONTRACT 20.31
#[test]
fn a_driver_is_not_taken_out_of_its_run_by_hand() {
    let repo = with_agent(APPENDS);
    let run = start(&repo, &flow("ask", ASK));
    repo.aynig_ok(["run", "--drain"]);
    let before = repo.head(&run.driver);
    let hint = format!("aynig flow show {}", run.slug);
    for arguments in [
        &["answer", &run.driver, "approved"][..],
        &["answer", &run.driver],
        &["set-state", "--state", "flow-done", &run.driver],
        &["set-state", "--retry", &run.driver],
        &["set-working", &run.driver],
    ] {
        let refused = repo.aynig(arguments.iter().copied());
        assert_refused(&refused, 1, &["drives run", &hint, "aynig flow approve", "aynig flow resume"]);
    }
    assert_eq!(repo.head(&run.driver), before);
    let status = told(&repo.aynig_ok(["status", "--waiting"]));
    assert!(status.contains("aynig flow approve") && !status.contains("aynig answer"), "{status}");
    // Git alone can do so; that is shown, and mended.
    let message = "by hand\n\ndwp-state: flow-done\n";
    repo.branch_from(&run.driver, "moved", message.as_bytes());
    repo.git(["update-ref", &format!("refs/heads/{}", run.driver), "moved"]);
    repo.aynig_ok(["flow", "resume", &run.slug]);
    assert_eq!(repo.state(&run.driver), "flow-gate");
    assert_eq!(steps(&repo, &run), ["ask"]);
}

/// CONTRACT 20.14, 20.31
#[test]
fn a_driver_that_rests_while_a_step_is_due_is_shown_and_mended() {
    let repo = with_agent(APPENDS);
    let run = start(&repo, &flow("one", TWO));
    repo.branch_from(&run.driver, "moved", b"by hand\n\ndwp-state: flow-done\n");
    repo.git(["update-ref", &format!("refs/heads/{}", run.driver), "moved"]);
    let shown = json(&repo.aynig_ok(["flow", "show", &run.slug, "--json"]));
    let next = format!("aynig flow resume {}", run.slug);
    assert_eq!((&shown["place"], &shown["next"][0]), (&"stuck".into(), &next.as_str().into()), "{shown}");
    repo.aynig_ok(["flow", "resume", &run.slug]);
    repo.aynig_ok(["run"]);
    assert_eq!(steps(&repo, &run), ["one completed two"]);
}

/// CONTRACT 20.8
#[test]
fn a_live_step_keeps_a_run_from_going_on_elsewhere() {
    let repo = Repo::new();
    agent(&repo, "scripted", &repo.scripted("read -r what; say began $$; await go; echo \"$what\" >>work"));
    let run = start(&repo, &flow("one", TWO));
    let runner = repo.aynig_start(["run"]);
    wait_for_file(&repo.beside("began"));
    let pause = format!("aynig flow pause {}", run.slug);
    assert_refused(
        &repo.aynig(["flow", "resume", &run.slug, "--from", "two"]),
        1,
        &["carries out a step", &pause],
    );
    let plain = repo.aynig_ok(["flow", "resume", &run.slug]);
    assert!(told(&plain).contains("carries out a step of it; nothing was changed"), "{}", told(&plain));
    repo.write("../go", "now");
    assert_eq!(runner.finish().status.code(), Some(0));
    assert_eq!(steps(&repo, &run), ["one completed two"]);
}

/// CONTRACT 20.5, 20.8
#[test]
fn a_step_that_was_cut_off_is_booked_to_no_other_step() {
    let repo = with_agent(APPENDS);
    repo.git(["config", "aynig.orchLeaseSeconds", "10"]);
    let run = start(&repo, &flow("one", TWO));
    let runner = held(&repo, "agent-starts");
    let step = stopped(&run);
    runner.signal(Signal::SIGKILL);
    kill(Pid::from_raw(step), Signal::SIGKILL).expect("it is there");
    runner.finish();
    repo.aynig_ok(["flow", "pause", &run.slug]);
    wait_until("the lease is over", || {
        let refused = repo.aynig(["flow", "resume", &run.slug, "--from", "two"]);
        assert_eq!(refused.status.code(), Some(1), "{}", told(&refused));
        told(&refused).contains("is gone")
    });
    repo.aynig_ok(["run", "--drain"]);
    repo.aynig_ok(["flow", "resume", &run.slug, "--from", "two"]);
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&repo, &run), ["two completed ask", "ask"]);
}

/// A runner whose step stops itself at this point.
fn held(repo: &Repo, point: &str) -> Running {
    let mut command = repo.aynig_command();
    command.arg("run").env("AYNIG_CRASH_AT", format!("{point}:stop"));
    Running::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()))
}

/// The process of a run's step that has stopped itself.
fn stopped(run: &Started) -> i32 {
    let slug = format!("AYNIG_BRANCH={}", run.driver);
    wait_for("a step that stops", || {
        let all = std::fs::read_dir("/proc").expect("processes");
        let pids = all.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        pids.into_iter().find(|pid| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            is_stopped(*pid) && environment.split(|byte| *byte == 0).any(|one| one == slug.as_bytes())
        })
    })
}

/// CONTRACT 20.9
#[test]
fn a_step_that_completed_is_recorded_in_a_run_that_was_stopped() {
    for point in ["agent-ended", "snapshot-moved", "step-decided"] {
        for verb in ["pause", "stop"] {
            let repo = with_agent(APPENDS);
            let run = start(&repo, &flow("one", TWO));
            let runner = held(&repo, point);
            let step = stopped(&run);
            repo.aynig_ok(["flow", verb, &run.slug]);
            kill(Pid::from_raw(step), Signal::SIGCONT).expect("it is there");
            let output = runner.finish();
            assert_eq!(output.status.code(), Some(0), "{point} {verb}: {}", told(&output));
            assert_eq!(steps(&repo, &run), ["one completed two"], "{point} {verb}");
            let state = if verb == "stop" { "flow-done" } else { "flow-gate" };
            assert_eq!(repo.state(&run.driver), state, "{point} {verb}");
            assert_eq!(repo.git(["show", &format!("{}:work", run.work)]), "one", "{point} {verb}");
            repo.aynig_ok(["flow", "resume", &run.slug]);
            repo.aynig_ok(["run"]);
            assert_eq!(steps(&repo, &run), ["one completed two", "two completed ask"], "{point} {verb}");
        }
    }
}

/// CONTRACT 20.14
#[test]
fn whoever_waits_hears_why_this_host_cannot_do_the_step() {
    let repo = Repo::new();
    place_worktrees(&repo);
    let file = repo.path.join(".git/flow.yaml");
    std::fs::write(&file, flow("one", TWO)).expect("a file");
    let path = file.to_str().expect("UTF-8");
    let output = repo.aynig(["flow", "start", path, "--wait"]);
    assert_eq!(output.status.code(), Some(5), "{}", told(&output));
    assert!(
        told(&output).contains("cannot do it") && told(&output).contains("scripted"),
        "{}",
        told(&output)
    );
    let runs = json(&repo.aynig_ok(["flow", "list", "--json"]));
    let slug = runs["runs"][0]["slug"].as_str().expect("a slug").to_owned();
    let next = ["git config aynig.provider.scripted.kind KIND", &format!("aynig flow resume {slug}")];
    assert_eq!(runs["runs"][0]["next"], serde_json::json!(next), "{runs}");
    agent(&repo, "scripted", APPENDS);
    // One object, the last state; the gate needs a person.
    let output = repo.aynig(["flow", "resume", &slug, "--wait", "--json"]);
    assert_eq!(output.status.code(), Some(5), "{}", told(&output));
    assert_eq!(json(&output)["place"], "gate");
    let output = repo.aynig(["flow", "approve", &slug, "--wait"]);
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
}

/// CONTRACT 20.31
#[test]
fn what_cannot_be_done_now_says_what_can() {
    let repo = with_agent(APPENDS);
    let run = start(&repo, &flow("ask", ASK));
    assert_refused(
        &repo.aynig(["flow", "approve", &run.slug]),
        1,
        &["is due, and not open yet", "aynig run"],
    );
    repo.aynig_ok(["run", "--drain"]);
    let words = told(&repo.aynig_ok(["flow", "resume", &run.slug]));
    assert!(words.contains("waits at ask") && words.contains("aynig flow approve"), "{words}");
    repo.aynig_ok(["flow", "pause", &run.slug]);
    let words = told(&repo.aynig_ok(["flow", "show", &run.slug]));
    assert!(words.contains("paused it"), "{words}");
    let words = told(&repo.aynig_ok(["flow", "stop", &run.slug]));
    assert!(words.contains("ended: stopped") && !words.contains("stopped: stopped"), "{words}");
    for (arguments, code) in [
        (&["flow", "stop", &run.slug][..], 1),
        (&["flow", "pause", &run.slug], 1),
        (&["flow", "approve", "nosuch"], 1),
        (&["flow", "resume", &run.slug, "--from", "nothing"], 2),
    ] {
        let refused = repo.aynig(arguments.iter().copied());
        assert_refused(&refused, code, &["hint:"]);
    }
    let bad = repo.path.join(".git/bad.yaml");
    std::fs::write(&bad, "workflow_id: x\n").expect("a file");
    for verb in ["check", "start"] {
        let refused = repo.aynig(["flow", verb, bad.to_str().expect("UTF-8")]);
        assert_eq!(refused.status.code(), Some(1), "{}", told(&refused));
    }
}

const UNDO: &str =
    "  - {id: undo, opcode: ROLLBACK, target: pre_run, routes: {completed: ask, error: STOP}}\n";

/// CONTRACT 20.6, 20.7
#[test]
fn a_run_goes_on_elsewhere_and_its_open_question_is_withdrawn() {
    let repo = Repo::new();
    let run = start(&repo, &flow("undo", &format!("{UNDO}{ASK}")));
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&repo, &run), ["undo completed ask", "ask"]);
    repo.aynig_ok(["flow", "resume", &run.slug, "--from", "undo"]);
    assert_eq!(steps(&repo, &run)[1], "ask gate_rejected undo");
    repo.aynig_ok(["run", "--drain"]);
    let expected = ["undo completed ask", "ask gate_rejected undo", "undo completed ask", "ask"];
    assert_eq!(steps(&repo, &run), expected);
    let log = out(&repo.aynig_ok(["flow", "log", &run.slug]));
    assert!(log.contains("withdrawn: Test Person lets the run go on at undo"), "{log}");
    // The new question is open, and the run ends with its answer.
    repo.aynig_ok(["flow", "approve", &run.slug]);
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(end(&repo, &run)[1], "stopped");
}

/// CONTRACT 20.6
#[test]
fn a_run_that_has_ended_takes_no_answer() {
    let repo = Repo::new();
    let run = start(&repo, &flow("ask", ASK));
    repo.aynig_ok(["run", "--drain"]);
    repo.aynig_ok(["flow", "stop", &run.slug]);
    let refused = repo.aynig(["flow", "approve", &run.slug]);
    assert_refused(
        &refused,
        1,
        &["has ended: stopped; nothing was changed", &format!("aynig flow resume {}", run.slug)],
    );
    repo.aynig_ok(["flow", "resume", &run.slug]);
    repo.aynig_ok(["flow", "approve", &run.slug]);
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(end(&repo, &run)[1], "succeeded");
}

/// CONTRACT 20.31
#[test]
fn the_driver_of_a_run_is_not_cancelled() {
    let gate = "  - {id: ask, opcode: GATE, gate: g, routes: {gate_approved: STOP, gate_rejected: STOP}}\n";
    let repo = Repo::with_commands(&[("build", "true")]);
    let run = start(&repo, &flow("ask", gate));
    repo.ready("other", "build");
    for (name, exit) in [(run.driver.as_str(), 1), ("run/*", 0)] {
        let before = repo.head(&run.driver);
        let output = repo.aynig(["cancel", name]);
        assert_eq!(output.status.code(), Some(exit), "{}", told(&output));
        assert!(!told(&output).contains("rests"), "{}", told(&output));
        assert!(err(&output).contains(&format!("`aynig flow stop {}`", run.slug)), "{}", told(&output));
        assert_eq!(repo.head(&run.driver), before, "nothing was changed");
    }
    let output = repo.aynig(["cancel", &run.driver, "other"]);
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    assert_eq!(repo.state("other"), "stalled", "the other one is cancelled");
}
