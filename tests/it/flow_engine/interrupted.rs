//! Attempts that are interrupted: no retry counts them, and each limit does.

use nix::sys::signal::Signal;

use super::agent::{agent, with_agent};
use super::hosts::Field;
use super::*;

/// An agent that has used 1,000 tokens, and names its process. What comes then follows it. It changes no settings.
const SPENDS: &str = r#"read -r line; common=$(git rev-parse --git-common-dir); echo $$ >mine
echo '{"type":"telemetry.usage","promptTokens":900,"completionTokens":100}'
echo $$ >"$common/up.new"; mv "$common/up.new" "$common/up"
"#;

const QUICK: &str = "read -r line; echo done >done
echo '{\"type\":\"message.assistant.final\",\"content\":\"done\"}'";

const STAYS: &str = "exec sleep 600";

fn text(limits: &str, retries: u32) -> String {
    let step = format!(
        "  - id: one
    opcode: RUN_AGENT
    agent: scripted
    prompt: one
    retries: {retries}
    routes: {{completed: STOP, error: STOP}}
"
    );
    flow("one", &step).replacen("steps:", &format!("limits: {{{limits}}}\nsteps:"), 1)
}

/// Lets the agent of a repository speak JSON.
fn scripted(repo: &Repo, script: &str) {
    agent(repo, "scripted", script);
    repo.git(["config", "aynig.provider.scripted.protocol", "jsonl"]);
}

fn spends(repo: &Repo, then: &str) {
    scripted(repo, &format!("{SPENDS}{then}"));
}

/// How many turns of agents have reported their tokens on this host.
fn reports(run: &Started) -> usize {
    let is_report = |path: &&std::path::PathBuf| {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        path.ends_with("events.jsonl") && text.contains("telemetry.usage")
    };
    files_below(&run.directory.join("artifacts")).iter().filter(is_report).count()
}

/// Carries a step out, and ends that with a signal when the tokens of the agent are known.
fn interrupt(repo: &Repo, run: &Started, command: &[&str], signal: Signal) {
    std::fs::remove_file(repo.path.join(".git/up")).ok();
    let before = reports(run);
    let runner = repo.aynig_start(command.iter().copied());
    let agent: i32 = wait_for_file(&repo.path.join(".git/up")).trim().parse().expect("a process id");
    wait_until("the tokens to be reported", || reports(run) > before);
    runner.signal(signal);
    let ended = runner.finish();
    assert!(matches!(ended.status.code(), Some(130 | 143)), "{}", told(&ended));
    wait_until("the agent to end", || !is_alive(agent));
}

/// Asserts that the next runner begins no step, since a limit was reached.
fn assert_reached(repo: &Repo, run: &Started, limit: &str, recorded: usize) {
    scripted(repo, QUICK);
    let next = repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(repo, run), vec!["one error"; recorded], "{limit}: {}", told(&next));
    let shown = shown(repo, run);
    assert_eq!(shown["status"], "paused", "{shown}");
    assert!(shown["waitingFor"].as_str().expect("words").contains(limit), "{shown}");
}

/// CONTRACT 20.5, 20.8
#[test]
fn tokens_of_attempts_that_were_interrupted_count_and_no_retry_does() {
    for (wait, signal) in [(false, Signal::SIGTERM), (true, Signal::SIGINT)] {
        let repo = with_agent("");
        spends(&repo, STAYS);
        let run = start(&repo, &text("tokens: 1500", 0));
        let command: &[&str] = if wait { &["flow", "resume", &run.slug, "--wait"] } else { &["run"] };
        interrupt(&repo, &run, command, signal);
        interrupt(&repo, &run, command, signal);
        assert_reached(&repo, &run, "tokens", 2);
        assert_eq!(shown(&repo, &run)["usage"]["totalTokens"], 2000);
        let view = json(&repo.aynig_ok(["flow", "show", &run.slug, "--json"]));
        for step in view["steps"].as_array().expect("steps") {
            assert_eq!((&step["interrupted"], &step["outcome"]), (&true.into(), &"error".into()), "{step}");
            assert!(step["artifacts"].to_string().contains("runner_transcript"), "{step}");
        }
        let log = out(&repo.aynig_ok(["flow", "log", &run.slug]));
        assert_eq!(log.matches(" interrupted: its runner ").count(), 2, "{log}");
        assert_eq!(log.matches(" was stopped").count(), 2, "{log}");
        assert_eq!(repo.rescues().len(), 2, "the work of both is saved");
        repo.aynig_ok(["flow", "resume", &run.slug]);
        repo.aynig_ok(["run", "--drain"]);
        assert_eq!(end(&repo, &run), ["completed", "succeeded", "completed"]);
        assert!(git_output(&repo, &["show", &format!("{}:mine", run.work)]).status.code() != Some(0));
    }
}

