//! One command from start to end: owns its processes, threads and clock, and carries out the orders
//! of `machine`.
//!
//! The caller's thread starts the command, since the parent-death signal is tied to the starting
//! thread. It then waits on one channel for whatever comes first: the command's exit, a stop
//! request or a deadline. A second thread, the *waiter*, only blocks until the command exits.
//!
//! Invariants (section 10 of CONTRACT.md): the step ends when the command exits, not when its
//! streams close. A stop reaches the whole group, and the group is checked afterwards. A group is
//! signalled only while its number cannot have been reused (see [`await_exit`]). A leashed command is
//! not over before all that descends from it has ended.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use super::finished::{Finished, How, Leftover, NotStarted, StopCause};
use super::machine::{Event, KILL_PATIENCE, Machine, Order};
use super::scope::Scope;
use super::spawn::Process;
use super::spec::Spec;
use super::start::start;
use super::tree::Tree;
use super::watchdog::Guard;
use crate::clock::Stopwatch;
use crate::stop::Stop;

// No event reports the exit of a process that is not our child, so the rest of a group is polled:
// soon, then less often.
const FIRST_LOOK: Duration = Duration::from_millis(1);
const LATER_LOOKS: Duration = Duration::from_millis(100);

struct Running {
    process: Arc<Process>,
    watch: Stopwatch,
    guard: Option<Guard>,
}

struct Ended {
    cause: Option<StopCause>,
    status: Option<io::Result<ExitStatus>>,
    elapsed: Duration,
    ended: Vec<Leftover>,
    stuck: Vec<Leftover>,
}

/// Runs the command to its end and returns how it ended; blocks until then.
///
/// Calls `started` on this thread right after the start. A command that exits 0 by itself leaves
/// its background processes alone; after any other end its whole group is stopped. After every end
/// of a leashed command all that it has started is stopped. If a stop was
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
    let (grace, leash) = (spec.grace, spec.leash.clone());
    let machine = Machine::new(grace, spec.timeout, leash.is_some());
    let guard = spec.watchdog.as_ref().map(|watchdog| watchdog.guard(leash.as_ref()));
    let announcement = guard.as_ref().and_then(Guard::announcement);
    let watch = Stopwatch::start();
    let process = match start(spec, announcement.as_ref()) {
        Ok(process) => Arc::new(process),
        Err(failure) => return Finished::unstarted(How::NotStarted(failure)),
    };
    let pid = process.pid().as_raw();
    let (scope, covered) = match (process.keeper(), leash) {
        (Some(keeper), Some(leash)) => (Scope::Tree(Tree::of(keeper, leash.marker())), keeper),
        _ => (Scope::Group(pid), pid),
    };
    if let Some(guard) = &guard {
        guard.cover(covered);
    }
    tracing::debug!(pid, "command started");
    let abandoned = Abandoned { scope: &scope, grace, stop };
    post(&to_waiter, Arc::clone(&process));
    started();
    let ended = supervise(Running { process, watch, guard }, &scope, machine, &inbox);
    drop(abandoned);
    drop(subscription);
    tracing::debug!(pid, elapsed_ms = ended.elapsed.as_millis(), "command ended");
    let finished = conclude(ended);
    for Leftover { pid, name } in &finished.ended {
        tracing::debug!(pid, name, "ended a process that the command had left running");
    }
    for Leftover { pid, name } in &finished.stuck {
        tracing::warn!(pid, name, "a process of the command does not end, although it was killed");
    }
    finished
}

/// Stops the group, or all of a leashed command, if this thread panics, so that no command stays
/// unsupervised. The command is not reaped yet, so its number cannot have been reused.
struct Abandoned<'a> {
    scope: &'a Scope,
    grace: Duration,
    stop: &'a Stop,
}

impl Drop for Abandoned<'_> {
    fn drop(&mut self) {
        if !thread::panicking() {
            return;
        }
        let watch = Stopwatch::start();
        self.scope.terminate();
        while watch.elapsed() < self.grace && !self.scope.is_deserted() {
            // A second request ends the grace period, as everywhere.
            if self.stop.wait(2, LATER_LOOKS) {
                break;
            }
        }
        self.scope.kill();
        if matches!(self.scope, Scope::Tree(_)) {
            let watch = Stopwatch::start();
            while watch.elapsed() < KILL_PATIENCE && !self.scope.is_deserted() {
                self.scope.kill();
            }
        }
    }
}

fn supervise(running: Running, scope: &Scope, mut machine: Machine, inbox: &Receiver<Event>) -> Ended {
    let Running { process, watch, mut guard } = running;
    let (mut exit, mut left) = (None, BTreeMap::new());
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
                    Order::Nothing if machine.awaits_group() && scope.is_deserted() => machine.emptied(),
                    // What was forked meanwhile.
                    Order::Nothing if machine.is_killing() => Order::Kill,
                    order => order,
                };
                (order, false)
            }
            // The subscription holds a sender as long as this runs.
            Err(RecvTimeoutError::Disconnected) => unreachable!("a sender is held"),
        };
        let signalled = match order {
            Order::Nothing => Vec::new(),
            Order::Terminate => {
                pause = FIRST_LOOK;
                scope.terminate()
            }
            Order::Kill => scope.kill(),
            Order::Finish => {
                drop(guard.take());
                Vec::new()
            }
        };
        if exit.is_some() {
            left.extend(signalled.into_iter().map(|Leftover { pid, name }| (pid, name)));
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
    let stuck = if machine.gave_up() { scope.living() } else { Vec::new() };
    let ended = left.into_iter().map(|(pid, name)| Leftover { pid, name }).collect();
    Ended { cause: machine.into_cause(), status, elapsed, ended, stuck }
}

fn conclude(ended: Ended) -> Finished {
    let Ended { cause, status, elapsed, ended, stuck } = ended;
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
    Finished { how, clean, elapsed, ended, stuck }
}

/// Blocks until the command has exited; returns whether with code 0.
///
/// On Linux it leaves the command as a zombie, if that has no keeper. Until it is reaped its number, and so its group's,
/// cannot be reused: the group can safely be signalled and taken off the watchdog's list. Once
/// reaped, the number stays taken only while the group has members, which is checked right before
/// every later signal.
#[cfg(target_os = "linux")]
fn await_exit(process: &Process) -> bool {
    use nix::errno::Errno;
    use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};

    if process.keeper().is_some() {
        return process.wait().is_ok_and(|status| status.success());
    }
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
