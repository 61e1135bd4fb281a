//! The subjects of the runner's own commits. They are for `git log`; no program needs to read them.
//!
//! Invariant: every subject made here is one line that encodes, whatever a lease or a command wrote.

use bstr::{BStr, BString};

use super::ids::StateName;
use super::lease::{ORIGIN_KEY, RUNNER_KEY};
use super::report::plain_line;
use super::trailers::Trailers;

/// The most characters of a reason, a state or a runner's id in a subject.
const MOST: usize = 100;

/// `chore: set <state>`, the default subject (CONTRACT 4.6).
pub fn default_subject(state: &StateName) -> BString {
    BString::from(format!("chore: set {state}"))
}

/// The subject of a lease with these trailers: `working: STATE (RUNNER)`.
pub(crate) fn lease_title(lease: &Trailers) -> BString {
    let shown = |key: &str| {
        let value = lease.last(key).map(|value| plain_line(value, MOST)).unwrap_or_default();
        value.trim().to_owned()
    };
    let (state, runner) = (shown(ORIGIN_KEY), shown(RUNNER_KEY));
    if state.is_empty() || runner.is_empty() {
        return default_subject(&StateName::working());
    }
    BString::from(format!("working: {state} ({runner})"))
}

/// The subject of a request to stop the attempt of this lease: `cancel: STATE`.
pub(crate) fn request_title(lease: &Trailers, again: bool) -> BString {
    let state = lease.last(ORIGIN_KEY).map(|value| plain_line(value, MOST)).unwrap_or_default();
    let state = if state.trim().is_empty() { "a lease" } else { state.trim() };
    BString::from(format!("cancel: {state}{}", if again { ", to run it again" } else { "" }))
}

/// The subject of an answer: `answer: STATE`.
pub fn answer_title(state: &StateName) -> BString {
    BString::from(format!("answer: {state}"))
}

/// Whether a subject only repeats the state.
pub fn repeats_state(subject: &BStr, state: &StateName) -> bool {
    subject == default_subject(state) || subject == answer_title(state)
}

/// The subject of a stalled commit with this body: `stalled: WHY`. The first line of the body says why.
pub(crate) fn stalled_title(body: &str) -> BString {
    let first = body.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let why = plain_line(first.trim_end_matches(['.', ' ']).as_bytes(), MOST);
    match why.trim() {
        "" => default_subject(&StateName::stalled()),
        why => BString::from(format!("stalled: {why}")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::message::{Draft, Message};
    use super::super::trailers::Trailer;
    use super::*;

    /// CONTRACT 5.29
    #[test]
    fn leases_name_state_and_runner() {
        for (state, runner, title) in [
            ("build", "host-1", "working: build (host-1)"),
            ("build", "h\u{1b}[2J\nx", "working: build (h x)"),
            ("", "host-1", "chore: set working"),
            ("build", " ", "chore: set working"),
        ] {
            let lease = [Trailer::new(ORIGIN_KEY, state), Trailer::new(RUNNER_KEY, runner)];
            assert_eq!(lease_title(&lease.into_iter().collect()), title, "{state:?} {runner:?}");
        }
    }

    /// CONTRACT 6.16
    #[test]
    fn stalled_commits_say_why() {
        for (body, title) in [
            ("`build` exited with 3.\n\nmore", "stalled: `build` exited with 3"),
            ("\n  a\tb  \n", "stalled: a b"),
            ("...", "chore: set stalled"),
            ("", "chore: set stalled"),
        ] {
            assert_eq!(stalled_title(body), title, "{body:?}");
        }
    }

    proptest! {
        #[test]
        fn any_title_encodes_as_itself(text in any::<String>()) {
            let lease = [Trailer::new(ORIGIN_KEY, text.as_str()), Trailer::new(RUNNER_KEY, text.as_str())];
            let lease: Trailers = lease.into_iter().collect();
            for subject in [stalled_title(&text), lease_title(&lease), request_title(&lease, true)] {
                let draft = Draft { subject: subject.clone(), body: BString::default(), trailers: Trailers::new() };
                let bytes = draft.encode();
                prop_assert!(bytes.is_ok(), "{:?}", bytes);
                prop_assert_eq!(Message::parse(&bytes.unwrap()).subject, subject);
            }
        }
    }
}
