//! Wakes whoever waits for a branch to move: `run --watch`, `status --watch`, `wait`, `cancel --wait` and
//! `set-state --wait`.
//!
//! Invariant: a wake-up only causes a look, so a spurious one is harmless. A change after [`Changes::of`] is kept
//! until the next [`Changes::next`], so none is missed between a look and the wait after it. A missed notification of
//! the system costs at most one pause.

use std::path::Path;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use notify::{Event, EventKind, RecursiveMode, Watcher};

use crate::clock;
use crate::clock::Stopwatch;
use crate::contract::layout::SLOTS;
use crate::git::Repo;
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

/// Watches the files of refs until dropped.
#[derive(Debug)]
#[must_use = "dropping it ends the notifications"]
pub struct RefWatch {
    _watcher: notify::RecommendedWatcher,
}

/// Calls `changed` when a branch of this repository may have moved. `None` if the files cannot be watched;
/// then only polling shows changes.
pub fn on_ref_changes(repo: &Repo, changed: impl Fn() + Send + 'static) -> Option<RefWatch> {
    let handler = move |event: notify::Result<Event>| {
        if event.is_ok_and(|event| matters(&event)) {
            changed();
        }
    };
    let watched = notify::recommended_watcher(handler).and_then(|mut watcher| {
        watcher.watch(&repo.common_dir().join("refs").join("heads"), RecursiveMode::Recursive)?;
        let slots = repo.common_dir().join(SLOTS);
        if std::fs::create_dir_all(&slots).is_ok() {
            watcher.watch(&slots, RecursiveMode::Recursive)?;
        }
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

/// Whether an event can mean that a branch moved. Lock files and reads do not count.
fn matters(event: &Event) -> bool {
    if matches!(event.kind, EventKind::Access(_)) {
        return false;
    }
    event.paths.iter().any(|path| {
        let lock = path.extension().is_some_and(|extension| extension == "lock");
        let in_heads =
            path.components().any(|part| part.as_os_str() == "heads" || part.as_os_str() == "deferred");
        !lock && (in_heads || path.file_name() == Some(Path::new("packed-refs").as_os_str()))
    })
}
