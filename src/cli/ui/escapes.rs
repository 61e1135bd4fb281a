//! Foreign bytes on their way to a terminal: text and colours pass, other control sequences are made visible.
//!
//! Invariant: the only control characters in the output are line feeds, tabs and whole SGR sequences
//! (`ESC [ … m`), however the input is split. Silently dropped are only the carriage return before a line
//! feed, and colours where they are off.

use bstr::decode_utf8;

use aynig::contract::report::is_invisible_order;

const ESCAPE: u8 = 0x1b;

/// The longest SGR sequence that passes, in bytes.
const LONGEST_SGR: usize = 64;

/// Resets the terminal's colours at the end.
const RESET: &str = "\x1b[0m";

/// A filter for one stream.
#[derive(Debug)]
pub(crate) struct Escapes {
    colours: bool,
    /// The beginning of an incomplete sequence or character.
    pending: Vec<u8>,
    /// Whether colours are set after the last sequence that passed.
    coloured: bool,
}

/// The kind of the next bytes.
enum Next {
    /// This many bytes, which pass as they are.
    Text(usize),
    /// This many bytes, a whole SGR sequence.
    Colours(usize),
    /// This many bytes, to be shown as this text.
    Shown(usize, String),
    /// Unknown until more bytes arrive.
    Unfinished,
}

impl Escapes {
    /// A filter that passes `colours` or drops them.
    pub(crate) fn new(colours: bool) -> Self {
        Self { colours, pending: Vec::new(), coloured: false }
    }

    /// Filters the bytes. The beginning of a sequence is held back until the rest arrives.
    pub(crate) fn pass(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.pending.extend_from_slice(bytes);
        let all = std::mem::take(&mut self.pending);
        let (out, read) = self.filtered(&all, false);
        self.pending = all[read..].to_vec();
        out
    }

    /// Flushes the bytes held back at the end of the stream, and resets the colours.
    pub(crate) fn end(&mut self) -> Vec<u8> {
        let all = std::mem::take(&mut self.pending);
        let (mut out, _) = self.filtered(&all, true);
        if std::mem::take(&mut self.coloured) {
            out.extend_from_slice(RESET.as_bytes());
        }
        out
    }

    /// The output for `all`, and the number of bytes it covers.
    fn filtered(&mut self, all: &[u8], last: bool) -> (Vec<u8>, usize) {
        let mut out = Vec::with_capacity(all.len());
        let mut read = 0;
        while let Some(rest) = all.get(read..).filter(|rest| !rest.is_empty()) {
            match next(rest, last) {
                Next::Text(count) => {
                    out.extend_from_slice(&rest[..count]);
                    read += count;
                }
                Next::Colours(count) => {
                    if self.colours {
                        out.extend_from_slice(&rest[..count]);
                        self.coloured = !matches!(&rest[..count], b"\x1b[m" | b"\x1b[0m");
                    }
                    read += count;
                }
                Next::Shown(count, text) => {
                    out.extend_from_slice(text.as_bytes());
                    read += count;
                }
                Next::Unfinished => break,
            }
        }
        (out, read)
    }
}

/// The kind of the bytes at the beginning of `bytes`, which is not empty.
fn next(bytes: &[u8], last: bool) -> Next {
    match bytes[0] {
        b'\n' | b'\t' | b' '..=b'~' => {
            let plain = |byte: &u8| matches!(byte, b'\n' | b'\t' | b' '..=b'~');
            Next::Text(bytes.iter().take_while(|byte| plain(byte)).count())
        }
        b'\r' if bytes.get(1) == Some(&b'\n') => Next::Shown(1, String::new()),
        b'\r' if bytes.len() == 1 && !last => Next::Unfinished,
        ESCAPE => match sgr(bytes) {
            Some(count) => Next::Colours(count),
            None if !last && may_be_sgr(bytes) => Next::Unfinished,
            None => Next::Shown(1, "^[".to_owned()),
        },
        control @ (0..0x20 | 0x7f) => Next::Shown(1, format!("^{}", char::from(control ^ 0x40))),
        _ => match decode_utf8(bytes) {
            (Some(c), count) if c.is_control() || is_invisible_order(c) => {
                Next::Shown(count, format!("<U+{:04X}>", u32::from(c)))
            }
            (Some(_), count) => Next::Text(count),
            // A cut character may continue in the next piece.
            (None, count) if count == bytes.len() && count < 4 && !last => Next::Unfinished,
            (None, count) => Next::Shown(count, '\u{fffd}'.to_string()),
        },
    }
}

