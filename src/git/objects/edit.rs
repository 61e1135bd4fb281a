//! Trees made from others by changing a few files, and the small files of a tree.
//!
//! Invariant: nothing is checked out, so no filter or hook runs. Only regular files are read: a link or a submodule in
//! a tree of somebody else is an error.

use bstr::ByteSlice;
use gix::objs::tree::EntryKind;

use crate::contract::ids::CommitId;
use crate::git::contents::index::Edit;
use crate::git::objects::access::again;
use crate::git::objects::commits::CommitError;
use crate::git::objects::tree::Walked;
use crate::git::process::call::{Git, ProcessError};
use crate::git::repo::open::{Repo, gits, gix_chain, ours};

/// How many bytes deflate makes of one at most, rounded up.
const MOST_INFLATED: u64 = 1100;

/// A file of a tree, not read yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    /// The path from the top.
    pub path: String,
    /// The id of its content.
    pub id: CommitId,
}

impl Repo {
    /// Writes the tree that follows from `base` (`None`: the empty tree): each file gets a content, or goes. Paths are
    /// joined by `/`; directories come and go with their files.
    pub fn edit_tree(
        &self,
        base: Option<CommitId>,
        files: &[(impl AsRef<[u8]>, Option<Vec<u8>>)],
    ) -> Result<CommitId, CommitError> {
        // The editor reads trees by itself.
        again(|| self.edit_tree_once(base, files))
    }

    /// Writes a tree of executable files.
    pub(crate) fn tree_of_programs(&self, files: &[(String, Vec<u8>)]) -> Result<CommitId, CommitError> {
        let empty = gix::objs::Tree::empty();
        let mut editor = gix::objs::tree::Editor::new(empty, &self.gix.objects, self.gix.object_hash());
        for (path, content) in files {
            let blob =
                self.write_bytes(gix::objs::Kind::Blob, content).map_err(|error| self.unwritten(&error))?;
            let parts = path.as_bytes().split_str("/").map(|part| part.as_bstr());
            let added = editor.upsert(parts, EntryKind::BlobExecutable, blob);
            let unreadable = |why: String| CommitError::Unreadable { id: self.no_files(), why };
            added.map_err(|error| unreadable(error.to_string()))?;
        }
        editor.write(|tree| self.write(tree)).map(|id| ours(&id)).map_err(|error| self.unwritten(&error))
    }

    fn edit_tree_once(
        &self,
        base: Option<CommitId>,
        files: &[(impl AsRef<[u8]>, Option<Vec<u8>>)],
    ) -> Result<CommitId, CommitError> {
        let none = || self.no_files();
        let unreadable = |why: String| CommitError::Unreadable { id: base.unwrap_or_else(none), why };
        let root = match base {
            None => gix::objs::Tree::empty(),
            Some(base) => {
                let tree = self.tree(gits(base)).map_err(|error| unreadable(gix_chain(&error)))?;
                tree.decode().map_err(|error| unreadable(error.to_string()))?.into()
            }
        };
        let mut editor = gix::objs::tree::Editor::new(root, &self.gix.objects, self.gix.object_hash());
        for (path, content) in files {
            let parts = path.as_ref().split_str("/").map(|part| part.as_bstr());
            match content {
                Some(content) => {
                    let blob = self
                        .write_bytes(gix::objs::Kind::Blob, content)
                        .map_err(|error| self.unwritten(&error))?;
                    editor.upsert(parts, EntryKind::Blob, blob)
                }
                None => editor.remove(parts),
            }
            .map_err(|error| unreadable(error.to_string()))?;
        }
        editor.write(|tree| self.write(tree)).map(|id| ours(&id)).map_err(|error| self.unwritten(&error))
    }

    /// Writes the tree that follows from `base`: each path gets an object that is there, or goes. Only directories with
    /// changes are written.
    pub(crate) fn changed_tree(&self, base: CommitId, edits: &[Edit]) -> Result<CommitId, CommitError> {
        again(|| {
            let unreadable = |why: String| CommitError::Unreadable { id: base, why };
            let tree = self.tree(gits(base)).map_err(|error| unreadable(gix_chain(&error)))?;
            let root = tree.decode().map_err(|error| unreadable(error.to_string()))?.into();
            let mut editor = gix::objs::tree::Editor::new(root, &self.gix.objects, self.gix.object_hash());
            for (path, edit) in edits {
                let parts = path.split_str("/").map(|part| part.as_bstr());
                let edited = match edit {
                    Some((kind, id)) => editor.upsert(parts, *kind, *id),
                    None => editor.remove(parts),
                };
                edited.map_err(|error| unreadable(error.to_string()))?;
            }
            editor.write(|tree| self.write(tree)).map(|id| ours(&id)).map_err(|error| self.unwritten(&error))
        })
    }

    /// Stores a content.
    pub(crate) fn write_blob(&self, content: &[u8]) -> Result<gix::ObjectId, CommitError> {
        self.write_bytes(gix::objs::Kind::Blob, content).map_err(|error| self.unwritten(&error))
    }

