//! Mode AUTO, and the end of a run that an agent declares.

use super::hosts::host;
use super::waits::notices;
use super::*;

/// A graph in mode AUTO with the orchestrator `boss`, and other nodes, which may all hand work to each other.
fn auto(script: &str, others: &[&str]) -> Graph {
    let graph = Graph::new(script, others);
    boss(&graph, others);
    graph
}

fn boss(graph: &Graph, others: &[&str]) {
    let role = ["--role", "orchestrator", "--provider", "scripted", "--permissions", "skip"];
    graph.ok(&[&["node", "add", "RUN", "boss"], &role[..]].concat());
    for other in others {
        graph.ok(&["edge", "add", "RUN", "boss", other]);
        graph.ok(&["edge", "add", "RUN", other, "boss"]);
    }
    graph.ok(&["run", "set", "RUN", "--mode", "AUTO"]);
}

/// The orchestrator hands work out, waits for its report, and then ends the run. It counts what it is told.
const PLAN: &str = r#"
case $prompt in
*"the agent boss "*)
    printf '%s\n' "$prompt" >>seen
    echo x >>turns
    case $(wc -l <turns) in
    1) "$AYNIG_BIN" orch handoff --to hand --message "Do it." || exit 9 ;;
    2) echo I look around ;;
    *) "$AYNIG_BIN" orch done --message "All is there." >staged.json || exit 9 ;;
    esac ;;
esac
echo done"#;

/// CONTRACT 22.23, 22.24
#[test]
fn the_orchestrator_goes_on_until_the_run_is_done() {
    let graph = auto(PLAN, &["hand"]);
    graph.ok(&["chat", "RUN", "Build it."]);
    graph.drain();
    let told = |kind: &str| ("boss".to_owned(), kind.to_owned());
    assert_eq!(notices(&graph), [told("goOn"), told("goOn")]);
    assert_eq!(
        graph.turns(),
        ["boss completed", "hand completed", "boss completed", "boss completed"],
        "it goes on when the other one has ended"
    );
    let state = graph.state();
    assert_eq!((&state["status"], &state["termination"]), (&"completed".into(), &"All is there.".into()));
    for alias in ["boss", "hand"] {
        assert_eq!(driver_state(&graph.repo, &graph.slug, alias), "orch-idle");
    }
    let seen = graph.repo.git(["show", &format!("work/{}/boss:seen", graph.slug)]);
    assert!(seen.contains("> Nothing is under way in this run"), "{seen}");
    assert!(seen.contains("The mode of the run is AUTO") && seen.contains("orch done"), "{seen}");
    graph.assert_read_once(0);
    graph.ok(&["doctor", "RUN"]);
    // A person may let it go on.
    graph.ok(&["run", "resume", "RUN"]);
    assert_eq!(driver_state(&graph.repo, &graph.slug, "boss"), "orch-turn");
}

/// CONTRACT 22.23
#[test]
fn a_run_that_nobody_goes_on_with_says_so() {
    let graph = Graph::new("echo done", &["hand"]);
    let output = graph.orch(&["run", "set", "RUN", "--mode", "AUTO"]);
    assert!(output.status.success());
    let said = err(&output);
    assert!(said.contains("without an orchestrator") && said.contains("--role orchestrator"), "{said}");
    assert_eq!(graph.events(&["run.mode"]).len(), 1);
    assert_eq!(graph.state()["limits"]["turns"], 20);
    let made = graph.orch(&["run", "create", "--mode", "AUTO"]);
    assert!(made.status.success() && err(&made).contains("without an orchestrator"), "{}", err(&made));
    graph.ok(&["chat", "RUN", "hand", "Do it."]);
    graph.drain();
    assert_eq!(graph.turns(), ["hand completed"]);
    assert!(notices(&graph).is_empty());
}

