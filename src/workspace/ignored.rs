//! Files that the new worktree takes from one that is made anew without being rolled back: ignored files and ignored
//! repositories, so that build caches stay warm (CONTRACT 15.6), and keys, which no snapshot takes (CONTRACT 15.16).
//!
//! Invariant: a file or a repository is renamed, never copied over another one, and an ignored one only if the new worktree ignores it,
//! too. Whatever cannot be renamed stays in the old directory, which is registered and named.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};

use crate::crashpoint::{Point, reach};
use crate::git::contents::ignored::Ignored;
use crate::git::process::call::ProcessError;
use crate::git::worktrees::held::Worktree;
use crate::runner::attempt::include::{leads_elsewhere, make_way};
use crate::words::error_chain;

use super::Workspaces;
use super::store::Held;

impl Workspaces<'_> {
    /// Moves the ignored files and the keys of the old worktree at `old` into the new one, and takes the old one off
    /// git's list; `false` if it has to stay.
    pub(super) fn carry_ignored(&self, held: &Held, old: &Path, new: &Worktree) -> Result<bool, String> {
        let words = |error: &dyn std::error::Error| error_chain(error);
        let all = self.repo.kept_worktrees().map_err(|error| words(&error))?;
        let Some(kept) = all.into_iter().find(|kept| kept.checkout.place.path == old) else {
            return Ok(false);
        };
        let pending = held.context.pending.as_ref();
        let keys = pending.map_or_else(
            || Ok(BTreeSet::new()),
            |pending| self.saved_keys(old, pending.to(), pending.rescue.as_deref()),
        );
        let keys = keys.map_err(|error| words(&error))?;
        let held = self.repo.hold_kept(&kept, &held.context.branch()).map_err(|error| words(&error))?;
        let Some(from) = held else { return Ok(false) };
        let Ignored { files, repositories } = self.repo.ignored(&from).map_err(|error| words(&error))?;
        let links = self.repo.links_of(new).map_err(|error| words(&error))?;
        // A submodule of the new worktree may be another commit of it, or not be there.
        let fits = |path: &&PathBuf| {
            !leads_elsewhere(&new.path, path) && !links.iter().any(|(link, _)| path.starts_with(link))
        };
        let fit: BTreeSet<PathBuf> = files.iter().filter(fits).cloned().collect();
        let mut fit = self.repo.ignored_in(new, &fit).map_err(|error| words(&error))?;
        fit.extend(keys.iter().filter(fits).cloned());
        // Git is asked for a file in each: where it is due, there is no directory yet.
        let inside = repositories.iter().filter(fits).map(|path| path.join(".git")).collect();
        let inside = self.repo.ignored_in(new, &inside).map_err(|error| words(&error))?;
        fit.extend(inside.iter().filter_map(|path| path.parent()).map(Path::to_owned));
        let mut moved = 0;
        for path in &fit {
            let renamed = make_way(&new.path, path, &mut BTreeSet::new()).map_err(|error| words(&error));
            let (source, target) = (old.join(path), new.path.join(path));
            let rename = || renameat2(AT_FDCWD, &source, AT_FDCWD, &target, RenameFlags::RENAME_NOREPLACE);
            match renamed.and_then(|()| rename().map_err(|error| words(&error))) {
                Ok(()) => {
                    moved += 1;
                    reach(Point::IgnoredMoved);
                }
                Err(error) => tracing::debug!(path = %source.display(), %error, "left in place"),
            }
        }
        if moved < files.len() + repositories.len() + keys.len() {
            return Ok(false);
        }
        self.carry_empty(&from, new).map_err(|error| words(&error))?;
        reach(Point::IgnoredCarried);
        self.repo.forget_worktree(&from).map_err(|error| words(&error))?;
        Ok(true)
    }

    /// Makes the empty directories that git ignores in the old worktree in the new one: a bare repository needs its own.
    fn carry_empty(&self, from: &Worktree, new: &Worktree) -> Result<(), ProcessError> {
        let mut empty = BTreeSet::new();
        let mut ahead = vec![PathBuf::new()];
        while let Some(below) = ahead.pop() {
            let directories = std::fs::read_dir(from.path.join(&below)).into_iter().flatten().flatten();
            let directories = directories.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            ahead.extend(directories.map(|entry| below.join(entry.file_name())));
            empty.insert(below);
        }
        empty.retain(|below| !leads_elsewhere(&new.path, &below.join("x")) && !new.path.join(below).exists());
        for below in self.repo.ignored_in(new, &empty)? {
            if let Err(error) = std::fs::create_dir_all(new.path.join(&below)) {
                tracing::debug!(below = %below.display(), %error, "left out");
            }
        }
        Ok(())
    }
}
