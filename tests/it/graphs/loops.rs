//! Loop safety: turns that get nowhere pause their run.

use super::*;

/// Two nodes hand work to each other. The script has the other one in `$other`, and the number of its turn in `$n`.
fn pair(script: &str) -> Graph {
    let head = r#"
case $prompt in *"the agent a "*) other=b ;; *) other=a ;; esac
n=$(($(cat ../../turns-of-$other 2>/dev/null || echo 0) + 1)); echo $n >../../turns-of-$other
printf '%s\n' "$prompt" >../../prompt-$other-$n
"#;
    let graph = Graph::new(&format!("{head}{script}"), &["a", "b"]);
    graph.ok(&["edge", "add", "RUN", "a", "b"]);
    graph
}

impl Graph {
    /// The evidence of the one stall.
    fn evidence(&self) -> Value {
        let stalled = self.events(&["run.stalled"]);
        let [stalled] = stalled.as_slice() else { panic!("one stall: {stalled:?}") };
        assert_eq!(self.state()["status"], "paused");
        stalled["evidence"].clone()
    }
}

/// CONTRACT 22.18, 22.19
#[test]
fn equal_answers_pause_the_run_after_a_warning() {
    let graph = pair(
        r#"echo "$AYNIG_ORCH_TURN" >for-$other; "$AYNIG_BIN" orch handoff --to $other --message "$AYNIG_ORCH_TURN" >/dev/null
printf '  All\n done.  '"#,
    );
    graph.ok(&["chat", "RUN", "a", "Begin."]);
    graph.drain();
    assert_eq!(graph.turns().len(), 7, "{:?}", graph.turns());
    let evidence = graph.evidence();
    let a = graph.node("a");
    let turns: Vec<Value> = graph
        .events(&["turn.status"])
        .into_iter()
        .filter(|end| end["nodeId"] == a["id"])
        .map(|end| end["turnId"].clone())
        .collect();
    assert_eq!((&evidence["nodeId"], &evidence["turns"]), (&a["id"], &Value::from(turns)));
    assert_eq!((&evidence["signal"], &evidence["count"]), (&"output".into(), &4.into()));
    assert_eq!(
        evidence["summaries"],
        serde_json::json!(["All done.", "All done.", "All done.", "All done."])
    );
    assert_eq!(evidence["hash"], evidence["outputHash"]);
    assert!(evidence["diffHash"].is_string() && evidence["cycle"].as_array().is_some_and(Vec::is_empty));
    assert_eq!(evidence.get("verificationFailure"), Some(&Value::Null));
    // The last turn of each was warned, and no one before.
    let prompt =
        |name: &str| std::fs::read_to_string(graph.repo.beside("worktrees").join(name)).expect("a prompt");
    for (name, is_warned) in [("prompt-b-3", false), ("prompt-b-4", true), ("prompt-a-3", false)] {
        assert_eq!(
            prompt(name).contains("Note: 3 turns of a ended with the same text."),
            is_warned,
            "{name}"
        );
    }
    // People see it.
    let line = format!("`aynig orch run resume {}`: 4 turns of a ended with the same text", graph.slug);
    let shown = graph.ok(&["show", "RUN"]);
    assert!(
        shown.contains(&line) && shown.contains("output, 4 times; the last answer: All done."),
        "{shown}"
    );
    assert!(graph.ok(&["run", "list"]).contains(&line));
    let status = out(&graph.repo.aynig_ok(["status", "--all"]));
    assert!(status.contains(&format!("aynig orch run resume {}", graph.slug)), "{status}");
    assert_eq!(graph.state()["halted"]["evidence"], evidence);
    // A resume counts anew: b has read nothing of what a has handed to it.
    graph.ok(&["run", "resume", "RUN"]);
    let state = graph.state();
    assert_eq!((state.get("halted"), &state["waitingFor"]), (None, &Value::Null));
    let asks = graph.repo.git(["log", "-1", "--format=%B", &format!("run/{}/a", graph.slug)]);
    assert!(!asks.contains("dwp-waits-for"), "{asks}");
    graph.drain();
    assert_eq!(graph.turns().len(), 14, "{:?}", graph.turns());
    assert_eq!(graph.events(&["run.stalled"]).len(), 2);
    graph.ok(&["doctor", "RUN"]);
}

