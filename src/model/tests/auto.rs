//! Mode AUTO, and the end of a run that a node declares, by table.

use super::*;
use crate::model::approval::{Answer, Resolution, Tool};
use crate::model::decide::{EndedTurn, Finding, NodeEdit, RunEdit, Steer, begin};
use crate::model::ids::TurnId;
use crate::model::message::{Expectation, Item, NoticeKind, Payload, ResponseSpec};
use crate::model::node::NodeStatus;
use crate::model::step::TurnStatus;
use crate::model::trace::Halted;

fn mode(mode: Mode) -> Command {
    Command::SetRun(RunEdit { mode: Some(mode), ..RunEdit::default() })
}

fn status(status: RunStatus) -> Command {
    Command::SetRun(RunEdit { status: Some(status), ..RunEdit::default() })
}

fn say(node: NodeId) -> Command {
    Command::Chat { node: Some(node), content: "go".to_owned(), interrupt: false }
}

/// Ends a turn of a node that has read all of its inbox.
fn end(bench: &mut Bench, node: NodeId, status: TurnStatus) {
    let consumed = match status {
        TurnStatus::Completed => bench.state.inbox(node).iter().map(|item| item.id()).collect(),
        _ => Vec::new(),
    };
    let turn = EndedTurn {
        consumed,
        ..EndedTurn::new(
            node,
            TurnId::from(Uuid::from_u128(1_000 + u128::from(bench.number))),
            status,
            op(0).at,
        )
    };
    bench.run_as(node, Command::EndTurn(Box::new(turn))).unwrap();
}

/// How often a node is told to go on in its inbox.
fn told(bench: &Bench, node: NodeId, kind: NoticeKind) -> usize {
    let inbox = bench.state.inbox(node).into_iter();
    inbox.filter(|item| matches!(&item.item, Item::Notice(notice) if notice.kind == kind)).count()
}

fn goes_on(bench: &Bench, node: NodeId) -> bool {
    let count = told(bench, node, NoticeKind::GoOn);
    assert!(count <= 1);
    count == 1
}

/// An orchestrator and a worker, in mode AUTO, with a message to the orchestrator.
fn team() -> (Bench, NodeId, NodeId) {
    let mut bench = Bench::new();
    let (boss, hand) = (bench.node("boss", "orchestrator"), bench.node("hand", "implementer"));
    bench.edge(boss, hand).unwrap();
    bench.edge(hand, boss).unwrap();
    bench.run(mode(Mode::Auto)).unwrap();
    assert!(!goes_on(&bench, boss), "nobody has begun it");
    bench.run(say(boss)).unwrap();
    (bench, boss, hand)
}

/// CONTRACT 22.23
#[test]
fn the_orchestrator_goes_on_when_nothing_is_under_way() {
    let (mut bench, boss, hand) = team();
    let second = bench.node("second", "orchestrator");
    end(&mut bench, boss, TurnStatus::Completed);
    assert!(goes_on(&bench, boss) && !goes_on(&bench, second), "the oldest one");
    // What is said meanwhile says nothing more.
    bench.run(Command::SetRun(RunEdit { label: Some("x".to_owned()), ..RunEdit::default() })).unwrap();
    end(&mut bench, boss, TurnStatus::Interrupted);
    assert!(goes_on(&bench, boss));
    end(&mut bench, boss, TurnStatus::Completed);
    assert!(goes_on(&bench, boss), "again");
    // While somebody works, nothing is said.
    bench.run(say(hand)).unwrap();
    end(&mut bench, boss, TurnStatus::Completed);
    assert!(!goes_on(&bench, boss));
    end(&mut bench, hand, TurnStatus::Failed);
    assert!(!goes_on(&bench, boss), "it is tried again");
    end(&mut bench, hand, TurnStatus::Completed);
    assert!(goes_on(&bench, boss));
}

