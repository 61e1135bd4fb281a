//! The JSON Schema of flow files (draft 2020-12), for editors. It describes the fields; what holds of the steps
//! together only `check` knows.

use serde_json::{Map, Value, json};

use super::document::{MAX_STEPS, MAX_VISITS, OPCODES, RETRIES, outcomes_of};
use super::fields::MAX_SECONDS;
use super::read::{APPROVAL, ARTIFACTS, EXECUTION, NETWORK};
use crate::contract::duration::UNITS;
use crate::model::step::Opcode;

/// The schema, as indented JSON.
#[must_use]
pub fn text() -> String {
    format!("{:#}", value())
}

/// An object with these fields and no others. A name that ends with `!` must be there.
pub(crate) fn object(what: &str, fields: &[(&str, Value)]) -> Value {
    let name = |field: &str| field.trim_end_matches('!').to_owned();
    let needed: Vec<String> =
        fields.iter().filter(|(field, _)| field.ends_with('!')).map(|(field, _)| name(field)).collect();
    let properties: Map<String, Value> =
        fields.iter().map(|(field, value)| (name(field), value.clone())).collect();
    json!({
        "description": what,
        "type": "object",
        "required": needed,
        "properties": properties,
        "additionalProperties": false,
    })
}

pub(crate) fn text_of(what: &str) -> Value {
    json!({ "description": what, "type": "string" })
}

pub(crate) fn flag(what: &str) -> Value {
    json!({ "description": what, "type": "boolean" })
}

fn number(what: &str, least: u64, most: u64) -> Value {
    json!({ "description": what, "type": "integer", "minimum": least, "maximum": most })
}

pub(crate) fn seconds(what: &str) -> Value {
    json!({ "description": what, "$ref": "#/$defs/duration" })
}

fn texts(what: &str) -> Value {
    json!({ "description": what, "type": "array", "items": { "type": "string" } })
}

pub(crate) fn words<T>(what: &str, table: &[(&str, T)]) -> Value {
    let words: Vec<&str> = table.iter().map(|(word, _)| *word).collect();
    json!({ "description": what, "enum": words })
}

/// A text that is not blank.
pub(crate) fn filled(what: &str) -> Value {
    json!({ "description": what, "type": "string", "pattern": "\\S" })
}

/// Patterns of paths below the top of the worktree.
fn globs(what: &str) -> Value {
    let glob = json!({ "type": "string", "not": { "pattern": format!("^$|//$|{OUTSIDE}") } });
    json!({ "description": what, "type": "array", "items": glob })
}

/// The pattern of paths that do not stay below the top of a repository. Its `.git` is no part of it.
const OUTSIDE: &str = r"^/|(^|/)\.\.(/|$)|^\.(/|$)|^\.git(/|$)";

/// `value`, in which only one of these two fields may be.
fn either(mut value: Value, one: &str, other: &str) -> Value {
    value["not"] = json!({ "required": [one, other] });
    value
}

/// The expression of a whole number up to `most`.
fn up_to(most: u64) -> String {
    let digits = most.to_string();
    let mut all: Vec<String> = Vec::new();
    for (index, digit) in digits.bytes().enumerate().filter(|(_, digit)| *digit > b'0') {
        let (before, lower) = (&digits[..index], char::from(digit - 1));
        all.push(format!("{before}[0-{lower}][0-9]{{{}}}", digits.len() - index - 1));
    }
    if digits.len() > 1 {
        all.push(format!("[0-9]{{1,{}}}", digits.len() - 1));
    }
    format!("0*({}|{digits})", all.join("|"))
}

/// The expression of a duration, each of whose parts is a year at most.
fn durations() -> String {
    let parts: Vec<String> = UNITS
        .iter()
        .rev()
        .map(|(unit, length)| format!("({}{unit})?", up_to(MAX_SECONDS / length)))
        .collect();
    format!("^({}|{})$", up_to(MAX_SECONDS), parts.concat())
}

