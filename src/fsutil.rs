//! File operations that must be right in one place: atomic replacement, private directories, tails
//! of files and locks.
//!
//! Invariants: no reader ever sees a partly written file from [`replace`]. A lock taken here ends
//! when its value is dropped or the process exits, because its descriptor is close-on-exec and no
//! command inherits it.
//!
//! `replace` is atomic for readers but does not survive a power failure. None of our files needs
//! that: git is the only store, and these files are caches and logs.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, Permissions, TryLockError};
use std::io::{self, ErrorKind, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

mod bounded;
mod follow;
mod free_space;
mod holder;
mod plain;
mod removal;
mod shell_line;
mod stirred;
mod tail;

pub(crate) use bounded::Bounded;
pub use follow::{Followed, News, follow};
pub use free_space::{FreeSpace, disk_use, free_space_text};
pub use holder::process_with;
pub use plain::open_plain;
pub(crate) use plain::{
    check_no_pipe, clear_odd, keep_aside, open_own, opened_up, read_plain, read_plain_text, remove_pipes,
    set_aside,
};
pub(crate) use removal::{Mounted, no_mounts_in, remove_all, remove_empty};
pub use shell_line::{Missing, missing_program, program_of};
pub(crate) use stirred::DirectoryWatch;
pub use tail::tail;
pub(crate) use tail::{last_line, tail_of};

/// Name prefix of unfinished files.
const DRAFT: &str = ".aynig-";

/// How many times to recreate a draft that was removed before it was locked.
const DRAFT_TRIES: u32 = 1_000;

/// Replaces the contents of `path` with `bytes`. A reader sees the old contents or the new, never a
/// part.
///
/// Writes a draft beside the target and renames it, so the directory must exist and be writable. An
/// existing regular file keeps its permission bits; a new file gets 0666 less the umask. A symbolic
/// link at `path` is itself replaced.
///
/// # Errors
/// Any error from writing the draft or renaming it. The target is then unchanged and the draft is
/// removed.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_with(
        path,
        bytes,
        fs::symlink_metadata(path).ok().filter(fs::Metadata::is_file).map(|old| old.permissions()),
    )
}

/// Replaces a file like [`replace`], with the mode 0600.
pub(crate) fn replace_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_with(path, bytes, Some(Permissions::from_mode(0o600)))
}

fn replace_with(path: &Path, bytes: &[u8], permissions: Option<Permissions>) -> io::Result<()> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) | None => Path::new("."),
    };
    let mut draft = locked_draft(directory)?;
    draft.write_all(bytes)?;
    if let Some(permissions) = permissions {
        draft.as_file().set_permissions(permissions)?;
    }
    crate::crashpoint::reach(crate::crashpoint::Point::FileDrafted);
    draft.persist(path).map_err(|failed| failed.error)?;
    Ok(())
}

/// Writes a new file. Not atomic: use it only where no reader looks before the file is complete.
///
/// # Errors
/// Any error from creating or writing; [`ErrorKind::AlreadyExists`] if the path exists.
pub(crate) fn create(path: &Path, bytes: &[u8]) -> io::Result<()> {
    File::create_new(path)?.write_all(bytes)
}

/// Writes a new file, complete from the first moment. Of two processes one wins.
///
/// # Errors
/// Any error from writing; [`ErrorKind::AlreadyExists`] if the path exists.
pub(crate) fn create_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut draft = locked_draft(path.parent().unwrap_or(Path::new(".")))?;
    draft.write_all(bytes)?;
    draft.persist_noclobber(path).map(drop).map_err(|error| error.error)
}

