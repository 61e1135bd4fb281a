//! The acts of an agent in its turn: staged in files, and carried out by the operation that ends the turn (CONTRACT 22.6).
//!
//! Invariant: an act is checked when it is staged, and decided again at the end, as an act of its node. Of a turn that did
//! not complete none takes effect.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::fsutil;
use crate::journal::directory::RunDirectory;
use crate::ledger::Ledger;
use crate::model::by::By;
use crate::model::decide::{Command, EdgeSpec, NodeSpec, Op};
use crate::model::edge::EdgeType;
use crate::model::ids::{Alias, NodeId, OpId, ProviderName, TurnId};
use crate::model::message::Payload;
use crate::model::node::Permissions;
use crate::model::run::Limits;
use crate::model::state::State;
use crate::workspace::refusal::{Refusal, Why};

use crate::engine::{Engine, now};

/// The directory of staged acts, below a run's, by turn.
const HAND: &str = "hand";

/// The most acts of one turn.
const MOST: usize = 256;

/// An act of an agent. Nodes are named by their aliases.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "act", rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Act {
    /// It hands work on.
    Handoff {
        /// The receiver.
        to: Alias,
        /// The content.
        payload: Payload,
    },
    /// It makes a node, and hands it work.
    Spawn {
        /// Its short name.
        alias: Alias,
        /// A text for people.
        label: String,
        /// Its role.
        role: String,
        /// The text of its role.
        role_text: Option<String>,
        /// Its provider.
        provider: ProviderName,
        /// The model.
        model: Option<String>,
        /// Whether it has to ask.
        permissions: Option<Permissions>,
        /// Its first work.
        message: Option<String>,
    },
    /// It makes an edge.
    Edge {
        /// The sender.
        from: Alias,
        /// The receiver.
        to: Alias,
        /// Its type.
        edge_type: Option<EdgeType>,
        /// Its label.
        label: Option<String>,
    },
}

/// An act that was staged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Staged {
    /// Its place among the acts of the turn, from 1.
    pub number: usize,
}

/// The acts of a turn on this host.
#[derive(Debug, Clone)]
pub(super) struct Hand {
    path: PathBuf,
}

impl Hand {
    pub(super) fn of(directory: &RunDirectory, turn: TurnId) -> Self {
        Self { path: directory.path().join(HAND).join(turn.to_string()) }
    }

    fn file(&self, number: usize) -> PathBuf {
        self.path.join(format!("{number:04}.json"))
    }

    /// Makes the directory: acts of this node are taken from now on.
    pub(super) fn open(&self, node: NodeId) -> std::io::Result<()> {
        fsutil::create_private_dir_all(&self.path)?;
        fsutil::replace_private(&self.lock(), node.to_string().as_bytes())
    }

    /// Whether the turn is one of this node.
    fn is_of(&self, node: NodeId) -> bool {
        fsutil::read_plain(self.lock()).is_ok_and(|owner| owner == node.to_string().as_bytes())
    }

    /// The lock of the acts. It contains the id of their node.
    fn lock(&self) -> PathBuf {
        self.path.join("lock")
    }

    /// Reads the acts, in their order. The error names a file that is none.
    pub(super) fn read(&self) -> Result<Vec<Act>, String> {
        let read = |path: &Path| {
            let text = fsutil::read_plain(path).map_err(|error| error.to_string())?;
            serde_json::from_slice(&text).map_err(|error| error.to_string())
        };
        let mut acts = Vec::new();
        for number in 1..=MOST {
            let path = self.file(number);
            if path.symlink_metadata().is_err() {
                break;
            }
            acts.push(read(&path).map_err(|why| format!("the staged act {number} cannot be read: {why}"))?);
        }
        Ok(acts)
    }

    /// Removes them.
    pub(super) fn discard(&self) {
        if let Err(error) = std::fs::remove_dir_all(&self.path)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(path = %self.path.display(), %error, "staged acts of a turn that has ended stay");
        }
    }
}

