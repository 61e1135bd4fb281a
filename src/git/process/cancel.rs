//! Cancellation token for git calls that wait for others, over a network or for a key. They may
//! hang, and a Ctrl-C does not reach them, since each runs in its own session.
//!
//! Invariants: one-way, and shared by all handles of a repository. A call that is ended, or not
//! started, because of it fails with [`crate::git::ProcessError::Stopped`]. `terminate` ends the
//! calls; the caller maps signals to requests.
//!
//! It is not a [`crate::stop::Stop`], which is tripped once for everything below it. What ends here
//! depends on the purpose of a call, and callers answer the same signal differently: the first one
//! ends all calls of `set-state`, only the scans of `run`, and none while a pager has Ctrl-C.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use crate::clock::Stopwatch;

/// A signing call that takes no longer than this is never ended by [`Interrupt::end_signatures`].
const MOMENT: Duration = Duration::from_secs(2);

/// How long signing calls may take after [`Interrupt::hurry`].
const HURRY: Duration = Duration::from_secs(10);

/// The token; clones are the same token.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    scans: AtomicBool,
    all: AtomicBool,
    /// Since when only signing calls go on.
    hurried: OnceLock<Stopwatch>,
    /// When signing calls were asked to end, and their grace period.
    signatures: OnceLock<(Stopwatch, Duration)>,
    /// Whether the last signing program had to be ended.
    hung: AtomicBool,
    calls: Mutex<Calls>,
    /// Signalled when a call begins or ends.
    changed: Condvar,
}

/// The number of running calls.
#[derive(Debug, Default)]
struct Calls {
    scans: usize,
    others: usize,
    /// Since when there has been at least one all the time.
    since: Option<Stopwatch>,
}

impl Calls {
    fn of(&mut self, purpose: Purpose) -> &mut usize {
        match purpose {
            Purpose::Scan => &mut self.scans,
            Purpose::Signature | Purpose::Other => &mut self.others,
        }
    }
}

/// The purpose of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Looking for work, or fetching for a command: ending it loses nothing.
    Scan,
    /// Making or checking a signature for work already begun.
    Signature,
    /// Anything else for work already begun.
    Other,
}

impl Inner {
    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A running call; over when dropped.
#[derive(Debug)]
pub(crate) struct Call<'a>(&'a Inner, Purpose);

impl Interrupt {
    /// Ends calls that only look for work; nothing is lost.
    pub fn end_scans(&self) {
        self.0.scans.store(true, Ordering::Relaxed);
    }

    /// Ends every call that waits for others. The result of a push is then unknown.
    pub fn end_all(&self) {
        self.end_scans();
        self.0.all.store(true, Ordering::Relaxed);
    }

    /// Ends every call that waits for others, but signing calls only after [`HURRY`]: without a signature the work that
    /// was begun cannot be saved.
    pub fn hurry(&self) {
        self.end_scans();
        self.0.hurried.get_or_init(Stopwatch::start);
    }

    /// Ends signing calls once `grace` has passed. A call that begins later gets at least
    /// [`MOMENT`].
    pub fn end_signatures(&self, grace: Duration) {
        self.0.signatures.get_or_init(|| (Stopwatch::start(), grace));
    }

    /// Whether the last signing program had to be ended.
    pub(crate) fn has_hung(&self) -> bool {
        self.0.hung.load(Ordering::Relaxed)
    }

    /// Records whether the last signing program had to be ended.
    pub(crate) fn note_hung(&self, hung: bool) {
        self.0.hung.store(hung, Ordering::Relaxed);
    }

    /// Whether no call is running.
    pub fn is_idle(&self) -> bool {
        let calls = self.0.calls();
        calls.scans + calls.others == 0
    }

    /// Waits, without limit, until calls have been running for `long` without a gap.
    pub fn wait_busy(&self, long: Duration) {
        let (mut calls, changed) = (self.0.calls(), &self.0.changed);
        loop {
            calls = match calls.since.map(|since| long.saturating_sub(since.elapsed())) {
                None => changed.wait(calls).unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => return,
                Some(left) => changed.wait_timeout(calls, left).unwrap_or_else(PoisonError::into_inner).0,
            };
        }
    }

    /// Whether a call other than a scan is running.
    pub fn is_at_work(&self) -> bool {
        self.0.calls().others > 0
    }

    /// Whether a call of this purpose that has taken this long must end.
    pub(crate) fn ends(&self, purpose: Purpose, taken: Duration) -> bool {
        let hurried = self.0.hurried.get();
        let is_late = || {
            let is_over = |(since, grace): &(Stopwatch, Duration)| since.elapsed() >= *grace;
            self.0.signatures.get().is_some_and(is_over)
                || hurried.is_some_and(|since| since.elapsed() >= HURRY)
        };
        match purpose {
            Purpose::Scan => self.0.scans.load(Ordering::Relaxed),
            Purpose::Signature => self.0.all.load(Ordering::Relaxed) || (taken >= MOMENT && is_late()),
            Purpose::Other => self.0.all.load(Ordering::Relaxed) || hurried.is_some(),
        }
    }

    /// Registers a running call.
    pub(crate) fn call(&self, purpose: Purpose) -> Call<'_> {
        let mut calls = self.0.calls();
        *calls.of(purpose) += 1;
        calls.since.get_or_insert_with(Stopwatch::start);
        self.0.changed.notify_all();
        Call(&self.0, purpose)
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        let inner = self.0;
        let mut calls = inner.calls();
        *calls.of(self.1) -= 1;
        if calls.scans + calls.others == 0 {
            calls.since = None;
        }
        inner.changed.notify_all();
    }
}
