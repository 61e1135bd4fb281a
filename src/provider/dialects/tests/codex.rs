//! Codex with requests that are answered later.

use serde_json::{Value, json};

use super::super::{Task, of};
use super::gated::Step::{self, Abandon, Answer, Line};
use super::gated::{asked, changed, denied, drive, gated, unsaid, withdrawn};
use super::{end, play, stream, written};
use crate::flow::document::{Approval, Execution};
use crate::provider::gate::Resolution;
use crate::provider::name::Kind;
use crate::provider::turn::Posture;

fn request(id: u64, kind: &str, more: &Value) -> String {
    let mut params = json!({"threadId": "th", "turnId": "tu"});
    params.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    json!({"id": id, "method": kind, "params": params}).to_string()
}

fn command(id: u64, command: &str) -> String {
    let kind = "item/commandExecution/requestApproval";
    request(id, kind, &json!({"itemId": "i", "command": command, "cwd": "/work-tree", "reason": "why"}))
}

fn patch(id: u64, more: &Value) -> String {
    request(id, "item/fileChange/requestApproval", more)
}

fn item(method: &str, thread: &str, item: &Value) -> String {
    json!({"method": method, "params": {"threadId": thread, "item": item}}).to_string()
}

/// The answers and messages of a turn, shortened.
fn words(writes: &[Value]) -> Vec<String> {
    let word = |write: &Value| {
        let said = write.pointer("/params/input/0/text").and_then(Value::as_str);
        let decided = ["/result/decision", "/result/action", "/error/message"];
        let decided = decided.iter().find_map(|pointer| write.pointer(pointer)?.as_str());
        said.or(decided).unwrap_or("?").to_owned()
    };
    writes.iter().map(word).collect()
}

const NO: &str = "Your request to use command with {\"command\":\"x\"} was denied: not this";
const OTHER: &str = "Your request to use command with {\"command\":\"x\"} was not run. It is \
                     allowed with {\"command\":\"y\"} instead: request exactly that if you need it.";

