//! Moves several refs together: creates, moves and deletes (CONTRACT 5.28).
//!
//! Invariant: before the first ref is written all of them are locked, and have their expected values. A failure
//! before that changes nothing. A process that is killed between two writes leaves the later refs locked, and
//! [`Repo::release_dead_locks`] of another process writes them.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bstr::{BStr, BString, ByteSlice};

use crate::clock::{self, Stopwatch};
use crate::contract::ids::{AttemptId, CommitId};
use crate::fsutil;
use crate::git::refs::cas::{LOCK_PATIENCE, RefError, Swap};
use crate::git::refs::intent_log::{DELETION, Due, Intent, PACKED, packed_file};
use crate::git::refs::lock::{RefLock, lock_file};
use crate::git::repo::open::{Repo, gix_chain};

/// How long a living process holds the lock of a ref, unless the machine is busy.
const A_MOMENT: Duration = Duration::from_millis(100);

/// The pause before a ref is moved again to a place where the lock of another one is.
const PAUSE: Duration = Duration::from_millis(1);

/// The names in the path of a kind of refs.
const KIND: usize = 2;

/// One change of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefChange {
    /// The full name of the ref.
    pub name: BString,
    /// Its expected value; `None`: it must not exist.
    pub expected: Option<CommitId>,
    /// Its new value; `None`: it is deleted.
    pub new: Option<CommitId>,
}

/// The result of a transaction.
#[must_use = "a transaction that was lost must not be treated as won"]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Together {
    /// All refs had their expected values and now have the new ones.
    Won,
    /// A ref has another value; nothing was changed.
    Lost {
        /// The ref.
        name: BString,
        /// Its current value.
        actual: Option<CommitId>,
    },
}

/// A ref that is locked and has its expected value. The lock goes before the announcement.
pub(super) struct Prepared<'a> {
    name: &'a BStr,
    path: PathBuf,
    expected: Option<CommitId>,
    new: Option<CommitId>,
    /// What the lock contains.
    value: String,
    lock: RefLock,
    /// `None` if another process announced it.
    _announced: Option<Intent<'a>>,
}

