//! The session of a node's agent: continued where its last turn left it, else begun anew with a replay (CONTRACT 22.26).
//!
//! Invariant: what a session depends on is compared with what its last turn left on this host. Whatever differs, or is not
//! known, begins a new one, whose prompt is whole.

use std::collections::BTreeMap;

use uuid::Uuid;

use crate::engine::Engine;
use crate::engine::attempt::{Work, unrecorded};
use crate::engine::record::Role;
use crate::engine::session::{Begun, FORGOTTEN, MAX_REPLAY, Place, REPLAY, Session, packed};
use crate::git::objects::digest::sha256;
use crate::ledger::Ledger;
use crate::ledger::history::backwards;
use crate::model::ids::{MessageId, TurnId};
use crate::model::node::{CliPermissions, Node, NodeConfig};
use crate::model::state::State;
use crate::model::step::TurnStatus;
use crate::orch::prompt::{Block, TASK, blocks, full, put_replay, sent};
use crate::orch::replay::Replay;
use crate::provider::{self, How, Provider};
use crate::workspace::refusal::Refusal;

use super::terms::{Left, Terms};

/// The files of a prompt.
const FULL: &str = "prompt.full.txt";
const BLOCKS: &str = "prompt.blocks.json";

/// The sentence for an agent whose last turn was interrupted.
const INTERRUPTED: &str = "Your last turn was interrupted before its end. What you did in it is in this session, and \
                           your files are as you left them. The messages below include those of that turn.";

/// The sentence for an agent whose last turn ended with an open request.
const ASKED: &str = "Your last turn ended while a request of yours waited for its answer, so that tool did not run. It is \
                     answered now: make the request again if you still need it.";

/// The session of a turn.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) begun: Begun,
    place: Place,
    /// The terms of this turn.
    terms: Terms,
    /// Those of the last turn of a session that is continued.
    last: Option<Terms>,
}

impl Opened {
    /// The program does not have it any more.
    pub(super) fn forget(&mut self) {
        self.begun = Begun::Renewed(FORGOTTEN.to_owned());
        self.last = None;
        self.terms.session = Uuid::new_v4().to_string();
    }

    /// The sentence for the agent about the end of its last turn.
    fn note(&self) -> Option<&'static str> {
        match self.last.as_ref()?.left {
            Left::Completed => None,
            Left::Interrupted => Some(INTERRUPTED),
            Left::Asked | Left::Kept => Some(ASKED),
        }
    }

    /// Whether the program asks again about the call that it keeps, so that nothing is sent to it.
    fn asks_again(&self, node: &Node, read: &[MessageId]) -> bool {
        let last = self.last.as_ref().filter(|last| last.left == Left::Kept);
        last.is_some_and(|last| read.iter().all(|id| last.read.contains(id)))
            && node.permissions.cli_permissions_mode == CliPermissions::Gated
    }
}

/// The text for a program.
#[derive(Debug)]
pub(super) struct Prompt {
    pub(super) text: String,
    /// Whether it is only what is new in the session.
    pub(super) is_delta: bool,
}

