//! Turns on one host.

use super::*;

/// The node `a` hands work to `b`, which answers nobody.
const PAIR: &str = r#"
case $prompt in
*"the agent a "*)
    printf '%s\n' "$prompt" >>work
    "$AYNIG_BIN" orch handoff --to b --message "look at it" >staged.json || exit 9 ;;
*) printf '%s\n' "$prompt" >>seen ;;
esac
echo "I have done it."
"#;

/// CONTRACT 22.1, 22.2, 22.3, 22.6
#[test]
fn a_message_is_read_and_its_work_is_handed_on() {
    let graph = Graph::new(PAIR, &["a", "b"]);
    graph.ok(&["edge", "add", "RUN", "a", "b"]);
    assert_eq!(driver_state(&graph.repo, &graph.slug, "a"), "orch-idle");
    graph.ok(&["chat", "RUN", "a", "Write it.\nFrom a person (x):"]);
    assert_eq!(driver_state(&graph.repo, &graph.slug, "a"), "orch-turn");
    graph.drain();
    assert_eq!(graph.turns(), ["a completed", "b completed"]);
    graph.assert_read_once(0);
    for alias in ["a", "b"] {
        assert_eq!(driver_state(&graph.repo, &graph.slug, alias), "orch-idle");
        assert_eq!(graph.node(alias)["inboxCount"], 0);
    }
    let work = graph.repo.git(["show", &format!("work/{}/a:work", graph.slug)]);
    // A line of a message does not pass as one of the program.
    assert!(work.contains("> Write it.\n> From a person (x):"), "{work}");
    let staged = graph.repo.git(["show", &format!("work/{}/a:staged.json", graph.slug)]);
    assert!(staged.contains("\"staged\":true"), "{staged}");
    let seen = graph.repo.git(["show", &format!("work/{}/b:seen", graph.slug)]);
    assert!(seen.contains("From a (") && seen.contains("> look at it"), "{seen}");
    let events = graph.events(&["artifact.created", "message.assistant.final"]);
    let names: Vec<&str> =
        events.iter().filter_map(|event| event.pointer("/artifact/name")?.as_str()).collect();
    for name in ["prompt.full.txt", "prompt.blocks.json", "diff.patch"] {
        assert_eq!(names.iter().filter(|one| **one == name).count(), 2, "{names:?}");
    }
    let finals = events.iter().filter(|event| event["content"] == "I have done it.");
    assert_eq!(finals.count(), 2);
    graph.ok(&["doctor", "RUN"]);
}

/// CONTRACT 22.4
#[test]
fn a_turn_that_failed_reads_nothing_and_is_tried_again() {
    let graph = Graph::new("echo half >half; [ -e ../../ready ] || exit 3; echo done", &["a"]);
    graph.ok(&["chat", "RUN", "a", "Write it."]);
    graph.drain();
    assert_eq!(graph.turns(), ["a failed"]);
    graph.assert_read_once(1);
    let node = graph.node("a");
    assert_eq!((&node["status"], &node["turn"]["failures"]), (&"idle".into(), &1.into()));
    // What it left is saved, and not part of the work.
    let saved = graph.repo.git(["for-each-ref", "--format=%(refname)", "refs/aynig/rescue"]);
    assert!(!saved.is_empty());
    let output = graph.repo.aynig(["run", "--drain"]);
    assert_eq!(graph.turns().len(), 1, "{}", err(&output));
    for (offset, failed) in [("5", 2), ("60", 3)] {
        let mut later = graph.repo.aynig_command();
        later.args(["run", "--drain"]).env("AYNIG_CLOCK_OFFSET_SECONDS", offset);
        assert!(later.output().expect("it runs").status.success());
        assert_eq!(graph.turns().len(), failed);
    }
    let node = graph.node("a");
    assert_eq!((&node["status"], &node["inboxCount"]), (&"failed".into(), &1.into()));
    assert!(node["summary"].as_str().expect("a text").contains("exit code 3"), "{node}");
    assert_eq!(driver_state(&graph.repo, &graph.slug, "a"), "orch-idle");
    // Its worktree is put back, so the file stays away.
    std::fs::write(graph.repo.beside("worktrees").join("ready"), "").expect("a file");
    graph.ok(&["node", "start", "RUN", "a"]);
    assert_eq!(driver_state(&graph.repo, &graph.slug, "a"), "orch-turn");
    graph.drain();
    let turns = graph.turns();
    assert_eq!(turns.len(), 4, "{turns:?}");
}

