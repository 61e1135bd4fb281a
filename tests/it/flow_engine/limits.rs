//! Limits of a flow and loops: what counts, and what becomes of the run.

use super::agent::{agent, with_agent};
use super::*;

/// A step that works until something stops it.
const AGAIN: &str = "  - id: implement
    opcode: RUN_AGENT
    agent: scripted
    prompt: go
    max_visits: 20
    routes: {completed: implement, error: STOP}
";

/// An agent that adds a line, and says that it used 60 tokens and 0.6 dollars.
const REPORTS: &str = "read -r line; echo more >>work
echo '{\"type\":\"telemetry.usage\",\"promptTokens\":40,\"completionTokens\":20,\"costUsd\":0.6}'";

/// The last word of a turn.
const DONE: &str = "\necho '{\"type\":\"message.assistant.final\",\"content\":\"done\"}'";

fn limited(limits: &str, steps: &str) -> String {
    flow("implement", steps).replacen("steps:", &format!("limits: {{{limits}}}\nsteps:"), 1)
}

/// A repository whose agent speaks JSON.
fn reporting(script: &str) -> Repo {
    let repo = with_agent(script);
    repo.git(["config", "aynig.provider.scripted.protocol", "jsonl"]);
    repo
}

/// Runs `aynig run` to its end, with a clock that is ahead.
fn run_later(repo: &Repo, seconds: u64) -> std::process::Output {
    let mut command = repo.aynig_command();
    command.args(["run", "--drain"]).env("AYNIG_CLOCK_OFFSET_SECONDS", seconds.to_string());
    command.output().expect("it runs")
}

/// Asserts that a run rests for this reason. Returns the limit's event.
fn assert_rests(repo: &Repo, run: &Started, why: &str) -> Value {
    let shown = shown(repo, run);
    assert_eq!(shown["status"], "paused", "{shown}");
    assert!(shown["waitingFor"].as_str().expect("words").contains(why), "{shown}");
    assert_eq!(repo.state(&run.driver), "flow-gate");
    let lines = out(&repo.aynig_ok(["orch", "events", &run.id, "--json"]));
    let events = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let mut reached =
        events.map(|line| line["event"].clone()).filter(|event| event["type"] == "limit.reached");
    reached.next_back().unwrap_or_default()
}

fn work(repo: &Repo, run: &Started) -> String {
    repo.git(["show", &format!("{}:work", run.work)])
}

/// CONTRACT 20.8
#[test]
fn tokens_and_cost_are_counted_over_all_processes_and_the_work_stays() {
    for (limit, word, value, bound) in
        [("tokens: 100", "tokens", 120.0, 100.0), ("cost_usd: 1.1", "cost_usd", 1.2, 1.1)]
    {
        let repo = reporting(&format!("{REPORTS}{DONE}"));
        let run = start(&repo, &limited(limit, AGAIN));
        for _ in 0..3 {
            repo.aynig_ok(["run"]);
        }
        let expected = ["implement completed implement"; 2];
        assert_eq!(steps(&repo, &run), expected, "{word}");
        let event = assert_rests(&repo, &run, &format!("the limit {word} of {bound} was reached"));
        assert_eq!(
            (&event["limit"], &event["value"], &event["bound"]),
            (&word.into(), &value.into(), &bound.into())
        );
        assert_eq!(work(&repo, &run), "more\nmore");
        let resume = format!("aynig flow resume {}`", run.slug);
        assert_refused(&repo.aynig(["flow", "approve", &run.slug]), 1, &["has no open gate", &resume]);
        repo.aynig_ok(["flow", "resume", &run.slug]);
        repo.aynig_ok(["run", "--drain"]);
        assert_eq!(steps(&repo, &run).len(), 4, "{word}: counted anew");
        assert_rests(&repo, &run, word);
    }
}

