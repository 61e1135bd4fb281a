//! Resolves the REF of `--commands-from` (CONTRACT 13.1, 13.2) and reads the files of its tree.
//!
//! Invariant: a name has one meaning. Git tries tags before branches, and anyone who may push can
//! create a tag, so short names are not left to git. Replacement objects (`refs/replace/`) are
//! never followed (CONTRACT 13.7).

use std::collections::BTreeMap;
use std::path::PathBuf;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use bstr::{BStr, BString, ByteSlice};
use gix::objs::tree::EntryKind;

use crate::contract::ids::{BranchName, CommitId, RemoteName};
use crate::contract::layout::{HEADS, TAGS, TRACKED, fetched_from};
use crate::git::objects::access::again;
use crate::git::objects::commits::CommitError;
use crate::git::objects::tree::Walked;
use crate::git::refs::cas::RefError;
use crate::git::repo::open::{Repo, gits, gix_chain, ours};

/// The longest chain of symbolic refs that is followed.
const MAX_LINKS: u32 = 5;

/// Why a name does not lead to a commit.
#[derive(Debug, thiserror::Error)]
pub enum NameError {
    /// The ref could not be read.
    #[error(transparent)]
    Ref(#[from] RefError),
    /// There is no such ref.
    #[error("{name} is not there: looked for {}", tried.join(" and "))]
    Missing {
        /// As given.
        name: String,
        /// The full names tried.
        tried: Vec<String>,
    },
    /// Two refs have that name.
    #[error("{name} can mean {}; give the one that is meant in full", found.join(" or "))]
    Ambiguous {
        /// As given.
        name: String,
        /// The full names found.
        found: Vec<String>,
    },
    /// It leads to another kind of object.
    #[error("{name} leads to no commit: {why}")]
    NoCommit {
        /// As given.
        name: String,
        /// The reason.
        why: String,
    },
}

/// The contents of one path of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// A directory.
    Directory,
    /// A file as stored, without filters or conversion of line endings.
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
    /// Resolves `name` to a commit: a full ref name (`refs/…`), a full object name, a branch, or
    /// `remote/branch`. If `deciding` is that remote, the branch as a runner fetched it counts,
    /// else the remote-tracking branch.
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

    /// Resolves `name` to a commit as git does in the checkout we were started in. Also returns the
    /// full name of the ref; of anything else, the commit's.
    pub(crate) fn named_as_git_does(&self, name: &str) -> Result<(String, CommitId), NameError> {
        let no_commit = |why: &str| NameError::NoCommit { name: name.to_owned(), why: why.to_owned() };
        if name.is_empty() || name.starts_with('-') || name.chars().any(char::is_control) {
            return Err(no_commit("it is no name a ref can have"));
        }
        let asked = |more: &[&str]| {
            let git = self.git_here().args(["-c", "core.warnAmbiguousRefs=true", "rev-parse"]).args(more);
            git.run_unchecked().map_err(|error| no_commit(&error.to_string()))
        };
        let found = asked(&["--verify", "--end-of-options", &format!("{name}^{{commit}}")])?;
        if found.stderr.contains_str("is ambiguous") {
            let places = ["", "refs/", TAGS, HEADS, TRACKED].map(|above| format!("{above}{name}"));
            let is_there = |full: &String| matches!(self.followed(full), Ok(Some(_)));
            let found = places.into_iter().filter(is_there).collect();
            return Err(NameError::Ambiguous { name: name.to_owned(), found });
        }
        let Some(commit) = CommitId::parse_hex(found.text()).filter(|_| found.status.success()) else {
            return Err(no_commit(&found.complaint()));
        };
        let full = asked(&["--symbolic-full-name", name])?.text();
        let is_ref = full.starts_with("refs/") && !full.contains('\n');
        Ok((if is_ref { full } else { commit.to_string() }, commit))
    }

    /// The value of a ref, after following symbolic refs (`refs/remotes/origin/HEAD`).
    fn followed(&self, full: &str) -> Result<Option<CommitId>, RefError> {
        self.read_ref(self.meant(full.into()).as_bstr())
    }

    /// The ref that a symbolic ref leads to; for any other ref, `name` itself.
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

    /// Peels an annotated tag to its commit.
    fn peel(&self, id: CommitId) -> Result<CommitId, String> {
        let peel = || self.object(gits(id))?.peel_to_commit();
        let commit = again(peel).map_err(|error| gix_chain(&error))?;
        Ok(ours(&commit.id))
    }

    /// The tree of the directory `name` at the top of a commit's tree.
    pub fn directory_at(&self, commit: CommitId, name: &str) -> Result<Option<CommitId>, CommitError> {
        self.directory_in(self.commit(commit)?.tree, name)
    }

    /// The tree of the directory `name` at the top of a tree.
    pub fn directory_in(&self, tree: CommitId, name: &str) -> Result<Option<CommitId>, CommitError> {
        let found = self
            .tree(gits(tree))
            .map_err(|error| CommitError::Unreadable { id: tree, why: gix_chain(&error) })?;
        let entry = found.find_entry(BString::from(name));
        Ok(entry.filter(|entry| entry.mode().is_tree()).map(|entry| ours(&entry.object_id())))
    }

    /// What is at `path` of a commit. `None` if nothing is there, or a submodule. Of a file longer than `most` bytes, nothing
    /// is read.
    pub(crate) fn content_at(
        &self,
        commit: CommitId,
        path: &str,
        most: u64,
    ) -> Result<Option<Content>, CommitError> {
        let unreadable = |why: String| CommitError::Unreadable { id: commit, why: format!("{path}: {why}") };
        let tree = self.commit(commit)?.tree;
        let tree = self.tree(gits(tree)).map_err(|error| unreadable(gix_chain(&error)))?;
        let found = tree.lookup_entry_by_path(path).map_err(|error| unreadable(error.to_string()))?;
        let Some(entry) = found else { return Ok(None) };
        let bytes = || {
            let size = self.size(entry.object_id()).map_err(|error| unreadable(gix_chain(&error)))?;
            if size > most {
                return Err(unreadable(format!("it has {size} bytes, and at most {most} are read")));
            }
            let blob = self.object(entry.object_id()).map_err(|error| unreadable(gix_chain(&error)))?;
            Ok(blob.data.clone())
        };
        Ok(match entry.mode().kind() {
            EntryKind::Tree => Some(Content::Directory),
            EntryKind::Commit => None,
            EntryKind::Link => Some(Content::Link(bytes()?.into())),
            EntryKind::Blob => Some(Content::File { bytes: bytes()?, executable: false }),
            EntryKind::BlobExecutable => Some(Content::File { bytes: bytes()?, executable: true }),
        })
    }

    /// All entries of a tree by path, recursively. Submodules are left out: their files are not in
    /// it.
    pub fn files_of(&self, root: CommitId) -> Result<BTreeMap<PathBuf, Content>, CommitError> {
        let mut files = BTreeMap::new();
        for Walked { path, kind, id } in self.walk(root)? {
            let blob = || {
                let unreadable = |why: String| CommitError::Unreadable { id: root, why };
                let blob = self.object(id).map_err(|error| unreadable(gix_chain(&error)))?;
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
