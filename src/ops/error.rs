//! Errors of operations: the action, its object, the cause, and what to do next.
//!
//! Invariant: every edge maps a [`Kind`] in one exhaustive place (the command line to an exit code,
//! a server to a status). A message and its hints hold text of commits and files unchanged;
//! printers sanitize it.

use std::path::Path;

use crate::contract::ids::RemoteName;
use crate::git::repo::config::ConfigError;
use crate::git::{OpenError, ProcessError};
use crate::model::decide::RefusalKind;
use crate::runner::authority::error::AuthorityError;
use crate::runner::clean::CleanError;
use crate::runner::passes::pass::PassError;
use crate::runner::survey::SurveyError;
use crate::runner::survey::trust::TrustError;
use crate::words::{error_chain, shell_quote};

/// Classifies errors by what the caller can do about them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The request is wrong in itself.
    Usage,
    /// The request names an object that does not exist.
    NotFound,
    /// The branch moved meanwhile, or is no longer held.
    Conflict,
    /// The request was valid, and was not fulfilled.
    Failed,
    /// The environment is wrong: no repository, an unknown format, a broken configuration, no free
    /// space.
    Setup,
    /// The remote is unreachable, or refuses.
    Remote,
    /// A bug in aynig.
    Bug,
}

/// The beginning of the message of a failed pass.
const NOTHING_RUN: &str = "nothing was run: ";

/// Why an operation failed.
#[derive(Debug)]
pub struct Error {
    /// The kind of the error.
    pub kind: Kind,
    /// The action, its object, and the cause.
    pub message: String,
    /// The next steps, one sentence each.
    pub hints: Vec<String>,
    /// Whether the change may have been applied nevertheless: a remote did not answer.
    pub maybe_applied: bool,
    /// The kind and the code of the model's refusal, for programs.
    pub rule: Option<(RefusalKind, &'static str)>,
}

impl Error {
    /// Returns an error without hints. It states that nothing was changed.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hints: Vec::new(), maybe_applied: false, rule: None }
    }

    /// Returns an error of the kind [`Kind::Usage`].
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Kind::Usage, message)
    }

    /// Returns an error of the kind [`Kind::Setup`].
    pub fn setup(message: impl Into<String>) -> Self {
        Self::new(Kind::Setup, message)
    }

    /// Returns an error of the kind [`Kind::Failed`].
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(Kind::Failed, message)
    }

    /// Returns a set-up error with the text of `error`. `trying` is the action that failed.
    pub fn because(trying: &str, error: &dyn std::error::Error) -> Self {
        Self::setup(format!("could not {trying}: {}", error_chain(error)))
    }

    /// Rewords the error for a run that had already executed steps.
    pub fn after_others(mut self) -> Self {
        if let Some(rest) = self.message.strip_prefix(NOTHING_RUN) {
            self.message = format!("nothing more was run: {rest}");
        }
        self
    }

    /// Adds a hint.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }
}

impl From<OpenError> for Error {
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
                // Git expects the directory of the checkout, or else of the bare repository.
                let named = if path.ends_with(".git") { path.parent().unwrap_or(&path) } else { &path };
                Self::setup(message)
                    .hint(format!("if you trust it: git config --global --add safe.directory {}", named.display()))
            }
            OpenError::Dangling { .. } => Self::setup(message).hint(
                "if the repository was moved, `git worktree repair` in it mends the links to its worktrees; \
                 if it is gone, so is what this directory belonged to: remove the file",
            ),
            OpenError::Piped { file } => {
                let shown = shell_quote(file.as_os_str().as_encoded_bytes());
                Self::setup(message).hint(format!("`rm {shown}`, and write it anew if it had something; then again"))
            }
            OpenError::NoWorkTree { file, .. } => {
                let shown = shell_quote(file.as_os_str().as_encoded_bytes());
                Self::setup(message).hint(format!("`git -C / config --file {shown} --unset core.worktree`, then again"))
            }
            OpenError::Broken { .. } => Self::setup(message).hint(
                "`git config --list` in it names a line that cannot be read, `git fsck` what is damaged (and no line of its \
                 `objects/info/alternates` may lead back to it); mend that and run again",
            ),
        }
    }
}

