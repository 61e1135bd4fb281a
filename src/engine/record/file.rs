//! Files of a record: masked, private, and with their digests.
//!
//! Invariant: no symbolic link is followed. A program of a step may have put one there.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

use nix::fcntl::OFlag;

use crate::fsutil;
use crate::git::objects::digest::Sha256;
use crate::ledger::masks::Masks;

/// How much of a file is masked at a time, in bytes. A longer file is cut after a line.
const PIECE: u64 = 16 * 1024 * 1024;

/// How deep directories of an attempt are looked into.
const DEPTH: usize = 8;

/// Opens a regular file, and no link to one.
pub(in crate::engine) fn open(path: &Path) -> io::Result<File> {
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOFOLLOW;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits()).open(path)?;
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(ErrorKind::InvalidInput.into())
}

/// Whether a path that is relative to `root` leads to a regular file below it, through directories alone.
pub(in crate::engine) fn is_below(root: &Path, path: &Path) -> bool {
    let mut place = root.to_path_buf();
    let mut parts = path.components().peekable();
    while let Some(part) = parts.next() {
        let Component::Normal(name) = part else { return false };
        place.push(name);
        let Ok(found) = place.symlink_metadata() else { return false };
        if parts.peek().is_some() != found.is_dir() || found.is_symlink() {
            return false;
        }
    }
    place != root && place.is_file()
}

/// Masks a file in place, and lets only its owner look into it. Returns its size and its SHA-256.
pub(super) fn seal(path: &Path, masks: &Masks) -> io::Result<(u64, String)> {
    let file = open(path)?;
    file.set_permissions(Permissions::from_mode(0o600))?;
    let long = file.metadata()?.len() > PIECE;
    let mut reader = BufReader::new(file);
    let directory = path.parent().unwrap_or(Path::new("."));
    let mut draft = if long && !masks.is_empty() { Some(fsutil::locked_draft(directory)?) } else { None };
    let (mut size, mut digest, mut changed) = (0, Sha256::default(), false);
    loop {
        let mut piece = Vec::new();
        reader.by_ref().take(PIECE).read_to_end(&mut piece)?;
        if piece.is_empty() {
            break;
        }
        if u64::try_from(piece.len()) == Ok(PIECE) {
            reader.by_ref().take(PIECE).read_until(b'\n', &mut piece)?;
        }
        let masked = masks.bytes(&piece);
        changed |= masked.is_some();
        let piece = masked.unwrap_or(piece);
        size += u64::try_from(piece.len()).unwrap_or(0);
        digest.update(&piece);
        match &mut draft {
            Some(draft) => draft.write_all(&piece)?,
            None if changed => fsutil::replace_private(path, &piece)?,
            None => {}
        }
        // A short file is one piece, even if a process still writes to it.
        if !long {
            break;
        }
    }
    if let Some(draft) = draft.filter(|_| changed) {
        draft.as_file().set_permissions(Permissions::from_mode(0o600))?;
        draft.persist(path).map_err(|failed| failed.error)?;
    }
    Ok((size, digest.finish()))
}

/// All regular files below a directory, as paths relative to it, in their order. Directories become private.
pub(super) fn below(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    walk(directory, Path::new(""), DEPTH, &mut found);
    found.sort();
    found
}

fn walk(directory: &Path, above: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        let path = above.join(entry.file_name());
        if kind.is_file() {
            found.push(path);
        } else if kind.is_dir() && depth > 0 {
            if let Err(error) = std::fs::set_permissions(entry.path(), Permissions::from_mode(0o700)) {
                tracing::debug!(path = %path.display(), %error, "a directory of a record may be open to others");
            }
            walk(&entry.path(), &path, depth - 1, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::objects::digest::sha256;

    fn masks() -> Masks {
        Masks::new(vec!["s3cret".to_owned()], "").expect("no expression")
    }

    fn size_of(content: &[u8]) -> u64 {
        u64::try_from(content.len()).expect("small")
    }

    #[test]
    fn files_are_masked_in_place_and_private() {
        let place = tempfile::tempdir().expect("a directory");
        let file = place.path().join("log");
        for (text, wanted) in
            [(&b"a s3cret\xff"[..], &b"a ***\xff"[..]), (b"", b""), (b"nothing", b"nothing")]
        {
            fsutil::replace(&file, text).expect("written");
            let sealed = seal(&file, &masks()).expect("sealed");
            assert_eq!(sealed, (size_of(wanted), sha256(wanted)));
            assert_eq!(std::fs::read(&file).expect("there"), wanted);
            let mode = std::fs::metadata(&file).expect("there").permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }

    #[test]
    fn long_files_are_masked_in_pieces() {
        let place = tempfile::tempdir().expect("a directory");
        let file = place.path().join("log");
        // The second line crosses the end of the first piece.
        let filler = "x".repeat(usize::try_from(PIECE).expect("small") - 3);
        fsutil::replace(&file, format!("{filler}\ns3cret here\nand s3cret\n").as_bytes()).expect("written");
        let (size, digest) = seal(&file, &masks()).expect("sealed");
        let wanted = format!("{filler}\n*** here\nand ***\n");
        assert_eq!((size, digest), (size_of(wanted.as_bytes()), sha256(wanted.as_bytes())));
        assert!(std::fs::read(&file).expect("there") == wanted.as_bytes());
    }

    #[test]
    fn links_are_not_followed() {
        let place = tempfile::tempdir().expect("a directory");
        let root = place.path().join("root");
        std::fs::create_dir_all(root.join("sub")).expect("made");
        fsutil::replace(&place.path().join("outside"), b"s3cret").expect("written");
        fsutil::replace(&root.join("sub/file"), b"x").expect("written");
        std::os::unix::fs::symlink("../outside", root.join("link")).expect("linked");
        std::os::unix::fs::symlink("..", root.join("up")).expect("linked");
        assert!(is_below(&root, Path::new("sub/file")));
        for wrong in ["link", "up/outside", "../outside", "sub", "missing", "", "/etc/passwd"] {
            assert!(!is_below(&root, Path::new(wrong)), "{wrong}");
        }
        assert!(seal(&root.join("link"), &masks()).is_err());
        assert_eq!(below(&root), [Path::new("sub/file")]);
        assert_eq!(std::fs::read(place.path().join("outside")).expect("there"), b"s3cret");
    }
}
