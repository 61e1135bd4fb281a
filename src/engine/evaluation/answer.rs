//! Answers of planners: one JSON object, in what an agent writes the last one.

use serde_json::{Value, json};

use crate::flow::document::{OUTCOMES, word};
use crate::flow::ruling::{Decision, MAX_ANSWER};
use crate::model::step::Outcome;

/// The word of a status.
pub(super) fn status(status: Outcome) -> &'static str {
    word(&OUTCOMES, &status)
}

/// An answer for the record.
pub(super) fn json(decision: &Decision) -> Value {
    let blockers = decision.blockers.iter();
    json!({
        "status": status(decision.status),
        "next_step": decision.next_step,
        "fix_instructions": decision.fix_instructions,
        "blockers": blockers.map(|one| json!({"code": one.code, "summary": one.summary})).collect::<Vec<_>>(),
        "risk_flags": decision.risk_flags,
    })
}

/// The last JSON object in a text, in a fence or not. Objects in it do not count.
pub(super) fn last_object(text: &str) -> Option<&str> {
    let mut start = text.len().saturating_sub(MAX_ANSWER);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    let (mut rest, mut last) = (text.get(start..)?, None);
    while let Some(at) = rest.find('{') {
        let from = rest.get(at..)?;
        let mut objects =
            serde_json::Deserializer::from_str(from).into_iter::<serde_json::Map<String, Value>>();
        let end = match objects.next() {
            Some(Ok(_)) => {
                let end = objects.byte_offset();
                last = from.get(..end);
                end
            }
            Some(Err(_)) | None => 1,
        };
        rest = from.get(end..)?;
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CONTRACT 20.23
    #[test]
    fn the_last_object_of_an_answer() {
        for (text, object) in [
            ("", None),
            ("no object {here} {", None),
            (r#"{"a":1}"#, Some(r#"{"a":1}"#)),
            ("I think:\n```json\n{\"a\": {\"b\": 2}}\n```\nDone.", Some(r#"{"a": {"b": 2}}"#)),
            (r#"{"a":1} then {"b":2} and {c}"#, Some(r#"{"b":2}"#)),
            (r#"{"a":"}{"} é"#, Some(r#"{"a":"}{"}"#)),
            (r#"{"a":1"#, None),
            (r#"{ {"a":1} }"#, Some(r#"{"a":1}"#)),
        ] {
            assert_eq!(last_object(text), object, "{text}");
        }
        let hostile = r#"{"a":"#.repeat(100_000);
        assert_eq!(last_object(&hostile), None);
        assert_eq!(
            last_object(&format!("{{\"a\":1}}{}{{\"b\":2}}", "é".repeat(MAX_ANSWER))),
            Some("{\"b\":2}")
        );
    }
}
