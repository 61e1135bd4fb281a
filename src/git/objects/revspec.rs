//! What is trusted beyond the branch that is run: the tree another ref names.
//!
//! Invariant: a name means one thing. Git tries tags before branches, and a tag can be had by anybody who pushes one, so
//! short names are not left to git; and replacement objects (`refs/replace/`) are never followed (CONTRACT.md §13). What
//! trust means for a branch is `runner::survey::trust`'s.

use std::collections::BTreeMap;
use std::path::PathBuf;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use bstr::{BStr, BString, ByteSlice};
use gix::objs::tree::EntryKind;

use crate::contract::ids::{BranchName, CommitId, RemoteName};
use crate::contract::layout::{HEADS, TRACKED, fetched_from};
use crate::git::objects::commits::CommitError;
use crate::git::objects::tree::Walked;
use crate::git::refs::cas::RefError;
use crate::git::repo::open::{Repo, gits, gix_chain, ours};

/// More links between refs than anybody makes.
const MAX_LINKS: u32 = 5;

/// Why a name does not lead to a commit.
#[derive(Debug, thiserror::Error)]
pub enum NameError {
    /// The ref could not be read.
    #[error(transparent)]
    Ref(#[from] RefError),
    /// Nothing of that name.
    #[error("{name} is not there: looked for {}", tried.join(" and "))]
    Missing {
        /// As given.
        name: String,
        /// The full names.
        tried: Vec<String>,
    },
    /// Two things of that name.
    #[error("{name} can mean {}; give the one that is meant in full", found.join(" or "))]
    Ambiguous {
        /// As given.
        name: String,
        /// The full names.
        found: Vec<String>,
    },
    /// It leads to something else.
    #[error("{name} leads to no commit: {why}")]
    NoCommit {
        /// As given.
        name: String,
        /// What was found.
        why: String,
    },
}

/// What one path of a tree holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// A directory.
    Directory,
    /// A file, as stored: no filter, no conversion of line ends.
    File {
        /// All of it.
        bytes: Vec<u8>,
        /// The executable bit.
        executable: bool,
    },
    /// A symbolic link.
    Link(BString),
}

impl Repo {
    /// The commit that `name` means: a full ref name (`refs/…`), a full object name, a branch, or `remote/branch`. The latter
    /// is what was fetched from `deciding` where that is its remote, else the tracking ref.
    pub(crate) fn commit_named(
        &self,
        name: &str,
        deciding: Option<&RemoteName>,
    ) -> Result<CommitId, NameError> {
        let no_commit = |why: String| NameError::NoCommit { name: name.to_owned(), why };
        let candidates = if name.starts_with("refs/") {
            vec![name.to_owned()]
        } else if let Some(id) = CommitId::parse_hex(name) {
            return self.peel(id).map_err(no_commit);
        } else {
            let fetched = deciding.and_then(|remote| {
                let branch = name.strip_prefix(remote.as_str())?.strip_prefix('/')?;
                Some(format!("{}{branch}", fetched_from(remote)))
            });
            match fetched {
                Some(fetched) => vec![fetched],
                None => vec![format!("{HEADS}{name}"), format!("{TRACKED}{name}")],
            }
        };
        let mut found: Vec<(String, CommitId)> = Vec::new();
        for full in &candidates {
            if BranchName::new(full.as_bytes()).is_err() {
                return Err(no_commit("it is no name a ref can have".to_owned()));
            }
            if let Some(id) = self.followed(full)? {
                found.push((full.clone(), id));
            }
        }
        match found.as_slice() {
            [] => Err(NameError::Missing { name: name.to_owned(), tried: candidates }),
            [(_, id)] => self.peel(*id).map_err(no_commit),
            more => Err(NameError::Ambiguous {
                name: name.to_owned(),
                found: more.iter().map(|(full, _)| full.clone()).collect(),
            }),
        }
    }

    /// What a ref points at, by way of symbolic ones (`refs/remotes/origin/HEAD`).
    fn followed(&self, full: &str) -> Result<Option<CommitId>, RefError> {
        self.read_ref(self.meant(full.into()).as_bstr())
    }

    /// The ref that `name` stands for: the one that a symbolic ref leads to, else `name`.
    pub fn meant(&self, name: &BStr) -> BString {
        let mut name = name.to_owned();
        for _ in 0..MAX_LINKS {
            let link = self.common_dir().join(OsStr::from_bytes(&name));
            let text = std::fs::read(link).unwrap_or_default();
            let Some(target) = text.strip_prefix(b"ref:") else { break };
            name = target.trim().into();
        }
        name
    }

    /// The commit an object is, or the one an annotated tag is about.
    fn peel(&self, id: CommitId) -> Result<CommitId, String> {
        let object = self.gix.find_object(gits(id)).map_err(|error| gix_chain(&error))?;
        let commit = object.peel_to_commit().map_err(|error| error.to_string())?;
        Ok(ours(&commit.id))
    }

    /// The directory `name` at the top of a commit's tree, by the object name of its own tree.
    pub fn directory_at(&self, commit: CommitId, name: &str) -> Result<Option<CommitId>, CommitError> {
        self.directory_in(self.commit(commit)?.tree, name)
    }

    /// The same of a tree.
    pub fn directory_in(&self, tree: CommitId, name: &str) -> Result<Option<CommitId>, CommitError> {
        let found = self
            .gix
            .find_tree(gits(tree))
            .map_err(|error| CommitError::Unreadable { id: tree, why: gix_chain(&error) })?;
        let entry = found.find_entry(BString::from(name));
        Ok(entry.filter(|entry| entry.mode().is_tree()).map(|entry| ours(&entry.object_id())))
    }

    /// All that a tree holds, by path below its top. Submodules are left out: their files are not in it.
    pub fn files_of(&self, root: CommitId) -> Result<BTreeMap<PathBuf, Content>, CommitError> {
        let mut files = BTreeMap::new();
        for Walked { path, kind, id } in self.walk(root)? {
            let blob = || {
                let unreadable = |why: String| CommitError::Unreadable { id: root, why };
                let blob = self.gix.find_object(id).map_err(|error| unreadable(gix_chain(&error)))?;
                Ok::<Vec<u8>, CommitError>(blob.data.clone())
            };
            let content = match kind {
                EntryKind::Tree => Content::Directory,
                EntryKind::Commit => continue,
                EntryKind::Link => Content::Link(blob()?.into()),
                EntryKind::Blob => Content::File { bytes: blob()?, executable: false },
                EntryKind::BlobExecutable => Content::File { bytes: blob()?, executable: true },
            };
            files.insert(PathBuf::from(OsStr::from_bytes(&path)), content);
        }
        Ok(files)
    }
}
