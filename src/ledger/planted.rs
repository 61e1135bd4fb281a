//! What somebody put in the place of a run's refs at its hub, and is none of its operations (CONTRACT 16.13).
//!
//! Invariant: nothing of it is taken over. The run is held until a person has taken it off.

use super::archive::archived_ref;
use super::check::check_since;
use super::error::{LedgerError, Planted};
use super::tip::ledger_ref;
use crate::contract::ids::{CommitId, RemoteName};
use crate::git::Repo;
use crate::model::ids::{RunId, Slug};

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
