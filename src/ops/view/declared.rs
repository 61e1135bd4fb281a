//! State commits by hand.

use serde::Serialize;

use super::Time;
use super::deferred::{DeferredView, deferred};
use crate::contract::ids::{BranchName, CommitId, StateName};
use crate::git::Repo;
use crate::ops::declare::{Left, Withdrawn, Written, WrittenLease};
use crate::ops::error::Error;

/// A state commit that has landed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WrittenView<'a> {
    branch: &'a BranchName,
    state: &'a StateName,
    commit: CommitId,
    previous_state: Option<&'a StateName>,
    parent: Option<CommitId>,
}

/// The effect of `set-state` on one branch.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SetView {
    branch: BranchName,
    outcome: &'static str,
    state: Option<StateName>,
    commit: Option<CommitId>,
    previous_state: Option<StateName>,
    parent: Option<CommitId>,
    deferred: Option<DeferredView>,
    replaced: Option<CommitId>,
    reason: Option<String>,
}

impl SetView {
    fn new(branch: &BranchName, outcome: &'static str) -> Self {
        let branch = branch.clone();
        let (state, commit, previous_state, parent, deferred, replaced, reason) = Default::default();
        Self { branch, outcome, state, commit, previous_state, parent, deferred, replaced, reason }
    }

    /// The state was set.
    pub fn set(written: &Written) -> Self {
        let Written { branch, parent, previous, commit, state, .. } = written;
        Self {
            state: Some(state.clone()),
            commit: Some(*commit),
            previous_state: previous.clone(),
            parent: *parent,
            ..Self::new(branch, "set")
        }
    }

    /// The state was left beside its branch.
    pub fn left(repo: &Repo, left: &Left) -> Self {
        let outcome = match left {
            Left { delivered: true, .. } => "delivered",
            Left { again: true, .. } => "alreadyDeferred",
            Left { .. } => "deferred",
        };
        Self {
            state: Some(left.state.clone()),
            deferred: Some(deferred(repo, left.commit, None)),
            replaced: left.replaced.as_ref().map(|replaced| replaced.slot),
            ..Self::new(&left.branch, outcome)
        }
    }

    /// The state beside the branch was removed.
    pub fn withdrawn(repo: &Repo, withdrawn: &Withdrawn) -> Self {
        let deferred = Some(deferred(repo, withdrawn.slot, withdrawn.stuck.clone()));
        Self { deferred, ..Self::new(&withdrawn.branch, "withdrawn") }
    }

    /// The state could not be set.
    pub fn failed(branch: &BranchName, error: &Error) -> Self {
        Self { reason: Some(error.message.clone()), ..Self::new(branch, "failed") }
    }
}

/// A lease that has landed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WrittenLeaseView<'a> {
    #[serde(flatten)]
    written: WrittenView<'a>,
    origin_state: Option<String>,
    run_id: String,
    runner: Option<String>,
    lease_seconds: u64,
    expires_at: Time,
}

impl<'a> From<&'a Written> for WrittenView<'a> {
    fn from(written: &'a Written) -> Self {
        let Written { branch, parent, previous, commit, state, .. } = written;
        Self { branch, state, commit: *commit, previous_state: previous.as_ref(), parent: *parent }
    }
}

impl<'a> From<&'a WrittenLease> for WrittenLeaseView<'a> {
    fn from(WrittenLease { written, lease, .. }: &'a WrittenLease) -> Self {
        Self {
            written: written.into(),
            origin_state: lease.origin.as_ref().map(ToString::to_string),
            run_id: lease.run_id.to_string(),
            runner: Some(lease.runner.to_string()).filter(|name| !name.is_empty()),
            lease_seconds: lease.seconds,
            expires_at: Time(lease.expires_at()),
        }
    }
}
