//! The dialects with requests that are answered later.

use serde_json::{Map, Value, json};

use super::super::{Dialect, Out, Task, of};
use super::task;
use crate::flow::document::Approval;
use crate::provider::event::Event;
use crate::provider::gate::{Request, Resolution};
use crate::provider::name::Kind;

/// A step of a test.
pub(super) enum Step<'a> {
    /// The program prints this.
    Line(&'a str),
    /// Somebody answers the request with this id.
    Answer(&'a str, Resolution),
    /// The turn ends. Whether it is parked.
    Abandon(bool),
}

use Step::{Abandon, Answer, Line};

pub(super) fn gated() -> Task {
    Task { is_gated: true, ..task(Approval::FailOnPrompt) }
}

pub(super) fn denied(reason: &str) -> Resolution {
    Resolution::Denied { reason: Some(reason.to_owned()) }
}

pub(super) fn changed(command: &str) -> Resolution {
    Resolution::ApprovedWith(Map::from_iter([("command".to_owned(), command.into())]))
}

/// Takes steps, without the first writes. Returns what is written and the events.
pub(super) fn drive(dialect: &mut dyn Dialect, steps: &[Step<'_>]) -> (Vec<Value>, Vec<Event>) {
    let (mut writes, mut events) = (Vec::new(), Vec::new());
    for step in steps {
        let Out { writes: lines, events: new, .. } = match step {
            Line(line) => dialect.line(line.as_bytes()),
            Answer(id, resolution) => dialect.answer(id, resolution),
            Abandon(is_parked) => dialect.abandon(*is_parked),
        };
        writes.extend(lines.iter().map(|line| serde_json::from_slice::<Value>(line).expect("JSON")));
        events.extend(new);
    }
    (writes, events)
}

pub(super) fn asked(events: &[Event]) -> Vec<Request> {
    let request = |event: &Event| match event {
        Event::Asked(request) => Some(request.clone()),
        _ => None,
    };
    events.iter().filter_map(request).collect()
}

pub(super) fn withdrawn(events: &[Event]) -> Vec<&str> {
    let id = |event: &'_ Event| matches!(event, Event::Withdrawn { .. });
    events
        .iter()
        .filter(|event| id(event))
        .map(|event| match event {
            Event::Withdrawn { id } => id.as_str(),
            _ => "",
        })
        .collect()
}

/// CONTRACT 19.3, 19.13
#[test]
fn a_program_of_the_vocabulary_waits_for_its_answer() {
    const ASK: &str = r#"{"type":"approval.requested","approvalId":"a","tool":{"id":"t","name":"rm","args":{"command":"x"}},"context":"why"}"#;
    const OTHER: &str =
        r#"{"type":"approval.requested","approvalId":2,"tool":{"id":"u","name":"ls","args":{}}}"#;
    const AGAIN: &str =
        r#"{"type":"approval.requested","approvalId":"a","tool":{"id":"v","name":"dd","args":{}}}"#;
    const BACK: &str = r#"{"type":"approval.resolved","approvalId":"a","resolution":{"status":"withdrawn"}}"#;
    const LATE: &str = "Nobody has answered yet, and the turn ends. It was not run.";
    let no = |reason: &str| json!({"status": "denied", "reason": reason});
    let policy = "The policy of this run does not permit it, and nobody can be asked. Continue without it.";
    let alone = "It was denied. Do not try it again in another way; continue without it.";
    type Row<'a> = (&'a str, Vec<Step<'a>>, Vec<(Value, Value)>, usize);
    let table: Vec<Row<'_>> = vec![
        ("held", vec![Line(ASK)], vec![], 1),
        (
            "granted",
            vec![Line(ASK), Answer("a", Resolution::Approved)],
            vec![("a".into(), json!({"status": "approved"}))],
            1,
        ),
        ("denied", vec![Line(ASK), Answer("a", denied("no"))], vec![("a".into(), no("no"))], 1),
        (
            "denied without a reason",
            vec![Line(ASK), Answer("a", Resolution::Denied { reason: None })],
            vec![("a".into(), no(alone))],
            1,
        ),
        (
            "changed",
            vec![Line(ASK), Answer("a", changed("y"))],
            vec![("a".into(), json!({"status": "modified", "modifiedArgs": {"command": "y"}}))],
            1,
        ),
        (
            "parked",
            vec![Line(ASK), Line(OTHER), Abandon(true)],
            vec![("a".into(), no(LATE)), (2.into(), no(LATE))],
            2,
        ),
        (
            "in another order",
            vec![Line(ASK), Line(OTHER), Answer("2", Resolution::Approved), Abandon(false)],
            vec![(2.into(), json!({"status": "approved"})), ("a".into(), no(LATE))],
            2,
        ),
        (
            "taken back",
            vec![Line(ASK), Line(BACK), Answer("a", Resolution::Approved), Abandon(true)],
            vec![],
            1,
        ),
        (
            "doubled",
            vec![Line(ASK), Line(ASK), Answer("a", Resolution::Approved)],
            vec![("a".into(), json!({"status": "approved"}))],
            1,
        ),
        (
            "doubled after its answer",
            vec![Line(ASK), Answer("a", Resolution::Approved), Line(ASK)],
            vec![("a".into(), json!({"status": "approved"}))],
            1,
        ),
        (
            "answered twice",
            vec![Line(ASK), Answer("a", denied("no")), Answer("a", Resolution::Approved)],
            vec![("a".into(), no("no"))],
            1,
        ),
        // An answer is not used for another request with the same id.
        (
            "used again",
            vec![Line(ASK), Answer("a", Resolution::Approved), Line(AGAIN)],
            vec![("a".into(), json!({"status": "approved"})), ("a".into(), no(policy))],
            1,
        ),
        ("unknown", vec![Answer("b", Resolution::Approved)], vec![], 0),
        ("without an id", vec![Line(r#"{"type":"approval.requested"}"#)], vec![], 0),
        ("cut", vec![Line(&ASK[..60]), Answer("a", Resolution::Approved)], vec![], 0),
    ];
    for (name, steps, expected, count) in table {
        let mut dialect = of(Kind::Jsonl, gated());
        let (writes, events) = drive(&mut *dialect, &steps);
        let expected: Vec<Value> = expected.iter().map(|(id, resolution)| json!({"type": "approval.resolved", "approvalId": id, "resolution": resolution})).collect();
        assert_eq!(writes, expected, "{name}");
        let asked = asked(&events);
        assert_eq!(asked.len(), count, "{name}");
        if let Some(first) = asked.first() {
            assert_eq!(
                (
                    first.id.as_str(),
                    first.tool.id.as_str(),
                    first.tool.name.as_str(),
                    first.context.as_deref()
                ),
                ("a", "t", "rm", Some("why"))
            );
            assert!(first.carries_args && first.carries_reason);
        }
        assert_eq!(withdrawn(&events), if name == "taken back" { vec!["a"] } else { vec![] }, "{name}");
    }
}