/// The definition of `duration`, which [`seconds`] refers to.
pub(crate) fn duration() -> Value {
    json!({
        "description": "Seconds, or a text such as 90s, 10m or 2h.",
        "anyOf": [
            { "type": "integer", "minimum": 1, "maximum": MAX_SECONDS },
            { "type": "string", "pattern": durations(), "not": { "pattern": "^[0wdhms]*$" } },
        ],
    })
}

fn ignored() -> Value {
    json!({ "description": "Means nothing to aynig." })
}

fn value() -> Value {
    let defaults = object(
        "What counts for steps that do not say.",
        &[
            ("policy", text_of("The name of a policy.")),
            ("timeout_seconds", seconds("The longest time of a step.")),
            ("idle_seconds", seconds("The longest time of a step without output and change.")),
            ("agent", json!({ "description": "The name of a provider.", "$ref": "#/$defs/name" })),
            ("artifacts_dir", ignored()),
            ("component_kind", ignored()),
            ("eval_profile", ignored()),
            ("limits", ignored()),
        ],
    );
    let limits = object(
        "Limits of the whole run.",
        &[
            ("wall_seconds", seconds("The longest time.")),
            ("tokens", json!({ "description": "The most tokens.", "type": "integer", "minimum": 1 })),
            (
                "cost_usd",
                json!({ "description": "The highest cost, in US dollars.", "type": "number", "exclusiveMinimum": 0 }),
            ),
            ("best_effort", flag("Whether providers that do not report them are taken all the same.")),
        ],
    );
    let input = object(
        "An input.",
        &[
            ("description", text_of("What it is for.")),
            ("required", flag("Whether a run needs it.")),
            ("default", text_of("Its value if none is given.")),
        ],
    );
    let mut input = input;
    input["type"] = json!(["object", "null"]);
    input["not"] =
        json!({ "required": ["required", "default"], "properties": { "required": { "const": true } } });
    let mut schema = object(
        "A flow of aynig: a task through agents, validators, a planner, gates and rollbacks.",
        &[
            ("workflow_id!", filled("The name of the flow.")),
            ("version!", number("The version of the flow.", 1, u32::MAX.into())),
            ("description", text_of("What the flow does.")),
            ("entry_step!", filled("The id of the first step.")),
            ("defaults", defaults),
            ("limits", limits),
            (
                "inputs",
                json!({ "description": "Inputs, by name. `{{inputs.NAME}}` stands for the value.", "type": "object", "propertyNames": { "pattern": "^[A-Za-z_][A-Za-z0-9_-]{0,63}$" }, "additionalProperties": input }),
            ),
            (
                "policies",
                json!({ "description": "Policies, by name.", "type": "object", "additionalProperties": policy() }),
            ),
            (
                "steps!",
                json!({ "description": "The steps.", "type": "array", "minItems": 1, "maxItems": MAX_STEPS, "items": { "$ref": "#/$defs/step" } }),
            ),
        ],
    );
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!("aynig flow");
    schema["$defs"] = defs();
    schema
}

fn policy() -> Value {
    object(
        "What an agent may do.",
        &[
            ("execution_posture", words("What it may write.", &EXECUTION)),
            ("network_posture", words("Whether it may use the network.", &NETWORK)),
            ("approval_posture", words("What is done when it asks for permission.", &APPROVAL)),
            ("allowed_paths", globs("Patterns of the only paths that may change.")),
            ("forbidden_paths", globs("Patterns of paths that must not change.")),
            ("forbidden_operations", texts("Operations that must not happen.")),
        ],
    )
}

fn defs() -> Value {
    let steps: Vec<Value> =
        OPCODES.iter().map(|(word, _)| json!({ "$ref": format!("#/$defs/{word}") })).collect();
    let mut defs = json!({
        "duration": duration(),
        "name": { "type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$" },
        "prompt": {
            "description": "A text; one word that ends in .md is a path of the base commit, and NAME.vN is .aynig/prompts/NAME.vN.md of it.",
            "type": "string",
            "pattern": "\\S",
        },
        "step": { "oneOf": steps },
        "validator": {
            "oneOf": [
                { "$ref": "#/$defs/name" },
                { "$ref": "#/$defs/builtin" },
                { "$ref": "#/$defs/script" },
                { "$ref": "#/$defs/harness" },
            ],
        },
    });
    for (name, value) in validators() {
        defs[name] = value;
    }
    for (word, opcode) in OPCODES {
        defs[word] = step(word, opcode);
    }
    defs
}

