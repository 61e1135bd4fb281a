//! Commit messages: parsed into subject, body and trailers, and composed so that they parse back
//! unchanged.
//!
//! Invariant: [`Message::parse`] reads the result of [`Draft::encode`] as exactly the draft that
//! was meant (CONTRACT 1.14). So no subject, body or value can forge a trailer or hide one.
//! `trailers` finds the trailer block.

use bstr::{BStr, BString, ByteSlice};

use crate::contract::trailers;
use crate::contract::trailers::{Trailers, is_blank, is_scissors, trim, trim_end};

/// A parsed commit message. Its parts are bytes, since a message need not be UTF-8.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Message {
    /// The lines of the first paragraph joined by single spaces, like git's `%s`.
    pub subject: BString,
    /// The text between the subject and the trailer block, without blank lines before it and white
    /// space after it, otherwise unchanged. Without a block, the rest of the message.
    pub body: BString,
    /// The contents of the trailer block.
    pub trailers: Trailers,
}

impl Message {
    /// Parses any bytes; never fails.
    ///
    /// Text that git ignores below a trailer block (comments, a scissors line and everything after
    /// it) is in none of the three parts.
    pub fn parse(message: &[u8]) -> Self {
        let block = trailers::locate(message);
        let (subject, rest) = split_subject(&message[..block.start]);
        Self { subject, body: body_of(rest), trailers: block.trailers }
    }
}

/// Returns the joined first paragraph and the text after it.
fn split_subject(text: &[u8]) -> (BString, &[u8]) {
    let mut subject: Vec<u8> = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        if is_blank(line) {
            if !subject.is_empty() {
                break;
            }
        } else {
            if !subject.is_empty() {
                subject.push(b' ');
            }
            subject.extend_from_slice(trim_end(line));
        }
        at += line.len();
    }
    (BString::from(subject), &text[at..])
}

/// Removes blank lines at the beginning and white space at the end. An indented first line keeps
/// its indent. A last line that only this makes git's scissors line is indented: with it no later
/// commit could take the body over.
fn body_of(text: &[u8]) -> BString {
    let mut rest = text;
    while let Some(at) = rest.find_byte(b'\n').filter(|at| is_blank(&rest[..*at])) {
        rest = &rest[at + 1..];
    }
    let body = trim_end(rest);
    let last = body.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    let had_space = rest.get(body.len()).is_some_and(|next| *next != b'\n');
    if had_space && is_scissors(last) {
        let above = &body[..body.len() - last.len()];
        return [above, b" ", last].concat().into();
    }
    body.into()
}

/// A message to be written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Draft {
    /// One line; spaces around it are dropped.
    pub subject: BString,
    /// Free text; blank lines before it and white space after it are dropped.
    pub body: BString,
    /// The trailers in the order to write them.
    pub trailers: Trailers,
}

/// A message that would not parse back as it was meant; names the part at fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// The subject cannot be written.
    #[error("the commit subject cannot be written: {why}")]
    Subject {
        /// The problem and how to fix it.
        why: &'static str,
    },
    /// The body cannot be written.
    #[error("the commit body cannot be written: {why}")]
    Body {
        /// The problem and how to fix it.
        why: &'static str,
    },
    /// A trailer cannot be written.
    #[error("the trailer {key:?} cannot be written: {why}")]
    Trailer {
        /// Its key, lossily decoded.
        key: String,
        /// The problem and how to fix it.
        why: &'static str,
    },
}

const NUL: &str = "it holds a NUL byte, which git cannot store; remove it";

impl Draft {
    /// This draft with its parts trimmed; the result of parsing the encoded bytes.
    pub(crate) fn normalised(&self) -> Message {
        let trimmed =
            |trailer: &trailers::Trailer| trailers::Trailer::new(trim(&trailer.key), trim(&trailer.value));
        Message {
            subject: BString::from(trim(&self.subject)),
            body: body_of(&self.body),
            trailers: self.trailers.iter().map(trimmed).collect(),
        }
    }

