//! Why a branch was neither moved nor found moved: what `authority` and `pushes` both fail with.
//!
//! Invariant: whether the branch may have moved all the same is read off the variant, never off its words.

use crate::contract::ids::{BranchName, RemoteName};
use crate::git::RefError;
use crate::git::remote::RemoteError;

/// Why a branch could not be moved or read: neither won nor lost.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// The local ref store.
    #[error(transparent)]
    Local(#[from] RefError),
    /// The remote could not be talked to, so the outcome may be unknown.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// The server said no.
    #[error("{remote} refuses to move {branch}: {reason}")]
    Refused {
        /// Which remote.
        remote: RemoteName,
        /// Which branch.
        branch: BranchName,
        /// The server's own words.
        reason: String,
    },
    /// The server was asked and could not; it may be able to in a moment.
    #[error("{remote} could not move {branch}: {reason}")]
    Failed {
        /// Which remote.
        remote: RemoteName,
        /// Which branch.
        branch: BranchName,
        /// The server's own words.
        reason: String,
    },
    /// The push was not answered, and neither was the question what became of it.
    #[error("the push of {branch} to {remote} was not answered, and the remote could not be asked: {why}")]
    Unanswered {
        /// Which remote.
        remote: RemoteName,
        /// Which branch.
        branch: BranchName,
        /// What went wrong.
        why: String,
    },
    /// The push was not answered, and the remote has the branch where it was.
    #[error("the push of {branch} to {remote} broke off before it moved anything")]
    Unmoved {
        /// Which remote.
        remote: RemoteName,
        /// Which branch.
        branch: BranchName,
    },
}

impl AuthorityError {
    /// Whether trying again cannot help: the server understood and said no.
    pub(crate) fn is_final(&self) -> bool {
        matches!(self, Self::Refused { .. })
    }

    /// Whether the branch may have been moved all the same; `None` if nothing was learnt of that.
    pub(crate) fn leaves_open(&self) -> Option<bool> {
        match self {
            Self::Unanswered { .. } => Some(true),
            Self::Local(_) | Self::Remote(_) => None,
            Self::Refused { .. } | Self::Failed { .. } | Self::Unmoved { .. } => Some(false),
        }
    }

    /// Which remote it is about, where it is about one.
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

    /// Whether the remote is to blame (exit code 4).
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
