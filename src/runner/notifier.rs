//! Tells people by the operator's own program (`aynig.notify`), beside the work and never in its way.
//!
//! Letters wait in a queue; a few threads, which are there only while it is not empty, start the program for one after the other. It gets the
//! letter as a file on its standard input (so that one that does not read holds up nobody) and as variables, the environment of the
//! runner and not of any command, and the repository's main directory. The end of what it prints goes to a log, which is read from a pipe: a
//! program that prints without end fills no disk. `supervise` ends it with its whole group when its time is up.
//!
//! Invariant: nothing here fails or delays a step. Threads, waiting letters, the time of each and the wait at the end of a run are
//! bounded; what is not told for that reason, or fails, is a warning. A runner that is killed tells no more: told at most once.

use std::collections::{HashSet, VecDeque};
use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::{self, PipeReader, Read, Write};
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use signal_hook::consts::SIGTERM;

use crate::clock::{self, Stopwatch};
use crate::contract::ids::{AttemptId, RemoteName, RoleName};
use crate::contract::message::Message;
use crate::contract::report::{plain_line, tail_lines};
use crate::fsutil;
use crate::git::Repo;
use crate::stop::Stop;
use crate::supervise::{How, Spec, StopCause, Watchdog};

use super::notification::{Around, Happening, Letter, letter};
use super::{attempt, error_words};

/// How many programs run at once.
const AT_ONCE: usize = 4;

/// How many letters wait at most; in a worse storm the later ones are not told.
const MOST_WAITING: usize = 1_000;

/// From TERM to KILL, for a program whose time is up.
const GRACE: Duration = Duration::from_secs(2);

/// How long the end of those that were stopped is waited for.
const LAST_WAIT: Duration = Duration::from_secs(8);

/// A log beyond this is moved aside, bytes. Several processes may write at once, [`MOST_KEPT`] each, and the log stays below 1 MB.
const LOG_SIZE: u64 = 500_000;

/// How much of what one program prints is kept, bytes.
const MOST_KEPT: usize = 64 * 1024;

/// How long the rest of what a program printed is waited for, once it has exited: something it left running may hold the pipe for ever.
const REST: Duration = Duration::from_millis(100);

/// The name of the log among those of attempts.
const LOG: &str = "notify.log";

/// The most characters of what a program said that a warning repeats.
const MOST_QUOTED: usize = 200;

/// How the program is run.
pub struct Terms {
    /// The command line, for `sh`.
    pub line: String,
    /// The longest one may take.
    pub limit: Duration,
    /// Where it runs.
    pub directory: PathBuf,
    /// Its environment, but for the letter's variables.
    pub environment: Vec<(OsString, OsString)>,
    /// Ends it if we are killed.
    pub watchdog: Option<Watchdog>,
    /// Who says what went wrong.
    pub warn: Box<dyn Fn(String) + Send + Sync>,
}

impl fmt::Debug for Terms {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Terms").field("line", &self.line).finish_non_exhaustive()
    }
}

/// Takes letters and sees to it that they are told.
#[derive(Debug)]
pub struct Notifier {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    terms: Terms,
    /// Tripped when those that run are to end; no signal to the runner does.
    end: Stop,
    state: Mutex<State>,
    changed: Condvar,
}

/// Why somebody was not told.
struct Failure {
    why: String,
    /// The last line that the program printed.
    said: Option<String>,
    /// Whether it may be that there is no such program.
    unfound: bool,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Letter>,
    workers: usize,
    untold: usize,
    closed: bool,
    /// The kinds of failure there was a warning of: what a program said last may be another thing each time.
    warned: HashSet<String>,
}

impl Notifier {
    /// One that has nothing to do yet.
    pub fn new(terms: Terms) -> Self {
        let inner = Inner { terms, end: Stop::manual(), state: Mutex::default(), changed: Condvar::new() };
        Self { inner: Arc::new(inner) }
    }

