//! The retry budget of a landing (CONTRACT 6.11).
//!
//! Invariant: it is measured on the monotonic clock from the command's end, and includes the time of
//! exchanges with a remote, so hanging connections use it up as pauses do.

use std::time::Duration;

use crate::clock;
use crate::contract::landing::Store;

use crate::runner::Context;

/// The first pause after an error. It doubles up to [`LONGEST_PAUSE`].
const PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// The retry budget of a local ref store.
const LOCAL_PATIENCE: Duration = Duration::from_secs(5);

/// The retry budget of a landing: five seconds for a local ref store, else the rest of the lease.
#[derive(Debug)]
pub(crate) struct Deadline {
    most: Duration,
    watch: clock::Stopwatch,
    pause: Duration,
}

impl Deadline {
    /// Starts the budget of a step whose lease ends in `lease_left`.
    pub(crate) fn new(context: &Context<'_>, lease_left: Duration) -> Self {
        let most = match context.authority.store() {
            Store::Local => LOCAL_PATIENCE,
            Store::Remote => lease_left,
        };
        Self { most, watch: clock::Stopwatch::start(), pause: PAUSE }
    }

    fn left(&self) -> Duration {
        self.most.saturating_sub(self.watch.elapsed())
    }

    /// The time limit of one exchange with a remote: half of the rest, since this connection may hang and the
    /// next one not. It is never less than a connection needs that does not hang.
    pub(crate) fn share(&self) -> Duration {
        (self.left() / 2).max(LONGEST_PAUSE)
    }

    /// Pauses before a retry. Returns `false` if the budget is used up, or after a second signal to the
    /// runner.
    pub(crate) fn wait(&mut self, context: &Context<'_>) -> bool {
        let left = self.left();
        if left.is_zero() || context.shutdown.wait(2, self.pause.min(left)) {
            return false;
        }
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        true
    }
}
