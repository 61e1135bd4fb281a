//! Classifies a path in a commit's tree, and follows its symbolic links.
//!
//! Invariant: a path is followed inside the tree only. An absolute link, or one that climbs above
//! the top, is [`Unusable::Escapes`], never a file (CONTRACT 2.4).

use std::collections::VecDeque;

use bstr::{BString, ByteSlice};
use gix::ObjectId;
use gix::objs::tree::{EntryKind, EntryMode};

use crate::contract::ids::CommitId;
use crate::git::objects::commits::CommitError;
use crate::git::repo::open::{Repo, gits, gix_chain, ours};

/// The longest chain of links that is followed; the kernel's limit.
const MAX_LINKS: u32 = 40;

/// Whether a path can be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Executable {
    /// A regular file with the executable bit, reached without leaving the tree.
    Found,
    /// There is no such path.
    Missing,
    /// The path exists and cannot be run.
    Unusable(Unusable),
}

/// Why a path that exists cannot be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unusable {
    /// A regular file without the executable bit.
    NotExecutable,
    /// A directory.
    Directory,
    /// The path crosses a submodule, whose files are not in this tree.
    Submodule,
    /// A link that leaves the tree, or the checkout.
    Escapes {
        /// The link's target.
        target: BString,
    },
    /// A link to a missing path, or a loop of links.
    Dangling {
        /// The link's target.
        target: BString,
    },
}

/// One entry of a tree.
pub(crate) struct Entry {
    pub(crate) name: BString,
    pub(crate) mode: EntryMode,
    pub(crate) id: ObjectId,
}

/// An entry at any depth of a tree.
pub(crate) struct Walked {
    /// The path from the top, joined by `/`.
    pub(crate) path: BString,
    pub(crate) kind: EntryKind,
    pub(crate) id: ObjectId,
}

impl Repo {
    /// Classifies `path` in the tree of `commit`, which is `tree`.
    pub(crate) fn executable_at(
        &self,
        commit: CommitId,
        tree: CommitId,
        path: &str,
    ) -> Result<Executable, CommitError> {
        self.executable_in(commit, tree, path)
    }

    /// The direct entries of a tree.
    pub(crate) fn entries_of(&self, tree: ObjectId) -> Result<Vec<Entry>, CommitError> {
        let unreadable = |why: String| CommitError::Unreadable { id: ours(&tree), why };
        let found = self.tree(tree).map_err(|error| unreadable(gix_chain(&error)))?;
        let entries = found.iter().map(|entry| {
            let entry = entry.map_err(|error| unreadable(error.to_string()))?;
            Ok(Entry { name: entry.filename().to_owned(), mode: entry.mode(), id: entry.object_id() })
        });
        entries.collect()
    }

    /// Whether a tree has no other entry than `name`. False if it cannot be read.
    pub(crate) fn has_only_entry(&self, tree: CommitId, name: &str) -> bool {
        let entries = self.entries_of(gits(tree));
        entries.is_ok_and(|entries| entries.iter().all(|entry| entry.name == name))
    }

    /// The names of the direct entries of a tree; leaves out names that are not UTF-8.
    pub(crate) fn names_in(&self, tree: CommitId) -> Result<Vec<String>, CommitError> {
        let names = self.entries_of(gits(tree))?.into_iter();
        Ok(names.filter_map(|entry| String::from_utf8(entry.name.into()).ok()).collect())
    }

    /// All entries of a tree, recursively, without reading contents. A name that leads out of the
    /// tree is an error.
    pub(crate) fn walk(&self, root: CommitId) -> Result<Vec<Walked>, CommitError> {
        self.walk_outside(root, &[])
    }

