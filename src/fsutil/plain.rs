//! Files that others can write to, or replace by something that is none. Nothing here waits for anybody.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Opens an untrusted path for reading. Never blocks, and accepts only a regular file: reading a
/// named pipe would block forever.
///
/// # Errors
/// Any error from opening. Anything but a regular file is [`ErrorKind::InvalidInput`].
pub fn open_plain(path: &Path) -> io::Result<File> {
    let file =
        fs::OpenOptions::new().read(true).custom_flags(nix::fcntl::OFlag::O_NONBLOCK.bits()).open(path)?;
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::new(ErrorKind::InvalidInput, "it is not a regular file"))
}

/// Reads a file that others can write to: never blocks ([`open_plain`]).
///
/// # Errors
/// Any error from opening or reading. Anything but a regular file is [`ErrorKind::InvalidInput`].
pub(crate) fn read_plain(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_plain(path.as_ref())?.read_to_end(&mut bytes).map(|_| bytes)
}

/// The same of a text in UTF-8.
///
/// # Errors
/// Those of [`read_plain`]. Any other bytes are [`ErrorKind::InvalidData`].
pub(crate) fn read_plain_text(path: impl AsRef<Path>) -> io::Result<String> {
    String::from_utf8(read_plain(path)?).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
}

/// Takes away what is at the place of a file of ours and is none: a directory is renamed, and a pipe, a socket or a
/// device is removed. A link stays. Returns whether there was something.
///
/// # Errors
/// Any error from renaming or removing.
pub(crate) fn clear_odd(path: &Path) -> io::Result<bool> {
    let kind = match path.symlink_metadata() {
        Ok(found) => found.file_type(),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    if kind.is_file() || kind.is_symlink() {
        return Ok(false);
    }
    if !kind.is_dir() {
        return fs::remove_file(path).map(|()| true);
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let places = (1..u32::MAX).map(|number| path.with_file_name(format!("{name}.damaged-{number}")));
    let mut free = places.filter(|place| place.symlink_metadata().is_err());
    let free = free.next().ok_or(ErrorKind::AlreadyExists)?;
    fs::rename(path, free).map(|()| true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_file_makes_way() {
        let scratch = tempfile::tempdir().unwrap();
        let [file, pipe, directory] = ["file", "pipe", "directory"].map(|name| scratch.path().join(name));
        File::create(&file).unwrap();
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(read_plain(&pipe).unwrap_err().kind(), ErrorKind::InvalidInput);
        for _ in 0..2 {
            fs::create_dir(&directory).unwrap();
            assert!(clear_odd(&directory).unwrap());
        }
        assert!(scratch.path().join("directory.damaged-2").is_dir());
        let cleared = [&file, &pipe, &directory].map(|path| clear_odd(path).unwrap());
        assert_eq!((cleared, file.exists(), pipe.exists()), ([false, true, false], true, false));
    }
}
