//! Reads the fields of a map. What does not fit becomes a fault, and the field counts as left out.

use super::fault::{Notes, Place};
use super::yaml::{Entry, Node, Value};
use crate::contract::alike::nearest;
use crate::contract::duration::parse_duration;

/// The longest duration, in seconds: a year.
pub(crate) const MAX_SECONDS: u64 = 365 * 86_400;

/// The fields of a map.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'a> {
    pub(crate) at: Place,
    entries: &'a [Entry],
}

/// A text and its position.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Words<'a> {
    pub(crate) at: Place,
    pub(crate) text: &'a str,
}

/// The most words of a list in a message.
const MAX_LISTED: usize = 16;

/// The list of words in a message, each once.
pub(crate) fn listed<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let mut all: Vec<&str> = Vec::new();
    for word in words {
        match all.len() {
            MAX_LISTED => {
                all.push("…");
                break;
            }
            _ if all.contains(&word) => {}
            _ => all.push(word),
        }
    }
    all.join(", ")
}

/// The advice for a word that is none of these.
pub(crate) fn choose<'a>(word: &str, words: impl IntoIterator<Item = &'a str> + Clone) -> String {
    match nearest(word, words.clone()) {
        Some(near) => format!("did you mean {near}?"),
        None => match listed(words) {
            all if all.is_empty() => "there is none to choose from".to_owned(),
            all => format!("write one of: {all}"),
        },
    }
}

/// Reports a value of the wrong type; `right` is what to write instead.
fn mistyped(node: &Node, name: &str, wanted: &str, right: &str, notes: &mut Notes) {
    if node.value != Value::Refused {
        let instead = match &node.value {
            Value::Number(text) if wanted == "text" => format!("write it in quotes: \"{text}\""),
            Value::Flag(flag) if wanted == "text" => format!("write it in quotes: \"{flag}\""),
            Value::Text(text) if text == "yes" || text == "no" => "write true or false".to_owned(),
            Value::Text(text) if wanted == "a list of texts" && is_short(text) => {
                format!("write a list: [\"{text}\"]")
            }
            _ => format!("write {right}"),
        };
        notes.fault(node.at, format!("{name} is {}, and not {wanted}", node.value.kind()), instead);
    }
}

/// Whether a text fits into a message as it is, in quotes.
fn is_short(text: &str) -> bool {
    text.len() <= 64 && !text.contains(|c: char| c.is_control() || "\"\\".contains(c))
}

impl<'a> Fields<'a> {
    /// The fields of `node`, which is `what` ("a step"). Each key must be one of `known`; those of `ignored` are named in
    /// a warning.
    pub(crate) fn of(
        node: &'a Node,
        what: &str,
        known: &[&str],
        ignored: &[&str],
        notes: &mut Notes,
    ) -> Option<Self> {
        let fields = Self::all(node, what, notes)?;
        for Entry { key, at, .. } in fields.entries {
            if ignored.contains(&key.as_str()) {
                notes.warn(*at, format!("`{key}` of {what} means nothing to aynig"), "it is ignored");
            } else if !known.contains(&key.as_str()) {
                let advice = match key.as_str() {
                    "<<" => "write the fields themselves".to_owned(),
                    "command" | "run" if what == "a script" => {
                        "write a command line into a script of the repository, and name that in `entrypoint`"
                            .to_owned()
                    }
                    "on_fail" => "write `error: STEP` below `routes`".to_owned(),
                    _ => choose(key, known.iter().copied()),
                };
                notes.fault(*at, format!("`{key}` is no field of {what}"), advice);
            }
        }
        Some(fields)
    }

    /// The fields of `node`, whatever their names are.
    pub(crate) fn all(node: &'a Node, what: &str, notes: &mut Notes) -> Option<Self> {
        let Value::Map(entries) = &node.value else {
            mistyped(node, what, "a map of fields", "fields, each as `NAME: VALUE`", notes);
            return None;
        };
        Some(Self { at: node.at, entries })
    }