/// Creates a file in `directory` that this process holds locked while it is open. It has a draft's
/// name, so [`remove_drafts`] removes it if this process dies before renaming it.
///
/// # Errors
/// Any error from creating the file.
pub(crate) fn locked_draft(directory: &Path) -> io::Result<tempfile::NamedTempFile> {
    let mut tries = 0;
    loop {
        tries += 1;
        let draft = tempfile::Builder::new()
            .prefix(DRAFT)
            .permissions(Permissions::from_mode(0o666))
            .append(true)
            .tempfile_in(directory)?;
        // Until it is locked, another process may take it for a dead writer's draft and remove it.
        // A link count above zero after locking proves that it was not removed.
        match draft.as_file().try_lock() {
            Ok(()) if draft.as_file().metadata()?.nlink() > 0 => return Ok(draft),
            Ok(()) | Err(TryLockError::WouldBlock) if tries < DRAFT_TRIES => {}
            Ok(()) | Err(TryLockError::WouldBlock) => return Err(ErrorKind::NotFound.into()),
            // On a file system without locks, drafts are never removed either.
            Err(TryLockError::Error(error)) => {
                tracing::debug!(%error, "a draft could not be locked");
                return Ok(draft);
            }
        }
    }
}

/// Removes drafts that dead processes left in `directory` ([`replace`]). A draft that cannot be
/// removed stays.
pub(crate) fn remove_drafts(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if !entry.file_name().as_encoded_bytes().starts_with(DRAFT.as_bytes()) {
            continue;
        }
        if let Ok(Some(_abandoned)) = FileLock::try_acquire(&entry.path())
            && let Err(error) = fs::remove_file(entry.path())
        {
            tracing::debug!(path = %entry.path().display(), %error, "a dead writer's draft stays");
        }
    }
}

/// Creates the directory `path`, whose parent must exist. An existing one is left as it is.
///
/// # Errors
/// Any error from creating.
pub(crate) fn create_dir(path: &Path) -> io::Result<()> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        done => done,
    }
}

/// Creates `path` and its missing parents, each with mode 0700. An existing directory is left as it
/// is.
///
/// # Errors
/// Any error from creating, including a path component that is not a directory.
pub(crate) fn create_private_dir_all(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Opens a lock file or a directory to lock it. Never blocks: opening a named pipe would wait forever.
fn open_lock(path: &Path) -> io::Result<File> {
    let file =
        fs::OpenOptions::new().read(true).custom_flags(nix::fcntl::OFlag::O_NONBLOCK.bits()).open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_file() || kind.is_dir() {
        return Ok(file);
    }
    Err(io::Error::new(ErrorKind::InvalidInput, "it is neither a regular file nor a directory"))
}

/// Finds the program `name` in `path`, a list of directories in the format of the variable `PATH`.
pub fn found_in(name: &str, path: &OsStr) -> Option<PathBuf> {
    std::env::split_paths(path).map(|directory| directory.join(name)).find(|file| is_executable(file))
}

/// Whether this is a regular file with any executable bit set.
pub fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// Opens a log shared by several processes for appending, and creates it if needed. A log larger
/// than `most` bytes is first renamed to `<name>.old`. Never blocks and follows no symbolic link,
/// since the path may hold a file of another user.
///
/// # Errors
/// Any error from opening. Anything but a regular file is [`ErrorKind::InvalidInput`].
pub(crate) fn open_shared_log(path: &Path, most: u64) -> io::Result<File> {
    if fs::symlink_metadata(path).is_ok_and(|found| found.is_file() && found.len() > most) {
        let mut aside = path.as_os_str().to_owned();
        aside.push(".old");
        fs::rename(path, aside)?;
    }
    let flags = nix::fcntl::OFlag::O_NONBLOCK | nix::fcntl::OFlag::O_NOFOLLOW;
    let file = fs::OpenOptions::new().append(true).create(true).custom_flags(flags.bits()).open(path)?;
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::new(ErrorKind::InvalidInput, "it is not a regular file"))
}

/// Creates an unnamed file that contains `bytes`, positioned at its beginning.
///
/// # Errors
/// Any error from creating or writing it.
pub(crate) fn nameless(bytes: &[u8]) -> io::Result<File> {
    // In `TMPDIR`, which may be gone together with the command that set it; then in /tmp.
    let mut file = tempfile::tempfile().or_else(|error| tempfile::tempfile_in("/tmp").map_err(|_| error))?;
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file)
}

