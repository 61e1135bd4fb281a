//! Staying: passes again and again, woken by changes of local refs, by the end of a lease or of a time of parking, or by the clock
//! (CONTRACT.md §11, `--watch`).
//!
//! Invariant: a wake-up is only ever a reason to look. One that is missed costs the interval at most, one too many
//! costs a scan.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use notify::{Event, EventKind, RecursiveMode, Watcher};

use crate::clock;
use crate::clock::Stopwatch;
use crate::contract::ids::{BranchName, CommitId};
use crate::git::Repo;
use crate::runner::events::warning::Warning;

use crate::runner::authority::error::AuthorityError;
use crate::runner::events::notice::{Cleared, Notice};
use crate::runner::passes::backoff::Backoff;
use crate::runner::passes::pass::{Halted, PassError, Summary, drain};
use crate::runner::{Context, error_chain};

/// After a first change, how long to wait for the rest of it (a push of many refs).
const SETTLE: Duration = Duration::from_millis(20);

/// What is due already is looked at after this.
const SHORTEST_NAP: Duration = Duration::from_millis(50);

/// A remote that does not answer is asked at least this often.
const LONGEST_BACK_OFF: Duration = Duration::from_secs(300);

/// A repository that is not there is waited for so many intervals, and no longer than that: it may be on a disk that comes
/// back, or be moved for a moment.
const MOST_ABSENT: u32 = 20;
const LONGEST_ABSENCE: Duration = Duration::from_secs(600);

/// The first pause before what failed is tried again; it grows with each failure.
const FIRST_PAUSE: Duration = Duration::from_secs(10);

/// Passes until a stop is asked for; `each` sees every round that did something.
pub fn watch(
    context: &Context<'_>,
    repo: &Repo,
    interval: Duration,
    each: &mut dyn FnMut(Summary),
) -> Result<(), PassError> {
    let (wake, woken) = mpsc::channel::<Wake>();
    let from_signals = wake.clone();
    let _subscription = context.shutdown.subscribe(move |_| {
        // Nobody listens any more once the watch is over.
        drop(from_signals.send(Wake::Stop));
    });
    let ring = move || {
        let wake = wake.clone();
        on_ref_changes(repo, move || drop(wake.send(Wake::Refs)))
    };
    // Held until the end: dropping it ends the notifications.
    let mut _watcher = ring();
    let mut absence = Absence { limit: (interval * MOST_ABSENT).min(LONGEST_ABSENCE), since: None };
    let mut poller = Poller::default();
    let mut backoff = Backoff::staying(interval.min(FIRST_PAUSE));
    loop {
        let presence = absence.look(context, repo)?;
        if presence == Presence::Back {
            _watcher = ring();
            poller = Poller::default();
        }
        if presence != Presence::Gone && poller.has_news(context, repo) {
            match drain(context, repo, &mut backoff) {
                Ok(round) => {
                    poller.answered(context);
                    poller.next_expiry = round.next_expiry;
                    poller.next_wake = round.next_wake;
                    poller.next_look = earlier(
                        round.next_due.and_then(|left| clock::monotonic().checked_add(left)),
                        backoff.next_try(),
                    );
                    if round.did_something() || !round.failed.is_empty() {
                        each(round);
                    }
                }
                Err(halted) => {
                    let Halted { done, error } = *halted;
                    if done.did_something() {
                        each(done);
                    }
                    match error {
                        PassError::Remote(_) if context.shutdown.cause().is_some() => return Ok(()),
                        // It went in the middle of a pass.
                        _ if repo.is_gone() => {}
                        PassError::Remote(error) => poller.failed(context, &error),
                        error => return Err(error),
                    }
                }
            }
        }
        if context.shutdown.cause().is_some() {
            return Ok(());
        }
        let nap = if repo.is_gone() { interval.min(absence.left()) } else { poller.nap(context, interval) };
        match woken.recv_timeout(nap) {
            Ok(Wake::Stop) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
            // A branch that was set back to a commit that has run already gets another try, once an interval.
            Err(RecvTimeoutError::Timeout) => {
                if backoff.forget_runs() {
                    // What the remote answered before those runs is no news if it answers the same again: a branch may have
                    // been set back to where it was.
                    poller.last = None;
                }
            }
            Ok(Wake::Refs) => {
                while let Ok(Wake::Refs) = woken.recv_timeout(SETTLE) {}
                if context.shutdown.cause().is_some() {
                    return Ok(());
                }
            }
        }
    }
}

/// Since when the repository is not there.
struct Absence {
    limit: Duration,
    since: Option<Stopwatch>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Presence {
    Here,
    Gone,
    Back,
}

impl Absence {
    /// Tells of its going and its coming back; an error once it has been away for too long.
    fn look(&mut self, context: &Context<'_>, repo: &Repo) -> Result<Presence, PassError> {
        match (repo.is_gone(), self.since) {
            (false, None) => Ok(Presence::Here),
            (false, Some(_)) => {
                self.since = None;
                let path = repo.top().to_owned();
                context.report(&Notice::Cleared(Cleared::Repository { path }));
                Ok(Presence::Back)
            }
            (true, None) => {
                self.since = Some(Stopwatch::start());
                let (path, wait) = (repo.top().to_owned(), self.limit.as_secs());
                context.warn(None, Warning::RepositoryGone { path, wait });
                Ok(Presence::Gone)
            }
            (true, Some(_)) if self.left().is_zero() => Err(PassError::Gone { path: repo.top().to_owned() }),
            (true, Some(_)) => Ok(Presence::Gone),
        }
    }

