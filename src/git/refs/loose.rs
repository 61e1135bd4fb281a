//! The file of a ref.
//!
//! Invariant: a file without a value is an error, never a missing ref. Links are read as git reads them: one to a name like
//! `refs/heads/a` is a symbolic ref, any other is followed.

use std::ffi::OsStr;
use std::fmt::{Display, Formatter};
use std::io::ErrorKind;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use bstr::{BStr, BString, ByteSlice};

use crate::contract::ids::{BranchName, CommitId};
use crate::contract::layout::{FETCHED, FETCHED_RUNS, FETCHED_SLOTS};
use crate::fsutil;
use crate::git::repo::open::Repo;

/// What a ref points at: a commit, or for a symbolic ref the name of another ref.
pub(crate) type Target = Result<CommitId, BString>;

/// The longest chain of symbolic refs that git follows.
const DEPTH: usize = 5;

/// The directory of all refs.
const REFS: &str = "refs";

/// A ref whose file has no value. git ignores it in lists, and fails if it is named.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DamagedRef {
    /// Its full name.
    pub name: BString,
    /// Its file.
    pub file: PathBuf,
    /// What is wrong with the file.
    pub flaw: RefFlaw,
}

/// What is wrong with the file of a ref.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum RefFlaw {
    /// It is empty, as after a loss of power.
    Empty,
    /// It contains neither the id of an object nor the name of a ref.
    Garbage,
    /// A pipe or the like is in its place.
    NoFile,
    /// It cannot be read, for this reason.
    Unreadable(String),
}

impl Display for DamagedRef {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}; `aynig doctor` names the next step", self.what())
    }
}

impl DamagedRef {
    /// What is wrong, without the next step.
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

    /// Whether the ref is a copy of a ref of a remote. The next fetch makes it anew.
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
    /// What the file of a ref says; `None` if there is none. The ref may still be packed.
    pub(super) fn loose_ref(&self, name: &BStr) -> Result<Option<Target>, DamagedRef> {
        let file = self.common_dir().join(OsStr::from_bytes(name));
        read(&file, self.digits()).map_err(|flaw| DamagedRef { name: name.to_owned(), file, flaw })
    }

    /// The refs below `directory` (such as `refs/heads/`) that have files, by their full names.
    pub(super) fn loose_refs(&self, directory: &str) -> Vec<(BString, Result<Target, DamagedRef>)> {
        let mut found = Vec::new();
        let of_worktree = Some(self.git_dir()).filter(|own| *own != self.common_dir());
        for top in [self.common_dir()].into_iter().chain(of_worktree) {
            for file in files_below(&top.join(directory)) {
                let Ok(name) = file.strip_prefix(top) else { continue };
                let name = BString::from(name.as_os_str().as_bytes());
                // A worktree has refs of its own.
                let is_elsewhere =
                    of_worktree.is_some() && (top == self.common_dir()) == is_of_worktree(name.as_bstr());
                if is_elsewhere || gix::refs::FullName::try_from(name.as_bstr()).is_err() {
                    continue;
                }
                match read(&file, self.digits()) {
                    // There is none if it was deleted or packed since the directory was read.
                    Ok(None) => {}
                    Ok(Some(target)) => found.push((name, Ok(target))),
                    Err(flaw) => found.push((name.clone(), Err(DamagedRef { name, file, flaw }))),
                }
            }
        }
        found
    }

