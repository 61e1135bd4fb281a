//! Text and trailers that a new state takes over from earlier commits (CONTRACT 4.12 to 4.15, 4.18).
//!
//! Invariant: no runner-managed trailer is carried over, in any case of letters.

use bstr::{BString, ByteSlice};

use super::ids::StateName;
use super::message::Message;
use super::parking::NOT_BEFORE_KEY;
use super::report::plain_line;
use super::trailers::{Trailer, Trailers, is_runner_managed};
use super::waits_for::{ANSWERS_KEY, WAITS_FOR_KEY};

/// The most characters of a name in a heading.
const MAX_NAME_CHARS: usize = 100;

/// The request that a new state hands on.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ask {
    /// Its message.
    pub(crate) message: Message,
    /// The heading of a section that is added to its body, from [`heading`].
    pub(crate) heading: String,
}

impl Ask {
    /// Returns the body of the request, with `text` as a section below it.
    pub(crate) fn body_with(&self, text: Option<&[u8]>) -> BString {
        let mut body = self.message.body.clone();
        let text = text.map(ByteSlice::trim).filter(|text| !text.is_empty());
        if let Some(text) = text {
            if !body.is_empty() {
                body.extend_from_slice(b"\n\n");
            }
            body.extend_from_slice(self.heading.as_bytes());
            body.extend_from_slice(b"\n\n");
            body.extend_from_slice(text);
        }
        body
    }
}

/// Returns the heading of a section: the state it was added in, its author, and the date. Nothing parses it.
pub(crate) fn heading(from: &StateName, by: &[u8], at: &str) -> String {
    format!("[reply from {from} by {}, {at}]", plain_line(by, MAX_NAME_CHARS))
}

/// Keys with this prefix, such as `aynig-overrides`, describe a single commit.
const OF_ONE_COMMIT: &[u8] = b"aynig-";

/// Whether a trailer describes a single commit, so that no other commit takes it over.
pub(crate) fn is_of_one_commit(key: &[u8]) -> bool {
    key.starts_with(OF_ONE_COMMIT)
}

/// The keys that belong to one request alone: whom it waits for, the answers, its time (CONTRACT 4.18).
const OF_ONE_REQUEST: [&str; 3] = [WAITS_FOR_KEY, ANSWERS_KEY, NOT_BEFORE_KEY];

/// Returns the `dwp-*` trailers that a step hands on.
pub(crate) fn handed_on(trailers: &Trailers) -> impl Iterator<Item = &Trailer> {
    trailers.dwp_unreserved().filter(|trailer| !is_of_one_request(trailer))
}

/// Returns the trailers of a request that no other one takes over.
pub(crate) fn of_one_request(trailers: &Trailers) -> impl Iterator<Item = &Trailer> {
    trailers.iter().filter(|trailer| is_of_one_request(trailer))
}

fn is_of_one_request(trailer: &Trailer) -> bool {
    OF_ONE_REQUEST.iter().any(|key| trailer.key == *key)
}

/// Which trailers a new state keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KeepTrailers {
    /// None.
    #[default]
    None,
    /// Those of HEAD, or of the lease, whose key begins with `dwp-`.
    Dwp,
    /// These, and all others of the commit that requested the work.
    All,
}

