//! Deletes runs: the ledger and the work branches move to the archive, the drivers go (CONTRACT 16.8).
//!
//! Invariant: a run that was deleted is found in the archive, and deleting it again changes nothing.

use std::collections::BTreeMap;

use super::archive::{Archived, Refs, archived, archived_ref, follow};
use super::error::LedgerError;
use super::operate::{Ledger, move_together, write};
use super::place::Place;
use super::race::pause;
use super::runs;
use crate::clock;
use crate::contract::ids::CommitId;
use crate::git::{Repo, Together};
use crate::model::decide::{Command, Op};
use crate::model::ids::RunId;

/// How many races a deletion may lose.
const TRIES: u32 = 20;

/// Deletes a run where it is decided. `force`: although a driver is under a live lease; its holder can then write
/// nothing more. Deleting it again reports the same.
///
/// # Errors
/// [`LedgerError`]; nothing is written then.
pub fn delete(repo: &Repo, run: RunId, op: &Op, force: bool) -> Result<Archived, LedgerError> {
    let done = |error: LedgerError| match error {
        LedgerError::Deleted { .. } => archived(repo, run)?.ok_or(error),
        error => Err(error),
    };
    let mut ledger = match Ledger::open(repo, run) {
        Ok(ledger) => ledger,
        Err(error) => return done(error),
    };
    for lost in 0..TRIES {
        if let Err(error) = ledger.refresh() {
            return done(error);
        }
        let slug = ledger.tip().state.run.slug.clone();
        if let Some(other) = runs::others_with(repo, run, &slug)? {
            return Err(LedgerError::Shared { run, other, slug });
        }
        let refs = Refs::of(repo, ledger.place(), run, &slug)?;
        if !force {
            refs.check_leases(repo)?;
        }
        let decided = ledger.decide(&[Command::DeleteRun], op)?;
        let commit = write(repo, Some(ledger.tip()), &decided, op, &BTreeMap::new())?;
        match move_together(repo, ledger.place(), &refs.changes(repo, run, ledger.tip().id, commit)?)? {
            Together::Won => {
                if *ledger.place() != Place::Here {
                    note(repo, run, commit)?;
                    follow(repo, run, &slug)?;
                }
                return Ok(Archived { run, ledger: commit });
            }
            Together::Lost { .. } => clock::pause(pause(lost)),
        }
    }
    Err(LedgerError::Busy { run, op: op.id, tries: TRIES })
}

/// Records here what the hub has accepted.
fn note(repo: &Repo, run: RunId, commit: CommitId) -> Result<(), LedgerError> {
    let name = archived_ref(run);
    let known = repo.read_ref(name.as_str().into())?;
    if known != Some(commit) {
        repo.swap(name.as_str().into(), known, commit, "aynig: accepted").map(drop)?;
    }
    Ok(())
}
