//! `--watch`: repeated passes, woken by changes of local refs, by the end of a lease or a parking, or by the
//! interval (CONTRACT 11.1, 11.9, 11.12).
//!
//! Invariant: a wake-up only causes a pass. A missed one costs at most the interval; a spurious one costs a
//! scan.

use std::collections::BTreeMap;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::clock;
use crate::clock::Stopwatch;
use crate::contract::ids::{BranchName, CommitId};
use crate::git::Repo;
use crate::runner::events::warning::Warning;

use crate::runner::authority::error::AuthorityError;
use crate::runner::events::notice::{Cleared, Notice};
use crate::runner::passes::backoff::Backoff;
use crate::runner::passes::changes::{SETTLE, on_ref_changes};
use crate::runner::passes::pass::{Halted, PassError, Summary, drain};
use crate::runner::{Context, error_chain};

/// The shortest sleep, also if something is due already.
const SHORTEST_NAP: Duration = Duration::from_millis(50);

/// The longest interval between queries of a remote that does not answer, unless the normal interval is
/// longer.
const LONGEST_BACK_OFF: Duration = Duration::from_secs(300);

/// How many intervals to wait for a missing repository, up to [`LONGEST_ABSENCE`]. It may be on a disk that
/// comes back, or be moved for a moment.
const MOST_ABSENT: u32 = 20;
const LONGEST_ABSENCE: Duration = Duration::from_secs(600);

/// The longest time without a fetch from a remote, unless the interval is longer. Its answer shows branches only.
const LONGEST_BLIND: Duration = Duration::from_secs(60);

/// The first pause before a failed move is retried. It grows with each failure.
const FIRST_PAUSE: Duration = Duration::from_secs(10);