    /// The entries.
    pub(crate) fn entries(self) -> &'a [Entry] {
        self.entries
    }

    /// The value of a field that is not empty.
    pub(crate) fn get(self, name: &str) -> Option<&'a Node> {
        let entry = self.entries.iter().find(|entry| entry.key == name)?;
        (entry.value.value != Value::Null).then_some(&entry.value)
    }

    /// The position of a field's key.
    pub(crate) fn place(self, name: &str) -> Place {
        self.entries.iter().find(|entry| entry.key == name).map_or(self.at, |entry| entry.at)
    }

    /// Reports a field that is missing.
    pub(crate) fn missing(self, name: &str, what: &str, notes: &mut Notes) {
        notes.fault(self.at, format!("{what} has no `{name}`"), format!("add `{name}:`"));
    }

    /// A text.
    pub(crate) fn text(self, name: &str, notes: &mut Notes) -> Option<Words<'a>> {
        as_text(self.get(name)?, &format!("`{name}`"), notes)
    }

    /// A text that must be there, and not be blank.
    pub(crate) fn needed(self, name: &str, what: &str, notes: &mut Notes) -> Option<Words<'a>> {
        if self.get(name).is_none() {
            self.missing(name, what, notes);
        }
        let words = self.text(name, notes)?;
        if words.text.trim().is_empty() {
            notes.fault(words.at, format!("`{name}` is empty"), "write its text");
            return None;
        }
        Some(words)
    }

    /// A text, on its own.
    pub(crate) fn owned(self, name: &str, notes: &mut Notes) -> Option<String> {
        self.text(name, notes).map(|words| words.text.to_owned())
    }

    /// A word of a table.
    pub(crate) fn word<T: Copy>(self, name: &str, table: &[(&str, T)], notes: &mut Notes) -> Option<T> {
        let Words { at, text } = self.text(name, notes)?;
        let found = table.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        if found.is_none() {
            let advice = choose(text, table.iter().map(|(word, _)| *word));
            notes.fault(at, format!("{text} is no value of `{name}`"), advice);
        }
        found
    }

    /// A list of texts.
    pub(crate) fn texts(self, name: &str, notes: &mut Notes) -> Vec<Words<'a>> {
        let Some(node) = self.get(name) else { return Vec::new() };
        let named = format!("`{name}`");
        let Value::List(items) = &node.value else {
            mistyped(node, &named, "a list of texts", "one, as in [\"a\", \"b\"]", notes);
            return Vec::new();
        };
        items.iter().filter_map(|item| as_text(item, &format!("an entry of {named}"), notes)).collect()
    }

    /// True or false; false if left out.
    pub(crate) fn flag(self, name: &str, notes: &mut Notes) -> bool {
        match self.get(name) {
            Some(Node { value: Value::Flag(flag), .. }) => *flag,
            Some(node) => {
                mistyped(node, &format!("`{name}`"), "true or false", "true or false", notes);
                false
            }
            None => false,
        }
    }

    /// A whole number of `least` to `most`.
    pub(crate) fn number(self, name: &str, least: u64, most: u64, notes: &mut Notes) -> Option<u64> {
        let node = self.get(name)?;
        let range = if most == u64::MAX { format!("{least} or more") } else { format!("{least} to {most}") };
        let read = match &node.value {
            Value::Number(text) => text.parse().ok().filter(|number| (least..=most).contains(number)),
            _ => {
                mistyped(node, &format!("`{name}`"), "a whole number", &range, notes);
                return None;
            }
        };
        if read.is_none() {
            notes.fault(
                node.at,
                format!("this is no value of `{name}`"),
                format!("write a whole number, {range}"),
            );
        }
        read
    }

    /// A number above 0.
    pub(crate) fn cost(self, name: &str, notes: &mut Notes) -> Option<f64> {
        let node = self.get(name)?;
        let read = match &node.value {
            Value::Number(text) => text.parse().ok().filter(|cost: &f64| cost.is_finite() && *cost > 0.0),
            Value::Refused => return None,
            _ => None,
        };
        if read.is_none() {
            notes.fault(
                node.at,
                format!("this is no value of `{name}`"),
                "write a number above 0, as in 2.50",
            );
        }
        read
    }

    /// A duration in seconds.
    pub(crate) fn seconds(self, name: &str, notes: &mut Notes) -> Option<u64> {
        let node = self.get(name)?;
        let read = match &node.value {
            Value::Number(text) | Value::Text(text) => parse_duration(text),
            _ => {
                mistyped(
                    node,
                    &format!("`{name}`"),
                    "a duration",
                    "seconds, or a text such as 90s, 10m or 2h",
                    notes,
                );
                return None;
            }
        };
        let read = read.filter(|seconds| (1..=MAX_SECONDS).contains(seconds));
        if read.is_none() {
            let instead = "write seconds from 1 to a year, or a text such as 90s, 10m or 2h";
            notes.fault(node.at, format!("this is no duration for `{name}`"), instead);
        }
        read
    }
}

/// A text.
pub(crate) fn as_text<'a>(node: &'a Node, name: &str, notes: &mut Notes) -> Option<Words<'a>> {
    match &node.value {
        Value::Text(text) => Some(Words { at: node.at, text }),
        _ => {
            mistyped(node, name, "text", "a text, in quotes if it has {, [ or `: `", notes);
            None
        }
    }
}