impl Repo {
    /// Makes all `changes`, or none if one of the refs has another value than expected. They are written in the
    /// given order, except that the first deletion takes all deleted refs out of `packed-refs`. `log` is the message
    /// for the reflogs.
    pub fn swap_together(&self, changes: &[RefChange], log: &str) -> Result<Together, RefError> {
        // Always locked in the same order, so that two transactions never wait for each other.
        let mut order: Vec<usize> = (0..changes.len()).collect();
        order.sort_by(|one, other| changes[*one].name.cmp(&changes[*other].name));
        check_names(changes)?;
        let mut held: Vec<Option<Prepared<'_>>> = changes.iter().map(|_| None).collect();
        for at in order {
            let RefChange { name, expected, new } = &changes[at];
            match self.prepare(name.as_bstr(), *expected, *new)? {
                Ok(prepared) => held[at] = Some(prepared),
                Err(actual) => return Ok(Together::Lost { name: name.clone(), actual }),
            }
        }
        let gone: Vec<&BStr> = changes
            .iter()
            .filter(|change| change.new.is_none())
            .map(|change| change.name.as_bstr())
            .collect();
        let mut packed = if gone.is_empty() {
            None
        } else {
            Some(self.lock_packed(&gone, |path, value| self.lock(path, value))?)
        };
        crate::crashpoint::reach(crate::crashpoint::Point::RefLocked);
        for name in &gone {
            self.remove_log(name)?;
        }
        if changes.len() > 1 {
            let due = held.iter().flatten().map(|prepared| Due {
                name: prepared.name,
                expected: prepared.expected,
                value: prepared.value.as_bytes(),
            });
            self.intent_log().decide(&due.collect::<Vec<Due<'_>>>());
            crate::crashpoint::reach(crate::crashpoint::Point::RefsDecided);
        }
        let mut left = gone.len();
        for (at, prepared) in held.into_iter().flatten().enumerate() {
            if at > 0 {
                crate::crashpoint::reach(crate::crashpoint::Point::RefsHalfMoved);
            }
            match prepared.new {
                Some(new) => self.write_ref(prepared, new, log)?,
                None => {
                    left -= 1;
                    self.remove_ref(prepared, &mut packed)?;
                    if left == 0 {
                        packed = None;
                    }
                }
            }
        }
        Ok(Together::Won)
    }

    /// Removes `name` and its reflog if it points at `expected`.
    pub(crate) fn delete_ref(&self, name: &BStr, expected: CommitId) -> Result<Swap, RefError> {
        let change = RefChange { name: name.to_owned(), expected: Some(expected), new: None };
        Ok(match self.swap_together(&[change], "")? {
            Together::Won => Swap::Won,
            Together::Lost { actual, .. } => Swap::Lost { actual },
        })
    }

    /// Finishes transactions that killed processes had decided, and removes their other ref locks, if they are proved to
    /// be theirs; returns the refs' names.
    pub(crate) fn release_dead_locks(&self) -> Vec<String> {
        self.intent_log().release_dead_locks(|due| {
            let finished = self.finish(due);
            if let Err(error) = &finished {
                tracing::warn!(name = %due.name, %error, "a transaction of a dead process is not finished");
            }
            finished.is_ok()
        })
    }

    /// Writes a ref that a dead process has locked. The lock stays if that fails. A ref that has another value than
    /// expected is left alone: somebody removed its lock for a moment.
    fn finish(&self, due: &Due<'_>) -> Result<(), RefError> {
        let unwritable = |why: String| RefError::Unwritable { name: due.name.to_string(), why };
        let path = self.common_dir().join(OsStr::from_bytes(due.name));
        let full = gix::refs::FullName::try_from(due.name).map_err(|error| unwritable(error.to_string()))?;
        let Some(lock) = RefLock::adopt(&path, due.value) else { return Ok(()) };
        let (name, expected, new) = (due.name, due.expected, due.target());
        let value = due.value.to_str_lossy().into_owned();
        let actual = self.read_now(&full)?;
        let prepared = Prepared { name, path, expected, new, value, lock, _announced: None };
        match new {
            _ if actual != expected && actual != new => Ok(()),
            Some(new) => self.write_ref(prepared, new, "aynig: finished for a process that was killed"),
            None => {
                // This is the release of dead locks.
                let wait = |path: &Path, value: &[u8]| RefLock::acquire(path, value, LOCK_PATIENCE);
                let mut packed = Some(self.lock_packed(&[name], wait)?);
                self.remove_log(name)?;
                self.remove_ref(prepared, &mut packed)
            }
        }
    }

    /// Locks a ref, or all packed ones. A process that was killed may keep the lock; all others would wait for it, with
    /// the locks that they hold. `None`: a living process keeps it.
    fn lock(&self, path: &Path, value: &[u8]) -> std::io::Result<Option<RefLock>> {
        if let Ok(Some(lock)) = RefLock::acquire(path, value, A_MOMENT) {
            return Ok(Some(lock));
        }
        self.release_dead_locks();
        RefLock::acquire(path, value, LOCK_PATIENCE)
    }

    /// Locks a ref, and checks its value. Returns the actual one if it is another.
    pub(super) fn prepare<'a>(
        &'a self,
        name: &'a BStr,
        expected: Option<CommitId>,
        new: Option<CommitId>,
    ) -> Result<Result<Prepared<'a>, Option<CommitId>>, RefError> {
        let unwritable = |why: String| RefError::Unwritable { name: name.to_string(), why };
        let full = gix::refs::FullName::try_from(name).map_err(|error| unwritable(error.to_string()))?;
        let value = match new {
            Some(new) => new.to_string(),
            None => format!("{DELETION}{}", AttemptId::random()),
        };
        let announced = self.intent_log().announce(name, &value);
        // Like git, moves a ref under its own lock alone. `packed-refs`, which has the value if
        // there is no loose ref, is locked only for packing and deleting. A transaction of gix
        // would take that lock for each move.
        let path = self.common_dir().join(OsStr::from_bytes(name));
        let lock = match self.lock(&path, value.as_bytes()) {
            Ok(Some(lock)) => lock,
            Ok(None) => return self.judge_refusal(&full, expected, None).map(Err),
            Err(error) => return self.judge_refusal(&full, expected, Some(&error)).map(Err),
        };
        let actual = self.read_now(&full)?;
        if actual != expected {
            // The directories may have been made for the lock alone.
            drop(lock);
            remove_emptied(self.common_dir(), &path);
            return Ok(Err(actual));
        }
        if expected.is_none()
            && let Some(obstacle) = self.obstacle(&full).map_err(|error| unwritable(gix_chain(&error)))?
        {
            return Err(unwritable(obstacle));
        }
        Ok(Ok(Prepared { name, path, expected, new, lock, value, _announced: Some(announced) }))
    }

    /// Removes a named pipe or the like in the place of a ref's file: whoever reads it would wait forever.
    pub(crate) fn clear_odd_ref(&self, name: &BStr) -> std::io::Result<()> {
        let path = self.common_dir().join(OsStr::from_bytes(name));
        let is_odd = path.symlink_metadata().is_ok_and(|found| !found.is_dir());
        if is_odd { fsutil::clear_odd(&path).map(drop) } else { Ok(()) }
    }

    /// Points a ref whose file is damaged at a commit. Returns whether it was still damaged.
    pub(crate) fn overwrite_ref(&self, name: &BStr, new: CommitId, log: &str) -> Result<bool, RefError> {
        let unwritable =
            |error: std::io::Error| RefError::Unwritable { name: name.to_string(), why: error.to_string() };
        let (path, value) = (self.common_dir().join(OsStr::from_bytes(name)), new.to_string());
        let _announced = self.intent_log().announce(name, &value);
        let Some(mut lock) = self.lock(&path, value.as_bytes()).map_err(unwritable)? else {
            return Err(RefError::Locked { name: name.to_string(), lock: lock_file(&path) });
        };
        if self.damage_of(name).is_none() {
            return Ok(false);
        }
        self.append_to_reflog(name, None, new, log).map_err(unwritable)?;
        lock.commit().map_err(unwritable)?;
        Ok(true)
    }

    /// Writes a prepared ref and its reflog.
    pub(super) fn write_ref(
        &self,
        mut prepared: Prepared<'_>,
        new: CommitId,
        log: &str,
    ) -> Result<(), RefError> {
        let name = prepared.name;
        let unwritable = |why: String| RefError::Unwritable { name: name.to_string(), why };
        self.append_to_reflog(name, prepared.expected, new, log)
            .map_err(|error| unwritable(format!("its log: {error}")))?;
        // Empty directories of removed refs may be in the file's place, and for a moment the lock of a ref below it.
        let watch = Stopwatch::start();
        while let Err(error) = prepared.lock.commit() {
            if error.kind() != ErrorKind::IsADirectory || watch.elapsed() >= LOCK_PATIENCE {
                return Err(unwritable(error.to_string()));
            }
            if fsutil::remove_empty(&prepared.path).is_err() {
                clock::pause(PAUSE);
            }
        }
        Ok(())
    }

    /// Removes the reflog of a ref that is to be deleted. It goes before the ref: a ref without a log is better than a log
    /// that a later ref of this name takes over.
    fn remove_log(&self, name: &BStr) -> Result<(), RefError> {
        let top = self.common_dir().join("logs");
        let file = top.join(OsStr::from_bytes(name));
        remove_file(&file).map_err(|error| RefError::Unwritable {
            name: name.to_string(),
            why: format!("its log: {error}"),
        })?;
        remove_emptied(&top, &file);
        Ok(())
    }

    /// Deletes a prepared ref: from `packed-refs` first, so that no reader sees an older value there.
    fn remove_ref(
        &self,
        prepared: Prepared<'_>,
        packed: &mut Option<PackedLock<'_>>,
    ) -> Result<(), RefError> {
        let unwritable = |error: std::io::Error| RefError::Unwritable {
            name: prepared.name.to_string(),
            why: error.to_string(),
        };
        if let Some(PackedLock { path, new, .. }) = packed
            && let Some(new) = new.take()
        {
            fsutil::replace(path, &new).map_err(unwritable)?;
        }
        let file = prepared.path.clone();
        remove_file(&file).map_err(unwritable)?;
        // Its lock is in the directory.
        drop(prepared);
        remove_emptied(self.common_dir(), &file);
        Ok(())
    }

    /// Locks `packed-refs` until the loose refs are deleted, so that no process packs them meanwhile.
    fn lock_packed(
        &self,
        gone: &[&BStr],
        lock: impl FnOnce(&Path, &[u8]) -> std::io::Result<Option<RefLock>>,
    ) -> Result<PackedLock<'_>, RefError> {
        let unwritable =
            |error: std::io::Error| RefError::Unwritable { name: PACKED.to_owned(), why: error.to_string() };
        let path = packed_file(self.common_dir()).map_err(unwritable)?;
        let value = format!("{DELETION}{}", AttemptId::random());
        let announced = self.intent_log().announce(PACKED.into(), &value);
        let Some(lock) = lock(&path, value.as_bytes()).map_err(unwritable)? else {
            return Err(RefError::Locked { name: PACKED.to_owned(), lock: lock_file(&path) });
        };
        let before = match fsutil::read_plain(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            read => read.map_err(unwritable)?,
        };
        let after = without(&before, gone);
        let new = (after != before).then_some(after);
        Ok(PackedLock { _lock: lock, path, new, _announced: announced })
    }
}

