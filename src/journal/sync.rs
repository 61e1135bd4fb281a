//! Brings the journal and `state.json` up to the ledger.
//!
//! Invariant: each line of an event of record names its commit, so where to go on is read from the journal itself. A
//! process that dies between two writes leaves at most lines without their `state.json`; the next one goes on.

use std::path::Path;
use std::time::Duration;

use serde::Deserialize;

use super::directory::{Metadata, RunDirectory};
use super::log::{Line, Log};
use super::pages::Reader;
use super::projection::Projection;
use super::{JournalError, artifacts};
use crate::clock;
use crate::contract::ids::CommitId;
use crate::crashpoint::{self, Point};
use crate::git::Repo;
use crate::ledger::history::{Operation, operations};
use crate::ledger::tip::ledger_ref;
use crate::ledger::{LedgerError, Tip, archive};
use crate::model::event::Event;

/// How often `state.json` is replaced while somebody appends.
const INTERVAL: Duration = Duration::from_millis(100);

/// What a synchronisation found and did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Synced {
    /// The journal's id.
    pub journal: String,
    /// The number of its last line.
    pub last_seq: u64,
    /// The lines that were added.
    pub added: usize,
    /// The journal was made from the beginning: it was missing or damaged, or its ledger has another history now.
    pub anew: bool,
    /// The file with a torn end that was moved away.
    pub torn: Option<std::path::PathBuf>,
}

/// The fields of a line that name its origin.
#[derive(Deserialize)]
struct Origin {
    id: Option<String>,
    commit: Option<String>,
}

/// Why files are brought up to the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    /// To be read.
    Reading,
    /// To be appended to, by one who comes again.
    Writing,
    /// To be made anew.
    Anew,
}

/// Brings the files of a run up to its ledger as it is known here. One ref is read if nothing is new.
///
/// # Errors
/// [`JournalError`]; what was written before it stays, and is right.
pub fn sync(repo: &Repo, directory: &RunDirectory) -> Result<Synced, JournalError> {
    let head = match head_of(repo, directory) {
        Err(error @ JournalError::Ledger(LedgerError::Deleted { .. })) => {
            retire(repo, directory)?;
            return Err(error);
        }
        head => head?,
    };
    if let Some(metadata) = directory.metadata()
        && metadata.synced == head.to_string()
        && directory.state().is_file()
        && directory.events().is_file()
    {
        let last = Reader::open(directory)?.map(|reader| reader.page(None, 1)).transpose()?;
        let last_seq = last.and_then(|page| page.lines.last().map(|line| line.seq)).unwrap_or(0);
        return Ok(Synced { journal: metadata.journal, last_seq, ..Synced::default() });
    }
    let _lock = directory.lock()?;
    // Another process may have been faster.
    let head = head_of(repo, directory)?;
    bring_up(repo, directory, head, Pace::Reading)
}

/// Makes the journal anew from the ledger. What only this host saw is gone.
///
/// # Errors
/// [`JournalError`].
pub fn rebuild(repo: &Repo, directory: &RunDirectory) -> Result<Synced, JournalError> {
    let _lock = directory.lock()?;
    let head = head_of(repo, directory)?;
    bring_up(repo, directory, head, Pace::Anew)
}

/// Makes the journal of a run anew that has ended, and removes torn ends. Returns whether that was done: a run that was
/// resumed meanwhile keeps what it has.
///
/// # Errors
/// [`JournalError`].
pub fn compact(repo: &Repo, directory: &RunDirectory) -> Result<bool, JournalError> {
    let _lock = directory.lock()?;
    let head = head_of(repo, directory)?;
    if !Tip::read_run(repo, directory.run(), head)?.state.run.status.is_ended() {
        return Ok(false);
    }
    bring_up(repo, directory, head, Pace::Anew)?;
    for torn in directory.torn() {
        std::fs::remove_file(&torn).map_err(JournalError::file("remove", &torn))?;
    }
    Ok(true)
}

/// The newest commit of the ledger.
pub(super) fn head_of(repo: &Repo, directory: &RunDirectory) -> Result<CommitId, JournalError> {
    let head = repo.read_ref(ledger_ref(directory.run()).as_str().into()).map_err(LedgerError::from)?;
    Ok(head.ok_or_else(|| archive::missing(repo, directory.run()))?)
}

/// Moves the files of a deleted run away, with its last events in them.
fn retire(repo: &Repo, directory: &RunDirectory) -> Result<(), JournalError> {
    let Some(archived) = archive::archived(repo, directory.run())? else { return Ok(()) };
    let Some(_lock) = directory.existing_lock()? else { return Ok(()) };
    bring_up(repo, directory, archived.ledger, Pace::Reading)?;
    crashpoint::reach(Point::JournalRetiring);
    directory.retire()
}

