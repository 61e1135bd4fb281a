//! Graphs with each kind of provider, spoken by a small program (`tests/fixtures/agents/player.py`).

use std::path::PathBuf;
use std::process::{Child, Stdio};

use serde_json::Value;

use super::super::flow_engine::place_worktrees;
use super::super::programs::{program, shipped};
use super::super::support::*;
use super::{Graph, driver_state};

/// The kinds whose programs ask for permission.
const ASKING: [&str; 4] = ["claude", "codex", "acp", "jsonl"];

/// The same, and the one that cannot ask.
const ALL: [&str; 5] = ["claude", "codex", "acp", "jsonl", "text"];

/// A graph with nodes whose provider `scripted` is the player.
pub(super) struct Play {
    pub(super) graph: Graph,
    place: PathBuf,
}

impl Play {
    /// A graph without nodes. `None` if the player cannot run here.
    pub(super) fn of(kind: &str) -> Option<Self> {
        Self::speaking(kind, kind)
    }

    /// The same with a player that speaks something else than its provider should.
    pub(super) fn speaking(kind: &str, spoken: &str) -> Option<Self> {
        let python = program("python3")?;
        let repo = Repo::new();
        place_worktrees(&repo);
        let place = repo.path.join(".git/played");
        std::fs::create_dir(&place).expect("a directory");
        let player = shipped("tests/fixtures/agents/player.py");
        let (family, protocol) = match kind {
            "jsonl" | "text" => ("custom", Some(kind)),
            kind => (kind, None),
        };
        let set = |key: &str, value: &str| {
            repo.git(["config", &format!("aynig.provider.scripted.{key}"), value]);
        };
        set("kind", family);
        protocol.iter().for_each(|protocol| set("protocol", protocol));
        set("command", python.to_str().expect("UTF-8"));
        set("args", &format!("'{}' {spoken} '{}'", player.display(), place.display()));
        Some(Self { graph: Graph::of(repo, &[]), place })
    }

    /// One node `a` with these steps and a message.
    fn node(kind: &str, permissions: &str, wait: &str, steps: &[&str]) -> Option<Self> {
        let play = Self::of(kind)?;
        play.graph.repo.git(["config", "aynig.approvalWaitSeconds", wait]);
        play.steps("a", steps);
        play.add("a", permissions);
        play.graph.ok(&["chat", "RUN", "a", "go"]);
        Some(play)
    }

    pub(super) fn add(&self, alias: &str, permissions: &str) {
        let words = ["node", "add", "RUN", alias, "--role", "implementer", "--provider", "scripted"];
        self.graph.ok(&[&words[..], &["--permissions", permissions]].concat());
    }

    /// The steps of the next turns of a node. `a.2`: of its second one alone.
    pub(super) fn steps(&self, name: &str, steps: &[&str]) {
        self.file(name, (steps.join("\n") + "\n").as_bytes());
    }

    pub(super) fn file(&self, name: &str, content: &[u8]) {
        std::fs::write(self.place.join(name), content).expect("a file");
    }

    /// A file of the player; empty if there is none.
    pub(super) fn noted(&self, name: &str) -> String {
        std::fs::read_to_string(self.place.join(name)).unwrap_or_default()
    }

    fn marked(&self, name: &str) {
        wait_until(name, || self.place.join(name).exists());
    }

    /// How often a turn of the node failed in a row, as it counts.
    fn failures(&self) -> u64 {
        self.graph.node("a")["turn"]["failures"].as_u64().unwrap_or(0)
    }

