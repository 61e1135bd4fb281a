//! Acts of agents that a person has to approve.

use serde_json::Value;

use super::hand::{aliases, assert_said, file_of, managed, ways};
use super::*;

fn requests(graph: &Graph) -> Vec<Value> {
    let listed: Value = serde_json::from_str(&graph.ok(&["approvals", "--json"])).expect("JSON");
    listed["approvals"].as_array().expect("a list").clone()
}

/// Asks for a node, and notes the exit code.
const ASKS: &str = r#"
: >../../begun
case $prompt in *"the agent top "*) ;; *) echo done; exit ;; esac
"$AYNIG_BIN" orch spawn kid --role implementer --provider scripted --message "Build it." >>said 2>&1; code=$?
echo "code-$code" >>said
[ $code = 5 ] && exec sleep 600
[ -e ../../broken ] && exit 3
echo done"#;

/// CONTRACT 22.15
#[test]
fn a_person_is_asked_before_a_node_makes_another_one() {
    for (answer, kid, said) in [
        (&["approve", "ID"][..], Some("kid"), "code-0"),
        (&["deny", "ID", "--reason", "too many already"], None, "too many already"),
        (
            &["approve", "ID", "--args", r#"{"alias":"small","role":"reviewer","provider":"scripted"}"#],
            Some("small"),
            "code-0",
        ),
        (&["approve", "ID", "--args", r#"{"alias":"top"}"#], None, "a person changed spawn_node"),
    ] {
        let graph = managed(ASKS, true);
        graph.repo.git(["config", "aynig.approvalWaitSeconds", "0"]);
        graph.ok(&["chat", "RUN", "top", "go"]);
        graph.drain();
        assert_eq!(graph.turns(), ["top interrupted"], "{answer:?}");
        assert_eq!(aliases(&graph), ["top"]);
        let open = requests(&graph);
        let [request] = open.as_slice() else { panic!("{open:?}") };
        assert_eq!((&request["alias"], &request["tool"]["name"]), (&"top".into(), &"spawn_node".into()));
        assert_eq!(request["tool"]["args"]["alias"], "kid");
        let listed = graph.ok(&["approvals"]);
        assert_said(&listed, &["spawn_node", "change code", "its tools are not asked for"]);
        graph.drain();
        assert_eq!(graph.turns().len(), 1, "no turn begins before the answer");
        let id = request["id"].as_str().expect("an id").to_owned();
        let words: Vec<&str> =
            answer.iter().map(|word| if *word == "ID" { id.as_str() } else { word }).collect();
        graph.ok(&words);
        graph.drain();
        let turns = graph.turns();
        assert_eq!(&turns[..2], ["top interrupted", "top completed"], "{:?}", graph.events(&["turn.status"]));
        let all: Vec<&str> = kid.into_iter().chain(["top"]).collect();
        assert_eq!(aliases(&graph), all, "{answer:?}");
        assert_said(&file_of(&graph, "top", "said"), &[said]);
        assert_eq!(graph.events(&["approval.requested"]).len(), 1, "it was asked once");
        assert_eq!(requests(&graph), Vec::<Value>::new());
        graph.assert_read_once(0);
        graph.ok(&["doctor", "RUN"]);
    }
}

/// CONTRACT 22.15
#[test]
fn an_answer_reaches_an_act_that_waits() {
    let graph = managed(ASKS, true);
    graph.repo.git(["config", "aynig.approvalWaitSeconds", "600"]);
    graph.ok(&["chat", "RUN", "top", "go"]);
    let mut runner = super::people::live(&graph.repo);
    wait_until("the request is there", || !requests(&graph).is_empty());
    let id = requests(&graph)[0]["id"].as_str().expect("an id").to_owned();
    graph.ok(&["approve", &id]);
    assert!(runner.wait().expect("it ends").success());
    assert_eq!(graph.turns(), ["top completed", "kid completed"]);
    assert_said(&file_of(&graph, "top", "said"), &["\"staged\":true", "code-0"]);
}

/// CONTRACT 22.15
#[test]
fn an_approved_act_of_a_turn_that_failed_is_not_asked_again() {
    let graph = managed(ASKS, true);
    graph.repo.git(["config", "aynig.approvalWaitSeconds", "0"]);
    let broken = graph.repo.beside("worktrees").join("broken");
    std::fs::create_dir_all(graph.repo.beside("worktrees")).expect("a directory");
    std::fs::write(&broken, "").expect("a file");
    graph.ok(&["chat", "RUN", "top", "go"]);
    graph.drain();
    let id = requests(&graph)[0]["id"].as_str().expect("an id").to_owned();
    graph.ok(&["approve", &id]);
    graph.drain();
    let turns = graph.turns();
    let (first, others) = turns.split_first().expect("a turn");
    assert_eq!(first, "top interrupted");
    assert!(!others.is_empty() && others.iter().all(|turn| turn == "top failed"), "{turns:?}");
    assert_eq!(aliases(&graph), ["top"]);
    std::fs::remove_file(&broken).expect("it goes");
    let mut later = graph.repo.aynig_command();
    later.args(["run", "--drain"]).env("AYNIG_CLOCK_OFFSET_SECONDS", "60");
    later.output().expect("it runs");
    assert_eq!(aliases(&graph), ["kid", "top"], "{:?}", graph.events(&["turn.status"]));
    assert_eq!(graph.events(&["approval.requested"]).len(), 1, "it was asked once");
    graph.assert_read_once(0);
}

/// CONTRACT 22.15
#[test]
fn an_edge_is_asked_for_and_a_person_can_switch_that_off() {
    let script = r#"
case $prompt in *"the agent top "*) "$AYNIG_BIN" orch edge add a b; [ $? = 0 ] || exec sleep 600 ;; esac
echo done"#;
    let graph = managed(script, true);
    let skip = ["--role", "implementer", "--provider", "scripted", "--permissions", "skip"];
    for alias in ["a", "b"] {
        graph.ok(&[&["node", "add", "RUN", alias], &skip[..]].concat());
    }
    graph.repo.git(["config", "aynig.approvalWaitSeconds", "0"]);
    graph.ok(&["chat", "RUN", "top", "go"]);
    graph.drain();
    let open = requests(&graph);
    assert_eq!(
        (&open[0]["tool"]["name"], &open[0]["tool"]["args"]["to"]),
        (&"create_edge".into(), &"b".into())
    );
    graph.ok(&["deny", open[0]["id"].as_str().expect("an id"), "--reason", "no"]);
    graph.ok(&["node", "set", "RUN", "top", "--management-approval", "false"]);
    assert_eq!(graph.node("top")["permissions"]["agentManagementRequiresApproval"], false);
    graph.drain();
    assert_eq!(
        (graph.turns(), ways(&graph)),
        (vec!["top interrupted".to_owned(), "top completed".to_owned()], vec!["a>b".to_owned()])
    );
    assert_eq!(graph.node("a")["inboxCount"], 0);
    let refused = graph.orch(&["node", "set", "RUN", "top", "--management-approval", "maybe"]);
    assert_eq!(refused.status.code(), Some(2));
}

/// CONTRACT 22.15
#[test]
fn an_act_that_nobody_approved_fails_the_turn() {
    let script = r#"
case $prompt in *"the agent top "*) ;; *) echo done; exit ;; esac
hand=$(git rev-parse --git-common-dir)/aynig/data/runs/$AYNIG_ORCH_RUN/hand/$AYNIG_ORCH_TURN
[ -d "$hand" ] || exit 9
printf '{"act":"spawn","node":{"alias":"kid","role":"implementer","provider":"scripted"}}' >"$hand/0001.json"
echo done"#;
    let graph = managed(script, true);
    graph.ok(&["chat", "RUN", "top", "go"]);
    graph.drain();
    let ended = graph.events(&["turn.status"]);
    assert_eq!(graph.turns(), ["top failed"], "{ended:?}");
    assert!(
        ended[0]["detail"].as_str().expect("a text").contains("nobody approved its spawn_node"),
        "{ended:?}"
    );
    assert_eq!(aliases(&graph), ["top"]);
}

