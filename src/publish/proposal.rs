//! The kinds of forges, and what is known of a proposal.

use std::path::PathBuf;

use crate::git::process::cancel::Interrupt;
use crate::stop::Stop;

/// The maker of proposals, as `aynig.forge` names it. It is never guessed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Forge {
    /// No proposal: the branch is only pushed.
    #[default]
    None,
    /// The program `gh`.
    Gh,
    /// The server, by options of the push (GitLab).
    PushOptions,
    /// The server, by a push to `refs/for/` (Gitea, Forgejo).
    Agit,
    /// A program of the operator's.
    Program(PathBuf),
}

impl Forge {
    /// Reads the setting.
    ///
    /// # Errors
    /// The values that there are.
    pub fn parse(text: &str) -> Result<Self, String> {
        Ok(match text {
            "none" => Self::None,
            "gh" => Self::Gh,
            "push-options" => Self::PushOptions,
            "agit" => Self::Agit,
            path if path.starts_with('/') => Self::Program(path.into()),
            _ => {
                return Err(
                    "write none, gh, push-options, agit, or the absolute path of a program".to_owned()
                );
            }
        })
    }

    /// Whether a push by itself makes the proposal.
    pub(super) fn is_by_push(&self) -> bool {
        matches!(self, Self::PushOptions | Self::Agit)
    }
}

/// The state of a proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProposalState {
    /// It can be merged.
    Open,
    /// Somebody closed it.
    Closed,
    /// It was merged.
    Merged,
}

impl ProposalState {
    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Closed => "closed",
            Self::Merged => "merged",
        }
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let all = [Self::Open, Self::Closed, Self::Merged];
        all.into_iter().find(|state| text.eq_ignore_ascii_case(state.word()))
    }
}

/// A proposal: a pull request, a merge request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposal {
    /// Its address.
    pub url: String,
    /// Its number.
    pub number: Option<u64>,
    /// Its state.
    pub state: ProposalState,
    /// Title and text, if they are known.
    pub(super) texts: Option<Texts>,
}

impl Proposal {
    /// An open one of which the address is known. The number is the address's last part.
    pub(super) fn at(url: &str) -> Self {
        let url: String = url.chars().filter(|c| !c.is_control()).collect();
        let number = url.rsplit('/').next().and_then(|last| last.parse().ok());
        Self { url, number, state: ProposalState::Open, texts: None }
    }
}

/// Title and text of a proposal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Texts {
    pub(super) title: String,
    pub(super) body: String,
}

/// The subject of a proposal.
pub(super) struct Subject<'a> {
    /// The remote.
    pub(super) remote: &'a str,
    /// Its address.
    pub(super) address: &'a str,
    /// The branch.
    pub(super) head: &'a str,
    /// The branch that it is to be merged into.
    pub(super) base: &'a str,
    /// The commit of the branch.
    pub(super) commit: String,
    pub(super) texts: &'a Texts,
    pub(super) draft: bool,
    /// The address of the last one that is known.
    pub(super) previous: Option<&'a str>,
    /// Where programs are started.
    pub(super) directory: &'a std::path::Path,
    pub(super) stop: &'a Stop,
    pub(super) interrupt: &'a Interrupt,
}
