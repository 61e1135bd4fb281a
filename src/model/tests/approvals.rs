//! Approvals: who gets an answer, approvals for good, time limits.

use serde_json::{Map, Value, json};

use super::{Bench, op};
use crate::model::approval::{Always, Answer, Approval, Resolution, Tool};
use crate::model::by::By;
use crate::model::decide::{Answered, Command, EndedTurn, NodeEdit, Op, Refusal, Rules, RunEdit, decide};
use crate::model::event::{Body, Event};
use crate::model::ids::{ApprovalId, NodeId, ProviderName, TurnId};
use crate::model::run::RunStatus;
use crate::model::step::TurnStatus;
use crate::model::time::Timestamp;

fn object(value: Value) -> Map<String, Value> {
    value.as_object().expect("an object").clone()
}

fn tool(name: &str, args: Value) -> Tool {
    Tool::new("1", name, object(args))
}

fn turn_id(number: u128) -> TurnId {
    TurnId::from(uuid::Uuid::from_u128(number))
}

fn ask(node: NodeId, tool: Tool, turn: u128) -> Command {
    let turn = Some(turn_id(turn));
    Command::Ask { node, tool, context: None, expires_at: None, heard: Vec::new(), turn }
}

fn approved(approval: ApprovalId) -> Command {
    let resolution = Resolution { status: Answer::Approved, modified_args: None, reason: None };
    Command::Answer { approval, resolution }
}

fn ended(node: NodeId, turn: u128, status: TurnStatus, heard: Vec<ApprovalId>) -> EndedTurn {
    EndedTurn { heard, ..EndedTurn::new(node, turn_id(turn), status, Timestamp::from_millis(0).unwrap()) }
}

fn end(bench: &mut Bench, turn: EndedTurn) {
    bench.run(Command::EndTurn(Box::new(turn))).unwrap();
}

fn newest(bench: &Bench) -> Approval {
    bench.state.approvals.values().max_by_key(|one| one.requested_at).unwrap().clone()
}

fn kinds(events: &[Event]) -> Vec<String> {
    let kind = |event: &Event| serde_json::to_value(event).unwrap()["type"].as_str().unwrap().to_owned();
    events.iter().map(kind).filter(|kind| kind.starts_with("approval")).collect()
}

/// CONTRACT 22.35
#[test]
fn one_turn_alone_gets_an_answer() {
    let mut bench = Bench::new();
    let (a, b) = (bench.node("a", "implementer"), bench.node("b", "implementer"));
    bench.run_as(a, ask(a, tool("sh", json!({"c": 1})), 1)).unwrap();
    let id = newest(&bench).id;
    let hear = |turn| Command::Hear { approval: id, turn: turn_id(turn) };
    assert!(matches!(bench.run_as(a, hear(1)), Err(Refusal::BadAnswer(_))), "nobody has answered");
    bench.run(approved(id)).unwrap();
    assert!(matches!(bench.run_as(b, hear(1)), Err(Refusal::PersonsOnly(_))), "it is another node's");
    bench.run_as(a, hear(1)).unwrap();
    assert!(bench.run_as(a, hear(1)).unwrap().events.is_empty(), "the answer of the remote was lost");
    assert!(matches!(bench.run_as(a, hear(2)), Err(Refusal::HeardBefore)));
    // The turn is asked for the same again, or another one is: that is a request of its own.
    for turn in [1, 2] {
        assert_eq!(
            kinds(&bench.run_as(a, ask(a, tool("sh", json!({"c": 1})), turn)).unwrap().events).len(),
            1
        );
        let open = newest(&bench).id;
        bench.run(approved(open)).unwrap();
        bench.run_as(a, Command::Hear { approval: open, turn: turn_id(turn) }).unwrap();
    }
}

/// CONTRACT 22.35
#[test]
fn an_answer_counts_again_only_if_its_program_did_not_get_it() {
    // The turn that got it reports what its program was given; of a turn that was cut off that is unknown.
    for (status, reports, is_kept) in [
        (TurnStatus::Interrupted, false, true),
        (TurnStatus::Failed, false, true),
        (TurnStatus::Failed, true, false),
        (TurnStatus::Completed, false, false),
    ] {
        let mut bench = Bench::new();
        let a = bench.node("a", "implementer");
        bench.run_as(a, ask(a, tool("sh", json!({})), 1)).unwrap();
        let id = newest(&bench).id;
        bench.run(approved(id)).unwrap();
        bench.run_as(a, Command::Hear { approval: id, turn: turn_id(1) }).unwrap();
        end(&mut bench, ended(a, 1, status, if reports { vec![id] } else { Vec::new() }));
        let again = bench.run_as(a, ask(a, tool("sh", json!({})), 2)).unwrap();
        assert_eq!(again.events.is_empty(), is_kept, "{status:?} {reports}");
        let late = bench.run_as(a, Command::Hear { approval: id, turn: turn_id(1) });
        assert!(late.is_err(), "a turn that has ended gets no answer: {status:?} {reports}");
    }
}

