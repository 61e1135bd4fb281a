//! The ends of files.
//!
//! Invariant: no more than the end is read, however long the file is.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use super::open_plain;

/// Reads the last `max_bytes` bytes of a file, or all of a shorter one, without reading what comes
/// before.
///
/// The cut may fall inside a line or a character. Bytes appended while reading are not included
/// beyond the bound.
///
/// # Errors
/// Any error from opening, seeking or reading. A missing file is [`io::ErrorKind::NotFound`].
pub fn tail(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    tail_of(&open_plain(path)?, max_bytes)
}

/// The longest line that is quoted, in characters.
const LONGEST_QUOTE: usize = 300;

/// The last line of a log that is not empty, without control characters, to be quoted. Hints that git and this program
/// print below an error are passed over.
pub(crate) fn last_line(path: &Path) -> Option<String> {
    let bytes = tail(path, 8 * 1024).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let mut lines = text.lines().rev().map(str::trim).filter(|line| !line.is_empty()).peekable();
    let last = lines.peek().copied()?;
    let line = lines.find(|line| !line.starts_with("hint:")).unwrap_or(last);
    Some(line.chars().filter(|c| !c.is_control()).take(LONGEST_QUOTE).collect())
}

/// Reads the last `max_bytes` bytes of an open file, like [`tail`].
///
/// # Errors
/// Any error from seeking or reading.
pub(crate) fn tail_of(mut file: &File, max_bytes: u64) -> io::Result<Vec<u8>> {
    let length = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(length.saturating_sub(max_bytes)))?;
    let mut bytes = Vec::new();
    file.take(max_bytes).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_is_quoted_but_no_hint_below_an_error() {
        let room = tempfile::tempdir().expect("a directory");
        let path = room.path().join("log");
        for (text, wanted) in [
            ("", None),
            ("one\ntwo\n\n", Some("two")),
            ("error: there is no node rex\n  hint: it has ada\n", Some("error: there is no node rex")),
            ("fatal: no\nhint: a\nhint: b\n", Some("fatal: no")),
            ("hint: alone\n", Some("hint: alone")),
        ] {
            crate::fsutil::replace(&path, text.as_bytes()).expect("a file");
            assert_eq!(last_line(&path).as_deref(), wanted, "{text:?}");
        }
    }
}
