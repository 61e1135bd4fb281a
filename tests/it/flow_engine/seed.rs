//! The completion criteria of the seed: one flow that does all of it, each criterion named.

use std::os::unix::fs::PermissionsExt;

use super::agent::agent;
use super::*;

pub(super) const FIX: &str = "workflow_id: fix
version: 1
entry_step: implement
defaults:
  agent: scripted
inputs:
  task: {required: true}
steps:
  - id: implement
    opcode: RUN_AGENT
    prompt: \"{{inputs.task}}\"
    inputs: [fix_instructions, validation_report]
    routes: {completed: test, error: undo, killed_timeout: undo, killed_idle: undo, killed_policy: undo}
  - id: test
    opcode: RUN_VALIDATION
    run:
      - {kind: script, id: unit, entrypoint: check.sh}
    routes: {completed: judge, error: judge, killed_timeout: judge, killed_idle: judge, killed_policy: undo}
  - id: judge
    opcode: EVALUATE
    prompt: Is it done?
    command: planner
    allowed_next_steps: [implement, approve, undo, STOP]
    routes: {success: approve, partial: implement, blocked: approve, unsafe: undo, needs_human: approve}
  - id: approve
    opcode: GATE
    gate: result
    routes: {gate_approved: STOP, gate_rejected: undo}
  - id: undo
    opcode: ROLLBACK
    target: pre_run
    routes: {completed: STOP, error: STOP}
";

/// An agent that needs two tries.
pub(super) const AGENT: &str =
    "cat >/dev/null; if [ -e result ]; then echo right >result; else echo wrong >result; fi; echo ok";

/// A planner that believes the validator.
pub(super) const PLANNER: &str = r#"tr -d ' \n' | grep -q '"unit":0' && echo '{"status":"success"}' || echo '{"status":"partial","fix_instructions":"write right"}'"#;

/// A repository with a validator script, an agent that needs two tries, and a planner that believes the validator.
fn workshop() -> Repo {
    let repo = Repo::new();
    repo.write("check.sh", "#!/bin/sh\ngrep -q right result\n");
    std::fs::set_permissions(repo.path.join("check.sh"), std::fs::Permissions::from_mode(0o755))
        .expect("a mode");
    repo.commit_all("a check");
    agent(&repo, "scripted", AGENT);
    repo.git(["config", "aynig.evaluator.planner", PLANNER]);
    repo
}

/// CONTRACT 20.1, 20.3, 20.4
#[test]
fn one_headless_flow_meets_the_criteria() {
    let repo = workshop();
    repo.write("mess", "the operator's tree need not be clean");
    let run = start_with(&repo, FIX, &["--input", "task=write the result"]);
    // 1. A managed worktree from a committed base ref.
    assert!(run.worktree.join("check.sh").is_file() && !run.worktree.join("mess").exists());
    // 2. The workspace context is there before anything is executed.
    let context = run.directory.join("workspaces/flow/workspace-context.json");
    let context: Value = serde_json::from_slice(&std::fs::read(context).expect("a context")).expect("JSON");
    assert_eq!(context["base_sha"].as_str().expect("a commit"), repo.head("main"));
    assert!(!run.worktree.starts_with(&run.directory) && !run.directory.starts_with(&run.worktree));
    // 3. and 4. Agent, validation, planner and gate, in the worktree.
    repo.aynig_ok(["run", "--drain"]);
    let expected = [
        "implement completed test",
        "test error judge",
        "judge partial implement",
        "implement completed test",
        "test completed judge",
        "judge success approve",
        "approve",
    ];
    assert_eq!(steps(&repo, &run), expected);
    assert_eq!(repo.git(["show", &format!("{}:result", run.work)]), "right");
    // 5. Artifacts and provenance.
    for step in ["implement", "test", "judge"] {
        let manifest = run.directory.join(format!("artifacts/{step}/manifest.json"));
        let manifest: Value = serde_json::from_slice(&std::fs::read(manifest).expect(step)).expect("JSON");
        assert_eq!(manifest["step_id"], step);
        assert_eq!(manifest["attempt"], 2, "{step}: the newest");
    }
    repo.aynig_ok(["flow", "approve", &run.slug]);
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(end(&repo, &run), ["completed", "succeeded", "completed"]);
}

/// CONTRACT 20.7
#[test]
fn a_rejected_flow_is_rolled_back_to_its_base() {
    let repo = workshop();
    let run = start_with(&repo, FIX, &["--input", "task=write the result"]);
    repo.aynig_ok(["run", "--drain"]);
    repo.aynig_ok(["flow", "reject", &run.slug, "--comment", "no"]);
    repo.aynig_ok(["run", "--drain"]);
    // 6. The worktree is discarded and made anew at the recorded base.
    assert_eq!(repo.head(&run.work), repo.head("main"));
    assert!(run.worktree.join("check.sh").is_file() && !run.worktree.join("result").exists());
    assert_eq!(end(&repo, &run), ["failed", "rejected", "completed"]);
    let rescued = repo.git(["for-each-ref", "--format=%(refname)", "refs/aynig/rescue"]);
    assert!(!rescued.is_empty(), "what was discarded is saved");
}

/// CONTRACT 20.9
#[test]
fn a_live_step_hears_that_its_run_is_paused() {
    let repo = workshop();
    agent(&repo, "scripted", "cat >/dev/null; echo half >half; echo up >up; exec sleep 600");
    let run = start_with(&repo, FIX, &["--input", "task=x"]);
    let runner = repo.aynig_start(["run"]);
    wait_for("the agent", || run.worktree.join("up").exists().then_some(()));
    let paused = repo.aynig_ok(["flow", "pause", &run.slug]);
    assert!(err(&paused).contains("under way"), "{}", told(&paused));
    wait_for("the step to end", || (repo.state(&run.driver) == "flow-gate").then_some(()));
    runner.finish();
    assert!(steps(&repo, &run).is_empty(), "no step is recorded");
    assert!(!run.worktree.join("half").exists(), "the worktree is as before");
    let rescued = repo.git(["for-each-ref", "--format=%(refname)", "refs/aynig/rescue"]);
    let name = rescued.lines().next().expect("a rescue");
    assert_eq!(repo.git(["show", &format!("{name}:half")]), "half");
}

#[test]
fn a_run_that_is_waited_for_says_what_became_of_it() {
    let repo = workshop();
    place_worktrees(&repo);
    let file = repo.path.join(".git/fix.yaml");
    std::fs::write(&file, FIX).expect("a file");
    let path = file.to_str().expect("UTF-8");
    let waits = repo.aynig(["flow", "start", path, "--input", "task=x", "--wait"]);
    assert_eq!(waits.status.code(), Some(5), "{}", told(&waits));
    let lines = out(&waits);
    assert!(lines.contains("implement") && lines.contains("aynig flow approve"), "{lines}");
    let runs = json(&repo.aynig_ok(["flow", "list", "--json"]));
    let slug = runs["runs"][0]["slug"].as_str().expect("a slug");
    let rejected = repo.aynig(["flow", "reject", slug, "--wait"]);
    assert_eq!(rejected.status.code(), Some(1), "any other end: {}", told(&rejected));
    let plain = FIX.replace("success: approve", "success: STOP");
    std::fs::write(&file, plain).expect("a file");
    let done = repo.aynig(["flow", "start", path, "--input", "task=x", "--wait", "--json"]);
    assert_eq!(done.status.code(), Some(0), "{}", told(&done));
    let last: Value = serde_json::from_str(out(&done).lines().last().expect("a line")).expect("JSON");
    assert_eq!(last["verdict"], "succeeded");
}
