//! Places of objects that cannot be read.
//!
//! Invariant: an object is lost only if it is in none of these places. Otherwise it may be back in a moment, as a disk
//! is that was not mounted, so nothing may take its place.

use std::ffi::OsStr;
use std::fmt::{Display, Formatter};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::clock;
use crate::contract::ids::CommitId;
use crate::git::repo::open::{Repo, gits};
use crate::words::shell_quote;

/// The bytes that a pack and its index begin with (gitformat-pack). An index of version 1 begins with its table.
const PACK: &[u8; 4] = b"PACK";
const INDEX: &[u8; 4] = b"\xfftOc";

/// How often the index of a new pack is looked for, and how long to wait before: git writes it last.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(10);

/// The reason for a pack whose git was killed before it wrote the index.
const NO_INDEX: &str = "its index is missing";

/// The beginnings of the names of packs that are not known yet. One that was killed leaves them.
const DRAFTS: [&str; 2] = ["tmp_", ".tmp-"];

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
    #[must_use]
    pub fn next(&self) -> String {
        if self.why == NO_INDEX {
            return format!(
                "`git index-pack {}` makes it anew, then again",
                shell_quote(self.path.as_os_str().as_bytes())
            );
        }
        "make it readable, then again; if it is lost, move it away (a directory of another repository: remove its line from \
         `objects/info/alternates`, here or there, or write an absolute path), and `git fsck` names what is missing"
            .to_owned()
    }
}

impl Repo {
    /// The first place that cannot be read of those that may have objects: packs, their indexes, and the directories
    /// of other repositories in `objects/info/alternates`.
    #[must_use]
    pub fn unread_objects(&self) -> Option<Unread> {
        let length = self.gix.object_hash().len_in_bytes();
        match self.object_directories() {
            Ok(all) => all.iter().find_map(|directory| unread_in(directory, length).err()),
            Err(unread) => Some(unread),
        }
    }

    /// The directory of the objects, and those of other repositories.
    fn object_directories(&self) -> Result<Vec<PathBuf>, Unread> {
        let store = self.gix.objects.store_ref();
        let alternates = store.alternate_db_paths().map_err(|error| {
            let path = store.path().join("info/alternates");
            Unread { path, why: error.to_string() }
        })?;
        Ok(std::iter::once(store.path().to_owned()).chain(alternates).collect())
    }

    /// Whether an object is here, or may be, and cannot be read.
    pub(crate) fn is_damaged(&self, id: CommitId) -> bool {
        self.object(gits(id)).is_err() && !self.is_absent(id)
    }

    /// Whether an object that cannot be read is in no place. Otherwise it is damaged, or a place of it cannot be read, and
    /// it may be back later.
    pub(crate) fn is_absent(&self, id: CommitId) -> bool {
        let hex = id.to_string();
        let Ok(all) = self.object_directories() else { return false };
        let found: Result<Vec<u64>, _> = all
            .iter()
            .map(|directory| directory.join(&hex[..2]).join(&hex[2..]).metadata())
            .filter(|found| !found.as_ref().is_err_and(|error| error.kind() == ErrorKind::NotFound))
            .map(|found| found.map(|found| found.len()))
            .collect();
        // A file without content, as after a loss of power, has lost it.
        let is_lost = |lengths: Vec<u64>| {
            if lengths.is_empty() { !self.has_object(id) } else { lengths.iter().all(|length| *length == 0) }
        };
        found.is_ok_and(is_lost) && self.unread_objects().is_none()
    }
}

/// Looks at a directory of objects, whose ids have `length` bytes.
fn unread_in(directory: &Path, length: usize) -> Result<(), Unread> {
    let unread = |path: &Path, error: io::Error| Unread { path: path.to_owned(), why: error.to_string() };
    let listed = |path: &Path| std::fs::read_dir(path).map_err(|error| unread(path, error));
    drop(listed(directory)?);
    let packs = directory.join("pack");
    if packs.symlink_metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound) {
        return Ok(());
    }
    let is_draft = |name: &OsStr| DRAFTS.iter().any(|begin| name.as_bytes().starts_with(begin.as_bytes()));
    let known = listed(&packs)?.flatten().filter(|entry| !is_draft(&entry.file_name()));
    for path in known.map(|entry| entry.path()) {
        let checked = match path.extension().and_then(|extension| extension.to_str()) {
            Some("pack") => check_pack(&path, length),
            Some("idx") => check_index(&path),
            _ => Ok(()),
        };
        checked.map_err(|error| unread(&path, error))?;
    }
    Ok(())
}