/// CONTRACT 19.13
#[test]
fn a_command_waits_for_its_answer() {
    let (ask, second) = (command(0, "x"), command(1, "z"));
    let again = command(0, "other");
    let back = r#"{"method":"serverRequest/resolved","params":{"threadId":"th","requestId":0}}"#;
    let taken = r#"{"id":5,"result":{"turnId":"tu"}}"#;
    let refused = r#"{"id":5,"error":{"code":-32600,"message":"no active turn to steer"}}"#;
    let completed =
        r#"{"method":"turn/completed","params":{"turn":{"id":"tu","status":"completed","error":null}}}"#;
    let empty = request(0, "item/commandExecution/requestApproval", &json!({"itemId": "i"}));
    let input = ask.replace("\"command\":\"x\"", "\"command\":\"x\",\"kind\":\"writeStdin\"");
    assert_ne!(input, ask);
    let unknown = request(0, "item/permissions/requestApproval", &json!({"itemId": "i"}));
    let yes = || Resolution::Approved;
    type Row<'a> = (&'a str, Vec<Step<'a>>, &'a [&'a str], usize, &'a [&'a str]);
    let table: Vec<Row<'_>> = vec![
        ("held", vec![Line(&ask)], &[], 1, &[]),
        ("granted", vec![Line(&ask), Answer("0", yes())], &["accept"], 1, &[]),
        (
            "denied without a reason",
            vec![Line(&ask), Answer("0", Resolution::Denied { reason: None })],
            &["decline"],
            1,
            &[],
        ),
        (
            "denied",
            vec![Line(&ask), Answer("0", denied("not this")), Line(taken), Line(completed)],
            &[NO, "decline"],
            1,
            &[],
        ),
        (
            "the turn does not take the reason",
            vec![Line(&ask), Answer("0", denied("not this")), Line(refused), Line(refused), Line(completed)],
            &[NO, "decline"],
            1,
            &[NO],
        ),
        (
            "the turn ends before it takes the reason",
            vec![Line(&ask), Answer("0", denied("not this")), Line(completed), Line(taken)],
            &[NO, "decline"],
            1,
            &[NO],
        ),
        ("changed", vec![Line(&ask), Answer("0", changed("y"))], &[OTHER, "decline"], 1, &[]),
        (
            "parked",
            vec![Line(&ask), Line(&second), Abandon(true), Answer("0", yes())],
            &["cancel", "cancel"],
            2,
            &[],
        ),
        ("ended", vec![Line(&ask), Abandon(false)], &["cancel"], 1, &[]),
        ("taken back", vec![Line(&ask), Line(back), Answer("0", yes()), Abandon(true)], &[], 1, &[]),
        (
            "doubled",
            vec![Line(&ask), Line(&ask), Answer("0", yes()), Line(back), Line(&ask)],
            &["accept"],
            1,
            &[],
        ),
        ("used again", vec![Line(&ask), Answer("0", yes()), Line(&again)], &["accept", "decline"], 1, &[]),
        ("unclear", vec![Line(&empty), Answer("0", yes())], &["decline"], 0, &[]),
        ("input", vec![Line(&input), Answer("0", yes())], &["decline"], 0, &[]),
        (
            "unknown",
            vec![Line(&unknown), Answer("0", yes())],
            &["aynig does not answer item/permissions/requestApproval"],
            0,
            &[],
        ),
        ("cut", vec![Line(&ask[..ask.len() - 9]), Answer("0", yes())], &[], 0, &[]),
    ];
    for (name, steps, expected, count, left) in table {
        let mut dialect = of(Kind::Codex, gated());
        let (writes, events) = drive(&mut *dialect, &steps);
        assert_eq!(words(&writes), expected, "{name}");
        assert_eq!(unsaid(&events), left, "{name}");
        let asked = asked(&events);
        assert_eq!(asked.len(), count, "{name}");
        if let Some(first) = asked.first() {
            let args = json!({"command": "x"});
            assert_eq!(
                (first.id.as_str(), first.tool.id.as_str(), first.tool.name.as_str()),
                ("0", "i", "command")
            );
            assert_eq!((&json!(first.tool.args), first.context.as_deref()), (&args, Some("why")));
            assert!(first.carries_reason && !first.carries_args);
        }
        assert_eq!(withdrawn(&events), if name == "taken back" { vec!["0"] } else { vec![] }, "{name}");
    }
    // What the program is still to say is left, too, when it dies.
    let mut dialect = of(Kind::Codex, gated());
    drive(&mut *dialect, &[Line(&ask), Answer("0", denied("not this"))]);
    assert_eq!(unsaid(&dialect.eof().events), [NO]);
}

/// CONTRACT 19.13
#[test]
fn a_patch_is_asked_about_with_its_changes() {
    let change = |path: &str| json!([{"path": path, "kind": {"type": "add"}, "diff": "one\n"}]);
    let begun = |thread: &str, path: &str| {
        item("item/started", thread, &json!({"type": "fileChange", "id": "i", "changes": change(path)}))
    };
    let done = item("item/completed", "th", &json!({"type": "fileChange", "id": "i"}));
    let updated = json!({"threadId": "th", "itemId": "i", "changes": change("/work-tree/b")});
    let updated = json!({"method": "item/fileChange/patchUpdated", "params": updated}).to_string();
    let (near, far, sub) = (begun("th", "/work-tree/a"), begun("th", "/etc/a"), begun("sub", "/work-tree/a"));
    let ask = patch(0, &json!({"itemId": "i", "reason": null, "grantRoot": null}));
    let root = patch(0, &json!({"itemId": "i", "grantRoot": "/"}));
    type Row<'a> = (&'a str, Vec<Step<'a>>, &'a [&'a str], Option<Value>);
    let table: [Row<'_>; 7] = [
        ("in the worktree", vec![Line(&near), Line(&ask)], &[], Some(change("/work-tree/a"))),
        ("elsewhere", vec![Line(&far), Line(&ask)], &[], Some(change("/etc/a"))),
        ("of a subagent", vec![Line(&sub), Line(&ask)], &[], Some(change("/work-tree/a"))),
        ("that grew", vec![Line(&near), Line(&updated), Line(&ask)], &[], Some(change("/work-tree/b"))),
        ("unknown", vec![Line(&ask)], &["decline"], None),
        ("done", vec![Line(&near), Line(&done), Line(&ask)], &["decline"], None),
        ("for all that follows", vec![Line(&near), Line(&root)], &["decline"], None),
    ];
    for (name, steps, expected, changes) in table {
        let mut dialect = of(Kind::Codex, gated());
        let (writes, events) = drive(&mut *dialect, &steps);
        assert_eq!(words(&writes), expected, "{name}");
        let asked: Vec<_> =
            asked(&events).into_iter().map(|request| request.tool.args["changes"].clone()).collect();
        assert_eq!(asked, changes.into_iter().collect::<Vec<_>>(), "{name}");
    }
}

/// CONTRACT 19.13
#[test]
fn a_tool_of_a_server_is_asked_about_by_its_full_name() {
    let call = json!({"type": "mcpToolCall", "id": "c", "server": "s", "tool": "t", "arguments": {"a": 1}});
    let begun = item("item/started", "th", &call);
    let meta = json!({"codex_approval_kind": "mcp_tool_call", "tool_name": "t", "tool_params": {"a": 1}});
    let ask = |meta: &Value| {
        request(
            0,
            "mcpServer/elicitation/request",
            &json!({"serverName": "s", "message": "May it?", "_meta": meta}),
        )
    };
    let (tool, question) = (ask(&meta), ask(&Value::Null));
    for (resolution, word) in [
        (Resolution::Approved, json!({"action": "accept", "content": {}})),
        (Resolution::Denied { reason: None }, json!({"action": "decline"})),
        (Resolution::Parked, json!({"action": "cancel"})),
    ] {
        let mut dialect = of(Kind::Codex, gated());
        let (writes, events) = drive(&mut *dialect, &[Line(&begun), Line(&tool), Answer("0", resolution)]);
        assert_eq!(writes, [json!({"id": 0, "result": word})]);
        let asked = asked(&events);
        assert_eq!(
            (asked[0].tool.id.as_str(), asked[0].tool.name.as_str(), asked[0].context.as_deref()),
            ("c", "mcp__s__t", Some("May it?"))
        );
        assert!(format!("{:?}", events[0]).contains("mcp__s__t"), "{events:?}");
    }
    let (writes, events) = drive(&mut *of(Kind::Codex, gated()), &[Line(&question)]);
    assert_eq!((writes, asked(&events).len()), (vec![json!({"id": 0, "result": {"action": "decline"}})], 0));
}

/// CONTRACT 19.13
#[test]
fn a_turn_begins_only_if_it_is_known_to_ask() {
    const FINE: &str =
        r#""approvalPolicy":"untrusted","approvalsReviewer":"user","sandbox":{"type":"workspaceWrite"}"#;
    let fine = |from: &str, to: &str| FINE.replace(from, to);
    let table = [
        (FINE.to_owned(), None),
        (fine(r#""approvalsReviewer":"user","#, ""), None),
        (fine("workspaceWrite", "readOnly"), None),
        (fine("untrusted", "on-request"), Some(r#"for approvalPolicy "untrusted" it answers "on-request""#)),
        (fine("untrusted", "never"), Some(r#"for approvalPolicy "untrusted" it answers "never""#)),
        (
            fine(r#""approvalPolicy":"untrusted","#, ""),
            Some(r#"for approvalPolicy "untrusted" it answers nothing"#),
        ),
        (
            fine(r#""user""#, r#""auto_review""#),
            Some(r#"for approvalsReviewer "user" it answers "auto_review""#),
        ),
        (
            fine("workspaceWrite", "dangerFullAccess"),
            Some(r#"for the sandbox "workspace-write" it answers "dangerFullAccess""#),
        ),
        (
            fine(r#","sandbox":{"type":"workspaceWrite"}"#, ""),
            Some(r#"for the sandbox "workspace-write" it answers nothing"#),
        ),
    ];
    for session in [None, Some("s".to_owned())] {
        for (said, why) in &table {
            let lines = format!(
                "{{\"id\":1,\"result\":{{}}}}\n{{\"id\":2,\"result\":{{\"thread\":{{\"id\":\"th\"}},{said}}}}}\n"
            );
            let task = Task { session: session.clone(), ..gated() };
            let out = play(Kind::Codex, task, lines.as_bytes());
            assert_eq!(written(&out).contains("turn/start"), why.is_none(), "{said}");
            match why {
                None => assert_eq!(end(&out), "nothing", "{said}"),
                Some(why) => {
                    let expected =
                        format!("failed: it does not ask before each tool: {why}; nobody would be asked");
                    assert!(end(&out).starts_with(&expected), "{said}: {}", end(&out));
                }
            }
        }
    }
    let read_only =
        Posture { execution: Execution::ReadOnly, approval: Approval::BoundedAutoApprove, network: None };
    let out = play(Kind::Codex, Task { posture: read_only, ..gated() }, &stream("codex-gated-approved"));
    assert!(
        end(&out).contains(r#"for the sandbox "read-only" it answers "workspaceWrite""#),
        "{}",
        end(&out)
    );
    let text = String::from_utf8(out.writes.concat()).expect("UTF-8");
    assert!(
        text.contains(r#""approvalPolicy":"untrusted","sandbox":"read-only","approvalsReviewer":"user""#),
        "{text}"
    );
}
