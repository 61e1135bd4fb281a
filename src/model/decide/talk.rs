//! Messages of people, and hand-offs between nodes.

use super::Refusal;
use super::draft::{Draft, check_text};
use super::runs::{check_not_ended, touch};
use super::waits::waits;
use crate::model::event::{Body, HandoffSent, MessageUser, NodePatched};
use crate::model::ids::NodeId;
use crate::model::message::{
    Envelope, EnvelopeKind, Expectation, Item, MAX_ATTACHED, MAX_MESSAGE, Payload, Role, UserMessage,
};
use crate::model::node::{Hold, NodePatch, NodeStatus};

pub(super) fn chat(
    draft: &mut Draft<'_>,
    node: Option<NodeId>,
    content: &str,
    interrupt: bool,
) -> Result<(), Refusal> {
    draft.persons_only("write as a person")?;
    check_not_ended(draft)?;
    check_text("the message", content, MAX_MESSAGE)?;
    let to = match node {
        Some(node) => draft.node(node)?.id,
        None => draft.state.orchestrator().map(|node| node.id).ok_or(Refusal::NoOrchestrator)?,
    };
    // A turn that was interrupted may not have heard of it yet: the message says so, too.
    let interrupt = interrupt || draft.node(to)?.hold == Some(Hold::Interrupted);
    let message = UserMessage {
        id: draft.id("message"),
        run_id: draft.state.run.id,
        node_id: to,
        role: Role::User,
        content: content.to_owned(),
        interrupt,
        created_at: draft.op.at,
    };
    draft.push(Body::MessageUser(MessageUser { message }))?;
    arrived(draft, to, true)
}

/// Reports the receiver's inbox. A message of a person brings a node back that has failed or was interrupted.
fn arrived(draft: &mut Draft<'_>, to: NodeId, by_person: bool) -> Result<(), Refusal> {
    let node = draft.node(to)?;
    let (failed, cut) = (node.status == NodeStatus::Failed, node.hold == Some(Hold::Interrupted));
    let patch = NodePatch {
        inbox_count: Some(node.inbox_count),
        waiting_for: Some(node.waiting_for),
        status: (by_person && failed).then_some(NodeStatus::Idle),
        hold: (by_person && cut).then_some(None),
        ..NodePatch::default()
    };
    draft.push_for(to, Body::NodePatched(NodePatched { patch }))?;
    touch(draft)
}

/// A receiver reads all of a hand-off, so all of it has a bound.
fn check_payload(payload: &Payload) -> Result<(), Refusal> {
    check_text("the message", &payload.message, MAX_MESSAGE)?;
    if let Some(structured) = &payload.structured {
        let json = serde_json::to_string(structured).unwrap_or_default();
        check_text("the structured data", &json, MAX_MESSAGE)?;
    }
    if let Some(reason) = payload.status.as_ref().and_then(|status| status.reason.as_deref()) {
        check_text("the reason of the status", reason, MAX_MESSAGE)?;
    }
    match payload.artifacts.len() {
        0..=MAX_ATTACHED => Ok(()),
        count => Err(Refusal::Attached { count, most: MAX_ATTACHED }),
    }
}

pub(super) fn hand_off(
    draft: &mut Draft<'_>,
    from: NodeId,
    to: NodeId,
    payload: &Payload,
) -> Result<(), Refusal> {
    if draft.op.by.node().is_some_and(|node| node != from) {
        return Err(Refusal::PersonsOnly("hand work on for another"));
    }
    check_not_ended(draft)?;
    check_payload(payload)?;
    let (from_alias, to_alias) = (draft.alias(from)?, draft.alias(to)?);
    let edges = &draft.state.edges;
    if !edges.values().any(|edge| edge.permits(from, to)) {
        let nodes = draft.state.nodes.values();
        let allowed = nodes.filter(|node| edges.values().any(|edge| edge.permits(from, node.id)));
        let allowed = allowed.map(|node| node.alias.clone()).collect();
        return Err(Refusal::NoWay { from: from_alias, to: to_alias, allowed });
    }
    let response = payload.response.as_ref();
    let awaits = response.is_some_and(|response| response.expectation == Expectation::Required);
    if awaits && !edges.values().any(|edge| edge.permits(to, from)) {
        return Err(Refusal::CannotAnswer { from: from_alias, to: to_alias });
    }
    let inbox = draft.state.inbox(to);
    let unread = inbox
        .iter()
        .filter(|item| matches!(&item.item, Item::Handoff(one) if one.from_node_id == from))
        .count();
    if unread >= draft.rules.max_unread {
        return Err(Refusal::Full { from: from_alias, to: to_alias, unread });
    }
    let envelope = Envelope {
        kind: EnvelopeKind::Handoff,
        id: draft.id("message"),
        from_node_id: from,
        to_node_id: to,
        created_at: draft.op.at,
        payload: payload.clone(),
    };
    draft.push(Body::HandoffSent(HandoffSent { envelope }))?;
    arrived(draft, to, false)?;
    if awaits { waits(draft, (from, to)) } else { Ok(()) }
}
