//! Commands from a trusted ref, and the record of a gate.

use super::agent::with_agent;
use super::*;

const STEP: &str = "  - id: implement
    opcode: RUN_AGENT
    agent: scripted
    prompt: go
    allow_empty: true
    routes: {completed: STOP, error: STOP}
";

/// The commands of drivers, which a trusted ref must have.
pub(super) fn drivers(repo: &Repo) {
    repo.command(".aynig/command/flow-step", "exec \"$AYNIG_BIN\" flow step");
    repo.command(".aynig/command/stalled", "exec \"$AYNIG_BIN\" flow recover");
}

/// CONTRACT 20.27
#[test]
fn a_flow_that_is_not_of_the_trusted_ref_is_not_started() {
    let repo = with_agent("cat >/dev/null");
    place_worktrees(&repo);
    repo.git(["branch", "trusted"]);
    repo.git(["config", "aynig.commandsFrom", "trusted"]);
    repo.write("flow.yaml", &flow("implement", STEP));
    let refused = |words: &str| {
        let output = repo.aynig(["flow", "start", "flow.yaml"]);
        assert_eq!(output.status.code(), Some(3), "{}", told(&output));
        assert!(err(&output).contains(words), "{}", err(&output));
        assert!(repo.git(["for-each-ref", "refs/aynig"]).is_empty());
    };
    refused("trusted has no program .aynig/command/flow-step");
    drivers(&repo);
    repo.git(["add", ".aynig"]);
    repo.git(["commit", "-qm", "the commands of drivers"]);
    repo.git(["branch", "-f", "trusted"]);
    refused("flow.yaml is not a file of trusted");
    repo.commit_all("the flow");
    repo.git(["branch", "-f", "trusted"]);
    let started = json(&repo.aynig_ok(["flow", "start", "flow.yaml", "--json"]));
    repo.aynig_ok(["run", "--drain"]);
    let driver = started["driver"].as_str().expect("a name");
    assert_eq!(repo.state(driver), "flow-done");
}

/// CONTRACT 20.27
#[test]
fn a_flow_that_is_not_of_the_trusted_ref_is_not_carried_out() {
    let repo = with_agent("cat >/dev/null");
    place_worktrees(&repo);
    drivers(&repo);
    repo.commit_all("the commands of drivers");
    repo.git(["branch", "trusted"]);
    repo.write("flow.yaml", &flow("implement", STEP));
    repo.commit_all("the flow");
    // Started where commands are taken from the branch itself.
    let started = json(&repo.aynig_ok(["flow", "start", "flow.yaml", "--json"]));
    let driver = started["driver"].as_str().expect("a name");
    repo.git(["config", "aynig.commandsFrom", "trusted"]);
    let words = told(&repo.aynig_ok(["run", "--drain"]));
    assert_eq!(repo.state(driver), "flow-step", "{words}");
    assert!(words.contains("the flow of this run is no file of trusted"), "{words}");
    assert!(words.contains("aynig.commandsFrom is trusted"), "{words}");
    let slug = &started["slug"].as_str().expect("a slug");
    // An option counts for the step as the setting does.
    repo.git(["config", "--unset", "aynig.commandsFrom"]);
    repo.aynig_ok(["flow", "resume", slug]);
    let words = told(&repo.aynig_ok(["run", "--drain", "--commands-from", "trusted"]));
    assert_eq!(repo.state(driver), "flow-step", "{words}");
    assert!(words.contains("the flow of this run is no file of trusted"), "{words}");
    repo.git(["config", "aynig.commandsFrom", "trusted"]);
    repo.git(["branch", "-f", "trusted"]);
    repo.aynig_ok(["flow", "resume", slug]);
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(repo.state(driver), "flow-done");
}

/// CONTRACT 20.27
#[test]
fn a_run_of_the_trusted_ref_goes_on_when_the_ref_has_another_flow() {
    let repo = with_agent("cat >/dev/null");
    place_worktrees(&repo);
    drivers(&repo);
    repo.write("flow.yaml", &flow("implement", STEP));
    repo.commit_all("all of it");
    repo.git(["config", "aynig.commandsFrom", "main"]);
    let started = json(&repo.aynig_ok(["flow", "start", "flow.yaml", "--json"]));
    repo.write("flow.yaml", &flow("implement", &STEP.replace("go", "another")));
    repo.commit_all("the next version");
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(repo.state(started["driver"].as_str().expect("a name")), "flow-done");
}

/// CONTRACT 20.6
#[test]
fn the_question_and_the_answer_of_a_gate_are_in_the_record() {
    let repo = Repo::new();
    let ask = "  - id: ask\n    opcode: GATE\n    gate: ship\n    question: \"ready, {{inputs.who}}?\"\n    routes: {gate_approved: STOP, gate_rejected: STOP}\n";
    let text = flow("ask", ask).replace("steps:", "inputs:\n  who: {required: true}\nsteps:");
    let run = start_with(&repo, &text, &["--input", "who=Ann"]);
    repo.aynig_ok(["run", "--drain"]);
    let read = |name: &str| {
        let path = run.directory.join("artifacts/ask/1").join(name);
        serde_json::from_slice::<Value>(&std::fs::read(path).expect(name)).expect("JSON")
    };
    assert_eq!(read("gate_request.json")["question"], "ready, Ann?");
    assert_eq!(read("manifest.json")["termination"], Value::Null);
    repo.aynig_ok(["flow", "approve", &run.slug, "--comment", "good"]);
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(read("gate_outcome.json")["resolution"]["reason"], "good");
    assert_eq!(read("manifest.json")["termination"], "gate_approved");
}
