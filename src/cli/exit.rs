//! The exit codes, and how an error is printed.

use std::process::ExitCode;

use aynig::ops::error::{Error, Kind};
use aynig::ops::view::standing::Standing;
use aynig::stop::Cause;

use crate::cli::ui::sanitize;

/// All exit codes. `aynig(1)` has the same table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done; also: nothing to do, or another runner was faster.
    Done,
    /// A command of this pass did not end well, a state could not be set because the branch moved, or there is no
    /// branch of the name that was given.
    Failed,
    /// The command line is wrong.
    Usage,
    /// The environment is wrong: no repository, an unsupported format, broken configuration, no space, no way
    /// to write the answer.
    Setup,
    /// The remote cannot be reached or refuses.
    Remote,
    /// `aynig flow start --wait`: the run waits for a person. `aynig orch spawn`, `edge add`: a person was asked.
    Person,
    /// `aynig status --exit-code`: a branch runs, is due or is parked.
    Moves,
    /// `aynig status --exit-code`: a branch waits for somebody's answer.
    Waits,
    /// `aynig status --exit-code`: a branch is stalled, or a mistake keeps it from running.
    Stuck,
    /// A bug in aynig.
    Bug,
    /// `aynig wait` has reached its limit.
    TimedOut,
    /// Stopped by a signal.
    Signal(i32),
}

impl Exit {
    /// The number.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Setup => 3,
            Self::Remote => 4,
            Self::Person => 5,
            Self::Moves => 10,
            Self::Waits => 11,
            Self::Stuck => 12,
            Self::Bug => 70,
            Self::TimedOut => 124,
            Self::Signal(signal) => u8::try_from(128 + (signal & 0x7f)).unwrap_or(255),
        }
    }
}

impl From<Cause> for Exit {
    fn from(cause: Cause) -> Self {
        match cause {
            Cause::Signal(signal) => Self::Signal(signal),
            // A call that was called off ends only a part of the work, never the process.
            Cause::Panic | Cause::CalledOff => Self::Bug,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

impl From<Standing> for Exit {
    fn from(standing: Standing) -> Self {
        match standing {
            Standing::Rests => Self::Done,
            Standing::Moves => Self::Moves,
            Standing::Waits => Self::Waits,
            Standing::Stuck => Self::Stuck,
        }
    }
}

impl From<Kind> for Exit {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Failed | Kind::Conflict | Kind::NotFound => Self::Failed,
            Kind::Usage => Self::Usage,
            Kind::Setup => Self::Setup,
            Kind::Remote => Self::Remote,
            Kind::Bug => Self::Bug,
        }
    }
}

/// Renders an error as text. It may quote commits and file names, which are sanitised. A user who has
/// `stopped` it gets no hints, unless the effect of the stop is unknown.
pub(crate) fn render(error: &Error, stopped: bool) -> String {
    let heading = if stopped { "stopped" } else { "error" };
    let mut text = format!("{heading}: {}", sanitize(&error.message));
    let hints: &[String] = if stopped && !error.maybe_applied { &[] } else { &error.hints };
    let full = error.message.contains("No space left on device") && hints.is_empty();
    let room = full.then(|| "make room on that disk, then run it again".to_owned());
    for hint in hints.iter().chain(&room) {
        text.push_str("\n  hint: ");
        text.push_str(&sanitize(hint));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manual_lists_them() {
        let page = include_str!("help/pages/aynig.md");
        let table = page.split("# EXIT STATUS\n").nth(1).and_then(|rest| rest.split("\n# ").next());
        let table = table.expect("the section");
        for exit in [
            Exit::Done,
            Exit::Failed,
            Exit::Usage,
            Exit::Setup,
            Exit::Remote,
            Exit::Person,
            Exit::Moves,
            Exit::Waits,
            Exit::Stuck,
            Exit::Bug,
            Exit::TimedOut,
        ] {
            assert!(table.contains(&format!("\n| *{}* | ", exit.code())), "{exit:?} is missing in\n{table}");
        }
        assert!(table.contains("\n| *128+n* | "), "{table}");
    }
}
