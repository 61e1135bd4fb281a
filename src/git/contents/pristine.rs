//! Whether a command left its worktree as git had filled it, told without asking git.
//!
//! Invariant: "yes" is a proof by git's own rule (gitformat-index(5), racy git): the index is HEAD's tree, the files below the top
//! are those of the index and no others, each has the metadata that the index notes, and one that may be as young as
//! the index has the content too. All that is not plain (conversions, submodules, ignored files, a new empty directory) is "not
//! known", and git is asked. A step whose command only looks, or only waits, is ended so.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use bstr::BString;

use crate::git::contents::index::{Entry, IndexFile};
use crate::git::repo::open::Repo;
use crate::git::worktrees::held::Worktree;

/// Beyond this many files git, which looks at them in several threads, is as fast.
const FEW: usize = 2000;

/// A file that is larger than this is left to git to read.
const SHORT: u64 = 1024 * 1024;

impl Repo {
    /// Whether nothing in `worktree` differs from its HEAD, as far as that can be told in this process; `file` is its
    /// index, and `index` the file it is from.
    pub(crate) fn is_untouched(&self, worktree: &Worktree, index_file: &IndexFile, index: &Metadata) -> bool {
        if index_file.entries() > FEW || index_file.overlooks_files() || !index_file.gitlinks().is_empty() {
            return false;
        }
        let head = self.checked_out(worktree);
        let tree = head.and_then(|head| self.commit(head).ok()).map(|commit| commit.tree);
        tree.is_some()
            && self.noted_tree(index_file) == tree
            && self.holds_only(&worktree.path, index_file, index) == Some(true)
    }

    /// Whether the files below `top` are those of `index_file`, which is in the file `index`. Two moments can be compared only where they are
    /// of one clock and as exact as each other: on one file system.
    fn holds_only(&self, top: &Path, index_file: &IndexFile, index: &Metadata) -> Option<bool> {
        let written = (index.mtime(), index.mtime_nsec());
        let mut expected: HashMap<BString, Entry> = index_file.entries_by_path();
        let mut ahead = vec![BString::default()];
        while let Some(below) = ahead.pop() {
            let directory = top.join(OsStr::from_bytes(&below));
            let before = expected.len();
            let waiting = ahead.len();
            for entry in std::fs::read_dir(&directory).ok()? {
                let entry = entry.ok()?;
                if entry.file_name() == ".git" {
                    // The link to the registration, which is not in the index either.
                    if below.is_empty() && entry.file_type().ok()?.is_file() {
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
                let known = expected.remove(&path)?;
                let found = entry.metadata().ok().filter(|found| found.dev() == index.dev())?;
                let place = entry.path();
                if !known.written.is(&found)
                    || !is_of_kind(&known, &found)
                    || (known.written.is_since(written) && !self.has_content(&known, &found, &place)?)
                {
                    return Some(false);
                }
            }
            // Git knows no empty directories: whether one is to be kept in mind is its to say.
            if !below.is_empty() && expected.len() == before && ahead.len() == waiting {
                return Some(false);
            }
        }
        Some(expected.is_empty())
    }

    /// Whether a file has the content that the index names, without any conversion.
    fn has_content(&self, known: &Entry, found: &Metadata, place: &Path) -> Option<bool> {
        if found.len() > SHORT {
            return None;
        }
        let bytes = if found.is_symlink() {
            std::fs::read_link(place).ok()?.as_os_str().as_bytes().to_owned()
        } else {
            std::fs::read(place).ok()?
        };
        let id = gix::objs::compute_hash(self.gix.object_hash(), gix::objs::Kind::Blob, &bytes).ok()?;
        Some(id == known.id)
    }
}

/// Whether what lies there is of the kind, and as executable, as the index says.
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
