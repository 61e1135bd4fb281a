//! The wish to stop, shared by everything that waits.
//!
//! Invariants: the first signal decides what is reported (128+n), later ones only count up, and nothing is ever taken
//! back; every waiter hears of a request at once, also one that came before it began to listen; signals are
//! *handled*, never blocked, as a mask would be inherited by every command and make it deaf; a signal that was
//! ignored when we were started (`nohup`, a background job of a script) stays ignored (CONTRACT.md §10). What a waiter
//! does about it is its own business; the exit code is `cli`'s.

use std::fmt;
use std::fs;
use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use signal_hook::consts::signal::SIGXFSZ;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::clock;

/// What listeners are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The first signal that asked for the stop.
    pub signal: i32,
    /// How many have come, this one included; from 2 on there is to be no grace.
    pub count: u32,
    /// The one that came now.
    pub latest: i32,
}

/// A shared, one-way switch from "go on" to "stop". Clones are the same switch.
#[derive(Clone, Default)]
pub struct Shutdown {
    inner: Arc<Inner>,
}

type Listener = Box<dyn Fn(Notice) + Send>;

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    notice: Option<Notice>,
    listeners: Vec<(u64, Listener)>,
    next: u64,
}

/// Makes a write beyond the limit of file sizes (`ulimit -f`) an error that can be told, instead of the end of this process
/// halfway through its work. A handler, since commands would inherit an ignored signal.
///
/// # Errors
/// Whatever registering the handler failed with.
pub fn survive_size_limit() -> io::Result<()> {
    if !contains(ignored_signals(), SIGXFSZ) {
        signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)))?;
    }
    Ok(())
}

impl Shutdown {
    /// One that only [`Self::request`] can trip.
    #[must_use]
    pub fn manual() -> Self {
        Self::default()
    }

