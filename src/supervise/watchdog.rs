//! Who ends the commands when the runner itself is killed.
//!
//! The parent-death signal reaches a command but not what the command started, and a process killed with SIGKILL can
//! run nothing any more. So one helper process lives beside the runner: this same binary, started with a hidden
//! subcommand whose body is [`serve`]. Its stdin is a pipe of which only the runner holds the other end. It is told
//! which groups it answers for (`+<token> <pgid>` and `-<token>`, a line each, small enough to be written whole);
//! when the pipe ends, however the runner ended, it ends the groups still listed and exits. After a clean run the
//! list is empty and it just exits.
//!
//! They are asked before they are killed: a git among them takes its locks along, which are those of the whole repository and
//! would keep everybody from working with it until a person removes them.
//!
//! A command enlists *itself*, between fork and exec: were it done by the runner after the start, a runner killed in
//! between would leave running whatever the command had started by then. As the runner does not learn the number of a
//! command whose exec failed, it takes groups off the list by a token of its own.
//!
//! Invariants: the writing end is close-on-exec, so that no command keeps the pipe open; the helper holds no stream
//! and no directory of the caller's; a group is unlisted as soon as its supervision ends, so that a reused number is
//! never hit and what a command leaves behind after exit 0 lives on (CONTRACT.md §10). Best effort: without a helper
//! there is a warning and the work goes on. Which groups are guarded, and until when, is `job`'s to decide.

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

use nix::sys::signal::Signal;
use nix::unistd::getpid;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use super::group;
use crate::clock::Stopwatch;

// A helper that cannot be started or does not stay is not worth more tries.
const ATTEMPTS: u32 = 3;

// It leaves at end of file; one that does not (stopped by a debugger) must not keep the runner from ending.
const FAREWELL: Duration = Duration::from_secs(2);

// Between being asked to end and being killed. Git needs a few milliseconds, and the lease is not renewed any more.
const GRACE: Duration = Duration::from_secs(2);

// How often is looked whether they have ended.
const LOOK: Duration = Duration::from_millis(10);

/// The runner's handle on its watchdog process, which is started with the first group at the latest. Clones are the same
/// watchdog; dropping the last one dismisses the process.
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
    listed: BTreeMap<u64, i32>,
    next_token: u64,
    attempts: u32,
}

// Dropped in this order: the helper leaves at end of file, so the pipe must be closed before anybody waits for it.
struct Helper {
    pipe: Arc<PipeWriter>,
    /// Held for its end: dropped, it is waited for.
    _process: Process,
}

struct Process(duct::Handle);

impl Watchdog {
    /// A watchdog that will run `program` (an absolute path, normally our own executable) with `args`, which must
    /// lead to [`serve`] on stdin.
    #[must_use]
    pub fn lazy(program: PathBuf, args: Vec<OsString>) -> Self {
        Self { inner: Arc::new(Inner { program, args, state: Mutex::default() }) }
    }

    /// Starts the helper if it does not run yet, so that no command has to wait for that.
    pub fn ready(&self) {
        self.inner.ensure(&mut self.inner.lock());
    }