    /// Like [`walk`](Self::walk), without what is in the directories `skipped`, given by their paths.
    pub(crate) fn walk_outside(&self, root: CommitId, skipped: &[&str]) -> Result<Vec<Walked>, CommitError> {
        let (mut found, mut ahead) = (Vec::new(), vec![(BString::default(), gits(root))]);
        while let Some((above, tree)) = ahead.pop() {
            for Entry { name, mode, id } in self.entries_of(tree)? {
                if name.is_empty() || name == "." || name == ".." || name.contains(&b'/') {
                    let why = format!("it holds the name {name:?}");
                    return Err(CommitError::Unreadable { id: root, why });
                }
                let path: BString = [above.as_slice(), &name].concat().into();
                if mode.is_tree() && !skipped.iter().any(|skipped| path == *skipped) {
                    ahead.push(([path.as_slice(), b"/"].concat().into(), id));
                }
                found.push(Walked { path, kind: mode.kind(), id });
            }
        }
        Ok(found)
    }

    /// The paths of all files and links in the tree `root`, without reading contents; leaves out
    /// paths that are not UTF-8.
    pub fn paths_in(&self, root: CommitId) -> Result<Vec<String>, CommitError> {
        let is_file = |entry: &Walked| !matches!(entry.kind, EntryKind::Tree | EntryKind::Commit);
        let files = self.walk(root)?.into_iter().filter(is_file);
        Ok(files.filter_map(|entry| String::from_utf8(entry.path.into()).ok()).collect())
    }

    /// Classifies `path` in the tree `root`, whose top no link may leave.
    pub(crate) fn executable_below(&self, root: CommitId, path: &str) -> Result<Executable, CommitError> {
        self.executable_in(root, root, path)
    }

    /// Shared by both lookups; `named` is the object reported in errors.
    fn executable_in(&self, named: CommitId, root: CommitId, path: &str) -> Result<Executable, CommitError> {
        let unreadable = |error: &gix::Error| CommitError::Unreadable { id: named, why: gix_chain(error) };
        let root = gits(root);
        let mut ahead: VecDeque<BString> = path.split('/').map(BString::from).collect();
        let mut trees = vec![root];
        let mut last_link: Option<BString> = None;
        let mut links = 0;
        let gone = |last_link: Option<BString>| match last_link {
            Some(target) => Executable::Unusable(Unusable::Dangling { target }),
            None => Executable::Missing,
        };
        while let Some(name) = ahead.pop_front() {
            if name.is_empty() || name == "." {
                continue;
            }
            if name == ".." {
                if trees.len() == 1 {
                    return Ok(Executable::Unusable(Unusable::Escapes { target: last_link.unwrap_or(name) }));
                }
                trees.pop();
                continue;
            }
            let here = *trees.last().expect("the root is never popped");
            let tree = self.tree(here).map_err(|error| unreadable(&error))?;
            let Some(entry) = tree.find_entry(name.as_slice().as_bstr().to_owned()) else {
                return Ok(gone(last_link));
            };
            let (kind, id) = (entry.mode().kind(), entry.object_id());
            match kind {
                EntryKind::Tree => trees.push(id),
                EntryKind::Commit => return Ok(Executable::Unusable(Unusable::Submodule)),
                EntryKind::Blob | EntryKind::BlobExecutable => {
                    if !ahead.is_empty() {
                        return Ok(gone(last_link));
                    }
                    return Ok(match kind {
                        EntryKind::BlobExecutable => Executable::Found,
                        _ => Executable::Unusable(Unusable::NotExecutable),
                    });
                }
                EntryKind::Link => {
                    let blob = self.object(id).map_err(|error| unreadable(&error))?;
                    let target = BString::from(blob.data.as_slice());
                    links += 1;
                    if target.starts_with(b"/") {
                        return Ok(Executable::Unusable(Unusable::Escapes { target }));
                    }
                    if links > MAX_LINKS || target.contains(&0) {
                        return Ok(Executable::Unusable(Unusable::Dangling { target }));
                    }
                    let parts: Vec<&[u8]> = target.split_str("/").collect();
                    for part in parts.into_iter().rev() {
                        ahead.push_front(part.into());
                    }
                    last_link = Some(target);
                }
            }
        }
        Ok(Executable::Unusable(Unusable::Directory))
    }
}
