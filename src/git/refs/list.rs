//! Lists refs.
//!
//! Invariant: a ref that is there during the whole list is in it. Git packs a ref by writing `packed-refs` and then removing
//! the ref's file. So the files are read first and `packed-refs` afterwards, opened afresh: a ref whose file has gone
//! meanwhile is there. The lists of gix read them the other way round.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use bstr::{BStr, BString, ByteSlice};

use crate::contract::ids::{BranchName, CommitId};
use crate::contract::layout::{self, HEADS};
use crate::git::refs::cas::RefError;
use crate::git::refs::intent_log::PACKED;
use crate::git::repo::open::{Repo, gix_chain, ours};

/// A branch as listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tip {
    /// Its name.
    pub branch: BranchName,
    /// The commit it points at; for a symbolic ref, the name of the ref it points at.
    pub target: Result<CommitId, BString>,
}

impl Repo {
    /// All local branches, sorted by name.
    pub fn branches(&self) -> Result<Vec<Tip>, RefError> {
        self.branches_below(HEADS)
    }

    /// The refs below `prefix`, by their names after it, sorted.
    pub(crate) fn tips(&self, prefix: &str) -> Result<Vec<Tip>, RefError> {
        let unreadable = |why: String| RefError::Unreadable { name: prefix.to_owned(), why };
        let loose = self.loose(prefix);
        let packed = self.packed_refs(prefix)?;
        let iter = packed.as_ref().map(|packed| packed.iter_prefixed(prefix.into())).transpose();
        let mut tips = Vec::new();
        for reference in iter.map_err(|error| unreadable(gix_chain(&error)))?.into_iter().flatten() {
            let Ok(reference) = reference else {
                tracing::warn!(prefix, "a line of packed-refs could not be read; passed over");
                continue;
            };
            let name = reference.name.as_bstr();
            // The file of a ref counts, also if it cannot be read.
            if !loose.contains_key(name) {
                tips.extend(tip(prefix, name, Ok(ours(&reference.target()))));
            }
        }
        if !loose.is_empty() {
            tips.extend(loose.into_iter().filter_map(|(name, target)| tip(prefix, name.as_bstr(), target?)));
            tips.sort_by(|one, other| one.branch.cmp(&other.branch));
        }
        Ok(tips)
    }

    /// Those of these refs below `prefix` that there are, as [`Repo::tips`] lists them. No other is read.
    pub(crate) fn tips_of(&self, prefix: &str, only: BTreeSet<BranchName>) -> Result<Vec<Tip>, RefError> {
        let unreadable = |error| RefError::Unreadable { name: prefix.to_owned(), why: gix_chain(&error) };
        let looked = only.into_iter().filter_map(|branch| {
            let name = BString::from([prefix.as_bytes(), branch.as_ref()].concat());
            let name = gix::refs::FullName::try_from(name).ok()?;
            let loose = self.loose_ref(&name);
            Some((branch, name, loose))
        });
        // All files before `packed-refs`.
        let looked: Vec<_> = looked.collect();
        let packed = self.packed_refs(prefix)?;
        let mut tips = Vec::new();
        for (branch, name, loose) in looked {
            let target = match (loose, &packed) {
                (Some(target), _) => target,
                (None, None) => None,
                (None, Some(packed)) => {
                    let found = packed.try_find(name.as_ref()).map_err(unreadable)?;
                    found.map(|found| Ok(ours(&found.target())))
                }
            };
            tips.extend(target.map(|target| Tip { branch, target }));
        }
        Ok(tips)
    }

    /// Opens `packed-refs` afresh, to read refs below `prefix`.
    fn packed_refs(&self, prefix: &str) -> Result<Option<gix::refs::packed::Buffer>, RefError> {
        let unreadable = |why: String| RefError::Unreadable { name: prefix.to_owned(), why };
        self.check_no_pipe(PACKED).map_err(|error| unreadable(error.to_string()))?;
        self.gix.refs.open_packed_buffer().map_err(|error| unreadable(gix_chain(&error)))
    }