/// Checks that `directory` is writable or can be created. Creates nothing.
///
/// # Errors
/// The obstacle: a path component that is not a directory, or a missing permission.
pub fn check_place(directory: &Path) -> io::Result<()> {
    // One that somebody removes between two looks is looked for again.
    let is_gone = |error: &io::Error| error.kind() == ErrorKind::NotFound;
    let mut looks = (0..4).map(|_| check_nearest(directory));
    looks.find(|looked| !looked.as_ref().is_err_and(is_gone)).unwrap_or_else(|| check_nearest(directory))
}

fn check_nearest(directory: &Path) -> io::Result<()> {
    let nearest = directory.ancestors().find(|path| path.symlink_metadata().is_ok()).unwrap_or(directory);
    if !fs::metadata(nearest)?.is_dir() {
        return Err(io::Error::new(
            ErrorKind::NotADirectory,
            format!("{} is not a directory", nearest.display()),
        ));
    }
    let wanted = nix::unistd::AccessFlags::W_OK | nix::unistd::AccessFlags::X_OK;
    nix::unistd::access(nearest, wanted).map_err(|error| {
        io::Error::new(io::Error::from(error).kind(), format!("{}: {error}", nearest.display()))
    })
}

/// An exclusive advisory lock on an existing file or directory, released on drop.
///
/// It also excludes other threads of this process, because each acquisition opens its own file
/// description.
#[derive(Debug)]
#[must_use = "the lock ends when this is dropped"]
pub(crate) struct DirLock {
    file: File,
}

impl DirLock {
    /// Waits for the lock on `path`, for at most `patience`, since a stopped process keeps its
    /// locks. The path must exist; nothing is created and nothing in it is changed.
    ///
    /// # Errors
    /// Any error from opening or locking, for instance on a file system without locks.
    /// [`ErrorKind::TimedOut`] if another process holds the lock for all that time.
    pub(crate) fn acquire(path: &Path, patience: Duration) -> io::Result<Self> {
        let file = open_lock(path)?;
        let (mut waited, mut pause) = (Duration::ZERO, Duration::from_millis(1));
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self { file }),
                Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Interrupted => {}
                Err(TryLockError::Error(error)) => return Err(error),
                Err(TryLockError::WouldBlock) if waited < patience => {
                    std::thread::sleep(pause);
                    waited += pause;
                    pause = (pause * 2).min(Duration::from_millis(10));
                }
                Err(TryLockError::WouldBlock) => {
                    let why = format!(
                        "another process has held it for {} s and may have been stopped; `fuser -v {}` names it, `kill -CONT PID` \
                         lets it go on",
                        patience.as_secs(),
                        path.display()
                    );
                    return Err(io::Error::new(ErrorKind::TimedOut, why));
                }
            }
        }
    }
}

impl DirLock {
    /// Waits until nobody has the lock on `path`, for at most `patience`, without taking it. A path that cannot be locked
    /// is free.
    pub(crate) fn wait_until_free(path: &Path, patience: Duration) {
        const LOOK: Duration = Duration::from_millis(1);
        let Ok(file) = open_lock(path) else { return };
        let mut waited = Duration::ZERO;
        while matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)) && waited < patience {
            std::thread::sleep(LOOK);
            waited += LOOK;
        }
        unlock(&file);
    }

    /// Whether the file that is locked is the one at `path`.
    pub(crate) fn is_at(&self, path: &Path) -> bool {
        use std::os::unix::fs::MetadataExt;
        let inode = |found: std::fs::Metadata| (found.dev(), found.ino());
        self.file.metadata().map(inode).ok() == path.symlink_metadata().map(inode).ok()
    }
}

impl Drop for DirLock {
    fn drop(&mut self) {
        unlock(&self.file);
    }
}

/// An exclusive advisory lock on a lock file, released on drop. The file itself stays.
#[derive(Debug)]
#[must_use = "the lock ends when this is dropped"]
pub(crate) struct FileLock {
    file: File,
}

impl FileLock {
    /// Waits without limit for the lock on `path`. The file must exist.
    ///
    /// # Errors
    /// Any error from opening or locking.
    pub(crate) fn acquire(path: &Path) -> io::Result<Self> {
        let file = open_lock(path)?;
        file.lock().map(|()| Self { file })
    }

