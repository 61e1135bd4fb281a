//! Texts with a meaning: prompts, names, paths, globs, and what is substituted in them.

use std::path::{Component, Path};

use globset::GlobBuilder;

use super::Known;
use crate::flow::document::{Prompt, PromptKind};
use crate::flow::fault::{Notes, Place};
use crate::flow::fields::{Fields, Words, choose};

/// Whether a text is a name: letters, digits, dots, underscores and dashes.
pub(super) fn is_name(text: &str) -> bool {
    text.len() <= 64
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
}

/// A field that is a name.
pub(super) fn name<'a>(fields: Fields<'a>, name: &str, notes: &mut Notes) -> Option<Words<'a>> {
    let words = fields.text(name, notes)?;
    let is_fine = is_name(words.text);
    if !is_fine {
        let instead = "write letters, digits, dots, _ and -, at most 64";
        notes.fault(words.at, format!("this is no name for `{name}`"), instead);
    }
    is_fine.then_some(words)
}

/// The name of a provider. `claude-code` is the public format's word for `claude`.
pub(super) fn provider(fields: Fields<'_>, field: &str, notes: &mut Notes) -> Option<String> {
    let words = name(fields, field, notes)?;
    Some(if words.text == "claude-code" { "claude".to_owned() } else { words.text.to_owned() })
}

/// Whether a text is a path that stays below the directory that it begins in.
pub(crate) fn is_plain_path(text: &str) -> bool {
    let parts = || Path::new(text).components();
    !text.is_empty()
        && !text.ends_with('/')
        && parts().all(|part| matches!(part, Component::Normal(_)))
        && parts().next() != Some(Component::Normal(".git".as_ref()))
}

/// Whether a text is a glob that stays inside of the worktree.
pub(crate) fn is_pattern(text: &str) -> bool {
    is_plain_path(text.strip_suffix('/').unwrap_or(text))
        && GlobBuilder::new(text).literal_separator(true).build().is_ok()
}

/// A glob that stays inside of the worktree.
pub(super) fn glob(words: Words<'_>, notes: &mut Notes) -> Option<String> {
    let Words { at, text } = words;
    let inside = text.strip_suffix('/').unwrap_or(text);
    if !is_plain_path(inside) {
        notes.fault(at, "this pattern leaves the worktree", "write a path from its top, without `..`");
        return None;
    }
    if let Err(error) = GlobBuilder::new(text).literal_separator(true).build() {
        notes.fault(at, format!("this is no pattern: {}", error.kind()), "mend it");
        return None;
    }
    Some(text.to_owned())
}

/// Reports an input in the path of a file of the base commit: what a run is checked against is known before its inputs.
pub(super) fn fixed(at: Place, path: &str, notes: &mut Notes) {
    if path.contains("{{inputs.") {
        let what = "this path has an input, and a file of the base commit has the same path in each run";
        notes.fault(at, what, "write the path, and hand the input over in a prompt or in `args`");
    }
}

/// Reports inputs that a text names and that there are not.
pub(crate) fn substituted(at: Place, text: &str, inputs: &[&str], notes: &mut Notes) {
    for (index, _) in text.match_indices("{{") {
        let rest = text.get(index + 2..).unwrap_or_default();
        let Some((inner, _)) = rest.split_once("}}") else {
            if let Some(name) = rest.strip_prefix("inputs.") {
                let end = name.find(|c: char| !(c.is_ascii_alphanumeric() || "_-".contains(c)));
                let shown = format!("{{{{inputs.{}", name.get(..end.unwrap_or(name.len())).unwrap_or(name));
                notes.warn(
                    at,
                    format!("`{shown}` is text, and not replaced"),
                    format!("write `{shown}}}}}`"),
                );
            }
            return;
        };
        if let Some(name) = inner.strip_prefix("inputs.") {
            if !inputs.contains(&name) {
                let shown: String = name.lines().next().unwrap_or_default().chars().take(64).collect();
                let advice = match inputs {
                    [] => "declare it below `inputs`".to_owned(),
                    _ => format!("declare it below `inputs`, or {}", choose(name, inputs.iter().copied())),
                };
                notes.fault(at, format!("there is no input {shown}"), advice);
            }
        } else if inner.trim().starts_with("inputs.") && !inner.contains('\n') {
            let what = format!("`{{{{{inner}}}}}` is text, and not replaced");
            notes.warn(at, what, format!("without spaces, `{{{{{}}}}}`, it is an input", inner.trim()));
        } else if inputs.contains(&inner.trim()) && !text.get(..index).unwrap_or_default().ends_with('$') {
            let what = format!("`{{{{{inner}}}}}` is text, and not replaced");
            notes.warn(at, what, format!("the input is `{{{{inputs.{}}}}}`", inner.trim()));
        } else if let Some((_, name)) = inner.trim().split_once('.').filter(|(head, _)| is_like_inputs(head))
        {
            let what = format!("`{{{{{inner}}}}}` is text, and not replaced");
            notes.warn(at, what, format!("an input is `{{{{inputs.{}}}}}`", name.trim()));
        }
    }
}

