//! Messages of the Model Context Protocol: JSON-RPC 2.0, one object a line. Tools are all that is offered.

use serde_json::{Map, Value, json};

/// The versions of the protocol that are spoken, the newest first. They do not differ in what is used of them.
const VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// Codes of errors.
const NO_JSON: i64 = -32_700;
const NO_REQUEST: i64 = -32_600;
const NO_METHOD: i64 = -32_601;
const WRONG_PARAMS: i64 = -32_602;

/// The result of a tool: its text, or why it failed. `None`: there is no tool of this name.
pub type Called = Option<Result<String, String>>;

/// Lists the tools.
pub type List<'a> = dyn Fn() -> Vec<Value> + 'a;

/// Calls a tool by its name.
pub type Call<'a> = dyn Fn(&str, Map<String, Value>) -> Called + 'a;

/// Answers a line. `None`: it is a notification, or an answer to nothing that was asked.
#[must_use]
pub fn answer(line: &[u8], list: &List<'_>, call: &Call<'_>) -> Option<String> {
    let message = match serde_json::from_slice(line) {
        Ok(Value::Object(message)) => message,
        Ok(_) => return Some(failed(&Value::Null, NO_REQUEST, "a message is one JSON object")),
        Err(error) => return Some(failed(&Value::Null, NO_JSON, &error.to_string())),
    };
    let id = message.get("id").filter(|id| id.is_string() || id.is_number());
    let Some(method) = message.get("method").and_then(Value::as_str) else {
        let is_answer = message.contains_key("result") || message.contains_key("error");
        let id = id.cloned().unwrap_or_default();
        return (!is_answer).then(|| failed(&id, NO_REQUEST, "a message names its method"));
    };
    let Some(id) = id else {
        // Without an id it is a notice, which has no answer.
        let is_wrong = message.get("id").is_some_and(|id| !id.is_null());
        return is_wrong.then(|| failed(&Value::Null, NO_REQUEST, "an id is a text or a number"));
    };
    let params = message.get("params").unwrap_or(&Value::Null);
    Some(match method {
        "initialize" => {
            let asked = params["protocolVersion"].as_str();
            let version = VERSIONS.into_iter().find(|version| Some(*version) == asked).unwrap_or(VERSIONS[0]);
            done(
                id,
                &json!({
                    "protocolVersion": version,
                    "capabilities": { "tools": {} },
                    "serverInfo": { "name": "aynig", "version": env!("CARGO_PKG_VERSION") },
                }),
            )
        }
        "ping" => done(id, &json!({})),
        "tools/list" => done(id, &json!({ "tools": list() })),
        "tools/call" => called(id, params, call),
        other => failed(id, NO_METHOD, &format!("{other} is not offered")),
    })
}

fn called(id: &Value, params: &Value, call: &Call<'_>) -> String {
    let Some(name) = params["name"].as_str() else {
        return failed(id, WRONG_PARAMS, "a call names its tool");
    };
    let arguments = match params.get("arguments") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(arguments)) => arguments.clone(),
        Some(_) => return failed(id, WRONG_PARAMS, "the arguments are one JSON object"),
    };
    let Some(result) = call(name, arguments) else {
        return failed(id, WRONG_PARAMS, &format!("there is no tool {name}"));
    };
    let (is_error, text) = match result {
        Ok(text) => (false, text),
        Err(text) => (true, text),
    };
    done(id, &json!({ "content": [{ "type": "text", "text": text }], "isError": is_error }))
}

fn done(id: &Value, result: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string()
}

fn failed(id: &Value, code: i64, message: &str) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(line: &str) -> Option<Value> {
        let list = || vec![json!({ "name": "roster" })];
        let call = |name: &str, arguments: Map<String, Value>| match name {
            "roster" => Some(Ok(Value::Object(arguments).to_string())),
            "broken" => Some(Err("it is broken".to_owned())),
            _ => None,
        };
        let text = answer(line.as_bytes(), &list, &call)?;
        assert!(!text.contains('\n'), "{text}");
        Some(serde_json::from_str(&text).expect("JSON"))
    }

    /// CONTRACT 22.17
    #[test]
    fn each_request_has_one_answer() {
        for (line, pointer, wanted) in [
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}"#,
                "/result/protocolVersion",
                json!("2025-06-18"),
            ),
            (
                r#"{"id":"a","method":"initialize","params":{"protocolVersion":"1999"}}"#,
                "/result/protocolVersion",
                json!(VERSIONS[0]),
            ),
            (r#"{"id":"a","method":"ping"}"#, "/id", json!("a")),
            (r#"{"id":1,"method":"tools/list"}"#, "/result/tools/0/name", json!("roster")),
            (
                r#"{"id":1,"method":"tools/call","params":{"name":"roster"}}"#,
                "/result/content/0/text",
                json!("{}"),
            ),
            (
                r#"{"id":1,"method":"tools/call","params":{"name":"roster","arguments":{"a":1}}}"#,
                "/result/isError",
                json!(false),
            ),
            (r#"{"id":1,"method":"tools/call","params":{"name":"broken"}}"#, "/result/isError", json!(true)),
            (r#"{"id":1,"method":"tools/call","params":{"name":"x"}}"#, "/error/code", json!(WRONG_PARAMS)),
            (
                r#"{"id":1,"method":"tools/call","params":{"name":"roster","arguments":[]}}"#,
                "/error/code",
                json!(WRONG_PARAMS),
            ),
            (r#"{"id":1,"method":"tools/call"}"#, "/error/code", json!(WRONG_PARAMS)),
            (r#"{"id":1,"method":"resources/list"}"#, "/error/code", json!(NO_METHOD)),
            (r#"{"id":1}"#, "/error/code", json!(NO_REQUEST)),
            (r#"{"id":{"a":1},"method":"ping"}"#, "/error/code", json!(NO_REQUEST)),
            ("[]", "/error/code", json!(NO_REQUEST)),
            ("{", "/error/code", json!(NO_JSON)),
        ] {
            let found = ask(line).expect("an answer");
            assert_eq!(found.pointer(pointer), Some(&wanted), "{line}: {found}");
            assert_eq!(found["jsonrpc"], "2.0");
        }
        for silent in [
            r#"{"method":"notifications/initialized"}"#,
            r#"{"id":null,"method":"ping"}"#,
            r#"{"id":1,"result":{}}"#,
            r#"{"id":1,"error":{}}"#,
        ] {
            assert_eq!(ask(silent), None, "{silent}");
        }
    }
}
