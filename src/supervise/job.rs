//! One command from start to end: owns its processes, threads and clock, and carries out the orders
//! of `machine`.
//!
//! The caller's thread starts the command, since the parent-death signal is tied to the starting
//! thread. It then waits on one channel for whatever comes first: the command's exit, a stop
//! request or a deadline. A second thread, the *waiter*, only blocks until the command exits.
//!
//! Invariants (section 10 of CONTRACT.md): the step ends when the command exits, not when its
//! streams close. A stop reaches the whole group, and the group is checked afterwards. A group is
//! signalled only while its number cannot have been reused (see [`await_exit`]).

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;

use super::finished::{Finished, How, NotStarted, StopCause};
use super::group;
use super::machine::{Event, Machine, Order};
use super::spawn::Process;
use super::spec::Spec;
use super::start::start;
use super::watchdog::{Guard, Watchdog};
use crate::clock::Stopwatch;
use crate::stop::Stop;

// No event reports the exit of a process that is not our child, so the rest of a group is polled:
// soon, then less often.
const FIRST_LOOK: Duration = Duration::from_millis(1);
const LATER_LOOKS: Duration = Duration::from_millis(100);

struct Running {
    process: Arc<Process>,
    pgid: i32,
    watch: Stopwatch,
    guard: Option<Guard>,
}

struct Ended {
    cause: Option<StopCause>,
    status: Option<io::Result<ExitStatus>>,
    elapsed: Duration,
}

/// Runs the command to its end and returns how it ended; blocks until then.
///
/// Calls `started` on this thread right after the start. A command that exits 0 by itself leaves
/// its background processes alone; after any other end its whole group is stopped. If a stop was
/// requested before the start, nothing is started.
///
/// If something here panics, such as `started`, the group is stopped with its grace period before
/// the panic continues.
pub(crate) fn run(spec: Spec, stop: &Stop, started: impl FnOnce()) -> Finished {
    if let Some(cause) = stop.cause() {
        return Finished::unstarted(How::Stopped(cause.into()));
    }
    let (events, inbox) = mpsc::channel();
    let heard = events.clone();
    let subscription = stop.subscribe(move |notice| post(&heard, Event::Stop(notice)));
    // The thread is started before the command: if it cannot be, nothing needs to be undone. It is
    // not joined, since that would hang on a command that survives even SIGKILL.
    let (to_waiter, for_waiter) = mpsc::channel::<Arc<Process>>();
    let waiter = thread::Builder::new().name("waiter".to_owned()).spawn(move || {
        if let Ok(process) = for_waiter.recv() {
            let clean = await_exit(&process);
            post(&events, Event::Exited { clean });
        }
    });
    if let Err(source) = waiter {
        let why = format!("no thread to watch it with ({source})");
        return Finished::unstarted(How::NotStarted(NotStarted { program: spec.program, why, source }));
    }
    let (machine, grace) = (Machine::new(spec.grace, spec.timeout), spec.grace);
    let guard = spec.watchdog.as_ref().map(Watchdog::guard);
    let announcement = guard.as_ref().and_then(Guard::announcement);
    let watch = Stopwatch::start();
    let process = match start(spec, announcement.as_ref()) {
        Ok(process) => Arc::new(process),
        Err(failure) => return Finished::unstarted(How::NotStarted(failure)),
    };
    let pgid = process.pid().as_raw();
    if let Some(guard) = &guard {
        guard.cover(pgid);
    }
    tracing::debug!(pid = pgid, "command started");
    let abandoned = Abandoned { pgid, grace, stop };
    post(&to_waiter, Arc::clone(&process));
    started();
    let ended = supervise(Running { process, pgid, watch, guard }, machine, &inbox);
    drop(abandoned);
    drop(subscription);
    tracing::debug!(pid = pgid, elapsed_ms = ended.elapsed.as_millis(), "command ended");
    conclude(ended)
}

/// Stops the group if this thread panics, so that no command stays unsupervised. The command is not
/// reaped yet, so its number cannot have been reused.
struct Abandoned<'a> {
    pgid: i32,
    grace: Duration,
    stop: &'a Stop,
}

