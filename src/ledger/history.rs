//! The operations of a run, oldest first: what journals and doctors read.

use super::error::LedgerError;
use super::message::{self, Recorded};
use crate::contract::ids::CommitId;
use crate::git::Repo;
use crate::git::objects::commits::Stored;
use crate::model::event::Event;
use crate::model::ids::{OpId, RunId};
use crate::model::state::{Fault, State};

/// One operation.
#[derive(Debug, Clone, PartialEq)]
pub struct Operation {
    /// Its commit.
    pub commit: CommitId,
    /// Its id.
    pub op: OpId,
    /// Its events.
    pub events: Vec<Event>,
    /// What is wrong with lines that are no events.
    pub bad: Vec<String>,
}

/// The operations after `after` (`None`: all) up to `tip`, oldest first. A line that is no event of record is passed
/// over with a warning in the diagnosis.
///
/// # Errors
/// [`LedgerError::Damaged`] if a commit is no operation, or `after` is not below `tip`.
pub fn operations(
    repo: &Repo,
    run: RunId,
    tip: CommitId,
    after: Option<CommitId>,
) -> Result<Vec<Operation>, LedgerError> {
    let mut found = Vec::new();
    let mut met = after.is_none();
    for commit in repo.history(tip) {
        let commit = commit?;
        if Some(commit.id) == after {
            met = true;
            break;
        }
        found.push(read(&commit, run)?);
    }
    if !met {
        let why = "it does not descend from what was read before".to_owned();
        return Err(LedgerError::Damaged { run, commit: tip, why });
    }
    found.reverse();
    Ok(found)
}

/// The operations up to `tip`, the newest first, each read when it is asked for.
pub fn backwards(
    repo: &Repo,
    run: RunId,
    tip: CommitId,
) -> impl Iterator<Item = Result<Operation, LedgerError>> + '_ {
    repo.history(tip).map(move |commit| read(&commit?, run))
}

fn read(commit: &Stored, run: RunId) -> Result<Operation, LedgerError> {
    let damaged = |why: &str| LedgerError::Damaged { run, commit: commit.id, why: why.to_owned() };
    if commit.parents.len() > 1 {
        return Err(damaged("it joins two histories, and a ledger is linear"));
    }
    let recorded = message::decode(&commit.message, run);
    let Recorded { op, events, bad } =
        recorded.ok_or_else(|| damaged("its message is none of an operation of this run"))?;
    let bad = bad.into_iter().map(|(line, error)| format!("line {line} of its message: {error}"));
    let bad: Vec<String> = bad.collect();
    for why in &bad {
        tracing::warn!(commit = %commit.id, why, "a line of a ledger was passed over");
    }
    Ok(Operation { commit: commit.id, op, events, bad })
}

/// Replays operations on top of a state, `None` for a run's beginning. Returns the state, and what did not fit, with its
/// commit.
#[must_use]
pub fn replay(mut state: Option<State>, operations: &[Operation]) -> (Option<State>, Vec<(CommitId, Fault)>) {
    let mut faults = Vec::new();
    for operation in operations {
        for event in &operation.events {
            let applied = match &mut state {
                None => State::begin(event).map(|(begun, _)| state = Some(begun)),
                Some(state) => state.apply(event).map(drop),
            };
            if let Err(fault) = applied {
                faults.push((operation.commit, fault));
            }
        }
    }
    (state, faults)
}
