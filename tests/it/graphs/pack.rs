//! The graphs of the pack `orchestration`, with a scripted stand-in for the agent program.

use super::super::flow_engine::{start_file, steps};
use super::super::packs::with_pack;
use super::made::made;
use super::*;

/// Hands work on by its role, and asks before it writes. Its prompt is one line of JSON.
const STAND_IN: &str = r#"
says() { printf '{"type":"message.assistant.final","content":"%s"}\n' "$1"; exec cat >/dev/null; }
gives() { "$AYNIG_BIN" orch handoff --to "$1" --message "$2" >/dev/null || exit 9; }
case $prompt in
*'the agent planner '*'From reviewer '*) says 'all is well' ;;
*'the agent planner '*) gives ada 'write one'; gives bob 'write two'; says planned ;;
*'the agent reviewer '*'From implementer '*) says accepted ;;
*'the agent reviewer '*) gives planner 'accepted'; says accepted ;;
esac
printf '%s\n' '{"type":"approval.requested","approvalId":"q","tool":{"id":"t","name":"write","args":{"path":"result"}}}'
IFS= read -r answer
case $answer in *'"approved"'*) echo 7 >result ;; *) exit 8 ;; esac
gives reviewer 'look at it'
says written"#;

fn workshop() -> Repo {
    let repo = with_pack("orchestration");
    asking_agent(&repo, STAND_IN);
    for (key, value) in [("kind", "custom"), ("protocol", "jsonl")] {
        repo.git(["config", &format!("aynig.provider.claude.{key}"), value]);
    }
    let program = repo.path.join(".git/scripted.sh");
    repo.git(["config", "aynig.provider.claude.command", program.to_str().expect("UTF-8")]);
    repo.git(["config", "aynig.approvalWaitSeconds", "0"]);
    place_worktrees(&repo);
    repo
}

/// Lets the repository take commands from a ref that has those of drivers, as the pack's README says.
fn trusted(repo: &Repo) {
    let copied = std::process::Command::new("cp")
        .args(["-a", ".aynig/drivers", ".aynig/command"])
        .current_dir(&repo.path)
        .status();
    assert!(copied.expect("cp runs").success());
    repo.commit_all("The commands of drivers");
    repo.git(["branch", "trusted"]);
    repo.git(["config", "aynig.commandsFrom", "trusted"]);
}

/// Approves what waits, and carries on, until nobody asks any more.
fn approve_all(graph: &Graph) {
    loop {
        graph.drain();
        let open: Value = serde_json::from_str(&graph.ok(&["approvals", "--json"])).expect("JSON");
        let open = open["approvals"].as_array().expect("a list").clone();
        if open.is_empty() {
            return;
        }
        for one in open {
            graph.ok(&["approve", one["id"].as_str().expect("an id")]);
        }
    }
}

#[test]
fn the_pair_carries_a_task_out() {
    let repo = workshop();
    for file in ["pair", "team"] {
        repo.aynig_ok(["orch", "check", &format!(".aynig/graphs/{file}.yaml")]);
    }
    let graph = made(repo, &["--from", ".aynig/graphs/pair.yaml"]);
    graph.ok(&["chat", "RUN", "implementer", "Write 7."]);
    approve_all(&graph);
    let completed = |alias: &str| graph.turns().contains(&format!("{alias} completed"));
    assert!(completed("implementer") && completed("reviewer"), "{:?}", graph.turns());
    graph.assert_read_once(0);
    assert_eq!(graph.repo.git(["show", &format!("work/{}/implementer:result", graph.slug)]), "7");
    graph.ok(&["doctor", "RUN"]);
}

/// CONTRACT 22.31
#[test]
fn the_team_works_with_the_commands_of_a_trusted_ref() {
    let repo = workshop();
    trusted(&repo);
    let graph = made(repo, &["--from", ".aynig/graphs/team.yaml"]);
    graph.ok(&["chat", "RUN", "planner", "Write it."]);
    approve_all(&graph);
    let said = graph.events(&["message.assistant.final"]);
    assert_eq!(said.last().expect("the last words")["content"], "all is well");
    graph.assert_read_once(0);
    for alias in ["ada", "bob"] {
        assert_eq!(graph.repo.git(["show", &format!("work/{}/{alias}:result", graph.slug)]), "7");
    }
}

/// CONTRACT 22.31
#[test]
fn one_program_for_stalled_carries_on_with_flows_and_graphs() {
    let repo = workshop();
    let program = repo.path.join(".git/scripted.sh");
    std::fs::write(&program, "#!/bin/sh\nIFS= read -r prompt\necho x >result\necho '{\"type\":\"message.assistant.final\",\"content\":\"done\"}'\nexec cat >/dev/null\n").expect("a script");
    trusted(&repo);
    repo.git(["config", "aynig.validator.tests", "true"]);
    let flow = start_file(&repo, ".aynig/flows/fix.yaml", &["--input", "task=Do it."]);
    let graph = made(repo, &["--from", ".aynig/graphs/pair.yaml"]);
    graph.ok(&["chat", "RUN", "implementer", "Write it."]);
    let mut killed = graph.repo.aynig_command();
    killed.args(["run", "--drain"]).env("AYNIG_CRASH_AT", "agent-ended:kill:1");
    killed.output().expect("it runs");
    let mut later = graph.repo.aynig_command();
    later.args(["run", "--drain"]).env("AYNIG_CLOCK_OFFSET_SECONDS", "600");
    let later = later.output().expect("it runs");
    let mut last = graph.repo.aynig_command();
    last.args(["run", "--drain"]).env("AYNIG_CLOCK_OFFSET_SECONDS", "700");
    last.output().expect("it runs");
    assert_eq!(graph.turns().last().map(String::as_str), Some("implementer completed"), "{}", err(&later));
    let steps = steps(&graph.repo, &flow);
    assert!(steps.first().is_some_and(|step| step.starts_with("implement ")), "{steps:?} {}", err(&later));
}

#[test]
fn the_texts_of_roles_are_those_that_come_with_the_program() {
    let repo = workshop();
    for role in ["implementer", "planner", "reviewer"] {
        let own = out(&repo.aynig_ok(["orch", "template", "show", role]));
        let shipped = out(&repo.aynig_ok(["orch", "template", "show", role, "--base", "HEAD~"]));
        assert_eq!(own, shipped);
    }
}
