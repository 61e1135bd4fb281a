//! A helper process that stops the commands when the runner itself is killed.
//!
//! The parent-death signal reaches a command but not the processes it started, and a runner killed
//! with SIGKILL can do nothing. So a helper process runs beside the runner: this binary with a
//! hidden subcommand whose body is [`serve`]. Its stdin is a pipe whose other end only the runner
//! holds. The runner writes which groups are guarded (`+<token> <pgid>` and `-<token>`, a line
//! each, small enough for an atomic write). For a leashed command it writes the keeper and the
//! marker (`+<token> <pid> <name>=<value>`), so that all that the command has started is ended. When the pipe ends, however the runner ended, the
//! helper stops the groups still listed and exits. After a clean run the list is empty.
//!
//! The helper sends SIGTERM before SIGKILL, so that a git in the group removes its lock files. Such
//! a lock can block the whole repository until a user removes it.
//!
//! A command, or its keeper, enlists *itself*, between fork and exec. If the runner did it after the start, a
//! runner killed in between would leave running whatever the command had started by then. The
//! runner never learns the number of a command whose exec failed, so it unlists groups by a token
//! of its own.
//!
//! Invariants: the writing end is close-on-exec, so that no command keeps the pipe open. The helper
//! holds no stream and no directory of the caller's. A group is unlisted as soon as its supervision
//! ends, so a reused number is never signalled, and processes left behind after exit 0 live on
//! (CONTRACT 10.2). Best effort: without a helper there is a warning and the work continues.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::io::{self, BufRead, PipeWriter, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use nix::unistd::getpid;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use super::leash::Leash;
use super::machine::KILL_PATIENCE;
use super::scope::Scope;
use super::tree::Tree;
use crate::clock::Stopwatch;

// How often to start a helper that cannot be started or does not stay.
const ATTEMPTS: u32 = 3;

// Wait for the helper's exit at end of file. A helper stopped by a debugger must not keep the
// runner from exiting.
const FAREWELL: Duration = Duration::from_secs(2);

// Between SIGTERM and SIGKILL. Git needs a few milliseconds, and the lease is no longer renewed.
const GRACE: Duration = Duration::from_secs(2);

// Polling interval for the groups' end.
const LOOK: Duration = Duration::from_millis(10);

/// The runner's handle on its watchdog process, which is started with the first group at the
/// latest. Clones share one process; dropping the last one ends it.
#[derive(Clone)]
pub struct Watchdog {
    inner: Arc<Inner>,
}

struct Inner {
    program: PathBuf,
    args: Vec<OsString>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    helper: Option<Helper>,
    listed: BTreeMap<u64, Listed>,
    next_token: u64,
    attempts: u32,
}

// Field order is drop order: the helper exits at end of file, so the pipe must be closed before the
// process is waited for.
struct Helper {
    pipe: Arc<PipeWriter>,
    /// Held for its `Drop`, which waits for the process.
    _process: Process,
}

struct Process(duct::Handle);

impl Watchdog {
    /// A watchdog that will run `program` (an absolute path, normally this executable) with `args`,
    /// which must lead to [`serve`] on stdin.
    #[must_use]
    pub fn lazy(program: PathBuf, args: Vec<OsString>) -> Self {
        Self { inner: Arc::new(Inner { program, args, state: Mutex::default() }) }
    }

    /// Starts the helper now if it does not run yet, so that no command has to wait for it.
    pub fn ready(&self) {
        self.inner.ensure(&mut self.inner.lock());
    }

    /// Reserves a place on the helper's list, and starts the helper if needed. Call it before the
    /// command is started.
    pub(crate) fn guard(&self, leash: Option<&Leash>) -> Guard {
        let mut state = self.inner.lock();
        let token = state.next_token;
        state.next_token += 1;
        self.inner.ensure(&mut state);
        drop(state);
        Guard { watchdog: self.clone(), token, marker: leash.map(Leash::marker) }
    }

    /// The helper's process id while there is one.
    #[cfg(test)]
    pub(crate) fn pid(&self) -> Option<u32> {
        self.inner.lock().helper.as_ref().and_then(|helper| helper._process.0.pids().first().copied())
    }

    #[cfg(test)]
    pub(crate) fn close_as_if_killed(&self) {
        self.inner.lock().helper = None;
    }
}

impl fmt::Debug for Watchdog {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Watchdog").field("program", &self.inner.program).finish_non_exhaustive()
    }
}

/// A place on the watchdog's list. Dropping it unlists the group, which then survives the runner.
#[derive(Debug)]
#[must_use = "dropping it takes the group off the watchdog's list"]
pub struct Guard {
    watchdog: Watchdog,
    token: u64,
    marker: Option<String>,
}

