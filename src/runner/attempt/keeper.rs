//! Keeps one attempt's lease from its claim until its command is over, on a thread of its own (CONTRACT 10.3,
//! 10.4).
//!
//! Invariant: the attempt's [`Stop`] is tripped as soon as the lease is lost or cannot be kept. It stops
//! every part of the attempt: a large checkout, `aynig.setup`, the command.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::contract::ids::CommitId;
use crate::contract::landing::Store;
use crate::contract::ownership::Ownership;
use crate::contract::settlement::StopReason;
use crate::git::Repo;
use crate::git::remote::HASTE;
use crate::stop::Stop;

use crate::runner::Context;
use crate::runner::attempt::claim::Claim;
use crate::runner::attempt::finished::Site;
use crate::runner::attempt::heartbeat::{Heartbeat, look};
use crate::runner::authority::lookout::Wake;
use crate::runner::events::warning::Warning;

/// The lease of a running attempt.
#[derive(Debug)]
pub(crate) struct LeaseKeeper<'a> {
    context: Context<'a>,
    claim: &'a Claim,
    heartbeat: Mutex<Heartbeat<'a>>,
    stop: Stop,
}

/// The lease at the end of its attempt.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Held {
    /// The last HEAD that was ours (CONTRACT 5.10).
    pub(crate) head: CommitId,
    /// The remaining time of the lease.
    pub(crate) left: Duration,
}

/// Keeps the lease of `claim` while `attempt` runs. A panic of the keeper stops the attempt.
pub(crate) fn keeping<T>(
    context: &Context<'_>,
    claim: &Claim,
    attempt: impl FnOnce(&LeaseKeeper<'_>) -> T,
) -> (T, Held) {
    let (stop, _subscription) = context.shutdown.child();
    let heartbeat = Heartbeat::new(context.store.handle(), context.authority, claim, context.options);
    let keeper = LeaseKeeper { context: *context, claim, heartbeat: Mutex::new(heartbeat), stop };
    let (wake, woken) = mpsc::channel::<Wake>();
    let _watched = context.authority.watch(context.store, &claim.branch, claim.lease, wake.clone());
    let under_way = UnderWay(wake);
    let result = thread::scope(|scope| {
        let thread = &keeper;
        let keeping = scope.spawn(move || thread.keep(&woken));
        let result = attempt(&keeper);
        drop(under_way);
        // A panic of the keeper has stopped the attempt by the switch. The attempt's work is settled
        // nevertheless.
        keeping.join().ok();
        result
    });
    let heartbeat = keeper.heartbeat.into_inner().unwrap_or_else(PoisonError::into_inner);
    (result, Held { head: heartbeat.held(), left: heartbeat.left() })
}

impl<'a> LeaseKeeper<'a> {
    /// The switch that stops the attempt. It is tripped by signals to the runner, and when the lease is lost.
    pub(crate) fn stop(&self) -> &Stop {
        &self.stop
    }

    /// Why the lease was given up, if it was.
    pub(crate) fn given_up(&self) -> Option<StopReason> {
        self.lock().given_up()
    }

    /// Moves the worktree to earlier renewals, and to each later one.
    pub(crate) fn follow(&self, site: &Site) {
        if let Some(place) = site.place() {
            self.lock().work_in(place.clone());
        }
    }

    /// Checks a local branch again, after an action that was slow or could move the branch. A remote is not
    /// queried each time; there a failed renewal shows that the lease was lost.
    pub(crate) fn is_lost(&self, repo: &Repo) -> bool {
        self.context.authority.store() == Store::Local
            && matches!(look(repo, self.context.authority, self.claim, HASTE),
                Ok((ownership, _)) if ownership != Ownership::Ours)
    }

    fn keep(&self, woken: &mpsc::Receiver<Wake>) {
        let _alarm = Alarm(&self.stop);
        let mut called_off = false;
        loop {
            let Some(wake_in) = self.lock().beat() else {
                self.stop.call_off();
                return;
            };
            if let Some((cancel, why)) = self.lock().take_distrusted() {
                self.context.warn(Some(&self.claim.branch), Warning::CancelNotTrusted { by: cancel.by, why });
            }
            if !called_off && self.lock().is_cancelled() {
                // The lease is kept until the command is gone.
                self.stop.call_off();
                called_off = true;
            }
            match woken.recv_timeout(wake_in) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Wake::Seen(head)) => self.lock().sighted(head),
                Ok(Wake::Over) | Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Heartbeat<'a>> {
        self.heartbeat.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells the keeper when the attempt is over.
struct UnderWay(mpsc::Sender<Wake>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        // A keeper that has given up the lease is deaf.
        self.0.send(Wake::Over).ok();
    }
}

/// Stops the attempt if the keeper's thread panics: a command must not outlive the thread that keeps its
/// lease.
struct Alarm<'a>(&'a Stop);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.panicked();
        }
    }
}
