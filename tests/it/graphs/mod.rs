//! Graphs on the real binary: messages, turns, hand-offs, and what a crash leaves.

pub(crate) mod approvals;
mod artifacts;
mod asked;
mod attacks;
mod auto;
mod carried;
mod chaos;
mod damaged;
mod forged;
pub(crate) mod grants;
pub(crate) mod hand;
mod hosts;
mod judge;
mod kept;
mod limits;
mod loops;
pub(crate) mod made;
mod pack;
pub(super) mod people;
mod played;
mod privacy;
mod real;
mod sessions;
mod storms;
mod telemetry;
mod turns;
mod waits;

use serde_json::Value;

use super::flow_engine::place_worktrees;
use super::support::*;

/// A repository with a provider `scripted` that runs this script, which has the prompt in `$prompt`.
pub(super) struct Graph {
    pub(super) repo: Repo,
    pub(super) slug: String,
}

impl Graph {
    /// A graph with these nodes, all implementers.
    pub(super) fn new(script: &str, nodes: &[&str]) -> Self {
        let repo = Repo::new();
        place_worktrees(&repo);
        agent(&repo, script);
        Self::of(repo, nodes)
    }

    /// The same in a repository that is there.
    pub(super) fn of(repo: Repo, nodes: &[&str]) -> Self {
        let made = out(&repo.aynig_ok(["orch", "run", "create", "--label", "A test", "--json"]));
        let made: Value = serde_json::from_str(&made).expect("JSON");
        let graph = Self { slug: made["slug"].as_str().expect("a slug").to_owned(), repo };
        for node in nodes {
            graph.ok(&[
                "node",
                "add",
                "RUN",
                node,
                "--role",
                "implementer",
                "--provider",
                "scripted",
                "--permissions",
                "skip",
            ]);
        }
        graph
    }

    /// Calls `aynig orch`, with the run at `RUN`.
    pub(super) fn orch(&self, arguments: &[&str]) -> std::process::Output {
        let arguments = arguments.iter().map(|word| if *word == "RUN" { self.slug.as_str() } else { word });
        self.repo.aynig(std::iter::once("orch").chain(arguments))
    }

    pub(super) fn ok(&self, arguments: &[&str]) -> String {
        let output = self.orch(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", err(&output));
        out(&output)
    }

    /// Carries out what is due on this host.
    pub(super) fn drain(&self) -> String {
        err(&self.repo.aynig_ok(["run", "--drain"]))
    }

    /// The ledger's state.
    pub(super) fn state(&self) -> Value {
        let shown: Value = serde_json::from_str(&self.ok(&["show", "RUN", "--json"])).expect("JSON");
        shown["run"].clone()
    }

    pub(super) fn node(&self, alias: &str) -> Value {
        let state = self.state();
        let nodes = state["nodes"].as_object().expect("nodes").values();
        nodes.into_iter().find(|node| node["alias"] == alias).expect("a node").clone()
    }

    /// The events of record of these types, in their order.
    pub(super) fn events(&self, types: &[&str]) -> Vec<Value> {
        let all = self.journal(types).into_iter();
        all.filter(|event| event["commit"].is_string()).collect()
    }

    /// The events of these types, with those that only this host saw.
    pub(super) fn journal(&self, types: &[&str]) -> Vec<Value> {
        let lines = self.ok(&["events", "RUN", "--json"]);
        let events = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let events = events.map(|mut line| line["event"].take());
        events.filter(|event| types.contains(&event["type"].as_str().expect("a type"))).collect()
    }

    /// How the turns ended, with the aliases of their nodes.
    pub(super) fn turns(&self) -> Vec<String> {
        let state = self.state();
        let alias = |id: &Value| state["nodes"][id.as_str().expect("an id")]["alias"].clone();
        let ends = self.events(&["turn.status"]);
        let line = |end: &Value| {
            let (alias, status) = (alias(&end["nodeId"]), end["status"].clone());
            format!("{} {}", alias.as_str().unwrap_or("?"), status.as_str().unwrap_or("?"))
        };
        ends.iter().map(line).collect()
    }

    /// Every message that was sent is read by exactly one completed turn, except those of these nodes.
    pub(super) fn assert_read_once(&self, unread: usize) {
        let sent = self.events(&["message.user", "handoff.sent"]);
        let ids = sent.iter().map(|event| {
            let id = event.pointer("/message/id").or(event.pointer("/envelope/id"));
            id.and_then(Value::as_str).expect("an id").to_owned()
        });
        let ends = self.events(&["turn.status"]);
        let consumed = ends.iter().flat_map(|end| end["consumed"].as_array().cloned().unwrap_or_default());
        let consumed: Vec<String> = consumed.map(|id| id.as_str().expect("an id").to_owned()).collect();
        let counts: Vec<usize> = ids.map(|id| consumed.iter().filter(|one| **one == id).count()).collect();
        assert!(counts.iter().all(|count| *count <= 1), "{counts:?}");
        assert_eq!(counts.iter().filter(|count| **count == 0).count(), unread, "{counts:?}");
    }
}

/// Makes the provider `scripted`.
pub(super) fn agent(repo: &Repo, script: &str) {
    use std::os::unix::fs::PermissionsExt;
    let program = repo.path.join(".git/scripted.sh");
    std::fs::write(&program, format!("#!/bin/sh\nprompt=$(cat)\n{script}\n")).expect("a script");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("a mode");
    for (key, value) in [("kind", "custom"), ("protocol", "text")] {
        repo.git(["config", &format!("aynig.provider.scripted.{key}"), value]);
    }
    repo.git(["config", "aynig.provider.scripted.command", program.to_str().expect("UTF-8")]);
}

/// Makes the provider `scripted`, which asks for permission. The script has the prompt's line in `$prompt`.
pub(super) fn asking_agent(repo: &Repo, script: &str) {
    agent(repo, "");
    let program = repo.path.join(".git/scripted.sh");
    std::fs::write(program, format!("#!/bin/sh\nIFS= read -r prompt\n{script}\n")).expect("a script");
    repo.git(["config", "aynig.provider.scripted.protocol", "jsonl"]);
}

/// The newest state of a driver.
pub(super) fn driver_state(repo: &Repo, slug: &str, alias: &str) -> String {
    repo.git(["log", "-1", "--format=%(trailers:key=dwp-state,valueonly)", &format!("run/{slug}/{alias}")])
        .trim()
        .to_owned()
}