/// The path of a script, which is not one that matches `outside`.
fn entrypoint(outside: &str) -> Value {
    let path = format!("^\\s*$|/$|{OUTSIDE}{outside}");
    json!({ "description": "Its path in the base commit.", "type": "string", "not": { "pattern": path } })
}

fn validators() -> [(&'static str, Value); 4] {
    let name = || json!({ "description": "Its name.", "$ref": "#/$defs/name" });
    let timeout = || seconds("Its longest time.");
    let artifacts = || globs("Patterns of the files that are kept.");
    let named = |mut value: Value| {
        value["anyOf"] = json!([{ "required": ["id"] }, { "required": ["name"] }]);
        either(value, "timeout", "timeout_seconds")
    };
    let cwd = || json!({ "description": "The top of the worktree.", "const": "." });
    [
        (
            "builtin",
            named(object(
                "A validator that the host configures.",
                &[
                    ("kind!", json!({ "const": "builtin" })),
                    ("name", name()),
                    ("id", name()),
                    ("artifacts", artifacts()),
                    ("timeout", timeout()),
                    ("timeout_seconds", timeout()),
                ],
            )),
        ),
        (
            "script",
            named(object(
                "A script of the base commit. Below .tnh/run/${run_id}/ it is a harness.",
                &[
                    ("kind!", json!({ "const": "script" })),
                    ("id", name()),
                    ("name", name()),
                    ("entrypoint!", entrypoint("")),
                    ("args", texts("Its arguments.")),
                    ("cwd", cwd()),
                    ("artifacts", artifacts()),
                    ("timeout", timeout()),
                    ("timeout_seconds", timeout()),
                    ("may_propose_goldens", flag("Of a harness: whether it may propose golden files.")),
                ],
            )),
        ),
        (
            "harness",
            named(object(
                "A program that an agent has written.",
                &[
                    ("kind!", json!({ "const": "harness" })),
                    ("name", name()),
                    ("id", name()),
                    ("artifacts", artifacts()),
                    ("timeout", timeout()),
                    ("timeout_seconds", timeout()),
                    ("may_propose_goldens", flag("Whether it may propose golden files.")),
                ],
            )),
        ),
        (
            "judge",
            either(
                object(
                    "A script of the base commit that judges.",
                    &[
                        ("kind", json!({ "const": "script" })),
                        ("id", name()),
                        ("entrypoint!", entrypoint(r"|^\.tnh/run/\$\{run_id\}/")),
                        ("args", texts("Its arguments.")),
                        ("cwd", cwd()),
                        ("timeout", timeout()),
                        ("timeout_seconds", timeout()),
                    ],
                ),
                "timeout",
                "timeout_seconds",
            ),
        ),
    ]
}

fn routes(opcode: Opcode) -> Value {
    let own = outcomes_of(opcode);
    let target = text_of("The id of the step that follows, or STOP.");
    let map: Vec<(&str, Value)> = own.iter().map(|(word, _)| (*word, target.clone())).collect();
    let mut map = object("Outcomes and their targets.", &map);
    if opcode == Opcode::Evaluate {
        map["required"] = own.iter().map(|(word, _)| json!(word)).collect();
    }
    if opcode == Opcode::Gate {
        map["properties"]["killed_timeout"] = ignored();
    }
    let all: Vec<&str> = own
        .iter()
        .map(|(word, _)| *word)
        .chain((opcode == Opcode::Gate).then_some("killed_timeout"))
        .collect();
    let item = object("A route.", &[("outcome!", json!({ "enum": all })), ("target!", target)]);
    json!({ "anyOf": [map, { "type": "array", "items": item, "minItems": 1 }] })
}

fn step(word: &str, opcode: Opcode) -> Value {
    let id = match opcode {
        Opcode::Stop => "^(STOP|[a-z0-9][a-z0-9_-]{0,63})$",
        _ => "^[a-z0-9][a-z0-9_-]{0,63}$",
    };
    let mut fields = vec![
        ("id!", json!({ "description": "The id of the step.", "type": "string", "pattern": id })),
        ("opcode!", json!({ "const": word })),
        ("policy", text_of("The name of a policy.")),
        ("max_visits", number(&format!("How often it may be entered ({MAX_VISITS})."), 1, 1_000)),
        (
            "retries",
            number(&format!("How often it is tried again after its runner died ({RETRIES})."), 0, 100),
        ),
        ("timeout_seconds", seconds("Its longest time.")),
        ("idle_seconds", seconds("Its longest time without output and change.")),
        ("allow_unreachable", flag("Whether no route needs to lead to it.")),
        ("limits", ignored()),
    ];
    let name = |what: &str| json!({ "description": what, "$ref": "#/$defs/name" });
    if opcode == Opcode::Stop {
        fields.push(("reason", text_of("Why the run ends.")));
        return object("Ends the run.", &fields);
    }
    fields.push(("routes!", routes(opcode)));
    let what = match opcode {
        Opcode::RunAgent => {
            fields.extend([
                ("agent", name("The name of a provider.")),
                ("prompt!", json!({ "$ref": "#/$defs/prompt" })),
                ("inputs", artifacts()),
                ("model", text_of("The model.")),
                ("session", json!({ "description": "A new session, or that of the last visit.", "enum": ["fresh", "continue"] })),
                ("allow_empty", flag("Whether it may end without a change.")),
            ]);
            "Runs an agent."
        }
        Opcode::RunValidation => {
            fields.push((
                "run!",
                json!({ "type": "array", "minItems": 1, "items": { "$ref": "#/$defs/validator" } }),
            ));
            "Runs validators."
        }
        Opcode::Evaluate => {
            fields.extend([
                ("prompt!", json!({ "$ref": "#/$defs/prompt" })),
                ("allowed_next_steps!", texts("The steps that may follow.")),
                ("agent", name("The provider that judges.")),
                ("command", json!({ "anyOf": [{ "$ref": "#/$defs/name" }, { "$ref": "#/$defs/judge" }] })),
            ]);
            "Lets a planner judge."
        }
        Opcode::Gate => {
            fields.extend([
                ("gate!", filled("The label.")),
                ("question", text_of("The question.")),
                ("timeout", seconds("The time for an answer.")),
                ("approvers", approvers()),
                ("required", number("How many different people must approve (1).", 1, 100)),
            ]);
            "Asks a person."
        }
        Opcode::Rollback => {
            fields.push(("target!", json!({ "const": "pre_run" })));
            "Puts the worktree back to the base."
        }
        Opcode::Stop => "",
    };
    match opcode {
        Opcode::Evaluate => either(object(what, &fields), "agent", "command"),
        Opcode::Gate => either(object(what, &fields), "timeout", "timeout_seconds"),
        _ => object(what, &fields),
    }
}

/// The inputs of an agent.
fn artifacts() -> Value {
    let words: Vec<&str> = ARTIFACTS.iter().map(|(word, _)| *word).collect();
    let others = r"^(harness_report|component_kind|(.|\n)+\.response)$";
    let item = json!({ "anyOf": [{ "enum": words }, { "type": "string", "pattern": others }] });
    json!({ "description": "diff, validation_report, fix_instructions, or ID.response of an agent or a gate.", "type": "array", "items": item })
}

/// The approvers.
fn approvers() -> Value {
    let one = r"^(key:\S+|[^@\s]+@\S+|[A-Za-z0-9][A-Za-z0-9._-]{0,63})$";
    let item = json!({ "type": "string", "pattern": one });
    json!({ "description": "Mail addresses, key:FINGERPRINT, or labels that the host knows.", "type": "array", "items": item })
}

#[cfg(test)]
pub(crate) mod tests;
