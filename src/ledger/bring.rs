//! Fetches commits of a run that this clone lacks: its base, and its work (CONTRACT 16.12).

use bstr::BString;

use super::error::LedgerError;
use super::place::Place;
use crate::contract::ids::CommitId;
use crate::contract::layout::WORKS;
use crate::git::Repo;
use crate::git::remote::PATIENCE;
use crate::model::run::Run;

/// Fetches those of the `wanted` commits of a run that are not here, from the remote that decides the run. If all are
/// here, or this repository decides, nothing is asked.
///
/// # Errors
/// [`LedgerError::Absent`] if the remote does not have one of them, else [`LedgerError::Remote`].
pub fn bring(repo: &Repo, place: &Place, run: &Run, wanted: &[CommitId]) -> Result<(), LedgerError> {
    let Place::Remote(remote) = place else { return Ok(()) };
    let lacking = || wanted.iter().copied().filter(|commit| repo.commit(*commit).is_err());
    if lacking().next().is_none() {
        return Ok(());
    }
    tracing::debug!(run = %run.slug, "fetching the base or the work of a run");
    let works = format!("{WORKS}{}/", run.id);
    repo.fetch_refs(remote, &[(&works, &works)], PATIENCE)?;
    let names: Vec<BString> = lacking().map(|commit| commit.to_string().into()).collect();
    // Branches, tags and archives have it, if anything does. A hub may refuse to be asked for a commit.
    if !names.is_empty()
        && let Err(error) = repo.fetch_objects(remote, &names, PATIENCE)
    {
        tracing::debug!(%error, "the hub does not give the commits");
    }
    match lacking().next() {
        None => Ok(()),
        Some(commit) => {
            let (slug, remote) = (run.slug.clone(), remote.clone());
            Err(LedgerError::Absent { slug, remote, commit })
        }
    }
}
