//! Graphs for front ends: names of nodes, and the operations on them.

use std::io::Read;

use crate::contract::ids::CommitId;
use crate::engine::Engine;
use crate::git::Repo;
use crate::ledger::Ledger;
use crate::model::decide::{Command, Decided, EdgeSpec, RunEdit};
use crate::model::edge::{Edge as EdgeOf, EdgeType, is_bidirectional};
use crate::model::ids::{Alias, EdgeId, NodeId, RunId};
use crate::model::message::MAX_MESSAGE;
use crate::model::run::RunStatus;
use crate::model::state::State;

use super::error::{Error, Kind};
use super::inside::persons_only;
use super::templates;

/// The text of a role for a node of a run with this base, if there is one.
pub(super) fn role_text(repo: &Repo, base: &str, role: &str) -> Result<Option<String>, Error> {
    let named = CommitId::parse_hex(base.as_bytes());
    let base = named.ok_or_else(|| Error::failed(format!("the base {base} of the run is no commit")))?;
    templates::for_node(repo, base, role)
}

/// An edge as a command line has it. `None` follows from the roles at its ends.
#[derive(Debug, Clone, Copy)]
pub struct Edge<'a> {
    /// Its id. `None` makes one.
    pub id: Option<EdgeId>,
    /// The sender.
    pub from: &'a str,
    /// The receiver.
    pub to: &'a str,
    /// Its type.
    pub edge_type: Option<EdgeType>,
    /// A text for people.
    pub label: Option<&'a str>,
    /// Whether the receiver may send as well.
    pub bidirectional: Option<bool>,
}

/// Makes an edge.
pub fn add_edge(engine: &Engine<'_>, run: RunId, edge: &Edge<'_>) -> Result<Decided, Error> {
    persons_only("making an edge")?;
    let mut ledger = engine.graph(run)?;
    let state = &ledger.tip().state;
    let (from, to) = (node(state, edge.from)?, node(state, edge.to)?);
    let role = |id: NodeId| state.nodes[&id].role_template.as_str();
    if edge.bidirectional == Some(true) && !is_bidirectional(role(from), role(to), edge.bidirectional) {
        let message = "an edge from or to an orchestrator has one direction; nothing was changed";
        let slug = &state.run.slug;
        return Err(Error::usage(message).hint(format!(
            "make two: `aynig orch edge add {slug} {} {}`, and one the other way",
            edge.from, edge.to
        )));
    }
    let spec = EdgeSpec {
        id: edge.id,
        from,
        to,
        edge_type: edge.edge_type,
        label: edge.label.map(str::to_owned),
        bidirectional: edge.bidirectional,
    };
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

/// Removes the only edge from a node to another one.
pub fn remove_edge_between(engine: &Engine<'_>, run: RunId, from: &str, to: &str) -> Result<Decided, Error> {
    persons_only("removing an edge")?;
    let mut ledger = engine.graph(run)?;
    let state = &ledger.tip().state;
    let ends = (node(state, from)?, node(state, to)?);
    let is_it =
        |edge: &&EdgeOf| (edge.from, edge.to) == ends || (edge.bidirectional && (edge.to, edge.from) == ends);
    let found: Vec<&EdgeOf> = state.edges.values().filter(is_it).collect();
    let [edge] = found[..] else {
        let slug = &state.run.slug;
        let (kind, how_many) = match found.len() {
            0 => (Kind::NotFound, "no edge"),
            _ => (Kind::Usage, "several edges"),
        };
        let message = format!("run {slug} has {how_many} from {from} to {to}; nothing was changed");
        return Err(Error::new(kind, message).hint(format!(
            "`aynig orch show {slug}` lists the edges with their ids; `aynig orch edge remove {slug} ID` removes one"
        )));
    };
    let edge = edge.id;
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
    let state = &ledger.tip().state;
    if to.is_none() && state.nodes.values().any(|node| node.alias.as_str() == text) {
        let message = format!(
            "{text} is a node of run {}, and its message is missing; nothing was sent",
            state.run.slug
        );
        return Err(Error::usage(message).hint(format!("`aynig orch chat {} {text} TEXT`", state.run.slug)));
    }
    let content = match text {
        "-" => typed()?,
        text => text.to_owned(),
    };
    sent(engine, &mut ledger, to, (&content, interrupt))
}

/// Sends a message of a person, whatever its text is.
pub fn send(
    engine: &Engine<'_>,
    run: RunId,
    to: Option<&str>,
    (text, interrupt): (&str, bool),
) -> Result<Decided, Error> {
    persons_only("sending a message to an agent")?;
    sent(engine, &mut engine.graph(run)?, to, (text, interrupt))
}

fn sent(
    engine: &Engine<'_>,
    ledger: &mut Ledger<'_>,
    to: Option<&str>,
    (text, interrupt): (&str, bool),
) -> Result<Decided, Error> {
    let node = to.map(|named| node(&ledger.tip().state, named)).transpose()?;
    if let Some(node) = node
        && is_reset(&ledger.tip().state, node, text)
    {
        return Ok(engine.reset_node(ledger, node, &engine.workspaces.options.by)?);
    }
    operate(engine, ledger, Command::Chat { node, content: text.to_owned(), interrupt })
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
pub fn node(state: &State, named: &str) -> Result<NodeId, Error> {
    let by_alias = state.nodes.values().find(|node| node.alias.as_str() == named).map(|node| node.id);
    by_alias.or_else(|| begins(state.nodes.keys(), named)).ok_or_else(|| {
        let slug = &state.run.slug;
        let known: Vec<&str> = state.nodes.values().map(|node| node.alias.as_str()).collect();
        let hint = if known.is_empty() {
            format!("`aynig orch node add {slug} ALIAS --role ROLE --provider NAME` makes one")
        } else {
            format!("it has {}", known.join(", "))
        };
        let message = format!("run {slug} has no node {named}; nothing was changed");
        Error::new(Kind::NotFound, message).hint(hint)
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
