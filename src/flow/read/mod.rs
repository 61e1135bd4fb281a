//! Reads the document: everything but the steps.
//!
//! Invariant: each fault of the file is found in one go. What cannot be read is replaced by something harmless, so that
//! the rest can be checked; the caller refuses a file with a fault.

mod steps;
mod texts;
mod validators;

use super::document::{Approval, Defaults, Execution, Flow, Input, Limits, MAX_STEPS, Name, Policy};
use super::fault::{Notes, Place};
use super::fields::{Fields, Words, choose};
use super::operations;
use super::yaml::{self, Entry, Node, Value};

pub(crate) use steps::ARTIFACTS;
pub(crate) use texts::{is_pattern, is_plain_path, substituted};

/// The fields of a flow.
pub(crate) const DOCUMENT: [&str; 9] = [
    "workflow_id",
    "version",
    "description",
    "entry_step",
    "defaults",
    "limits",
    "inputs",
    "policies",
    "steps",
];

/// The fields of `defaults`.
pub(crate) const DEFAULTS: [&str; 4] = ["policy", "timeout_seconds", "idle_seconds", "agent"];

/// Fields of `defaults` that only other programs read.
pub(crate) const DEFAULTS_IGNORED: [&str; 4] = ["artifacts_dir", "component_kind", "eval_profile", "limits"];

/// The fields of `limits`.
pub(crate) const LIMITS: [&str; 4] = ["wall_seconds", "tokens", "cost_usd", "best_effort"];

/// The fields of an input.
pub(crate) const INPUT: [&str; 3] = ["description", "required", "default"];

/// The fields of a policy.
pub(crate) const POLICY: [&str; 6] = [
    "execution_posture",
    "network_posture",
    "approval_posture",
    "allowed_paths",
    "forbidden_paths",
    "forbidden_operations",
];

/// The values of `execution_posture`.
pub(crate) const EXECUTION: [(&str, Execution); 2] =
    [("read_only", Execution::ReadOnly), ("workspace_write", Execution::WorkspaceWrite)];

/// The values of `network_posture`.
pub(crate) const NETWORK: [(&str, bool); 2] = [("deny", false), ("allow", true)];

/// The values of `approval_posture`.
pub(crate) const APPROVAL: [(&str, Approval); 3] = [
    ("fail_on_prompt", Approval::FailOnPrompt),
    ("deny_interactive", Approval::DenyInteractive),
    ("bounded_auto_approve", Approval::BoundedAutoApprove),
];

/// The policy that every flow has: the worktree may be written, and requests within the policy are granted.
pub(crate) const PREDEFINED: &str = "step.review_assist";

/// A flow as far as it could be read.
pub(crate) struct Draft {
    pub(crate) flow: Flow,
    /// The ids of the steps that could not be read; `None` if one has no id either.
    pub(crate) unread: Option<Vec<String>>,
}

/// The parts of the file that readers of steps need.
struct Known<'a> {
    inputs: Vec<&'a str>,
    agent: Option<String>,
}

/// Reads a file.
pub(crate) fn read(bytes: &[u8], notes: &mut Notes) -> Option<Draft> {
    let root = yaml::parse(bytes, yaml::FLOW, notes)?;
    let all = Fields::all(&root, "the file", notes)?;
    if all.get("workflow").is_some() && all.get("workflow_id").is_none() && all.get("entry_step").is_none() {
        refuse_older_form(all, notes);
        return None;
    }
    let fields = Fields::of(&root, "a flow", &DOCUMENT, &[], notes)?;
    let workflow_id = fields.needed("workflow_id", "the flow", notes);
    if fields.get("version").is_none() {
        fields.missing("version", "the flow", notes);
    }
    let version = fields.number("version", 1, u32::MAX.into(), notes);
    let entry_step = fields.needed("entry_step", "the flow", notes);
    let defaults = defaults(fields, notes);
    let inputs = inputs(fields, notes);
    let known = Known {
        inputs: inputs.iter().map(|input| input.name.as_str()).collect(),
        agent: defaults.agent.clone(),
    };
    let listed = steps_of(fields, notes);
    let (mut steps, mut unread) = (Vec::new(), Some(Vec::new()).filter(|_| !listed.is_empty()));
    for node in listed {
        match steps::step(node, &known, notes) {
            Some(step) => steps.push(step),
            None => unread = unread.zip(id_of(node)).map(|(unread, id)| [unread, vec![id]].concat()),
        }
    }
    let flow = Flow {
        workflow_id: workflow_id.map(|words| words.text.to_owned()).unwrap_or_default(),
        version: version.unwrap_or(1),
        description: fields.owned("description", notes),
        entry_step: entry_step.map_or_else(|| nameless(fields.at), named),
        limits: limits(fields, notes),
        policies: policies(fields, notes),
        defaults,
        inputs,
        steps,
    };
    Some(Draft { flow, unread })
}

