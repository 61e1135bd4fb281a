//! Ending a call of git that takes too long or that nobody waits for any more, so that it leaves nothing half done.
//!
//! Invariant: git itself is not killed while it may be changing refs or files, of which it would leave the locks. What it
//! talks to a remote by is asked to go first: git then gives up by itself, or, with all it needs, comes to its end. Only one
//! that does nothing is asked as well, as git takes its locks along then; and only what is deaf to that is killed. A call that changes
//! nothing is ended at once ([`end_at_once`]).

use std::time::Duration;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use crate::clock;
use crate::clock::Stopwatch;
use crate::session::{Place, processes};

/// How often is looked.
const LOOK: Duration = Duration::from_millis(20);

/// A git that neither runs nor reads a disk for so long does nothing.
const QUIET: Duration = Duration::from_millis(1_500);

/// How long what was asked to go may take, which is more where many want the processor.
const GRACE: Duration = Duration::from_secs(5);

/// The same for one that changes nothing.
const MOMENT: Duration = Duration::from_secs(2);

/// The most that all of it takes.
const MOST: Duration = Duration::from_secs(30);

/// How long what ended may keep its output to itself.
const OUTPUT: Duration = Duration::from_millis(200);

/// Ends the call whose first process, the leader of a group, is `leader`; `is_over` waits a while for its end, and for that of its
/// output. Says whether that came: what it has left behind in a session of its own may hold the output for ever.
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
            return Ok(true);
        }
        if gone.is_some_and(|gone| gone.elapsed() >= OUTPUT) {
            return Ok(false);
        }
    }
}

/// Like [`end`], for a call that changes nothing which others see: git goes first, so that it does not take the end of the program it
/// waits for as an answer.
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

/// What is seen of a group.
#[derive(Debug, Default)]
struct Look {
    /// Whether anything is seen at all.
    sees: bool,
    /// Whether the first one has not ended.
    leader_lives: bool,
    /// Its processes but the first, that have not ended.
    others: Vec<i32>,
    /// How much the first one has used of the processor.
    used: u64,
    /// Whether it runs or would, or waits for a disk.
    is_at_work: bool,
}

impl Look {
    /// Looks at the processes there are; where none can be seen nothing is.
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
