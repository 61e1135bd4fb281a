//! Graphs with the real programs, against a scripted model in a network namespace that has only the loopback.
//!
//! The programs are in the directory `AYNIG_TESTS_AGENTS`, which `.ci/run` sets if it could install them. They have a home
//! of their own, no account, and nothing but `tests/fixtures/agents/model.py` to talk to.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::super::flow_engine::place_worktrees;
use super::super::programs::{program, shipped};
use super::super::support::*;
use super::Graph;

const CODEX: &str = r#"model = "gpt-5.5"
model_provider = "scripted"
check_for_update_on_startup = false
[model_providers.scripted]
name = "scripted"
base_url = "http://127.0.0.1:4010/v1"
env_key = "SCRIPTED_KEY"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
[analytics]
enabled = false
[feedback]
enabled = false
"#;

const GEMINI: &str = r#"{
  "security": {"auth": {"selectedType": "gemini-api-key"}},
  "general": {"maxAttempts": 1, "enableAutoUpdate": false},
  "privacy": {"usageStatisticsEnabled": false}
}"#;

/// A graph whose nodes are run by a real program.
struct Real {
    graph: Graph,
    kind: &'static str,
    place: PathBuf,
}

impl Real {
    /// `None` if the program, or a namespace for it, cannot be had here.
    #[expect(clippy::print_stderr, reason = "whoever runs the tests is to see it")]
    fn of(kind: &'static str) -> Option<Self> {
        let Some(agents) = std::env::var_os("AYNIG_TESTS_AGENTS") else {
            eprintln!("skipped: AYNIG_TESTS_AGENTS names no directory with the program {kind}");
            return None;
        };
        let agent = Path::new(&agents).join(kind);
        assert!(agent.exists(), "{} does not exist", agent.display());
        let alone = Command::new("unshare").args(["-n", "true"]).output();
        if !alone.is_ok_and(|output| output.status.success()) {
            super::super::programs::skipped("a network namespace cannot be made here");
            return None;
        }
        let repo = Repo::new();
        place_worktrees(&repo);
        let place = repo.path.join(".git/real");
        for directory in [".codex", ".gemini"] {
            std::fs::create_dir_all(place.join("home").join(directory)).expect("a directory");
        }
        std::fs::write(place.join("home/.codex/config.toml"), CODEX).expect("a file");
        std::fs::write(place.join("home/.gemini/settings.json"), GEMINI).expect("a file");
        let set = |key: &str, value: &str| {
            repo.git(["config", "--add", &format!("aynig.provider.{kind}.{key}"), value]);
        };
        set("command", agent.to_str().expect("UTF-8"));
        let variables: &[&str] = match kind {
            "claude" => {
                set("model", "claude-sonnet-4-5");
                &[
                    "ANTHROPIC_BASE_URL=http://127.0.0.1:4010",
                    "ANTHROPIC_API_KEY=none",
                    "CLAUDE_CODE_MAX_RETRIES=1",
                ]
            }
            "codex" => &["SCRIPTED_KEY=none"],
            _ => {
                set("model", "gemini-2.5-flash");
                &["GOOGLE_GEMINI_BASE_URL=http://127.0.0.1:4010", "GEMINI_API_KEY=none"]
            }
        };
        variables.iter().for_each(|variable| set("env", variable));
        Some(Self { graph: Graph::of(repo, &[]), kind, place })
    }

    /// A node with a message.
    fn node(&self, alias: &str, permissions: &str, message: &str) {
        let words = ["node", "add", "RUN", alias, "--role", "implementer", "--provider", self.kind];
        self.graph.ok(&[&words[..], &["--permissions", permissions]].concat());
        self.graph.ok(&["chat", "RUN", alias, message]);
    }

