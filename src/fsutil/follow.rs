//! Following a file that grows: its bytes, or its whole lines, from a position on.
//!
//! Invariant: what is appended is passed on once and in its order. A file that became shorter, and another file at the
//! path, are news of their own, since a position means nothing there.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::ops::ControlFlow;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::open_plain;

/// The pause between two looks at a file without news.
const LOOK: Duration = Duration::from_millis(100);

/// The number of bytes read at once, unless a line is longer.
const CHUNK: usize = 1024 * 1024;

/// A file that is read on from a position.
#[derive(Debug)]
pub struct Followed {
    path: PathBuf,
    file: File,
    next: u64,
}

/// What one look at a file found.
#[derive(Debug, PartialEq, Eq)]
pub enum News {
    /// What follows the position.
    Bytes(Vec<u8>),
    /// Nothing follows it now.
    Nothing,
    /// The file ends before the position, which is its beginning now.
    Cut,
    /// Another file is at the path. The position is its beginning.
    Replaced,
}

impl Followed {
    /// Opens a file; the position is its beginning.
    ///
    /// # Errors
    /// Those of [`open_plain`].
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_path_buf(), file: open_plain(path)?, next: 0 })
    }

    /// The open file.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Sets the position.
    pub(crate) fn seek(&mut self, place: u64) {
        self.next = place;
    }

    /// Reads bytes as they are.
    ///
    /// # Errors
    /// Any error from reading, or from opening a file that took its place.
    pub fn bytes(&mut self) -> io::Result<News> {
        let bytes = self.read(CHUNK)?;
        self.pass(bytes)
    }

    /// Reads whole lines, with their newlines. A last line without one is left for the next look.
    ///
    /// # Errors
    /// As [`bytes`](Self::bytes).
    pub fn lines(&mut self) -> io::Result<News> {
        let mut most = CHUNK;
        loop {
            let mut bytes = self.read(most)?;
            let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
            if whole > 0 || bytes.len() < most {
                bytes.truncate(whole);
                return self.pass(bytes);
            }
            most *= 2;
        }
    }

    fn read(&self, most: usize) -> io::Result<Vec<u8>> {
        let left = self.file.metadata()?.len().saturating_sub(self.next);
        let mut bytes = vec![0; usize::try_from(left).unwrap_or(most).min(most)];
        let mut read = 0;
        while read < bytes.len() {
            match self.file.read_at(&mut bytes[read..], self.next + u64::try_from(read).unwrap_or(0)) {
                // It was cut meanwhile.
                Ok(0) => break,
                Ok(count) => read += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        bytes.truncate(read);
        Ok(bytes)
    }

    fn pass(&mut self, bytes: Vec<u8>) -> io::Result<News> {
        if !bytes.is_empty() {
            self.next += u64::try_from(bytes.len()).unwrap_or(0);
            return Ok(News::Bytes(bytes));
        }
        let own = self.file.metadata()?;
        if own.len() < self.next {
            self.next = 0;
            return Ok(News::Cut);
        }
        match fs::metadata(&self.path) {
            Ok(there) if (there.dev(), there.ino()) != (own.dev(), own.ino()) => {
                self.file = open_plain(&self.path)?;
                self.next = 0;
                Ok(News::Replaced)
            }
            Ok(_) => Ok(News::Nothing),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(News::Nothing),
            Err(error) => Err(error),
        }
    }
}

/// Reads a source by `read` until that breaks, or until `over`. `over` is asked before each reading, so that all that was
/// there at the end is read.
///
/// # Errors
/// The first error of either.
pub fn follow<S, E>(
    source: &mut S,
    mut over: impl FnMut(&mut S) -> Result<bool, E>,
    mut read: impl FnMut(&mut S) -> Result<ControlFlow<()>, E>,
) -> Result<(), E> {
    loop {
        let over = over(source)?;
        if read(source)?.is_break() || over {
            return Ok(());
        }
        std::thread::sleep(LOOK);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::fsutil::replace;

    fn news(text: &str) -> News {
        News::Bytes(text.as_bytes().to_vec())
    }

    #[test]
    fn what_is_appended_cut_and_replaced() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("log");
        replace(&path, b"one\ntw").unwrap();
        let (mut lines, mut bytes) = (Followed::open(&path).unwrap(), Followed::open(&path).unwrap());
        assert_eq!((lines.lines().unwrap(), bytes.bytes().unwrap()), (news("one\n"), news("one\ntw")));
        assert_eq!((lines.lines().unwrap(), bytes.bytes().unwrap()), (News::Nothing, News::Nothing));
        let mut writer = fs::OpenOptions::new().append(true).open(&path).unwrap();
        writer.write_all(b"o\n").unwrap();
        assert_eq!((lines.lines().unwrap(), bytes.bytes().unwrap()), (news("two\n"), news("o\n")));
        writer.set_len(0).unwrap();
        writer.write_all(b"new\n").unwrap();
        assert_eq!((lines.lines().unwrap(), bytes.bytes().unwrap()), (News::Cut, News::Cut));
        assert_eq!((lines.lines().unwrap(), bytes.bytes().unwrap()), (news("new\n"), news("new\n")));
        // The old file is read to its end first.
        writer.write_all(b"last\n").unwrap();
        fs::remove_file(&path).unwrap();
        assert_eq!(lines.lines().unwrap(), news("last\n"));
        assert_eq!(lines.lines().unwrap(), News::Nothing, "there is none yet");
        replace(&path, b"other\n").unwrap();
        assert_eq!((lines.lines().unwrap(), lines.lines().unwrap()), (News::Replaced, news("other\n")));
    }

    #[test]
    fn a_line_longer_than_what_is_read_at_once() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("log");
        let long = format!("{}\n", "x".repeat(3 * CHUNK));
        replace(&path, format!("{long}y").as_bytes()).unwrap();
        let mut lines = Followed::open(&path).unwrap();
        assert_eq!(lines.lines().unwrap(), news(&long));
        assert_eq!(lines.lines().unwrap(), News::Nothing);
    }
}
