//! A file that gets the beginning and the end of an output of any length.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// What is kept of the beginning, in bytes.
const HEAD: usize = 15 * 1024 * 1024;

/// What is kept of the end. It is in memory until the output is over.
const TAIL: usize = 1024 * 1024;

/// A file that is being written.
#[derive(Debug)]
pub(crate) struct Bounded {
    file: File,
    head: usize,
    tail: VecDeque<u8>,
    dropped: usize,
    failed: Option<io::Error>,
}

impl Bounded {
    /// Makes the file, with the mode 0600. It must not exist.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        Ok(Self { file, head: HEAD, tail: VecDeque::new(), dropped: 0, failed: None })
    }

    /// Takes a part of the output. After an error the rest of the beginning is lost; `finish` tells.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        let room = self.head.min(bytes.len());
        let (first, rest) = bytes.split_at(room);
        self.head -= room;
        if self.failed.is_none() {
            self.failed = self.file.write_all(first).err();
        }
        self.tail.extend(rest);
        let more = self.tail.len().saturating_sub(TAIL);
        self.tail.drain(..more);
        self.dropped = self.dropped.saturating_add(more);
    }

    /// Writes the end. Returns how many bytes are left out.
    pub(crate) fn finish(mut self) -> io::Result<usize> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        if self.dropped > 0 {
            writeln!(self.file, "\n[aynig: {} bytes are left out here]", self.dropped)?;
        }
        let (one, other) = self.tail.as_slices();
        self.file.write_all(one)?;
        self.file.write_all(other)?;
        Ok(self.dropped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginning_and_end_are_kept() {
        let room = tempfile::tempdir().expect("a directory");
        let of = |name: &str, parts: &[Vec<u8>]| {
            let path = room.path().join(name);
            let mut file = Bounded::create(&path).expect("a file");
            parts.iter().for_each(|part| file.write(part));
            (file.finish().expect("written"), std::fs::read(path).expect("read"))
        };
        assert_eq!(of("short", &[b"a".to_vec(), b"b".to_vec()]), (0, b"ab".to_vec()));
        let head = HEAD;
        let parts = [vec![b'a'; head - 1], vec![b'b'; TAIL], b"cc".to_vec()];
        let (dropped, text) = of("long", &parts);
        assert_eq!(dropped, 1);
        let line = b"\n[aynig: 1 bytes are left out here]\n";
        assert_eq!(text.len(), head + line.len() + TAIL);
        assert_eq!(&text[head..head + line.len()], line);
        assert!(text.ends_with(b"bcc"));
        assert!(Bounded::create(&room.path().join("long")).is_err());
        let mut full = Bounded {
            file: File::create("/dev/full").expect("a device"),
            ..Bounded::create(&room.path().join("x")).expect("a file")
        };
        full.write(b"a");
        assert!(full.finish().is_err());
    }
}
