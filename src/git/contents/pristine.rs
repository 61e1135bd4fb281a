//! Proves without `git` that a command left its worktree as git had filled it. This is the fast
//! path for commands that change no file.
//!
//! Invariant: "yes" is a proof by git's own rule (gitformat-index(5), racy git). The index is
//! HEAD's tree. The files below the top are exactly those of the index, and each has the metadata
//! in the index. A file that may be as young as the index also has the right contents. Anything
//! unusual (conversions, submodules, ignored files, a new empty directory) is "not known", and git
//! is asked.
//!
//! A worktree that is passed to another step must meet more conditions: the index is the very file
//! that git wrote before the command began, no directory was changed since, and all permissions are
//! those that git gives.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use bstr::BString;

use crate::contract::ids::CommitId;
use crate::fsutil;
use crate::fsutil::no_mounts_in;
use crate::git::contents::index::{Entry, FEW, IndexFile};
use crate::git::contents::snapshot::Noted;
use crate::git::repo::open::Repo;
use crate::git::worktrees::held::{Filled, Identity, Worktree};
use crate::git::worktrees::registration::Workplace;

/// The largest file that is read here, in bytes.
const SHORT: u64 = 1024 * 1024;

impl Repo {
    /// Whether it is proved that nothing in `worktree` differs from its HEAD. `index_file` is its
    /// parsed index, and `index` that file's metadata.
    pub(crate) fn is_untouched(&self, worktree: &Worktree, index_file: &IndexFile, index: &Metadata) -> bool {
        self.untouched(worktree, index_file, index).is_some()
    }

    /// The tree of HEAD, if that is proved.
    fn untouched(&self, worktree: &Worktree, index_file: &IndexFile, index: &Metadata) -> Option<CommitId> {
        if index_file.entries() > FEW || index_file.overlooks_files() || !index_file.gitlinks().is_empty() {
            return None;
        }
        let tree = self.commit(self.checked_out(worktree)?).ok()?.tree;
        let is_proved = self.is_index_of(index_file, tree)
            && self.holds_only(&worktree.path, index_file, index, None, None) == Some(true);
        is_proved.then_some(tree)
    }

    /// The tree of HEAD, if it is proved that nothing in a worktree differs from it, and that it has no submodules.
    pub(crate) fn untouched_tree(&self, worktree: &Worktree) -> Option<CommitId> {
        let index = worktree.git_dir.join("index");
        // Read before the contents, as for `is_clean`.
        let age = index.symlink_metadata().ok()?;
        let index_file = self.index_file(&index)?;
        let is_here = !worktree.git_dir.join("modules").exists()
            && self.is_here(&worktree.path, &worktree.git_dir) == Ok(true);
        if is_here { self.untouched(worktree, &index_file, &age) } else { None }
    }

    /// Whether it is proved that a worktree, which may have been renamed, has the files and the index that were noted.
    /// `ignored` are the files that git ignored then.
    pub(crate) fn is_as_noted(
        &self,
        worktree: &Workplace,
        noted: &Noted,
        ignored: &BTreeSet<PathBuf>,
    ) -> bool {
        let own = worktree.git_dir.join("index").symlink_metadata();
        let is_plain =
            |index_file: &IndexFile| !index_file.overlooks_files() && index_file.gitlinks().is_empty();
        let Some(index_file) = self.index_file(&noted.index()).filter(is_plain) else { return false };
        own.is_ok_and(|own| Identity::of(&own) == noted.own)
            && self.is_here(&worktree.path, &worktree.git_dir) == Ok(true)
            && no_mounts_in(&worktree.path).is_ok()
            && !worktree.git_dir.join("modules").exists()
            && self.holds_only(&worktree.path, &index_file, &noted.since, None, Some(ignored)) == Some(true)
    }

    /// Whether it is proved that a worktree that git has just filled has the files of `commit` and no others.
    pub(crate) fn is_as_filled(&self, worktree: &Workplace, commit: CommitId) -> bool {
        let filled = self.note_filled(worktree, commit);
        filled.is_some_and(|filled| self.index_as_filled(worktree, &filled).is_some())
    }

    /// The index of a worktree whose index, files and directories are unchanged since git filled
    /// it; `None` if something changed, or that is not certain.
    pub(crate) fn index_as_filled(&self, worktree: &Workplace, filled: &Filled) -> Option<IndexFile> {
        let file = worktree.git_dir.join("index");
        let (index, top) = (file.symlink_metadata().ok()?, worktree.path.symlink_metadata().ok()?);
        if Identity::of(&index) != filled.index || Identity::of(&top) != filled.top {
            return None;
        }
        let index_file = self.index_file(&file)?;
        let plain = !index_file.overlooks_files() && index_file.gitlinks().is_empty();
        let is_so = plain
            && self.noted_tree(&index_file) == Some(filled.tree)
            && self.holds_only(&worktree.path, &index_file, &index, Some(filled.mode), None) == Some(true);
        is_so.then_some(index_file)
    }

