//! The refs that have files of their own: one, all below a directory, and the damaged ones.
//!
//! Invariant: a damaged ref is named, and never counts as missing.

use std::ffi::OsStr;
use std::fmt::{Display, Formatter};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use bstr::{BStr, BString, ByteSlice};

use crate::contract::ids::BranchName;
use crate::contract::layout::{FETCHED, FETCHED_RUNS, FETCHED_SLOTS};
use crate::git::refs::file::{RefFlaw, Target, end, read, read_plain};
use crate::git::repo::open::Repo;

/// The directory of all refs.
const REFS: &str = "refs";

/// A ref whose file has no value. git ignores it in lists, and fails if it is named.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DamagedRef {
    /// Its full name.
    pub name: BString,
    /// Its file.
    pub file: PathBuf,
    /// The damage of the file.
    pub flaw: RefFlaw,
}

impl Display for DamagedRef {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}; `aynig doctor` names the next step", self.what())
    }
}

impl DamagedRef {
    /// The damage in words, without the next step.
    #[must_use]
    pub fn what(&self) -> String {
        let file = self.file.display();
        match &self.flaw {
            RefFlaw::Empty => format!("{file} is empty, as after a loss of power"),
            RefFlaw::Garbage => format!("{file} contains neither the id of a commit nor the name of a ref"),
            RefFlaw::NoFile => format!("{file} is no file"),
            RefFlaw::Unreadable(why) => format!("{file}: {why}"),
        }
    }

    /// Whether the ref has lost its value. Otherwise it may be read again later.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        matches!(self.flaw, RefFlaw::Empty | RefFlaw::Garbage | RefFlaw::NoFile)
    }

    /// Whether the ref is a copy of a ref of a remote. Once the file is removed, the next fetch makes it anew.
    #[must_use]
    pub fn is_copy(&self) -> bool {
        [FETCHED, FETCHED_SLOTS, FETCHED_RUNS].iter().any(|place| self.name.starts_with(place.as_bytes()))
    }
}

/// Why a branch that is there is in no list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unlisted {
    /// Its file is damaged.
    Damaged(DamagedRef),
    /// Its name is one of `aynig.refNamespace`.
    Reserved,
}

impl Unlisted {
    /// The reason, after the name of the branch.
    #[must_use]
    pub fn why(&self) -> String {
        match self {
            Self::Damaged(damaged) => format!("cannot be read: {}", damaged.what()),
            Self::Reserved => "is below aynig.refNamespace, where runners keep what is no branch".to_owned(),
        }
    }

    /// The next step.
    #[must_use]
    pub fn next(&self) -> &'static str {
        match self {
            Self::Damaged(_) => "`aynig doctor` names the command that brings the branch back",
            Self::Reserved => "`git branch -m` gives it another name",
        }
    }
}

impl Repo {
    /// The target in the file of a ref; `None` if there is no file. The ref may still be packed.
    pub(super) fn loose_ref(&self, name: &BStr) -> Result<Option<Target>, DamagedRef> {
        read(self.common_dir(), name).map_err(|flaw| {
            let file = self.common_dir().join(OsStr::from_bytes(name));
            DamagedRef { name: name.to_owned(), file, flaw }
        })
    }

    /// The refs below `directory` (such as `refs/heads/`) that have files, by their full names.
    pub(super) fn loose_refs(&self, directory: &str) -> Vec<(BString, Result<Target, DamagedRef>)> {
        let mut found = Vec::new();
        let of_worktree = Some(self.git_dir()).filter(|own| *own != self.common_dir());
        for top in [self.common_dir()].into_iter().chain(of_worktree) {
            for (file, by_link) in files_below(&top.join(directory)) {
                let Ok(name) = file.strip_prefix(top) else { continue };
                let name = BString::from(name.as_os_str().as_bytes());
                // A worktree has refs of its own.
                let is_elsewhere =
                    of_worktree.is_some() && (top == self.common_dir()) == is_of_worktree(name.as_bstr());
                if is_elsewhere || gix::refs::FullName::try_from(name.as_bstr()).is_err() {
                    continue;
                }
                match if by_link { read(top, name.as_bstr()) } else { read_plain(&file) } {
                    // There is none if it was deleted or packed since the directory was read.
                    Ok(None) => found.extend(closed(&file).map(|error| {
                        let flaw = RefFlaw::Unreadable(format!("the directory cannot be read: {error}"));
                        (name.clone(), Err(DamagedRef { name, file, flaw }))
                    })),
                    Ok(Some(target)) => found.push((name, Ok(target))),
                    Err(flaw) => found.push((name.clone(), Err(DamagedRef { name, file, flaw }))),
                }
            }
        }
        found
    }

    /// The damage of the file of a ref, if it has one.
    pub(crate) fn damage_of(&self, name: &BStr) -> Option<DamagedRef> {
        self.loose_ref(name).err()
    }

    /// Why a branch of this repository is in no list, although it is there.
    #[must_use]
    pub fn unlisted(&self, branch: &BranchName) -> Option<Unlisted> {
        match self.loose_ref(branch.full_ref().as_bstr()) {
            Err(damaged) => Some(Unlisted::Damaged(damaged)),
            Ok(_) if !self.namespace().unwrap_or_default().has_branch(branch) => None,
            Ok(_) => matches!(self.branch_head(branch), Ok(Some(_))).then_some(Unlisted::Reserved),
        }
    }

