//! How long a landing that meets errors is tried, and how often (CONTRACT.md §6).
//!
//! Invariant: measured on the monotonic clock from the command's end, the time that exchanges take included, so that hanging
//! connections use up the lease like pauses do.

use std::time::Duration;

use crate::clock;

use crate::runner::Context;

/// Between two tries after an error, at first; it doubles up to [`LONGEST_PAUSE`].
const PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// How long a local ref store that gives errors is tried.
const LOCAL_PATIENCE: Duration = Duration::from_secs(5);

/// How long a landing that meets errors is tried: a local one for moments, a remote one until the lease is over.
#[derive(Debug)]
pub(crate) struct Deadline {
    most: Duration,
    watch: clock::Stopwatch,
    pause: Duration,
}

impl Deadline {
    /// For a step whose lease has `lease_left` to go.
    pub(crate) fn new(context: &Context<'_>, lease_left: Duration) -> Self {
        let most = if context.authority.attaches() { LOCAL_PATIENCE } else { lease_left };
        Self { most, watch: clock::Stopwatch::start(), pause: PAUSE }
    }

    fn left(&self) -> Duration {
        self.most.saturating_sub(self.watch.elapsed())
    }

    /// How long one exchange with a remote may take: half of what is left, as its connection may hang and the next not; but
    /// always long enough for one that does not.
    pub(crate) fn share(&self) -> Duration {
        (self.left() / 2).max(LONGEST_PAUSE)
    }

    /// Waits a while; `false` when there is no time left, or somebody pressed Ctrl-C twice.
    pub(crate) fn wait(&mut self, context: &Context<'_>) -> bool {
        let left = self.left();
        if left.is_zero() || context.shutdown.wait(2, self.pause.min(left)) {
            return false;
        }
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        true
    }
}