impl Guard {
    /// Puts the group, or the keeper with that number, on the helper's list until this is dropped.
    pub(crate) fn cover(&self, pid: i32) {
        let mut state = self.watchdog.inner.lock();
        let listed = Listed { pid, marker: self.marker.clone() };
        state.tell(&listed.line(self.token));
        state.listed.insert(self.token, listed);
        // If that write found the helper gone, its replacement is sent the whole list.
        self.watchdog.inner.ensure(&mut state);
    }

    /// The data for a command to enlist itself; `None` without a helper.
    pub(crate) fn announcement(&self) -> Option<Announcement> {
        let state = self.watchdog.inner.lock();
        state.helper.as_ref().map(|helper| Announcement {
            pipe: Arc::clone(&helper.pipe),
            token: self.token,
            marker: self.marker.clone(),
        })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let mut state = self.watchdog.inner.lock();
        state.listed.remove(&self.token);
        state.tell(&format!("-{}\n", self.token));
    }
}

/// Enlists the calling process, which leads its group or is a keeper, from within.
#[derive(Clone, Debug)]
pub(crate) struct Announcement {
    pipe: Arc<PipeWriter>,
    token: u64,
    marker: Option<String>,
}

impl Announcement {
    /// Writes the line for this process. Call it between fork and exec with SIGPIPE ignored: it
    /// takes no lock, allocates nothing and makes one `write`. A failed write means the helper is
    /// gone, which the runner notices by itself.
    pub(crate) fn enlist_self(&self) {
        let mut line = [0; LONGEST_LINE];
        let mut rest = line.as_mut_slice();
        if write_line(&mut rest, self.token, getpid().as_raw(), self.marker.as_deref()).is_ok() {
            let unused = rest.len();
            let _told = nix::unistd::write(&*self.pipe, &line[..LONGEST_LINE - unused]);
        }
    }
}

// The longest atomic write to a pipe that every system has.
const LONGEST_LINE: usize = 512;

/// An entry of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Listed {
    /// A group, or the keeper of a leashed command.
    pid: i32,
    /// The marker of a leashed command.
    marker: Option<String>,
}

impl Listed {
    fn line(&self, token: u64) -> String {
        let mut line = Vec::new();
        match write_line(&mut line, token, self.pid, self.marker.as_deref()) {
            Ok(()) => String::from_utf8_lossy(&line).into_owned(),
            Err(_) => String::new(),
        }
    }

    fn parse(entry: &str) -> Option<Self> {
        let (pid, marker) = match entry.split_once(' ') {
            Some((pid, marker)) => (pid, Some(marker.to_owned())),
            None => (entry, None),
        };
        Some(Self { pid: pid.parse().ok()?, marker })
    }

    fn scope(self) -> Scope {
        match self.marker {
            Some(marker) => Scope::Tree(Tree::of(self.pid, marker)),
            None => Scope::Group(self.pid),
        }
    }
}

