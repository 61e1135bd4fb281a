//! The stop switch: one switch for all waits, with child switches for parts of the work.
//!
//! Invariants:
//!
//! - The first cause is the one reported. Later signals only increase the count, and no request is
//!   withdrawn.
//! - A panic counts like a first signal and is reported even if it comes after a signal, so that a
//!   signal cannot hide a bug.
//! - A listener is called at once, also for a request made before it subscribed.
//! - A request to a switch reaches its children; a request to a child does not reach its parent.
//! - Signals are *handled*, never blocked, since commands would inherit the signal mask.
//! - A signal that was ignored when this process started (`nohup`, a background job of a script)
//!   stays ignored (CONTRACT 10.5).

use std::fmt;
use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use signal_hook::consts::signal::SIGXFSZ;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::clock;

/// Why the work should stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The process received this signal.
    Signal(i32),
    /// The owner of the switch cancelled the work.
    CalledOff,
    /// A thread of this process panicked.
    Panic,
}

/// One request, as listeners receive it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The cause of the first request; after a panic, the panic.
    pub first: Cause,
    /// The number of signals so far, including this one. From the second on there is no grace
    /// period.
    pub signals: u32,
    /// The cause of this request.
    pub latest: Cause,
}

/// A shared, one-way switch. A clone is the same switch.
#[derive(Clone, Default)]
pub struct Stop {
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

/// Turns a write beyond the file size limit (`ulimit -f`) into an error, where SIGXFSZ would kill
/// this process in the middle of its work. Installs a handler, since commands would inherit an
/// ignored signal.
///
/// # Errors
/// Any error from registering the handler.
pub fn survive_size_limit() -> io::Result<()> {
    if !contains(ignored_signals(), SIGXFSZ) {
        signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)))?;
    }
    Ok(())
}

impl Stop {
    /// A switch that no signal trips.
    #[must_use]
    pub fn manual() -> Self {
        Self::default()
    }

