//! Graphs for front ends: names of nodes, texts of roles, and the operations on them.

use std::io::Read;

use crate::contract::ids::CommitId;
use crate::engine::Engine;
pub use crate::engine::graph::start::Made;
use crate::engine::graph::start::NewGraph;
use crate::flow::base::MAX_FILE;
use crate::git::Repo;
use crate::git::objects::revspec::Content;
use crate::ledger::{Ledger, Place};
use crate::model::decide::{Command, Decided, EdgeSpec, RunEdit};
use crate::model::ids::{Alias, NodeId, RunId};
use crate::model::message::MAX_MESSAGE;
use crate::model::run::{GlobalMode, Limits, Mode, RunStatus};
use crate::model::state::State;

use super::error::{Error, Kind};
use super::inside::persons_only;
use super::limits::{Of, limits};

/// The directory of role texts in the base commit.
const TEMPLATES: &str = ".aynig/templates/";

/// Makes a graph without nodes, with these limits.
pub fn create(
    engine: &Engine<'_>,
    place: Place,
    (label, given): (&str, &[String]),
    base: (String, CommitId),
) -> Result<Made, Error> {
    persons_only("making a run")?;
    let new = NewGraph {
        label: label.to_owned(),
        base,
        mode: Mode::Interactive,
        global_mode: GlobalMode::Implementation,
        done_when: None,
        limits: limits(Limits::default(), Of::Run, given)?,
        place,
    };
    Ok(engine.make_graph(&new, &|_, _| Ok(Vec::new()))?)
}

/// The text of a role: `.aynig/templates/<role>.md` of the base commit, if it has one.
pub(super) fn role_text(repo: &Repo, base: &str, role: &str) -> Result<Option<String>, Error> {
    let is_plain =
        !role.is_empty() && role.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    if !is_plain {
        let message =
            format!("--role {role:?}: a role is written with letters, digits, - and _; nothing was changed");
        return Err(Error::usage(message));
    }
    let Some(base) = CommitId::parse_hex(base.as_bytes()) else { return Ok(None) };
    let path = format!("{TEMPLATES}{role}.md");
    match repo.content_at(base, &path, MAX_FILE) {
        Ok(Some(Content::File { bytes, .. })) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Ok(_) => Ok(None),
        Err(error) => Err(Error::because(&format!("read {path}"), &error)),
    }
}

/// Makes an edge.
pub fn add_edge(engine: &Engine<'_>, run: RunId, from: &str, to: &str) -> Result<Decided, Error> {
    persons_only("making an edge")?;
    let mut ledger = engine.graph(run)?;
    let state = &ledger.tip().state;
    let (from, to) = (node(state, from)?, node(state, to)?);
    let spec = EdgeSpec { id: None, from, to, edge_type: None, label: None, bidirectional: None };
    operate(engine, &mut ledger, Command::AddEdge(spec))
}

/// Removes an edge, which an id or the beginning of one names.
pub fn remove_edge(engine: &Engine<'_>, run: RunId, named: &str) -> Result<Decided, Error> {
    persons_only("removing an edge")?;
    let mut ledger = engine.graph(run)?;
    let state = &ledger.tip().state;
    let edge = begins(state.edges.keys(), named).ok_or_else(|| {
        let message = format!("run {} has no edge {named}; nothing was changed", state.run.slug);
        Error::new(Kind::NotFound, message)
            .hint(format!("`aynig orch show {}` lists the edges with their ids", state.run.slug))
    })?;
    operate(engine, &mut ledger, Command::RemoveEdge(edge))
}

/// Sends a message of a person. `-` reads the text from standard input.
pub fn chat(
    engine: &Engine<'_>,
    run: RunId,
    to: Option<&str>,
    (text, interrupt): (&str, bool),
) -> Result<Decided, Error> {
    persons_only("sending a message to an agent")?;
    let mut ledger = engine.graph(run)?;
    let node = to.map(|named| node(&ledger.tip().state, named)).transpose()?;
    let content = match text {
        "-" => typed()?,
        text => text.to_owned(),
    };
    if let Some(node) = node
        && is_reset(&ledger.tip().state, node, &content)
    {
        return Ok(engine.reset_node(&mut ledger, node, &engine.workspaces.options.by)?);
    }
    operate(engine, &mut ledger, Command::Chat { node, content, interrupt })
}

/// Whether a message means that the node begins a new session.
fn is_reset(state: &State, node: NodeId, text: &str) -> bool {
    let resets = state.nodes.get(&node).map(|node| node.session.reset_commands.as_slice());
    resets.is_some_and(|resets| resets.iter().any(|reset| reset == text.trim()))
}

/// The text on standard input.
pub(super) fn typed() -> Result<String, Error> {
    let wrong = |why: &str| Error::usage(format!("the text on standard input {why}; nothing was changed"));
    let mut text = Vec::new();
    let most = u64::try_from(MAX_MESSAGE).unwrap_or(u64::MAX).saturating_add(1);
    let read = std::io::stdin().lock().take(most).read_to_end(&mut text);
    read.map_err(|error| wrong(&format!("cannot be read: {error}")))?;
    if text.len() > MAX_MESSAGE {
        return Err(wrong(&format!("is longer than {MAX_MESSAGE} bytes")).hint("put the rest into a file"));
    }
    String::from_utf8(text).map_err(|_| wrong("is not UTF-8"))
}

/// Gives a graph another status.
pub fn set_status(engine: &Engine<'_>, run: RunId, status: RunStatus) -> Result<Decided, Error> {
    persons_only("changing a run")?;
    let mut ledger = engine.graph(run)?;
    operate(engine, &mut ledger, Command::SetRun(RunEdit { status: Some(status), ..RunEdit::default() }))
}

pub(super) fn operate(
    engine: &Engine<'_>,
    ledger: &mut Ledger<'_>,
    command: Command,
) -> Result<Decided, Error> {
    Ok(engine.operate(ledger, &[command], &engine.workspaces.options.by)?)
}

pub(super) fn alias(text: &str) -> Result<Alias, Error> {
    Alias::parse(text).map_err(|error| Error::usage(format!("{error}; nothing was changed")))
}

/// The node that is meant by an alias, an id, or the beginning of an id.
pub(super) fn node(state: &State, named: &str) -> Result<NodeId, Error> {
    let by_alias = state.nodes.values().find(|node| node.alias.as_str() == named).map(|node| node.id);
    by_alias.or_else(|| begins(state.nodes.keys(), named)).ok_or_else(|| {
        let slug = &state.run.slug;
        let known: Vec<&str> = state.nodes.values().map(|node| node.alias.as_str()).collect();
        let hint = if known.is_empty() {
            format!("`aynig orch node add {slug} ALIAS --role ROLE --provider NAME` makes one")
        } else {
            format!("it has {}", known.join(", "))
        };
        Error::failed(format!("run {slug} has no node {named}; nothing was changed")).hint(hint)
    })
}

/// The one id that begins like this text.
pub(super) fn begins<'a, Id: Copy + ToString + 'a>(
    ids: impl Iterator<Item = &'a Id>,
    text: &str,
) -> Option<Id> {
    let mut meant = ids.filter(|id| !text.is_empty() && id.to_string().starts_with(text));
    let first = meant.next().copied();
    first.filter(|_| meant.next().is_none())
}