    /// The branch that a symbolic ref to `target` leads to, if there is one. Follows as many refs as git. A branch that
    /// cannot be read is there.
    pub(crate) fn leads_to(&self, target: &[u8]) -> Option<BranchName> {
        let name = end(self.common_dir(), target.as_bstr());
        BranchName::from_full_ref(name.as_bstr())
            .filter(|branch| !matches!(self.branch_head(branch), Ok(None)))
    }

    /// All refs with damaged files, sorted. The caller reports them, so later lists do not.
    #[must_use]
    pub fn damaged_refs(&self) -> Vec<DamagedRef> {
        let mut found: Vec<_> =
            self.loose_refs(REFS).into_iter().filter_map(|(_, target)| target.err()).collect();
        found.sort();
        let mut reported = self.reported_damage().lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        reported.extend(found.iter().map(|damaged| damaged.name.clone()));
        found
    }

    /// Reports that a list passes a ref over: once in a process, since each list finds it.
    pub(super) fn report_damaged(&self, damaged: &DamagedRef) {
        let mut reported = self.reported_damage().lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if reported.insert(damaged.name.clone()) {
            tracing::error!("{} is passed over: {damaged}", damaged.name);
        }
    }
}

/// Whether each worktree has its own refs of this name (gitrepository-layout).
fn is_of_worktree(name: &BStr) -> bool {
    ["refs/bisect/", "refs/rewritten/", "refs/worktree/"]
        .iter()
        .any(|place| name.starts_with(place.as_bytes()))
}

/// The files below a directory, in no order, and the directories that may not be read; each with whether a link led
/// there. Links are followed, but not to a directory that they are in.
fn files_below(top: &Path) -> Vec<(PathBuf, bool)> {
    let (mut found, mut ahead) = (Vec::new(), vec![(top.to_owned(), top.is_symlink())]);
    while let Some((directory, by_link)) = ahead.pop() {
        let entries = match std::fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) => {
                // It is reported as such.
                if !is_absence(&error) {
                    found.push((directory, by_link));
                }
                continue;
            }
        };
        for entry in entries.flatten() {
            let path = entry.path();
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => ahead.push((path, by_link)),
                Ok(kind) if kind.is_symlink() && path.is_dir() => {
                    if !is_circle(&path) {
                        ahead.push((path, true));
                    }
                }
                Ok(kind) => found.push((path, by_link || kind.is_symlink())),
                Err(_) => {}
            }
        }
    }
    found
}

/// Why a directory cannot be read, as one of another user. git passes over the refs in it.
fn closed(directory: &Path) -> Option<std::io::Error> {
    std::fs::read_dir(directory).err().filter(|error| !is_absence(error))
}

fn is_absence(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// Whether a link leads to a directory that it is in.
fn is_circle(link: &Path) -> bool {
    let place = |path: &Path| path.metadata().ok().map(|found| (found.dev(), found.ino()));
    let there = place(link);
    there.is_some() && link.ancestors().skip(1).any(|above| place(above) == there)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::contract::ids::CommitId;
    use crate::fsutil;

    const ID: &str = "0123456789012345678901234567890123456789";

    #[test]
    fn links_are_followed_and_circles_end() {
        let scratch = tempfile::tempdir().expect("a directory");
        let place = |name: &str| scratch.path().join("refs").join(name);
        std::fs::create_dir_all(place("heads/a")).expect("made");
        std::fs::create_dir_all(place("other/c")).expect("made");
        std::fs::create_dir_all(scratch.path().join("far")).expect("made");
        for file in ["heads/a/b", "heads/one", "other/two", "../far/three"] {
            fsutil::replace(&place(file), ID.as_bytes()).expect("written");
        }
        for (to, link) in [
            ("one", "heads/linked"),
            ("../other", "heads/other"),
            ("../../far", "heads/far"),
            ("../../heads", "heads/a/circle"),
            ("../../heads", "other/c/circle"),
            ("refs/heads/one", "heads/symbolic"),
        ] {
            symlink(to, place(link)).expect("linked");
        }
        let heads = place("heads");
        let mut found: Vec<_> = files_below(&heads)
            .iter()
            .map(|(file, by_link)| {
                (file.strip_prefix(&heads).expect("below").display().to_string(), *by_link)
            })
            .collect();
        found.sort();
        let names = [
            ("a/b", false),
            ("far/three", true),
            ("linked", true),
            ("one", false),
            ("other/two", true),
            ("symbolic", true),
        ];
        assert_eq!(found, names.map(|(name, by_link)| (name.to_owned(), by_link)));
        let target = |name: &str| read(scratch.path(), format!("refs/{name}").as_str().into());
        let id = || Ok(Some(Ok(CommitId::parse_hex(ID.as_bytes()).expect("an id"))));
        for (name, wanted) in [
            ("heads/one", id()),
            ("heads/far/three", id()),
            ("other/two", id()),
            ("heads/linked", Ok(Some(Err("refs/heads/one".into())))),
            ("heads/symbolic", Ok(Some(Err("refs/heads/one".into())))),
            ("heads/other/two", Ok(Some(Err("refs/other/two".into())))),
            ("heads/a/circle/one", Ok(Some(Err("refs/heads/one".into())))),
            ("heads/none", Ok(None)),
            ("heads/a", Ok(None)),
            ("heads/one/below", Ok(None)),
        ] {
            assert_eq!(target(name), wanted, "{name}");
        }
        let end_of = |name: &str| end(scratch.path(), name.into());
        assert_eq!(end_of("refs/heads/linked"), "refs/heads/one");
        assert_eq!(end_of("refs/heads/far/three"), "refs/heads/far/three");
    }
}