    /// Replaces `path` by a new file that contains `bytes`. The file is already locked when it
    /// becomes visible.
    ///
    /// # Errors
    /// Any error from writing, locking or renaming; the old file is then unchanged.
    pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<Self> {
        let directory = path.parent().unwrap_or(Path::new("."));
        let mut draft = tempfile::Builder::new()
            .prefix(".aynig-")
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(directory)?;
        draft.write_all(bytes)?;
        draft.as_file().lock()?;
        draft.persist(path).map(|file| Self { file }).map_err(|failed| failed.error)
    }

    /// Takes the lock on `path` without waiting; `None` if another holder has it. The file must
    /// exist.
    ///
    /// # Errors
    /// Any error from opening or locking. A lock held by another process is not an error.
    pub(crate) fn try_acquire(path: &Path) -> io::Result<Option<Self>> {
        let file = open_lock(path)?;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Some(Self { file })),
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Interrupted => {}
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        unlock(&self.file);
    }
}

// Closing the descriptor is not enough: a child that another thread has forked but that has not yet
// called exec shares the description for a moment. The next attempt to take the lock would then
// fail although there is no holder.
fn unlock(file: &File) {
    if let Err(error) = file.unlock() {
        tracing::debug!(%error, "could not release a lock; it ends with its descriptor");
    }
}

const HIDING: &str = "# Made by aynig; nothing in this directory belongs in a commit.\n*\n";

/// Writes a `.gitignore` into `directory` that hides all of it from the surrounding repository,
/// unless one exists.
///
/// # Errors
/// Any error from writing.
pub(crate) fn hide_from_git(directory: &Path) -> io::Result<()> {
    let file = directory.join(".gitignore");
    if file.exists() {
        return Ok(());
    }
    replace(&file, HIDING.as_bytes())
}

