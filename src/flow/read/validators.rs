//! Reads validators and scripts.

use std::ffi::OsStr;
use std::path::Path;

use super::texts::{fixed, glob, is_name, is_plain_path, name, substituted};
use super::{Known, named, nameless};
use crate::flow::document::{Judge, Runs, Script, Validator};
use crate::flow::fault::Notes;
use crate::flow::fields::{Fields, Words, choose};
use crate::flow::yaml::{Node, Value};

/// The fields of a builtin validator.
pub(crate) const BUILTIN: [&str; 6] = ["kind", "name", "id", "artifacts", "timeout", "timeout_seconds"];

/// The fields of a script.
pub(crate) const SCRIPT: [&str; 9] =
    ["kind", "id", "name", "entrypoint", "args", "cwd", "artifacts", "timeout", "timeout_seconds"];

/// The fields of a script that judges.
pub(crate) const JUDGE: [&str; 7] = ["kind", "id", "entrypoint", "args", "cwd", "timeout", "timeout_seconds"];

/// The fields of a harness.
pub(crate) const HARNESS: [&str; 7] =
    ["kind", "name", "id", "artifacts", "timeout", "timeout_seconds", "may_propose_goldens"];

/// The directory in which agents write programs of a run, in the public format.
const AGENTS_OWN: &str = ".tnh/run/${run_id}/";

/// Reads the entries of `run`.
pub(super) fn validators(step: Fields<'_>, known: &Known<'_>, notes: &mut Notes) -> Vec<Validator> {
    let Some(node) = step.get("run") else {
        step.missing("run", "a RUN_VALIDATION step", notes);
        return Vec::new();
    };
    let items = match &node.value {
        Value::List(items) if !items.is_empty() => items,
        Value::Refused => return Vec::new(),
        _ => {
            notes.fault(node.at, "`run` is no list of validators", "write a list, as in [tests, lint]");
            return Vec::new();
        }
    };
    let mut all: Vec<Validator> = Vec::new();
    for item in items {
        let Some(validator) = validator(item, known, notes) else { continue };
        if all.iter().any(|one| one.name == validator.name) {
            let what = format!("the validator {} is here twice", validator.name);
            notes.fault(validator.at, what, "give each its own name, or remove one");
        }
        all.push(validator);
    }
    all
}

fn validator(node: &Node, known: &Known<'_>, notes: &mut Notes) -> Option<Validator> {
    if let Value::Text(text) = &node.value {
        if !is_name(text) {
            let stem = Path::new(text).file_stem().and_then(OsStr::to_str).filter(|stem| is_name(stem));
            let instead = match stem {
                Some(stem)
                    if text.contains('/') && is_plain_path(text) && !text.contains([' ', ',', '}']) =>
                {
                    format!("for a script write {{kind: script, id: {stem}, entrypoint: {text}}}")
                }
                _ => "write a name such as tests or lint".to_owned(),
            };
            notes.fault(node.at, "this is no name of a validator", instead);
        }
        let (name, runs) = (text.clone(), Runs::Builtin);
        return Some(Validator { at: node.at, name, runs, artifacts: Vec::new(), timeout_seconds: None });
    }
    let all = Fields::all(node, "a validator", notes)?;
    if all.get("kind").is_none() {
        notes.fault(node.at, "this validator has no `kind`", "add `kind:` with builtin, script or harness");
        return None;
    }
    let Words { at, text: kind } = all.text("kind", notes)?;
    let (runs, fields) = match kind {
        "builtin" => (Runs::Builtin, Fields::of(node, "a builtin validator", &BUILTIN, &[], notes)?),
        "script" => script_or_harness(node, all, known, notes)?,
        "harness" => {
            let fields = Fields::of(node, "a harness", &HARNESS, &[], notes)?;
            let may_propose_goldens = fields.flag("may_propose_goldens", notes);
            (Runs::Harness { script: None, may_propose_goldens }, fields)
        }
        _ => {
            let advice = choose(kind, ["builtin", "script", "harness"]);
            notes.fault(at, format!("{kind} is no kind of validator"), advice);
            return None;
        }
    };
    // The public contract calls it `id`, the public loader `name`.
    let key = if fields.get("name").is_none() && fields.get("id").is_some() { "id" } else { "name" };
    if fields.get(key).is_none() {
        let key = if matches!(runs, Runs::Script(_)) { "id" } else { "name" };
        let instead = format!("add `{key}: NAME`, by which reports call it");
        notes.fault(fields.at, format!("this validator has no `{key}`"), instead);
    }
    let name = name(fields, key, notes).map_or("", |words| words.text).to_owned();
    let artifacts = fields.texts("artifacts", notes);
    artifacts.iter().for_each(|words| substituted(words.at, words.text, &known.inputs, notes));
    let artifacts = artifacts.iter().filter_map(|words| glob(*words, notes)).collect();
    let timeout_seconds = either_seconds(fields, notes);
    Some(Validator { at: node.at, name, runs, artifacts, timeout_seconds })
}

