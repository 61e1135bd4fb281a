//! The only spawner of the `git` program.
//!
//! Invariant: a `git` started here acts only on the directory it is given, whatever environment
//! this process was started in (a hook, an alias, cron). It writes English, reads an empty stdin
//! unless given bytes, runs no hook of the repository, and survives a Ctrl-C meant for us. A call
//! that uses a network or signs has no terminal, on which the programs it starts could prompt
//! unseen.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use bstr::ByteSlice;

use crate::clock::Stopwatch;
use crate::git::process::cancel::{Interrupt, Purpose};
use crate::git::process::output::Outputs;
use crate::git::process::patience::{self, Patience, Places};
use crate::git::process::terminate;
use crate::session;

/// How often a call is checked for early cancellation.
const LOOK: Duration = Duration::from_millis(50);

/// A name in a worktree's private git directory that neither git nor aynig uses.
const NOWHERE: &str = "aynig-gone";

/// The variables that point git at a repository (`git rev-parse --local-env-vars`, git 2.47). A hook sets
/// some of them, and they override `git -C`.
pub const LOCAL_VARIABLES: [&str; 15] = [
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_CONFIG",
    "GIT_CONFIG_COUNT",
    "GIT_CONFIG_PARAMETERS",
    "GIT_DIR",
    "GIT_GRAFT_FILE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_NO_REPLACE_OBJECTS",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_REPLACE_REF_BASE",
    "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
];

/// Why a `git` call failed.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// The program could not be started.
    #[error("could not start `git {what}` in {}", directory.display())]
    NotStarted {
        /// The arguments, for display.
        what: String,
        /// Its working directory.
        directory: PathBuf,
        /// The error of the system call.
        #[source]
        source: std::io::Error,
    },
    /// The program exceeded its time limit.
    #[error("`git {what}` in {} took longer than {} s and was ended", directory.display(), limit.as_secs())]
    TooSlow {
        /// The arguments, for display.
        what: String,
        /// Its working directory.
        directory: PathBuf,
        /// The limit.
        limit: Duration,
    },
    /// The program waited for something, and did nothing.
    #[error("`git {what}` in {} did nothing for {} s and was ended: it waited for another process or for a file system", directory.display(), long.as_secs())]
    Waited {
        /// The arguments, for display.
        what: String,
        /// Its working directory.
        directory: PathBuf,
        /// How long it did nothing.
        long: Duration,
    },
    /// A stop was requested before or during the call.
    #[error("`git {what}` in {} was ended, as a stop was asked for", directory.display())]
    Stopped {
        /// The arguments, for display.
        what: String,
        /// Its working directory.
        directory: PathBuf,
    },
    /// Files were left out, since the program could not open their directory.
    #[error(
        "`git {what}` left out what it could not open: {said}; make it readable, move it, or name it in `.gitignore`"
    )]
    LeftOut {
        /// Its first argument.
        what: String,
        /// Its warning.
        said: String,
    },
    /// Work that may be there alone could not be looked for.
    #[error("{what} cannot be read ({why})")]
    Unread {
        /// The file or the commit.
        what: String,
        /// The reason, and the next step.
        why: String,
    },
    /// The program exited with a code other than 0.
    #[error("`git {what}` in {} failed ({status}): {said}", directory.display())]
    Failed {
        /// The arguments, for display.
        what: String,
        /// Its working directory.
        directory: PathBuf,
        /// Its exit status.
        status: ExitStatus,
        /// The end of its stderr, on one line.
        said: String,
    },
}

/// The output of a finished call.
#[derive(Debug)]
pub struct Output {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
}

impl Output {
    /// stdout as text without its trailing newline.
    pub fn text(&self) -> String {
        self.stdout.to_str_lossy().trim_end().to_owned()
    }

    /// The reason for a failure from stderr, on one line.
    pub(crate) fn complaint(&self) -> String {
        last_words(&self.stderr)
    }
}

/// Builder for one call of `git`.
#[derive(Debug)]
pub struct Git {
    directory: PathBuf,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    stdin: Option<Vec<u8>>,
    timeout: Option<Duration>,
    others: Option<(Interrupt, Purpose)>,
    sanitize: bool,
    name: Option<String>,
}

