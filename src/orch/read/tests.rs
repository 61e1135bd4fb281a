//! Graph files: what is taken, and each fault with its place and what to write instead.

use serde_json::Value;

use super::*;
use crate::flow::schema::tests::{data, fits};
use crate::model::decide::{Command, EdgeSpec, NodeSpec, begin};
use crate::model::node::Permissions;
use crate::model::run::RunKind;
use crate::model::tests::{new_run, op};
use crate::orch::schema;

const TEAM: &str = "\
label: A team
mode: AUTO
global_mode: PLANNING
done_when: validator:tests
limits: { turns: 40, wall_seconds: 2h, cost_usd: 2.5, tokens: 100000, nodes: 8, depth: 1 }
reserve_role: true
nodes:
  - alias: lead
    role: orchestrator
    provider: claude
    prompt: Make it.
  - label: Ada L.
    role: implementer
    provider: claude
    model: small
    permissions: skip
    edge_management: self
    capabilities: { write_docs: false }
    limits: { turns: 5 }
  - alias: rex
    role: reviewer
    provider: codex
edges:
  - from: lead
    to: ada-l
  - from: ada-l
    to: lead
    type: report
    label: what came of it
  - { from: ada-l, to: rex, bidirectional: false }
  - { from: rex, to: ada-l, bidirectional: false }
";

fn notes(text: &str) -> Vec<String> {
    check(text.as_bytes()).notes.iter().map(ToString::to_string).collect()
}

/// CONTRACT 22.31
#[test]
fn a_graph_is_read_whole() {
    let graph = check(TEAM.as_bytes()).graph.expect("no fault");
    assert_eq!((graph.label.as_deref(), graph.mode), (Some("A team"), Some(Mode::Auto)));
    assert_eq!(graph.global_mode, Some(GlobalMode::Planning));
    assert_eq!(graph.done_when.as_deref(), Some("validator:tests"));
    assert!(graph.reserve_role);
    let limits = Limits {
        turns: Some(40),
        wall_seconds: Some(7_200),
        cost_usd: Some(2.5),
        tokens: Some(100_000),
        nodes: Some(8),
        depth: Some(1),
    };
    assert_eq!(graph.limits, limits);
    let [lead, ada, rex] = graph.nodes.as_slice() else { panic!("three nodes") };
    assert_eq!((lead.alias.as_str(), lead.prompt.as_deref()), ("lead", Some("Make it.")));
    assert_eq!(lead.capabilities, Capabilities::of_role("orchestrator"));
    assert_eq!((ada.alias.as_str(), ada.label.as_str()), ("ada-l", "Ada L."));
    assert_eq!((ada.permissions, ada.model.as_deref()), (Some(CliPermissions::Skip), Some("small")));
    let wanted = Capabilities {
        edge_management: EdgeManagement::Own,
        write_docs: false,
        ..Capabilities::of_role("implementer")
    };
    assert_eq!((ada.capabilities, ada.limits.turns), (wanted, Some(5)));
    assert_eq!((rex.capabilities.write_code, rex.permissions), (false, None));
    let edges: Vec<_> = graph.edges.iter().map(|edge| (edge.from.as_str(), edge.to.as_str())).collect();
    assert_eq!(edges, [("lead", "ada-l"), ("ada-l", "lead"), ("ada-l", "rex"), ("rex", "ada-l")]);
    assert_eq!(graph.edges[1].edge_type, Some(EdgeType::Report));
    assert!(notes("nodes: [{alias: a, role: x, provider: p}]").is_empty());
    assert_eq!(check(b"nodes: []").graph.expect("no nodes").nodes, []);
}

/// CONTRACT 22.31
#[test]
fn what_has_no_fault_is_taken_by_the_rules() {
    let graph = check(TEAM.as_bytes()).graph.expect("no fault");
    let mut commands: Vec<Command> = Vec::new();
    for node in &graph.nodes {
        commands.push(Command::AddNode(Box::new(NodeSpec {
            alias: Some(node.alias.clone()),
            label: node.label.clone(),
            role_template: node.role.clone(),
            role_text: None,
            provider: node.provider.clone(),
            model: node.model.clone(),
            capabilities: Some(node.capabilities),
            permissions: node
                .permissions
                .map(|mode| Permissions { cli_permissions_mode: mode, ..Permissions::default() }),
            limits: node.limits,
            reserve_role: false,
        })));
    }
    let new = new_run(5, RunKind::Graph);
    let state = begin(&new, &commands, &op(1)).expect("nodes").state;
    let id = |alias: &Alias| state.node_named(alias).expect("a node").id;
    for edge in &graph.edges {
        commands.push(Command::AddEdge(EdgeSpec {
            id: None,
            from: id(&edge.from),
            to: id(&edge.to),
            edge_type: edge.edge_type,
            label: edge.label.clone(),
            bidirectional: edge.bidirectional,
        }));
    }
    let state = begin(&new, &commands, &op(1)).expect("edges").state;
    assert_eq!((state.nodes.len(), state.edges.len()), (3, 4));
}

