//! Why a request about a workspace was not fulfilled, in words for people.

use crate::git::remote::RemoteError;
use crate::ledger::LedgerError;
use crate::model::decide::RefusalKind;
use crate::words::error_chain;

/// What the caller can do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The request is wrong in itself.
    Usage,
    /// There is no such workspace.
    NotFound,
    /// Something moved meanwhile, or is in use.
    Conflict,
    /// The request was valid, and was not fulfilled.
    Failed,
    /// The environment is wrong.
    Setup,
    /// The remote where a run is decided did not take it.
    Remote,
    /// That remote did not answer.
    Unanswered,
    /// That remote has set the ledger of a run back.
    SetBack,
}

impl Why {
    /// Whether the remote where a run is decided stands in the way, and nothing that was done here.
    pub(crate) fn is_of_remote(self) -> bool {
        matches!(self, Self::Remote | Self::Unanswered | Self::SetBack)
    }
}

/// A refused request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Its kind.
    pub why: Why,
    /// The object and the cause.
    pub message: String,
    /// The next steps.
    pub hints: Vec<String>,
    /// The kind and the code of the model's refusal, for programs.
    pub rule: Option<(RefusalKind, &'static str)>,
}

impl Refusal {
    pub(crate) fn new(why: Why, message: impl Into<String>) -> Self {
        Self { why, message: message.into(), hints: Vec::new(), rule: None }
    }

    /// A request that was valid, and was not fulfilled.
    pub(crate) fn failed(message: String, hints: Vec<String>) -> Self {
        Self { hints, ..Self::new(Why::Failed, message) }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// A failure with the text of `error`; `trying` is the action.
    pub(crate) fn because(trying: &str, error: &dyn std::error::Error) -> Self {
        Self::new(Why::Setup, format!("could not {trying}: {}", error_chain(error)))
    }
}

impl From<LedgerError> for Refusal {
    fn from(error: LedgerError) -> Self {
        let why = match &error {
            LedgerError::Unknown(_) | LedgerError::Ambiguous { .. } | LedgerError::Deleted { .. } => {
                Why::NotFound
            }
            LedgerError::Refused(_)
            | LedgerError::TooLong { .. }
            | LedgerError::Elsewhere { .. }
            | LedgerError::Foreign { .. }
            | LedgerError::Version { .. }
            | LedgerError::Damaged { .. }
            | LedgerError::Unsigned { .. } => Why::Failed,
            LedgerError::Moved { .. }
            | LedgerError::Fenced { .. }
            | LedgerError::Busy { .. }
            | LedgerError::Shared { .. }
            | LedgerError::Leased { .. }
            | LedgerError::CheckedOut { .. } => Why::Conflict,
            LedgerError::Unmoved { source, .. } if source.may_pass() => Why::Unanswered,
            LedgerError::Remote(RemoteError::Unreachable { .. }) => Why::Unanswered,
            LedgerError::Unmoved { .. } | LedgerError::Remote(_) => Why::Remote,
            LedgerError::SetBack(_) | LedgerError::Planted(_) => Why::SetBack,
            LedgerError::Object(_)
            | LedgerError::Ref(_)
            | LedgerError::Unsaved { .. }
            | LedgerError::Identity { .. }
            | LedgerError::Masks(_)
            | LedgerError::Absent { .. }
            | LedgerError::Worktrees(_) => Why::Setup,
        };
        let rule = error.rule();
        let new = Self { rule, ..Self::new(why, error_chain(&error)) };
        error.mends().into_iter().fold(new, Self::hint)
    }
}
