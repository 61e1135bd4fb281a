//! Reports moves of ledgers while steps and turns are live, so that a pause or an answer is heard in seconds.
//!
//! Invariant: of all processes on this host that watch a repository, the one with the lock asks the remote; the others
//! hear from it by the refs here. A wake-up only causes a look, so a spurious one is harmless.

use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use super::error::LedgerError;
use super::fetch::fetch;
use super::place::Place;
use crate::clock;
use crate::contract::ids::RemoteName;
use crate::contract::layout::{Own, RUNS};
use crate::fsutil::FileLock;
use crate::git::{RefWatch, Repo};

/// The time between two questions to a remote, and the longest while it does not answer.
const ASK: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(10)];

/// The longest time without a look at the refs: where files are watched, and where they cannot be.
const LOOK: [Duration; 2] = [Duration::from_secs(5), Duration::from_millis(200)];

/// What a wait ended with.
#[derive(Debug)]
pub enum Heard {
    /// A ledger may have moved here.
    Moved,
    /// Nothing, for as long as was to be waited.
    Quiet,
    /// The remote could not be asked. It is asked again, at growing intervals.
    Deaf(LedgerError),
}

/// Ledgers that are watched until this is dropped.
#[derive(Debug)]
pub struct Watch<'r> {
    repo: &'r Repo,
    remote: Option<RemoteName>,
    news: Receiver<()>,
    /// Keeps `news` open where no file is watched.
    _bell: Sender<()>,
    /// `None` where files cannot be watched.
    files: Option<RefWatch>,
    /// The right to ask the remote for all on this host.
    asks: Option<FileLock>,
    due: Instant,
    pause: Duration,
}

impl<'r> Watch<'r> {
    /// Watches the ledgers that are decided at `place`. A move after this call is heard.
    #[must_use]
    pub fn of(repo: &'r Repo, place: &Place) -> Self {
        Self { due: clock::monotonic(), ..Self::with_bell(repo, place, mpsc::channel()) }
    }

    /// Watches like [`Self::of`], for a caller that has just asked the remote. A copy of the sender wakes a wait up, as a
    /// move does.
    pub(crate) fn with_bell(repo: &'r Repo, place: &Place, (bell, news): (Sender<()>, Receiver<()>)) -> Self {
        let tell = bell.clone();
        let files = RefWatch::of(repo, &[RUNS], move || {
            tell.send(()).ok();
        });
        let remote = match place {
            Place::Here => None,
            Place::Remote(remote) => Some(remote.clone()),
        };
        let due = clock::monotonic() + ASK[0];
        Self { repo, remote, news, _bell: bell, files, asks: None, due, pause: ASK[0] }
    }

    /// Waits until a ledger may have moved, `limit` at most.
    pub fn next(&mut self, limit: Duration) -> Heard {
        let until = clock::monotonic() + limit;
        let look = clock::monotonic() + LOOK[usize::from(self.files.is_none())];
        loop {
            if self.due <= clock::monotonic()
                && let Some(heard) = self.ask()
            {
                return heard;
            }
            let wake = if self.remote.is_some() { self.due.min(look) } else { look }.min(until);
            let nap = wake.saturating_duration_since(clock::monotonic());
            if self.heard(nap) || look <= clock::monotonic() {
                return Heard::Moved;
            }
            if until <= clock::monotonic() {
                return Heard::Quiet;
            }
        }
    }

    /// Whether a notification came within `nap`. All that are there count as one.
    fn heard(&self, nap: Duration) -> bool {
        let heard = self.news.recv_timeout(nap).is_ok();
        while self.news.try_recv().is_ok() {}
        heard
    }

    /// Asks the remote, unless another process on this host does.
    fn ask(&mut self) -> Option<Heard> {
        let remote = self.remote.as_ref()?;
        self.due = clock::monotonic() + ASK[0];
        if self.asks.is_none() {
            let place = Own::Watch.within(self.repo.common_dir());
            let lock = std::fs::create_dir_all(&place).and_then(|()| FileLock::try_acquire(&place));
            match lock {
                Ok(None) => return None,
                Ok(lock) => self.asks = lock,
                // Where no lock can be taken each process asks for itself.
                Err(error) => tracing::debug!(%error, "the lock of the watch"),
            }
        }
        let fetched = fetch(self.repo, remote);
        self.pause = if fetched.is_ok() { ASK[0] } else { ASK[1].min(self.pause * 2) };
        self.due = clock::monotonic() + self.pause;
        match fetched {
            Ok(fetched) => (!fetched.moved.is_empty()).then_some(Heard::Moved),
            Err(error) => Some(Heard::Deaf(error)),
        }
    }
}
