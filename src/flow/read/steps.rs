//! Reads steps.

use super::texts::{filled, prompt, provider};
use super::validators::{either_seconds, judge, validators};
use super::{Known, named};
use crate::flow::document::{
    Act, Artifact, Evaluate, Gate, MAX_VISITS, Name, OPCODES, OUTCOMES, RETRIES, Route, RunAgent, STOP, Step,
    a_step, outcomes_of,
};
use crate::flow::fault::Notes;
use crate::flow::fields::{Fields, Words, as_text, choose, listed};
use crate::flow::yaml::{Entry, Node, Value};
use crate::model::step::{Opcode, Outcome};

/// The fields of every step.
pub(crate) const STEP: [&str; 9] = [
    "id",
    "opcode",
    "routes",
    "policy",
    "max_visits",
    "retries",
    "timeout_seconds",
    "idle_seconds",
    "allow_unreachable",
];

/// Fields of steps that only other programs read.
pub(crate) const STEP_IGNORED: [&str; 1] = ["limits"];

/// The fields of a step with this opcode, besides those of every step.
pub(crate) fn fields_of(opcode: Opcode) -> &'static [&'static str] {
    match opcode {
        Opcode::RunAgent => &["agent", "prompt", "inputs", "model", "session", "allow_empty"],
        Opcode::RunValidation => &["run"],
        Opcode::Evaluate => &["prompt", "allowed_next_steps", "agent", "command"],
        Opcode::Gate => &["gate", "question", "timeout", "approvers", "required"],
        Opcode::Rollback => &["target"],
        Opcode::Stop => &["reason"],
    }
}

/// The artifacts that an agent can be handed, besides `ID.response`.
pub(crate) const ARTIFACTS: [(&str, Artifact); 3] = [
    ("diff", Artifact::Diff),
    ("validation_report", Artifact::ValidationReport),
    ("fix_instructions", Artifact::FixInstructions),
];

/// Whether a text is an id that a step can have.
fn is_id(text: &str) -> bool {
    text.len() <= 64
        && text.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-')
}

/// The id of a step; in lower case where that was the fault, so that routes to it are no faults, too.
fn checked_id(words: Words<'_>, opcode: Option<Opcode>, notes: &mut Notes) -> String {
    let Words { at, text } = words;
    if is_id(text) || (text == STOP && opcode == Some(Opcode::Stop)) {
        return text.to_owned();
    }
    let lower = text.to_ascii_lowercase();
    let (name, instead) = if is_id(&lower) {
        (lower.as_str(), format!("write {lower}"))
    } else {
        (text, "write lower-case letters, digits, _ and -, at most 64".to_owned())
    };
    notes.fault(at, format!("{text} is no id of a step"), instead);
    name.to_owned()
}

/// Reads a step. Returns `None` if it has no opcode.
pub(super) fn step(node: &Node, known: &Known<'_>, notes: &mut Notes) -> Option<Step> {
    let all = Fields::all(node, "a step", notes)?;
    let id = all.needed("id", "this step", notes);
    if all.get("opcode").is_none() {
        all.missing("opcode", "this step", notes);
    }
    let opcode = all.word("opcode", &OPCODES, notes);
    let name = id.map(|words| checked_id(words, opcode, notes)).unwrap_or_default();
    let opcode = opcode?;
    let what = a_step(opcode);
    let fields: Vec<&str> = STEP.iter().chain(fields_of(opcode)).copied().collect();
    let fields = Fields::of(node, &what, &fields, &STEP_IGNORED, notes)?;
    let routes = routes(fields, opcode, &what, notes);
    let timeout_seconds = match opcode {
        Opcode::Gate => either_seconds(fields, notes),
        _ => fields.seconds("timeout_seconds", notes),
    };
    Some(Step {
        at: id.map_or(node.at, |words| words.at),
        id: name,
        act: act(fields, opcode, &what, known, notes),
        routes,
        routes_at: fields.place("routes"),
        policy: fields.text("policy", notes).map(named),
        max_visits: fields.number("max_visits", 1, 1_000, notes).unwrap_or(MAX_VISITS),
        retries: fields.number("retries", 0, 100, notes).unwrap_or(RETRIES),
        timeout_seconds,
        idle_seconds: fields.seconds("idle_seconds", notes),
        allow_unreachable: fields.flag("allow_unreachable", notes),
    })
}

