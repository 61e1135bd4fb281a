//! Creates, changes and deletes runs.

use super::draft::{Draft, check_text};
use super::{NewRun, Op, Refusal, RunEdit};
use crate::model::approval::Approval;
use crate::model::event::{Body, Event, ModeSet, NodePatched, Plain, RunCreated, RunPatched};
use crate::model::node::NodePatch;
use crate::model::run::{
    CONTRACT_VERSION, Counts, DoneWhen, Limits, Mode, Run, RunKind, RunPatch, RunStatus, SCHEMA, Usage,
};
use crate::model::trace::Spent;

/// The longest label, in bytes.
pub const MAX_LABEL: usize = 200;

pub(super) fn create<'a>(new: &NewRun, op: &'a Op) -> Result<Draft<'a>, Refusal> {
    if !new.label.is_empty() {
        check_text("the label", &new.label, MAX_LABEL)?;
    }
    check_done_when(new.done_when.as_deref())?;
    let mut limits = new.limits;
    let stated = new.done_when.is_some() || new.flow.is_some();
    if new.mode == Mode::Auto && !stated && limits.turns.is_none() {
        limits.turns = Some(Limits::AUTO_TURNS);
    }
    let run = Run {
        id: new.id,
        contract_version: CONTRACT_VERSION.to_owned(),
        schema: SCHEMA,
        slug: new.slug.clone(),
        kind: new.kind,
        created_at: op.at,
        base_ref: new.base_ref.clone(),
        base_sha: new.base_sha.clone(),
        decided_by: new.decided_by.clone(),
        replicate: new.replicate,
        flow: new.flow.clone(),
        counts: Counts::default(),
        spent: Spent::default(),
        passed: Vec::new(),
        halted: None,
        reserve_role: new.reserve_role,
        status: new.status,
        mode: new.mode,
        global_mode: new.global_mode,
        updated_at: op.at,
        label: new.label.clone(),
        done_when: new.done_when.clone(),
        waiting_for: None,
        usage: Usage::default(),
        limits,
        counted_from: 0,
        continues_at: None,
        termination: None,
        verdict: None,
        retired: std::collections::BTreeSet::new(),
    };
    let event = Event {
        id: op.id.derive("event", 0),
        run_id: new.id,
        ts: op.at,
        node_id: None,
        by: op.by.clone(),
        body: Body::RunCreated(RunCreated { patch: Box::new(run) }),
    };
    Draft::begun(event, op)
}

pub(super) fn set(draft: &mut Draft<'_>, edit: &RunEdit) -> Result<(), Refusal> {
    draft.persons_only("change the run")?;
    let run = &draft.state.run;
    if let Some(to) = edit.status
        && to != run.status
        && !run.status.successors().contains(&to)
    {
        return Err(Refusal::Transition { from: run.status, to });
    }
    if let Some(label) = edit.label.as_deref().filter(|label| !label.is_empty()) {
        check_text("the label", label, MAX_LABEL)?;
    }
    // A graph waits for people only while it is paused by itself.
    let is_other = run.kind == RunKind::Graph && edit.status.is_some_and(|to| to != run.status);
    check_done_when(edit.done_when.as_ref().and_then(Option::as_deref))?;
    let is_stated = edit.done_when.as_ref().unwrap_or(&run.done_when).is_some();
    let mut limits = edit.limits.unwrap_or(run.limits);
    let begins_auto = edit.mode == Some(Mode::Auto) && run.mode != Mode::Auto;
    if run.kind == RunKind::Graph && begins_auto && !is_stated && limits.turns.is_none() {
        limits.turns = Some(run.spent.turns.saturating_add(Limits::AUTO_TURNS));
    }
    let resumes = run.kind == RunKind::Graph && edit.status == Some(RunStatus::Running);
    let patch = run.difference(RunPatch {
        status: edit.status,
        mode: edit.mode,
        global_mode: edit.global_mode,
        label: edit.label.clone(),
        done_when: edit.done_when.clone(),
        limits: Some(limits),
        waiting_for: edit.waiting_for.clone().or(is_other.then_some(None)),
        counted_from: edit.counted_from,
        continues_at: edit.continues_at.clone(),
        termination: edit.termination.clone().or(resumes.then_some(None)),
        verdict: edit.verdict,
        ..RunPatch::default()
    });
    if patch == RunPatch::default() {
        return Ok(());
    }
    let is_stopped = run.kind == RunKind::Graph && patch.status == Some(RunStatus::Stopped);
    let modes = patch.mode.is_some() || patch.global_mode.is_some();
    draft
        .push(Body::RunPatched(RunPatched { patch: RunPatch { updated_at: Some(draft.op.at), ..patch } }))?;
    if modes {
        let (mode, global_mode) = (draft.state.run.mode, draft.state.run.global_mode);
        draft.push(Body::ModeSet(ModeSet { mode, global_mode }))?;
    }
    note_waiting(draft)?;
    if is_stopped { end_sessions(draft) } else { Ok(()) }
}

