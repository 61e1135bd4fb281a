//! Wakes whoever waits for a branch to move: `run --watch`, `status --watch`, `wait`, `cancel --wait` and
//! `set-state --wait`.
//!
//! Invariant: a wake-up only causes a look, so a spurious one is harmless. A change after [`Changes::of`] is kept
//! until the next [`Changes::next`], so none is missed between a look and the wait after it. A missed notification of
//! the system costs at most one pause.

use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use crate::clock;
use crate::clock::Stopwatch;
use crate::contract::layout::{HEADS, SLOTS};
use crate::git::{RefWatch, Repo};
use crate::runner::authority::Authority;

/// The wait after a first ref change, so that a push of many refs causes one look.
pub(super) const SETTLE: Duration = Duration::from_millis(20);

/// The longest pause where files are watched.
const WATCHED: Duration = Duration::from_secs(5);

/// The pause where they cannot be watched.
const UNWATCHED: Duration = Duration::from_millis(200);

/// The first pause between two requests to a remote, and the longest.
const REMOTE: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(10)];

/// Changes of branches, waited for with a limit.
#[derive(Debug)]
pub struct Changes {
    news: Receiver<()>,
    /// `None` for a remote, and where files cannot be watched.
    watcher: Option<RefWatch>,
    pause: Duration,
    shortest: Duration,
    longest: Duration,
    watch: Stopwatch,
    limit: Option<Duration>,
}

impl Changes {
    /// Listens to the branches of `authority` from now on, for `limit` at most.
    pub fn of(repo: &Repo, authority: &Authority, limit: Option<Duration>) -> Self {
        let (tell, news) = mpsc::channel();
        let is_here = authority.source().is_none();
        let watcher = is_here
            .then(|| {
                on_ref_changes(repo, move || {
                    tell.send(()).ok();
                })
            })
            .flatten();
        let [shortest, longest] = match (is_here, &watcher) {
            (true, Some(_)) => [WATCHED; 2],
            (true, None) => [UNWATCHED; 2],
            (false, _) => REMOTE,
        };
        Self { news, watcher, pause: shortest, shortest, longest, watch: Stopwatch::start(), limit }
    }

    /// Waits until a branch may have moved, or until `due` has passed. The pauses between two requests to a remote grow.
    /// Returns false once the limit has passed.
    pub fn next(&mut self, due: Option<Duration>) -> bool {
        let left = self.limit.map_or(Duration::MAX, |limit| limit.saturating_sub(self.watch.elapsed()));
        if left.is_zero() {
            return false;
        }
        let nap = self.pause.min(left).min(due.unwrap_or(Duration::MAX));
        self.pause = self.longest.min(self.pause * 3 / 2);
        if self.watcher.is_none() {
            clock::pause(nap);
        } else if self.news.recv_timeout(nap).is_ok() {
            clock::pause(SETTLE);
            while self.news.try_recv().is_ok() {}
        }
        true
    }

    /// A branch has moved, so more may follow: the pauses begin anew.
    pub fn moved(&mut self) {
        self.pause = self.shortest;
    }

    /// The time since the beginning.
    pub fn elapsed(&self) -> Duration {
        self.watch.elapsed()
    }
}

/// Calls `changed` when a branch or a deferred state of this repository may have moved. `None` if the files cannot be
/// watched; then only polling shows changes.
pub fn on_ref_changes(repo: &Repo, changed: impl Fn() + Send + 'static) -> Option<RefWatch> {
    RefWatch::of(repo, &[HEADS, SLOTS], changed)
}
