//! Flow files: a task through agents, validators, a planner, gates and rollbacks (CONTRACT 18).
//!
//! Pure, like [`crate::contract`]: no clock, no file, no repository. The files of a base commit that a flow names are
//! handed in.
//!
//! ```text
//! bytes ──yaml──▶ tree ──read──▶ Flow ──proofs──▶ notes         Flow + files ──base──▶ notes
//! ```
//!
//! Invariant: a file with a fault has no flow that may be run, and every fault is reported at once, with its line and
//! column.
//!
//! | file | contains |
//! |---|---|
//! | [`fault`] | faults and warnings with their positions |
//! | [`yaml`] | YAML as plain data |
//! | [`document`] | a flow as types |
//! | `fields`, `read` | from the tree to the types |
//! | `proofs` | what must hold of all steps together |
//! | [`base`] | prompts and scripts of the base commit |
//! | [`graph`] | drawings |
//! | `members` | members of JSON that programs wrote |
//! | [`operations`] | what a policy can forbid |
//! | [`due`] | what is due after the steps of a run |
//! | [`verdict`] | what became of a run |
//! | [`rounds`] | loops, told by their effects |
//! | [`ruling`] | what comes of a planner's answer |
//! | [`schema`] | the JSON Schema |
//! | [`substitution`] | inputs in texts |

pub mod base;
pub mod document;
pub mod due;
pub mod fault;
pub(crate) mod fields;
pub mod graph;
pub(crate) mod members;
pub mod operations;
mod proofs;
mod read;
pub mod rounds;
pub mod ruling;
pub mod schema;
pub mod substitution;
pub mod verdict;
pub mod yaml;

use document::Flow;
use fault::{Note, Notes};

pub(crate) use read::{APPROVAL, EXECUTION, NETWORK, PREDEFINED, is_pattern, is_plain_path};

/// A file that was checked.
#[derive(Debug)]
pub struct Checked {
    /// The flow, as far as it could be read: with a fault it may only be shown. `None` if steps are missing.
    pub flow: Option<Flow>,
    /// Faults and warnings, by position.
    pub notes: Vec<Note>,
}

/// Checks a file.
#[must_use]
pub fn check(bytes: &[u8]) -> Checked {
    let mut notes = Notes::default();
    let Some(draft) = read::read(bytes, &mut notes) else {
        return Checked { flow: None, notes: notes.sorted() };
    };
    read::check_policies(&draft.flow, &mut notes);
    match draft.unread.as_deref() {
        Some([]) => proofs::prove(&draft.flow, &mut notes),
        Some(unread) => proofs::check_targets(&draft.flow, unread, &mut notes),
        None => {}
    }
    let is_whole = draft.unread.is_some_and(|unread| unread.is_empty());
    Checked { flow: Some(draft.flow).filter(|_| is_whole), notes: notes.sorted() }
}

#[cfg(test)]
mod tests;
