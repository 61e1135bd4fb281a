//! The runs that are held here, since their hub has set their ledger back, or has what is none of their operations
//! (CONTRACT 16.11, 16.13).
//!
//! Invariant: nothing is asked; what was last fetched counts.

use std::collections::{BTreeMap, BTreeSet};

use super::archive::{all_archived, archived};
use super::error::LedgerError;
use super::place::Place;
use super::planted::{Wrong, in_archive, is_planted, on_ledger};
use super::runs;
use super::set_back::{self, fetched_ref};
use super::tip::{Tip, ledger_ref};
use crate::contract::ids::{CommitId, RemoteName};
use crate::contract::layout::FETCHED_RUNS;
use crate::git::Repo;
use crate::model::ids::RunId;

/// A run that is held here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// The hub.
    pub remote: RemoteName,
    /// Why.
    pub words: String,
    /// The commands that help.
    pub next: Vec<String>,
}

/// The runs that are held here, with the newest commits of their ledgers. Of the others no ref is read by itself: a run
/// is held only if it is in the archive too, or what was last fetched is another commit.
///
/// # Errors
/// [`LedgerError`] if refs cannot be read.
pub fn all(repo: &Repo) -> Result<Vec<(RunId, CommitId, Held)>, LedgerError> {
    let archived: BTreeSet<RunId> = all_archived(repo)?.into_iter().map(|archived| archived.run).collect();
    let mut fetched: BTreeMap<RunId, Vec<CommitId>> = BTreeMap::new();
    for remote in repo.remote_names() {
        for tip in repo.tips(&format!("{FETCHED_RUNS}{remote}/"))? {
            if let (Some(run), Ok(there)) = (RunId::parse(&tip.branch.to_string()), tip.target) {
                fetched.entry(run).or_default().push(there);
            }
        }
    }
    let may_be = |(run, here): &(RunId, CommitId)| {
        archived.contains(run) || fetched.get(run).is_some_and(|all| all.iter().any(|there| there != here))
    };
    let runs = runs::all(repo)?.into_iter().filter(may_be);
    Ok(runs.filter_map(|(run, here)| Some((run, here, held(repo, run).ok()??))).collect())
}

/// Why a run is held here, by what was last fetched.
///
/// # Errors
/// [`LedgerError`] if refs cannot be read, or the run is decided elsewhere.
pub fn held(repo: &Repo, run: RunId) -> Result<Option<Held>, LedgerError> {
    if let Some(back) = set_back::held(repo, run)? {
        let (remote, words) = (back.remote.clone(), back.to_string());
        return Ok(Some(Held { remote, words, next: vec![back.gives_back, back.accepts] }));
    }
    let Some(here) = repo.read_ref(ledger_ref(run).as_str().into())? else { return Ok(None) };
    let archived = archived(repo, run)?;
    let remotes = repo.remote_names().into_iter().filter_map(|name| RemoteName::parse(&name).ok());
    let fetched = remotes.map(|remote| repo.read_ref(fetched_ref(&remote, run).as_str().into()));
    let fetched = fetched.collect::<Result<Vec<_>, _>>()?;
    if archived.is_none() && !fetched.into_iter().flatten().any(|there| there != here) {
        return Ok(None);
    }
    let known = Tip::read_run(repo, run, here)?.state.run;
    let Place::Remote(remote) = Place::of(repo, run, &known.decided_by)? else { return Ok(None) };
    let there = repo.read_ref(fetched_ref(&remote, run).as_str().into())?;
    let planted = match there {
        _ if archived.is_some_and(|one| is_planted(repo, &one, (Some(here), there)).unwrap_or(true)) => {
            in_archive(repo, &remote, (run, &known.slug), (Some(here), there))?
        }
        None => return Ok(None),
        Some(there) => match Wrong::of(repo, run, (Some(here), there)) {
            Ok(Some(wrong)) => on_ledger(repo, &remote, (run, &known.slug), (here, there), &wrong)?,
            Ok(None) | Err(_) => return Ok(None),
        },
    };
    Ok(Some(Held { remote, words: planted.to_string(), next: planted.takes_off }))
}
