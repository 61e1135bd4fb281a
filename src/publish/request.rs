//! The request.

use crate::contract::ids::{BranchName, RemoteName};

use super::proposal::Forge;

/// A request to publish a workspace.
#[derive(Debug, Clone)]
pub struct Request {
    /// The remote.
    pub remote: RemoteName,
    /// The branch to merge into. `None`: the one that the work began from.
    pub base: Option<BranchName>,
    /// The branch to publish as. `None`: the name of the work branch.
    pub branch: Option<BranchName>,
    /// Whether all changes become one commit.
    pub squash: bool,
    /// Whether a new proposal is a draft.
    pub draft: bool,
    /// The maker of the proposal.
    pub forge: Forge,
    /// The label of the run.
    pub label: String,
}
