//! Starts a program that talks to a forge. Its arguments are data and pass no shell.
//!
//! Invariant: it takes a bounded time, and a bounded part of what it prints is kept. It has no terminal, so nothing asks.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, PipeReader, Read};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use crate::contract::report::{plain_line, tail_lines};
use crate::fsutil;
use crate::git::process::cancel::{Interrupt, Purpose};
use crate::stop::Stop;
use crate::supervise::{self, How, Spec, StopCause};
use crate::words::error_chain;
use crate::workspace::refusal::{Refusal, Why};

/// The longest that a call may take.
const LIMIT: Duration = Duration::from_secs(120);

/// The time between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(2);

/// The most that a program may print on one stream, in bytes.
const MOST: usize = 1024 * 1024;

/// How long to wait for the rest of its output once it has exited.
const REST: Duration = Duration::from_secs(2);

/// The longest quotation of a program's words, in characters.
const QUOTED: usize = 400;

/// Variables that change what `gh` does, or prints.
const REMOVED: [&str; 6] = ["GH_REPO", "GH_FORCE_TTY", "GH_DEBUG", "DEBUG", "CLICOLOR_FORCE", "GH_PAGER"];

/// Variables that keep a program from asking and from news.
const SET: [(&str, &str); 4] = [
    ("GH_PROMPT_DISABLED", "1"),
    ("GH_NO_UPDATE_NOTIFIER", "1"),
    ("NO_COLOR", "1"),
    ("GIT_TERMINAL_PROMPT", "0"),
];

/// A call.
pub(super) struct Call<'a> {
    pub(super) program: PathBuf,
    /// Its name in messages.
    pub(super) name: String,
    pub(super) arguments: Vec<OsString>,
    pub(super) stdin: Vec<u8>,
    pub(super) directory: &'a Path,
    /// Stops it.
    pub(super) stop: &'a Stop,
    /// Knows that a signal is heard.
    pub(super) interrupt: &'a Interrupt,
}

/// The answer of a program.
pub(super) struct Answer {
    /// Its exit code.
    pub(super) code: i32,
    pub(super) stdout: Vec<u8>,
    stderr: Vec<u8>,
    name: String,
}

impl Answer {
    /// Whether it complained with these words.
    pub(super) fn complains(&self, words: &str) -> bool {
        String::from_utf8_lossy(&self.stderr).contains(words)
    }

    /// The failure of a program that did not exit with 0.
    pub(super) fn failure(&self) -> Refusal {
        let said = tail_lines(&self.stderr).pop().map(|line| plain_line(line.as_bytes(), QUOTED));
        let said = said.map(|line| format!(": {line}")).unwrap_or_default();
        Refusal::new(Why::Remote, format!("`{}` exited with {}{said}", self.name, self.code))
    }

    /// The answer of one that exited with 0.
    pub(super) fn checked(self) -> Result<Vec<u8>, Refusal> {
        if self.code == 0 { Ok(self.stdout) } else { Err(self.failure()) }
    }
}

impl Call<'_> {
    /// Makes it.
    pub(super) fn make(self) -> Result<Answer, Refusal> {
        let Self { program, name, arguments, stdin, directory, stop, interrupt } = self;
        let _under_way = interrupt.call(Purpose::Other);
        let failed = |error: io::Error| Refusal::because(&format!("start `{name}`"), &error);
        let (stdout, out) = pipe().map_err(failed)?;
        let (stderr, err) = pipe().map_err(failed)?;
        let kept = std::env::vars_os().filter(|(name, _)| !REMOVED.iter().any(|one| name == one));
        let set = SET.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let spec = Spec {
            program,
            args: arguments,
            directory: directory.to_owned(),
            environment: kept.chain(set).collect(),
            stdin: Some(fsutil::nameless(&stdin).map_err(failed)?),
            stdout: out,
            stderr: err,
            terminal: false,
            grace: GRACE,
            timeout: Some(LIMIT),
            leash: None,
            watchdog: None,
        };
        let how = supervise::run(spec, stop, || {}).how;
        let (stdout, stderr) = (rest(&stdout), rest(&stderr));
        let code = match how {
            How::Exited(code) => code,
            How::NotStarted(error) => {
                let message = format!("could not start `{name}`: {}", error_chain(&error));
                return Err(Refusal::new(Why::Setup, message));
            }
            How::Stopped(StopCause::TimedOut(limit)) => {
                let message = format!("`{name}` took longer than {} s and was stopped", limit.as_secs());
                return Err(Refusal::new(Why::Remote, message));
            }
            How::Stopped(_) => return Err(Refusal::new(Why::Failed, format!("`{name}` was stopped"))),
            How::Signalled(signal) => {
                return Err(Refusal::new(Why::Remote, format!("`{name}` was killed by signal {signal}")));
            }
            How::Lost(why) => return Err(Refusal::new(Why::Setup, format!("`{name}`: {why}"))),
        };
        let too_long = || {
            let message = format!("`{name}` printed more than {MOST} bytes, and its answer was not read");
            Refusal::new(Why::Remote, message)
        };
        let stdout = stdout.ok_or_else(too_long)?;
        Ok(Answer { code, stdout, stderr: stderr.unwrap_or_default(), name })
    }
}

/// The bytes of a stream; `None` if there are too many.
type Output = Option<Vec<u8>>;

/// A file to write to, and what comes out of it in the end.
fn pipe() -> io::Result<(Receiver<Output>, File)> {
    let (from, to) = io::pipe()?;
    let (done, end) = mpsc::channel();
    thread::Builder::new().name("reader".to_owned()).spawn(move || {
        // Who prints more than that finds the pipe closed.
        if done.send(bounded(from)).is_err() {
            tracing::debug!("nobody waits for the output any more");
        }
    })?;
    Ok((end, File::from(OwnedFd::from(to))))
}

fn bounded(from: PipeReader) -> Output {
    let mut bytes = Vec::new();
    let most = u64::try_from(MOST).unwrap_or(u64::MAX);
    match from.take(most.saturating_add(1)).read_to_end(&mut bytes) {
        Ok(_) | Err(_) if bytes.len() > MOST => None,
        Ok(_) | Err(_) => Some(bytes),
    }
}

/// A process that was left running may hold the pipe open for ever.
fn rest(end: &Receiver<Output>) -> Output {
    end.recv_timeout(REST).unwrap_or_else(|_| Some(Vec::new()))
}
