//! Collects the events of an operation, and what they change.

use std::collections::BTreeSet;

use uuid::Uuid;

use super::{Op, Refusal, Rules};
use crate::model::by::By;
use crate::model::event::{Body, Event};
use crate::model::ids::{Alias, NodeId};
use crate::model::node::Node;
use crate::model::state::{Entry, State};

/// An operation that was decided.
#[derive(Debug, Clone, PartialEq)]
pub struct Decided {
    /// Its events. None if nothing changes.
    pub events: Vec<Event>,
    /// The state after them.
    pub state: State,
    /// The files that are to be written or deleted.
    pub changed: BTreeSet<Entry>,
}

/// Events that are being collected. Each is applied at once, so that what follows sees it.
pub(super) struct Draft<'a> {
    pub(super) state: State,
    pub(super) op: &'a Op,
    pub(super) rules: Rules,
    events: Vec<Event>,
    changed: BTreeSet<Entry>,
    made: usize,
}

impl<'a> Draft<'a> {
    pub(super) fn new(state: State, op: &'a Op, rules: Rules) -> Self {
        Self { state, op, rules, events: Vec::new(), changed: BTreeSet::new(), made: 0 }
    }

    /// An operation that began a run with this event.
    pub(super) fn begun(event: Event, op: &'a Op) -> Result<Self, Refusal> {
        let (state, changed) = State::begin(&event)?;
        let mut draft = Self::new(state, op, Rules::default());
        draft.changed.extend(changed);
        draft.events.push(event);
        Ok(draft)
    }

    /// A new id.
    pub(super) fn id<Id: From<Uuid>>(&mut self, kind: &str) -> Id {
        self.made += 1;
        self.op.id.derive(kind, self.made)
    }

    /// Adds an event about the run.
    pub(super) fn push(&mut self, body: Body) -> Result<(), Refusal> {
        self.add(None, body)
    }

    /// Adds an event about a node.
    pub(super) fn push_for(&mut self, node: NodeId, body: Body) -> Result<(), Refusal> {
        self.add(Some(node), body)
    }

    /// Adds an event that a rule caused, and not the author of the operation.
    pub(super) fn push_as(&mut self, by: By, body: Body) -> Result<(), Refusal> {
        self.add_as(by, None, body)
    }

    fn add(&mut self, node_id: Option<NodeId>, body: Body) -> Result<(), Refusal> {
        self.add_as(self.op.by.clone(), node_id, body)
    }

    fn add_as(&mut self, by: By, node_id: Option<NodeId>, body: Body) -> Result<(), Refusal> {
        let event = Event {
            id: self.op.id.derive("event", self.events.len()),
            run_id: self.state.run.id,
            ts: self.op.at,
            node_id,
            by,
            body,
        };
        self.changed.extend(self.state.apply(&event)?);
        self.events.push(event);
        Ok(())
    }

    /// The node.
    pub(super) fn node(&self, id: NodeId) -> Result<&Node, Refusal> {
        self.state.nodes.get(&id).ok_or(Refusal::NoNode(id))
    }

    /// The alias of a node, for a message.
    pub(super) fn alias(&self, id: NodeId) -> Result<Alias, Refusal> {
        self.node(id).map(|node| node.alias.clone())
    }

    /// Refuses what a node may not do.
    pub(super) fn persons_only(&self, what: &'static str) -> Result<(), Refusal> {
        match self.op.by.node() {
            Some(_) => Err(Refusal::PersonsOnly(what)),
            None => Ok(()),
        }
    }

    pub(super) fn finish(self) -> Decided {
        Decided { events: self.events, state: self.state, changed: self.changed }
    }
}

/// Refuses a text that is empty or too long.
pub(super) fn check_text(what: &'static str, text: &str, most: usize) -> Result<(), Refusal> {
    if (1..=most).contains(&text.len()) {
        Ok(())
    } else {
        Err(Refusal::Length { what, bytes: text.len(), most })
    }
}