    /// The id that a content has, stored or not.
    pub(crate) fn blob_id(&self, content: &[u8]) -> Option<CommitId> {
        let id = gix::objs::compute_hash(self.gix.object_hash(), gix::objs::Kind::Blob, content);
        id.ok().map(|id| ours(&id))
    }

    /// The files of a tree, recursively, at most `most`.
    pub fn blobs_of(&self, root: CommitId, most: usize) -> Result<Vec<Blob>, CommitError> {
        self.blobs_outside(root, most, &[])
    }

    /// Whether a tree has a file with this content, anywhere.
    pub fn has_file_with(&self, root: CommitId, content: &[u8]) -> Result<bool, CommitError> {
        let refuse = |why: String| CommitError::Unreadable { id: root, why };
        let wanted = gix::objs::compute_hash(self.gix.object_hash(), gix::objs::Kind::Blob, content);
        let wanted = wanted.map_err(|error| refuse(error.to_string()))?;
        let is_file = |kind| matches!(kind, EntryKind::Blob | EntryKind::BlobExecutable);
        Ok(self.walk_outside(root, &[])?.iter().any(|found| is_file(found.kind) && found.id == wanted))
    }

    /// Like [`blobs_of`](Self::blobs_of), without what is in the directories `skipped`, which are not read.
    pub fn blobs_outside(
        &self,
        root: CommitId,
        most: usize,
        skipped: &[&str],
    ) -> Result<Vec<Blob>, CommitError> {
        let refuse = |why: String| CommitError::Unreadable { id: root, why };
        let mut files = Vec::new();
        for Walked { path, kind, id } in self.walk_outside(root, skipped)? {
            match kind {
                EntryKind::Tree => {}
                EntryKind::Blob if files.len() < most => {
                    let path = String::from_utf8(path.into()).map_err(|error| refuse(error.to_string()))?;
                    files.push(Blob { path, id: ours(&id) });
                }
                EntryKind::Blob => return Err(refuse(format!("it holds more than {most} files"))),
                EntryKind::BlobExecutable | EntryKind::Link | EntryKind::Commit => {
                    return Err(refuse(format!("{path} is no plain file")));
                }
            }
        }
        Ok(files)
    }

    /// The regular file at `path` of a tree. `None` if nothing is there.
    pub fn file_at(&self, root: CommitId, path: &str) -> Result<Option<Blob>, CommitError> {
        let refuse = |why: String| CommitError::Unreadable { id: root, why };
        let tree = self.tree(gits(root)).map_err(|error| refuse(gix_chain(&error)))?;
        let found = again(|| tree.lookup_entry_by_path(path)).map_err(|error| refuse(error.to_string()))?;
        match found {
            None => Ok(None),
            Some(entry) if entry.mode().is_blob() => {
                Ok(Some(Blob { path: path.to_owned(), id: ours(&entry.object_id()) }))
            }
            Some(_) => Err(refuse(format!("{path} is no plain file"))),
        }
    }

    /// The content of a file of at most `most` bytes. The length is known before it is read.
    pub fn read_blob(&self, blob: &Blob, most: u64) -> Result<Vec<u8>, CommitError> {
        let refuse =
            |why: String| CommitError::Unreadable { id: blob.id, why: format!("{}: {why}", blob.path) };
        if !self.is_short_file(blob.id, most) {
            let size = self.size(gits(blob.id)).map_err(|error| refuse(gix_chain(&error)))?;
            if size > most {
                return Err(refuse(format!("it has {size} bytes, and at most {most} are read")));
            }
        }
        let object = self.object(gits(blob.id)).map_err(|error| refuse(gix_chain(&error)))?;
        Ok(object.detach().data)
    }

    /// Whether an object is a file of its own that cannot inflate to more than `most` bytes. To look at the file takes a
    /// fifth of the time of reading its header.
    fn is_short_file(&self, id: CommitId, most: u64) -> bool {
        let id = id.to_string();
        let (directory, name) = id.split_at(2);
        let file = self.common_dir().join("objects").join(directory).join(name);
        file.metadata().is_ok_and(|found| found.len().saturating_mul(MOST_INFLATED) <= most)
    }

    /// Lets git pack the objects if there are many loose ones (`gc.auto`), unless the user turned that off
    /// (`maintenance.auto`). It continues in the background, unless `gc.autoDetach` is false. It locks no ref: a killed git
    /// would leave the lock, without a proof of its owner.
    pub(crate) fn pack_if_many(&self) -> Result<(), ProcessError> {
        if self.gix.config_snapshot().boolean("maintenance.auto") == Some(false) {
            return Ok(());
        }
        // All calls of ours turn this off; here the user's limit counts, else git's default.
        let limit = format!("gc.auto={}", self.config("gc.auto").as_deref().unwrap_or("6700"));
        let objects = ["gc.packRefs=false", "gc.reflogExpire=never", "gc.reflogExpireUnreachable=never"];
        let settings = objects.into_iter().chain([limit.as_str()]).flat_map(|setting| ["-c", setting]);
        Git::shared(self.common_dir()).args(settings).args(["gc", "--auto", "--quiet"]).run().map(drop)
    }
}
