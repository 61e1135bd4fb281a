//! The results of changes that make a worktree anew.

use std::path::PathBuf;

use crate::git::contents::ignored::IgnoredUse;

use super::context::Context;

/// The worktree that was made.
#[derive(Debug, Clone)]
pub struct Remade {
    /// The context now.
    pub context: Context,
    /// The ref that what was there before is saved under, unless the branch has all of it.
    pub rescue: Option<String>,
    /// The old directory and why it stays.
    pub kept: Option<(PathBuf, String)>,
    /// Its ignored contents, which were not saved.
    pub ignored: IgnoredUse,
    /// What the user should know besides.
    pub warnings: Vec<String>,
}

impl Remade {
    /// What the user should know, also of a change that was finished for another call.
    pub(super) fn told(self) -> Vec<String> {
        let Self { mut warnings, kept, .. } = self;
        let stays =
            |(path, why): (PathBuf, String)| format!("the old worktree stays at {}: {why}", path.display());
        warnings.extend(kept.map(stays));
        warnings
    }
}

/// A change that a dead process had begun.
#[derive(Debug)]
pub(super) struct Finished {
    /// Whether it was the undoing of a rollback.
    pub(super) is_undo: bool,
    /// Whether its warnings were printed.
    pub(super) is_told: bool,
    pub(super) remade: Remade,
}
