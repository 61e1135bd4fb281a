//! Refs: reads one, and moves it by compare-and-swap.
//!
//! Invariant: [`Repo::swap`] moves a ref only if, while its lock is held, its value on disk is the
//! expected one. So of any number of processes that expect the same value exactly one wins
//! (CONTRACT 5.3, 5.8). Losing is a value, not an error.
//!
//! Why refs are written here and not by git. Not for speed: one long-lived `git update-ref --stdin`
//! takes 0.18 ms for a claim and its result, this code 0.11 to 0.16 ms (2,000 branches, tmpfs). The
//! reasons are drawbacks of that process:
//!
//! - Each of its reflog entries gets the time of the process's first move, and the one message it
//!   was started with.
//! - A lost race ends the process, and the next move waits 1.5 ms for another; git 2.50 is the
//!   first with `--batch-updates`, which avoids that.
//! - If it is killed between `prepare` and `commit`, it leaves `<ref>.lock`, and for a checked-out
//!   branch `HEAD.lock` as well. Git makes a lock before it writes the value, so the owner of an
//!   empty lock cannot be proved. Here the lock has its value from the start, and
//!   [`IntentLog`](super::intent_log::IntentLog) records which process announced it (CONTRACT
//!   5.24).
//! - It calls the hook `reference-transaction`, unless hooks are turned off (CONTRACT 1.12).
//!
//! The transactions of `gix` lock `packed-refs` for each move, so a runner that is killed there
//! blocks the whole repository.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bstr::{BStr, BString, ByteSlice};

use crate::contract::ids::{BranchName, CommitId};
use crate::contract::layout;
use crate::fsutil;
use crate::git::refs::lock::lock_file;
use crate::git::repo::open::{Repo, ours};
use crate::git::worktrees::registration::Workplace;
use crate::words::shell_quote;

/// How long to wait for a ref's lock. Other processes hold it for a moment only, unless they died
/// holding it.
pub(super) const LOCK_PATIENCE: Duration = Duration::from_secs(5);

/// Why a ref could not be read or moved.
#[derive(Debug, thiserror::Error)]
pub enum RefError {
    /// The ref or `packed-refs` could not be read.
    #[error("could not read {name}: {why}")]
    Unreadable {
        /// The full ref name, or the prefix that was being listed.
        name: String,
        /// The reason.
        why: String,
    },
    /// The ref's lock file exists, and did not go away.
    #[error("could not lock {name}: {} exists and did not go away; if no git process is running here, remove it", lock.display())]
    Locked {
        /// The full ref name.
        name: String,
        /// The lock file.
        lock: PathBuf,
    },
    /// The new value could not be written.
    #[error("could not move {name}: {why}")]
    Unwritable {
        /// The full ref name.
        name: String,
        /// The obstacle.
        why: String,
    },
}

/// The result of a compare-and-swap.
#[must_use = "a swap that was lost must not be treated as won"]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Swap {
    /// The ref had the expected value and now has the new one.
    Won,
    /// The ref has another value (or is gone); nothing was changed.
    Lost {
        /// Its current value.
        actual: Option<CommitId>,
    },
}

impl Repo {
    /// The current value of `name` (a full ref name); `None` if it does not exist. Never cached.
    pub fn read_ref(&self, name: &BStr) -> Result<Option<CommitId>, RefError> {
        let full = gix::refs::FullName::try_from(name)
            .map_err(|error| RefError::Unreadable { name: name.to_string(), why: error.to_string() })?;
        self.read_now(&full)
    }

    /// A branch's current HEAD.
    pub fn branch_head(&self, branch: &BranchName) -> Result<Option<CommitId>, RefError> {
        self.read_ref(branch.full_ref().as_bstr())
    }

    pub(super) fn read_now(&self, name: &gix::refs::FullName) -> Result<Option<CommitId>, RefError> {
        let unreadable = |why: String| RefError::Unreadable { name: name.as_bstr().to_string(), why };
        // Reads the loose ref first, since a ref is packed by writing `packed-refs` and then
        // removing the loose file. `packed-refs` is opened afresh, since a snapshot judged by time
        // stamps can be a moment old.
        if let Some(target) =
            self.loose_ref(name.as_bstr()).map_err(|damaged| unreadable(damaged.to_string()))?
        {
            return Ok(target.ok());
        }
        let Some(packed) = self.packed_refs()? else { return Ok(None) };
        let found = packed.try_find(name.as_ref()).map_err(|error| self.unreadable_packed(Some(&error)))?;
        Ok(found.map(|found| ours(&found.target())))
    }

    /// Refuses a named pipe in the place of a file of the common git directory: whoever opens it waits.
    pub(super) fn check_no_pipe(&self, name: impl AsRef<[u8]>) -> std::io::Result<()> {
        fsutil::check_no_pipe(&self.common_dir().join(OsStr::from_bytes(name.as_ref())))
    }

    /// Moves `name` from `expected` (`None`: it must not exist) to `new`; `log` is the reflog
    /// message.
    pub fn swap(
        &self,
        name: &BStr,
        expected: Option<CommitId>,
        new: CommitId,
        log: &str,
    ) -> Result<Swap, RefError> {
        let prepared = match self.prepare(name, expected, Some(new))? {
            Ok(prepared) => prepared,
            Err(actual) => return Ok(Swap::Lost { actual }),
        };
        crate::crashpoint::reach(crate::crashpoint::Point::RefLocked);
        self.write_ref(prepared, new, log)?;
        Ok(Swap::Won)
    }

