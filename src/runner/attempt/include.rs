//! Copies ignored files of the main checkout into a new worktree (CONTRACT 9.16).
//!
//! Invariant: the user's checkout is never changed. Existing files are not overwritten, and no link is
//! followed out of the worktree. Only files that git ignores on both sides are copied, so that no commit and
//! no rescue ever contains them.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::git::Repo;
use crate::git::worktrees::held::Worktree;
use crate::runner::error_chain;
use crate::runner::events::warning::NotCopied;
use crate::stop::Stop;

/// The file that lists the ignored files to copy into a new worktree.
pub(crate) const LIST: &str = ".worktreeinclude";

/// Bytes of a file copied at once. A copy that shares blocks is instant, whatever its size.
const CHUNK: u64 = 256 * 1024 * 1024;

/// What is copied, and where to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Include<'a> {
    pub(crate) repo: &'a Repo,
    pub(crate) worktree: &'a Worktree,
    /// Whether the list in the worktree counts.
    pub(crate) own: bool,
    /// Directories of ours, which are never copied.
    pub(crate) ours: &'a [PathBuf],
    /// Ends the copying early.
    pub(crate) stop: &'a Stop,
}

impl Include<'_> {
    /// Finds the list: the branch's own, else that of the main worktree.
    pub(crate) fn list(&self) -> Result<Option<PathBuf>, String> {
        let Some(main) = self.repo.main_checkout() else { return Ok(None) };
        let own = self.own.then(|| self.worktree.path.join(LIST));
        for list in own.into_iter().chain([main.path.join(LIST)]) {
            match list.symlink_metadata() {
                Ok(found) if found.is_file() => return Ok(Some(list)),
                Ok(_) => return Err(format!("{} is not a regular file", list.display())),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(format!("{}: {error}", list.display())),
            }
        }
        Ok(None)
    }

    /// Copies the listed files. Returns how many were not copied, by cause.
    pub(crate) fn copy(&self, list: &Path) -> Result<Vec<(usize, NotCopied)>, String> {
        let Self { repo, worktree, ours, stop, .. } = *self;
        let Some(main) = repo.main_checkout() else { return Ok(Vec::new()) };
        let listed = repo.ignored_and_listed(&main, list).map_err(|error| error_chain(&error))?;
        let (mut wanted, mut beyond) = (BTreeSet::new(), 0_usize);
        for path in listed {
            let target = worktree.path.join(&path);
            if ours.iter().any(|ours| main.path.join(&path).starts_with(ours))
                || target.symlink_metadata().is_ok()
            {
                continue;
            }
            if leads_elsewhere(&worktree.path, &path) {
                beyond += 1;
            } else {
                wanted.insert(path);
            }
        }
        let ignored = repo.ignored_in(worktree, &wanted).map_err(|error| error_chain(&error))?;
        let mut left =
            vec![(beyond, NotCopied::LeadsElsewhere), (wanted.len() - ignored.len(), NotCopied::NotIgnored)];
        left.retain(|(count, _)| *count > 0);
        let mut made = BTreeSet::new();
        for path in &ignored {
            if stop.cause().is_some() {
                return Ok(left);
            }
            let (from, to) = (main.path.join(path), worktree.path.join(path));
            make_way(&worktree.path, path, &mut made)
                .map_err(|error| format!("could not make the directory of {}: {error}", to.display()))?;
            copy(&from, &to, stop)
                .map_err(|error| format!("could not copy {} to {}: {error}", from.display(), to.display()))?;
        }
        // At the end and deepest first, since the modes may forbid adding files.
        for directory in made.iter().rev() {
            let found = fs::metadata(main.path.join(directory));
            found
                .and_then(|found| fs::set_permissions(worktree.path.join(directory), found.permissions()))
                .map_err(|error| format!("could not set the mode of {}: {error}", directory.display()))?;
        }
        Ok(left)
    }
}

/// Creates the missing directories above `path` below `top`, and adds them to `made`.
pub(crate) fn make_way(top: &Path, path: &Path, made: &mut BTreeSet<PathBuf>) -> io::Result<()> {
    let mut above: Vec<&Path> = path.ancestors().skip(1).collect();
    above.reverse();
    for directory in above {
        match fs::create_dir(top.join(directory)) {
            Ok(()) => {
                made.insert(directory.to_owned());
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Whether a component of the path to `path` below `top` is something else than a directory.
pub(crate) fn leads_elsewhere(top: &Path, path: &Path) -> bool {
    let above = path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty());
    above.filter_map(|above| top.join(above).symlink_metadata().ok()).any(|found| !found.is_dir())
}

/// Copies a file or a link to a path that does not exist yet. If the file system can, the kernel shares the
/// blocks.
fn copy(from: &Path, to: &Path, stop: &Stop) -> io::Result<()> {
    let found = match from.symlink_metadata() {
        // Removed since it was listed.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    if found.is_symlink() {
        return symlink(fs::read_link(from)?, to);
    }
    if !found.is_file() {
        return Ok(());
    }
    let no_link = nix::fcntl::OFlag::O_NOFOLLOW.bits();
    let mut source = OpenOptions::new().read(true).custom_flags(no_link).open(from)?;
    let mut target = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?;
    while stop.cause().is_none() && io::copy(&mut (&mut source).take(CHUNK), &mut target)? > 0 {}
    // Build tools compare times, so a file that is up to date in the main worktree has to stay so.
    target.set_modified(found.modified()?)?;
    target.set_permissions(fs::Permissions::from_mode(found.permissions().mode() & 0o7777))
}
