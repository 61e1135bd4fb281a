//! What runs left on this host, for `aynig clean` and `aynig doctor` (CONTRACT 17.12).
//!
//! Invariant: what a ledger has is never removed. Files of a deleted run go only if that was asked for.

use std::path::Path;

use crate::contract::ids::RemoteName;
use crate::contract::layout::{ARCHIVE, ARCHIVED_LEDGER, RUNS};
use crate::contract::retention::DEFAULT_AGE;
use crate::fsutil;
use crate::git::Repo;
use crate::git::remote::QUESTION;
use crate::journal::check::is_damaged;
use crate::journal::directory::RunDirectory;
use crate::journal::pages::Reader;
use crate::journal::sync::compact;
use crate::ledger::archive::archived_ref;
use crate::ledger::held::{self, Held};
use crate::ledger::tip::ledger_ref;
use crate::ledger::{LedgerError, Place, Tip, runs};
use crate::model::ids::RunId;
use crate::model::run::Run;
use crate::ops::error::Error;
use crate::ops::settings;
use crate::runner::clean::{CleanOptions, Item, Kind};
use crate::words::{error_chain, shell_quote};

use super::Listed;

/// The condition of all runs.
#[derive(Debug, Default)]
pub struct Condition {
    /// How many there are.
    pub count: usize,
    /// Those of another version.
    pub foreign: Vec<RunId>,
    /// Those whose ledger cannot be read.
    pub unreadable: Vec<RunId>,
    /// Those whose files are damaged.
    pub damaged: Vec<RunId>,
    /// Those that are held here.
    pub held: Vec<Held>,
}

/// Looks at all runs. Nothing is changed.
pub fn condition(repo: &Repo) -> Result<Condition, Error> {
    let held = held::all(repo)?.into_iter().map(|(_, _, held)| held).collect();
    let mut condition = Condition { held, ..Condition::default() };
    for (run, head) in runs::all(repo)? {
        condition.count += 1;
        match Tip::read_run(repo, run, head) {
            Err(LedgerError::Version { .. }) => condition.foreign.push(run),
            Err(_) => condition.unreadable.push(run),
            Ok(_) if is_damaged(&super::directory(repo, run)?) => condition.damaged.push(run),
            Ok(_) => {}
        }
    }
    Ok(condition)
}

/// The runs under way that `remote` decides and has no ledger of: their names, and the command that brings the first one
/// back. Runs that were deleted there are none.
pub fn lost_at(repo: &Repo, remote: &RemoteName) -> Result<Option<(Vec<String>, String)>, Error> {
    let decides = |run: &Run| {
        Place::of(repo, run.id, &run.decided_by).is_ok_and(|place| place == Place::Remote(remote.clone()))
    };
    let mut own = Vec::new();
    for (id, head) in runs::all(repo)? {
        let known = Tip::read_run(repo, id, head).ok().map(|tip| tip.state.run);
        own.extend(known.filter(|run| !run.status.is_ended() && decides(run)).map(|run| (run, head)));
    }
    if own.is_empty() {
        return Ok(None);
    }
    let patterns = [format!("{RUNS}*").into(), format!("{ARCHIVE}*/{ARCHIVED_LEDGER}").into()];
    let there = repo.list_refs(remote, &patterns, QUESTION).map_err(LedgerError::from)?;
    let has = |name: &str| there.iter().any(|(other, _)| other == name);
    own.retain(|(run, _)| !has(&ledger_ref(run.id)) && !has(&archived_ref(run.id)));
    let Some((first, head)) = own.first() else { return Ok(None) };
    let name = repo.namespace().unwrap_or_default().there(ledger_ref(first.id).as_str().into());
    let next = format!("git push {} {head}:{name}", shell_quote(remote.as_str()));
    Ok(Some((own.iter().map(|(run, _)| run.slug.to_string()).collect(), next)))
}

/// Lists what runs left, and removes what `wanted` says.
pub fn leftovers(repo: &Repo, wanted: &CleanOptions, all: &[Listed]) -> Result<Vec<Item>, Error> {
    if !wanted.runs {
        return Ok(Vec::new());
    }
    settings::data_dir(repo)?;
    let mut items = Vec::new();
    for run in all.iter().filter_map(|one| one.run.as_ref().ok()).filter(|run| run.status.is_ended()) {
        items.extend(ended(repo, wanted, run)?);
    }
    let archive = RunDirectory::data(repo).join("archive");
    let mut retired: Vec<_> = std::fs::read_dir(archive).into_iter().flatten().flatten().collect();
    retired.sort_by_key(std::fs::DirEntry::file_name);
    items.extend(retired.iter().filter_map(|entry| deleted(wanted, &entry.path())));
    Ok(items)
}

/// The journal of a run that has ended, if events in it are not of record.
fn ended(repo: &Repo, wanted: &CleanOptions, run: &Run) -> Result<Option<Item>, Error> {
    let directory = RunDirectory::of(repo, run.id);
    let bytes = telemetry(&directory)?;
    if bytes == 0 {
        return Ok(None);
    }
    let seconds = wanted.now.saturating_sub(run.updated_at.millis().div_euclid(1000));
    let age = u64::try_from(seconds).unwrap_or(0);
    let mut item = Item::new(Kind::Run, directory.events().display().to_string());
    (item.age, item.bytes) = (Some(age), Some(bytes));
    if age < wanted.older_than.unwrap_or(DEFAULT_AGE) {
        let next = "aynig clean --runs --older-than DURATION --apply";
        return Ok(Some(item.stays(format!("run {} has ended, and not long ago", run.slug), next)));
    }
    let why =
        format!("run {} has ended: what only this host saw of it goes, its ledger has the rest", run.slug);
    Ok(Some(item.goes(why).carried_out(wanted, || match compact(repo, &directory) {
        Ok(true) => Ok(None),
        Ok(false) => Err("the run was resumed".to_owned()),
        Err(error) => Err(error_chain(&error)),
    })))
}

/// The bytes of a journal that are not of record.
fn telemetry(directory: &RunDirectory) -> Result<u64, Error> {
    let mut bytes: u64 = directory.torn().iter().filter_map(|torn| Some(torn.metadata().ok()?.len())).sum();
    let Some(mut reader) = Reader::open(directory)? else { return Ok(bytes) };
    loop {
        let lines = reader.next_lines()?;
        if lines.is_empty() {
            return Ok(bytes);
        }
        let own = lines.iter().filter(|line| !line.is_of_record());
        bytes += own.map(|line| u64::try_from(line.bytes.len()).unwrap_or(0) + 1).sum::<u64>();
    }
}

/// The files of a deleted run. `None` for a directory that is none of a journal.
fn deleted(wanted: &CleanOptions, path: &Path) -> Option<Item> {
    path.join("metadata.json").is_file().then_some(())?;
    let item = Item::new(Kind::Run, path.display().to_string()).on_disk(path, wanted);
    let why = "the files of a run that was deleted";
    if !wanted.runs_asked {
        let shows = format!("`less {}`", shell_quote(path.join("events.jsonl").display().to_string()));
        return Some(item.stays(why, format!("{shows} shows it, `aynig clean --runs --apply` removes it")));
    }
    Some(item.goes(why).carried_out(wanted, || match fsutil::remove_all(path) {
        Err(error) if path.symlink_metadata().is_ok() => Err(error.to_string()),
        Ok(()) | Err(_) => Ok(None),
    }))
}
