//! Requests for approval, and their answers.

use uuid::Uuid;

use super::Refusal;
use super::command::Answered;
use super::draft::Draft;
use super::runs::{check_not_ended, note_waiting, touch};
use crate::model::approval::{Always, Answer, Approval, Resolution, Tool, has_mask};
use crate::model::by::By;
use crate::model::event::{
    ApprovalGiven, ApprovalHeard, ApprovalRequested, ApprovalResolved, ApprovalRevoked, Body, NodePatched,
};
use crate::model::ids::{ApprovalId, NodeId, TurnId};
use crate::model::node::{NodePatch, NodeStatus};
use crate::model::run::RunKind;
use crate::model::time::Timestamp;

/// The facts about a new request besides its tool.
pub(super) struct Asked<'a> {
    pub(super) context: Option<&'a str>,
    pub(super) expires_at: Option<Timestamp>,
    pub(super) heard: &'a [ApprovalId],
    pub(super) turn: Option<TurnId>,
}

/// A request that was made before, and has no answer or one that no turn has heard, is not made again. One that an approval
/// for good covers is answered by that.
pub(super) fn ask(
    draft: &mut Draft<'_>,
    node: NodeId,
    tool: &Tool,
    asked: &Asked<'_>,
) -> Result<(), Refusal> {
    draft.node(node)?;
    of_itself(draft, node, "ask for another node")?;
    check_not_ended(draft)?;
    let is_it =
        |one: &Approval| one.asks_for(node, tool) && one.heard_by.is_none() && !asked.heard.contains(&one.id);
    if draft.state.approvals.values().any(is_it) {
        return Ok(());
    }
    let granted = draft.state.approvals.values().find(|one| one.covers(node, tool));
    let granted = granted.map(|one| (one.id, one.resolved_by.as_ref().map_or_else(nobody, name)));
    let approval_id = draft.id("approval");
    let (tool, context) = (with_id(draft, tool), asked.context.map(str::to_owned));
    let body = ApprovalRequested { approval_id, tool, context, expires_at: asked.expires_at };
    draft.push_for(node, Body::ApprovalRequested(body))?;
    let Some(((grant, by), turn_id)) = granted.zip(asked.turn) else {
        return set_status(draft, node, NodeStatus::Blocked);
    };
    let reason = Some(format!("allowed for good by {by} (approval {grant})"));
    let resolution = Resolution { status: Answer::Approved, modified_args: None, reason };
    let body = ApprovalResolved { approval_id, resolution, always: None };
    draft.push_as(policy(draft, Some(grant)), Body::ApprovalResolved(body))?;
    draft.push_for(node, Body::ApprovalHeard(ApprovalHeard { approval_id, turn_id }))?;
    touch(draft)
}

/// Records a request that the permissions of a node answered in a turn that ends now.
pub(super) fn answered(draft: &mut Draft<'_>, node: NodeId, one: &Answered) -> Result<ApprovalId, Refusal> {
    let approval_id: ApprovalId = draft.id("approval");
    let (tool, context) = (with_id(draft, &one.tool), one.context.clone());
    let body = ApprovalRequested { approval_id, tool, context, expires_at: None };
    draft.push_for(node, Body::ApprovalRequested(body))?;
    let status = if one.is_approved { Answer::Approved } else { Answer::Denied };
    let resolution = Resolution { status, modified_args: None, reason: None };
    let body = ApprovalResolved { approval_id, resolution, always: None };
    draft.push_as(policy(draft, None), Body::ApprovalResolved(body))?;
    Ok(approval_id)
}

/// The call with an id.
fn with_id(draft: &mut Draft<'_>, tool: &Tool) -> Tool {
    let mut tool = tool.clone();
    if tool.id.is_empty() {
        tool.id = draft.id::<Uuid>("call").to_string();
    }
    tool
}

/// A turn gets an answer that lets its tool run. The first turn counts: so a tool runs once at most by one approval.
pub(super) fn hear(draft: &mut Draft<'_>, id: ApprovalId, turn_id: TurnId) -> Result<(), Refusal> {
    let approval = draft.state.approvals.get(&id).ok_or(Refusal::NoApproval(id))?;
    let node = approval.node_id;
    of_itself(draft, node, "hear an answer to another node")?;
    match approval.heard_by {
        Some(turn) if turn == turn_id => return Ok(()),
        Some(_) => return Err(Refusal::HeardBefore),
        None => {}
    }
    let given = approval.resolution.as_ref().map(|given| given.status);
    if !matches!(given, Some(Answer::Approved | Answer::Modified)) {
        return Err(Refusal::BadAnswer("no answer lets the tool run"));
    }
    if draft.node(node)?.turn.as_ref().is_some_and(|last| last.id == turn_id) {
        return Err(Refusal::HasEnded(format!("turn {turn_id}")));
    }
    draft.push_for(node, Body::ApprovalHeard(ApprovalHeard { approval_id: id, turn_id }))
}

