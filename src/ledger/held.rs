//! The runs that are held here, since their hub has set their ledger back, or has what is none of their operations
//! (CONTRACT 16.11, 16.13).
//!
//! Invariant: nothing is asked; what was last fetched counts.

use super::archive::archived;
use super::error::LedgerError;
use super::place::Place;
use super::planted::{in_archive, on_ledger};
use super::set_back::{self, fetched_ref};
use super::tip::{Tip, ledger_ref};
use crate::contract::ids::RemoteName;
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
    let is_archived = archived(repo, run)?.is_some();
    let remotes = repo.remote_names().into_iter().filter_map(|name| RemoteName::parse(&name).ok());
    let fetched = remotes.map(|remote| repo.read_ref(fetched_ref(&remote, run).as_str().into()));
    let fetched = fetched.collect::<Result<Vec<_>, _>>()?;
    if !is_archived && !fetched.into_iter().flatten().any(|there| there != here) {
        return Ok(None);
    }
    let known = Tip::read_run(repo, run, here)?.state.run;
    let Place::Remote(remote) = Place::of(repo, run, &known.decided_by)? else { return Ok(None) };
    let Some(there) = repo.read_ref(fetched_ref(&remote, run).as_str().into())? else { return Ok(None) };
    let planted = match Tip::read_run(repo, run, there) {
        _ if is_archived => in_archive(repo, &remote, run, &known.slug)?,
        Err(LedgerError::Damaged { why, .. }) => {
            on_ledger(repo, &remote, (run, &known.slug), (here, there), &why)?
        }
        Ok(_) | Err(_) => return Ok(None),
    };
    Ok(Some(Held { remote, words: planted.to_string(), next: planted.takes_off }))
}
