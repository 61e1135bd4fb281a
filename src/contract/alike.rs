//! Which of the names there are a mistyped one was probably meant to be.
//!
//! Invariant: it is only ever a question to the person; nothing is done on the strength of it.

use bstr::ByteSlice;

use super::parking::NOT_BEFORE_KEY;
use super::trailers::{KEY_PREFIX, LOG_LEVEL_KEY, Trailer};

/// The trailers that are read here, and not written by the runner alone.
const SETTABLE: [&str; 2] = [NOT_BEFORE_KEY, LOG_LEVEL_KEY];

/// How alike two names are to be for a hint, 0 to 1.
const ALIKE: f64 = 0.8;

/// The most alike of `names` that is alike enough, whatever the case of letters.
pub fn nearest<N: AsRef<str>>(word: &str, names: impl IntoIterator<Item = N>) -> Option<N> {
    let word = word.to_lowercase();
    names
        .into_iter()
        .map(|name| (strsim::jaro_winkler(&name.as_ref().to_lowercase(), &word), name))
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .filter(|(alike, _)| *alike > ALIKE)
        .map(|(_, name)| name)
}

/// The name that is so near to `state` that it may have been meant, if `state` itself is not among them. A state is often named after
/// another (`test`, `tested`; `step-1`, `step-2`) and lawful without a command, so neither what goes on from a name nor another number
/// counts.
pub fn slip_of(names: &[String], state: &str) -> Option<String> {
    let letters = |name: &str| name.chars().filter(|c| !c.is_ascii_digit()).collect::<String>();
    let slips = |name: &str| match name.chars().count().min(state.chars().count()) {
        0..=3 => 0,
        4..=7 => 1,
        _ => 2,
    };
    if names.iter().any(|name| name == state) {
        return None;
    }
    names
        .iter()
        .filter(|name| !name.starts_with(state) && !state.starts_with(name.as_str()))
        .filter(|name| letters(name) != letters(state))
        .map(|name| (strsim::osa_distance(name, state), name))
        .filter(|(distance, name)| *distance <= slips(name))
        .min()
        .map(|(_, name)| name.clone())
}

/// What is to be said of trailers whose key nobody reads, but whose spelling is nearly that of one that is read and may be set. Any
/// other key is a workflow's own.
pub fn misspelt<'a>(trailers: impl IntoIterator<Item = &'a Trailer>) -> Vec<String> {
    trailers
        .into_iter()
        .filter_map(|trailer| {
            let key = trailer.key.to_str().ok().filter(|key| !SETTABLE.contains(key))?;
            let near = SETTABLE.into_iter().find(|known| is_slip(key, known))?;
            Some(format!("the trailer {key} is set, but nothing here reads it; did you mean {near}?"))
        })
        .collect()
}

/// Whether `typed` is `known` but for its case, or one slip in each five letters: less than between any two words of a kind.
fn is_slip(typed: &str, known: &str) -> bool {
    let typed = typed.to_ascii_lowercase();
    let (Some(typed), Some(known)) = (typed.strip_prefix(KEY_PREFIX), known.strip_prefix(KEY_PREFIX)) else {
        return false;
    };
    strsim::damerau_levenshtein(typed, known) <= known.len() / 5
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
            ("dwp-not-before", None),
            ("dwp-log-level", None),
            ("dwp-note", None),
            ("dwp-log", None),
            ("dwp-step", None),
            ("dwp-stage", None),
            ("not-befor", None),
        ] {
            let said = misspelt([&Trailer::new(key, "x")]);
            let wanted = near.map(|near| format!("did you mean {near}?"));
            assert_eq!(said.len(), usize::from(near.is_some()), "{key}: {said:?}");
            assert!(wanted.is_none_or(|wanted| said[0].ends_with(&wanted)), "{key}: {said:?}");
        }
    }

    #[test]
    fn the_most_alike_is_asked_about_and_nothing_that_is_not_alike() {
        let names = ["monday", "main", "feat/one", "Feat/Two"];
        for (word, wanted) in [
            ("mondya", Some("monday")),
            ("mnoday", Some("monday")),
            ("feat/tow", Some("Feat/Two")),
            ("nowhere", None),
            ("x", None),
        ] {
            assert_eq!(nearest(word, names), wanted, "{word}");
        }
        assert_eq!(nearest::<&str>("monday", []), None);
    }

    #[test]
    fn only_a_slip_is_alike() {
        let names = ["review", "build", "test", "step-1", "ask", "implement"].map(str::to_owned);
        for (state, expected) in [
            ("revew", Some("review")),
            ("reveiw", Some("review")),
            ("biuld", Some("build")),
            ("implment", Some("implement")),
            ("review", None),
            ("reviewed", None),
            ("tested", None),
            ("step-2", None),
            ("as", None),
            ("task", None),
            ("done", None),
        ] {
            assert_eq!(slip_of(&names, state).as_deref(), expected, "{state}");
        }
    }
}