/// Removes the file of a ref or of a log. Where it would be there may be nothing, or directories of removed ones.
fn remove_file(file: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(file) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(()),
        Err(_) if file.is_dir() => {
            drop(fsutil::remove_empty(file));
            Ok(())
        }
        removed => removed,
    }
}

/// Removes the directories that a removed file has left empty, as git does: each list of refs opens them. Those of the
/// kinds of refs below `top`, like `refs/heads`, stay.
fn remove_emptied(top: &Path, file: &Path) {
    let above = file
        .ancestors()
        .skip(1)
        .take_while(|above| above.strip_prefix(top).is_ok_and(|below| below.components().count() > KIND));
    // One that is not empty has others above it.
    let _ = above.map(std::fs::remove_dir).take_while(Result::is_ok).count();
}

/// The lock of `packed-refs`. Like git, writes another file and renames it while the lock is held.
struct PackedLock<'a> {
    _lock: RefLock,
    path: PathBuf,
    /// The new content, until it is written; `None` if nothing changes.
    new: Option<Vec<u8>>,
    _announced: Intent<'a>,
}

/// The content of `packed-refs` without these refs: each is a line `<id> <name>`, and may be followed by a line
/// `^<id>` with what a tag points at.
fn without(packed: &[u8], gone: &[&BStr]) -> Vec<u8> {
    let mut skipping = false;
    let kept = packed.lines_with_terminator().filter(|line| {
        skipping = match line.trim_end().split_once_str(" ") {
            Some((id, name)) if CommitId::parse_hex(id).is_some() => gone.contains(&name.as_bstr()),
            Some(_) | None => skipping && line.starts_with(b"^"),
        };
        !skipping
    });
    kept.collect::<Vec<&[u8]>>().concat()
}

