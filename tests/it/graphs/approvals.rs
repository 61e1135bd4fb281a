//! Requests of nodes for approval, and the answers of people.

use serde_json::Value;

use super::super::flow_engine::place_worktrees;
use super::super::support::*;
use super::{Graph, asking_agent, driver_state};

/// Asks for a command, carries the answer out, and says it.
pub(crate) const SCRIPT: &str = r#": >../../begun
printf '%s\n' '{"type":"approval.requested","approvalId":"q","tool":{"id":"t","name":"command","args":{"command":"touch one"}},"context":"in the worktree"}'
IFS= read -r answer
case $answer in
*'"approved"'*) touch one ;;
*'"modified"'*'touch two'*) touch two ;;
esac
answer=$(printf %s "$answer" | tr -d '"\\')
printf '{"type":"message.assistant.final","content":"heard %s"}\n' "$answer"
exec cat >/dev/null"#;

pub(crate) fn gated(script: &str, wait: &str) -> Graph {
    let repo = Repo::new();
    place_worktrees(&repo);
    asking_agent(&repo, script);
    repo.git(["config", "aynig.approvalWaitSeconds", wait]);
    let graph = Graph::of(repo, &[]);
    let words = ["node", "add", "RUN", "a", "--role", "implementer", "--provider", "scripted"];
    graph.ok(&words);
    graph.ok(&["chat", "RUN", "a", "go"]);
    graph
}

pub(crate) fn requests(graph: &Graph) -> Vec<Value> {
    let listed: Value = serde_json::from_str(&graph.ok(&["approvals", "--json"])).expect("JSON");
    listed["approvals"].as_array().expect("a list").clone()
}

pub(super) fn last_words(graph: &Graph) -> String {
    let said = graph.events(&["message.assistant.final"]);
    said.last().and_then(|event| event["content"].as_str()).unwrap_or_default().to_owned()
}

/// The files on the work branch of the node.
pub(super) fn files(graph: &Graph) -> String {
    graph.repo.git(["ls-tree", "--name-only", &format!("work/{}/a", graph.slug)])
}

