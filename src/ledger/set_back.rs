//! Ledgers that a hub has set back: a backup was restored there, or a push was forced (CONTRACT 16.11).
//!
//! Invariant: operations that this clone knows, and that the hub has no more, are given up by a person alone. Until then
//! the ledger here stays as it is, and every operation on its run is refused.

use std::collections::HashSet;

use bstr::{BString, ByteSlice};

use super::archive::{self, archived_ref, below};
use super::check::check_since;
use super::error::{LedgerError, SetBack};
use super::place::Place;
use super::planted::{self, Wrong};
use super::tip::{Tip, ledger_ref};
use crate::contract::ids::{BranchName, CommitId, RemoteName};
use crate::contract::layout::{FETCHED_RUNS, HEADS, RESCUED_LEDGERS, RESCUES, WORKS, work_ref};
use crate::git::contents::rescue::Situation;
use crate::git::remote::{PATIENCE, QUESTION};
use crate::git::{RefError, Repo, Swap};
use crate::model::ids::{RunId, Slug};
use crate::model::run::RunKind;
use crate::model::workspace::WorkspaceStatus;
use crate::words::shell_quote;

/// The ref of a run's ledger as a remote last had it.
pub(super) fn fetched_ref(remote: &RemoteName, run: RunId) -> String {
    format!("{FETCHED_RUNS}{remote}/{run}")
}

/// Moves the ledger of a run forward to `there`, which `remote` has. `before` is the commit here before the remote was asked.
/// Returns whether it moved.
///
/// # Errors
/// [`LedgerError::SetBack`] if operations are gone there; the ledger here stays as it is.
pub(super) fn follow(
    repo: &Repo,
    remote: &RemoteName,
    run: RunId,
    (before, there): (Option<CommitId>, CommitId),
) -> Result<bool, LedgerError> {
    let name = ledger_ref(run);
    let here = repo.read_ref(name.as_bytes().as_bstr())?;
    if here == Some(there) {
        return Ok(false);
    }
    let move_it = |log| {
        let moved = repo.swap(name.as_bytes().as_bstr(), here, there, log);
        moved.map(|moved| moved == Swap::Won)
    };
    let is_ahead = here.is_none_or(|here| repo.descends(there, here));
    if let Some(wrong) = Wrong::of(repo, run, (here, there))? {
        let Some(here) = here else { return Err(wrong.of_new(run, there)) };
        let slug = Tip::read_run(repo, run, here)?.state.run.slug;
        let planted = planted::on_ledger(repo, remote, (run, &slug), (here, there), &wrong)?;
        return Err(LedgerError::Planted(Box::new(planted)));
    }
    let slug = Tip::read_run(repo, run, there)?.state.run.slug;
    let Some(known) = here.filter(|_| !is_ahead) else {
        return Ok(move_it("aynig: fetched")?);
    };
    // This clone has heard of a newer one since the remote was asked.
    if before != Some(known) {
        return Ok(false);
    }
    let is_new = repo.read_ref(kept_ref(run, known).as_bstr())?.is_none();
    if is_new && asked(repo, remote, run)? != Some(there) {
        return Ok(false);
    }
    let kept = keep(repo, run, known)?;
    if is_forged(repo, run, known, there)? {
        tracing::warn!("{remote} took back what was put on the ledger of run {slug}; {kept} keeps it");
        return Ok(move_it("aynig: set back")?);
    }
    let back = SetBack { is_new, ..described(repo, run, remote, (known, there, slug))? };
    Err(LedgerError::SetBack(Box::new(back)))
}

/// Fetches the refs of a run of `remote`: its ledger, work branches and archive. The refs here of a run that was deleted there
/// go to the archive.
///
/// # Errors
/// Those of [`follow`], and [`LedgerError`] if the remote cannot be asked.
pub(super) fn fetch_run(
    repo: &Repo,
    remote: &RemoteName,
    run: RunId,
    slug: &Slug,
) -> Result<(), LedgerError> {
    let fetch = || fetch_once(repo, remote, run, slug);
    fetch().or_else(|error| match error {
        LedgerError::Ref(RefError::Locked { .. }) | LedgerError::Remote(_) if released(repo) => fetch(),
        error => Err(error),
    })
}

/// Whether locks were removed that killed processes left.
pub(super) fn released(repo: &Repo) -> bool {
    let of_runners = repo.release_dead_locks();
    !(of_runners.is_empty() && repo.release_abandoned_locks().is_empty())
}

