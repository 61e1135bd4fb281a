//! Reflogs: reads them, and writes the entry of a move.
//!
//! Invariant: an entry is written exactly as git would write it, in one write.
//! [`crate::contract::headlog`] decides what a reflog proves.

use std::ffi::OsStr;
use std::io::{ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use bstr::{BStr, ByteSlice};
use gix::refs::store::WriteReflog;

use crate::clock;
use crate::contract::headlog::{self, Moved};
use crate::contract::ids::{BranchName, CommitId};
use crate::contract::layout::{HEADS, TRACKED};
use crate::fsutil;
use crate::git::process::call::ProcessError;
use crate::git::refs::lock::is_of_a_race;
use crate::git::repo::open::Repo;
use crate::git::worktrees::registration::Workplace;

/// Refs that get a reflog when they are created, under git's default configuration.
const LOGGED: [&str; 3] = [HEADS, TRACKED, "refs/notes/"];

/// How often the file of a log is made while others remove its directory.
const MOST_TRIES: usize = 100;

/// The reflog of a checkout's HEAD, oldest entry first; empty if there is none.
pub(crate) fn of_head(git_dir: &Path) -> Vec<Moved> {
    of(git_dir, "HEAD".into())
}

/// The reflog of the ref `name` in the git directory `git_dir`; empty if there is none or it cannot be read.
pub(crate) fn of(git_dir: &Path, name: &BStr) -> Vec<Moved> {
    known(git_dir, name).unwrap_or_default()
}

/// The same for the removal of a log. A log that cannot be read is an error: commits may be in it alone.
pub(crate) fn known(git_dir: &Path, name: &BStr) -> Result<Vec<Moved>, ProcessError> {
    read_if_there(&path(git_dir, name)).map(|log| headlog::read(&log))
}

/// Reads a file that may name commits; empty if none is there, or something else is in its place.
pub(crate) fn read_if_there(file: &Path) -> Result<Vec<u8>, ProcessError> {
    fsutil::read_plain(file).or_else(|error| match error.kind() {
        ErrorKind::NotFound
        | ErrorKind::NotADirectory
        | ErrorKind::IsADirectory
        // A pipe or the like.
        | ErrorKind::InvalidInput => Ok(Vec::new()),
        _ => Err(ProcessError::Unread { what: file.display().to_string(), why: error.to_string() }),
    })
}

fn path(git_dir: &Path, name: &BStr) -> PathBuf {
    git_dir.join("logs").join(OsStr::from_bytes(name))
}

impl Repo {
    /// Appends the entry of one move, if this ref has a reflog or should get one.
    pub(crate) fn append_to_reflog(
        &self,
        name: &BStr,
        old: Option<CommitId>,
        new: CommitId,
        log: &str,
    ) -> std::io::Result<()> {
        let wanted = match self.gix.refs.write_reflog {
            WriteReflog::Disable => return Ok(()),
            WriteReflog::Always => true,
            WriteReflog::Normal => LOGGED.iter().any(|prefix| name.starts_with(prefix.as_bytes())),
        };
        let line = self.reflog_line(old, new, log)?;
        let path = path(self.common_dir(), name);
        let open = || {
            if wanted && let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent)?;
            }
            std::fs::OpenOptions::new().append(true).create(wanted).open(&path)
        };
        let mut file = open();
        for _ in 0..MOST_TRIES {
            match &file {
                Err(error) if error.kind() == ErrorKind::IsADirectory => match fsutil::remove_empty(&path) {
                    Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                    Ok(()) | Err(_) => {}
                },
                // A deletion of another ref may have removed the emptied directory.
                Err(error) if is_of_a_race(error.kind()) && wanted => {}
                Ok(_) | Err(_) => break,
            }
            file = open();
        }
        match file {
            Ok(mut file) => file.write_all(&line),
            Err(error) if error.kind() == ErrorKind::NotFound && !wanted => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Appends the entry of a move of a checkout's HEAD that git did not see.
    pub(crate) fn log_head(
        &self,
        git_dir: &Path,
        old: CommitId,
        new: CommitId,
        log: &str,
    ) -> std::io::Result<()> {
        let line = self.reflog_line(Some(old), new, log)?;
        let file = path(git_dir, "HEAD".into());
        let written = std::fs::OpenOptions::new().append(true).open(&file);
        written.and_then(|mut written| written.write_all(&line)).map_err(|error| {
            std::io::Error::new(error.kind(), format!("could not write {}: {error}", file.display()))
        })
    }

    /// The newest commit that the reflog of a ref names and that is here.
    #[must_use]
    pub fn newest_logged(&self, name: &BStr) -> Option<CommitId> {
        let log = fsutil::read_plain(path(self.common_dir(), name)).ok()?;
        let newest =
            log.lines().filter_map(|line| CommitId::parse_hex(line.split(|byte| *byte == b' ').nth(1)?));
        newest.filter(|commit| self.commit(*commit).is_ok()).last()
    }

    /// Whether a ref that is nowhere has a reflog. Git removes the log of a ref that it deletes.
    pub(crate) fn is_only_logged(&self, name: &BStr) -> bool {
        path(self.common_dir(), name).is_file()
            && matches!((self.loose_ref(name), self.read_ref(name)), (Ok(None), Ok(None)))
    }

    /// The commits that a ref was moved to, by its reflog, the newest last. They may not be here.
    pub(crate) fn log_of(&self, name: &BStr) -> Result<Vec<CommitId>, ProcessError> {
        let log = known(self.common_dir(), name)?.into_iter().map(|moved| moved.to);
        Ok(log.filter(|commit| !commit.is_null()).collect())
    }

    /// The newest commit that a checkout's HEAD was moved to, by its reflog.
    pub(crate) fn head_of_log(&self, git_dir: &Path) -> Option<CommitId> {
        of_head(git_dir).last().map(|moved| moved.to)
    }

    /// Whether the newest entry of HEAD's log moves `branch` on from `tip`, where the branch still is. The log is
    /// written first, so the program was killed, or the disk was full, before the branch was moved.
    pub(crate) fn was_not_moved(&self, place: &Workplace, branch: &BranchName, tip: CommitId) -> bool {
        let Some(last) = of_head(&place.git_dir).pop().filter(|last| last.from == tip && last.to != tip)
        else {
            return false;
        };
        let log = known(self.common_dir(), branch.full_ref().as_ref()).unwrap_or_default();
        // Otherwise somebody set the branch back, or may have.
        log.last().is_some_and(|moved| (moved.from, moved.to) != (last.to, tip))
    }

    /// Formats the entry of a move from `old` to `new`.
    fn reflog_line(&self, old: Option<CommitId>, new: CommitId, log: &str) -> std::io::Result<Vec<u8>> {
        let new = new.to_string();
        let old = old.map_or_else(|| "0".repeat(new.len()), |old| old.to_string());
        let time = clock::local_time();
        let time = gix::date::Time { seconds: time.seconds, offset: time.offset_seconds };
        let who = self.identity().reflog_signature(time);
        let mut buffer = gix::date::parse::TimeBuf::default();
        let mut line = format!("{old} {new} ").into_bytes();
        who.to_ref(&mut buffer).trim().write_to(&mut line)?;
        line.extend_from_slice(format!("\t{}\n", log.replace(['\n', '\r'], " ")).as_bytes());
        Ok(line)
    }

    /// The first entry of the reflog of a new worktree's HEAD. It is written regardless of
    /// `core.logAllRefUpdates`: git continues an existing reflog, and this one proves which commits
    /// were made in the worktree.
    pub(crate) fn first_of_head_log(&self, commit: CommitId, log: &str) -> std::io::Result<Vec<u8>> {
        self.reflog_line(None, commit, log)
    }
}
