//! The error of an authority: a move that was neither won nor lost, or a failed read.
//!
//! Invariant: the variant alone shows whether the branch may have moved nevertheless.

use crate::contract::ids::{BranchName, RemoteName};
use crate::git::RefError;
use crate::git::remote::RemoteError;

/// Why a branch could not be moved or read.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// The local ref store failed.
    #[error(transparent)]
    Local(#[from] RefError),
    /// An exchange with the remote failed, so the outcome may be unknown.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// The server refused the move (CONTRACT 5.17).
    #[error("{remote} refuses to move {branch}: {reason}")]
    Refused {
        /// The remote.
        remote: RemoteName,
        /// The branch.
        branch: BranchName,
        /// The server's message.
        reason: String,
    },
    /// The server could not move the branch; a retry may succeed.
    #[error("{remote} could not move {branch}: {reason}")]
    Failed {
        /// The remote.
        remote: RemoteName,
        /// The branch.
        branch: BranchName,
        /// The server's message.
        reason: String,
    },
    /// The push was not answered, and neither was the query for the branch's HEAD.
    #[error("the push of {branch} to {remote} was not answered, and the remote could not be asked: {why}")]
    Unanswered {
        /// The remote.
        remote: RemoteName,
        /// The branch.
        branch: BranchName,
        /// The failure.
        why: String,
    },
    /// The push was not answered, and the branch is unchanged on the remote.
    #[error("the push of {branch} to {remote} broke off before it moved anything")]
    Unmoved {
        /// The remote.
        remote: RemoteName,
        /// The branch.
        branch: BranchName,
    },
}

impl AuthorityError {
    /// Whether a retry cannot help, because the server refused.
    pub(crate) fn is_final(&self) -> bool {
        matches!(self, Self::Refused { .. })
    }

    /// Whether the branch may have moved nevertheless. `None` if unknown.
    pub(crate) fn leaves_open(&self) -> Option<bool> {
        match self {
            Self::Unanswered { .. } => Some(true),
            Self::Local(_) | Self::Remote(_) => None,
            Self::Refused { .. } | Self::Failed { .. } | Self::Unmoved { .. } => Some(false),
        }
    }

    /// The remote of the error, if there is one.
    pub(crate) fn remote(&self) -> Option<&RemoteName> {
        match self {
            Self::Local(_) => None,
            Self::Remote(error) => error.remote(),
            Self::Refused { remote, .. }
            | Self::Failed { remote, .. }
            | Self::Unanswered { remote, .. }
            | Self::Unmoved { remote, .. } => Some(remote),
        }
    }

    /// Whether the remote is the cause (exit code 4).
    pub(crate) fn is_remote(&self) -> bool {
        match self {
            Self::Local(_) => false,
            Self::Remote(_)
            | Self::Refused { .. }
            | Self::Failed { .. }
            | Self::Unanswered { .. }
            | Self::Unmoved { .. } => true,
        }
    }
}
