//! The fold: one event changes the state, or is refused as inconsistent.
//!
//! Invariant: an event that is refused leaves the state as it was. Events that [`super::super::decide`] makes are never
//! refused; those of a ledger that others wrote may be.

use std::collections::BTreeMap;

use super::super::approval::{Approval, Consent};
use super::super::event::{
    ApprovalGiven, ApprovalHeard, ApprovalRequested, ApprovalResolved, Body, Configured, Event, StepEnded,
    WorkspaceChanged,
};
use super::super::ids::{Alias, EventId, MessageId, NodeId};
use super::super::message::{Envelope, Expectation, InboxItem, Item, Notice, NoticeKind};
use super::super::node::{ARCHIVED_NODES, LastTurn, Node, NodeStatus, Wait};
use super::super::run::{RunKind, RunStatus};
use super::super::step::{Step, Turn, TurnEnd, TurnStatus};
use super::super::trace::{Halted, MOST_PASSED, MOST_TRACES, Passed, Spent, Trace, keep_newest};
use super::{Entry, State};

/// An event that does not follow from the state before it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("event {event} does not fit the state before it: {why}")]
pub struct Fault {
    /// The event.
    pub event: EventId,
    /// What does not fit.
    pub why: &'static str,
}

/// What an event changed: the files of the tree to be written anew.
pub type Folded = Vec<Entry>;

type Change = Result<Folded, &'static str>;

impl State {
    /// The state after the first event of a run.
    ///
    /// # Errors
    /// [`Fault`] if the event does not create a run.
    pub fn begin(event: &Event) -> Result<(Self, Folded), Fault> {
        let refuse = |why| Fault { event: event.id, why };
        let Body::RunCreated(created) = &event.body else {
            return Err(refuse("a run begins with an event that creates it"));
        };
        if created.patch.id != event.run_id {
            return Err(refuse("it creates another run"));
        }
        Ok((Self::new((*created.patch).clone()), vec![Entry::Run]))
    }

    /// Applies an event, and returns what it changed.
    ///
    /// # Errors
    /// [`Fault`]; the state is then unchanged.
    pub fn apply(&mut self, event: &Event) -> Result<Folded, Fault> {
        let change = if event.run_id != self.run.id {
            Err("it belongs to another run")
        } else if self.deleted {
            Err("the run was deleted")
        } else {
            self.change(event)
        };
        change.map_err(|why| Fault { event: event.id, why })
    }

