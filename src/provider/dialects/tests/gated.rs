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
    /// An answer to the request with this id.
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

/// The sentences for the next prompt.
pub(super) fn unsaid(events: &[Event]) -> Vec<&str> {
    let mut all = Vec::new();
    for event in events {
        if let Event::Unsaid(words) = event {
            all.push(words.as_str());
        }
    }
    all
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
    const OWN: &str = r#"{"type":"approval.resolved","approvalId":"a","resolution":{"status":"approved"}}"#;
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
            "answered by itself",
            vec![Line(ASK), Line(OWN), Answer("a", denied("no"))],
            vec![("a".into(), no("no"))],
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

/// CONTRACT 19.13
#[test]
fn claude_asks_before_each_tool() {
    let hook = |id: &str, tool: &str, name: &str, input: Value| {
        let input = json!({"hook_event_name": "PreToolUse", "tool_name": name, "tool_input": input, "tool_use_id": tool});
        let request = json!({"subtype": "hook_callback", "callback_id": "gate", "input": input});
        json!({"type": "control_request", "request_id": id, "request": request}).to_string()
    };
    let bash = hook("h", "t", "Bash", json!({"command": "x"}));
    let other = hook("o", "u", "Bash", json!({"command": "z"}));
    let can = |id: &str, command: &str| {
        let request = json!({"subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": command}, "tool_use_id": "t"});
        json!({"type": "control_request", "request_id": id, "request": request}).to_string()
    };
    let (same, changed_call) = (can("c", "x"), can("c", "y"));
    let read = hook("r", "v", "Read", json!({"file_path": "/work-tree/a"}));
    let elsewhere = hook("h", "t", "Read", json!({"file_path": "/etc/passwd"}));
    let question = hook("q", "w", "AskUserQuestion", json!({}));
    let garbled = bash.replace("PreToolUse", "Stop");
    let unnamed = bash.replace("\"tool_name\":\"Bash\"", "\"x\":1");
    let cancel = r#"{"type":"control_cancel_request","request_id":"h"}"#;
    let two = r#"{"type":"assistant","message":{"id":"m","content":[{"type":"tool_use","id":"t"},{"type":"tool_use","id":"v"}]}}"#;
    let yes = Resolution::Approved;
    // The words of the answers, in order: the decision, and changed arguments or a reason of ours.
    let table: Vec<(&str, Vec<Step<'_>>, &[&str], usize)> = vec![
        ("held", vec![Line(&bash)], &[], 1),
        ("granted", vec![Line(&bash), Answer("h", yes.clone())], &["allow"], 1),
        (
            "granted, and asked by the mode",
            vec![Line(&bash), Answer("h", yes.clone()), Line(&same)],
            &["allow", "allow x"],
            1,
        ),
        (
            "granted, and the mode asks about another one",
            vec![Line(&bash), Answer("h", yes.clone()), Line(&changed_call)],
            &["allow"],
            2,
        ),
        (
            "changed",
            vec![Line(&bash), Answer("h", changed("y")), Line(&changed_call)],
            &["allow y", "allow y"],
            1,
        ),
        ("denied", vec![Line(&bash), Answer("h", denied("not this"))], &["deny not this"], 1),
        ("parked", vec![Line(&bash), Abandon(true)], &["defer"], 1),
        ("not parked, but ended", vec![Line(&bash), Abandon(false)], &["deny"], 1),
        ("two are denied", vec![Line(&bash), Line(&other), Abandon(true)], &["deny", "deny"], 2),
        ("one of two calls is denied", vec![Line(two), Line(&bash), Abandon(true)], &["deny"], 1),
        (
            "a defer that is ignored",
            vec![Line(&bash), Abandon(true), Line(&same), Abandon(true)],
            &["defer", "deny"],
            2,
        ),
        ("taken back", vec![Line(&bash), Line(cancel), Answer("h", yes.clone())], &[], 1),
        ("doubled", vec![Line(&bash), Line(&bash), Answer("h", yes.clone()), Line(&bash)], &["allow"], 1),
        ("used again", vec![Line(&bash), Answer("h", yes.clone()), Line(&elsewhere)], &["allow", "deny"], 1),
        ("reading", vec![Line(&read)], &["allow"], 0),
        ("reading elsewhere", vec![Line(&elsewhere)], &[], 1),
        ("a question", vec![Line(&question)], &["deny"], 0),
        ("garbled", vec![Line(&garbled), Answer("h", yes.clone())], &["deny"], 0),
        ("without a name", vec![Line(&unnamed), Answer("h", yes.clone())], &["deny"], 0),
        ("cut", vec![Line(&bash[..bash.len() - 9]), Answer("h", yes)], &[], 0),
    ];
    for (name, steps, expected, count) in table {
        let mut dialect = of(Kind::Claude, gated());
        let (writes, events) = drive(&mut *dialect, &steps);
        assert_eq!(asked(&events).len(), count, "{name}");
        assert_eq!(writes.len(), expected.len(), "{name}: {writes:?}");
        for (write, words) in writes.iter().zip(expected) {
            let text = write.to_string();
            assert!(
                words.split(' ').next().is_some_and(|word| text.contains(&format!("\"{word}\""))),
                "{name}: {text}"
            );
            assert!(
                words.split_once(' ').is_none_or(|(_, rest)| text.contains(&format!("\"{rest}\""))),
                "{name}: {text}"
            );
        }
    }
}

/// CONTRACT 19.13
#[test]
fn damaged_streams_get_no_yes() {
    for name in [
        "claude-hook-callback-defer",
        "claude-gated-approved",
        "codex-gated-approved",
        "acp-gemini-gated-approved",
        "acp-claude-gated-approved",
        "acp-opencode-gated-approved",
    ] {
        let (kind, whole) = (super::kind(name), super::stream(name));
        let yes = |writes: &[Value]| {
            let text = format!("{writes:?}");
            ["allow", "accept", "proceed", "\"once"].iter().any(|word| text.contains(word))
        };
        for end in (0..whole.len()).step_by(97).chain([whole.len()]) {
            let (mut dialect, mut lines) = (of(kind, gated()), crate::provider::lines::Lines::default());
            let doubled: Vec<u8> = whole[..end]
                .split_inclusive(|byte| *byte == b'\n')
                .flat_map(|line| [line, line])
                .flatten()
                .copied()
                .collect();
            for line in lines.push(&doubled).into_iter().chain(lines.end()) {
                let crate::provider::lines::Line::Whole(line) = line else { continue };
                let (writes, events) = drive(&mut *dialect, &[Line(&String::from_utf8_lossy(&line))]);
                assert!(!yes(&writes), "{name} {end}");
                for request in asked(&events) {
                    let (writes, _) = drive(
                        &mut *dialect,
                        &[
                            Answer(&request.id, Resolution::Denied { reason: None }),
                            Answer(&request.id, Resolution::Approved),
                        ],
                    );
                    assert!(writes.len() == 1 && !yes(&writes), "{name} {end}");
                }
            }
        }
    }
}
