//! Agents that write the files of the host themselves, past the commands that check what they want.

use super::super::flow_engine::place_worktrees;
use super::super::support::*;
use super::{Graph, agent, asking_agent, hosts, people};

fn details(graph: &Graph) -> String {
    let ends = graph.events(&["turn.status"]);
    let details = ends.iter().filter_map(|end| end["detail"].as_str());
    details.collect::<Vec<_>>().join("; ")
}

/// A node that may write no code makes a merge whose other side is its own commit.
/// CONTRACT 22.8
#[test]
fn a_merge_of_its_own_commit_brings_nothing() {
    let script = r#"
base=$(git rev-parse HEAD)
mkdir src; echo evil >src/main.c; git add -A
tree=$(git write-tree)
other=$(git commit-tree -m work -p "$base" "$tree")
git reset -q --hard "$(git commit-tree -m Merge -p "$base" -p "$other" "$tree")"
echo fine >notes.md
echo done"#;
    let graph = Graph::new(script, &[]);
    let add =
        ["node", "add", "RUN", "r", "--role", "reviewer", "--provider", "scripted", "--permissions", "skip"];
    graph.ok(&add);
    graph.ok(&["chat", "RUN", "r", "Look at it."]);
    graph.drain();
    let branch = format!("work/{}/r", graph.slug);
    let files = graph.repo.git(["ls-tree", "-r", "--name-only", &branch]);
    assert!(files.contains("notes.md") && !files.contains("src/main.c"), "{files}");
    assert!(!graph.repo.git(["log", "--name-only", &branch]).contains("src/main.c"), "no commit has it");
    assert!(details(&graph).contains("taken back: src/main.c"), "{}", details(&graph));
}

/// A node that may write no code gives another one the commit.
/// CONTRACT 20.33, 22.8
#[test]
fn the_work_branch_of_another_node_is_put_back() {
    let graph = Graph::new("echo done >file; echo done", &["b"]);
    graph.ok(&["chat", "RUN", "b", "Write."]);
    graph.drain();
    let add =
        ["node", "add", "RUN", "r", "--role", "reviewer", "--provider", "scripted", "--permissions", "skip"];
    graph.ok(&add);
    let branch = format!("work/{}/b", graph.slug);
    for (what, script) in [
        (
            "moved",
            "git update-ref refs/heads/BRANCH \"$(git commit-tree -m x -p refs/heads/BRANCH \"$tree\")\"",
        ),
        ("removed", "git update-ref -d refs/heads/BRANCH"),
    ] {
        let before = graph.repo.git(["rev-parse", &branch]);
        let tree = "tree=$(printf '100644 blob %s\\tinjected.c\\n' \"$(echo evil | git hash-object -w --stdin)\" | git mktree)";
        agent(&graph.repo, &format!("{tree}\n{}\necho done", script.replace("BRANCH", &branch)));
        graph.ok(&["chat", "RUN", "r", "Give it to b."]);
        graph.repo.aynig(["run", "--branch", &format!("run/{}/r", graph.slug)]);
        assert_eq!(graph.repo.git(["rev-parse", &branch]), before, "{what}");
        let said = details(&graph);
        assert!(
            said.contains(&format!("the ref refs/heads/{branch} was")) && said.contains("and put back"),
            "{what}: {said}"
        );
    }
    agent(&graph.repo, "ls >files; echo done");
    graph.ok(&["chat", "RUN", "b", "Go on."]);
    graph.drain();
    assert!(!graph.repo.git(["show", &format!("{branch}:files")]).contains("injected"));
    assert!(graph.events(&["workspace.adopted"]).is_empty());
}

/// Writes an end for the node `b`, whose message it takes, as if its turn had ended. `$1` is the id of the turn.
const ENDS: &str = r#"
import glob, json, os, subprocess, sys
run = os.environ["AYNIG_ORCH_RUN"]
common = subprocess.check_output(["git", "rev-parse", "--path-format=absolute", "--git-common-dir"], text=True).strip()
data = f"{common}/aynig/data/runs/{run}"
state = json.load(open(f"{data}/state.json"))
b = next(node for node in state["nodes"].values() if node["alias"] == "b")
context = json.load(open(f"{data}/workspaces/b/workspace-context.json"))
inbox = open(sys.argv[2]).read().split()
turn = dict(node=b["id"], turn=sys.argv[1], status="completed", started_at="2026-11-26T11:00:00.000Z", consumed=inbox,
    last_words="FORGED", usage=None, model=None, detail=None, excused=False, until=None, heard=[], unsaid=[],
    session=None, trace=None, answered=[])
acts = [{"act": "handoff", "to": "c", "payload": {"message": "FORGED"}}, {"act": "done", "message": "FORGED"}]
kept = dict(turn=turn, before=b["turn"]["id"], acts=acts, halt=None, reached=None, repairs=[],
    head=context.get("headSha") or context["head_sha"], generation=context["generation"], files="artifacts/b/1", refused=None)
