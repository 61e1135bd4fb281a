//! Reads YAML as data: texts, numbers, flags, lists and maps, each with its position.
//!
//! Invariant: tags, anchors, aliases, merge keys, directives, a second document and duplicate keys are
//! faults; nothing is resolved or expanded. The depth and the length of the input are bounded, so time and memory are
//! too.

use granit_parser::{Event, Marker, Parser, ScalarStyle, Span};

use super::fault::{Notes, Place};

/// The longest file, in bytes.
pub const MAX_BYTES: usize = 1024 * 1024;

/// The most levels of lists and of maps within each other.
const MAX_DEPTH: usize = 24;

/// A value and its position.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) at: Place,
    pub(crate) value: Value,
}

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    /// Nothing, `~` or `null`.
    Null,
    Flag(bool),
    /// As written.
    Number(String),
    Text(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
    /// The values that were refused already.
    Refused,
}

impl Value {
    /// Its kind, for messages.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "empty",
            Self::Flag(_) => "true or false",
            Self::Number(_) => "a number",
            Self::Text(_) => "text",
            Self::List(_) => "a list",
            Self::Map(_) => "a map",
            Self::Refused => "refused",
        }
    }
}

/// A key of a map with its value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) at: Place,
    pub(crate) value: Node,
}

/// The kind of a file: the word for what it describes, and the command that prints its schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) word: &'static str,
    pub(crate) schema: &'static str,
}

/// A flow file.
pub(crate) const FLOW: Kind = Kind { word: "flow", schema: "aynig flow schema" };

/// Parses a file. Returns `None` after a fault that makes the rest unreadable.
pub(crate) fn parse(bytes: &[u8], kind: Kind, notes: &mut Notes) -> Option<Node> {
    let text = decode(bytes, notes)?;
    let options = granit_parser::options! {
        disallow_directives: true,
        emit_unresolved_aliases: true,
        emit_anchor_events: true,
        flow_nesting_limit: MAX_DEPTH,
        block_nesting_limit: MAX_DEPTH,
    };
    let mut tree = Tree { word: kind.word, open: Vec::new(), root: None, braced: None };
    for event in Parser::new_from_str_with_options(text, options) {
        match event {
            Ok((event, span)) => tree.take(event, span, notes)?,
            Err(error) => {
                let at = place(error.marker());
                if tree.braced.is_none_or(|(_, braced)| braced.line != at.line) {
                    unreadable(text, at, &error.info(), notes);
                }
                return None;
            }
        }
    }
    if tree.root.is_none() {
        let at = Place { line: 1, column: 1 };
        let instead = format!("write a {}; `{}` describes its fields", kind.word, kind.schema);
        notes.fault(at, "the file is empty", instead);
    }
    tree.root
}

/// Reports where a text ends to be YAML.
fn unreadable(text: &str, at: Place, info: &str, notes: &mut Notes) {
    let format = if text.trim_start().starts_with('{') { "JSON" } else { "YAML" };
    let what = format!("this is no {format}: {info}");
    if info.contains("tab") {
        notes.fault(first_tab(text, at), what, "indent with spaces");
    } else if info.starts_with("mapping values are not allowed") {
        notes.fault(at, what, "put a text that contains `: ` in quotes");
    } else {
        notes.fault(at, what, "mend it, or put a text with special characters in quotes");
    }
}

/// The first tab that indents a line from `at` on. The parser names the start of what the tab ends.
fn first_tab(text: &str, at: Place) -> Place {
    let from = text.lines().enumerate().skip(at.line - 1);
    let tab = from.map(|(index, line)| (index, line.chars().take_while(|c| " \t-".contains(*c)))).find_map(
        |(index, mut start)| Some(Place { line: index + 1, column: start.position(|c| c == '\t')? + 1 }),
    );
    tab.unwrap_or(at)
}

/// The text of a file: UTF-8 without characters that cannot be seen.
fn decode<'a>(bytes: &'a [u8], notes: &mut Notes) -> Option<&'a str> {
    let start = Place { line: 1, column: 1 };
    if bytes.len() > MAX_BYTES {
        notes.fault(start, "the file is longer than 1 MiB", "move long texts to files of their own");
        return None;
    }
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let before = bytes.get(..error.valid_up_to()).and_then(|good| std::str::from_utf8(good).ok());
            let at = end_of(before.unwrap_or_default());
            notes.fault(at, "this is not UTF-8", "save the file as UTF-8");
            return None;
        }
    };
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let odd = |c: char| c.is_control() && !matches!(c, '\t' | '\n' | '\r');
    if let Some((index, c)) = text.char_indices().find(|(_, c)| odd(*c)) {
        let at = end_of(text.get(..index).unwrap_or_default());
        let code = u32::from(c);
        notes.fault(
            at,
            format!("this is the control character U+{code:04X}"),
            "remove it; in quotes it is written as \\u",
        );
        return None;
    }
    Some(text)
}

