//! The places between two effects where a debug build can be made to die, to stop or to panic, so that tests can show
//! what remains to be done then (CONTRACT.md §8).
//!
//! `AYNIG_CRASH_AT=POINT[:kill|stop|panic][:N]` sends SIGKILL (or SIGSTOP) to the process when it comes to the point for
//! the N-th time, the first if N is not given, or makes the thread that came there panic. `AYNIG_CLOCK_OFFSET_SECONDS`,
//! read by [`crate::clock`], is of the same kind.
//!
//! Invariant: a build without debug assertions, which is what `cargo build --release` makes, has none of this: there
//! [`reach`] is empty, and neither the names of the points nor that of the variable are in the binary.

use std::time::Duration;

macro_rules! points {
    ($($(#[$doc:meta])* $point:ident = $name:literal,)*) => {
        /// Where, in the order in which a step comes by.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Point {
            $($(#[$doc])* $point,)*
        }

        #[cfg(debug_assertions)]
        impl Point {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$point,)*];

            /// What `AYNIG_CRASH_AT` calls it.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$point => $name,)*
                }
            }
        }
    };
}

points! {
    /// A ref is locked and not yet moved.
    RefLocked = "ref-locked",
    /// A file that others read lies beside its place under another name.
    FileDrafted = "file-drafted",
    /// The lease is an object that nothing points at.
    LeaseWritten = "lease-written",
    /// The branch is ours: its ref was moved, or the push was accepted.
    LeaseMoved = "lease-moved",
    /// The worktree is an empty directory, its registration made and not yet on the list.
    WorktreeDrafted = "worktree-drafted",
    /// The worktree is on the list, and does not name its registration.
    WorktreeRegistered = "worktree-registered",
    /// The worktree is registered and has no files.
    WorktreeAdded = "worktree-added",
    /// The worktree has its files.
    WorktreeFilled = "worktree-filled",
    /// Logs, body and record are there.
    FilesPrepared = "files-prepared",
    /// The command runs.
    CommandStarted = "command-started",
    /// Its runner looks what became of the command.
    CommandWatched = "command-watched",
    /// The renewal is an object.
    RenewalWritten = "renewal-written",
    /// The branch is at the renewal; of a remote, the worktree is not.
    RenewalMoved = "renewal-moved",
    /// The command has ended.
    CommandEnded = "command-ended",
    /// The result is an object.
    ResultWritten = "result-written",
    /// The branch is at the result.
    ResultMoved = "result-moved",
    /// Moves of several steps are about to be pushed together.
    PushBegun = "push-begun",
    /// Somebody is about to be told of a happening.
    NoticeTaken = "notice-taken",
    /// What is to be saved is an object.
    RescueWritten = "rescue-written",
    /// A rescue ref points at it.
    RescuePointed = "rescue-pointed",
    /// A worktree is about to be removed.
    RemovalBegun = "removal-begun",
    /// Its files are gone; its registration is not.
    RemovalHalfDone = "removal-half-done",
    /// Its registration is off the list, and not gone.
    Unregistered = "unregistered",
    /// It is gone; the directory for worktrees is not.
    RemovalDone = "removal-done",
    /// A worktree is marked as one to keep, and still at its place.
    PoolMarked = "pool-marked",
    /// It is with those that are kept, with all that its command left in it.
    PoolShelved = "pool-shelved",
    /// It is taken for another step, with the files of the one before.
    PoolTaken = "pool-taken",
    /// It has the files of the next, and is nobody's yet.
    PoolRefilled = "pool-refilled",
    /// The end of an expired lease is an object.
    StalledWritten = "stalled-written",
    /// The branch is at it; the worktree of the dead runner is still there.
    StalledMoved = "stalled-moved",
    /// A worktree whose runner is gone is about to be saved.
    AbandonedHeld = "abandoned-held",
}

/// The longest a program for signatures may take, if the environment says so (`AYNIG_SIGNATURE_SECONDS`), for tests that do not
/// wait that long; in a release build never.
#[cfg(not(debug_assertions))]
#[inline]
pub(crate) fn signature_limit() -> Option<Duration> {
    None
}

/// The longest a program for signatures may take, if the environment says so.
#[cfg(debug_assertions)]
pub(crate) fn signature_limit() -> Option<Duration> {
    std::env::var("AYNIG_SIGNATURE_SECONDS").ok()?.parse().map(Duration::from_secs).ok()
}

/// Dies, stops or panics here if the environment says so; in a release build nothing at all.
#[cfg(not(debug_assertions))]
#[inline]
pub(crate) fn reach(_point: Point) {}

#[cfg(debug_assertions)]
pub(crate) use armed::reach;

#[cfg(debug_assertions)]
mod armed {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    use nix::sys::signal::{Signal, kill};
    use nix::unistd::getpid;

    use crate::crashpoint::Point;

    struct Plan {
        point: Point,
        fate: Fate,
        visits_left: AtomicU32,
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Fate {
        /// The process is sent this signal.
        Signal(Signal),
        /// The thread panics.
        Panic,
    }

    static PLAN: OnceLock<Option<Plan>> = OnceLock::new();

    /// Dies, stops or panics here if the environment says so.
    pub(crate) fn reach(point: Point) {
        let plan = PLAN.get_or_init(|| {
            let text = std::env::var("AYNIG_CRASH_AT").ok()?;
            Some(parse(&text).unwrap_or_else(|| panic!("AYNIG_CRASH_AT={text} names no crash point")))
        });
        if let Some(plan) = plan
            && plan.point == point
            && plan.visits_left.fetch_sub(1, Ordering::SeqCst) == 1
        {
            match plan.fate {
                Fate::Signal(signal) => kill(getpid(), signal).expect("a process may signal itself"),
                Fate::Panic => panic!("AYNIG_CRASH_AT={}", point.name()),
            }
        }
    }

    fn parse(text: &str) -> Option<Plan> {
        let mut parts = text.split(':');
        let name = parts.next()?;
        let point = Point::ALL.iter().copied().find(|point| point.name() == name)?;
        let (mut fate, mut visit) = (Fate::Signal(Signal::SIGKILL), 1);
        for part in parts {
            match part {
                "kill" => fate = Fate::Signal(Signal::SIGKILL),
                "stop" => fate = Fate::Signal(Signal::SIGSTOP),
                "panic" => fate = Fate::Panic,
                number => visit = number.parse().ok().filter(|visit| *visit > 0)?,
            }
        }
        Some(Plan { point, fate, visits_left: AtomicU32::new(visit) })
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn plans() {
            let read = |text| parse(text).map(|plan| (plan.point, plan.fate, plan.visits_left.into_inner()));
            assert_eq!(read("lease-moved"), Some((Point::LeaseMoved, Fate::Signal(Signal::SIGKILL), 1)));
            let stop = Fate::Signal(Signal::SIGSTOP);
            assert_eq!(read("lease-moved:stop:3"), Some((Point::LeaseMoved, stop, 3)));
            assert_eq!(read("lease-moved:panic:2"), Some((Point::LeaseMoved, Fate::Panic, 2)));
            for wrong in ["", "nowhere", "lease-moved:hang", "lease-moved:0"] {
                assert_eq!(read(wrong), None, "{wrong}");
            }
        }
    }
}
