//! Contents that a filter of the user leaves out of the files that git stores (`filter.<name>.clean`), such as the
//! outputs of a notebook.
//!
//! Invariant: git takes a file for unchanged if only such contents differ, and no commit of it has them. So they are
//! compared with what a checkout would write (CONTRACT 9.5). Without such a setting, nothing is read.
//!
//! Only filters without a `smudge` of their own count. One that has it gives back what `clean` took (git-crypt), has
//! stored it (Git LFS, git-annex), or writes what follows from the history.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
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
        Ok(!self.not_given_back(worktree, head.tree, &all)?.is_empty())
    }

    /// Whether a submodule at `head` has such contents.
    pub(super) fn has_filtered_at(&self, place: &Workplace, head: CommitId) -> Result<bool, ProcessError> {
        let all = self.candidates(place, None)?;
        Ok(!self.not_given_back(place, head, &all)?.is_empty())
    }

    /// The tree `files` with the contents as they are in the worktree, where it would not give them back.
    pub(crate) fn with_filtered(
        &self,
        worktree: &Worktree,
        files: CommitId,
    ) -> Result<CommitId, RescueError> {
        let mut edits: Vec<Edit> = Vec::new();
        let all = self.candidates(worktree, made_from(worktree))?;
        for one in self.not_given_back(worktree, files, &all)? {
            let blob = self.write_blob(&one.content)?;
            edits.push((one.path, Some((one.kind, blob))));
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
        let mut candidates = self.candidates(place, Some(old))?;
        if candidates.is_empty() {
            return Ok(None);
        }
        let (from, to) = (old.to_string(), new.to_string());
        let changed = ["diff-tree", "-r", "-z", "--no-renames", "--name-only", &from, &to];
        let changed = place.git(changed).run()?.stdout;
        let changed: BTreeSet<&[u8]> = changed.split(|byte| *byte == 0).collect();
        candidates.retain(|path| changed.contains(path.as_slice()));
        for tree in [old, new].map(|one| self.commit(one).map_or(one, |commit| commit.tree)) {
            let found = self.not_given_back(place, tree, &candidates)?;
            candidates = found.into_iter().map(|one| one.path.into()).collect();
        }
        Ok(candidates.into_iter().next().map(|path| PathBuf::from(OsStr::from_bytes(&path))))
    }

    /// Those of the files at `paths` in which a checkout of the tree `files` would not write what is in them.
    fn not_given_back(
        &self,
        place: &Workplace,
        files: CommitId,
        paths: &BTreeSet<Vec<u8>>,
    ) -> Result<Vec<Filtered>, ProcessError> {
        let is_stored = |one: &Filtered| {
            let stored = one.path.to_str().ok().and_then(|path| self.file_at(files, path).ok().flatten());
            stored.is_some_and(|stored| self.blob_id(&one.content) == Some(stored.id))
        };
        let found = paths.iter().filter_map(|path| filtered(&place.path, path));
        let mut found: Vec<Filtered> = found.filter(|one| !is_stored(one)).collect();
        let Some(room) = (!found.is_empty()).then(tempfile::tempdir).and_then(Result::ok) else {
            return Ok(found);
        };
        // Line ends may differ, so git writes the files elsewhere. One that it cannot write is not given back.
        let (index, written) = (room.path().join("index"), room.path().join("files"));
        let git = || place.git(["-c", "core.sparseCheckout=false"]).env("GIT_INDEX_FILE", &index);
        git().args(["read-tree", &files.to_string()]).run()?;
        let mut prefix = OsString::from("--prefix=");
        prefix.push(written.join(""));
        let input: Vec<u8> = found.iter().flat_map(|one| [&one.path, &b"\0"[..]].concat()).collect();
        let write = git().args(["checkout-index", "--quiet", "-z", "--stdin"]).arg(prefix);
        write.stdin(input).run_unchecked()?;
        let place_of = |one: &Filtered| written.join(OsStr::from_bytes(&one.path));
        found.retain(|one| fsutil::read_plain(place_of(one)).ok().as_ref() != Some(&one.content));
        Ok(found)
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