/// The position after a text.
fn end_of(text: &str) -> Place {
    let line = text.rsplit('\n').next().unwrap_or_default();
    Place { line: text.matches('\n').count() + 1, column: line.chars().count() + 1 }
}

fn place(marker: &Marker) -> Place {
    Place { line: marker.line(), column: marker.col() + 1 }
}

/// A list or a map that is not complete.
enum Open {
    List(Place, Vec<Node>),
    Map(Place, Vec<Entry>, Option<Key>),
}

/// A key that waits for its value.
enum Key {
    Name(String, Place),
    /// One that was refused.
    None,
}

/// The tree, as it grows.
struct Tree {
    /// The word for what the file describes.
    word: &'static str,
    open: Vec<Open>,
    root: Option<Node>,
    /// Two opening braces without quotes, which were refused: how many lists and maps are around, and where they are.
    braced: Option<(usize, Place)>,
}

impl Tree {
    /// Takes the next event. Returns `None` to stop.
    fn take(&mut self, event: Event<'_>, span: Span, notes: &mut Notes) -> Option<()> {
        let at = place(&span.start);
        if event.tag().is_some() {
            let at = span.tag_span().map_or(at, |tag| place(&tag.start));
            let what = format!("a {} file has no tags (`!`)", self.word);
            notes.fault(at, what, "remove it, or put the text in quotes");
        }
        match event {
            Event::DocumentStart(..) if self.root.is_some() => {
                let instead = format!("write one {} in a file", self.word);
                notes.fault(at, "a second document begins here", instead);
                return None;
            }
            Event::Alias(_) | Event::UnresolvedAlias(_) => {
                let what = format!("a {} file has no aliases (`*`)", self.word);
                notes.fault(at, what, "write the value again, or put the text in quotes");
                self.add(Node { at, value: Value::Refused }, notes);
            }
            Event::Anchor(..) => {
                let what = format!("a {} file has no anchors (`&`)", self.word);
                notes.fault(at, what, "remove it, or put the text in quotes");
            }
            Event::Scalar(text, style, ..) => {
                let value = match style {
                    ScalarStyle::Plain => plain(&text),
                    _ => Value::Text(text.into_owned()),
                };
                self.add(Node { at, value }, notes);
            }
            Event::SequenceStart(..) => self.open.push(Open::List(at, Vec::new())),
            Event::MappingStart(..) => self.open.push(Open::Map(at, Vec::new(), None)),
            Event::SequenceEnd | Event::MappingEnd => {
                let (at, value) = match self.open.pop()? {
                    Open::List(at, items) => (at, Value::List(items)),
                    Open::Map(at, ..) if self.braced == Some((self.open.len(), at)) => (at, Value::Refused),
                    Open::Map(at, entries, _) => (at, Value::Map(entries)),
                };
                self.add(Node { at, value }, notes);
            }
            // The starts and ends of the stream and of its document.
            _ => {}
        }
        Some(())
    }

    /// Adds a value that is complete to the list or map around it.
    fn add(&mut self, node: Node, notes: &mut Notes) {
        let depth = self.open.len();
        match self.open.last_mut() {
            None => self.root = Some(node),
            Some(Open::List(_, items)) => items.push(node),
            Some(Open::Map(at, entries, key)) => match key.take() {
                None if substitution(&node, *at).is_some() => {
                    let name = substitution(&node, *at).unwrap_or_default();
                    let what = format!("`{{{{{name}}}}}` is a map here, and not text");
                    notes.fault(*at, what, format!("put it in quotes: \"{{{{{name}}}}}\""));
                    self.braced = Some((depth - 1, *at));
                    *key = Some(Key::None);
                }
                None => *key = Some(as_key(node, entries, notes)),
                Some(Key::Name(key, at)) => entries.push(Entry { key, at, value: node }),
                Some(Key::None) => {}
            },
        }
    }
}

