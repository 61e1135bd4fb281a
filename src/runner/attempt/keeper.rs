//! Keeps one attempt's lease from its claim until its command is over, on a thread of its own (CONTRACT.md §5, §10).
//!
//! Invariant: whatever the attempt does meanwhile (a large checkout, `aynig.setup`, the command, nothing at all) has the
//! attempt's [`Stop`], which is called off as soon as the lease is lost or can't be kept. What is looked at and when is
//! `heartbeat`'s.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::contract::ids::CommitId;
use crate::contract::ownership::Ownership;
use crate::contract::settlement::StopReason;
use crate::git::Repo;
use crate::git::remote::HASTE;
use crate::stop::Stop;

use crate::runner::Context;
use crate::runner::attempt::claim::Claim;
use crate::runner::attempt::finished::Site;
use crate::runner::attempt::heartbeat::{Heartbeat, look};

/// The lease of an attempt under way.
#[derive(Debug)]
pub(crate) struct LeaseKeeper<'a> {
    context: Context<'a>,
    claim: &'a Claim,
    heartbeat: Mutex<Heartbeat<'a>>,
    stop: Stop,
}

/// What is left of a lease when its attempt is over.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Held {
    /// The last HEAD that was ours.
    pub(crate) head: CommitId,
    /// How long the lease has still to go.
    pub(crate) left: Duration,
}

/// Keeps the lease of `claim` while `attempt` runs, which is stopped if that panics.
pub(crate) fn keeping<T>(
    context: &Context<'_>,
    claim: &Claim,
    attempt: impl FnOnce(&LeaseKeeper<'_>) -> T,
) -> (T, Held) {
    let (stop, _hears) = context.shutdown.child();
    let heartbeat = Heartbeat::new(context.store.handle(), context.authority, claim, context.options);
    let keeper = LeaseKeeper { context: *context, claim, heartbeat: Mutex::new(heartbeat), stop };
    let (under_way, over) = mpsc::channel::<()>();
    let result = thread::scope(|scope| {
        let thread = &keeper;
        let kept = scope.spawn(move || thread.keep(&over));
        let result = attempt(&keeper);
        drop(under_way);
        // Of its panic the attempt has heard by the switch; what the attempt has done is settled all the same.
        kept.join().ok();
        result
    });
    let heartbeat = keeper.heartbeat.into_inner().unwrap_or_else(PoisonError::into_inner);
    (result, Held { head: heartbeat.held(), left: heartbeat.left() })
}

impl<'a> LeaseKeeper<'a> {
    /// The switch that ends the attempt's work: tripped by signals to the runner, and where the lease is lost.
    pub(crate) fn stop(&self) -> &Stop {
        &self.stop
    }

    /// Why the work was called off, where the lease was to blame.
    pub(crate) fn given_up(&self) -> Option<StopReason> {
        self.lock().given_up()
    }

    /// Takes the worktree along to renewals from now on, and to those before.
    pub(crate) fn follow(&self, site: &Site) {
        if let Some(place) = site.place() {
            self.lock().settle_in(place.clone());
        }
    }

    /// Looks at a local branch once more, after something that took its time or that could move the branch. A remote is
    /// not asked each time: a lost lease is noticed there by a renewal that fails.
    pub(crate) fn is_lost(&self, repo: &Repo) -> bool {
        self.context.authority.attaches()
            && matches!(look(repo, self.context.authority, self.claim, HASTE),
                Ok((ownership, _)) if ownership != Ownership::Ours)
    }

    fn keep(&self, over: &mpsc::Receiver<()>) {
        let _alarm = Alarm(&self.stop);
        loop {
            let Some(wake_in) = self.lock().beat() else {
                self.stop.call_off();
                return;
            };
            match over.recv_timeout(wake_in) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Heartbeat<'a>> {
        self.heartbeat.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A command must not outlive the thread that keeps its lease.
struct Alarm<'a>(&'a Stop);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.panicked();
        }
    }
}
