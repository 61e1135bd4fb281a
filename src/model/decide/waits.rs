//! Nodes that wait for an answer, and the notices that they get when none will come (CONTRACT 22.22).
//!
//! Invariant: a wait ends once: by its answer, by a notice, or with its node. Whatever makes an answer impossible tells
//! those who wait for it in the same operation.

use super::Refusal;
use super::draft::Draft;
use super::runs::touch;
use crate::model::event::{Body, NodeNotice, NodePatched};
use crate::model::ids::{MessageId, NodeId};
use crate::model::message::{Notice, NoticeKind};
use crate::model::node::{NodePatch, NodeStatus, Wait};

/// Puts a notice into the inbox of a node.
pub(super) fn notify(
    draft: &mut Draft<'_>,
    node_id: NodeId,
    (kind, content): (NoticeKind, String),
    handoffs: Vec<MessageId>,
) -> Result<(), Refusal> {
    let notice = Notice {
        id: draft.id("message"),
        run_id: draft.state.run.id,
        node_id,
        kind,
        content,
        handoffs,
        created_at: draft.op.at,
    };
    draft.push_for(node_id, Body::NodeNotice(NodeNotice { notice }))?;
    show(draft, node_id)
}

/// Reports the inbox of a node, and what it waits for.
fn show(draft: &mut Draft<'_>, id: NodeId) -> Result<(), Refusal> {
    let node = draft.node(id)?;
    let (inbox_count, waiting_for) = (Some(node.inbox_count), Some(node.waiting_for));
    let patch = NodePatch { inbox_count, waiting_for, ..NodePatch::default() };
    draft.push_for(id, Body::NodePatched(NodePatched { patch }))?;
    touch(draft)
}

/// The waits that a node cannot end any more, with their nodes.
fn waits_for(draft: &Draft<'_>, is_over: impl Fn(NodeId, &Wait) -> bool) -> Vec<(NodeId, MessageId, Wait)> {
    let nodes = draft.state.nodes.values();
    let waits = nodes.flat_map(|node| node.waits.iter().map(|(id, wait)| (node.id, *id, *wait)));
    waits.filter(|(node, _, wait)| is_over(*node, wait)).collect()
}

/// Tells all who wait for a node that it has failed.
pub(super) fn has_failed(draft: &mut Draft<'_>, id: NodeId) -> Result<(), Refusal> {
    let node = draft.node(id)?;
    if node.status != NodeStatus::Failed {
        return Ok(());
    }
    let alias = node.alias.clone();
    let why = if node.summary.is_empty() { String::new() } else { format!(": {}", node.summary) };
    for (waits, handoff, _) in waits_for(draft, |_, wait| wait.to == id) {
        let content = format!(
            "{alias} has failed, so your hand-off {handoff} gets no answer until a person brings {alias} back{why}\n{NEXT}"
        );
        notify(draft, waits, (NoticeKind::Unanswered, content), vec![handoff])?;
    }
    Ok(())
}

/// Tells all who wait for a node that it is being removed.
pub(super) fn goes(draft: &mut Draft<'_>, id: NodeId) -> Result<(), Refusal> {
    let alias = draft.alias(id)?;
    for (waits, handoff, _) in waits_for(draft, |node, wait| wait.to == id && node != id) {
        let is_unread = draft.state.inbox(id).iter().any(|item| item.id() == handoff);
        let when = if is_unread { "before it read" } else { "before it answered" };
        let content =
            format!("{alias} was removed {when} your hand-off {handoff}; no answer will come.\n{NEXT}");
        notify(draft, waits, (NoticeKind::Unanswered, content), vec![handoff])?;
    }
    Ok(())
}

/// Tells all who wait for a node that has no way to them any more.
pub(super) fn is_cut_off(draft: &mut Draft<'_>) -> Result<(), Refusal> {
    let edges: Vec<_> = draft.state.edges.values().cloned().collect();
    let over = waits_for(draft, |node, wait| !edges.iter().any(|edge| edge.permits(wait.to, node)));
    for (waits, handoff, wait) in over {
        let alias = draft.alias(wait.to)?;
        let content = format!(
            "no edge leads from {alias} to you any more, so it cannot answer your hand-off {handoff}.\n{NEXT}"
        );
        notify(draft, waits, (NoticeKind::Unanswered, content), vec![handoff])?;
    }
    Ok(())
}

/// Tells a node that nobody answered in time.
pub(super) fn overdue(draft: &mut Draft<'_>, id: NodeId) -> Result<(), Refusal> {
    let (node, at) = (draft.node(id)?, draft.op.at);
    let over: Vec<_> =
        node.waits.iter().filter(|(_, wait)| wait.until() <= at).map(|(id, wait)| (*id, *wait)).collect();
    for (handoff, wait) in over {
        let alias = draft.alias(wait.to).map_or_else(|_| "a node".to_owned(), |alias| alias.to_string());
        let content = format!(
            "{alias} has not answered your hand-off {handoff} for 24 hours; you do not wait for it any more.\n{NEXT}"
        );
        notify(draft, id, (NoticeKind::Unanswered, content), vec![handoff])?;
    }
    Ok(())
}

/// What helps a node that gets no answer.
const NEXT: &str = "Go on without the answer, or hand the work to another agent.";

/// After a hand-off that is to be answered: reports the wait, that its receiver has failed, and a circle of waits.
pub(super) fn waits(draft: &mut Draft<'_>, (from, to): (NodeId, NodeId)) -> Result<(), Refusal> {
    let patch = NodePatch { waiting_for: Some(draft.node(from)?.waiting_for), ..NodePatch::default() };
    draft.push_for(from, Body::NodePatched(NodePatched { patch }))?;
    has_failed(draft, to)?;
    let Some(circle) = circle(draft, from, to) else { return Ok(()) };
    let mut words = Vec::new();
    for (waits, handoff, wait) in &circle {
        words.push(format!("{} waits for {} ({handoff})", draft.alias(*waits)?, draft.alias(wait.to)?));
    }
    let content = format!(
        "{}: each of them waits for another one. Answer with --reply-to what you can answer, or go on without.",
        words.join(", ")
    );
    let handoffs: Vec<MessageId> = circle.iter().map(|(_, handoff, _)| *handoff).collect();
    for (waits, ..) in circle {
        notify(draft, waits, (NoticeKind::Cycle, content.clone()), handoffs.clone())?;
    }
    Ok(())
}

/// The shortest circle of waits that begins with the newest one of `from` for `to`.
fn circle(draft: &Draft<'_>, from: NodeId, to: NodeId) -> Option<Vec<(NodeId, MessageId, Wait)>> {
    let all = waits_for(draft, |_, _| true);
    let first = all.iter().filter(|(node, _, wait)| *node == from && wait.to == to);
    let first = first.max_by_key(|(_, handoff, wait)| (wait.since, *handoff))?;
    let mut ways = vec![vec![*first]];
    let mut seen = vec![from];
    while !ways.is_empty() {
        let mut longer = Vec::new();
        for way in ways {
            let Some((_, _, last)) = way.last() else { continue };
            if last.to == from {
                return Some(way);
            }
            if seen.contains(&last.to) {
                continue;
            }
            seen.push(last.to);
            let next = all.iter().filter(|(node, ..)| *node == last.to);
            longer.extend(next.map(|one| way.iter().copied().chain([*one]).collect::<Vec<_>>()));
        }
        ways = longer;
    }
    None
}