    /// Reserves a place on the helper's list, and starts the helper if it does not run yet. To be called before the
    /// command is started.
    pub(crate) fn guard(&self) -> Guard {
        let mut state = self.inner.lock();
        let token = state.next_token;
        state.next_token += 1;
        self.inner.ensure(&mut state);
        drop(state);
        Guard { watchdog: self.clone(), token }
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

/// A place on the watchdog's list; dropping it takes the group off, which then lives on if the runner dies.
#[derive(Debug)]
#[must_use = "dropping it takes the group off the watchdog's list"]
pub struct Guard {
    watchdog: Watchdog,
    token: u64,
}

impl Guard {
    /// Makes the group the helper's responsibility until this is dropped.
    pub(crate) fn cover(&self, pgid: i32) {
        let mut state = self.watchdog.inner.lock();
        state.listed.insert(self.token, pgid);
        state.tell(&enlist(self.token, pgid));
        // If that write found the helper gone: a new one is told everything that is listed.
        self.watchdog.inner.ensure(&mut state);
    }

    /// What the command needs to enlist itself; `None` without a helper.
    pub(crate) fn announcement(&self) -> Option<Announcement> {
        let state = self.watchdog.inner.lock();
        state.helper.as_ref().map(|helper| Announcement { pipe: Arc::clone(&helper.pipe), token: self.token })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let mut state = self.watchdog.inner.lock();
        state.listed.remove(&self.token);
        state.tell(&format!("-{}\n", self.token));
    }
}

/// Enlists the calling process, as the leader of a group, from within.
#[derive(Clone, Debug)]
pub(crate) struct Announcement {
    pipe: Arc<PipeWriter>,
    token: u64,
}

impl Announcement {
    /// To be called between fork and exec, with SIGPIPE ignored: takes no lock and no memory, and makes one `write`.
    /// If that fails the helper is gone, which the runner will notice for itself.
    pub(crate) fn enlist_self(&self) {
        let mut line = [0; LONGEST_LINE];
        let mut rest = line.as_mut_slice();
        if writeln!(rest, "+{} {}", self.token, getpid()).is_ok() {
            let unused = rest.len();
            let _told = nix::unistd::write(&*self.pipe, &line[..LONGEST_LINE - unused]);
        }
    }
}

// "+", a u64, a space, an i32 and a newline.
const LONGEST_LINE: usize = 1 + 20 + 1 + 11 + 1;

fn enlist(token: u64, pgid: i32) -> String {
    format!("+{token} {pgid}\n")
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
                        state.listed.iter().map(|(token, pgid)| enlist(*token, *pgid)).collect();
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
            // Its own group: a ^C at the terminal is for the runner, which still needs it.
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
        // It leaves as soon as its pipe ends.
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

/// The body of the hidden subcommand: reads the list from `input` until it ends, then ends every group still on it.
///
/// Deaf to SIGINT, SIGTERM, SIGHUP and SIGQUIT: its one reason to end is the end of the runner. Lines it does not
/// understand are skipped.
///
/// # Errors
/// If those signals could not be handled; the list is served nevertheless.
pub fn serve(input: impl BufRead) -> io::Result<()> {
    let unread = Arc::new(AtomicBool::new(false));
    let deaf = [SIGINT, SIGTERM, SIGHUP, SIGQUIT]
        .into_iter()
        .try_for_each(|signal| signal_hook::flag::register(signal, Arc::clone(&unread)).map(drop));
    end(listed_at_end(input));
    deaf
}

fn end(mut groups: Vec<i32>) {
    thread::scope(|scope| {
        for pgid in &groups {
            scope.spawn(|| group::terminate(*pgid));
        }
    });
    let watch = Stopwatch::start();
    loop {
        // One that is gone is not looked at again: its number may come to be another's.
        groups.retain(|pgid| !group::is_gone(*pgid));
        if groups.is_empty() || watch.elapsed() >= GRACE {
            break;
        }
        thread::sleep(LOOK);
    }
    groups.iter().for_each(|pgid| group::signal(*pgid, Signal::SIGKILL));
}

// A read error says the same as end of file: nobody is there to tell us anything any more.
fn listed_at_end(input: impl BufRead) -> Vec<i32> {
    let mut listed: BTreeMap<u64, i32> = BTreeMap::new();
    for line in input.lines().map_while(Result::ok) {
        if let Some((token, pgid)) = line.strip_prefix('+').and_then(|entry| entry.split_once(' ')) {
            if let (Ok(token), Ok(pgid)) = (token.parse(), pgid.parse()) {
                listed.insert(token, pgid);
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
        let cases: [(&str, &[i32]); 7] = [
            ("", &[]),
            ("+0 12\n", &[12]),
            ("+0 12\n+1 13\n-0\n", &[13]),
            ("+0 12\n+0 14\n", &[14]),
            ("-0\n+0 12\n", &[12]),
            ("+0 12\n-0\n+1 12\n", &[12]),
            ("nonsense\n+\n+x 1\n+1 x\n\n+7 9\n-\n", &[9]),
        ];
        for (lines, expected) in cases {
            assert_eq!(listed_at_end(lines.as_bytes()), expected, "{lines:?}");
        }
    }

    #[test]
    fn the_longest_line_fits() {
        assert_eq!(enlist(u64::MAX, i32::MIN).len(), LONGEST_LINE);
    }

    #[test]
    fn without_a_helper_the_work_goes_on() {
        let watchdog = Watchdog::lazy(PathBuf::from("/nonexistent/watchdog"), Vec::new());
        let guard = watchdog.guard();
        guard.cover(i32::MAX);
        assert_eq!(watchdog.pid(), None);
        assert_eq!(watchdog.inner.lock().attempts, ATTEMPTS);
        drop(guard);
        assert!(watchdog.inner.lock().listed.is_empty());
    }
}