/// CONTRACT 22.18
#[test]
fn the_number_of_repeats_is_a_setting_and_a_person_begins_anew() {
    let graph = Graph::new("echo done", &["a"]);
    graph.repo.git(["config", "aynig.stallRepeats", "2"]);
    for message in ["one", "two", "three"] {
        graph.ok(&["chat", "RUN", "a", message]);
        graph.drain();
    }
    assert!(graph.events(&["run.stalled"]).is_empty());
    assert_eq!(graph.turns().len(), 3);
    graph.repo.git(["config", "aynig.stallRepeats", "1"]);
    let output = graph.orch(&["chat", "RUN", "a", "four"]);
    assert_eq!(output.status.code(), Some(3), "{}", err(&output));
    assert!(err(&output).contains("aynig.stallRepeats"), "{}", err(&output));
}

/// CONTRACT 22.18
#[test]
fn equal_changes_pause_the_run() {
    let graph = pair(
        r#"[ $other = a ] || echo again >>work; echo "$AYNIG_ORCH_TURN"
"$AYNIG_BIN" orch handoff --to $other --message "$AYNIG_ORCH_TURN" >/dev/null"#,
    );
    graph.ok(&["chat", "RUN", "a", "Begin."]);
    graph.drain();
    let evidence = graph.evidence();
    assert_eq!((&evidence["signal"], &evidence["count"]), (&"diff".into(), &4.into()));
    assert_eq!(evidence["hash"], evidence["diffHash"]);
}

/// CONTRACT 22.18
#[test]
fn trees_that_return_pause_the_run() {
    let graph = pair(
        r#"if [ $other = b ]; then if [ -e x ]; then rm x; else touch x; fi; fi
echo "$AYNIG_ORCH_TURN"; "$AYNIG_BIN" orch handoff --to $other --message "$AYNIG_ORCH_TURN" >/dev/null"#,
    );
    graph.ok(&["chat", "RUN", "a", "Begin."]);
    graph.drain();
    assert_eq!(graph.turns().len(), 11);
    let evidence = graph.evidence();
    assert_eq!((&evidence["signal"], &evidence["count"]), (&"tree".into(), &3.into()));
    assert_eq!(evidence["turns"].as_array().map(Vec::len), Some(6));
    let cycle = evidence["cycle"].as_array().expect("trees");
    assert!(cycle.len() == 2 && cycle[0] != cycle[1], "{cycle:?}");
}

/// CONTRACT 22.18
#[test]
fn hand_offs_that_go_round_pause_the_run() {
    let graph = pair(
        r#"echo "$AYNIG_ORCH_TURN"; "$AYNIG_BIN" orch handoff --to $other --message "Your turn,  $other." >/dev/null"#,
    );
    graph.ok(&["chat", "RUN", "a", "Begin."]);
    graph.drain();
    assert_eq!(graph.turns().len(), 7);
    let evidence = graph.evidence();
    assert_eq!((&evidence["signal"], &evidence["count"]), (&"handoff".into(), &4.into()));
    assert_eq!(evidence["cycle"], serde_json::json!(["a -> b", "b -> a"]));
    assert_eq!(graph.state()["passed"].as_array().map(Vec::len), Some(7));
}

/// An agent that reports a call of a tool that fails, `$2` times.
const FAILING: &str = r#"
fails() {
    i=0
    while [ $i -lt $2 ]; do
        i=$((i + 1))
        printf '{"type":"tool.proposed","tool":{"id":"%s","name":"Bash","args":{"command":"%s"}}}\n' $i "$1"
        printf '{"type":"tool.completed","toolId":"%s","result":{"ok":false,"output":"2 failed in 0.%s s"}}\n' $i $$
    done
}
says() { printf '{"type":"message.assistant.final","content":"%s"}\n' "$1"; }
"#;