/// CONTRACT 20.8
#[test]
fn the_time_of_an_attempt_that_was_interrupted_counts() {
    for (wait, signal) in [(false, Signal::SIGTERM), (true, Signal::SIGINT)] {
        let repo = with_agent("");
        // It names itself when its lease is two seconds old.
        let script = format!("{SPENDS}{STAYS}").replace("echo $$ >\"$common", "sleep 2; echo $$ >\"$common");
        scripted(&repo, &script);
        let run = start(&repo, &text("wall_seconds: 4", 0));
        let command: &[&str] = if wait { &["flow", "resume", &run.slug, "--wait"] } else { &["run"] };
        interrupt(&repo, &run, command, signal);
        scripted(&repo, "read -r line; exec sleep 600");
        repo.aynig_ok(["run", "--drain"]);
        assert_eq!(steps(&repo, &run), ["one error"; 2], "the next one has the time that is left");
        let shown = shown(&repo, &run);
        assert!(shown["waitingFor"].as_str().expect("words").contains("wall_seconds of 4"), "{shown}");
        let lines = out(&repo.aynig_ok(["orch", "events", &run.id, "--json"]));
        let events = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let reached = events.map(|line| line["event"].clone()).find(|event| event["type"] == "limit.reached");
        assert!(reached.expect("an event")["value"].as_f64().expect("a number") >= 4.0);
    }
}

/// CONTRACT 20.8
#[test]
fn another_host_counts_the_time_of_an_attempt_that_was_interrupted() {
    let field = Field::new("");
    let [first, second] = &field.hosts;
    spends(first, STAYS);
    let run = start(first, &text("tokens: 1500", 0));
    interrupt(first, &run, &["run"], Signal::SIGTERM);
    interrupt(first, &run, &["run"], Signal::SIGTERM);
    scripted(second, QUICK);
    second.aynig_ok(["run", "--drain"]);
    let done = steps(second, &run);
    assert_eq!(done, ["one error", "one error", "one completed STOP"], "its tokens are on the first host");
    field.assert_same(&run);
    assert_eq!(shown(second, &run)["usage"]["totalTokens"], 1000);
    let view = json(&second.aynig_ok(["flow", "show", &run.slug, "--json"]));
    assert_eq!(
        (&view["steps"][1]["interrupted"], &view["steps"][2]["interrupted"]),
        (&true.into(), &false.into())
    );
}

/// CONTRACT 20.5, 20.8
#[test]
fn an_agent_that_ends_its_runner_or_its_step_counts() {
    let runner = "p=$PPID; until tr '\\0' ' ' </proc/$p/cmdline | grep -q ' run'; do p=$(ps -o ppid= -p $p | tr -d ' '); done";
    // The step is the parent of the keeper, which is the parent of the agent.
    let step = "p=$(ps -o ppid= -p $PPID)";
    for (above, recorded) in [(runner, "interrupted"), (step, "error")] {
        let ends = format!("sleep 1; {above}; kill -TERM $p; exec sleep 600");
        let repo = with_agent("");
        spends(&repo, &ends);
        let run = start(&repo, &text("tokens: 1500", 3));
        for _ in 0..6 {
            repo.aynig(["run"]);
        }
        assert_eq!(shown(&repo, &run)["status"], "paused", "{above}: {:?}", steps(&repo, &run));
        let log = out(&repo.aynig_ok(["flow", "log", &run.slug]));
        let word = format!(" {recorded}");
        let told = log.lines().filter(|line| line.contains("  step  ") && line.contains(&word));
        assert_eq!(told.count(), 2, "{above}: {log}");
    }
}

/// CONTRACT 20.8
#[test]
fn an_attempt_that_was_interrupted_is_recorded_once_by_whoever_goes_on() {
    let repo = with_agent("");
    spends(&repo, STAYS);
    let run = start(&repo, &text("tokens: 15000", 0));
    interrupt(&repo, &run, &["run"], Signal::SIGTERM);
    repo.aynig_ok(["flow", "pause", &run.slug]);
    assert_eq!(steps(&repo, &run), ["one error"], "the driver has other commits now");
    repo.aynig_ok(["flow", "resume", &run.slug]);
    scripted(&repo, QUICK);
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(steps(&repo, &run), ["one error", "one completed STOP"]);
    assert_eq!(shown(&repo, &run)["usage"]["totalTokens"], 1000);
}

/// CONTRACT 16.2, 20.8
#[test]
fn a_kill_while_an_interruption_is_recorded_neither_loses_nor_doubles_it() {
    for point in ["ledger-written", "ledger-pushed", "interrupted-recorded"] {
        let field = Field::new("");
        let first = &field.hosts[0];
        spends(first, STAYS);
        let run = start(first, &text("tokens: 1500", 3));
        interrupt(first, &run, &["run"], Signal::SIGTERM);
        interrupt(first, &run, &["run"], Signal::SIGTERM);
        scripted(first, QUICK);
        let crash = format!("{point}:kill:1");
        let killed =
            first.aynig_command().arg("run").env("AYNIG_CRASH_AT", &crash).output().expect("it runs");
        assert_eq!(reports(&run), 2, "{point}: {}", told(&killed));
        assert_reached(first, &run, "tokens", 3);
        assert_eq!(shown(first, &run)["usage"]["totalTokens"], 2000, "{point}");
        let log = out(&first.aynig_ok(["flow", "log", &run.slug]));
        assert_eq!(log.matches(" interrupted: ").count(), 2, "{point}: {log}");
        field.assert_same(&run);
    }
}
