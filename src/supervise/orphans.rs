//! Finds processes that still work inside a directory.
//!
//! A worktree is removed or reused only after this check (CONTRACT 9.8, 9.15, 15.7, 15.9). It finds processes
//! by working directory, open and mapped files, not by ancestry: a process that left its group is found
//! too. Only observes; the caller decides what an occupant means.

use std::ffi::{CString, OsStr};
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat, readlinkat};
use nix::sys::stat::{FileStat, Mode, fstat, fstatat};

use super::gits::Gits;
use crate::clock::{self, Moment, Stopwatch};
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
    let stands_in = |place: &String| working_directory(&proc, place).is_ok_and(|cwd| cwd.starts_with(&dir));
    others().filter(|pid| places(&proc, *pid).iter().any(stands_in)).collect()
}

/// The [`occupants`] of `dir`, and the processes with a file there that is open for writing, ascending. All open files of
/// this user's processes are looked at.
#[must_use]
pub(crate) fn workers(dir: &Path) -> Vec<i32> {
    let dir = resolved(dir);
    let Ok(proc) = fs::File::open("/proc") else { return Vec::new() };
    let works_in = |place: &String| {
        working_directory(&proc, place).is_ok_and(|cwd| cwd.starts_with(&dir)) || writes(&proc, place, &dir)
    };
    others().filter(|pid| places(&proc, *pid).iter().any(works_in)).collect()
}

/// Names a process.
pub(crate) fn process_words(pid: i32) -> String {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    match name.trim() {
        "" => format!("process {pid}"),
        name => format!("process {pid} ({name})"),
    }
}

/// The [`occupants`] of `dir`, after waiting up to [`UPKEEP`] while they are only gits at work.
///
/// Since 2.47 git runs its maintenance after each `git commit` in the background, in its own
/// session and with the worktree as its directory. It mostly ends within milliseconds, but after
/// the command that made the commit.
#[must_use]
pub(crate) fn settled_occupants(dir: &Path) -> Vec<i32> {
    settled(&|| occupants(dir))
}

/// The [`workers`] of `dir`, after the same wait.
#[must_use]
pub(crate) fn settled_workers(dir: &Path) -> Vec<i32> {
    settled(&|| workers(dir))
}

