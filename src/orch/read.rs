//! Reads graph files: YAML as plain data, with all faults at once.
//!
//! Invariant: what is read without a fault is taken by the rules of a run as it is.

use super::document::{Checked, EdgeOf, Graph, NodeOf, validator_of};
use super::templates::is_role;
use crate::flow::fault::{Notes, Place};
use crate::flow::fields::{Fields, Words, choose};
use crate::flow::yaml::{self, Kind, Node, Value};
use crate::model::decide::MAX_LABEL;
use crate::model::edge::{EdgeType, is_bidirectional};
use crate::model::ids::{Alias, ProviderName};
use crate::model::message::MAX_MESSAGE;
use crate::model::node::{Capabilities, CliPermissions, EdgeManagement, ORCHESTRATOR};
use crate::model::run::{GlobalMode, Limits, Mode};

/// A graph file.
const KIND: Kind = Kind { word: "graph", schema: "aynig orch schema" };

/// The most edges of a file.
pub(super) const MAX_EDGES: usize = 1_000;

/// The fields of a graph.
pub(super) const DOCUMENT: [&str; 8] =
    ["label", "mode", "global_mode", "done_when", "limits", "reserve_role", "nodes", "edges"];

/// The fields of a node.
pub(super) const NODE: [&str; 10] = [
    "alias",
    "label",
    "role",
    "provider",
    "model",
    "permissions",
    "edge_management",
    "capabilities",
    "limits",
    "prompt",
];

/// The fields of an edge.
pub(super) const EDGE: [&str; 5] = ["from", "to", "type", "label", "bidirectional"];

/// The fields of `capabilities`.
pub(super) const CAPABILITIES: [&str; 4] = ["write_code", "write_docs", "run_commands", "delegate_only"];

/// The fields of `limits` of a run.
pub(super) const RUN_LIMITS: [&str; 6] = ["turns", "wall_seconds", "cost_usd", "tokens", "nodes", "depth"];

/// The fields of `limits` of a node.
pub(super) const NODE_LIMITS: [&str; 4] = ["turns", "wall_seconds", "cost_usd", "tokens"];

/// The values of `mode`.
pub(super) const MODES: [(&str, Mode); 2] = [("INTERACTIVE", Mode::Interactive), ("AUTO", Mode::Auto)];

/// The values of `global_mode`.
pub(super) const GLOBAL_MODES: [(&str, GlobalMode); 2] =
    [("IMPLEMENTATION", GlobalMode::Implementation), ("PLANNING", GlobalMode::Planning)];

/// The values of `permissions`.
pub(super) const PERMISSIONS: [(&str, CliPermissions); 2] =
    [("gated", CliPermissions::Gated), ("skip", CliPermissions::Skip)];

/// The values of `edge_management`.
pub(super) const MANAGES: [(&str, EdgeManagement); 3] =
    [("none", EdgeManagement::None), ("self", EdgeManagement::Own), ("all", EdgeManagement::All)];

/// The values of `type`.
pub(super) const TYPES: [(&str, EdgeType); 2] =
    [("handoff", EdgeType::Handoff), ("report", EdgeType::Report)];

/// Checks a file.
#[must_use]
pub fn check(bytes: &[u8]) -> Checked {
    let mut notes = Notes::default();
    let graph = read(bytes, &mut notes);
    let checked = Checked { graph: None, notes: notes.sorted() };
    let graph = graph.filter(|_| checked.faults() == 0);
    Checked { graph, ..checked }
}

fn read(bytes: &[u8], notes: &mut Notes) -> Option<Graph> {
    let root = yaml::parse(bytes, KIND, notes)?;
    let all = Fields::all(&root, "the file", notes)?;
    if all.get("workflow_id").is_some() || all.get("steps").is_some() {
        notes.fault(all.at, "this is a flow, and no graph", "start it with `aynig flow start FILE`");
        return None;
    }
    let fields = Fields::of(&root, "a graph", &DOCUMENT, &[], notes)?;
    let limits = limits(fields, &RUN_LIMITS, notes);
    let nodes = nodes(fields, limits, notes);
    let edges = edges(fields, &nodes, notes);
    let mode = fields.word("mode", &MODES, notes);
    if mode == Some(Mode::Auto) && nodes.iter().all(|node| node.role != ORCHESTRATOR) {
        let what = "in mode AUTO the orchestrator goes on by itself, and no node has that role";
        notes.warn(fields.place("mode"), what, "give a node `role: orchestrator`, or leave `mode` out");
    }
    Some(Graph {
        label: label(fields, notes),
        mode,
        global_mode: fields.word("global_mode", &GLOBAL_MODES, notes),
        done_when: done_when(fields, notes),
        limits,
        reserve_role: fields.flag("reserve_role", notes),
        nodes,
        edges,
    })
}