/// The number of parameter bytes, which come between `ESC [` and `m`.
fn parameters(bytes: &[u8]) -> usize {
    bytes.iter().skip(2).take_while(|byte| matches!(byte, b'0'..=b'9' | b';' | b':')).count()
}

/// The length of a whole SGR sequence at the beginning.
fn sgr(bytes: &[u8]) -> Option<usize> {
    let end = 2 + parameters(bytes);
    (bytes.starts_with(b"\x1b[") && end < LONGEST_SGR && bytes.get(end) == Some(&b'm')).then_some(end + 1)
}

/// Whether more bytes could complete an SGR sequence.
fn may_be_sgr(bytes: &[u8]) -> bool {
    bytes.len() == 1
        || (bytes[1] == b'[' && bytes.len() < LONGEST_SGR && 2 + parameters(bytes) == bytes.len())
}

/// A complete text, with its colours.
pub(crate) fn shown(bytes: &[u8]) -> Vec<u8> {
    let mut escapes = Escapes::new(true);
    let mut out = escapes.pass(bytes);
    out.extend(escapes.end());
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(bytes: &[u8]) -> String {
        String::from_utf8(shown(bytes)).unwrap()
    }

    #[test]
    fn what_is_shown() {
        for (bytes, expected) in [
            ("plain\ttext\nüber 🦀".as_bytes(), "plain\ttext\nüber 🦀"),
            (b"\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m"),
            (b"\x1b[38;2;1:2:3mred", "\x1b[38;2;1:2:3mred\x1b[0m"),
            (b"\x1b[mx\x1b[m", "\x1b[mx\x1b[m"),
            (b"\x1b]0;title\x07", "^[]0;title^G"),
            (b"\x1b[2J\x1b[1;1H\x1bc", "^[[2J^[[1;1H^[c"),
            (b"\x1b[?25m\x1b[>4m", "^[[?25m^[[>4m"),
            (b"\x1b\x1b[31mx", "^[\x1b[31mx\x1b[0m"),
            (b"\x1b[31", "^[[31"),
            (b"\x1b", "^["),
            (b"\x1b[\n", "^[[\n"),
            (b"dos\r\n50%\r100%\r", "dos\n50%^M100%^M"),
            (b"\0\x07\x08\x7f", "^@^G^H^?"),
            (b"\xc2\x9b31m \xe2\x80\xae \xe2\x81\xa6", "<U+009B>31m <U+202E> <U+2066>"),
            (b"\xff\x9b31m\xc3", "\u{fffd}\u{fffd}31m\u{fffd}"),
            (b"\xf0\x9f\xa6", "\u{fffd}"),
        ] {
            assert_eq!(text(bytes), expected, "{bytes:?}");
        }
        let long = [b"\x1b[".as_slice(), &[b'1'; 100], b"m"].concat();
        assert_eq!(text(&long), format!("^[[{}m", "1".repeat(100)));
    }

    #[test]
    fn without_colours_only_they_are_missing() {
        let mut escapes = Escapes::new(false);
        assert_eq!(escapes.pass(b"\x1b[31mred\x1b[0m\x1b[K"), b"red^[[K");
        assert_eq!(escapes.end(), b"");
    }

    proptest! {
        #[test]
        fn pieces_make_no_difference(
            parts in prop::collection::vec(
                prop::sample::select(vec!["\x1b", "[", "31;1", "m", "\r", "\n", "a", "é", "🦀", "\u{9b}", "\u{202e}", "\x07", "]0;"]),
                0..30,
            ),
            at in 0..60_usize,
        ) {
            let bytes = parts.concat().into_bytes();
            let whole = shown(&bytes);
            let (one, two) = bytes.split_at(at.min(bytes.len()));
            let mut escapes = Escapes::new(true);
            let pieces = [escapes.pass(one), escapes.pass(two), escapes.end()].concat();
            prop_assert_eq!(&pieces, &whole);
            for (index, byte) in whole.iter().enumerate().filter(|(_, byte)| **byte < b' ') {
                let colours = sgr(&whole[index..]).is_some();
                prop_assert!(matches!(byte, b'\n' | b'\t') || colours);
            }
        }
    }
}