fn settled(look: &dyn Fn() -> Vec<i32>) -> Vec<i32> {
    let (watch, mut gits) = (Stopwatch::start(), Gits::default());
    loop {
        let pids = look();
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

/// Looks at all processes, so that [`is_unused`] knows them for older ones.
pub(crate) fn note_processes() {
    let Ok(proc) = fs::File::open("/proc") else { return };
    let is_there = |pid: &i32| fstatat(&proc, format!("{pid}/fd").as_str(), AtFlags::empty()).is_ok();
    let seen = others().filter(is_there).count();
    tracing::trace!(seen, "processes that are there before the first step");
}

/// Whether no other process has a working directory, an open file, its program or a mapped file in `dirs` or below
/// them. `None` if that would mean reading more than `most` open and mapped files.
///
/// Mapped files are read only of processes that may have begun after `since`, when nobody else knew `dirs`: of all
/// processes they take as long as a checkout. An older process that maps a file and closes it is not found.
///
/// Linux only; elsewhere always true. Processes of other users cannot be read and do not count. One of this user
/// that cannot be read counts as using them if it may have begun after `since`.
#[must_use]
pub(crate) fn is_unused(dirs: &[&Path], since: Moment, most: usize) -> Option<bool> {
    let dirs: Vec<PathBuf> = dirs.iter().map(|dir| resolved(dir)).collect();
    let is_below = |file: &PathBuf| dirs.iter().any(|dir| file.starts_with(dir));
    let Ok(proc) = fs::File::open("/proc") else { return Some(true) };
    let (mut left, since) = (most, since.earliest());
    for pid in others() {
        for place in places(&proc, pid) {
            let cwd = match working_directory(&proc, &place) {
                Ok(cwd) => cwd,
                Err(Errno::EACCES | Errno::EPERM) if is_ours_since(&proc, pid, since) => return Some(false),
                // It has ended, or is a process of another user.
                Err(_) => continue,
            };
            // A running program keeps its file from being written.
            let program = readlinkat(&proc, format!("{place}/exe").as_str()).map(PathBuf::from);
            let (mut used, may_be_new) = open_files(&proc, &place, since).unwrap_or_default();
            if may_be_new {
                used.extend(mapped_files(&proc, &place));
            }
            left = left.checked_sub(used.len() + 1)?;
            used.extend(program);
            if is_below(&cwd) || used.iter().any(is_below) {
                return Some(false);
            }
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

/// The directories of a process in `/proc`: its own, or those of its threads if the main one has ended.
fn places(proc: &fs::File, pid: i32) -> Vec<String> {
    let own = pid.to_string();
    if readlinkat(proc, format!("{own}/cwd").as_str()) != Err(Errno::ENOENT) {
        return vec![own];
    }
    let flags = OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let Ok(mut tasks) = Dir::openat(proc, format!("{own}/task").as_str(), flags, Mode::empty()) else {
        return Vec::new();
    };
    let names = tasks.iter().flatten().filter_map(|entry| entry.file_name().to_str().ok().map(str::to_owned));
    names
        .filter(|name| !name.starts_with('.') && *name != own)
        .map(|name| format!("{own}/task/{name}"))
        .collect()
}

/// The working directory of a process or thread.
fn working_directory(proc: &fs::File, place: &str) -> nix::Result<PathBuf> {
    readlinkat(proc, format!("{place}/cwd").as_str()).map(|cwd| undeleted(cwd.into()))
}

/// The open files of a process, and whether it may have begun after `since`.
fn open_files(proc: &fs::File, place: &str, since: i64) -> nix::Result<(Vec<PathBuf>, bool)> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let mut open = Dir::openat(proc, format!("{place}/fd").as_str(), flags, Mode::empty())?;
    let may_be_new = is_since(&fstat(&open)?, since);
    let names: Vec<CString> = open.iter().flatten().map(|entry| entry.file_name().to_owned()).collect();
    let files = names.iter().filter_map(|name| readlinkat(&open, name.as_c_str()).ok()).map(PathBuf::from);
    Ok((files.collect(), may_be_new))
}

/// Whether a process has a file below `dir` open for writing.
fn writes(proc: &fs::File, place: &str, dir: &Path) -> bool {
    let flags = OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let Ok(mut open) = Dir::openat(proc, format!("{place}/fd").as_str(), flags, Mode::empty()) else {
        return false;
    };
    let names: Vec<CString> = open.iter().flatten().map(|entry| entry.file_name().to_owned()).collect();
    let is_below = |name: &&CString| {
        readlinkat(&open, name.as_c_str()).is_ok_and(|file| Path::new(&file).starts_with(dir))
    };
    // The owner's bits of the link say how the file is open.
    let is_written = |name: &CString| {
        fstatat(&open, name.as_c_str(), AtFlags::AT_SYMLINK_NOFOLLOW)
            .is_ok_and(|link| link.st_mode & 0o200 != 0)
    };
    names.iter().filter(is_below).any(is_written)
}

/// The mapped files of a process, one for each mapping.
fn mapped_files(proc: &fs::File, place: &str) -> Vec<PathBuf> {
    let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC;
    let mut text = Vec::new();
    if let Ok(maps) = openat(proc, format!("{place}/maps").as_str(), flags, Mode::empty())
        && let Err(error) = fs::File::from(maps).read_to_end(&mut text)
    {
        tracing::debug!(place, %error, "the mapped files of a process could not be read");
    }
    // The path is the last field; no field before it has a slash.
    let path = |line: &[u8]| {
        line.iter().position(|byte| *byte == b'/').map(|at| PathBuf::from(OsStr::from_bytes(&line[at..])))
    };
    text.split(|byte| *byte == b'\n').filter_map(path).collect()
}

/// Whether a process that cannot be read is of this user and may have begun after `since`.
fn is_ours_since(proc: &fs::File, pid: i32, since: i64) -> bool {
    let look = |name: &str| fstatat(proc, name, AtFlags::empty());
    let (found, own) = (look(&pid.to_string()), look("self"));
    let (Ok(found), Ok(own)) = (found, own) else { return false };
    found.st_uid == own.st_uid && is_since(&found, since)
}

/// Whether a file of `/proc/PID` may be of a process that began after `since`, in milliseconds of the wall clock.
///
/// The kernel dates such a file when somebody first looks at it: never before the process began, and mostly at our
/// own previous check. That takes far less time than reading the start time of every process.
fn is_since(found: &FileStat, since: i64) -> bool {
    found.st_mtime.saturating_mul(1000).saturating_add(found.st_mtime_nsec / 1_000_000) >= since
}

// Removes the suffix ` (deleted)`, by which the kernel marks a working directory that was removed
// under its process.
fn undeleted(cwd: PathBuf) -> PathBuf {
    match cwd.as_os_str().as_bytes().strip_suffix(b" (deleted)") {
        Some(before) if !cwd.exists() => PathBuf::from(OsStr::from_bytes(before)),
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
        assert_eq!(is_unused(&[scratch.path()], Moment::now(), 1 << 20), Some(true));
        let daemon = duct::cmd!(&program, "60").dir("/").unchecked().start().unwrap();
        let found = is_unused(&[scratch.path()], Moment::now(), 1 << 20);
        daemon.kill().unwrap();
        daemon.wait().unwrap();
        assert_eq!(found, Some(false));
    }
}
