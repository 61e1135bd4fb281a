//! Reads the file of a ref as git does.
//!
//! Invariants: a file without a value is an error, never a missing ref. A file has one name: a link to a name like
//! `refs/heads/a` is a symbolic ref, and so is here a name that leads by links to the file of another ref, which git takes
//! for two refs that move together. Any other link is followed.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use bstr::{BStr, BString, ByteSlice};

use crate::contract::ids::CommitId;
use crate::fsutil;

/// The target of a ref: a commit, or for a symbolic ref the name of another ref.
pub(crate) type Target = Result<CommitId, BString>;

/// How often a file is read that was something else a moment before.
const TRIES: usize = 100;

/// The longest chain of symbolic refs that git follows.
const DEPTH: usize = 5;

/// The damage of the file of a ref.
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

/// Reads the file of a ref in a git directory; `None` if there is none.
pub(crate) fn read(git_dir: &Path, name: &BStr) -> Result<Option<Target>, RefFlaw> {
    let found = read_plain(&git_dir.join(OsStr::from_bytes(name)))?;
    Ok(found.map(|target| target.and_then(|id| linked(git_dir, name).map_or(Ok(id), Err))))
}

/// Reads the file of a ref without a link in its path below `refs`.
pub(crate) fn read_plain(file: &Path) -> Result<Option<Target>, RefFlaw> {
    if let Ok(link) = std::fs::read_link(file) {
        let name = link.into_os_string().into_vec();
        if name.starts_with(b"refs/") && gix::refs::FullName::try_from(name.as_bstr()).is_ok() {
            return Ok(Some(Err(name.into())));
        }
    }
    for _ in 0..TRIES {
        return match fsutil::read_plain(file) {
            Ok(content) if content.is_empty() => Err(RefFlaw::Empty),
            Ok(content) => parsed(&content).map(Some).ok_or(RefFlaw::Garbage),
            // A ref above it may be there.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
            Err(error) => match file.metadata() {
                // Refs below it, or directories of removed ones, are there.
                Ok(found) if found.is_dir() => Ok(None),
                Ok(found) if !found.is_file() => Err(RefFlaw::NoFile),
                // Something else was there a moment ago, and is gone or a file by now.
                Err(gone) if gone.kind() == ErrorKind::NotFound => Ok(None),
                Ok(_) if error.kind() == ErrorKind::InvalidInput => continue,
                Ok(_) | Err(_) => Err(RefFlaw::Unreadable(error.to_string())),
            },
        };
    }
    Ok(None)
}

/// The ref that a name leads to in a git directory: the end of a chain of symbolic refs, or the name itself.
pub(crate) fn end(common_dir: &Path, name: &BStr) -> BString {
    let mut name = name.to_owned();
    for _ in 0..DEPTH {
        match read(common_dir, name.as_bstr()) {
            Ok(Some(Err(next))) => name = next,
            _ => break,
        }
    }
    name
}

/// The name of the ref whose file another name leads to, by links; or that of a directory of refs.
pub(crate) fn linked(git_dir: &Path, name: &BStr) -> Option<BString> {
    let file = git_dir.join(OsStr::from_bytes(name));
    let below_refs = name.split(|byte| *byte == b'/').count() - 1;
    if !file.ancestors().take(below_refs).any(Path::is_symlink) {
        return None;
    }
    let place = file.canonicalize().ok()?;
    let other = place.strip_prefix(git_dir.canonicalize().ok()?).ok()?.as_os_str().as_bytes();
    let is_other = other != name && other.starts_with(b"refs/");
    (is_other && gix::refs::FullName::try_from(other.as_bstr()).is_ok()).then(|| other.into())
}

/// The content of a ref's file, by the rules of git: white space or a null byte ends an id, and white space surrounds a
/// name. The null id is no value.
fn parsed(content: &[u8]) -> Option<Target> {
    if let Some(name) = content.strip_prefix(b"ref:") {
        let name = gix::refs::FullName::try_from(name.trim().as_bstr()).ok()?;
        return Some(Err(name.into_inner()));
    }
    let id = content.split(|byte| b" \t\r\n\0".contains(byte)).next()?;
    CommitId::parse_hex(id).filter(|_| id.iter().any(|digit| *digit != b'0')).map(Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789012345678901234567890123456789";

    #[test]
    fn contents_are_read_as_git_reads_them() {
        let id = CommitId::parse_hex(ID.as_bytes()).expect("an id");
        for good in ["\n", "", " x", "\r\n", "\tx", "\0\0"] {
            assert_eq!(parsed(format!("{ID}{good}").as_bytes()), Some(Ok(id)), "{good:?}");
        }
        for good in ["ref: refs/heads/a\n", "ref:refs/heads/a", "ref:  refs/heads/a \n"] {
            assert_eq!(parsed(good.as_bytes()), Some(Err("refs/heads/a".into())), "{good:?}");
        }
        let null = "0".repeat(40);
        for bad in
            ["garbage\n", "\0\0\0", &ID[..20], &format!("{ID}0"), &null, "ref: ", "ref: refs/a..b", "\n"]
        {
            assert_eq!(parsed(bad.as_bytes()), None, "{bad:?}");
        }
    }
}