/// Brings the files up to a commit of the ledger; the caller holds the lock.
pub(super) fn bring_up(
    repo: &Repo,
    directory: &RunDirectory,
    head: CommitId,
    pace: Pace,
) -> Result<Synced, JournalError> {
    let run = directory.run();
    let before = directory.metadata();
    let record = before.as_ref().map(|before| before.record.clone()).unwrap_or_default();
    let metadata = before.filter(|_| pace != Pace::Anew && directory.events().is_file());
    let known = match &metadata {
        None => None,
        Some(_) => {
            let log = Log::open(directory)?;
            // Where the ledger has another history now, or a line has no commit, all is made anew.
            let done = last_commit(&log);
            let fits = |commit: CommitId| operations(repo, run, head, Some(commit)).ok();
            match done {
                None if log.last() == 0 => Some((log, operations(repo, run, head, None)?, None)),
                None => None,
                Some(last) => fits(last.0).map(|rest| (log, rest, Some(last))),
            }
        }
    };
    let anew = known.is_none();
    let mut metadata = metadata.filter(|_| !anew).unwrap_or_else(|| directory.fresh(record));
    let (mut log, rest, last) = match known {
        Some(known) => known,
        None => {
            // Read first: what is here stays if the ledger cannot be read.
            let all = operations(repo, run, head, None)?;
            discard(directory, &metadata)?;
            (Log::open(directory)?, all, None)
        }
    };
    let added = write(repo, run, &mut log, rest, last)?;
    crashpoint::reach(Point::JournalWritten);
    // While many lines come, the state follows at intervals. Whoever reads it brings it up first.
    if pace != Pace::Writing || !is_young(&directory.state()) {
        let tip = Tip::read_whole(repo, run, head)?;
        artifacts::project(repo, directory, &tip, pace == Pace::Anew)?;
        directory.replace(&directory.state(), &Projection::of(&tip.state, directory, log.last()))?;
        metadata.synced = head.to_string();
        directory.set_metadata(&metadata)?;
    }
    let torn = log.torn().cloned();
    Ok(Synced { journal: metadata.journal, last_seq: log.last(), added, anew, torn })
}

/// Whether a file was replaced a moment ago. A time in the future is none of a moment ago.
fn is_young(file: &Path) -> bool {
    let modified = std::fs::metadata(file).and_then(|found| found.modified());
    modified.is_ok_and(|modified| clock::wall().duration_since(modified).is_ok_and(|age| age < INTERVAL))
}

/// Begins a journal anew. Its id is written first, so that no position in the old one is taken for one in the new.
fn discard(directory: &RunDirectory, metadata: &Metadata) -> Result<(), JournalError> {
    directory.set_metadata(metadata)?;
    match std::fs::remove_file(directory.events()) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(JournalError::file("remove", &directory.events())(error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// The commit of the newest line of record, and the ids of its events that are there.
fn last_commit(log: &Log) -> Option<(CommitId, Vec<String>)> {
    let origin = |line: &Line| {
        let Origin { id, commit } = serde_json::from_slice(&line.bytes).ok()?;
        line.is_of_record().then_some((id?, commit?))
    };
    // Those of one operation follow each other.
    let lines = log.backwards().skip_while(|line| !line.is_of_record() || origin(line).is_none());
    let mut origins = lines.take_while(Line::is_of_record).filter_map(|line| origin(&line)).peekable();
    let commit = origins.peek()?.1.clone();
    let present = origins.take_while(|(_, other)| *other == commit).map(|(id, _)| id).collect();
    Some((CommitId::parse_hex(&commit)?, present))
}

/// Appends what is missing: the rest of the operation that was interrupted, then the newer ones.
fn write(
    repo: &Repo,
    run: crate::model::ids::RunId,
    log: &mut Log,
    rest: Vec<Operation>,
    last: Option<(CommitId, Vec<String>)>,
) -> Result<usize, JournalError> {
    let (first, mut present) = match last {
        None => (None, Vec::new()),
        Some((commit, present)) => (operation_at(repo, run, commit)?, present),
    };
    let mut lines = Vec::new();
    for Operation { commit, events, .. } in first.into_iter().chain(rest) {
        // A stranger's operation may have several events of one id.
        for event in events {
            let id = event.id.to_string();
            match present.iter().position(|there| *there == id) {
                Some(at) => drop(present.swap_remove(at)),
                None => lines.push(line(&event, commit)),
            }
        }
        present.clear();
    }
    log.append(lines.iter().map(Vec::as_slice), true)?;
    Ok(lines.len())
}

/// One operation alone.
fn operation_at(
    repo: &Repo,
    run: crate::model::ids::RunId,
    commit: CommitId,
) -> Result<Option<Operation>, JournalError> {
    let parent = repo.commit(commit).map_err(LedgerError::from)?.parents.first().copied();
    Ok(operations(repo, run, commit, parent)?.into_iter().next())
}

/// An event of record as a line: with the commit it comes from.
pub(super) fn line(event: &Event, commit: CommitId) -> Vec<u8> {
    // An event has string keys and no failing parts.
    let event = serde_json::to_vec(event).unwrap_or_default();
    let mut line = format!("{{\"commit\":\"{commit}\",").into_bytes();
    line.extend_from_slice(event.strip_prefix(b"{").unwrap_or(&event));
    line
}
