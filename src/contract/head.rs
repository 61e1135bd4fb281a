//! The meaning of the commit at a branch's HEAD.
//!
//! All readers of a HEAD use it: scan, status and recovery (section 1 of CONTRACT.md). Invariant:
//! it depends on this commit only, never on history. Hostile bytes end in [`Head::Invalid`], never
//! in a panic or in a branch that silently disappears.

use bstr::ByteSlice;

use super::ids::{CommitId, StateName};
use super::lease::{Lease, ORIGIN_KEY};
use super::message::Message;

/// The facts about a commit that are read before it is judged.
#[derive(Debug, Clone, Copy)]
pub struct CommitFacts<'a> {
    /// Its object id.
    pub(crate) id: CommitId,
    /// The committer date, seconds since the epoch.
    pub(crate) committed_at: i64,
    /// The whole message as stored, trailers included.
    pub(crate) message: &'a [u8],
}

/// A commit that declares a state other than `working`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The commit.
    pub commit: CommitId,
    /// The committer date, seconds since the epoch.
    pub committed_at: i64,
    /// The declared state.
    pub state: StateName,
    /// The parsed message.
    pub message: Message,
}

impl Event {
    /// The state that failed: of `stalled` its origin. `None` if `stalled` does not name one.
    #[must_use]
    pub fn failed(&self) -> Option<StateName> {
        if !self.state.is_stalled() {
            return Some(self.state.clone());
        }
        self.message.trailers.last(ORIGIN_KEY).and_then(|origin| StateName::parse(origin).ok())
    }
}

/// A commit with an unusable `dwp-state`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("commit {} declares no usable state: {reason}", commit.short())]
pub struct InvalidHead {
    /// The commit.
    pub commit: CommitId,
    /// The problem, lower case, no full stop.
    pub reason: String,
}

/// The four meanings of a HEAD.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Head {
    /// No `dwp-state` trailer: not part of a workflow.
    Unmanaged,
    /// A `dwp-state` that is not a legal state name, or a message with a NUL byte that mentions
    /// `dwp-state` (CONTRACT 1.9, 1.11).
    Invalid(InvalidHead),
    /// A state that waits for its command.
    Ready(Event),
    /// A lease, alive or expired.
    Working(Lease),
}

/// The trailer that makes a commit a workflow event.
pub(crate) const STATE_KEY: &str = "dwp-state";

impl Head {
    /// The state that failed, if it is an event.
    #[must_use]
    pub fn failed(&self) -> Option<StateName> {
        match self {
            Self::Ready(event) => event.failed(),
            Self::Unmanaged | Self::Invalid(_) | Self::Working(_) => None,
        }
    }

    /// Reads a commit. Never fails: an unreadable one is [`Head::Invalid`].
    pub fn read(facts: &CommitFacts<'_>) -> Self {
        let invalid = |reason| Self::Invalid(InvalidHead { commit: facts.id, reason });
        if facts.message.contains(&0) {
            // git stops reading at a NUL and other readers do not, so readers disagree about
            // whether there is a trailer.
            return if facts.message.contains_str(STATE_KEY) {
                invalid(String::from("its message holds a NUL byte; write the commit again without it"))
            } else {
                Self::Unmanaged
            };
        }
        let message = Message::parse(facts.message);
        let Some(value) = message.trailers.last(STATE_KEY) else { return Self::Unmanaged };
        match StateName::parse(value) {
            Err(error) => invalid(error.to_string()),
            Ok(state) if state.is_working() => {
                Self::Working(Lease::from_message(facts.id, facts.committed_at, message))
            }
            Ok(state) => {
                let (commit, committed_at) = (facts.id, facts.committed_at);
                Self::Ready(Event { commit, committed_at, state, message })
            }
        }
    }

    /// The declared state, `working` included.
    pub fn state(&self) -> Option<StateName> {
        match self {
            Self::Unmanaged | Self::Invalid(_) => None,
            Self::Ready(event) => Some(event.state.clone()),
            Self::Working(_) => Some(StateName::working()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(message: &[u8]) -> Head {
        let id = CommitId::from_bytes(&[7; 20]).expect("20 bytes");
        Head::read(&CommitFacts { id, committed_at: 100, message })
    }

    fn shown(head: &Head) -> String {
        match head {
            Head::Unmanaged => String::from("unmanaged"),
            Head::Invalid(invalid) => format!("invalid: {}", invalid.reason),
            Head::Ready(event) => format!("ready {}", event.state),
            Head::Working(lease) => format!("working {}", lease.seconds),
        }
    }

    /// CONTRACT 1.3, 1.4, 1.8, 1.9, 1.11
    #[test]
    fn table() {
        let rows: &[(&[u8], &str)] = &[
            (b"", "unmanaged"),
            (b"s\n", "unmanaged"),
            (b"dwp-state: build\n", "unmanaged"),
            (b"s\n\nDwp-State: build\n", "unmanaged"),
            (b"s\n\ndwp-state: build\n\nnot the last paragraph\n", "unmanaged"),
            (b"s\n\ndwp-state: build\n", "ready build"),
            (b"s\n\ndwp-state: a\ndwp-state: b/c\n", "ready b/c"),
            (b"s\n\ndwp-state: a\nDWP-STATE: b\n", "ready a"),
            (b"s\r\n\r\ndwp-state: build\r\n", "ready build"),
            (b"\xff\xfe\n\n\xff\n\ndwp-state: build\n", "ready build"),
            (b"s\n\ndwp-state: stalled\n", "ready stalled"),
            (b"s\n\ndwp-state: working\n", "working 300"),
            (b"s\n\ndwp-state: working\ndwp-lease-seconds: 9\n", "working 9"),
            (b"s\n\ndwp-state:\n", "invalid: \"\" is not a legal state name: it is empty"),
            (
                b"s\n\ndwp-state: ../x\n",
                "invalid: \"../x\" is not a legal state name: a part between slashes begins with a dot or a dash",
            ),
            (
                b"s\n\ndwp-state: a\n b\n",
                "invalid: \"a b\" is not a legal state name: only letters, digits, dots, underscores, dashes and \
                 slashes are allowed",
            ),
            (
                b"s\n\ndwp-state: a\n\0",
                "invalid: its message holds a NUL byte; write the commit again without it",
            ),
            (
                b"s\0\n\ndwp-state: a\n",
                "invalid: its message holds a NUL byte; write the commit again without it",
            ),
            (b"s\0\n", "unmanaged"),
        ];
        for (message, expected) in rows {
            assert_eq!(shown(&read(message)), *expected, "{:?}", message.as_bstr());
        }
    }

    #[test]
    fn errors_name_the_commit() {
        let Head::Invalid(invalid) = read(b"s\n\ndwp-state:\n") else { panic!("expected an invalid head") };
        assert!(invalid.to_string().starts_with("commit 0707070707 declares no usable state: \"\""));
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(message in prop::collection::vec(any::<u8>(), 0..100)) {
            let text = [b"s\n\ndwp-state: ".as_slice(), &message].concat();
            let head = read(&text);
            prop_assert_eq!(head.state().is_some(), matches!(head, Head::Ready(_) | Head::Working(_)));
        }
    }
}
