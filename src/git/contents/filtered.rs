//! Contents that a filter of the user leaves out of the files that git stores (`filter.<name>.clean`), such as the
//! outputs of a notebook.
//!
//! Invariant: git takes a file for unchanged if only such contents differ, and no commit of it has them. So they are
//! compared with what a checkout would write (CONTRACT 9.5). Without such a setting, nothing is read.
//!
//! Only filters without a `smudge` of their own count. One that has it gives back what `clean` took (git-crypt), has
//! stored it (Git LFS, git-annex), or writes what follows from the history.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use bstr::{BString, ByteSlice};
use gix::objs::tree::EntryKind;

use crate::contract::ids::CommitId;
use crate::fsutil;
use crate::git::contents::index::Edit;
use crate::git::contents::nested::made_from;
use crate::git::contents::rescue::RescueError;
use crate::git::process::call::{Git, ProcessError};
use crate::git::repo::open::Repo;
use crate::git::worktrees::held::Worktree;
use crate::git::worktrees::registration::Workplace;

/// A file with contents of its own.
struct Filtered {
    path: BString,
    content: Vec<u8>,
    kind: EntryKind,
}

impl Repo {
    /// Whether a worktree that git takes for unchanged has contents that its commit would not give back.
    pub(crate) fn has_filtered(&self, worktree: &Worktree) -> Result<bool, ProcessError> {
        let all = self.candidates(worktree, made_from(worktree))?;
        if all.is_empty() {
            return Ok(false);
        }
        let head = self.checked_out(worktree).and_then(|head| self.commit(head).ok());
        let Some(head) = head else { return Ok(true) };
        let mut files = all.iter().filter_map(|path| filtered(&worktree.path, path));
        Ok(files.any(|one| !self.gives_back(worktree, head.tree, &one)))
    }

    /// Whether a submodule at `head` has such contents.
    pub(super) fn has_filtered_at(&self, place: &Workplace, head: CommitId) -> Result<bool, ProcessError> {
        let all = self.candidates(place, None)?;
        let mut files = all.iter().filter_map(|path| filtered(&place.path, path));
        Ok(files.any(|one| !self.gives_back(place, head, &one)))
    }

    /// The tree `files` with the contents as they are in the worktree, where it would not give them back.
    pub(crate) fn with_filtered(
        &self,
        worktree: &Worktree,
        files: CommitId,
    ) -> Result<CommitId, RescueError> {
        let mut edits: Vec<Edit> = Vec::new();
        let all = self.candidates(worktree, made_from(worktree))?;
        for one in all.iter().filter_map(|path| filtered(&worktree.path, path)) {
            if !self.gives_back(worktree, files, &one) {
                let blob = self.write_blob(&one.content)?;
                edits.push((one.path, Some((one.kind, blob))));
            }
        }
        if edits.is_empty() { Ok(files) } else { Ok(self.changed_tree(files, &edits)?) }
    }

    /// A file with such contents that a change from one commit to another would write over.
    pub(crate) fn filtered_between(
        &self,
        place: &Workplace,
        old: CommitId,
        new: CommitId,
    ) -> Result<Option<PathBuf>, ProcessError> {
        let candidates = self.candidates(place, Some(old))?;
        if candidates.is_empty() {
            return Ok(None);
        }
        let (from, to) = (old.to_string(), new.to_string());
        let changed = ["diff-tree", "-r", "-z", "--no-renames", "--name-only", &from, &to];
        let changed = place.git(changed).run()?.stdout;
        let changed: BTreeSet<&[u8]> = changed.split(|byte| *byte == 0).collect();
        let trees = [old, new].map(|one| self.commit(one).map_or(one, |commit| commit.tree));
        let files = candidates.iter().filter(|path| changed.contains(path.as_slice()));
        let mut files = files.filter_map(|path| filtered(&place.path, path));
        let found = files.find(|one| !trees.iter().any(|tree| self.gives_back(place, *tree, one)));
        Ok(found.map(|one| PathBuf::from(OsStr::from_bytes(&one.path))))
    }