    /// One that SIGINT, SIGTERM and SIGHUP trip, from now until the process ends; those that are ignored now stay
    /// ignored. To be called once, early in `main`. Two equal signals in the same instant may count as one.
    ///
    /// # Errors
    /// Whatever registering the handlers or starting their thread failed with.
    pub fn install() -> io::Result<Self> {
        let shutdown = Self::manual();
        let ignored = ignored_signals();
        // With SIGCHLD ignored the kernel reaps every child itself and no exit code could be learned; any handler
        // ends that.
        if contains(ignored, SIGCHLD) {
            signal_hook::flag::register(SIGCHLD, Arc::new(AtomicBool::new(false)))?;
        }
        let heard = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| !contains(ignored, *signal));
        let mut signals = Signals::new(heard)?;
        let switch = shutdown.clone();
        thread::Builder::new().name("signals".to_owned()).spawn(move || {
            for signal in signals.forever() {
                tracing::debug!(signal, "asked to stop");
                switch.request(signal);
            }
        })?;
        Ok(shutdown)
    }

    /// Asks everybody to stop on behalf of `signal`; asking again means "at once".
    pub fn request(&self, signal: i32) {
        let mut state = self.lock();
        let notice = match state.notice {
            Some(Notice { signal: first, count, .. }) => {
                Notice { signal: first, count: count.saturating_add(1), latest: signal }
            }
            None => Notice { signal, count: 1, latest: signal },
        };
        state.notice = Some(notice);
        for (_, listener) in &state.listeners {
            listener(notice);
        }
        self.inner.changed.notify_all();
    }

    /// The first signal, if there was any.
    #[must_use]
    pub fn requested(&self) -> Option<i32> {
        self.lock().notice.map(|notice| notice.signal)
    }

    /// How many requests there have been.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.lock().notice.map_or(0, |notice| notice.count)
    }

    /// Waits until a stop has been requested so many times or `timeout` has passed; says whether it has. At once if it was
    /// before.
    #[must_use]
    pub fn wait(&self, count: u32, timeout: Duration) -> bool {
        let deadline = clock::monotonic().checked_add(timeout);
        let mut state = self.lock();
        while state.notice.is_none_or(|notice| notice.count < count) {
            let left =
                deadline.map_or(Duration::MAX, |end| end.saturating_duration_since(clock::monotonic()));
            if left.is_zero() {
                return false;
            }
            // Beyond a day the exact bound does not matter, and platforms disagree on the largest timeout they take.
            let nap = left.min(Duration::from_secs(86_400));
            let woken = self.inner.changed.wait_timeout(state, nap);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Calls `listener` for every request until the returned value is dropped, and right now if there was one already.
    ///
    /// It is called with the switch locked: it must be quick (send on a channel) and must not use the switch.
    pub fn subscribe(&self, listener: impl Fn(Notice) + Send + 'static) -> Subscription {
        let mut state = self.lock();
        if let Some(notice) = state.notice {
            listener(notice);
        }
        let id = state.next;
        state.next += 1;
        state.listeners.push((id, Box::new(listener)));
        drop(state);
        Subscription { shutdown: self.clone(), id }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A listener that panicked has not left the few fields half changed.
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Shutdown {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Shutdown").field("notice", &self.lock().notice).finish_non_exhaustive()
    }
}

/// Keeps a listener listening; dropping it ends that.
#[derive(Debug)]
#[must_use = "dropping it ends the subscription"]
pub struct Subscription {
    shutdown: Shutdown,
    id: u64,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.shutdown.lock().listeners.retain(|(id, _)| *id != self.id);
    }
}

// Bit n-1 stands for signal n. Outside Linux asking needs unsafe code, and the answer there is "none".
fn ignored_signals() -> u64 {
    fs::read_to_string("/proc/self/status").ok().and_then(|status| mask(&status, "SigIgn:")).unwrap_or(0)
}

/// One of the signal masks of a `/proc/<pid>/status`.
pub(super) fn mask(status: &str, field: &str) -> Option<u64> {
    let hex = status.lines().find_map(|line| line.strip_prefix(field))?;
    u64::from_str_radix(hex.trim(), 16).ok()
}

/// Whether `signal` is in the mask.
pub(super) fn contains(mask: u64, signal: i32) -> bool {
    u32::try_from(signal - 1).ok().and_then(|bit| mask.checked_shr(bit)).is_some_and(|bits| bits & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn the_first_signal_stays_and_the_others_count() {
        let shutdown = Shutdown::manual();
        assert_eq!((shutdown.requested(), shutdown.count()), (None, 0));
        assert!(!shutdown.wait(1, Duration::from_millis(1)));
        shutdown.request(15);
        shutdown.clone().request(2);
        assert_eq!((shutdown.requested(), shutdown.count()), (Some(15), 2));
        assert!(shutdown.wait(1, Duration::ZERO) && shutdown.wait(2, Duration::ZERO));
    }

    #[test]
    fn everybody_wakes_at_once() {
        let shutdown = Shutdown::manual();
        thread::scope(|scope| {
            let waiters: Vec<_> = (0..20)
                .map(|index| {
                    let shutdown = shutdown.clone();
                    let long = if index == 0 { Duration::MAX } else { LONG };
                    scope.spawn(move || shutdown.wait(1, long))
                })
                .collect();
            shutdown.request(2);
            assert!(waiters.into_iter().all(|waiter| waiter.join().unwrap()));
        });
    }

    #[test]
    fn listeners_hear_what_was_what_comes_and_nothing_after() {
        let shutdown = Shutdown::manual();
        let (sender, receiver) = mpsc::channel();
        shutdown.request(1);
        let subscription = shutdown.subscribe(move |notice| sender.send(notice).unwrap());
        shutdown.request(2);
        drop(subscription);
        shutdown.request(3);
        let heard: Vec<_> = receiver.iter().collect();
        assert_eq!(
            heard,
            [Notice { signal: 1, count: 1, latest: 1 }, Notice { signal: 1, count: 2, latest: 2 }]
        );
    }

    #[test]
    fn masks() {
        let status = "Name:\tx\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\n";
        let ignored = mask(status, "SigIgn:").unwrap();
        assert!(contains(ignored, 1) && contains(ignored, 13));
        assert!(!contains(ignored, 2) && !contains(ignored, 0) && !contains(ignored, 65));
        assert_eq!(mask(status, "SigCgt:"), None);
    }
}
