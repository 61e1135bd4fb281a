//! Process groups: who is in one, and signals to all of it; and to what left it for a group of its own within the session that its
//! leader began (`timeout`, jobs of a shell).
//!
//! Invariant: only a real group is ever signalled; 0 ("my own group") and 1 ("everybody", once negated) cannot be
//! expressed. Zombies do not count as members: one whose parent never reaps it (a container's first process, often)
//! would otherwise be waited for without end. When to signal is `machine`'s to decide (CONTRACT.md §10).

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use crate::session::{Place, processes};

/// The living, non-zombie processes of the group, ascending.
///
/// One system call when the group is gone. Otherwise `/proc` is read on Linux; elsewhere, or where `/proc` cannot be
/// read, the answer for a group that exists is its own number, alive or not.
#[must_use]
pub fn members(pgid: i32) -> Vec<i32> {
    if !exists(pgid) {
        return Vec::new();
    }
    match processes() {
        Some(all) => all.into_iter().filter(|pid| lives(*pid, |place| place.group == pgid)).collect(),
        None => vec![pgid],
    }
}

/// Whether nobody is left in the group, nor in the session of the same number. Read from `/proc`, so not for every step.
#[must_use]
pub fn is_deserted(pgid: i32) -> bool {
    members(pgid).is_empty() && strays(pgid).is_empty()
}

/// Who is in the session that the group's leader began, if it did, but in another group.
fn strays(pgid: i32) -> Vec<i32> {
    let all = if pgid > 1 { processes().unwrap_or_default() } else { Vec::new() };
    all.into_iter().filter(|pid| lives(*pid, |place| place.session == pgid && place.group != pgid)).collect()
}

/// Sends `signal` to every process of the group and of its leader's own session; one that is gone is fine.
pub fn signal(pgid: i32, signal: Signal) {
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

/// SIGTERM, then SIGCONT so that a stopped process wakes up to act on it.
pub(super) fn terminate(pgid: i32) {
    signal(pgid, Signal::SIGTERM);
    signal(pgid, Signal::SIGCONT);
}

fn exists(pgid: i32) -> bool {
    // "Not permitted" is an answer from a process that is there.
    pgid > 1 && killpg(Pid::from_raw(pgid), None) != Err(Errno::ESRCH)
}

fn lives(pid: i32, there: impl Fn(Place) -> bool) -> bool {
    Place::of(pid).is_some_and(|place| place.lives() && there(place))
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