/// A text for people on one line.
fn label(fields: Fields<'_>, notes: &mut Notes) -> Option<String> {
    let Words { at, text } = fields.text("label", notes)?;
    let fits = (1..=MAX_LABEL).contains(&text.len()) && !text.contains(char::is_control);
    if !fits {
        let instead = format!("write one line of 1 to {MAX_LABEL} bytes, or leave it out");
        notes.fault(at, "this is no label", instead);
    }
    fits.then(|| text.to_owned())
}

fn done_when(fields: Fields<'_>, notes: &mut Notes) -> Option<String> {
    let Words { at, text } = fields.text("done_when", notes)?;
    match validator_of(text) {
        Ok(_) => Some(text.to_owned()),
        Err(why) => {
            let instead = "write validator:NAME, or what has to be true at the end";
            notes.fault(at, format!("`done_when`: {why}"), instead);
            None
        }
    }
}

fn limits(above: Fields<'_>, known: &[&str], notes: &mut Notes) -> Limits {
    let node = above.get("limits");
    let Some(fields) = node.and_then(|node| Fields::of(node, "`limits`", known, &[], notes)) else {
        return Limits::default();
    };
    let mut number = |name: &str, least: u64| {
        known.contains(&name).then(|| fields.number(name, least, u64::MAX, notes)).flatten()
    };
    let (turns, tokens) = (number("turns", 1), number("tokens", 1));
    let (nodes, depth) = (number("nodes", 1), number("depth", 0));
    Limits {
        turns,
        tokens,
        nodes,
        depth,
        wall_seconds: fields.seconds("wall_seconds", notes),
        cost_usd: fields.cost("cost_usd", notes),
    }
}

/// The items of a list of maps.
fn items<'a>(fields: Fields<'a>, name: &str, most: usize, notes: &mut Notes) -> &'a [Node] {
    match fields.get(name) {
        None | Some(Node { value: Value::Refused, .. }) => &[],
        Some(Node { value: Value::List(items), .. }) => match items.get(most) {
            None => items,
            Some(more) => {
                let what = format!("`{name}` has more than {most} entries");
                let instead = if name == "nodes" {
                    "leave some out, or set `nodes` of `limits`"
                } else {
                    "leave some out"
                };
                notes.fault(more.at, what, instead);
                &items[..most]
            }
        },
        Some(node) => {
            let what = format!("`{name}` is {}, and not a list", node.value.kind());
            notes.fault(node.at, what, "begin each entry with a dash");
            &[]
        }
    }
}

fn nodes(document: Fields<'_>, limits: Limits, notes: &mut Notes) -> Vec<NodeOf> {
    if document.get("nodes").is_none() {
        document.missing("nodes", "the graph", notes);
    }
    let most = usize::try_from(limits.nodes.unwrap_or(Limits::NODES)).unwrap_or(usize::MAX);
    let mut nodes: Vec<NodeOf> = Vec::new();
    for item in items(document, "nodes", most, notes) {
        let Some(node) = node(item, notes) else { continue };
        if let Some(first) = nodes.iter().find(|other| other.alias == node.alias) {
            let what = format!("the node in line {} has the alias {}, too", first.at.line, node.alias);
            notes.fault(node.at, what, "write another `alias`");
        }
        nodes.push(node);
    }
    nodes
}

/// Reads a node. One that has a fault is kept as far as edges need it.
fn node(item: &Node, notes: &mut Notes) -> Option<NodeOf> {
    let fields = Fields::of(item, "a node", &NODE, &[], notes)?;
    let label = label(fields, notes);
    let alias = alias(fields, label.as_deref(), notes);
    let role = fields.needed("role", "this node", notes);
    if let Some(Words { at, text }) = role.filter(|role| !is_role(role.text)) {
        let instead = "write letters, digits, - and _, at most 64";
        notes.fault(at, format!("{text:?} is no role"), instead);
    }
    let role = role.map(|role| role.text.to_owned()).unwrap_or_default();
    let provider = fields.needed("provider", "this node", notes).and_then(|Words { at, text }| {
        let parsed = ProviderName::parse(text);
        parsed
            .map_err(|error| notes.fault(at, error.to_string(), "write a name of `aynig provider list`"))
            .ok()
    });
    let prompt = fields.text("prompt", notes);
    if let Some(Words { at, .. }) =
        prompt.filter(|words| !(1..=MAX_MESSAGE).contains(&words.text.trim().len()))
    {
        let instead = format!("write 1 to {MAX_MESSAGE} bytes, or leave it out and use `aynig orch chat`");
        notes.fault(at, "this is no message", instead);
    }
    let capabilities = capabilities(fields, Capabilities::of_role(&role), notes);
    let permissions = fields.word("permissions", &PERMISSIONS, notes);
    let (model, limits) = (fields.owned("model", notes), limits(fields, &NODE_LIMITS, notes));
    let alias = alias?;
    Some(NodeOf {
        at: item.at,
        label: label.unwrap_or_else(|| alias.to_string()),
        alias,
        role,
        provider: provider.or_else(|| ProviderName::parse("custom").ok())?,
        model: model.filter(|model| !model.is_empty()),
        permissions,
        capabilities,
        limits,
        prompt: prompt.map(|words| words.text.to_owned()),
    })
}