/// CONTRACT 22.31
#[test]
fn all_faults_are_reported_at_once_with_what_to_write() {
    let text = "\
labl: x
mode: MANUAL
done_when: 'validator:'
limits: { turns: 0, steps: 3 }
nodes:
  - role: x
    provider: p
  - alias: Ada
    role: a b
    provider: P_
    permissions: yolo
    capabilities: { writeCode: true }
    prompt: ''
  - { alias: a, role: reviewer, provider: p }
  - { alias: a, role: reviewer, provider: p }
  - { alias: o, role: orchestrator, provider: p }
edges:
  - { from: a, to: b }
  - { from: a, to: a }
  - { from: o, to: a, bidirectional: true }
  - { from: o, to: a }
  - { from: a, typ: report }
";
    let wanted = [
        "1:1: fault: `labl` is no field of a graph; did you mean label?",
        "2:7: fault: MANUAL is no value of `mode`; write one of: INTERACTIVE, AUTO",
        "3:12: fault: `done_when`: this is no name of a validator; write validator:NAME, or what has to be true at the end",
        "4:18: fault: this is no value of `turns`; write a whole number, 1 or more",
        "4:21: fault: `steps` is no field of `limits`; write one of: turns, wall_seconds, cost_usd, tokens, nodes, depth",
        "6:5: fault: this node has no `alias`; add `alias:`",
        "8:12: fault: \"Ada\" is not a legal alias: only lower-case letters, digits and dashes are allowed; write lower-case letters, digits and dashes, at most 32",
        "9:11: fault: \"a b\" is no role; write letters, digits, - and _, at most 64",
        "10:15: fault: \"P_\" is not a legal provider name: only lower-case letters, digits and dashes are allowed; write a name of `aynig provider list`",
        "11:18: fault: yolo is no value of `permissions`; write one of: gated, skip",
        "12:21: fault: `writeCode` is no field of `capabilities`; did you mean write_code?",
        "13:13: fault: this is no message; write 1 to 65536 bytes, or leave it out and use `aynig orch chat`",
        "15:5: fault: the node in line 14 has the alias a, too; write another `alias`",
        "18:20: fault: there is no node \"b\"; write one of: a, o",
        "19:5: fault: an edge joins two different nodes; write another node, or remove it",
        "20:23: fault: an edge from or to an orchestrator has one direction; write a second edge for the other one",
        "21:5: fault: o and a have an edge this way in line 20; remove one, or write `bidirectional: false` into both",
        "22:5: fault: an edge has no `to`; add `to:`",
        "22:16: fault: `typ` is no field of an edge; did you mean type?",
    ];
    let found = notes(text);
    for (found, wanted) in found.iter().zip(wanted) {
        assert_eq!(found, wanted);
    }
    assert_eq!(found.len(), wanted.len(), "{found:#?}");
    assert!(check(text.as_bytes()).graph.is_none());
}

/// CONTRACT 22.31
#[test]
fn other_files_are_no_graphs() {
    for (text, start) in [
        ("", "1:1: fault: the file is empty; write a graph; `aynig orch schema` describes its fields"),
        ("a: &x 1", "1:4: fault: a graph file has no anchors"),
        (
            "workflow_id: x\nsteps: []",
            "1:1: fault: this is a flow, and no graph; start it with `aynig flow start",
        ),
        ("label: x", "1:1: fault: the graph has no `nodes`; add `nodes:`"),
        ("nodes: a", "1:8: fault: `nodes` is text, and not a list"),
        (
            "limits: {nodes: 1}\nnodes: [{alias: a, role: x, provider: p}, {alias: b, role: x, provider: p}]",
            "2:43: fault: `nodes` has more than 1 entries; leave some out, or set `nodes` of `limits`",
        ),
        (
            "mode: AUTO\nnodes: [{alias: a, role: x, provider: p}]",
            "1:1: warning: in mode AUTO the orchestrator",
        ),
    ] {
        let found = notes(text);
        assert!(found.iter().any(|note| note.starts_with(start)), "{text}: {found:#?}");
    }
}

/// CONTRACT 22.31
#[test]
fn the_schema_has_the_fields_that_are_read() {
    let schema: Value = serde_json::from_str(&schema::text()).expect("JSON");
    let names = |pointer: &str| -> Vec<String> {
        let found = schema.pointer(pointer).and_then(Value::as_object);
        let mut names: Vec<String> = found.unwrap_or_else(|| panic!("{pointer}")).keys().cloned().collect();
        names.sort();
        names
    };
    let node = "/properties/nodes/items/properties";
    for (pointer, fields) in [
        ("/properties".to_owned(), &DOCUMENT[..]),
        ("/properties/limits/properties".to_owned(), &RUN_LIMITS),
        (node.to_owned(), &NODE),
        (format!("{node}/limits/properties"), &NODE_LIMITS),
        (format!("{node}/capabilities/properties"), &CAPABILITIES),
        ("/properties/edges/items/properties".to_owned(), &EDGE),
    ] {
        let mut fields = fields.to_vec();
        fields.sort_unstable();
        assert_eq!(names(&pointer), fields, "{pointer}");
    }
    assert!(fits(&schema, &schema, &data(TEAM)));
    for wrong in [
        "nodes: [{role: x, provider: p}]",
        "nodes: [{alias: A, role: x, provider: p}]",
        "nodes: [{alias: a, provider: p}]",
        "nodes: [{alias: a, role: x, provider: p, prompt: ' '}]",
        "nodes: []\nlimits: {turns: 0}",
        "nodes: []\nedges: [{from: a}]",
        "nodes: []\nmode: auto",
        "edges: []",
    ] {
        assert!(!fits(&schema, &schema, &data(wrong)), "{wrong}");
        assert!(check(wrong.as_bytes()).graph.is_none(), "{wrong}");
    }
}
