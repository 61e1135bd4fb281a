//! The words of the shared contract, byte for byte, and what is refused when it is read.

use serde_json::{Value, json};

use super::{Bench, fresh};
use crate::model::decide::Command;
use crate::model::event::Event;
use crate::model::ids::{
    Alias, ApprovalId, ArtifactId, EdgeId, FileName, MessageId, NodeId, ProviderName, RunId, Slug, StepId,
};
use crate::model::message::Payload;
use crate::model::node::Provider;
use crate::model::run::Usage;
use crate::model::state::{Entry, State};
use crate::model::time::Timestamp;

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

fn has(value: &Value, fields: &[&str]) {
    for field in fields {
        assert!(value.get(field).is_some(), "{field} is missing in {value}");
    }
}

#[test]
fn a_run_has_the_fields_of_the_contract() {
    let run = serde_json::to_value(&fresh().state.run).unwrap();
    has(&run, &["id", "contractVersion", "status", "mode", "globalMode", "createdAt", "updatedAt"]);
    assert_eq!(
        (&run["contractVersion"], &run["status"], &run["mode"], &run["globalMode"]),
        (&json!("1"), &json!("running"), &json!("INTERACTIVE"), &json!("IMPLEMENTATION"))
    );
    assert_eq!(run["createdAt"], "2027-01-15T08:00:00.000Z");
}

#[test]
fn a_node_has_the_fields_of_the_contract() {
    let mut bench = Bench::new();
    let id = bench.node("implementer-a", "implementer");
    let node = serde_json::to_value(&bench.state.nodes[&id]).unwrap();
    let fields = [
        "id",
        "runId",
        "label",
        "roleTemplate",
        "provider",
        "status",
        "summary",
        "lastActivityAt",
        "capabilities",
        "permissions",
        "session",
    ];
    has(&node, &fields);
    assert_eq!((&node["provider"], &node["status"]), (&json!("claude"), &json!("idle")));
    assert_eq!(
        node["capabilities"],
        json!({"edgeManagement": "none", "writeCode": true, "writeDocs": true, "runCommands": true, "delegateOnly": false})
    );
    assert_eq!(
        node["permissions"],
        json!({"cliPermissionsMode": "gated", "agentManagementRequiresApproval": true})
    );
    assert_eq!(node["session"], json!({"sessionId": "pending", "resetCommands": ["/new", "/clear"]}));
}

/// CONTRACT 19.10
#[test]
fn a_provider_has_one_of_four_words() {
    for (name, word) in [
        ("codex", "codex"),
        ("claude", "claude"),
        ("gemini", "gemini"),
        ("custom", "custom"),
        ("scripted", "custom"),
    ] {
        let provider = Provider::of(&ProviderName::parse(name).unwrap());
        assert_eq!(serde_json::to_value(provider).unwrap(), word, "{name}");
    }
    assert!(serde_json::from_value::<Provider>(json!("scripted")).is_err());
}

#[test]
fn edges_envelopes_and_events_have_the_fields_of_the_contract() {
    let mut bench = Bench::new();
    let (from, to) = (bench.node("a", "implementer"), bench.node("b", "reviewer"));
    bench.edge(from, to).unwrap();
    let edge = serde_json::to_value(bench.state.edges.values().next().unwrap()).unwrap();
    assert_eq!(keys(&edge), ["id", "from", "to", "bidirectional", "type", "label"]);
    let payload: Payload = serde_json::from_value(json!({
        "message": "short summary",
        "structured": {"key": "value"},
        "artifacts": [{"type": "diff", "ref": "artifact://diff/123"}],
        "status": {"ok": true, "reason": "tests-pass"},
        "response": {"expectation": "optional", "replyTo": "node-a"},
    }))
    .unwrap();
    let sent = bench.run(Command::HandOff { from, to, payload }).unwrap();
    let event = serde_json::to_value(&sent.events[0]).unwrap();
    assert_eq!(keys(&event), ["id", "runId", "ts", "by", "type", "envelope"]);
    assert_eq!(event["type"], "handoff.sent");
    assert_eq!(keys(&event["envelope"]), ["kind", "id", "fromNodeId", "toNodeId", "createdAt", "payload"]);
    assert_eq!(event["envelope"]["kind"], "handoff");
    assert_eq!(
        keys(&event["envelope"]["payload"]),
        ["message", "structured", "artifacts", "status", "response"]
    );
}

