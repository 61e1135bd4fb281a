//! Questions to people: a state that waits for somebody's answer (`dwp-waits-for`, CONTRACT 11.21).
//!
//! Invariant: the question comes from the commit alone. A list of answers with an invalid state in it
//! is invalid as a whole: no answer is guessed.

use bstr::{BStr, ByteSlice};

use super::ids::StateName;
use super::parking::{Parking, parking};
use super::report::plain_line;
use super::trailers::Trailers;

/// The trailer that names the person or team whose answer is missing.
pub(crate) const WAITS_FOR_KEY: &str = "dwp-waits-for";
/// The trailer that lists the states to answer with.
pub(crate) const ANSWERS_KEY: &str = "dwp-answers";
/// Names, in the commit of an answer, the commit that asked.
pub const ANSWERED_KEY: &str = "aynig-answers";

/// The most characters of a name that are shown.
const MAX_NAME_CHARS: usize = 100;

/// Replaces an empty name.
const SOMEBODY: &str = "somebody";

/// A state that waits for somebody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitsFor {
    /// The name, as one harmless line.
    pub whom: String,
    /// The allowed answers.
    pub answers: Answers,
    /// How long it waits.
    pub deadline: Deadline,
}

/// The states to answer with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answers {
    /// There is no list: any state.
    Any,
    /// One of these, in the order of the list.
    Listed(Vec<StateName>),
    /// The list is invalid; the reason.
    Invalid(String),
}

/// From when on the state is run like any other, answered or not (CONTRACT 11.22).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deadline {
    /// Never.
    Never,
    /// From this second on, since the epoch.
    At(i64),
    /// The time cannot be parsed; the reason.
    Unreadable(String),
}

impl WaitsFor {
    /// Reads the trailers of a state; `None` if it waits for nobody.
    pub fn of(trailers: &Trailers) -> Option<Self> {
        let whom = plain_line(trailers.last(WAITS_FOR_KEY)?, MAX_NAME_CHARS);
        let whom = if whom.trim().is_empty() { SOMEBODY.to_owned() } else { whom };
        let answers = trailers.last(ANSWERS_KEY).map_or(Answers::Any, listed);
        let deadline = match parking(trailers, i64::MIN) {
            Parking::Over => Deadline::Never,
            Parking::Until(time) => Deadline::At(time),
            Parking::Unreadable(why) => Deadline::Unreadable(why),
        };
        Some(Self { whom, answers, deadline })
    }

    /// Whether it is due at `now` (seconds since the epoch), so that it is run.
    pub fn is_due(&self, now: i64) -> bool {
        matches!(self.deadline, Deadline::At(time) if time <= now)
    }

    /// The name and, in brackets, the listed answers: `ana (approved, implement)`.
    pub fn words(&self) -> String {
        match self.answers.list() {
            Some(list) => format!("{} ({list})", self.whom),
            None => self.whom.clone(),
        }
    }
}

impl Answers {
    /// The listed states; `None` if there is no valid list.
    pub fn states(&self) -> Option<&[StateName]> {
        match self {
            Self::Listed(states) => Some(states),
            Self::Any | Self::Invalid(_) => None,
        }
    }

    /// The listed states as one text: `approved, implement`.
    pub fn list(&self) -> Option<String> {
        let names = self.states()?.iter().map(StateName::as_str);
        Some(names.collect::<Vec<_>>().join(", "))
    }
}

/// Parses a comma-separated list of states.
fn listed(value: &BStr) -> Answers {
    let mut states: Vec<StateName> = Vec::new();
    for part in value.split_str(",") {
        let why = match StateName::parse(part.trim()) {
            Ok(state) if state.is_working() => "\"working\" is a lease, and no answer".to_owned(),
            Ok(state) if states.contains(&state) => continue,
            Ok(state) => {
                states.push(state);
                continue;
            }
            Err(error) => error.to_string(),
        };
        return Answers::Invalid(format!("invalid {ANSWERS_KEY}: {why}; list states: approved, implement"));
    }
    Answers::Listed(states)
}

#[cfg(test)]
mod tests {
    use super::super::message::Message;
    use super::*;

    fn read(trailers: &str) -> Option<WaitsFor> {
        WaitsFor::of(&Message::parse(format!("s\n\ndwp-state: approval\n{trailers}").as_bytes()).trailers)
    }

    /// CONTRACT 11.21
    #[test]
    fn names_and_answers() {
        for (trailers, expected) in [
            ("dwp-waits-for: ana\n", "ana"),
            ("dwp-waits-for: ana\ndwp-waits-for: the release team\n", "the release team"),
            ("dwp-waits-for: ana\ndwp-answers: approved\n", "ana (approved)"),
            (
                "dwp-waits-for: ana\ndwp-answers: approved ,implement, approved,a/b\n",
                "ana (approved, implement, a/b)",
            ),
            ("dwp-waits-for:\n", "somebody"),
            ("dwp-waits-for: a\u{1b}[31m\u{202e}b\n", "ab"),
        ] {
            assert_eq!(read(trailers).expect("a question").words(), expected, "{trailers}");
        }
        for none in ["", "Dwp-Waits-For: ana\n", "waits-for: ana\n", "dwp-answers: approved\n"] {
            assert_eq!(read(none), None, "{none}");
        }
    }

    /// CONTRACT 11.21
    #[test]
    fn one_invalid_answer_makes_the_list_invalid() {
        for (answers, why) in [
            ("", "it is empty"),
            ("approved,", "it is empty"),
            ("approved, no way", "\"no way\" is not a legal state name"),
            ("../x", "is not a legal state name"),
            ("approved, working", "\"working\" is a lease, and no answer"),
            ("approved; implement", "is not a legal state name"),
        ] {
            let question = read(&format!("dwp-waits-for: ana\ndwp-answers: {answers}\n")).expect("one");
            let Answers::Invalid(found) = &question.answers else { panic!("{answers}: {question:?}") };
            assert!(found.starts_with("invalid dwp-answers: ") && found.contains(why), "{answers}: {found}");
            assert_eq!(question.words(), "ana", "no answer is guessed");
        }
    }

    /// CONTRACT 11.22
    #[test]
    fn deadlines() {
        let question = read("dwp-waits-for: ana\ndwp-not-before: 1970-01-01T00:01:40Z\n").expect("one");
        assert_eq!(question.deadline, Deadline::At(100));
        assert!(!question.is_due(99) && question.is_due(100));
        let question = read("dwp-waits-for: ana\n").expect("one");
        assert!(question.deadline == Deadline::Never && !question.is_due(i64::MAX));
        let question = read("dwp-waits-for: ana\ndwp-not-before: soon\n").expect("one");
        assert!(matches!(&question.deadline, Deadline::Unreadable(why) if why.contains("\"soon\"")));
        assert!(!question.is_due(i64::MAX));
    }
}
