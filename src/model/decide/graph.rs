//! Nodes and edges.
//!
//! Invariant: a node gives another no more than it has, and an edge of a node's making touches only what its
//! `edgeManagement` covers.

use std::collections::{BTreeMap, BTreeSet};

use super::answers::{close, revoke_all};
use super::draft::{Draft, check_text};
use super::refusal::MAX_MODEL;
use super::runs::{MAX_LABEL, check_not_ended, touch};
use super::waits;
use super::{EdgeSpec, NodeEdit, NodeSpec, Refusal};
use crate::model::approval::{Answer, Resolution};
use crate::model::edge::{Edge, EdgeType, defaults, is_bidirectional};
use crate::model::event::{
    Body, Configs, Configured, EdgeCreated, EdgeDeleted, NodeCreated, NodePatched, Plain,
};
use crate::model::ids::{Alias, EdgeId, NodeId, ProviderName};
use crate::model::node::{
    Capabilities, EdgeManagement, Node, NodeConfig, NodePatch, NodeStatus, Permissions, Provider, Session,
};
use crate::model::run::{Limits, Usage};
use crate::model::trace::Spent;

/// The longest name of a role, in bytes.
const MAX_ROLE: usize = 64;

pub(super) fn add_node(draft: &mut Draft<'_>, spec: &NodeSpec) -> Result<(), Refusal> {
    check_not_ended(draft)?;
    check_text("the label", &spec.label, MAX_LABEL)?;
    check_text("the role", &spec.role_template, MAX_ROLE)?;
    let parent = draft.op.by.node().map(|node| draft.node(node).cloned()).transpose()?;
    check_model(spec.model.as_deref())?;
    if parent.is_some() {
        check_provider(draft, &spec.provider)?;
    }
    let (capabilities, permissions) = grants(spec, parent.as_ref())?;
    let limits = draft.state.run.limits;
    let depth = parent.as_ref().map_or(0, |parent| parent.depth + 1);
    let (nodes, levels) = (limits.nodes.unwrap_or(Limits::NODES), limits.depth.unwrap_or(Limits::DEPTH));
    if u64::try_from(draft.state.nodes.len()).unwrap_or(u64::MAX) >= nodes {
        return Err(Refusal::Limit { what: "nodes", bound: nodes });
    }
    if depth > levels {
        return Err(Refusal::Limit { what: "levels of nodes that make nodes", bound: levels });
    }
    let alias = alias(draft, spec)?;
    let id: NodeId = draft.id("node");
    let provider = Provider::of(&spec.provider);
    let session = Session::default();
    let config = NodeConfig {
        label: spec.label.clone(),
        alias: alias.clone(),
        provider,
        provider_name: spec.provider.clone(),
        model: spec.model.clone(),
        role_template: spec.role_template.clone(),
        custom_system_prompt: spec.role_text.clone(),
        capabilities,
        permissions,
        reset_commands: session.reset_commands.clone(),
        reserve_role: spec.reserve_role
            || draft.state.run.reserve_role
            || by_reserved(draft, parent.as_ref()),
    };
    let node = Node {
        id,
        run_id: draft.state.run.id,
        alias,
        number: draft.state.run.counts.nodes + 1,
        depth,
        waits: BTreeMap::new(),
        label: spec.label.clone(),
        role_template: spec.role_template.clone(),
        provider,
        status: NodeStatus::Idle,
        summary: String::new(),
        last_activity_at: draft.op.at,
        capabilities,
        permissions,
        session,
        usage: Usage::default(),
        inbox_count: 0,
        limits: spec.limits,
        spent: Spent::default(),
        traces: Vec::new(),
        turn: None,
        waiting_for: None,
        hold: None,
    };
    draft.push_for(id, Body::NodeCreated(NodeCreated { patch: Box::new(node) }))?;
    let patch = Configs { node_configs: std::iter::once((id, config)).collect() };
    draft.push(Body::Configured(Configured { patch }))?;
    if let Some(parent) = parent {
        join_to_parent(draft, parent.id, id)?;
    }
    touch(draft)
}

/// Whether the node that makes another one is reserved to its role.
fn by_reserved(draft: &Draft<'_>, parent: Option<&Node>) -> bool {
    parent.and_then(|parent| draft.state.configs.get(&parent.id)).is_some_and(|config| config.reserve_role)
}

/// A node that a node made gets a way from and to it.
fn join_to_parent(draft: &mut Draft<'_>, parent: NodeId, child: NodeId) -> Result<(), Refusal> {
    for (from, to) in [(parent, child), (child, parent)] {
        if draft.state.edges.values().any(|edge| edge.permits(from, to)) {
            continue;
        }
        let spec = EdgeSpec { id: None, from, to, edge_type: None, label: None, bidirectional: None };
        let edge = edge(draft, &spec)?;
        draft.push(Body::EdgeCreated(EdgeCreated { edge }))?;
    }
    Ok(())
}

