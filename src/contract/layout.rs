//! Names in a repository that all its runners share: refs, and their directory `aynig` in the git
//! directory.
//!
//! Invariant: each of these names is written only here. The runners own `refs/aynig/` and `aynig/`
//! (CONTRACT 5.19, 5.22, 5.24, 9.5, 9.15, 13.3); everything else belongs to git or the user.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bstr::{BString, ByteSlice};

use super::ids::{AttemptId, BranchName, RemoteName};

pub(crate) use super::ids::HEADS;

/// Remote-tracking branches, as the user's `git fetch` writes them.
pub(crate) const TRACKED: &str = "refs/remotes/";

pub(crate) const TAGS: &str = "refs/tags/";

/// All refs of runners.
pub(crate) const OURS: &str = "refs/aynig/";

/// Remote branches, as a runner fetches them.
pub(crate) const FETCHED: &str = "refs/aynig/remotes/";

/// Rescued work.
pub(crate) const RESCUES: &str = "refs/aynig/rescue/";

/// Newest commits of ledgers that a hub has set back, by run and commit.
pub(crate) const RESCUED_LEDGERS: &str = "refs/aynig/rescue/ledgers/";

/// Deferred states, one a branch.
pub(crate) const SLOTS: &str = "refs/aynig/deferred/";

/// Deferred states of remotes, as a runner fetches them.
pub(crate) const FETCHED_SLOTS: &str = "refs/aynig/slots/";

/// Ledgers of runs, by id.
pub(crate) const RUNS: &str = "refs/aynig/runs/";

/// Ledgers of remotes, as last fetched. They count only once they are taken over below [`RUNS`].
pub(crate) const FETCHED_RUNS: &str = "refs/aynig/ledgers/";

/// Work branches on hubs, by run: no branches there, so that snapshots start nothing.
pub(crate) const WORKS: &str = "refs/aynig/work/";

/// The beginning of the names of drivers.
pub(crate) const RUN_PREFIX: &str = "run/";

/// Objects that git shows in place of others (`git replace`).
pub(crate) const REPLACED: &str = "refs/replace/";

/// The domain of the addresses under which programs of steps commit. Nothing of ours is committed under it but work.
pub(crate) const WORKSPACE_DOMAIN: &str = "workspace.aynig.invalid";

/// Whether an address is one under which programs of steps commit.
pub(crate) fn is_of_a_workspace(address: &[u8]) -> bool {
    let domain = address.rsplit(|byte| *byte == b'@').next().unwrap_or_default();
    address.contains(&b'@') && domain.eq_ignore_ascii_case(WORKSPACE_DOMAIN.as_bytes())
}

/// The directory of a run's workspaces, in the directory of the run.
pub(crate) const WORKSPACES: &str = "workspaces";

/// The mark of an attempt that works in the worktree of a run, in the directory of the run. It begins with the attempt's id.
pub(crate) const MARK: &str = "attempt";

/// The directory of the marks of nodes, below a run's, each named by its alias.
pub(crate) const MARKS: &str = "attempts";

/// Work branches of workspaces that were removed, and ledgers of runs that were deleted, by run.
pub(crate) const ARCHIVE: &str = "refs/aynig/archive/";

/// The last part of the name of a deleted run's ledger.
pub(crate) const ARCHIVED_LEDGER: &str = "@ledger";

/// Where `doctor` tries to push; no ref here ever exists.
pub(crate) const TRIED: &str = "refs/aynig/doctor/";

/// All prefixes of branches.
pub(crate) const BRANCHES: [&str; 3] = [HEADS, TRACKED, FETCHED];

