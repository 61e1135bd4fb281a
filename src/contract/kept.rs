//! The lease that is kept after a command which exited with 0 and declared nothing valid (CONTRACT 6.3): its
//! body says how the command ended.
//!
//! Invariant: the body is written and read only here. Anyone can write such a body, so it is read as one
//! bounded line without control characters.

use bstr::{BString, ByteSlice};

use super::commits::renewal_draft;
use super::message::{Draft, Message};
use super::protocol::MalformedLine;
use super::report::plain_line;

/// The beginning of the body.
const KEPT: &str = "Its command has ended: ";

/// The longest description of an invalid line that is read from a body, in characters.
const MAX_DETAIL_CHARS: usize = 1_000;

/// How the command of a kept lease ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kept {
    /// It printed no `SET_STATE` line.
    Undeclared,
    /// It printed only invalid ones. The last of them, and its mistake, if known.
    Invalid(Option<String>),
}

impl Kept {
    /// The ending of a command whose last invalid line is `invalid`.
    pub(crate) fn new(invalid: Option<&MalformedLine>) -> Self {
        invalid.map_or(Self::Undeclared, |line| Self::Invalid(Some(line.to_string())))
    }

    /// Reads a lease; `None` if it is not a kept one.
    pub fn of(lease: &Message) -> Option<Self> {
        let said = lease.body.strip_prefix(KEPT.as_bytes())?;
        if said.starts_with(Self::Invalid(None).brief().as_bytes()) {
            let detail = said.lines().skip(1).map(ByteSlice::trim).find(|line| !line.is_empty());
            return Some(Self::Invalid(detail.map(|line| plain_line(line, MAX_DETAIL_CHARS))));
        }
        said.starts_with(Self::Undeclared.brief().as_bytes()).then_some(Self::Undeclared)
    }

    /// The ending in a few words.
    pub fn brief(&self) -> &'static str {
        match self {
            Self::Undeclared => "exit 0 without SET_STATE",
            Self::Invalid(_) => "exit 0, but its SET_STATE was invalid",
        }
    }

    /// The ending, with the invalid line.
    pub fn words(&self) -> String {
        match self {
            Self::Invalid(Some(detail)) => format!("{}: {detail}", self.brief()),
            Self::Undeclared | Self::Invalid(None) => self.brief().to_owned(),
        }
    }

    /// The word in JSON.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Undeclared => "noDeclaration",
            Self::Invalid(_) => "invalidDeclaration",
        }
    }
}

/// Drafts the lease that is kept for processes of the command that still run: a renewal with a body.
pub(crate) fn kept_draft(lease: &Message, kept: &Kept) -> Draft {
    let mut body = format!("{KEPT}{}. The lease is kept for processes it may have started.\n", kept.brief());
    if let Kept::Invalid(Some(detail)) = kept {
        body.push_str(&format!("\n{detail}\n"));
    }
    Draft { body: BString::from(body), ..renewal_draft(lease) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::protocol::ProtocolReader;
    use super::*;

    fn lease() -> Message {
        Message::parse(b"chore: set working\n\ndwp-state: working\ndwp-run-id: r\n")
    }

    fn read(body: &str) -> Option<Kept> {
        Kept::of(&Message { body: body.into(), ..lease() })
    }

    #[test]
    fn what_was_written_is_read() {
        let detail = "line 2 of its output: \"state\" is missing: `SET_STATE {}`".to_owned();
        for kept in [Kept::Undeclared, Kept::Invalid(None), Kept::Invalid(Some(detail))] {
            let message = Message::parse(&kept_draft(&lease(), &kept).encode().unwrap());
            assert_eq!((Kept::of(&message), message.trailers), (Some(kept), lease().trailers));
        }
        for other in ["", "on my desk", "Its command has ended: well"] {
            assert_eq!(read(other), None, "{other}");
        }
        let hostile =
            format!("{KEPT}exit 0, but its SET_STATE was invalid.\n\n\u{1b}[31mred{}", "x".repeat(5_000));
        let words = read(&hostile).unwrap().words();
        assert!(words.contains(": redx") && words.chars().count() < 1_100, "{words}");
    }

    proptest! {
        #[test]
        fn any_invalid_line_makes_a_writable_commit(rest in prop::collection::vec(any::<u8>(), 0..400)) {
            let mut reader = ProtocolReader::new();
            reader.feed(&[b"SET_STATE ".as_slice(), &rest.replace(b"\n", b"")].concat());
            let observed = reader.finish();
            let kept = Kept::new(observed.malformed.last());
            let bytes = kept_draft(&lease(), &kept).encode();
            prop_assert!(bytes.is_ok(), "{:?}", bytes);
            prop_assert_eq!(Kept::of(&Message::parse(&bytes.unwrap())).map(|read| read.word()), Some(kept.word()));
        }
    }
}