    fn change(&mut self, event: &Event) -> Change {
        match &event.body {
            Body::RunCreated(_) => Err("the run exists"),
            Body::RunPatched(body) => {
                let was = self.run.status;
                self.run.merge(&body.patch);
                let mut entries = vec![Entry::Run];
                if self.run.status == RunStatus::Running && was != RunStatus::Running {
                    entries.extend(self.count_anew());
                }
                Ok(entries)
            }
            Body::Configured(body) => self.configure(body),
            Body::ModeSet(body) => {
                (self.run.mode, self.run.global_mode) = (body.mode, body.global_mode);
                Ok(vec![Entry::Run])
            }
            Body::Stalled(body) => {
                self.run.status = RunStatus::Paused;
                self.halt(Halted::Stalled { evidence: body.evidence.clone() })
            }
            Body::LimitReached(body) => {
                let (node_id, limit) = (event.node_id, body.limit.clone());
                self.halt(Halted::Limit { node_id, limit, value: body.value, bound: body.bound })
            }
            Body::RunDeleted(_) => {
                self.deleted = true;
                Ok(Vec::new())
            }
            Body::NodeCreated(_) | Body::NodePatched(_) | Body::NodeDeleted(_) | Body::UsageReported(_) => {
                self.change_node(event)
            }
            Body::EdgeCreated(body) => {
                let ends = [body.edge.from, body.edge.to];
                if ends.iter().any(|end| !self.nodes.contains_key(end)) {
                    return Err(NO_NODE);
                }
                self.edges.insert(body.edge.id, body.edge.clone());
                Ok(vec![Entry::Edge(body.edge.id)])
            }
            Body::EdgeDeleted(body) => self
                .edges
                .remove(&body.edge_id)
                .map(|edge| vec![Entry::Edge(edge.id)])
                .ok_or("there is no such edge"),
            Body::MessageUser(body) => {
                self.deliver(body.message.node_id, Item::Message(body.message.clone()))
            }
            Body::HandoffSent(body) => self.hand_off(&body.envelope),
            Body::NodeNotice(body) => self.notify(&body.notice),
            Body::MessageFinal(_) => Ok(Vec::new()),
            Body::ApprovalRequested(body) => self.request(event, body),
            Body::ApprovalGiven(body) => self.consent(event, body),
            Body::ApprovalResolved(body) => self.resolve(event, body),
            Body::ApprovalHeard(body) => self.hear(body),
            Body::ApprovalRevoked(body) => {
                let known = self.approvals.get(&body.approval_id);
                known.filter(|one| one.always.is_some()).ok_or("there is no such approval for good")?;
                self.approvals.remove(&body.approval_id);
                Ok(vec![Entry::Approval(body.approval_id)])
            }
            Body::ArtifactCreated(body) => {
                self.artifacts.insert(body.artifact.id, body.artifact.clone());
                Ok(vec![Entry::Artifact(body.artifact.id)])
            }
            Body::TurnEnded(end) => self.end_turn(event, end),
            Body::StepStarted(body) => self.start_step(&body.step),
            Body::StepEnded(body) => self.end_step(event, body),
            Body::StepRouted(body) => {
                self.change_step(body.number, |step| step.route = Some(body.route.clone()))
            }
            Body::WorkspacePrepared(body) => {
                let name = body.workspace.name.clone();
                self.workspaces.insert(name.clone(), body.workspace.clone());
                Ok(vec![Entry::Workspace(name)])
            }
            Body::WorkspaceSnapshot(body)
            | Body::WorkspaceMended(body)
            | Body::WorkspaceAdopted(body)
            | Body::WorkspaceRolledBack(body)
            | Body::WorkspaceRemoved(body)
            | Body::PublishPushed(body)
            | Body::PublishProposed(body) => self.change_workspace(body),
        }
    }

    /// Notes why a graph is paused. A flow notes it in what it waits for.
    fn halt(&mut self, halted: Halted) -> Change {
        self.run.halted = Some(halted).filter(|_| self.run.kind == RunKind::Graph);
        Ok(vec![Entry::Run])
    }

    /// A person resumed the run: limits and loop safety count anew.
    fn count_anew(&mut self) -> Folded {
        self.run.spent = Spent::default();
        self.run.passed.clear();
        self.run.halted = None;
        let mut changed = Vec::new();
        for node in self.nodes.values_mut().filter(|node| !node.spent.is_nothing() || !node.traces.is_empty())
        {
            node.spent = Spent::default();
            node.traces.clear();
            changed.push(Entry::Node(node.id));
        }
        changed
    }

    fn configure(&mut self, body: &Configured) -> Change {
        let configs = &body.patch.node_configs;
        if configs.keys().any(|node| !self.nodes.contains_key(node)) {
            return Err(NO_NODE);
        }
        self.configs.extend(configs.clone());
        Ok(configs.keys().map(|node| Entry::Config(*node)).collect())
    }

