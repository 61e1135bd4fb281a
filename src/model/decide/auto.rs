//! Mode AUTO, and the end of a run that a node declares (CONTRACT 22.23, 22.24).
//!
//! Invariant: the operation after which nothing is under way in a run in mode AUTO also gives its orchestrator an item *go
//! on*. One that cannot act, since it has failed or a person holds it, gets none.

use serde::{Deserialize, Serialize};

use super::Refusal;
use super::draft::{Draft, check_text};
use super::runs::touch;
use super::waits::notify;
use crate::model::event::{Body, RunPatched};
use crate::model::ids::NodeId;
use crate::model::message::{MAX_MESSAGE, NoticeKind};
use crate::model::node::Node;
use crate::model::run::{Mode, RunKind, RunPatch, RunStatus};
use crate::model::state::State;

/// Whether a run is done, by whoever judges it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Finding {
    /// It is.
    #[default]
    Accepted,
    /// It is not; the reasons, for the agent.
    Refused(String),
    /// This host cannot judge it; what helps, for people.
    Unknown(String),
}

/// The text of a notice to go on.
const GO_ON: &str = "Nothing is under way in this run, and its mode is AUTO: go on with it. If it is done, end it with \
                     `\"$AYNIG_BIN\" orch done`.";

/// The orchestrator that goes on by itself now. `None`: something is under way, or a person is needed.
pub(super) fn goes_on(state: &State) -> Option<NodeId> {
    let run = &state.run;
    // What nobody has begun does not go on.
    let has_begun = run.counts.messages > 0;
    let is_auto = run.kind == RunKind::Graph && run.mode == Mode::Auto && run.status == RunStatus::Running;
    let first = state.orchestrator().filter(|node| node.can_act())?;
    (is_auto && has_begun && is_quiet(state)).then_some(first.id)
}

/// Whether nothing is under way. A live turn has not read its inbox before it has ended.
fn is_quiet(state: &State) -> bool {
    let rests = |node: &Node| state.inbox(node.id).is_empty() && node.waits.is_empty();
    state.nodes.values().filter(|node| node.can_act()).all(rests)
        && state.approvals.values().all(|approval| approval.resolution.is_some())
}

/// Tells the orchestrator to go on, if it is this operation that left nothing under way.
pub(super) fn go_on(draft: &mut Draft<'_>, before: Option<NodeId>) -> Result<(), Refusal> {
    match goes_on(&draft.state) {
        Some(node) if before != Some(node) => {
            notify(draft, node, (NoticeKind::GoOn, GO_ON.to_owned()), Vec::new())
        }
        Some(_) | None => Ok(()),
    }
}

/// Ends the run, as its node said, or gives the node the reason why not.
pub(super) fn done(
    draft: &mut Draft<'_>,
    id: NodeId,
    (message, finding): (Option<&str>, &Finding),
) -> Result<(), Refusal> {
    if draft.op.by.node() != Some(id) {
        return Err(Refusal::PersonsOnly("end the run for another"));
    }
    let node = draft.node(id)?;
    if !draft.state.may_end(node) {
        return Err(Refusal::MayNotEnd(node.alias.clone()));
    }
    super::runs::check_not_ended(draft)?;
    if let Some(message) = message {
        check_text("the message", message, MAX_MESSAGE)?;
    }
    let patch = match finding {
        Finding::Accepted => RunPatch {
            status: Some(RunStatus::Completed),
            termination: Some(Some(message.unwrap_or("completed").to_owned())),
            waiting_for: Some(None),
            ..RunPatch::default()
        },
        Finding::Refused(why) => {
            notify(draft, id, (NoticeKind::NotDone, format!("The run is not done: {why}")), Vec::new())?;
            RunPatch::default()
        }
        Finding::Unknown(why) => {
            let slug = draft.state.run.slug.clone();
            let told = format!("It could not be judged whether the run is done: {why}\nCall it done again.");
            notify(draft, id, (NoticeKind::NotDone, told), Vec::new())?;
            RunPatch {
                status: Some(RunStatus::Paused),
                waiting_for: Some(Some(format!("{why}; then `aynig orch run resume {slug}`"))),
                ..RunPatch::default()
            }
        }
    };
    let patch = draft.state.run.difference(patch);
    if patch != RunPatch::default() {
        draft.push(Body::RunPatched(RunPatched { patch }))?;
    }
    touch(draft)
}