/// A script; a harness if it is where agents write.
fn script_or_harness<'a>(
    node: &'a Node,
    all: Fields<'a>,
    known: &Known<'_>,
    notes: &mut Notes,
) -> Option<(Runs, Fields<'a>)> {
    let entrypoint = all.get("entrypoint").map(|node| &node.value);
    let is_harness = matches!(entrypoint, Some(Value::Text(path)) if path.starts_with(AGENTS_OWN));
    let known_fields: Vec<&str> =
        SCRIPT.into_iter().chain(is_harness.then_some("may_propose_goldens")).collect();
    let what = if is_harness { "a harness" } else { "a script" };
    let fields = Fields::of(node, what, &known_fields, &[], notes)?;
    let script = script(fields, known, notes);
    let runs = if is_harness {
        let may_propose_goldens = fields.flag("may_propose_goldens", notes);
        Runs::Harness { script: Some(script), may_propose_goldens }
    } else {
        Runs::Script(script)
    };
    Some((runs, fields))
}

/// `timeout_seconds` or `timeout`.
pub(super) fn either_seconds(fields: Fields<'_>, notes: &mut Notes) -> Option<u64> {
    if fields.get("timeout").is_some() && fields.get("timeout_seconds").is_some() {
        let what = "`timeout` and `timeout_seconds` mean the same";
        notes.fault(fields.place("timeout"), what, "leave out one of them");
    }
    let seconds = fields.seconds("timeout_seconds", notes);
    let other = fields.seconds("timeout", notes);
    seconds.or(other)
}

/// The script of these fields.
fn script(fields: Fields<'_>, known: &Known<'_>, notes: &mut Notes) -> Script {
    let entrypoint = fields.needed("entrypoint", "a script", notes);
    if let Some(Words { at, text }) = entrypoint {
        substituted(at, text, &known.inputs, notes);
        fixed(at, text, notes);
        if text.contains(" -") {
            let what = "the whole text of `entrypoint` is a path, also what follows the space";
            notes.warn(at, what, "write arguments as a list, as in `args: [\"--fast\"]`");
        }
        if !is_plain_path(text) {
            let instead = "write a path from the top of the repository, without `..`";
            notes.fault(at, "this script is not in the repository", instead);
        }
    }
    if let Some(Words { at, .. }) = fields.text("cwd", notes).filter(|words| words.text != ".") {
        let what = "validators run at the top of the worktree";
        notes.fault(at, what, "leave out `cwd`; let the script change its directory");
    }
    let args = fields.texts("args", notes);
    args.iter().for_each(|words| substituted(words.at, words.text, &known.inputs, notes));
    Script {
        entrypoint: entrypoint.map_or_else(|| nameless(fields.at), named),
        args: args.iter().map(|words| words.text.to_owned()).collect(),
        timeout_seconds: either_seconds(fields, notes),
    }
}

/// The planner: `agent`, `command`, or the one that the host configures.
pub(super) fn judge(step: Fields<'_>, known: &Known<'_>, notes: &mut Notes) -> Judge {
    if step.get("agent").is_some() && step.get("command").is_some() {
        let what = "`agent` and `command` both say who judges";
        notes.fault(step.place("command"), what, "leave out one of them");
    }
    if let Some(agent) = super::texts::provider(step, "agent", notes) {
        return Judge::Agent(agent);
    }
    let Some(node) = step.get("command") else { return Judge::Configured };
    if !matches!(node.value, Value::Map(_)) {
        return name(step, "command", notes)
            .map_or(Judge::Configured, |words| Judge::Command(words.text.to_owned()));
    }
    let Some(fields) = Fields::of(node, "`command`", &JUDGE, &[], notes) else { return Judge::Configured };
    if let Some(kind) = fields.text("kind", notes).filter(|kind| kind.text != "script") {
        notes.fault(kind.at, format!("{} is no kind of `command`", kind.text), "write script");
    }
    let script = script(fields, known, notes);
    if script.entrypoint.name.starts_with(AGENTS_OWN) {
        let what = "an agent could write the program that judges it";
        notes.fault(script.entrypoint.at, what, "name a script of the repository");
    }
    Judge::Script(script)
}
