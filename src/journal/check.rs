//! Compares the files of a run directory with the ledger.

use std::collections::VecDeque;
use std::fs::File;

use serde::Deserialize;

use super::directory::RunDirectory;
use super::log::{Line, is_whole, line_before, seq_of};
use super::projection::Projection;
use super::sync::line;
use super::{JournalError, artifacts};
use crate::fsutil;
use crate::fsutil::{Followed, News};
use crate::ledger::check::{Fault, difference};
use crate::ledger::history::Operation;
use crate::model::state::State;

/// Whether the files of a run are damaged. Missing files are not: they are made when the run is looked at.
#[must_use]
pub fn is_damaged(directory: &RunDirectory) -> bool {
    let Ok(events) = fsutil::open_plain(&directory.events()) else { return false };
    let state = || {
        fsutil::read_plain(directory.state()).map(|text| serde_json::from_slice::<Numbered>(&text).is_ok())
    };
    directory.metadata().is_none() || state().is_ok_and(|whole| !whole) || ends_torn(&events)
}

/// Whether the last line is no whole event.
fn ends_torn(events: &File) -> bool {
    let Ok(length) = events.metadata().map(|found| found.len()) else { return false };
    match line_before(events, length) {
        Ok(Some((start, line))) => {
            let newline = start + u64::try_from(line.len()).unwrap_or(0);
            newline >= length || !is_whole(&line)
        }
        Ok(None) => false,
        Err(_) => true,
    }
}

/// Checks that `events.jsonl` has the numbers 1, 2, 3 … and the events of these operations in their order, and that
/// `state.json` has this state, and that contents of artifacts have their digests. The journal was brought up to the ledger before.
///
/// # Errors
/// [`JournalError::File`] if a file cannot be read.
pub fn check(
    directory: &RunDirectory,
    operations: &[Operation],
    state: &State,
) -> Result<Vec<Fault>, JournalError> {
    let mut faults = Vec::new();
    let last = events(directory, operations, &mut faults)?;
    let path = directory.state();
    let found = fsutil::read_plain(&path).map_err(JournalError::file("read", &path))?;
    // Events that only this host saw change no state, so the number may be that of an earlier line.
    let number = serde_json::from_slice::<Numbered>(&found).map_or(last, |found| found.last_seq.min(last));
    let projection = Projection::of(state, directory, number);
    // A projection has string keys and no failing parts.
    let wanted = serde_json::to_vec(&projection).unwrap_or_default();
    faults.extend(difference(&wanted, &found).map(|why| Fault { at: "state.json".to_owned(), why }));
    for (id, artifact) in state.all_artifacts() {
        if artifacts::place(directory, *id).exists() && !artifacts::is_whole(directory, artifact) {
            let why = format!("its size or SHA-256 is not that of {}", artifact.name);
            faults.push(Fault { at: format!("artifacts/{id}"), why });
        }
    }
    Ok(faults)
}

/// The number in `state.json`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Numbered {
    last_seq: u64,
}

/// Checks `events.jsonl`, and returns its last number.
fn events(
    directory: &RunDirectory,
    operations: &[Operation],
    faults: &mut Vec<Fault>,
) -> Result<u64, JournalError> {
    let path = directory.events();
    let failed = || JournalError::file("read", &path);
    let mut due: VecDeque<Vec<u8>> = operations
        .iter()
        .flat_map(|operation| operation.events.iter().map(|event| line(event, operation.commit)))
        .collect();
    let mut file = Followed::open(&path).map_err(failed())?;
    let (mut number, mut last) = (0_u64, 0);
    while let News::Bytes(bytes) = file.lines().map_err(failed())? {
        for text in bytes.split_inclusive(|byte| *byte == b'\n') {
            let text = text.strip_suffix(b"\n").unwrap_or(text);
            number += 1;
            let mut fault = |why: String| faults.push(Fault { at: format!("events.jsonl:{number}"), why });
            let Some(seq) = seq_of(text).filter(|_| is_whole(text)) else {
                fault("it is no event".to_owned());
                continue;
            };
            if seq != last + 1 {
                fault(format!("number {seq} follows {last}"));
            }
            last = seq;
            let line = Line { seq, bytes: text.to_vec() };
            if !line.is_of_record() {
                continue;
            }
            let found = line.without_number();
            // Where events are missing, those after them are not compared with the wrong ones.
            let skipped = due.iter().position(|wanted| *wanted == found).unwrap_or(0);
            if skipped > 0 {
                fault(format!("{skipped} of the ledger's events are missing before it"));
                due.drain(..skipped);
            }
            match due.pop_front() {
                None => fault("the ledger has no such event".to_owned()),
                Some(wanted) => {
                    if let Some(why) = difference(&wanted, &found) {
                        fault(format!("it is not the ledger's event: {why}"));
                    }
                }
            }
        }
    }
    if !due.is_empty() {
        let why = format!("{} of the ledger's events are missing", due.len());
        faults.push(Fault { at: "events.jsonl".to_owned(), why });
    }
    Ok(last)
}