/// CONTRACT 22.23
#[test]
fn what_keeps_a_run_from_going_on() {
    let ask = |node| Command::Ask {
        node,
        tool: Tool::new("1", "command", serde_json::Map::new()),
        context: None,
        expires_at: None,
        heard: Vec::new(),
        turn: None,
    };
    let failed = NodeEdit { status: Some(NodeStatus::Failed), ..NodeEdit::default() };
    let (template, boss, hand) = team();
    let response = ResponseSpec { expectation: Expectation::Required, reply_to: None };
    let payload = Payload { message: "?".to_owned(), response: Some(response), ..Payload::default() };
    let question = Command::HandOff { from: boss, to: hand, payload };
    // What a person does before the turn of the orchestrator ends, and whether it then goes on.
    let cases: Vec<(&str, Vec<Command>, bool)> = vec![
        ("nothing", vec![], true),
        ("INTERACTIVE", vec![mode(Mode::Interactive)], false),
        ("paused", vec![status(RunStatus::Paused)], false),
        ("stopped", vec![status(RunStatus::Stopped)], false),
        ("unread", vec![say(hand)], false),
        ("a request", vec![ask(hand)], false),
        ("a wait", vec![question], false),
        ("held", vec![Command::SteerNode(boss, Steer::Stop)], false),
        ("failed", vec![Command::SetNode(boss, failed.clone())], false),
        ("removed", vec![Command::RemoveNode(hand)], true),
        ("unread, and held", vec![say(hand), Command::SteerNode(hand, Steer::Stop)], true),
        ("unread, and failed", vec![say(hand), Command::SetNode(hand, failed)], true),
    ];
    for (words, acts, wanted) in cases {
        let mut bench = Bench { state: template.state.clone(), number: template.number };
        for act in acts {
            bench.run(act).unwrap();
        }
        let is_question = words == "a wait";
        if is_question {
            end(&mut bench, hand, TurnStatus::Completed);
        }
        end(&mut bench, boss, TurnStatus::Completed);
        // One that was brought to failure by a person is idle after a turn.
        let wanted = wanted || words == "failed";
        assert_eq!(goes_on(&bench, boss), wanted, "{words}");
    }
}

/// CONTRACT 22.23
#[test]
fn what_lets_a_run_go_on() {
    let (mut bench, boss, hand) = team();
    let tool = Tool::new("1", "command", serde_json::Map::new());
    bench
        .run(Command::Ask {
            node: hand,
            tool,
            context: None,
            expires_at: None,
            heard: Vec::new(),
            turn: None,
        })
        .unwrap();
    end(&mut bench, boss, TurnStatus::Completed);
    assert!(!goes_on(&bench, boss));
    let approval = *bench.state.approvals.keys().next().unwrap();
    let resolution = Resolution { status: Answer::Denied, modified_args: None, reason: None };
    bench.run(Command::Answer { approval, resolution }).unwrap();
    assert!(goes_on(&bench, boss), "an answer");
    bench.run(status(RunStatus::Paused)).unwrap();
    end(&mut bench, boss, TurnStatus::Completed);
    assert!(!goes_on(&bench, boss));
    bench.run(status(RunStatus::Running)).unwrap();
    assert!(goes_on(&bench, boss), "resume");
    bench.run(mode(Mode::Interactive)).unwrap();
    end(&mut bench, boss, TurnStatus::Completed);
    bench.run(mode(Mode::Auto)).unwrap();
    assert!(goes_on(&bench, boss), "the mode");
    bench.run(Command::SteerNode(boss, Steer::Stop)).unwrap();
    end(&mut bench, boss, TurnStatus::Completed);
    assert!(!goes_on(&bench, boss));
    bench.run(Command::SteerNode(boss, Steer::Start)).unwrap();
    assert!(goes_on(&bench, boss), "a start");
}

/// CONTRACT 22.23
#[test]
fn an_orchestrator_that_has_failed_is_left_alone() {
    let (mut bench, boss, _) = team();
    end(&mut bench, boss, TurnStatus::Completed);
    for _ in 0..3 {
        end(&mut bench, boss, TurnStatus::Failed);
    }
    assert_eq!(bench.state.nodes[&boss].status, NodeStatus::Failed);
    assert_eq!(bench.state.inbox(boss).len(), 1, "what it has not read");
}

/// CONTRACT 22.23
#[test]
fn auto_without_a_stated_end_is_bounded() {
    let set = |done_when: Option<&str>, turns| {
        Command::SetRun(RunEdit {
            mode: Some(Mode::Auto),
            done_when: done_when.map(|when| Some(when.to_owned())),
            limits: Some(Limits { turns, ..Limits::default() }),
            ..RunEdit::default()
        })
    };
    for (done_when, turns, wanted) in
        [(None, None, Some(Limits::AUTO_TURNS)), (Some("it works"), None, None), (None, Some(3), Some(3))]
    {
        let mut bench = Bench::new();
        bench.run(set(done_when, turns)).unwrap();
        assert_eq!(bench.state.run.limits.turns, wanted, "{done_when:?} {turns:?}");
        let new = NewRun {
            mode: Mode::Auto,
            done_when: done_when.map(str::to_owned),
            limits: Limits { turns, ..Limits::default() },
            ..new_run(1, RunKind::Graph)
        };
        assert_eq!(begin(&new, &[], &op(0)).unwrap().state.run.limits.turns, wanted);
    }
}

