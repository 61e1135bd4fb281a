//! The record of a run: every file that its steps left, and the files about the run.

use std::collections::BTreeSet;
use std::path::Path;

use aynig::git::objects::digest::sha256;

use super::agent::agent;
use super::workshop::planner;
use super::*;

/// Each kind of step, with an agent that comes back once.
const STEPS: &str = "  - id: implement
    opcode: RUN_AGENT
    agent: scripted
    prompt: go
    routes: {completed: test, error: STOP}
  - id: test
    opcode: RUN_VALIDATION
    run: [{kind: builtin, name: tests}, {kind: harness, name: h, artifacts: [log]}]
    routes: {completed: judge, error: judge}
  - id: judge
    opcode: EVALUATE
    prompt: Is it done?
    allowed_next_steps: [implement, ask]
    routes: {success: ask, partial: implement, blocked: ask, unsafe: STOP, needs_human: ask}
  - id: ask
    opcode: GATE
    gate: result
    routes: {gate_approved: STOP, gate_rejected: STOP}
";

/// Notes whether its prompt is in the record already, and makes text, a binary file and a harness.
const AGENT: &str = r#"cat >prompt; echo "$AYNIG_ORCH_TURN" >>turns; printf '\000\001\377' >binary
common=$(git rev-parse --git-common-dir); cmp prompt "$(cat "$common/directory")/artifacts/implement/$(wc -l <turns)/prompt.md" && echo before >>"$common/seen"
printf '#!/bin/sh\necho a line >log\necho "{\\"cases\\":[{\\"id\\":\\"a\\",\\"status\\":\\"passed\\"}]}" >"$2"\n' >h
chmod +x h; echo "a word on stderr" >&2; echo done"#;

const ROLES: [&str; 15] = [
    "gate_outcome",
    "gate_request",
    "harness_fixture",
    "planner_decision",
    "policy_summary",
    "prompt",
    "runner_final_response",
    "runner_metadata",
    "runner_stderr",
    "runner_transcript",
    "validation_report",
    "validation_stderr",
    "validation_stdout",
    "workspace_diff",
    "workspace_status",
];

fn read(directory: &Path, name: &str) -> Value {
    let path = directory.join(name);
    let text = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&text).expect("JSON")
}