/// Checks the begin of a pack, and that it ends as its index says.
fn check_pack(pack: &Path, length: usize) -> io::Result<()> {
    let Some(mut file) = opened(pack)? else { return Ok(()) };
    if part(&mut file, SeekFrom::Start(0), PACK.len())? != PACK {
        return Err(io::Error::other("it is no pack"));
    }
    let index = pack.with_extension("idx");
    let mut found = opened(&index)?;
    for _ in 1..TRIES {
        if found.is_some() || !pack.exists() {
            break;
        }
        clock::pause(PAUSE);
        found = opened(&index)?;
    }
    let Some(mut index) = found else {
        return if pack.exists() { Err(io::Error::other(NO_INDEX)) } else { Ok(()) };
    };
    // An index ends with the digest of the pack, and its own.
    let from_end = |count: usize| SeekFrom::End(-i64::try_from(count * length).unwrap_or(i64::MAX));
    if part(&mut file, from_end(1), length)? == part(&mut index, from_end(2), length)? {
        Ok(())
    } else {
        Err(io::Error::other("it does not end as its index says"))
    }
}

fn check_index(index: &Path) -> io::Result<()> {
    let Some(mut file) = opened(index)? else { return Ok(()) };
    let table = part(&mut file, SeekFrom::Start(0), 1024)?;
    // In version 1 the last entry of the table is the number of objects.
    if table.starts_with(INDEX) || (table[0] == 0 && table[1020..] != [0; 4]) {
        Ok(())
    } else {
        Err(io::Error::other("it is no index of a pack"))
    }
}

/// Opens a file; `None` if it is gone, since `git gc` removes packs.
fn opened(path: &Path) -> io::Result<Option<File>> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn part(file: &mut File, from: SeekFrom, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    file.seek(from)?;
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fsutil;

    #[test]
    fn what_cannot_be_read_is_named() {
        let scratch = tempfile::tempdir().expect("a directory");
        let looked = || unread_in(scratch.path(), 20).map_err(|unread| unread.path);
        let place = |name: &str| scratch.path().join("pack").join(name);
        assert_eq!(looked(), Ok(()), "without packs");
        let none = scratch.path().join("none");
        assert_eq!(unread_in(&none, 20).map_err(|unread| unread.path), Err(none.clone()));
        std::os::unix::fs::symlink("nowhere", scratch.path().join("pack")).expect("linked");
        assert_eq!(looked(), Err(scratch.path().join("pack")));
        std::fs::remove_file(scratch.path().join("pack")).expect("removed");

        std::fs::create_dir(scratch.path().join("pack")).expect("made");
        let put = |name: &str, content: &[u8]| fsutil::replace(&place(name), content).expect("written");
        let digest: Vec<u8> = (1..=20).collect();
        let pack = [&b"PACK\0\0\0\x02"[..], &digest].concat();
        let index = [&INDEX[..], &[0; 1100], &digest, &[7; 20]].concat();
        let old = [&[0; 1020][..], &[0, 0, 0, 1], &[3; 24], &digest, &[7; 20]].concat();
        for (name, content) in [
            ("a.pack", &pack),
            ("a.idx", &index),
            ("b.pack", &pack),
            ("b.idx", &old),
            ("tmp_pack_x", &vec![]),
            (".tmp-7-pack-x.pack", &pack),
            ("tmp_pack.pack", &vec![]),
            ("a.rev", &vec![]),
        ] {
            put(name, content);
        }
        std::os::unix::fs::symlink("nowhere", place("gone.pack")).expect("linked");
        assert_eq!(looked(), Ok(()), "one that was removed is none");
        let (cut, zeros) = (&pack[..pack.len() - 1], vec![0; index.len()]);
        for (name, content) in [
            ("a.pack", cut),
            ("a.pack", b"".as_slice()),
            ("a.pack", b"text"),
            ("a.idx", &index[..900]),
            ("a.idx", &zeros),
        ] {
            let before = std::fs::read(place(name)).expect("a file");
            put(name, content);
            let named = looked().expect_err("a fault");
            assert!(named == place("a.pack") || named == place("a.idx"), "{named:?}");
            put(name, &before);
        }
        for name in ["c.pack", "c.idx"] {
            std::fs::create_dir(place(name)).expect("made");
            assert_eq!(looked(), Err(place(name)));
            std::fs::remove_dir(place(name)).expect("removed");
        }
        put("d.pack", &pack);
        let without_index = unread_in(scratch.path(), 20).expect_err("a fault");
        assert_eq!(without_index.path, place("d.pack"));
        assert!(without_index.next().starts_with("`git index-pack "), "{}", without_index.next());
    }
}
