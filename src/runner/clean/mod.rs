//! What finished attempts have left on this host, and removing what of it nobody needs any more.
//!
//! Invariant: a preview and the removal come from the same judgement, made anew under the hold of what is removed. Only what is proven
//! ours goes (the mark of a worktree, the names of files and refs that the runner makes), only once the attempt's lease is over, and
//! only if its content is in a branch, under a rescue ref, or was old enough for whoever asked (CONTRACT.md §9). Branches are never removed.

mod attempts;
mod item;
mod merged;
mod rescues;
mod settled;
mod worktrees;

use crate::contract::layout::own_directory;
use crate::git::Repo;

use crate::runner::attempt::files;

pub use item::{Action, CleanError, CleanOptions, Item, Kind};
pub use merged::Merged;

use item::disk_use;

/// All that was found.
#[derive(Debug, Clone)]
pub struct Report {
    /// Item by item.
    pub items: Vec<Item>,
    /// Attempts whose logs stay because they are too young, or among the newest of their branch.
    pub retained: usize,
    /// Branches whose work is in the main branch.
    pub merged: Vec<Merged>,
    /// Bytes on disk of worktrees, logs and records before.
    pub before: u64,
    /// The same afterwards; in a preview, what it would be.
    pub after: u64,
}

/// Looks at everything that is wished for, and removes it if that is wished for.
///
/// # Errors
/// Only if nothing could be looked at; what could not be removed is in the report.
pub fn clean(repo: &Repo, wanted: &CleanOptions) -> Result<Report, CleanError> {
    let before = used(repo)?;
    let mut items = Vec::new();
    let mut retained = 0;
    // Before worktrees: a commit that is just now rescued out of one may be old, and goes at the earliest with the next look.
    if wanted.rescue {
        items.extend(rescues::clean(repo, wanted)?);
    }
    if wanted.worktrees {
        items.extend(worktrees::clean(repo, wanted)?);
    }
    if wanted.logs {
        let (more, left) = attempts::clean(repo, wanted)?;
        items.extend(more);
        retained = left;
    }
    let merged = merged::merged(repo, wanted)?;
    let after = if wanted.apply {
        used(repo)?
    } else {
        let freed =
            items.iter().filter(|item| item.action == Action::Remove).filter_map(|item| item.bytes).sum();
        before.saturating_sub(freed)
    };
    Ok(Report { items, retained, merged, before, after })
}

/// What worktrees of ours, kept ones among them, logs and records take on disk.
fn used(repo: &Repo) -> Result<u64, CleanError> {
    let ours = repo.linked_worktrees()?.into_iter().filter(|registered| registered.mark().is_some());
    let kept = repo.kept_worktrees()?.into_iter().map(|kept| kept.checkout.place.path);
    let places = ours.map(|registered| registered.checkout.place.path).chain(kept);
    let files = [files::log_directory(repo), own_directory(repo.common_dir())];
    Ok(places.chain(files).map(|place| disk_use(&place)).sum())
}