    /// A runner beside the model.
    fn runner(&self, offset: &str) -> Child {
        std::fs::remove_file(self.place.join("runner")).ok();
        let python = program("python3").expect("python3");
        let aynig = self.graph.repo.aynig_command();
        let mut command = Command::new("unshare");
        command.arg("-n").arg(python).arg(shipped("tests/fixtures/agents/model.py")).arg(&self.place);
        command.arg(aynig.get_program()).args(aynig.get_args()).args(["run", "--drain"]);
        command.current_dir(aynig.get_current_dir().expect("a directory"));
        for (name, value) in aynig.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.env("HOME", self.place.join("home")).env("AYNIG_CLOCK_OFFSET_SECONDS", offset);
        let log =
            std::fs::File::options().create(true).append(true).open(self.place.join("log")).expect("a file");
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("a file")).stderr(log);
        command.spawn().expect("it runs")
    }

    /// Runs what is due until so many turns have ended: a busy host may hand a driver back first.
    fn drain(&self, turns: usize) {
        for attempt in 0.. {
            assert!(self.runner("0").wait().expect("it ends").success());
            if self.ended().len() >= turns {
                return;
            }
            assert!(attempt < 100, "{}", self.log());
        }
    }

    /// Answers the request of the node that the runner carries out.
    fn answer(&self, runner: &mut Child, words: &[&str]) {
        let open = wait_for("a request", || {
            assert!(runner.try_wait().expect("a state").is_none(), "{:?} {}", self.ended(), self.log());
            let listed: Value = serde_json::from_str(&self.graph.ok(&["approvals", "--json"])).expect("JSON");
            listed["approvals"].as_array().expect("a list").first().cloned()
        });
        let place = self.graph.repo.beside("worktrees").display().to_string();
        assert!(!open.to_string().contains(&place), "no path of this host: {open}");
        let id = open["id"].as_str().expect("an id");
        let words: Vec<&str> = words.iter().map(|word| if *word == "ID" { id } else { word }).collect();
        self.graph.ok(&words);
    }

    /// What the runners printed.
    fn log(&self) -> String {
        std::fs::read_to_string(self.place.join("log")).unwrap_or_default()
    }

    fn ended(&self) -> Vec<Value> {
        self.graph.events(&["turn.status"])
    }

    /// The newest answer of a node.
    fn last_words(&self, alias: &str) -> String {
        let id = self.graph.node(alias)["id"].clone();
        let said = self.graph.events(&["message.assistant.final"]);
        let said = said.iter().rev().find(|event| event["nodeId"] == id);
        said.and_then(|event| event["content"].as_str()).unwrap_or_default().to_owned()
    }

    fn files(&self, alias: &str) -> String {
        self.graph.repo.git(["ls-tree", "--name-only", &format!("work/{}/{alias}", self.graph.slug)])
    }

    /// What the program asked the model.
    fn requests(&self) -> String {
        std::fs::read_to_string(self.place.join("requests")).unwrap_or_default()
    }

    fn assert_ends(&self, expected: &[&str]) {
        assert_eq!(self.graph.turns(), expected, "{}: {:?}", self.kind, self.ended());
    }
}

fn takes_turns(kind: &'static str) {
    let Some(real) = Real::of(kind) else { return };
    real.node("a", "skip", "RUN touch one");
    real.drain(1);
    real.assert_ends(&["a completed"]);
    assert!(real.last_words("a").starts_with("Heard: "), "{}", real.last_words("a"));
    assert!(real.files("a").contains("one"), "{}", real.files("a"));
    assert!(real.graph.node("a")["usage"]["totalTokens"].as_u64().is_some_and(|tokens| tokens >= 36));
    let session = real.graph.node("a")["session"].clone();
    assert_ne!(session["sessionId"], "pending", "{kind}");
    real.graph.ok(&["chat", "RUN", "a", "SAY Good bye."]);
    real.drain(2);
    // The session is continued: the model is given the first turn as well, and the role only once. gemini does not find
    // its sessions at times; what it is given then is the replay.
    if kind != "gemini" {
        assert_eq!(real.graph.node("a")["session"], session, "{kind}");
    }
    let asked = real.requests();
    let asked = asked.lines().rev().find(|line| line.contains("SAY Good bye.")).expect("a request");
    assert_eq!(asked.matches("You make the change that you are asked for").count(), 1, "{kind}: {asked}");
    assert!(asked.contains("RUN touch one"), "{kind}: {asked}");
    real.assert_ends(&["a completed", "a completed"]);
    assert_eq!(real.last_words("a"), "Good bye.");
    real.graph.assert_read_once(0);
}

fn asks_a_person(kind: &'static str) {
    let Some(real) = Real::of(kind) else { return };
    real.graph.repo.git(["config", "aynig.approvalWaitSeconds", "600"]);
    real.node("a", "gated", "RUN touch one");
    let mut runner = real.runner("0");
    real.answer(&mut runner, &["approve", "ID"]);
    assert!(runner.wait().expect("it ends").success());
    real.assert_ends(&["a completed"]);
    assert!(real.files("a").contains("one"), "{}", real.files("a"));

    real.graph.ok(&["chat", "RUN", "a", "RUN touch two"]);
    let mut runner = real.runner("0");
    real.answer(&mut runner, &["deny", "ID", "--reason", "not in this week"]);
    assert!(runner.wait().expect("it ends").success());
    real.assert_ends(&["a completed", "a completed"]);
    assert!(!real.files("a").contains("two"), "{}", real.files("a"));
    if kind == "gemini" {
        assert!(!real.requests().contains("not in this week"), "the protocol carries no reason");
        real.graph.ok(&["chat", "RUN", "a", "SAY Good bye."]);
        real.drain(3);
    }
    assert!(real.requests().contains("not in this week"), "{kind}: the agent hears the reason");
    real.graph.assert_read_once(0);

    // Nobody is there: the turn is parked, and the answer is used by the next one.
    real.graph.repo.git(["config", "aynig.approvalWaitSeconds", "0"]);
    real.graph.ok(&["chat", "RUN", "a", "RUN touch three"]);
    let before = real.ended().len();
    real.drain(before + 1);
    assert_eq!(real.graph.turns().last().map(String::as_str), Some("a interrupted"), "{:?}", real.ended());
    assert!(!real.files("a").contains("three"), "{}", real.files("a"));
    let open: Value = serde_json::from_str(&real.graph.ok(&["approvals", "--json"])).expect("JSON");
    real.graph.ok(&["approve", open["approvals"][0]["id"].as_str().expect("an id")]);
    real.drain(before + 2);
    assert_eq!(real.graph.turns().last().map(String::as_str), Some("a completed"), "{:?}", real.ended());
    assert!(real.files("a").contains("three"), "{}", real.files("a"));
    assert_eq!(real.graph.events(&["approval.requested"]).len(), 3, "each was asked once");
    real.graph.assert_read_once(0);
}