/// The refs with the name of a directory of ours. While there is one, git makes no ref in that directory.
pub(crate) fn in_the_way<T: Clone>(all: &BTreeMap<String, T>) -> BTreeMap<String, T> {
    const DIRECTORIES: [&str; 9] =
        [FETCHED, RESCUES, SLOTS, FETCHED_SLOTS, RUNS, FETCHED_RUNS, WORKS, ARCHIVE, TRIED];
    // Below these comes the name of a run or a remote, and more.
    const OF_NAMES: [&str; 4] = [ARCHIVE, WORKS, FETCHED, FETCHED_SLOTS];
    let is_branch = |name: &str| all.contains_key(&format!("{HEADS}{name}"));
    let is_above_a_branch = |name: &str| {
        let below = format!("{HEADS}{name}/");
        all.range(below.clone()..).next().is_some_and(|(first, _)| first.starts_with(&below))
    };
    let is_in_the_way = |name: &str| {
        let below = |directory: &str| name.strip_prefix(directory);
        DIRECTORIES.iter().any(|directory| directory.strip_suffix('/') == Some(name))
            || OF_NAMES.iter().any(|directory| below(directory).is_some_and(|rest| !rest.contains('/')))
            || below(RESCUES)
                .is_some_and(|rest| !rest.contains('/') || is_branch(rest) || is_above_a_branch(rest))
            || below(RESCUED_LEDGERS).is_some_and(|run| uuid::Uuid::try_parse(run).is_ok())
            || below(SLOTS).is_some_and(is_above_a_branch)
    };
    let ours = all.range(OURS.to_owned()..).take_while(|(name, _)| name.starts_with(OURS));
    ours.filter(|(name, _)| is_in_the_way(name)).map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// A ref's name without its branch prefix.
pub(crate) fn short(name: &str) -> &str {
    BRANCHES.iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name)
}

/// The prefix of the branches of `remote` that a runner fetched.
pub(crate) fn fetched_from(remote: &RemoteName) -> String {
    format!("{FETCHED}{remote}/")
}

/// The ref of one branch of `remote` that a runner fetched.
pub(crate) fn fetched_ref(remote: &RemoteName, branch: &BranchName) -> BString {
    [fetched_from(remote).as_bytes(), branch.as_bstr()].concat().into()
}

/// The ref that has the work branch of a removed workspace.
pub(crate) fn archive_ref(run: AttemptId, name: &str) -> BString {
    format!("{ARCHIVE}{run}/{name}").into()
}

/// The ref of the work branch of a workspace, at the remote that decides its run.
pub(crate) fn work_ref(run: impl std::fmt::Display, name: &str) -> BString {
    format!("{WORKS}{run}/{name}").into()
}

/// The ref that has the ledger of a deleted run. No workspace has its name, since an `@` is in none of them.
pub(crate) fn archived_ledger(run: impl std::fmt::Display) -> BString {
    format!("{ARCHIVE}{run}/{ARCHIVED_LEDGER}").into()
}

/// The ref of the deferred state of a branch.
pub(crate) fn slot_ref(branch: &BranchName) -> BString {
    [SLOTS.as_bytes(), branch.as_bstr()].concat().into()
}

/// The prefix of the deferred states of `remote` that a runner fetched.
pub(crate) fn fetched_slots(remote: &RemoteName) -> String {
    format!("{FETCHED_SLOTS}{remote}/")
}

/// The ref for the saved work of an attempt on a branch, unless the name is taken; `label` is the
/// attempt's id.
pub(crate) fn rescue_ref(branch: &BranchName, label: &str) -> BString {
    [RESCUES.as_bytes(), branch.as_bstr().as_bytes(), b"/", label.as_bytes()].concat().into()
}

/// The runners' directory in the shared git directory.
pub fn own_directory(common_dir: &Path) -> PathBuf {
    common_dir.join("aynig")
}

/// The entries of [`own_directory`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Own {
    /// Records of attempts.
    Attempts,
    /// Copies of commands (CONTRACT 13.3).
    Commands,
    /// Announced ref moves (CONTRACT 5.24).
    Moves,
    /// Clean worktrees for later steps (CONTRACT 9.15).
    Pool,
    /// Registrations of worktrees that are being made or removed.
    Registering,
    /// The directory whose lock serialises changes of fetched refs.
    Remotes,
    /// Which warnings were printed (CONTRACT 11.26).
    Said,
    /// When leases were first seen (CONTRACT 5.22).
    Sightings,
    /// The directory whose lock says which process asks remotes about ledgers.
    Watch,
}

impl Own {
    /// The path of this entry.
    pub(crate) fn within(self, common_dir: &Path) -> PathBuf {
        own_directory(common_dir).join(match self {
            Self::Attempts => "attempts",
            Self::Commands => "commands",
            Self::Moves => "moves",
            Self::Pool => "pool",
            Self::Registering => "registering",
            Self::Remotes => "remotes",
            Self::Said => "said",
            Self::Sightings => "sightings",
            Self::Watch => "watch",
        })
    }
}