impl Git {
    /// A call on the repository whose git directory or top is `directory`, never on one above it. A
    /// command may have removed the `.git` file of its worktree, which is inside a user's checkout.
    pub fn new(directory: &Path) -> Self {
        // Configuration is passed by `-c`, never written: any `git config` write takes a lock that
        // parallel runners would contend for.
        let fixed = [
            "core.hooksPath=/dev/null",
            "core.fsmonitor=false",
            "core.useReplaceRefs=false",
            "gc.auto=0",
            "maintenance.auto=false",
        ];
        let arguments = fixed.iter().flat_map(|pair| ["-c".into(), OsString::from(pair)]).collect();
        Self {
            directory: directory.to_owned(),
            arguments,
            environment: Vec::new(),
            stdin: None,
            timeout: None,
            others: None,
            sanitize: false,
            name: None,
        }
    }

    /// A call about the data that all worktrees share, in `common_dir`. Whether the repository is
    /// trusted was settled when it was opened. Git would check again, with the name of this
    /// directory, while the user declared the checkout's directory safe.
    pub(crate) fn shared(common_dir: &Path) -> Self {
        let mut safe = OsString::from("safe.directory=");
        safe.push(common_dir);
        let mut git = Self::new(common_dir);
        git.arguments.extend(["-c".into(), safe]);
        git
    }

    /// A call about the working tree at `path` that is registered in `git_dir`, whatever `path` is
    /// now. Its `.git` file may be gone, or name another repository. If the directory is gone,
    /// registration and index still exist, and all files count as deleted.
    pub(crate) fn inside(path: &Path, git_dir: &Path) -> Self {
        // Git fails for a working tree whose parent directory is gone as well. So it is given a
        // path below `git_dir` that does not exist.
        let gone = git_dir.join(NOWHERE);
        let (directory, tree) = if path.is_dir() { (path, path) } else { (git_dir, gone.as_path()) };
        Self::new(directory).env("GIT_DIR", git_dir).env("GIT_WORK_TREE", tree)
    }