/// Refuses changes of which one creates a ref below the name of another, and changes of one ref.
fn check_names(changes: &[RefChange]) -> Result<(), RefError> {
    for one in changes {
        let is_in_the_way = |other: &&RefChange| {
            let below =
                other.name.strip_prefix(one.name.as_slice()).is_some_and(|rest| rest.starts_with(b"/"));
            (below && one.new.is_some() && other.new.is_some())
                || (one.name == other.name && !std::ptr::eq(one, *other))
        };
        if let Some(other) = changes.iter().find(is_in_the_way) {
            let why = format!("{} is to be changed as well", other.name);
            return Err(RefError::Unwritable { name: one.name.to_string(), why });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_deleted_refs_go_with_what_they_point_at() {
        let id = "0123456789012345678901234567890123456789";
        let packed = format!(
            "# pack-refs with: peeled fully-peeled sorted \n{id} refs/heads/a\n{id} refs/tags/t\n^{id}\n{id} refs/tags/u\n"
        );
        let left = |gone: &[&str]| {
            let gone: Vec<&BStr> = gone.iter().map(|name| BStr::new(*name)).collect();
            without(packed.as_bytes(), &gone).to_str_lossy().into_owned()
        };
        assert_eq!(left(&["refs/heads/b", "refs/tags"]), packed);
        assert_eq!(left(&["refs/heads/a"]), packed.replace(&format!("{id} refs/heads/a\n"), ""));
        assert_eq!(left(&["refs/tags/t"]), packed.replace(&format!("{id} refs/tags/t\n^{id}\n"), ""));
        assert_eq!(without(b"", &[BStr::new("x")]), b"");
    }
}