/// Answers all open requests of a node, since nothing waits for an answer of a person any more.
pub(super) fn close(draft: &mut Draft<'_>, node: NodeId, resolution: &Resolution) -> Result<(), Refusal> {
    let open = draft.state.approvals.values().filter(|one| one.node_id == node && one.is_open());
    let open: Vec<ApprovalId> = open.map(|approval| approval.id).collect();
    for approval_id in open {
        let resolution = resolution.clone();
        draft.push(Body::ApprovalResolved(ApprovalResolved { approval_id, resolution, always: None }))?;
    }
    note_waiting(draft)
}

/// Ends the requests of a node whose time is over.
pub(super) fn expire(draft: &mut Draft<'_>, node: NodeId) -> Result<(), Refusal> {
    let now = draft.op.at;
    let over = draft.state.approvals.values().filter(|one| one.node_id == node && one.is_overdue(now));
    let over: Vec<ApprovalId> = over.map(|approval| approval.id).collect();
    for approval_id in over {
        let resolution = Resolution { status: Answer::Expired, modified_args: None, reason: None };
        let body = ApprovalResolved { approval_id, resolution, always: None };
        draft.push_as(policy(draft, None), Body::ApprovalResolved(body))?;
    }
    settled(draft, node)
}

pub(super) fn answer(draft: &mut Draft<'_>, id: ApprovalId, resolution: &Resolution) -> Result<(), Refusal> {
    draft.persons_only("answer a request")?;
    if (resolution.status == Answer::Modified) != resolution.modified_args.is_some() {
        return Err(Refusal::BadAnswer("modifiedArgs belong to the answer \"modified\", and to no other"));
    }
    let approval = draft.state.approvals.get(&id).ok_or(Refusal::NoApproval(id))?;
    match &approval.resolution {
        Some(first) if first == resolution => Ok(()),
        Some(first) => Err(otherwise(draft.state.run.kind, approval, first)),
        None => resolve(draft, id, (resolution.clone(), None)),
    }
}

/// The names of acts that manage the run.
const MANAGING: [&str; 2] = ["spawn_node", "create_edge"];

/// Approves a request, and calls like it for good.
pub(super) fn grant(draft: &mut Draft<'_>, id: ApprovalId, always: Always) -> Result<(), Refusal> {
    draft.persons_only("answer a request")?;
    let approval = draft.state.approvals.get(&id).ok_or(Refusal::NoApproval(id))?;
    if let Some(first) = &approval.resolution {
        let is_same = first.status == Answer::Approved && approval.always == Some(always);
        return if is_same { Ok(()) } else { Err(otherwise(draft.state.run.kind, approval, first)) };
    }
    if MANAGING.contains(&approval.tool.name.as_str()) {
        return Err(Refusal::BadAnswer(
            "a new node or edge is approved each time; approve it without --always",
        ));
    }
    if always == Always::Call && has_mask(&approval.tool.args.clone().into()) {
        return Err(Refusal::BadAnswer(
            "the arguments have a masked secret, so calls cannot be compared with them; approve it once, or the tool with any arguments",
        ));
    }
    let resolution = Resolution { status: Answer::Approved, modified_args: None, reason: None };
    resolve(draft, id, (resolution, Some(always)))
}

/// Takes an approval for good back. Calls that run now are not ended by that.
pub(super) fn revoke(draft: &mut Draft<'_>, id: ApprovalId) -> Result<(), Refusal> {
    draft.persons_only("revoke an approval")?;
    if draft.state.approvals.get(&id).is_none_or(|one| one.always.is_none()) {
        return Err(Refusal::NoGrant(id));
    }
    draft.push(Body::ApprovalRevoked(ApprovalRevoked { approval_id: id }))?;
    touch(draft)
}

/// Takes all approvals for good of a node back.
pub(super) fn revoke_all(draft: &mut Draft<'_>, node: NodeId) -> Result<(), Refusal> {
    let all = draft.state.approvals.values().filter(|one| one.node_id == node && one.always.is_some());
    let all: Vec<ApprovalId> = all.map(|approval| approval.id).collect();
    for approval_id in all {
        draft.push(Body::ApprovalRevoked(ApprovalRevoked { approval_id }))?;
    }
    Ok(())
}

