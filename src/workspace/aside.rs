//! The directories beside a worktree that is made anew (CONTRACT 15.7).
//!
//! Invariant: a `.kept-` directory stays, and the contents of a `.gone-` one are saved. A `.new-` one was never at its
//! place; until git has written its index, all its files are git's.

use std::path::{Path, PathBuf};

use crate::git::worktrees::registration::Workplace;

use super::context::is_numbered;

/// A free name beside a worktree: `NAME.kept-1` for a directory that stays, `NAME.gone-1` for one that is being removed,
/// `NAME.new-1` for one that is being made.
pub(super) fn left(path: &Path, word: &str, generation: u32) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let numbered = |number: u32| {
        let more = if number > 1 { format!("-{number}") } else { String::new() };
        path.with_file_name(format!("{name}.{word}-{generation}{more}"))
    };
    let free = (1..u32::MAX).map(numbered).find(|path| path.symlink_metadata().is_err());
    free.unwrap_or_else(|| numbered(u32::MAX))
}

/// The directories that rollbacks left beside a worktree, whose names have this mark.
pub(super) fn leftovers(path: &Path, mark: &str) -> Vec<PathBuf> {
    let begin = format!("{}{mark}", path.file_name().unwrap_or_default().to_string_lossy());
    let beside = path.parent().and_then(|above| std::fs::read_dir(above).ok());
    let names = beside.into_iter().flatten().flatten().map(|entry| entry.path());
    let is_its = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.strip_prefix(&begin).is_some_and(is_numbered)
    };
    let mut found: Vec<PathBuf> = names.filter(is_its).collect();
    found.sort();
    found
}

/// Where the worktree of a registration is, of all places that a change of the worktree at `path` gives it.
pub(super) fn found_at(path: &Path, registration: &Workplace) -> Option<PathBuf> {
    let is_its = |at: &PathBuf| {
        Workplace { path: at.clone(), git_dir: registration.git_dir.clone() }.names_its_registration()
    };
    let beside = [".gone-", ".new-", ".kept-"].into_iter().flat_map(|mark| leftovers(path, mark));
    std::iter::once(path.to_owned()).chain(beside).find(is_its)
}

/// Removes the empty directories in which a killed process was about to make a worktree.
pub(super) fn clear_drafts(path: &Path) {
    for draft in leftovers(path, ".new-") {
        if let Err(error) = std::fs::remove_dir(&draft) {
            tracing::debug!(draft = %draft.display(), %error, "left as it is");
        }
    }
}