/// CONTRACT 22.23
#[test]
fn an_orchestrator_that_fails_is_not_told_to_go_on() {
    let script = r#"case $prompt in *"> Build it."*) echo done ;; *) exit 3 ;; esac"#;
    let graph = auto(script, &[]);
    graph.ok(&["chat", "RUN", "Build it."]);
    for offset in ["0", "5", "60", "600", "6000"] {
        let mut later = graph.repo.aynig_command();
        later.args(["run", "--drain"]).env("AYNIG_CLOCK_OFFSET_SECONDS", offset);
        assert!(later.output().expect("it runs").status.success());
    }
    assert_eq!(graph.turns(), ["boss completed", "boss failed", "boss failed", "boss failed"]);
    assert_eq!(notices(&graph).len(), 1);
    assert_eq!(graph.node("boss")["status"], "failed");
}

/// CONTRACT 22.24
#[test]
fn only_an_orchestrator_ends_a_run_that_has_one() {
    let script = r#"
case $prompt in
*"the agent boss "*) echo done ;;
*) "$AYNIG_BIN" orch done >said 2>&1; echo "code $?" >>said ;;
esac
echo done"#;
    let graph = auto(script, &["hand"]);
    graph.ok(&["run", "set", "RUN", "--mode", "INTERACTIVE"]);
    graph.ok(&["chat", "RUN", "hand", "End it."]);
    graph.drain();
    let said = graph.repo.git(["show", &format!("work/{}/hand:said", graph.slug)]);
    assert!(said.contains("hand may not end the run") && said.contains("code 1"), "{said}");
    assert_eq!(graph.state()["status"], "running");
    let outside = graph.orch(&["done"]);
    assert_eq!(outside.status.code(), Some(2));
    assert!(err(&outside).contains("called by an agent in its turn"), "{}", err(&outside));
}

/// Ends the run in each turn, and leaves a file whose number of lines is that of the turns.
const ENDS: &str = r#"
printf '%s\n' "$prompt" >>seen
echo x >>turns
"$AYNIG_BIN" orch done || exit 9
echo done"#;

/// CONTRACT 22.24
#[test]
fn a_validator_decides_whether_the_run_is_done() {
    let graph = auto(ENDS, &[]);
    let line =
        "echo junk >junk; test $(wc -l <turns) -ge 3 || { echo \"only $(wc -l <turns) turns\"; exit 1; }";
    graph.repo.git(["config", "aynig.validator.three-turns", line]);
    graph.ok(&["run", "set", "RUN", "--done-when", "validator:three_turns"]);
    graph.ok(&["chat", "RUN", "Build it."]);
    graph.drain();
    assert_eq!(graph.turns(), ["boss completed", "boss completed", "boss completed"]);
    let told = ("boss".to_owned(), "notDone".to_owned());
    assert_eq!(notices(&graph), [told.clone(), told]);
    assert_eq!(graph.state()["status"], "completed");
    let seen = graph.repo.git(["show", &format!("work/{}/boss:seen", graph.slug)]);
    for words in ["the validator three_turns accepts", "> The run is not done: three_turns", "> only 2 turns"]
    {
        assert!(seen.contains(words), "{words}: {seen}");
    }
    let names = graph.repo.git(["ls-tree", "--name-only", &format!("work/{}/boss", graph.slug)]);
    assert!(!names.contains("junk"), "what a validator writes is put back: {names}");
    graph.assert_read_once(0);
    graph.ok(&["doctor", "RUN"]);
}

/// CONTRACT 22.24
#[test]
fn a_host_without_the_validator_pauses_the_run() {
    let graph = auto(ENDS, &[]);
    graph.ok(&["run", "set", "RUN", "--done-when", "validator:tests"]);
    graph.ok(&["chat", "RUN", "Build it."]);
    graph.drain();
    let state = graph.state();
    assert_eq!((graph.turns().len(), &state["status"]), (1, &"paused".into()));
    let waits = state["waitingFor"].as_str().expect("words");
    for words in ["git config aynig.validator.tests COMMAND", "run resume"] {
        assert!(waits.contains(words), "{words}: {waits}");
    }
    graph.repo.git(["config", "aynig.validator.tests", "true"]);
    graph.ok(&["run", "resume", "RUN"]);
    graph.drain();
    assert_eq!(graph.turns(), ["boss completed", "boss completed"]);
    assert_eq!(graph.state()["status"], "completed");
    assert_eq!(graph.repo.git(["show", &format!("work/{}/boss:turns", graph.slug)]).trim(), "x\nx");
}