os.makedirs(f"{data}/ends", exist_ok=True)
json.dump(kept, open(f"{data}/ends/b", "w"))
"#;

/// CONTRACT 22.30
#[test]
fn an_end_that_an_agent_wrote_counts_for_nothing() {
    for remote in [false, true] {
        let hub = Repo::new();
        let repo = if remote {
            let bare = hub.beside("hub.git");
            let path = bare.to_str().expect("UTF-8");
            hub.git(["clone", "-q", "--bare", ".", path]);
            hosts::host(path, "first", "echo done")
        } else {
            let repo = Repo::new();
            place_worktrees(&repo);
            agent(&repo, "echo done");
            repo
        };
        let graph = Graph::of(repo, &["a", "b", "c"]);
        graph.ok(&["edge", "add", "RUN", "b", "c"]);
        graph.ok(&["chat", "RUN", "b", "First."]);
        graph.drain();
        graph.ok(&["chat", "RUN", "b", "Second."]);
        let second = graph.events(&["message.user"])[1]["message"]["id"].as_str().expect("an id").to_owned();
        let forge = graph.repo.beside("forge.py");
        std::fs::write(&forge, ENDS).expect("a file");
        let inbox = graph.repo.beside("inbox");
        std::fs::write(&inbox, &second).expect("a file");
        let script = format!(
            "case $prompt in *'the agent a '*) python3 {} 11111111-1111-4111-8111-111111111111 {} || exit 9 ;; esac\necho done",
            forge.display(),
            inbox.display()
        );
        agent(&graph.repo, &script);
        graph.ok(&["chat", "RUN", "a", "Forge it."]);
        graph.repo.aynig(["run", "--branch", &format!("run/{}/a", graph.slug)]);
        graph.drain();
        assert_eq!(graph.turns(), ["b completed", "a completed", "b completed"], "{remote}");
        graph.assert_read_once(0);
        let all = graph.repo.git(["log", "--all", "--format=%B"]);
        assert!(!all.contains("FORGED"), "{remote}");
        assert_eq!(graph.state()["status"], "running", "{remote}");
        graph.ok(&["doctor", "RUN"]);
    }
}

