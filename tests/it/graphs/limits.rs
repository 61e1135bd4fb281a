//! Limits of graphs and of their nodes.

use super::*;

impl Graph {
    fn set(&self, limit: &str) {
        self.ok(&["run", "set", "RUN", "--limit", limit]);
    }

    /// The limits that were reached, with the aliases of their nodes.
    fn reached(&self) -> Vec<String> {
        let state = self.state();
        let line = |event: Value| {
            let alias = event["nodeId"].as_str().map(|id| state["nodes"][id]["alias"].clone());
            let alias = alias.as_ref().and_then(Value::as_str).unwrap_or("run");
            format!("{alias} {} {}", event["limit"].as_str().expect("a limit"), event["bound"])
        };
        self.events(&["limit.reached"]).into_iter().map(line).collect()
    }
}

/// CONTRACT 22.20
#[test]
fn a_run_pauses_when_its_turns_are_used() {
    let graph = Graph::new("echo \"$AYNIG_ORCH_TURN\"", &["a"]);
    graph.set("turns=2");
    for message in ["one", "two", "three"] {
        graph.ok(&["chat", "RUN", "a", message]);
        graph.drain();
    }
    assert_eq!(graph.turns(), ["a completed", "a completed"]);
    assert_eq!(graph.reached(), ["run turns 2.0"]);
    let state = graph.state();
    assert_eq!((&state["status"], &state["spent"]["turns"]), (&"paused".into(), &2.into()));
    assert_eq!(state["halted"]["limit"], "turns");
    let line = format!("`aynig orch run resume {}`: the limit turns=2 was reached", graph.slug);
    let shown = graph.ok(&["show", "RUN"]);
    assert!(shown.contains(&line) && shown.contains("turns 2 of 2"), "{shown}");
    let list: Value = serde_json::from_str(&graph.ok(&["run", "list", "--json"])).expect("JSON");
    assert_eq!(list["runs"][0]["waitingFor"], line);
    // A resume counts anew.
    graph.ok(&["run", "resume", "RUN"]);
    graph.drain();
    assert_eq!(graph.turns().len(), 3);
    assert_eq!(graph.state()["spent"]["turns"], 1);
    // No turn begins beyond a limit that was lowered meanwhile.
    graph.set("turns=1");
    graph.ok(&["chat", "RUN", "a", "four"]);
    graph.drain();
    assert_eq!(graph.turns().len(), 3);
    assert_eq!(graph.reached(), ["run turns 2.0", "run turns 1.0"]);
    graph.assert_read_once(1);
    graph.set("turns=none");
    graph.ok(&["run", "resume", "RUN"]);
    graph.drain();
    assert_eq!(graph.turns().len(), 4);
    graph.ok(&["doctor", "RUN"]);
}

/// CONTRACT 22.20
#[test]
fn failed_turns_count_and_a_node_has_limits_of_its_own() {
    let graph = Graph::new(
        "case $prompt in *\"the agent a \"*) exit 3 ;; esac; echo \"$AYNIG_ORCH_TURN\"",
        &["a", "b"],
    );
    graph.ok(&["node", "set", "RUN", "a", "--limit", "turns=1"]);
    graph.ok(&["chat", "RUN", "b", "one"]);
    graph.drain();
    graph.ok(&["chat", "RUN", "a", "one"]);
    graph.drain();
    assert_eq!(graph.turns(), ["b completed", "a failed"]);
    assert_eq!(graph.reached(), ["a turns 1.0"]);
    assert!(graph.ok(&["show", "RUN"]).contains("the limit turns=1 of a was reached"));
    assert_eq!(graph.state()["status"], "paused");
    let output = graph.orch(&["node", "set", "RUN", "a", "--limit", "nodes=1"]);
    assert_eq!(output.status.code(), Some(2), "{}", err(&output));
    assert!(err(&output).contains("turns, wallSeconds, costUsd, tokens"), "{}", err(&output));
}

