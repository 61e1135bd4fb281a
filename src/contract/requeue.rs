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
use super::parking::NOT_BEFORE_KEY;
use super::titles::default_subject;
use super::trailers::{Trailer, Trailers, is_runner_managed};
use super::unable::{HandedBack, handed_back, is_of_return};

/// A repeated request (CONTRACT 6.14).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Requeue {
    /// The runner was stopped; the number of interruptions in a row, with this one.
    Interrupted(Interrupted),
    /// The attempt was cancelled.
    Cancelled,
    /// The host cannot do it (CONTRACT 6.17).
    HandedBack(HandedBack),
}

/// Who writes a repeated request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Writer<'a> {
    /// The id of the runner.
    pub(crate) runner: &'a str,
    /// The remote that decides.
    pub(crate) source: Option<&'a RemoteName>,
    /// The time, in seconds since the epoch.
    pub(crate) now: i64,
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
    requeue: &Requeue,
    rescued: Option<&BStr>,
    writer: Writer<'_>,
) -> Draft {
    let asked = &trigger.message.trailers;
    // The time of an earlier return still binds the runners that it names.
    let back = match requeue {
        Requeue::HandedBack(back) => back.trailers(asked, writer.source, writer.runner, writer.now),
        Requeue::Interrupted(_) => {
            asked.iter().filter(|trailer| is_of_return(trailer.key.as_bstr())).cloned().collect()
        }
        Requeue::Cancelled => Vec::new(),
    };
    let replaced = |key: &BStr| {
        key == NOT_BEFORE_KEY
            && match requeue {
                Requeue::HandedBack(_) => true,
                Requeue::Interrupted(_) => false,
                Requeue::Cancelled => handed_back(asked) > 0,
            }
    };
    let of_stall = |key: &BStr| trigger.state.is_stalled() && (key == STALLED_RUN_KEY || key == ORIGIN_KEY);
    let mut trailers = Trailers::new();
    trailers.push(Trailer::new(STATE_KEY, trigger.state.as_str()));
    trailers.extend(seconds_trailer(requested_seconds(asked).ok().flatten()));
    trailers.extend(
        asked
            .iter()
            .filter(|trailer| {
                let key = trailer.key.as_bstr();
                of_stall(key) || !(is_runner_managed(key) || is_of_one_commit(key) || replaced(key))
            })
            .cloned(),
    );
    trailers.extend(source_trailer(writer.source));
    trailers.extend(back);
    if let Requeue::Interrupted(count) = requeue {
        trailers.push(Trailer::new(INTERRUPTED_KEY, count.times.to_string()));
    }
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

    fn by(source: Option<&RemoteName>) -> Writer<'_> {
        Writer { runner: "here", source, now: 1_000 }
    }

    fn event(message: &str) -> Event {
        let id = CommitId::from_bytes(&[7; 20]).expect("20 bytes");
        let facts = CommitFacts { id, committed_at: 100, message: message.as_bytes() };
        let Head::Ready(event) = Head::read(&facts) else { panic!("{message} is not ready") };
        event
    }

    /// CONTRACT 6.14
    #[test]
    fn it_asks_for_the_same_and_says_why() {
        let again = |times| Requeue::Interrupted(Interrupted { times, most: 3 });
        let origin = RemoteName::parse("origin").expect("legal");
        let ask = "t\n\nprompt\n\nx: y\ndwp-state: build\ndwp-run-id: old\ndwp-lease-seconds: 60\ndwp-pr: 7\naynig-overrides: r\ndwp-source: git:hub\n";
        let draft = requeued_draft(&event(ask), &again(1), None, by(None));
        let first = draft.encode().expect("it can be written");
        assert_eq!(
            first,
            "t\n\nprompt\n\ndwp-state: build\ndwp-lease-seconds: 60\nx: y\ndwp-pr: 7\naynig-interrupted: 1\n"
        );
        let once = event(&first.to_str_lossy());
        assert_eq!(interrupted_before(&once.message.trailers), Some(1));
        let saved = BStr::new("refs/aynig/rescue/a/1");
        let draft = requeued_draft(&once, &again(2), Some(saved), by(Some(&origin)));
        let second = draft.encode().expect("it can be written");
        assert_eq!(
            second,
            "t\n\nprompt\n\ndwp-state: build\ndwp-lease-seconds: 60\nx: y\ndwp-pr: 7\ndwp-source: git:origin\naynig-interrupted: 2\n\
             aynig-rescued: refs/aynig/rescue/a/1\n"
        );
        assert_eq!(rescued(&event(&second.to_str_lossy()).message.trailers), Some(saved));
        let stalled = "s\n\nwhy\n\ndwp-state: stalled\ndwp-stalled-run: r-1\ndwp-origin-state: build\n";
        let draft = requeued_draft(&event(stalled), &again(1), None, by(None));
        let text = draft.encode().expect("it can be written");
        assert_eq!(
            text,
            format!("{stalled}aynig-interrupted: 1\n"),
            "its command needs to know what stalled"
        );
    }

    /// CONTRACT 6.17
    #[test]
    fn a_return_is_remembered_until_it_is_cancelled() {
        let ask = "t\n\nprompt\n\ndwp-state: build\nx: y\ndwp-not-before: 1970-01-01T00:00:01Z\n";
        let back =
            |trigger: &Event| Requeue::HandedBack(HandedBack::new(&trigger.message.trailers, "no codex"));
        let first =
            requeued_draft(&event(ask), &back(&event(ask)), None, by(None)).encode().expect("a message");
        assert_eq!(
            first,
            "t\n\nprompt\n\ndwp-state: build\nx: y\ndwp-not-before: 1970-01-01T00:17:10Z\n\
             aynig-unable: here no codex\naynig-handed-back: 1\n"
        );
        let first = event(&first.to_str_lossy());
        let other = Writer { runner: "there", ..by(None) };
        let second = requeued_draft(&first, &back(&first), None, other).encode().expect("a message");
        let facts = "aynig-unable: here no codex\naynig-unable: there no codex\naynig-handed-back: 2\n";
        assert!(second.ends_with(facts.as_bytes()), "{second}");
        assert!(second.contains_str("00:17:40Z"), "{second}");
        // Somebody else who is interrupted binds nobody else.
        let again = Requeue::Interrupted(Interrupted { times: 1, most: 3 });
        let interrupted = requeued_draft(&first, &again, None, other).encode().expect("a message");
        let kept = "dwp-not-before: 1970-01-01T00:17:10Z\naynig-unable: here no codex\naynig-handed-back: 1\n\
                    aynig-interrupted: 1\n";
        assert!(interrupted.ends_with(kept.as_bytes()), "{interrupted}");
        let anew = requeued_draft(&first, &Requeue::Cancelled, None, other).encode().expect("a message");
        assert_eq!(anew, "t\n\nprompt\n\ndwp-state: build\nx: y\n");
    }
}