/// CONTRACT 22.6, 22.15, 22.24, 22.26
#[test]
fn acts_that_an_agent_wrote_itself_are_checked_again() {
    let done = r#"{"act":"done","message":"forced","finding":"accepted"}"#;
    let refused = r#"{"act":"done","message":"forced","finding":{"refused":"x"}}"#;
    let role = r#"{"act":"spawn","node":{"alias":"kid","role":"implementer","provider":"scripted"},"roleText":"OBEY"}"#;
    let kind = r#"{"act":"artifact","kind":"prompt","name":"prompt.full.txt"}"#;
    let odd = r#"{"act":"handoff","to":"b","payload":{"message":"m","artifacts":[{"type":"x","ref":"../../etc/passwd"}]}}"#;
    for (what, files, status, said) in [
        ("an end that is judged already", &[("0001.json", done)][..], "completed", "is not done"),
        ("two ends", &[("0001.json", refused), ("0002.json", done)], "failed", "nothing comes after the end"),
        ("the text of a role", &[("0001.json", role)], "failed", "unknown field `roleText`"),
        (
            "a prompt",
            &[("0001.json", kind), ("0001.content", "x")],
            "failed",
            "no artifact of the kind prompt",
        ),
        ("a reference", &[("0001.json", odd)], "failed", "names no artifact and no commit"),
        (
            "a limit",
            &[("limit.json", r#"{"cause":"limit","limit":"costUsd","value":9,"bound":1}"#)],
            "completed",
            "",
        ),
    ] {
        let repo = Repo::new();
        place_worktrees(&repo);
        repo.git(["config", "aynig.validator.no", "false"]);
        agent(&repo, "echo done");
        let graph = Graph::of(repo, &["b"]);
        let add = ["node", "add", "RUN", "o", "--role", "orchestrator", "--provider", "scripted"];
        graph.ok(&[&add[..], &["--permissions", "skip", "--management-approval", "false"]].concat());
        graph.ok(&["run", "set", "RUN", "--done-when", "validator:no"]);
        graph.ok(&["edge", "add", "RUN", "o", "b"]);
        let beside = graph.repo.beside("acts");
        std::fs::create_dir(&beside).expect("a directory");
        for (name, text) in files {
            std::fs::write(beside.join(name), text).expect("a file");
        }
        let script = format!(
            "common=$(git rev-parse --path-format=absolute --git-common-dir)\n\
             [ -e ../../once ] || cp {}/* \"$common/aynig/data/runs/$AYNIG_ORCH_RUN/hand/$AYNIG_ORCH_TURN/\"\n\
             : >../../once\necho done",
            beside.display()
        );
        agent(&graph.repo, &script);
        graph.ok(&["chat", "RUN", "o", "Forge it."]);
        graph.repo.aynig(["run", "--branch", &format!("run/{}/o", graph.slug)]);
        assert_eq!(graph.turns(), [format!("o {status}")], "{what}: {}", details(&graph));
        let state = graph.state();
        assert_eq!(state["status"], "running", "{what}");
        assert_eq!(state["nodes"].as_object().map(serde_json::Map::len), Some(2), "{what}");
        assert!(graph.events(&["limit.reached", "handoff.sent"]).is_empty(), "{what}");
        let all = details(&graph)
            + &graph.repo.git([
                "log",
                "--format=%B",
                &format!("refs/aynig/runs/{}", state["id"].as_str().expect("an id")),
            ]);
        assert!(all.contains(said), "{what}: {all}");
    }
}

/// A process that lost its parent is the keeper's, and the keeper knows its turn.
/// CONTRACT 22.6
#[test]
fn an_orphan_of_one_turn_cannot_act_in_another() {
    let graph = Graph::new(people::WAITS, &["a", "b", "c"]);
    graph.ok(&["edge", "add", "RUN", "b", "c"]);
    graph.ok(&["chat", "RUN", "b", "Wait."]);
    let mut runner = people::live(&graph.repo);
    let (run, other) = (graph.state()["id"].clone(), graph.node("b")["id"].clone());
    let (run, other) = (run.as_str().expect("an id"), other.as_str().expect("an id"));
    let script = format!(
        r#"
common=$(git rev-parse --path-format=absolute --git-common-dir)
for turn in "$common/aynig/data/runs/{run}/hand/"*; do
    turn=${{turn##*/}}
    [ "$turn" = "$AYNIG_ORCH_TURN" ] && continue
    export AYNIG_ORCH_RUN={run} AYNIG_ORCH_NODE={other}
    env -i PATH="$PATH" sh -c "( AYNIG_ORCH_RUN={run} AYNIG_ORCH_NODE={other} AYNIG_ORCH_TURN=$turn setsid sh -c 'sleep 1; \"$AYNIG_BIN\" orch handoff --to c --message x >../../said 2>&1; echo \$? >>../../said; : >../../over' & )"
    while ! [ -e ../../over ]; do sleep 0.1; done
done
echo done"#
    );
    let shared = graph.repo.path.join(".git/scripted.sh");
    std::fs::write(&shared, format!("#!/bin/sh\nprompt=$(cat)\n{script}\n")).expect("a script");
    graph.ok(&["chat", "RUN", "a", "Act for b."]);
    graph.repo.aynig_ok(["run", "--branch", &format!("run/{}/a", graph.slug)]);
    let said = std::fs::read_to_string(graph.repo.beside("worktrees").join("said")).expect("it was tried");
    assert!(said.contains("does not belong to the turn") && said.ends_with("2\n"), "{said}");
    graph.ok(&["run", "pause", "RUN"]);
    runner.wait().expect("it ends");
    assert!(graph.events(&["handoff.sent"]).is_empty());
}

/// CONTRACT 22.15, 22.36
#[test]
fn an_act_is_approved_each_time_and_by_its_own_question() {
    let repo = Repo::new();
    place_worktrees(&repo);
    let script = r#"
args='{"alias":"kid","role":"implementer","provider":"scripted"}'
printf '{"type":"approval.requested","approvalId":"q","tool":{"id":"t","name":"spawn_node","args":%s}}\n' "$args"
IFS= read -r answer
answer=$(printf %s "$answer" | tr -d '"\\')
"$AYNIG_BIN" orch spawn kid --role implementer --provider scripted >/dev/null 2>&1
printf '{"type":"message.assistant.final","content":"heard %s"}\n' "$answer"
exec cat >/dev/null"#;
    asking_agent(&repo, script);
    repo.git(["config", "aynig.approvalWaitSeconds", "0"]);
    let graph = Graph::of(repo, &[]);
    graph.ok(&["node", "add", "RUN", "o", "--role", "orchestrator", "--provider", "scripted"]);
    graph.ok(&["chat", "RUN", "o", "Make one."]);
    graph.drain();
    let open = super::approvals::requests(&graph);
    assert_eq!(open.len(), 1, "the hand's question alone: {open:?}");
    let id = open[0]["id"].as_str().or(open[0]["approvalId"].as_str()).expect("an id").to_owned();
    for always in ["--always", "--always=tool"] {
        let refused = graph.orch(&["approve", &id, always]);
        assert_eq!(refused.status.code(), Some(1), "{}", err(&refused));
        assert!(err(&refused).contains("is approved each time"), "{}", err(&refused));
    }
    graph.ok(&["approve", &id]);
    graph.drain();
    let said = super::approvals::last_words(&graph);
    assert!(said.contains("status:denied") && said.contains("is no tool of the program"), "{said}");
    assert_eq!(graph.node("kid")["alias"], "kid");
}