fn act(fields: Fields<'_>, opcode: Opcode, what: &str, known: &Known<'_>, notes: &mut Notes) -> Act {
    match opcode {
        Opcode::RunAgent => Act::RunAgent(run_agent(fields, what, known, notes)),
        Opcode::RunValidation => Act::RunValidation(validators(fields, known, notes)),
        Opcode::Evaluate => {
            if fields.get("allowed_next_steps").is_none() {
                fields.missing("allowed_next_steps", what, notes);
            }
            let allowed = fields.texts("allowed_next_steps", notes);
            Act::Evaluate(Evaluate {
                prompt: prompt(fields, what, known, notes),
                allowed_next_steps: allowed.into_iter().map(named).collect(),
                judge: judge(fields, known, notes),
            })
        }
        Opcode::Gate => Act::Gate(gate(fields, what, known, notes)),
        Opcode::Rollback => {
            if let Some(Words { at, text }) = fields.needed("target", what, notes)
                && text != "pre_run"
            {
                let later = text == "pre_step" || text.starts_with("checkpoint:");
                let why = if later { "does not exist yet" } else { "is no target of a rollback" };
                notes.fault(at, format!("{text} {why}"), "write pre_run, the base of the run");
            }
            Act::Rollback
        }
        Opcode::Stop => Act::Stop { reason: filled(fields, "reason", known, notes) },
    }
}

fn run_agent(fields: Fields<'_>, what: &str, known: &Known<'_>, notes: &mut Notes) -> RunAgent {
    let agent = match fields.get("agent") {
        Some(_) => provider(fields, "agent", notes),
        None => known.agent.clone().or_else(|| {
            notes.fault(
                fields.at,
                format!("{what} has no `agent`, and `defaults` has none"),
                "add `agent:` with the name of a provider",
            );
            None
        }),
    };
    let inputs = fields.texts("inputs", notes);
    RunAgent {
        agent: agent.unwrap_or_default(),
        prompt: prompt(fields, what, known, notes),
        inputs: inputs.into_iter().filter_map(|words| artifact(words, notes)).collect(),
        model: fields.owned("model", notes),
        continues: fields.word("session", &[("fresh", false), ("continue", true)], notes).unwrap_or(false),
        allow_empty: fields.flag("allow_empty", notes),
    }
}

fn artifact(words: Words<'_>, notes: &mut Notes) -> Option<Artifact> {
    let Words { at, text } = words;
    if let Some((_, artifact)) = ARTIFACTS.iter().find(|(word, _)| *word == text) {
        return Some(artifact.clone());
    }
    if let Some(id) = text.strip_suffix(".response") {
        return Some(Artifact::Response(Name { at, name: id.to_owned() }));
    }
    match text {
        // The public contract's words.
        "harness_report" => Some(Artifact::ValidationReport),
        "component_kind" => {
            notes.warn(at, "`component_kind` is no artifact of aynig", "it is ignored");
            None
        }
        _ => {
            let words = ARTIFACTS.iter().map(|(word, _)| *word);
            let advice =
                format!("{} (the answer of an agent, or of a gate, is ID.response)", choose(text, words));
            notes.fault(at, format!("there is no artifact {text}"), advice);
            None
        }
    }
}

