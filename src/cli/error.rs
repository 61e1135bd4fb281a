//! Errors as people see them: what was tried on what, why it failed, what to do next; and the exit codes.

use std::path::Path;
use std::process::ExitCode;

use crate::contract::ids::RemoteName;
use crate::git::config::ConfigError;
use crate::git::{OpenError, ProcessError};
use crate::runner::arbiter_error::ArbiterError;
use crate::runner::pass::PassError;
use crate::runner::survey::scan::ScanError;
use crate::runner::{error_words, typed};
use crate::stop::Cause;

use super::ui::harmless;

/// The exit codes, all of them. The README holds the same table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Done; also: nothing to do, or another runner was faster.
    Done,
    /// A command of this pass did not end well, or a state could not be set because the branch moved.
    Failed,
    /// The command line is wrong.
    Usage,
    /// The surroundings are wrong: no repository, a format we cannot read, a broken configuration, no space, no way to write the answer.
    Setup,
    /// The remote cannot be reached or refuses.
    Remote,
    /// A bug in aynig.
    Bug,
    /// Stopped by a signal.
    Signal(i32),
}

impl Exit {
    /// The number.
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Setup => 3,
            Self::Remote => 4,
            Self::Bug => 70,
            Self::Signal(signal) => u8::try_from(128 + (signal & 0x7f)).unwrap_or(255),
        }
    }
}

