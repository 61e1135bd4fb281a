//! Journals: what this host shows of a run, made from its ledger.
//!
//! A run directory holds `events.jsonl`, one event a line with a number (`seq`: 1, 2, 3 …), and `state.json`. Events of
//! record come from the ledger, with the same ids in the same order on every host. Between them lies what only this
//! host saw. What is lost here is made again from the ledger.
//!
//! Invariant: a journal is never read to decide anything. Lines are appended under the lock of the run directory.
//!
//! | file | contains |
//! |---|---|
//! | [`directory`] | the run directory and its files |
//! | [`log`] | appends to `events.jsonl`, and mends its end |
//! | [`pages`] | reads it, by number |
//! | [`projection`] | `state.json` |
//! | [`artifacts`] | contents of artifacts |
//! | [`writer`] | appends what only this host saw |
//! | [`sync`] | brings both up to the ledger |
//! | [`check`] | compares both with the ledger |

pub mod artifacts;
pub mod check;
pub mod directory;
pub mod log;
pub mod pages;
pub mod projection;
pub mod sync;
pub mod writer;

use std::path::{Path, PathBuf};

use crate::git::process::call::ProcessError;
use crate::ledger::LedgerError;
use crate::model::ids::{ArtifactId, RunId};

/// Why a journal could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// A file failed.
    #[error("could not {doing} {}", path.display())]
    File {
        /// The action.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The position belongs to another journal: this one was made anew.
    #[error(
        "the journal of run {run} was made anew (it is {actual} now), so a position in the old one means nothing: read it from the beginning"
    )]
    Replaced {
        /// The run.
        run: RunId,
        /// The journal that is there.
        actual: String,
    },
    /// A content is not that of its artifact.
    #[error("the content is not that of artifact {id} ({name}): size or SHA-256 differ; it was not kept")]
    Content {
        /// The artifact.
        id: ArtifactId,
        /// Its name.
        name: String,
    },
    /// What was to be appended is no event.
    #[error("what was to be appended to a journal is no JSON object: {0}; nothing was written")]
    NoEvent(String),
    /// Git could not compare two trees.
    #[error("the changes could not be written")]
    Changes(#[from] ProcessError),
    /// The ledger could not be read.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

impl JournalError {
    pub(crate) fn file(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self + use<> {
        let path = path.to_path_buf();
        move |source| Self::File { doing, path, source }
    }
}
