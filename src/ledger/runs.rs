//! Lists runs, and finds one by slug, prefix or id.

use super::error::LedgerError;
use super::tip::Tip;
use crate::contract::ids::CommitId;
use crate::contract::layout::RUNS;
use crate::git::Repo;
use crate::model::ids::{RunId, Slug};

/// The runs that are known here, by id, with the newest commits of their ledgers.
///
/// # Errors
/// [`LedgerError::Ref`] if refs cannot be read.
pub fn all(repo: &Repo) -> Result<Vec<(RunId, CommitId)>, LedgerError> {
    let tips = repo.tips(RUNS)?.into_iter();
    Ok(tips.filter_map(|tip| Some((RunId::parse(&tip.branch.to_string())?, tip.target.ok()?))).collect())
}

/// The run that a person means: a slug, an unambiguous prefix of an id, or an id.
///
/// # Errors
/// [`LedgerError::Unknown`] or [`LedgerError::Ambiguous`].
pub fn find(repo: &Repo, text: &str) -> Result<RunId, LedgerError> {
    let typed = text.to_ascii_lowercase().replace('-', "");
    let hex = !typed.is_empty() && typed.bytes().all(|byte| byte.is_ascii_hexdigit());
    let all = all(repo)?;
    let begins = |run: &RunId| hex && run.uuid().simple().to_string().starts_with(&typed);
    let found: Vec<RunId> = all.into_iter().map(|(run, _)| run).filter(begins).collect();
    match found.as_slice() {
        [run] => Ok(*run),
        [] => Err(LedgerError::Unknown(text.to_owned())),
        // A slug is longer where another run has the same beginning, so an exact slug decides.
        runs => {
            let own = |run: &&RunId| slug_of(repo, **run).is_some_and(|slug| slug.as_str() == typed);
            match runs.iter().filter(own).collect::<Vec<_>>().as_slice() {
                [run] => Ok(**run),
                _ => Err(LedgerError::Ambiguous { text: text.to_owned(), runs: found }),
            }
        }
    }
}

fn slug_of(repo: &Repo, run: RunId) -> Option<Slug> {
    let head = repo.read_ref(super::tip::ledger_ref(run).as_str().into()).ok()??;
    Some(Tip::read_run(repo, run, head).ok()?.state.run.slug)
}

/// Another run with this slug. Only a stranger can have made one of the two ([`fresh`]).
pub(super) fn others_with(repo: &Repo, run: RunId, slug: &Slug) -> Result<Option<RunId>, LedgerError> {
    let others = all(repo)?.into_iter().map(|(other, _)| other).filter(|other| *other != run);
    let mut same = others.filter(|other| Slug::of(*other, slug.as_str().len()) == *slug);
    Ok(same.find(|other| slug_of(repo, *other).as_ref() == Some(slug)))
}

/// A new random id whose first eight digits are no other run's, and its slug.
///
/// # Errors
/// [`LedgerError::Ref`] if refs cannot be read.
pub fn fresh(repo: &Repo) -> Result<(RunId, Slug), LedgerError> {
    let all = all(repo)?;
    loop {
        let id = RunId::random();
        let slug = Slug::of(id, 8);
        if !all.iter().any(|(run, _)| Slug::of(*run, 8) == slug) {
            return Ok((id, slug));
        }
    }
}