/// CONTRACT 22.20
#[test]
fn tokens_and_cost_are_counted() {
    let repo = Repo::new();
    place_worktrees(&repo);
    let script = r#"
case $prompt in
*cheap*) echo '{"type":"telemetry.usage","usage":{"totalTokens":30}}' ;;
*) echo '{"type":"telemetry.usage","usage":{"totalTokens":30,"costUsd":0.75}}' ;;
esac
printf '{"type":"message.assistant.final","content":"%s"}\n' "$AYNIG_ORCH_TURN""#;
    asking_agent(&repo, script);
    let graph = Graph::of(repo, &["a"]);
    graph.set("costUsd=1.5");
    graph.ok(&["node", "set", "RUN", "a", "--limit", "tokens=100"]);
    for message in ["cheap", "dear", "dear"] {
        graph.ok(&["chat", "RUN", "a", message]);
        graph.drain();
    }
    assert_eq!(graph.turns().len(), 3);
    assert_eq!(graph.reached(), ["run costUsd 1.5"]);
    // A cost that was not reported cannot be enforced, and that is said.
    let shown = graph.ok(&["show", "RUN"]);
    assert!(shown.contains("costUsd 1.5 of 1.5 (1 turn without a cost)"), "{shown}");
    assert!(shown.contains("used: tokens 90 of 100"), "{shown}");
    graph.ok(&["run", "resume", "RUN"]);
    for _ in 0..4 {
        graph.ok(&["chat", "RUN", "a", "cheap"]);
        graph.drain();
    }
    assert_eq!(graph.turns().len(), 7);
    assert_eq!(graph.reached(), ["run costUsd 1.5", "a tokens 100.0"]);
}

/// CONTRACT 22.20
#[test]
fn a_turn_is_ended_when_the_time_is_used() {
    let script = "echo half >half; [ -e ../../ready ] || exec sleep 60; echo done";
    let graph = Graph::new(script, &["a"]);
    graph.set("wallSeconds=1");
    graph.ok(&["chat", "RUN", "a", "Write it."]);
    graph.drain();
    // It has not failed, and what it did stays.
    assert_eq!(graph.turns(), ["a interrupted"]);
    assert_eq!(graph.reached(), ["run wallSeconds 1.0"]);
    graph.assert_read_once(1);
    assert_eq!(graph.repo.git(["show", &format!("work/{}/a:half", graph.slug)]), "half");
    std::fs::write(graph.repo.beside("worktrees").join("ready"), "").expect("a file");
    graph.set("wallSeconds=600");
    graph.ok(&["run", "resume", "RUN"]);
    graph.drain();
    assert_eq!(graph.turns(), ["a interrupted", "a completed"]);
    graph.assert_read_once(0);
}

/// CONTRACT 22.20
#[test]
fn a_node_that_wants_more_nodes_than_allowed_pauses_the_run() {
    let script = r#"
"$AYNIG_BIN" orch spawn kid --role implementer --provider scripted --permissions skip >said 2>&1; code=$?
echo "exit $code" >>said; echo done"#;
    for (limit, reached) in [("nodes=1", "run nodes 1.0"), ("depth=0", "run depth 0.0")] {
        let graph = super::hand::managed(script, false);
        graph.set(limit);
        graph.ok(&["chat", "RUN", "top", "Begin."]);
        graph.drain();
        assert_eq!(graph.turns(), ["top completed"]);
        let said = super::hand::file_of(&graph, "top", "said");
        assert!(said.contains("the run is limited to") && said.ends_with("exit 1"), "{said}");
        assert_eq!(graph.reached(), [reached]);
        assert_eq!(graph.state()["status"], "paused");
    }
}

/// CONTRACT 22.20
#[test]
fn a_run_has_as_many_nodes_as_it_may() {
    let repo = Repo::new();
    agent(&repo, "echo done");
    let output = repo.aynig(["orch", "run", "create", "--limit", "nodes=zero"]);
    assert_eq!(output.status.code(), Some(2), "{}", err(&output));
    let made =
        out(&repo.aynig_ok(["orch", "run", "create", "--limit", "nodes=1", "--limit", "depth=0", "--json"]));
    let made: Value = serde_json::from_str(&made).expect("JSON");
    let graph = Graph { slug: made["slug"].as_str().expect("a slug").to_owned(), repo };
    let add = |alias: &str| {
        graph.orch(&[
            "node",
            "add",
            "RUN",
            alias,
            "--role",
            "implementer",
            "--provider",
            "scripted",
            "--permissions",
            "skip",
        ])
    };
    assert!(add("a").status.success());
    let output = add("b");
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("limited to 1 nodes"), "{}", err(&output));
    assert_eq!(graph.state()["limits"], serde_json::json!({"nodes": 1, "depth": 0}));
}