    /// Composes the message, parses it back, and returns its bytes only if nothing changed.
    ///
    /// # Errors
    /// [`MessageError`], naming the part that would be read differently.
    pub fn encode(&self) -> Result<BString, MessageError> {
        let meant = self.normalised();
        check_subject(meant.subject.as_bstr())?;
        check_body(meant.body.as_bstr())?;
        for trailer in &meant.trailers {
            if let Some(why) = broken_trailer_rule(&trailer.key, &trailer.value) {
                return Err(MessageError::Trailer { key: trailer.key.to_str_lossy().into_owned(), why });
            }
        }
        let bytes = compose(&meant);
        let read = Message::parse(&bytes);
        if read == meant { Ok(bytes) } else { Err(difference(&meant, &read)) }
    }
}

fn compose(message: &Message) -> BString {
    let mut bytes = message.subject.clone();
    bytes.push(b'\n');
    if !message.body.is_empty() {
        bytes.push(b'\n');
        bytes.extend_from_slice(&message.body);
        bytes.push(b'\n');
    }
    if !message.trailers.is_empty() {
        bytes.push(b'\n');
    }
    for trailer in &message.trailers {
        bytes.extend_from_slice(&trailer.key);
        // The space stays even before an empty value: to git a bare `Conflicts:` would end the
        // message.
        bytes.extend_from_slice(b": ");
        bytes.extend_from_slice(&trailer.value);
        bytes.push(b'\n');
    }
    bytes
}

fn check_subject(subject: &BStr) -> Result<(), MessageError> {
    let refuse = |why| Err(MessageError::Subject { why });
    if subject.is_empty() {
        refuse("it is empty; give it a line of text")
    } else if subject.contains(&0) {
        refuse(NUL)
    } else if subject.iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
        refuse("it holds a line break; keep it to one line and put the rest into the body")
    } else if subject.iter().any(u8::is_ascii_control) {
        refuse("it holds a control character; remove it")
    } else if is_scissors(subject) {
        refuse("it is git's scissors line, which hides everything below it; choose another text")
    } else {
        Ok(())
    }
}

fn check_body(body: &BStr) -> Result<(), MessageError> {
    let refuse = |why| Err(MessageError::Body { why });
    if body.contains(&0) {
        refuse(NUL)
    } else if body.split(|byte| *byte == b'\n').any(is_scissors) {
        refuse("it holds git's scissors line, which hides everything below it; indent that line")
    } else {
        Ok(())
    }
}

/// Why this key and value cannot be one line of a trailer block; both must be trimmed.
pub(crate) fn broken_trailer_rule(key: &[u8], value: &[u8]) -> Option<&'static str> {
    if !trailers::is_valid_key(key) {
        Some("a key is one or more letters, digits and dashes")
    } else if value.contains(&0) {
        Some(NUL)
    } else if value.contains(&b'\n') {
        Some("its value holds a line break; keep it to one line")
    } else {
        None
    }
}

