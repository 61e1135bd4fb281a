//! `events.jsonl`: appending, and mending its end.
//!
//! Invariant: lines are numbered 1, 2, 3 … without gaps, each number at the beginning of its line. Whole lines are
//! written at once. What a crash left at the end (half a line, a run of NULs) is moved to a file of its own before
//! anything is appended.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::PathBuf;

use bstr::ByteSlice;

use super::JournalError;
use super::directory::RunDirectory;
use crate::fsutil;

/// The beginning of a line.
const SEQ: &[u8] = b"{\"seq\":";

/// How much is read at first to find the beginning of a line, and at most at once.
const CHUNKS: (u64, u64) = (512, 64 * 1024);

/// More bytes are no event.
const LONGEST: u64 = 64 * 1024 * 1024;

/// The log of a run, open for appending. The caller holds the lock of the run directory.
#[derive(Debug)]
pub struct Log {
    file: File,
    path: PathBuf,
    /// The number of the last line; 0 without one.
    last: u64,
    /// The end of the last line.
    end: u64,
    /// The file with what was cut off, if anything was.
    torn: Option<PathBuf>,
}

/// A line that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Its number.
    pub seq: u64,
    /// Its bytes without the newline: a JSON object.
    pub bytes: Vec<u8>,
}

impl Line {
    /// Whether its event is of record: it names a commit of the ledger, before its other fields.
    #[must_use]
    pub fn is_of_record(&self) -> bool {
        self.fields().starts_with(b"\"commit\":")
    }

    /// The object without its number.
    #[must_use]
    pub fn without_number(&self) -> Vec<u8> {
        [b"{", self.fields()].concat()
    }

    /// What follows the number.
    fn fields(&self) -> &[u8] {
        let rest = self.bytes.strip_prefix(SEQ).unwrap_or_default();
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        rest[digits..].strip_prefix(b",").unwrap_or(&rest[digits..])
    }
}

/// The number of a line. `None` for one that is none of a journal.
pub(super) fn seq_of(line: &[u8]) -> Option<u64> {
    let rest = line.strip_prefix(SEQ)?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let number = std::str::from_utf8(&rest[..digits]).ok()?;
    number.parse().ok()
}

/// Whether a line is whole: numbered, and a JSON object.
pub(super) fn is_whole(line: &[u8]) -> bool {
    seq_of(line).is_some() && serde_json::from_slice::<serde::de::IgnoredAny>(line).is_ok()
}

impl Log {
    /// Opens the log for appending, and mends its end.
    pub(super) fn open(directory: &RunDirectory) -> Result<Self, JournalError> {
        let path = directory.events();
        fsutil::clear_odd(&path).map_err(JournalError::file("replace", &path))?;
        let opened = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(&path);
        let mut log = Self {
            file: opened.map_err(JournalError::file("open", &path))?,
            path,
            last: 0,
            end: 0,
            torn: None,
        };
        log.mend().map_err(JournalError::file("mend", &log.path))?;
        Ok(log)
    }