fn fetch_once(repo: &Repo, remote: &RemoteName, run: RunId, slug: &Slug) -> Result<(), LedgerError> {
    let (name, fetched, archived) = (ledger_ref(run), fetched_ref(remote, run), archived_ref(run));
    let (works, before) = (format!("{WORKS}{run}/"), repo.read_ref(name.as_str().into())?);
    let copies = below(repo, &works)?;
    // A ledger that the remote has no more stays as it is here.
    let noted = repo.read_ref(fetched.as_str().into())?;
    match before {
        Some(before) if noted == Some(before) => None,
        Some(before) => Some(repo.swap(fetched.as_str().into(), noted, before, "aynig: known")?),
        None => noted.map(|noted| repo.delete_ref(fetched.as_str().into(), noted)).transpose()?,
    };
    let names = [(&*name, &*fetched), (&archived, &archived), (&works, &works)];
    let done = repo.fetch_refs(remote, &names, PATIENCE);
    if let (Err(_), Some(before)) = (&done, before.filter(|before| noted != Some(*before))) {
        // Nothing was heard, so nothing is noted.
        match noted {
            Some(noted) => repo.swap(fetched.as_str().into(), Some(before), noted, "aynig: known"),
            None => repo.delete_ref(fetched.as_str().into(), before),
        }
        .map(drop)?;
    }
    done?;
    if let Some(archived) = archive::archived(repo, run)? {
        // A deletion moves the ledger, too.
        let there = asked(repo, remote, run)?;
        if let (None, Some(was)) = (there, repo.read_ref(fetched.as_str().into())?) {
            // What was fetched last counts for whoever asks nothing.
            repo.delete_ref(fetched.as_str().into(), was).map(drop)?;
        }
        if planted::is_planted(repo, &archived, (before, there))? {
            let planted = planted::in_archive(repo, remote, (run, slug), (before, there))?;
            return Err(LedgerError::Planted(Box::new(planted)));
        }
        return archive::follow(repo, run, slug);
    }
    let Some(there) = repo.read_ref(fetched.as_str().into())? else { return Ok(()) };
    let followed = follow(repo, remote, run, (before, there));
    if let Err(LedgerError::SetBack(_)) = &followed {
        // The copies of work branches belong to the ledger that is held.
        for (name, copy) in copies {
            let now = repo.read_ref(name.as_bstr())?;
            if now.is_none_or(|now| !repo.descends(now, copy)) {
                repo.swap(name.as_bstr(), now, copy, "aynig: held").map(drop)?;
            }
        }
    }
    followed?;
    release(repo, remote, Some(run))
}

/// The ledger of a run that is held here since its hub has set it back.
///
/// # Errors
/// [`LedgerError`] if refs cannot be read.
pub(super) fn held(repo: &Repo, run: RunId) -> Result<Option<SetBack>, LedgerError> {
    let Some(here) = repo.read_ref(ledger_ref(run).as_str().into())? else { return Ok(None) };
    if repo.read_ref(kept_ref(run, here).as_bstr())?.is_none() {
        return Ok(None);
    }
    let known = Tip::read_run(repo, run, here)?.state.run;
    let Place::Remote(remote) = Place::of(repo, run, &known.decided_by)? else { return Ok(None) };
    match repo.read_ref(fetched_ref(&remote, run).as_str().into())? {
        Some(there) if !repo.descends(there, here) => {
            described(repo, run, &remote, (here, there, known.slug)).map(Some)
        }
        Some(_) | None => Ok(None),
    }
}

/// Gives up the operations that the hub has no more. They stay under their rescue ref.
pub(super) fn give_up(repo: &Repo, run: RunId, back: &SetBack) -> Result<(), LedgerError> {
    let works = format!("{WORKS}{run}/");
    let there = repo.list_refs(&back.remote, &[format!("{works}*").into()], QUESTION)?;
    for copy in below(repo, &works)?.into_iter().filter(|copy| !there.contains(copy)) {
        let (_, commit) = copy;
        let kept = repo.held_below(commit, &[HEADS, RESCUES]);
        if !kept.is_ok_and(|kept| kept.is_some()) {
            keep(repo, run, commit)?;
        }
    }
    let name = ledger_ref(run);
    match repo.swap(name.as_str().into(), Some(back.here), back.there, "aynig: set back")? {
        Swap::Won => Ok(()),
        Swap::Lost { .. } => Err(LedgerError::Moved { name }),
    }
}

