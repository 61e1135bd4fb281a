//! Errors of ledgers and journals: their kinds, and the next step.

use crate::fsutil::free_space_text;
use crate::journal::JournalError;
use crate::ledger::LedgerError;
use crate::ops::error::{Error, Kind};
use crate::words::error_chain;

impl From<LedgerError> for Error {
    fn from(error: LedgerError) -> Self {
        let message = error_chain(&error);
        let new = |kind| Self { rule: error.rule(), ..Self::new(kind, message.clone()) };
        match &error {
            LedgerError::Unknown(_) | LedgerError::Ambiguous { .. } | LedgerError::Deleted { .. } => {
                new(Kind::NotFound)
            }
            LedgerError::Refused(_)
            | LedgerError::TooLong { .. }
            | LedgerError::Elsewhere { .. }
            | LedgerError::Foreign { .. } => new(Kind::Failed),
            LedgerError::Version { .. } => {
                new(Kind::Failed).hint("nothing was changed; the version of aynig that made it reads it")
            }
            LedgerError::Damaged { .. }
            | LedgerError::Unsigned { .. }
            | LedgerError::SetBack(_)
            | LedgerError::Planted(_) => error.mends().into_iter().fold(new(Kind::Failed), Self::hint),
            LedgerError::Moved { .. }
            | LedgerError::Fenced { .. }
            | LedgerError::Busy { .. }
            | LedgerError::Shared { .. }
            | LedgerError::Leased { .. }
            | LedgerError::CheckedOut { .. } => new(Kind::Conflict),
            LedgerError::Unmoved { .. } => {
                let new = error.mends().into_iter().fold(new(Kind::Remote), Self::hint);
                Self { maybe_applied: true, ..new }
            }
            LedgerError::Remote(_) => error.mends().into_iter().fold(new(Kind::Remote), Self::hint),
            LedgerError::Object(_)
            | LedgerError::Ref(_)
            | LedgerError::Unsaved { .. }
            | LedgerError::Identity { .. } => new(Kind::Setup).hint("`git fsck` may tell more"),
            LedgerError::Masks(_) | LedgerError::Absent { .. } | LedgerError::Worktrees(_) => {
                new(Kind::Setup)
            }
        }
    }
}

impl From<JournalError> for Error {
    fn from(error: JournalError) -> Self {
        let message = error_chain(&error);
        match error {
            JournalError::Ledger(error) => error.into(),
            JournalError::Replaced { .. } => Self::new(Kind::Conflict, message),
            JournalError::Content { .. } | JournalError::NoEvent(_) | JournalError::Changes(_) => {
                Self::failed(message)
            }
            JournalError::File { ref path, .. } => {
                let room = free_space_text(&error, path);
                let error = Self::setup(message);
                match room {
                    Some(room) => error.hint(format!("make room and try again: {room}")),
                    None => error.hint(
                        "the files of runs are made from their ledgers, so they can be elsewhere: `git config aynig.dataDir DIR`",
                    ),
                }
            }
        }
    }
}
