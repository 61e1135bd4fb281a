//! The files about a flow run as a whole: `status.json`, `metadata.json`, `workspace-context.json`, `final-state.txt`.
//!
//! Invariant: they are made from the ledger and from what this host has, as often as one likes, and no decision reads
//! them.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::manifest::{Manifest, ProviderUsed};
use crate::contract::layout::WORKSPACES;
use crate::flow;
use crate::fsutil;
use crate::git::Repo;
use crate::git::probe::git_version;
use crate::journal::JournalError;
use crate::journal::directory::RunDirectory;
use crate::journal::sync::sync;
use crate::ledger::tip::ledger_ref;
use crate::ledger::{LedgerError, Tip, content};
use crate::model::ids::StepId;
use crate::model::run::{FrozenFlow, RunKind};
use crate::model::state::State;
use crate::model::workspace::Workspace;

/// The name of a flow's workspace.
pub const WORKSPACE: &str = "flow";

/// The file with the context of the workspace.
const CONTEXT: &str = "workspace-context.json";

/// The file with the final state.
const FINAL: &str = "final-state.txt";

/// The place of an ended run.
const STOP: &str = "STOP";

/// The step that a run is at: the one under way, else the one that is due. `entry` is the flow's entry. `None` if the
/// run has ended, or if nothing is known of the flow.
#[must_use]
pub fn current_step(state: &State, entry: Option<&str>) -> Option<String> {
    if state.run.status.is_ended() {
        return None;
    }
    let begins = || {
        let flow = state.run.flow.as_ref();
        flow.and_then(|flow| flow.begins_at.clone()).or_else(|| entry.map(str::to_owned))
    };
    if let Some(step) = &state.run.continues_at {
        return Some(step.clone());
    }
    match state.steps.values().next_back() {
        None => begins(),
        // It is under way, waits, or is tried again.
        Some(last) if last.ended_at.is_none() || last.route.is_none() => Some(last.id.to_string()),
        Some(last) => last.route.clone().filter(|route| route != STOP),
    }
}

/// Writes the files about the run as a whole. A run that is no flow has none.
///
/// # Errors
/// [`JournalError`] if the ledger cannot be read or a file cannot be written.
pub fn project(repo: &Repo, directory: &RunDirectory, tip: &Tip) -> Result<(), JournalError> {
    let (RunKind::Flow, Some(_)) = (tip.state.run.kind, &tip.state.run.flow) else { return Ok(()) };
    if directory.metadata().is_none() {
        sync(repo, directory)?;
    }
    let _lock = directory.lock()?;
    let name = ledger_ref(directory.run());
    let head = repo.read_ref(name.as_str().into()).map_err(LedgerError::from)?;
    // Another process may have written the files of a newer operation.
    let newer = match head.filter(|head| *head != tip.id) {
        Some(head) => Some(Tip::read(repo, directory.run(), head)?),
        None => None,
    };
    let tip = newer.as_ref().unwrap_or(tip);
    let Some(flow) = &tip.state.run.flow else { return Ok(()) };
    let context = context(directory, &tip.state);
    if let Some(context) = &context {
        replace(directory, CONTEXT, Some(&text_of(context)))?;
    }
    let record = metadata(repo, directory, tip, flow, context)?;
    let entry = record.get("entry_step").and_then(Value::as_str);
    replace(directory, "status.json", Some(&text_of(&status(&tip.state, entry))))?;
    replace(directory, FINAL, final_state(&tip.state).as_deref().map(str::as_bytes))?;
    if let Some(mut metadata) = directory.metadata().filter(|metadata| metadata.record != record) {
        metadata.record = record;
        directory.set_metadata(&metadata)?;
    }
    Ok(())
}

/// `status.json`.
fn status(state: &State, entry: Option<&str>) -> Value {
    let run = &state.run;
    json!({
        "run_id": run.id,
        "slug": run.slug,
        "workflow_id": run.flow.as_ref().map(|flow| &flow.workflow_id),
        "label": run.label,
        "status": run.status,
        "termination": run.termination,
        "verdict": run.verdict,
        "current_step": current_step(state, entry),
        "last_step_id": last_step(state),
        "waiting_for": run.waiting_for,
        "steps": run.counts.steps,
        "updated_at": run.updated_at,
    })
}

fn last_step(state: &State) -> Option<&StepId> {
    state.steps.values().next_back().map(|step| &step.id)
}

/// `<termination>:<last step>`, once the run has ended.
fn final_state(state: &State) -> Option<String> {
    let termination = state.run.termination.as_ref().filter(|_| state.run.status.is_ended())?;
    let last = last_step(state).map(ToString::to_string).unwrap_or_default();
    Some(format!("{}:{last}\n", termination.replace('\n', " ")))
}

