//! Fetches the ledgers of a remote, and takes over those that it decides.
//!
//! Invariant: a ref below `refs/aynig/runs/` is only ever moved to what the place of its run accepted. A ledger of a
//! remote that does not decide its run is reported, and left aside.

use std::collections::HashMap;

use bstr::ByteSlice;

use super::error::LedgerError;
use super::place::Place;
use super::tip::{Tip, ledger_ref};
use super::{runs, set_back};
use crate::contract::ids::{CommitId, RemoteName};
use crate::contract::layout::FETCHED_RUNS;
use crate::git::Repo;
use crate::model::ids::RunId;

/// What a fetch brought.
#[derive(Debug, Default)]
pub struct Fetched {
    /// The runs whose ledgers are newer than before.
    pub moved: Vec<RunId>,
    /// Ledgers that were not taken over, with the reason.
    pub refused: Vec<(RunId, LedgerError)>,
}

/// Fetches all ledgers of `remote` in one connection.
///
/// # Errors
/// [`LedgerError`] if it cannot be asked, or refs cannot be read.
pub fn fetch(repo: &Repo, remote: &RemoteName) -> Result<Fetched, LedgerError> {
    let before: HashMap<RunId, CommitId> = runs::all(repo)?.into_iter().collect();
    // A killed process may have left its lock.
    repo.fetch_ledgers(remote).or_else(|error| {
        if repo.release_dead_locks().is_empty() { Err(error) } else { repo.fetch_ledgers(remote) }
    })?;
    let mut fetched = Fetched::default();
    for tip in repo.tips(&format!("{FETCHED_RUNS}{remote}/"))? {
        // A name that is no id is nobody's ledger.
        let Some(run) = RunId::parse(&tip.branch.to_string()) else { continue };
        let Ok(there) = tip.target else { continue };
        match take_over(repo, remote, run, (before.get(&run).copied(), there)) {
            Ok(true) => fetched.moved.push(run),
            Ok(false) => {}
            // It is reported once. The run is shown as held.
            Err(LedgerError::SetBack(back)) if !back.is_new => {}
            Err(error) => fetched.refused.push((run, error)),
        }
    }
    set_back::release(repo, remote, None)?;
    Ok(fetched)
}

/// Moves the ref of a run forward to what `remote` has. Returns whether it moved.
fn take_over(
    repo: &Repo,
    remote: &RemoteName,
    run: RunId,
    (before, there): (Option<CommitId>, CommitId),
) -> Result<bool, LedgerError> {
    let here = repo.read_ref(ledger_ref(run).as_bytes().as_bstr())?;
    if here == Some(there) {
        return Ok(false);
    }
    // What is known here says who decides; a ledger that is new here speaks for itself.
    let decided_by = Tip::read_run(repo, run, here.unwrap_or(there))?.state.run.decided_by;
    if !Place::is_remote(repo, remote, &decided_by) {
        return Err(Place::foreign(repo, run, remote, &decided_by));
    }
    set_back::follow(repo, remote, run, (before, there))
}
