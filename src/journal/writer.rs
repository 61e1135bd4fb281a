//! Appends events that only this host saw.
//!
//! Invariant: an event is masked before it is written, is one line, and never looks like an event of record. What is
//! appended is on the disk at most a second after the next append or [`Writer::flush`].

use std::time::Duration;

use bstr::ByteSlice;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::directory::RunDirectory;
use super::log::Log;
use super::sync::{Pace, Synced, bring_up, head_of};
use super::{JournalError, artifacts};
use crate::clock::{self, Stopwatch};
use crate::contract::ids::CommitId;
use crate::git::Repo;
use crate::git::objects::digest::sha256;
use crate::ledger::Tip;
use crate::ledger::masks::Masks;
use crate::model::ids::ArtifactId;
use crate::model::time::Timestamp;

/// An event longer than this, in bytes, becomes an artifact.
const LONG: usize = 16 * 1024;

/// The length of a journal after which deltas are no longer kept, in bytes.
const MOST: u64 = 256 * 1024 * 1024;

/// How long lines may not be on the disk yet.
const UNSYNCED: Duration = Duration::from_secs(1);

/// The fields of an event that stay in its line if its content becomes an artifact.
const ENVELOPE: [&str; 5] = ["id", "runId", "ts", "type", "nodeId"];

/// A run's journal, open for appending. Others may append to it as well.
#[derive(Debug)]
pub struct Writer<'r> {
    repo: &'r Repo,
    directory: RunDirectory,
    masks: Masks,
    most: u64,
    /// The log, and the commit of the ledger up to which it was brought.
    log: Option<(Log, CommitId)>,
    journal: String,
    /// Since the oldest line that may not be on the disk.
    unsynced: Option<Stopwatch>,
}

impl<'r> Writer<'r> {
    /// Opens the journal of a run. Secrets are masked as its base says.
    ///
    /// # Errors
    /// [`JournalError`] if the run cannot be read.
    pub fn open(repo: &'r Repo, directory: &RunDirectory) -> Result<Self, JournalError> {
        let tip = Tip::read_run(repo, directory.run(), head_of(repo, directory)?)?;
        let masks = Masks::of(repo, &tip.state.run.base_sha)?;
        let directory = directory.clone();
        Ok(Self { repo, directory, masks, most: MOST, log: None, journal: String::new(), unsynced: None })
    }

    /// Sets the length after which deltas are no longer kept, in bytes.
    #[must_use]
    pub fn bounded(mut self, most: u64) -> Self {
        self.most = most;
        self
    }

    /// Appends events: JSON objects with the envelope of the contract, without a number. Events of the ledger that are
    /// not in the journal come first.
    ///
    /// # Errors
    /// [`JournalError`]; none of the events is then in the journal.
    pub fn append(&mut self, events: &[Vec<u8>]) -> Result<Synced, JournalError> {
        let _lock = self.directory.lock()?;
        // Under the lock, so that the journal is not ahead of it.
        let head = head_of(self.repo, &self.directory)?;
        let (mut log, mut synced) = self.current(head)?;
        let kept = log.end() < self.most;
        let mut lines = Vec::with_capacity(events.len());
        for event in events {
            let line = self.line(event)?;
            if kept || !is_delta(&line) {
                lines.push(line);
            }
        }
        if lines.len() < events.len() {
            lines.extend(self.report_full()?);
        }
        let written = log.append(lines.iter().map(Vec::as_slice), false);
        synced.last_seq = log.last();
        synced.added = lines.len();
        self.log = Some((log, head));
        written?;
        self.unsynced.get_or_insert_with(Stopwatch::start);
        if self.unsynced.is_some_and(|since| since.elapsed() >= UNSYNCED) {
            self.flush()?;
        }
        Ok(synced)
    }

    /// Waits until all that was appended is on the disk.
    ///
    /// # Errors
    /// [`JournalError::File`].
    pub fn flush(&mut self) -> Result<(), JournalError> {
        if self.unsynced.take().is_some()
            && let Some((log, _)) = &self.log
        {
            log.sync()?;
        }
        Ok(())
    }

    /// The log, up to the ledger; the caller holds the lock.
    fn current(&mut self, head: CommitId) -> Result<(Log, Synced), JournalError> {
        if let Some((log, synced)) = self.log.take()
            && synced == head
            && log.is_current()
        {
            let synced = Synced { journal: self.journal.clone(), ..Synced::default() };
            return Ok((log, synced));
        }
        let synced = bring_up(self.repo, &self.directory, head, Pace::Writing)?;
        self.journal.clone_from(&synced.journal);
        Ok((Log::open(&self.directory)?, synced))
    }

    /// An event as it is written: masked, on one line, without fields that only the journal gives.
    fn line(&self, event: &[u8]) -> Result<Vec<u8>, JournalError> {
        let masked = if self.masks.is_empty() { event.to_vec() } else { self.masks.line(event) };
        let plain = masked.starts_with(b"{\"") && masked.ends_with(b"}") && !masked.contains(&b'\n');
        let given = masked.contains_str("\"seq\"") || masked.contains_str("\"commit\"");
        if plain && !given && masked.len() <= LONG {
            return Ok(masked);
        }
        let mut fields: Map<String, Value> =
            serde_json::from_slice(&masked).map_err(|error| JournalError::NoEvent(error.to_string()))?;
        fields.remove("seq");
        fields.remove("commit");
        let whole = to_bytes(&fields);
        if whole.len() <= LONG {
            return Ok(whole);
        }
        let own = fields.get("id").and_then(Value::as_str).and_then(|id| Uuid::try_parse(id).ok());
        let id = ArtifactId::from(Uuid::new_v5(&own.unwrap_or_else(Uuid::new_v4), b"payload"));
        artifacts::write(&self.directory, id, &whole)?;
        fields.retain(|name, _| ENVELOPE.contains(&name.as_str()));
        fields.insert(
            "artifact".to_owned(),
            json!({"id": id, "mediaType": "application/json", "size": whole.len(), "sha256": sha256(&whole)}),
        );
        Ok(to_bytes(&fields))
    }

    /// The event that reports, once in a journal, that deltas are no longer kept.
    fn report_full(&self) -> Result<Option<Vec<u8>>, JournalError> {
        let Some(metadata) = self.directory.metadata().filter(|metadata| !metadata.full) else {
            return Ok(None);
        };
        let mut metadata = metadata;
        metadata.full = true;
        self.directory.set_metadata(&metadata)?;
        let text = format!("the journal has {} MiB: deltas are no longer kept", self.most >> 20);
        tracing::warn!(run = %self.directory.run(), text);
        let event = json!({
            "id": Uuid::new_v4(),
            "runId": self.directory.run(),
            "ts": Timestamp::from_millis(clock::wall_millis()),
            "type": "node.log",
            "line": text,
        });
        Ok(Some(event.to_string().into_bytes()))
    }
}

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.flush() {
            tracing::warn!(%error, "the end of a journal may not be on the disk");
        }
    }
}

/// A map of JSON has string keys and no failing parts.
fn to_bytes(fields: &Map<String, Value>) -> Vec<u8> {
    serde_json::to_vec(fields).unwrap_or_default()
}

/// Whether an event is a delta: a part of a text that comes again as a whole.
fn is_delta(line: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct Kind<'a> {
        #[serde(rename = "type", borrow)]
        kind: std::borrow::Cow<'a, str>,
    }
    serde_json::from_slice::<Kind<'_>>(line).is_ok_and(|event| event.kind.ends_with(".delta"))
}
