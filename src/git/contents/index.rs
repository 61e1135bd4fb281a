//! An index file as read in this process: what a step asks of it at its end costs no `git` call.
//!
//! Invariant: this only reads, and only what cannot be read otherwise; a file that is not whole, or of a kind whose
//! entries are not all in it (split, sparse), gives no [`IndexFile`], and the caller asks `git` or assumes the worst.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use bstr::{BString, ByteSlice};
use gix::index::entry::{Flags, Mode, Stage as Side};
use gix::index::extension::Tree;

use crate::contract::ids::CommitId;
use crate::git::repo::open::{Repo, ours};

/// What an index holds.
pub(crate) struct IndexFile {
    index: gix::index::File,
}

impl Repo {
    /// Reads the index file at `path`.
    pub(crate) fn index_file(&self, path: &Path) -> Option<IndexFile> {
        // How many threads it may have would be asked of the system each time.
        let options = gix::index::decode::Options { thread_limit: Some(1), ..Default::default() };
        let index = gix::index::File::at(path, self.gix.object_hash(), false, options).ok()?;
        (index.link().is_none() && !index.is_sparse()).then_some(IndexFile { index })
    }

    /// The tree that `index_file` stands for, if it knows it itself: git notes it there whenever it has written it, and strikes it out
    /// with the first change.
    pub(crate) fn noted_tree(&self, index_file: &IndexFile) -> Option<CommitId> {
        let known = |tree: &Tree| tree.num_entries.is_some() && self.gix.has_object(tree.id);
        let mut ahead = vec![index_file.index.tree()?];
        let root = ours(&ahead.first()?.id);
        let whole = |count: u32| usize::try_from(count).is_ok_and(|count| count == index_file.entries());
        if !ahead.first()?.num_entries.is_some_and(whole) || index_file.is_unfinished() {
            return None;
        }
        while let Some(next) = ahead.pop() {
            if !known(next) {
                return None;
            }
            ahead.extend(&next.children);
        }
        Some(root)
    }
}

/// A file as it was when git wrote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Written {
    changed: (i64, i64),
    modified: (i64, i64),
    /// The lower halves, which is what an index has.
    inode: u32,
    size: u32,
}

impl Written {
    /// Whether the file was last written to at `moment` or later, seconds and nanoseconds since the epoch.
    pub(crate) fn is_since(&self, moment: (i64, i64)) -> bool {
        self.modified >= moment
    }

    /// Whether a file is still that one, and has no other name.
    pub(crate) fn is(&self, found: &Metadata) -> bool {
        let lower = |number: u64| u32::try_from(number & u64::from(u32::MAX)).unwrap_or(u32::MAX);
        let now = Self {
            changed: (found.ctime(), found.ctime_nsec()),
            modified: (found.mtime(), found.mtime_nsec()),
            inode: lower(found.ino()),
            size: lower(found.size()),
        };
        *self == now && found.nlink() == 1
    }
}

/// What an index says of one path.
pub(crate) struct Entry {
    /// The file when git wrote it.
    pub(crate) written: Written,
    /// What kind of file.
    pub(crate) mode: Mode,
    /// Its content.
    pub(crate) id: gix::ObjectId,
}

impl IndexFile {
    /// What it says of each path.
    pub(crate) fn entries_by_path(&self) -> HashMap<BString, Entry> {
        let entries = self.index.entries().iter();
        entries
            .map(|entry| {
                let stat = &entry.stat;
                let written = Written {
                    changed: (i64::from(stat.ctime.secs), i64::from(stat.ctime.nsecs)),
                    modified: (i64::from(stat.mtime.secs), i64::from(stat.mtime.nsecs)),
                    inode: stat.ino,
                    size: stat.size,
                };
                let known = Entry { written, mode: entry.mode, id: entry.id };
                (entry.path(&self.index).to_owned(), known)
            })
            .collect()
    }

    /// How many entries it has.
    pub(crate) fn entries(&self) -> usize {
        self.index.entries().len()
    }

    /// Whether it tells git not to look at some of the files.
    pub(crate) fn overlooks_files(&self) -> bool {
        let overlooked = Flags::ASSUME_VALID | Flags::SKIP_WORKTREE;
        self.index.entries().iter().any(|entry| entry.flags.intersects(overlooked))
    }

    /// Whether it holds conflicts, or files that are only announced.
    fn is_unfinished(&self) -> bool {
        let entries = self.index.entries().iter();
        entries
            .into_iter()
            .any(|entry| entry.stage() != Side::Unconflicted || entry.flags.contains(Flags::INTENT_TO_ADD))
    }

    /// The other repositories' commits in it.
    pub(crate) fn gitlinks(&self) -> Vec<(PathBuf, CommitId)> {
        let links = self.index.entries().iter().filter(|entry| entry.mode == Mode::COMMIT);
        links
            .map(|entry| (PathBuf::from(OsStr::from_bytes(entry.path(&self.index))), ours(&entry.id)))
            .collect()
    }

    /// All paths in it.
    pub(crate) fn paths(&self) -> HashSet<BString> {
        self.index.entries().iter().map(|entry| entry.path(&self.index).to_owned()).collect()
    }

    /// The files in it that decide how others are written to disk.
    pub(crate) fn attribute_files(&self) -> Vec<(BString, CommitId)> {
        let is_one = |path: &[u8]| path == b".gitattributes" || path.ends_with(b"/.gitattributes");
        let entries = self.index.entries().iter().map(|entry| (entry.path(&self.index), &entry.id));
        entries
            .filter(|(path, _)| is_one(path.as_bytes()))
            .map(|(path, id)| (path.to_owned(), ours(id)))
            .collect()
    }
}