/// What the new node may do. A person gives what they want, a node no more than it has.
fn grants(spec: &NodeSpec, parent: Option<&Node>) -> Result<(Capabilities, Permissions), Refusal> {
    let by_role = Capabilities::of_role(&spec.role_template);
    let Some(parent) = parent else {
        return Ok((spec.capabilities.unwrap_or(by_role), spec.permissions.unwrap_or_default()));
    };
    if parent.capabilities.edge_management != EdgeManagement::All {
        return Err(Refusal::NotAllowed { node: parent.alias.clone(), what: "make nodes" });
    }
    let more = |what| Refusal::MoreThanItsOwn { node: parent.alias.clone(), what };
    let own = parent.capabilities;
    let within_own = Capabilities {
        edge_management: by_role.edge_management.min(own.edge_management),
        write_code: by_role.write_code && own.write_code,
        write_docs: by_role.write_docs && own.write_docs,
        run_commands: by_role.run_commands && own.run_commands,
        delegate_only: by_role.delegate_only || own.delegate_only,
    };
    let capabilities = spec.capabilities.unwrap_or(within_own);
    let permissions = spec.permissions.unwrap_or(parent.permissions);
    if !capabilities.within(&own) {
        return Err(more("capabilities"));
    }
    if !permissions.within(&parent.permissions) {
        return Err(more("permissions"));
    }
    if !spec.limits.within(&parent.limits) {
        return Err(more("limits"));
    }
    Ok((capabilities, permissions))
}

/// A node gives another one no program that no person has given a node of this run.
fn check_provider(draft: &Draft<'_>, provider: &ProviderName) -> Result<(), Refusal> {
    let known = draft.state.configs.values().map(|config| config.provider_name.clone());
    let known: BTreeSet<ProviderName> = known.collect();
    if known.contains(provider) {
        return Ok(());
    }
    Err(Refusal::OtherProvider { provider: provider.clone(), known: known.into_iter().collect() })
}

/// A model is an argument of the provider's program, so it must not look like an option.
fn check_model(model: Option<&str>) -> Result<(), Refusal> {
    let is_legal = |model: &str| {
        (1..=MAX_MODEL).contains(&model.len())
            && !model.starts_with('-')
            && !model.chars().any(char::is_control)
    };
    match model.filter(|model| !is_legal(model)) {
        Some(model) => Err(Refusal::BadModel(model.chars().take(MAX_MODEL).collect())),
        None => Ok(()),
    }
}

fn alias(draft: &Draft<'_>, spec: &NodeSpec) -> Result<Alias, Refusal> {
    match &spec.alias {
        Some(alias) if draft.state.is_taken(alias) => Err(Refusal::AliasTaken(alias.clone())),
        Some(alias) => Ok(alias.clone()),
        None => {
            let first = Alias::from_label(&spec.label).ok_or_else(|| Refusal::NoAlias(spec.label.clone()))?;
            let mut alias = first.clone();
            let mut number = 2;
            while draft.state.is_taken(&alias) {
                alias = first.numbered(number);
                number += 1;
            }
            Ok(alias)
        }
    }
}

pub(super) fn set_node(draft: &mut Draft<'_>, id: NodeId, edit: &NodeEdit) -> Result<(), Refusal> {
    if let Some(by) = draft.op.by.node() {
        // A node reports its own status. What it may do, people decide.
        let rights = edit.capabilities.is_some() || edit.permissions.is_some() || edit.limits.is_some();
        let program = edit.role.is_some() || edit.provider.is_some() || edit.model.is_some();
        if by != id || rights || program || edit.label.is_some() {
            return Err(Refusal::PersonsOnly("change a node"));
        }
    }
    if let Some(label) = &edit.label {
        check_text("the label", label, MAX_LABEL)?;
    }
    if let Some((role, _)) = &edit.role {
        check_text("the role", role, MAX_ROLE)?;
        // The commands of its driver are those of this role.
        let reserved = draft.state.reserved_role(id).filter(|reserved| reserved != role);
        if let Some(reserved) = reserved.map(str::to_owned) {
            return Err(Refusal::Reserved { alias: draft.node(id)?.alias.clone(), role: reserved });
        }
    }
    check_model(edit.model.as_ref().and_then(Option::as_deref))?;
    let patch = draft.node(id)?.difference(NodePatch {
        label: edit.label.clone(),
        role_template: edit.role.as_ref().map(|(role, _)| role.clone()),
        provider: edit.provider.as_ref().map(Provider::of),
        capabilities: edit.capabilities,
        permissions: edit.permissions,
        limits: edit.limits,
        status: edit.status,
        summary: edit.summary.clone(),
        ..NodePatch::default()
    });
    let known = draft.state.configs.get(&id);
    let before = known.map(|known| known.provider_name.clone());
    let config = known.map(|known| configured(known, edit)).filter(|config| Some(config) != known);
    if patch != NodePatch::default() {
        let patch = NodePatch { last_activity_at: Some(draft.op.at), ..patch };
        draft.push_for(id, Body::NodePatched(NodePatched { patch }))?;
        waits::has_failed(draft, id)?;
    } else if config.is_none() {
        return Ok(());
    }
    if edit.provider.as_ref().is_some_and(|provider| Some(provider) != before.as_ref()) {
        // Another program may mean something else by the name of a tool.
        revoke_all(draft, id)?;
    }
    if let Some(config) = config {
        let patch = Configs { node_configs: std::iter::once((id, config)).collect() };
        draft.push(Body::Configured(Configured { patch }))?;
    }
    touch(draft)
}