/// Whether `directory` has exactly the `.gitignore` that [`hide_from_git`] writes.
#[must_use]
pub(crate) fn hidden_by_us(directory: &Path) -> bool {
    read_plain(directory.join(".gitignore")).is_ok_and(|text| text == HIDING.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::thread;

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn drafts_go_with_their_writers() {
        let scratch = tempfile::tempdir().unwrap();
        let [dead, alive, other] =
            [".aynig-dead", ".aynig-alive", "other"].map(|name| scratch.path().join(name));
        for path in [&dead, &alive, &other] {
            File::create(path).unwrap();
        }
        let _writer = FileLock::acquire(&alive).unwrap();
        remove_drafts(scratch.path());
        assert_eq!([dead.exists(), alive.exists(), other.exists()], [false, true, true]);
        remove_drafts(&scratch.path().join("missing"));
    }

    #[test]
    fn shared_logs_are_bounded_and_are_no_links() {
        let scratch = tempfile::tempdir().unwrap();
        let (log, old) = (scratch.path().join("a.log"), scratch.path().join("a.log.old"));
        let write = |text: &[u8]| open_shared_log(&log, 4).unwrap().write_all(text).unwrap();
        write(b"12345");
        write(b"6");
        write(b"7");
        assert_eq!([fs::read(&old).unwrap(), fs::read(&log).unwrap()], [b"12345".to_vec(), b"67".to_vec()]);
        let link = scratch.path().join("b.log");
        std::os::unix::fs::symlink(&old, &link).unwrap();
        assert!(open_shared_log(&link, 0).is_err());
        assert!(link.is_symlink(), "it is not moved either");
        let pipe = scratch.path().join("c.log");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(open_shared_log(&pipe, 0).is_err());
    }

    #[test]
    fn a_file_is_replaced_although_drafts_are_being_removed() {
        let scratch = tempfile::tempdir().unwrap();
        let over = std::sync::atomic::AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(std::sync::atomic::Ordering::Relaxed) {
                    remove_drafts(scratch.path());
                }
            });
            let done: io::Result<()> =
                (0..2_000).try_for_each(|n| replace(&scratch.path().join("file"), n.to_string().as_bytes()));
            over.store(true, std::sync::atomic::Ordering::Relaxed);
            done.unwrap();
        });
        assert_eq!(fs::read(scratch.path().join("file")).unwrap(), b"1999");
    }

    #[test]
    fn a_lock_that_is_never_released_is_told() {
        let scratch = tempfile::tempdir().unwrap();
        let _held = DirLock::acquire(scratch.path(), LONG).unwrap();
        let error = DirLock::acquire(scratch.path(), Duration::from_millis(5)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert!(error.to_string().contains("fuser -v"), "{error}");
    }

    #[test]
    fn replace_keeps_the_mode_and_leaves_no_draft() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("state");
        replace(&path, b"one").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        replace(&path, b"two, longer").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two, longer");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 1);
    }

    #[test]
    fn replace_into_nowhere_fails_and_leaves_nothing() {
        let scratch = tempfile::tempdir().unwrap();
        let error = replace(&scratch.path().join("missing/state"), b"x").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
    }

    #[test]
    fn readers_see_whole_files_only() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("state");
        replace(&path, &[b'0'; 4096]).unwrap();
        thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for digit in b'1'..=b'9' {
                    replace(&path, &[digit; 4096]).unwrap();
                }
            });
            while !writer.is_finished() {
                let seen = fs::read(&path).unwrap();
                assert_eq!(seen.len(), 4096);
                assert!(seen.iter().all(|byte| *byte == seen[0]));
            }
        });
        assert_eq!(fs::read(&path).unwrap()[0], b'9');
    }

    #[test]
    fn private_directories_are_private() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("a/b");
        create_private_dir_all(&path).unwrap();
        create_private_dir_all(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o077, 0);
    }

    #[test]
    fn tails() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("log");
        replace(&path, b"0123456789").unwrap();
        for (max, expected) in [(0, ""), (3, "789"), (10, "0123456789"), (999, "0123456789")] {
            assert_eq!(tail(&path, max).unwrap(), expected.as_bytes(), "{max}");
        }
        assert_eq!(tail(&scratch.path().join("none"), 3).unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn a_pipe_is_not_waited_for() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("log");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(tail(&path, 9).unwrap_err().kind(), ErrorKind::InvalidInput);
        for error in [
            DirLock::acquire(&path, LONG).unwrap_err(),
            FileLock::acquire(&path).unwrap_err(),
            FileLock::try_acquire(&path).unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
        }
    }

    #[test]
    fn places() {
        let scratch = tempfile::tempdir().unwrap();
        check_place(scratch.path()).unwrap();
        check_place(&scratch.path().join("a/b")).unwrap();
        let file = scratch.path().join("file");
        File::create(&file).unwrap();
        for path in [file.clone(), file.join("a/b")] {
            assert_eq!(check_place(&path).unwrap_err().kind(), ErrorKind::NotADirectory);
        }
    }

    #[test]
    fn a_file_lock_has_one_holder_and_comes_back() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("lock");
        std::fs::File::create(&path).unwrap();
        let held = FileLock::try_acquire(&path).unwrap().expect("free");
        assert!(FileLock::try_acquire(&path).unwrap().is_none());
        drop(held);
        assert!(FileLock::try_acquire(&path).unwrap().is_some());
    }

    #[test]
    fn a_directory_lock_makes_the_second_wait() {
        let scratch = tempfile::tempdir().unwrap();
        let held = DirLock::acquire(scratch.path(), LONG).unwrap();
        let (sender, receiver) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(|| {
                let _second = DirLock::acquire(scratch.path(), LONG).unwrap();
                sender.send(()).unwrap();
            });
            assert!(receiver.recv_timeout(Duration::from_millis(50)).is_err(), "still held");
            drop(held);
            receiver.recv_timeout(Duration::from_secs(20)).unwrap();
        });
    }

    #[test]
    fn no_command_inherits_a_lock() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("lock");
        std::fs::File::create(&path).unwrap();
        let held = FileLock::try_acquire(&path).unwrap().expect("free");
        let child = duct::cmd!("sleep", "60").unchecked().start().unwrap();
        drop(held);
        let again = FileLock::try_acquire(&path).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(again.is_some());
    }
}
