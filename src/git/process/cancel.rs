//! The wish to stop, for calls of git that wait for somebody else, over a network or for a key: they may hang, and are out of a
//! Ctrl-C's reach (`process`).
//!
//! Invariants: one-way, and shared by all handles of a repository; a call that is ended, or not begun, for this says so
//! ([`crate::git::ProcessError::Stopped`]). How they are ended is `ending`'s business. Which signal ends what is `cli`'s
//! business.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use crate::clock::Stopwatch;

/// What a signature takes that is not waited for in vain.
const MOMENT: Duration = Duration::from_secs(2);

/// The switch; clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Interrupt {
    scans: Arc<AtomicBool>,
    all: Arc<AtomicBool>,
    /// Since when signatures are to come to an end, and how long they may take for that.
    signatures: Arc<OnceLock<(Stopwatch, Duration)>>,
    /// Whether the last program that signs had to be ended.
    hung: Arc<AtomicBool>,
    calls: Arc<(Mutex<Calls>, Condvar)>,
}

/// How many calls are under way.
#[derive(Debug, Default)]
struct Calls {
    scans: usize,
    others: usize,
    /// Since when there has been one all the time.
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

/// What a call is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Looking for work, or fetching what a command is to find: nothing is lost when it is ended.
    Scan,
    /// Making or checking a signature that work already begun depends on.
    Signature,
    /// Anything that work already begun depends on.
    Other,
}

/// A call under way; over when dropped.
#[derive(Debug)]
pub(crate) struct Call<'a>(&'a Interrupt, Purpose);

impl Interrupt {
    /// Ends what only asks a remote for its branches; nothing is lost with that.
    pub fn end_scans(&self) {
        self.scans.store(true, Ordering::Relaxed);
    }

    /// Ends every call that waits for somebody else. What became of a push is unknown then.
    pub fn end_all(&self) {
        self.end_scans();
        self.all.store(true, Ordering::Relaxed);
    }

    /// Ends what makes or checks signatures, when it has had `grace`; one that begins later has a moment.
    pub fn end_signatures(&self, grace: Duration) {
        self.signatures.get_or_init(|| (Stopwatch::start(), grace));
    }

    /// Whether the last program that signs had to be ended.
    pub(crate) fn has_hung(&self) -> bool {
        self.hung.load(Ordering::Relaxed)
    }

    /// Notes whether one had to be ended.
    pub(crate) fn note_hung(&self, hung: bool) {
        self.hung.store(hung, Ordering::Relaxed);
    }

    /// Whether no call is under way.
    pub fn is_idle(&self) -> bool {
        let calls = self.calls.0.lock().unwrap_or_else(PoisonError::into_inner);
        calls.scans + calls.others == 0
    }

    /// Waits until there has been a call under way for so long, however long that takes.
    pub fn wait_busy(&self, long: Duration) {
        let (calls, changed) = &*self.calls;
        let mut calls = calls.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            calls = match calls.since.map(|since| long.saturating_sub(since.elapsed())) {
                None => changed.wait(calls).unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => return,
                Some(left) => changed.wait_timeout(calls, left).unwrap_or_else(PoisonError::into_inner).0,
            };
        }
    }

    /// Whether a call is under way that is more than a look for work.
    pub fn is_at_work(&self) -> bool {
        self.calls.0.lock().unwrap_or_else(PoisonError::into_inner).others > 0
    }

    /// Whether a call for this, which has taken so long, is to end.
    pub(crate) fn ends(&self, purpose: Purpose, taken: Duration) -> bool {
        let signatures_end = || {
            self.signatures.get().is_some_and(|(since, grace)| since.elapsed() >= *grace) && taken >= MOMENT
        };
        match purpose {
            Purpose::Scan => self.scans.load(Ordering::Relaxed),
            Purpose::Signature => self.all.load(Ordering::Relaxed) || signatures_end(),
            Purpose::Other => self.all.load(Ordering::Relaxed),
        }
    }

    /// Notes that a call is under way.
    pub(crate) fn call(&self, purpose: Purpose) -> Call<'_> {
        let mut calls = self.calls.0.lock().unwrap_or_else(PoisonError::into_inner);
        *calls.of(purpose) += 1;
        calls.since.get_or_insert_with(Stopwatch::start);
        self.calls.1.notify_all();
        Call(self, purpose)
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        let (calls, changed) = &*self.0.calls;
        let mut calls = calls.lock().unwrap_or_else(PoisonError::into_inner);
        *calls.of(self.1) -= 1;
        if calls.scans + calls.others == 0 {
            calls.since = None;
        }
        changed.notify_all();
    }
}