    fn left(&self) -> Duration {
        self.since.as_ref().map_or(self.limit, |since| self.limit.saturating_sub(since.elapsed()))
    }
}

/// Whether it is worth looking. Of a remote that is one cheap question, and a fetch only when its answer changed or a lease
/// has ended; each failure is said once, and its end.
#[derive(Default)]
struct Poller {
    last: Option<BTreeMap<BranchName, CommitId>>,
    /// When the next lease that is alive now ends, seconds since the epoch.
    next_expiry: Option<i64>,
    /// When the first parked branch may be run, seconds since the epoch.
    next_wake: Option<i64>,
    /// When the next lease has been seen for long enough, or what failed is to be tried again.
    next_look: Option<Instant>,
    failures: u32,
}

impl Poller {
    fn has_news(&mut self, context: &Context<'_>, repo: &Repo) -> bool {
        let asked = match context.authority.ask(repo) {
            None => return true,
            Some(Ok(asked)) => asked,
            // Nobody waits for the answer any more.
            Some(Err(_)) if context.shutdown.cause().is_some() => return false,
            Some(Err(error)) => {
                self.failed(context, &error);
                return false;
            }
        };
        let changed = self.last.as_ref() != Some(&asked);
        self.last = Some(asked);
        changed || self.due(context).is_some_and(|left| left.is_zero())
    }

    fn failed(&mut self, context: &Context<'_>, error: &AuthorityError) {
        // What was seen before tells nothing about what will be there when it answers again.
        self.last = None;
        self.failures = self.failures.saturating_add(1);
        if self.failures == 1 {
            context.warn(None, Warning::RemoteSilent { why: error_chain(error) });
        }
    }

    fn answered(&mut self, context: &Context<'_>) {
        if std::mem::take(&mut self.failures) > 0 {
            context.report(&Notice::Cleared(Cleared::Remote));
        }
    }

    /// When the next known lease may be closed by others.
    fn expiry_millis(&self, context: &Context<'_>) -> Option<i64> {
        let skew = match context.authority.source() {
            None => 0,
            Some(_) => i64::try_from(context.options.skew_seconds).unwrap_or(i64::MAX),
        };
        // A lease is over when its last second has passed.
        Some(self.next_expiry?.saturating_add(skew).saturating_add(1).saturating_mul(1000))
    }

    /// When there is something to do though no branch moves: a lease to be closed, or a state whose time has come.
    fn due_millis(&self, context: &Context<'_>) -> Option<i64> {
        let wake = self.next_wake.map(|wake| wake.saturating_mul(1000));
        self.expiry_millis(context).into_iter().chain(wake).min()
    }

    /// Until the interval is over, the next lease ends, or a parked branch wakes; longer while the remote does not answer.
    fn nap(&self, context: &Context<'_>, interval: Duration) -> Duration {
        if self.failures > 0 {
            return back_off(interval, self.failures);
        }
        self.due(context).map_or(interval, |left| interval.min(left.max(SHORTEST_NAP)))
    }

    /// How long until there is something to do although no branch has changed.
    fn due(&self, context: &Context<'_>) -> Option<Duration> {
        let end = self.due_millis(context).map(|end| {
            Duration::from_millis(u64::try_from(end.saturating_sub(clock::wall_millis())).unwrap_or(0))
        });
        let look = self.next_look.map(|at| at.saturating_duration_since(clock::monotonic()));
        earlier(end, look)
    }
}

/// The pause after so many failures in a row where usually it is `interval`: doubled with each, up to five minutes.
pub fn back_off(interval: Duration, failures: u32) -> Duration {
    interval.saturating_mul(1 << failures.min(8)).min(LONGEST_BACK_OFF.max(interval))
}

/// The earlier of two times, where there are any.
fn earlier<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    one.into_iter().chain(other).min()
}

enum Wake {
    Refs,
    Stop,
}

/// Keeps watching the places where branches change; dropping it ends that.
#[derive(Debug)]
#[must_use = "dropping it ends the notifications"]
pub struct RefWatch {
    _watcher: notify::RecommendedWatcher,
}

/// Calls `told` when a branch of this repository may have moved; `None` where that cannot be watched, and only looking tells.
pub fn on_ref_changes(repo: &Repo, told: impl Fn() + Send + 'static) -> Option<RefWatch> {
    let handler = move |event: notify::Result<Event>| {
        if event.is_ok_and(|event| matters(&event)) {
            told();
        }
    };
    let watched = notify::recommended_watcher(handler).and_then(|mut watcher| {
        watcher.watch(&repo.common_dir().join("refs").join("heads"), RecursiveMode::Recursive)?;
        watcher.watch(repo.common_dir(), RecursiveMode::NonRecursive)?;
        Ok(watcher)
    });
    match watched {
        Ok(watcher) => Some(RefWatch { _watcher: watcher }),
        Err(error) => {
            tracing::warn!(%error, "changes of refs cannot be watched here; looking every interval only");
            None
        }
    }
}

/// Whether an event can mean that a branch moved: not a lock coming and going, not a mere read.
fn matters(event: &Event) -> bool {
    if matches!(event.kind, EventKind::Access(_)) {
        return false;
    }
    event.paths.iter().any(|path| {
        let lock = path.extension().is_some_and(|extension| extension == "lock");
        let in_heads = path.components().any(|part| part.as_os_str() == "heads");
        !lock && (in_heads || path.file_name() == Some(Path::new("packed-refs").as_os_str()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CONTRACT 11.9
    #[test]
    fn a_remote_that_does_not_answer_is_asked_less_and_less_often() {
        let seconds = Duration::from_secs;
        let pauses = [0, 1, 2, 3, 99].map(|failures| back_off(seconds(60), failures));
        assert_eq!(pauses, [60, 120, 240, 300, 300].map(seconds));
        assert_eq!(back_off(seconds(900), 3), seconds(900));
    }
}
