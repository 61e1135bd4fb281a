//! Ends a git call that takes too long or is no longer needed, without leaving work half done.
//!
//! Invariant: git itself is not killed while it may be changing refs or files, because a git killed
//! mid-update leaves its lock files behind. Its transport helpers get SIGTERM first. Git then gives
//! up by itself, or finishes if it already has all it needs. Only an idle git gets SIGTERM as well,
//! on which it removes its locks; only one that ignores SIGTERM gets SIGKILL. A call that changes
//! nothing is ended at once ([`end_at_once`]).

use std::time::Duration;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use crate::clock;
use crate::clock::Stopwatch;
use crate::session::{Place, processes};

/// Polling interval.
const LOOK: Duration = Duration::from_millis(20);

/// A git that neither used CPU time nor read a disk for this long is idle.
const QUIET: Duration = Duration::from_millis(1_500);

/// How long a process may take after SIGTERM; generous, for busy machines.
const GRACE: Duration = Duration::from_secs(5);

/// How long a process of a call that changes nothing may take after SIGTERM.
const MOMENT: Duration = Duration::from_secs(2);

/// The longest that the whole procedure takes.
const MOST: Duration = Duration::from_secs(30);

/// How long to wait for the output of a call that has ended.
const OUTPUT: Duration = Duration::from_millis(200);

/// Ends the call whose first process, the leader of a group, is `leader`. `is_over` waits for a
/// while until the call and its output have ended. Returns whether they did: a process that left
/// for its own session may hold the output open forever.
pub(crate) fn end(
    leader: i32,
    mut is_over: impl FnMut(Duration) -> std::io::Result<bool>,
) -> std::io::Result<bool> {
    let group = Pid::from_raw(leader);
    let (watch, mut quiet, mut asked) = (Stopwatch::start(), Stopwatch::start(), None::<Stopwatch>);
    let (mut seen, mut gone) = (Look::default(), None::<Stopwatch>);
    loop {
        let look = Look::at(leader);
        for pid in &look.others {
            tell(kill(Pid::from_raw(*pid), Signal::SIGTERM));
        }
        if look.is_at_work || look.used != seen.used || look.others.is_empty() != seen.others.is_empty() {
            quiet = Stopwatch::start();
        }
        let is_deaf =
            if look.others.is_empty() { quiet.elapsed() >= QUIET } else { watch.elapsed() >= GRACE };
        let is_gone = look.sees && !look.leader_lives && look.others.is_empty();
        seen = look;
        match asked {
            Some(asked) if asked.elapsed() >= GRACE => {
                tell(killpg(group, Signal::SIGKILL));
                gone.get_or_insert_with(Stopwatch::start);
            }
            None if is_deaf || watch.elapsed() >= MOST => {
                asked = Some(Stopwatch::start());
                tell(killpg(group, Signal::SIGTERM));
            }
            Some(_) | None => {}
        }
        if is_gone {
            gone.get_or_insert_with(Stopwatch::start);
        }
        if is_over(LOOK)? {
            await_rest(leader);
            return Ok(true);
        }
        if gone.is_some_and(|gone| gone.elapsed() >= OUTPUT) {
            return Ok(false);
        }
    }
}

/// Ends what a call has started and not waited for. Such a process may work in a directory that is removed next.
fn await_rest(leader: i32) {
    let watch = Stopwatch::start();
    while watch.elapsed() < MOMENT {
        let rest = Look::at(leader).others;
        if rest.is_empty() {
            return;
        }
        for pid in rest {
            tell(kill(Pid::from_raw(pid), Signal::SIGTERM));
        }
        clock::pause(LOOK);
    }
}

/// Ends a call that changes nothing others see. Unlike in [`end`] git is terminated first, so that
/// it does not take the end of its signing program for a result.
pub(crate) fn end_at_once(
    leader: i32,
    mut is_over: impl FnMut(Duration) -> std::io::Result<bool>,
) -> std::io::Result<bool> {
    let (group, watch) = (Pid::from_raw(leader), Stopwatch::start());
    tell(kill(group, Signal::SIGTERM));
    loop {
        let over = is_over(LOOK)?;
        let look = Look::at(leader);
        let late = watch.elapsed() >= MOMENT;
        if late || !look.sees {
            tell(killpg(group, Signal::SIGKILL));
        } else if over || !look.leader_lives {
            tell(killpg(group, Signal::SIGTERM));
        }
        let gone = over && look.others.is_empty();
        if gone || watch.elapsed() >= MOST || (late && !look.leader_lives && look.others.is_empty()) {
            return Ok(over || is_over(OUTPUT)?);
        }
        if over {
            clock::pause(LOOK);
        }
    }
}

fn tell(sent: nix::Result<()>) {
    if let Err(error) = sent {
        tracing::debug!(%error, "a process to be ended was gone already");
    }
}

/// A snapshot of a process group.
#[derive(Debug, Default)]
struct Look {
    /// Whether processes can be listed at all.
    sees: bool,
    /// Whether the leader has not exited.
    leader_lives: bool,
    /// The other living processes of the group.
    others: Vec<i32>,
    /// The CPU time the leader has used.
    used: u64,
    /// Whether the leader is runnable or in uninterruptible sleep.
    is_at_work: bool,
}

impl Look {
    /// Takes a snapshot; empty if processes cannot be listed.
    fn at(leader: i32) -> Self {
        let Some(all) = processes() else { return Self::default() };
        let mut look = Self { sees: true, ..Self::default() };
        for pid in all {
            let Some(place) = Place::of(pid) else { continue };
            if pid == leader {
                look.leader_lives = place.lives();
                look.used = place.used;
                look.is_at_work = place.is_at_work();
            } else if place.lives() && place.group == leader {
                look.others.push(pid);
            }
        }
        look
    }
}
