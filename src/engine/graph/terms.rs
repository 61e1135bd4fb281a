//! What the session of a node depends on, compared between its turns (CONTRACT 22.26).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::ids::{MessageId, TurnId};
use crate::model::node::Node;
use crate::model::run::GlobalMode;
use crate::model::step::TurnStatus;

/// How the last turn of a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Left {
    /// It completed.
    Completed,
    /// A person, or a pause of the run, ended it.
    Interrupted,
    /// A request of it had no answer in time.
    Asked,
    /// So it was, and the program keeps the call.
    Kept,
}

/// What the session of a node depends on, besides its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::engine) struct Terms {
    /// Its id in the ledger.
    pub(super) session: String,
    /// Its last turn, how that ended, and what it read.
    pub(super) turn: TurnId,
    pub(super) left: Left,
    pub(super) read: Vec<MessageId>,
    pub(super) model: Option<String>,
    pub(super) mode: GlobalMode,
    /// The digest of the role and its text.
    pub(super) role: String,
    /// The digests of the blocks that it was sent last, by their names.
    pub(super) blocks: BTreeMap<String, String>,
}

impl Terms {
    /// The reason why the session is not continued, by the node as the ledger has it, under the terms `now`.
    pub(super) fn differs(&self, node: &Node, now: &Self) -> Option<String> {
        let last = node.turn.as_ref();
        let why = if self.session != node.session.session_id {
            "another session was begun since"
        } else if last.is_some_and(|last| last.status == TurnStatus::Failed.word()) {
            "the last turn failed"
        } else if last.is_none_or(|last| last.id != self.turn) {
            "the last turn was not in this session"
        } else if self.role != now.role {
            "the role was changed"
        } else if self.model != now.model {
            "the model was changed"
        } else if self.mode != now.mode {
            "the mode of the run was changed"
        } else {
            return None;
        };
        Some(why.to_owned())
    }
}