/// The id of a step, if it can be read.
fn id_of(step: &Node) -> Option<String> {
    let Value::Map(entries) = &step.value else { return None };
    let id = entries.iter().find(|entry| entry.key == "id")?;
    if let Value::Text(text) = &id.value.value { Some(text.clone()) } else { None }
}

/// A name as it is written.
fn named(words: Words<'_>) -> Name {
    Name { at: words.at, name: words.text.to_owned() }
}

/// In place of a name that could not be read.
fn nameless(at: Place) -> Name {
    Name { at, name: String::new() }
}

fn refuse_older_form(all: Fields<'_>, notes: &mut Notes) {
    notes.fault(
        all.place("workflow"),
        "this is the older form of a workflow file",
        "write `workflow_id: NAME`, `version: 1` and `entry_step: ID-OF-THE-FIRST-STEP`, and give each step an `id`, an `opcode` and \
         `routes` that say which step follows which outcome",
    );
    let Some(Node { value: Value::List(steps), .. }) = all.get("steps") else { return };
    for step in steps {
        if let Value::Map(entries) = &step.value {
            entries
                .iter()
                .filter(|entry| entry.key == "on_fail")
                .for_each(|entry| refuse_on_fail(entry, notes));
        }
    }
}

/// Reports the field of the older form.
fn refuse_on_fail(entry: &Entry, notes: &mut Notes) {
    let target = match &entry.value.value {
        Value::Text(text) => text.as_str(),
        _ => "STEP",
    };
    notes.fault(
        entry.at,
        "`on_fail` is of the older form of workflow files",
        format!("write `error: {target}` below `routes`"),
    );
}

fn steps_of<'a>(fields: Fields<'a>, notes: &mut Notes) -> &'a [Node] {
    match fields.get("steps") {
        None => fields.missing("steps", "the flow", notes),
        Some(Node { value: Value::List(steps), at }) => {
            if steps.is_empty() {
                notes.fault(*at, "the flow has no steps", "write a list of steps");
            }
            match steps.get(MAX_STEPS) {
                None => return steps,
                Some(step) => {
                    let instead = "divide it into several flows";
                    notes.fault(step.at, format!("the flow has more than {MAX_STEPS} steps"), instead);
                    return &steps[..MAX_STEPS];
                }
            }
        }
        Some(Node { value: Value::Refused, .. }) => {}
        Some(node) => {
            let what = format!("`steps` is {}, and not a list", node.value.kind());
            notes.fault(node.at, what, "begin each step with a dash");
        }
    }
    &[]
}

fn defaults(document: Fields<'_>, notes: &mut Notes) -> Defaults {
    let Some(node) = document.get("defaults") else { return Defaults::default() };
    let Some(fields) = Fields::of(node, "`defaults`", &DEFAULTS, &DEFAULTS_IGNORED, notes) else {
        return Defaults::default();
    };
    Defaults {
        policy: fields.text("policy", notes).map(named),
        timeout_seconds: fields.seconds("timeout_seconds", notes),
        idle_seconds: fields.seconds("idle_seconds", notes),
        agent: texts::provider(fields, "agent", notes),
    }
}

