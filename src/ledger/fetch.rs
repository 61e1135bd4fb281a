//! Fetches the ledgers of a remote, and takes over those that it decides.
//!
//! Invariant: a ref below `refs/aynig/runs/` is only ever moved to what the place of its run accepted. A ledger of a
//! remote that does not decide its run is reported, and left aside.

use std::collections::{HashMap, HashSet};

use bstr::{BString, ByteSlice};

use super::archive::archived_ref;
use super::error::LedgerError;
use super::place::Place;
use super::tip::{Tip, ledger_ref};
use super::{runs, set_back};
use crate::contract::ids::{CommitId, RemoteName};
use crate::contract::layout::FETCHED_RUNS;
use crate::git::Repo;
use crate::git::remote::QUESTION;
use crate::model::ids::{RunId, Slug};

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
    let ask = || repo.fetch_ledgers(remote);
    ask().or_else(|error| if set_back::released(repo) { ask() } else { Err(error) })?;
    let mut fetched = Fetched::default();
    let tips = repo.tips(&format!("{FETCHED_RUNS}{remote}/"))?;
    let there: HashSet<RunId> = tips.iter().filter_map(|tip| RunId::parse(&tip.branch.to_string())).collect();
    let gone = before.iter().filter(|(run, _)| !there.contains(run));
    follow_deleted(repo, remote, gone.map(|(run, head)| (*run, *head)), &mut fetched)?;
    for tip in tips {
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

/// Moves the refs here of runs that the remote has in its archive, and nowhere else.
fn follow_deleted(
    repo: &Repo,
    remote: &RemoteName,
    gone: impl Iterator<Item = (RunId, CommitId)>,
    fetched: &mut Fetched,
) -> Result<(), LedgerError> {
    let decided = |(run, head)| {
        let known = Tip::read_run(repo, run, head).ok()?.state.run;
        Place::is_remote(repo, remote, &known.decided_by).then_some((run, known.slug))
    };
    let gone: Vec<(RunId, Slug)> = gone.filter_map(decided).collect();
    if gone.is_empty() {
        return Ok(());
    }
    let names: Vec<BString> = gone.iter().map(|(run, _)| archived_ref(*run).into()).collect();
    let archived = repo.list_refs(remote, &names, QUESTION)?;
    let is_deleted = |run: RunId| archived.iter().any(|(name, _)| *name == archived_ref(run));
    for (run, slug) in gone.iter().filter(|(run, _)| is_deleted(*run)) {
        match set_back::fetch_run(repo, remote, *run, slug) {
            Ok(()) => fetched.moved.push(*run),
            Err(error) => fetched.refused.push((*run, error)),
        }
    }
    Ok(())
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