/// CONTRACT 20.8
#[test]
fn waiting_for_a_person_is_no_time_of_the_run() {
    let repo = reporting(&format!("{REPORTS}{DONE}"));
    let ask = "  - id: ask
    opcode: GATE
    gate: result
    routes: {gate_approved: last, gate_rejected: STOP}
  - id: last
    opcode: RUN_AGENT
    agent: scripted
    prompt: go
    routes: {completed: STOP, error: STOP}
";
    let text = limited(
        "wall_seconds: 500",
        &format!("{}{ask}", AGAIN.replace("completed: implement", "completed: ask")),
    );
    let run = start(&repo, &text);
    repo.aynig_ok(["run", "--drain"]);
    repo.aynig_ok(["flow", "approve", &run.slug]);
    let done = run_later(&repo, 3_600);
    assert_eq!(end(&repo, &run), ["completed", "succeeded", "completed"], "{}", told(&done));
}

/// CONTRACT 20.8
#[test]
fn a_step_that_uses_the_time_up_is_no_failure_and_its_work_stays() {
    let waits = "echo half >work; exec sleep 600";
    let agents = AGAIN
        .replace("error: STOP", "error: STOP, killed_timeout: STOP")
        .replace("completed: implement", "completed: STOP");
    let validates = "  - id: implement
    opcode: RUN_VALIDATION
    run: [tests]
    routes: {completed: STOP, error: STOP, killed_timeout: STOP}
";
    let judges = "  - id: implement
    opcode: EVALUATE
    prompt: Is it done?
    command: planner
    allowed_next_steps: [implement, STOP]
    routes: {success: STOP, partial: implement, blocked: STOP, unsafe: STOP, needs_human: STOP}
";
    for (steps_of, keeps) in [(agents.as_str(), true), (validates, false), (judges, false)] {
        let repo = with_agent(&format!("cat >/dev/null; {waits}"));
        repo.git(["config", "aynig.validator.tests", waits]);
        repo.git(["config", "aynig.evaluator.planner", &format!("cat >/dev/null; {waits}")]);
        let run = start(&repo, &limited("wall_seconds: 2", steps_of));
        let rested = repo.aynig_ok(["run", "--drain"]);
        assert_eq!(steps(&repo, &run), ["implement error"], "{}", told(&rested));
        let event = assert_rests(&repo, &run, "the limit wall_seconds of 2 was reached");
        assert!(event["value"].as_f64().expect("a number") >= 2.0, "{event}");
        agent(&repo, "scripted", "cat >/dev/null; cat work >seen");
        repo.git(["config", "aynig.validator.tests", "true"]);
        repo.git(["config", "aynig.evaluator.planner", "cat >/dev/null; echo '{\"status\":\"success\"}'"]);
        repo.aynig_ok(["flow", "resume", &run.slug]);
        repo.aynig_ok(["run", "--drain"]);
        assert_eq!(end(&repo, &run), ["completed", "succeeded", "completed"], "{steps_of}");
        if keeps {
            assert_eq!(repo.git(["show", &format!("{}:seen", run.work)]), "half", "it went on with its work");
        }
    }
}

/// CONTRACT 20.5, 20.8
#[test]
fn tokens_of_an_attempt_that_was_cut_off_count() {
    let repo = reporting(&format!("{REPORTS}{DONE}"));
    let run = start(&repo, &limited("tokens: 100", AGAIN));
    let crash = ("AYNIG_CRASH_AT", "agent-ended:kill:1");
    repo.aynig_command().arg("run").env(crash.0, crash.1).output().expect("it runs");
    assert_eq!(repo.state(&run.driver), "stalled");
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&repo, &run), ["implement error", "implement completed implement"]);
    assert_eq!(assert_rests(&repo, &run, "tokens")["value"], 120.0);
    assert_eq!(shown(&repo, &run)["usage"]["totalTokens"], 120);
}

/// CONTRACT 20.5, 20.8
#[test]
fn the_time_of_an_attempt_that_was_cut_off_counts_to_the_end_of_its_lease() {
    let repo =
        with_agent("cat >/dev/null; echo $PPID >\"$(git rev-parse --git-common-dir)/up\"; exec sleep 600");
    let run = start(&repo, &limited("wall_seconds: 50", AGAIN));
    super::lease::kill_in_step(&repo);
    let after = run_later(&repo, 3_600);
    assert_eq!(steps(&repo, &run), ["implement error"], "{}", told(&after));
    let value = assert_rests(&repo, &run, "wall_seconds")["value"].as_f64().expect("a number");
    assert!((50.0..600.0).contains(&value), "{value}: up to the lease's end, and not until somebody looked");
}