/// CONTRACT 22.36
#[test]
fn an_approval_for_good_covers_equal_calls_of_its_node() {
    let args = || json!({"command": "ls", "in": {"a": 1, "b": [true, null]}});
    let rows = [
        (Always::Call, "sh", json!({"in": {"b": [true, null], "a": 1}, "command": "ls"}), true),
        (Always::Call, "sh", json!({"command": "ls"}), false),
        (Always::Call, "sh", json!({"command": "ls ", "in": {"a": 1, "b": [true, null]}}), false),
        (Always::Call, "sh", json!({"command": "ls", "in": {"a": "1", "b": [true, null]}}), false),
        (Always::Call, "sh", json!({"command": "ls", "in": {"a": 1, "b": [null, true]}}), false),
        (Always::Call, "sh", json!({"command": "ls", "in": {"a": 1, "b": [true, null]}, "x": 1}), false),
        (Always::Call, "Sh", args(), false),
        (Always::Tool, "sh", json!({"command": "rm"}), true),
        (Always::Tool, "sh", json!({}), true),
        (Always::Tool, "sh ", args(), false),
    ];
    for (always, name, other, is_covered) in rows {
        let mut bench = Bench::new();
        let (a, b) = (bench.node("a", "implementer"), bench.node("b", "implementer"));
        bench.run_as(a, ask(a, tool("sh", args()), 1)).unwrap();
        let grant = newest(&bench).id;
        let give = || Command::Grant { approval: grant, always };
        assert!(matches!(bench.run_as(a, give()), Err(Refusal::PersonsOnly(_))));
        bench.run(give()).unwrap();
        assert!(bench.run(give()).unwrap().events.is_empty(), "the same again");
        assert!(bench.run(approved(grant)).unwrap().events.is_empty(), "it is approved");
        if always == Always::Tool {
            let narrower = bench.run(Command::Grant { approval: grant, always: Always::Call });
            assert!(matches!(narrower, Err(Refusal::AnsweredOtherwise { .. })));
        }
        bench.run_as(a, Command::Hear { approval: grant, turn: turn_id(1) }).unwrap();
        end(&mut bench, ended(a, 1, TurnStatus::Completed, vec![grant]));
        let said = format!("{always:?} {name} {other}");
        let asked = bench.run_as(a, ask(a, tool(name, other.clone()), 2)).unwrap();
        let expected: &[&str] = if is_covered {
            &["approval.requested", "approval.resolved", "approval.heard"]
        } else {
            &["approval.requested"]
        };
        assert_eq!(kinds(&asked.events), expected, "{said}");
        if is_covered {
            let one = newest(&bench);
            assert_eq!(one.resolved_by, Some(By::Policy { runner: "host-1".to_owned(), grant: Some(grant) }));
            let reason = one.resolution.unwrap().reason.unwrap();
            assert!(
                reason.contains("Ann <ann@example.org>") && reason.contains(&grant.to_string()),
                "{reason}"
            );
        }
        let foreign = bench.run_as(b, ask(b, tool(name, other), 3)).unwrap();
        assert_eq!(kinds(&foreign.events), ["approval.requested"], "another node has it not: {said}");
    }
}

/// CONTRACT 22.36
#[test]
fn an_approval_for_good_ends_with_its_node_its_provider_or_a_person() {
    type End = fn(&mut Bench, NodeId, ApprovalId);
    let ends: [(&str, End); 4] = [
        ("a person", |bench, a, grant| {
            assert!(matches!(bench.run_as(a, Command::Revoke(grant)), Err(Refusal::PersonsOnly(_))));
            bench.run(Command::Revoke(grant)).unwrap();
            assert!(matches!(bench.run(Command::Revoke(grant)), Err(Refusal::NoGrant(_))));
        }),
        ("its provider", |bench, a, _| {
            let provider = Some(ProviderName::parse("codex").unwrap());
            bench.run(Command::SetNode(a, NodeEdit { provider, ..NodeEdit::default() })).unwrap();
        }),
        ("its node", |bench, a, _| drop(bench.run(Command::RemoveNode(a)).unwrap())),
        ("nothing: the provider stays", |bench, a, grant| {
            let provider = Some(ProviderName::parse("claude").unwrap());
            bench.run(Command::SetNode(a, NodeEdit { provider, ..NodeEdit::default() })).unwrap();
            assert!(bench.state.approvals.contains_key(&grant));
            bench.run(Command::Revoke(grant)).unwrap();
        }),
    ];
    for (what, ends) in ends {
        let mut bench = Bench::new();
        let a = bench.node("a", "implementer");
        bench.run_as(a, ask(a, tool("sh", json!({})), 1)).unwrap();
        let grant = newest(&bench).id;
        bench.run(Command::Grant { approval: grant, always: Always::Tool }).unwrap();
        end(&mut bench, ended(a, 1, TurnStatus::Completed, vec![grant]));
        assert!(bench.state.approvals.contains_key(&grant), "it stays");
        ends(&mut bench, a, grant);
        assert!(bench.state.approvals.is_empty(), "{what}");
    }
}

