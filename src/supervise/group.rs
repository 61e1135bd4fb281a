//! Process groups: members, and signals to all of them. A group here includes processes that moved
//! to a group of their own within the leader's session (`timeout`, shell job control).
//!
//! Invariant: only a real group is ever signalled. 0 ("my own group") and 1 ("every process", once
//! negated) cannot be expressed. Zombies are not members: one whose parent never reaps it (often a
//! container's first process) would otherwise be waited for without end. `machine` decides when to
//! signal (CONTRACT 10.5).

use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use super::gits::Gits;
use crate::clock;
use crate::clock::Stopwatch;
use crate::session::{Place, processes};

/// Longest wait for the gits in a group that is about to be terminated.
const GITS: Duration = Duration::from_secs(1);

/// Polling interval.
const LOOK: Duration = Duration::from_millis(5);

/// The living, non-zombie processes of the group, ascending.
///
/// One system call if the group is gone. Otherwise reads `/proc` on Linux. Elsewhere, or if `/proc`
/// cannot be read, returns the group's own number for a group that exists, alive or not.
#[must_use]
pub(crate) fn members(pgid: i32) -> Vec<i32> {
    if !exists(pgid) {
        return Vec::new();
    }
    match processes() {
        Some(all) => located(all).filter(|(_, place)| place.group == pgid).map(|(pid, _)| pid).collect(),
        None => vec![pgid],
    }
}

/// Whether the group and the session of that number have no living process. Reads `/proc`, so it is
/// too slow for every step.
#[must_use]
pub(crate) fn is_deserted(pgid: i32) -> bool {
    // A process forked while the list is read, whose parent then exits, is missing from that list.
    // So it is read twice.
    let is_empty = || members(pgid).is_empty() && strays(pgid).is_empty();
    is_empty() && (!exists(pgid) || is_empty())
}

/// Whether the system has no group of this number any more and its session is empty. Stricter than
/// [`is_deserted`]: an unreaped zombie still counts.
pub(crate) fn is_gone(pgid: i32) -> bool {
    !exists(pgid) && strays(pgid).is_empty()
}

/// Living processes of the session that the group's leader began, in other groups.
fn strays(pgid: i32) -> Vec<i32> {
    crew(pgid).into_iter().filter(|(_, place)| place.group != pgid).map(|(pid, _)| pid).collect()
}

/// Sends `signal` to every process of the group and of its leader's session. A process that is gone
/// is no error.
pub(crate) fn signal(pgid: i32, signal: Signal) {
    if pgid <= 1 {
        return;
    }
    match killpg(Pid::from_raw(pgid), signal) {
        Ok(()) | Err(Errno::ESRCH) => {}
        Err(error) => tracing::warn!(pid = pgid, %signal, %error, "could not signal a process group"),
    }
    for pid in strays(pgid) {
        signal_one(pid, signal);
    }
}

/// Sends `signal` to one process. It is no error if the process is gone.
pub(super) fn signal_one(pid: i32, signal: Signal) {
    if let Err(error) = kill(Pid::from_raw(pid), signal)
        && error != Errno::ESRCH
    {
        tracing::warn!(pid, %signal, %error, "could not signal a process");
    }
}

/// Sends SIGTERM, then SIGCONT so that a stopped process acts on it. First waits until no git among
/// them is at work, for at most [`GITS`].
pub(crate) fn terminate(pgid: i32) {
    let_gits_end(|| crew(pgid));
    signal(pgid, Signal::SIGTERM);
    signal(pgid, Signal::SIGCONT);
}

/// Lets the gits at work finish while all other processes are stopped and so cannot start further
/// gits.
///
/// On SIGTERM git removes its lock files, except one that it is just creating. One in eight `git
/// commit`s terminated at a random moment leaves one, sometimes that of the branch or of
/// packed-refs. It then blocks every later git until a user removes it.
pub(super) fn let_gits_end(crew: impl Fn() -> Vec<(i32, Place)>) {
    let (watch, mut seen) = (Stopwatch::start(), Gits::default());
    loop {
        let (gits, others): (Vec<_>, Vec<_>) = crew().into_iter().partition(|(_, place)| place.is_git);
        let mut all_still = true;
        for (pid, _) in others.iter().filter(|(_, place)| !place.is_stopped()) {
            // Stopping fails for a process that is gone or belongs to another user; it is not
            // waited for.
            all_still &= kill(Pid::from_raw(*pid), Signal::SIGSTOP).is_err();
        }
        if (all_still && !seen.any_at_work(&gits)) || watch.elapsed() >= GITS {
            return;
        }
        clock::pause(LOOK);
    }
}

/// The living processes in the group or in the session that its leader began. Empty if `/proc`
/// cannot be read.
fn crew(pgid: i32) -> Vec<(i32, Place)> {
    let all = if pgid > 1 { processes().unwrap_or_default() } else { Vec::new() };
    located(all).filter(|(_, place)| place.group == pgid || place.session == pgid).collect()
}

/// Keeps the processes that have not exited, with their state.
fn located(pids: Vec<i32>) -> impl Iterator<Item = (i32, Place)> {
    let place = |pid| Place::of(pid).filter(|place| place.lives()).map(|place| (pid, place));
    pids.into_iter().filter_map(place)
}

fn exists(pgid: i32) -> bool {
    // EPERM proves that a process exists.
    pgid > 1 && killpg(Pid::from_raw(pgid), None) != Err(Errno::ESRCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_are_no_group_have_no_members() {
        for pgid in [-5, -1, 0, 1] {
            assert!(members(pgid).is_empty(), "{pgid}");
            signal(pgid, Signal::SIGKILL);
        }
    }

    #[test]
    fn we_are_members_of_our_own_group() {
        let own = nix::unistd::getpgrp().as_raw();
        if own > 1 {
            assert!(members(own).contains(&nix::unistd::getpid().as_raw()));
        }
    }
}
