//! The tools of an agent's hand. Their arguments are those of the commands.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::rpc::Called;
use crate::engine::Engine;
use crate::model::message::Expectation;
use crate::ops::error::Error;
use crate::ops::hand::{self, Acted, ArtifactKind, Child, CliPermissions, END_NOW, Letter, Verb, WAITS};

/// The type of a text in a schema.
const TEXT: &str = "string";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Handoff {
    to: String,
    message: String,
    structured: Option<Map<String, Value>>,
    #[serde(default)]
    artifacts: Vec<String>,
    status: Option<String>,
    #[serde(default)]
    expect: Expectation,
    reply_to: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Spawn {
    alias: String,
    role: String,
    provider: String,
    label: Option<String>,
    model: Option<String>,
    permissions: Option<CliPermissions>,
    message: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct EdgeAdd {
    from: String,
    to: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ArtifactAdd {
    file: String,
    kind: Option<Keeps>,
    name: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Keeps {
    Report,
    Diff,
    Log,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Done {
    message: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

/// The tools of these commands, for a client.
#[must_use]
pub fn listed(verbs: &[Verb]) -> Vec<Value> {
    verbs.iter().map(|verb| described(*verb)).collect()
}

fn described(verb: Verb) -> Value {
    let text = |about: &str| json!({ "type": TEXT, "description": about });
    let words = |about: &str, words: &[&str]| json!({ "type": TEXT, "enum": words, "description": about });
    match verb {
        Verb::Handoff => tool(
            verb,
            "Hand work to another agent. It takes effect when your turn has ended well.",
            &["to", "message"],
            json!({
                "to": text("the alias of the receiver"),
                "message": text("what it is to know or to do"),
                "structured": { "type": "object", "description": "data for the receiver" },
                "artifacts": {
                    "type": "array",
                    "items": { "type": TEXT },
                    "description": "ids of artifacts, artifact://diff/ID, or git: with the id of a commit",
                },
                "status": text("ok, or failed:REASON"),
                "expect": words("whether you expect an answer", &["none", "optional", "required"]),
                "replyTo": text("the id of the hand-off that this one answers"),
            }),
        ),
        Verb::Spawn => tool(
            verb,
            "Make another agent, which you can name at once. It begins when your turn has ended well. A person may be \
             asked first.",
            &["alias", "role", "provider"],
            json!({
                "alias": text("its short name: a-z, 0-9 and dashes"),
                "role": text("its role"),
                "provider": text("one of the providers that the roster names"),
                "label": text("a text for people"),
                "model": text("the model, as the provider names it"),
                "permissions": words("whether its tools are asked for; as yours if not given", &["skip", "gated"]),
                "message": text("its first work"),
            }),
        ),
        Verb::Edge { .. } => tool(
            verb,
            "Let one agent hand work to another one. It takes effect when your turn has ended well. A person may be \
             asked first.",
            &["from", "to"],
            json!({ "from": text("the alias of the sender"), "to": text("the alias of the receiver") }),
        ),
        Verb::Artifact => tool(
            verb,
            "Keep a file of your working directory with the run. Returns an id for the artifacts of a handoff.",
            &["file"],
            json!({
                "file": text("its path"),
                "kind": words("report if not given", &["report", "diff", "log"]),
                "name": text("another name for it"),
            }),
        ),
        Verb::Roster => tool(
            verb,
            "Show the agents of the run, the ways between them, and what you may do.",
            &[],
            json!({}),
        ),
        Verb::Done => tool(
            verb,
            "End the run when it is done, as the last call of your turn. It takes effect when that has ended well.",
            &[],
            json!({ "message": text("what people should know") }),
        ),
    }
}

fn tool(verb: Verb, about: &str, required: &[&str], properties: Value) -> Value {
    let schema = json!({
        "type": "object", "properties": properties, "required": required, "additionalProperties": false,
    });
    json!({ "name": verb.tool(), "description": about, "inputSchema": schema })
}

/// Calls a tool.
pub fn call(engine: &Engine<'_>, name: &str, arguments: Map<String, Value>) -> Called {
    let given = Value::Object(arguments);
    let done = match name {
        "handoff" => read(given).and_then(|given| hand_off(engine, &given)),
        "spawn" => read(given).and_then(|given| spawn(engine, &given)),
        "edge_add" => read(given).and_then(|EdgeAdd { from, to }| acted(hand::add_edge(engine, &from, &to)?)),
        "artifact_add" => read(given).and_then(|given| add_artifact(engine, &given)),
        "roster" => read(given).and_then(|Nothing {}| Ok(json!(hand::roster(engine, None)?).to_string())),
        "done" => read(given).and_then(|given| end(engine, &given)),
        _ => return None,
    };
    Some(done.map_err(|Error { message, hints, .. }| {
        hints.into_iter().fold(message, |text, hint| format!("{text}\nhint: {hint}"))
    }))
}

fn read<T: DeserializeOwned>(arguments: Value) -> Result<T, Error> {
    serde_json::from_value(arguments).map_err(|error| Error::usage(format!("{error}; nothing was staged")))
}

fn staged(id: &Value) -> String {
    json!({ "id": id, "staged": true }).to_string()
}

fn end(engine: &Engine<'_>, given: &Done) -> Result<String, Error> {
    let (done, note) = hand::done(engine, given.message.as_deref())?;
    let Some(note) = note else { return Ok(staged(&json!(done.number))) };
    Ok(json!({ "id": done.number, "staged": true, "note": note }).to_string())
}

fn acted(acted: Acted) -> Result<String, Error> {
    match acted {
        Acted::Staged(done) => Ok(staged(&json!(done.number))),
        Acted::Waits => Err(Error::failed(WAITS).hint(END_NOW)),
    }
}

fn spawn(engine: &Engine<'_>, given: &Spawn) -> Result<String, Error> {
    acted(hand::spawn(
        engine,
        &Child {
            alias: &given.alias,
            role: &given.role,
            provider: &given.provider,
            label: given.label.as_deref(),
            model: given.model.as_deref(),
            permissions: given.permissions,
            message: given.message.as_deref(),
        },
    )?)
}

fn add_artifact(engine: &Engine<'_>, given: &ArtifactAdd) -> Result<String, Error> {
    let kind = match given.kind {
        None | Some(Keeps::Report) => ArtifactKind::Report,
        Some(Keeps::Diff) => ArtifactKind::Diff,
        Some(Keeps::Log) => ArtifactKind::Log,
    };
    let id = hand::add_artifact(engine, given.file.as_ref(), (kind, given.name.as_deref()))?;
    Ok(staged(&json!(id)))
}

fn hand_off(engine: &Engine<'_>, given: &Handoff) -> Result<String, Error> {
    let data = given.structured.as_ref().map(|data| json!(data).to_string());
    let letter = Letter {
        to: &given.to,
        message: &given.message,
        expectation: given.expect,
        reply_to: given.reply_to.as_deref(),
        structured: data.as_deref(),
        artifacts: &given.artifacts,
        status: given.status.as_deref(),
    };
    Ok(staged(&json!(hand::hand_off(engine, &letter)?.number)))
}