/// CONTRACT 22.24
#[test]
fn conditions_for_the_end() {
    for (text, is_taken) in [
        ("all tests pass", true),
        ("validator:unit_tests", true),
        ("validator:", false),
        ("validator:a b", false),
        ("validator:../x", false),
        (" ", false),
    ] {
        let mut bench = Bench::new();
        let edit = RunEdit { done_when: Some(Some(text.to_owned())), ..RunEdit::default() };
        match bench.run(Command::SetRun(edit)) {
            Ok(_) => assert!(is_taken, "{text}"),
            Err(refusal) => assert!(!is_taken && refusal.code().1 == "bad_done_when", "{text}: {refusal}"),
        }
    }
}

/// CONTRACT 22.24
#[test]
fn a_node_ends_the_run() {
    let done = |node, finding| Command::Done { node, message: Some("All is there.".to_owned()), finding };
    let (mut bench, boss, hand) = team();
    let refused = bench.run_as(hand, done(hand, Finding::Accepted)).unwrap_err();
    assert_eq!(refused.code().1, "may_not_end");
    assert!(bench.run_as(hand, done(boss, Finding::Accepted)).is_err(), "for another");
    end(&mut bench, boss, TurnStatus::Completed);
    bench.run_as(boss, done(boss, Finding::Refused("a test fails".to_owned()))).unwrap();
    assert_eq!((bench.state.run.status, told(&bench, boss, NoticeKind::NotDone)), (RunStatus::Running, 1));
    bench.run_as(boss, done(boss, Finding::Unknown("no validator here".to_owned()))).unwrap();
    assert_eq!(bench.state.run.status, RunStatus::Paused);
    let waits = bench.state.run.waiting_for.clone().unwrap();
    assert!(waits.starts_with("no validator here") && waits.contains("run resume"), "{waits}");
    bench.run(status(RunStatus::Running)).unwrap();
    bench.run_as(boss, done(boss, Finding::Accepted)).unwrap();
    let run = &bench.state.run;
    assert_eq!((run.status, run.termination.as_deref()), (RunStatus::Completed, Some("All is there.")));
    assert!(matches!(bench.run_as(boss, done(boss, Finding::Accepted)), Err(Refusal::Ended(..))));
    bench.run(status(RunStatus::Running)).unwrap();
    assert_eq!(bench.state.run.termination, None);
    // Without an orchestrator any node may.
    bench.run(Command::RemoveNode(boss)).unwrap();
    bench.run_as(hand, done(hand, Finding::Accepted)).unwrap();
    assert_eq!(bench.state.run.status, RunStatus::Completed);
}

/// CONTRACT 22.25
#[test]
fn a_stop_ends_the_sessions_and_a_pause_does_not() {
    for (to, wanted) in [(RunStatus::Paused, "s-1"), (RunStatus::Stopped, "pending")] {
        let (mut bench, boss, _) = team();
        bench.state.nodes.get_mut(&boss).unwrap().session.session_id = "s-1".to_owned();
        bench.run(status(to)).unwrap();
        assert_eq!(bench.state.nodes[&boss].session.session_id, wanted, "{to:?}");
        assert!(bench.run(status(to)).unwrap().events.is_empty(), "once");
    }
}

/// CONTRACT 22.25
#[test]
fn a_run_that_has_ended_is_not_paused_by_itself() {
    for (before, after) in [
        (RunStatus::Running, RunStatus::Paused),
        (RunStatus::Paused, RunStatus::Paused),
        (RunStatus::Stopped, RunStatus::Stopped),
        (RunStatus::Completed, RunStatus::Completed),
    ] {
        let (mut bench, ..) = team();
        bench.run(status(before)).unwrap();
        let cause = Halted::Stalled { evidence: serde_json::Map::new() };
        bench.run(Command::Halt { cause, waits_for: "you".to_owned() }).unwrap();
        assert_eq!(bench.state.run.status, after);
    }
}
