//! Suggests the name that a mistyped one probably stands for ("did you mean").
//!
//! Invariant: a suggestion is only shown to the user; no code acts on it.

use bstr::ByteSlice;

use super::parking::NOT_BEFORE_KEY;
use super::preference::{PREFER_RUNNER_KEY, PREFER_SECONDS_KEY};
use super::trailers::{LOG_LEVEL_KEY, Trailer};
use super::waits_for::{ANSWERS_KEY, WAITS_FOR_KEY};

/// Trailers that a runner reads and a user may set.
const SETTABLE: [&str; 6] =
    [NOT_BEFORE_KEY, LOG_LEVEL_KEY, PREFER_RUNNER_KEY, PREFER_SECONDS_KEY, WAITS_FOR_KEY, ANSWERS_KEY];

/// Returns the nearest of the names that are one or two slips away from `word`; `None` if `word` is
/// one of them.
pub fn nearest<N: AsRef<str>>(word: &str, names: impl IntoIterator<Item = N>) -> Option<N> {
    let near = names.into_iter().filter_map(|name| Some((slips(word, name.as_ref())?, name)));
    let (_, name) = near.min_by_key(|(slips, name)| (*slips, name.as_ref() != word))?;
    (name.as_ref() != word).then_some(name)
}

/// Returns the command that a state nearly has the name of. A form of a command's name (`approved`, where there is
/// `approve` or `approval`) is its result and no slip.
pub fn nearest_command<N: AsRef<str>>(state: &str, commands: impl IntoIterator<Item = N>) -> Option<N> {
    nearest(state, commands.into_iter().filter(|command| !is_form(state, command.as_ref())))
}

/// The endings of forms of a verb.
const ENDINGS: [&str; 5] = ["ed", "al", "ing", "ion", "er"];

/// Whether a word is another form of a name: it has an ending, and the stem of the name.
fn is_form(word: &str, name: &str) -> bool {
    let of_name = |stem: &str| {
        name.strip_prefix(stem).is_some_and(|rest| ["", "e"].contains(&rest) || ENDINGS.contains(&rest))
    };
    word != name && ENDINGS.iter().filter_map(|ending| word.strip_suffix(ending)).any(of_name)
}

/// Returns the name one slip away, whatever its length, of a list so short that this is hardly an accident.
pub fn one_slip<N: AsRef<str>>(word: &str, names: impl IntoIterator<Item = N>) -> Option<N> {
    names.into_iter().find(|name| strsim::osa_distance(word, name.as_ref()) == 1)
}

/// Counts the slips between two names, ignoring case. A name of up to 3 letters allows none, one of
/// up to 7 allows one, longer ones two. Names that differ only in digits are not similar: `step-2`
/// is meant to differ from `step-1`.
fn slips(word: &str, name: &str) -> Option<usize> {
    let (word, name) = (word.to_lowercase(), name.to_lowercase());
    let letters = |name: &str| name.replace(|c: char| c.is_ascii_digit(), "");
    let allowed = match name.chars().count() {
        0..=3 => 0,
        4..=7 => 1,
        _ => 2,
    };
    let slips = strsim::osa_distance(&word, &name);
    let is_number = slips > 0 && letters(&word) == letters(&name);
    (slips <= allowed && !is_number).then_some(slips)
}

/// A trailer whose key nearly matches one that a runner reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misspelt {
    key: String,
    near: &'static str,
}

impl std::fmt::Display for Misspelt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { key, near } = self;
        write!(f, "the trailer {key} is set, but nothing here reads it; did you mean {near}?")
    }
}

/// Returns the trailers whose keys nearly match one of [`SETTABLE`]. Any other key belongs to the
/// workflow.
pub fn misspelt<'a>(trailers: impl IntoIterator<Item = &'a Trailer>) -> Vec<Misspelt> {
    let keys = trailers.into_iter().filter_map(|trailer| trailer.key.to_str().ok());
    keys.filter_map(|key| Some(Misspelt { key: key.to_owned(), near: nearest(key, SETTABLE)? })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_is_nearly_one_that_is_read_is_asked_about() {
        for (key, near) in [
            ("dwp-not-befor", Some("dwp-not-before")),
            ("dwp-notbefore", Some("dwp-not-before")),
            ("dwp-nto-before", Some("dwp-not-before")),
            ("Dwp-Not-Before", Some("dwp-not-before")),
            ("dwp-log-levle", Some("dwp-log-level")),
            ("dwp-wait-for", Some("dwp-waits-for")),
            ("dwp-answer", Some("dwp-answers")),
            ("dwp-not-before", None),
            ("dwp-log-level", None),
            ("dwp-note", None),
            ("dwp-log", None),
            ("dwp-step", None),
            ("dwp-stage", None),
            ("not-befor", None),
        ] {
            let said: Vec<String> =
                misspelt([&Trailer::new(key, "x")]).iter().map(ToString::to_string).collect();
            let wanted = near.map(|near| format!("did you mean {near}?"));
            assert_eq!(said.len(), usize::from(near.is_some()), "{key}: {said:?}");
            assert!(wanted.is_none_or(|wanted| said[0].ends_with(&wanted)), "{key}: {said:?}");
        }
    }

    #[test]
    fn only_a_slip_is_asked_about() {
        let names = [
            "monday",
            "main",
            "feat/one",
            "Feat/Two",
            "review",
            "build",
            "test",
            "step-1",
            "ask",
            "implement",
        ];
        for (word, expected) in [
            ("mondya", Some("monday")),
            ("mnoday", Some("monday")),
            ("feat/tow", Some("Feat/Two")),
            ("nowhere", None),
            ("x", None),
            ("revew", Some("review")),
            ("reveiw", Some("review")),
            ("Review", Some("review")),
            ("biuld", Some("build")),
            ("implment", Some("implement")),
            ("review", None),
            ("reviewed", None),
            ("tested", None),
            ("step-2", None),
            ("stpe-1", Some("step-1")),
            ("as", None),
            ("task", None),
            ("done", None),
        ] {
            assert_eq!(nearest(word, names), expected, "{word}");
        }
        assert_eq!(nearest::<&str>("monday", []), None);
    }

    #[test]
    fn a_form_of_a_commands_name_is_no_slip() {
        let commands = ["approve", "approval", "close", "implement", "review", "release"];
        for (state, near) in [
            ("approved", None),
            ("closed", None),
            ("closing", None),
            ("implemented", None),
            ("implementer", None),
            ("released", None),
            ("approve", None),
            ("approv", Some("approve")),
            ("approvd", Some("approve")),
            ("cloesd", None),
            ("clsoe", Some("close")),
            ("reviwe", Some("review")),
        ] {
            assert_eq!(nearest_command(state, commands), near, "{state}");
        }
    }

    #[test]
    fn one_slip_of_a_short_list() {
        for (word, near) in
            [("rnu", Some("run")), ("lgo", Some("log")), ("logs", Some("log")), ("status", None)]
        {
            assert_eq!(one_slip(word, ["run", "log", "land"]), near, "{word}");
        }
    }
}
