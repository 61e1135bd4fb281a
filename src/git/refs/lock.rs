//! The lock of a ref as git defines it: the file `<ref>.lock`, created by the process that moves the ref, and
//! finally renamed to the ref.
//!
//! Invariant: the file contains the new value from its first moment, because it gets its name only once it is
//! written (`O_TMPFILE` and `linkat`). So [`super::intent_log`] can recognise a lock that a killed runner
//! left. Systems without these calls write it after its creation. A lock that is not renamed is removed on
//! drop.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::clock;
use crate::clock::Stopwatch;

const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// A ref locked by this process.
#[derive(Debug)]
pub(crate) struct RefLock {
    lock: PathBuf,
    target: PathBuf,
    /// It is renamed, or not ours to remove.
    stays: bool,
}

impl RefLock {
    /// Locks the ref whose file is `target`, with `value` in the lock; `None` if another process
    /// holds it for all of `patience`.
    pub(crate) fn acquire(target: &Path, value: &[u8], patience: Duration) -> io::Result<Option<Self>> {
        let lock = lock_file(target);
        let (watch, mut pause) = (Stopwatch::start(), FIRST_PAUSE);
        loop {
            match make(&lock, value) {
                Ok(()) => return Ok(Some(Self { lock, target: target.to_owned(), stays: false })),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    if watch.elapsed() >= patience {
                        return Ok(None);
                    }
                    clock::pause(pause);
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                // Other processes remove directories of refs that they empty, possibly this one
                // right now.
                Err(error) if error.kind() == ErrorKind::NotFound && watch.elapsed() <= patience => {
                    match fs::create_dir_all(lock.parent().ok_or(error)?) {
                        Err(error) if !is_of_a_race(error.kind()) => return Err(error),
                        Ok(()) | Err(_) => {}
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The lock of the ref whose file is `target`, left by a dead process with `value`; `None` if it is not there. Unless
    /// it is renamed it stays, so that whoever could not use it can be followed by another.
    pub(crate) fn adopt(target: &Path, value: &[u8]) -> Option<Self> {
        let lock = lock_file(target);
        let held = crate::fsutil::read_plain(&lock).ok()?;
        (held.trim_ascii() == value).then(|| Self { lock, target: target.to_owned(), stays: true })
    }

    /// Moves the ref to the value; on an error the lock is still held.
    pub(crate) fn commit(&mut self) -> io::Result<()> {
        fs::rename(&self.lock, &self.target)?;
        self.stays = true;
        Ok(())
    }
}

impl Drop for RefLock {
    fn drop(&mut self) {
        if !self.stays
            && let Err(error) = fs::remove_file(&self.lock)
        {
            tracing::warn!(lock = %self.lock.display(), %error, "a lock stays");
        }
    }
}

/// The lock file of the ref whose file is `target`.
pub(super) fn lock_file(target: &Path) -> PathBuf {
    let mut lock = target.as_os_str().to_owned();
    lock.push(".lock");
    lock.into()
}

/// Whether directories could not be made since others may be removing them. A file in their place is found at the next try.
pub(super) fn is_of_a_race(error: ErrorKind) -> bool {
    matches!(error, ErrorKind::NotFound | ErrorKind::AlreadyExists)
}

fn make(lock: &Path, value: &[u8]) -> io::Result<()> {
    let directory = lock.parent().ok_or(ErrorKind::InvalidInput)?;
    let content = [value, b"\n"].concat();
    if let Some(mut file) = nameless(directory)? {
        file.write_all(&content)?;
        match give_name(&file, lock) {
            // `linkat` needs /proc, which may be missing.
            Err(error) if error.kind() == ErrorKind::NotFound && directory.exists() => {}
            named => return named,
        }
    }
    let mut file = OpenOptions::new().write(true).create_new(true).open(lock)?;
    file.write_all(&content).inspect_err(|_| drop(fs::remove_file(lock)))
}

/// An unnamed file in `directory`; `None` if the file system does not support that.
#[cfg(target_os = "linux")]
fn nameless(directory: &Path) -> io::Result<Option<File>> {
    let flags = nix::fcntl::OFlag::O_TMPFILE.bits();
    match OpenOptions::new().write(true).mode(0o666).custom_flags(flags).open(directory) {
        Ok(file) => Ok(Some(file)),
        Err(error) if matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::IsADirectory) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(not(target_os = "linux"))]
fn nameless(_directory: &Path) -> io::Result<Option<File>> {
    Ok(None)
}

#[cfg(target_os = "linux")]
fn give_name(file: &File, name: &Path) -> io::Result<()> {
    use std::os::fd::AsRawFd;

    let open = format!("/proc/self/fd/{}", file.as_raw_fd());
    let here = nix::fcntl::AT_FDCWD;
    nix::unistd::linkat(here, open.as_str(), here, name, nix::fcntl::AtFlags::AT_SYMLINK_FOLLOW)?;
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn give_name(_file: &File, _name: &Path) -> io::Result<()> {
    Err(ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn one_holder_a_whole_value_and_nothing_left() {
        let scratch = tempfile::tempdir().unwrap();
        let target = scratch.path().join("refs/heads/a/b");
        let lock = scratch.path().join("refs/heads/a/b.lock");
        let long = Duration::from_secs(9);
        let mut held = RefLock::acquire(&target, b"new", long).unwrap().expect("nobody else is here");
        assert_eq!(fs::read_to_string(&lock).unwrap(), "new\n");
        assert!(RefLock::acquire(&target, b"other", Duration::from_millis(5)).unwrap().is_none());
        assert_eq!(fs::read_to_string(&lock).unwrap(), "new\n");
        held.commit().unwrap();
        drop(held);
        assert_eq!((fs::read_to_string(&target).unwrap().as_str(), lock.exists()), ("new\n", false));
        let file = scratch.path().join("plain");
        File::create(&file).unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode();
        assert_eq!(mode(&target), mode(&file), "others who may read the repository may read it");
        drop(RefLock::acquire(&target, b"more", long).unwrap());
        assert_eq!((fs::read_to_string(&target).unwrap().as_str(), lock.exists()), ("new\n", false));
    }
}
