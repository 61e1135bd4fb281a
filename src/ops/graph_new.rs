//! Makes graphs: without nodes, or with those of a graph file (CONTRACT 22.31).

use std::collections::BTreeSet;
use std::path::Path;

use crate::contract::alike::nearest;
use crate::contract::ids::CommitId;
use crate::engine::Engine;
use crate::engine::graph::start::{Made, NewGraph};
use crate::ledger::{LedgerError, Place};
use crate::model::decide::{Command, EdgeSpec, NewRun, NodeSpec, Op, begin};
use crate::model::ids::{Alias, NodeId, Slug};
use crate::model::node::{ORCHESTRATOR, Permissions};
use crate::model::run::{GlobalMode, Mode};
use crate::model::state::State;
use crate::orch::document::{Graph, NodeOf, validator_of};
use crate::orch::templates::SHIPPED;
use crate::workspace::refusal::{Refusal, Why};

use super::error::Error;
use super::inside::persons_only;
use super::limits::{Of, limits};
use super::nodes::{can_ask, of_host};
use super::{templates, trust};

/// A wish for a graph. What it says precedes what its file says.
#[derive(Debug)]
pub struct Order<'a> {
    /// A text for people.
    pub label: Option<&'a str>,
    /// The base: its full name, and its commit.
    pub base: (String, CommitId),
    /// Where it is decided.
    pub place: Place,
    /// AUTO or INTERACTIVE.
    pub mode: Option<Mode>,
    /// PLANNING or IMPLEMENTATION.
    pub global_mode: Option<GlobalMode>,
    /// When it is done.
    pub done_when: Option<&'a str>,
    /// Its bounds, as `NAME=NUMBER`.
    pub limits: &'a [String],
    /// Whether only runners of its role take the turns of a node.
    pub reserve_role: bool,
    /// The file that it is from: its path, its content, and the graph in it.
    pub file: Option<(&'a Path, &'a [u8], &'a Graph)>,
}

/// A graph that was made.
#[derive(Debug)]
pub struct Created {
    /// It.
    pub made: Made,
    /// The number of its nodes.
    pub nodes: usize,
    /// The roles that its nodes are reserved to; `None`: to none.
    pub roles: BTreeSet<Option<String>>,
    /// What this host lacks, in words.
    pub lacks: Vec<String>,
    /// Facts to know, in words.
    pub remarks: Vec<String>,
}

/// Makes a graph.
pub fn create(engine: &Engine<'_>, order: Order<'_>) -> Result<Created, Error> {
    persons_only("making a run")?;
    let graph = order.file.map(|(_, _, graph)| graph);
    let of_file = |text: fn(&Graph) -> Option<&String>| graph.and_then(text).map(String::as_str);
    let done_when = order.done_when.or(of_file(|graph| graph.done_when.as_ref()));
    let mut lacks = Vec::new();
    if let Some(text) = done_when {
        lacks.extend(validator(engine, text)?);
    }
    let reserve_role = order.reserve_role || graph.is_some_and(|graph| graph.reserve_role);
    let nodes = graph.map_or(&[][..], |graph| &graph.nodes);
    let reserved = |node: &NodeOf| reserve_role.then(|| node.role.clone());
    let drivers: BTreeSet<Option<String>> = match nodes {
        [] if reserve_role => BTreeSet::new(),
        [] => BTreeSet::from([None]),
        nodes => nodes.iter().map(reserved).collect(),
    };
    let named = drivers.iter().map(Option::as_deref).collect();
    trust::check_graph(engine.repo, order.file.map(|(path, bytes, _)| (path, bytes)), &named)?;
    let mut remarks = Vec::new();
    let mut specs = Vec::new();
    for node in nodes {
        specs.push(spec(engine, order.base.1, node)?);
        lacks
            .extend(of_host(engine, node.provider.as_str()).map(|why| format!("node {}: {why}", node.alias)));
    }
    let textless = specs.iter().filter(|spec| spec.role_text.is_none());
    let roles: BTreeSet<&str> = textless.map(|spec| spec.role_template.as_str()).collect();
    remarks.extend(roles.into_iter().map(no_text));
    let new = NewGraph {
        label: order.label.or(of_file(|graph| graph.label.as_ref())).unwrap_or_default().to_owned(),
        base: order.base,
        mode: order.mode.or(graph.and_then(|graph| graph.mode)).unwrap_or(Mode::Interactive),
        global_mode: order
            .global_mode
            .or(graph.and_then(|graph| graph.global_mode))
            .unwrap_or(GlobalMode::Implementation),
        done_when: done_when.map(str::to_owned),
        limits: limits(graph.map(|graph| graph.limits).unwrap_or_default(), Of::Run, order.limits)?,
        reserve_role,
        place: order.place,
    };
    let made = engine.make_graph(&new, &|new, op| match graph {
        Some(graph) => commands(graph, &specs, (new, op)),
        None => Ok(Vec::new()),
    })?;
    if new.mode == Mode::Auto && !specs.iter().any(|spec| spec.role_template == ORCHESTRATOR) {
        remarks.push(nobody_goes_on(&made.slug));
    }
    Ok(Created { made, nodes: specs.len(), roles: drivers, lacks, remarks })
}

