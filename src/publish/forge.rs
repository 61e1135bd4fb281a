//! The calls of all kinds of forges.

use crate::workspace::refusal::Refusal;

use super::proposal::{Forge, Proposal, Subject};
use super::{gh, program};

impl Forge {
    /// The proposal with this head and this base: an open one, else the newest that is not. `None` if there is none, or
    /// if the forge cannot be asked.
    pub(super) fn find(&self, subject: &Subject<'_>) -> Result<Option<Proposal>, Refusal> {
        match self {
            Self::Gh => gh::find(subject),
            Self::Program(path) => program::find(path, subject),
            Self::None | Self::PushOptions | Self::Agit => Ok(None),
        }
    }

    /// Makes a proposal. `None`: there is one already, or this forge makes none.
    pub(super) fn create(&self, subject: &Subject<'_>) -> Result<Option<Proposal>, Refusal> {
        match self {
            Self::Gh => gh::create(subject),
            Self::Program(path) => program::create(path, subject),
            Self::None | Self::PushOptions | Self::Agit => Ok(None),
        }
    }

    /// Replaces title and text of a proposal.
    pub(super) fn update(&self, subject: &Subject<'_>, proposal: &Proposal) -> Result<(), Refusal> {
        match self {
            Self::Gh => gh::update(subject, proposal),
            Self::Program(path) => program::update(path, subject, proposal),
            Self::None | Self::PushOptions | Self::Agit => Ok(()),
        }
    }
}
