//! Files that others can write to, or replace by something that is none. Nothing here waits for anybody.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;

/// The permissions that the owner of a directory needs to work in it.
const OWNERS: u32 = 0o700;

/// Opens an untrusted path for reading. Never blocks, and accepts only a regular file: reading a
/// named pipe would block forever.
///
/// # Errors
/// Any error from opening. Anything but a regular file is [`ErrorKind::InvalidInput`].
pub fn open_plain(path: &Path) -> io::Result<File> {
    open_with(path, OFlag::O_NONBLOCK)
}

/// Like [`open_plain`], for a file of ours that others can replace: follows no link.
///
/// # Errors
/// Those of [`open_plain`], and any link.
pub(crate) fn open_own(path: &Path) -> io::Result<File> {
    open_with(path, OFlag::O_NONBLOCK | OFlag::O_NOFOLLOW)
}

fn open_with(path: &Path, flags: OFlag) -> io::Result<File> {
    let file = fs::OpenOptions::new().read(true).custom_flags(flags.bits()).open(path)?;
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

/// Refuses what is there if it is neither a file nor a directory: opening it may wait forever. A link is followed.
///
/// # Errors
/// [`ErrorKind::InvalidInput`].
pub(crate) fn check_no_pipe(path: &Path) -> io::Result<()> {
    match path.metadata() {
        Ok(found) if !found.is_file() && !found.is_dir() => {
            Err(io::Error::new(ErrorKind::InvalidInput, format!("{} is no file", path.display())))
        }
        Ok(_) | Err(_) => Ok(()),
    }
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
        return remove_pipe(path).map(|()| true);
    }
    set_aside(path).map(|_| true)
}

/// Attempts something in a directory. If the owner took the permissions for it from themselves, they are given back, and
/// it is attempted again. A link may lead to a directory of others, and is not followed.
///
/// # Errors
/// That of the attempt.
pub(crate) fn opened_up<T>(directory: &Path, attempt: impl Fn() -> io::Result<T>) -> io::Result<T> {
    attempt().or_else(|error| {
        let closed = directory.symlink_metadata().map(|found| found.permissions());
        let closed = closed.ok().filter(|closed| closed.mode() & OWNERS != OWNERS);
        let Some(mut mode) = closed.filter(|_| error.kind() == ErrorKind::PermissionDenied) else {
            return Err(error);
        };
        mode.set_mode(mode.mode() | OWNERS);
        fs::set_permissions(directory, mode)?;
        attempt()
    })
}

/// Renames something that is damaged to a free name beside it, and returns that.
///
/// # Errors
/// Any error from renaming.
pub(crate) fn set_aside(path: &Path) -> io::Result<PathBuf> {
    let free = free_beside(path)?;
    fs::rename(path, &free).map(|()| free)
}

/// Gives a file that is damaged a second, free name beside it, and returns that.
///
/// # Errors
/// Any error from linking, or else from copying.
pub(crate) fn keep_aside(path: &Path) -> io::Result<PathBuf> {
    let free = free_beside(path)?;
    fs::hard_link(path, &free).or_else(|_| fs::copy(path, &free).map(drop)).map(|()| free)
}

fn free_beside(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut places = (1..u32::MAX).map(|number| path.with_file_name(format!("{name}.damaged-{number}")));
    let free = places.find(|place| place.symlink_metadata().is_err());
    free.ok_or_else(|| ErrorKind::AlreadyExists.into())
}

/// Removes a named pipe. A process that waits for its other end continues, and reads nothing.
fn remove_pipe(path: &Path) -> io::Result<()> {
    let flags = (OFlag::O_NONBLOCK | OFlag::O_NOFOLLOW).bits();
    let ends = fs::OpenOptions::new().read(true).write(true).custom_flags(flags).open(path);
    let removed = fs::remove_file(path);
    drop(ends);
    removed
}

/// Removes named pipes, sockets and devices below a directory that `is_due` takes, but for those below `skipped`. Returns
/// their paths. What cannot be read or removed stays.
pub(crate) fn remove_pipes(directory: &Path, skipped: &Path, is_due: &dyn Fn(&Path) -> bool) -> Vec<PathBuf> {
    let (mut ahead, mut found) = (vec![directory.to_owned()], Vec::new());
    while let Some(directory) = ahead.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            let path = entry.path();
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() {
                ahead.extend((path != skipped).then_some(path));
            } else if !kind.is_file() && !kind.is_symlink() && is_due(&path) && remove_pipe(&path).is_ok() {
                found.push(path);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_for_a_pipe_goes_on_when_it_is_removed() {
        let scratch = tempfile::tempdir().unwrap();
        let (below, skipped) = (scratch.path().join("a/b"), scratch.path().join("c"));
        fs::create_dir_all(&below).unwrap();
        fs::create_dir(&skipped).unwrap();
        let [pipe, other, left] = [below.join("due"), below.join("other"), skipped.join("due")];
        for pipe in [&pipe, &other, &left] {
            nix::unistd::mkfifo(pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        }
        let waits = pipe.clone();
        let reader = std::thread::spawn(move || fs::read(waits));
        // A reader that has come before goes on, and one that comes later finds nothing.
        let found = remove_pipes(scratch.path(), &skipped, &|path| path.ends_with("due"));
        assert_eq!((found, other.exists(), left.exists()), (vec![pipe], true, true));
        let read = reader.join().unwrap();
        assert!(
            read.as_ref().map_or_else(|error| error.kind() == ErrorKind::NotFound, Vec::is_empty),
            "{read:?}"
        );
    }

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