/// Answers an open request.
fn resolve(
    draft: &mut Draft<'_>,
    approval_id: ApprovalId,
    (resolution, always): (Resolution, Option<Always>),
) -> Result<(), Refusal> {
    let approval = draft.state.approvals.get(&approval_id).ok_or(Refusal::NoApproval(approval_id))?;
    let (node, over) = (approval.node_id, approval.expires_at.filter(|_| approval.is_overdue(draft.op.at)));
    let is_of_person = matches!(resolution.status, Answer::Approved | Answer::Denied | Answer::Modified);
    // A gate of a flow ends with its step.
    if let Some(over) = over.filter(|_| is_of_person && draft.state.run.kind == RunKind::Graph) {
        return Err(Refusal::Overdue(over));
    }
    draft.push(Body::ApprovalResolved(ApprovalResolved { approval_id, resolution, always }))?;
    settled(draft, node)
}

/// A node without an open request is not blocked.
fn settled(draft: &mut Draft<'_>, node: NodeId) -> Result<(), Refusal> {
    let is_open = draft.state.approvals.values().any(|other| other.node_id == node && other.is_open());
    let is_blocked = draft.state.nodes.get(&node).is_some_and(|node| node.status == NodeStatus::Blocked);
    if is_blocked && !is_open { set_status(draft, node, NodeStatus::Idle) } else { Ok(()) }
}

fn otherwise(kind: RunKind, approval: &Approval, first: &Resolution) -> Refusal {
    let answer = match first.status {
        Answer::Approved if approval.always.is_some() => "approved for good",
        Answer::Approved => "approved",
        // The word of a gate.
        Answer::Denied if kind == RunKind::Flow => "rejected",
        Answer::Denied => "denied",
        Answer::Modified => "modified",
        Answer::Expired => "expired",
        Answer::Withdrawn => "withdrawn",
    };
    let by = approval.resolved_by.as_ref().map_or_else(nobody, name);
    Refusal::AnsweredOtherwise { answer: answer.to_owned(), by }
}

/// Refuses an act of a node for another one.
fn of_itself(draft: &Draft<'_>, node: NodeId, what: &'static str) -> Result<(), Refusal> {
    match draft.op.by.node() {
        Some(by) if by != node => Err(Refusal::PersonsOnly(what)),
        Some(_) | None => Ok(()),
    }
}

/// A rule of a person, carried out on the host of the operation.
fn policy(draft: &Draft<'_>, grant: Option<ApprovalId>) -> By {
    By::Policy { runner: draft.op.by.runner().to_owned(), grant }
}

fn nobody() -> String {
    "nobody".to_owned()
}

/// The last of the people that must approve makes it the answer. The same person counts once.
pub(super) fn approve(
    draft: &mut Draft<'_>,
    id: ApprovalId,
    required: u64,
    reason: Option<&String>,
) -> Result<(), Refusal> {
    draft.persons_only("answer a request")?;
    let approval = draft.state.approvals.get(&id).ok_or(Refusal::NoApproval(id))?;
    let is_approved = approval.resolution.as_ref().is_some_and(|first| first.status == Answer::Approved);
    if is_approved {
        return Ok(());
    }
    let is_new = !approval.consents.iter().any(|consent| consent.by.is_same_person(&draft.op.by));
    let people = approval.consents.len() + usize::from(is_new);
    if approval.resolution.is_some() || u64::try_from(people).is_ok_and(|count| count >= required) {
        let resolution =
            Resolution { status: Answer::Approved, modified_args: None, reason: reason.cloned() };
        return answer(draft, id, &resolution);
    }
    if is_new {
        draft.push(Body::ApprovalGiven(ApprovalGiven { approval_id: id, reason: reason.cloned() }))?;
    }
    Ok(())
}

fn name(by: &By) -> String {
    match by {
        By::Person { name, email, .. } => format!("{name} <{email}>"),
        By::Node { node, .. } => format!("node {node}"),
        By::Runner { runner } | By::Policy { runner, .. } => format!("runner {runner}"),
    }
}

fn set_status(draft: &mut Draft<'_>, node: NodeId, status: NodeStatus) -> Result<(), Refusal> {
    let patch =
        NodePatch { status: Some(status), last_activity_at: Some(draft.op.at), ..NodePatch::default() };
    draft.push_for(node, Body::NodePatched(NodePatched { patch }))?;
    note_waiting(draft)?;
    touch(draft)
}