impl From<Cause> for Exit {
    fn from(cause: Cause) -> Self {
        match cause {
            Cause::Signal(signal) => Self::Signal(signal),
            // Only parts of the work are called off, never the process.
            Cause::Panic | Cause::CalledOff => Self::Bug,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// What the message of a pass that failed begins with.
const NOTHING_RUN: &str = "nothing was run: ";

/// Why a subcommand failed.
#[derive(Debug)]
pub struct CommandError {
    /// Which exit code.
    pub exit: Exit,
    /// What was tried on what, and why it failed.
    pub message: String,
    /// What to do next, one sentence each.
    pub hints: Vec<String>,
    /// Whether it may have come about all the same: a remote did not say.
    pub open: bool,
}

impl CommandError {
    /// It ends with this code, and certainly did not come about.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), hints: Vec::new(), open: false }
    }

    /// The command line cannot be meant.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// The surroundings do not allow it.
    pub fn setup(message: impl Into<String>) -> Self {
        Self::new(Exit::Setup, message)
    }

    /// It was understood and possible, and did not come about.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(Exit::Failed, message)
    }

    /// A set-up error out of a lower one; `trying` says what we were about to do.
    pub fn because(trying: &str, error: &dyn std::error::Error) -> Self {
        Self::setup(format!("could not {trying}: {}", error_words(error)))
    }

    /// The same for who has run something before.
    pub fn after_others(mut self) -> Self {
        if let Some(rest) = self.message.strip_prefix(NOTHING_RUN) {
            self.message = format!("nothing more was run: {rest}");
        }
        self
    }

    /// Adds the next thing to do.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }
}

impl From<OpenError> for CommandError {
    fn from(error: OpenError) -> Self {
        let message = error.to_string();
        match error {
            OpenError::NotFound { .. } => Self::setup(message)
                .hint("go to a repository, name one with `aynig -C DIR …`, or make one: `git init`")
                .hint("to see aynig at work in a repository of its own: `aynig demo`"),
            OpenError::Misnamed { .. } => {
                Self::setup(message).hint("unset GIT_DIR to have it looked for, or let it name a git directory")
            }
            OpenError::Unsupported { .. } => Self::setup(message)
                .hint("nothing was changed; `git refs migrate --ref-format=files` or a fresh clone in the files format makes it readable"),
            OpenError::Untrusted { path } => {
                // Git wants to be told the directory of the checkout, or else of the bare repository.
                let named = if path.ends_with(".git") { path.parent().unwrap_or(&path) } else { &path };
                Self::setup(message)
                    .hint(format!("if you trust it: git config --global --add safe.directory {}", named.display()))
            }
            OpenError::Dangling { .. } => Self::setup(message).hint(
                "if the repository was moved, `git worktree repair` in it mends the links to its worktrees; \
                 if it is gone, so is what this directory belonged to: remove the file",
            ),
            OpenError::Broken { .. } => Self::setup(message).hint(
                "`git config --list` in it names a line that cannot be read, `git fsck` what is damaged; mend that and run again",
            ),
        }
    }
}

impl From<ScanError> for CommandError {
    fn from(error: ScanError) -> Self {
        let message = format!("could not look at the branches: {}", error_words(&error));
        match error {
            ScanError::NoCurrentBranch { .. } => Self::setup(message).hint(
                "check out a branch first, or leave --current-branch only away to run the other branches",
            ),
            ScanError::FollowsNone { ref local, ref remote } => Self::setup(message)
                .hint(format!("let it follow one: `git branch --set-upstream-to={remote}/BRANCH {local}`"))
                .hint("or leave --current-branch only away to run the other branches"),
            ScanError::Refs(_) | ScanError::Worktrees(_) => {
                Self::setup(message).hint("`git fsck` and `git worktree list` may tell more")
            }
        }
    }
}

impl From<ArbiterError> for CommandError {
    fn from(error: ArbiterError) -> Self {
        Self {
            exit: if error.is_remote() { Exit::Remote } else { Exit::Setup },
            message: error_words(&error),
            hints: if let ArbiterError::Refused { remote, branch, .. } = &error {
                vec![format!(
                    "nothing was changed; `aynig status --remote {remote} --branch {}` shows whether somebody holds the branch",
                    typed(&branch.to_string())
                )]
            } else {
                reachable(&error)
            },
            open: error.leaves_open(false),
        }
    }
}

/// What shows whether a remote that is to blame can be reached.
fn reachable(error: &ArbiterError) -> Vec<String> {
    let remote = error.remote().filter(|_| error.is_remote());
    let ask = |remote: &RemoteName| {
        format!("`git ls-remote {}` shows whether it can be reached", typed(remote.as_str()))
    };
    let mut hints: Vec<String> = remote.map(ask).into_iter().collect();
    let words = error_words(error);
    if UNASKED.iter().any(|unasked| words.contains(unasked)) {
        hints.push(
            "aynig asks nothing: `ssh-add` gives an agent the key, a git credential helper has the password, and that \
             `git ls-remote` asks whether to trust the host"
                .to_owned(),
        );
    }
    hints
}

/// What ssh and git say where a person would have been asked.
const UNASKED: [&str; 5] = [
    "Permission denied",
    "Host key verification failed",
    "terminal prompts disabled",
    "could not read Username",
    "could not read Password",
];

impl From<PassError> for CommandError {
    fn from(error: PassError) -> Self {
        match error {
            PassError::Scan(error) => error.into(),
            PassError::Remote(ref cause) => Self {
                exit: if cause.is_remote() { Exit::Remote } else { Exit::Setup },
                message: format!("{NOTHING_RUN}{}", error_words(&error)),
                hints: reachable(cause),
                open: cause.leaves_open(false),
            },
            PassError::Git(error) => {
                let hint = match &error {
                    ConfigError::Git(ProcessError::NotStarted { .. }) => {
                        "put the directory of the program `git` into PATH (cron gives programs a short one)"
                    }
                    ConfigError::Git(_) => {
                        "git itself does not work with this repository; run again when `git status` does"
                    }
                    ConfigError::Unreadable(_) | ConfigError::NoBoolean { .. } | ConfigError::Disputed { .. } => {
                        "`git config --list --show-origin` shows all settings and where they are; those in the repository, \
                         of the account and in /etc/gitconfig are read alike"
                    }
                };
                Self::setup(format!("{NOTHING_RUN}{}", error_words(&error))).hint(hint)
            }
            PassError::Trust(_) => Self::setup(format!("{NOTHING_RUN}{}", error_words(&error)))
                .hint("`git for-each-ref` lists the refs there are; `git config aynig.commandsFrom REF` names another one"),
            PassError::Worktrees(_) | PassError::Logs(_) => {
                Self::setup(format!("{NOTHING_RUN}{}", error_words(&error)))
            }
        }
    }
}

/// What to do about a lock file of git that is in the way.
pub fn unlock(lock: &Path) -> String {
    format!("if no git is at work here (`pgrep -a git`): rm {}", typed(&lock.display().to_string()))
}

/// The text of an error, as it is printed; it may quote commits and file names, which are made harmless. Who has `stopped` it
/// themselves needs no advice, unless it is unknown what that has stopped.
pub fn render(error: &CommandError, stopped: bool) -> String {
    let heading = if stopped { "stopped" } else { "error" };
    let mut text = format!("{heading}: {}", harmless(&error.message));
    let hints: &[String] = if stopped && !error.open { &[] } else { &error.hints };
    for hint in hints {
        text.push_str("\n  hint: ");
        text.push_str(&harmless(hint));
    }
    text
}