    /// Whether the files below `top` are exactly those of `index_file`, whose metadata is `index`;
    /// `None` if unknown. Times are compared only on one file system, where they have one clock and
    /// one resolution. With `mode`, the mode of a new directory, no directory below `top` may be
    /// younger than the index, and all permissions must be those of new files. With `others`, those
    /// files and empty directories may be there as well.
    fn holds_only(
        &self,
        top: &Path,
        index_file: &IndexFile,
        index: &Metadata,
        mode: Option<u32>,
        others: Option<&BTreeSet<PathBuf>>,
    ) -> Option<bool> {
        let written = (index.mtime(), index.mtime_nsec());
        let mut expected: HashMap<BString, Entry> = index_file.entries_by_path();
        let mut ahead = vec![BString::default()];
        while let Some(below) = ahead.pop() {
            let directory = top.join(OsStr::from_bytes(&below));
            if let Some(mode) = mode {
                let found = directory.symlink_metadata().ok()?;
                let is_older = below.is_empty() || changed(&found) <= changed(index);
                if found.permissions().mode() != mode || !is_older {
                    return Some(false);
                }
            }
            let before = expected.len();
            let waiting = ahead.len();
            for entry in std::fs::read_dir(&directory).ok()? {
                let entry = entry.ok()?;
                if entry.file_name() == ".git" {
                    // The link to the registration, which is not in the index either.
                    let link = entry.metadata().ok()?;
                    if below.is_empty()
                        && link.is_file()
                        && mode.is_none_or(|mode| link.nlink() == 1 && has_mode(&link, mode & 0o666))
                    {
                        continue;
                    }
                    return Some(false);
                }
                let mut path = below.clone();
                if !path.is_empty() {
                    path.push(b'/');
                }
                path.extend_from_slice(entry.file_name().as_bytes());
                if entry.file_type().ok()?.is_dir() {
                    ahead.push(path);
                    continue;
                }
                let Some(known) = expected.remove(&path) else {
                    others?.get(Path::new(OsStr::from_bytes(&path)))?;
                    continue;
                };
                let found = entry.metadata().ok().filter(|found| found.dev() == index.dev())?;
                let place = entry.path();
                if !known.written.is(&found)
                    || !is_of_kind(&known, &found)
                    || mode.is_some_and(|mode| !is_as_new(&found, mode))
                    || (known.written.is_since(written) && !self.has_content(&known, &found, &place)?)
                {
                    return Some(false);
                }
            }
            // Git does not track empty directories; git itself must decide whether one counts as a
            // change.
            if others.is_none() && !below.is_empty() && expected.len() == before && ahead.len() == waiting {
                return Some(false);
            }
        }
        Some(expected.is_empty())
    }

    /// Whether a file has the blob's contents, unconverted; `None` if it is too large to read here.
    fn has_content(&self, known: &Entry, found: &Metadata, place: &Path) -> Option<bool> {
        if found.len() > SHORT {
            return None;
        }
        let bytes = if found.is_symlink() {
            std::fs::read_link(place).ok()?.as_os_str().as_bytes().to_owned()
        } else {
            fsutil::read_plain(place).ok()?
        };
        let id = gix::objs::compute_hash(self.gix.object_hash(), gix::objs::Kind::Blob, &bytes).ok()?;
        Some(id == known.id)
    }
}

/// The change time of a file or directory.
fn changed(found: &Metadata) -> (i64, i64) {
    (found.ctime(), found.ctime_nsec())
}

fn has_mode(found: &Metadata, permissions: u32) -> bool {
    found.permissions().mode() & 0o7777 == permissions
}

/// Whether a file has the permissions of a new file, if new directories have `mode`.
fn is_as_new(found: &Metadata, mode: u32) -> bool {
    let executable = found.permissions().mode() & 0o100 != 0;
    found.is_symlink() || has_mode(found, mode & if executable { 0o777 } else { 0o666 })
}

/// Whether a file has the kind and the executable bit of its index entry.
fn is_of_kind(known: &Entry, found: &Metadata) -> bool {
    use gix::index::entry::Mode;
    let executable = found.permissions().mode() & 0o100 != 0;
    match known.mode {
        Mode::FILE => found.is_file() && !executable,
        Mode::FILE_EXECUTABLE => found.is_file() && executable,
        Mode::SYMLINK => found.is_symlink(),
        _ => false,
    }
}
