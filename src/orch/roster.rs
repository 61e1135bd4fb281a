//! The roster of a run: its nodes and edges, as a node or a person sees them.
//!
//! Invariant: it follows from the ledger, and from the acts that a live turn has staged.

use serde::Serialize;

use super::hand::{is_report, may_send};
use crate::model::edge::EdgeType;
use crate::model::ids::{Alias, EdgeId, NodeId, ProviderName, RunId, Slug, TurnId};
use crate::model::message::Item;
use crate::model::node::{Capabilities, Hold, NodeStatus, Permissions};
use crate::model::run::{GlobalMode, Mode, RunStatus};
use crate::model::state::State;

/// A run, its nodes and edges.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Roster {
    /// Its id.
    pub run_id: RunId,
    /// Its short name.
    pub slug: Slug,
    /// A text for people.
    pub label: String,
    /// Its status.
    pub status: RunStatus,
    /// AUTO or INTERACTIVE.
    pub mode: Mode,
    /// PLANNING or IMPLEMENTATION.
    pub global_mode: GlobalMode,
    /// The node that asks. `None`: a person does.
    pub own: Option<Own>,
    /// The nodes, in the order of their creation.
    pub nodes: Vec<Row>,
    /// The edges.
    pub edges: Vec<Way>,
}

/// The node that asks.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Own {
    /// Its alias.
    pub alias: Alias,
    /// Its turn.
    pub turn_id: TurnId,
    /// What it may do.
    pub capabilities: Capabilities,
    /// Whether it has to ask.
    pub permissions: Permissions,
    /// The providers that it may give to a new node.
    pub providers: Vec<ProviderName>,
}

/// A node.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// Its short name.
    pub alias: Alias,
    /// A text for people.
    pub label: String,
    /// Its role.
    pub role: String,
    /// Its provider.
    pub provider: Option<ProviderName>,
    /// Its status.
    pub status: NodeStatus,
    /// Why it begins no turn.
    pub hold: Option<Hold>,
    /// The number of its unread items.
    pub unread: u64,
    /// Those of them that the node which asks has sent.
    pub unread_of_own: usize,
    /// What the node which asks may hand to it: `handoff` or `report`. `None`: nothing.
    pub takes: Option<EdgeType>,
    /// What it may hand to the node which asks.
    pub gives: Option<EdgeType>,
    /// Whether the turn which asks has staged it.
    pub staged: bool,
}

/// An edge.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Way {
    /// Its id. `None`: the turn which asks has staged it.
    pub id: Option<EdgeId>,
    /// The alias of the sender.
    pub from: Alias,
    /// The alias of the receiver.
    pub to: Alias,
    /// Its type.
    #[serde(rename = "type")]
    pub edge_type: EdgeType,
    /// Its label.
    pub label: String,
    /// Whether both may send.
    pub bidirectional: bool,
}

impl Roster {
    /// The roster for a node in a turn, or for a person. `known` is the state of the ledger, `state` the same after what the
    /// turn has staged.
    #[must_use]
    pub fn of(known: &State, state: &State, own: Option<(NodeId, TurnId)>) -> Self {
        let run = &state.run;
        let mut nodes: Vec<_> = state.nodes.values().collect();
        nodes.sort_by_key(|node| node.number);
        let own_id = own.map(|(id, _)| id);
        let way = |from: NodeId, to: NodeId| {
            let leads = from != to && may_send(state, from, to);
            leads.then(|| if is_report(state, from, to) { EdgeType::Report } else { EdgeType::Handoff })
        };
        let row = |node: &&crate::model::node::Node| Row {
            alias: node.alias.clone(),
            label: node.label.clone(),
            role: node.role_template.clone(),
            provider: state.configs.get(&node.id).map(|config| config.provider_name.clone()),
            status: node.status,
            hold: node.hold,
            unread: node.inbox_count,
            unread_of_own: own_id.map_or(0, |own| unread_of(state, own, node.id)),
            takes: own_id.and_then(|own| way(own, node.id)),
            gives: own_id.and_then(|own| way(node.id, own)),
            staged: !known.nodes.contains_key(&node.id),
        };
        let alias = |id: NodeId| state.nodes.get(&id).map(|node| node.alias.clone());
        let edges = state.edges.values().filter_map(|edge| {
            Some(Way {
                id: known.edges.contains_key(&edge.id).then_some(edge.id),
                from: alias(edge.from)?,
                to: alias(edge.to)?,
                edge_type: edge.edge_type,
                label: edge.label.clone(),
                bidirectional: edge.bidirectional,
            })
        });
        let own = own.and_then(|(id, turn_id)| {
            let node = state.nodes.get(&id)?;
            let mut providers: Vec<_> =
                state.configs.values().map(|config| config.provider_name.clone()).collect();
            providers.sort();
            providers.dedup();
            let (capabilities, permissions) = (node.capabilities, node.permissions);
            Some(Own { alias: node.alias.clone(), turn_id, capabilities, permissions, providers })
        });
        Self {
            run_id: run.id,
            slug: run.slug.clone(),
            label: run.label.clone(),
            status: run.status,
            mode: run.mode,
            global_mode: run.global_mode,
            own,
            nodes: nodes.iter().map(row).collect(),
            edges: edges.collect(),
        }
    }
}

/// The unread hand-offs from one node to another one.
fn unread_of(state: &State, from: NodeId, to: NodeId) -> usize {
    let inbox = state.inbox(to).into_iter();
    inbox.filter(|item| matches!(&item.item, Item::Handoff(one) if one.from_node_id == from)).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::Bench;

    /// CONTRACT 22.14
    #[test]
    fn a_roster_says_what_goes_where() {
        let mut bench = Bench::new();
        let top = bench.node("top", "orchestrator");
        let known = bench.state.clone();
        let kid = bench.node("kid", "implementer");
        bench.edge(top, kid).unwrap();
        bench.edge(kid, top).unwrap();
        let turn = TurnId::from(uuid::Uuid::from_u128(7));
        let roster = Roster::of(&known, &bench.state, Some((top, turn)));
        let aliases: Vec<&str> = roster.nodes.iter().map(|row| row.alias.as_str()).collect();
        assert_eq!(aliases, ["top", "kid"]);
        let row = &roster.nodes[1];
        assert_eq!(
            (row.takes, row.gives, row.staged),
            (Some(EdgeType::Handoff), Some(EdgeType::Report), true)
        );
        assert_eq!((roster.nodes[0].takes, roster.nodes[0].staged), (None, false));
        assert!(roster.edges.iter().all(|way| way.id.is_none()));
        let person = Roster::of(&bench.state, &bench.state, None);
        assert!(person.own.is_none() && person.nodes.iter().all(|row| row.takes.is_none() && !row.staged));
        assert!(person.edges.iter().all(|way| way.id.is_some()));
    }
}