/// CONTRACT 22.24
#[test]
fn a_text_for_the_end_is_part_of_the_prompt() {
    let graph =
        Graph::new(r#"printf '%s\n' "$prompt" >seen; "$AYNIG_BIN" orch done || exit 9; echo done"#, &["a"]);
    graph.ok(&["run", "set", "RUN", "--done-when", "All parsers work.\nFrom a person (x):"]);
    graph.ok(&["chat", "RUN", "a", "Build it."]);
    graph.drain();
    let seen = graph.repo.git(["show", &format!("work/{}/a:seen", graph.slug)]);
    assert!(seen.contains("> All parsers work.\n> From a person (x):"), "{seen}");
    assert_eq!(graph.state()["status"], "completed");
    assert_eq!(graph.state()["termination"], "completed");
}

/// CONTRACT 22.23, 22.24
#[test]
fn it_goes_on_once_whoever_is_killed() {
    for point in ["agent-ended", "step-ended"] {
        let graph = auto(PLAN, &["hand"]);
        graph.ok(&["chat", "RUN", "Build it."]);
        for count in 1..=3 {
            let mut killed = graph.repo.aynig_command();
            let offset = (count * 700).to_string();
            killed.args(["run", "--drain"]).env("AYNIG_CLOCK_OFFSET_SECONDS", offset);
            killed.env("AYNIG_CRASH_AT", format!("{point}:kill:{count}"));
            killed.output().expect("it runs");
        }
        for offset in ["2800", "2900", "3600"] {
            let mut later = graph.repo.aynig_command();
            later.args(["run", "--drain"]).env("AYNIG_CLOCK_OFFSET_SECONDS", offset);
            later.output().expect("it runs");
        }
        let turns = graph.turns();
        let completed: Vec<&str> =
            turns.iter().filter(|turn| turn.ends_with("completed")).map(String::as_str).collect();
        assert_eq!(
            completed,
            ["boss completed", "hand completed", "boss completed", "boss completed"],
            "{point}: {turns:?}"
        );
        assert_eq!(notices(&graph).len(), 2, "{point}");
        assert_eq!(graph.state()["status"], "completed", "{point}");
        graph.assert_read_once(0);
        graph.ok(&["doctor", "RUN"]);
    }
}

/// CONTRACT 22.23, 22.24
#[test]
fn hosts_take_turns_until_the_run_is_done() {
    let hub = Repo::new();
    let bare = hub.beside("hub.git");
    let path = bare.to_str().expect("UTF-8");
    hub.git(["clone", "-q", "--bare", ".", path]);
    let [first, second] = ["first", "second"].map(|name| host(path, name, PLAN));
    let graph = Graph::of(first, &["hand"]);
    boss(&graph, &["hand"]);
    graph.ok(&["chat", "RUN", "Build it."]);
    let other = Graph { repo: second, slug: graph.slug.clone() };
    for (host, alias) in [(&graph, "boss"), (&other, "hand"), (&other, "boss"), (&graph, "boss")] {
        host.repo.aynig_ok(["run", "--branch", &format!("run/{}/{alias}", graph.slug)]);
    }
    assert_eq!(other.state()["status"], "completed");
    assert_eq!(graph.turns(), ["boss completed", "hand completed", "boss completed", "boss completed"]);
    assert_eq!(notices(&other).len(), 2);
    graph.assert_read_once(0);
    graph.ok(&["doctor", "RUN"]);
}
