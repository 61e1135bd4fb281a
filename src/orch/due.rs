//! The due act of a node, by the state of its run.
//!
//! Invariant: it follows from the ledger and the time alone, so any host concludes the same. A node whose run rests, that
//! waits for an answer, or that has nothing to read, starts no program.

use std::time::Duration;

use crate::model::ids::{MessageId, NodeId};
use crate::model::node::{Hold, Node, NodeStatus};
use crate::model::run::RunStatus;
use crate::model::state::State;
use crate::model::time::Timestamp;

/// The first pause after a turn that was ended by somebody else's outage, and the longest one.
const OUTAGE: (i64, i64) = (60_000, 3_600_000);

/// The due act of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Due {
    /// A turn.
    Turn {
        /// The items to read, in reading order.
        read: Vec<MessageId>,
    },
    /// A turn, not before this time.
    Later(Timestamp),
    /// Nothing before this time, since it waits for an answer. Then a notice.
    Waits(Timestamp),
    /// A notice that nobody answered in time, and a turn that reads it.
    Overdue,
    /// Nothing, until an operation changes that.
    Rest(Rest),
}

/// The reason of a rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    /// The run has no such node.
    Removed,
    /// The run is not running.
    Run(RunStatus),
    /// A person holds it.
    Held(Hold),
    /// Its turns failed until no try was left.
    Failed,
    /// A request of it has no answer. With a time limit, until the first of them is over.
    Asks(Option<Timestamp>),
    /// Its inbox is empty.
    Nothing,
}

/// The due act of a node now. `pauses` are those after the first failed turn and after each later one.
#[must_use]
pub fn due(state: &State, id: NodeId, now: Timestamp, pauses: &[Duration]) -> Due {
    let Some(node) = state.nodes.get(&id) else { return Due::Rest(Rest::Removed) };
    if state.run.status != RunStatus::Running {
        return Due::Rest(Rest::Run(state.run.status));
    }
    if let Some(hold) = node.hold {
        return Due::Rest(Rest::Held(hold));
    }
    if node.status == NodeStatus::Failed {
        return Due::Rest(Rest::Failed);
    }
    let open = state.approvals.values().filter(|one| one.node_id == id && one.is_open());
    // One whose time is over has an answer, which whoever begins the turn records.
    if open.clone().any(|one| !one.is_overdue(now)) {
        return Due::Rest(Rest::Asks(open.filter_map(|one| one.expires_at).min()));
    }
    let read: Vec<MessageId> = state.inbox(id).iter().map(|item| item.id()).collect();
    match node.longest_wait().map(|(_, wait)| wait.until()) {
        Some(until) if until <= now => return Due::Overdue,
        Some(until) if read.is_empty() => return Due::Waits(until),
        None if read.is_empty() => return Due::Rest(Rest::Nothing),
        Some(_) | None => {}
    }
    let failures = node.turn.as_ref().map_or(0, |last| last.failures);
    let until = node.turn.as_ref().and_then(|last| last.until);
    match later(node.last_activity_at, failures, pauses).max(until) {
        Some(at) if at > now => Due::Later(at),
        Some(_) | None => Due::Turn { read },
    }
}

/// Whether a live turn that reads these items ends as interrupted: its node is held or gone, or has an interrupting
/// message that the turn does not know.
#[must_use]
pub fn is_cut(state: &State, id: NodeId, read: &[MessageId]) -> bool {
    let Some(node) = state.nodes.get(&id) else { return true };
    let mut inbox = state.inbox(id).into_iter();
    node.hold.is_some() || inbox.any(|item| item.interrupts() && !read.contains(&item.id()))
}

/// The earliest time of the next try after a turn that an outage ended now, or a usage limit whose end is not known. Such
/// turns do not count, so each pause in a row is twice as long: from a minute up to an hour.
#[must_use]
pub fn after_outage(node: &Node, now: Timestamp) -> Option<Timestamp> {
    let until = node.turn.as_ref().and_then(|last| last.until);
    let before = until.map_or(0, |until| until.millis().saturating_sub(node.last_activity_at.millis()));
    let (first, most) = OUTAGE;
    // A longer one was the end of a limit that was known.
    let pause = if before > most { first } else { before.saturating_mul(2).clamp(first, most) };
    Timestamp::from_millis(now.millis().saturating_add(pause))
}

