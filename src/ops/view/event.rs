//! State events.

use serde::Serialize;

use super::{Time, text};
use crate::contract::ids::CommitId;
use crate::contract::message::Message;
use crate::git::objects::commits::Stored;

/// A commit that declares a state.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EventView {
    commit: CommitId,
    date: Time,
    message: String,
    state: Option<String>,
    /// The attempt of a lease, or the one that a stalled commit closed.
    run_id: Option<String>,
    origin_state: Option<String>,
    trailers: Vec<TrailerView>,
}

/// A trailer.
#[derive(Debug, Serialize)]
pub struct TrailerView {
    key: String,
    value: String,
}

impl EventView {
    /// Parses the message of a commit.
    pub fn new(stored: &Stored) -> Self {
        let message = Message::parse(&stored.message);
        let last = |key: &str| message.trailers.last(key).map(|value| text(value));
        Self {
            commit: stored.id,
            date: Time(stored.committed_at),
            message: text(&stored.message),
            state: last("dwp-state"),
            run_id: last("dwp-run-id").or_else(|| last("dwp-stalled-run")),
            origin_state: last("dwp-origin-state"),
            trailers: message
                .trailers
                .iter()
                .map(|trailer| TrailerView { key: text(&trailer.key), value: text(&trailer.value) })
                .collect(),
        }
    }
}
