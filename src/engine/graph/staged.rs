//! The acts of an agent in its turn: staged in files, and carried out by the operation that ends the turn (CONTRACT 22.6,
//! 22.14).
//!
//! Invariant: an act is checked when it is staged, and decided again at the end, as an act of its node. Of a turn that did
//! not complete none takes effect.

use uuid::Uuid;

use crate::ledger::Ledger;
use crate::model::artifact::ArtifactKind;
use crate::model::decide::{Command, EdgeSpec, NodeSpec, Op};
use crate::model::ids::{Alias, ArtifactId, NodeId, TurnId};
use crate::model::limits::of_new_node;
use crate::model::message::Payload;
use crate::model::node::Permissions;
use crate::model::state::State;
use crate::workspace::refusal::{Refusal, Why};

pub use super::act::{Act, NewEdge, NewNode};
use super::hand::{Hand, MOST};
use crate::engine::Engine;

/// An act that was staged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Staged {
    /// Its place among the acts of the turn, from 1.
    pub number: usize,
}

impl Engine<'_> {
    /// Stages an act of a node in its live turn on this host. It is refused now if it would be refused at the end.
    pub fn stage(&self, ledger: &Ledger<'_>, of: (NodeId, TurnId), act: Act) -> Result<Staged, Refusal> {
        self.stage_with(ledger, of, act, None)
    }

    /// Stages an act with the content of its artifact.
    pub(super) fn stage_with(
        &self,
        ledger: &Ledger<'_>,
        of: (NodeId, TurnId),
        act: Act,
        content: Option<&[u8]>,
    ) -> Result<Staged, Refusal> {
        let hand = self.hand(ledger, of)?;
        let lock = hand.locked();
        let _lock = lock.map_err(|error| Refusal::because("lock the staged acts", &error))?;
        let acts = self.with(ledger, of.0, &hand, act)?.0;
        let number = acts.len();
        if let Some(act) = acts.last() {
            let added = hand.add(number, act, content);
            added.map_err(|error| Refusal::because("stage this", &error))?;
        }
        Ok(Staged { number })
    }

    /// The state of the run as the staged acts and this one would leave it. Nothing is staged.
    pub fn admits(&self, ledger: &Ledger<'_>, of: (NodeId, TurnId), act: Act) -> Result<State, Refusal> {
        let hand = self.hand(ledger, of)?;
        Ok(self.with(ledger, of.0, &hand, act)?.1)
    }

    /// The state of the run as the staged acts of a live turn on this host would leave it, and their artifacts.
    pub fn staged(
        &self,
        ledger: &Ledger<'_>,
        of: (NodeId, TurnId),
    ) -> Result<(State, Vec<(ArtifactId, ArtifactKind)>), Refusal> {
        let acts = self.hand(ledger, of)?.read().map_err(|why| Refusal::new(Why::Failed, why))?;
        let (_, state) = commands(ledger, of.0, &acts, &self.op_of_node(of.0)?)?;
        let made = acts.iter().enumerate().filter_map(|(at, act)| match act {
            Act::Artifact { kind, .. } => Some((artifact_id(of.1, at + 1), *kind)),
            Act::Handoff { .. } | Act::Spawn { .. } | Act::Edge { .. } | Act::Done { .. } => None,
        });
        Ok((state, made.collect()))
    }

    /// Acts with the texts of the roles of new nodes, as the base of the run has them now.
    pub(super) fn with_roles(&self, ledger: &Ledger<'_>, acts: Vec<Act>) -> Result<Vec<Act>, Refusal> {
        let base = &ledger.tip().state.run.base_sha;
        let with = |act| match act {
            Act::Spawn { node, .. } => {
                let role_text = (self.roles)(base, &node.role)?;
                Ok(Act::Spawn { node, role_text })
            }
            act => Ok(act),
        };
        acts.into_iter().map(with).collect()
    }

    /// The acts of a live turn of this node.
    pub(super) fn hand(&self, ledger: &Ledger<'_>, (node, turn): (NodeId, TurnId)) -> Result<Hand, Refusal> {
        let hand = Hand::of(&self.directory(ledger.tip().state.run.id), turn);
        if !hand.is_open() {
            let message = "this turn is not under way on this host; nothing was staged";
            return Err(Refusal::new(Why::Failed, message)
                .hint("an agent calls this while its turn runs; a person uses `aynig orch chat`"));
        }
        if !hand.is_of(node) {
            let message = format!("the turn {turn} is not one of the node {node}; nothing was staged");
            return Err(Refusal::new(Why::Failed, message)
                .hint("leave AYNIG_ORCH_NODE and AYNIG_ORCH_TURN as the turn has them"));
        }
        Ok(hand)
    }

    /// The staged acts and this one, if it is not refused, and the state that they lead to.
    fn with(
        &self,
        ledger: &Ledger<'_>,
        node: NodeId,
        hand: &Hand,
        act: Act,
    ) -> Result<(Vec<Act>, State), Refusal> {
        let mut acts = hand.read().map_err(|why| Refusal::new(Why::Failed, why))?;
        if acts.len() >= MOST {
            return Err(Refusal::new(
                Why::Failed,
                format!("a turn stages at most {MOST} acts; nothing was staged"),
            ));
        }
        if acts.iter().any(|act| matches!(act, Act::Done { .. })) {
            let message = "the end of the run is staged, and nothing comes after it; nothing was staged";
            return Err(Refusal::new(Why::Failed, message).hint("call done last"));
        }
        acts.push(act);
        let op = self.op_of_node(node)?;
        let decided = commands(ledger, node, &acts, &op);
        if let (Err(_), [before @ .., Act::Spawn { .. }]) = (&decided, acts.as_slice())
            && let Ok((_, state)) = commands(ledger, node, before, &op)
            && let Some(reached) = of_new_node(&state, node)
        {
            let noted = hand.note_limit(&reached);
            noted.map_err(|error| Refusal::because("note the limit", &error))?;
        }
        let (_, state) = decided.map_err(|refusal| Refusal {
            message: format!("{}; nothing was staged", refusal.message),
            ..refusal
        })?;
        Ok((acts, state))
    }
}

