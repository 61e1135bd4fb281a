//! Staying: passes again and again, woken by changes of local refs, by the end of a lease, or by the clock
//! (CONTRACT.md §11, `--watch`).
//!
//! Invariant: a wake-up is only ever a reason to look. One that is missed costs the interval at most, one too many
//! costs a scan.

use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use notify::{Event, EventKind, RecursiveMode, Watcher};

use crate::clock;
use crate::git::Repo;

use super::Context;
use super::pass::{Done, PassError, Summary, drain};

/// After a first change, how long to wait for the rest of it (a push of many refs).
const SETTLE: Duration = Duration::from_millis(20);

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
    // Held until the end: dropping it ends the notifications.
    let _watcher = watch_refs(repo, wake);
    let mut done = Done::new();
    loop {
        let round = drain(context, repo, &mut done)?;
        if context.shutdown.requested().is_some() {
            each(round);
            return Ok(());
        }
        let nap = nap(interval, round.next_expiry);
        if round.did_something() || !round.failed.is_empty() {
            each(round);
        }
        match woken.recv_timeout(nap) {
            Ok(Wake::Stop) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
            // A branch that was set back to a commit that has run already gets another try, once an interval.
            Err(RecvTimeoutError::Timeout) => done.clear(),
            Ok(Wake::Refs) => {
                while let Ok(Wake::Refs) = woken.recv_timeout(SETTLE) {}
                if context.shutdown.requested().is_some() {
                    return Ok(());
                }
            }
        }
    }
}

enum Wake {
    Refs,
    Stop,
}

/// Until the interval is over, or the next lease ends.
fn nap(interval: Duration, next_expiry: Option<i64>) -> Duration {
    let Some(expiry) = next_expiry else { return interval };
    // A lease is over when its last second has passed.
    let left = expiry.saturating_add(1).saturating_mul(1000).saturating_sub(clock::wall_millis());
    interval.min(Duration::from_millis(u64::try_from(left).unwrap_or(0).max(50)))
}

/// Watches the places where branches change; without them there is the interval.
fn watch_refs(repo: &Repo, wake: mpsc::Sender<Wake>) -> Option<notify::RecommendedWatcher> {
    let handler = move |event: notify::Result<Event>| {
        let Ok(event) = event else { return };
        if matters(&event) {
            drop(wake.send(Wake::Refs));
        }
    };
    let watched = notify::recommended_watcher(handler).and_then(|mut watcher| {
        watcher.watch(&repo.common_dir().join("refs").join("heads"), RecursiveMode::Recursive)?;
        watcher.watch(repo.common_dir(), RecursiveMode::NonRecursive)?;
        Ok(watcher)
    });
    match watched {
        Ok(watcher) => Some(watcher),
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