    /// The number of the last line; 0 without one.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.last
    }

    /// The length up to the end of the last line, in bytes.
    #[must_use]
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Whether the file at the path is this one, and ends where this log does.
    pub(super) fn is_current(&self) -> bool {
        let same = |own: Metadata, there: Metadata| {
            (own.dev(), own.ino()) == (there.dev(), there.ino()) && there.len() == self.end
        };
        self.file
            .metadata()
            .is_ok_and(|own| std::fs::metadata(&self.path).is_ok_and(|there| same(own, there)))
    }

    /// Waits until all lines are on the disk.
    pub(super) fn sync(&self) -> Result<(), JournalError> {
        self.file.sync_data().map_err(JournalError::file("write to", &self.path))
    }

    /// The file with what was cut off the end when the log was opened.
    #[must_use]
    pub fn torn(&self) -> Option<&PathBuf> {
        self.torn.as_ref()
    }

    /// Finds the last whole line, and moves what follows it away.
    fn mend(&mut self) -> std::io::Result<()> {
        let length = self.file.metadata()?.len();
        let mut end = length;
        while let Some((start, line)) = line_before(&self.file, end)? {
            let newline = start + u64::try_from(line.len()).unwrap_or(u64::MAX);
            if newline < length && is_whole(&line) {
                self.last = seq_of(&line).unwrap_or(0);
                self.end = newline + 1;
                return self.cut(length);
            }
            end = start;
        }
        self.cut(length)
    }

    /// Moves everything after the last whole line to `events.torn-<n>`.
    fn cut(&mut self, length: u64) -> std::io::Result<()> {
        if self.end == length {
            return Ok(());
        }
        let (place, mut torn) = self.torn_file()?;
        let mut rest = fsutil::open_plain(&self.path)?;
        rest.seek(SeekFrom::Start(self.end))?;
        std::io::copy(&mut rest, &mut torn)?;
        torn.sync_all()?;
        self.file.set_len(self.end)?;
        self.file.sync_all()?;
        tracing::warn!(from = self.end, bytes = length - self.end, to = %place.display(), "the end of a journal was torn; moved away");
        self.torn = Some(place);
        Ok(())
    }

    fn torn_file(&self) -> std::io::Result<(PathBuf, File)> {
        for number in 1..u32::MAX {
            let place = self.path.with_file_name(format!("events.torn-{number}"));
            match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&place) {
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                opened => return opened.map(|file| (place, file)),
            }
        }
        Err(std::io::Error::other("there are too many torn ends"))
    }

    /// Appends JSON objects, each as one line with the next number, in one write. With `durable` they are on the disk
    /// when this returns.
    pub(super) fn append<'e>(
        &mut self,
        events: impl IntoIterator<Item = &'e [u8]>,
        durable: bool,
    ) -> Result<(), JournalError> {
        let mut lines = Vec::new();
        let mut last = self.last;
        for event in events {
            last += 1;
            lines.extend_from_slice(SEQ);
            lines.extend_from_slice(last.to_string().as_bytes());
            // An object without fields gets no comma.
            lines.extend_from_slice(if event == b"{}" { b"" } else { b"," });
            lines.extend_from_slice(event.strip_prefix(b"{").unwrap_or(event));
            lines.push(b'\n');
        }
        if lines.is_empty() {
            return Ok(());
        }
        let written =
            self.file.write_all(&lines).and_then(|()| if durable { self.file.sync_data() } else { Ok(()) });
        if let Err(error) = written {
            // A full disk: none of the lines may stay, nor a half one.
            drop(self.file.set_len(self.end));
            return Err(JournalError::file("write to", &self.path)(error));
        }
        self.last = last;
        self.end += u64::try_from(lines.len()).unwrap_or(u64::MAX);
        Ok(())
    }

    /// The lines from the last one back to the first.
    pub(super) fn backwards(&self) -> impl Iterator<Item = Line> + '_ {
        let mut end = self.end;
        std::iter::from_fn(move || {
            loop {
                let (start, bytes) = line_before(&self.file, end).ok()??;
                end = start;
                if let Some(seq) = seq_of(&bytes) {
                    return Some(Line { seq, bytes });
                }
            }
        })
    }
}

/// The line that ends at `end` (its newline included, if there is one), and its beginning. `None` at the beginning of
/// the file. One that is longer than any event is returned without its bytes.
pub(super) fn line_before(file: &File, end: u64) -> std::io::Result<Option<(u64, Vec<u8>)>> {
    if end == 0 {
        return Ok(None);
    }
    let bytes = |from: u64, to: u64| {
        let mut bytes = vec![0; usize::try_from(to - from).unwrap_or(0)];
        file.read_exact_at(&mut bytes, from).map(|()| bytes)
    };
    let body = if bytes(end - 1, end)? == b"\n" { end - 1 } else { end };
    let (mut start, (mut size, most)) = (body, CHUNKS);
    // Only what was not searched yet is read, since the end may be gigabytes of zeros.
    while start > 0 {
        let from = start.saturating_sub(size);
        size = most.min(2 * size);
        if let Some(newline) = bytes(from, start)?.rfind_byte(b'\n') {
            start = from + u64::try_from(newline).unwrap_or(0) + 1;
            break;
        }
        start = from;
    }
    let line = if body - start > LONGEST { Vec::new() } else { bytes(start, body)? };
    Ok(Some((start, line)))
}
