//! State commits by hand.

use serde::Serialize;

use super::Time;
use crate::contract::ids::{BranchName, CommitId, StateName};
use crate::ops::declare::{Left, Written, WrittenLease};

/// A state commit that has landed.
#[derive(Debug, Serialize)]
pub struct WrittenView<'a> {
    branch: &'a BranchName,
    state: &'a StateName,
    commit: CommitId,
    previous: Option<&'a StateName>,
    parent: Option<CommitId>,
}

/// A state that waits beside its branch.
#[derive(Debug, Serialize)]
pub struct LeftView<'a> {
    branch: &'a BranchName,
    state: &'a StateName,
    deferred: CommitId,
    again: bool,
    delivered: bool,
}

impl<'a> From<&'a Left> for LeftView<'a> {
    fn from(left: &'a Left) -> Self {
        let Left { branch, state, commit, again, delivered } = left;
        Self { branch, state, deferred: *commit, again: *again, delivered: *delivered }
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
    runner: String,
    lease_seconds: u64,
    expires_at: Time,
}

impl<'a> From<&'a Written> for WrittenView<'a> {
    fn from(written: &'a Written) -> Self {
        let Written { branch, parent, previous, commit, state, .. } = written;
        Self { branch, state, commit: *commit, previous: previous.as_ref(), parent: *parent }
    }
}

impl<'a> From<&'a WrittenLease> for WrittenLeaseView<'a> {
    fn from(WrittenLease { written, lease, .. }: &'a WrittenLease) -> Self {
        Self {
            written: written.into(),
            origin_state: lease.origin.as_ref().map(ToString::to_string),
            run_id: lease.run_id.to_string(),
            runner: lease.runner.to_string(),
            lease_seconds: lease.seconds,
            expires_at: Time(lease.expires_at()),
        }
    }
}
