//! Write-ahead log of ref moves: announces them to the other runners of this host before the ref is locked
//! (CONTRACT 5.24).
//!
//! Git's lock on a ref is a file. It stays when its process is killed, and then looks like a lock in use. So
//! each process that moves refs has a log below `aynig/moves`. It holds an advisory lock on that log, which
//! ends with the process however it dies.
//!
//! Invariant: a ref's lock is removed only if it contains exactly the value that the log of a dead process
//! announced for that ref. Our commits are unique, so no other lock has that value. A lock that is not proved
//! to be ours stays, and is named in the error of a blocked move.
//!
//! The log is optional: if none can be written, refs are moved all the same.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bstr::{BStr, ByteSlice};

use crate::contract::ids::{AttemptId, CommitId};
use crate::contract::layout::Own;
use crate::fsutil;

/// The prefix of the lock of a ref that is being deleted. The rest is unique, like a new value.
pub(super) const DELETION: &str = "delete-";

/// The file of all packed refs.
pub(super) const PACKED: &str = "packed-refs";

/// This process's log; created with the first move, removed at the end.
#[derive(Debug)]
pub(crate) struct IntentLog {
    common_dir: PathBuf,
    directory: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    open: Option<(PathBuf, File)>,
    under_way: usize,
}

/// One announced move. Drop it only after the ref's lock is gone.
#[derive(Debug)]
#[must_use = "the move is under way until this is dropped"]
pub(crate) struct Intent<'a> {
    intent_log: &'a IntentLog,
}

impl IntentLog {
    pub(crate) fn new(common_dir: &Path) -> Self {
        Self {
            common_dir: common_dir.to_owned(),
            directory: Own::Moves.within(common_dir),
            state: Mutex::default(),
        }
    }

    /// Announces that `name` is about to be locked with `value`: its new value, or a unique word for a deletion.
    pub(crate) fn announce(&self, name: &BStr, value: &str) -> Intent<'_> {
        let mut state = self.lock();
        state.under_way += 1;
        if state.open.is_none() {
            match self.create() {
                Ok(made) => state.open = Some(made),
                Err(error) => tracing::debug!(%error, "moves of refs are not announced"),
            }
        }
        state.note(value.as_bytes(), name);
        Intent { intent_log: self }
    }

    /// Creates the log. It is locked before it gets its name, so that it is never taken for a dead
    /// process's.
    fn create(&self) -> std::io::Result<(PathBuf, File)> {
        if let Some(own) = self.directory.parent() {
            fsutil::create_dir(own)?;
        }
        fsutil::create_dir(&self.directory)?;
        let draft = fsutil::locked_draft(&self.directory)?;
        let path = self.directory.join(AttemptId::random().to_string());
        let file = draft.persist(&path).map_err(|failed| failed.error)?;
        Ok((path, file))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn note(&mut self, value: &[u8], name: &[u8]) {
        let Some((_, file)) = &mut self.open else { return };
        // One write, so that no reader sees half a line.
        if let Err(error) = file.write_all(&[value, b" ", name, b"\n"].concat()) {
            tracing::debug!(%error, "a move was not announced");
        }
    }
}

impl Drop for Intent<'_> {
    fn drop(&mut self) {
        let mut state = self.intent_log.lock();
        state.under_way -= 1;
        if state.under_way == 0
            && let Some((_, file)) = &mut state.open
            // The file is open for appending, so the next line goes to the new end.
            && let Err(error) = file.set_len(0)
        {
            tracing::debug!(%error, "moves that are over stay announced");
        }
    }
}

impl Drop for IntentLog {
    fn drop(&mut self) {
        if let Some((path, _file)) = self.lock().open.take()
            && let Err(error) = std::fs::remove_file(path)
        {
            tracing::debug!(%error, "the ledger of moves stays");
        }
    }
}

impl IntentLog {
    /// Removes ref locks that killed runners left, if they are proved to be theirs; returns the
    /// refs' names.
    pub(crate) fn release_dead_locks(&self) -> Vec<String> {
        let mut released = Vec::new();
        fsutil::remove_drafts(&self.directory);
        for entry in std::fs::read_dir(&self.directory).into_iter().flatten().flatten() {
            // A log whose lock is held belongs to a living process, such as this one.
            let Ok(Some(_dead)) = fsutil::FileLock::try_acquire(&entry.path()) else { continue };
            let Ok(announced) = std::fs::read(entry.path()) else { continue };
            for (value, name) in announced.lines().filter_map(|line| line.split_once_str(" ")) {
                if self.release(value, name) {
                    released.push(name.to_str_lossy().into_owned());
                }
            }
            if let Err(error) = std::fs::remove_file(entry.path()) {
                tracing::debug!(%error, "the ledger of a dead process stays");
            }
        }
        released
    }

    fn release(&self, value: &[u8], name: &[u8]) -> bool {
        if name != PACKED.as_bytes() && gix::refs::FullName::try_from(name.as_bstr()).is_err() {
            return false;
        }
        let mut lock = self.common_dir.join(OsStr::from_bytes(name)).into_os_string();
        lock.push(".lock");
        let lock = PathBuf::from(lock);
        let deletion = || value.strip_prefix(DELETION.as_bytes()).and_then(AttemptId::parse).is_some();
        let is_theirs = (CommitId::parse_hex(value).is_some() || deletion())
            && std::fs::read(&lock).is_ok_and(|held| held.trim() == value);
        is_theirs
            && std::fs::remove_file(&lock)
                .inspect_err(
                    |error| tracing::warn!(lock = %lock.display(), %error, "a dead runner's lock stays"),
                )
                .is_ok()
    }
}