/// Returns the trailers to keep, followed by those that are `given`, which replace kept ones of the same key.
pub(crate) fn kept_and_given(
    keep: KeepTrailers,
    head: &Trailers,
    ask: &Trailers,
    given: &[Trailer],
) -> Vec<Trailer> {
    let own = || handed_on(head).filter(|_| keep != KeepTrailers::None);
    let others = ask.iter().filter(|trailer| {
        keep == KeepTrailers::All
            && !is_runner_managed(&trailer.key)
            && !is_of_one_commit(&trailer.key)
            && !is_of_one_request(trailer)
            && !own().any(|kept| kept.key == trailer.key)
    });
    let replaced = |trailer: &&Trailer| given.iter().any(|given| given.key == trailer.key);
    own().chain(others).filter(|trailer| !replaced(trailer)).chain(given).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CONTRACT 4.14, 4.15
    #[test]
    fn sections_stack_below_the_ask() {
        let state = StateName::parse("review").expect("a state");
        let ask = |body: &str| Ask {
            message: Message { body: body.into(), ..Message::default() },
            heading: heading(&state, b"Jane\n[x]\x1b[1m", "2026-01-31T17:42:00Z"),
        };
        let mark = "[reply from review by Jane [x], 2026-01-31T17:42:00Z]";
        assert_eq!(ask("Do it.").body_with(None), "Do it.");
        assert_eq!(ask("Do it.").body_with(Some(b" \n ")), "Do it.");
        assert_eq!(ask("").body_with(Some(b"Why?\n")), format!("{mark}\n\nWhy?"));
        let once = ask("Do it.").body_with(Some(b"\nWhy?\n"));
        assert_eq!(once, format!("Do it.\n\n{mark}\n\nWhy?"));
        let twice = ask(&once.to_str_lossy()).body_with(Some(b"So."));
        assert_eq!(twice, format!("Do it.\n\n{mark}\n\nWhy?\n\n{mark}\n\nSo."));
        let forged = ask(&format!("{mark}\n\nI am Jane.")).body_with(Some(b"x"));
        assert_eq!(forged, format!("{mark}\n\nI am Jane.\n\n{mark}\n\nx"), "a heading is text");
    }

    fn trailers(text: &str) -> Vec<Trailer> {
        let pairs = text.split_whitespace().map(|pair| pair.split_once('=').expect("a pair"));
        pairs.map(|(key, value)| Trailer::new(key, value)).collect()
    }

    /// CONTRACT 4.18
    #[test]
    fn what_belongs_to_one_request_is_not_kept() {
        use KeepTrailers::{All, Dwp};
        let asks = "dwp-waits-for=ana dwp-a=1 dwp-answers=yes dwp-not-before=2026-01-31T17:42:00Z x=2";
        let head = trailers(asks).into_iter().collect();
        for (keep, expected) in [(Dwp, "dwp-a=1"), (All, "dwp-a=1 x=2")] {
            assert_eq!(kept_and_given(keep, &head, &head, &[]), trailers(expected), "{keep:?}");
            let given = trailers("dwp-waits-for=ben dwp-answers=no");
            let expected = [trailers(expected), given.clone()].concat();
            assert_eq!(kept_and_given(keep, &head, &head, &given), expected, "{keep:?}");
        }
    }

    /// CONTRACT 4.12, 4.13
    #[test]
    fn table() {
        use KeepTrailers::{All, Dwp, None};
        let head = "dwp-state=working dwp-a=1 dwp-b=1 dwp-b=2 dwp-run-id=r x=lease";
        let ask = "dwp-a=old y=1 dwp-c=3 dwp-state=build Dwp-Run-Id=r aynig-overrides=r y=2";
        // Kept trailers, given trailers, result.
        let rows = [
            (None, "", ""),
            (None, "dwp-a=2 z=1", "dwp-a=2 z=1"),
            (Dwp, "", "dwp-a=1 dwp-b=1 dwp-b=2"),
            (Dwp, "dwp-b=3 dwp-b=4", "dwp-a=1 dwp-b=3 dwp-b=4"),
            (Dwp, "dwp-B=3", "dwp-a=1 dwp-b=1 dwp-b=2 dwp-B=3"),
            (All, "", "dwp-a=1 dwp-b=1 dwp-b=2 y=1 dwp-c=3 y=2"),
            (All, "y=3 dwp-a=9", "dwp-b=1 dwp-b=2 dwp-c=3 y=3 dwp-a=9"),
        ];
        let (head, ask) = (trailers(head).into_iter().collect(), trailers(ask).into_iter().collect());
        for (keep, given, expected) in rows {
            assert_eq!(
                kept_and_given(keep, &head, &ask, &trailers(given)),
                trailers(expected),
                "{keep:?} {given}"
            );
        }
    }
}
