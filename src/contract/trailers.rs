//! Finds the trailer block of a commit message and parses it.
//!
//! Invariant: [`locate`] finds exactly what `git interpret-trailers --parse --no-divider` prints
//! under git's default configuration, byte for byte (CONTRACT 1.7). The tests compare it with the
//! git program on generated messages.
//!
//! How git finds the block, in the order of the functions below:
//!
//! 1. The text ends at the first NUL, else at a scissors line, else before a tail of comments,
//!    empty lines and an old-style `Conflicts:` list (`meaningful_lines`).
//! 2. The first paragraph is the title and has no trailers (`end_of_title`).
//! 3. The last paragraph is the block if all its lines are trailers, or if one of them is of a kind
//!    git itself writes and at least a quarter are trailers (`first_line_of_block`).
//! 4. A line that begins with white space continues the trailer before it (`read_block`).

use bstr::{BStr, BString, ByteSlice};

/// The keys only the runner may write (CONTRACT 4.7), as they are spelled.
pub const RUNNER_MANAGED: [&str; 7] = [
    "dwp-state",
    "dwp-source",
    "dwp-origin-state",
    "dwp-run-id",
    "dwp-runner-id",
    "dwp-lease-seconds",
    "dwp-stalled-run",
];

/// The prefix of the contract's keys, in this case.
pub(crate) const KEY_PREFIX: &str = "dwp-";

/// The trailer that sets the log level (CONTRACT 3.12).
pub(crate) const LOG_LEVEL_KEY: &str = "dwp-log-level";

/// Whether a key is runner-managed, compared without regard to ASCII case.
///
/// Keys are read by exact case. But a user-supplied `Dwp-State` must not get into a commit either:
/// less strict readers, such as git's own `trailer.*` machinery, would take it for the real one.
pub(crate) fn is_runner_managed(key: impl AsRef<[u8]>) -> bool {
    let key = key.as_ref();
    RUNNER_MANAGED.iter().any(|managed| key.eq_ignore_ascii_case(managed.as_bytes()))
}

/// Whether git accepts this as a trailer's key: one or more of `[A-Za-z0-9-]`.
pub(crate) fn is_valid_key(key: &[u8]) -> bool {
    !key.is_empty() && key.iter().all(|byte| is_key_byte(*byte))
}

/// One `key: value` line, both sides trimmed, continuation lines unfolded.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Trailer {
    /// The key, case as written.
    pub key: BString,
    /// The value, possibly empty; never contains a newline when read by [`locate`].
    pub value: BString,
}

impl Trailer {
    /// A trailer from its two parts, unchecked; `Draft::encode` checks it.
    pub fn new(key: impl Into<BString>, value: impl Into<BString>) -> Self {
        Self { key: key.into(), value: value.into() }
    }
}

/// The trailers of one message in their order, repeated keys included.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trailers(Vec<Trailer>);

impl Trailers {
    /// An empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Iterates over all of them, in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Trailer> {
        self.0.iter()
    }

    /// The value of the last trailer with this key, case as written (CONTRACT 1.8).
    pub fn last(&self, key: &str) -> Option<&BStr> {
        self.0.iter().rev().find(|trailer| trailer.key == key).map(|trailer| trailer.value.as_bstr())
    }

    pub(crate) fn push(&mut self, trailer: Trailer) {
        self.0.push(trailer);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The trailers a step may hand on: the key begins with `dwp-` as written and is not
    /// runner-managed (CONTRACT 4.6, 5.6).
    pub(crate) fn dwp_unreserved(&self) -> impl Iterator<Item = &Trailer> {
        self.0
            .iter()
            .filter(|trailer| trailer.key.starts_with_str(KEY_PREFIX) && !is_runner_managed(&trailer.key))
    }
}

impl FromIterator<Trailer> for Trailers {
    fn from_iter<I: IntoIterator<Item = Trailer>>(trailers: I) -> Self {
        Self(trailers.into_iter().collect())
    }
}

impl Extend<Trailer> for Trailers {
    fn extend<I: IntoIterator<Item = Trailer>>(&mut self, trailers: I) {
        self.0.extend(trailers);
    }
}

