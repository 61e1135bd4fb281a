//! A person starts, stops, interrupts or resets a node.

use super::draft::Draft;
use super::runs::{check_not_ended, touch};
use super::{Refusal, Steer};
use crate::model::event::{Body, NodePatched};
use crate::model::ids::NodeId;
use crate::model::node::{Hold, NodePatch, NodeStatus};

/// Whoever has a live turn of the node ends it when it is held (CONTRACT 22.9).
pub(super) fn steer(draft: &mut Draft<'_>, id: NodeId, steer: Steer) -> Result<(), Refusal> {
    draft.persons_only("steer a node")?;
    let node = draft.node(id)?;
    let has_failed = node.status == NodeStatus::Failed;
    let patch = match steer {
        Steer::Start => {
            check_not_ended(draft)?;
            NodePatch {
                status: has_failed.then_some(NodeStatus::Idle),
                hold: Some(None),
                ..NodePatch::default()
            }
        }
        Steer::Stop => NodePatch {
            hold: Some(Some(Hold::Stopped)),
            session: Some(node.session.ended()),
            ..NodePatch::default()
        },
        Steer::Interrupt => {
            NodePatch { hold: node.hold.is_none().then_some(Some(Hold::Interrupted)), ..NodePatch::default() }
        }
        Steer::Reset => NodePatch { session: Some(node.session.ended()), ..NodePatch::default() },
    };
    let patch = draft.node(id)?.difference(patch);
    if patch == NodePatch::default() {
        return Ok(());
    }
    draft.push_for(id, Body::NodePatched(NodePatched { patch }))?;
    touch(draft)
}