impl Engine<'_> {
    /// Stages an act of a node in its live turn on this host. It is refused now if it would be refused at the end.
    pub fn stage(
        &self,
        ledger: &Ledger<'_>,
        (node, turn): (NodeId, TurnId),
        act: Act,
    ) -> Result<Staged, Refusal> {
        let hand = Hand::of(&self.directory(ledger.tip().state.run.id), turn);
        if !hand.path.is_dir() {
            let message = "this turn is not under way on this host; nothing was staged";
            return Err(Refusal::new(Why::Failed, message)
                .hint("an agent calls this while its turn runs; a person uses `aynig orch chat`"));
        }
        if !hand.is_of(node) {
            let message = format!("the turn {turn} is not one of the node {node}; nothing was staged");
            return Err(Refusal::new(Why::Failed, message)
                .hint("leave AYNIG_ORCH_NODE and AYNIG_ORCH_TURN as the turn has them"));
        }
        let lock = fsutil::FileLock::acquire(&hand.lock());
        let _lock = lock.map_err(|error| Refusal::because("lock the staged acts", &error))?;
        let mut acts = hand.read().map_err(|why| Refusal::new(Why::Failed, why))?;
        if acts.len() >= MOST {
            return Err(Refusal::new(
                Why::Failed,
                format!("a turn stages at most {MOST} acts; nothing was staged"),
            ));
        }
        acts.push(act);
        let op = Op {
            id: OpId::random(),
            at: now()?,
            by: By::Node { node, runner: self.repo.runner_id().to_owned() },
        };
        commands(ledger, node, &acts, &op).map_err(|refusal| Refusal {
            message: format!("{}; nothing was staged", refusal.message),
            ..refusal
        })?;
        let number = acts.len();
        let text = serde_json::to_vec(acts.last().expect("one was added")).unwrap_or_default();
        fsutil::replace_private(&hand.file(number), &text)
            .map_err(|error| Refusal::because("stage this", &error))?;
        Ok(Staged { number })
    }
}

/// The commands of acts on the newest known state. A node that an act makes can be named by the next one.
pub(super) fn commands(
    ledger: &Ledger<'_>,
    node: NodeId,
    acts: &[Act],
    op: &Op,
) -> Result<Vec<Command>, Refusal> {
    let mut all: Vec<Command> = Vec::new();
    let mut state = ledger.tip().state.clone();
    for act in acts {
        let more = match act {
            Act::Handoff { to, payload } => {
                vec![Command::HandOff { from: node, to: id_of(&state, to)?, payload: payload.clone() }]
            }
            Act::Spawn { .. } => spawn(act),
            Act::Edge { from, to, edge_type, label } => vec![Command::AddEdge(EdgeSpec {
                id: None,
                from: id_of(&state, from)?,
                to: id_of(&state, to)?,
                edge_type: *edge_type,
                label: label.clone(),
                bidirectional: None,
            })],
        };
        all.extend(more);
        state = ledger.decide(&all, op)?.state;
        if let Act::Spawn { alias, message: Some(message), .. } = act {
            let payload = Payload { message: message.clone(), ..Payload::default() };
            all.push(Command::HandOff { from: node, to: id_of(&state, alias)?, payload });
            state = ledger.decide(&all, op)?.state;
        }
    }
    Ok(all)
}

fn spawn(act: &Act) -> Vec<Command> {
    let Act::Spawn { alias, label, role, role_text, provider, model, permissions, .. } = act else {
        return Vec::new();
    };
    vec![Command::AddNode(Box::new(NodeSpec {
        alias: Some(alias.clone()),
        label: label.clone(),
        role_template: role.clone(),
        role_text: role_text.clone(),
        provider: provider.clone(),
        model: model.clone(),
        capabilities: None,
        permissions: *permissions,
        limits: Limits::default(),
    }))]
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
