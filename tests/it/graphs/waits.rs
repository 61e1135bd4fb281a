//! Nodes that wait for the answer to a hand-off.

use super::super::flow_engine::expired;
use super::hosts::host;
use super::*;

/// More than a day, in seconds.
const A_DAY: &str = "86500";

/// The node `a` asks `b` when a person says so. What `b` does is in `$1`.
fn asks(b: &str) -> String {
    format!(
        r#"
case $prompt in
*"the agent a "*)
    printf '%s\n' "$prompt" >>seen
    case $prompt in
    *"> Ask."*) "$AYNIG_BIN" orch handoff --to b --message "What is it?" --expect required || exit 9 ;;
    esac ;;
*) {b} ;;
esac
echo done"#
    )
}

/// A graph in which `a` waits for `b`.
fn waiting(b: &str) -> Graph {
    let graph = Graph::new(&asks(b), &["a", "b"]);
    graph.ok(&["edge", "add", "RUN", "a", "b"]);
    graph.ok(&["chat", "RUN", "a", "Ask."]);
    graph
}

/// Carries out what is due on this host so many seconds later.
fn drain_later(graph: &Graph, offset: &str) {
    let mut later = graph.repo.aynig_command();
    later.args(["run", "--drain"]).env("AYNIG_CLOCK_OFFSET_SECONDS", offset);
    let output = later.output().expect("it runs");
    assert!(output.status.success(), "{}", err(&output));
}

/// The notices, as pairs of their node's alias and their kind.
pub(super) fn notices(graph: &Graph) -> Vec<(String, String)> {
    let state = graph.state();
    let alias = |id: &Value| state["nodes"][id.as_str().expect("an id")]["alias"].clone();
    let word = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    let events = graph.events(&["node.notice"]);
    let pair = |event: &Value| (word(&alias(&event["nodeId"])), word(&event["notice"]["kind"]));
    events.iter().map(pair).collect()
}

fn told(alias: &str, kind: &str) -> (String, String) {
    (alias.to_owned(), kind.to_owned())
}

/// All prompts of `a`.
fn seen(graph: &Graph) -> String {
    graph.repo.git(["show", &format!("work/{}/a:seen", graph.slug)])
}

/// CONTRACT 22.22
#[test]
fn a_node_waits_a_day_for_an_answer() {
    let graph = waiting("echo I leave it");
    graph.drain();
    assert_eq!(graph.turns(), ["a completed", "b completed"]);
    // A turn without an answer is none.
    let waits = graph.node("a");
    assert!(waits["waitingFor"].is_string(), "{waits}");
    let message = graph.repo.git(["log", "-1", "--format=%B", &format!("run/{}/a", graph.slug)]);
    assert!(
        message.contains("waits for an answer until") && message.contains("dwp-not-before: "),
        "{message}"
    );
    drain_later(&graph, "86000");
    assert_eq!(graph.turns().len(), 2);
    drain_later(&graph, A_DAY);
    assert_eq!(graph.turns(), ["a completed", "b completed", "a completed"]);
    assert_eq!(notices(&graph), [told("a", "unanswered")]);
    assert_eq!(graph.node("a")["waitingFor"], Value::Null);
    let seen = seen(&graph);
    assert!(seen.contains("From aynig (") && seen.contains("> b has not answered your hand-off"), "{seen}");
    drain_later(&graph, "200000");
    assert_eq!(graph.turns().len(), 3);
    graph.ok(&["doctor", "RUN"]);
}

/// CONTRACT 22.22
#[test]
fn an_answer_ends_the_wait() {
    let answer = r#"id=$(printf '%s\n' "$prompt" | sed -n 's/.*with --reply-to //p')
    "$AYNIG_BIN" orch handoff --to a --message "It is a bird." --reply-to "$id" || exit 9"#;
    let graph = waiting(answer);
    graph.drain();
    assert_eq!(graph.turns(), ["a completed", "b completed", "a completed"]);
    assert!(notices(&graph).is_empty());
    assert_eq!(graph.node("a")["waitingFor"], Value::Null);
    assert!(seen(&graph).contains("> It is a bird."));
    drain_later(&graph, A_DAY);
    assert_eq!(graph.turns().len(), 3, "nothing is overdue");
    graph.assert_read_once(0);
}

/// CONTRACT 22.22
#[test]
fn a_node_that_waits_hears_that_the_other_one_failed() {
    let graph = waiting("echo 'b has 3 unread items' >&2; exit 3");
    graph.drain();
    drain_later(&graph, "5");
    assert!(notices(&graph).is_empty(), "another try is left");
    let subject = || graph.repo.git(["log", "-1", "--format=%s", &format!("run/{}/b", graph.slug)]);
    let why = ": scripted failed: it ended with exit code 3";
    assert!(subject().contains("b is tried again at 2") && subject().contains(why), "{}", subject());
    let shown = graph.ok(&["show", "RUN"]);
    assert!(shown.contains("b  waits: b is tried again at 2"), "{shown}");
    assert_eq!(shown.matches(&why[2..]).count(), 1, "{shown}");
    drain_later(&graph, "60");
    assert!(subject().contains(&format!("b has failed{why}")), "{}", subject());
    assert_eq!(graph.turns(), ["a completed", "b failed", "b failed", "b failed", "a completed"]);
    assert_eq!(notices(&graph), [told("a", "unanswered")]);
    let seen = seen(&graph);
    assert!(seen.contains("> b has failed") && seen.contains("exit code 3"), "{seen}");
    graph.ok(&["doctor", "RUN"]);
}