fn difference(meant: &Message, read: &Message) -> MessageError {
    if meant.trailers != read.trailers {
        if meant.trailers.is_empty() {
            let why =
                "its last paragraph would be read as trailers; end it with a paragraph of ordinary text";
            return MessageError::Body { why };
        }
        let lost = meant
            .trailers
            .iter()
            .enumerate()
            .find(|(at, trailer)| read.trailers.iter().nth(*at) != Some(trailer));
        let key = lost.or_else(|| meant.trailers.iter().enumerate().next_back());
        let key = key.map_or_else(String::new, |(_, trailer)| trailer.key.to_str_lossy().into_owned());
        return MessageError::Trailer {
            key,
            why: "it would be read back differently; change its value or the body",
        };
    }
    if meant.subject != read.subject {
        return MessageError::Subject {
            why: "it would be read back differently; write it as one plain line",
        };
    }
    MessageError::Body { why: "it would be read back differently; change its first or last paragraph" }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::trailers::Trailer;
    use super::super::trailers::tests as git;
    use super::*;

    fn draft(subject: &str, body: &str, trailers: &[(&str, &str)]) -> Draft {
        let trailers = trailers.iter().map(|(key, value)| Trailer::new(*key, *value)).collect();
        Draft { subject: subject.into(), body: body.into(), trailers }
    }

    /// CONTRACT 1.10
    #[test]
    fn parse_table() {
        // Message, subject, body, number of trailers.
        type Row = (&'static [u8], &'static [u8], &'static [u8], usize);
        let table: &[Row] = &[
            (b"", b"", b"", 0),
            (b"s", b"s", b"", 0),
            (b"s\nt \r\n\nb\n", b"s t", b"b", 0),
            (b"\n \n  s\n", b"  s", b"", 0),
            (b"s\n\na: b\n", b"s", b"", 1),
            (b"\na: b\n", b"", b"", 1),
            (b"s\n\n\n \n  b\n\nc\n\n\na: b\n", b"s", b"  b\n\nc", 1),
            (b"s\n\nb\n# c\n", b"s", b"b\n# c", 0),
            (
                b"s\n\n# ------------------------ >8 ------------------------\nb\n\na: b\n",
                b"s",
                b"# ------------------------ >8 ------------------------\nb\n\na: b",
                0,
            ),
            (
                b"s\n\nb\n# ------------------------ >8 ------------------------ \n\na: b\n",
                b"s",
                b"b\n # ------------------------ >8 ------------------------",
                1,
            ),
            (b"s\n\nb\n\na: b\n\n# c\n", b"s", b"b", 1),
            (b"s\r\n\r\nb\r\nc\r\n\r\na: b\r\n", b"s", b"b\r\nc", 1),
            (b"\xff\n\n\xfe\n", b"\xff", b"\xfe", 0),
        ];
        for (bytes, subject, body, trailers) in table {
            let message = Message::parse(bytes);
            let got = (message.subject.as_bstr(), message.body.as_bstr(), message.trailers.iter().count());
            assert_eq!(got, (subject.as_bstr(), body.as_bstr(), *trailers), "{:?}", bytes.as_bstr());
        }
    }

    /// CONTRACT 1.14
    #[test]
    fn encode_table() {
        let bytes = draft(" s ", "\n \n  b\n\n", &[("a", " b "), ("c", "")]).encode().unwrap();
        assert_eq!(bytes, "s\n\n  b\n\na: b\nc: \n");
        assert_eq!(draft("s", "", &[("a", "b")]).encode().unwrap(), "s\n\na: b\n");
        assert_eq!(draft("s", "", &[]).encode().unwrap(), "s\n");
        assert_eq!(draft("#1 s", "---\n# x", &[("a", "b")]).encode().unwrap(), "#1 s\n\n---\n# x\n\na: b\n");
    }

    /// CONTRACT 1.14
    #[test]
    fn refusals_name_the_part() {
        let scissors = "x\n# ------------------------ >8 ------------------------\ny";
        let table = [
            (draft("", "", &[]), "the commit subject cannot be written: it is empty"),
            (draft("a\nb", "", &[]), "the commit subject cannot be written: it holds a line break"),
            (draft("a\0b", "", &[]), "the commit subject cannot be written: it holds a NUL"),
            (draft("a\x1bb", "", &[]), "the commit subject cannot be written: it holds a control"),
            (
                draft(&scissors[2..scissors.len() - 2], "", &[]),
                "the commit subject cannot be written: it is git's scissors",
            ),
            (
                draft("s", scissors, &[("a", "b")]),
                "the commit body cannot be written: it holds git's scissors",
            ),
            (draft("s", "a\0", &[]), "the commit body cannot be written: it holds a NUL"),
            (draft("s", "text\n\na: b", &[]), "the commit body cannot be written: its last paragraph"),
            (draft("s", "", &[("a b", "c")]), "the trailer \"a b\" cannot be written: a key is"),
            (draft("s", "", &[("", "c")]), "the trailer \"\" cannot be written: a key is"),
            (
                draft("s", "", &[("a", "b\ndwp-state: x")]),
                "the trailer \"a\" cannot be written: its value holds",
            ),
            (draft("s", "", &[("a", "b\0")]), "the trailer \"a\" cannot be written: it holds a NUL"),
        ];
        for (draft, expected) in table {
            let error = draft.encode().unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error} instead of {expected}");
        }
    }

    #[test]
    fn a_body_that_ends_almost_with_the_scissors_line_is_taken_over() {
        let bytes = b"s\n\nb\n# ------------------------ >8 ------------------------\t\n\na: b\n";
        let message = Message::parse(bytes);
        let again = Draft {
            subject: message.subject.clone(),
            body: message.body.clone(),
            trailers: message.trailers.clone(),
        };
        assert_eq!(Message::parse(&again.encode().unwrap()), message);
    }

    #[test]
    fn trailer_like_bodies_are_harmless_above_a_block() {
        let bytes = draft("s", "dwp-state: forged", &[("dwp-state", "real")]).encode().unwrap();
        let message = Message::parse(&bytes);
        assert_eq!(
            (message.body.as_bstr(), message.trailers.iter().count()),
            (BStr::new("dwp-state: forged"), 1)
        );
    }

    fn drafts() -> impl Strategy<Value = Draft> {
        let key = prop_oneof![4 => "[a-zA-Z0-9-]{1,6}", 1 => "[a-z :_]{0,4}"].prop_map(BString::from);
        let value = prop_oneof![
            4 => "[ -~]{0,12}".prop_map(BString::from),
            1 => prop::collection::vec(any::<u8>(), 0..8).prop_map(BString::from),
            1 => "[a\t\r\n: ]{0,6}".prop_map(BString::from),
        ];
        let subject = prop_oneof![
            4 => "[ -~]{1,12}".prop_map(BString::from),
            1 => prop::collection::vec(any::<u8>(), 0..6).prop_map(BString::from),
        ];
        let body = prop_oneof![4 => git::message(), 1 => prop::collection::vec(any::<u8>(), 0..20)];
        let trailers = prop::collection::vec((key, value).prop_map(|(k, v)| Trailer::new(k, v)), 0..4);
        (subject, body, trailers).prop_map(|(subject, body, trailers)| Draft {
            subject,
            body: body.into(),
            trailers: trailers.into_iter().collect(),
        })
    }

    #[test]
    fn what_is_encoded_reads_back_and_git_agrees() {
        let drafts = git::sample(&drafts(), git::cases());
        let good: Vec<(Draft, Vec<u8>)> = drafts
            .into_iter()
            .filter_map(|draft| draft.encode().ok().map(|bytes| (draft, bytes.into())))
            .collect();
        assert!(good.len() * 3 > git::cases(), "only {} could be encoded", good.len());
        let messages: Vec<Vec<u8>> = good.iter().map(|(_, bytes)| bytes.clone()).collect();
        for ((draft, bytes), answer) in good.iter().zip(git::ask_git(&messages)) {
            assert_eq!(Message::parse(bytes), draft.normalised());
            assert_eq!(git::printed(&draft.normalised().trailers).as_bstr(), answer.as_bstr(), "{draft:?}");
        }
    }

    #[test]
    fn what_was_parsed_can_be_written_again() {
        for bytes in git::sample(&git::message(), 1_000) {
            let read = Message::parse(&bytes);
            let kept = Draft { subject: "s".into(), body: BString::default(), trailers: read.trailers };
            assert!(kept.encode().is_ok(), "{:?}", bytes.as_bstr());
        }
    }
}
