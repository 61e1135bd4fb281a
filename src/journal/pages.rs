//! Reads `events.jsonl` by number: pages for people, and all that is new for those who follow.
//!
//! Invariant: a reader needs no lock. It sees whole lines alone, since a line without its end is not read.

use std::io::ErrorKind;
use std::os::unix::fs::FileExt;

use bstr::ByteSlice;

use super::JournalError;
use super::directory::RunDirectory;
use super::log::{Line, line_before, seq_of};
use crate::fsutil::{Followed, News};

/// A page of events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Oldest first.
    pub lines: Vec<Line>,
    /// Whether there are older ones.
    pub has_more: bool,
}

/// A journal, open for reading.
#[derive(Debug)]
pub struct Reader {
    directory: RunDirectory,
    followed: Followed,
    /// The number of the last line that was followed.
    last: u64,
}

impl Reader {
    /// Opens the journal of a run. `None` if there is none yet.
    ///
    /// # Errors
    /// [`JournalError::File`].
    pub fn open(directory: &RunDirectory) -> Result<Option<Self>, JournalError> {
        let path = directory.events();
        match Followed::open(&path) {
            Ok(followed) => Ok(Some(Self { directory: directory.clone(), followed, last: 0 })),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(JournalError::file("open", &path)(error)),
        }
    }

    /// Refuses a position that was taken in another journal.
    ///
    /// # Errors
    /// [`JournalError::Replaced`].
    pub fn check(directory: &RunDirectory, journal: &str) -> Result<(), JournalError> {
        let actual = directory.metadata().map(|metadata| metadata.journal).unwrap_or_default();
        if actual == journal {
            return Ok(());
        }
        Err(JournalError::Replaced { run: directory.run(), actual })
    }

    /// The newest `limit` lines before number `before` (`None`: of all).
    ///
    /// # Errors
    /// [`JournalError::File`].
    pub fn page(&self, before: Option<u64>, limit: usize) -> Result<Page, JournalError> {
        self.page_of(before, limit).map_err(self.failed())
    }

    fn page_of(&self, before: Option<u64>, limit: usize) -> std::io::Result<Page> {
        let mut end = match before {
            None => self.end_of_lines()?,
            Some(before) => self.place_of(before)?,
        };
        let mut lines = Vec::new();
        while let Some((start, bytes)) = line_before(self.followed.file(), end)? {
            if let Some(seq) = seq_of(&bytes) {
                if lines.len() == limit {
                    lines.reverse();
                    return Ok(Page { lines, has_more: true });
                }
                lines.push(Line { seq, bytes });
            }
            end = start;
        }
        lines.reverse();
        Ok(Page { lines, has_more: false })
    }

    fn failed(&self) -> impl FnOnce(std::io::Error) -> JournalError + use<> {
        JournalError::file("read", &self.directory.events())
    }

    /// Begins to follow after number `seq`.
    ///
    /// # Errors
    /// [`JournalError::File`].
    pub fn seek_after(&mut self, seq: u64) -> Result<(), JournalError> {
        let place = self.place_of(seq + 1).map_err(self.failed())?;
        self.followed.seek(place);
        self.last = seq;
        Ok(())
    }

    /// The next lines that are there, oldest first; empty if there is nothing new now.
    ///
    /// # Errors
    /// [`JournalError::File`]; [`JournalError::Replaced`] if the journal was made anew meanwhile.
    pub fn next_lines(&mut self) -> Result<Vec<Line>, JournalError> {
        loop {
            match self.followed.lines().map_err(self.failed())? {
                News::Nothing => return Ok(Vec::new()),
                // A torn end was moved away.
                News::Cut => self.seek_after(self.last)?,
                News::Replaced => {
                    let actual = self.directory.metadata().map(|metadata| metadata.journal);
                    let actual = actual.unwrap_or_default();
                    return Err(JournalError::Replaced { run: self.directory.run(), actual });
                }
                News::Bytes(bytes) => {
                    let lines: Vec<Line> = bytes
                        .lines()
                        .filter_map(|line| Some(Line { seq: seq_of(line)?, bytes: line.to_vec() }))
                        .collect();
                    if let Some(line) = lines.last() {
                        self.last = line.seq;
                        return Ok(lines);
                    }
                }
            }
        }
    }

    /// The end of the last whole line.
    fn end_of_lines(&self) -> std::io::Result<u64> {
        let length = self.followed.file().metadata()?.len();
        let mut last = [0];
        if length == 0 || (self.followed.file().read_at(&mut last, length - 1)? == 1 && last[0] == b'\n') {
            return Ok(length);
        }
        Ok(line_before(self.followed.file(), length)?.map_or(0, |(start, _)| start))
    }

    /// The beginning of the line with this number, or of the first one with a greater number. Lines are in order, so a
    /// few places are looked at, whatever the length of the file.
    fn place_of(&self, seq: u64) -> std::io::Result<u64> {
        let end = self.end_of_lines()?;
        // Lines before `low` have smaller numbers, those from `high` on have not.
        let (mut low, mut high) = (0, end);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.line_at(middle, high)? {
                Some((start, line)) if seq_of(&line).is_some_and(|number| number < seq) => {
                    low = start + u64::try_from(line.len()).unwrap_or(0) + 1;
                }
                // No line begins between the middle and `high`, or it is not before the one that is looked for.
                Some(_) | None if middle == low => return self.walk(low, high, seq),
                Some(_) | None => high = middle,
            }
        }
        Ok(low)
    }

    /// The first numbered line that begins at or after `from` and before `end`.
    fn line_at(&self, from: u64, end: u64) -> std::io::Result<Option<(u64, Vec<u8>)>> {
        let mut start = from;
        if from > 0 {
            let mut before = [0];
            self.followed.file().read_exact_at(&mut before, from - 1)?;
            if before[0] != b'\n' {
                start = self.newline_after(from)? + 1;
            }
        }
        while start < end {
            let stop = self.newline_after(start)?;
            let mut line = vec![0; usize::try_from(stop - start).unwrap_or(0)];
            self.followed.file().read_exact_at(&mut line, start)?;
            if seq_of(&line).is_some() {
                return Ok(Some((start, line)));
            }
            start = stop + 1;
        }
        Ok(None)
    }

    /// The place of the first newline at or after `from`; the end of the file without one.
    fn newline_after(&self, from: u64) -> std::io::Result<u64> {
        let mut at = from;
        let mut chunk = [0; 8192];
        loop {
            let read = self.followed.file().read_at(&mut chunk, at)?;
            if read == 0 {
                return Ok(at);
            }
            if let Some(newline) = chunk[..read].find_byte(b'\n') {
                return Ok(at + u64::try_from(newline).unwrap_or(0));
            }
            at += u64::try_from(read).unwrap_or(0);
        }
    }

    /// Looks at the lines between two places one by one.
    fn walk(&self, from: u64, end: u64, seq: u64) -> std::io::Result<u64> {
        let mut place = from;
        while let Some((start, line)) = self.line_at(place, end)? {
            if seq_of(&line).is_some_and(|number| number >= seq) {
                return Ok(start);
            }
            place = start + u64::try_from(line.len()).unwrap_or(0) + 1;
        }
        Ok(end)
    }
}