    /// Has it told, some time soon; returns at once.
    pub fn send(&self, letter: Letter) {
        let mut state = self.inner.lock();
        if state.closed || state.waiting.len() >= MOST_WAITING {
            state.untold += 1;
            return;
        }
        state.waiting.push_back(letter);
        if state.workers == AT_ONCE {
            return;
        }
        let inner = Arc::clone(&self.inner);
        match thread::Builder::new().name("notifier".to_owned()).spawn(move || inner.work()) {
            Ok(_) => state.workers += 1,
            // One that works already sees to it.
            Err(_) if state.workers > 0 => {}
            Err(error) => {
                state.waiting.clear();
                state.untold += 1;
                tracing::warn!(%error, "no thread to tell anybody with");
            }
        }
    }

    /// Waits until everything is told, about as long as one may take at most, and not beyond another signal to the runner; then what is not
    /// told yet is given up. `long` is called with the number of those if it is not over in a moment.
    pub fn close(self, shutdown: &Stop, long: &dyn Fn(usize)) {
        const MOMENT: Duration = Duration::from_secs(1);
        let inner = &self.inner;
        let seen = shutdown.count();
        let waker = Arc::clone(inner);
        let _subscription = shutdown.subscribe(move |_| waker.changed.notify_all());
        let watch = Stopwatch::start();
        // From the second signal on there is no grace.
        let patience = if seen > 1 { Duration::ZERO } else { inner.terms.limit + GRACE + MOMENT };
        let heard = || shutdown.count() > seen;
        if !inner.wait(&watch, MOMENT.min(patience), &heard) && !heard() && watch.elapsed() < patience {
            long(inner.open());
        }
        if !inner.wait(&watch, patience, &heard) {
            let mut state = inner.lock();
            state.closed = true;
            state.untold += state.waiting.len();
            state.waiting.clear();
            drop(state);
            inner.end.request(SIGTERM);
            if seen > 1 {
                inner.end.request(SIGTERM);
            }
            let watch = Stopwatch::start();
            inner.wait(&watch, LAST_WAIT, &|| false);
        }
        let untold = inner.lock().untold;
        if untold > 0 {
            (inner.terms.warn)(format!(
                "{untold} notices were not told by `{}` (aynig.notify): there were too many for the time there was; \
                 `aynig status --all` shows how branches stand",
                inner.terms.line
            ));
        }
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is consistent between any two statements that could panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many are not told yet.
    fn open(&self) -> usize {
        let state = self.lock();
        state.waiting.len() + state.workers
    }

    /// Whether everything was told before `patience` was over and nobody said that it is enough.
    fn wait(&self, watch: &Stopwatch, patience: Duration, enough: &dyn Fn() -> bool) -> bool {
        // A signal may come between the question and the nap.
        const LONGEST_NAP: Duration = Duration::from_millis(100);
        let mut state = self.lock();
        loop {
            if state.workers == 0 {
                return true;
            }
            let left = patience.saturating_sub(watch.elapsed());
            if left.is_zero() {
                return false;
            }
            let woken = self.changed.wait_timeout(state, left.min(LONGEST_NAP));
            drop(woken.unwrap_or_else(PoisonError::into_inner));
            if enough() {
                return false;
            }
            state = self.lock();
        }
    }

    fn work(&self) {
        loop {
            let mut state = self.lock();
            let Some(letter) = state.waiting.pop_front() else {
                state.workers -= 1;
                drop(state);
                self.changed.notify_all();
                return;
            };
            drop(state);
            // One that panics must not leave `close` waiting for a worker that is gone.
            let told = catch_unwind(AssertUnwindSafe(|| self.tell(&letter))).unwrap_or_else(|_| {
                let why = "was not run because of a bug in aynig".to_owned();
                Err(Failure { why, said: None, unfound: false })
            });
            if let Err(Failure { why, said, unfound }) = told
                && self.lock().warned.insert(why.clone())
            {
                let log = letter.log.as_ref().map_or("nowhere".to_owned(), |log| log.display().to_string());
                let said = said.map(|line| format!(" (it ended with: {line})")).unwrap_or_default();
                let next = if unfound { "; `aynig doctor` looks whether it can be found" } else { "" };
                (self.terms.warn)(format!(
                    "`{}` (aynig.notify) {why}{said}, so somebody may not know what happened; what it said is in {log}{next}",
                    self.terms.line
                ));
            }
        }
    }

    /// Runs the program for one letter; says how it failed, if so.
    fn tell(&self, letter: &Letter) -> Result<(), Failure> {
        crate::crashpoint::reach(crate::crashpoint::Point::NoticeTaken);
        let (how, printed) = self.run(letter).unwrap_or_else(|error| {
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
            How::NotStarted(error) => Some(format!("could not be started: {}", error_words(&error))),
            How::Stopped(StopCause::TimedOut(_)) => {
                Some(format!("took longer than {} s and was stopped", self.terms.limit.as_secs()))
            }
            How::Stopped(StopCause::Signal(_) | StopCause::CalledOff | StopCause::Panic) => {
                Some("was stopped with the runner".to_owned())
            }
            How::Lost(why) => Some(why),
        };
        note(letter, &printed, why.as_deref());
        let said = tail_lines(&printed.tail).pop().map(|line| plain_line(line.as_bytes(), MOST_QUOTED));
        why.map_or(Ok(()), |why| Err(Failure { why, said, unfound }))
    }

    fn run(&self, letter: &Letter) -> io::Result<(How, Printed)> {
        let terms = &self.terms;
        let mut environment = terms.environment.clone();
        environment.extend(letter.variables.iter().cloned());
        let (from, to) = io::pipe()?;
        let to = File::from(OwnedFd::from(to));
        let (printed, end) = listen(from)?;
        let spec = Spec {
            terminal: true,
            program: PathBuf::from("/bin/sh"),
            args: vec!["-c".into(), terms.line.clone().into()],
            directory: terms.directory.clone(),
            environment,
            stdin: Some(fsutil::nameless(&letter.body)?),
            stdout: to.try_clone()?,
            stderr: to,
            grace: GRACE,
            timeout: Some(terms.limit),
            watchdog: terms.watchdog.clone(),
        };
        let how = crate::supervise::run(spec, &self.end, || {}).how;
        // Nothing is ever sent: the channel closes when all is read.
        if end.recv_timeout(REST) == Err(RecvTimeoutError::Timeout) {
            tracing::debug!("something that aynig.notify left running may print more, which is not kept");
        }
        let printed = std::mem::take(&mut *printed.lock().unwrap_or_else(PoisonError::into_inner));
        Ok((how, printed))
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
fn note(letter: &Letter, printed: &Printed, why: Option<&str>) {
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

/// Where the log is to be; none where logs cannot be written, which is looked at each time: a link may have come with a checkout.
fn log_place(repo: &Repo) -> Option<PathBuf> {
    attempt::make_log_directory(repo).ok().map(|directory| directory.join(LOG))
}

/// What a happening is told as: with the subject of its commit and the logs of its attempt, as far as they are on this host.
pub fn compose(
    repo: &Repo,
    remote: Option<&RemoteName>,
    role: Option<&RoleName>,
    happening: &Happening,
) -> Letter {
    let subject = happening
        .commit
        .and_then(|commit| repo.commit(commit).ok())
        .map(|stored| Message::parse(&stored.message).subject);
    let logs = happening
        .run_id
        .as_ref()
        .and_then(|id| attempt::find(repo, AttemptId::parse(id)?))
        .map(|record| (record.stdout, record.stderr));
    letter(
        happening,
        &Around {
            remote: remote.cloned(),
            runner_id: repo.runner_id().to_owned(),
            role: role.cloned(),
            subject,
            logs,
            log: log_place(repo),
            time: clock::wall_seconds(),
            repository: repo.top().to_owned(),
            git_dir: repo.common_dir().to_owned(),
        },
    )
}

/// The program's own name in a line for `sh`, if the line begins with one: not with a variable, a quote or what the shell itself acts on.
pub fn program_of(line: &str) -> Option<&str> {
    const BUILT_IN: [&str; 18] = [
        ".", ":", "[", "case", "cd", "command", "echo", "eval", "exec", "export", "for", "if", "printf",
        "set", "test", "true", "umask", "while",
    ];
    let word = line.split_ascii_whitespace().next()?;
    let plain = word.chars().all(|c| c.is_alphanumeric() || "-_./@%+,:[~".contains(c));
    (plain && !BUILT_IN.contains(&word)).then_some(word)
}

/// Whether the program is a path (and not looked up in `PATH`), and which file that is.
pub fn path_of(word: &str, directory: &Path) -> Option<PathBuf> {
    if let Some(rest) = word.strip_prefix("~/") {
        return std::env::var_os("HOME").map(|home| PathBuf::from(home).join(rest));
    }
    word.contains('/').then(|| directory.join(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_storm_is_bounded_and_what_is_given_up_is_said() {
        let room = tempfile::tempdir().unwrap();
        let said: Arc<Mutex<Vec<String>>> = Arc::default();
        let listener = Arc::clone(&said);
        let notifier = Notifier::new(Terms {
            line: "while :; do sleep 60; done".to_owned(),
            limit: LONG,
            directory: room.path().to_owned(),
            environment: vec![("PATH".into(), std::env::var_os("PATH").unwrap())],
            watchdog: None,
            warn: Box::new(move |text| listener.lock().unwrap().push(text)),
        });
        let letter = || Letter { about: String::new(), body: Vec::new(), variables: Vec::new(), log: None };
        let watch = Stopwatch::start();
        for _ in 0..AT_ONCE {
            notifier.send(letter());
        }
        while !notifier.inner.lock().waiting.is_empty() {
            assert!(watch.elapsed() < LONG);
            clock::pause(Duration::from_millis(1));
        }
        for _ in 0..MOST_WAITING + 2 {
            notifier.send(letter());
        }
        let state = notifier.inner.lock();
        assert_eq!((state.workers, state.untold), (AT_ONCE, 2));
        drop(state);
        let shutdown = Stop::manual();
        shutdown.request(SIGTERM);
        shutdown.request(SIGTERM);
        notifier.close(&shutdown, &|_| {});
        assert!(watch.elapsed() < LONG, "no grace after a second signal");
        let said = said.lock().unwrap();
        let count = format!("{} notices were not told", MOST_WAITING + 2);
        assert!(said.last().is_some_and(|last| last.starts_with(&count)), "{said:?}");
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[0].contains("was stopped with the runner"), "{said:?}");
    }

    #[test]
    fn programs_in_lines() {
        for (line, program) in [
            ("notify-send \"$AYNIG_NOTICE_BRANCH\"", Some("notify-send")),
            ("  contrib/notify/webhook https://example.com/x?y", Some("contrib/notify/webhook")),
            ("~/bin/tell", Some("~/bin/tell")),
            ("URL=x tell", None),
            ("\"$HOME/bin/tell\"", None),
            ("cat >>log", Some("cat")),
            ("(tell)", None),
            ("exec tell", None),
            ("cat>log", None),
            ("", None),
        ] {
            assert_eq!(program_of(line), program, "{line:?}");
        }
        let top = Path::new("/srv/project");
        assert_eq!(path_of("contrib/tell", top), Some("/srv/project/contrib/tell".into()));
        assert_eq!(path_of("/bin/tell", top), Some("/bin/tell".into()));
        assert_eq!(path_of("tell", top), None);
    }
}
