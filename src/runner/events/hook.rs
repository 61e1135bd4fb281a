//! Runs the operator's hook (`aynig.notify`, CONTRACT 11.11) beside the work.
//!
//! A [`Hook`] runs the program for one payload, in the repository's main directory, with the runner's
//! environment and not that of a command. The payload comes as variables and as a file on standard input, so
//! a program that does not read it blocks nothing. The tail of its output goes to a log through a pipe, so a
//! program that prints without end fills no disk. `supervise` stops its process group at the time limit. A
//! run's [`HookRunner`] is a thread that takes one payload after the other.
//!
//! Invariant: the hook neither fails nor delays a step. The queue, the time of each call and the wait at the
//! end of a run are bounded. A payload dropped for that reason, or a failed call, is a warning. Each is
//! delivered at most once: a killed runner delivers no more.

use std::collections::HashSet;
use std::convert::Infallible;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, PipeReader, Read, Write};
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use signal_hook::consts::SIGTERM;

use crate::clock;
use crate::clock::Stopwatch;
use crate::contract::report::{plain_line, tail_lines};
use crate::fsutil;
use crate::stop::Stop;
use crate::supervise::{How, Spec, StopCause, Watchdog};

use crate::runner::error_chain;
use crate::runner::events::payload::Payload;

/// The longest queue of payloads. Later ones are dropped.
const MOST_WAITING: usize = 1_000;

/// The time between SIGTERM and SIGKILL at the time limit.
const GRACE: Duration = Duration::from_secs(2);

/// The longest wait for a stopped hook to exit.
const LAST_WAIT: Duration = Duration::from_secs(8);

/// The wait at the end of a run before it is reported.
const MOMENT: Duration = Duration::from_secs(1);

/// The interval of checks for another signal during that wait.
const NAP: Duration = Duration::from_millis(100);

/// The size of the log in bytes from which it is rotated. Several processes may write at once, up to
/// [`MOST_KEPT`] each, and the log stays below 1 MB.
const LOG_SIZE: u64 = 500_000;

/// The part of one call's output that is kept, in bytes.
const MOST_KEPT: usize = 64 * 1024;

/// The wait for the rest of a program's output after its exit. A process it left running may hold the pipe
/// open forever.
const REST: Duration = Duration::from_millis(100);

/// Where the user finds what a dropped notification was about.
const LOOK: &str = "`aynig status --all` shows how branches stand";

/// The longest quotation of a program's output in a warning, in characters.
const MOST_QUOTED: usize = 200;

/// The operator's program, and how to run it.
#[derive(Debug)]
pub struct Hook {
    /// The command line, for `sh`.
    pub line: String,
    /// The time limit of one call.
    pub limit: Duration,
    /// Its working directory.
    pub directory: PathBuf,
    /// Its environment, without the payload's variables.
    pub environment: Vec<(OsString, OsString)>,
    /// Stops it if this process is killed.
    pub watchdog: Option<Watchdog>,
}

/// Why a call failed.
#[derive(Debug)]
pub struct Failure {
    /// The kind of failure, as a sentence fragment; the same for repeated failures.
    why: String,
    /// The whole warning, with the last line of output, which may differ each time.
    pub warning: String,
}

impl Hook {
    /// Runs the program for one payload; `stop` stops it.
    ///
    /// # Errors
    /// If it could not be started, exited with another code than 0, or was stopped.
    pub fn call(&self, payload: &Payload, stop: &Stop) -> Result<(), Failure> {
        crate::crashpoint::reach(crate::crashpoint::Point::NoticeTaken);
        let (how, printed) = self.run(payload, stop).unwrap_or_else(|error| {
            (How::Lost(format!("could not be started: {error}")), Printed::default())
        });
        let unfound = matches!(how, How::Exited(126 | 127) | How::NotStarted(_));
        let why = match how {
            How::Exited(0) => None,
            How::Exited(127) => Some("exited with 127: it, or something it uses, was not found".to_owned()),
            How::Exited(126) => {
                Some("exited with 126: it, or something it uses, is not executable".to_owned())
            }
            How::Exited(code) => Some(format!("exited with {code}")),
            How::Signalled(signal) => Some(format!("was killed by signal {signal}")),
            How::NotStarted(error) => Some(format!("could not be started: {}", error_chain(&error))),
            How::Stopped(StopCause::TimedOut(_)) => {
                Some(format!("took longer than {} s and was stopped", self.limit.as_secs()))
            }
            How::Stopped(StopCause::Signal(_) | StopCause::CalledOff | StopCause::Panic) => {
                Some("was stopped with the runner".to_owned())
            }
            How::Lost(why) => Some(why),
        };
        note(payload, &printed, why.as_deref());
        let Some(why) = why else { return Ok(()) };
        let said = tail_lines(&printed.tail).pop().map(|line| plain_line(line.as_bytes(), MOST_QUOTED));
        let said = said.map(|line| format!(" (it ended with: {line})")).unwrap_or_default();
        let log = payload.log.as_ref().map_or("nowhere".to_owned(), |log| log.display().to_string());
        let next = if unfound { "; `aynig doctor` looks whether it can be found" } else { "" };
        let warning = format!(
            "`{}` (aynig.notify) {why}{said}, so somebody may not know what happened; what it said is in {log}{next}",
            self.line
        );
        Err(Failure { why, warning })
    }

