//! The schema accepts a flow if `check` finds no fault in its fields, and refuses it otherwise.

use regex_automata::meta::Regex;
use serde_json::{Map, Value, json};

use super::super::fault::Notes;
use super::super::yaml::{self, Node, Value as Yaml};
use super::value as schema;

const EXAMPLES: [&str; 4] = [
    include_str!("../../../tests/flows/fix.yaml"),
    include_str!("../../../tests/flows/loader.yaml"),
    include_str!("../../../tests/flows/contract.yaml"),
    include_str!("../../../tests/flows/small.json"),
];

/// The data of a file.
pub(crate) fn data(text: &str) -> Value {
    fn of(node: &Node) -> Value {
        match &node.value {
            Yaml::Null | Yaml::Refused => Value::Null,
            Yaml::Flag(flag) => json!(flag),
            Yaml::Number(text) => serde_json::from_str(text).unwrap_or(json!(0.5)),
            Yaml::Text(text) => json!(text),
            Yaml::List(items) => items.iter().map(of).collect(),
            Yaml::Map(entries) => {
                Value::Object(entries.iter().map(|entry| (entry.key.clone(), of(&entry.value))).collect())
            }
        }
    }
    of(&yaml::parse(text.as_bytes(), yaml::FLOW, &mut Notes::default()).expect("YAML"))
}

fn is_of_type(value: &Value, kind: &str) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64(),
        _ => panic!("the type {kind}"),
    }
}

/// Whether a value fits a schema with the keywords that ours uses. Any other keyword is an error.
pub(crate) fn fits(root: &Value, schema: &Value, value: &Value) -> bool {
    let number = |limit: &Value| limit.as_f64().expect("a number");
    let count = |limit: &Value| usize::try_from(limit.as_u64().expect("a number")).expect("small");
    let fields = value.as_object();
    schema.as_object().expect("a schema").iter().all(|(keyword, limit)| match keyword.as_str() {
        "$schema" | "$defs" | "title" | "description" => true,
        "$ref" => {
            let pointer = limit.as_str().expect("a reference").trim_start_matches('#');
            fits(root, root.pointer(pointer).unwrap_or_else(|| panic!("{pointer}")), value)
        }
        "type" => match limit {
            Value::Array(kinds) => kinds.iter().any(|kind| is_of_type(value, kind.as_str().expect("a word"))),
            kind => is_of_type(value, kind.as_str().expect("a word")),
        },
        "const" => value == limit,
        "enum" => limit.as_array().expect("a list").contains(value),
        "not" => !fits(root, limit, value),
        "propertyNames" => {
            fields.is_none_or(|fields| fields.keys().all(|name| fits(root, limit, &json!(name))))
        }
        "anyOf" => limit.as_array().expect("a list").iter().any(|one| fits(root, one, value)),
        "oneOf" => limit.as_array().expect("a list").iter().filter(|one| fits(root, one, value)).count() == 1,
        "required" => fields.is_none_or(|fields| {
            limit
                .as_array()
                .expect("a list")
                .iter()
                .all(|name| fields.contains_key(name.as_str().expect("a name")))
        }),
        "properties" => fields.is_none_or(|fields| {
            let of = limit.as_object().expect("schemas");
            fields.iter().all(|(name, value)| of.get(name).is_none_or(|schema| fits(root, schema, value)))
        }),
        "additionalProperties" => fields.is_none_or(|fields| {
            let known = schema.get("properties").and_then(Value::as_object);
            let mut more =
                fields.iter().filter(|(name, _)| known.is_none_or(|known| !known.contains_key(*name)));
            more.all(|(_, value)| match limit {
                Value::Bool(allowed) => *allowed,
                schema => fits(root, schema, value),
            })
        }),
        "items" => value.as_array().is_none_or(|items| items.iter().all(|item| fits(root, limit, item))),
        "minItems" => value.as_array().is_none_or(|items| items.len() >= count(limit)),
        "maxItems" => value.as_array().is_none_or(|items| items.len() <= count(limit)),
        "minLength" => value.as_str().is_none_or(|text| text.chars().count() >= count(limit)),
        "pattern" => value.as_str().is_none_or(|text| {
            Regex::new(limit.as_str().expect("a pattern")).expect("a pattern").is_match(text)
        }),
        "minimum" => value.as_f64().is_none_or(|found| found >= number(limit)),
        "maximum" => value.as_f64().is_none_or(|found| found <= number(limit)),
        "exclusiveMinimum" => value.as_f64().is_none_or(|found| found > number(limit)),
        _ => panic!("the keyword {keyword}"),
    })
}