    fn change_node(&mut self, event: &Event) -> Change {
        let id = event.node_id.ok_or("it names no node")?;
        match &event.body {
            Body::NodeCreated(body) => {
                if body.patch.id != id || body.patch.run_id != self.run.id || self.nodes.contains_key(&id) {
                    return Err("the node exists, or is another one");
                }
                self.run.counts.nodes = self.run.counts.nodes.max(body.patch.number);
                self.nodes.insert(id, (*body.patch).clone());
                Ok(vec![Entry::Node(id), Entry::Run])
            }
            Body::NodePatched(body) => {
                let node = self.nodes.get_mut(&id).ok_or(NO_NODE)?;
                let had_failed = node.status == NodeStatus::Failed;
                node.merge(&body.patch);
                if let Some(last) = node.turn.as_mut().filter(|_| had_failed)
                    && node.status != NodeStatus::Failed
                {
                    last.failures = 0;
                }
                Ok(vec![Entry::Node(id)])
            }
            Body::NodeDeleted(_) => {
                let node = self.nodes.remove(&id).ok_or(NO_NODE)?;
                self.configs.remove(&id);
                self.run.retired.insert(node.alias);
                let unread = self.inboxes.remove(&id).unwrap_or_default();
                let mut entries = vec![Entry::Run, Entry::Node(id), Entry::Config(id)];
                self.approvals.retain(|key, approval| {
                    let kept = approval.node_id != id;
                    if !kept {
                        entries.push(Entry::Approval(*key));
                    }
                    kept
                });
                entries.extend(unread.into_keys().map(|number| Entry::Inbox(id, number)));
                Ok(entries)
            }
            Body::UsageReported(body) => {
                let node = self.nodes.get_mut(&id).ok_or(NO_NODE)?;
                node.usage = node.usage.plus(&body.usage);
                self.run.usage = self.run.usage.plus(&body.usage);
                Ok(vec![Entry::Node(id), Entry::Run])
            }
            _ => Err("it is not about a node"),
        }
    }

    /// Puts an item into an inbox.
    fn deliver(&mut self, to: NodeId, item: Item) -> Change {
        let node = self.nodes.get_mut(&to).ok_or(NO_NODE)?;
        self.run.counts.messages += 1;
        let number = self.run.counts.messages;
        self.inboxes.entry(to).or_default().insert(number, InboxItem { number, item });
        node.inbox_count += 1;
        Ok(vec![Entry::Inbox(to, number), Entry::Node(to), Entry::Run])
    }

    fn hand_off(&mut self, envelope: &Envelope) -> Change {
        let (from, to) = (envelope.from_node_id, envelope.to_node_id);
        if !self.nodes.contains_key(&from) {
            return Err(NO_NODE);
        }
        let mut entries = self.deliver(to, Item::Handoff(envelope.clone()))?;
        let response = envelope.payload.response.clone().unwrap_or_default();
        if response.expectation == Expectation::Required {
            let wait = Wait { to, since: envelope.created_at };
            self.change_waits(from, |waits| waits.extend([(envelope.id, wait)]));
            entries.push(Entry::Node(from));
        }
        // The answer frees whoever waits for it.
        let is_answered = |id: &MessageId| response.reply_to.as_ref() == Some(&id.to_string());
        self.change_waits(to, |waits| waits.retain(|id, _| !is_answered(id)));
        Ok(entries)
    }

    /// Puts a notice into an inbox. Its node does not wait any more for hand-offs that get no answer.
    fn notify(&mut self, notice: &Notice) -> Change {
        let entries = self.deliver(notice.node_id, Item::Notice(notice.clone()))?;
        if notice.kind == NoticeKind::Unanswered {
            self.change_waits(notice.node_id, |waits| waits.retain(|id, _| !notice.handoffs.contains(id)));
        }
        Ok(entries)
    }

    fn change_waits(&mut self, node: NodeId, change: impl FnOnce(&mut BTreeMap<MessageId, Wait>)) {
        if let Some(node) = self.nodes.get_mut(&node) {
            change(&mut node.waits);
            node.waiting_for = node.longest_wait().map(|(id, _)| id);
        }
    }

