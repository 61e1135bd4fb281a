//! Nodes that wait for answers, by table.

use super::*;
use crate::model::decide::{EndedTurn, NodeEdit, Steer};
use crate::model::ids::{MessageId, TurnId};
use crate::model::message::{Expectation, InboxItem, Item, NoticeKind, Payload, ResponseSpec};
use crate::model::node::NodeStatus;
use crate::model::step::TurnStatus;

/// Hands work on, and returns its id.
fn ask(
    bench: &mut Bench,
    from: NodeId,
    to: NodeId,
    reply_to: Option<MessageId>,
    expectation: Expectation,
) -> MessageId {
    let response = ResponseSpec { expectation, reply_to: reply_to.map(|id| id.to_string()) };
    let payload = Payload { message: "?".to_owned(), response: Some(response), ..Payload::default() };
    let decided = bench.run_as(from, Command::HandOff { from, to, payload }).unwrap();
    let handoff = |item: &InboxItem| matches!(&item.item, Item::Handoff(_)).then(|| item.id());
    decided.state.inbox(to).into_iter().filter_map(handoff).next_back().unwrap()
}

/// The notices in the inbox of a node: their kinds, and what they are about.
fn notices(bench: &Bench, node: NodeId) -> Vec<(NoticeKind, Vec<MessageId>, String)> {
    let inbox = bench.state.inbox(node).into_iter();
    inbox
        .filter_map(|item| match &item.item {
            Item::Notice(notice) => Some((notice.kind, notice.handoffs.clone(), notice.content.clone())),
            Item::Message(_) | Item::Handoff(_) => None,
        })
        .collect()
}

fn waits(bench: &Bench, node: NodeId) -> Vec<MessageId> {
    let node = &bench.state.nodes[&node];
    assert_eq!(node.waiting_for, node.longest_wait().map(|(id, _)| id));
    node.waits.keys().copied().collect()
}

/// All may hand work to all.
fn team(names: &[&str]) -> (Bench, Vec<NodeId>) {
    let mut bench = Bench::new();
    let nodes: Vec<NodeId> = names.iter().map(|name| bench.node(name, "implementer")).collect();
    for (place, from) in nodes.iter().enumerate() {
        for to in &nodes[place + 1..] {
            bench.edge(*from, *to).unwrap();
        }
    }
    (bench, nodes)
}

fn failed(node: NodeId, number: u128) -> Command {
    Command::EndTurn(Box::new(EndedTurn {
        detail: Some("the program ended with exit code 3".to_owned()),
        ..EndedTurn::new(node, TurnId::from(Uuid::from_u128(number)), TurnStatus::Failed, op(0).at)
    }))
}

/// CONTRACT 22.22
#[test]
fn a_wait_ends_by_its_answer_alone() {
    let (mut bench, nodes) = team(&["a", "b", "c"]);
    let [a, b, c] = nodes[..] else { panic!("three nodes") };
    let first = ask(&mut bench, a, b, None, Expectation::Required);
    let second = ask(&mut bench, a, c, None, Expectation::Required);
    assert_eq!(bench.state.nodes[&a].waiting_for, Some(first), "the longest one");
    // Neither another hand-off nor one that expects nothing is an answer.
    ask(&mut bench, b, a, None, Expectation::None);
    assert_eq!(waits(&bench, a).len(), 2);
    ask(&mut bench, c, a, Some(second), Expectation::None);
    assert_eq!(waits(&bench, a), [first]);
    // An answer that asks back makes no circle.
    ask(&mut bench, b, a, Some(first), Expectation::Required);
    assert!(waits(&bench, a).is_empty());
    assert!(notices(&bench, a).is_empty() && notices(&bench, b).is_empty());
}