    /// Moves the branch that the HEAD of a checkout is on, like [`Repo::swap`]. As git does, writes that into the log of
    /// HEAD first.
    pub(crate) fn swap_head(
        &self,
        place: &Workplace,
        expected: CommitId,
        new: CommitId,
        log: &str,
    ) -> Result<Swap, RefError> {
        let Some(branch) = place.branch() else { return Ok(Swap::Lost { actual: place.detached_at() }) };
        let name = branch.full_ref();
        let prepared = match self.prepare(name.as_bstr(), Some(expected), Some(new))? {
            Ok(prepared) => prepared,
            Err(actual) => return Ok(Swap::Lost { actual }),
        };
        crate::crashpoint::reach(crate::crashpoint::Point::RefLocked);
        match self.log_head(&place.git_dir, expected, new, log) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                let why = format!("its log: {error}");
                return Err(RefError::Unwritable { name: "HEAD".to_owned(), why });
            }
            Ok(()) | Err(_) => {}
        }
        crate::crashpoint::reach(crate::crashpoint::Point::HeadLogged);
        self.write_ref(prepared, new, log)?;
        Ok(Swap::Won)
    }

    /// What prevents the creation of `name`: a symbolic ref of this name, or a ref above or below it.
    pub(super) fn obstacle(&self, name: &gix::refs::FullName) -> gix::Result<Option<String>> {
        if let Ok(Some(Err(target))) = self.loose_ref(name.as_bstr()) {
            return Ok(Some(format!("it is a symbolic ref to {target}")));
        }
        let path = self.common_dir().join(OsStr::from_bytes(name.as_bstr()));
        if let Some(file) = first_file(&path) {
            let other = file.strip_prefix(self.common_dir()).unwrap_or(&file).display();
            return Ok(Some(format!("{other} exists")));
        }
        if let Some(packed) = self.gix.refs.open_packed_buffer()? {
            let below = BString::from([name.as_bstr().as_bytes(), b"/"].concat());
            if let Some(other) = packed.iter_prefixed(below)?.find_map(Result::ok) {
                return Ok(Some(format!("{} exists", other.name.as_bstr())));
            }
        }
        Ok(self.packed_above(name)?.map(|other| in_the_way(&other.to_string())))
    }

    /// A packed ref above `name`.
    fn packed_above(&self, name: &gix::refs::FullName) -> gix::Result<Option<BString>> {
        let Some(packed) = self.gix.refs.open_packed_buffer()? else { return Ok(None) };
        let text = name.as_bstr();
        for at in text.find_iter(b"/") {
            if let Ok(above) = gix::refs::FullName::try_from(text[..at].as_bstr())
                && packed.try_find(above.as_ref())?.is_some()
            {
                return Ok(Some(above.as_bstr().to_owned()));
            }
        }
        Ok(None)
    }

    /// Judges why the ref could not be locked: its value differs (lost, so that value is returned), or another
    /// process holds the lock.
    pub(super) fn judge_refusal(
        &self,
        name: &gix::refs::FullName,
        expected: Option<CommitId>,
        error: Option<&std::io::Error>,
    ) -> Result<Option<CommitId>, RefError> {
        let shown = name.as_bstr().to_string();
        let actual = self.read_now(name)?;
        if actual != expected {
            return Ok(actual);
        }
        let lock = lock_file(&self.common_dir().join(OsStr::from_bytes(name.as_bstr())));
        Err(match error {
            None => RefError::Locked { name: shown, lock },
            Some(error) => {
                let why = match self.loose_above(&shown) {
                    Some(above) => in_the_way(&above),
                    None => format!("could not make {}: {error}", lock.display()),
                };
                RefError::Unwritable { name: shown, why }
            }
        })
    }

    /// A loose ref above `name`, whose file is where the directory of `name` would be.
    fn loose_above(&self, name: &str) -> Option<String> {
        let mut above = name.match_indices('/').map(|(at, _)| &name[..at]);
        above.find(|above| self.common_dir().join(above).is_file()).map(str::to_owned)
    }
}

/// A file below a directory of refs that is no lock. Empty directories of removed refs are passed over.
fn first_file(directory: &Path) -> Option<PathBuf> {
    std::fs::read_dir(directory).ok()?.flatten().find_map(|entry| {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => first_file(&path),
            Ok(_) => path.extension().is_none_or(|extension| extension != "lock").then_some(path),
            Err(_) => None,
        }
    })
}

/// The words for a ref that is in the way of another one, with the way out if it can be nobody's.
fn in_the_way(name: &str) -> String {
    // A slot may be somebody's deferred state: `aynig clean --deferred` shows it first.
    let is_ours = name.starts_with(layout::OURS) && !name.starts_with(layout::SLOTS);
    let next = if is_ours {
        format!("; `git update-ref -d {}` removes it", shell_quote(name))
    } else {
        String::new()
    };
    format!("{name} exists{next}")
}
