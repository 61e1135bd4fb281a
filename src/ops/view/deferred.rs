//! A deferred state, as it waits beside its branch.

use bstr::ByteSlice;
use serde::Serialize;

use super::Time;
use crate::contract::deferred::wakes;
use crate::contract::ids::{BranchName, CommitId};
use crate::contract::message::Message;
use crate::git::Repo;
use crate::runner::authority::Authority;
use crate::runner::passes::deliver::sender;

/// A state that waits until its branch is free.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeferredView {
    /// The commit of the slot.
    pub commit: String,
    /// The state.
    pub state: Option<String>,
    /// Its sender.
    pub sender: String,
    /// When, in seconds since the epoch.
    pub date: Time,
    /// Whether it replaces a parked state, and one that waits for an answer.
    pub wake: bool,
}

/// Builds the view of a slot. `None` if its commit cannot be read.
pub(crate) fn deferred(repo: &Repo, slot: CommitId) -> Option<DeferredView> {
    let stored = repo.commit(slot).ok()?;
    let trailers = Message::parse(&stored.message).trailers;
    Some(DeferredView {
        commit: slot.to_string(),
        state: trailers.last("dwp-state").map(|state| state.to_str_lossy().into_owned()),
        sender: sender(repo, slot),
        date: Time(stored.committed_at),
        wake: wakes(&trailers),
    })
}

/// Builds the view of what waits beside a branch now. `None` if nothing does, or if it cannot be asked.
pub fn waiting(repo: &Repo, authority: &Authority, branch: &BranchName) -> Option<DeferredView> {
    deferred(repo, authority.slot(repo, branch).ok()??)
}

impl DeferredView {
    /// When it is set, for people.
    pub fn when(&self) -> &'static str {
        if self.wake { "when it is free or parked" } else { "when it rests" }
    }

    fn note(&self) -> String {
        let state = self.state.as_deref().unwrap_or("a state");
        format!("{state}, left by {}, is set {}", self.sender, self.when())
    }

    /// Adds the deferred state to a reason.
    pub(super) fn add_to(&self, reason: &mut Option<String>) {
        let before = reason.as_deref().filter(|before| !before.is_empty());
        *reason = Some(before.map_or_else(|| self.note(), |before| format!("{before}; {}", self.note())));
    }
}
