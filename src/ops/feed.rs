//! The events of all runs, as they are appended to their journals on this host.
//!
//! Invariants: of each journal every event after the first look is handed on, once, in its order. Nothing is decided by
//! it: who was not there reads the journal itself.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use serde::Deserialize;

use crate::contract::ids::{CommitId, RemoteName};
use crate::fsutil::{self, DirectoryWatch};
use crate::git::Repo;
use crate::journal::JournalError;
use crate::journal::directory::RunDirectory;
use crate::journal::pages::Reader;
use crate::journal::sync::sync;
use crate::ledger::runs;
use crate::ledger::watch::{Heard, Watch};
use crate::model::ids::RunId;
use crate::stop::Stop;
use crate::words::error_chain;

use super::engine::place;
use super::error::Error;

/// The longest time without a look.
const LOOK: Duration = Duration::from_secs(5);

/// Something new in a journal.
#[derive(Debug, Clone)]
pub enum News {
    /// An event.
    Event {
        /// The run.
        run: RunId,
        /// The journal to which the number belongs.
        journal: Arc<str>,
        /// Its number.
        seq: u64,
        /// Its type.
        kind: Arc<str>,
        /// A JSON object, with `seq`.
        line: Arc<[u8]>,
    },
    /// The journal was made anew: its numbers are others now.
    Replaced {
        /// The run.
        run: RunId,
    },
}

/// A journal that is followed.
struct Known {
    /// The commit that it was brought up to.
    head: CommitId,
    journal: Arc<str>,
    reader: Reader,
}

/// Hands on what is appended to the journals of this repository, until `stop` is requested. With a remote its ledgers are
/// fetched every few seconds.
///
/// # Errors
/// The directory of the journals cannot be made.
pub fn follow(
    repo: &Repo,
    remote: Option<&RemoteName>,
    stop: &Stop,
    mut each: impl FnMut(News),
) -> Result<(), Error> {
    let directory = RunDirectory::data(repo).join("runs");
    fsutil::create_private_dir_all(&directory)
        .map_err(|error| Error::because("make the directory of runs", &error))?;
    let (bell, news) = mpsc::channel();
    let (of_files, of_stop) = (bell.clone(), bell.clone());
    let _files = DirectoryWatch::below(&directory, move || {
        of_files.send(()).ok();
    });
    let _stopping = stop.subscribe(move |_| {
        of_stop.send(()).ok();
    });
    let mut watch = Watch::with_bell(repo, &place(remote), (bell, news));
    let mut known = BTreeMap::new();
    let mut is_first = true;
    while stop.cause().is_none() {
        if let Err(error) = look(repo, &mut known, is_first, &mut each) {
            tracing::warn!("{}; it is looked again", error_chain(&error));
        }
        is_first = false;
        if let Heard::Deaf(error) = watch.next(LOOK) {
            tracing::debug!("{}", error_chain(&error));
        }
    }
    Ok(())
}

fn look(
    repo: &Repo,
    known: &mut BTreeMap<RunId, Known>,
    is_first: bool,
    each: &mut impl FnMut(News),
) -> Result<(), JournalError> {
    let heads: BTreeMap<RunId, CommitId> = runs::all(repo)?.into_iter().collect();
    for (run, head) in &heads {
        if known.get(run).is_some_and(|one| one.head == *head) {
            continue;
        }
        if let Err(error) = brought_up(repo, known, (*run, *head), is_first) {
            tracing::debug!(%run, "{}", error_chain(&error));
        }
    }
    let gone: Vec<RunId> = known.keys().filter(|run| !heads.contains_key(run)).copied().collect();
    for run in &gone {
        // Its last events go into the file that is open; then it is moved away.
        drop(sync(repo, &RunDirectory::of(repo, *run)));
    }
    let mut replaced = Vec::new();
    for (run, one) in known.iter_mut() {
        loop {
            match one.reader.next_lines() {
                Ok(lines) if lines.is_empty() => break,
                Ok(lines) => {
                    for line in lines {
                        let (journal, kind) = (Arc::clone(&one.journal), kind_of(&line.bytes).into());
                        let (line, seq) = (line.bytes.into(), line.seq);
                        each(News::Event { run: *run, journal, seq, kind, line });
                    }
                }
                Err(error) => {
                    tracing::debug!(%run, "{}", error_chain(&error));
                    replaced.push(*run);
                    break;
                }
            }
        }
    }
    known.retain(|run, _| !gone.contains(run) && !replaced.contains(run));
    for run in replaced.into_iter().filter(|run| heads.contains_key(run)) {
        each(News::Replaced { run });
    }
    Ok(())
}

/// The type of an event, without the rest of it.
#[must_use]
pub fn kind_of(line: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Typed {
        #[serde(rename = "type")]
        kind: String,
    }
    serde_json::from_slice::<Typed>(line).map(|typed| typed.kind).unwrap_or_default()
}

/// Brings a journal up to its ledger. One that is seen for the first time is followed from here on, or from its beginning
/// if the run is new.
fn brought_up(
    repo: &Repo,
    known: &mut BTreeMap<RunId, Known>,
    (run, head): (RunId, CommitId),
    is_first: bool,
) -> Result<(), JournalError> {
    let directory = RunDirectory::of(repo, run);
    let synced = sync(repo, &directory)?;
    if let Some(one) = known.get_mut(&run) {
        one.head = head;
        return Ok(());
    }
    let Some(mut reader) = Reader::open(&directory)? else { return Ok(()) };
    if is_first {
        reader.seek_after(synced.last_seq)?;
    }
    known.insert(run, Known { head, journal: synced.journal.into(), reader });
    Ok(())
}