/// Words about a run in mode AUTO without an orchestrator.
#[must_use]
pub fn nobody_goes_on(slug: &Slug) -> String {
    let make = format!("aynig orch node add {slug} ALIAS --role {ORCHESTRATOR} --provider NAME");
    format!("nobody goes on by itself in mode AUTO without an orchestrator: `{make}` makes one")
}

/// The role of the program that a role nearly has the name of.
#[must_use]
pub fn near_role(role: &str) -> Option<&'static str> {
    nearest(role, SHIPPED.map(|(shipped, _)| shipped))
}

/// Words about a role without a text.
#[must_use]
pub fn no_text(role: &str) -> String {
    let near = near_role(role).map_or_else(String::new, |near| format!("; did you mean {near}?"));
    format!("role {role} has no text: {} of the base would be it{near}", templates::path(role))
}

/// Refuses an end that cannot be, and says whether this host lacks the validator that it names.
fn validator(engine: &Engine<'_>, done_when: &str) -> Result<Option<String>, Error> {
    let named = validator_of(done_when).map_err(|why| {
        Error::usage(format!("--done-when: {why}; nothing was changed"))
            .hint("`--done-when validator:NAME`, or `--done-when TEXT` with what has to be true at the end")
    })?;
    let lacking = named.filter(|name| !engine.validators.contains_key(*name));
    Ok(lacking
        .map(|name| format!("this host has no validator {name}: `git config aynig.validator.{name} LINE`")))
}

fn spec(engine: &Engine<'_>, base: CommitId, node: &NodeOf) -> Result<NodeSpec, Error> {
    let permissions = Permissions::default();
    let mode = node.permissions.unwrap_or(permissions.cli_permissions_mode);
    can_ask(engine, mode, node.provider.as_str())?;
    Ok(NodeSpec {
        alias: Some(node.alias.clone()),
        label: node.label.clone(),
        role_template: node.role.clone(),
        role_text: templates::for_node(engine.repo, base, &node.role)?,
        provider: node.provider.clone(),
        model: node.model.clone(),
        capabilities: Some(node.capabilities),
        permissions: Some(Permissions { cli_permissions_mode: mode, ..permissions }),
        limits: node.limits,
        reserve_role: false,
    })
}

/// The commands that make the nodes, edges and first messages of a graph.
fn commands(graph: &Graph, specs: &[NodeSpec], (new, op): (&NewRun, &Op)) -> Result<Vec<Command>, Refusal> {
    let mut all: Vec<Command> = specs.iter().cloned().map(|spec| Command::AddNode(Box::new(spec))).collect();
    // The ids of nodes follow from the places of their commands, which come first.
    let state = begin(new, &all, op).map_err(LedgerError::from)?.state;
    for edge in &graph.edges {
        all.push(Command::AddEdge(EdgeSpec {
            id: None,
            from: id_of(&state, &edge.from)?,
            to: id_of(&state, &edge.to)?,
            edge_type: edge.edge_type,
            label: edge.label.clone(),
            bidirectional: edge.bidirectional,
        }));
    }
    for node in &graph.nodes {
        let Some(prompt) = &node.prompt else { continue };
        let to = id_of(&state, &node.alias)?;
        all.push(Command::Chat { node: Some(to), content: prompt.clone(), interrupt: false });
    }
    Ok(all)
}

fn id_of(state: &State, alias: &Alias) -> Result<NodeId, Refusal> {
    let found = state.node_named(alias).map(|node| node.id);
    found.ok_or_else(|| {
        Refusal::new(Why::Failed, format!("the graph has no node {alias}; nothing was changed"))
    })
}