/// CONTRACT 22.36
#[test]
fn masked_arguments_are_equal_to_none() {
    let mut bench = Bench::new();
    let a = bench.node("a", "implementer");
    let masked = || tool("sh", json!({"in": ["curl -H ***"]}));
    bench.run_as(a, ask(a, masked(), 1)).unwrap();
    let approval = newest(&bench).id;
    let refused = bench.run(Command::Grant { approval, always: Always::Call }).unwrap_err();
    assert!(refused.to_string().contains("masked"), "{refused}");
    bench.run(Command::Grant { approval, always: Always::Tool }).unwrap();
    let mut one = newest(&bench);
    assert!(one.covers(a, &masked()));
    one.always = Some(Always::Call);
    assert!(!one.covers(a, &masked()), "a secret of another call may be behind it");
}

/// CONTRACT 22.37
#[test]
fn an_overdue_request_has_an_answer_of_its_own() {
    let mut bench = Bench::new();
    let a = bench.node("a", "implementer");
    // The operations of the bench are a millisecond apart.
    let at = op(0).at.millis();
    let expires_at = Timestamp::from_millis(at + 5);
    let ask = Command::Ask {
        node: a,
        tool: tool("sh", json!({})),
        context: None,
        expires_at,
        heard: Vec::new(),
        turn: None,
    };
    bench.run_as(a, ask).unwrap();
    assert!(bench.state.run.waiting_for.is_some());
    let id = newest(&bench).id;
    assert!(bench.run(Command::Expire(a)).unwrap().events.is_empty(), "it has time left");
    let late = Op { at: Timestamp::from_millis(at + 5).unwrap(), ..op(100) };
    let refused = decide(&bench.state, &[approved(id)], &late, Rules::default()).unwrap_err();
    assert!(matches!(refused, Refusal::Overdue(_)));
    let refused = decide(
        &bench.state,
        &[Command::Grant { approval: id, always: Always::Tool }],
        &late,
        Rules::default(),
    );
    assert!(matches!(refused.unwrap_err(), Refusal::Overdue(_)));
    let decided = decide(&bench.state, &[Command::Expire(a)], &late, Rules::default()).unwrap();
    let one = &decided.state.approvals[&id];
    assert_eq!(one.resolution.as_ref().unwrap().status, Answer::Expired);
    assert_eq!(one.resolved_by, Some(By::Policy { runner: "host-1".to_owned(), grant: None }));
    assert!(decided.state.run.waiting_for.is_none());
}

/// CONTRACT 22.36
#[test]
fn what_permissions_answer_is_recorded_with_the_turn() {
    for status in [TurnStatus::Completed, TurnStatus::Failed] {
        let mut bench = Bench::new();
        let a = bench.node("a", "implementer");
        let answered =
            |is_approved| Answered { tool: tool("sh", json!({"c": 1})), context: None, is_approved };
        let turn =
            EndedTurn { answered: vec![answered(true), answered(false)], ..ended(a, 1, status, Vec::new()) };
        let decided = bench.run(Command::EndTurn(Box::new(turn))).unwrap();
        let pair = ["approval.requested", "approval.resolved"];
        assert_eq!(kinds(&decided.events), [pair, pair].concat());
        let by = decided.events.iter().filter_map(|event| match &event.body {
            Body::ApprovalResolved(body) => Some((event.by.clone(), body.resolution.status)),
            _ => None,
        });
        let policy = || By::Policy { runner: "host-1".to_owned(), grant: None };
        assert_eq!(by.collect::<Vec<_>>(), [(policy(), Answer::Approved), (policy(), Answer::Denied)]);
        assert!(bench.state.approvals.is_empty(), "no later turn hears them: {status:?}");
    }
}

#[test]
fn a_run_waits_while_a_request_is_open() {
    let mut bench = Bench::new();
    let a = bench.node("a", "implementer");
    bench.run_as(a, ask(a, tool("sh", json!({})), 1)).unwrap();
    let waits = |bench: &Bench| bench.state.run.waiting_for.is_some();
    assert!(waits(&bench));
    let to = |status| Command::SetRun(RunEdit { status: Some(status), ..RunEdit::default() });
    bench.run(to(RunStatus::Paused)).unwrap();
    assert!(waits(&bench));
    bench.run(to(RunStatus::Stopped)).unwrap();
    assert!(!waits(&bench), "a run that has ended waits for nobody");
    bench.run(to(RunStatus::Running)).unwrap();
    assert!(waits(&bench));
    let id = newest(&bench).id;
    bench.run(approved(id)).unwrap();
    assert!(!waits(&bench));
}

#[test]
fn a_node_asks_for_itself_alone() {
    let mut bench = Bench::new();
    let (a, b) = (bench.node("a", "implementer"), bench.node("b", "implementer"));
    assert!(matches!(bench.run_as(a, ask(b, tool("sh", json!({})), 1)), Err(Refusal::PersonsOnly(_))));
}
