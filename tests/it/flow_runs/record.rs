//! The record of a flow run: the files of its steps, and those about the run.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use aynig::engine::record::{Ended, Manifest, Recorder, Role, for_ledger, project};
use aynig::git::objects::digest::sha256;
use aynig::journal::sync::{rebuild, sync};
use aynig::ledger::{Ledger, content};
use aynig::model::decide::{Command, EndedStep, StepStart};
use aynig::model::ids::OpId;
use aynig::model::run::{RunStatus, Verdict};
use aynig::model::step::{Opcode, Outcome};
use serde_json::Value;

use super::{Scene, at, ended, masks, op, step};
use crate::support::*;

fn read(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).expect("a file")).expect("JSON")
}

fn assert_private(directory: &Path) {
    for path in files_below(directory) {
        let mode = |path: &Path| fs::symlink_metadata(path).expect("there").permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o600, "{}", path.display());
        assert_eq!(mode(path.parent().expect("a parent")) & 0o077, 0, "{}", path.display());
    }
}

/// CONTRACT 20.10
#[test]
fn an_attempt_has_a_directory_with_a_manifest_of_its_files() {
    let scene = Scene::new();
    let mut recorder = scene.begin("plan", Opcode::RunAgent);
    let place = scene.directory.artifacts().join("plan/1");
    assert_eq!(recorder.path(), place);
    recorder.write(Role::Prompt, "prompt.md", "text/markdown", true, b"fix s3cret").expect("written");
    fs::create_dir(place.join("turn")).expect("made");
    fs::write(place.join("turn/transcript"), b"line \xff with s3cret\n").expect("written");
    fs::write(place.join("notes"), "unnamed s3cret").expect("written");
    fs::write(scene.repo.beside("outside"), "s3cret").expect("written");
    std::os::unix::fs::symlink(scene.repo.beside("outside"), place.join("final")).expect("linked");
    recorder.add(Role::RunnerTranscript, "turn/transcript", "text/plain", true);
    recorder.add(Role::RunnerFinalResponse, "final", "text/plain", false);
    recorder.add(Role::RunnerStderr, "missing", "text/plain", true);
    let files = recorder.end(ended(0, Outcome::Completed)).expect("a record");
    assert_eq!(
        files.iter().map(|file| file.role).collect::<Vec<_>>(),
        [Role::Prompt, Role::RunnerTranscript]
    );
    let manifest = read(&place.join("manifest.json"));
    assert_eq!(manifest["step_id"], "plan");
    assert_eq!(manifest["opcode"], "RUN_AGENT");
    assert_eq!((&manifest["attempt"], &manifest["number"]), (&1.into(), &1.into()));
    assert_eq!(manifest["termination"], "completed");
    assert_eq!(manifest["evidence_summary"], "it said ***");
    assert_eq!(manifest["started_at"], at(0).to_string());
    assert_eq!(manifest["ended_at"], at(1_000).to_string());
    let transcript = &manifest["artifacts"][1];
    assert_eq!(transcript["role"], "runner_transcript");
    assert_eq!(transcript["path"], "artifacts/plan/1/turn/transcript");
    assert_eq!((&transcript["required"], &transcript["media_type"]), (&true.into(), &"text/plain".into()));
    assert_eq!(transcript["sha256"], sha256(b"line \xff with ***\n"));
    assert_eq!(transcript["size"], 16);
    assert_eq!(fs::read(place.join("turn/transcript")).expect("there"), b"line \xff with ***\n");
    assert_eq!(fs::read(place.join("notes")).expect("there"), b"unnamed ***");
    assert_eq!(fs::read(scene.repo.beside("outside")).expect("there"), b"s3cret", "links are not followed");
    assert_eq!(read(&place.join("../manifest.json")), manifest, "the newest");
    fs::remove_file(place.join("final")).expect("removed");
    assert_private(&scene.directory.artifacts());
}

/// CONTRACT 20.10
#[test]
fn a_killed_attempt_keeps_its_files_and_no_other_writes_there() {
    let scene = Scene::new();
    let killed = scene.begin("plan", Opcode::RunAgent);
    fs::write(killed.path().join("transcript"), "half a s3cret").expect("written");
    fs::write(killed.path().join("validation_stdout-tests.log"), "more").expect("written");
    drop(killed);
    // It is recorded under the roles that the names say,
    let killed =
        |number| Recorder::killed(&scene.directory, masks(), (&step("plan"), Opcode::RunAgent), number);
    let number = scene.state().run.counts.steps + 1;
    let files = killed(number).expect("an attempt").end(ended(0, Outcome::Error)).expect("a record");
    let roles: Vec<(Role, u64)> = files.iter().map(|file| (file.role, file.size)).collect();
    assert_eq!(roles, [(Role::RunnerTranscript, 10), (Role::ValidationStdout, 4)]);
    assert!(killed(number).is_some(), "its record did not land");
    assert!(killed(number + 1).is_none(), "it is recorded");
    // or masked when the next attempt begins.
    let again = scene.begin("plan", Opcode::RunAgent);
    assert!(again.path().ends_with("plan/2"), "{}", again.path().display());
    fs::write(again.path().join("transcript"), "a s3cret").expect("written");
    let third = scene.begin("plan", Opcode::RunAgent);
    assert_eq!((third.attempt(), again.attempt()), (3, 2));
    assert_eq!(fs::read(again.path().join("transcript")).expect("there"), b"a ***");
}

