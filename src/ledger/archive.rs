//! The archive of runs that were deleted, and the refs that go there (CONTRACT 16.8).
//!
//! Invariant: all refs of a run move as one, from the values that were looked at, so nothing that somebody writes
//! meanwhile is lost.

use bstr::{BString, ByteSlice};

use super::error::LedgerError;
use super::place::Place;
use super::runs;
use super::tip::ledger_ref;
use crate::clock;
use crate::contract::head::Head;
use crate::contract::ids::{BranchName, CommitId, RemoteName};
use crate::contract::layout::{ARCHIVE, ARCHIVED_LEDGER, HEADS, RUN_PREFIX, SLOTS, WORKS, archived_ledger};
use crate::contract::lease::Liveness;
use crate::git::remote::{PATIENCE, QUESTION};
use crate::git::{RefChange, RefError, Repo, Together};
use crate::model::ids::{RunId, Slug};

/// A run that was deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Archived {
    /// The run.
    pub run: RunId,
    /// The newest commit of its ledger.
    pub ledger: CommitId,
}

/// The ref of a deleted run's ledger.
#[must_use]
pub fn archived_ref(run: RunId) -> String {
    archived_ledger(run).to_string()
}

/// The deleted run with this id, as it is known here.
///
/// # Errors
/// [`LedgerError::Ref`] if refs cannot be read.
pub fn archived(repo: &Repo, run: RunId) -> Result<Option<Archived>, LedgerError> {
    let ledger = repo.read_ref(archived_ref(run).as_str().into())?;
    Ok(ledger.map(|ledger| Archived { run, ledger }))
}

/// All deleted runs that are known here, by id.
///
/// # Errors
/// [`LedgerError::Ref`] if refs cannot be read.
pub fn all_archived(repo: &Repo) -> Result<Vec<Archived>, LedgerError> {
    let ledgers = repo.tips(ARCHIVE)?.into_iter().filter_map(|tip| {
        let below = tip.branch.to_string();
        let run = RunId::parse(below.strip_suffix(ARCHIVED_LEDGER)?.strip_suffix('/')?)?;
        Some(Archived { run, ledger: tip.target.ok()? })
    });
    Ok(ledgers.collect())
}

/// Why a run has no ledger here: it was deleted, or it is unknown.
#[must_use]
pub fn missing(repo: &Repo, run: RunId) -> LedgerError {
    match archived(repo, run) {
        Ok(Some(_)) => LedgerError::Deleted { run, archive: archived_ref(run) },
        Ok(None) => LedgerError::Unknown(run.to_string()),
        Err(error) => error,
    }
}

/// Moves this clone's own refs of a run that its hub has deleted. What the hub does not have goes to the archive.
pub(super) fn follow(repo: &Repo, run: RunId, slug: &Slug) -> Result<(), LedgerError> {
    let Some(Archived { ledger, .. }) = archived(repo, run)? else { return Ok(()) };
    let mut refs = Refs { archived: below(repo, &format!("{ARCHIVE}{run}/"))?, ..Refs::default() };
    // A stranger can choose an id that begins as that of a run or a workspace here.
    let other = runs::others_with(repo, run, slug)?;
    for (name, commit) in work_branches(repo, slug)? {
        match (checkout(repo, &name)?, other.or(workspace_run(repo, &name)?.filter(|its| *its != run))) {
            (_, Some(other)) => {
                tracing::warn!(%name, %other, "the run is deleted; this branch is another one's")
            }
            (Some(path), None) => {
                tracing::warn!(%name, path, "the run is deleted; its work branch is checked out");
            }
            (None, None) => refs.work.push((name, commit)),
        }
    }
    let mut changes = refs.moves_of_work(repo, run)?;
    // What the hub had is in its archive.
    let copies = below(repo, &format!("{WORKS}{run}/"))?.into_iter();
    changes.extend(copies.map(|(name, copy)| RefChange { name, expected: Some(copy), new: None }));
    let name = BString::from(ledger_ref(run));
    if let Some(own) = repo.read_ref(name.as_bstr())? {
        if !repo.descends(ledger, own) {
            let new = refs.free_name(repo, run, ARCHIVED_LEDGER, own);
            changes.extend(new.map(|name| RefChange { name, expected: None, new: Some(own) }));
        }
        changes.push(RefChange { name, expected: Some(own), new: None });
    }
    if let Together::Lost { name, .. } = repo.swap_together(&changes, "aynig: run deleted")? {
        tracing::debug!(%name, "moved meanwhile: the next refresh archives it");
    }
    Ok(())
}