/// CONTRACT 22.18
#[test]
fn calls_that_fail_in_one_turn_pause_the_run() {
    let repo = Repo::new();
    place_worktrees(&repo);
    let script = r#"case $prompt in *five*) fails "make test" 5 ;; *) fails "make test" 4 ;; esac; says "$AYNIG_ORCH_TURN""#;
    asking_agent(&repo, &format!("{FAILING}{script}"));
    let graph = Graph::of(repo, &["a"]);
    graph.ok(&["chat", "RUN", "a", "four"]);
    graph.drain();
    assert!(graph.events(&["run.stalled"]).is_empty());
    let unsaid = &graph.node("a")["turn"]["unsaid"];
    assert!(
        unsaid[0].as_str().is_some_and(|text| text.starts_with("a call of a failed 4 times in one turn"))
    );
    graph.ok(&["chat", "RUN", "a", "five"]);
    graph.drain();
    let evidence = graph.evidence();
    assert_eq!((&evidence["signal"], &evidence["count"]), (&"toolFailure".into(), &5.into()));
    assert_eq!(evidence["turns"].as_array().map(Vec::len), Some(1));
    assert!(evidence["verificationFailure"].is_string());
}

/// CONTRACT 22.18
#[test]
fn commands_that_fail_in_each_turn_pause_the_run() {
    let repo = Repo::new();
    place_worktrees(&repo);
    let script = r#"
case $prompt in *"the agent a "*) other=b; fails "make test" 1 ;; *) other=a ;; esac
"$AYNIG_BIN" orch handoff --to $other --message "$AYNIG_ORCH_TURN" >/dev/null
says "$AYNIG_ORCH_TURN""#;
    asking_agent(&repo, &format!("{FAILING}{script}"));
    let graph = Graph::of(repo, &["a", "b"]);
    graph.ok(&["edge", "add", "RUN", "a", "b"]);
    graph.ok(&["chat", "RUN", "a", "Begin."]);
    graph.drain();
    let evidence = graph.evidence();
    assert_eq!((&evidence["signal"], &evidence["count"]), (&"verification".into(), &4.into()));
    assert_eq!(evidence["hash"], evidence["verificationFailure"]);
}

/// CONTRACT 22.21
#[test]
fn a_silent_turn_fails_and_the_third_fails_its_node() {
    let graph = Graph::new("exec sleep 60", &["a"]);
    graph.repo.git(["config", "aynig.provider.scripted.idleSeconds", "1"]);
    graph.ok(&["chat", "RUN", "a", "Begin."]);
    for offset in ["0", "60", "120"] {
        let mut later = graph.repo.aynig_command();
        later.args(["run", "--drain"]).env("AYNIG_CLOCK_OFFSET_SECONDS", offset);
        assert!(later.output().expect("it runs").status.success());
    }
    assert_eq!(graph.turns(), ["a failed"; 3]);
    let node = graph.node("a");
    assert_eq!(node["status"], "failed");
    assert!(node["summary"].as_str().is_some_and(|text| text.contains("printed nothing")), "{node}");
    assert!(graph.events(&["run.stalled"]).is_empty());
    assert_eq!(graph.state()["status"], "running");
}

/// CONTRACT 19.6, 22.4
#[test]
fn a_turn_ends_after_the_time_of_its_provider() {
    let graph = Graph::new("exec sleep 60", &["a"]);
    graph.repo.git(["config", "aynig.provider.scripted.turnSeconds", "1"]);
    graph.ok(&["run", "set", "RUN", "--limit", "wallSeconds=600"]);
    graph.ok(&["chat", "RUN", "a", "Begin."]);
    graph.repo.aynig_ok(["run", "--drain"]);
    assert_eq!(graph.turns()[0], "a failed");
    assert!(graph.events(&["limit.reached"]).is_empty());
}

/// CONTRACT 22.21
#[test]
fn silence_with_work_going_on_ends_no_turn() {
    for work in [
        "while [ $(date +%s) -lt $end ]; do :; done",
        "while [ $(date +%s) -lt $end ]; do echo x >>f; sleep 0.2; done",
    ] {
        let graph = Graph::new(&format!("end=$(($(date +%s) + 4)); {work}; echo done"), &["a"]);
        graph.repo.git(["config", "aynig.provider.scripted.idleSeconds", "1"]);
        graph.ok(&["chat", "RUN", "a", "Begin."]);
        graph.drain();
        assert_eq!(graph.turns(), ["a completed"], "{work}");
    }
}
