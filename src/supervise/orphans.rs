//! Finds processes that still work inside a directory.
//!
//! A worktree is removed or reused only after this check (CONTRACT 9.8, 9.15). It finds processes
//! by working directory and open files, not by ancestry: a process that left its group is found
//! too. Only observes; the caller decides what an occupant means.

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::dir::Dir;
use nix::fcntl::{OFlag, readlinkat};
use nix::sys::stat::Mode;

use super::gits::Gits;
use crate::clock::{self, Stopwatch};
use crate::session::{Place, processes};

/// Longest wait for gits at work in a directory.
const UPKEEP: Duration = Duration::from_secs(5);

/// Polling interval.
const LOOK: Duration = Duration::from_millis(5);

/// The processes, other than this one, whose working directory is `dir` or below it, ascending.
///
/// Linux only; elsewhere empty. Processes of other users cannot be read and are not listed.
#[must_use]
pub(crate) fn occupants(dir: &Path) -> Vec<i32> {
    let dir = resolved(dir);
    let Ok(proc) = fs::File::open("/proc") else { return Vec::new() };
    let stands_in = |pid: &i32| working_directory(&proc, *pid).is_some_and(|cwd| cwd.starts_with(&dir));
    others().filter(stands_in).collect()
}

/// The [`occupants`] of `dir`, after waiting up to [`UPKEEP`] while they are only gits at work.
///
/// Since 2.47 git runs its maintenance after each `git commit` in the background, in its own
/// session and with the worktree as its directory. It mostly ends within milliseconds, but after
/// the command that made the commit.
#[must_use]
pub(crate) fn settled_occupants(dir: &Path) -> Vec<i32> {
    let (watch, mut gits) = (Stopwatch::start(), Gits::default());
    loop {
        let pids = occupants(dir);
        let places: Vec<(i32, Place)> =
            pids.iter().filter_map(|pid| Place::of(*pid).map(|place| (*pid, place))).collect();
        let some_ended = places.len() < pids.len();
        let may_end = places.iter().all(|(_, place)| place.is_git) && gits.any_at_work(&places);
        if pids.is_empty() || !(some_ended || may_end) || watch.elapsed() >= UPKEEP {
            return pids;
        }
        clock::pause(LOOK);
    }
}

/// Whether no other process has a working directory, an open file or its program in `dirs` or below them. `None` if
/// that would mean reading more than `most` open files.
///
/// Linux only; elsewhere always true. Processes of other users cannot be read and do not count.
#[must_use]
pub(crate) fn is_unused(dirs: &[&Path], most: usize) -> Option<bool> {
    let dirs: Vec<PathBuf> = dirs.iter().map(|dir| resolved(dir)).collect();
    let is_below = |file: &Path| dirs.iter().any(|dir| file.starts_with(dir));
    let Ok(proc) = fs::File::open("/proc") else { return Some(true) };
    let mut left = most;
    for pid in others() {
        // Otherwise a kernel thread, or a process of another user.
        let Some(cwd) = working_directory(&proc, pid) else { continue };
        if is_below(&cwd) {
            return Some(false);
        }
        let mut open = open_files(&proc, pid).unwrap_or_default();
        // A running program keeps its file from being written.
        open.extend(readlinkat(&proc, format!("{pid}/exe").as_str()).map(PathBuf::from));
        left = left.checked_sub(open.len())?;
        if open.iter().any(|file| is_below(file)) {
            return Some(false);
        }
    }
    Some(true)
}

fn others() -> impl Iterator<Item = i32> {
    let own = nix::unistd::getpid().as_raw();
    processes().unwrap_or_default().into_iter().filter(move |pid| *pid != own)
}

// Links in /proc are resolved paths, so `dir` is resolved too. A directory that is already gone is
// compared as given.
fn resolved(dir: &Path) -> PathBuf {
    fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned())
}

/// The working directory of a process; `None` if it cannot be read.
fn working_directory(proc: &fs::File, pid: i32) -> Option<PathBuf> {
    let cwd = readlinkat(proc, format!("{pid}/cwd").as_str()).ok()?;
    Some(undeleted(cwd.into()))
}

/// The open files of a process.
fn open_files(proc: &fs::File, pid: i32) -> nix::Result<Vec<PathBuf>> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let mut open = Dir::openat(proc, format!("{pid}/fd").as_str(), flags, Mode::empty())?;
    let names: Vec<CString> = open.iter().flatten().map(|entry| entry.file_name().to_owned()).collect();
    Ok(names.iter().filter_map(|name| readlinkat(&open, name.as_c_str()).ok()).map(PathBuf::from).collect())
}

// Removes the suffix ` (deleted)`, by which the kernel marks a working directory that was removed
// under its process.
fn undeleted(cwd: PathBuf) -> PathBuf {
    match cwd.as_os_str().as_bytes().strip_suffix(b" (deleted)") {
        Some(before) if !cwd.exists() => PathBuf::from(std::ffi::OsStr::from_bytes(before)),
        Some(_) | None => cwd,
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::clock::Stopwatch;
    use std::time::Duration;

    #[test]
    fn a_process_below_is_found_and_one_beside_is_not() {
        let scratch = tempfile::tempdir().unwrap();
        let below = scratch.path().join("wt/deep");
        let beside = scratch.path().join("wt-2");
        fs::create_dir_all(&below).unwrap();
        fs::create_dir_all(&beside).unwrap();
        let start = |dir: &Path| duct::cmd!("sleep", "60").dir(dir).unchecked().start().unwrap();
        let (inside, outside) = (start(&below), start(&beside));
        let pid = i32::try_from(inside.pids()[0]).unwrap();
        let found = occupants(&scratch.path().join("wt"));
        fs::remove_dir_all(scratch.path().join("wt")).unwrap();
        let after = occupants(&scratch.path().join("wt"));
        for child in [inside, outside] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert_eq!(found, [pid]);
        assert_eq!(after, [pid], "also when the directory was removed under it");
        let watch = Stopwatch::start();
        while !occupants(scratch.path()).is_empty() && watch.elapsed() < Duration::from_secs(20) {
            std::thread::yield_now();
        }
        assert!(occupants(scratch.path()).is_empty());
    }

    #[test]
    fn a_program_that_runs_from_below_uses_it() {
        let scratch = tempfile::tempdir().unwrap();
        let program = scratch.path().join("daemon");
        fs::copy("/bin/sleep", &program).unwrap();
        assert_eq!(is_unused(&[scratch.path()], 1 << 20), Some(true));
        let daemon = duct::cmd!(&program, "60").dir("/").unchecked().start().unwrap();
        let found = is_unused(&[scratch.path()], 1 << 20);
        daemon.kill().unwrap();
        daemon.wait().unwrap();
        assert_eq!(found, Some(false));
    }
}