    fn digits(&self) -> usize {
        self.gix.object_hash().len_in_hex()
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

    /// The branch that a symbolic ref to `target` leads to, if that has a commit. Follows as many refs as git.
    pub(crate) fn leads_to(&self, target: &[u8]) -> Option<BranchName> {
        let mut name = BString::from(target);
        for _ in 0..DEPTH {
            match self.loose_ref(name.as_bstr()) {
                Ok(Some(Err(next))) => name = next,
                _ => break,
            }
        }
        BranchName::from_full_ref(name.as_bstr())
            .filter(|branch| matches!(self.branch_head(branch), Ok(Some(_))))
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

/// Reads the file of a ref of a repository whose ids have this many digits.
fn read(file: &Path, digits: usize) -> Result<Option<Target>, RefFlaw> {
    if let Ok(link) = std::fs::read_link(file) {
        let name = link.into_os_string().into_vec();
        if name.starts_with(b"refs/") && gix::refs::FullName::try_from(name.as_bstr()).is_ok() {
            return Ok(Some(Err(name.into())));
        }
    }
    match fsutil::read_plain(file) {
        Ok(content) if content.is_empty() => Err(RefFlaw::Empty),
        Ok(content) => parsed(&content, digits).map(Some).ok_or(RefFlaw::Garbage),
        // Refs below it, or directories of removed ones, are there; or a ref above it is.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(_) if file.is_dir() => Ok(None),
        Err(error) if error.kind() == ErrorKind::InvalidInput => Err(RefFlaw::NoFile),
        Err(error) => Err(RefFlaw::Unreadable(error.to_string())),
    }
}

/// The content of a ref's file, by the rules of git: white space may follow an id, and surround a name. An id has this
/// many digits, and is not the null id.
fn parsed(content: &[u8], digits: usize) -> Option<Target> {
    if let Some(name) = content.strip_prefix(b"ref:") {
        let name = gix::refs::FullName::try_from(name.trim().as_bstr()).ok()?;
        return Some(Err(name.into_inner()));
    }
    let (id, rest) = content.split_at_checked(digits)?;
    let is_value = rest.first().is_none_or(u8::is_ascii_whitespace) && id.iter().any(|digit| *digit != b'0');
    CommitId::parse_hex(id).filter(|_| is_value).map(Ok)
}

/// The files below a directory, in no order. Links are followed, but not to a directory that they are in.
fn files_below(top: &Path) -> Vec<PathBuf> {
    let (mut found, mut ahead) = (Vec::new(), vec![top.to_owned()]);
    while let Some(directory) = ahead.pop() {
        for entry in std::fs::read_dir(&directory).into_iter().flatten().flatten() {
            let path = entry.path();
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => ahead.push(path),
                Ok(kind) if kind.is_symlink() && path.is_dir() => {
                    if !is_circle(&path) {
                        ahead.push(path);
                    }
                }
                Ok(_) => found.push(path),
                Err(_) => {}
            }
        }
    }
    found
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

    const ID: &str = "0123456789012345678901234567890123456789";

    #[test]
    fn contents_are_read_as_git_reads_them() {
        let id = CommitId::parse_hex(ID.as_bytes()).expect("an id");
        for good in ["\n", "", " x", "\r\n"] {
            assert_eq!(parsed(format!("{ID}{good}").as_bytes(), 40), Some(Ok(id)), "{good:?}");
        }
        for good in ["ref: refs/heads/a\n", "ref:refs/heads/a", "ref:  refs/heads/a \n"] {
            assert_eq!(parsed(good.as_bytes(), 40), Some(Err("refs/heads/a".into())), "{good:?}");
        }
        assert_eq!(parsed(ID.as_bytes(), 64), None, "an id of another kind of repository");
        let null = "0".repeat(40);
        for bad in
            ["garbage\n", "\0\0\0", &ID[..20], &format!("{ID}0"), &null, "ref: ", "ref: refs/a..b", "\n"]
        {
            assert_eq!(parsed(bad.as_bytes(), 40), None, "{bad:?}");
        }
    }

    #[test]
    fn links_are_followed_and_circles_end() {
        let scratch = tempfile::tempdir().expect("a directory");
        let place = |name: &str| scratch.path().join(name);
        std::fs::create_dir_all(place("heads/a")).expect("made");
        std::fs::create_dir_all(place("other/c")).expect("made");
        for file in ["heads/a/b", "heads/one", "other/two"] {
            fsutil::replace(&place(file), ID.as_bytes()).expect("written");
        }
        for (to, link) in [
            ("one", "heads/linked"),
            ("../other", "heads/far"),
            ("../../heads", "heads/a/circle"),
            ("../../heads", "other/c/circle"),
            ("refs/heads/one", "heads/symbolic"),
        ] {
            symlink(to, place(link)).expect("linked");
        }
        let heads = place("heads");
        let mut found: Vec<String> = files_below(&heads)
            .iter()
            .map(|file| file.strip_prefix(&heads).expect("below").display().to_string())
            .collect();
        found.sort();
        assert_eq!(found, ["a/b", "far/two", "linked", "one", "symbolic"]);
        assert_eq!(read(&place("heads/linked"), 40), read(&place("heads/one"), 40));
        assert_eq!(read(&place("heads/symbolic"), 40), Ok(Some(Err("refs/heads/one".into()))));
        for missing in ["heads/none", "heads/a", "heads/one/below"] {
            assert_eq!(read(&place(missing), 40), Ok(None), "{missing}");
        }
    }
}