    /// Adds one argument.
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    pub fn args<A: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.arguments.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        self
    }

    /// Sets the name for errors, if the arguments are too long to display. The debug log then has
    /// all of them.
    pub(crate) fn known_as(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets one environment variable for the call.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name.into(), value.as_ref().to_owned()));
        self
    }

    /// Sets the call's stdin.
    pub(crate) fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = Some(bytes.into());
        self
    }

    /// Ends the call, and every process it started, after `limit`.
    pub(crate) fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self
    }

    /// Marks the call as waiting for others: for a network or for a key. It gets no terminal, and
    /// it is ended, with every process it started, soon after it is interrupted.
    pub(crate) fn for_others(mut self, interrupt: &Interrupt, purpose: Purpose) -> Self {
        self.others = Some((interrupt.clone(), purpose));
        self
    }

    /// Marks the call as waiting for a program that makes or checks signatures. Such a call changes
    /// nothing that others read, so it is ended at once after `limit` or a stop.
    pub(crate) fn for_signatures(mut self, interrupt: &Interrupt, purpose: Purpose, limit: Duration) -> Self {
        self.sanitize = true;
        self.for_others(interrupt, purpose).timeout(limit)
    }

    /// Runs the call; an exit other than 0 is an error with git's reason.
    pub fn run(self) -> Result<Output, ProcessError> {
        let (whole, directory) = (self.described(), self.directory.clone());
        let what = self.name.clone().unwrap_or_else(|| whole.clone());
        let output = self.run_unchecked()?;
        if output.status.success() {
            return Ok(output);
        }
        tracing::debug!(git = %whole, status = %output.status, "failed");
        Err(ProcessError::Failed { what, directory, status: output.status, said: last_words(&output.stderr) })
    }

    /// Runs a call that looks at all files of a worktree. A directory that it cannot open is an error, too: of that git only
    /// warns.
    pub(crate) fn run_over_all(self) -> Result<Output, ProcessError> {
        let whole = self.described();
        let output = self.run()?;
        match left_out(&output.stderr) {
            Some(said) => {
                let what = whole.split(' ').next().unwrap_or_default().to_owned();
                Err(ProcessError::LeftOut { what, said })
            }
            None => Ok(output),
        }
    }

    /// Runs the call; any exit status is a result.
    pub(crate) fn run_unchecked(self) -> Result<Output, ProcessError> {
        match self.run_partly()? {
            // A call that succeeded before it was ended has a valid result.
            (output, Some(ended)) if !output.status.success() => Err(ended),
            (output, _) => Ok(output),
        }
    }

    /// Runs the call; any exit status is a result. Also returns the output of a call that was ended
    /// early, with the reason.
    pub(crate) fn run_partly(self) -> Result<(Output, Option<ProcessError>), ProcessError> {
        let whole = self.described();
        tracing::trace!(git = %whole, directory = %self.directory.display(), "spawn");
        let what = self.name.clone().unwrap_or(whole);
        if self.stdin.is_none() && self.timeout.is_none() && self.others.is_none() {
            self.run_plainly(what)
        } else {
            self.run_watched(what)
        }
    }

    /// Sets the environment and process group, which are the same for every call.
    fn prepare(&self, command: &mut Command) {
        command.env("LC_ALL", "C.UTF-8").env("LANGUAGE", "C").env("GIT_TERMINAL_PROMPT", "0");
        // For programs that filters start: with this setting ssh uses only an askpass dialog, if
        // there is one, and never the terminal.
        command.env("SSH_ASKPASS_REQUIRE", "force");
        for name in LOCAL_VARIABLES {
            command.env_remove(name);
        }
        for (name, value) in &self.environment {
            command.env(name, value);
        }
        if let Some(above) = self.directory.parent() {
            command.env("GIT_CEILING_DIRECTORIES", above);
        }
        // Its own process group: a Ctrl-C at the terminal is handled by us, and must not interrupt
        // a checkout or a rescue.
        if self.others.is_none() {
            command.process_group(0);
        } else {
            session::begin(command);
        }
    }

    /// The directories that the call is about.
    fn places(&self) -> Places<'_> {
        let given = self.environment.iter().rfind(|(name, _)| name == "GIT_DIR");
        Places { directory: &self.directory, git_dir: given.map(|(_, value)| Path::new(value)) }
    }

    /// Runs the usual call, which is only waited for. The standard library then does not copy our memory for the child
    /// (`fork`), and no thread is needed for its output. A step consists mostly of such calls.
    fn run_plainly(self, what: String) -> Result<(Output, Option<ProcessError>), ProcessError> {
        #[expect(clippy::disallowed_methods, reason = "the one place that starts git")]
        let mut command = Command::new("git");
        self.prepare(&mut command);
        let directory = &self.directory;
        let failed =
            |source| ProcessError::NotStarted { what: what.clone(), directory: directory.clone(), source };
        command.args(&self.arguments).current_dir(directory).stdin(Stdio::null());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(failed)?;
        let mut patience = Patience::new(child.id());
        let mut outputs = Outputs::of(&mut child);
        let mut ended = None;
        while !outputs.read(patience::LOOK).map_err(failed)? {
            let Some(long) = patience.is_over(&self.places()) else { continue };
            let is_over = |slice| Ok(outputs.read(slice)? && child.try_wait()?.is_some());
            let has_output = terminate::end(patience.leader, is_over).map_err(failed)?;
            let waited = ProcessError::Waited { what: what.clone(), directory: directory.clone(), long };
            if !has_output {
                return Err(waited);
            }
            ended = Some(waited);
        }
        let status = child.wait().map_err(failed)?;
        let [stdout, stderr] = outputs.taken();
        Ok((Output { status, stdout, stderr }, ended))
    }

    /// Runs a call that has input or may be ended early.
    fn run_watched(mut self, what: String) -> Result<(Output, Option<ProcessError>), ProcessError> {
        let stdin = self.stdin.take();
        let (directory, timeout, others) = (self.directory.clone(), self.timeout, self.others.clone());
        let sanitize = self.sanitize;
        let given = self.places().git_dir.map(Path::to_owned);
        let _under_way = others.as_ref().map(|(interrupt, purpose)| interrupt.call(*purpose));
        let stopped =
            |taken| others.as_ref().is_some_and(|(interrupt, purpose)| interrupt.ends(*purpose, taken));
        if stopped(Duration::ZERO) {
            return Err(ProcessError::Stopped { what, directory });
        }
        let mut expression = duct::cmd("git", &self.arguments)
            .dir(&directory)
            .stdout_capture()
            .stderr_capture()
            .unchecked()
            .before_spawn(move |command| {
                self.prepare(command);
                Ok(())
            });
        expression = match stdin {
            Some(bytes) => expression.stdin_bytes(bytes),
            None => expression.stdin_null(),
        };
        let not_started =
            |source| ProcessError::NotStarted { what: what.clone(), directory: directory.clone(), source };
        let handle = expression.start().map_err(not_started)?;
        let leader = handle.pids().first().copied().unwrap_or_default();
        let (watch, mut look, mut patience) = (Stopwatch::start(), Stopwatch::start(), Patience::new(leader));
        let (mut ended, mut has_output) = (None, true);
        loop {
            let left = timeout.map_or(patience::LOOK, |limit| limit.saturating_sub(watch.elapsed()));
            let slice = if others.is_some() { left.min(LOOK) } else { left.min(patience::LOOK) };
            if handle.wait_timeout(slice).map_err(not_started)?.is_some() {
                break;
            }
            let mut waited = None;
            if look.elapsed() >= patience::LOOK {
                look = Stopwatch::start();
                let places = Places { directory: &directory, git_dir: given.as_deref() };
                waited = patience.is_over(&places).filter(|_| others.is_none());
            }
            ended = match timeout.filter(|limit| watch.elapsed() >= *limit) {
                Some(limit) => {
                    Some(ProcessError::TooSlow { what: what.clone(), directory: directory.clone(), limit })
                }
                None if stopped(watch.elapsed()) => {
                    Some(ProcessError::Stopped { what: what.clone(), directory: directory.clone() })
                }
                None => match waited {
                    Some(long) => {
                        Some(ProcessError::Waited { what: what.clone(), directory: directory.clone(), long })
                    }
                    None => continue,
                },
            };
            for leader in handle.pids().into_iter().filter_map(|pid| i32::try_from(pid).ok()) {
                let is_over = |slice| Ok(handle.wait_timeout(slice)?.is_some());
                let over = if sanitize {
                    terminate::end_at_once(leader, is_over)
                } else {
                    terminate::end(leader, is_over)
                };
                has_output &= over.map_err(not_started)?;
            }
            break;
        }
        if let Some(ended) = ended.take_if(|_| !has_output) {
            return Err(ended);
        }
        let output = handle.into_output().map_err(not_started)?;
        Ok((Output { status: output.status, stdout: output.stdout, stderr: output.stderr }, ended))
    }

    /// The arguments as a user would type them, without our fixed configuration.
    fn described(&self) -> String {
        let mut words = self.arguments.iter();
        let mut shown: Vec<String> = Vec::new();
        while let Some(word) = words.next() {
            if word == "-c" {
                words.next();
                continue;
            }
            shown.push(word.to_string_lossy().into_owned());
        }
        shown.join(" ")
    }
}