/// CONTRACT 22.22
#[test]
fn those_who_wait_hear_that_no_answer_comes() {
    type Case = (&'static str, fn(&mut Bench, NodeId));
    let cases: [Case; 6] = [
        ("b was removed before it read", |bench, b| {
            bench.run(Command::RemoveNode(b)).unwrap();
        }),
        ("b has failed", |bench, b| {
            for number in 1..=3 {
                let waited = bench.state.nodes.values().filter(|node| !node.waits.is_empty()).count();
                assert_eq!(waited, 1, "before try {number}");
                bench.run_as(b, failed(b, number)).unwrap();
            }
        }),
        ("exit code 3", |bench, b| {
            (1..=3).for_each(|number| drop(bench.run_as(b, failed(b, number)).unwrap()))
        }),
        ("b has failed", |bench, b| {
            let edit = NodeEdit { status: Some(NodeStatus::Failed), ..NodeEdit::default() };
            bench.run(Command::SetNode(b, edit)).unwrap();
        }),
        ("no edge leads from b to you", |bench, b| {
            let edge = bench.state.edges.values().find(|edge| edge.from == b || edge.to == b).unwrap().id;
            bench.run(Command::RemoveEdge(edge)).unwrap();
        }),
        ("for 24 hours", |bench, _| {
            let a = bench.state.nodes.values().find(|node| !node.waits.is_empty()).unwrap().id;
            assert!(bench.run_as(a, Command::Overdue(a)).unwrap().events.is_empty(), "too early");
            bench.number += 24 * 60 * 60 * 1_000;
            bench.run_as(a, Command::Overdue(a)).unwrap();
        }),
    ];
    for (words, act) in cases {
        let (mut bench, nodes) = team(&["a", "b"]);
        let [a, b] = nodes[..] else { panic!("two nodes") };
        let asked = ask(&mut bench, a, b, None, Expectation::Required);
        ask(&mut bench, a, b, None, Expectation::Optional);
        act(&mut bench, b);
        let found = notices(&bench, a);
        assert_eq!(found.len(), 1, "{words}: {found:?}");
        let (kind, about, content) = &found[0];
        assert_eq!((*kind, about.as_slice()), (NoticeKind::Unanswered, &[asked][..]));
        assert!(content.contains(words) && content.contains(&asked.to_string()), "{words}: {content}");
        assert!(waits(&bench, a).is_empty(), "{words}");
        assert_eq!(bench.state.nodes[&a].inbox_count, 1, "{words}");
    }
}

/// CONTRACT 22.22
#[test]
fn one_who_asks_a_failed_node_hears_it_at_once() {
    let (mut bench, nodes) = team(&["a", "b"]);
    let [a, b] = nodes[..] else { panic!("two nodes") };
    let edit = NodeEdit { status: Some(NodeStatus::Failed), ..NodeEdit::default() };
    bench.run(Command::SetNode(b, edit)).unwrap();
    ask(&mut bench, a, b, None, Expectation::Required);
    assert_eq!(notices(&bench, a).len(), 1);
    assert!(waits(&bench, a).is_empty());
    // The answer still comes when a person brings the node back.
    bench.run(Command::SteerNode(b, Steer::Start)).unwrap();
    assert_eq!(bench.state.nodes[&b].inbox_count, 1);
}

/// CONTRACT 22.22
#[test]
fn a_node_without_a_way_back_is_not_asked() {
    let mut bench = Bench::new();
    let (a, b) = (bench.node("a", "orchestrator"), bench.node("b", "implementer"));
    bench.edge(a, b).unwrap();
    let response = ResponseSpec { expectation: Expectation::Required, reply_to: None };
    let payload = Payload { message: "?".to_owned(), response: Some(response), ..Payload::default() };
    let refused = bench.run_as(a, Command::HandOff { from: a, to: b, payload }).unwrap_err();
    assert_eq!(refused.code().1, "cannot_answer");
    assert!(refused.to_string().contains("no edge leads from b back to a"), "{refused}");
}

/// CONTRACT 22.22
#[test]
fn a_circle_of_waits_is_told_to_all_in_it() {
    for length in 2..=4 {
        let (mut bench, nodes) = team(&["a", "b", "c", "d", "beside"][..]);
        let circle = &nodes[..length];
        let beside = nodes[4];
        let mut asked = vec![ask(&mut bench, beside, circle[0], None, Expectation::Required)];
        for place in 0..length {
            assert!(nodes.iter().all(|node| notices(&bench, *node).is_empty()), "too early");
            let to = circle[(place + 1) % length];
            asked.push(ask(&mut bench, circle[place], to, None, Expectation::Required));
        }
        for node in circle {
            let found = notices(&bench, *node);
            assert_eq!(found.len(), 1, "{length}: {found:?}");
            assert_eq!((found[0].0, found[0].1.len()), (NoticeKind::Cycle, length));
            assert_eq!(waits(&bench, *node).len(), 1, "an answer still ends it");
        }
        assert!(notices(&bench, beside).is_empty(), "it waits for the circle, and is not in it");
        // Another wait that closes the circle again is told again, and nothing else is.
        ask(&mut bench, beside, circle[1], None, Expectation::Required);
        assert_eq!(notices(&bench, circle[0]).len(), 1);
    }
}
