//! Turns, steps, artifacts and workspaces: what was executed.

use std::collections::BTreeMap;

use super::Refusal;
use super::answers::{answered, close};
use super::command::{EndedStep, EndedTurn, NewArtifact, StepStart};
use super::draft::Draft;
use super::runs::{check_not_ended, touch};
use super::waits;
use crate::model::approval::{Answer, Resolution};
use crate::model::artifact::Artifact;
use crate::model::event::{
    ArtifactCreated, Body, LimitReached, MessageFinal, NodePatched, RunPatched, Stalled, StepEnded,
    StepRouted, StepStarted, UsageReported, WorkspaceChanged, WorkspacePrepared,
};
use crate::model::ids::ArtifactId;
use crate::model::node::{NodePatch, NodeStatus, Session, TURN_TRIES};
use crate::model::run::{RunPatch, RunStatus};
use crate::model::step::{Kept, Record, Step, TurnEnd, TurnStatus};
use crate::model::trace::{Halted, Spent};
use crate::model::workspace::{Workspace, WorkspaceChange, WorkspacePatch, WorkspaceStatus};

/// The longest summary of a node, in characters.
const MAX_SUMMARY: usize = 240;

/// A turn happens wholly or not at all: only one that completed has read its inbox.
pub(super) fn end_turn(draft: &mut Draft<'_>, turn: &EndedTurn) -> Result<(), Refusal> {
    let node = draft.node(turn.node)?;
    if node.turn.as_ref().is_some_and(|last| last.id == turn.turn) {
        return Err(Refusal::HasEnded(format!("turn {}", turn.turn)));
    }
    let provider = node.provider;
    let (id, words) = (turn.node, turn.last_words.as_deref());
    let consumed = if turn.status == TurnStatus::Completed { turn.consumed.clone() } else { Vec::new() };
    let inbox = draft.state.inbox(id);
    if consumed.iter().any(|message| !inbox.iter().any(|item| item.id() == *message)) {
        return Err(Refusal::NotInInbox);
    }
    if let Some(usage) = turn.usage {
        let model = turn.model.clone();
        draft.push_for(id, Body::UsageReported(UsageReported { provider, model, usage }))?;
    }
    if let Some(content) = words {
        let status = (turn.status == TurnStatus::Interrupted).then(|| "interrupted".to_owned());
        let body = MessageFinal { content: content.to_owned(), status, turn_id: Some(turn.turn) };
        draft.push_for(id, Body::MessageFinal(body))?;
    }
    let mut heard = turn.heard.clone();
    for one in &turn.answered {
        heard.push(answered(draft, id, one)?);
    }
    let end = TurnEnd {
        turn_id: turn.turn,
        number: draft.state.run.counts.turns + 1,
        status: turn.status,
        started_at: turn.started_at,
        consumed,
        detail: turn.detail.clone(),
        excused: turn.excused,
        until: turn.until,
        heard,
        unsaid: turn.unsaid.clone(),
        spent: spent(draft, turn),
        // An outage is no sign of a loop, nor is the end that a person made.
        trace: turn.trace.clone().filter(|_| !turn.excused && turn.status != TurnStatus::Interrupted),
    };
    if turn.status == TurnStatus::Completed {
        // A node with an open request gets no turn, and this request has nobody who waits for it.
        let over = Resolution { status: Answer::Withdrawn, modified_args: None, reason: None };
        close(draft, id, &over)?;
    }
    draft.push_for(id, Body::TurnEnded(end))?;
    let has_failed = draft.node(id)?.turn.as_ref().is_some_and(|last| last.failures >= TURN_TRIES);
    // People read there why a turn failed.
    let said = if turn.status == TurnStatus::Failed { turn.detail.as_deref().or(words) } else { words };
    let summary = said.and_then(|said| said.lines().find(|line| !line.trim().is_empty()));
    let session = turn.session.clone().map(|session_id| Session {
        session_id,
        runner: Some(draft.op.by.runner().to_owned()),
        reset_commands: draft.node(id).map(|node| node.session.reset_commands.clone()).unwrap_or_default(),
    });
    let node = draft.node(id)?;
    let patch = node.difference(NodePatch {
        status: Some(if has_failed { NodeStatus::Failed } else { NodeStatus::Idle }),
        summary: summary.map(|line| shortened(line.trim())),
        last_activity_at: Some(draft.op.at),
        session,
        ..NodePatch::default()
    });
    let patch = NodePatch { inbox_count: Some(node.inbox_count), ..patch };
    draft.push_for(id, Body::NodePatched(NodePatched { patch }))?;
    waits::has_failed(draft, id)?;
    touch(draft)
}

