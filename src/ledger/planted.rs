//! What somebody put in the place of a run's refs at its hub, and is none of its operations (CONTRACT 16.13).
//!
//! Invariant: nothing of it is taken over. The run is held until a person has taken it off.

use super::archive::{Archived, archived_ref};
use super::check::added_since;
use super::error::{LedgerError, Planted};
use super::history::backwards;
use super::tip::{Tip, ledger_ref};
use crate::contract::ids::{CommitId, RemoteName};
use crate::git::Repo;
use crate::git::objects::trusted::refusals;
use crate::git::process::cancel::Purpose;
use crate::model::event::{Body, Event};
use crate::model::ids::{RunId, Slug};

/// Why a commit of a ledger is not taken over.
pub(super) enum Wrong {
    /// It is no operation, or cannot be read.
    Damaged(String),
    /// It has no trusted signature, and `aynig.requireSigned` is set.
    Unsigned(String),
}

impl Wrong {
    /// What is wrong with the commit `there` of a ledger, for a clone that is at `here`. One that is not ahead of `here` is
    /// judged as set back (16.11). What is taken over was looked at, so only what was added needs a look.
    pub(super) fn of(
        repo: &Repo,
        run: RunId,
        (here, there): (Option<CommitId>, CommitId),
    ) -> Result<Option<Self>, LedgerError> {
        match Tip::read_run(repo, run, there) {
            Err(LedgerError::Damaged { why, .. }) => return Ok(Some(Self::Damaged(why))),
            Err(error) => return Err(error),
            Ok(_) if here.is_none_or(|here| repo.descends(there, here)) => {}
            Ok(_) => return Ok(None),
        }
        let (added, why) = added_since(repo, run, here, there)?;
        if why.is_some() || !repo.requires_signed() {
            return Ok(why.map(Self::Damaged));
        }
        let mut refused = refusals(repo, &added.iter().copied().collect(), &[], Purpose::Scan);
        Ok(added.iter().find_map(|commit| refused.remove(commit)).map(Self::Unsigned))
    }

    /// The error for a clone without the run.
    pub(super) fn of_new(self, run: RunId, commit: CommitId) -> LedgerError {
        match self {
            Self::Damaged(why) => LedgerError::Damaged { run, commit, why },
            Self::Unsigned(why) => LedgerError::Unsigned { run, commit, why },
        }
    }
}

/// A commit `there` that `remote` has on the ledger of a run, and that is not taken over.
pub(super) fn on_ledger(
    repo: &Repo,
    remote: &RemoteName,
    (run, slug): (RunId, &Slug),
    (here, there): (CommitId, CommitId),
    wrong: &Wrong,
) -> Result<Planted, LedgerError> {
    let to = repo.namespace()?.there(ledger_ref(run).as_str().into());
    let above: Vec<CommitId> = match repo.descends(there, here) {
        true => {
            repo.history(there).map_while(|one| Some(one.ok()?.id)).take_while(|id| *id != here).collect()
        }
        false => Vec::new(),
    };
    // Operations of others may be below it.
    let is_good = |id: &CommitId| matches!(Wrong::of(repo, run, (Some(here), *id)), Ok(None));
    let good = above.into_iter().find(is_good).unwrap_or(here);
    let words = match wrong {
        Wrong::Damaged(why) => format!("the ledger of run {slug} is damaged at {remote}: {why} ({there})"),
        Wrong::Unsigned(why) => format!(
            "the ledger of run {slug} has an operation at {remote} without a trusted signature: {why}; \
             `git update-ref {} {there}` takes it over as it is",
            ledger_ref(run)
        ),
    };
    Ok(Planted {
        words,
        takes_off: vec![format!("git push --force-with-lease={to}:{there} {remote} {good}:{to}")],
    })
}

/// Whether a run was not deleted, although an archive has it: its hub has the ledger, too (`there`), or what the archive has
/// is no deletion for a clone whose own ledger is at `here`. Anyone who can push may put something there.
pub(super) fn is_planted(
    repo: &Repo,
    archived: &Archived,
    (here, there): (Option<CommitId>, Option<CommitId>),
) -> Result<bool, LedgerError> {
    let Archived { run, ledger } = *archived;
    let known = here.filter(|here| repo.descends(ledger, *here));
    if there.is_some() || (known != Some(ledger) && Wrong::of(repo, run, (known, ledger))?.is_some()) {
        return Ok(true);
    }
    let newest = backwards(repo, run, ledger).next().transpose()?;
    let deletes = |event: &Event| matches!(event.body, Body::RunDeleted(_));
    Ok(!newest.is_some_and(|newest| newest.events.iter().any(deletes)))
}

/// A ref in the archive of `remote` for a run that nobody has deleted: a deletion moves the ledger there. This clone's
/// ledger is at `here`, that of the remote at `there`.
pub(super) fn in_archive(
    repo: &Repo,
    remote: &RemoteName,
    (run, slug): (RunId, &Slug),
    (here, there): (Option<CommitId>, Option<CommitId>),
) -> Result<Planted, LedgerError> {
    let name = archived_ref(run);
    let names = repo.namespace()?;
    let to = names.there(name.as_str().into());
    let words = match there {
        Some(_) => format!("{remote} has {to}, as if run {slug} was deleted, and its ledger, too"),
        None => format!("{remote} has {to}, which is no deletion of run {slug}, and its ledger no more"),
    };
    let gone = here.filter(|_| there.is_none());
    let back = gone.map(|here| format!(" {here}:{}", names.there(ledger_ref(run).as_str().into())));
    Ok(Planted {
        words,
        takes_off: vec![
            format!("git push {remote} :{to}{}", back.unwrap_or_default()),
            format!("git update-ref -d {name}"),
        ],
    })
}
