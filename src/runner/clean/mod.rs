//! Lists what finished attempts left on this host, and removes the part that is no longer needed.
//!
//! Invariant: the preview and the removal use the same check, and the removal repeats it while holding the
//! item's lock. An item is removed only if it is provably a runner's: by the mark of a worktree, or by the
//! name of a file or ref. Its attempt's lease must be over. Its content must be in a branch or under a rescue
//! ref, or be older than the given age (CONTRACT 9.5). Branches are never removed.

mod attempts;
mod item;
mod merged;
mod rescues;
mod settled;
mod slots;
mod worktrees;

use serde::Serialize;

use crate::contract::layout::own_directory;
use crate::fsutil::disk_use;
use crate::git::Repo;

use crate::runner::attempt::files;

pub use item::{Action, CleanError, CleanOptions, Item, Kind, Lasting};
pub use merged::Merged;
pub use slots::{Stranded, stranded};

pub(crate) use item::Age;
pub(crate) use rescues::landed;

/// The result of [`clean`]. Names and order of its fields in JSON are a promise to scripts.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Whether items were removed, or only listed.
    pub applied: bool,
    /// The items found.
    pub items: Vec<Item>,
    /// The number of attempts whose logs stay: too young, or among the newest of their branch.
    #[serde(rename = "retainedAttempts")]
    pub retained: usize,
    /// Branches whose work is in the main branch.
    #[serde(rename = "mergedBranches")]
    pub merged: Vec<Merged>,
    /// Disk use of worktrees, logs and records before, in bytes.
    #[serde(rename = "bytesBefore")]
    pub before: u64,
    /// Disk use afterwards, in bytes; in a preview, the estimate.
    #[serde(rename = "bytesAfter")]
    pub after: u64,
}

/// Looks at the requested kinds of items, and removes them if `wanted.apply` is set.
///
/// # Errors
/// Only if nothing could be listed. A failed removal is an item of the report.
pub fn clean(repo: &Repo, wanted: &CleanOptions) -> Result<Report, CleanError> {
    let before = used(repo)?;
    let mut items = Vec::new();
    let mut retained = 0;
    // Before worktrees: a commit rescued from one of them in this call may be old, and stays at least until
    // the next call.
    if wanted.rescue {
        items.extend(rescues::clean(repo, wanted)?);
    }
    if wanted.worktrees {
        items.extend(worktrees::clean(repo, wanted)?);
    }
    if wanted.worktrees || wanted.workspaces {
        items.extend(worktrees::clean_all_kept(repo, wanted)?);
    }
    if wanted.logs {
        let (more, left) = attempts::clean(repo, wanted)?;
        items.extend(more);
        retained = left;
    }
    if wanted.deferred {
        items.extend(slots::clean(repo, wanted)?);
    }
    let merged = merged::merged(repo, wanted)?;
    let after = if wanted.apply {
        used(repo)?
    } else {
        let freed =
            items.iter().filter(|item| item.action == Action::Remove).filter_map(|item| item.bytes).sum();
        before.saturating_sub(freed)
    };
    Ok(Report { applied: wanted.apply, items, retained, merged, before, after })
}

impl Report {
    /// Adds findings whose disk use was not counted.
    pub fn add(&mut self, items: Vec<Item>) {
        let going = |item: &&Item| matches!(item.action, Action::Remove | Action::Removed);
        let all: u64 = items.iter().filter_map(|item| item.bytes).sum();
        let freed: u64 = items.iter().filter(going).filter_map(|item| item.bytes).sum();
        self.before += all;
        self.after += all.saturating_sub(freed);
        self.items.extend(items);
    }
}

/// Disk use of our worktrees (kept ones included), logs and records, in bytes.
fn used(repo: &Repo) -> Result<u64, CleanError> {
    let ours = repo.linked_worktrees()?.into_iter().filter(|registered| registered.mark().is_some());
    let kept = repo.kept_worktrees()?.into_iter().map(|kept| kept.checkout.place.path);
    let places = ours.map(|registered| registered.checkout.place.path).chain(kept);
    let files = [files::log_directory(repo), own_directory(repo.common_dir())];
    Ok(places.chain(files).map(|place| disk_use(&place)).sum())
}
