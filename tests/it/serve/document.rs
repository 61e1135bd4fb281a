//! Every answer of the server has the shape that the document gives it.

use std::sync::LazyLock;

use serde_json::{Value, json};

use super::*;

static DOCUMENT: LazyLock<Value> = LazyLock::new(|| {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("contrib/api/openapi.json");
    serde_json::from_slice(&std::fs::read(path).expect("a file")).expect("JSON")
});

/// The operation of a request, unless it is none of the document's.
fn operation(method: &str, path: &str) -> Option<&'static Value> {
    let path = path.split('?').next().unwrap_or_default();
    let fits = |template: &str| {
        let (wanted, given) = (template.split('/'), path.split('/'));
        wanted.clone().count() == given.clone().count()
            && wanted.zip(given).all(|(wanted, given)| wanted.starts_with('{') || wanted == given)
    };
    let paths = DOCUMENT["paths"].as_object()?;
    // A path without a place for a name is the better one.
    let mut found: Vec<&String> = paths.keys().filter(|template| fits(template)).collect();
    found.sort_by_key(|template| template.matches('{').count());
    paths[found.first().copied()?].get(method.to_lowercase())
}

/// Asserts that an answer is one that the document allows, and so is the body of a request that was accepted.
pub(super) fn assert_described(method: &str, path: &str, body: &str, answer: &Answered) {
    // A server that is killed answers in part, or not at all.
    let length = answer.header("content-length").and_then(|length| length.parse().ok());
    if length != Some(answer.body.len()) {
        return;
    }
    let Some(operation) = operation(method, path) else { return };
    if answer.status == 200 && !body.is_empty() {
        let shape = operation.pointer("/requestBody/content/application~1json/schema");
        assert_fits(&format!("{method} {path} with {body}"), shape, body.as_bytes());
    }
    let responses = &operation["responses"];
    let response = responses.get(answer.status.to_string()).unwrap_or(&responses["default"]);
    let shape = response.pointer("/content/application~1json/schema");
    // A file to save, or lines of events.
    let kind = answer.header("content-type").unwrap_or_default();
    if shape.is_some() && answer.status == 200 && kind != "application/json" {
        return;
    }
    assert_fits(&format!("{method} {path} ({})", answer.status), shape, &answer.body);
}

fn assert_fits(what: &str, shape: Option<&Value>, text: &[u8]) {
    let Some(shape) = shape else { panic!("{what} has no shape") };
    let schema = json!({ "$ref": "#/schema", "schema": shape, "components": DOCUMENT["components"] });
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let given: Value = serde_json::from_slice(text).expect("JSON");
    let wrong: Vec<String> =
        validator.iter_errors(&given).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(wrong.is_empty(), "{what}: {wrong:?}");
}

/// A shape that nothing breaks shows nothing.
#[test]
fn an_answer_of_another_shape_is_noticed() {
    let answer = |body: &str| Answered {
        status: 200,
        head: format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}", body.len()),
        body: body.as_bytes().to_vec(),
    };
    assert_described("DELETE", "/api/runs/x", "", &answer(r#"{"runId":"x"}"#));
    for wrong in [r#"{"runId":5}"#, "{}", "[]"] {
        let noticed =
            std::panic::catch_unwind(|| assert_described("DELETE", "/api/runs/x", "", &answer(wrong)));
        assert!(noticed.is_err(), "{wrong}");
    }
    let accepted =
        |body: &str| assert_described("POST", "/api/runs/x/chat", body, &answer(r#"{"messageId":null}"#));
    accepted(r#"{"content":"x"}"#);
    for wrong in [r#"{"content":5}"#, "{}", r#"{"content":"x","node":"y"}"#] {
        assert!(std::panic::catch_unwind(|| accepted(wrong)).is_err(), "{wrong}");
    }
}