/// Refuses a condition for the end that cannot be used.
fn check_done_when(text: Option<&str>) -> Result<(), Refusal> {
    match text {
        Some(text) if DoneWhen::parse(text).is_none() => {
            Err(Refusal::BadDoneWhen(text.chars().take(80).collect()))
        }
        Some(_) | None => Ok(()),
    }
}

/// The next turn of each node begins a new session.
fn end_sessions(draft: &mut Draft<'_>) -> Result<(), Refusal> {
    let ends: Vec<_> = draft
        .state
        .nodes
        .values()
        .filter_map(|node| {
            let patch =
                node.difference(NodePatch { session: Some(node.session.ended()), ..NodePatch::default() });
            (patch != NodePatch::default()).then_some((node.id, patch))
        })
        .collect();
    for (node, patch) in ends {
        draft.push_for(node, Body::NodePatched(NodePatched { patch }))?;
    }
    Ok(())
}

pub(super) fn delete(draft: &mut Draft<'_>) -> Result<(), Refusal> {
    draft.persons_only("delete the run")?;
    if !draft.state.run.status.is_ended() {
        let patch = RunPatch {
            status: Some(RunStatus::Stopped),
            updated_at: Some(draft.op.at),
            ..RunPatch::default()
        };
        draft.push(Body::RunPatched(RunPatched { patch }))?;
    }
    draft.push(Body::RunDeleted(Plain {}))
}

/// The words of a graph that waits for the answer to a request.
const WAITS: &str = "an answer: `aynig orch approvals`";

/// Notes whether a graph waits for the answer to a request. Another reason to wait stays.
pub(super) fn note_waiting(draft: &mut Draft<'_>) -> Result<(), Refusal> {
    let run = &draft.state.run;
    let is_other = run.waiting_for.as_ref().is_some_and(|words| words != WAITS);
    if run.kind != RunKind::Graph || is_other {
        return Ok(());
    }
    let waits = !run.status.is_ended() && draft.state.approvals.values().any(Approval::is_open);
    if waits == run.waiting_for.is_some() {
        return Ok(());
    }
    let waiting_for = Some(waits.then(|| WAITS.to_owned()));
    let patch = RunPatch { waiting_for, updated_at: Some(draft.op.at), ..RunPatch::default() };
    draft.push(Body::RunPatched(RunPatched { patch }))
}

/// Notes that the run changed now.
pub(super) fn touch(draft: &mut Draft<'_>) -> Result<(), Refusal> {
    if draft.state.run.updated_at == draft.op.at {
        return Ok(());
    }
    let patch = RunPatch { updated_at: Some(draft.op.at), ..RunPatch::default() };
    draft.push(Body::RunPatched(RunPatched { patch }))
}

/// Refuses what needs a run that has not ended.
pub(super) fn check_not_ended(draft: &Draft<'_>) -> Result<(), Refusal> {
    match draft.state.run.status {
        status if status.is_ended() => Err(Refusal::Ended(status, draft.state.run.slug.clone())),
        _ => Ok(()),
    }
}