    /// Whether a checkout of `files` writes what is in the file.
    fn gives_back(&self, worktree: &Workplace, files: CommitId, one: &Filtered) -> bool {
        let stored = one.path.to_str().ok().and_then(|path| self.file_at(files, path).ok().flatten());
        if stored.is_some_and(|stored| self.blob_id(&one.content) == Some(stored.id)) {
            return true;
        }
        // Line ends may differ.
        let name = [files.to_string().as_bytes(), b":", &one.path].concat();
        let written = worktree.git(["cat-file", "--filters"]).arg(OsStr::from_bytes(&name)).run_unchecked();
        written.is_ok_and(|written| written.status.success() && written.stdout == one.content)
    }

    /// The paths that have such a filter, by the attributes as they are now or as `before` has them: git does not read a
    /// file anew whose filter has gone.
    fn candidates(
        &self,
        place: &Workplace,
        before: Option<CommitId>,
    ) -> Result<BTreeSet<Vec<u8>>, ProcessError> {
        let drivers = self.drivers();
        if drivers.is_empty() || !place.path.is_dir() {
            return Ok(BTreeSet::new());
        }
        let listed = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
        let listed = place.git(listed).run()?.stdout;
        let asks = |git: Git| git.args(["-z", "--stdin", "filter"]).stdin(listed.clone());
        let mut named = asks(place.git(["check-attr"])).run()?.stdout;
        if let (Some(before), Ok(room)) = (before, tempfile::tempdir()) {
            let index = room.path().join("index");
            let of = |git: Git| git.env("GIT_INDEX_FILE", &index);
            if of(place.git(["read-tree", &before.to_string()])).run_unchecked()?.status.success() {
                named.extend(asks(of(place.git(["check-attr", "--cached"]))).run()?.stdout);
            }
        }
        // "<path> NUL filter NUL <value> NUL"
        let words: Vec<&[u8]> = named.split(|byte| *byte == 0).collect();
        let of = |value: &[u8]| drivers.iter().any(|driver| driver.as_bytes() == value);
        Ok(words.chunks_exact(3).filter(|chunk| of(chunk[2])).map(|chunk| chunk[0].to_vec()).collect())
    }

    /// The names of the filters that only leave something out.
    fn drivers(&self) -> Vec<String> {
        // As in git, the last value counts, and an empty one is none.
        let mut values = BTreeMap::new();
        for one in self.settings("filter") {
            let Some((driver, name)) = one.name.rsplit_once('.') else { continue };
            values.insert((driver.to_owned(), name.to_ascii_lowercase()), one.value.unwrap_or_default());
        }
        let of =
            |driver: &str, name: &str| values.get(&(driver.to_owned(), name.to_owned())).map(String::as_str);
        let is_set = |driver: &str, name: &str| of(driver, name).is_some_and(|value| !value.is_empty());
        let names = values.keys().map(|(driver, _)| driver.as_str()).collect::<BTreeSet<_>>();
        let only_leaves_out = |driver: &&str| {
            let smudge = of(driver, "smudge").unwrap_or_default().trim();
            is_set(driver, "clean") && !is_set(driver, "process") && ["", "cat", "cat -"].contains(&smudge)
        };
        names.into_iter().filter(only_leaves_out).map(str::to_owned).collect()
    }
}

/// A file of a worktree; `None` if it is none, or gone.
fn filtered(top: &Path, path: &[u8]) -> Option<Filtered> {
    let file = top.join(OsStr::from_bytes(path));
    let found = file.symlink_metadata().ok().filter(std::fs::Metadata::is_file)?;
    let is_executable = found.permissions().mode() & 0o100 != 0;
    let kind = if is_executable { EntryKind::BlobExecutable } else { EntryKind::Blob };
    Some(Filtered { path: path.into(), content: fsutil::read_plain(&file).ok()?, kind })
}
