//! The files that a turn leaves.
//!
//! Invariant: a file has a bound. Of a longer output the beginning and the end are kept, and a line between them says
//! how much is left out.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use serde_json::Value;

use super::event::Event;
use super::turn::files;
use crate::fsutil;
use crate::model::run::Usage;

/// The length that is kept of the beginning of an output, and of its end.
const HALF: u64 = 16 * 1024 * 1024;

/// The longest file of events. Later ones are left out.
const MOST_EVENTS: u64 = 32 * 1024 * 1024;

/// An output on its way into a file. The end is written in a circle behind the beginning, and put into order last.
#[derive(Debug)]
pub(crate) struct Kept {
    file: File,
    half: u64,
    written: u64,
}

impl Kept {
    /// Creates the file.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        Self::with_half(path, HALF)
    }

    fn with_half(path: &Path, half: u64) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        Ok(Self { file, half, written: 0 })
    }

    /// Writes to a file that is open.
    #[cfg(test)]
    pub(crate) fn on(file: File) -> Self {
        Self { file, half: HALF, written: 0 }
    }

    /// Appends bytes.
    pub(crate) fn push(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let (at, room) = if self.written < self.half {
                (self.written, self.half - self.written)
            } else {
                let around = (self.written - self.half) % self.half;
                (self.half + around, self.half - around)
            };
            let count = bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX));
            self.file.write_all_at(&bytes[..count], at)?;
            self.written += u64::try_from(count).unwrap_or(0);
            bytes = &bytes[count..];
        }
        Ok(())
    }

    /// Puts the end into order.
    pub(crate) fn finish(self) -> io::Result<()> {
        let left_out = self.written.saturating_sub(2 * self.half);
        if left_out == 0 {
            return Ok(());
        }
        let mut end = vec![0; usize::try_from(self.half).unwrap_or(usize::MAX)];
        self.file.read_exact_at(&mut end, self.half)?;
        let turn = usize::try_from((self.written - self.half) % self.half).unwrap_or(0);
        end.rotate_left(turn);
        let note = format!("\n[aynig: {left_out} bytes are left out here]\n");
        self.file.write_all_at(note.as_bytes(), self.half)?;
        let behind = self.half + u64::try_from(note.len()).unwrap_or(0);
        self.file.write_all_at(&end, behind)
    }
}

/// The last report of tokens and cost in a file of events, if there is one.
pub(crate) fn reported(path: &Path) -> Option<Usage> {
    let lines = BufReader::new(fsutil::open_plain(path).ok()?).lines().map_while(Result::ok);
    let events = lines.filter(|line| line.contains("telemetry.usage"));
    let usage = events.filter_map(|line| {
        let event: Value = serde_json::from_str(&line).ok()?;
        (event["type"] == "telemetry.usage").then(|| serde_json::from_value(event["usage"].clone()).ok())?
    });
    usage.last()
}

/// Removes the files of a turn that did nothing, so that another one can begin in its directory.
pub(crate) fn discard_output(evidence: &Path) {
    for name in [files::TRANSCRIPT, files::STDERR, files::FINAL, files::EVENTS] {
        let path = evidence.join(name);
        if let Err(error) = std::fs::remove_file(&path)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(path = %path.display(), %error, "the output of a turn that did nothing stays");
        }
    }
}

/// The file of events.
#[derive(Debug)]
pub(crate) struct Events {
    file: BufWriter<File>,
    most: u64,
    written: u64,
    left_out: u64,
}

impl Events {
    /// Creates the file.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().write(true).create_new(true).open(path)?;
        Ok(Self { file: BufWriter::new(file), most: MOST_EVENTS, written: 0, left_out: 0 })
    }

    /// Appends a line of an event.
    pub(crate) fn push(&mut self, line: &str) -> io::Result<()> {
        let length = u64::try_from(line.len()).unwrap_or(u64::MAX).saturating_add(1);
        if self.written.saturating_add(length) > self.most {
            self.left_out += 1;
            return Ok(());
        }
        self.file.write_all(line.as_bytes())?;
        self.file.write_all(b"\n")?;
        self.written += length;
        Ok(())
    }

    /// Writes what is buffered: people follow the file.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }

    /// Says how many events are left out.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        if self.left_out > 0 {
            let note = Event::Log(format!("{} events are left out here", self.left_out));
            for value in note.lines() {
                writeln!(self.file, "{value}")?;
            }
        }
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_output_both_ends_are_kept() {
        let directory = tempfile::tempdir().expect("a directory");
        for length in 0..64_u8 {
            for step in [1, 3, 7, 64] {
                let path = directory.path().join(format!("{length}-{step}"));
                let bytes: Vec<u8> = (0..length).collect();
                let mut kept = Kept::with_half(&path, 10).expect("a file");
                for part in bytes.chunks(step) {
                    kept.push(part).expect("written");
                }
                kept.finish().expect("in order");
                let found = std::fs::read(&path).expect("its content");
                if length <= 20 {
                    assert_eq!(found, bytes);
                    continue;
                }
                let note = format!("\n[aynig: {} bytes are left out here]\n", length - 20);
                let end = &bytes[usize::from(length) - 10..];
                assert_eq!(found, [&bytes[..10], note.as_bytes(), end].concat(), "{length} by {step}");
            }
        }
    }

    #[test]
    fn events_have_a_bound() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("events");
        let mut events = Events::create(&path).expect("a file");
        events.most = 100;
        for _ in 0..5 {
            events.push(r#"{"type":"message.assistant.delta","content":"x"}"#).expect("written");
        }
        events.finish().expect("written");
        let text = std::fs::read_to_string(&path).expect("text");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], r#"{"type":"message.assistant.delta","content":"x"}"#);
        assert_eq!(
            lines.last().copied(),
            Some(r#"{"type":"node.log","message":"3 events are left out here"}"#)
        );
        assert_eq!(lines.len(), 3);
    }
}
