//! The settings as Markdown, for `aynig-config(5)`.
//!
//! Invariant: each setting has an entry, and each entry has all facts of its row in `KEYS`.

use aynig::ops::settings::keys::{Fallback, KEYS, Key, Value};

/// The entries of all settings, by name.
pub(crate) fn entries() -> String {
    let mut keys: Vec<&Key> = KEYS.iter().collect();
    keys.sort_by_key(|key| key.name.to_lowercase());
    let rows: String = keys.into_iter().map(entry).collect();
    format!("| | |\n|---|---|\n{rows}")
}

/// The entry of a setting: its help, its values, its other sources and its default.
fn entry(key: &Key) -> String {
    let mut text = format!("{}.", key.help.trim_end_matches('.'));
    let mut add = |sentence: &str| text.push_str(&format!(" {sentence}."));
    if let Some(values) = values(key) {
        add(&values);
    }
    if key.is_repeatable() && !key.help.contains("(repeatable") {
        add("Repeatable");
    }
    if let Some(flag) = &key.option {
        add(&format!("Option: `--{}`", flag.long));
    }
    for (source, name) in [("Environment", key.environment), ("Trailer", key.trailer)] {
        if !name.is_empty() {
            add(&format!("{source}: {name}"));
        }
    }
    add(&match key.default {
        Fallback::Value(value) => format!("Default: `{value}`"),
        Fallback::Words(words) => format!("Default: {words}"),
    });
    format!("| `aynig.{}` | {} |\n", key.name, text.replace('|', "\\|"))
}

/// The values that a setting takes, unless its help has them.
fn values(key: &Key) -> Option<String> {
    let range = |range: &std::ops::RangeInclusive<u64>, unit: &str| match *range.end() {
        u64::MAX => format!("from {}{unit} on", range.start()),
        end => format!("from {} to {end}{unit}", range.start()),
    };
    match &key.value {
        Value::Flag(_) => Some("A boolean".to_owned()),
        Value::Number(numbers, _) => Some(format!("A number {}", range(numbers, ""))),
        Value::Seconds(seconds, _) => Some(format!("A duration {}", range(seconds, " s"))),
        Value::Word(words) => {
            let words: Vec<String> =
                words.iter().map(|word| format!("`{}` ({})", word.word, lowered(word.help))).collect();
            Some(format!("One of {}", words.join(", ")))
        }
        Value::Path(_) | Value::Text(_) | Value::Line(_) | Value::Glob(_) | Value::Name(_) => None,
    }
}

/// A text that begins a sentence, as a part of one.
fn lowered(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map(|first| first.to_lowercase().chain(characters).collect()).unwrap_or_default()
}