    fn run(&self, payload: &Payload, stop: &Stop) -> io::Result<(How, Printed)> {
        let (from, to) = io::pipe()?;
        let to = File::from(OwnedFd::from(to));
        let (printed, end) = listen(from)?;
        let spec = Spec {
            terminal: true,
            program: PathBuf::from("/bin/sh"),
            args: vec!["-c".into(), self.line.clone().into()],
            directory: self.directory.clone(),
            environment: self.environment.iter().chain(&payload.variables).cloned().collect(),
            stdin: Some(fsutil::nameless(&payload.body)?),
            stdout: to.try_clone()?,
            stderr: to,
            grace: GRACE,
            timeout: Some(self.limit),
            leash: None,
            watchdog: self.watchdog.clone(),
        };
        let how = crate::supervise::run(spec, stop, || {}).how;
        // Nothing is ever sent on this channel. It closes when all output is read.
        if end.recv_timeout(REST) == Err(RecvTimeoutError::Timeout) {
            tracing::debug!("something that aynig.notify left running may print more, which is not kept");
        }
        let printed = std::mem::take(&mut *printed.lock().unwrap_or_else(PoisonError::into_inner));
        Ok((how, printed))
    }
}

/// Receives warnings.
type Warn = Arc<dyn Fn(String) + Send + Sync>;

/// Queues payloads and runs the hook for one at a time.
pub(crate) struct HookRunner {
    payloads: SyncSender<Payload>,
    /// Closes when the queue is done.
    over: Mutex<Receiver<Infallible>>,
    /// Stops the current call when tripped. Signals to the runner do not trip it.
    end: Stop,
    limit: Duration,
    warn: Warn,
}

impl std::fmt::Debug for HookRunner {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("HookRunner").finish_non_exhaustive()
    }
}

impl HookRunner {
    /// Starts the thread, with an empty queue.
    pub(crate) fn new(hook: Hook, warn: Warn) -> Self {
        let (payloads, inbox) = mpsc::sync_channel(MOST_WAITING);
        let (working, over) = mpsc::channel();
        let (end, limit) = (Stop::manual(), hook.limit);
        let (stop, report) = (end.clone(), Arc::clone(&warn));
        let work = move || {
            let _working: Sender<Infallible> = working;
            let mut warned = HashSet::new();
            for payload in &inbox {
                if stop.cause().is_some() {
                    let count = 1 + inbox.try_iter().count();
                    report(format!(
                        "{count} notices were not told (aynig.notify): there was no time left; {LOOK}"
                    ));
                    return;
                }
                // A panic here stops the run, and the run waits for this queue at its end.
                let result = catch_unwind(AssertUnwindSafe(|| hook.call(&payload, &stop)));
                let bug = || {
                    let why = "was not run because of a bug in aynig".to_owned();
                    let warning = format!("`{}` (aynig.notify) {why}", hook.line);
                    Err(Failure { why, warning })
                };
                if let Err(failure) = result.unwrap_or_else(|_| bug())
                    && warned.insert(failure.why)
                {
                    report(failure.warning);
                }
            }
        };
        // Without a thread the queue is closed, and each payload is refused.
        if let Err(error) = thread::Builder::new().name("notifier".to_owned()).spawn(work) {
            tracing::warn!(%error, "no thread to tell anybody with");
        }
        Self { payloads, over: Mutex::new(over), end, limit, warn }
    }

    /// Queues a payload without blocking.
    pub(crate) fn send(&self, payload: Payload) {
        if self.payloads.try_send(payload).is_err() {
            (self.warn)(format!("some notices are not told (aynig.notify): too many wait already; {LOOK}"));
        }
    }