/// Removes rescue refs of ledgers whose operations `remote` has again.
pub(super) fn release(repo: &Repo, remote: &RemoteName, only: Option<RunId>) -> Result<(), LedgerError> {
    for tip in repo.tips(RESCUED_LEDGERS)? {
        let below = tip.branch.to_string();
        let run = below.split_once('/').and_then(|(run, _)| RunId::parse(run));
        let (Some(run), Ok(commit)) = (run.filter(|run| only.is_none_or(|only| only == *run)), tip.target)
        else {
            continue;
        };
        let there = repo.read_ref(fetched_ref(remote, run).as_str().into())?;
        let here = repo.read_ref(ledger_ref(run).as_str().into())?;
        if [there, here].into_iter().all(|one| one.is_some_and(|one| repo.descends(one, commit))) {
            repo.delete_ref(kept_ref(run, commit).as_bstr(), commit).map(drop)?;
        }
    }
    Ok(())
}

/// The name of the rescue ref for a commit of a ledger.
fn kept_ref(run: RunId, commit: CommitId) -> BString {
    format!("{RESCUED_LEDGERS}{run}/{commit}").into()
}

/// Saves a commit under the rescue ref of its run.
fn keep(repo: &Repo, run: RunId, commit: CommitId) -> Result<String, LedgerError> {
    let name = kept_ref(run, commit);
    if repo.read_ref(name.as_bstr())? == Some(commit) {
        return Ok(name.to_string());
    }
    let unsaved = |why: String| LedgerError::Unsaved { branch: ledger_ref(run), why };
    let place = RESCUED_LEDGERS.strip_prefix(RESCUES).unwrap_or_default();
    let branch = BranchName::new(format!("{place}{run}").as_bytes());
    let branch = branch.map_err(|error| unsaved(error.to_string()))?;
    let label = commit.to_string();
    let situation = Situation { branch: &branch, label: &label, base: commit, kept: None, also: None };
    let saved = repo.rescue_commits(situation).map_err(|error| unsaved(error.to_string()))?;
    Ok(saved.map_or(name, |saved| saved.reference).to_string())
}

/// The commit that a remote has now.
fn asked(repo: &Repo, remote: &RemoteName, run: RunId) -> Result<Option<CommitId>, LedgerError> {
    let name = BString::from(ledger_ref(run));
    Ok(repo.ask_refs(remote, std::slice::from_ref(&name), PATIENCE)?.get(&name).copied())
}

/// Whether nothing that the remote has no more is an operation: a step put it there.
fn is_forged(repo: &Repo, run: RunId, here: CommitId, there: CommitId) -> Result<bool, LedgerError> {
    let theirs: HashSet<CommitId> = repo.history(there).map_while(|one| Some(one.ok()?.id)).collect();
    let common = repo.history(here).map_while(Result::ok).find(|one| theirs.contains(&one.id));
    let Some(common) = common else { return Ok(false) };
    let (good, why) = check_since(repo, run, common.id, here)?;
    Ok(good == common.id && why.is_some())
}

/// A ledger that was set back, with the commands that help.
fn described(
    repo: &Repo,
    run: RunId,
    remote: &RemoteName,
    (here, there, slug): (CommitId, CommitId, Slug),
) -> Result<SetBack, LedgerError> {
    let names = repo.namespace()?;
    let (name, kept) = (ledger_ref(run), kept_ref(run, here).to_string());
    let to = names.there(name.as_str().into());
    let lease = match repo.descends(here, there) {
        true => String::new(),
        // What others did since is given up by that.
        false => format!("--force-with-lease={to}:{there} "),
    };
    let state = Tip::read_workspaces(repo, run, here)?.state;
    let mut gives_back = format!("git push --atomic {lease}{remote} {kept}:{to}");
    for workspace in state.workspaces.values() {
        let head = CommitId::parse_hex(workspace.head_sha.as_bytes());
        let is_ready = workspace.status == WorkspaceStatus::Ready;
        let Some(head) = head.filter(|head| is_ready && repo.commit(*head).is_ok()) else { continue };
        let work = names.there(work_ref(run, &workspace.name.to_string()).as_bstr());
        gives_back.push(' ');
        gives_back.push_str(&shell_quote(format!("+{head}:{work}")));
    }
    let accepts = match state.run.kind {
        RunKind::Flow => format!("aynig flow resume --accept {slug}"),
        RunKind::Graph => format!("git update-ref {name} {there}"),
    };
    Ok(SetBack { slug, remote: remote.clone(), here, there, kept, gives_back, accepts, is_new: false })
}