/// The NAME of `{NAME}`, which is the first key of a map at `around` where `{{NAME}}` is without quotes.
fn substitution(node: &Node, around: Place) -> Option<&str> {
    let follows = node.at == Place { column: around.column + 1, ..around };
    match &node.value {
        Value::Map(entries) if follows => match entries.as_slice() {
            [Entry { key, value, .. }] if value.value == Value::Null => Some(key),
            _ => None,
        },
        _ => None,
    }
}

fn as_key(node: Node, entries: &[Entry], notes: &mut Notes) -> Key {
    let Node { at, value } = node;
    let key = match value {
        Value::Text(text) | Value::Number(text) => text,
        Value::Flag(flag) => flag.to_string(),
        Value::Refused => return Key::None,
        Value::Null | Value::List(_) | Value::Map(_) => {
            notes.fault(at, format!("this key is {}", value.kind()), "write the name of a field");
            return Key::None;
        }
    };
    if let Some(first) = entries.iter().find(|entry| entry.key == key) {
        let line = first.at.line;
        notes.fault(at, format!("`{key}` is here twice, first in line {line}"), "remove one of them");
        return Key::None;
    }
    Key::Name(key, at)
}

/// A scalar without quotes, by the core schema of YAML 1.2.
fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Flag(true),
        "false" | "False" | "FALSE" => Value::Flag(false),
        _ if is_number(text) => Value::Number(text.to_owned()),
        _ => Value::Text(text.to_owned()),
    }
}