fn write_line(to: &mut impl Write, token: u64, pid: i32, marker: Option<&str>) -> io::Result<()> {
    match marker {
        Some(marker) => writeln!(to, "+{token} {pid} {marker}"),
        None => writeln!(to, "+{token} {pid}"),
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is consistent between any two statements that could panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ensure(&self, state: &mut State) {
        while state.helper.is_none() && state.attempts < ATTEMPTS {
            state.attempts += 1;
            match self.launch() {
                Ok(helper) => {
                    state.helper = Some(helper);
                    let list: String =
                        state.listed.iter().map(|(token, listed)| listed.line(*token)).collect();
                    state.tell(&list);
                }
                Err(error) => tracing::warn!(
                    program = %self.program.display(), %error,
                    "could not start the watchdog; what commands start may outlive a killed runner"
                ),
            }
        }
    }

    fn launch(&self) -> io::Result<Helper> {
        let (reader, pipe) = io::pipe()?;
        let process = duct::cmd(self.program.as_path(), &self.args)
            .dir("/")
            .stdin_file(reader)
            .stdout_null()
            .stderr_null()
            .unchecked()
            // In its own group: a ^C at the terminal must not reach it, since the runner still
            // needs it.
            .before_spawn(|command| {
                command.process_group(0);
                Ok(())
            })
            .start()?;
        Ok(Helper { pipe: Arc::new(pipe), _process: Process(process) })
    }
}

impl State {
    fn tell(&mut self, lines: &str) {
        if lines.is_empty() {
            return;
        }
        let Some(helper) = &self.helper else { return };
        if let Err(error) = (&*helper.pipe).write_all(lines.as_bytes()) {
            tracing::warn!(%error, "the watchdog is gone");
            self.helper = None;
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It exits as soon as its pipe ends.
        match self.0.wait_timeout(FAREWELL) {
            Ok(Some(_)) => return,
            Ok(None) => tracing::warn!("the watchdog does not leave; killing it"),
            Err(error) => tracing::warn!(%error, "could not wait for the watchdog; killing it"),
        }
        if let Err(error) = self.0.kill() {
            tracing::warn!(%error, "could not kill the watchdog");
        }
    }
}

/// The body of the hidden subcommand: reads the list from `input` until it ends, then stops every
/// group still listed.
///
/// Ignores SIGINT, SIGTERM, SIGHUP and SIGQUIT: it exits only when the runner does. Skips lines it
/// does not understand.
///
/// # Errors
/// The handlers for those signals could not be installed; the list is served nevertheless.
pub fn serve(input: impl BufRead) -> io::Result<()> {
    let unread = Arc::new(AtomicBool::new(false));
    let deaf = [SIGINT, SIGTERM, SIGHUP, SIGQUIT]
        .into_iter()
        .try_for_each(|signal| signal_hook::flag::register(signal, Arc::clone(&unread)).map(drop));
    end(listed_at_end(input).into_iter().map(Listed::scope).collect());
    deaf
}

fn end(mut scopes: Vec<Scope>) {
    thread::scope(|threads| {
        for scope in &scopes {
            threads.spawn(|| scope.terminate());
        }
    });
    let watch = Stopwatch::start();
    loop {
        // A group that is gone is not checked again: its number may be reused.
        scopes.retain(|scope| !scope.is_gone());
        if scopes.is_empty() || watch.elapsed() >= GRACE {
            break;
        }
        thread::sleep(LOOK);
    }
    let watch = Stopwatch::start();
    while !scopes.is_empty() && watch.elapsed() < KILL_PATIENCE {
        for scope in &scopes {
            scope.kill();
        }
        thread::sleep(LOOK);
        scopes.retain(|scope| !scope.is_gone());
    }
}

// A read error means the same as end of file: the runner is gone.
fn listed_at_end(input: impl BufRead) -> Vec<Listed> {
    let mut listed: BTreeMap<u64, Listed> = BTreeMap::new();
    for line in input.lines().map_while(Result::ok) {
        if let Some((token, entry)) = line.strip_prefix('+').and_then(|entry| entry.split_once(' ')) {
            if let (Ok(token), Some(entry)) = (token.parse(), Listed::parse(entry)) {
                listed.insert(token, entry);
            }
        } else if let Some(Ok(token)) = line.strip_prefix('-').map(str::parse) {
            listed.remove(&token);
        }
    }
    listed.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_at_the_end() {
        let cases: [(&str, &[i32]); 8] = [
            ("", &[]),
            ("+0 12\n", &[12]),
            ("+0 12\n+1 13\n-0\n", &[13]),
            ("+0 12\n+0 14\n", &[14]),
            ("-0\n+0 12\n", &[12]),
            ("+0 12\n-0\n+1 12\n", &[12]),
            ("nonsense\n+\n+x 1\n+1 x\n\n+7 9\n-\n", &[9]),
            ("+0 12 A=b c\n+1 13 A=d\n-1\n", &[12]),
        ];
        for (lines, expected) in cases {
            let listed: Vec<i32> = listed_at_end(lines.as_bytes()).iter().map(|entry| entry.pid).collect();
            assert_eq!(listed, expected, "{lines:?}");
        }
        for marker in [None, Some("A=b c".to_owned())] {
            let entry = Listed { pid: 12, marker };
            assert_eq!(listed_at_end(entry.line(3).as_bytes()), [entry]);
        }
    }

    #[test]
    fn the_longest_line_fits() {
        let marker = Some(format!("{}={}", "N".repeat(64), uuid::Uuid::nil()));
        assert!(Listed { pid: i32::MIN, marker }.line(u64::MAX).len() <= LONGEST_LINE);
    }

    #[test]
    fn without_a_helper_the_work_goes_on() {
        let watchdog = Watchdog::lazy(PathBuf::from("/nonexistent/watchdog"), Vec::new());
        let guard = watchdog.guard(None);
        guard.cover(i32::MAX);
        assert_eq!(watchdog.pid(), None);
        assert_eq!(watchdog.inner.lock().attempts, ATTEMPTS);
        drop(guard);
        assert!(watchdog.inner.lock().listed.is_empty());
    }
}