impl<'a> IntoIterator for &'a Trailers {
    type Item = &'a Trailer;
    type IntoIter = std::slice::Iter<'a, Trailer>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl IntoIterator for Trailers {
    type Item = Trailer;
    type IntoIter = std::vec::IntoIter<Trailer>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// The position of the trailer block in a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Block {
    /// Byte offset of the block's first line; the message's length if there is no block.
    pub(crate) start: usize,
    /// Byte offset just after the block's last line. The text below it (comments, a scissors line
    /// and everything after) is not part of the block.
    pub(crate) end: usize,
    /// Its trailers. A block may contain none.
    pub(crate) trailers: Trailers,
}

/// Finds the trailer block as git does. Never panics; a NUL ends the text as it does for git.
pub(crate) fn locate(message: &[u8]) -> Block {
    let text = message.find_byte(0).map_or(message, |nul| &message[..nul]);
    let mut lines = split_lines(text);
    // Git appends a newline to a last line without one, but not to a text that a NUL cut off.
    let cut_off = text.len() < message.len();
    lines.truncate(meaningful_lines(&lines, cut_off));
    match first_line_of_block(&lines) {
        Some(first) => {
            let end = lines.last().map_or(0, |line| line.start + line.bytes.len());
            Block { start: lines[first].start, end, trailers: read_block(&lines[first..]) }
        }
        None => Block { start: message.len(), end: message.len(), trailers: Trailers::new() },
    }
}

/// The line below which git assumes a diff shown to the author.
const SCISSORS: &[u8] = b"# ------------------------ >8 ------------------------";

/// Lines that git itself writes into a block. One of them turns a paragraph that is only partly
/// trailers into a block.
const WRITTEN_BY_GIT: [&[u8]; 2] = [b"Signed-off-by: ", b"(cherry picked from commit "];

const COMMENT: u8 = b'#';
const SEPARATOR: u8 = b':';

/// Whether a message cannot have trailers below this line. `line` is without its newline.
pub(crate) fn is_scissors(line: &[u8]) -> bool {
    line == SCISSORS
}

/// White space by git's definition, in any locale: no vertical tab, no form feed.
pub(crate) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

pub(crate) fn is_blank(line: &[u8]) -> bool {
    line.iter().all(|byte| is_space(*byte))
}

/// Removes git's white space at both ends.
pub(crate) fn trim(bytes: &[u8]) -> &[u8] {
    let bytes = trim_end(bytes);
    let start = bytes.iter().position(|byte| !is_space(*byte)).unwrap_or(bytes.len());
    &bytes[start..]
}

/// Removes git's white space at the end.
pub(crate) fn trim_end(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|byte| !is_space(*byte)).map_or(0, |last| last + 1);
    &bytes[..end]
}

fn is_key_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}

/// One line with its newline, if it has one, and its offset in the message.
#[derive(Clone, Copy)]
struct Line<'a> {
    start: usize,
    bytes: &'a [u8],
}

impl<'a> Line<'a> {
    fn content(self) -> &'a [u8] {
        self.bytes.strip_suffix(b"\n").unwrap_or(self.bytes)
    }

    fn is_comment(self) -> bool {
        self.bytes.first() == Some(&COMMENT)
    }

    fn is_indented(self) -> bool {
        self.bytes.first().is_some_and(|byte| is_space(*byte))
    }

    /// Where the key ends and the value begins, if this line can start a trailer: key bytes, then
    /// optional spaces and tabs, then the separator.
    fn separator(self) -> Option<usize> {
        let content = self.content();
        let key = content.iter().take_while(|byte| is_key_byte(**byte)).count();
        let gap = content[key..].iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        (key > 0 && content.get(key + gap) == Some(&SEPARATOR)).then_some(key + gap)
    }
}

fn split_lines(text: &[u8]) -> Vec<Line<'_>> {
    let mut start = 0;
    text.split_inclusive(|byte| *byte == b'\n')
        .map(|bytes| {
            let line = Line { start, bytes };
            start += bytes.len();
            line
        })
        .collect()
}