    /// The target in the file of a ref. `None`: there is no file. `Some(None)`: it cannot be read, and is passed over.
    fn loose_ref(&self, name: &gix::refs::FullName) -> Option<Option<Result<CommitId, BString>>> {
        let read = self.check_no_pipe(name.as_bstr()).map_err(gix::Error::from_error);
        match read.and_then(|()| self.gix.refs.try_find_loose(name.as_ref())) {
            Ok(found) => found.map(|reference| Some(target(reference.target))),
            Err(error) => {
                let (name, error) = (name.as_bstr(), gix_chain(&error));
                tracing::warn!(%name, error, "a ref could not be read; passed over");
                Some(None)
            }
        }
    }

    /// The targets of the refs below `prefix` that have files, by their full names. `None`: the file cannot be read. Its
    /// neighbours are still listed.
    fn loose(&self, prefix: &str) -> BTreeMap<BString, Option<Result<CommitId, BString>>> {
        let directory = &prefix[..prefix.rfind('/').map_or(0, |at| at + 1)];
        let mut places = vec![self.common_dir()];
        // A worktree has refs of its own.
        places.extend(Some(self.git_dir()).filter(|own| *own != self.common_dir()));
        let mut found = BTreeMap::new();
        for top in places {
            for path in files_below(&top.join(directory)) {
                let name = path.strip_prefix(top).ok().map(|name| BString::from(name.as_os_str().as_bytes()));
                let Some(name) = name.filter(|name| name.starts_with(prefix.as_bytes())) else { continue };
                let Ok(full) = gix::refs::FullName::try_from(name.as_bstr()) else { continue };
                // There is none if it was deleted or packed since the directory was read.
                if let Some(target) = self.loose_ref(&full) {
                    found.insert(name, target);
                }
            }
        }
        found
    }

    /// The file of a branch, if it is there and is empty: as after a loss of power. git ignores such a ref.
    #[must_use]
    pub fn empty_file(&self, branch: &BranchName) -> Option<PathBuf> {
        let file = self.common_dir().join(OsStr::from_bytes(branch.full_ref().as_bstr()));
        std::fs::symlink_metadata(&file)
            .is_ok_and(|found| found.is_file() && found.len() == 0)
            .then_some(file)
    }

    /// All branches whose files are empty.
    #[must_use]
    pub fn empty_files(&self) -> Vec<(BranchName, PathBuf)> {
        let top = self.common_dir().join(HEADS);
        let empty = files_below(&top).into_iter().filter_map(|path| {
            let branch = BranchName::new(path.strip_prefix(&top).ok()?.as_os_str().as_bytes()).ok()?;
            Some((branch.clone(), self.empty_file(&branch)?))
        });
        let mut found: Vec<(BranchName, PathBuf)> = empty.collect();
        found.sort();
        found
    }

    /// The refs with the name of a directory of ours, but for slots, whose states are listed elsewhere.
    ///
    /// # Errors
    /// [`RefError::Unreadable`] if refs cannot be listed.
    pub fn refs_in_the_way(&self) -> Result<Vec<String>, RefError> {
        let all = self.tips("refs/")?.into_iter().map(|tip| (format!("refs/{}", tip.branch), ()));
        let found = layout::in_the_way(&all.collect()).into_keys();
        Ok(found.filter(|name| !name.starts_with(layout::SLOTS)).collect())
    }
}

/// A listed ref, unless its name is none of a branch.
fn tip(prefix: &str, name: &BStr, target: Result<CommitId, BString>) -> Option<Tip> {
    match BranchName::new(name.strip_prefix(prefix.as_bytes())?) {
        Ok(branch) => Some(Tip { branch, target }),
        Err(error) => {
            tracing::debug!(%error, "passed over");
            None
        }
    }
}

fn target(target: gix::refs::Target) -> Result<CommitId, BString> {
    match target {
        gix::refs::Target::Object(id) => Ok(ours(&id)),
        gix::refs::Target::Symbolic(name) => Err(name.into_inner()),
    }
}

/// The plain files below a directory, in no order. Links are not followed.
fn files_below(top: &Path) -> Vec<PathBuf> {
    let (mut found, mut ahead) = (Vec::new(), vec![top.to_owned()]);
    while let Some(directory) = ahead.pop() {
        for entry in std::fs::read_dir(&directory).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => ahead.push(entry.path()),
                Ok(kind) if kind.is_file() => found.push(entry.path()),
                Ok(_) | Err(_) => {}
            }
        }
    }
    found
}