/// The beginning of a line, with a sign that it goes on.
fn shortened(line: &str) -> String {
    match line.char_indices().nth(MAX_SUMMARY) {
        None => line.to_owned(),
        Some(_) => line.chars().take(MAX_SUMMARY - 1).chain(['…']).collect(),
    }
}

/// What limits count of a turn. An outage is no turn, and what it used counts.
fn spent(draft: &Draft<'_>, turn: &EndedTurn) -> Spent {
    let millis = draft.op.at.millis().saturating_sub(turn.started_at.millis());
    let is_unpriced = turn.usage.is_none_or(|usage| usage.cost_usd.is_none());
    Spent {
        turns: u64::from(!turn.excused),
        wall_millis: turn.lived.unwrap_or_else(|| u64::try_from(millis).unwrap_or(0)),
        usage: turn.usage.unwrap_or_default(),
        unpriced: u64::from(!turn.excused && is_unpriced),
    }
}

pub(super) fn start_step(draft: &mut Draft<'_>, start: &StepStart) -> Result<(), Refusal> {
    // What began before the run ended may be recorded with its end.
    if start.started_at.is_none_or(|at| at > draft.state.run.updated_at) {
        check_not_ended(draft)?;
    }
    let last = draft.state.steps.values().next_back();
    if let Some(open) = last.filter(|step| step.ended_at.is_none()) {
        return Err(Refusal::StepUnderWay(open.number));
    }
    // A step that was not routed is tried again: the same visit, the next attempt.
    let (visit, attempt) = match last {
        Some(last) if last.id == start.id && last.route.is_none() => (last.visit, last.attempt + 1),
        Some(_) | None => {
            let visits = draft.state.steps.values().filter(|step| step.id == start.id && step.attempt == 1);
            (u64::try_from(visits.count()).unwrap_or(u64::MAX).saturating_add(1), 1)
        }
    };
    let step = Step {
        number: draft.state.run.counts.steps + 1,
        id: start.id.clone(),
        opcode: start.opcode,
        visit,
        attempt,
        started_at: start.started_at.unwrap_or(draft.op.at),
        ended_at: None,
        outcome: None,
        route: None,
        evidence: None,
        host: None,
        record: None,
        artifacts: BTreeMap::new(),
    };
    draft.push(Body::StepStarted(StepStarted { step }))?;
    if draft.state.run.continues_at.is_some() {
        let patch = RunPatch { continues_at: Some(None), ..RunPatch::default() };
        draft.push(Body::RunPatched(RunPatched { patch }))?;
    }
    touch(draft)
}

/// A run that goes on by itself stops here until a person resumes it.
pub(super) fn halt(draft: &mut Draft<'_>, cause: &Halted, waits_for: &str) -> Result<(), Refusal> {
    // One that has ended meanwhile stays so.
    if draft.state.run.status.is_ended() {
        return Ok(());
    }
    match cause {
        Halted::Stalled { evidence } => draft.push(Body::Stalled(Stalled { evidence: evidence.clone() })),
        Halted::Limit { node_id, limit, value, bound } => {
            let (limit, value, bound) = (limit.clone(), *value, *bound);
            let body = Body::LimitReached(LimitReached { limit, value, bound });
            match node_id {
                Some(node) => draft.push_for(*node, body),
                None => draft.push(body),
            }
        }
    }?;
    let patch = RunPatch {
        status: Some(RunStatus::Paused),
        updated_at: Some(draft.op.at),
        waiting_for: Some(Some(waits_for.to_owned())),
        ..RunPatch::default()
    };
    draft.push(Body::RunPatched(RunPatched { patch }))
}