/// A free name in the archive of `remote` for a commit of the workspace `name`. `None` if the archive has the commit.
pub(crate) fn free_at(
    repo: &Repo,
    remote: &RemoteName,
    run: RunId,
    name: &str,
    commit: CommitId,
) -> Result<Option<BString>, LedgerError> {
    let archived = repo.list_refs(remote, &[format!("{ARCHIVE}{run}/*").into()], QUESTION)?;
    Ok(Refs { archived, ..Refs::default() }.free_name(repo, run, name, commit))
}

/// The refs of a run at the place where it is decided.
#[derive(Debug, Default)]
pub(super) struct Refs {
    /// Drivers and their deferred states, which go.
    gone: Vec<(BString, CommitId)>,
    /// Work branches, which move to the archive.
    work: Vec<(BString, CommitId)>,
    /// What the archive of this run has.
    archived: Vec<(BString, CommitId)>,
}

impl Refs {
    pub(super) fn of(repo: &Repo, place: &Place, run: RunId, slug: &Slug) -> Result<Self, LedgerError> {
        let gone = [format!("{HEADS}{RUN_PREFIX}{slug}/"), format!("{SLOTS}{RUN_PREFIX}{slug}/")];
        let (work, archive) = (format!("{WORKS}{run}/"), format!("{ARCHIVE}{run}/"));
        let Place::Remote(remote) = place else {
            let mut refs = Self { archived: below(repo, &archive)?, ..Self::default() };
            for prefix in &gone {
                refs.gone.extend(below(repo, prefix)?);
            }
            refs.work = work_branches(repo, slug)?;
            for (name, _) in &refs.work {
                if let Some(path) = checkout(repo, name)? {
                    return Err(LedgerError::CheckedOut { branch: shown(name), path });
                }
            }
            return Ok(refs);
        };
        let patterns: Vec<BString> =
            gone.iter().chain([&work, &archive]).map(|prefix| format!("{prefix}*").into()).collect();
        let listed = repo.list_refs(remote, &patterns, QUESTION)?;
        let with = |prefix: &str| {
            let found = listed.iter().filter(|(name, _)| name.starts_with(prefix.as_bytes()));
            found.cloned().collect::<Vec<_>>()
        };
        let refs = Self {
            gone: gone.iter().flat_map(|prefix| with(prefix)).collect(),
            work: with(&work),
            archived: with(&archive),
        };
        // Leases are read, and what moves is pushed from here.
        let names: Vec<BString> = refs.gone.iter().chain(&refs.work).map(|(name, _)| name.clone()).collect();
        if !names.is_empty() {
            repo.fetch_objects(remote, &names, PATIENCE)?;
        }
        Ok(refs)
    }

    /// Refuses while a driver is under a live lease.
    pub(super) fn check_leases(&self, repo: &Repo) -> Result<(), LedgerError> {
        for (name, commit) in &self.gone {
            let commit = repo.commit(*commit)?;
            if let Head::Working(lease) = Head::read(&commit.facts())
                && let Liveness::Live { left } = lease.liveness(clock::wall_seconds())
            {
                return Err(LedgerError::Leased {
                    branch: shown(name),
                    runner: lease.runner.to_string(),
                    left,
                });
            }
        }
        Ok(())
    }

