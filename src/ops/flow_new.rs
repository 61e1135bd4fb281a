//! New runs of flows: the file is checked, its inputs are filled in, and the run is made (CONTRACT 20.1).
//!
//! Invariant: a flow with a fault, without an input that it needs, or from another place than the trusted ref makes no run.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use crate::contract::alike::nearest;
use crate::contract::ids::{CommitId, RemoteName};
use crate::engine::Engine;
use crate::flow::base::MAX_FILE;
use crate::flow::document::Flow;
use crate::flow::fault::Note;
use crate::flow::{self as flows, Checked};
use crate::git::Repo;
use crate::git::objects::revspec::Content;
use crate::words::{pluralize, shell_quote};

use super::engine::{Order, Started, persons_only, place};
use super::error::{Error, Kind};
use super::flow::{against_base, base, not_of_a_run, uncommitted, unreported};
use super::trust;

/// The most flows that are listed.
const MOST: usize = 200;

/// A run that is wanted.
#[derive(Debug)]
pub struct Wanted<'a> {
    /// The name of the file for people.
    pub name: &'a str,
    /// The file, and the directory that its path begins at.
    pub file: (&'a Path, &'a Path),
    /// Its content.
    pub bytes: &'a [u8],
    /// The base, as git names it.
    pub base: &'a str,
    /// The values of inputs that were given.
    pub inputs: BTreeMap<String, String>,
    /// A text for people; the flow's id without it.
    pub label: Option<&'a str>,
    /// The remote that decides it.
    pub remote: Option<&'a RemoteName>,
}

/// Makes a run. `note` takes faults and warnings about the file.
pub fn start(
    engine: &Engine<'_>,
    wanted: Wanted<'_>,
    note: &mut dyn FnMut(&Note),
) -> Result<(Flow, Started), Error> {
    persons_only("starting a run")?;
    let Wanted { name, file: (start, file), bytes, base: named, inputs, label, remote } = wanted;
    let repo = engine.repo;
    not_of_a_run(repo, named)?;
    let Checked { flow, mut notes } = flows::check(bytes);
    if let Some(flow) = &flow {
        let (commit, more) = against_base(repo, flow, named)?;
        notes.extend(more);
        notes.extend(uncommitted(repo, (start, file, bytes), (named, commit))?);
        notes.extend(unreported(Some(repo), flow));
        notes.sort();
    }
    notes.iter().for_each(note);
    let faults = notes.iter().any(|note| note.is_fault());
    let Some(flow) = flow.filter(|_| !faults) else {
        let faults = pluralize(notes.iter().filter(|note| note.is_fault()).count(), "fault");
        return Err(Error::failed(format!("{name} has {faults}; nothing was started")).hint(format!(
            "`aynig flow check --base {} {}` reports all faults",
            shell_quote(named),
            shell_quote(name)
        )));
    };
    let inputs = filled(&flow, inputs)?;
    let (base_ref, base) = base(repo, named)?;
    trust::check_flow(repo, remote, (&start.join(file), bytes), &flow, base)?;
    let label = label.filter(|label| !label.is_empty()).unwrap_or(&flow.workflow_id).to_owned();
    let base = (base_ref, base);
    let order = Order { flow: &flow, file: bytes, base, inputs, label, fork: None, place: place(remote) };
    let started = engine.start(&order)?;
    Ok((flow, started))
}

/// The values that are given as `NAME=VALUE`, or `NAME=@FILE`.
pub fn given(start: &Path, given: &[String]) -> Result<BTreeMap<String, String>, Error> {
    let mut values = BTreeMap::new();
    for one in given {
        let (name, value) = one.split_once('=').ok_or_else(|| {
            Error::usage(format!("--input {one}: write NAME=VALUE, or NAME=@FILE; nothing was changed"))
        })?;
        let value = match value.strip_prefix('@') {
            None => value.to_owned(),
            Some(file) => std::fs::read_to_string(start.join(file)).map_err(|error| {
                Error::usage(format!("--input {name}: could not read {file}: {error}; nothing was changed"))
            })?,
        };
        if values.insert(name.to_owned(), value).is_some() {
            return Err(Error::usage(format!("--input {name} is given twice; nothing was changed")));
        }
    }
    Ok(values)
}

