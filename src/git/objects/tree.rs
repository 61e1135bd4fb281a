//! What a path in a commit's tree is, and where its symbolic links lead.
//!
//! Invariant: a path is followed inside the tree only. An absolute link, or one that climbs above the top, is an
//! answer of its own ([`Executable::Escapes`]), never a file (CONTRACT.md §2).

use std::collections::VecDeque;

use bstr::{BString, ByteSlice};

use crate::contract::ids::CommitId;
use crate::git::objects::commits::CommitError;
use crate::git::repo::open::{Repo, gits, gix_chain};

/// More links than any real command is behind; the kernel's own limit.
const MAX_LINKS: u32 = 40;

/// What a path is, as far as running it goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Executable {
    /// A regular file with the executable bit, reached without leaving the tree.
    Found,
    /// Nothing is there.
    Missing,
    /// A regular file without the executable bit.
    Plain,
    /// A directory.
    Directory,
    /// The path crosses a submodule, whose files are not in this tree.
    Submodule,
    /// A link that leaves the tree.
    Escapes {
        /// Where it points.
        target: BString,
    },
    /// A link to something that is not there, or a circle of links.
    Dangling {
        /// Where it points.
        target: BString,
    },
}

impl Repo {
    /// What `path` is in the tree of `commit`, which is `tree`.
    pub(crate) fn executable_at(
        &self,
        commit: CommitId,
        tree: CommitId,
        path: &str,
    ) -> Result<Executable, CommitError> {
        self.executable_in(commit, tree, path)
    }

    /// The paths of all files and links in the tree `root`, below its top; no content is read, and what is no text is left out.
    pub fn paths_in(&self, root: CommitId) -> Result<Vec<String>, CommitError> {
        let mut paths = Vec::new();
        let mut ahead = vec![(String::new(), gits(root))];
        while let Some((place, id)) = ahead.pop() {
            let unreadable = |why: String| CommitError::Unreadable { id: root, why };
            let tree = self.gix.find_tree(id).map_err(|error| unreadable(gix_chain(&error)))?;
            for entry in tree.iter() {
                let entry = entry.map_err(|error| unreadable(error.to_string()))?;
                let Ok(name) = entry.filename().to_str() else { continue };
                match entry.mode().kind() {
                    gix::objs::tree::EntryKind::Tree => {
                        ahead.push((format!("{place}{name}/"), entry.object_id()))
                    }
                    gix::objs::tree::EntryKind::Commit => {}
                    _ => paths.push(format!("{place}{name}")),
                }
            }
        }
        Ok(paths)
    }

    /// What `path` is in the tree `root`, whose top no link may leave.
    pub(crate) fn executable_below(&self, root: CommitId, path: &str) -> Result<Executable, CommitError> {
        self.executable_in(root, root, path)
    }

    /// The same; `named` is what an error names.
    fn executable_in(&self, named: CommitId, root: CommitId, path: &str) -> Result<Executable, CommitError> {
        let unreadable = |error: &gix::Error| CommitError::Unreadable { id: named, why: gix_chain(error) };
        let root = gits(root);
        let mut ahead: VecDeque<BString> = path.split('/').map(BString::from).collect();
        let mut trees = vec![root];
        let mut last_link: Option<BString> = None;
        let mut links = 0;
        let gone = |last_link: Option<BString>| match last_link {
            Some(target) => Executable::Dangling { target },
            None => Executable::Missing,
        };
        while let Some(name) = ahead.pop_front() {
            if name.is_empty() || name == "." {
                continue;
            }
            if name == ".." {
                if trees.len() == 1 {
                    return Ok(Executable::Escapes { target: last_link.unwrap_or(name) });
                }
                trees.pop();
                continue;
            }
            let here = *trees.last().expect("the root is never popped");
            let tree = self.gix.find_tree(here).map_err(|error| unreadable(&error))?;
            let Some(entry) = tree.find_entry(name.as_slice().as_bstr().to_owned()) else {
                return Ok(gone(last_link));
            };
            let (kind, id) = (entry.mode().kind(), entry.object_id());
            match kind {
                gix::objs::tree::EntryKind::Tree => trees.push(id),
                gix::objs::tree::EntryKind::Commit => return Ok(Executable::Submodule),
                gix::objs::tree::EntryKind::Blob | gix::objs::tree::EntryKind::BlobExecutable => {
                    if !ahead.is_empty() {
                        return Ok(gone(last_link));
                    }
                    return Ok(match kind {
                        gix::objs::tree::EntryKind::BlobExecutable => Executable::Found,
                        _ => Executable::Plain,
                    });
                }
                gix::objs::tree::EntryKind::Link => {
                    let blob = self.gix.find_object(id).map_err(|error| unreadable(&error))?;
                    let target = BString::from(blob.data.as_slice());
                    links += 1;
                    if target.starts_with(b"/") {
                        return Ok(Executable::Escapes { target });
                    }
                    if links > MAX_LINKS || target.contains(&0) {
                        return Ok(Executable::Dangling { target });
                    }
                    let parts: Vec<&[u8]> = target.split_str("/").collect();
                    for part in parts.into_iter().rev() {
                        ahead.push_front(part.into());
                    }
                    last_link = Some(target);
                }
            }
        }
        Ok(Executable::Directory)
    }
}
