//! Requests for approval, and their answers.

use super::Refusal;
use super::draft::Draft;
use super::runs::{check_not_ended, touch};
use crate::model::approval::{Answer, Resolution, Tool};
use crate::model::by::By;
use crate::model::event::{ApprovalGiven, ApprovalRequested, ApprovalResolved, Body, NodePatched};
use crate::model::ids::{ApprovalId, NodeId};
use crate::model::node::{NodePatch, NodeStatus};
use crate::model::time::Timestamp;

/// A request that was made before, and has no answer or one that its turn has not heard, is not made again.
pub(super) fn ask(
    draft: &mut Draft<'_>,
    node: NodeId,
    tool: &Tool,
    context: Option<&str>,
    (expires_at, heard): (Option<Timestamp>, &[ApprovalId]),
) -> Result<(), Refusal> {
    draft.node(node)?;
    check_not_ended(draft)?;
    let mut known = draft.state.approvals.values();
    if known.any(|approval| approval.asks_for(node, tool) && !heard.contains(&approval.id)) {
        return Ok(());
    }
    let body = ApprovalRequested {
        approval_id: draft.id("approval"),
        tool: tool.clone(),
        context: context.map(str::to_owned),
        expires_at,
    };
    draft.push_for(node, Body::ApprovalRequested(body))?;
    set_status(draft, node, NodeStatus::Blocked)
}

/// Answers all open requests of a node, since nothing waits for an answer of a person any more.
pub(super) fn close(draft: &mut Draft<'_>, node: NodeId, resolution: &Resolution) -> Result<(), Refusal> {
    let open = draft.state.approvals.values().filter(|one| one.node_id == node && one.resolution.is_none());
    let open: Vec<ApprovalId> = open.map(|approval| approval.id).collect();
    for approval_id in open {
        let resolution = resolution.clone();
        draft.push(Body::ApprovalResolved(ApprovalResolved { approval_id, resolution }))?;
    }
    Ok(())
}

pub(super) fn answer(draft: &mut Draft<'_>, id: ApprovalId, resolution: &Resolution) -> Result<(), Refusal> {
    draft.persons_only("answer a request")?;
    if (resolution.status == Answer::Modified) != resolution.modified_args.is_some() {
        return Err(Refusal::BadAnswer("modifiedArgs belong to the answer \"modified\", and to no other"));
    }
    let approval = draft.state.approvals.get(&id).ok_or(Refusal::NoApproval(id))?;
    let node = approval.node_id;
    match &approval.resolution {
        Some(first) if first == resolution => return Ok(()),
        Some(first) => {
            let answer = match first.status {
                Answer::Approved => "approved",
                Answer::Denied => "denied",
                Answer::Modified => "modified",
                Answer::Expired => "expired",
                Answer::Withdrawn => "withdrawn",
            };
            let by = approval.resolved_by.as_ref().map_or_else(|| "nobody".to_owned(), name);
            return Err(Refusal::AnsweredOtherwise { answer: answer.to_owned(), by });
        }
        None => {}
    }
    draft
        .push(Body::ApprovalResolved(ApprovalResolved { approval_id: id, resolution: resolution.clone() }))?;
    let open = |draft: &Draft<'_>| {
        draft.state.approvals.values().any(|other| other.node_id == node && other.resolution.is_none())
    };
    let blocked = draft.state.nodes.get(&node).is_some_and(|node| node.status == NodeStatus::Blocked);
    if blocked && !open(draft) {
        set_status(draft, node, NodeStatus::Idle)?;
    }
    Ok(())
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
        By::Runner { runner } => format!("runner {runner}"),
    }
}

fn set_status(draft: &mut Draft<'_>, node: NodeId, status: NodeStatus) -> Result<(), Refusal> {
    let patch =
        NodePatch { status: Some(status), last_activity_at: Some(draft.op.at), ..NodePatch::default() };
    draft.push_for(node, Body::NodePatched(NodePatched { patch }))?;
    touch(draft)
}