/// CONTRACT 20.8, 20.37
#[test]
fn a_turn_that_a_usage_limit_ended_is_recorded_and_counts() {
    let limit = "\necho '{\"type\":\"limit\",\"until\":1,\"message\":\"enough for now\"}'";
    let repo = reporting(&format!("{REPORTS}{limit}"));
    let run =
        start(&repo, &limited("tokens: 100", &AGAIN.replace("prompt: go", "prompt: go\n    retries: 0")));
    repo.aynig_ok(["run"]);
    assert_eq!(steps(&repo, &run), ["implement error"]);
    assert!(repo.message(&run.driver).contains("enough for now"));
    let manifest =
        std::fs::read(run.directory.join("artifacts/implement/1/manifest.json")).expect("a manifest");
    let manifest: Value = serde_json::from_slice(&manifest).expect("JSON");
    assert!(manifest["evidence_summary"].as_str().expect("words").contains("enough for now"), "{manifest}");
    assert!(manifest["artifacts"].to_string().contains("runner_transcript"), "{manifest}");
    assert!(!run.worktree.join("work").exists() && repo.rescues().len() == 1, "its work is saved");
    run_later(&repo, 3_600);
    assert_eq!(steps(&repo, &run), ["implement error"; 2], "a turn that waits is no retry");
    assert_eq!(assert_rests(&repo, &run, "tokens")["value"], 120.0);
}

const REVIEWED: &str = concat!(
    "  - id: plan
    opcode: RUN_AGENT
    agent: planning
    prompt: plan
    routes: {completed: implement, error: STOP}
",
    agent_step!("implement", "go", "ask"),
    gate_step!("undo"),
    undo_step!("plan"),
);

/// CONTRACT 18.13, 20.8
#[test]
fn work_that_is_rejected_and_differs_each_time_is_no_loop() {
    let repo = with_agent(
        "cat >/dev/null; common=$(git rev-parse --git-common-dir); echo x >>\"$common/tries\"; cp \"$common/tries\" work",
    );
    agent(
        &repo,
        "planning",
        "grep 'again and again' >>\"$(git rev-parse --git-common-dir)/told\"; echo plan >plan",
    );
    let run = start(&repo, &flow("plan", REVIEWED));
    for _ in 0..5 {
        repo.aynig_ok(["run", "--drain"]);
        assert_eq!(shown(&repo, &run)["status"], "running", "{:?}", steps(&repo, &run));
        repo.aynig_ok(["flow", "reject", &run.slug, "--comment", "no"]);
    }
    repo.aynig_ok(["run", "--drain"]);
    repo.aynig_ok(["flow", "approve", &run.slug]);
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(end(&repo, &run), ["completed", "succeeded", "completed"]);
    assert_eq!(work(&repo, &run).lines().count(), 6);
    assert_eq!(std::fs::read_to_string(repo.path.join(".git/told")).unwrap_or_default(), "");
}

/// CONTRACT 18.13, 20.8
#[test]
fn the_same_work_after_each_rejection_is_a_loop_and_waiting_is_none() {
    let repo = with_agent("cat >>\"$(git rev-parse --git-common-dir)/asked\"; echo same >work");
    agent(&repo, "planning", "cat >/dev/null; echo plan >plan");
    let run = start(&repo, &flow("plan", REVIEWED));
    for _ in 0..3 {
        repo.aynig_ok(["run", "--drain"]);
        repo.aynig_ok(["flow", "reject", &run.slug, "--comment", "no"]);
    }
    repo.aynig_ok(["run", "--drain"]);
    assert_rests(&repo, &run, "goes round in circles");
    // A program that says "later" again and again is none.
    let repo = with_agent("cat >/dev/null; exit 75");
    let run = start(&repo, &flow("implement", AGAIN));
    for hour in 0..5 {
        run_later(&repo, hour * 3_600);
    }
    assert_eq!(steps(&repo, &run), ["implement error"; 5]);
    assert_eq!(shown(&repo, &run)["status"], "running");
}
