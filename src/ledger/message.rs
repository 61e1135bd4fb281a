//! The message of an operation's commit: a subject for people, the events, and who and which.
//!
//! ```text
//! handoff: planner → implementer
//!
//! {"id":…,"runId":…,"ts":…,"type":"handoff.sent",…}
//! {"id":…,…}
//!
//! aynig-run: <run id>
//! aynig-op: <operation id>
//! ```

use bstr::ByteSlice;

use crate::model::decide::Decided;
use crate::model::event::{Body, Event, EventError};
use crate::model::ids::{NodeId, OpId, RunId};
use crate::model::state::State;

const RUN_KEY: &str = "aynig-run: ";
const OP_KEY: &str = "aynig-op: ";

/// The longest message that is read, in bytes.
pub(super) const MAX_MESSAGE: usize = 8 * 1024 * 1024;

/// The message of a commit that carries these events.
pub(super) fn encode(before: Option<&State>, decided: &Decided, op: OpId) -> Vec<u8> {
    let mut text = subject(before, decided).into_bytes();
    text.extend_from_slice(b"\n\n");
    for event in &decided.events {
        // Events have string keys and no failing parts.
        text.extend(serde_json::to_vec(event).unwrap_or_default());
        text.push(b'\n');
    }
    let run = decided.state.run.id;
    text.extend_from_slice(format!("\n{RUN_KEY}{run}\n{OP_KEY}{op}\n").as_bytes());
    text
}

/// An operation as its commit records it.
#[derive(Debug)]
pub(super) struct Recorded {
    pub(super) op: OpId,
    pub(super) events: Vec<Event>,
    /// Lines that are no events, by number in the message, from 1.
    pub(super) bad: Vec<(usize, EventError)>,
}

/// Reads the message of an operation of `run`. `None` if it is none.
pub(super) fn decode(message: &[u8], run: RunId) -> Option<Recorded> {
    if message.len() > MAX_MESSAGE || value(message, RUN_KEY).and_then(RunId::parse) != Some(run) {
        return None;
    }
    let op = value(message, OP_KEY).and_then(OpId::parse)?;
    let (mut events, mut bad) = (Vec::new(), Vec::new());
    for (at, line) in message.lines().enumerate().skip(2).filter(|(_, line)| line.starts_with(b"{")) {
        match Event::parse(line) {
            Ok(event) => events.push(event),
            Err(error) => bad.push((at + 1, error)),
        }
    }
    Some(Recorded { op, events, bad })
}

/// The id of the operation, without its events.
pub(super) fn op_of(message: &[u8]) -> Option<OpId> {
    value(message, OP_KEY).and_then(OpId::parse)
}

/// The last line with this key. An event's line begins with a brace, so no text of somebody can imitate one.
fn value<'m>(message: &'m [u8], key: &str) -> Option<&'m str> {
    message
        .lines()
        .rev()
        .find_map(|line| line.strip_prefix(key.as_bytes()))
        .and_then(|value| value.to_str().ok())
}

/// What happened, in a few words: the first event that says something.
fn subject(before: Option<&State>, decided: &Decided) -> String {
    let named = decided.events.iter().find_map(|event| words(before, &decided.state, event));
    let more = decided.events.iter().filter(|event| words(before, &decided.state, event).is_some()).count();
    match (named, more) {
        (Some(words), 0 | 1) => words,
        (Some(words), more) => format!("{words} (and {} more)", more - 1),
        (None, _) => "run: changed".to_owned(),
    }
}

fn words(before: Option<&State>, after: &State, event: &Event) -> Option<String> {
    let alias = |id: NodeId| {
        let node = after.nodes.get(&id).or_else(|| before.and_then(|before| before.nodes.get(&id)));
        node.map_or_else(|| id.to_string(), |node| node.alias.to_string())
    };
    let about = || event.node_id.map_or_else(|| "run".to_owned(), alias);
    Some(match &event.body {
        Body::RunCreated(_) => format!("run: created {}", after.run.slug),
        Body::RunPatched(body) => match (&body.patch.status, &body.patch.label) {
            (Some(status), _) => format!("run: {}", status.word()),
            (None, Some(_)) => "run: label".to_owned(),
            (None, None) => return None,
        },
        Body::Stalled(_) => "run: stalled".to_owned(),
        Body::RunDeleted(_) => "run: deleted".to_owned(),
        Body::NodeCreated(_) => format!("node: added {}", about()),
        Body::NodeDeleted(_) => format!("node: removed {}", about()),
        Body::EdgeCreated(body) => format!("edge: {} → {}", alias(body.edge.from), alias(body.edge.to)),
        Body::EdgeDeleted(_) => "edge: removed".to_owned(),
        Body::HandoffSent(body) => {
            format!("handoff: {} → {}", alias(body.envelope.from_node_id), alias(body.envelope.to_node_id))
        }
        Body::MessageUser(body) => format!("message: → {}", alias(body.message.node_id)),
        Body::NodeNotice(body) => format!("notice: → {}", alias(body.notice.node_id)),
        Body::ApprovalRequested(_) => format!("approval: {} asks", about()),
        Body::ApprovalGiven(_) => "approval: given, and not the last one".to_owned(),
        Body::ApprovalResolved(_) => "approval: answered".to_owned(),
        Body::ApprovalHeard(_) => format!("approval: {} has the answer", about()),
        Body::ApprovalRevoked(_) => "approval: revoked".to_owned(),
        Body::ArtifactCreated(body) => format!("artifact: {}", body.artifact.name),
        Body::TurnEnded(end) => format!("turn: {} {}", about(), end.status.word()),
        Body::StepStarted(body) => format!("step: {} started", body.step.id),
        Body::StepEnded(body) => match after.steps.get(&body.number) {
            Some(step) => format!("step: {} ended", step.id),
            None => "step: ended".to_owned(),
        },
        Body::WorkspacePrepared(body) => format!("workspace: {} prepared", body.workspace.name),
        Body::WorkspaceSnapshot(body) => format!("workspace: {} saved", body.name),
        Body::WorkspaceMended(body) => format!("workspace: {} mended", body.name),
        Body::WorkspaceAdopted(body) => format!("workspace: {} took over commits", body.name),
        Body::WorkspaceRolledBack(body) => format!("workspace: {} rolled back", body.name),
        Body::WorkspaceRemoved(body) => format!("workspace: {} removed", body.name),
        Body::PublishPushed(body) => format!("publish: {} pushed", body.name),
        Body::PublishProposed(body) => format!("publish: {} proposed", body.name),
        Body::LimitReached(body) => format!("limit: {}", body.limit),
        Body::NodePatched(_)
        | Body::Configured(_)
        | Body::ModeSet(_)
        | Body::MessageFinal(_)
        | Body::UsageReported(_)
        | Body::StepRouted(_) => return None,
    })
}
