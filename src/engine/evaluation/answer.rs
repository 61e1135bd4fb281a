//! Answers of planners: one JSON object, in what an agent writes the last one.

use serde_json::{Value, json};

use crate::flow::document::{OUTCOMES, word};
use crate::flow::ruling::{Decision, MAX_ANSWER};
use crate::model::step::Outcome;

/// The field of an answer that decides.
const STATUS: &str = "status";

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

/// The answer in a text: its last JSON object, in a fence or not. Objects in it do not count. The error says why there is
/// none: several objects that have a `status` and differ, or one that is cut off.
pub(super) fn last_object(text: &str) -> Result<&str, &'static str> {
    let mut start = text.len().saturating_sub(MAX_ANSWER);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    let (mut rest, mut last) = (text.get(start..).unwrap_or_default(), None);
    let mut ruled: Option<serde_json::Map<String, Value>> = None;
    while let Some(from) = rest.find('{').and_then(|at| rest.get(at..)) {
        let mut objects =
            serde_json::Deserializer::from_str(from).into_iter::<serde_json::Map<String, Value>>();
        let end = match objects.next() {
            Some(Ok(object)) => {
                let end = objects.byte_offset();
                last = from.get(..end);
                if object.contains_key(STATUS) {
                    if ruled.as_ref().is_some_and(|ruled| *ruled != object) {
                        return Err("the answer has several objects with a `status`, and they differ");
                    }
                    ruled = Some(object);
                }
                end
            }
            Some(Err(error)) if error.is_eof() && from.contains("\"status\"") => {
                return Err("the answer is cut off: its last JSON object has no end");
            }
            Some(Err(_)) | None => 1,
        };
        rest = from.get(end..).unwrap_or_default();
    }
    last.ok_or("there is no JSON object in the answer")
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
            assert_eq!(last_object(text).ok(), object, "{text}");
        }
        let hostile = r#"{"a":"#.repeat(1_000);
        assert_eq!(last_object(&hostile).ok(), None);
        assert_eq!(
            last_object(&format!("{{\"a\":1}}{}{{\"b\":2}}", "é".repeat(MAX_ANSWER))),
            Ok("{\"b\":2}")
        );
    }

    /// CONTRACT 20.23
    #[test]
    fn an_answer_that_contradicts_itself_or_is_cut_off_is_none() {
        let (no, yes) = (r#"{"status":"unsafe"}"#, r#"{"status":"success"}"#);
        for (text, why) in [
            (format!("[{no},{yes}]"), "differ"),
            (format!("{no} and an example of an answer would be {yes}"), "differ"),
            (format!(r#"{yes} {{"status":"unsafe", "fix_instructions": "aaa"#), "cut off"),
            (format!(r#"{{"answer": {yes}"#), "cut off"),
            ("nothing".to_owned(), "no JSON object"),
        ] {
            let found = last_object(&text);
            assert!(found.is_err_and(|found| found.contains(why)), "{text}: {found:?}");
        }
        for text in [format!("{yes} {yes}"), format!("{{\"a\":1}} {yes}"), format!("{yes} {{ and {{x}}")] {
            assert_eq!(last_object(&text), Ok(yes), "{text}");
        }
        let twice = last_object(r#"{"status":"unsafe","status":"success"}"#).expect("an object");
        let why = Decision::read(twice.as_bytes()).expect_err("twice");
        assert!(why.contains("twice"), "{why}");
    }
}