impl From<SurveyError> for Error {
    fn from(error: SurveyError) -> Self {
        let message = format!("could not look at the branches: {}", error_chain(&error));
        match error {
            SurveyError::NoCurrentBranch { .. } => Self::setup(message).hint(
                "check out a branch first, or leave --current-branch only away to run the other branches",
            ),
            SurveyError::FollowsNone { ref local, ref remote } => Self::setup(message)
                .hint(format!("let it follow one: `git branch --set-upstream-to={remote}/BRANCH {local}`"))
                .hint(format!("if {remote} does not have it: `git push -u {remote} {local}`"))
                .hint("or leave --current-branch only away to run the other branches"),
            SurveyError::Refs(_) => Self::setup(message).hint("`aynig doctor` names what is damaged"),
            SurveyError::Worktrees(_) => Self::setup(message),
        }
    }
}

impl From<AuthorityError> for Error {
    fn from(error: AuthorityError) -> Self {
        Self {
            kind: if error.is_remote() { Kind::Remote } else { Kind::Setup },
            message: error_chain(&error),
            hints: if let AuthorityError::Refused { remote, branch, .. } = &error {
                vec![format!(
                    "nothing was changed; `aynig status --remote {remote} --branch {}` shows whether somebody holds the branch",
                    shell_quote(branch)
                )]
            } else {
                reachable(&error)
            },
            maybe_applied: error.leaves_open().unwrap_or(false),
            rule: None,
        }
    }
}

/// Returns the command that shows whether the remote is reachable, if the remote is the cause.
fn reachable(error: &AuthorityError) -> Vec<String> {
    let remote = error.remote().filter(|_| error.is_remote());
    let ask = |remote: &RemoteName| {
        format!("`git ls-remote {}` shows whether it can be reached", shell_quote(remote.as_str()))
    };
    let words = error_chain(error);
    if words.contains("bad object refs/") {
        return vec![
            "a ref of this repository is damaged: `aynig doctor` names it, and the next step".to_owned(),
        ];
    }
    let mut hints: Vec<String> = remote.map(ask).into_iter().collect();
    if error.is_remote() && UNASKED.iter().any(|unasked| words.contains(unasked)) {
        hints.push(
            "aynig asks nothing: `ssh-add` gives an agent the key, a git credential helper has the password, and that \
             `git ls-remote` asks whether to trust the host"
                .to_owned(),
        );
    }
    hints
}

/// Messages of ssh and git for a prompt that could not be shown.
const UNASKED: [&str; 5] = [
    "Permission denied",
    "Host key verification failed",
    "terminal prompts disabled",
    "could not read Username",
    "could not read Password",
];

impl From<CleanError> for Error {
    fn from(error: CleanError) -> Self {
        Self::setup(format!("nothing was removed: {}", error_chain(&error)))
            .hint("`aynig doctor` names what is damaged")
    }
}

impl From<TrustError> for Error {
    fn from(error: TrustError) -> Self {
        let setup = Self::setup(error_chain(&error));
        match error {
            TrustError::Unsigned { commit, .. } => setup
                .hint("read its commands; then let somebody whose key is trusted here put a signed commit on top of it")
                .hint(format!("or name the commit, which nobody can change: `git config aynig.commandsFrom {commit}`")),
            TrustError::Name { .. } | TrustError::Unreadable { .. } => setup
                .hint("`git for-each-ref` lists the refs there are; `git config aynig.commandsFrom REF` names another one"),
        }
    }
}

impl From<PassError> for Error {
    fn from(error: PassError) -> Self {
        match error {
            PassError::Survey(error) => error.into(),
            PassError::Remote(ref cause) => Self {
                kind: if cause.is_remote() { Kind::Remote } else { Kind::Setup },
                message: format!("{NOTHING_RUN}{}", error_chain(&error)),
                hints: reachable(cause),
                maybe_applied: cause.leaves_open().unwrap_or(false),
                rule: None,
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
                Self::setup(format!("{NOTHING_RUN}{}", error_chain(&error))).hint(hint)
            }
            PassError::Trust(error) => {
                let error = Self::from(error);
                Self { message: format!("{NOTHING_RUN}{}", error.message), ..error }
            }
            PassError::Reconfigured => Self::setup(error.to_string()).hint("run again; the settings are read at the start"),
            PassError::Gone { .. } => Self::setup(error.to_string())
                .hint("where it was moved to, start anew: `aynig -C DIR run --watch`; leases held here end by themselves"),
            PassError::Worktrees(_) | PassError::Logs(_) => {
                Self::setup(format!("{NOTHING_RUN}{}", error_chain(&error)))
            }
        }
    }
}

/// Returns the hint for a lock file of git that is in the way.
pub fn unlock(lock: &Path) -> String {
    format!("if no git is at work here (`pgrep -a git`): rm {}", shell_quote(lock.display().to_string()))
}
