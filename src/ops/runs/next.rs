//! The lines to type for a run that does not continue by itself.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::model::node::{Node, NodeStatus};
use crate::model::run::{RunKind, RunStatus};
use crate::model::state::State;
use crate::model::time::Timestamp;
use crate::orch::due::{Due, Rest, due};
use crate::words::shell_quote;

/// The commands by which a graph goes on, the first one first. A run of a flow has its own view. `pauses` are those after
/// failed turns.
#[must_use]
pub(super) fn next(state: &State, now: Timestamp, pauses: &[Duration]) -> Vec<String> {
    let slug = &state.run.slug;
    match (state.run.kind, state.run.status) {
        (RunKind::Flow, _) => return vec![format!("aynig flow show {slug}")],
        (RunKind::Graph, RunStatus::Paused) => return vec![format!("aynig orch run resume {slug}")],
        (RunKind::Graph, RunStatus::Running) => {}
        (RunKind::Graph, _) => return Vec::new(),
    }
    let mut nodes: Vec<_> = state.nodes.values().collect();
    nodes.sort_by_key(|node| node.number);
    let command = |node: &&Node| match due(state, node.id, now, pauses) {
        _ if node.status == NodeStatus::Running => None,
        Due::Rest(Rest::Held(_) | Rest::Failed) => {
            Some(format!("aynig orch node start {slug} {}", node.alias))
        }
        Due::Rest(Rest::Asks(_)) => Some("aynig orch approvals".to_owned()),
        Due::Turn { .. } | Due::Later(_) | Due::Overdue => Some(runner(state.reserved_role(node.id))),
        Due::Waits(_) | Due::Rest(Rest::Removed | Rest::Run(_) | Rest::Nothing) => None,
    };
    let mut commands: Vec<String> = Vec::new();
    for command in nodes.iter().filter_map(command) {
        if !commands.contains(&command) {
            commands.push(command);
        }
    }
    commands
}

/// The command that takes the turns of a node which is reserved to a role, or to none.
pub(in crate::ops) fn runner(role: Option<&str>) -> String {
    role.map_or_else(|| "aynig run".to_owned(), |role| format!("aynig run --role {}", shell_quote(role)))
}

/// The commands that take the turns of nodes with these reserved roles, in words with a verb: "`aynig run` carries out".
#[must_use]
pub fn runners<'a>(roles: impl IntoIterator<Item = Option<&'a str>>) -> String {
    let mut roles: BTreeSet<Option<&str>> = roles.into_iter().collect();
    if roles.is_empty() {
        roles.insert(None);
    }
    let verb = if roles.len() == 1 { "carries" } else { "carry" };
    let commands: Vec<String> = roles.into_iter().map(|role| format!("`{}`", runner(role))).collect();
    format!("{} {verb} out", commands.join(" and "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::decide::{Command, NodeEdit, RunEdit, Steer};
    use crate::model::tests::Bench;

    /// CONTRACT 22.33
    #[test]
    fn a_reserved_node_has_the_runner_of_its_role() {
        for (roles, words) in [
            (&[][..], "`aynig run` carries out"),
            (&[None, None], "`aynig run` carries out"),
            (&[Some("a b")], "`aynig run --role 'a b'` carries out"),
            (&[Some("b"), None, Some("b")], "`aynig run` and `aynig run --role b` carry out"),
        ] {
            assert_eq!(runners(roles.iter().copied()), words);
        }
    }

    /// CONTRACT 22.1
    #[test]
    fn each_reason_has_the_line_to_type() {
        let now = Timestamp::from_millis(i64::from(i32::MAX) * 1000).expect("a time");
        let mut bench = Bench::new();
        let (a, b) = (bench.node("a", "implementer"), bench.node("b", "reviewer"));
        let next_of = |bench: &Bench| next(&bench.state, now, &[]);
        let slug = bench.state.run.slug.clone();
        assert_eq!(next_of(&bench), [""; 0]);
        bench.run(Command::Chat { node: Some(b), content: "go".to_owned(), interrupt: false }).unwrap();
        assert_eq!(next_of(&bench), ["aynig run"]);
        bench.run(Command::SteerNode(b, Steer::Stop)).unwrap();
        let failed = NodeEdit { status: Some(NodeStatus::Failed), ..NodeEdit::default() };
        bench.run(Command::SetNode(a, failed)).unwrap();
        let starts = ["a", "b"].map(|alias| format!("aynig orch node start {slug} {alias}"));
        assert_eq!(next_of(&bench), starts);
        let paused = RunEdit { status: Some(RunStatus::Paused), ..RunEdit::default() };
        bench.run(Command::SetRun(paused)).unwrap();
        assert_eq!(next_of(&bench), [format!("aynig orch run resume {slug}")]);
    }
}
