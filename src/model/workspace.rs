//! The part of a workspace's context that is the same on all hosts.

use serde::{Deserialize, Serialize};

use super::ids::Alias;
use super::patch::patched;
use super::time::Timestamp;

/// Whether a workspace can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WorkspaceStatus {
    /// It can.
    Ready,
    /// It was removed. Its branch is archived.
    Removed,
}

patched! {
    /// A workspace, by name. Commits are hex.
    struct Workspace, WorkspacePatch;
    fixed {
        /// `flow`, or the alias of a node.
        name: Alias,
        /// Its work branch.
        branch_name: String,
        /// The base, as a full ref name or a commit.
        base_ref: String,
        /// The commit of the base.
        base_sha: String,
        /// The time of its creation.
        created_at: Timestamp,
    }
    open {
        /// Whether it can be used.
        status: WorkspaceStatus,
        /// The tip of the work branch.
        head_sha: String,
        /// How many times its worktree was made anew, from 0.
        generation: u64,
        /// The branch that was published.
        remote_branch: Option<String>,
        /// The proposal's address.
        pr_url: Option<String>,
    }
}

/// What happened to a workspace: the last part of its event's type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkspaceChange {
    /// A step's files became a commit.
    Snapshot,
    /// A worktree was put in order.
    Mended,
    /// Commits of a person were taken over.
    Adopted,
    /// It was put back to its base.
    RolledBack,
    /// It was removed.
    Removed,
}