impl Drop for Abandoned<'_> {
    fn drop(&mut self) {
        if !thread::panicking() {
            return;
        }
        let watch = Stopwatch::start();
        group::terminate(self.pgid);
        while watch.elapsed() < self.grace && !group::is_deserted(self.pgid) {
            // A second request ends the grace period, as everywhere.
            if self.stop.wait(2, LATER_LOOKS) {
                break;
            }
        }
        group::signal(self.pgid, Signal::SIGKILL);
    }
}

fn supervise(running: Running, mut machine: Machine, inbox: &Receiver<Event>) -> Ended {
    let Running { process, pgid, watch, mut guard } = running;
    let mut exit = None;
    let mut pause = Duration::ZERO;
    loop {
        crate::crashpoint::reach(crate::crashpoint::Point::CommandWatched);
        let now = watch.elapsed();
        let mut patience = machine.next_deadline().map_or(Duration::MAX, |at| at.saturating_sub(now));
        if machine.awaits_group() {
            patience = patience.min(pause);
            pause = (pause * 2).clamp(FIRST_LOOK, LATER_LOOKS);
        }
        let (order, exited) = match inbox.recv_timeout(patience) {
            Ok(event) => {
                let exited = matches!(event, Event::Exited { .. });
                (machine.on(event, watch.elapsed()), exited)
            }
            Err(RecvTimeoutError::Timeout) => {
                let order = match machine.tick(watch.elapsed()) {
                    Order::Nothing if machine.awaits_group() && group::is_deserted(pgid) => machine.emptied(),
                    order => order,
                };
                (order, false)
            }
            // The subscription holds a sender as long as this runs.
            Err(RecvTimeoutError::Disconnected) => unreachable!("a sender is held"),
        };
        match order {
            Order::Nothing => {}
            Order::Terminate => group::terminate(pgid),
            Order::Kill => group::signal(pgid, Signal::SIGKILL),
            Order::Finish => drop(guard.take()),
        }
        // Last, because reaping frees the number: the group has been signalled and unlisted by now
        // where that was due.
        if exited {
            let elapsed = watch.elapsed();
            exit = Some((process.wait(), elapsed));
        }
        if order == Order::Finish {
            break;
        }
    }
    let (status, elapsed) = match exit {
        Some((status, elapsed)) => (Some(status), elapsed),
        None => (None, watch.elapsed()),
    };
    Ended { cause: machine.into_cause(), status, elapsed }
}

fn conclude(ended: Ended) -> Finished {
    let Ended { cause, status, elapsed } = ended;
    let clean = matches!(&status, Some(Ok(status)) if status.success());
    let how = match (cause, status) {
        // It may still be running, so no runner may start it again.
        (Some(StopCause::Signal(_)), None) => How::Lost("it does not end, although it was killed".to_owned()),
        (Some(cause), _) => How::Stopped(cause),
        (None, Some(Ok(status))) => match (status.code(), status.signal()) {
            (Some(code), _) => How::Exited(code),
            (None, Some(signal)) => How::Signalled(signal),
            (None, None) => How::Lost(format!("unreadable wait status {}", status.into_raw())),
        },
        (None, Some(Err(error))) => How::Lost(format!("could not learn how it ended: {error}")),
        (None, None) => How::Lost("it does not end".to_owned()),
    };
    Finished { how, clean, elapsed }
}

/// Blocks until the command has exited; returns whether with code 0.
///
/// On Linux it leaves the command as a zombie. Until it is reaped its number, and so its group's,
/// cannot be reused: the group can safely be signalled and taken off the watchdog's list. Once
/// reaped, the number stays taken only while the group has members, which is checked right before
/// every later signal.
#[cfg(target_os = "linux")]
fn await_exit(process: &Process) -> bool {
    use nix::errno::Errno;
    use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};

    loop {
        match waitid(Id::Pid(process.pid()), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT) {
            Err(Errno::EINTR) => {}
            outcome => return matches!(outcome, Ok(WaitStatus::Exited(_, 0))),
        }
    }
}

/// Blocks until the command has exited; returns whether with code 0.
#[cfg(not(target_os = "linux"))]
fn await_exit(process: &Process) -> bool {
    process.wait().is_ok_and(|status| status.success())
}

// The receiver of each of these channels is dropped only when it needs nothing more.
fn post<T>(to: &Sender<T>, what: T) {
    if to.send(what).is_err() {
        tracing::trace!("nobody listens any more");
    }
}
