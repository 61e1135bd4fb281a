//! Runs one program of a step: its output goes to files of a bounded size, and it ends by itself, by a time limit, or
//! with the step.

use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind, PipeReader, Read};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use uuid::Uuid;

use crate::clock::Stopwatch;
use crate::engine::stirred::Stirred;
use crate::fsutil::{self, Bounded};
use crate::stop::Stop;
use crate::supervise::{How, Leash, Spec, StopCause, Watchdog};
use crate::words::error_chain;

/// The variable by which everything that a program started is found.
const LEASH: &str = "AYNIG_LEASH";

/// How long the rest of the output is waited for when the program has ended.
const REST: Duration = Duration::from_secs(2);

/// The longest pause between two looks at the clock.
const LOOK: Duration = Duration::from_millis(500);

/// Limits of a step that runs programs.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// The longest time.
    pub wall: Option<Duration>,
    /// The longest time without output and without a change in the worktree.
    pub idle: Option<Duration>,
    /// Time between SIGTERM and SIGKILL.
    pub grace: Duration,
}

/// The value of `PATH` in an environment. The last one counts.
pub(crate) fn path_in(environment: &[(OsString, OsString)]) -> &OsStr {
    let path = environment.iter().rev().find(|(name, _)| name == "PATH");
    path.map_or(OsStr::new(""), |(_, path)| path.as_os_str())
}

/// A program that is due.
#[derive(Debug)]
pub(crate) struct Job<'a> {
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<OsString>,
    /// The working directory, which is watched for changes.
    pub(crate) directory: &'a Path,
    pub(crate) environment: &'a [(OsString, OsString)],
    pub(crate) stdin: &'a [u8],
    /// The files for its output. They do not exist yet.
    pub(crate) stdout: &'a Path,
    pub(crate) stderr: &'a Path,
    pub(crate) bounds: Bounds,
    pub(crate) stop: &'a Stop,
    pub(crate) watchdog: Option<&'a Watchdog>,
}

/// How a program ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fate {
    Exited(i32),
    Signalled(i32),
    NotStarted(String),
    TimedOut(Duration),
    Idle(Duration),
    Stopped,
    Lost(String),
}

impl Fate {
    /// For people, after the name of the program.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Exited(0) => "passed".to_owned(),
            Self::Exited(code) => format!("exited with {code}"),
            Self::Signalled(signal) => format!("was killed by signal {signal}"),
            Self::NotStarted(why) => format!("could not be started: {why}"),
            Self::TimedOut(limit) => format!("took longer than {} s and was ended", limit.as_secs_f64()),
            Self::Idle(limit) => {
                format!("printed and changed nothing for {} s and was ended", limit.as_secs_f64())
            }
            Self::Stopped => "was stopped".to_owned(),
            Self::Lost(why) => why.clone(),
        }
    }
}

/// The last line that a program printed, on stderr if there is one.
pub(crate) fn last_words(stderr: &Path, stdout: &Path) -> Option<String> {
    let last = |log, path| fsutil::last_line(path).map(|line| format!("its last line on {log}: {line}"));
    last("stderr", stderr).or_else(|| last("stdout", stdout))
}

/// A program that ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) fate: Fate,
    pub(crate) elapsed: Duration,
    /// Output that could not be kept, in words.
    pub(crate) unkept: Option<String>,
}

