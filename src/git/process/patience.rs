//! Finds out that a git call does nothing any more, and what it may wait for.
//!
//! Why: a step can leave a named pipe in the place of a file that git reads. Each git that opens it waits until
//! somebody writes there. Such a pipe is removed: git goes on, and reads an empty file. A call that still does
//! nothing is ended by its caller.
//!
//! Invariant: only a call whose processes use no CPU time and no disk counts as one that does nothing. One with a
//! program that is no git (a filter, a transport) may wait for a network.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bstr::ByteSlice;

use crate::clock::Stopwatch;
use crate::contract::layout::own_directory;
use crate::fsutil;
use crate::session::{Place, processes};

/// The time between two looks at a call.
pub(super) const LOOK: Duration = Duration::from_millis(1_500);

/// How long a call of git alone may do nothing.
const ALONE: Duration = Duration::from_secs(20);

/// The same for a call with other programs.
const WITH_OTHERS: Duration = Duration::from_secs(600);

/// Files in a worktree that git opens wherever they are.
const IN_WORKTREES: [&str; 3] = [".gitattributes", ".gitignore", ".gitmodules"];

/// A call that is watched.
#[derive(Debug)]
pub(super) struct Patience {
    /// The first process of the call, the leader of its group.
    pub(super) leader: i32,
    seen: Option<Group>,
    /// Since when it has done nothing.
    idle: Stopwatch,
}

/// The processes of a call at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Group {
    /// Their number, and their CPU time.
    used: (usize, u64),
    is_at_work: bool,
    is_git_alone: bool,
}

impl Patience {
    pub(super) fn new(leader: u32) -> Self {
        Self { leader: i32::try_from(leader).unwrap_or(i32::MAX), seen: None, idle: Stopwatch::start() }
    }

    /// Looks at a call about `places` that has not ended. Returns how long it has done nothing, if that is too long.
    pub(super) fn is_over(&mut self, places: &Places<'_>) -> Option<Duration> {
        let now = Group::of(self.leader)?;
        if now.is_at_work || self.seen != Some(now) {
            self.seen = Some(now);
            self.idle = Stopwatch::start();
            return None;
        }
        for pipe in places.remove_pipes() {
            tracing::warn!("{} was a named pipe that git waited for; it was removed", pipe.display());
        }
        let long = self.idle.elapsed();
        let most = if now.is_git_alone { ALONE } else { WITH_OTHERS };
        (long >= most).then_some(long)
    }
}

impl Group {
    /// `None` where processes cannot be listed.
    fn of(leader: i32) -> Option<Self> {
        let all = processes()?.into_iter().filter_map(Place::of);
        let its: Vec<Place> = all.filter(|place| place.group == leader && place.lives()).collect();
        Some(Self {
            used: (its.len(), its.iter().map(|place| place.used).sum()),
            is_at_work: its.iter().any(|place| place.is_at_work()),
            is_git_alone: its.iter().all(|place| place.is_git),
        })
    }
}

/// The directories that a call is about.
#[derive(Debug)]
pub(super) struct Places<'a> {
    /// Its working directory.
    pub(super) directory: &'a Path,
    /// The git directory that it was given.
    pub(super) git_dir: Option<&'a Path>,
}

impl Places<'_> {
    /// Removes named pipes among the files of git.
    fn remove_pipes(&self) -> Vec<PathBuf> {
        let link = self.directory.join(".git");
        let is_worktree = self.git_dir.map_or_else(|| link.exists(), |git_dir| git_dir != self.directory);
        let git_dir = match (self.git_dir, fsutil::read_plain(&link)) {
            (Some(given), _) => given.to_owned(),
            (None, Ok(text)) => {
                let named = text.strip_prefix(b"gitdir:").map(ByteSlice::trim).unwrap_or_default();
                self.directory.join(OsStr::from_bytes(named))
            }
            (None, Err(_)) if is_worktree => link,
            (None, Err(_)) => self.directory.to_owned(),
        };
        // Any other directory is none of git, and may be the whole disk.
        if !git_dir.join("objects").is_dir() && !git_dir.join("commondir").exists() {
            return Vec::new();
        }
        let common = fsutil::read_plain(git_dir.join("commondir"));
        let common = common.map(|text| git_dir.join(OsStr::from_bytes(text.trim_end())));
        let mut found = remove_pipes_of_git(&common.unwrap_or_else(|_| git_dir.clone()), &[]);
        if is_worktree {
            let is_one = |path: &Path| IN_WORKTREES.iter().any(|name| path.ends_with(name));
            let is_due = |path: &Path| is_one(path) || path.iter().any(|part| part == ".git");
            found.extend(fsutil::remove_pipes(self.directory, &git_dir, &is_due));
        }
        found
    }
}

/// Removes named pipes in a common git directory, but for the directory of aynig, where no git reads. The socket of git's
/// own file watcher stays, and what is at one of the paths `kept`.
pub(crate) fn remove_pipes_of_git(common_dir: &Path, kept: &[&str]) -> Vec<PathBuf> {
    let is_kept = |path: &Path| kept.iter().any(|kept| path == common_dir.join(kept));
    let is_due = |path: &Path| path.extension().is_none_or(|extension| extension != "ipc") && !is_kept(path);
    fsutil::remove_pipes(common_dir, &own_directory(common_dir), &is_due)
}