impl Engine<'_> {
    /// The items that a turn reads. If the program keeps a call of the last turn, these are the items of that one, unless
    /// a newer item interrupts.
    pub(super) fn to_read(&self, state: &State, node: &Node, read: Vec<MessageId>) -> Vec<MessageId> {
        let last = self.last_session(state.run.id, node.alias.as_str()).and_then(|session| session.terms);
        let last = last.filter(|last| {
            let is_last = node.turn.as_ref().is_some_and(|turn| turn.id == last.turn);
            last.left == Left::Kept && is_last && last.session == node.session.session_id
        });
        let Some(last) = last else { return read };
        let is_known = |id: &MessageId| last.read.contains(id);
        let inbox = state.inbox(node.id);
        let is_interrupted = inbox.iter().any(|item| item.interrupts() && !is_known(&item.id()));
        let known: Vec<MessageId> = read.iter().filter(|id| is_known(id)).copied().collect();
        if is_interrupted || known.is_empty() { read } else { known }
    }

    /// The session of the turn that is about to begin, which `found` this commit on the work branch: the work that its
    /// messages bring came later.
    pub(super) fn open_session(
        &self,
        work: &Work<'_, '_>,
        (node, turn, read): (&Node, TurnId, &[MessageId]),
        config: &NodeConfig,
        (provider, found): (&Provider, &str),
    ) -> Opened {
        let place = self.session_place(work, provider, found);
        let run = &work.ledger.tip().state.run;
        let role = config.custom_system_prompt.as_deref().unwrap_or_default();
        let mut terms = Terms {
            session: Uuid::new_v4().to_string(),
            turn,
            left: Left::Completed,
            read: read.to_vec(),
            model: config.model.clone(),
            mode: run.global_mode,
            role: sha256(format!("{}\n{role}", config.role_template).as_bytes()),
            blocks: BTreeMap::new(),
        };
        let renewed =
            |why: String, place, terms| Opened { begun: Begun::Renewed(why), place, terms, last: None };
        if !node.session.has_begun() {
            return Opened { begun: Begun::New, place, terms, last: None };
        }
        let last = self.last_session(run.id, node.alias.as_str());
        let Some((session, last)) = last.and_then(|session| Some((session.clone(), session.terms?))) else {
            return renewed("the last turn left no session on this host".to_owned(), place, terms);
        };
        if let Some(why) = session.place.differs(&place).or_else(|| last.differs(node, &terms)) {
            return renewed(why, place, terms);
        }
        terms.session.clone_from(&last.session);
        Opened { begun: Begun::Continued(session.id), place, terms, last: Some(last) }
    }

    /// Writes the prompt of a turn, all of it, and returns what is sent.
    pub(super) fn write_prompt(
        &self,
        work: &mut Work<'_, '_>,
        (node, read, more): (&Node, &[MessageId], &[String]),
        opened: &mut Opened,
    ) -> Result<Prompt, Refusal> {
        let state = &work.ledger.tip().state;
        let mut notes = more.to_vec();
        notes.extend(node.turn.iter().flat_map(|last| last.unsaid.iter().cloned()));
        notes.extend(opened.note().map(str::to_owned));
        let mut blocks = blocks(state, node, read, &notes);
        let digest = |block: &Block| sha256(block.text.as_bytes());
        let others = blocks.iter().filter(|block| block.name != TASK);
        opened.terms.blocks = others.map(|block| (block.name.to_owned(), digest(block))).collect();
        if let Some(last) = &opened.last {
            let asks_again = opened.asks_again(node, read);
            for block in &mut blocks {
                let is_known = last.blocks.get(block.name) == Some(&digest(block));
                block.sent = !asks_again && (block.name == TASK || !is_known);
            }
        }
        if opened.begun.reason().is_some()
            && let Some(pack) = self.replay_of(work.ledger, node)
        {
            write(work, Role::Contextpack, REPLAY, "text/markdown", pack.as_bytes())?;
            put_replay(&mut blocks, &pack);
        }
        let json = serde_json::to_vec_pretty(&blocks).unwrap_or_default();
        write(work, Role::Prompt, FULL, "text/plain", full(&blocks).as_bytes())?;
        write(work, Role::PromptBlocks, BLOCKS, "application/json", &json)?;
        Ok(Prompt { text: sent(&blocks), is_delta: opened.last.is_some() })
    }

    /// The newest turns of a node that fit into a replay.
    fn replay_of(&self, ledger: &Ledger<'_>, node: &Node) -> Option<String> {
        let tip = ledger.tip();
        let mut replay = Replay::of(&tip.state, node.id, MAX_REPLAY);
        for operation in backwards(self.repo, tip.state.run.id, tip.id) {
            match operation {
                Ok(operation) => {
                    if !operation.events.iter().rev().all(|event| replay.take(event)) {
                        break;
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "a replay has no earlier turns than these");
                    break;
                }
            }
        }
        packed(&replay.turns())
    }

    /// Keeps the session of a turn that completed or was interrupted; removes it otherwise. Returns its id for the ledger
    /// if it is a new one.
    pub(super) fn leave_session(
        &self,
        work: &Work<'_, '_>,
        (node, status): (&Node, TurnStatus),
        opened: Opened,
        ended: &provider::Ended,
    ) -> Option<String> {
        let left = match (status, &ended.how) {
            (TurnStatus::Failed, _) => None,
            (TurnStatus::Interrupted, How::Parked { is_kept: true, .. }) => Some(Left::Kept),
            (TurnStatus::Interrupted, How::Parked { .. }) => Some(Left::Asked),
            (TurnStatus::Interrupted, _) => Some(Left::Interrupted),
            (TurnStatus::Completed, _) => Some(Left::Completed),
        };
        let Opened { begun, place, terms, .. } = opened;
        let id = ended.session.clone().or_else(|| begun.id().map(str::to_owned));
        let session = left.zip(id).map(|(left, id)| {
            let terms = Terms { left, ..terms };
            Session { id, place, terms: Some(terms) }
        });
        let ours =
            session.as_ref().and_then(|session| session.terms.as_ref()).map(|terms| terms.session.clone());
        self.keep_session(work, node.alias.as_str(), session);
        ours.filter(|ours| *ours != node.session.session_id)
    }
}

fn write(
    work: &mut Work<'_, '_>,
    role: Role,
    file: &str,
    media_type: &str,
    content: &[u8],
) -> Result<(), Refusal> {
    let written = work.recorder.write(role, file, media_type, true, content);
    written.map_err(|error| unrecorded(&error))
}