    fn request(&mut self, event: &Event, body: &ApprovalRequested) -> Change {
        let node_id = event.node_id.filter(|node| self.nodes.contains_key(node)).ok_or(NO_NODE)?;
        let approval = Approval {
            id: body.approval_id,
            node_id,
            tool: body.tool.clone(),
            context: body.context.clone(),
            requested_at: event.ts,
            expires_at: body.expires_at,
            consents: Vec::new(),
            resolution: None,
            resolved_by: None,
            always: None,
            heard_by: None,
        };
        self.approvals.insert(approval.id, approval);
        Ok(vec![Entry::Approval(body.approval_id)])
    }

    fn consent(&mut self, event: &Event, body: &ApprovalGiven) -> Change {
        let approval = self.approvals.get_mut(&body.approval_id).ok_or("there is no such request")?;
        if approval.resolution.is_some() {
            return Err("the request was answered before");
        }
        approval.consents.push(Consent { by: event.by.clone(), at: event.ts, reason: body.reason.clone() });
        Ok(vec![Entry::Approval(body.approval_id)])
    }

    fn resolve(&mut self, event: &Event, body: &ApprovalResolved) -> Change {
        let approval = self.approvals.get_mut(&body.approval_id).ok_or("there is no such request")?;
        if approval.resolution.is_some() {
            return Err("the request was answered before");
        }
        if body.always.is_some() && event.by.node().is_some() {
            return Err("only a person approves for good");
        }
        approval.resolution = Some(body.resolution.clone());
        approval.resolved_by = Some(event.by.clone());
        approval.always = body.always;
        Ok(vec![Entry::Approval(body.approval_id)])
    }

    fn hear(&mut self, body: &ApprovalHeard) -> Change {
        let approval = self.approvals.get_mut(&body.approval_id).ok_or("there is no such request")?;
        if approval.resolution.is_none() || approval.heard_by.is_some() {
            return Err("the request has no answer, or it was heard before");
        }
        approval.heard_by = Some(body.turn_id);
        Ok(vec![Entry::Approval(body.approval_id)])
    }

    /// Ends a turn: what it read leaves the inbox, its artifacts and answered requests go with it.
    fn end_turn(&mut self, event: &Event, end: &TurnEnd) -> Change {
        let id = event.node_id.ok_or("it names no node")?;
        let node = self.nodes.get_mut(&id).ok_or(NO_NODE)?;
        let inbox = self.inboxes.entry(id).or_default();
        let read: Vec<u64> =
            inbox.values().filter(|item| end.consumed.contains(&item.id())).map(|item| item.number).collect();
        if read.len() != end.consumed.len() {
            return Err("it read what is not in the inbox");
        }
        inbox.retain(|number, _| !read.contains(number));
        node.inbox_count = u64::try_from(inbox.len()).unwrap_or(u64::MAX);
        if inbox.is_empty() {
            self.inboxes.remove(&id);
        }
        let failed = node.turn.as_ref().map_or(0, |last| last.failures);
        let failures = match end.status {
            TurnStatus::Completed => 0,
            TurnStatus::Failed if !end.excused => failed.saturating_add(1),
            TurnStatus::Failed | TurnStatus::Interrupted => failed,
        };
        let status = end.status.word().to_owned();
        // A turn that did not complete has read none of them.
        let before = node.turn.take().filter(|_| end.status != TurnStatus::Completed);
        let unread = before.map(|last| last.unsaid).unwrap_or_default().into_iter();
        let unsaid = unread.chain(end.unsaid.iter().cloned()).collect();
        let (number, until) = (end.number, end.until);
        node.turn = Some(LastTurn { id: end.turn_id, number, status, failures, until, unsaid });
        self.run.counts.turns = self.run.counts.turns.max(end.number);
        node.spent = node.spent.plus(&end.spent);
        self.run.spent = self.run.spent.plus(&end.spent);
        if let Some(trace) = &end.trace {
            trace_turn(&mut self.run.passed, node, trace);
        }
        let mut entries = vec![Entry::Node(id), Entry::Run, Entry::Turn(end.number)];
        entries.extend(read.into_iter().map(|number| Entry::Inbox(id, number)));
        let mut artifacts = BTreeMap::new();
        self.artifacts.retain(|key, artifact| {
            let kept = artifact.turn_id != Some(end.turn_id);
            if !kept {
                entries.push(Entry::Artifact(*key));
                artifacts.insert(*key, artifact.clone());
            }
            kept
        });
        self.approvals.retain(|key, approval| {
            let is_heard = end.status == TurnStatus::Completed || end.heard.contains(key);
            let is_other = approval.node_id != id || approval.is_open() || approval.always.is_some();
            let kept = is_other || !is_heard;
            // Its program was not given it in the end.
            let is_back = kept && !is_other && approval.heard_by == Some(end.turn_id);
            if is_back {
                approval.heard_by = None;
            }
            if !kept || is_back {
                entries.push(Entry::Approval(*key));
            }
            kept
        });
        self.turns.insert(end.number, Turn { node_id: id, ended_at: event.ts, end: end.clone(), artifacts });
        Ok(entries)
    }