/// CONTRACT 18.11
#[test]
fn the_schema_says_of_the_fields_what_check_says() {
    let schema = schema();
    for text in EXAMPLES {
        assert!(fits(&schema, &schema, &data(text)), "{text}");
        let faults = crate::flow::check(text.as_bytes()).notes;
        assert!(faults.iter().all(|note| note.severity.word() == "warning"), "{faults:#?}");
    }
    let fix = EXAMPLES[0];
    for (from, to) in [
        ("workflow_id: fix", "workflow_ide: fix"),
        ("workflow_id: fix", "workflow_id: 7"),
        ("version: 1", "version: one"),
        ("version: 1", "version: 0"),
        ("idle_seconds: 10m", "idle_seconds: 10min"),
        ("idle_seconds: 10m", "idle_seconds: 0"),
        ("  wall_seconds: 4h", "  tokens: 0"),
        ("  wall_seconds: 4h", "  cost_usd: 0"),
        ("  wall_seconds: 4h", "  best_effort: yes"),
        ("    required: true", "    needed: true"),
        ("    forbidden_paths: [", "    network_posture: denied\n    forbidden_paths: ["),
        ("idle_seconds: 10m", "idle_seconds: 400d"),
        ("idle_seconds: 10m", "idle_seconds: 53w"),
        ("idle_seconds: 10m", "idle_seconds: '31536001'"),
        ("idle_seconds: 10m", "idle_seconds: 0h0s"),
        ("workflow_id: fix", "workflow_id: ' '"),
        ("  issue:\n", "  1ssue:\n"),
        ("    required: true", "    required: true\n    default: none"),
        ("forbidden_paths: [", "forbidden_paths: [../x, "),
        ("forbidden_paths: [", "forbidden_paths: [.git/config, "),
        ("[diff, validation_report, fix_instructions]", "[dif]"),
        ("    run: [tests, lint]", "    run: [{kind: script, entrypoint: y}]"),
        ("    run: [tests, lint]", "    run: [{kind: builtin}]"),
        ("    run: [tests, lint]", "    run: [{kind: harness}]"),
        ("    run: [tests, lint]", "    run: [{kind: script, id: x, entrypoint: /usr/bin/make}]"),
        ("    run: [tests, lint]", "    run: [{kind: script, id: x, entrypoint: ../run.sh}]"),
        ("    run: [tests, lint]", "    run: [{kind: script, id: x, entrypoint: a/..}]"),
        ("    run: [tests, lint]", "    run: [{kind: script, id: x, entrypoint: ./a}]"),
        ("    run: [tests, lint]", "    run: [{kind: script, id: x, entrypoint: a/}]"),
        ("    run: [tests, lint]", "    run: [{kind: builtin, id: x, timeout: 5, timeout_seconds: 5}]"),
        ("    timeout: 2d", "    timeout: 2d\n    timeout_seconds: 5"),
        ("    gate: result", "    gate: result\n    approvers: [x y]"),
        ("    allowed_next_steps", "    agent: claude\n    command: mine\n    allowed_next_steps"),
        (
            "    allowed_next_steps",
            "    command: {entrypoint: '.tnh/run/${run_id}/x'}\n    allowed_next_steps",
        ),
        ("  - id: implement", "  - id: Implement"),
        ("    opcode: ROLLBACK", "    opcode: ROLBACK"),
        ("    max_visits: 3", "    max_visits: 1001"),
        ("    max_visits: 3", "    question: why"),
        ("    session: continue", "    session: resume"),
        ("    prompt: Do what the fix instructions say.\n", ""),
        ("    run: [tests, lint]", "    run: []"),
        ("    run: [tests, lint]", "    run: ['a b']"),
        ("    run: [tests, lint]", "    run: [{kind: shell, name: x}]"),
        ("    run: [tests, lint]", "    run: [{kind: script, id: x}]"),
        ("    run: [tests, lint]", "    run: [{kind: script, id: x, entrypoint: y, cwd: sub}]"),
        ("    allowed_next_steps: [repair, approve, undo]\n", ""),
        ("    gate: result\n", ""),
        ("    target: pre_run", "    target: pre_step"),
        ("    reason: approved", "    routes: {completed: undo}"),
        ("      partial: repair\n", ""),
        ("      gate_approved: done", "      gate_aproved: done"),
        ("      gate_approved: done", "      completed: done"),
    ] {
        assert_eq!(fix.matches(from).count(), 1, "{from}");
        let text = fix.replace(from, to);
        assert!(!fits(&schema, &schema, &data(&text)), "the schema takes {to:?}");
        let checked = crate::flow::check(text.as_bytes());
        assert!(checked.notes.iter().any(|note| note.severity.word() == "fault"), "check takes {to:?}");
    }
}

