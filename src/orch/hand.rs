//! The hand of an agent: the commands that a node may use in its turn.
//!
//! Invariant: it follows from the ledger alone, and names nothing that the node would be refused by its rights.

use std::fmt::Write as _;

use crate::model::edge::EdgeType;
use crate::model::ids::NodeId;
use crate::model::node::{EdgeManagement, Node, ORCHESTRATOR};
use crate::model::state::State;

/// A command of the hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Hands work on.
    Handoff,
    /// Makes a node.
    Spawn,
    /// Makes an edge: any, or with `own` one from or to itself.
    Edge {
        /// Whether the node has to be at one of its ends.
        own: bool,
    },
    /// Keeps a file.
    Artifact,
    /// Shows the run.
    Roster,
    /// Ends the run.
    Done,
}

impl Verb {
    /// The name of the tool that does the same.
    #[must_use]
    pub fn tool(self) -> &'static str {
        match self {
            Self::Handoff => "handoff",
            Self::Spawn => "spawn",
            Self::Edge { .. } => "edge_add",
            Self::Artifact => "artifact_add",
            Self::Roster => "roster",
            Self::Done => "done",
        }
    }
}

/// The commands that a node may use.
#[must_use]
pub fn verbs(state: &State, node: &Node) -> Vec<Verb> {
    let manages = node.capabilities.edge_management;
    let reaches = state.nodes.keys().any(|other| may_send(state, node.id, *other));
    let all = [
        (reaches || manages != EdgeManagement::None).then_some(Verb::Handoff),
        (manages == EdgeManagement::All).then_some(Verb::Spawn),
        (manages != EdgeManagement::None).then_some(Verb::Edge { own: manages == EdgeManagement::Own }),
        Some(Verb::Artifact),
        Some(Verb::Roster),
        ends(state, node).then_some(Verb::Done),
    ];
    all.into_iter().flatten().collect()
}

/// Whether a node is told how to end the run: it may, and it is an orchestrator or knows when the run is done.
#[must_use]
pub fn ends(state: &State, node: &Node) -> bool {
    state.may_end(node) && (node.role_template == ORCHESTRATOR || state.run.done_when.is_some())
}

/// Whether a node may hand work to another one.
#[must_use]
pub fn may_send(state: &State, from: NodeId, to: NodeId) -> bool {
    state.edges.values().any(|edge| edge.permits(from, to))
}

/// Whether what a node hands to another one is a report.
#[must_use]
pub fn is_report(state: &State, from: NodeId, to: NodeId) -> bool {
    let way = state.edges.values().find(|edge| edge.permits(from, to));
    way.is_some_and(|edge| edge.edge_type == EdgeType::Report)
}

/// The commands of a node, for its prompt.
#[must_use]
pub fn described(state: &State, node: &Node) -> String {
    let asks = if node.permissions.agent_management_requires_approval {
        "; a person is asked first, and the command waits for the answer"
    } else {
        ""
    };
    let mut text = "Commands for your turn. What they do takes effect when it has ended well:\n".to_owned();
    for verb in verbs(state, node) {
        let (usage, purpose) = match verb {
            Verb::Handoff => (
                "handoff --to ALIAS --message 'TEXT' [--expect none|optional|required] [--reply-to ID] \
                 [--structured 'JSON OBJECT'] [--artifact ID]... [--status ok|failed:REASON]",
                "hand work on".to_owned(),
            ),
            Verb::Spawn => (
                "spawn ALIAS --role ROLE --provider NAME [--label 'TEXT'] [--model MODEL] \
                 [--permissions skip|gated] [--message 'TEXT']",
                format!("make another agent, which you can name at once{asks}"),
            ),
            Verb::Edge { own } => {
                let ends = if own { ", one of which is you" } else { "" };
                ("edge add FROM TO", format!("let one agent hand work to another one{ends}{asks}"))
            }
            Verb::Artifact => (
                "artifact add FILE [--kind report|diff|log] [--name NAME]",
                "keep a file with the run; prints an ID for --artifact".to_owned(),
            ),
            Verb::Roster => ("roster", "show the agents of the run, and the ways between them".to_owned()),
            Verb::Done => {
                ("done [--message 'TEXT']", "end the run when it is done, as your last command".to_owned())
            }
        };
        let _infallible = writeln!(text, "\"$AYNIG_BIN\" orch {usage}\n    {purpose}");
    }
    let tools: Vec<&str> = verbs(state, node).into_iter().map(Verb::tool).collect();
    text + &format!("If you have tools of a server aynig, use these instead: {}.\n", tools.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::Bench;

    /// CONTRACT 22.14
    #[test]
    fn a_prompt_names_the_commands_that_a_node_may_use() {
        let mut bench = Bench::new();
        let (top, one, two) = (
            bench.node("top", "orchestrator"),
            bench.node("one", "implementer"),
            bench.node("two", "reviewer"),
        );
        let named = |bench: &Bench, id| {
            let text = described(&bench.state, &bench.state.nodes[&id]);
            ["handoff", "spawn", "edge add", "artifact add", "roster", "done"]
                .into_iter()
                .filter(|verb| text.contains(&format!("orch {verb}")))
                .collect::<Vec<_>>()
        };
        assert_eq!(named(&bench, top), ["handoff", "spawn", "edge add", "artifact add", "roster", "done"]);
        assert_eq!(named(&bench, one), ["artifact add", "roster"]);
        bench.edge(one, two).unwrap();
        assert_eq!(named(&bench, one), ["handoff", "artifact add", "roster"]);
        let node = bench.state.nodes.get_mut(&two).unwrap();
        node.capabilities.edge_management = EdgeManagement::Own;
        node.permissions.agent_management_requires_approval = false;
        assert_eq!(named(&bench, two), ["handoff", "edge add", "artifact add", "roster"]);
        let text = |id| described(&bench.state, &bench.state.nodes[&id]);
        assert!(text(two).contains("one of which is you") && !text(two).contains("a person"));
        assert!(text(top).contains("a person is asked first"));
    }
}