/// Whether a word before a dot is likely to mean `inputs`.
fn is_like_inputs(word: &str) -> bool {
    let word = word.trim().to_ascii_lowercase();
    ["input", "inputs"].contains(&word.as_str())
}

/// A text in which inputs are substituted.
pub(super) fn filled(fields: Fields<'_>, name: &str, known: &Known<'_>, notes: &mut Notes) -> Option<String> {
    let Words { at, text } = fields.text(name, notes)?;
    substituted(at, text, &known.inputs, notes);
    Some(text.to_owned())
}

/// A prompt.
pub(super) fn prompt(fields: Fields<'_>, what: &str, known: &Known<'_>, notes: &mut Notes) -> Prompt {
    let Some(Words { at, text }) = fields.needed("prompt", what, notes) else {
        return Prompt { at: fields.at, kind: PromptKind::Text, text: String::new() };
    };
    let line = text.trim_end_matches('\n');
    let kind = if line.contains(char::is_whitespace) {
        PromptKind::Text
    } else if line.ends_with(".md") {
        if !is_plain_path(line) {
            notes.fault(
                at,
                "the path of this prompt leaves the repository",
                "write a path from its top, without `..`",
            );
        }
        PromptKind::File
    } else if is_versioned(line) {
        PromptKind::Named
    } else {
        PromptKind::Text
    };
    let text = if kind == PromptKind::Text { text } else { line };
    substituted(at, text, &known.inputs, notes);
    if kind != PromptKind::Text {
        fixed(at, text, notes);
    }
    Prompt { at, kind, text: text.to_owned() }
}

/// Whether a word is a name with a version: `planner.evaluate.v1`.
fn is_versioned(word: &str) -> bool {
    let Some((name, version)) = word.rsplit_once(".v") else { return false };
    let digits = !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_digit());
    digits && name.split('.').all(|part| is_name(part) && !part.contains('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_below_the_top() {
        for (text, fine) in [
            ("a", true),
            ("a/b.md", true),
            (".aynig/x", true),
            ("", false),
            ("/a", false),
            ("../a", false),
            ("a/../../b", false),
            ("./a", false),
            (".git/config", false),
            ("a/", false),
        ] {
            assert_eq!(is_plain_path(text), fine, "{text}");
        }
    }

    #[test]
    fn names_with_a_version() {
        for (word, is) in [
            ("planner.evaluate.v1", true),
            ("fix.v12", true),
            ("task.synthesize_harness.v1", true),
            ("fix.v", false),
            ("fix", false),
            (".v1", false),
            ("a/b.v1", false),
            ("fix.v1.md", false),
        ] {
            assert_eq!(is_versioned(word), is, "{word}");
        }
    }

    /// CONTRACT 18.7
    #[test]
    fn only_declared_inputs_are_substituted() {
        let place = Place { line: 3, column: 5 };
        let of = |text: &str| {
            let mut notes = Notes::default();
            substituted(place, text, &["issue", "plan"], &mut notes);
            notes.sorted().iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
        };
        for text in [
            "",
            "{{inputs.issue}}{{inputs.plan}}",
            "{{ a }} {x} {{",
            "{{x}} }} {{inputs.issue}}",
            "${x} {{\n{{inputs.plan}}",
            "${{issue}} {{#issue}} {issue} {{inputs",
        ] {
            assert_eq!(of(text), "", "{text}");
        }
        let unknown = of("a {{inputs.isue}} b");
        assert!(
            unknown.starts_with("3:5: fault: there is no input isue; ")
                && unknown.ends_with("did you mean issue?"),
            "{unknown}"
        );
        let text = |text: &str, instead: &str| {
            format!("3:5: warning: `{text}` is text, and not replaced; {instead}")
        };
        for (text, warning) in [
            ("{{issue}}", text("{{issue}}", "the input is `{{inputs.issue}}`")),
            ("{{ plan }}", text("{{ plan }}", "the input is `{{inputs.plan}}`")),
            ("do {{inputs.issue", text("{{inputs.issue", "write `{{inputs.issue}}`")),
            ("do {{inputs.issue} now", text("{{inputs.issue", "write `{{inputs.issue}}`")),
        ] {
            assert_eq!(of(text), warning);
        }
        assert!(of("{{ inputs.issue }}").contains("warning: `{{ inputs.issue }}` is text, and not replaced"));
    }
}