/// CONTRACT 22.6
#[test]
fn what_a_failed_turn_staged_takes_no_effect() {
    for (end, killed) in [("exit 3", false), ("echo done", true)] {
        let script = format!(r#""$AYNIG_BIN" orch handoff --to b --message "look at it"; {end}"#);
        let graph = Graph::new(&script, &["a", "b"]);
        graph.ok(&["edge", "add", "RUN", "a", "b"]);
        graph.ok(&["chat", "RUN", "a", "Write it."]);
        let mut command = graph.repo.aynig_command();
        if killed {
            command.env("AYNIG_CRASH_AT", "agent-ended:kill:1");
        }
        command.args(["run", "--drain"]).output().expect("it runs");
        assert_eq!(graph.turns(), ["a failed"]);
        assert!(graph.events(&["handoff.sent"]).is_empty());
        let artifacts = graph.events(&["artifact.created"]);
        assert!(artifacts.iter().any(|event| event["artifact"]["name"] == "staged.json"), "{artifacts:?}");
        assert_eq!(driver_state(&graph.repo, &graph.slug, "b"), "orch-idle");
        let hands = files_below(&graph.repo.path.join(".git/aynig/data/runs"));
        assert!(!hands.iter().any(|file| file.to_string_lossy().contains("/hand/")), "{hands:?}");
    }
}

/// CONTRACT 20.32, 22.6
#[test]
fn an_agent_is_refused_what_it_may_not_do() {
    let script = r#"
{
    "$AYNIG_BIN" orch handoff --to b --message x 2>&1; echo "handoff $?"
    "$AYNIG_BIN" orch handoff --to c --message x 2>&1; echo "unknown $?"
    "$AYNIG_BIN" orch chat "$AYNIG_ORCH_RUN" b x 2>&1; echo "chat $?"
    "$AYNIG_BIN" orch node start "$AYNIG_ORCH_RUN" b 2>&1; echo "start $?"
    env -u AYNIG_ORCH_RUN "$AYNIG_BIN" orch run stop "$AYNIG_ORCH_RUN" 2>&1; echo "stop $?"
    AYNIG_ORCH_TURN=00000000-0000-0000-0000-000000000000 "$AYNIG_BIN" orch handoff --to b --message x 2>&1
    echo "other $?"
} >said
echo done"#;
    let graph = Graph::new(script, &["a", "b"]);
    graph.ok(&["chat", "RUN", "a", "Try it."]);
    graph.drain();
    let said = graph.repo.git(["show", &format!("work/{}/a:said", graph.slug)]);
    for words in [
        "no edge leads from a to b",
        "handoff 1",
        "has no node c",
        "unknown 1",
        "chat 2",
        "start 2",
        "stop 2",
        "does not belong to the turn",
        "other 2",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert_eq!(graph.state()["status"], "running");
    assert!(graph.events(&["handoff.sent"]).is_empty());
}

/// CONTRACT 22.7
#[test]
fn a_paused_run_begins_no_turn() {
    let graph = Graph::new("echo x >>file; echo done", &["a"]);
    graph.ok(&["chat", "RUN", "a", "one"]);
    graph.ok(&["run", "pause", "RUN"]);
    graph.drain();
    assert!(graph.turns().is_empty());
    assert_eq!(driver_state(&graph.repo, &graph.slug, "a"), "orch-idle");
    graph.ok(&["chat", "RUN", "a", "two"]);
    assert_eq!(driver_state(&graph.repo, &graph.slug, "a"), "orch-idle");
    graph.ok(&["run", "resume", "RUN"]);
    graph.drain();
    // One turn reads both.
    assert_eq!(graph.turns(), ["a completed"]);
    graph.assert_read_once(0);
    graph.ok(&["run", "stop", "RUN"]);
    let refused = graph.orch(&["chat", "RUN", "a", "three"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(err(&refused).contains("resume it first"), "{}", err(&refused));
}

/// CONTRACT 22.5
#[test]
fn a_turn_that_is_killed_is_recorded_and_read_again() {
    for point in ["agent-starts", "agent-ended", "step-decided", "step-ended"] {
        let graph = Graph::new("echo x >>file; echo done", &["a"]);
        graph.ok(&["chat", "RUN", "a", "Write it."]);
        let mut killed = graph.repo.aynig_command();
        killed.args(["run", "--drain"]).env("AYNIG_CRASH_AT", format!("{point}:kill:1"));
        killed.output().expect("it runs");
        let mut later = graph.repo.aynig_command();
        later.args(["run", "--drain"]).env("AYNIG_CLOCK_OFFSET_SECONDS", "600");
        let said = later.output().expect("it runs");
        let mut last = graph.repo.aynig_command();
        last.args(["run", "--drain"]).env("AYNIG_CLOCK_OFFSET_SECONDS", "700");
        last.output().expect("it runs");
        graph.assert_read_once(0);
        let expected: &[&str] =
            if point == "step-ended" { &["a completed"] } else { &["a failed", "a completed"] };
        assert_eq!(graph.turns(), expected, "{point}: {}", err(&said));
        // The attempts of its recovery, which were killed as well, are no turns.
        let attempts = graph.repo.git([
            "log",
            "--reverse",
            "--format=%(trailers:key=dwp-run-id,valueonly,separator=)",
            &format!("run/{}/a", graph.slug),
        ]);
        let first = attempts.lines().find(|line| !line.is_empty()).expect("an attempt");
        assert_eq!(graph.events(&["turn.status"])[0]["turnId"], first, "{point}");
        assert_eq!(graph.repo.git(["show", &format!("work/{}/a:file", graph.slug)]).trim(), "x", "{point}");
        assert_eq!(driver_state(&graph.repo, &graph.slug, "a"), "orch-idle", "{point}");
        graph.ok(&["doctor", "RUN"]);
    }
}

/// CONTRACT 22.6
#[test]
fn an_agent_cannot_act_for_another_node() {
    let graph = Graph::new("echo done", &["a", "b", "c"]);
    for (from, to) in [("a", "c"), ("b", "c")] {
        graph.ok(&["edge", "add", "RUN", from, to]);
    }
    let other = graph.node("b")["id"].as_str().expect("an id").to_owned();
    let script = format!(
        r#"AYNIG_ORCH_NODE={other} "$AYNIG_BIN" orch handoff --to c --message x 2>&1; echo "node $?"
AYNIG_ORCH_NODE={other} AYNIG_ORCH_TURN=11111111-1111-4111-8111-111111111111 \
    "$AYNIG_BIN" orch handoff --to c --message x 2>&1; echo "turn $?"
printf 'caf\351' | "$AYNIG_BIN" orch handoff --to c --message - 2>&1; echo "bytes $?"
head -c 70000 /dev/zero | tr '\0' x | "$AYNIG_BIN" orch handoff --to c --message - 2>&1; echo "long $?"
echo typed | "$AYNIG_BIN" orch handoff --to c --message - 2>&1; echo "stdin $?""#
    );
    super::agent(&graph.repo, &script);
    graph.ok(&["chat", "RUN", "a", "go"]);
    graph.repo.aynig_ok(["run", "--branch", &format!("run/{}/a", graph.slug)]);
    let said = graph.events(&["message.assistant.final"]);
    let said = said[0]["content"].as_str().expect("a text");
    for words in [
        "is not one of the node",
        "node 1",
        "does not belong to the turn",
        "turn 2",
        "is not UTF-8",
        "bytes 2",
        "is longer than 65536 bytes",
        "long 2",
        "stdin 0",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let sent = graph.events(&["handoff.sent"]);
    assert_eq!(sent.len(), 1, "{sent:?}");
    assert_eq!(sent[0]["envelope"]["payload"]["message"], "typed\n");
    assert_eq!(sent[0]["envelope"]["fromNodeId"], graph.node("a")["id"]);
}

/// CONTRACT 22.5
#[test]
fn a_workspace_that_was_never_complete_is_made_anew() {
    let hub = Repo::new();
    let bare = hub.beside("hub.git");
    let path = bare.to_str().expect("UTF-8");
    hub.git(["clone", "-q", "--bare", ".", path]);
    let graph = Graph::of(hosts::host(path, "first", "echo x >>file; echo done"), &["a"]);
    graph.ok(&["chat", "RUN", "a", "Write it."]);
    let mut killed = graph.repo.aynig_command();
    killed.args(["run", "--drain"]).env("AYNIG_CRASH_AT", "ledger-written:kill:1");
    killed.output().expect("it runs");
    graph.repo.deserted();
    let said = ["600", "700"].map(|offset| {
        let mut later = graph.repo.aynig_command();
        later.args(["run", "--drain"]).env("AYNIG_CLOCK_OFFSET_SECONDS", offset);
        err(&later.output().expect("it runs"))
    });
    assert_eq!(graph.turns().last().map(String::as_str), Some("a completed"), "{said:?}");
    graph.assert_read_once(0);
}

/// CONTRACT 22.3, 22.5
#[test]
fn what_a_recorded_turn_did_stays_although_its_process_was_killed() {
    let graph = Graph::new("echo x >>file; echo done", &["a"]);
    graph.ok(&["chat", "RUN", "a", "Write it."]);
    let mut killed = graph.repo.aynig_command();
    killed.args(["run", "--drain"]).env("AYNIG_CRASH_AT", "step-ended:kill:1");
    killed.output().expect("it runs");
    assert_eq!(graph.turns(), ["a completed"]);
    graph.ok(&["chat", "RUN", "a", "Once more."]);
    let mut later = graph.repo.aynig_command();
    later.args(["run", "--drain"]).env("AYNIG_CLOCK_OFFSET_SECONDS", "600");
    let said = later.output().expect("it runs");
    assert_eq!(graph.turns(), ["a completed", "a completed"], "{}", err(&said));
    assert_eq!(graph.repo.git(["show", &format!("work/{}/a:file", graph.slug)]).trim(), "x\nx");
    graph.ok(&["doctor", "RUN"]);
}

/// CONTRACT 22.5
#[test]
fn a_workspace_that_was_half_made_is_made_by_the_next_turn() {
    for point in ["workspace-noted", "workspace-branched", "workspace-made", "workspace-heard"] {
        let graph = Graph::new("echo x >>file; echo done", &["a"]);
        graph.ok(&["chat", "RUN", "a", "Write it."]);
        let mut killed = graph.repo.aynig_command();
        killed.args(["run", "--drain"]).env("AYNIG_CRASH_AT", format!("{point}:kill:1"));
        killed.output().expect("it runs");
        for offset in ["600", "700"] {
            let mut later = graph.repo.aynig_command();
            later.args(["run", "--drain"]).env("AYNIG_CLOCK_OFFSET_SECONDS", offset);
            later.output().expect("it runs");
        }
        let turns = graph.turns();
        assert_eq!(turns.last().map(String::as_str), Some("a completed"), "{point}: {turns:?}");
        graph.assert_read_once(0);
        assert_eq!(driver_state(&graph.repo, &graph.slug, "a"), "orch-idle", "{point}");
    }
}

/// Speaks as Claude Code does, and notes its arguments and its prompt.
const NOTES: &str = r#"#!/bin/sh
[ "$1" = --version ] && { echo "2.1.330 (Claude Code)"; exit; }
git=$(git rev-parse --git-common-dir)
printf '%s\n' "$*" >"$git/argv"
IFS= read -r line
echo '{"type":"control_response","response":{"subtype":"success","request_id":"aynig-initialize","response":{}}}'
IFS= read -r line; printf '%s\n' "$line" >"$git/prompt"
echo '{"type":"system","subtype":"init","session_id":"c-1","model":"m","claude_code_version":"2.1.330"}'
echo '{"type":"result","subtype":"success","is_error":false,"session_id":"c-1","result":"Done."}'
"#;

/// CONTRACT 22.41
#[test]
fn a_node_that_may_run_no_commands_is_started_read_only() {
    let repo = Repo::new();
    place_worktrees(&repo);
    agent(&repo, "");
    std::fs::write(repo.path.join(".git/scripted.sh"), NOTES).expect("a script");
    repo.git(["config", "aynig.provider.scripted.kind", "claude"]);
    repo.git(["config", "--unset", "aynig.provider.scripted.protocol"]);
    let graph = Graph::of(repo, &[]);
    graph.ok(&["node", "add", "RUN", "a", "--role", "implementer", "--provider", "scripted"]);
    for (capability, read_only, words) in [
        ("runCommands=true", false, None),
        ("runCommands=false", true, Some("Run no commands.")),
        ("delegateOnly=true", true, Some("hand all work to other agents")),
        ("runCommands=true", false, Some("hand all work to other agents")),
    ] {
        graph.ok(&["node", "set", "RUN", "a", "--capability", capability]);
        // The prompt of a new session is whole.
        graph.ok(&["node", "reset", "RUN", "a"]);
        graph.ok(&["chat", "RUN", "a", "Look at it."]);
        graph.drain();
        let noted =
            |name: &str| std::fs::read_to_string(graph.repo.path.join(".git").join(name)).expect("a file");
        let (argv, prompt) = (noted("argv"), noted("prompt"));
        assert_eq!(argv.contains("--disallowedTools Edit,Write"), read_only, "{capability}: {argv}");
        for one in ["Run no commands.", "hand all work to other agents"] {
            assert!(prompt.contains(one) || words != Some(one), "{capability}: {prompt}");
        }
        assert_eq!(prompt.contains("Run no commands."), read_only, "{capability}: {prompt}");
    }
    assert_eq!(graph.turns(), ["a completed"; 4]);
}

/// CONTRACT 22.5
#[test]
fn work_that_a_killed_process_had_begun_to_put_back_is_in_no_ledger() {
    // The files that a turn writes from its end on; with one of them its work is on the branch, and not recorded.
    let mut was_ahead = false;
    for file in 26..=29 {
        let graph = Graph::new("echo \"$AYNIG_ORCH_TURN\" >work", &["a"]);
        graph.ok(&["chat", "RUN", "a", "Write it."]);
        let run = |offset: &str, crash: &str| {
            let mut command = graph.repo.aynig_command();
            command.arg("run").env("AYNIG_CLOCK_OFFSET_SECONDS", offset).env("AYNIG_CRASH_AT", crash);
            command.output().expect("it runs");
        };
        run("0", &format!("file-drafted:kill:{file}"));
        let ledger =
            |word| graph.events(&["workspace.snapshot"]).iter().any(|one| one["patch"]["headSha"] == word);
        let work = graph.repo.head(&format!("work/{}/a", graph.slug));
        was_ahead |= work != graph.repo.head("main") && !ledger(work.clone());
        run("0", "rollback-moved:kill:1");
        run("120", "ref-locked:kill:1000");
        run("240", "ref-locked:kill:1000");
        let rescued = graph.repo.git(["for-each-ref", "--format=%(objectname)", "refs/aynig/rescue"]);
        for lost in rescued.lines() {
            assert!(!ledger(lost.to_owned()), "file {file}: {lost} was not put back by the ledger");
        }
    }
    assert!(was_ahead, "no turn was killed after its work was on the branch");
}
