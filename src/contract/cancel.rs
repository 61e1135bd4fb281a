//! Requests to stop an attempt: `working` commits on its lease with `aynig-cancel` (CONTRACT 5.30), and the
//! stalled commits that follow (5.36).
//!
//! Invariant: a request keeps the attempt and the end of the lease it lies on. A runner that does not know
//! requests takes it for a renewal.

use std::fmt;

use bstr::{BString, ByteSlice};

use super::commits::renewal_draft;
use super::head::Event;
use super::lease::{Lease, SECONDS_KEY};
use super::message::{Draft, Message};
use super::report::plain_line;
use super::titles::request_title;
use super::trailers::Trailer;

/// The trailer of a request; its value is a [`Then::word`]. A stalled commit of a cancellation has it, too.
pub(crate) const CANCEL_KEY: &str = "aynig-cancel";

/// The most characters of a name or a reason that are shown.
const MAX_CHARS: usize = 300;

/// The next state of the branch of a cancelled attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// It stalls.
    Stall,
    /// Its state is requested again.
    Requeue,
}

/// A request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cancel {
    /// The next state of the branch.
    pub then: Then,
    /// Its author, as one plain line.
    pub by: String,
    /// The reason, as one plain line; empty if none was given.
    pub why: String,
}

impl Then {
    /// The value of the trailer.
    pub fn word(self) -> &'static str {
        match self {
            Self::Stall => "stall",
            Self::Requeue => "requeue",
        }
    }

    /// Whether it is written over an earlier request: what is to stop for good does not run again.
    pub(crate) fn outdoes(self, before: Self) -> bool {
        self == Self::Stall && before == Self::Requeue
    }
}

impl Cancel {
    /// Reads a lease; `None` if it is no request. An unknown value counts as `stall`.
    pub(crate) fn of(lease: &Message, author: &[u8]) -> Option<Self> {
        let value = lease.trailers.last(CANCEL_KEY)?;
        let then = if value == Then::Requeue.word() { Then::Requeue } else { Then::Stall };
        let by = plain_line(author, MAX_CHARS);
        let by = if by.trim().is_empty() { "somebody".to_owned() } else { by };
        Some(Self { then, by, why: plain_line(lease.body.trim(), MAX_CHARS) })
    }
}

impl Cancel {
    /// Its effect, for who asks once more.
    pub fn effect(&self) -> &'static str {
        match self.then {
            Then::Stall => "the branch becomes stalled",
            Then::Requeue => "its state is requested again",
        }
    }

    /// The request itself, which may not have been carried out yet: `asked by Jane: wrong branch`.
    pub fn asked(&self) -> String {
        let again = if self.then == Then::Requeue { ", to run it again" } else { "" };
        let why = if self.why.is_empty() { String::new() } else { format!(": {}", self.why) };
        format!("asked by {}{again}{why}", self.by)
    }
}

/// What became of the attempt.
impl fmt::Display for Cancel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cancelled by {}", self.by)?;
        // The sentence around it has a full stop of its own.
        let why = self.why.strip_suffix('.').unwrap_or(&self.why);
        if why.is_empty() { Ok(()) } else { write!(f, ": {why}") }
    }
}

/// Whether a lease is a request to stop.
pub(crate) fn is_request(lease: &Message) -> bool {
    lease.trailers.last(CANCEL_KEY).is_some()
}

/// Marks the stalled commit of a cancellation.
pub(crate) fn mark(stalled: &mut Draft) {
    stalled.trailers.push(Trailer::new(CANCEL_KEY, Then::Stall.word()));
}

/// Whether an event is the stalled commit of a cancellation, for which no command is run (CONTRACT 5.36).
pub(crate) fn is_cancelled(event: &Event) -> bool {
    event.state.is_stalled() && event.message.trailers.last(CANCEL_KEY).is_some()
}

/// Drafts a request on `lease`, and returns the date that its commit needs to end in the same second as the lease.
/// That is `now`, or the second before the lease's last one.
pub(crate) fn cancel_draft(lease: &Lease, now: i64, then: Then, reason: &[u8]) -> (Draft, i64) {
    let end = lease.expires_at();
    let dated = now.min(end.saturating_sub(1));
    let mut draft = renewal_draft(&lease.message);
    draft.trailers = draft
        .trailers
        .into_iter()
        .filter(|trailer| trailer.key != CANCEL_KEY)
        .map(|trailer| {
            if trailer.key == SECONDS_KEY {
                Trailer::new(SECONDS_KEY, end.abs_diff(dated).to_string())
            } else {
                trailer
            }
        })
        .collect();
    draft.trailers.push(Trailer::new(CANCEL_KEY, then.word()));
    let subject = request_title(&draft.trailers, then == Then::Requeue);
    (Draft { subject, body: BString::from(reason), ..draft }, dated)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::ids::CommitId;

    fn lease(committed_at: i64, message: &[u8]) -> Lease {
        let commit = CommitId::parse_hex([b'1'; 40]).expect("an id");
        Lease::from_message(commit, committed_at, Message::parse(message))
    }

    /// CONTRACT 5.30
    #[test]
    fn a_request_ends_with_its_lease() {
        let lease = lease(1000, b"x\n\ndwp-state: working\ndwp-run-id: r\ndwp-lease-seconds: 300\n");
        // The last second of the lease is 1300. In it, a request of at least one second has to be dated earlier.
        for (now, dated, seconds) in
            [(990, 990, 310), (1000, 1000, 300), (1299, 1299, 1), (1300, 1299, 1), (1301, 1299, 1)]
        {
            let (draft, at) = cancel_draft(&lease, now, Then::Stall, b"");
            let text = draft.encode().expect("it can be written");
            let request = Lease::from_message(lease.commit, at, Message::parse(&text));
            assert_eq!((at, request.seconds), (dated, seconds), "{now}");
            assert_eq!(request.expires_at(), lease.expires_at(), "{now}");
        }
    }

    /// CONTRACT 5.30
    #[test]
    fn a_request_is_the_lease_with_a_trailer() {
        let message =
            b"chore: set working\n\ndwp-state: working\ndwp-run-id: r\ndwp-lease-seconds: 300\ndwp-pr: 7\n";
        let held = lease(1000, message);
        assert_eq!(Cancel::of(&held.message, b"Jane"), None);
        let draft = |lease: &Lease, now, then, reason: &[u8]| {
            let (draft, at) = cancel_draft(lease, now, then, reason);
            (draft.encode().expect("it can be written"), at)
        };
        let (text, at) = draft(&held, 1288, Then::Requeue, b"wrong branch.");
        let expected = "cancel: a lease, to run it again\n\nwrong branch.\n\ndwp-state: working\ndwp-run-id: r\n\
                        dwp-lease-seconds: 12\ndwp-pr: 7\naynig-cancel: requeue\n";
        assert_eq!(text, expected);
        let request = Message::parse(&text);
        let cancel = Cancel::of(&request, b"Jane\x1b[1m").expect("it is one");
        assert_eq!(
            (cancel.then, cancel.to_string().as_str()),
            (Then::Requeue, "cancelled by Jane: wrong branch")
        );
        let (again, _) = draft(&lease(at, &text), 1300, Then::Stall, b"");
        assert!(again.ends_with(b"dwp-lease-seconds: 1\ndwp-pr: 7\naynig-cancel: stall\n"), "{again}");
        let cancel = Cancel::of(&Message::parse(&again), b" ").expect("it is one");
        assert_eq!((cancel.then, cancel.to_string().as_str()), (Then::Stall, "cancelled by somebody"));
    }
}