/// CONTRACT 22.22
#[test]
fn a_node_that_waits_hears_that_the_other_one_is_gone() {
    let graph = waiting("echo I leave it");
    graph.repo.aynig_ok(["run", "--branch", &format!("run/{}/a", graph.slug)]);
    graph.ok(&["node", "remove", "RUN", "b"]);
    assert_eq!(driver_state(&graph.repo, &graph.slug, "a"), "orch-turn");
    assert_eq!(notices(&graph), [told("a", "unanswered")]);
    graph.drain();
    assert_eq!(graph.turns(), ["a completed", "a completed"]);
    let seen = seen(&graph);
    assert!(seen.contains("> b was removed before it read your hand-off"), "{seen}");
    graph.ok(&["doctor", "RUN"]);
}

/// CONTRACT 22.22
#[test]
fn nodes_that_wait_for_each_other_hear_it() {
    let back = r#"printf '%s\n' "$prompt" >>seen
    case $prompt in *"What is it?"*) "$AYNIG_BIN" orch handoff --to a --message "Why?" --expect required || exit 9 ;; esac"#;
    let graph = waiting(back);
    graph.drain();
    assert_eq!(notices(&graph), [told("b", "cycle"), told("a", "cycle")]);
    assert_eq!(graph.turns().len(), 4, "{:?}", graph.turns());
    let seen = seen(&graph);
    assert!(seen.contains("a waits for b (") && seen.contains("b waits for a ("), "{seen}");
    assert!(graph.node("a")["waitingFor"].is_string() && graph.node("b")["waitingFor"].is_string());
    graph.assert_read_once(0);
}

/// CONTRACT 22.22
#[test]
fn a_notice_is_written_once_whoever_is_killed() {
    for point in ["agent-starts", "step-decided", "step-ended"] {
        let graph = waiting("echo I leave it");
        graph.drain();
        let mut killed = graph.repo.aynig_command();
        killed.args(["run", "--drain"]);
        killed.env("AYNIG_CLOCK_OFFSET_SECONDS", A_DAY).env("AYNIG_CRASH_AT", format!("{point}:kill:1"));
        killed.output().expect("it runs");
        drain_later(&graph, "87200");
        drain_later(&graph, "87300");
        assert_eq!(notices(&graph), [told("a", "unanswered")], "{point}");
        let turns = graph.turns();
        assert_eq!(turns.iter().filter(|turn| *turn == "a completed").count(), 2, "{point}: {turns:?}");
        assert_eq!(seen(&graph).matches("From aynig (").count(), 1, "{point}");
        graph.ok(&["doctor", "RUN"]);
    }
}

/// CONTRACT 22.22
#[test]
fn a_notice_of_one_host_is_read_on_another() {
    let hub = Repo::new();
    let bare = hub.beside("hub.git");
    let path = bare.to_str().expect("UTF-8");
    hub.git(["clone", "-q", "--bare", ".", path]);
    let script = asks("echo I leave it");
    let [first, second] = ["first", "second"].map(|name| host(path, name, &script));
    let graph = Graph::of(first, &["a", "b"]);
    graph.ok(&["edge", "add", "RUN", "a", "b"]);
    graph.ok(&["chat", "RUN", "a", "Ask."]);
    graph.drain();
    let other = Graph { repo: second, slug: graph.slug.clone() };
    other.drain();
    graph.ok(&["node", "remove", "RUN", "b"]);
    other.drain();
    assert_eq!(notices(&other), [told("a", "unanswered")]);
    assert_eq!(other.turns().iter().filter(|turn| *turn == "a completed").count(), 2);
    let seen = seen(&other);
    assert!(seen.contains("> b was removed before it answered your hand-off"), "{seen}");
    other.ok(&["doctor", "RUN"]);
}

/// CONTRACT 20.31
#[test]
fn a_stalled_driver_of_a_node_advises_what_moves_it() {
    for origin in ["orch-turn", "stalled"] {
        let graph = Graph::new("echo done", &["a"]);
        graph.ok(&["chat", "RUN", "a", "Write it."]);
        let driver = format!("run/{}/a", graph.slug);
        expired(&graph.repo, &driver, origin);
        graph.repo.aynig(["run"]);
        let told = graph.repo.git(["log", "-1", "--format=%B", &driver]);
        let line = told.lines().find(|line| line.contains("To try again")).expect("the way back is named");
        let typed = line.split_once(": ").expect("a command").1.to_owned();
        assert_eq!(typed, format!("aynig run {driver}"), "{origin}");
        let status = out(&graph.repo.aynig(["status", &driver]));
        let names_it = status.contains(&format!("`{typed}`")) || origin == "orch-turn";
        assert!(!status.contains("set-state") && names_it, "{status}");
        let mut later = graph.repo.aynig_command();
        later.env("AYNIG_CLOCK_OFFSET_SECONDS", "600").args(typed.split(' ').skip(1));
        let ran = later.output().expect("aynig runs");
        assert!(ran.status.success(), "{origin}: {}", err(&ran));
        assert_ne!(driver_state(&graph.repo, &graph.slug, "a"), "stalled", "{origin}: {}", err(&ran));
    }
}

/// CONTRACT 20.31
#[test]
fn a_turn_that_no_host_can_do_is_asked_for_again_by_its_node() {
    let graph = Graph::new("echo done", &["a"]);
    graph.repo.git(["config", "--remove-section", "aynig.provider.scripted"]);
    graph.ok(&["chat", "RUN", "a", "Write it."]);
    graph.repo.aynig(["run"]);
    let start = format!("aynig orch node start {} a", graph.slug);
    let doctor = out(&graph.repo.aynig(["doctor"]));
    assert!(doctor.contains(&format!("&& {start}\n")), "{doctor}");
    agent(&graph.repo, "echo done");
    graph.repo.aynig_ok(start.split(' ').skip(1));
    graph.repo.aynig_ok(["run", "--drain"]);
    assert_eq!(graph.turns(), ["a completed"]);
}