/// The id of the artifact that is made by the act with this number. It can be named before the turn has ended.
pub(super) fn artifact_id(turn: TurnId, number: usize) -> ArtifactId {
    Uuid::new_v5(&turn.uuid(), format!("artifact {number}").as_bytes()).into()
}

/// The commands of acts on the newest known state, and the state that they lead to. A node that an act makes can be named
/// by the next one.
pub(super) fn commands(
    ledger: &Ledger<'_>,
    node: NodeId,
    acts: &[Act],
    op: &Op,
) -> Result<(Vec<Command>, State), Refusal> {
    let mut all: Vec<Command> = Vec::new();
    let mut state = ledger.tip().state.clone();
    for act in acts {
        let mut more = match act {
            Act::Handoff { to, payload } => {
                vec![Command::HandOff { from: node, to: id_of(&state, to)?, payload: payload.clone() }]
            }
            Act::Spawn { node: new, role_text } => vec![spawn(&state, node, new, role_text.clone())],
            Act::Done { message, finding } => {
                vec![Command::Done { node, message: message.clone(), finding: finding.clone() }]
            }
            Act::Edge { edge } => vec![Command::AddEdge(EdgeSpec {
                id: None,
                from: id_of(&state, &edge.from)?,
                to: id_of(&state, &edge.to)?,
                edge_type: None,
                label: None,
                bidirectional: None,
            })],
            // It is added with its content.
            Act::Artifact { .. } => Vec::new(),
        };
        all.append(&mut more);
        state = ledger.decide(&all, op)?.state;
        if let Act::Spawn { node: NewNode { alias, message: Some(message), .. }, .. } = act {
            let payload = Payload { message: message.clone(), ..Payload::default() };
            all.push(Command::HandOff { from: node, to: id_of(&state, alias)?, payload });
            state = ledger.decide(&all, op)?.state;
        }
    }
    Ok((all, state))
}

/// A new node is bound as the one that makes it.
fn spawn(state: &State, parent: NodeId, new: &NewNode, role_text: Option<String>) -> Command {
    let parent = state.nodes.get(&parent);
    let permissions = parent.map(|parent| Permissions {
        cli_permissions_mode: new.permissions.unwrap_or(parent.permissions.cli_permissions_mode),
        ..parent.permissions
    });
    Command::AddNode(Box::new(NodeSpec {
        alias: Some(new.alias.clone()),
        label: new.label.clone().unwrap_or_else(|| new.alias.to_string()),
        role_template: new.role.clone(),
        role_text,
        provider: new.provider.clone(),
        model: new.model.clone(),
        capabilities: None,
        permissions,
        limits: parent.map(|parent| parent.limits).unwrap_or_default(),
        reserve_role: false,
    }))
}

/// The node with this alias.
pub(super) fn id_of(state: &State, alias: &Alias) -> Result<NodeId, Refusal> {
    let found = state.node_named(alias).map(|node| node.id);
    found.ok_or_else(|| {
        let known: Vec<&str> = state.nodes.values().map(|node| node.alias.as_str()).collect();
        let known =
            if known.is_empty() { "it has none".to_owned() } else { format!("it has {}", known.join(", ")) };
        Refusal::new(Why::NotFound, format!("run {} has no node {alias}", state.run.slug)).hint(known)
    })
}
