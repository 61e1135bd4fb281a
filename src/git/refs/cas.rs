//! Refs: reading them, listing branches, and the compare-and-swap that makes one winner.
//!
//! Invariant: [`Repo::swap`] moves a ref only if, while its lock is held, its value on disk is the expected one;
//! so of any number of processes that expect the same value exactly one wins (CONTRACT.md §5, local authority). Losing is a
//! value, not an error.
//!
//! Why refs are written here and not by git. Speed is no reason: one long-lived `git update-ref --stdin` takes 0.18 ms for
//! a claim and its result, this code 0.11 to 0.16 ms (2,000 branches, tmpfs). The reasons are what that process loses:
//!
//! - Each line in a reflog gets the time of the process's first move, and the one message it was started with.
//! - A lost race ends the process, and the next move waits 1.5 ms for another; git 2.50 is the first with
//!   `--batch-updates`, which avoids that.
//! - If it is killed between `prepare` and `commit`, it leaves `<ref>.lock`, and for a checked-out branch `HEAD.lock` as
//!   well. Git makes a lock before it writes the value, so nobody can prove whose an empty one is. Here the lock has its
//!   value from the start, and [`IntentLog`](super::intent_log::IntentLog) says who announced it (CONTRACT 5.24).
//! - It calls the hook `reference-transaction`, unless hooks are turned off (CONTRACT 1.12).
//!
//! The transactions of `gix` lock `packed-refs` for each move, so a runner that is killed there blocks the whole repository.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use bstr::{BStr, BString, ByteSlice};
use gix::refs::transaction::{Change, PreviousValue, RefEdit, RefLog};

use crate::clock;
use crate::contract::ids::{BranchName, CommitId};
use crate::contract::layout::HEADS;
use crate::fsutil;
use crate::git::refs::lock::RefLock;
use crate::git::repo::open::{Repo, gits, gix_chain, ours};

/// How long to wait for a ref's lock: another process holds it for a moment only, unless it died holding it.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);

/// Why a ref could not be read or moved.
#[derive(Debug, thiserror::Error)]
pub enum RefError {
    /// The ref or the packed refs could not be read.
    #[error("could not read {name}: {why}")]
    Unreadable {
        /// The full ref name, or what was being listed.
        name: String,
        /// What was found.
        why: String,
    },
    /// The ref is locked, and stayed so.
    #[error("could not lock {name}: {} exists and did not go away; if no git process is running here, remove it", lock.display())]
    Locked {
        /// The full ref name.
        name: String,
        /// The lock file that is in the way.
        lock: PathBuf,
    },
    /// The new value could not be written.
    #[error("could not move {name}: {why}")]
    Unwritable {
        /// The full ref name.
        name: String,
        /// What stood in the way.
        why: String,
    },
}

/// What became of a compare-and-swap.
#[must_use = "a swap that was lost must not be treated as won"]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Swap {
    /// The ref had the expected value and has the new one now.
    Won,
    /// The ref has another value (or is gone); nothing was changed.
    Lost {
        /// What it points at.
        actual: Option<CommitId>,
    },
}

/// A branch as listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tip {
    /// Its name.
    pub branch: BranchName,
    /// What it points at; the name of another ref where it is a symbolic one.
    pub target: Result<CommitId, BString>,
}

impl Repo {
    /// All local branches, in the order of their names.
    pub fn branches(&self) -> Result<Vec<Tip>, RefError> {
        self.tips(HEADS)
    }

    pub(crate) fn tips(&self, prefix: &str) -> Result<Vec<Tip>, RefError> {
        let unreadable = |why: String| RefError::Unreadable { name: prefix.to_owned(), why };
        let platform = self.gix.references().map_err(|error| unreadable(gix_chain(&error)))?;
        let iter = platform.prefixed(prefix).map_err(|error| unreadable(gix_chain(&error)))?;
        let mut tips = Vec::new();
        for reference in iter {
            let Ok(reference) = reference else {
                // A broken ref file (or one that vanished while we looked) hides itself, not its neighbours.
                tracing::warn!(prefix, "a ref could not be read; passed over");
                continue;
            };
            let Some(short) = reference.name().as_bstr().strip_prefix(prefix.as_bytes()) else { continue };
            let branch = match BranchName::new(short) {
                Ok(branch) => branch,
                Err(error) => {
                    tracing::debug!(%error, "passed over");
                    continue;
                }
            };
            let target = match reference.target() {
                gix::refs::TargetRef::Object(id) => Ok(ours(id)),
                gix::refs::TargetRef::Symbolic(name) => Err(name.as_bstr().to_owned()),
            };
            tips.push(Tip { branch, target });
        }
        Ok(tips)
    }

    /// What `name` (a full ref name) points at now; `None` if it does not exist. Never from a cache.
    pub fn read_ref(&self, name: &BStr) -> Result<Option<CommitId>, RefError> {
        let unreadable = |why: String| RefError::Unreadable { name: name.to_string(), why };
        let full = gix::refs::FullName::try_from(name).map_err(|error| unreadable(error.to_string()))?;
        self.read_now(&full).map_err(|error| unreadable(gix_chain(&error)))
    }

    /// A branch's HEAD now.
    pub fn branch_head(&self, branch: &BranchName) -> Result<Option<CommitId>, RefError> {
        self.read_ref(branch.full_ref().as_bstr())
    }

    fn read_now(&self, name: &gix::refs::FullName) -> gix::Result<Option<CommitId>> {
        // Loose first: a ref is packed by writing the pack, then removing the loose file. The packed file is
        // opened afresh, since a snapshot judged by time stamps can be a moment old.
        if let Some(loose) = self.gix.refs.try_find_loose(name.as_ref())? {
            return Ok(loose.target.try_id().map(ours));
        }
        let Some(packed) = self.gix.refs.open_packed_buffer()? else { return Ok(None) };
        Ok(packed.try_find(name.as_ref())?.map(|found| ours(&found.target())))
    }

