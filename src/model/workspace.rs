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
        /// The number of the last step before it was put back to its base. `None` if that was undone, or never happened.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rolled_back_after: Option<u64>,
        /// All publications, one for each remote, branch and base.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        published: Vec<Publication>,
    }
}

/// Work that was published as a branch of a remote, to be merged into another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Publication {
    /// The remote: its host and path, else its address. Without a user's name or password.
    pub remote: String,
    /// The branch there.
    pub branch: String,
    /// The branch that it is to be merged into.
    pub base: String,
    /// The commit that we put on the branch: the only one that a later push replaces.
    pub commit: String,
    /// The commit of the work branch that it shows.
    pub head: String,
    /// Whether `commit` is one commit with all changes.
    #[serde(default)]
    pub squashed: bool,
    /// The proposal's address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The SHA-256 of the title and the text that we gave the proposal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// How often it was recorded. Of two hosts' records the higher one is newer.
    pub count: u64,
}

impl Publication {
    /// Whether another one is about the same remote, branch and base.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        (&self.remote, &self.branch, &self.base) == (&other.remote, &other.branch, &other.base)
    }

    /// Adds the newer ones among `more` to `known`.
    pub fn merge(known: &mut Vec<Self>, more: &[Self]) {
        for one in more {
            match known.iter_mut().find(|other| other.is_same(one)) {
                Some(other) if other.count < one.count => other.clone_from(one),
                Some(_) => {}
                None => known.push(one.clone()),
            }
        }
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
    /// Its work was pushed to a branch of a remote.
    Pushed,
    /// Its work is proposed there.
    Proposed,
}
