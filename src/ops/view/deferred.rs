//! A deferred state, as it waits beside its branch.

use bstr::ByteSlice;
use serde::Serialize;

use super::Time;
use crate::contract::deferred::wakes;
use crate::contract::ids::{BranchName, CommitId};
use crate::contract::message::Message;
use crate::git::Repo;
use crate::git::remote::QUESTION;
use crate::runner::authority::Authority;
use crate::runner::passes::deliver::{sender, undeliverable};

/// A state that waits until its branch is free.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeferredView {
    /// The commit of the slot.
    pub commit: String,
    /// The state.
    pub state: Option<String>,
    /// Its sender.
    pub sender: String,
    /// When, in seconds since the epoch. `None` if the slot is no commit that can be read.
    pub date: Option<Time>,
    /// Whether it replaces a parked state, and one that waits for an answer.
    pub wake: bool,
    /// Why it is not set until somebody acts, in words.
    pub stuck: Option<String>,
}

/// Builds the view of a slot.
pub(crate) fn deferred(repo: &Repo, slot: CommitId, stuck: Option<String>) -> DeferredView {
    let stored = repo.commit(slot).ok();
    let trailers = stored.as_ref().map(|stored| Message::parse(&stored.message).trailers).unwrap_or_default();
    DeferredView {
        commit: slot.to_string(),
        state: trailers.last("dwp-state").map(|state| state.to_str_lossy().into_owned()),
        sender: sender(repo, slot),
        date: stored.map(|stored| Time(stored.committed_at)),
        wake: wakes(&trailers),
        stuck,
    }
}

/// Builds the view of what waits beside a branch now. `None` if nothing does, or if it cannot be asked.
pub fn waiting(repo: &Repo, authority: &Authority, branch: &BranchName) -> Option<DeferredView> {
    let slot = authority.slot(repo, branch).ok()??;
    let head = authority.head(repo, branch, QUESTION).ok()?;
    Some(deferred(repo, slot, undeliverable(repo, branch, head, slot)))
}

impl DeferredView {
    /// Its sender, and when it is set, for people.
    pub fn left(&self) -> String {
        let when = match &self.stuck {
            Some(why) => format!("is not set: {why}"),
            None if self.wake => "is set when it is free or parked".to_owned(),
            None => "is set when it rests".to_owned(),
        };
        format!("left by {}, {when}", self.sender)
    }

    fn note(&self) -> String {
        format!("{}, {}", self.state.as_deref().unwrap_or("a state"), self.left())
    }

    /// Adds the deferred state to a reason.
    pub(super) fn add_to(&self, reason: &mut Option<String>) {
        let before = reason.as_deref().filter(|before| !before.is_empty());
        *reason = Some(before.map_or_else(|| self.note(), |before| format!("{before}; {}", self.note())));
    }
}
