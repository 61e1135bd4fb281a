//! Tells people by the operator's own program (`aynig.notify`), beside the work and never in its way.
//!
//! A [`Hook`] runs the program for one letter. It gets the letter as a file on its standard input (so that one that does not read
//! holds up nobody) and as variables, the environment of the runner and not of any command, and the repository's main directory. The end
//! of what it prints goes to a log, through a pipe: a program that prints without end fills no disk. `supervise` ends it with its
//! whole group when its time is up. A run's [`HookRunner`] is one thread that does so for one letter after the other.
//!
//! Invariant: nothing here fails or delays a step. Waiting letters, the time of each and the wait at the end of a run are bounded; what
//! is not told for that reason, or fails, is a warning. A runner that is killed tells no more: told at most once.

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

/// How many letters wait at most; in a worse storm the later ones are not told.
const MOST_WAITING: usize = 1_000;

/// From TERM to KILL, for a program whose time is up.
const GRACE: Duration = Duration::from_secs(2);

/// How long the end of one that was stopped is waited for.
const LAST_WAIT: Duration = Duration::from_secs(8);

/// How long the end of a run waits before it says that it does.
const MOMENT: Duration = Duration::from_secs(1);

/// Between two looks whether another signal came, while the end of a run waits.
const NAP: Duration = Duration::from_millis(100);

/// A log beyond this is moved aside, bytes. Several processes may write at once, [`MOST_KEPT`] each, and the log stays below 1 MB.
const LOG_SIZE: u64 = 500_000;

/// How much of what one program prints is kept, bytes.
const MOST_KEPT: usize = 64 * 1024;

/// How long the rest of what a program printed is waited for, once it has exited: something it left running may hold the pipe for ever.
const REST: Duration = Duration::from_millis(100);

/// What shows what was not told.
const LOOK: &str = "`aynig status --all` shows how branches stand";

/// The most characters of what a program said that a warning repeats.
const MOST_QUOTED: usize = 200;

/// How the program is run.
#[derive(Debug)]
pub struct Hook {
    /// The command line, for `sh`.
    pub line: String,
    /// The longest one call may take.
    pub limit: Duration,
    /// Where it runs.
    pub directory: PathBuf,
    /// Its environment, but for the letter's variables.
    pub environment: Vec<(OsString, OsString)>,
    /// Ends it if we are killed.
    pub watchdog: Option<Watchdog>,
}

/// Why somebody was not told.
#[derive(Debug)]
pub struct Failure {
    /// The kind of failure, as a sentence fragment.
    why: String,
    /// The whole warning; what a program said last may be another thing each time.
    pub warning: String,
}

