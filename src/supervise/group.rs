//! Process groups: who is in one, and signals to all of it; and to what left it for a group of its own within the session that its
//! leader began (`timeout`, jobs of a shell).
//!
//! Invariant: only a real group is ever signalled; 0 ("my own group") and 1 ("everybody", once negated) cannot be
//! expressed. Zombies do not count as members: one whose parent never reaps it (a container's first process, often)
//! would otherwise be waited for without end. When to signal is `machine`'s to decide (CONTRACT.md §10).

use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use super::gits::Gits;
use crate::clock;
use crate::clock::Stopwatch;
use crate::session::{Place, processes};

/// How long a group that is to end is waited for, for the gits in it.
const GITS: Duration = Duration::from_secs(1);

/// How often is looked.
const LOOK: Duration = Duration::from_millis(5);

/// The living, non-zombie processes of the group, ascending.
///
/// One system call when the group is gone. Otherwise `/proc` is read on Linux; elsewhere, or where `/proc` cannot be
/// read, the answer for a group that exists is its own number, alive or not.
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

/// Whether nobody is left in the group, nor in the session of the same number. Read from `/proc`, so not for every step.
#[must_use]
pub(crate) fn is_deserted(pgid: i32) -> bool {
    // Who comes into the group between two lines of a list, as its parent leaves it, is not on that list: so twice.
    let is_empty = || members(pgid).is_empty() && strays(pgid).is_empty();
    is_empty() && (!exists(pgid) || is_empty())
}

/// The same where nothing may escape: the system has no group of this number any more. A dead process that its parent does not reap
/// is still in one.
pub(crate) fn is_gone(pgid: i32) -> bool {
    !exists(pgid) && strays(pgid).is_empty()
}

/// Who is in the session that the group's leader began, if it did, but in another group.
fn strays(pgid: i32) -> Vec<i32> {
    crew(pgid).into_iter().filter(|(_, place)| place.group != pgid).map(|(pid, _)| pid).collect()
}

/// Sends `signal` to every process of the group and of its leader's own session; one that is gone is fine.
pub(crate) fn signal(pgid: i32, signal: Signal) {
    if pgid <= 1 {
        return;
    }
    match killpg(Pid::from_raw(pgid), signal) {
        Ok(()) | Err(Errno::ESRCH) => {}
        Err(error) => tracing::warn!(pid = pgid, %signal, %error, "could not signal a process group"),
    }
    for pid in strays(pgid) {
        if let Err(error) = kill(Pid::from_raw(pid), signal)
            && error != Errno::ESRCH
        {
            tracing::warn!(pid, %signal, %error, "could not signal a process of the session");
        }
    }
}

/// SIGTERM, then SIGCONT so that a stopped process wakes up to act on it; when no git among them is at work any more, or
/// after [`GITS`].
pub(crate) fn terminate(pgid: i32) {
    let_gits_end(pgid);
    signal(pgid, Signal::SIGTERM);
    signal(pgid, Signal::SIGCONT);
}

/// Lets the gits at work come to their end, while all others stand still and so begin no further ones.
///
/// Git takes its locks along when it is sent SIGTERM, but not one that it is just making: of `git commit`s ended at any moment one in
/// eight leaves one, of the branch or of all refs at times, and who comes after needs a person to remove it.
fn let_gits_end(pgid: i32) {
    let (watch, mut seen) = (Stopwatch::start(), Gits::default());
    loop {
        let crew = crew(pgid);
        let (gits, others): (Vec<_>, Vec<_>) = crew.into_iter().partition(|(_, place)| place.is_git);
        let mut all_still = true;
        for (pid, _) in others.iter().filter(|(_, place)| !place.is_stopped()) {
            // One that is gone, or another user's, is not waited for.
            all_still &= kill(Pid::from_raw(*pid), Signal::SIGSTOP).is_err();
        }
        if (all_still && !seen.any_at_work(&gits)) || watch.elapsed() >= GITS {
            return;
        }
        clock::pause(LOOK);
    }
}

/// Who is in the group or in the session that its leader began, and has not ended. Empty where `/proc` cannot be read.
fn crew(pgid: i32) -> Vec<(i32, Place)> {
    let all = if pgid > 1 { processes().unwrap_or_default() } else { Vec::new() };
    located(all).filter(|(_, place)| place.group == pgid || place.session == pgid).collect()
}

/// Those that have not ended, and where they are.
fn located(pids: Vec<i32>) -> impl Iterator<Item = (i32, Place)> {
    let place = |pid| Place::of(pid).filter(|place| place.lives()).map(|place| (pid, place));
    pids.into_iter().filter_map(place)
}

fn exists(pgid: i32) -> bool {
    // "Not permitted" is an answer from a process that is there.
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