#[test]
fn names_that_could_leave_their_place_are_refused() {
    let bad = ["", ".", "..", "a/b", "../x", "a b", "A", "-a", "a\n", "ä", &"a".repeat(33)];
    for text in bad {
        assert!(Alias::parse(text).is_err() && ProviderName::parse(text).is_err(), "{text:?}");
    }
    for text in ["", ".", "..", "a/b", "a\\b", "a\u{0}", "a\nb", &"a".repeat(256)] {
        assert!(FileName::parse(text).is_err(), "{text:?}");
    }
    for text in ["", "1234567", "1234567G", "ABCDEF01", "1234-5678"] {
        assert!(Slug::parse(text).is_err(), "{text:?}");
    }
    for text in ["", "_a", "-a", "A", "a.b", &"a".repeat(65)] {
        assert!(StepId::parse(text).is_err(), "{text:?}");
    }
    for text in ["", "x", "{00000000-0000-0000-0000-000000000000}", "00000000000000000000000000000000"] {
        assert!(RunId::parse(text).is_none() && NodeId::parse(text).is_none(), "{text:?}");
        assert!(EdgeId::parse(text).is_none() && MessageId::parse(text).is_none(), "{text:?}");
        assert!(ArtifactId::parse(text).is_none() && ApprovalId::parse(text).is_none(), "{text:?}");
    }
    assert!(FileName::parse("Ärger 1.patch").is_ok() && StepId::parse("fix_2-b").is_ok());
}

#[test]
fn each_entry_has_one_path() {
    let id = "0a000000-0000-4000-8000-000000000001";
    for good in [
        "run.json".to_owned(),
        format!("nodes/0a/{id}.json"),
        format!("inbox/{id}/12.json"),
        "turns/10/1002.json".to_owned(),
        "workspaces/flow.json".to_owned(),
    ] {
        assert_eq!(Entry::parse(&good).map(|entry| entry.path()), Some(good));
    }
    for bad in [
        "run",
        "Run.json",
        "nodes/x.json",
        "../run.json",
        "workspaces/../x.json",
        "turns/0/1002.json",
        "turns/1/01002.json",
    ]
    .map(str::to_owned)
    .into_iter()
    .chain([format!("nodes/0b/{id}.json"), format!("nodes/0a/{}.json", id.to_uppercase())])
    {
        assert_eq!(Entry::parse(&bad), None, "{bad}");
    }
}

#[test]
fn a_file_with_the_content_of_another_is_refused() {
    let mut bench = Bench::new();
    let (one, two) = (bench.node("a", "implementer"), bench.node("b", "reviewer"));
    let content = bench.state.content(&Entry::Node(one)).unwrap();
    let mut state = fresh().state;
    assert!(state.load(&Entry::Node(two), &content).unwrap_err().to_string().contains("another file"));
    assert!(state.load(&Entry::Node(one), b"{}").unwrap_err().to_string().contains("nodes/"));
    assert_eq!(state, fresh().state);
    assert!(State::from_run(b"[]").is_err());
}

#[test]
fn lines_of_strangers_are_refused_with_a_reason() {
    let line = |change: fn(&mut Value)| {
        let mut event = serde_json::to_value(&fresh().events[0]).unwrap();
        change(&mut event);
        Event::parse(&serde_json::to_vec(&event).unwrap()).map_err(|error| error.to_string())
    };
    assert!(line(|_| {}).is_ok());
    assert!(line(|event| event["extra"] = json!(1)).is_ok(), "fields of later versions are ignored");
    type Change = fn(&mut Value);
    let cases: [(Change, &str); 6] = [
        (|event| event["type"] = json!("run.explode"), "run.explode"),
        (|event| event["ts"] = json!("yesterday"), "yesterday"),
        (|event| event["runId"] = json!("x"), "no event"),
        (|event| event["patch"]["slug"] = json!("../../etc"), "slug"),
        (|event| event["patch"]["status"] = json!("exploded"), "exploded"),
        (|event| event["patch"] = json!({"nonsense": 1}), "nonsense"),
    ];
    for (change, why) in cases {
        let error = line(change).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
    assert!(Event::parse(&vec![b' '; 300_000]).unwrap_err().to_string().contains("bytes"));
}

#[test]
fn times_are_read_with_any_offset_and_written_in_utc() {
    for (text, written) in [
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00.000Z"),
        ("2026-01-01T01:00:00.123456+01:00", "2026-01-01T00:00:00.123Z"),
    ] {
        let time: Timestamp = serde_json::from_value(json!(text)).unwrap();
        assert_eq!(time.to_string(), written);
    }
}

#[test]
fn a_cost_is_read_as_it_was_written() {
    let mut sum = 0.0;
    for number in 0..2_000 {
        sum += f64::from(number) / 3.0;
        let usage = Usage { cost_usd: Some(sum), ..Usage::default() };
        let text = serde_json::to_string(&usage).unwrap();
        assert_eq!(serde_json::from_str::<Usage>(&text).unwrap(), usage, "{text}");
    }
}