/// CONTRACT 20.10
#[test]
fn attempts_are_numbered_over_all_visits() {
    let scene = Scene::new();
    scene.carry_out("plan", Opcode::RunAgent, Outcome::Completed, Some("check"));
    scene.carry_out("check", Opcode::RunValidation, Outcome::Error, None);
    scene.carry_out("check", Opcode::RunValidation, Outcome::Completed, Some("plan"));
    scene.carry_out("plan", Opcode::RunAgent, Outcome::Completed, Some("STOP"));
    let manifest = |path: &str| Manifest::read(&scene.directory.artifacts().join(path)).expect("a manifest");
    let numbers = |path: &str| (manifest(path).attempt, manifest(path).number);
    assert_eq!([numbers("plan/1"), numbers("plan/2"), numbers("check/2")], [(1, 1), (2, 4), (2, 3)]);
    assert_eq!(manifest("plan"), manifest("plan/2"));
    assert_eq!(manifest("check").termination, Some(Outcome::Completed));
}

/// CONTRACT 20.10
#[test]
fn a_gate_goes_on_in_its_own_attempt() {
    let scene = Scene::new();
    let mut recorder = scene.begin("ask", Opcode::Gate);
    recorder.write(Role::GateRequest, "gate_request.json", "application/json", true, b"{}").expect("written");
    recorder.end(Ended { ended: None, ..ended(0, Outcome::Completed) }).expect("a record");
    let start = StepStart { id: step("ask"), opcode: Opcode::Gate, started_at: Some(at(0)) };
    scene.perform(&[Command::StartStep(start)]);
    let state = scene.state();
    let open = state.steps.values().next().expect("a step");
    let mut recorder = Recorder::resume(&scene.directory, masks(), &state, open).expect("the same attempt");
    recorder.write(Role::GateOutcome, "gate_outcome.json", "application/json", true, b"{}").expect("written");
    let files = recorder.end(ended(0, Outcome::GateApproved)).expect("a record");
    assert_eq!(files.len(), 2);
    let manifest = read(&scene.directory.artifacts().join("ask/1/manifest.json"));
    assert_eq!(manifest["termination"], "gate_approved");
    assert!(!scene.directory.artifacts().join("ask/2").exists());
    // Another host does not have it.
    fs::remove_dir_all(scene.directory.artifacts()).expect("removed");
    let there = Recorder::resume(&scene.directory, masks(), &state, open).expect("an attempt of its own");
    assert!(there.path().ends_with("ask/1"));
}

/// CONTRACT 20.11
#[test]
fn the_diff_is_a_patch_against_the_base_that_git_applies() {
    let scene = Scene::new();
    let repo = &scene.repo;
    repo.write("old.txt", "one\ntwo\n");
    repo.write("gone.txt", "gone\n");
    let base = repo.commit_all("base");
    repo.write(".gitattributes", "*.txt diff=shout -text\n");
    repo.git(["config", "diff.shout.textconv", "tr a-z A-Z <"]);
    repo.git(["config", "diff.external", "false"]);
    repo.git(["config", "diff.noprefix", "true"]);
    repo.git(["config", "color.diff", "always"]);
    repo.write("old.txt", "one\nthree\n");
    fs::remove_file(repo.path.join("gone.txt")).expect("removed");
    fs::write(repo.path.join("new.bin"), [0_u8, 1, 2, 255].repeat(100)).expect("written");
    repo.command("new.sh", "true");
    repo.commit_all("work");
    let mut recorder = scene.begin("plan", Opcode::RunAgent);
    recorder.write_changes(&scene.handle, scene.commit(&base), scene.commit("HEAD")).expect("written");
    let files = recorder.end(ended(0, Outcome::Completed)).expect("a record");
    let paths = fs::read_to_string(&files[1].path).expect("text");
    assert_eq!(paths, "A\t.gitattributes\nD\tgone.txt\nA\tnew.bin\nA\tnew.sh\nM\told.txt\n");
    assert_private(&scene.directory.artifacts());
    let wanted = repo.git(["rev-parse", "HEAD^{tree}"]);
    repo.git(["switch", "--quiet", "--detach", &base]);
    repo.git(["apply", "--index", &files[0].path.display().to_string()]);
    assert_eq!(repo.git(["write-tree"]), wanted);
}