fn alias(fields: Fields<'_>, label: Option<&str>, notes: &mut Notes) -> Option<Alias> {
    match (fields.get("alias"), label) {
        (Some(_), _) => {
            let Words { at, text } = fields.text("alias", notes)?;
            let instead = "write lower-case letters, digits and dashes, at most 32";
            Alias::parse(text).map_err(|error| notes.fault(at, error.to_string(), instead)).ok()
        }
        (None, Some(label)) => {
            let made = Alias::from_label(label);
            if made.is_none() {
                fields.missing("alias", "this node, whose label makes none,", notes);
            }
            made
        }
        (None, None) => {
            fields.missing("alias", "this node", notes);
            None
        }
    }
}

fn capabilities(node: Fields<'_>, by_role: Capabilities, notes: &mut Notes) -> Capabilities {
    let edge_management = node.word("edge_management", &MANAGES, notes).unwrap_or(by_role.edge_management);
    let by_role = Capabilities { edge_management, ..by_role };
    let given = node.get("capabilities");
    let Some(fields) = given.and_then(|given| Fields::of(given, "`capabilities`", &CAPABILITIES, &[], notes))
    else {
        return by_role;
    };
    let mut flag = |name: &str, otherwise| fields.get(name).map_or(otherwise, |_| fields.flag(name, notes));
    Capabilities {
        write_code: flag("write_code", by_role.write_code),
        write_docs: flag("write_docs", by_role.write_docs),
        run_commands: flag("run_commands", by_role.run_commands),
        delegate_only: flag("delegate_only", by_role.delegate_only),
        ..by_role
    }
}

/// An edge as far as it decides who may send, for comparisons.
struct Way {
    line: usize,
    from: Alias,
    to: Alias,
    both: bool,
}

impl Way {
    fn permits(&self, from: &Alias, to: &Alias) -> bool {
        (self.from == *from && self.to == *to) || (self.both && self.from == *to && self.to == *from)
    }
}

fn edges(document: Fields<'_>, nodes: &[NodeOf], notes: &mut Notes) -> Vec<EdgeOf> {
    let mut ways: Vec<Way> = Vec::new();
    let mut edges = Vec::new();
    for item in items(document, "edges", MAX_EDGES, notes) {
        let Some(fields) = Fields::of(item, "an edge", &EDGE, &[], notes) else { continue };
        let (from, to) = (end(fields, "from", nodes, notes), end(fields, "to", nodes, notes));
        let edge_type = fields.word("type", &TYPES, notes);
        let label = label(fields, notes);
        let wanted = fields.get("bidirectional").map(|_| fields.flag("bidirectional", notes));
        let (Some(from), Some(to)) = (from, to) else { continue };
        if from.alias == to.alias {
            notes.fault(item.at, "an edge joins two different nodes", "write another node, or remove it");
            continue;
        }
        let both = is_bidirectional(&from.role, &to.role, wanted);
        if wanted == Some(true) && !both {
            let what = "an edge from or to an orchestrator has one direction";
            notes.fault(fields.place("bidirectional"), what, "write a second edge for the other one");
        }
        let way = Way { line: item.at.line, from: from.alias.clone(), to: to.alias.clone(), both };
        let twice = |other: &&Way| other.permits(&way.from, &way.to) || way.permits(&other.from, &other.to);
        if let Some(other) = ways.iter().find(twice) {
            let what = format!("{} and {} have an edge this way in line {}", way.from, way.to, other.line);
            notes.fault(item.at, what, "remove one, or write `bidirectional: false` into both");
        }
        ways.push(way);
        edges.push(EdgeOf {
            at: item.at,
            from: from.alias.clone(),
            to: to.alias.clone(),
            edge_type,
            label,
            bidirectional: wanted,
        });
    }
    edges
}

/// The node at an end of an edge.
fn end<'n>(fields: Fields<'_>, name: &str, nodes: &'n [NodeOf], notes: &mut Notes) -> Option<&'n NodeOf> {
    let Words { at, text } = fields.needed(name, "an edge", notes)?;
    let found = nodes.iter().find(|node| node.alias.as_str() == text);
    if found.is_none() {
        unknown(at, text, nodes, notes);
    }
    found
}

fn unknown(at: Place, text: &str, nodes: &[NodeOf], notes: &mut Notes) {
    let advice = choose(text, nodes.iter().map(|node| node.alias.as_str()));
    let shown: String = text.chars().take(64).collect();
    notes.fault(at, format!("there is no node {shown:?}"), advice);
}

#[cfg(test)]
mod tests;
