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
//! A transaction is *decided* once all its refs are locked and have their expected values; a line of the log says so,
//! before the first ref is written. If its process dies after that, whoever finds the log finishes it. A ref that is
//! not written yet is still locked, so it cannot have moved meanwhile (CONTRACT 5.28).
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
use crate::git::refs::lock::lock_file;

/// The prefix of the lock of a ref that is being deleted. The rest is unique, like a new value.
pub(super) const DELETION: &str = "delete-";

/// The first word of the line of a transaction that was decided.
const DECIDED: &[u8] = b"decided";

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

/// One ref of a transaction that was decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Due<'a> {
    /// The full name.
    pub(super) name: &'a BStr,
    /// The value that it had; `None`: it did not exist.
    pub(super) expected: Option<CommitId>,
    /// What its lock contains: the new value, or a unique word for a deletion.
    pub(super) value: &'a [u8],
}

impl Due<'_> {
    /// The new value; `None` if the ref is to be deleted.
    pub(super) fn target(&self) -> Option<CommitId> {
        CommitId::parse_hex(self.value)
    }
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

    /// Records that a transaction is decided. All its refs are announced and locked.
    pub(super) fn decide(&self, refs: &[Due<'_>]) {
        let mut line = DECIDED.to_vec();
        for Due { name, expected, value } in refs {
            let expected = expected.map_or_else(|| "-".to_owned(), |id| id.to_string());
            line.extend([b" ", *value, b" ", expected.as_bytes(), b" ", name].concat());
        }
        self.lock().append(&[&line, b"\n".as_slice()].concat());
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
        self.append(&[value, b" ", name, b"\n"].concat());
    }

    /// Appends a line by one write, so that no reader sees half of it.
    fn append(&mut self, line: &[u8]) {
        let Some((_, file)) = &mut self.open else { return };
        if let Err(error) = file.write_all(line) {
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
    /// Removes ref locks that killed processes left, if they are proved to be theirs; returns the
    /// refs' names. `finish` first carries out the transactions that they had decided: it returns whether the ref is
    /// done with.
    pub(super) fn release_dead_locks(&self, finish: impl Fn(&Due<'_>) -> bool) -> Vec<String> {
        let mut released = Vec::new();
        fsutil::remove_drafts(&self.directory);
        for entry in std::fs::read_dir(&self.directory).into_iter().flatten().flatten() {
            // A log whose lock is held belongs to a living process, such as this one.
            let Ok(Some(_dead)) = fsutil::FileLock::try_acquire(&entry.path()) else { continue };
            let Ok(announced) = fsutil::read_plain(entry.path()) else { continue };
            let lines = || announced.lines().filter_map(|line| line.split_once_str(" "));
            // Finishing a deletion needs the lock of all packed refs.
            for (value, name) in lines().filter(|(_, name)| *name == PACKED.as_bytes()) {
                self.release(value, name);
            }
            let due: Vec<Due<'_>> = announced.lines().flat_map(decided).collect();
            let due: Vec<&Due<'_>> = due.iter().filter(|due| self.is_locked(due.value, due.name)).collect();
            let (done, failed): (Vec<_>, Vec<_>) = due.into_iter().partition(|due| finish(due));
            released.extend(done.into_iter().map(|due| due.name.to_string()));
            if !failed.is_empty() {
                // The next call tries again.
                continue;
            }
            for (_, name) in lines().filter(|(value, name)| self.release(value, name)) {
                let name = name.to_str_lossy().into_owned();
                if !released.contains(&name) {
                    released.push(name);
                }
            }
            if let Err(error) = std::fs::remove_file(entry.path()) {
                tracing::debug!(%error, "the ledger of a dead process stays");
            }
        }
        released
    }

    fn release(&self, value: &[u8], name: &[u8]) -> bool {
        let lock = self.lock_of(name);
        self.is_locked(value, name)
            && std::fs::remove_file(&lock)
                .inspect_err(
                    |error| tracing::warn!(lock = %lock.display(), %error, "a dead runner's lock stays"),
                )
                .is_ok()
    }

    /// Whether a ref is locked with this value, which a log announced.
    fn is_locked(&self, value: &[u8], name: &[u8]) -> bool {
        let deletion = || value.strip_prefix(DELETION.as_bytes()).and_then(AttemptId::parse).is_some();
        (name == PACKED.as_bytes() || gix::refs::FullName::try_from(name.as_bstr()).is_ok())
            && (CommitId::parse_hex(value).is_some() || deletion())
            && fsutil::read_plain(self.lock_of(name)).is_ok_and(|held| held.trim() == value)
    }

    fn lock_of(&self, name: &[u8]) -> PathBuf {
        let file = self.common_dir.join(OsStr::from_bytes(name));
        let file =
            if name == PACKED.as_bytes() { packed_file(&self.common_dir).unwrap_or(file) } else { file };
        lock_file(&file)
    }
}

/// The file of all packed refs. Several directories may share it by links: as git does, the file is locked and replaced,
/// and not the link.
///
/// # Errors
/// Any error from following the link.
pub(super) fn packed_file(common_dir: &Path) -> std::io::Result<PathBuf> {
    let file = common_dir.join(PACKED);
    if file.is_symlink() { file.canonicalize() } else { Ok(file) }
}

/// The refs of a transaction that a line says was decided. None for any other line.
fn decided(line: &[u8]) -> Vec<Due<'_>> {
    let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let Some((first, refs)) = words.split_first() else { return Vec::new() };
    if *first != DECIDED || refs.len() % 3 != 0 {
        return Vec::new();
    }
    let due = refs.chunks_exact(3).filter_map(|chunk| match chunk {
        [value, expected, name] => {
            Some(Due { name: name.as_bstr(), expected: CommitId::parse_hex(expected), value })
        }
        _ => None,
    });
    due.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_decided_transactions() {
        let id = "0123456789012345678901234567890123456789";
        let line = format!("decided {id} - refs/heads/a delete-x {id} refs/heads/b");
        let read: Vec<_> = decided(line.as_bytes())
            .iter()
            .map(|due| (due.name.to_string(), due.expected.is_some(), due.target().is_some()))
            .collect();
        assert_eq!(
            read,
            [("refs/heads/a".to_owned(), false, true), ("refs/heads/b".to_owned(), true, false)]
        );
        for other in
            ["", "decided", &format!("{id} refs/heads/a"), &line[..line.len() - 14], &format!("x{line}")]
        {
            assert_eq!(decided(other.as_bytes()), [], "{other}");
        }
    }
}
