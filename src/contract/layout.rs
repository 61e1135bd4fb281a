//! Names in a repository that all its runners know: refs, and the directory of their own beside git's files.
//!
//! Invariant: each of these names is written here and nowhere else. What is below `refs/aynig/` and in `aynig/` is the runners'
//! (CONTRACT 5.19, 5.22, 5.24, 9.5, 9.15, 13.3); everything else is git's or a person's.

use std::path::{Path, PathBuf};

use bstr::{BString, ByteSlice};

use super::ids::{BranchName, RemoteName};

pub(crate) use super::ids::HEADS;

/// Branches of remotes, as a person's `git fetch` keeps them.
pub(crate) const TRACKED: &str = "refs/remotes/";

/// Tags.
pub(crate) const TAGS: &str = "refs/tags/";

/// All refs of runners.
pub(crate) const OURS: &str = "refs/aynig/";

/// Branches of remotes, as a runner fetches them.
pub(crate) const FETCHED: &str = "refs/aynig/remotes/";

/// Rescued work.
pub(crate) const RESCUES: &str = "refs/aynig/rescue/";

/// What `doctor` tries to push; it is never there.
pub(crate) const TRIED: &str = "refs/aynig/doctor/";

/// Everywhere that branches are.
pub(crate) const BRANCHES: [&str; 3] = [HEADS, TRACKED, FETCHED];

/// A ref's name as people say it.
pub(crate) fn short(name: &str) -> &str {
    BRANCHES.iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name)
}

/// Where the branches of `remote` are that a runner fetched.
pub(crate) fn fetched_from(remote: &RemoteName) -> String {
    format!("{FETCHED}{remote}/")
}

/// One branch of `remote` as a runner fetched it.
pub(crate) fn fetched_ref(remote: &RemoteName, branch: &BranchName) -> BString {
    [fetched_from(remote).as_bytes(), branch.as_bstr()].concat().into()
}

/// Where the work of an attempt on a branch is saved, unless other work has that name; `label` is the attempt's id.
pub(crate) fn rescue_ref(branch: &BranchName, label: &str) -> BString {
    [RESCUES.as_bytes(), branch.as_bstr().as_bytes(), b"/", label.as_bytes()].concat().into()
}

/// The runners' own directory in the one that all worktrees share.
pub(crate) fn own_directory(common_dir: &Path) -> PathBuf {
    common_dir.join("aynig")
}

/// What lies in [`own_directory`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Own {
    /// Records of attempts.
    Attempts,
    /// Copies of commands that come from elsewhere.
    Commands,
    /// Announced moves of refs.
    Moves,
    /// Clean worktrees for next steps.
    Pool,
    /// A registration of a worktree that is being made or taken apart.
    Registering,
    /// The turns of those who fetch from a remote.
    Remotes,
    /// Since when leases have been seen.
    Sightings,
}

impl Own {
    /// Where it is.
    pub(crate) fn within(self, common_dir: &Path) -> PathBuf {
        own_directory(common_dir).join(match self {
            Self::Attempts => "attempts",
            Self::Commands => "commands",
            Self::Moves => "moves",
            Self::Pool => "pool",
            Self::Registering => "registering",
            Self::Remotes => "remotes",
            Self::Sightings => "sightings",
        })
    }
}