fn gate(fields: Fields<'_>, what: &str, known: &Known<'_>, notes: &mut Notes) -> Gate {
    let label = fields.needed("gate", what, notes);
    let approvers = fields.texts("approvers", notes);
    for Words { at, text } in &approvers {
        let fingerprint = text.strip_prefix("key:").is_some_and(|key| !key.trim().is_empty());
        let is_mail = text.split_once('@').is_some_and(|(name, host)| !name.is_empty() && !host.is_empty());
        if text.contains(char::is_whitespace) || !(fingerprint || is_mail || super::texts::is_name(text)) {
            let instead = "write a mail address, key:FINGERPRINT, or a label that the host knows";
            notes.fault(*at, "this is nobody who could answer", instead);
        }
    }
    Gate {
        gate: label.map(|words| words.text.to_owned()).unwrap_or_default(),
        question: filled(fields, "question", known, notes),
        approvers: approvers.iter().map(|words| words.text.to_owned()).collect(),
        required: fields.number("required", 1, 100, notes).unwrap_or(1),
    }
}

/// Reads the routes: a map of outcomes to targets, or a list of both.
fn routes(fields: Fields<'_>, opcode: Opcode, what: &str, notes: &mut Notes) -> Vec<Route> {
    let node = fields.get("routes");
    if opcode == Opcode::Stop {
        if let Some(Node { value: Value::Map(_) | Value::List(_), .. }) = node {
            let empty = matches!(node, Some(Node { value: Value::List(list), .. }) if list.is_empty());
            if !empty {
                notes.fault(fields.place("routes"), "a STOP step ends the run", "leave out its routes");
            }
        }
        return Vec::new();
    }
    let mut routes: Vec<Route> = Vec::new();
    let mut add = |outcome: Words<'_>, target: Words<'_>, notes: &mut Notes| {
        let Some(known) = outcome_of(outcome, opcode, what, notes) else { return };
        if routes.iter().any(|route| route.outcome == known) {
            let what = format!("{} has two routes", outcome.text);
            notes.fault(outcome.at, what, "leave out one of them");
            return;
        }
        routes.push(Route { at: outcome.at, outcome: known, target: named(target) });
    };
    match node {
        None => fields.missing("routes", what, notes),
        Some(Node { value: Value::Map(entries), .. }) => {
            for Entry { key, at, value } in entries {
                let Some(target) = as_text(value, "the target of a route", notes) else { continue };
                add(Words { at: *at, text: key }, target, notes);
            }
        }
        Some(Node { value: Value::List(items), .. }) => {
            for item in items {
                let Some(fields) = Fields::of(item, "a route", &["outcome", "target"], &[], notes) else {
                    continue;
                };
                let outcome = fields.needed("outcome", "a route", notes);
                let target = fields.needed("target", "a route", notes);
                if let (Some(outcome), Some(target)) = (outcome, target) {
                    add(outcome, target, notes);
                }
            }
        }
        Some(Node { value: Value::Refused, .. }) => {}
        Some(Node { at, value }) => {
            let what = format!("`routes` is {}", value.kind());
            notes.fault(*at, what, "write a map of outcomes to steps, as in `completed: NEXT`");
        }
    }
    routes
}

fn outcome_of(words: Words<'_>, opcode: Opcode, what: &str, notes: &mut Notes) -> Option<Outcome> {
    let Words { at, text } = words;
    let own = outcomes_of(opcode);
    if let Some((_, outcome)) = own.iter().find(|(word, _)| *word == text) {
        return Some(*outcome);
    }
    if opcode == Opcode::Gate && text == "killed_timeout" {
        notes.warn(at, "a gate that nobody answers ends as gate_timed_out", "this route is ignored");
        return None;
    }
    let all = listed(own.iter().map(|(word, _)| *word));
    if OUTCOMES.iter().any(|(word, _)| *word == text) {
        notes.fault(at, format!("{what} never ends as {text}"), format!("it ends as one of: {all}"));
    } else {
        notes.fault(at, format!("{text} is no outcome"), choose(text, own.iter().map(|(word, _)| *word)));
    }
    None
}