/// The run, at its gate, or ended.
fn recorded(repo: &Repo) -> Started {
    agent(repo, "scripted", AGENT);
    repo.git(["config", "aynig.validator.tests", "echo tested; echo well >&2"]);
    planner(repo, &[r#"{"status":"partial","fix_instructions":"again"}"#, r#"{"status":"success"}"#]);
    let run = start(repo, &flow("implement", STEPS));
    std::fs::write(repo.path.join(".git/directory"), run.directory.to_str().expect("UTF-8")).expect("a file");
    repo.aynig_ok(["run", "--drain"]);
    run
}

/// CONTRACT 20.4, 20.10, 20.11
#[test]
fn every_attempt_of_every_step_has_a_manifest_of_its_files() {
    let repo = Repo::new();
    let run = recorded(&repo);
    repo.aynig_ok(["flow", "approve", &run.slug]);
    repo.aynig_ok(["run", "--drain"]);
    assert_eq!(end(&repo, &run), ["completed", "succeeded", "completed"]);
    let mut roles = BTreeSet::new();
    for (step, opcode, attempts, ending) in [
        ("implement", "RUN_AGENT", 2, ["completed", "completed"]),
        ("test", "RUN_VALIDATION", 2, ["completed", "completed"]),
        ("judge", "EVALUATE", 2, ["partial", "success"]),
        ("ask", "GATE", 1, ["gate_approved", ""]),
    ] {
        let place = run.directory.join("artifacts").join(step);
        for attempt in 1..=attempts {
            let manifest = read(&place.join(attempt.to_string()), "manifest.json");
            assert_eq!((&manifest["step_id"], &manifest["opcode"]), (&step.into(), &opcode.into()));
            assert_eq!(manifest["termination"], ending[attempt - 1], "{step} {attempt}");
            for field in ["started_at", "ended_at", "evidence_summary", "policy_digest"] {
                let is_asked = opcode == "GATE" && !field.ends_with("_at");
                assert!(manifest[field].is_string() != is_asked, "{step} {attempt} {field}: {manifest}");
            }
            for one in manifest["artifacts"].as_array().expect("a list") {
                let path = one["path"].as_str().expect("a path");
                assert!(path.starts_with(&format!("artifacts/{step}/{attempt}/")), "{one}");
                let content = std::fs::read(run.directory.join(path)).expect(path);
                assert_eq!(one["sha256"], sha256(&content), "{path}");
                assert_eq!(one["size"], content.len(), "{path}");
                assert!(one["required"].is_boolean() && one["media_type"].is_string(), "{one}");
                roles.insert(one["role"].as_str().expect("a word").to_owned());
            }
        }
        assert!(!place.join((attempts + 1).to_string()).exists(), "{step}");
        let newest = read(&place.join(attempts.to_string()), "manifest.json");
        assert_eq!(read(&place, "manifest.json"), newest, "{step}");
    }
    assert_eq!(roles.iter().collect::<Vec<_>>(), ROLES);
    let seen = std::fs::read_to_string(repo.path.join(".git/seen")).expect("notes");
    assert_eq!(seen, "before\nbefore\n", "a prompt is there before the agent has it");
    // The patch makes the work of the base, with new and binary files.
    let diff = read(&run.directory, "artifacts/implement/2/manifest.json")["artifacts"]
        .as_array()
        .expect("a list")
        .iter()
        .find_map(|one| {
            (one["role"] == "workspace_diff").then(|| one["path"].as_str().expect("a path").to_owned())
        });
    let diff = run.directory.join(diff.expect("a diff"));
    repo.git(["apply", "--index", diff.to_str().expect("UTF-8")]);
    assert_eq!(repo.git(["write-tree"]), repo.git(["rev-parse", &format!("{}^{{tree}}", run.work)]));
}

/// CONTRACT 20.1, 20.6, 20.13
#[test]
fn the_files_about_a_run_say_where_it_stands_and_what_made_it() {
    let repo = Repo::new();
    let run = recorded(&repo);
    let status = read(&run.directory, "status.json");
    assert_eq!((&status["status"], &status["current_step"]), (&"running".into(), &"ask".into()), "{status}");
    assert!(!run.directory.join("final-state.txt").exists());
    // In the terms of orchestrated runs it is one node, and nobody holds the gate.
    let whole = shown(&repo, &run);
    let nodes: Vec<&Value> = whole["nodes"].as_object().expect("nodes").values().collect();
    let [node] = nodes[..] else { panic!("{whole}") };
    assert_eq!((&node["alias"], &whole["mode"]), (&"flow".into(), &"AUTO".into()), "{whole}");
    assert_eq!((&node["status"], &whole["status"]), (&"blocked".into(), &"running".into()), "{whole}");
    let view = json(&repo.aynig_ok(["flow", "show", &run.slug, "--json"]));
    assert!(view["waitingFor"].as_str().is_some_and(|words| words.contains("result")), "{view}");
    assert_eq!(repo.state(&run.driver), "flow-gate", "no lease");
    repo.deserted();

    repo.aynig_ok(["flow", "approve", &run.slug]);
    let mut last = repo.aynig_command();
    last.args(["run", "--drain"]).env("USER", "ann").output().expect("it runs");
    let metadata = read(&run.directory, "metadata.json");
    for (field, value) in [
        ("run_id", run.id.as_str()),
        ("workflow_id", "test"),
        ("artifacts_root", "artifacts"),
        ("entry_step", "implement"),
        ("last_step_id", "ask"),
        ("termination", "completed"),
        ("verdict", "succeeded"),
        ("user", "ann"),
    ] {
        assert_eq!(metadata[field], value, "{field}: {metadata}");
    }
    assert_eq!(metadata["workflow_version"], 1);
    let file = std::fs::read(repo.path.join(".git/flow.yaml")).expect("a flow");
    assert_eq!(metadata["flow_sha256"], sha256(&file));
    for field in ["started_at", "ended_at", "host"] {
        assert!(metadata[field].as_str().is_some_and(|text| !text.is_empty()), "{field}: {metadata}");
    }
    assert_eq!(metadata["versions"]["aynig"], env!("CARGO_PKG_VERSION"));
    assert!(metadata["versions"]["git"].as_str().is_some_and(|text| text.starts_with("git version")));
    let context = read(&run.directory, "workspace-context.json");
    assert_eq!(metadata["workspace_context"], context);
    for (field, value) in [
        ("repo_root", repo.path.to_str().expect("UTF-8")),
        ("worktree_path", run.worktree.to_str().expect("UTF-8")),
        ("branch_name", &run.work),
        ("base_ref", "refs/heads/main"),
        ("base_sha", &repo.head("main")),
        ("head_sha", &repo.head(&run.work)),
    ] {
        assert_eq!(context[field], value, "{field}: {context}");
    }
    let last = std::fs::read_to_string(run.directory.join("final-state.txt")).expect("a file");
    assert_eq!(last, "completed:ask\n");
}