fn meets_limits_and_outages(kind: &'static str) {
    let Some(real) = Real::of(kind) else { return };
    real.node("a", "skip", "LIMIT");
    real.node("b", "skip", "OUTAGE");
    real.drain(2);
    let ended = real.ended();
    assert_eq!(ended.len(), 2, "{ended:?}");
    for end in &ended {
        assert_eq!((&end["status"], &end["excused"]), (&"failed".into(), &true.into()), "{end}");
        assert!(end["until"].as_str().is_some(), "{end}");
    }
    for alias in ["a", "b"] {
        let node = real.graph.node(alias);
        assert_eq!((&node["status"], &node["inboxCount"]), (&"idle".into(), &1.into()), "{node}");
        assert!(node["turn"]["failures"].as_u64().unwrap_or(0) == 0, "{node}");
    }
    real.graph.assert_read_once(2);
}

/// A signal while a command runs ends the program and the command, and the turn is taken again.
fn is_stopped_in_a_tool(kind: &'static str) {
    let Some(real) = Real::of(kind) else { return };
    real.node("a", "skip", "RUN echo $$ >pid; exec sleep 4010");
    let mut runner = real.runner("0");
    let file = real.graph.repo.beside("worktrees").join(&real.graph.slug).join("a/pid");
    let pid = wait_for("the tool", || {
        assert!(runner.try_wait().expect("a state").is_none(), "{:?} {}", real.ended(), real.log());
        std::fs::read_to_string(&file).ok()?.trim().parse::<i32>().ok()
    });
    let aynig = wait_for_file(&real.place.join("runner"));
    kill(Pid::from_raw(aynig.trim().parse().expect("a number")), Signal::SIGTERM).expect("it runs");
    runner.wait().expect("it ends");
    wait_until("the tool has ended", || !is_alive(pid));
    let home = real.place.display().to_string();
    wait_until("no process of the program is left", || {
        let all = std::fs::read_dir("/proc").expect("on Linux").flatten();
        let mut environments = all.filter_map(|entry| std::fs::read(entry.path().join("environ")).ok());
        !environments.any(|text| String::from_utf8_lossy(&text).contains(&home))
    });
    assert!(!real.files("a").contains("pid"), "{}", real.files("a"));
    real.graph.ok(&["chat", "RUN", "a", "SAY Good bye."]);
    for offset in ["600", "1200"] {
        assert!(real.runner(offset).wait().expect("it ends").success());
    }
    real.assert_ends(&["a interrupted", "a completed"]);
    real.graph.assert_read_once(0);
}

/// CONTRACT 19.1, 19.4, 22.3
#[test]
fn claude_takes_turns() {
    takes_turns("claude");
}

/// CONTRACT 19.1, 19.4, 22.3
#[test]
fn codex_takes_turns() {
    takes_turns("codex");
}

/// CONTRACT 19.1, 19.4, 22.3
#[test]
fn gemini_takes_turns() {
    takes_turns("gemini");
}

/// CONTRACT 19.13, 22.12
#[test]
fn claude_asks_a_person() {
    asks_a_person("claude");
}

/// CONTRACT 19.13, 22.12
#[test]
fn codex_asks_a_person() {
    asks_a_person("codex");
}

/// CONTRACT 19.13, 22.12
#[test]
fn gemini_asks_a_person() {
    asks_a_person("gemini");
}

/// CONTRACT 19.8, 22.4
#[test]
fn claude_meets_limits_and_outages() {
    meets_limits_and_outages("claude");
}

/// CONTRACT 19.8, 22.4
#[test]
fn codex_meets_limits_and_outages() {
    meets_limits_and_outages("codex");
}

/// CONTRACT 19.8, 22.4
#[test]
fn gemini_meets_limits_and_outages() {
    meets_limits_and_outages("gemini");
}

/// CONTRACT 10.9, 19.6, 22.5
#[test]
fn claude_is_stopped_in_a_tool() {
    is_stopped_in_a_tool("claude");
}

/// CONTRACT 10.9, 19.6, 22.5
#[test]
fn codex_is_stopped_in_a_tool() {
    is_stopped_in_a_tool("codex");
}

/// CONTRACT 10.9, 19.6, 22.5
#[test]
fn gemini_is_stopped_in_a_tool() {
    is_stopped_in_a_tool("gemini");
}