    /// A switch that SIGINT, SIGTERM and SIGHUP trip until the process ends. Signals that are
    /// ignored now stay ignored. Call it once, early in `main`. Two equal signals at the same
    /// instant may count as one.
    ///
    /// # Errors
    /// Any error from registering the handlers or starting their thread.
    pub fn install() -> io::Result<Self> {
        let stop = Self::manual();
        let ignored = ignored_signals();
        // While SIGCHLD is ignored the kernel reaps children itself and no exit code is available.
        // Any handler ends that.
        if contains(ignored, SIGCHLD) {
            signal_hook::flag::register(SIGCHLD, Arc::new(AtomicBool::new(false)))?;
        }
        let heard = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| !contains(ignored, *signal));
        let mut signals = Signals::new(heard)?;
        let switch = stop.clone();
        thread::Builder::new().name("signals".to_owned()).spawn(move || {
            for signal in signals.forever() {
                tracing::debug!(signal, "asked to stop");
                switch.request(signal);
            }
        })?;
        Ok(stop)
    }

    /// A child switch for a part of the work. Requests to this switch reach it while the returned
    /// subscription lives.
    pub fn child(&self) -> (Self, Subscription) {
        let child = Self::default();
        let below = child.clone();
        let subscription = self.subscribe(move |notice| below.tell(|_| notice));
        (child, subscription)
    }

    /// Requests a stop because of `signal`. The second signal means "at once", except SIGHUP: a terminal that is closed
    /// sends it through the kernel and through the shell, and systemd may send it after SIGTERM.
    pub(crate) fn request(&self, signal: i32) {
        let is_echo = |before: u32| before > 0 && signal == SIGHUP;
        self.tell(|before| {
            let cause = Cause::Signal(signal);
            let one = u32::from(!is_echo(before));
            Notice { first: cause, signals: before.saturating_add(one), latest: cause }
        });
    }

    /// Cancels the work.
    pub fn call_off(&self) {
        self.tell(|before| Notice { first: Cause::CalledOff, signals: before, latest: Cause::CalledOff });
    }

    /// Requests a stop after a panic. The grace period is unchanged, even if a stop is already
    /// under way.
    pub fn panicked(&self) {
        let mut state = self.lock();
        if let Some(notice) = &mut state.notice {
            notice.first = Cause::Panic;
            return;
        }
        drop(state);
        self.tell(|before| Notice { first: Cause::Panic, signals: before.max(1), latest: Cause::Panic });
    }

    /// Records a request, which is built from the number of signals before it, and calls the
    /// listeners.
    fn tell(&self, request: impl FnOnce(u32) -> Notice) {
        let mut state = self.lock();
        let request = request(state.notice.map_or(0, |before| before.signals));
        let notice = Notice { first: state.notice.map_or(request.first, |before| before.first), ..request };
        state.notice = Some(notice);
        for (_, listener) in &state.listeners {
            // A panic in one listener must not keep other listeners, or a later signal, from being
            // handled.
            if catch_unwind(AssertUnwindSafe(|| listener(notice))).is_err() {
                tracing::error!("a listener panicked when it heard of a stop");
            }
        }
        self.inner.changed.notify_all();
    }

    /// The first cause, or the panic; `None` without a request.
    #[must_use]
    pub fn cause(&self) -> Option<Cause> {
        self.lock().notice.map(|notice| notice.first)
    }

    /// The number of signals so far.
    #[must_use]
    pub(crate) fn count(&self) -> u32 {
        self.lock().notice.map_or(0, |notice| notice.signals)
    }

    /// Waits until `signals` signals have come, for at most `timeout`. Returns whether they have;
    /// at once if they came before.
    #[must_use]
    pub(crate) fn wait(&self, signals: u32, timeout: Duration) -> bool {
        let deadline = clock::monotonic().checked_add(timeout);
        let mut state = self.lock();
        while state.notice.is_none_or(|notice| notice.signals < signals) {
            let left =
                deadline.map_or(Duration::MAX, |end| end.saturating_duration_since(clock::monotonic()));
            if left.is_zero() {
                return false;
            }
            // Beyond a day the exact bound does not matter, and platforms differ in the longest
            // timeout they accept.
            let nap = left.min(Duration::from_secs(86_400));
            let woken = self.inner.changed.wait_timeout(state, nap);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Calls `listener` for every request until the returned value is dropped, and immediately if
    /// there was one before.
    ///
    /// The listener runs with the switch locked. It must be quick (send on a channel) and must not
    /// use the switch.
    pub fn subscribe(&self, listener: impl Fn(Notice) + Send + 'static) -> Subscription {
        let mut state = self.lock();
        if let Some(notice) = state.notice {
            listener(notice);
        }
        let id = state.next;
        state.next += 1;
        state.listeners.push((id, Box::new(listener)));
        drop(state);
        Subscription { stop: self.clone(), id }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A listener that panicked cannot have left these fields half changed.
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Stop {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Stop").field("notice", &self.lock().notice).finish_non_exhaustive()
    }
}

/// Keeps a listener subscribed until dropped.
#[derive(Debug)]
#[must_use = "dropping it ends the subscription"]
pub struct Subscription {
    stop: Stop,
    id: u64,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.stop.lock().listeners.retain(|(id, _)| *id != self.id);
    }
}

// Signals this process ignores, as a mask: bit n-1 stands for signal n. Empty outside Linux, where
// reading them needs unsafe code.
fn ignored_signals() -> u64 {
    fs::read_to_string("/proc/self/status").ok().and_then(|status| mask(&status, "SigIgn:")).unwrap_or(0)
}

/// A signal mask from the text of a `/proc/<pid>/status`.
pub(crate) fn mask(status: &str, field: &str) -> Option<u64> {
    let hex = status.lines().find_map(|line| line.strip_prefix(field))?;
    u64::from_str_radix(hex.trim(), 16).ok()
}

/// Whether `signal` is in the mask.
pub(crate) fn contains(mask: u64, signal: i32) -> bool {
    u32::try_from(signal - 1).ok().and_then(|bit| mask.checked_shr(bit)).is_some_and(|bits| bits & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn the_first_signal_stays_and_the_others_count() {
        let stop = Stop::manual();
        assert_eq!((stop.cause(), stop.count()), (None, 0));
        assert!(!stop.wait(1, Duration::from_millis(1)));
        stop.request(15);
        stop.clone().request(2);
        assert_eq!((stop.cause(), stop.count()), (Some(Cause::Signal(15)), 2));
        assert!(stop.wait(1, Duration::ZERO) && stop.wait(2, Duration::ZERO));
    }

    #[test]
    fn a_hangup_after_another_signal_is_no_second_one() {
        for (signals, count) in
            [([1, 1], 1), ([15, 1], 1), ([2, 1], 1), ([1, 2], 2), ([1, 15], 2), ([2, 2], 2)]
        {
            let stop = Stop::manual();
            signals.iter().for_each(|signal| stop.request(*signal));
            assert_eq!((stop.cause(), stop.count()), (Some(Cause::Signal(signals[0])), count), "{signals:?}");
        }
    }

    #[test]
    fn everybody_wakes_at_once() {
        let stop = Stop::manual();
        thread::scope(|scope| {
            let waiters: Vec<_> = (0..20)
                .map(|index| {
                    let stop = stop.clone();
                    let long = if index == 0 { Duration::MAX } else { LONG };
                    scope.spawn(move || stop.wait(1, long))
                })
                .collect();
            stop.request(2);
            assert!(waiters.into_iter().all(|waiter| waiter.join().unwrap()));
        });
    }

    #[test]
    fn listeners_hear_what_was_what_comes_and_nothing_after() {
        let stop = Stop::manual();
        let (sender, receiver) = mpsc::channel();
        stop.request(1);
        let subscription = stop.subscribe(move |notice| sender.send(notice).unwrap());
        stop.request(2);
        stop.call_off();
        drop(subscription);
        stop.request(3);
        let heard: Vec<_> = receiver.iter().collect();
        let first = Cause::Signal(1);
        assert_eq!(
            heard,
            [
                Notice { first, signals: 1, latest: Cause::Signal(1) },
                Notice { first, signals: 2, latest: Cause::Signal(2) },
                Notice { first, signals: 2, latest: Cause::CalledOff },
            ]
        );
    }

    #[test]
    fn a_child_hears_its_parent_and_not_the_other_way_round() {
        let stop = Stop::manual();
        let ((early, _early), (other, _other)) = (stop.child(), stop.child());
        early.call_off();
        assert_eq!((early.cause(), early.count()), (Some(Cause::CalledOff), 0));
        assert_eq!((stop.cause(), other.cause()), (None, None));
        stop.request(15);
        stop.request(2);
        assert_eq!((early.cause(), early.count()), (Some(Cause::CalledOff), 2));
        assert_eq!((other.cause(), other.count()), (Some(Cause::Signal(15)), 2));
        let (late, listens) = stop.child();
        assert_eq!((late.cause(), late.count()), (Some(Cause::Signal(15)), 2));
        drop(listens);
        stop.request(15);
        assert_eq!((late.count(), stop.count()), (2, 3));
    }

    #[test]
    fn a_panic_is_the_cause_and_takes_no_grace_away() {
        let stop = Stop::manual();
        let _deaf = stop.subscribe(|_| panic!("as the test wants it"));
        let (sender, receiver) = mpsc::channel();
        let subscription = stop.subscribe(move |notice| sender.send(notice).unwrap());
        stop.panicked();
        stop.panicked();
        assert_eq!((stop.cause(), stop.count()), (Some(Cause::Panic), 1));
        stop.request(15);
        drop(subscription);
        let (first, latest) = (Cause::Panic, Cause::Signal(15));
        let heard: Vec<_> = receiver.iter().collect();
        assert_eq!(
            heard,
            [Notice { first, signals: 1, latest: first }, Notice { first, signals: 2, latest }]
        );

        let late = Stop::manual();
        late.request(2);
        late.panicked();
        assert_eq!((late.cause(), late.count()), (Some(Cause::Panic), 1));
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