fn is_number(text: &str) -> bool {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let begins = digits.strip_prefix('.').unwrap_or(digits).starts_with(|c: char| c.is_ascii_digit());
    let octal_or_hex = |prefix: &str, radix| {
        text.strip_prefix(prefix).is_some_and(|rest| u128::from_str_radix(rest, radix).is_ok())
    };
    (begins && digits.parse::<f64>().is_ok())
        || octal_or_hex("0x", 16)
        || octal_or_hex("0o", 8)
        || [".inf", ".nan"].contains(&digits.to_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &[u8]) -> (Option<Node>, Vec<String>) {
        let mut notes = Notes::default();
        let node = parse(text, FLOW, &mut notes);
        (node, notes.sorted().iter().map(ToString::to_string).collect())
    }

    /// CONTRACT 18.1
    #[test]
    fn what_is_no_plain_data_is_a_fault_with_its_position() {
        for (text, faults) in [
            (&b"a: !x b\n"[..], &["1:4: fault: a flow file has no tags"][..]),
            (
                b"a: !!str 1\nb: ! c\n",
                &["1:4: fault: a flow file has no tags", "2:4: fault: a flow file has no tags"],
            ),
            (
                b"a: &x b\nc: *x\nd: *y\n",
                &[
                    "1:4: fault: a flow file has no anchors",
                    "2:4: fault: a flow file has no aliases",
                    "3:4: fault: a flow file has no aliases",
                ],
            ),
            (b"a: 1\nb: 2\na: 3\n", &["3:1: fault: `a` is here twice, first in line 1"]),
            (b"? [a]\n: b\n", &["1:3: fault: this key is a list"]),
            (b"a: b\n---\nc: d\n", &["2:1: fault: a second document begins here"]),
            (b"%YAML 1.2\n---\na: b\n", &["1:1: fault: this is no YAML: "]),
            (b"", &["1:1: fault: the file is empty"]),
            (b"# nothing\n", &["1:1: fault: the file is empty"]),
            (b"a: [b\n", &["1:4: fault: this is no YAML: "]),
            (b"a: b: c\n", &["1:5: fault: this is no YAML: "]),
            (b"a:\n\tb: c\n", &["2:1: fault: this is no YAML: "]),
            (b"a: b\nc: \xff\n", &["2:4: fault: this is not UTF-8"]),
            (b"\xff\xfea\0", &["1:1: fault: this is not UTF-8"]),
            (b"a: \xc3\xa9\0\n", &["1:5: fault: this is the control character U+0000"]),
            (b"a: \x1b[2J", &["1:4: fault: this is the control character U+001B"]),
        ] {
            let (_, notes) = read(text);
            let shown = String::from_utf8_lossy(text);
            assert_eq!(notes.len(), faults.len(), "{shown}: {notes:#?}");
            for (note, fault) in notes.iter().zip(faults) {
                assert!(note.starts_with(fault), "{shown}: {note}, and not {fault}");
            }
        }
    }

    /// CONTRACT 18.2
    #[test]
    fn a_fault_says_what_to_write() {
        let quoted = |at: &str| {
            format!(
                "{at}: fault: `{{{{inputs.a}}}}` is a map here, and not text; put it in quotes: \"{{{{inputs.a}}}}\""
            )
        };
        for (text, fault) in [
            ("p: {{inputs.a}}\n", quoted("1:4")),
            ("p: {{ inputs.a }}\nq: 1\n", quoted("1:4")),
            ("p: [{{inputs.a}}, b]\n", quoted("1:5")),
            ("p: {{inputs.a}} and more\nq: 1\n", quoted("1:4")),
            ("p: a: b\n", "1:5: fault: this is no YAML: mapping values are not allowed in this context; put a text that contains `: ` in quotes".to_owned()),
            ("a:\n  b: c\n\td: e\n", "3:1: fault: this is no YAML: while scanning a plain scalar, found a tab; indent with spaces".to_owned()),
            ("a:\n  - b\n  \t- c\n", "3:3: fault: this is no YAML: while scanning a plain scalar, found a tab; indent with spaces".to_owned()),
            ("{\"a\": [1}\n", "1:7: fault: this is no JSON: ".to_owned()),
        ] {
            let (_, notes) = read(text.as_bytes());
            assert!(notes.len() == 1 && notes[0].starts_with(&fault), "{text}: {notes:#?}, and not {fault}");
        }
        let (node, _) = read(b"p: {{inputs.a}}\nq: {{a: b}: c}\n");
        let Some(Node { value: Value::Map(entries), .. }) = node else { panic!("a map") };
        assert_eq!((entries[0].value.value.kind(), entries[1].value.value.kind()), ("refused", "a map"));
    }

    #[test]
    fn values_have_types_and_positions() {
        let (node, notes) =
            read("\u{feff}a: 1\r\nb: [x, 'y', 2.5, true, ~]\r\né: {c: |\r\n  d}\r\n".as_bytes());
        assert!(node.is_none() && notes.len() == 1, "a block scalar cannot be in braces: {notes:?}");
        let (node, notes) = read(
            "\u{feff}a: 1\r\nb: [x, 'y', 2.5, true, ~, '1', .5, 0x1f, 1_0]\r\né: {c: \"d\"}\r\n".as_bytes(),
        );
        assert!(notes.is_empty(), "{notes:?}");
        let Some(Node { value: Value::Map(entries), .. }) = node else { panic!("a map") };
        let Value::List(items) = &entries[1].value.value else { panic!("a list") };
        let kinds: Vec<&str> = items.iter().map(|item| item.value.kind()).collect();
        assert_eq!(
            kinds,
            ["text", "text", "a number", "true or false", "empty", "text", "a number", "a number", "text"]
        );
        assert_eq!(items[1].at, Place { line: 2, column: 8 });
        assert_eq!((entries[2].key.as_str(), entries[2].value.at), ("é", Place { line: 3, column: 4 }));
    }

    #[test]
    fn hostile_input_is_refused_in_time() {
        let long = "x".repeat(MAX_BYTES + 1);
        assert!(read(long.as_bytes()).1[0].starts_with("1:1: fault: the file is longer"));
        for deep in ["[".repeat(500_000), "- ".repeat(500_000), "? ".repeat(500_000), "{a: ".repeat(200_000)]
        {
            let (node, notes) = read(deep.as_bytes());
            assert!(node.is_none() && notes.len() == 1, "{notes:?}");
        }
        for wide in ["a: b\n".repeat(200_000), format!("[{}]", "a,".repeat(400_000)), "a ".repeat(500_000)] {
            read(wide.as_bytes());
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(
            parts in proptest::collection::vec(
                proptest::sample::select(vec![
                    "a: b\n", "- ", "  ", "\n", "[", "]", "{", "}", ",", ": ", "? ", "|\n", "> \n", "'", "\"", "\\u", "#c\n", "&a ",
                    "*a", "!t ", "---\n", "...\n", "%YAML 1.2\n", "\t", "\u{feff}", "é", "\0", "\r\n", "<<: ", "id: x\n", "steps:\n",
                ]),
                0..24,
            )
        ) {
            let (node, notes) = read(parts.concat().as_bytes());
            prop_assert!(node.is_some() || !notes.is_empty());
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let (node, notes) = read(&bytes);
            prop_assert!(node.is_some() || !notes.is_empty());
        }
    }
}