    /// The ledger first, so that the archive shows what is due.
    pub(super) fn changes(
        &self,
        repo: &Repo,
        run: RunId,
        tip: CommitId,
        commit: CommitId,
    ) -> Result<Vec<RefChange>, LedgerError> {
        let mut changes = vec![
            RefChange { name: archived_ref(run).into(), expected: None, new: Some(commit) },
            RefChange { name: ledger_ref(run).into(), expected: Some(tip), new: None },
        ];
        changes.extend(self.moves_of_work(repo, run)?);
        let gone = self.gone.iter();
        changes.extend(gone.map(|(name, id)| RefChange {
            name: name.clone(),
            expected: Some(*id),
            new: None,
        }));
        Ok(changes)
    }

    /// Moves the work branches. Commits that only their reflogs name are saved before.
    fn moves_of_work(&self, repo: &Repo, run: RunId) -> Result<Vec<RefChange>, LedgerError> {
        for (name, commit) in &self.work {
            let Some(branch) = BranchName::from_full_ref(name.as_bstr()) else { continue };
            let saved = repo.rescue_dropped(&branch, &run.to_string(), *commit).map_err(|error| {
                LedgerError::Unsaved { branch: branch.to_string(), why: error.to_string() }
            })?;
            if let Some(saved) = saved {
                tracing::warn!(%branch, rescue = %saved.reference, "commits that were taken off a work branch are saved");
            }
        }
        let moves = self.work.iter().flat_map(|(name, commit)| {
            let last = name.rsplit_once_str("/").map_or(name.as_slice(), |(_, last)| last);
            let new = self.free_name(repo, run, &last.to_str_lossy(), *commit);
            let new = new.map(|name| RefChange { name, expected: None, new: Some(*commit) });
            new.into_iter().chain([RefChange { name: name.clone(), expected: Some(*commit), new: None }])
        });
        Ok(moves.collect())
    }

    /// A free name in the archive for `commit`, with a number if `name` is taken. `None` if the archive has the commit.
    fn free_name(&self, repo: &Repo, run: RunId, name: &str, commit: CommitId) -> Option<BString> {
        let numbered = |number: usize| match number {
            1 => format!("{ARCHIVE}{run}/{name}"),
            number => format!("{ARCHIVE}{run}/{name}-{number}"),
        };
        for number in 1.. {
            let candidate = BString::from(numbered(number));
            match self.archived.iter().find(|(there, _)| *there == candidate) {
                None => return Some(candidate),
                Some((_, there)) if repo.descends(*there, commit) => return None,
                Some(_) => {}
            }
        }
        None
    }
}

/// The local refs below a prefix, by their full names.
pub(super) fn below(repo: &Repo, prefix: &str) -> Result<Vec<(BString, CommitId)>, RefError> {
    let tips = repo.tips(prefix)?.into_iter();
    Ok(tips.filter_map(|tip| Some((format!("{prefix}{}", tip.branch).into(), tip.target.ok()?))).collect())
}

/// The local work branches of a run.
fn work_branches(repo: &Repo, slug: &Slug) -> Result<Vec<(BString, CommitId)>, RefError> {
    let prefix = repo.config("aynig.workPrefix").filter(|prefix| !prefix.is_empty());
    below(repo, &format!("{HEADS}{}{slug}/", prefix.as_deref().unwrap_or("work/")))
}

/// The place where a branch is checked out.
fn checkout(repo: &Repo, name: &BString) -> Result<Option<String>, LedgerError> {
    let Some(branch) = BranchName::from_full_ref(name.as_bstr()) else { return Ok(None) };
    let mut checkouts = repo.checkouts_of(&branch)?.into_iter();
    Ok(checkouts.next().map(|checkout| checkout.place.path.display().to_string()))
}

/// The run of the workspace whose worktree was made for a branch.
fn workspace_run(repo: &Repo, name: &BString) -> Result<Option<RunId>, LedgerError> {
    let all = repo.workspace_worktrees()?;
    let its = all.iter().filter_map(|one| one.workspace()).find(|mark| mark.branch.full_ref() == *name);
    Ok(its.and_then(|mark| RunId::parse(&mark.attempt.to_string())))
}

fn shown(name: &BString) -> String {
    BranchName::from_full_ref(name.as_bstr()).map_or_else(|| name.to_string(), |branch| branch.to_string())
}
