//! The survey: reads the HEAD of every branch and returns a verdict for each (CONTRACT 11.5).
//!
//! ```text
//! scan    checks whether the state of HEAD can run here and now
//!   ├─▶ reading   reads HEAD by itself
//!   ├─▶ resolve   finds the command for a state
//!   └─▶ past      reads the history of what would be run, for its bounds
//! line    walks down a branch, also where a merge has it behind a later parent
//! observe tracks how long this host has seen each lease
//! rest    tells whether a branch rests: for deferred states, and for `aynig wait`
//! trust   checks the signature of HEAD if `aynig.requireSigned` is set
//! ```
//!
//! Invariant: `run`, `status` and `doctor` all call [`survey`], so they cannot disagree. It writes only the
//! first sightings of leases, and only if [`Question::notes`] is set. Every branch that is not run has a
//! reason: [`verdict`] has it as data, [`words`] as text.

pub(crate) mod line;
pub(crate) mod observe;
pub(crate) mod past;
mod reading;
pub mod resolve;
pub mod rest;
pub(crate) mod scan;
pub mod trust;
pub mod verdict;
pub mod words;

use std::io;
use std::sync::Arc;

pub(crate) use scan::SurveyError;
pub use verdict::{Branch, CommandsFrom, Leased, Question, Verdict};

/// The verdicts on all branches.
#[derive(Debug)]
pub struct Survey {
    /// In the order of their names.
    pub branches: Vec<Branch>,
    /// The source of all commands (`--commands-from`). `None` if each branch has its own.
    pub commands_from: Option<Arc<CommandsFrom>>,
    /// Why first sightings could not be stored. With `--takeover observed` no lease counts as expired then.
    pub(crate) unnoted: Option<io::Error>,
}

/// Judges all branches at one moment.
pub fn survey(question: &Question<'_>) -> Result<Survey, SurveyError> {
    survey_after(question, Vec::new())
}

/// Judges all branches at one moment, where `earlier` are the branches of the survey before, with the same
/// options: of those whose HEAD has not moved most need not be read again.
pub(crate) fn survey_after(question: &Question<'_>, earlier: Vec<Branch>) -> Result<Survey, SurveyError> {
    let (mut branches, commands_from) = scan::scan(question, earlier)?;
    let unnoted = observe::observe(question, &mut branches).err();
    trust::vet(question.repo, &question.options.trust, &mut branches);
    Ok(Survey { branches, commands_from, unnoted })
}