/// The end of a warning about what is not there any more.
const GONE: &str = "No such file or directory";

/// The most characters of a path in a message. One that is too long for the system has thousands.
const MOST_PATH: usize = 100;

/// The warning about a directory that git could not open. One that was removed meanwhile had nothing.
fn left_out(stderr: &[u8]) -> Option<String> {
    let text = stderr.to_str_lossy();
    let is_warning = |line: &&str| line.contains("could not open directory") && !line.ends_with(GONE);
    let line = text.lines().find(is_warning)?;
    let line = line.strip_prefix("warning: ").unwrap_or(line);
    // Git cuts a line with a path that is too long for the system.
    let (path, reason) = line.rsplit_once(": ").unwrap_or((line, "too long a path"));
    Some(format!("{reason}: {}", path.chars().take(MOST_PATH).collect::<String>()))
}

/// Messages of git that give no reason, since a transport printed it before.
const NO_REASON: [&str; 2] = ["Could not read from remote repository", "hung up unexpectedly"];

/// How many lines of the transport's output are repeated.
const BEFORE: usize = 3;

/// The part of git's stderr to repeat: its `fatal:` and `error:` lines, with a transport's output
/// before them, else its last line. Bounded, on one line.
fn last_words(stderr: &[u8]) -> String {
    let text = stderr.to_str_lossy();
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        // That no askpass program could be started is not the reason; the failure it led to is.
        .filter(|line| !line.is_empty() && !line.contains("ssh_askpass: exec("))
        .collect();
    let names_failure =
        |line: &str| line.starts_with("fatal:") || line.starts_with("error:") || line.contains("not found");
    let without_reason = lines
        .iter()
        .position(|line| line.starts_with("fatal:") && NO_REASON.iter().any(|words| line.contains(words)));
    let reasons = without_reason.map_or(0..0, |at| at.saturating_sub(BEFORE)..at);
    let mut said: Vec<&str> = lines
        .iter()
        .enumerate()
        .filter(|(at, line)| reasons.contains(at) || names_failure(line))
        .map(|(_, line)| *line)
        .collect();
    if said.is_empty() {
        said.extend(lines.last());
    }
    let said: Vec<&str> = said.iter().map(|line| line.trim_end_matches('.')).collect();
    let mut words = said.join("; ");
    if words.is_empty() {
        words.push_str("it gave no reason");
    }
    without_secrets(&words).chars().filter(|c| !c.is_control()).take(600).collect()
}