/// CONTRACT 22.12
#[test]
fn a_turn_is_parked_until_a_person_answers() {
    for (answer, file, said) in [
        (&["approve", "ID"][..], Some("one"), "status:approved"),
        (&["deny", "ID", "--reason", "not that one"], None, "reason:not that one"),
        (&["approve", "ID", "--args", r#"{"command":"touch two"}"#], Some("two"), "status:modified"),
    ] {
        let graph = gated(SCRIPT, "0");
        graph.drain();
        assert_eq!(graph.turns(), ["a interrupted"], "{answer:?}");
        assert_eq!(driver_state(&graph.repo, &graph.slug, "a"), "orch-idle");
        let open = requests(&graph);
        let [request] = open.as_slice() else { panic!("{open:?}") };
        assert_eq!((&request["alias"], &request["tool"]["name"]), (&"a".into(), &"command".into()));
        let listed = graph.ok(&["approvals"]);
        assert!(listed.contains("command: touch one") && listed.contains("in the worktree"), "{listed}");
        assert!(listed.contains("aynig orch approve"), "{listed}");
        let status = out(&graph.repo.aynig_ok(["status", &format!("run/{}/a", graph.slug)]));
        assert!(status.contains("aynig orch approvals"), "{status}");
        graph.drain();
        assert_eq!(graph.turns(), ["a interrupted"], "no turn begins before the answer");

        let id = request["id"].as_str().expect("an id")[..8].to_owned();
        let words: Vec<&str> =
            answer.iter().map(|word| if *word == "ID" { id.as_str() } else { word }).collect();
        graph.ok(&words);
        assert_eq!(requests(&graph), Vec::<Value>::new());
        let other = graph.orch(&["deny", &id, "--reason", "late"]);
        assert_eq!(other.status.code(), Some(1));
        assert!(err(&other).contains("answered before"), "{}", err(&other));
        assert!(err(&other).contains("`aynig orch approvals --all` lists the answers"), "{}", err(&other));

        graph.drain();
        assert_eq!(
            graph.turns(),
            ["a interrupted", "a completed"],
            "{answer:?}: {:?}",
            graph.events(&["turn.status"])
        );
        assert!(last_words(&graph).contains(said), "{}", last_words(&graph));
        for name in ["one", "two"] {
            assert_eq!(files(&graph).lines().any(|line| line == name), file == Some(name), "{answer:?}");
        }
        graph.assert_read_once(0);
        assert_eq!(graph.events(&["approval.requested"]).len(), 1, "it was asked once");
    }
}

/// Announces a call before it asks about it, by an id that each turn uses again.
const ANNOUNCES: &str = r#"printf '%s\n' '{"type":"tool.proposed","tool":{"id":"t1","name":"command","args":{"command":"touch one"}}}'
printf '%s\n' '{"type":"approval.requested","approvalId":"q","tool":{"id":"t1","name":"command","args":{"command":"touch one"}}}'
IFS= read -r answer
answer=$(printf %s "$answer" | tr -d '"\\')
printf '{"type":"message.assistant.final","content":"heard %s"}\n' "$answer"
exec cat >/dev/null"#;

/// The calls that a program announced, and those of its requests.
fn calls(graph: &Graph) -> [Vec<Value>; 2] {
    ["tool.proposed", "approval.requested"]
        .map(|kind| graph.journal(&[kind]).into_iter().map(|mut event| event["tool"].take()).collect())
}

/// CONTRACT 22.12, 22.29
#[test]
fn the_call_of_a_request_is_the_one_that_was_announced() {
    let graph = gated(ANNOUNCES, "0");
    graph.drain();
    let [proposed, requested] = calls(&graph);
    assert_eq!(proposed.len(), 1, "{proposed:?}");
    assert_eq!(proposed, requested);
    let first = proposed[0].clone();
    assert!(uuid::Uuid::parse_str(first["id"].as_str().expect("an id")).is_ok(), "{first}");
    assert_eq!(first["providerId"], "t1");
    assert_eq!(requests(&graph)[0]["tool"], first);
    // Another turn has another call, and takes the answer to this one over.
    graph.ok(&["approve", requests(&graph)[0]["id"].as_str().expect("an id")]);
    graph.drain();
    assert_eq!(graph.turns(), ["a interrupted", "a completed"]);
    assert!(last_words(&graph).contains("status:approved"), "{}", last_words(&graph));
    let events = graph.ok(&["events", "RUN", "--type", "approval.*"]);
    let name = graph.repo.git(["config", "user.name"]);
    assert!(events.contains(&format!("approved by {}", name.trim())), "{events}");
    let [proposed, requested] = calls(&graph);
    assert_eq!(requested, [first]);
    assert_ne!(proposed[1]["id"], proposed[0]["id"]);
    // Of a node that asks nobody, the permissions answer.
    graph.ok(&["node", "set", "RUN", "a", "--permissions", "skip"]);
    graph.ok(&["chat", "RUN", "a", "go on"]);
    graph.drain();
    let [proposed, requested] = calls(&graph);
    assert_eq!(requested.len(), 2, "{requested:?}");
    assert_eq!(proposed[2], requested[1]);
}

/// CONTRACT 22.12
#[test]
fn an_answer_reaches_a_turn_that_waits() {
    let graph = gated(SCRIPT, "600");
    let mut runner = super::people::live(&graph.repo);
    let id = loop {
        if let Some(request) = requests(&graph).first() {
            break request["id"].as_str().expect("an id").to_owned();
        }
        assert!(runner.try_wait().expect("a state").is_none(), "the runner ended");
    };
    let exit_code = |options: &[&str]| {
        let seen = graph.repo.aynig([&["status", "--exit-code"], options].concat());
        assert!(err(&seen).contains("1 request during a turn: `aynig orch approvals`"), "{}", err(&seen));
        seen.status.code()
    };
    let rests = graph.repo.aynig(["status", "--state", "other", "--exit-code"]);
    assert_eq!(
        (rests.status.code(), err(&rests).contains("during a turn")),
        (Some(0), false),
        "{}",
        err(&rests)
    );
    assert_eq!((exit_code(&["--waiting"]), exit_code(&["--all"])), (Some(11), Some(11)));
    graph.ok(&["approve", &id]);
    assert!(runner.wait().expect("it ends").success());
    assert_eq!(graph.turns(), ["a completed"]);
    assert!(files(&graph).contains("one"));
    graph.assert_read_once(0);
}

/// CONTRACT 22.12
#[test]
fn another_clone_answers() {
    let hub = Repo::new();
    let bare = hub.beside("hub.git");
    let path = bare.to_str().expect("UTF-8");
    hub.git(["clone", "-q", "--bare", ".", path]);
    let [first, second] = ["first", "second"].map(|name| {
        let host = super::hosts::host(path, name, "");
        asking_agent(&host, SCRIPT);
        host.git(["config", "aynig.approvalWaitSeconds", "600"]);
        host
    });
    let graph = Graph::of(first, &[]);
    graph.ok(&["node", "add", "RUN", "a", "--role", "implementer", "--provider", "scripted"]);
    graph.ok(&["chat", "RUN", "a", "go"]);
    let mut runner = super::people::live(&second);
    wait_until("the request is there", || !requests(&graph).is_empty());
    // A clone that has never looked at runs.
    let third = super::hosts::host(path, "third", "");
    let seen = third.aynig(["status", "--waiting", "--exit-code"]);
    assert_eq!(seen.status.code(), Some(11), "{}", err(&seen));
    assert!(err(&seen).contains("1 request during a turn: `aynig orch approvals`"), "{}", err(&seen));
    let id = requests(&graph)[0]["id"].as_str().expect("an id").to_owned();
    graph.ok(&["deny", &id, "--reason", "use the other file"]);
    assert!(runner.wait().expect("it ends").success());
    assert_eq!(graph.turns(), ["a completed"]);
    assert!(last_words(&graph).contains("reason:use the other file"), "{}", last_words(&graph));
    assert!(!files(&Graph { repo: second, slug: graph.slug.clone() }).contains("one"));
    graph.assert_read_once(0);
}

/// CONTRACT 22.5, 22.12
#[test]
fn an_answer_outlives_the_turn_that_asked() {
    for point in ["agent-ended", "step-decided", "step-ended"] {
        let graph = gated(SCRIPT, "0");
        let mut killed = graph.repo.aynig_command();
        killed.args(["run", "--drain"]).env("AYNIG_CRASH_AT", format!("{point}:kill:1"));
        killed.output().expect("it runs");
        let open = requests(&graph);
        assert_eq!(open.len(), 1, "{point}");
        graph.ok(&["approve", open[0]["id"].as_str().expect("an id")]);
        for offset in ["5", "600", "1200"] {
            let mut later = graph.repo.aynig_command();
            later.args(["run", "--drain"]).env("AYNIG_CLOCK_OFFSET_SECONDS", offset);
            later.output().expect("it runs");
        }
        let turns = graph.turns();
        assert_eq!(turns.last().map(String::as_str), Some("a completed"), "{point}: {turns:?}");
        assert_eq!(turns.len(), 2, "{point}: {turns:?}");
        assert_eq!(graph.events(&["approval.requested"]).len(), 1, "{point}: it was asked once");
        assert!(files(&graph).contains("one"), "{point}");
        graph.assert_read_once(0);
    }
}

/// CONTRACT 22.12
#[test]
fn an_agent_cannot_answer_itself() {
    let script = SCRIPT.replace(
        "IFS= read -r answer",
        r#"id=$("$AYNIG_BIN" orch approvals --json | grep -o '"id": *"[^"]*"' | head -1 | cut -d'"' -f4)
until [ -n "$id" ]; do id=$("$AYNIG_BIN" orch approvals --json | grep -o '"id": *"[^"]*"' | head -1 | cut -d'"' -f4); done
"$AYNIG_BIN" orch approve "$id" 2>said; code=$?
env -u AYNIG_ORCH_RUN -u AYNIG_ORCH_NODE -u AYNIG_ORCH_TURN setsid "$AYNIG_BIN" orch approve "$id" 2>>said
echo "$code $?" >codes
IFS= read -r answer"#,
    );
    let graph = gated(&script, "3");
    graph.drain();
    assert_eq!(graph.turns(), ["a interrupted"], "{:?}", graph.events(&["turn.status"]));
    assert_eq!(requests(&graph).len(), 1, "it still waits");
    let codes = graph.repo.git(["show", &format!("work/{}/a:codes", graph.slug)]);
    assert_eq!(codes.trim(), "2 2");
    let said = graph.repo.git(["show", &format!("work/{}/a:said", graph.slug)]);
    assert!(said.contains("answering a request is for people"), "{said}");
}

/// CONTRACT 22.12
#[test]
fn a_gated_node_needs_a_provider_that_asks() {
    let graph = Graph::new("echo done", &[]);
    let words = ["node", "add", "RUN", "a", "--role", "implementer", "--provider", "scripted"];
    let refused = graph.orch(&words);
    assert_eq!(refused.status.code(), Some(2));
    assert!(err(&refused).contains("--permissions skip"), "{}", err(&refused));
    // A host may have another program by this name.
    asking_agent(&graph.repo, SCRIPT);
    graph.ok(&words);
    graph.ok(&["chat", "RUN", "a", "go"]);
    graph.repo.git(["config", "aynig.provider.scripted.protocol", "text"]);
    let ended = graph.repo.aynig(["run", "--drain"]);
    assert_eq!(graph.turns(), Vec::<String>::new(), "{}", err(&ended));
}

#[test]
fn a_wrong_answer_says_what_to_do() {
    let graph = Graph::new("echo done", &[]);
    for (words, code, said) in [
        (&["approve", "00000000"][..], 1, "aynig orch approvals --all"),
        (&["approve", ""], 1, "aynig orch approvals --all"),
        (&["approve", "0", "--args", "x"], 2, "one JSON object"),
        (&["approve", "0", "--args", "[]"], 2, "one JSON object"),
        (&["deny", "0"], 2, "--reason"),
    ] {
        let output = graph.orch(words);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {}", err(&output));
        assert!(err(&output).contains(said), "{words:?}: {}", err(&output));
    }
}

/// The verbs about requests, for the documents.
pub(crate) fn scenes(scenes: &mut std::collections::BTreeMap<&'static str, Vec<std::process::Output>>) {
    for (verb, answer) in [("orch approve", &["approve"][..]), ("orch deny", &["deny", "--reason", "no"])] {
        let graph = gated(SCRIPT, "0");
        graph.drain();
        let id = requests(&graph)[0]["id"].as_str().expect("an id").to_owned();
        let open = graph.orch(&["approvals", "--json"]);
        scenes.entry(verb).or_default().push(graph.orch(&[answer, &[id.as_str(), "--json"]].concat()));
        let listed = scenes.entry("orch approvals").or_default();
        listed.extend([open, graph.orch(&["approvals", "--all", "--json"])]);
    }
}