/// The earliest time of the next try. `None`: at once.
fn later(ended: Timestamp, failures: u64, pauses: &[Duration]) -> Option<Timestamp> {
    let before = usize::try_from(failures).unwrap_or(usize::MAX).checked_sub(1)?;
    let pause = pauses.get(before).or(pauses.last())?;
    let millis = i64::try_from(pause.as_millis()).unwrap_or(i64::MAX);
    Timestamp::from_millis(ended.millis().saturating_add(millis))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::approval::{Answer, Resolution, Tool};
    use crate::model::decide::{Command, EndedTurn, NodeEdit, RunEdit, Steer};
    use crate::model::ids::TurnId;
    use crate::model::node::LastTurn;
    use crate::model::step::TurnStatus;
    use crate::model::tests::Bench;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis).unwrap()
    }

    fn chat(node: NodeId, content: &str, interrupt: bool) -> Command {
        Command::Chat { node: Some(node), content: content.to_owned(), interrupt }
    }

    fn ended(node: NodeId, number: u128, status: TurnStatus) -> Command {
        Command::EndTurn(Box::new(EndedTurn::new(
            node,
            TurnId::from(uuid::Uuid::from_u128(number)),
            status,
            at(0),
        )))
    }

    /// The pauses of tests.
    const PAUSES: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(10)];

    /// The due act long after everything.
    fn now(bench: &Bench, node: NodeId) -> Due {
        due(&bench.state, node, at(i64::from(i32::MAX) * 1000), &PAUSES)
    }

    fn set(status: RunStatus) -> Command {
        Command::SetRun(RunEdit { status: Some(status), ..RunEdit::default() })
    }

    #[test]
    fn a_turn_is_due_for_what_is_unread() {
        let mut bench = Bench::new();
        let (a, b) = (bench.node("a", "implementer"), bench.node("b", "reviewer"));
        assert_eq!(now(&bench, a), Due::Rest(Rest::Nothing));
        for (content, interrupt) in [("one", false), ("two", true)] {
            bench.run(chat(a, content, interrupt)).unwrap();
        }
        let ids: Vec<MessageId> = bench.state.inboxes[&a].values().map(|item| item.id()).collect();
        assert_eq!(now(&bench, a), Due::Turn { read: vec![ids[1], ids[0]] }, "the interrupting one first");
        assert_eq!(now(&bench, b), Due::Rest(Rest::Nothing));
        bench.run(set(RunStatus::Paused)).unwrap();
        assert_eq!(now(&bench, a), Due::Rest(Rest::Run(RunStatus::Paused)));
        bench.run(set(RunStatus::Running)).unwrap();
        let failed = NodeEdit { status: Some(NodeStatus::Failed), ..NodeEdit::default() };
        bench.run(Command::SetNode(a, failed)).unwrap();
        assert_eq!(now(&bench, a), Due::Rest(Rest::Failed));
        bench.run(Command::RemoveNode(a)).unwrap();
        assert_eq!(now(&bench, a), Due::Rest(Rest::Removed));
    }

    #[test]
    fn a_node_that_asks_waits_for_the_answer() {
        let mut bench = Bench::new();
        let a = bench.node("a", "implementer");
        bench.run(chat(a, "go", false)).unwrap();
        let tool = Tool::new("1", "command", serde_json::Map::new());
        bench
            .run(Command::Ask {
                node: a,
                tool,
                context: None,
                expires_at: None,
                heard: Vec::new(),
                turn: None,
            })
            .unwrap();
        assert_eq!(now(&bench, a), Due::Rest(Rest::Asks(None)));
        let approval = *bench.state.approvals.keys().next().unwrap();
        let resolution = Resolution { status: Answer::Denied, modified_args: None, reason: None };
        bench.run(Command::Answer { approval, resolution }).unwrap();
        assert!(matches!(now(&bench, a), Due::Turn { .. }));
    }

    #[test]
    fn a_held_node_rests_until_it_may_go_on() {
        let mut bench = Bench::new();
        let a = bench.node("a", "implementer");
        bench.run(chat(a, "one", false)).unwrap();
        let Due::Turn { read } = now(&bench, a) else { panic!("a turn is due") };
        assert!(!is_cut(&bench.state, a, &read));
        bench.run(chat(a, "two", false)).unwrap();
        assert!(!is_cut(&bench.state, a, &read), "it waits for the next turn");
        bench.run(Command::SteerNode(a, Steer::Interrupt)).unwrap();
        assert!(is_cut(&bench.state, a, &read));
        assert_eq!(now(&bench, a), Due::Rest(Rest::Held(Hold::Interrupted)));
        bench.run(chat(a, "three", false)).unwrap();
        assert!(is_cut(&bench.state, a, &read), "the turn may not have heard of the interrupt yet");
        let Due::Turn { read } = now(&bench, a) else { panic!("a turn is due") };
        assert_eq!(read.len(), 3);
        assert!(!is_cut(&bench.state, a, &read));
        bench.run(Command::SteerNode(a, Steer::Stop)).unwrap();
        bench.run(chat(a, "four", true)).unwrap();
        bench.run(Command::SteerNode(a, Steer::Interrupt)).unwrap();
        assert_eq!(now(&bench, a), Due::Rest(Rest::Held(Hold::Stopped)), "only a start lets it go on");
        bench.run(Command::SteerNode(a, Steer::Start)).unwrap();
        assert!(matches!(now(&bench, a), Due::Turn { .. }));
        let changed = bench.run(Command::SteerNode(a, Steer::Start)).unwrap();
        assert!(changed.events.is_empty());
        bench.run(Command::RemoveNode(a)).unwrap();
        assert!(is_cut(&bench.state, a, &read));
    }

    #[test]
    fn a_failed_turn_is_tried_again_after_a_pause() {
        let mut bench = Bench::new();
        let a = bench.node("a", "implementer");
        bench.run(chat(a, "go", false)).unwrap();
        for (number, pause) in [(1, Some(2_000)), (2, Some(10_000)), (3, None)] {
            bench.run(ended(a, number, TurnStatus::Failed)).unwrap();
            let end = bench.state.nodes[&a].last_activity_at.millis();
            let Some(pause) = pause else { break };
            assert_eq!(due(&bench.state, a, at(end), &PAUSES), Due::Later(at(end + pause)));
            assert_eq!(due(&bench.state, a, at(end + pause - 1), &PAUSES), Due::Later(at(end + pause)));
            assert!(matches!(due(&bench.state, a, at(end + pause), &PAUSES), Due::Turn { .. }));
            assert!(matches!(due(&bench.state, a, at(end), &[]), Due::Turn { .. }), "no pauses are set");
        }
        assert_eq!(now(&bench, a), Due::Rest(Rest::Failed));
        bench.run(chat(a, "again", false)).unwrap();
        let end = bench.state.nodes[&a].last_activity_at;
        assert!(matches!(due(&bench.state, a, end, &PAUSES), Due::Turn { .. }), "at once after a message");
        bench.run(ended(a, 4, TurnStatus::Interrupted)).unwrap();
        assert!(matches!(due(&bench.state, a, end, &PAUSES), Due::Turn { .. }), "an interrupt is no failure");
    }

    /// CONTRACT 22.4
    #[test]
    fn the_pauses_of_an_outage_grow() {
        let mut bench = Bench::new();
        let a = bench.node("a", "implementer");
        let minute = 60_000;
        let mut node = bench.state.nodes[&a].clone();
        let mut now = node.last_activity_at.millis();
        for minutes in [1, 2, 4, 8, 16, 32, 60, 60] {
            let until = after_outage(&node, at(now)).unwrap();
            assert_eq!(until.millis() - now, minutes * minute);
            let (id, number) = (TurnId::from(uuid::Uuid::from_u128(1)), 1);
            let status = "failed".to_owned();
            let (failures, unsaid) = (0, Vec::new());
            node.turn = Some(LastTurn { id, number, status, failures, until: Some(until), unsaid });
            node.last_activity_at = at(now);
            now = until.millis();
        }
        // The known end of a limit says nothing about the next outage.
        node.turn.as_mut().unwrap().until = Some(at(now + 300 * minute));
        assert_eq!(after_outage(&node, at(now)).unwrap().millis() - now, minute);
        node.turn.as_mut().unwrap().until = None;
        assert_eq!(after_outage(&node, at(now)).unwrap().millis() - now, minute);
    }
}