/// Removes the text before the host in each URL, since it may be a token.
fn without_secrets(words: &str) -> String {
    let mut parts = words.split("://");
    let mut clean = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| c.is_whitespace() || "/'\"".contains(c)).unwrap_or(part.len());
        let (place, rest) = part.split_at(end);
        let host = place.rsplit_once('@').map_or_else(|| place.to_owned(), |(_, host)| format!("…@{host}"));
        clean.push_str("://");
        clean.push_str(&host);
        clean.push_str(rest);
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_says_why_it_failed() {
        let directory = tempfile::tempdir().unwrap();
        let error = Git::new(directory.path())
            .env("GIT_CEILING_DIRECTORIES", directory.path().parent().unwrap())
            .args(["rev-parse", "--git-dir"])
            .run()
            .unwrap_err();
        let text = error.to_string();
        assert!(text.contains("`git rev-parse --git-dir`"), "{text}");
        assert!(text.contains("not a git repository"), "{text}");
    }

    #[test]
    fn what_is_before_a_host_is_not_repeated() {
        let said = b"fatal: could not read Password for 'http://sekret@127.0.0.1:89/r': no; https://a:b@c/d@e ssh://h/x\n";
        assert_eq!(
            last_words(said),
            "fatal: could not read Password for 'http://\u{2026}@127.0.0.1:89/r': no; https://\u{2026}@c/d@e ssh://h/x"
        );
    }

    #[test]
    fn what_a_transport_says_is_the_reason() {
        let ssh = b"a banner\nof many\nlines\nWarning: added\r\nHost key verification failed.\r\nfatal: Could not read from remote repository.\n\n\
            Please make sure you have the correct access rights\nand the repository exists.\n";
        assert_eq!(
            last_words(ssh),
            "lines; Warning: added; Host key verification failed; fatal: Could not read from remote repository"
        );
        assert_eq!(last_words(b"hint: x\nfatal: no such thing\n"), "fatal: no such thing");
        assert_eq!(last_words(b"one\ntwo\n"), "two");
    }

    #[test]
    fn a_variable_of_the_call_is_not_taken_away_with_the_inherited_ones() {
        let directory = tempfile::tempdir().unwrap();
        let elsewhere = directory.path().join("elsewhere");
        let git = || Git::new(directory.path());
        git().args(["init", "--quiet"]).run().unwrap();
        git().env("GIT_INDEX_FILE", &elsewhere).args(["read-tree", "--empty"]).run().unwrap();
        assert!(elsewhere.exists() && !directory.path().join(".git/index").exists());
    }

    #[test]
    fn our_list_of_local_variables_is_gits() {
        let directory = tempfile::tempdir().unwrap();
        let output = Git::new(directory.path()).args(["rev-parse", "--local-env-vars"]).run().unwrap();
        let mut gits: Vec<String> = output.text().lines().map(str::to_owned).collect();
        gits.sort();
        // A newer git may omit variables of our list; none that it lists may be missing here.
        for name in &gits {
            assert!(LOCAL_VARIABLES.contains(&name.as_str()), "{name} is missing");
        }
    }
}
