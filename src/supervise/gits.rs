//! Distinguishes git processes that are at work from those that wait for input.
//!
//! Invariant: only observes. A git at work may hold lock files or be about to exit; the caller decides how
//! long to wait for it.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::clock::Stopwatch;
use crate::session::Place;

/// A git that used no CPU time and no disk for this long is waiting for input, and is not just
/// creating a lock file.
const IDLE: Duration = Duration::from_millis(100);

/// Observations so far: the CPU time of each git, and how long it has been unchanged.
#[derive(Debug, Default)]
pub(crate) struct Gits {
    seen: BTreeMap<i32, (u64, Stopwatch)>,
}

impl Gits {
    /// Whether one of them was at work within the last [`IDLE`]. A git seen for the first time
    /// counts.
    pub(crate) fn any_at_work(&mut self, gits: &[(i32, Place)]) -> bool {
        let mut any = false;
        for (pid, place) in gits {
            let (used, since) = self.seen.entry(*pid).or_insert_with(|| (place.used, Stopwatch::start()));
            if place.is_at_work() || *used != place.used {
                (*used, *since) = (place.used, Stopwatch::start());
            }
            any |= since.elapsed() < IDLE;
        }
        any
    }
}
