//! Crash points: places between two effects where a debug build can be made to die, stop or panic.
//! Tests use them to show that nothing is lost there (CONTRACT 8.3).
//!
//! `AYNIG_CRASH_AT=POINT[:kill|stop|panic][:N]` acts when the process reaches the point for the
//! N-th time (default 1). It sends SIGKILL or SIGSTOP to the process, or makes the thread panic.
//! `AYNIG_CRASH_TRACE=FILE` appends the name of each point that is reached.
//!
//! Invariant: a build without debug assertions (`cargo build --release`) contains none of this.
//! There [`reach`] is empty, and neither the points' names nor the variable's are in the binary.

use std::time::Duration;

macro_rules! points {
    ($($(#[$doc:meta])* $point:ident = $name:literal,)*) => {
        /// The crash points, in the order in which a step reaches them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Point {
            $($(#[$doc])* $point,)*
        }

        #[cfg(debug_assertions)]
        impl Point {
            /// Every crash point.
            pub const ALL: &[Self] = &[$(Self::$point,)*];

            /// The name used in `AYNIG_CRASH_AT`.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$point => $name,)*
                }
            }
        }
    };
}

points! {
    /// A ref is locked and not yet moved.
    RefLocked = "ref-locked",
    /// The commit of an operation on a run is written; no ref points to it.
    LedgerWritten = "ledger-written",
    /// A remote took an operation on a run; the ref here does not point to it yet.
    LedgerPushed = "ledger-pushed",
    /// Attempts that were interrupted are recorded; nothing else is done since.
    InterruptedRecorded = "interrupted-recorded",
    /// The agent of a step is about to be started.
    AgentStarts = "agent-starts",
    /// The agent of a step has ended; nothing is recorded.
    AgentEnded = "agent-ended",
    /// A turn has got the answer to a request, by its ledger; its program has not.
    AnswerHeard = "answer-heard",
    /// What ends an attempt of a driver is written; nothing points to it.
    StepDecided = "step-decided",
    /// The end of an attempt of a driver has landed; its process has not ended.
    StepEnded = "step-ended",
    /// A journal has the lines of all operations; `state.json` is older.
    JournalWritten = "journal-written",
    /// A content of the ledger is among the artifacts; `state.json` does not say so.
    ContentProjected = "content-projected",
    /// The files of a deleted run have its last events, and are where they were.
    JournalRetiring = "journal-retiring",
    /// All refs of a transaction are locked, and it is recorded that they move.
    RefsDecided = "refs-decided",
    /// The first refs of a transaction are moved; the others are locked and not yet moved.
    RefsHalfMoved = "refs-half-moved",
    /// A replacement file is complete under its draft name and not yet renamed.
    FileDrafted = "file-drafted",
    /// The lease commit is written; no ref points to it.
    LeaseWritten = "lease-written",
    /// The branch is claimed: its ref was moved, or the push was accepted.
    LeaseMoved = "lease-moved",
    /// The worktree is an empty directory; its registration is made but not yet listed by git.
    WorktreeDrafted = "worktree-drafted",
    /// The worktree is listed by git; its `.git` file is not written yet.
    WorktreeRegistered = "worktree-registered",
    /// The worktree is registered and has no files.
    WorktreeAdded = "worktree-added",
    /// The worktree has its files.
    WorktreeFilled = "worktree-filled",
    /// Logs, body file and record are written.
    FilesPrepared = "files-prepared",
    /// The command is running.
    CommandStarted = "command-started",
    /// The runner polls the running command.
    CommandWatched = "command-watched",
    /// The commit that delivers a deferred state is written; no ref points to it.
    DeliveryWritten = "delivery-written",
    /// The renewal commit is written; no ref points to it.
    RenewalWritten = "renewal-written",
    /// The branch is at the renewal. With a remote, the worktree is not yet.
    RenewalMoved = "renewal-moved",
    /// The command has exited.
    CommandEnded = "command-ended",
    /// The result commit is written; no ref points to it.
    ResultWritten = "result-written",
    /// The branch is at the result.
    ResultMoved = "result-moved",
    /// The moves of several steps are about to be pushed together.
    PushBegun = "push-begun",
    /// A notification is about to be sent.
    NoticeTaken = "notice-taken",
    /// The rescue commit is written; no ref points to it.
    RescueWritten = "rescue-written",
    /// A rescue ref points to the rescue commit.
    RescuePointed = "rescue-pointed",
    /// A worktree that is to be kept is detached from its branch, and not yet marked as kept.
    KeptDetached = "kept-detached",
    /// A worktree is about to be removed.
    RemovalBegun = "removal-begun",
    /// The worktree's files are removed; its registration is not.
    RemovalHalfDone = "removal-half-done",
    /// The registration is no longer listed by git, but not yet removed.
    Unregistered = "unregistered",
    /// The worktree is gone; the directory for worktrees is not.
    RemovalDone = "removal-done",
    /// A worktree is marked for the pool, and still at its place.
    PoolMarked = "pool-marked",
    /// The worktree is in the pool, and names its registration by a name that it does not have yet.
    PoolRelinked = "pool-relinked",
    /// The worktree is in the pool, with all that its command left in it.
    PoolShelved = "pool-shelved",
    /// A pooled worktree is taken for another step, with the files of the previous one.
    PoolTaken = "pool-taken",
    /// The worktree has the files of the next step, and is not yet assigned to it.
    PoolRefilled = "pool-refilled",
    /// The stalled commit of an expired lease is written; no ref points to it.
    StalledWritten = "stalled-written",
    /// The branch is at the stalled commit; the dead runner's worktree still exists.
    StalledMoved = "stalled-moved",
    /// A workspace is recorded, and nothing else of it is made.
    WorkspaceNoted = "workspace-noted",
    /// The workspace has its branch, and no worktree yet.
    WorkspaceBranched = "workspace-branched",
    /// The workspace has its worktree, and is not yet declared ready.
    WorkspaceMade = "workspace-made",
    /// A workspace is changed; the ledger of its run has not heard of it.
    WorkspaceUnheard = "workspace-unheard",
    /// The ledger of its run has heard of a workspace or a change of it, and nothing is done after that.
    WorkspaceHeard = "workspace-heard",
    /// A snapshot is written; its branch is not at it yet.
    SnapshotWritten = "snapshot-written",
    /// The log of HEAD has a move of its branch; the branch is not moved yet.
    HeadLogged = "head-logged",
    /// The branch is at the snapshot; the index is not.
    SnapshotMoved = "snapshot-moved",
    /// What a rollback discards is saved, and what is due is recorded.
    RollbackNoted = "rollback-noted",
    /// The worktree of a change that was killed before is renamed; git still lists it.
    HalfMadeAside = "half-made-aside",
    /// The old worktree is renamed; git still lists it.
    RollbackAside = "rollback-aside",
    /// All in the old worktree is saved, and its new name says so; git still lists it.
    RollbackGone = "rollback-gone",
    /// The old worktree is not listed any more; the branch is where it was.
    RollbackUnregistered = "rollback-unregistered",
    /// The branch is where the rollback puts it; there is no worktree.
    RollbackMoved = "rollback-moved",
    /// The new worktree is made, and not yet declared ready.
    RollbackAdded = "rollback-added",
    /// An ignored file is in the new worktree; others are still in the old one.
    IgnoredMoved = "ignored-moved",
    /// All ignored files are in the new worktree; git still lists the old one.
    IgnoredCarried = "ignored-carried",
    /// The workspace is ready again; the old worktree is not removed.
    RollbackDone = "rollback-done",
    /// What a removal discards is saved, and what is due is recorded.
    RemovalNoted = "removal-noted",
    /// The branch of a workspace that is being removed is archived.
    RemovalArchived = "removal-archived",
    /// The worktree of a workspace that is being removed is renamed, and not listed any more.
    RemovalUnregistered = "removal-unregistered",
    /// The branch of a workspace that is being removed is gone; the old worktree is not.
    RemovalUnbranched = "removal-unbranched",
    /// The workspace is recorded as removed; the record is where it was.
    RemovalRecorded = "removal-recorded",
    /// A push of published work is recorded as due, and not made.
    PublishNoted = "publish-noted",
    /// Published work is at the remote; nothing says so here.
    PublishPushed = "publish-pushed",
    /// Published work has a proposal; nothing says so here.
    PublishProposed = "publish-proposed",
    /// The worktree of a half-made workspace is removed again; its branch is not.
    WorkspaceUnmade = "workspace-unmade",
    /// A checkout has the files and the index of what is to be landed; its branch has not moved.
    CheckoutCarried = "checkout-carried",
    /// The worktree of a dead runner is about to be rescued.
    AbandonedHeld = "abandoned-held",
}

/// Overrides the time limit of signature programs (`AYNIG_SIGNATURE_SECONDS`), for tests. Always
/// `None` in a release build.
#[cfg(not(debug_assertions))]
#[inline]
pub(crate) fn signature_limit() -> Option<Duration> {
    None
}

/// Overrides the time limit of signature programs (`AYNIG_SIGNATURE_SECONDS`), for tests.
#[cfg(debug_assertions)]
pub(crate) fn signature_limit() -> Option<Duration> {
    std::env::var("AYNIG_SIGNATURE_SECONDS").ok()?.parse().map(Duration::from_secs).ok()
}

/// Dies, stops or panics here if the environment requests it. Does nothing in a release build.
#[cfg(not(debug_assertions))]
#[inline]
pub(crate) fn reach(_point: Point) {}

#[cfg(debug_assertions)]
pub(crate) use armed::reach;

#[cfg(debug_assertions)]
mod armed {
    use std::io::Write;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    use nix::sys::signal::{Signal, raise};

    use crate::crashpoint::Point;

    struct Plan {
        point: Point,
        fate: Fate,
        visits_left: AtomicU32,
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Fate {
        /// Sends this signal to the process.
        Signal(Signal),
        /// Panics in the current thread.
        Panic,
    }

    static PLAN: OnceLock<Option<Plan>> = OnceLock::new();

    static TRACE: OnceLock<Option<std::path::PathBuf>> = OnceLock::new();

    /// Notes that a point was reached, for those who want to know which are.
    fn trace(point: Point) {
        let file = TRACE.get_or_init(|| std::env::var_os("AYNIG_CRASH_TRACE").map(Into::into));
        let Some(file) = file else { return };
        let opened = std::fs::OpenOptions::new().create(true).append(true).open(file);
        let line = format!("{}\n", point.name());
        opened.and_then(|mut file| file.write_all(line.as_bytes())).expect("the file can be written");
    }

    /// Dies, stops or panics here if `AYNIG_CRASH_AT` requests it.
    pub(crate) fn reach(point: Point) {
        trace(point);
        let plan = PLAN.get_or_init(|| {
            let text = std::env::var("AYNIG_CRASH_AT").ok()?;
            Some(parse(&text).unwrap_or_else(|| panic!("AYNIG_CRASH_AT={text} names no crash point")))
        });
        if let Some(plan) = plan
            && plan.point == point
            && plan.visits_left.fetch_sub(1, Ordering::SeqCst) == 1
        {
            match plan.fate {
                // To this thread: it would run on while another one takes the signal.
                Fate::Signal(signal) => raise(signal).expect("a process may signal itself"),
                Fate::Panic => panic!("AYNIG_CRASH_AT={}", point.name()),
            }
        }
    }

    fn parse(text: &str) -> Option<Plan> {
        let mut parts = text.split(':');
        let name = parts.next()?;
        let point = Point::ALL.iter().copied().find(|point| point.name() == name)?;
        let (mut fate, mut visit) = (Fate::Signal(Signal::SIGKILL), 1);
        for part in parts {
            match part {
                "kill" => fate = Fate::Signal(Signal::SIGKILL),
                "stop" => fate = Fate::Signal(Signal::SIGSTOP),
                "panic" => fate = Fate::Panic,
                number => visit = number.parse().ok().filter(|visit| *visit > 0)?,
            }
        }
        Some(Plan { point, fate, visits_left: AtomicU32::new(visit) })
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn plans() {
            let read = |text| parse(text).map(|plan| (plan.point, plan.fate, plan.visits_left.into_inner()));
            assert_eq!(read("lease-moved"), Some((Point::LeaseMoved, Fate::Signal(Signal::SIGKILL), 1)));
            let stop = Fate::Signal(Signal::SIGSTOP);
            assert_eq!(read("lease-moved:stop:3"), Some((Point::LeaseMoved, stop, 3)));
            assert_eq!(read("lease-moved:panic:2"), Some((Point::LeaseMoved, Fate::Panic, 2)));
            for wrong in ["", "nowhere", "lease-moved:hang", "lease-moved:0"] {
                assert_eq!(read(wrong), None, "{wrong}");
            }
        }
    }
}