/// How many lines remain once git has ignored the scissors and the tail of comments and old
/// conflict lists.
fn meaningful_lines(lines: &[Line<'_>], cut_off: bool) -> usize {
    let cut = lines.iter().position(|line| is_scissors(line.content())).unwrap_or(lines.len());
    let mut tail: Option<usize> = None;
    let mut in_conflicts = false;
    for (index, line) in lines[..cut].iter().enumerate() {
        let conflicts = line.bytes == b"Conflicts:\n" || (line.bytes == b"Conflicts:" && !cut_off);
        if line.is_comment() || line.content().is_empty() || conflicts {
            in_conflicts |= conflicts;
            // git marks "no tail yet" with offset 0, so the message's first line never begins one.
            if tail.is_none() && index > 0 {
                tail = Some(index);
            }
        } else if in_conflicts && line.bytes.first() == Some(&b'\t') {
            // A path of the conflict list neither begins a tail nor ends one.
        } else if tail.is_some() {
            tail = None;
            in_conflicts = false;
        }
    }
    tail.unwrap_or(cut)
}

/// The index of the blank line that ends the title; the search goes no higher.
fn end_of_title(lines: &[Line<'_>]) -> usize {
    lines.iter().position(|line| !line.is_comment() && is_blank(line.content())).unwrap_or(lines.len())
}

/// Walks up from the last line to the blank line above the last paragraph and judges the lines
/// passed.
fn first_line_of_block(lines: &[Line<'_>]) -> Option<usize> {
    let title = end_of_title(lines);
    let (mut trailers, mut others, mut indented) = (0_usize, 0_usize, 0_usize);
    let (mut by_git, mut seen_text) = (false, false);
    for (index, line) in lines.iter().enumerate().skip(title).rev() {
        if line.is_comment() {
            others += indented;
            indented = 0;
        } else if is_blank(line.content()) {
            if seen_text {
                others += indented;
                let mixed = by_git && trailers * 3 >= others;
                let pure = trailers > 0 && others == 0;
                return (mixed || pure).then_some(index + 1);
            }
        } else {
            seen_text = true;
            if WRITTEN_BY_GIT.iter().any(|prefix| line.bytes.starts_with(prefix)) {
                by_git = true;
                trailers += 1;
                indented = 0;
            } else if line.separator().is_some() {
                trailers += 1;
                indented = 0;
            } else if line.is_indented() {
                // Only a line further up shows which line this one continues.
                indented += 1;
            } else {
                others += 1 + indented;
                indented = 0;
            }
        }
    }
    None
}

/// Parses the lines of a block: drops comments and other lines, folds continuation lines in.
fn read_block(lines: &[Line<'_>]) -> Trailers {
    let mut trailers = Trailers::new();
    let mut open: Option<(&[u8], Vec<u8>)> = None;
    let close = |open: Option<(&[u8], Vec<u8>)>, trailers: &mut Trailers| {
        if let Some((key, value)) = open {
            trailers.push(Trailer::new(trim(key), unfold(&value)));
        }
    };
    for line in lines {
        if line.is_indented()
            && let Some((_, value)) = open.as_mut()
        {
            value.extend_from_slice(line.bytes);
            continue;
        }
        close(open.take(), &mut trailers);
        open = line.separator().map(|at| (&line.bytes[..at], line.bytes[at + 1..].to_vec()));
    }
    close(open, &mut trailers);
    trailers
}

/// Replaces each line break and the white space after it by one space; trims before and after.
fn unfold(value: &[u8]) -> BString {
    let mut flat: Vec<u8> = Vec::with_capacity(value.len());
    for (index, part) in trim(value).split(|byte| *byte == b'\n').enumerate() {
        if index == 0 {
            flat.extend_from_slice(part);
            continue;
        }
        let start = part.iter().position(|byte| !is_space(*byte));
        // A part that is only white space vanishes together with the break before it.
        let Some(start) = start else { continue };
        flat.push(b' ');
        flat.extend_from_slice(&part[start..]);
    }
    BString::from(trim(&flat))
}

#[cfg(test)]
pub(in crate::contract) mod tests;
