//! The survey: one look at the HEAD of every branch, with a verdict for each (CONTRACT.md §2, §5, §11, §13).
//!
//! ```text
//! scan    what HEAD declares, and whether that can run here and now
//!   └─▶ resolve   which command a state means
//! observe how long this host has seen each lease
//! trust   whether HEAD is signed, where `aynig.requireSigned` is set
//! ```
//!
//! Invariant: `run`, `status` and `doctor` all call [`survey`], so they cannot disagree. It writes nothing but the sightings of
//! leases, and those only for `run --takeover observed`. Every branch that is not run has a reason: [`verdict`] holds
//! it as data, [`words`] as text.

pub(crate) mod observe;
pub mod resolve;
pub(crate) mod scan;
pub mod trust;
pub mod verdict;
pub mod words;

use std::io;
use std::sync::Arc;

pub(crate) use scan::SurveyError;
pub use verdict::{Branch, CommandsFrom, Leased, Question, Verdict};

/// All branches, judged.
#[derive(Debug)]
pub struct Survey {
    /// In the order of their names.
    pub branches: Vec<Branch>,
    /// Where all commands come from, unless each branch has its own.
    pub commands_from: Option<Arc<CommandsFrom>>,
    /// Why sightings could not be noted. With `--takeover observed` no lease is over then.
    pub(crate) unnoted: Option<io::Error>,
}

/// Judges all branches at one moment.
pub fn survey(question: &Question<'_>) -> Result<Survey, SurveyError> {
    let (mut branches, commands_from) = scan::scan(question)?;
    let unnoted = observe::observe(question, &mut branches).err();
    trust::vet(question.repo, &question.options.trust, &mut branches);
    Ok(Survey { branches, commands_from, unnoted })
}