/// The values of a flow's inputs: those that were given, and the defaults.
fn filled(flow: &Flow, mut values: BTreeMap<String, String>) -> Result<BTreeMap<String, String>, Error> {
    for (name, value) in &values {
        let Some(input) = flow.inputs.iter().find(|input| input.name == *name) else {
            let names: Vec<&str> = flow.inputs.iter().map(|input| input.name.as_str()).collect();
            let there = if names.is_empty() {
                "the flow has none".to_owned()
            } else {
                format!("the flow has {}", names.join(", "))
            };
            let near = nearest(name, names).map(|near| format!("did you mean {near}?"));
            let message = format!("--input: there is no input {name}: {there}; nothing was changed");
            return Err(near.into_iter().fold(Error::usage(message), Error::hint));
        };
        if input.required && value.trim().is_empty() {
            return Err(Error::usage(format!(
                "--input {name} is empty, and the flow needs it; nothing was changed"
            ))
            .hint(format!("`--input {name}=VALUE`, or `--input {name}=@FILE`")));
        }
    }
    for input in &flow.inputs {
        if values.contains_key(&input.name) {
            continue;
        }
        let value = match &input.default {
            Some(default) => default.clone(),
            None if input.required => {
                let purpose =
                    input.description.as_deref().map(|words| format!(" ({words})")).unwrap_or_default();
                return Err(Error::usage(format!(
                    "the flow needs the input {}{purpose}; nothing was changed",
                    input.name
                ))
                .hint(format!("`--input {}=VALUE`, or `--input {}=@FILE`", input.name, input.name)));
            }
            None => String::new(),
        };
        values.insert(input.name.clone(), value);
    }
    Ok(values)
}

/// A flow file of a commit.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Offered {
    /// Its path from the top.
    pub path: String,
    /// Its `workflow_id`.
    pub workflow_id: Option<String>,
    /// Its `version`.
    pub version: Option<u64>,
    /// Its purpose.
    pub description: Option<String>,
    /// Its inputs.
    pub inputs: Vec<OfferedInput>,
    /// The first fault: no run of it can be made.
    pub fault: Option<String>,
}

/// An input of a flow.
#[derive(Debug, Serialize)]
pub struct OfferedInput {
    /// Its name.
    pub name: String,
    /// Its purpose.
    pub description: Option<String>,
    /// Whether a run needs it.
    pub required: bool,
    /// Its value if none is given.
    pub default: Option<String>,
}

/// The flows of a commit, by path: YAML files with a `workflow_id`.
pub fn offered(repo: &Repo, commit: CommitId) -> Result<Vec<Offered>, Error> {
    let because = |error: &dyn std::error::Error| Error::because("list the flows", error);
    let tree = repo.commit(commit).map_err(|error| because(&error))?.tree;
    let paths = repo.paths_in(tree).map_err(|error| because(&error))?;
    let mut found = Vec::new();
    for path in paths.iter().filter(|path| path.ends_with(".yaml") || path.ends_with(".yml")) {
        // One that is too long for a flow file is none.
        let Ok(Some(bytes)) = content(repo, commit, path) else { continue };
        if !bytes.split(|byte| *byte == b'\n').any(|line| line.starts_with(b"workflow_id:")) {
            continue;
        }
        found.push(offer(path, &bytes));
        if found.len() == MOST {
            break;
        }
    }
    Ok(found)
}

fn offer(path: &str, bytes: &[u8]) -> Offered {
    let Checked { flow, notes } = flows::check(bytes);
    let fault = notes.iter().find(|note| note.is_fault()).map(ToString::to_string);
    let inputs = flow.iter().flat_map(|flow| &flow.inputs);
    Offered {
        path: path.to_owned(),
        workflow_id: flow.as_ref().map(|flow| flow.workflow_id.clone()),
        version: flow.as_ref().map(|flow| flow.version),
        description: flow.as_ref().and_then(|flow| flow.description.clone()),
        inputs: inputs
            .map(|input| OfferedInput {
                name: input.name.clone(),
                description: input.description.clone(),
                required: input.required,
                default: input.default.clone(),
            })
            .collect(),
        fault,
    }
}

/// The content of a flow file of a commit.
pub fn offered_file(repo: &Repo, commit: CommitId, path: &str) -> Result<Vec<u8>, Error> {
    content(repo, commit, path)?.ok_or_else(|| {
        let message = format!("{} has no file {path:?}; nothing was started", commit.short());
        Error::new(Kind::NotFound, message).hint("a flow is a committed file, named by its path from the top")
    })
}

fn content(repo: &Repo, commit: CommitId, path: &str) -> Result<Option<Vec<u8>>, Error> {
    match repo.content_at(commit, path, MAX_FILE) {
        Ok(Some(Content::File { bytes, .. })) => Ok(Some(bytes)),
        Ok(Some(Content::Directory | Content::Link(_)) | None) => Ok(None),
        Err(error) => Err(Error::because(&format!("read {path} of {}", commit.short()), &error)),
    }
}