impl Hook {
    /// Runs the program for one letter; `stop` ends it.
    ///
    /// # Errors
    /// How it failed.
    pub fn tell(&self, letter: &Payload, stop: &Stop) -> Result<(), Failure> {
        crate::crashpoint::reach(crate::crashpoint::Point::NoticeTaken);
        let (how, printed) = self.run(letter, stop).unwrap_or_else(|error| {
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
        note(letter, &printed, why.as_deref());
        let Some(why) = why else { return Ok(()) };
        let said = tail_lines(&printed.tail).pop().map(|line| plain_line(line.as_bytes(), MOST_QUOTED));
        let said = said.map(|line| format!(" (it ended with: {line})")).unwrap_or_default();
        let log = letter.log.as_ref().map_or("nowhere".to_owned(), |log| log.display().to_string());
        let next = if unfound { "; `aynig doctor` looks whether it can be found" } else { "" };
        let warning = format!(
            "`{}` (aynig.notify) {why}{said}, so somebody may not know what happened; what it said is in {log}{next}",
            self.line
        );
        Err(Failure { why, warning })
    }

    fn run(&self, letter: &Payload, stop: &Stop) -> io::Result<(How, Printed)> {
        let (from, to) = io::pipe()?;
        let to = File::from(OwnedFd::from(to));
        let (printed, end) = listen(from)?;
        let spec = Spec {
            terminal: true,
            program: PathBuf::from("/bin/sh"),
            args: vec!["-c".into(), self.line.clone().into()],
            directory: self.directory.clone(),
            environment: self.environment.iter().chain(&letter.variables).cloned().collect(),
            stdin: Some(fsutil::nameless(&letter.body)?),
            stdout: to.try_clone()?,
            stderr: to,
            grace: GRACE,
            timeout: Some(self.limit),
            watchdog: self.watchdog.clone(),
        };
        let how = crate::supervise::run(spec, stop, || {}).how;
        // Nothing is ever sent: the channel closes when all is read.
        if end.recv_timeout(REST) == Err(RecvTimeoutError::Timeout) {
            tracing::debug!("something that aynig.notify left running may print more, which is not kept");
        }
        let printed = std::mem::take(&mut *printed.lock().unwrap_or_else(PoisonError::into_inner));
        Ok((how, printed))
    }
}

/// Who says what went wrong.
type Warn = Arc<dyn Fn(String) + Send + Sync>;

/// Takes letters and has them told, one at a time.
pub(crate) struct HookRunner {
    letters: SyncSender<Payload>,
    /// Closes when all is told.
    over: Mutex<Receiver<Infallible>>,
    /// Tripped when the one that runs is to end; no signal to the runner does.
    end: Stop,
    limit: Duration,
    warn: Warn,
}

impl std::fmt::Debug for HookRunner {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Notifier").finish_non_exhaustive()
    }
}

impl HookRunner {
    /// One that has nothing to do yet.
    pub(crate) fn new(hook: Hook, warn: Warn) -> Self {
        let (letters, inbox) = mpsc::sync_channel(MOST_WAITING);
        let (working, over) = mpsc::channel();
        let (end, limit) = (Stop::manual(), hook.limit);
        let (stop, say) = (end.clone(), Arc::clone(&warn));
        let work = move || {
            let _working: Sender<Infallible> = working;
            let mut warned = HashSet::new();
            for letter in &inbox {
                if stop.cause().is_some() {
                    let count = 1 + inbox.try_iter().count();
                    say(format!(
                        "{count} notices were not told (aynig.notify): there was no time left; {LOOK}"
                    ));
                    return;
                }
                // The panic stops the run, which still waits for what is told.
                let told = catch_unwind(AssertUnwindSafe(|| hook.tell(&letter, &stop)));
                let bug = || {
                    let why = "was not run because of a bug in aynig".to_owned();
                    let warning = format!("`{}` (aynig.notify) {why}", hook.line);
                    Err(Failure { why, warning })
                };
                if let Err(failure) = told.unwrap_or_else(|_| bug())
                    && warned.insert(failure.why)
                {
                    say(failure.warning);
                }
            }
        };
        // Where there is no thread nobody takes letters, and each is refused.
        if let Err(error) = thread::Builder::new().name("notifier".to_owned()).spawn(work) {
            tracing::warn!(%error, "no thread to tell anybody with");
        }
        Self { letters, over: Mutex::new(over), end, limit, warn }
    }

    /// Has it told, some time soon; returns at once.
    pub(crate) fn send(&self, letter: Payload) {
        if self.letters.try_send(letter).is_err() {
            (self.warn)(format!("some notices are not told (aynig.notify): too many wait already; {LOOK}"));
        }
    }

    /// Waits until everything is told, about as long as one may take at most, and not beyond another signal to the runner; then what is not
    /// told yet is given up. `long` is called if it is not over in a moment.
    pub(crate) fn close(self, shutdown: &Stop, long: impl FnOnce()) {
        drop(self.letters);
        let over = self.over.into_inner().unwrap_or_else(PoisonError::into_inner);
        let is_over = |patience| over.recv_timeout(patience) == Err(RecvTimeoutError::Disconnected);
        let seen = shutdown.count();
        // From the second signal on there is no grace.
        let patience = if seen > 1 { Duration::ZERO } else { self.limit + GRACE + MOMENT };
        let watch = Stopwatch::start();
        let mut long = Some(long);
        while !is_over(NAP.min(patience.saturating_sub(watch.elapsed()))) {
            if watch.elapsed() >= patience || shutdown.count() > seen {
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

/// The end of what a program printed.
#[derive(Debug, Default)]
struct Printed {
    tail: Vec<u8>,
    /// Whether there was more before it.
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

/// Reads all that comes through a pipe and keeps the end of it; the channel closes when all has come.
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

/// Writes to the log what was told, what the program printed, and how it failed; all at once, as others may write at the same time.
fn note(letter: &Payload, printed: &Printed, why: Option<&str>) {
    let Some(path) = &letter.log else { return };
    let own = format!("# {} {}", clock::format_utc(clock::wall_seconds()), letter.about);
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
        let letter = || Payload { about: String::new(), body: Vec::new(), variables: Vec::new(), log: None };
        let watch = Stopwatch::start();
        hook_runner.send(letter());
        while std::fs::read(&begun).is_err() {
            assert!(watch.elapsed() < LONG);
            clock::pause(Duration::from_millis(1));
        }
        for _ in 0..MOST_WAITING + 2 {
            hook_runner.send(letter());
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
