//! Gits that are at work, as opposed to those that wait for input.
//!
//! Invariant: this only looks. A git at work may hold locks, or be about to end; whoever asks decides how long that is worth
//! waiting for.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::clock::Stopwatch;
use crate::session::Place;

/// A git that neither runs nor reads a disk for so long waits for somebody, and holds nothing that it is just making.
const IDLE: Duration = Duration::from_millis(100);

/// What was seen of some gits so far: the processor time of each, and since when it is the same.
#[derive(Debug, Default)]
pub(crate) struct Gits {
    seen: BTreeMap<i32, (u64, Stopwatch)>,
}

impl Gits {
    /// Whether one of them was at work within the last [`IDLE`]. One that was not seen before counts.
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
