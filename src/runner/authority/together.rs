//! Moves several refs in one step, in this repository or on a remote (CONTRACT 5.28).
//!
//! Invariant: won means that all refs were moved, lost that none was moved by us. An unanswered push is
//! looked up.

use std::time::Duration;

use bstr::ByteSlice;

use crate::contract::ids::{BranchName, CommitId, RemoteName};
use crate::contract::layout::slot_ref;
use crate::git::atomic::Unmoved;
use crate::git::refs::list::Tip;
use crate::git::remote::{PATIENCE, QUESTION};
use crate::git::{RefChange, RefError, Repo, Together};
use crate::runner::authority::Authority;
use crate::runner::authority::error::AuthorityError;

impl Authority {
    /// Makes all `changes` or none. They are about `branch`; `log` is the message for the reflogs.
    pub fn swap_together(
        &self,
        repo: &Repo,
        branch: &BranchName,
        changes: &[RefChange],
        log: &str,
    ) -> Result<Together, AuthorityError> {
        match self {
            Self::Local => Ok(repo.swap_together(changes, log)?),
            Self::Remote(remote) => {
                let moved = push(repo, remote.name(), branch, changes, PATIENCE)?;
                let head = changes.iter().find(|change| change.name == branch.full_ref());
                if let (Together::Won, Some(head)) = (&moved, head.and_then(|change| change.new)) {
                    repo.note_fetched(remote.name(), branch, head);
                }
                Ok(moved)
            }
        }
    }

    /// Lists the deferred states, as of the last [`refresh`](Self::refresh).
    pub fn slots(&self, repo: &Repo) -> Result<Vec<Tip>, RefError> {
        repo.slots(self.source())
    }

    /// The deferred state of a branch now, with its commit.
    pub(crate) fn slot(&self, repo: &Repo, branch: &BranchName) -> Result<Option<CommitId>, AuthorityError> {
        let slot = self.slot_name(repo, branch)?;
        if let (Self::Remote(remote), Some(slot)) = (self, slot)
            && repo.commit(slot).is_err()
        {
            repo.fetch_slot(remote.name(), branch, QUESTION)?;
        }
        Ok(slot)
    }

    /// The name of the object that a branch has for a deferred state now. It need not be in this clone.
    pub(crate) fn slot_name(
        &self,
        repo: &Repo,
        branch: &BranchName,
    ) -> Result<Option<CommitId>, AuthorityError> {
        let name = slot_ref(branch);
        match self {
            Self::Local => Ok(repo.read_ref(name.as_bstr())?),
            Self::Remote(remote) => {
                let asked = repo.ask_refs(remote.name(), std::slice::from_ref(&name), QUESTION)?;
                Ok(asked.get(&name).copied())
            }
        }
    }
}

fn push(
    repo: &Repo,
    remote: &RemoteName,
    branch: &BranchName,
    changes: &[RefChange],
    within: Duration,
) -> Result<Together, AuthorityError> {
    repo.move_together(remote, changes, within).map_err(|error| {
        let (remote, branch) = (remote.clone(), branch.clone());
        match error {
            Unmoved::Refused(reason) => AuthorityError::Refused { remote, branch, reason },
            Unmoved::Failed(reason) => AuthorityError::Failed { remote, branch, reason },
            Unmoved::Unanswered(error) => {
                AuthorityError::Unanswered { remote, branch, why: crate::words::error_chain(&error) }
            }
            Unmoved::BrokeOff => AuthorityError::Unmoved { remote, branch },
        }
    })
}
