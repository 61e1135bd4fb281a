//! What somebody put in the place of a run's refs at its hub, and is none of its operations (CONTRACT 16.13).
//!
//! Invariant: nothing of it is taken over. The run is held until a person has taken it off.

use super::archive::{archived, archived_ref};
use super::check::check_since;
use super::error::{LedgerError, Planted};
use super::place::Place;
use super::set_back::{self, fetched_ref};
use super::tip::{Tip, ledger_ref};
use crate::contract::ids::{CommitId, RemoteName};
use crate::git::Repo;
use crate::model::ids::{RunId, Slug};

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

/// A commit `there` that `remote` has on the ledger of a run, and that cannot be read: `why`.
pub(super) fn on_ledger(
    repo: &Repo,
    remote: &RemoteName,
    (run, slug): (RunId, &Slug),
    (here, there): (CommitId, CommitId),
    why: &str,
) -> Result<Planted, LedgerError> {
    let to = repo.namespace()?.there(ledger_ref(run).as_str().into());
    let above: Vec<CommitId> = match repo.descends(there, here) {
        true => {
            repo.history(there).map_while(|one| Some(one.ok()?.id)).take_while(|id| *id != here).collect()
        }
        false => Vec::new(),
    };
    // Operations of others may be below it.
    let is_good =
        |id: &CommitId| matches!(check_since(repo, run, here, *id), Ok((good, None)) if good == *id);
    let good = above.into_iter().find(is_good).unwrap_or(here);
    Ok(Planted {
        words: format!("the ledger of run {slug} is damaged at {remote}: {why} ({there})"),
        takes_off: vec![format!("git push --force-with-lease={to}:{there} {remote} {good}:{to}")],
    })
}

/// A ref in the archive of `remote` for a run that nobody has deleted: a deletion moves the ledger there.
pub(super) fn in_archive(
    repo: &Repo,
    remote: &RemoteName,
    run: RunId,
    slug: &Slug,
) -> Result<Planted, LedgerError> {
    let name = archived_ref(run);
    let to = repo.namespace()?.there(name.as_str().into());
    Ok(Planted {
        words: format!("{remote} has {to}, as if run {slug} was deleted, and its ledger, too"),
        takes_off: vec![format!("git push {remote} :{to}"), format!("git update-ref -d {name}")],
    })
}
