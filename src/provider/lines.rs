//! Lines out of chunks of bytes.
//!
//! Invariant: no more than [`LONGEST`] bytes of a line are kept, whatever is printed.

/// The longest line that is read.
pub(crate) const LONGEST: usize = 16 * 1024 * 1024;

/// Splits what a program prints.
#[derive(Debug)]
pub(crate) struct Lines {
    longest: usize,
    partial: Vec<u8>,
    /// The line so far is longer than what is kept of it.
    is_lost: bool,
}

/// A line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// A line without its end.
    Whole(Vec<u8>),
    /// A line that is too long to be read.
    TooLong,
}

impl Default for Lines {
    fn default() -> Self {
        Self { longest: LONGEST, partial: Vec::new(), is_lost: false }
    }
}

impl Lines {
    /// Takes a chunk. Returns the lines that it ends.
    pub(crate) fn push(&mut self, chunk: &[u8]) -> Vec<Line> {
        let mut lines = Vec::new();
        let mut parts = chunk.split(|byte| *byte == b'\n');
        let mut last = parts.next().unwrap_or_default();
        for part in parts {
            self.extend(last);
            lines.extend(self.end());
            last = part;
        }
        self.extend(last);
        lines
    }

    /// Ends the last line, which has no newline.
    pub(crate) fn end(&mut self) -> Option<Line> {
        let mut line = std::mem::take(&mut self.partial);
        if std::mem::take(&mut self.is_lost) {
            return Some(Line::TooLong);
        }
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        (!line.is_empty()).then_some(Line::Whole(line))
    }

    fn extend(&mut self, part: &[u8]) {
        if self.partial.len() + part.len() > self.longest {
            self.is_lost = true;
            self.partial = Vec::new();
        } else if !self.is_lost {
            self.partial.extend_from_slice(part);
        }
    }
}

/// The end of a text of any length.
#[derive(Debug, Default)]
pub(crate) struct Ending {
    bytes: Vec<u8>,
    is_cut: bool,
}

impl Ending {
    /// The longest answer, in bytes. Of a longer one the end counts.
    pub(crate) const LONGEST: usize = 1024 * 1024;

    /// Appends a part.
    pub(crate) fn push(&mut self, part: &[u8]) {
        self.bytes.extend_from_slice(part);
        if self.bytes.len() > 2 * Self::LONGEST {
            self.bytes.drain(..self.bytes.len() - Self::LONGEST);
            self.is_cut = true;
        }
    }

    /// Whether nothing was appended.
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The end, and nothing remains.
    pub(crate) fn take(&mut self) -> String {
        let mut bytes = std::mem::take(&mut self.bytes);
        if bytes.len() > Self::LONGEST {
            bytes.drain(..bytes.len() - Self::LONGEST);
            self.is_cut = true;
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if std::mem::take(&mut self.is_cut) {
            return format!("[the beginning is left out]\n{text}");
        }
        text
    }

    /// The end of a whole text.
    pub(crate) fn of(text: String) -> String {
        if text.len() <= Self::LONGEST {
            return text;
        }
        let mut ending = Self::default();
        ending.push(text.as_bytes());
        ending.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(longest: usize, chunks: &[&str]) -> Vec<String> {
        let mut lines = Lines { longest, ..Lines::default() };
        let mut found: Vec<Line> = chunks.iter().flat_map(|chunk| lines.push(chunk.as_bytes())).collect();
        found.extend(lines.end());
        let text = |line| match line {
            Line::Whole(bytes) => String::from_utf8(bytes).expect("UTF-8"),
            Line::TooLong => "!".to_owned(),
        };
        found.into_iter().map(text).collect()
    }

    #[test]
    fn lines_are_the_same_however_they_are_cut() {
        let text = "one\ntwo\r\n\nthree\n\nfour";
        for size in 1..text.len() {
            let chunks: Vec<&str> = text
                .as_bytes()
                .chunks(size)
                .map(|chunk| std::str::from_utf8(chunk).expect("ASCII"))
                .collect();
            assert_eq!(split(100, &chunks), ["one", "two", "three", "four"], "{size}");
        }
    }

    #[test]
    fn lines_that_are_too_long_are_left_out() {
        assert_eq!(split(4, &["12345\n1234\n123", "45", "6\nab"]), ["!", "1234", "!", "ab"]);
        assert_eq!(split(4, &["123", "456"]), ["!"]);
    }

    #[test]
    fn of_a_long_text_the_end_is_kept() {
        let mut ending = Ending::default();
        for _ in 0..5 {
            ending.push(&vec![b'a'; Ending::LONGEST]);
        }
        ending.push(b"end");
        assert!(ending.bytes.len() <= 2 * Ending::LONGEST);
        let text = ending.take();
        assert!(text.starts_with("[the beginning is left out]\na") && text.ends_with("aend"));
        assert_eq!((ending.take(), Ending::of("x".to_owned())), (String::new(), "x".to_owned()));
    }
}