/// CONTRACT 18.11
#[test]
fn the_schema_takes_what_check_takes() {
    let schema = schema();
    let fix = EXAMPLES[0];
    for (from, to) in [
        ("idle_seconds: 10m", "idle_seconds: 365d"),
        ("idle_seconds: 10m", "idle_seconds: 1w1d1h1m1s"),
        ("idle_seconds: 10m", "idle_seconds: '31536000'"),
        ("idle_seconds: 10m", "idle_seconds: 007h"),
        ("idle_seconds: 10m", "idle_seconds: 8760h"),
        ("    required: true", "    required: false\n    default: none"),
        ("forbidden_paths: [", "forbidden_paths: [.gitignore, a/..b, '**/', "),
        ("[diff, validation_report, fix_instructions]", "[diff, implement.response]"),
        (
            "    run: [tests, lint]",
            "    run: [{kind: script, name: x, entrypoint: .a/b..c}, {kind: builtin, id: y}]",
        ),
        ("    gate: result", "    gate: result\n    approvers: [a@b, 'key:SHA256:x/y', leads]"),
        (
            "    allowed_next_steps",
            "    command: {entrypoint: judge.sh, timeout: 1m}\n    allowed_next_steps",
        ),
    ] {
        assert_eq!(fix.matches(from).count(), 1, "{from}");
        let text = fix.replace(from, to);
        assert!(fits(&schema, &schema, &data(&text)), "the schema refuses {to:?}");
        let checked = crate::flow::check(text.as_bytes());
        assert!(
            checked.notes.iter().all(|note| note.severity.word() == "warning"),
            "{to}: {:?}",
            checked.notes
        );
    }
}

/// The names of the fields of an object's schema.
fn names(schema: &Value) -> Vec<&str> {
    let mut names: Vec<&str> =
        schema["properties"].as_object().map(Map::keys).into_iter().flatten().map(String::as_str).collect();
    names.sort_unstable();
    names
}

#[test]
fn the_schema_has_every_field_and_no_other() {
    use super::super::document::OPCODES;
    use super::super::read::tables::*;
    let schema = schema();
    let same = |found: &Value, wanted: &[&[&str]]| {
        let mut wanted: Vec<&str> = wanted.concat();
        wanted.sort_unstable();
        assert_eq!(names(found), wanted);
    };
    same(&schema, &[&DOCUMENT]);
    let fields = &schema["properties"];
    same(&fields["defaults"], &[&DEFAULTS, &DEFAULTS_IGNORED]);
    same(&fields["limits"], &[&LIMITS]);
    same(&fields["inputs"]["additionalProperties"], &[&INPUT]);
    same(&fields["policies"]["additionalProperties"], &[&POLICY]);
    for (word, opcode) in OPCODES {
        let found = &schema["$defs"][word];
        let routes: &[&str] = if word == "STOP" { &["routes"] } else { &[] };
        let step: Vec<&str> = STEP.into_iter().filter(|field| !routes.contains(field)).collect();
        same(found, &[&step, &STEP_IGNORED, fields_of(opcode)]);
    }
    same(&schema["$defs"]["builtin"], &[&BUILTIN]);
    same(&schema["$defs"]["script"], &[&SCRIPT, &["may_propose_goldens"]]);
    same(&schema["$defs"]["harness"], &[&HARNESS]);
    same(&schema["$defs"]["judge"], &[&JUDGE]);
}