/// The fields of `metadata.json` that are a flow run's.
fn metadata(
    repo: &Repo,
    directory: &RunDirectory,
    tip: &Tip,
    flow: &FrozenFlow,
    context: Option<Value>,
) -> Result<Map<String, Value>, JournalError> {
    let (run, known) = (&tip.state.run, directory.metadata().map(|metadata| metadata.record));
    // What another look would find again is taken from the file.
    let known = known.filter(|known| known.get("flow_sha256").and_then(Value::as_str) == Some(&flow.file));
    let known =
        |field: &str| known.as_ref().and_then(|known| known.get(field)).filter(|known| !known.is_null());
    let entry = match (&flow.begins_at, known("entry_step")) {
        (Some(step), _) => json!(step),
        (None, Some(known)) => known.clone(),
        (None, None) => json!(entry_of(repo, tip, flow)?),
    };
    let git = match known("versions").and_then(|versions| versions.get("git")) {
        Some(version) => version.clone(),
        None => json!(git_version(repo.common_dir()).ok()),
    };
    let fields = json!({
        "run_id": run.id,
        "workflow_id": flow.workflow_id,
        "workflow_version": flow.version,
        "flow_sha256": flow.file,
        "started_at": run.created_at,
        "ended_at": run.status.is_ended().then_some(run.updated_at),
        "artifacts_root": "artifacts",
        "entry_step": entry,
        "last_step_id": last_step(&tip.state),
        "termination": run.termination,
        "verdict": run.verdict,
        "workspace_context": context,
        "versions": {
            "aynig": env!("CARGO_PKG_VERSION"),
            "git": git,
            "providers": providers(directory, &tip.state),
        },
        "host": repo.runner_id(),
        "user": known("user").cloned().unwrap_or_else(|| json!(user())),
    });
    match fields {
        Value::Object(fields) => Ok(fields),
        _ => Ok(Map::new()),
    }
}

/// The entry of the flow that is frozen into a run. `None` if its file is missing or unreadable.
///
/// # Errors
/// [`JournalError::Ledger`] if the ledger cannot be read.
pub fn entry_of(repo: &Repo, tip: &Tip, flow: &FrozenFlow) -> Result<Option<String>, JournalError> {
    let file = content::read(repo, tip, &flow.file)?;
    let flow = file.and_then(|file| flow::check(&file).flow);
    Ok(flow.map(|flow| flow.entry_step.name))
}

/// The providers whose steps ran on this host, with their versions.
fn providers(directory: &RunDirectory, state: &State) -> BTreeMap<String, Option<String>> {
    let mut found = BTreeMap::new();
    let mut steps: Vec<&StepId> = state.steps.values().map(|step| &step.id).collect();
    steps.sort();
    steps.dedup();
    for step in steps {
        let newest = Manifest::read(&directory.artifacts().join(step.as_str()));
        if let Some(ProviderUsed { name, version }) = newest.and_then(|manifest| manifest.provider) {
            found.insert(name, version);
        }
    }
    found
}

/// The name of the user who runs this process.
fn user() -> Option<String> {
    ["USER", "LOGNAME"].into_iter().find_map(|name| std::env::var(name).ok().filter(|user| !user.is_empty()))
}

/// The context of the flow's workspace: as this host has it, else what the ledger has.
pub(crate) fn context(directory: &RunDirectory, state: &State) -> Option<Value> {
    let own = directory.path().join(WORKSPACES).join(WORKSPACE).join(CONTEXT);
    let here = fsutil::read_plain(own).ok().and_then(|text| serde_json::from_slice(&text).ok());
    here.or_else(|| {
        let known = state.workspaces.values().find(|workspace| workspace.name.as_str() == WORKSPACE)?;
        let Workspace { branch_name, base_ref, base_sha, head_sha, .. } = known;
        Some(json!({
            "version": 1,
            "repo_root": null,
            "worktree_path": null,
            "branch_name": branch_name,
            "base_ref": base_ref,
            "base_sha": base_sha,
            "head_sha": head_sha,
            "remote_branch": known.remote_branch,
            "pr_url": known.pr_url,
            "run_id": state.run.id,
            "created_at": known.created_at,
            "generation": known.generation,
            "slug": state.run.slug,
            "name": WORKSPACE,
        }))
    })
}

/// Replaces a file of the run directory, unless it has this content; `None` removes it.
fn replace(directory: &RunDirectory, name: &str, content: Option<&[u8]>) -> Result<(), JournalError> {
    let path = directory.path().join(name);
    match content {
        Some(content) if is(&path, content) => Ok(()),
        Some(content) => fsutil::replace_private(&path, content).map_err(JournalError::file("write", &path)),
        None => match std::fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(JournalError::file("remove", &path)(error))
            }
            Ok(()) | Err(_) => Ok(()),
        },
    }
}

fn is(path: &Path, content: &[u8]) -> bool {
    fsutil::read_plain(path).is_ok_and(|found| found == content)
}

/// A value as text. It has string keys and no failing parts.
fn text_of(value: &Value) -> Vec<u8> {
    let mut text = serde_json::to_vec_pretty(value).unwrap_or_default();
    text.push(b'\n');
    text
}
