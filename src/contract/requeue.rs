//! The requested state, written again after an attempt that did not finish (CONTRACT 6.14).
//!
//! Invariant: it requests exactly what the trigger requested. Its facts about the attempt are in trailers
//! that no other commit takes over.

use std::fmt;

use bstr::{BStr, BString, ByteSlice};

use super::carried::is_of_one_commit;
use super::commits::{STALLED_RUN_KEY, seconds_trailer, source_trailer};
use super::head::{Event, STATE_KEY};
use super::ids::RemoteName;
use super::lease::ORIGIN_KEY;
use super::lease::requested_seconds;
use super::message::Draft;
use super::titles::default_subject;
use super::trailers::{Trailer, Trailers, is_runner_managed};

/// A repeated request (CONTRACT 6.14).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Requeue {
    /// The number of interruptions in a row, with this one. `None` after a cancellation.
    pub(crate) interrupted: Option<Interrupted>,
}

/// A count of interruptions in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interrupted {
    /// The number of interruptions.
    pub times: u32,
    /// The number of interruptions that lead to another try.
    pub most: u32,
}

/// The reaction to an interrupted command (CONTRACT 6.14).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OnInterrupt {
    /// Whether its state is requested again. Otherwise the branch stalls.
    pub requeue: bool,
    /// The most interruptions in a row that do so.
    pub most: u32,
}

/// The trailer that counts interruptions in a row.
pub(crate) const INTERRUPTED_KEY: &str = "aynig-interrupted";

/// The trailer that names the ref with the previous attempt's work.
pub(crate) const RESCUED_KEY: &str = "aynig-rescued";

/// Returns the number of interruptions in a row that led to a request.
pub fn interrupted_before(trigger: &Trailers) -> Option<u32> {
    let count: u32 = std::str::from_utf8(trigger.last(INTERRUPTED_KEY)?).ok()?.parse().ok()?;
    (count > 0).then_some(count)
}

impl OnInterrupt {
    /// Counts another interruption of `trigger`.
    pub(crate) fn count(self, trigger: &Trailers) -> Interrupted {
        let times = interrupted_before(trigger).unwrap_or(0).saturating_add(1);
        Interrupted { times, most: self.most }
    }
}

impl Interrupted {
    /// What followed: `asked again (1 of 3)`.
    pub(crate) fn asked_again(self) -> String {
        format!("asked again ({} of {})", self.times, self.most.max(self.times))
    }
}

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "interrupted, {}", self.asked_again())
    }
}

/// Drafts the repeated request of `trigger`, after an attempt that did not finish (CONTRACT 6.14). Of the
/// runner-managed trailers, a stalled trigger keeps those that name the attempt it closed. `rescued` is the
/// ref with the saved work.
pub(crate) fn requeued_draft(
    trigger: &Event,
    requeue: Requeue,
    rescued: Option<&BStr>,
    source: Option<&RemoteName>,
) -> Draft {
    let of_stall = |key: &BStr| trigger.state.is_stalled() && (key == STALLED_RUN_KEY || key == ORIGIN_KEY);
    let mut trailers = Trailers::new();
    trailers.push(Trailer::new(STATE_KEY, trigger.state.as_str()));
    trailers.extend(seconds_trailer(requested_seconds(&trigger.message.trailers).ok().flatten()));
    trailers.extend(
        trigger
            .message
            .trailers
            .iter()
            .filter(|trailer| {
                let key = trailer.key.as_bstr();
                of_stall(key) || !(is_runner_managed(key) || is_of_one_commit(key))
            })
            .cloned(),
    );
    trailers.extend(source_trailer(source));
    trailers.extend(requeue.interrupted.map(|count| Trailer::new(INTERRUPTED_KEY, count.times.to_string())));
    trailers.extend(rescued.map(|name| Trailer::new(RESCUED_KEY, name)));
    let subject = trigger.message.subject.clone();
    let subject: BString = if subject.trim().is_empty() { default_subject(&trigger.state) } else { subject };
    Draft { subject, body: trigger.message.body.clone(), trailers }
}

/// The ref with the work of the interrupted attempt that a request followed.
pub fn rescued(trailers: &Trailers) -> Option<&BStr> {
    trailers.last(RESCUED_KEY)
}

#[cfg(test)]
mod tests {
    use super::super::head::{CommitFacts, Head};
    use super::super::ids::CommitId;
    use super::*;

    fn event(message: &str) -> Event {
        let id = CommitId::from_bytes(&[7; 20]).expect("20 bytes");
        let facts = CommitFacts { id, committed_at: 100, message: message.as_bytes() };
        let Head::Ready(event) = Head::read(&facts) else { panic!("{message} is not ready") };
        event
    }

    /// CONTRACT 6.14
    #[test]
    fn it_asks_for_the_same_and_says_why() {
        let again = |times| Requeue { interrupted: Some(Interrupted { times, most: 3 }) };
        let origin = RemoteName::parse("origin").expect("legal");
        let ask = "t\n\nprompt\n\nx: y\ndwp-state: build\ndwp-run-id: old\ndwp-lease-seconds: 60\ndwp-pr: 7\naynig-overrides: r\ndwp-source: git:hub\n";
        let draft = requeued_draft(&event(ask), again(1), None, None);
        let first = draft.encode().expect("it can be written");
        assert_eq!(
            first,
            "t\n\nprompt\n\ndwp-state: build\ndwp-lease-seconds: 60\nx: y\ndwp-pr: 7\naynig-interrupted: 1\n"
        );
        let once = event(&first.to_str_lossy());
        assert_eq!(interrupted_before(&once.message.trailers), Some(1));
        let saved = BStr::new("refs/aynig/rescue/a/1");
        let draft = requeued_draft(&once, again(2), Some(saved), Some(&origin));
        let second = draft.encode().expect("it can be written");
        assert_eq!(
            second,
            "t\n\nprompt\n\ndwp-state: build\ndwp-lease-seconds: 60\nx: y\ndwp-pr: 7\ndwp-source: git:origin\naynig-interrupted: 2\n\
             aynig-rescued: refs/aynig/rescue/a/1\n"
        );
        assert_eq!(rescued(&event(&second.to_str_lossy()).message.trailers), Some(saved));
        let stalled = "s\n\nwhy\n\ndwp-state: stalled\ndwp-stalled-run: r-1\ndwp-origin-state: build\n";
        let draft = requeued_draft(&event(stalled), again(1), None, None);
        let text = draft.encode().expect("it can be written");
        assert_eq!(
            text,
            format!("{stalled}aynig-interrupted: 1\n"),
            "its command needs to know what stalled"
        );
    }
}
