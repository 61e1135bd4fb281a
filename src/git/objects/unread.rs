//! Places of objects that cannot be read.
//!
//! Invariant: an object is lost only if it is in none of these places. Otherwise it may be back in a moment, as a disk
//! is that was not mounted, so nothing may take its place.

use std::fmt::{Display, Formatter};
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use crate::git::repo::open::Repo;

/// The bytes that a pack begins with (gitformat-pack).
const PACK: &[u8; 4] = b"PACK";

/// A pack, its index or a directory of objects that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unread {
    /// The file or directory.
    pub path: PathBuf,
    /// The reason.
    pub why: String,
}

impl Display for Unread {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} cannot be read ({})", self.path.display(), self.why)
    }
}

impl Unread {
    /// The next step.
    pub const NEXT: &str = "make it readable, then again; if it is lost, move it away (a directory of another repository: remove its line \
                            from `objects/info/alternates`), and `git fsck` names what is missing";
}

impl Repo {
    /// The first place that cannot be read of those that may have objects: packs, their indexes, and the directories
    /// of other repositories in `objects/info/alternates`.
    #[must_use]
    pub fn unread_objects(&self) -> Option<Unread> {
        let store = self.gix.objects.store_ref();
        let alternates = match store.alternate_db_paths() {
            Ok(alternates) => alternates,
            Err(error) => {
                let path = store.path().join("info/alternates");
                return Some(Unread { path, why: error.to_string() });
            }
        };
        let all = std::iter::once(store.path().to_owned()).chain(alternates);
        all.into_iter().find_map(|directory| unread_in(&directory).err())
    }
}

/// Looks at a directory of objects.
fn unread_in(directory: &Path) -> Result<(), Unread> {
    std::fs::read_dir(directory)
        .map_err(|error| Unread { path: directory.to_owned(), why: error.to_string() })?;
    let packs = directory.join("pack");
    let entries = match std::fs::read_dir(&packs) {
        Ok(entries) => entries,
        Err(error) => return unread(&packs, Err(error)),
    };
    for path in entries.flatten().map(|entry| entry.path()) {
        let extension = path.extension().and_then(|extension| extension.to_str());
        match extension {
            Some("pack") => unread(&path, begins_with_its_mark(&path))?,
            Some("idx") => unread(&path, has_content(&path))?,
            _ => {}
        }
    }
    Ok(())
}

/// A failure to read; none if nothing is there, since `git gc` removes packs.
fn unread(path: &Path, done: io::Result<()>) -> Result<(), Unread> {
    match done {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(Unread { path: path.to_owned(), why: error.to_string() })
        }
        _ => Ok(()),
    }
}

fn begins_with_its_mark(path: &Path) -> io::Result<()> {
    let mut begin = [0; PACK.len()];
    File::open(path)?.read_exact(&mut begin)?;
    if begin == *PACK { Ok(()) } else { Err(io::Error::other("it is no pack")) }
}

fn has_content(path: &Path) -> io::Result<()> {
    File::open(path)?.read_exact(&mut [0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fsutil;

    #[test]
    fn what_cannot_be_read_is_named() {
        let scratch = tempfile::tempdir().expect("a directory");
        let place = |name: &str| scratch.path().join(name);
        assert_eq!(unread_in(scratch.path()), Ok(()), "without packs");
        assert!(unread_in(&place("none")).is_err(), "a missing directory");
        std::fs::create_dir(place("pack")).expect("made");
        for (name, content) in
            [("a.pack", "PACK\0\0\0\x02"), ("a.idx", "x"), ("tmp_pack_x", ""), ("a.rev", "")]
        {
            fsutil::replace(&place("pack").join(name), content.as_bytes()).expect("written");
        }
        assert_eq!(unread_in(scratch.path()), Ok(()));
        std::os::unix::fs::symlink("nowhere", place("pack/gone.pack")).expect("linked");
        assert_eq!(unread_in(scratch.path()), Ok(()), "one that was removed");
        for (name, content) in [("b.pack", ""), ("b.pack", "PAC"), ("b.pack", "text"), ("b.idx", "")] {
            let file = place("pack").join(name);
            fsutil::replace(&file, content.as_bytes()).expect("written");
            assert_eq!(
                unread_in(scratch.path()).map_err(|unread| unread.path),
                Err(file.clone()),
                "{content:?}"
            );
            std::fs::remove_file(&file).expect("removed");
        }
        for name in ["c.pack", "c.idx"] {
            let directory = place("pack").join(name);
            std::fs::create_dir(&directory).expect("made");
            assert_eq!(unread_in(scratch.path()).map_err(|unread| unread.path), Err(directory.clone()));
            std::fs::remove_dir(&directory).expect("removed");
        }
    }
}