/// CONTRACT 20.12
#[test]
fn the_ledger_has_what_another_host_needs() {
    for (outcome, wanted) in [
        (Outcome::Completed, vec!["prompt", "runner_final_response"]),
        (Outcome::KilledIdle, vec!["prompt", "runner_transcript", "runner_final_response", "runner_stderr"]),
    ] {
        let scene = Scene::new();
        let mut recorder = scene.begin("plan", Opcode::RunAgent);
        let mut write = |role, name: &str, content: &[u8]| {
            recorder.write(role, name, "text/plain", false, content).expect("written");
        };
        write(Role::Prompt, "prompt.md", b"do it");
        write(Role::RunnerTranscript, "transcript", b"lines");
        write(Role::RunnerFinalResponse, "final", b"done");
        write(Role::RunnerStderr, "stderr", &b"x".repeat(300 * 1024));
        write(Role::RunnerMetadata, "metadata.json", b"{}");
        write(Role::WorkspaceDiff, "workspace.diff", b"");
        let files = recorder.end(ended(0, outcome)).expect("a record");
        let mut ledger = Ledger::open(&scene.handle, scene.run).expect("a ledger");
        let artifacts = for_ledger(&mut ledger, None, outcome, &files);
        let roles: Vec<&str> = artifacts.iter().map(|(role, _)| role.as_str()).collect();
        assert_eq!(roles, wanted);
        let start = StepStart { id: step("plan"), opcode: Opcode::RunAgent, started_at: Some(at(0)) };
        let end = EndedStep { artifacts, ..EndedStep::new(1, outcome, Some("STOP".to_owned()), None) };
        let commands = [Command::StartStep(start), Command::EndStep(Box::new(end))];
        ledger.operate(&op(OpId::random()), &commands, &[]).expect("an operation");
        let read = |digest: &str| content::read(&scene.handle, ledger.tip(), digest).expect("read");
        assert_eq!(read(&sha256(b"do it")).as_deref(), Some(&b"do it"[..]));
        // A long log is known by its digest.
        assert_eq!(read(&sha256(&b"x".repeat(300 * 1024))), None);
        let record = ledger.tip().state.steps[&1].record.as_ref().expect("a record");
        assert_eq!(record.artifacts.len(), wanted.len());
    }
}

/// CONTRACT 20.13
#[test]
fn the_files_about_the_run_follow_its_ledger() {
    let scene = Scene::new();
    let file = |name: &str| scene.directory.path().join(name);
    let bring_up = || {
        sync(&scene.handle, &scene.directory).expect("synced");
        project(&scene.handle, &scene.directory, scene.ledger().tip()).expect("written");
    };
    bring_up();
    let (status, metadata) = (read(&file("status.json")), read(&file("metadata.json")));
    assert_eq!((&status["status"], &status["current_step"]), (&"running".into(), &"plan".into()));
    assert_eq!((&metadata["workflow_id"], &metadata["workflow_version"]), (&"fix".into(), &3.into()));
    assert_eq!(
        (&metadata["run_id"], &metadata["runId"]),
        (&scene.run.to_string().into(), &scene.run.to_string().into())
    );
    assert_eq!((&metadata["entry_step"], &metadata["artifacts_root"]), (&"plan".into(), &"artifacts".into()));
    assert!(metadata["versions"]["git"].as_str().expect("a version").starts_with("git version"));
    assert_eq!(metadata["verdict"], Value::Null);
    assert!(!file("final-state.txt").exists());
    let context = read(&file("workspace-context.json"));
    assert_eq!(context, metadata["workspace_context"]);
    assert_eq!(
        (&context["base_sha"], &context["worktree_path"]),
        (&scene.repo.head("main").into(), &Value::Null)
    );
    scene.carry_out("plan", Opcode::RunAgent, Outcome::Completed, Some("check"));
    bring_up();
    let status = read(&file("status.json"));
    assert_eq!((&status["current_step"], &status["last_step_id"]), (&"check".into(), &"plan".into()));
    scene.carry_out("check", Opcode::RunValidation, Outcome::Error, Some("STOP"));
    scene.finish(RunStatus::Failed, Verdict::Failed, "completed");
    bring_up();
    assert_eq!(fs::read_to_string(file("final-state.txt")).expect("text"), "completed:check\n");
    let ended = read(&file("metadata.json"));
    assert_eq!((&ended["verdict"], &ended["last_step_id"]), (&"failed".into(), &"check".into()));
    assert_eq!(
        (&ended["ended_at"].is_string(), &read(&file("status.json"))["current_step"]),
        (&true, &Value::Null)
    );
    // The journal writes the same file, and neither loses the other's fields.
    let modified = |name: &str| fs::metadata(file(name)).expect("there").modified().expect("a time");
    let before = modified("status.json");
    bring_up();
    assert_eq!(modified("status.json"), before, "nothing is written twice");
    rebuild(&scene.handle, &scene.directory).expect("made anew");
    bring_up();
    let anew = read(&file("metadata.json"));
    assert_ne!(anew["journal"], ended["journal"]);
    assert_eq!((&anew["verdict"], &anew["workflow_id"]), (&ended["verdict"], &ended["workflow_id"]));
    // The workspace of this host has more to say than the ledger.
    let own = file("workspaces/flow/workspace-context.json");
    fs::create_dir_all(own.parent().expect("a directory")).expect("made");
    fs::write(&own, r#"{"worktree_path": "/w/x"}"#).expect("written");
    bring_up();
    assert_eq!(read(&file("workspace-context.json"))["worktree_path"], "/w/x");
    assert_private(&scene.directory.artifacts());
}