/// Makes passes until a stop is requested. `each` gets the summary of every round that did something. Ends with
/// [`PassError::Reconfigured`] between two passes if the caller must read the settings anew. `begun` is whether this
/// process has watched before: the source of all commands may then be missing for a time.
pub fn watch(
    context: &Context<'_>,
    repo: &Repo,
    (interval, begun): (Duration, bool),
    each: &mut dyn FnMut(Summary),
) -> Result<(), PassError> {
    let (wake, woken) = mpsc::channel::<Wake>();
    let from_signals = wake.clone();
    let _subscription = context.shutdown.subscribe(move |_| {
        // The receiver is gone once the watch is over.
        drop(from_signals.send(Wake::Stop));
    });
    let ring = move || {
        let wake = wake.clone();
        on_ref_changes(repo, move || drop(wake.send(Wake::Refs)))
    };
    // Kept alive, since dropping it ends the notifications.
    let mut _watcher = ring();
    let mut absence = Absence { limit: (interval * MOST_ABSENT).min(LONGEST_ABSENCE), since: None };
    let mut poller = Poller { begun, ..Poller::default() };
    let mut backoff = Backoff::staying(interval.min(FIRST_PAUSE));
    loop {
        let presence = absence.look(context, repo)?;
        if presence == Presence::Back {
            _watcher = ring();
            poller = Poller { begun: poller.begun, ..Poller::default() };
        }
        if presence != Presence::Gone && repo.is_reconfigured() {
            return Err(PassError::Reconfigured);
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
                    poller.begun |= done.passes > 0;
                    if done.did_something() {
                        each(done);
                    }
                    poller.halted(context, repo, error)?;
                }
            }
        }
        if context.shutdown.cause().is_some() {
            return Ok(());
        }
        if repo.is_reconfigured() {
            continue;
        }
        let nap = if repo.is_gone() { interval.min(absence.left()) } else { poller.nap(context, interval) };
        match woken.recv_timeout(nap) {
            Ok(Wake::Stop) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
            // A branch that was reset to a commit whose command has run gets another run, once per interval.
            Err(RecvTimeoutError::Timeout) => {
                if backoff.forget_runs() {
                    // Forget the remote's answer from before those runs. It may be the same again because a
                    // branch was reset, and must count as a change.
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

/// Tracks how long the repository has been missing.
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
    /// Checks the repository, and reports when it disappears and comes back. Fails once it has been missing
    /// for too long.
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

/// Decides whether a pass is worthwhile. A remote is queried cheaply, and fetched from only if its answer
/// changed or something is due (CONTRACT 11.9). Its failure is reported once, and so is its end.
#[derive(Default)]
struct Poller {
    last: Option<BTreeMap<BranchName, CommitId>>,
    /// The end of the next lease to expire, in seconds since the epoch.
    next_expiry: Option<i64>,
    /// The end of the next parking or preference, in seconds since the epoch.
    next_wake: Option<i64>,
    /// The time at which a lease was seen for long enough, or a failed move is retried.
    next_look: Option<Instant>,
    failures: u32,
    /// Whether a pass was ever made.
    begun: bool,
    /// Why nothing is run for now.
    trouble: Option<String>,
    /// The time since the last pass: deferred states are only seen by a fetch.
    fetched: Option<Stopwatch>,
}

impl Poller {
    fn has_news(&mut self, context: &Context<'_>, repo: &Repo) -> bool {
        let asked = match context.authority.ask(repo, &[]) {
            None => return true,
            Some(Ok(asked)) => asked,
            // A stop was requested, so the answer does not matter.
            Some(Err(_)) if context.shutdown.cause().is_some() => return false,
            Some(Err(error)) => {
                self.failed(context, &error);
                return false;
            }
        };
        let changed = self.last.as_ref() != Some(&asked);
        self.last = Some(asked);
        let is_stale = self.fetched.is_some_and(|fetched| fetched.elapsed() >= LONGEST_BLIND);
        changed || is_stale || self.due(context).is_some_and(|left| left.is_zero())
    }

    /// Decides whether the watch continues after a pass that failed.
    fn halted(&mut self, context: &Context<'_>, repo: &Repo, error: PassError) -> Result<(), PassError> {
        match error {
            // A stop was requested, which ends the watch.
            PassError::Remote(_) if context.shutdown.cause().is_some() => Ok(()),
            // The repository disappeared during the pass.
            _ if repo.is_gone() => Ok(()),
            PassError::Remote(error) => {
                self.failed(context, &error);
                Ok(())
            }
            PassError::Trust(error) if self.begun => {
                self.last = None;
                let why = Some(error_chain(&error));
                if self.trouble != why {
                    context.warn(None, Warning::NothingRun { why: error_chain(&error) });
                    self.trouble = why;
                }
                Ok(())
            }
            error => Err(error),
        }
    }

    fn failed(&mut self, context: &Context<'_>, error: &AuthorityError) {
        // After a silence, the next answer always counts as a change.
        self.last = None;
        self.failures = self.failures.saturating_add(1);
        if self.failures == 1 {
            context.warn(None, Warning::RemoteSilent { why: error_chain(error) });
        }
    }

    fn answered(&mut self, context: &Context<'_>) {
        self.fetched = Some(Stopwatch::start());
        (self.begun, self.trouble) = (true, None);
        if std::mem::take(&mut self.failures) > 0 {
            context.report(&Notice::Cleared(Cleared::Remote));
        }
    }

    /// When the next lease can be recovered, in milliseconds since the epoch.
    fn expiry_millis(&self, context: &Context<'_>) -> Option<i64> {
        let skew = match context.authority.source() {
            None => 0,
            Some(_) => i64::try_from(context.options.skew_seconds).unwrap_or(i64::MAX),
        };
        // A lease expires after its last second has passed.
        Some(self.next_expiry?.saturating_add(skew).saturating_add(1).saturating_mul(1000))
    }

    /// When there is something to do without a ref change: a lease to recover, or the end of a parking. In
    /// milliseconds since the epoch.
    fn due_millis(&self, context: &Context<'_>) -> Option<i64> {
        let wake = self.next_wake.map(|wake| wake.saturating_mul(1000));
        self.expiry_millis(context).into_iter().chain(wake).min()
    }

    /// The time to sleep: the interval, or less if something is due before. Longer while the remote does not
    /// answer.
    fn nap(&self, context: &Context<'_>, interval: Duration) -> Duration {
        if self.failures > 0 {
            return back_off(interval, self.failures);
        }
        self.due(context).map_or(interval, |left| interval.min(left.max(SHORTEST_NAP)))
    }

    /// The time until there is something to do without a ref change.
    fn due(&self, context: &Context<'_>) -> Option<Duration> {
        let end = self.due_millis(context).map(|end| {
            Duration::from_millis(u64::try_from(end.saturating_sub(clock::wall_millis())).unwrap_or(0))
        });
        let look = self.next_look.map(|at| at.saturating_duration_since(clock::monotonic()));
        earlier(end, look)
    }
}

/// The pause after `failures` in a row: `interval` doubled with each, up to five minutes.
pub fn back_off(interval: Duration, failures: u32) -> Duration {
    interval.saturating_mul(1 << failures.min(8)).min(LONGEST_BACK_OFF.max(interval))
}

/// The earlier of two optional times.
fn earlier<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    one.into_iter().chain(other).min()
}

enum Wake {
    Refs,
    Stop,
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