/// CONTRACT 22.5, 22.15
#[test]
fn a_question_outlives_the_runner_that_asked_it() {
    let graph = managed(ASKS, true);
    graph.repo.git(["config", "aynig.approvalWaitSeconds", "600"]);
    graph.ok(&["chat", "RUN", "top", "go"]);
    let mut runner = super::people::live(&graph.repo);
    wait_until("the request is there", || !requests(&graph).is_empty());
    runner.kill().expect("it is killed");
    runner.wait().expect("it ends");
    graph.ok(&["approve", requests(&graph)[0]["id"].as_str().expect("an id")]);
    for offset in ["600", "1200", "1800"] {
        let mut later = graph.repo.aynig_command();
        later.args(["run", "--drain"]).env("AYNIG_CLOCK_OFFSET_SECONDS", offset);
        later.output().expect("it runs");
    }
    assert_eq!(aliases(&graph), ["kid", "top"], "{:?}", graph.events(&["turn.status"]));
    assert_eq!(graph.events(&["approval.requested"]).len(), 1, "it was asked once");
    graph.assert_read_once(0);
    graph.ok(&["doctor", "RUN"]);
}

/// CONTRACT 22.15
#[test]
fn another_clone_approves_and_carries_out_what_an_agent_made() {
    let hub = Repo::new();
    let bare = hub.beside("hub.git");
    let path = bare.to_str().expect("UTF-8");
    hub.git(["clone", "-q", "--bare", ".", path]);
    let [first, second] = ["first", "second"].map(|name| {
        let host = super::hosts::host(path, name, ASKS);
        host.git(["config", "aynig.approvalWaitSeconds", "600"]);
        host
    });
    let graph = Graph::of(first, &[]);
    let words = ["node", "add", "RUN", "top", "--role", "orchestrator", "--provider", "scripted"];
    graph.ok(&[&words[..], &["--permissions", "skip"]].concat());
    graph.ok(&["chat", "RUN", "top", "go"]);
    let other = Graph { repo: second, slug: graph.slug.clone() };
    let mut runner = super::people::live(&graph.repo);
    wait_until("the request is there", || !requests(&other).is_empty());
    other.ok(&["approve", requests(&other)[0]["id"].as_str().expect("an id")]);
    assert!(runner.wait().expect("it ends").success());
    other.drain();
    let turns = other.turns();
    assert_eq!(turns, ["top completed", "kid completed"], "{:?}", other.events(&["turn.status"]));
    other.assert_read_once(0);
    assert_eq!(aliases(&other), ["kid", "top"]);
}
