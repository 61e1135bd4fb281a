//! Reads an index file in this process, so that a step needs no `git` call for it at its end.
//!
//! Invariant: the file is only read. One that is incomplete, or whose entries are not all in it (split,
//! sparse), gives no [`IndexFile`]; the caller then runs `git` or assumes the worst.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use bstr::{BString, ByteSlice};
use gix::index::entry::{Flags, Mode, Stage as Side};
use gix::index::extension::Tree;
use gix::objs::tree::EntryKind;

use crate::contract::ids::CommitId;
use crate::git::repo::open::{Repo, ours};

/// For more files git, which uses several threads and notes the trees in its index, is as fast.
pub(super) const FEW: usize = 2000;

/// A path, and what is there in a tree: nothing, or an object.
pub(crate) type Edit = (BString, Option<(EntryKind, gix::ObjectId)>);

/// A parsed index.
pub(crate) struct IndexFile {
    index: gix::index::File,
}

impl Repo {
    /// Reads the index file at `path`; `None` if it is incomplete, split or sparse.
    pub(crate) fn index_file(&self, path: &Path) -> Option<IndexFile> {
        let index = self.decoded_index(path)?;
        (index.link().is_none() && !index.is_sparse()).then_some(IndexFile { index })
    }

    /// Whether what is at `path` is an index that was written to its end. Git itself does not look at its checksum.
    pub(super) fn is_whole_index(&self, path: &Path) -> bool {
        self.decoded_index(path).is_some()
    }

    fn decoded_index(&self, path: &Path) -> Option<gix::index::File> {
        // Opening a named pipe would wait forever.
        path.metadata().ok().filter(std::fs::Metadata::is_file)?;
        // With a limit gix does not query the number of CPUs each time.
        let options = gix::index::decode::Options { thread_limit: Some(1), ..Default::default() };
        gix::index::File::at(path, self.gix.object_hash(), false, options).ok()
    }

    /// The tree of this index, if its cache-tree extension has it. Git records it with each write
    /// of the index and invalidates it with the first change.
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

impl Repo {
    /// Whether this index is that of `tree`.
    pub(crate) fn is_index_of(&self, index_file: &IndexFile, tree: CommitId) -> bool {
        match self.noted_tree(index_file) {
            Some(noted) => noted == tree,
            None => self.edits_to(index_file, tree).is_some_and(|edits| edits.is_empty()),
        }
    }

    /// The tree of this index. One that git has not noted is written, if the index is short and `base`, whose objects are
    /// in the repository, says most of it; else `None`.
    pub(crate) fn tree_of(&self, index_file: &IndexFile, base: CommitId) -> Option<CommitId> {
        if let Some(noted) = self.noted_tree(index_file) {
            return Some(noted);
        }
        let edits = self.edits_to(index_file, base)?;
        self.changed_tree(base, &edits).ok()
    }

    /// How this index differs from a tree. `None` if it is long, or no tree can have it.
    fn edits_to(&self, index_file: &IndexFile, tree: CommitId) -> Option<Vec<Edit>> {
        if index_file.entries() > FEW || index_file.is_unfinished() {
            return None;
        }
        let walked = self.walk(tree).ok()?.into_iter().filter(|one| one.kind != EntryKind::Tree);
        let mut before: HashMap<BString, (EntryKind, gix::ObjectId)> =
            walked.map(|one| (one.path, (one.kind, one.id))).collect();
        let mut edits = Vec::new();
        for entry in index_file.index.entries() {
            let path = entry.path(&index_file.index);
            let now = (entry.mode.to_tree_entry_mode()?.kind(), entry.id);
            if before.remove(path) != Some(now) {
                let is_here = now.0 == EntryKind::Commit || self.gix.has_object(now.1);
                edits.push((path.to_owned(), is_here.then_some(Some(now))?));
            }
        }
        // Git refuses an index with a file where another entry has a directory, too.
        if !edits.is_empty() {
            let all = index_file.paths();
            let is_file_above = |path: &BString| {
                path.find_iter("/").any(|at| all.contains(path.get(..at).unwrap_or_default().as_bstr()))
            };
            if all.iter().any(is_file_above) {
                return None;
            }
        }
        // What goes makes room for what comes.
        let gone = before.into_keys().map(|path| (path, None));
        Some(gone.chain(edits).collect())
    }
}

/// The metadata of a file when git wrote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Written {
    changed: (i64, i64),
    modified: (i64, i64),
    /// The lower halves, as the index stores them.
    inode: u32,
    size: u32,
}

impl Written {
    /// Whether the file was last modified at `moment` or later, in seconds and nanoseconds since
    /// the epoch.
    pub(crate) fn is_since(&self, moment: (i64, i64)) -> bool {
        self.modified >= moment
    }

    /// Whether a file has exactly this metadata and no other hard link.
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

/// One entry of an index.
pub(crate) struct Entry {
    /// The file's metadata when git wrote it.
    pub(crate) written: Written,
    pub(crate) mode: Mode,
    /// Its blob.
    pub(crate) id: gix::ObjectId,
}

impl IndexFile {
    /// All entries by path.
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

    /// The number of entries.
    pub(crate) fn entries(&self) -> usize {
        self.index.entries().len()
    }

    /// Whether it contains entries that git does not compare with the files (assume-unchanged,
    /// skip-worktree).
    pub(crate) fn overlooks_files(&self) -> bool {
        let overlooked = Flags::ASSUME_VALID | Flags::SKIP_WORKTREE;
        self.index.entries().iter().any(|entry| entry.flags.intersects(overlooked))
    }

    /// Whether it contains conflicts or intent-to-add entries.
    fn is_unfinished(&self) -> bool {
        let entries = self.index.entries().iter();
        entries
            .into_iter()
            .any(|entry| entry.stage() != Side::Unconflicted || entry.flags.contains(Flags::INTENT_TO_ADD))
    }

    /// The gitlinks (submodule commits) in it.
    pub(crate) fn gitlinks(&self) -> Vec<(PathBuf, CommitId)> {
        let links = self.index.entries().iter().filter(|entry| entry.mode == Mode::COMMIT);
        links
            .map(|entry| (PathBuf::from(OsStr::from_bytes(entry.path(&self.index))), ours(&entry.id)))
            .collect()
    }

    pub(crate) fn paths(&self) -> HashSet<BString> {
        self.index.entries().iter().map(|entry| entry.path(&self.index).to_owned()).collect()
    }

    /// The `.gitattributes` files in it.
    pub(crate) fn attribute_files(&self) -> Vec<(BString, CommitId)> {
        let is_one = |path: &[u8]| path == b".gitattributes" || path.ends_with(b"/.gitattributes");
        let entries = self.index.entries().iter().map(|entry| (entry.path(&self.index), &entry.id));
        entries
            .filter(|(path, _)| is_one(path.as_bytes()))
            .map(|(path, id)| (path.to_owned(), ours(id)))
            .collect()
    }
}
