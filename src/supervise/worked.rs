//! Whether the processes of a leashed program work: a program that prints nothing may compute.
//!
//! Invariant: only observes. Linux only; elsewhere nothing is known to work.

use std::sync::{Mutex, PoisonError};

use super::leash::Leash;
use super::tree::marked;
use crate::clock::Stopwatch;

/// The part of one processor that counts as work, as one in so many. Less is a timer or a look at a socket.
const PART: u128 = 100;

/// The length of a clock tick of the system, in milliseconds.
const TICK: u128 = 10;

/// Watches the processor time of the processes that have a leash.
#[derive(Debug)]
pub struct Worked {
    marker: String,
    watch: Stopwatch,
    /// The time of the last look in milliseconds, and the processor time until then in clock ticks.
    last: Mutex<(u128, u64)>,
}

impl Worked {
    /// Begins to watch.
    #[must_use]
    pub fn new(leash: &Leash) -> Self {
        Self { marker: leash.marker(), watch: Stopwatch::start(), last: Mutex::new((0, 0)) }
    }

    /// Whether the processes used at least a hundredth of one processor since the last call.
    pub fn has_worked(&self) -> bool {
        let used = marked(&self.marker).iter().map(|(_, place)| place.used).sum();
        let now = self.watch.elapsed().as_millis();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let (then, before) = std::mem::replace(&mut *last, (now, used));
        // One that has ended takes its time along.
        let worked = u128::from(used.saturating_sub(before));
        worked > 0 && worked * TICK * PART >= now.saturating_sub(then)
    }
}
