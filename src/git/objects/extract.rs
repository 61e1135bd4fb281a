//! Files of a commit, written beside a checkout: they are as stored, without filters, and nothing in the checkout
//! changes them.

use std::ffi::OsStr;
use std::fs::{OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use bstr::{BString, ByteSlice};
use gix::ObjectId;
use gix::objs::tree::EntryKind;

use crate::contract::ids::CommitId;
use crate::fsutil;
use crate::git::objects::commits::CommitError;
use crate::git::objects::differences::{EXECUTABLE, LINK, SUBMODULE};
use crate::git::objects::tree::Walked;
use crate::git::process::call::ProcessError;
use crate::git::repo::open::{Repo, gits, gix_chain, ours};

/// The most files of a directory.
const MAX_FILES: usize = 2000;

/// The most bytes of them together.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// Why a directory was not written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExtractError {
    /// An object could not be read.
    #[error(transparent)]
    Object(#[from] CommitError),
    /// Git refused.
    #[error(transparent)]
    Git(#[from] ProcessError),
    /// It is too large.
    #[error("{0}: more than {MAX_FILES} files or 64 MiB")]
    TooLarge(String),
    /// A file could not be written.
    #[error("could not write {path}")]
    Write {
        /// The file.
        path: String,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
}

/// The mode and the content of a path in a tree. `None`: it is not there.
type Placed = Option<(u16, CommitId)>;

impl Repo {
    /// Writes the files of a commit's directory into `into`, with all below it; of the top (an empty path) only its
    /// own files. They can only be read, and executed if the commit says so. Links and submodules are left out.
    pub(crate) fn extract(&self, commit: CommitId, directory: &str, into: &Path) -> Result<(), ExtractError> {
        let files = self.files_in(commit, directory)?;
        self.extract_these(commit, &format!("the directory {directory}"), files, into)
    }

    /// Writes all files of a commit that have this name into `into`, each in its directory.
    pub(crate) fn extract_named(
        &self,
        commit: CommitId,
        name: &str,
        into: &Path,
    ) -> Result<(), ExtractError> {
        let mut files = self.walk(self.commit(commit)?.tree)?;
        let is_plain =
            |part: &[u8]| !matches!(part, b"" | b"." | b"..") && !part.eq_ignore_ascii_case(b".git");
        files.retain(|file| {
            let mut parts = file.path.split(|byte| *byte == b'/');
            parts.clone().all(is_plain) && parts.next_back() == Some(name.as_bytes())
        });
        self.extract_these(commit, &format!("all {name} of {commit}"), files, into)
    }

    fn extract_these(
        &self,
        commit: CommitId,
        what: &str,
        files: Vec<Walked>,
        into: &Path,
    ) -> Result<(), ExtractError> {
        let unreadable = |why: String| CommitError::Unreadable { id: commit, why };
        let mut left = MAX_BYTES;
        let mut count = 0;
        for Walked { path, kind, id } in files {
            if !matches!(kind, EntryKind::Blob | EntryKind::BlobExecutable) {
                continue;
            }
            let size = self.size(id).map_err(|error| unreadable(gix_chain(&error)))?;
            count += 1;
            let too_large = || ExtractError::TooLarge(what.to_owned());
            left = left.checked_sub(size).filter(|_| count <= MAX_FILES).ok_or_else(too_large)?;
            let object = self.object(id).map_err(|error| unreadable(gix_chain(&error)))?;
            let target = into.join(OsStr::from_bytes(&path));
            let mode = if kind == EntryKind::BlobExecutable { 0o500 } else { 0o400 };
            write(&target, &object.data, mode)
                .map_err(|source| ExtractError::Write { path: target.display().to_string(), source })?;
        }
        Ok(())
    }

    fn files_in(&self, commit: CommitId, directory: &str) -> Result<Vec<Walked>, CommitError> {
        let mut tree = self.commit(commit)?.tree;
        for name in directory.split('/').filter(|name| !name.is_empty()) {
            let gone =
                || CommitError::Unreadable { id: commit, why: format!("it has no directory {directory}") };
            tree = self.directory_in(tree, name)?.ok_or_else(gone)?;
        }
        if !directory.is_empty() {
            return self.walk(tree);
        }
        let direct = self.entries_of(gits(tree))?.into_iter();
        Ok(direct.map(|entry| Walked { path: entry.name, kind: entry.mode.kind(), id: entry.id }).collect())
    }

    /// Writes a tree with some paths of another one changed: each gets a mode and a content, or goes.
    pub(crate) fn tree_with(
        &self,
        base: CommitId,
        files: &[(&[u8], Placed)],
    ) -> Result<CommitId, CommitError> {
        let unreadable = |why: String| CommitError::Unreadable { id: base, why };
        let tree = self.tree(gits(base)).map_err(|error| unreadable(gix_chain(&error)))?;
        let root = tree.decode().map_err(|error| unreadable(error.to_string()))?.into();
        let mut editor = gix::objs::tree::Editor::new(root, &self.gix.objects, self.gix.object_hash());
        let parts = |path: &[u8]| path.split_str("/").map(BString::from).collect::<Vec<_>>();
        // A file may take the place of a directory.
        for (path, _) in files.iter().filter(|(_, to)| to.is_none()) {
            editor.remove(parts(path)).map_err(|error| unreadable(error.to_string()))?;
        }
        for (path, to) in files {
            let Some((mode, id)) = to else { continue };
            let kind = match *mode {
                EXECUTABLE => EntryKind::BlobExecutable,
                LINK => EntryKind::Link,
                SUBMODULE => EntryKind::Commit,
                _ => EntryKind::Blob,
            };
            let id: ObjectId = gits(*id);
            editor.upsert(parts(path), kind, id).map_err(|error| unreadable(error.to_string()))?;
        }
        editor.write(|tree| self.write(tree)).map(|id| ours(&id)).map_err(|error| self.unwritten(&error))
    }
}

fn write(target: &Path, bytes: &[u8], mode: u32) -> std::io::Result<()> {
    if let Some(above) = target.parent() {
        fsutil::create_private_dir_all(above)?;
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(target)?;
    file.write_all(bytes)?;
    file.set_permissions(Permissions::from_mode(mode))
}