fn limits(document: Fields<'_>, notes: &mut Notes) -> Limits {
    let Some(node) = document.get("limits") else { return Limits::default() };
    let Some(fields) = Fields::of(node, "`limits`", &LIMITS, &[], notes) else { return Limits::default() };
    Limits {
        wall_seconds: fields.seconds("wall_seconds", notes),
        tokens: fields.number("tokens", 1, u64::MAX, notes),
        cost_usd: fields.cost("cost_usd", notes),
        best_effort: fields.flag("best_effort", notes),
    }
}

fn inputs(document: Fields<'_>, notes: &mut Notes) -> Vec<Input> {
    let mut inputs = Vec::new();
    let Some(fields) = document.get("inputs").and_then(|node| Fields::all(node, "`inputs`", notes)) else {
        return inputs;
    };
    for Entry { key, at, value } in fields.entries() {
        let is_name = key.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && key.len() <= 64
            && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
        if !is_name {
            let instead = "write letters, digits, _ and -, a letter first, at most 64";
            notes.fault(*at, "this is no name of an input", instead);
        }
        let mut input =
            Input { at: *at, name: key.clone(), description: None, required: false, default: None };
        if value.value != Value::Null
            && let Some(fields) = Fields::of(value, "an input", &INPUT, &[], notes)
        {
            input.description = fields.owned("description", notes);
            input.required = fields.flag("required", notes);
            input.default = fields.owned("default", notes);
            if input.required && input.default.is_some() {
                let what = format!("the input {key} is required, so its default is never used");
                notes.fault(fields.place("default"), what, "leave out `required` or `default`");
            }
        }
        inputs.push(input);
    }
    inputs
}

fn policies(document: Fields<'_>, notes: &mut Notes) -> Vec<Policy> {
    let mut policies = Vec::new();
    let Some(fields) = document.get("policies").and_then(|node| Fields::all(node, "`policies`", notes))
    else {
        return policies;
    };
    for Entry { key, at, value } in fields.entries() {
        if key == PREDEFINED {
            notes.fault(*at, format!("every flow has the policy {PREDEFINED}"), "choose another name");
        }
        let Some(fields) = Fields::of(value, "a policy", &POLICY, &[], notes) else { continue };
        let mut globs = |name| {
            let all = fields.texts(name, notes);
            all.iter().filter_map(|words| texts::glob(*words, notes)).collect()
        };
        let (allowed_paths, forbidden_paths) = (globs("allowed_paths"), globs("forbidden_paths"));
        let operations = fields.texts("forbidden_operations", notes);
        operations::check(&operations, notes);
        policies.push(Policy {
            at: *at,
            name: key.clone(),
            execution: fields.word("execution_posture", &EXECUTION, notes),
            network: fields.word("network_posture", &NETWORK, notes),
            approval: fields.word("approval_posture", &APPROVAL, notes),
            allowed_paths,
            forbidden_paths,
            forbidden_operations: operations.iter().map(|words| words.text.to_owned()).collect(),
        });
    }
    policies
}

/// Reports names of policies that there are not.
pub(crate) fn check_policies(flow: &Flow, notes: &mut Notes) {
    let names: Vec<&str> =
        flow.policies.iter().map(|policy| policy.name.as_str()).chain([PREDEFINED]).collect();
    let used = flow.steps.iter().filter_map(|step| step.policy.as_ref()).chain(&flow.defaults.policy);
    for Name { at, name } in used.filter(|used| !names.contains(&used.name.as_str())) {
        let advice = format!("declare it below `policies`, or {}", choose(name, names.iter().copied()));
        notes.fault(*at, format!("there is no policy {name}"), advice);
    }
}

/// The names of all fields, to compare the schema with.
#[cfg(test)]
pub(crate) mod tables {
    pub(crate) use super::steps::{STEP, STEP_IGNORED, fields_of};
    pub(crate) use super::validators::{BUILTIN, HARNESS, JUDGE, SCRIPT};
    pub(crate) use super::{DEFAULTS, DEFAULTS_IGNORED, DOCUMENT, INPUT, LIMITS, POLICY};
}