    /// Moves `name` from `expected` (`None`: it must not exist) to `new`; `log` is its reflog line.
    pub fn swap(
        &self,
        name: &BStr,
        expected: Option<CommitId>,
        new: CommitId,
        log: &str,
    ) -> Result<Swap, RefError> {
        let shown = || name.to_string();
        let full = gix::refs::FullName::try_from(name)
            .map_err(|error| RefError::Unwritable { name: shown(), why: error.to_string() })?;
        let unwritable = |why: String| RefError::Unwritable { name: shown(), why };
        let _announced = self.intent_log().announce(name, new);
        // As git itself does: a ref is moved under its own lock alone. The packed refs, which hold its value if there is no
        // loose one, are locked by whoever packs, and a transaction of gix would take that lock for each move.
        let path = self.common_dir().join(OsStr::from_bytes(name));
        let mut lock = match RefLock::acquire(&path, &new.to_string(), LOCK_PATIENCE) {
            Ok(Some(lock)) => lock,
            Ok(None) => return self.judge_refusal(&full, expected, None),
            Err(error) => return self.judge_refusal(&full, expected, Some(&error)),
        };
        let actual = self
            .read_now(&full)
            .map_err(|error| RefError::Unreadable { name: shown(), why: gix_chain(&error) })?;
        if actual != expected {
            return Ok(Swap::Lost { actual });
        }
        if expected.is_none()
            && let Some(other) = self.in_the_way_of(&full).map_err(|error| unwritable(gix_chain(&error)))?
        {
            return Err(unwritable(format!("{other} exists")));
        }
        crate::crashpoint::reach(crate::crashpoint::Point::RefLocked);
        self.append_to_reflog(name, expected, new, log)
            .map_err(|error| unwritable(format!("its log: {error}")))?;
        if lock.commit().is_err() {
            // Directories of refs that are gone may lie where the file belongs.
            drop(fsutil::remove_empty(&path));
            lock.commit().map_err(|error| unwritable(error.to_string()))?;
        }
        Ok(Swap::Won)
    }

    /// A packed ref above or below which `name` cannot be; of loose ones the file system sees to it.
    fn in_the_way_of(&self, name: &gix::refs::FullName) -> gix::Result<Option<BString>> {
        let Some(packed) = self.gix.refs.open_packed_buffer()? else { return Ok(None) };
        let text = name.as_bstr();
        for at in text.find_iter(b"/") {
            if let Ok(above) = gix::refs::FullName::try_from(text[..at].as_bstr())
                && packed.try_find(above.as_ref())?.is_some()
            {
                return Ok(Some(above.as_bstr().to_owned()));
            }
        }
        let mut below = text.to_owned();
        below.push(b'/');
        let found = packed.iter_prefixed(below)?.next();
        Ok(found.and_then(Result::ok).map(|found| found.name.as_bstr().to_owned()))
    }

    /// Removes `name` if it points at `expected`; what its log holds goes with it.
    pub(crate) fn delete_ref(&self, name: &BStr, expected: CommitId) -> Result<Swap, RefError> {
        let shown = || name.to_string();
        let full = gix::refs::FullName::try_from(name)
            .map_err(|error| RefError::Unwritable { name: shown(), why: error.to_string() })?;
        let edit = RefEdit {
            change: Change::Delete {
                expected: PreviousValue::MustExistAndMatch(gix::refs::Target::Object(gits(expected))),
                log: RefLog::AndReference,
            },
            name: full.clone(),
            deref: false,
        };
        let failed = |why: String| match self.read_now(&full) {
            Ok(actual) if actual != Some(expected) => Ok(Swap::Lost { actual }),
            Ok(_) | Err(_) => Err(RefError::Unwritable { name: shown(), why }),
        };
        // To remove a ref is to remove it from the packed refs as well, which takes their lock.
        let patience = gix::lock::acquire::Fail::AfterDurationWithBackoff(LOCK_PATIENCE);
        let prepared = match self.gix.refs.transaction().prepare([edit], patience, patience) {
            Ok(prepared) => prepared,
            Err(error) => return failed(gix_chain(&error)),
        };
        let time = gix::date::Time { seconds: clock::wall_seconds(), offset: 0 };
        let (who, mut buffer) =
            (self.identity().reflog_signature(time), gix::date::parse::TimeBuf::default());
        match prepared.commit(who.to_ref(&mut buffer)) {
            Ok(_) => Ok(Swap::Won),
            Err(error) => failed(gix_chain(&error)),
        }
    }

    /// Why the ref could not be locked: the value differs (lost), or somebody else's lock stands in the way.
    fn judge_refusal(
        &self,
        name: &gix::refs::FullName,
        expected: Option<CommitId>,
        error: Option<&std::io::Error>,
    ) -> Result<Swap, RefError> {
        let shown = name.as_bstr().to_string();
        let actual = self
            .read_now(name)
            .map_err(|error| RefError::Unreadable { name: shown.clone(), why: gix_chain(&error) })?;
        if actual != expected {
            return Ok(Swap::Lost { actual });
        }
        let lock = self.common_dir().join(format!("{shown}.lock"));
        Err(match error {
            None => RefError::Locked { name: shown, lock },
            Some(error) => RefError::Unwritable {
                name: shown,
                why: format!("could not make {}: {error}", lock.display()),
            },
        })
    }

    /// Removes the locks of refs that killed runners left, as far as they are proved to be theirs; says on which refs.
    pub(crate) fn release_dead_locks(&self) -> Vec<String> {
        self.intent_log().release_dead_locks()
    }
}
