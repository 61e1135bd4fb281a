//! Holds git's own lock of a file of settings, `<name>.lock`, so that nobody writes to the file at the same moment
//! (CONTRACT 20.33).
//!
//! Git holds such a lock for milliseconds. One that stays longer was left by a process that is gone.

use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::clock::{self, Stopwatch};
use crate::fsutil;
use crate::git::worktrees::held::Identity;

/// The age from which nobody holds a lock of git any more.
const LONGEST: Duration = Duration::from_secs(2);

/// How often a lock is looked at.
const LOOK: Duration = Duration::from_millis(5);

/// Git's lock of a file, until it is dropped.
#[derive(Debug)]
pub(super) struct Locked {
    /// `None`: it cannot be taken.
    lock: Option<PathBuf>,
}

impl Locked {
    /// Takes the lock of a file, and waits for whoever may hold it. A lock that nobody can hold is removed, unless it
    /// `stays`.
    pub(super) fn wait(file: &Path, stays: bool) -> Self {
        let lock = lock_of(file);
        let mut seen: Option<(Identity, Stopwatch)> = None;
        loop {
            match fsutil::create(&lock, b"") {
                Ok(()) => return Self { lock: Some(lock) },
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => {
                    tracing::debug!(%error, "{} cannot be made", lock.display());
                    return Self { lock: None };
                }
            }
            let Ok(found) = lock.symlink_metadata() else { continue };
            let identity = Identity::of(&found);
            let watch = match &seen {
                Some((before, watch)) if *before == identity => watch,
                _ => &seen.insert((identity, Stopwatch::start())).1,
            };
            if watch.elapsed() < LONGEST && age(&found) < LONGEST {
                clock::pause(LOOK);
                continue;
            }
            if stays {
                return Self { lock: None };
            }
            if let Err(error) = remove(&lock) {
                tracing::warn!(%error, "{} cannot be removed", lock.display());
                return Self { lock: None };
            }
        }
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        if let Some(lock) = &self.lock
            && let Err(error) = std::fs::remove_file(lock)
        {
            tracing::warn!(%error, "{} stays", lock.display());
        }
    }
}

/// The lock of a file of settings.
pub(super) fn lock_of(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".lock");
    name.into()
}

fn age(found: &Metadata) -> Duration {
    let seconds = clock::wall_seconds().saturating_sub(Identity::of(found).changed_at());
    Duration::from_secs(u64::try_from(seconds.saturating_sub(1)).unwrap_or(0))
}

fn remove(lock: &Path) -> io::Result<()> {
    match fsutil::clear_odd(lock).and_then(|_| std::fs::remove_file(lock)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