/// The configuration after a change.
fn configured(known: &NodeConfig, edit: &NodeEdit) -> NodeConfig {
    let mut config = known.clone();
    if let Some(label) = &edit.label {
        config.label.clone_from(label);
    }
    if let Some((role, text)) = &edit.role {
        config.role_template.clone_from(role);
        config.custom_system_prompt.clone_from(text);
    }
    if let Some(provider) = &edit.provider {
        config.provider = Provider::of(provider);
        config.provider_name = provider.clone();
    }
    if let Some(model) = &edit.model {
        config.model.clone_from(model);
    }
    config.capabilities = edit.capabilities.unwrap_or(config.capabilities);
    config.permissions = edit.permissions.unwrap_or(config.permissions);
    config
}

pub(super) fn remove_node(draft: &mut Draft<'_>, id: NodeId) -> Result<(), Refusal> {
    draft.persons_only("remove a node")?;
    draft.node(id)?;
    let edges: Vec<EdgeId> = draft
        .state
        .edges
        .values()
        .filter(|edge| edge.from == id || edge.to == id)
        .map(|edge| edge.id)
        .collect();
    for edge_id in edges {
        draft.push(Body::EdgeDeleted(EdgeDeleted { edge_id }))?;
    }
    let reason = Some("the node was removed".to_owned());
    close(draft, id, &Resolution { status: Answer::Denied, modified_args: None, reason })?;
    waits::goes(draft, id)?;
    draft.push_for(id, Body::NodeDeleted(Plain {}))?;
    touch(draft)
}

pub(super) fn add_edge(draft: &mut Draft<'_>, spec: &EdgeSpec) -> Result<(), Refusal> {
    check_not_ended(draft)?;
    check_edge_management(draft, [spec.from, spec.to], "make this edge")?;
    let edge = edge(draft, spec)?;
    draft.push(Body::EdgeCreated(EdgeCreated { edge }))?;
    touch(draft)
}

/// The edge that a spec asks for, if it is allowed.
fn edge(draft: &mut Draft<'_>, spec: &EdgeSpec) -> Result<Edge, Refusal> {
    if spec.from == spec.to {
        return Err(Refusal::SelfLoop);
    }
    let (from, to) = (draft.node(spec.from)?, draft.node(spec.to)?);
    let (edge_type, label, _) = defaults(&from.role_template, &to.role_template);
    let bidirectional = is_bidirectional(&from.role_template, &to.role_template, spec.bidirectional);
    let label = match (spec.label.as_deref().filter(|label| !label.is_empty()), spec.edge_type) {
        (Some(own), _) => own,
        (None, Some(EdgeType::Report)) => "report",
        (None, Some(EdgeType::Handoff)) => "task",
        (None, None) => label,
    };
    check_text("the label", label, MAX_LABEL)?;
    let edge = Edge {
        id: match spec.id {
            Some(id) => id,
            None => draft.id("edge"),
        },
        from: spec.from,
        to: spec.to,
        bidirectional,
        edge_type: spec.edge_type.unwrap_or(edge_type),
        label: label.to_owned(),
    };
    match draft.state.edges.values().find(|other| other.id == edge.id || other.overlaps(&edge)) {
        Some(other) => Err(Refusal::EdgeExists(other.id)),
        None => Ok(edge),
    }
}

pub(super) fn remove_edge(draft: &mut Draft<'_>, edge_id: EdgeId) -> Result<(), Refusal> {
    let edge = draft.state.edges.get(&edge_id).ok_or(Refusal::NoEdge(edge_id))?;
    check_edge_management(draft, [edge.from, edge.to], "remove this edge")?;
    draft.push(Body::EdgeDeleted(EdgeDeleted { edge_id }))?;
    waits::is_cut_off(draft)?;
    touch(draft)
}

/// Whether the caller may change an edge between these nodes. A person may.
fn check_edge_management(draft: &Draft<'_>, ends: [NodeId; 2], what: &'static str) -> Result<(), Refusal> {
    let Some(by) = draft.op.by.node() else { return Ok(()) };
    let node = draft.node(by)?;
    let allowed = match node.capabilities.edge_management {
        EdgeManagement::None => false,
        EdgeManagement::Own => ends.contains(&by),
        EdgeManagement::All => true,
    };
    if allowed { Ok(()) } else { Err(Refusal::NotAllowed { node: node.alias.clone(), what }) }
}