    /// Waits until the queue is done, for about the time limit of one call, or until another signal to the
    /// runner. The rest is then dropped. `long` is called if the wait takes more than a second.
    pub(crate) fn close(self, shutdown: &Stop, long: impl FnOnce()) {
        drop(self.payloads);
        let done = self.over.into_inner().unwrap_or_else(PoisonError::into_inner);
        let is_over = |wait| done.recv_timeout(wait) == Err(RecvTimeoutError::Disconnected);
        let seen = shutdown.count();
        // After a second signal there is no grace.
        let limit = if seen > 1 { Duration::ZERO } else { self.limit + GRACE + MOMENT };
        let watch = Stopwatch::start();
        let mut long = Some(long);
        while !is_over(NAP.min(limit.saturating_sub(watch.elapsed()))) {
            if watch.elapsed() >= limit || shutdown.count() > seen {
                self.end.request(SIGTERM);
                if seen > 1 {
                    self.end.request(SIGTERM);
                }
                is_over(LAST_WAIT);
                return;
            }
            if watch.elapsed() >= MOMENT
                && let Some(long) = long.take()
            {
                long();
            }
        }
    }
}

/// The tail of a program's output.
#[derive(Debug, Default)]
struct Printed {
    tail: Vec<u8>,
    /// Whether output before it was dropped.
    cut: bool,
}

impl Printed {
    fn take(&mut self, bytes: &[u8]) {
        self.tail.extend_from_slice(bytes);
        if let Some(more @ 1..) = self.tail.len().checked_sub(MOST_KEPT) {
            self.tail.drain(..more);
            self.cut = true;
        }
    }
}

/// Reads a pipe to its end and keeps the tail. The channel closes at the end.
fn listen(mut from: PipeReader) -> io::Result<(Arc<Mutex<Printed>>, Receiver<()>)> {
    let printed: Arc<Mutex<Printed>> = Arc::default();
    let (open, end) = mpsc::channel();
    let shared = Arc::clone(&printed);
    thread::Builder::new().name("listener".to_owned()).spawn(move || {
        let mut chunk = [0; 8 * 1024];
        loop {
            match from.read(&mut chunk) {
                Ok(count @ 1..) => {
                    shared.lock().unwrap_or_else(PoisonError::into_inner).take(&chunk[..count])
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => break,
            }
        }
        drop(open);
    })?;
    Ok((printed, end))
}

/// Appends the event, the program's output and its failure to the log, in one write because others may write
/// at once.
fn note(payload: &Payload, printed: &Printed, why: Option<&str>) {
    let Some(path) = &payload.log else { return };
    let own = format!("# {} {}", clock::format_utc(clock::wall_seconds()), payload.about);
    let mut entry = format!("{own}\n").into_bytes();
    if printed.cut {
        entry.extend(format!("# only the last {} KiB of what was printed\n", MOST_KEPT / 1024).bytes());
    }
    entry.extend_from_slice(&printed.tail);
    if let Some(why) = why {
        let line_end = if entry.ends_with(b"\n") { "" } else { "\n" };
        entry.extend(format!("{line_end}{own}: {why}\n").bytes());
    }
    if let Err(error) = fsutil::open_shared_log(path, LOG_SIZE).and_then(|mut log| log.write_all(&entry)) {
        tracing::warn!(path = %path.display(), %error, "what aynig.notify prints is not kept");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_storm_is_bounded_and_what_is_given_up_is_said() {
        let room = tempfile::tempdir().unwrap();
        let begun = room.path().join("begun");
        let said: Arc<Mutex<Vec<String>>> = Arc::default();
        let listener = Arc::clone(&said);
        let hook = Hook {
            line: format!("echo x >>'{}'; while :; do sleep 60; done", begun.display()),
            limit: LONG,
            directory: room.path().to_owned(),
            environment: vec![("PATH".into(), std::env::var_os("PATH").unwrap())],
            watchdog: None,
        };
        let hook_runner = HookRunner::new(hook, Arc::new(move |text| listener.lock().unwrap().push(text)));
        let payload = || Payload { about: String::new(), body: Vec::new(), variables: Vec::new(), log: None };
        let watch = Stopwatch::start();
        hook_runner.send(payload());
        while std::fs::read(&begun).is_err() {
            assert!(watch.elapsed() < LONG);
            clock::pause(Duration::from_millis(1));
        }
        for _ in 0..MOST_WAITING + 2 {
            hook_runner.send(payload());
        }
        let shutdown = Stop::manual();
        shutdown.request(SIGTERM);
        shutdown.request(SIGTERM);
        hook_runner.close(&shutdown, || {});
        assert!(watch.elapsed() < LONG, "no grace after a second signal");
        assert_eq!(std::fs::read(&begun).unwrap(), b"x\n", "one at a time, and none once it is given up");
        let said = said.lock().unwrap();
        assert_eq!(said.len(), 4, "{said:?}");
        assert!(said[..2].iter().all(|line| line.contains("too many wait already")), "{said:?}");
        assert!(said[2].contains("was stopped with the runner"), "{said:?}");
        assert!(said[3].starts_with(&format!("{MOST_WAITING} notices were not told")), "{said:?}");
    }
}
