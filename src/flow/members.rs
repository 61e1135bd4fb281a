//! Members of the JSON objects that planners and validators write. The error is a sentence for the writer.

use serde_json::{Map, Value};

/// The text of a member. `None` if it is missing or null.
pub(crate) fn text<'a>(fields: &'a Map<String, Value>, name: &str) -> Result<Option<&'a str>, String> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(format!("`{name}` is no text")),
    }
}

/// The entries of a member. Empty if it is missing or null.
pub(crate) fn list<'a>(fields: &'a Map<String, Value>, name: &str) -> Result<&'a [Value], String> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(list)) => Ok(list),
        Some(_) => Err(format!("`{name}` is no list")),
    }
}