/// The artifacts of a step come first, so that its end names them.
pub(super) fn end_step(draft: &mut Draft<'_>, end: &EndedStep) -> Result<(), Refusal> {
    let number = end.number;
    let ended = || Refusal::HasEnded(format!("step {number}"));
    let step = draft.state.steps.get(&number).filter(|step| step.ended_at.is_none()).ok_or_else(ended)?;
    if !end.outcome.fits(step.opcode) {
        return Err(Refusal::BadOutcome);
    }
    let mut record = end.record.clone();
    for (role, artifact) in &end.artifacts {
        let artifact = add_artifact(draft, artifact)?;
        record.artifacts.push(Kept { role: role.clone(), artifact });
    }
    if let (Some(usage), Some((node, model))) = (record.usage, &end.usage_of) {
        let provider = draft.node(*node)?.provider;
        let body = UsageReported { provider, model: model.clone(), usage };
        draft.push_for(*node, Body::UsageReported(body))?;
    }
    draft.push(Body::StepEnded(StepEnded {
        number,
        outcome: end.outcome,
        evidence: end.evidence.clone(),
        record: (record != Record::default()).then(|| Box::new(record)),
    }))?;
    if let Some(route) = &end.route {
        draft.push(Body::StepRouted(StepRouted { number, route: route.clone() }))?;
    }
    touch(draft)
}

pub(super) fn add_artifact(draft: &mut Draft<'_>, new: &NewArtifact) -> Result<ArtifactId, Refusal> {
    if let Some(node) = new.node {
        draft.node(node)?;
    }
    let artifact = Artifact {
        id: match new.id {
            Some(id) => id,
            None => draft.id("artifact"),
        },
        run_id: draft.state.run.id,
        node_id: new.node,
        kind: new.kind,
        name: new.name.clone(),
        created_at: draft.op.at,
        turn_id: new.turn,
        media_type: new.media_type.clone(),
        size: new.size,
        sha256: new.sha256.clone(),
        host: draft.op.by.runner().to_owned(),
    };
    let id = artifact.id;
    let body = Body::ArtifactCreated(ArtifactCreated { artifact });
    match new.node {
        Some(node) => draft.push_for(node, body),
        None => draft.push(body),
    }?;
    Ok(id)
}

pub(super) fn prepare_workspace(draft: &mut Draft<'_>, workspace: &Workspace) -> Result<(), Refusal> {
    check_not_ended(draft)?;
    let known = draft.state.workspaces.get(&workspace.name);
    if known.is_some_and(|known| known.status != WorkspaceStatus::Removed) {
        return Err(Refusal::Workspace { name: workspace.name.clone(), why: "there is one of this name" });
    }
    draft.push(Body::WorkspacePrepared(WorkspacePrepared { workspace: workspace.clone() }))
}

pub(super) fn change_workspace(
    draft: &mut Draft<'_>,
    change: WorkspaceChange,
    body: &WorkspaceChanged,
) -> Result<(), Refusal> {
    let none = || Refusal::Workspace { name: body.name.clone(), why: "there is none of this name" };
    let workspace = draft.state.workspaces.get(&body.name).ok_or_else(none)?;
    let mut patch = body.patch.clone();
    let mut detail = body.detail.clone();
    if change == WorkspaceChange::RolledBack {
        // Only what undid one says so. What undoes that discards the work again.
        detail = detail.filter(|_| workspace.rolled_back_after.is_some());
        patch.rolled_back_after = Some(detail.is_none().then_some(draft.state.run.counts.steps));
    }
    let body = WorkspaceChanged { patch: workspace.difference(patch), detail, ..body.clone() };
    // What two processes tell of one push is one event.
    let is_publication = matches!(change, WorkspaceChange::Pushed | WorkspaceChange::Proposed);
    if is_publication && body.patch == WorkspacePatch::default() {
        return Ok(());
    }
    draft.push(match change {
        WorkspaceChange::Snapshot => Body::WorkspaceSnapshot(body),
        WorkspaceChange::Mended => Body::WorkspaceMended(body),
        WorkspaceChange::Adopted => Body::WorkspaceAdopted(body),
        WorkspaceChange::RolledBack => Body::WorkspaceRolledBack(body),
        WorkspaceChange::Removed => Body::WorkspaceRemoved(body),
        WorkspaceChange::Pushed => Body::PublishPushed(body),
        WorkspaceChange::Proposed => Body::PublishProposed(body),
    })
}