    fn details(&self) -> Vec<String> {
        let ended = self.graph.events(&["turn.status"]);
        ended.iter().map(|end| end["detail"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// A runner that works until nothing is due.
    fn runner(&self) -> Child {
        let mut runner = self.graph.repo.aynig_command();
        runner.args(["run", "--drain"]).stdout(Stdio::null()).stderr(Stdio::null());
        runner.spawn().expect("it runs")
    }

    /// The same later, in seconds.
    fn drain_after(&self, offset: &str) {
        let mut later = self.graph.repo.aynig_command();
        later.args(["run", "--drain"]).env("AYNIG_CLOCK_OFFSET_SECONDS", offset);
        assert!(later.output().expect("it runs").status.success());
    }

    fn open(&self) -> Vec<Value> {
        let listed: Value = serde_json::from_str(&self.graph.ok(&["approvals", "--json"])).expect("JSON");
        listed["approvals"].as_array().expect("a list").clone()
    }

    /// The requests, once there is one. They come from a runner, unless it has ended already.
    fn asked(&self, mut runner: Option<&mut Child>) -> Vec<Value> {
        wait_for("a request", || {
            let has_ended =
                runner.as_mut().is_none_or(|runner| runner.try_wait().expect("a state").is_some());
            let open = self.open();
            assert!(!open.is_empty() || !has_ended, "{:?}", self.graph.events(&["turn.status"]));
            Some(open).filter(|open| !open.is_empty())
        })
    }

    /// Answers the one request that is open, with `ID` in its place.
    fn answer(&self, runner: Option<&mut Child>, words: &[&str]) {
        let open = self.asked(runner);
        let [request] = open.as_slice() else { panic!("{open:?}") };
        let id = request["id"].as_str().expect("an id");
        let words: Vec<&str> = words.iter().map(|word| if *word == "ID" { id } else { word }).collect();
        self.graph.ok(&words);
    }

    fn last_words(&self) -> String {
        let said = self.graph.events(&["message.assistant.final"]);
        said.last().and_then(|event| event["content"].as_str()).unwrap_or_default().to_owned()
    }

    /// The commands that ran, in their order.
    fn ran(&self) -> Vec<String> {
        self.noted("a.ran").lines().map(str::to_owned).collect()
    }

    fn files(&self) -> String {
        self.graph.repo.git(["ls-tree", "--name-only", &format!("work/{}/a", self.graph.slug)])
    }

    /// No program of a turn is left.
    pub(super) fn assert_nothing_left(&self) {
        let place = self.place.display().to_string();
        let left = || {
            let all = std::fs::read_dir("/proc").expect("on Linux").flatten();
            let lines = all.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
            lines.map(|line| String::from_utf8_lossy(&line).into_owned()).find(|line| line.contains(&place))
        };
        wait_until("no program is left", || left().is_none());
        for pid in self.noted("a.tool").lines() {
            let pid = pid.parse().expect("a number");
            wait_until("no tool is left", || !is_alive(pid));
        }
    }
}

/// CONTRACT 19.1, 19.4, 19.8, 22.3
#[test]
fn each_kind_takes_a_turn_without_requests() {
    for kind in ALL {
        let steps = ["say I begin.", "run touch one", "end"];
        let Some(play) = Play::node(kind, "skip", "0", &steps) else { return };
        play.graph.drain();
        let ended = play.graph.events(&["turn.status"]);
        assert_eq!(play.graph.turns(), ["a completed"], "{kind}: {ended:?}");
        assert!(play.files().contains("one"), "{kind}");
        assert!(play.last_words().ends_with("ran touch one: 0"), "{kind}: {}", play.last_words());
        assert!(play.noted("a.prompts").contains("> go"), "{kind}: {}", play.noted("a.prompts"));
        assert!(!play.noted("a.argv").contains("> go"), "{kind}: the prompt is no argument");
        let usage = play.graph.node("a")["usage"].clone();
        let tokens = if kind == "text" { 0 } else { 18 };
        assert_eq!(usage["totalTokens"].as_u64().unwrap_or(0), tokens, "{kind}: {usage}");
        assert!(play.open().is_empty(), "{kind}");
        assert_eq!(driver_state(&play.graph.repo, &play.graph.slug, "a"), "orch-idle", "{kind}");
        play.graph.assert_read_once(0);
    }
}

/// CONTRACT 19.13, 22.12
#[test]
fn each_kind_waits_for_an_answer() {
    for kind in ASKING {
        let Some(play) = Play::node(kind, "gated", "600", &["run touch one", "end"]) else { return };
        let mut runner = play.runner();
        let open = play.asked(Some(&mut runner)).remove(0);
        assert!(open["tool"]["args"].to_string().contains("touch one"), "{kind}: {open}");
        assert_eq!(play.ran(), Vec::<String>::new(), "{kind}: nothing ran before the answer");
        play.answer(Some(&mut runner), &["approve", "ID"]);
        assert!(runner.wait().expect("it ends").success());
        assert_eq!(play.graph.turns(), ["a completed"], "{kind}: {:?}", play.graph.events(&["turn.status"]));
        assert_eq!(play.ran(), ["touch one"], "{kind}");
        assert!(play.files().contains("one"), "{kind}");
        play.graph.assert_read_once(0);
        play.assert_nothing_left();
    }
}

/// CONTRACT 19.13, 22.12
#[test]
fn each_kind_hears_why_it_was_denied() {
    for kind in ASKING {
        let Some(play) = Play::node(kind, "gated", "600", &["run touch one", "end"]) else { return };
        let mut runner = play.runner();
        play.answer(Some(&mut runner), &["deny", "ID", "--reason", "not in this week"]);
        assert!(runner.wait().expect("it ends").success());
        assert_eq!(play.graph.turns(), ["a completed"], "{kind}: {:?}", play.graph.events(&["turn.status"]));
        assert_eq!(play.ran(), Vec::<String>::new(), "{kind}");
        let said = play.last_words();
        if kind == "acp" {
            assert!(!said.contains("not in this week"), "{said}");
            play.steps("a", &["end"]);
            play.graph.ok(&["chat", "RUN", "a", "go on"]);
            play.graph.drain();
            let prompts = play.noted("a.prompts");
            assert!(prompts.contains("was denied: not in this week"), "{prompts}");
        } else {
            assert!(said.contains("not in this week"), "{kind}: {said}");
        }
        play.graph.assert_read_once(0);
    }
}

/// CONTRACT 19.13, 22.12
#[test]
fn each_kind_uses_other_arguments_or_is_told_them() {
    for kind in ASKING {
        let Some(play) = Play::node(kind, "gated", "600", &["run touch one", "end"]) else { return };
        let mut runner = play.runner();
        play.answer(
            Some(&mut runner),
            &["approve", "ID", "--args", r#"{"command":"touch two","description":"other"}"#],
        );
        assert!(runner.wait().expect("it ends").success());
        assert_eq!(play.graph.turns(), ["a completed"], "{kind}: {:?}", play.graph.events(&["turn.status"]));
        let words = r#"It is allowed with {"command":"touch two","description":"other"} instead"#;
        match kind {
            "codex" => assert!(play.last_words().contains(words), "{}", play.last_words()),
            "acp" => {
                play.steps("a", &["end"]);
                play.graph.ok(&["chat", "RUN", "a", "go on"]);
                play.graph.drain();
                assert!(play.noted("a.prompts").contains(words), "{}", play.noted("a.prompts"));
            }
            _ => {
                assert_eq!(play.ran(), ["touch two"], "{kind}");
                assert!(play.files().contains("two"), "{kind}");
                continue;
            }
        }
        assert_eq!(play.ran(), Vec::<String>::new(), "{kind}");
    }
}

/// CONTRACT 19.13, 22.12
#[test]
fn each_kind_is_parked_and_continues_with_the_answer() {
    for kind in ASKING {
        let Some(play) = Play::node(kind, "gated", "0", &["run touch one", "end"]) else { return };
        play.graph.drain();
        assert_eq!(
            play.graph.turns(),
            ["a interrupted"],
            "{kind}: {:?}",
            play.graph.events(&["turn.status"])
        );
        assert_eq!(play.ran(), Vec::<String>::new(), "{kind}: nothing ran without an answer");
        play.assert_nothing_left();
        play.graph.drain();
        assert_eq!(play.graph.turns().len(), 1, "{kind}: no turn begins before the answer");
        play.answer(None, &["approve", "ID"]);
        if kind == "claude" {
            // It keeps the call, and asks about it again by itself.
            play.steps("a", &["end"]);
        }
        play.graph.drain();
        let ended = play.graph.events(&["turn.status"]);
        assert_eq!(play.graph.turns(), ["a interrupted", "a completed"], "{kind}: {ended:?}");
        assert_eq!(play.ran(), ["touch one"], "{kind}: it ran once");
        assert_eq!(play.graph.events(&["approval.requested"]).len(), 1, "{kind}: it was asked once");
        play.graph.assert_read_once(0);
    }
}

/// CONTRACT 19.5, 22.5, 22.12
#[test]
fn a_runner_that_is_killed_while_a_program_asks_runs_nothing() {
    for kind in ASKING {
        let Some(play) = Play::node(kind, "gated", "600", &["run touch one", "end"]) else { return };
        let mut runner = play.runner();
        play.asked(Some(&mut runner));
        runner.kill().expect("it runs");
        runner.wait().expect("it ends");
        play.assert_nothing_left();
        assert_eq!(play.ran(), Vec::<String>::new(), "{kind}: a question without an answer is no yes");
        play.answer(None, &["approve", "ID"]);
        for offset in ["600", "1200"] {
            play.drain_after(offset);
        }
        let turns = play.graph.turns();
        assert_eq!(turns.last().map(String::as_str), Some("a completed"), "{kind}: {:?}", play.details());
        assert_eq!(turns.len(), 2, "{kind}: {turns:?}");
        assert_eq!(play.ran(), ["touch one"], "{kind}: it ran once");
        assert_eq!(play.graph.events(&["approval.requested"]).len(), 1, "{kind}: it was asked once");
        play.graph.assert_read_once(0);
    }
}

/// CONTRACT 19.6, 22.5, 22.12
#[test]
fn a_runner_that_is_stopped_leaves_no_program_and_no_tool() {
    use nix::sys::signal::{Signal, kill};
    for (kind, permissions, steps, until) in [
        ("claude", "gated", &["mark begun", "run touch one", "end"][..], None),
        ("codex", "gated", &["mark begun", "run touch one", "end"], None),
        ("acp", "gated", &["mark begun", "run touch one", "end"], None),
        ("claude", "skip", &["tool sleep 600", "end"], Some("a.tool")),
        ("codex", "skip", &["tool sleep 600", "end"], Some("a.tool")),
        ("acp", "skip", &["tool sleep 600", "end"], Some("a.tool")),
        ("jsonl", "skip", &["mark begun", "deaf"], Some("begun")),
        ("text", "skip", &["mark begun", "tool sleep 600"], Some("a.tool")),
    ] {
        let Some(play) = Play::node(kind, permissions, "600", steps) else { return };
        let mut runner = play.runner();
        match until {
            Some(file) => play.marked(file),
            None => drop(play.asked(Some(&mut runner))),
        }
        let pid = nix::unistd::Pid::from_raw(i32::try_from(runner.id()).expect("a process"));
        kill(pid, Signal::SIGTERM).expect("it runs");
        runner.wait().expect("it ends");
        play.assert_nothing_left();
        assert_eq!(play.files().lines().find(|name| *name == "one"), None, "{kind}");
        if permissions == "gated" {
            play.answer(None, &["approve", "ID"]);
        } else {
            play.steps("a", &["end"]);
        }
        for offset in ["600", "1200"] {
            play.drain_after(offset);
        }
        let turns = play.graph.turns();
        assert_eq!(turns.last().map(String::as_str), Some("a completed"), "{kind}: {:?}", play.details());
        assert_eq!(turns.first().map(String::as_str), Some("a interrupted"), "{kind}: {:?}", play.details());
        play.graph.assert_read_once(0);
        assert!(play.open().is_empty(), "{kind}: a completed turn withdraws its requests");
    }
}

/// CONTRACT 19.8, 22.4
#[test]
fn a_usage_limit_parks_the_node_until_its_end() {
    let until = now() + 3_600;
    for (kind, reports) in
        [("codex", true), ("jsonl", true), ("claude", false), ("acp", false), ("text", false)]
    {
        let limit = format!("limit {}", if reports { until.to_string() } else { String::new() });
        let Some(play) = Play::node(kind, "skip", "0", &[limit.trim_end()]) else { return };
        play.graph.drain();
        assert_eq!(play.graph.turns(), ["a failed"], "{kind}");
        assert_eq!(play.failures(), 0, "{kind}: it does not count");
        let next = play.graph.repo.git([
            "log",
            "-1",
            "--format=%(trailers:key=dwp-not-before,valueonly)",
            &format!("run/{}/a", play.graph.slug),
        ]);
        assert!(next.trim().starts_with("20"), "{kind}: {next}");
        play.drain_after(if reports { "3500" } else { "20" });
        assert_eq!(play.graph.turns().len(), 1, "{kind}: no turn begins before the end of the limit");
        play.steps("a", &["end"]);
        play.drain_after("4000");
        assert_eq!(play.graph.turns(), ["a failed", "a completed"], "{kind}: {:?}", play.details());
        play.graph.assert_read_once(0);
    }
}

/// CONTRACT 19.8, 22.4
#[test]
fn an_outage_does_not_count() {
    for kind in ["claude", "codex", "acp"] {
        let Some(play) = Play::node(kind, "skip", "0", &["outage"]) else { return };
        for offset in 0..5_u64 {
            play.drain_after(&(offset * 10_000).to_string());
        }
        assert_eq!(play.graph.turns(), ["a failed"; 5], "{kind}");
        assert_eq!(play.failures(), 0, "{kind}: {:?}", play.details());
        assert_eq!(play.graph.node("a")["status"], "idle", "{kind}");
        play.steps("a", &["end"]);
        play.drain_after("50000");
        assert_eq!(play.graph.turns().last().map(String::as_str), Some("a completed"), "{kind}");
        play.graph.assert_read_once(0);
    }
}

/// CONTRACT 19.1, 22.4
#[test]
fn a_turn_without_its_last_message_failed_whatever_the_exit_code_is() {
    for kind in ASKING {
        for code in ["0", "1", "75"] {
            let steps = ["say almost", "run touch one", &format!("die {code}")];
            let Some(play) = Play::node(kind, "skip", "0", &steps) else { return };
            play.graph.drain();
            assert_eq!(play.graph.turns(), ["a failed"], "{kind} {code}");
            let words = format!("exit code {code} without the message that ends a turn");
            assert!(play.details()[0].contains(&words), "{kind}: {:?}", play.details());
            assert_eq!(play.failures(), 1, "{kind} {code}");
            assert!(!play.files().contains("one"), "{kind}: a failed turn leaves no work");
            play.graph.assert_read_once(1);
        }
    }
}
