//! Processes that still work inside a directory, whoever started them.
//!
//! Before a worktree is removed or handed out again somebody has to ask whether a process a command left behind still
//! lives in it (CONTRACT.md §9, §10). A process that left its group is found here by where it stands, not by its
//! ancestry. This only looks; what follows from an occupant is the caller's to decide.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::gits::Gits;
use crate::clock::{self, Stopwatch};
use crate::session::{Place, processes};

/// How long gits at work in a directory are waited for.
const UPKEEP: Duration = Duration::from_secs(5);

/// How often is looked.
const LOOK: Duration = Duration::from_millis(5);

/// The processes, other than this one, whose working directory is `dir` or below it, ascending.
///
/// Linux only; elsewhere empty. Processes of other users, which do not let us look, are not listed.
#[must_use]
pub(crate) fn occupants(dir: &Path) -> Vec<i32> {
    // The links in /proc are resolved paths, so ours must be too; one that is already gone is compared as given.
    let dir = fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned());
    let own = nix::unistd::getpid().as_raw();
    processes()
        .unwrap_or_default()
        .into_iter()
        .filter(|pid| *pid != own)
        .filter(|pid| {
            fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| undeleted(cwd).starts_with(&dir))
        })
        .collect()
}

/// The [`occupants`] of `dir`. Where they are gits at work and nothing else, those may end first.
///
/// Since 2.47 git does its upkeep after each `git commit` in the background, in a session of its own and with the worktree as its
/// directory. It mostly ends within milliseconds, but after the command that made the commit.
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

/// The processes, other than this one, that stand in `dir` or below it or have a file there open, ascending.
///
/// Linux only; elsewhere empty. Processes of other users, which do not let us look, are not listed.
#[must_use]
pub(crate) fn users(dir: &Path) -> Vec<i32> {
    let inside = fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned());
    let standing = occupants(dir);
    let own = nix::unistd::getpid().as_raw();
    let reaches_in = |pid: i32| {
        let mut open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        open.any(|entry| fs::read_link(entry.path()).is_ok_and(|file| file.starts_with(&inside)))
    };
    let all = processes().unwrap_or_default().into_iter();
    all.filter(|pid| *pid != own && (standing.contains(pid) || reaches_in(*pid))).collect()
}

// The kernel marks a working directory that was removed under its process by a suffix.
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
        let room = tempfile::tempdir().unwrap();
        let below = room.path().join("wt/deep");
        let beside = room.path().join("wt-2");
        fs::create_dir_all(&below).unwrap();
        fs::create_dir_all(&beside).unwrap();
        let start = |dir: &Path| duct::cmd!("sleep", "60").dir(dir).unchecked().start().unwrap();
        let (inside, outside) = (start(&below), start(&beside));
        let pid = i32::try_from(inside.pids()[0]).unwrap();
        let found = occupants(&room.path().join("wt"));
        fs::remove_dir_all(room.path().join("wt")).unwrap();
        let after = occupants(&room.path().join("wt"));
        for child in [inside, outside] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert_eq!(found, [pid]);
        assert_eq!(after, [pid], "also when the directory was removed under it");
        let watch = Stopwatch::start();
        while !occupants(room.path()).is_empty() && watch.elapsed() < Duration::from_secs(20) {
            std::thread::yield_now();
        }
        assert!(occupants(room.path()).is_empty());
    }
}
