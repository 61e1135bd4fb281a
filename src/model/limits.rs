//! The limits of a graph: what is used of them, and which one is reached (CONTRACT 22.20).
//!
//! Invariant: what counts is in the ledger, so no host and no restart counts anew. Only a person's resume does.

use std::time::Duration;

use super::ids::NodeId;
use super::run::{Limits, RunStatus};
use super::state::State;
use super::trace::{Halted, Spent};

/// What is used of one limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Use {
    /// The field of [`Limits`].
    pub limit: &'static str,
    /// Turns, seconds, US dollars or tokens.
    pub value: f64,
    /// The bound, if there is one.
    pub bound: Option<f64>,
}

/// What is used of the limits that turns count for.
#[must_use]
pub fn uses(limits: &Limits, spent: &Spent) -> [Use; 4] {
    let cost = spent.usage.cost_usd.unwrap_or(0.0);
    [
        Use { limit: "turns", value: number(spent.turns), bound: limits.turns.map(number) },
        Use {
            limit: "wallSeconds",
            value: spent.wall().as_secs_f64(),
            bound: limits.wall_seconds.map(number),
        },
        Use { limit: "costUsd", value: cost, bound: limits.cost_usd },
        Use { limit: "tokens", value: number(spent.usage.total_tokens), bound: limits.tokens.map(number) },
    ]
}

/// The first limit that is reached: of the run, else of the node. `None` if the run is not running.
#[must_use]
pub fn reached(state: &State, node: Option<NodeId>) -> Option<Halted> {
    if state.run.status != RunStatus::Running {
        return None;
    }
    let node = node.and_then(|id| state.nodes.get(&id));
    let of_run = (None, uses(&state.run.limits, &state.run.spent));
    let of_node = node.map(|node| (Some(node.id), uses(&node.limits, &node.spent)));
    std::iter::once(of_run).chain(of_node).find_map(|(node_id, uses)| {
        uses.into_iter().find_map(|Use { limit, value, bound }| {
            let bound = bound.filter(|bound| value >= *bound)?;
            Some(Halted::Limit { node_id, limit: limit.to_owned(), value, bound })
        })
    })
}

/// The limit that keeps a node from making another one.
#[must_use]
pub fn of_new_node(state: &State, by: NodeId) -> Option<Halted> {
    let limits = state.run.limits;
    let depth = state.nodes.get(&by)?.depth + 1;
    let nodes = u64::try_from(state.nodes.len()).unwrap_or(u64::MAX);
    let (most, levels) = (limits.nodes.unwrap_or(Limits::NODES), limits.depth.unwrap_or(Limits::DEPTH));
    let (limit, value, bound) = if nodes >= most {
        ("nodes", nodes, most)
    } else if depth > levels {
        ("depth", depth, levels)
    } else {
        return None;
    };
    Some(Halted::Limit { node_id: None, limit: limit.to_owned(), value: number(value), bound: number(bound) })
}

/// The time that the limits of the run and of the node leave to a turn.
#[must_use]
pub fn time_left(state: &State, node: NodeId) -> Option<Duration> {
    let left = |limits: &Limits, spent: &Spent| {
        Some(Duration::from_secs(limits.wall_seconds?).saturating_sub(spent.wall()))
    };
    let of_run = left(&state.run.limits, &state.run.spent);
    let of_node = state.nodes.get(&node).and_then(|node| left(&node.limits, &node.spent));
    of_run.into_iter().chain(of_node).min()
}

/// A count as a number of JSON; exact below 2^53.
#[must_use]
pub fn number(value: u64) -> f64 {
    let half = |bits: u64| u32::try_from(bits & u64::from(u32::MAX)).map_or(0.0, f64::from);
    half(value >> 32) * 4_294_967_296.0 + half(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::run::Usage;
    use crate::model::tests::Bench;

    fn spent() -> Spent {
        let usage = Usage { total_tokens: 500, cost_usd: Some(1.5), ..Usage::default() };
        Spent { turns: 3, wall_millis: 2_500, usage, unpriced: 0 }
    }

    #[test]
    fn a_limit_is_reached_by_its_own_count() {
        let none = Limits::default();
        for (limits, expected) in [
            (none, None),
            (Limits { turns: Some(4), ..none }, None),
            (Limits { turns: Some(3), ..none }, Some(("turns", 3.0, 3.0))),
            (Limits { turns: Some(2), ..none }, Some(("turns", 3.0, 2.0))),
            (Limits { wall_seconds: Some(3), ..none }, None),
            (Limits { wall_seconds: Some(2), ..none }, Some(("wallSeconds", 2.5, 2.0))),
            (Limits { cost_usd: Some(1.6), ..none }, None),
            (Limits { cost_usd: Some(1.5), ..none }, Some(("costUsd", 1.5, 1.5))),
            (Limits { tokens: Some(501), ..none }, None),
            (Limits { tokens: Some(500), ..none }, Some(("tokens", 500.0, 500.0))),
            // These bound what nodes make.
            (Limits { nodes: Some(1), depth: Some(0), ..none }, None),
        ] {
            let mut bench = Bench::new();
            let a = bench.node("a", "implementer");
            let halted = |of: Option<NodeId>| {
                expected.map(|(limit, value, bound)| Halted::Limit {
                    node_id: of,
                    limit: limit.to_owned(),
                    value,
                    bound,
                })
            };
            (bench.state.run.limits, bench.state.run.spent) = (limits, spent());
            assert_eq!(reached(&bench.state, Some(a)), halted(None), "{limits:?}");
            assert_eq!(reached(&bench.state, None), halted(None));
            bench.state.run.limits = none;
            let node = bench.state.nodes.get_mut(&a).unwrap();
            (node.limits, node.spent) = (limits, spent());
            assert_eq!(reached(&bench.state, Some(a)), halted(Some(a)), "{limits:?}");
            assert_eq!(reached(&bench.state, None), None, "another node's limit");
            bench.state.run.status = RunStatus::Paused;
            assert_eq!(reached(&bench.state, Some(a)), None);
        }
    }

    #[test]
    fn a_turn_has_the_least_time_that_is_left() {
        let mut bench = Bench::new();
        let a = bench.node("a", "implementer");
        assert_eq!(time_left(&bench.state, a), None);
        bench.state.run.spent = spent();
        for (run, node, left) in
            [(Some(4), None, 1_500), (None, Some(4), 4_000), (Some(4), Some(1), 1_000), (Some(1), Some(9), 0)]
        {
            bench.state.run.limits.wall_seconds = run;
            bench.state.nodes.get_mut(&a).unwrap().limits.wall_seconds = node;
            assert_eq!(time_left(&bench.state, a), Some(Duration::from_millis(left)), "{run:?} {node:?}");
        }
    }

    #[test]
    fn counts_are_exact_numbers() {
        for value in [0, 1, 4_294_967_295, 4_294_967_296, 1_000_000_000_000, (1 << 53) - 1] {
            assert_eq!(format!("{}", number(value)), value.to_string());
        }
    }
}