impl Job<'_> {
    /// Runs it to its end. An error is one of files of ours.
    pub(crate) fn run(self) -> io::Result<Ran> {
        let heard = Arc::new(Heard { since: Stopwatch::start(), at: AtomicU64::new(0) });
        let (stdout, printed) = listen(self.stdout, &heard)?;
        let (stderr, said) = listen(self.stderr, &heard)?;
        let (stop, _subscription) = self.stop.child();
        let spec = Spec {
            terminal: false,
            program: self.program,
            args: self.args,
            directory: self.directory.to_owned(),
            environment: self.environment.to_vec(),
            stdin: Some(fsutil::nameless(self.stdin)?),
            stdout,
            stderr,
            grace: self.bounds.grace,
            timeout: self.bounds.wall,
            leash: Some(Leash::new(LEASH, Uuid::new_v4())),
            watchdog: self.watchdog.cloned(),
        };
        let is_idle = AtomicBool::new(false);
        let ended = thread::scope(|scope| {
            let (over, listening) = mpsc::channel::<Infallible>();
            if let Some(idle) = self.bounds.idle {
                let stirred = Stirred::new(self.directory);
                let (heard, stop, is_idle) = (&heard, &stop, &is_idle);
                scope.spawn(move || {
                    if heard.is_silent_for(idle, &stirred, &listening) {
                        is_idle.store(true, Ordering::SeqCst);
                        stop.call_off();
                    }
                });
            }
            let ended = crate::supervise::run(spec, &stop, || {});
            drop(over);
            ended
        });
        let unkept = [printed, said].into_iter().filter_map(Printed::finish).next();
        let fate = match ended.how {
            How::Exited(code) => Fate::Exited(code),
            How::Signalled(signal) => Fate::Signalled(signal),
            How::NotStarted(error) => Fate::NotStarted(error.why),
            How::Stopped(StopCause::TimedOut(limit)) => Fate::TimedOut(limit),
            How::Stopped(StopCause::CalledOff) if is_idle.load(Ordering::SeqCst) => {
                Fate::Idle(self.bounds.idle.unwrap_or_default())
            }
            How::Stopped(_) => Fate::Stopped,
            How::Lost(why) => Fate::Lost(why),
        };
        Ok(Ran { fate, elapsed: ended.elapsed, unkept })
    }
}

/// When something was printed last.
#[derive(Debug)]
struct Heard {
    since: Stopwatch,
    /// Milliseconds since then.
    at: AtomicU64,
}

impl Heard {
    fn now(&self) -> u64 {
        u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn note(&self) {
        self.at.store(self.now(), Ordering::SeqCst);
    }

    /// Waits until nothing was printed and nothing changed for that long. False if the program ended before.
    fn is_silent_for(&self, idle: Duration, stirred: &Stirred, listening: &Receiver<Infallible>) -> bool {
        let idle = u64::try_from(idle.as_millis()).unwrap_or(u64::MAX);
        loop {
            let silent = self.now().saturating_sub(self.at.load(Ordering::SeqCst));
            if silent >= idle {
                if !stirred.has_changed() {
                    return true;
                }
                self.note();
                continue;
            }
            let pause = Duration::from_millis(idle - silent).min(LOOK);
            if listening.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
                return false;
            }
        }
    }
}

/// An output that is being written to a file.
struct Printed {
    file: Arc<Mutex<Option<Bounded>>>,
    /// Closes when all is read.
    end: Receiver<Infallible>,
    name: String,
}

/// Makes the file, and a pipe into it.
fn listen(path: &Path, heard: &Arc<Heard>) -> io::Result<(File, Printed)> {
    let file = Arc::new(Mutex::new(Some(Bounded::create(path)?)));
    let (from, to) = io::pipe()?;
    let (working, end) = mpsc::channel();
    let (target, heard) = (Arc::clone(&file), Arc::clone(heard));
    thread::Builder::new().name("output".to_owned()).spawn(move || {
        let _working: mpsc::Sender<Infallible> = working;
        copy(from, &target, &heard);
    })?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok((File::from(OwnedFd::from(to)), Printed { file, end, name }))
}

fn copy(mut from: PipeReader, target: &Mutex<Option<Bounded>>, heard: &Heard) {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return,
            Ok(count) => {
                heard.note();
                if let Some(file) = target.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
                    file.write(buffer.get(..count).unwrap_or_default());
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

impl Printed {
    /// Completes the file. Returns why it is not whole, if it could not be written.
    fn finish(self) -> Option<String> {
        // Nothing is ever sent on this channel.
        if self.end.recv_timeout(REST) == Err(RecvTimeoutError::Timeout) {
            tracing::debug!(file = self.name, "something may print more, which is not kept");
        }
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        let error = file.finish().err()?;
        Some(format!("{} could not be written: {}", self.name, error_chain(&error)))
    }
}