    fn start_step(&mut self, step: &Step) -> Change {
        if step.number != self.run.counts.steps + 1 || step.ended_at.is_some() {
            return Err("steps are numbered in their order, and have not ended when they begin");
        }
        self.run.counts.steps = step.number;
        self.steps.insert(step.number, step.clone());
        Ok(vec![Entry::Step(step.number), Entry::Run])
    }

    /// Ends a step. Its artifacts go with it: a run has many of them, and each would be a file to read.
    fn end_step(&mut self, event: &Event, body: &StepEnded) -> Change {
        let mut entries = self.change_step(body.number, |step| {
            step.outcome = Some(body.outcome);
            step.evidence.clone_from(&body.evidence);
            step.record.clone_from(&body.record);
            step.host = Some(event.by.runner().to_owned());
            step.ended_at = Some(event.ts);
        })?;
        for kept in body.record.iter().flat_map(|record| &record.artifacts) {
            let step = self.steps.get_mut(&body.number);
            if let Some((step, artifact)) = step.zip(self.artifacts.remove(&kept.artifact)) {
                step.artifacts.insert(artifact.id, artifact);
                entries.push(Entry::Artifact(kept.artifact));
            }
        }
        Ok(entries)
    }

    fn change_step(&mut self, number: u64, change: impl FnOnce(&mut Step)) -> Change {
        change(self.steps.get_mut(&number).ok_or("there is no such step")?);
        Ok(vec![Entry::Step(number)])
    }

    fn change_workspace(&mut self, body: &WorkspaceChanged) -> Change {
        self.workspaces.get_mut(&body.name).ok_or("there is no such workspace")?.merge(&body.patch);
        Ok(vec![Entry::Workspace(body.name.clone())])
    }

    /// Whether a node works or waits for an answer.
    #[must_use]
    pub fn is_busy(node: &Node) -> bool {
        matches!(node.status, NodeStatus::Running | NodeStatus::Blocked)
    }

    /// Whether an alias was given, to a node of today or of the past.
    #[must_use]
    pub fn is_taken(&self, alias: &Alias) -> bool {
        alias.as_str() == ARCHIVED_NODES
            || self.run.retired.contains(alias)
            || self.node_named(alias).is_some()
    }
}

/// Keeps the trace of a turn, and its hand-offs.
fn trace_turn(passed: &mut Vec<Passed>, node: &mut Node, trace: &Trace) {
    if trace.is_of_person {
        passed.clear();
    }
    let handed = trace.handed.iter().map(|one| Passed {
        from: node.alias.to_string(),
        to: one.to.clone(),
        message: one.message.clone(),
        tree: trace.tree.clone(),
    });
    keep_newest(passed, handed, MOST_PASSED);
    keep_newest(&mut node.traces, [trace.clone()], MOST_TRACES);
}

const NO_NODE: &str = "there is no such node";
