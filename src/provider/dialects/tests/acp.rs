//! Agents of the Agent Client Protocol with requests that are answered later.

use serde_json::{Value, json};

use super::super::of;
use super::gated::Step::{self, Abandon, Answer, Line};
use super::gated::{asked, changed, denied, drive, gated, unsaid, withdrawn};
use super::{end, play, task, written};
use crate::flow::document::Approval;
use crate::provider::gate::Resolution;
use crate::provider::name::Kind;

fn request(id: u64, call: &Value, options: &[(&str, &str)]) -> String {
    let option = |(id, kind): &(&str, &str)| json!({"optionId": id, "kind": kind, "name": "x"});
    let options: Vec<Value> = options.iter().map(option).collect();
    let params = json!({"sessionId": "s", "toolCall": call, "options": options});
    json!({"jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": params}).to_string()
}

const ALL: [(&str, &str); 4] =
    [("aa", "allow_always"), ("ao", "allow_once"), ("ra", "reject_always"), ("ro", "reject_once")];

fn command(id: u64, command: &str) -> String {
    let call =
        json!({"toolCallId": "t", "kind": "execute", "title": command, "rawInput": {"command": command}});
    request(id, &call, &ALL)
}

fn update(update: &Value) -> String {
    let params = json!({"sessionId": "s", "update": update});
    json!({"jsonrpc": "2.0", "method": "session/update", "params": params}).to_string()
}

/// The options that were chosen, or the other answer.
fn chosen(writes: &[Value]) -> Vec<&str> {
    let word = |write| {
        let write: &Value = write;
        let decided = ["/result/outcome/optionId", "/result/outcome/outcome", "/error/message", "/method"];
        decided.iter().find_map(|pointer| write.pointer(pointer)?.as_str()).unwrap_or("?")
    };
    writes.iter().map(word).collect()
}

/// CONTRACT 19.13
#[test]
fn a_call_waits_for_its_answer() {
    const NO: &str = "Your request to use execute with {\"command\":\"x\"} was denied: not this";
    const OTHER: &str = "Your request to use execute with {\"command\":\"x\"} was not run. It is allowed with \
                         {\"command\":\"y\"} instead: request exactly that if you need it.";
    let (ask, second, again) = (command(0, "x"), command(1, "z"), command(0, "other"));
    let back = r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":0}}"#;
    let forever = request(0, &json!({"toolCallId": "t", "kind": "execute"}), &[ALL[0], ALL[3]]);
    let always = request(0, &json!({"toolCallId": "t", "kind": "execute"}), &[ALL[1], ALL[2]]);
    let bare = request(0, &json!({"toolCallId": "t", "kind": "execute"}), &[ALL[1]]);
    let unknown = r#"{"jsonrpc":"2.0","id":0,"method":"fs/write_text_file","params":{}}"#;
    let yes = || Resolution::Approved;
    type Row<'a> = (&'a str, Vec<Step<'a>>, &'a [&'a str], usize, &'a [&'a str]);
    let table: Vec<Row<'_>> = vec![
        ("held", vec![Line(&ask)], &[], 1, &[]),
        ("granted", vec![Line(&ask), Answer("0", yes())], &["ao"], 1, &[]),
        ("denied", vec![Line(&ask), Answer("0", denied("not this"))], &["ro"], 1, &[NO]),
        (
            "denied without a reason",
            vec![Line(&ask), Answer("0", Resolution::Denied { reason: None })],
            &["ro"],
            1,
            &[],
        ),
        (
            "denied for ever",
            vec![Line(&always), Answer("0", Resolution::Denied { reason: None })],
            &["ra"],
            1,
            &[],
        ),
        (
            "denied without an option",
            vec![Line(&bare), Answer("0", Resolution::Denied { reason: None })],
            &["cancelled"],
            1,
            &[],
        ),
        ("granted for ever alone", vec![Line(&forever), Answer("0", yes())], &["ro"], 0, &[]),
        ("changed", vec![Line(&ask), Answer("0", changed("y"))], &["ro"], 1, &[OTHER]),
        ("changed into the same", vec![Line(&ask), Answer("0", changed("x"))], &["ao"], 1, &[]),
        (
            "parked",
            vec![Line(&ask), Line(&second), Abandon(true), Answer("0", yes())],
            &["cancelled", "cancelled"],
            2,
            &[],
        ),
        ("ended", vec![Line(&ask), Abandon(false)], &["cancelled"], 1, &[]),
        (
            "taken back",
            vec![Line(&ask), Line(back), Answer("0", yes()), Abandon(true)],
            &["it was taken back"],
            1,
            &[],
        ),
        ("doubled", vec![Line(&ask), Line(&ask), Answer("0", yes()), Line(&ask)], &["ao"], 1, &[]),
        ("used again", vec![Line(&ask), Answer("0", yes()), Line(&again)], &["ao", "ro"], 1, &[]),
        (
            "unknown",
            vec![Line(unknown), Answer("0", yes())],
            &["aynig does not answer fs/write_text_file"],
            0,
            &[],
        ),
        ("cut", vec![Line(&ask[..ask.len() - 9]), Answer("0", yes())], &[], 0, &[]),
    ];
    for (name, steps, expected, count, left) in table {
        let mut dialect = of(Kind::Acp, gated());
        let (writes, events) = drive(&mut *dialect, &steps);
        assert_eq!(chosen(&writes), expected, "{name}");
        assert_eq!(unsaid(&events), left, "{name}");
        let asked = asked(&events);
        assert_eq!(asked.len(), count, "{name}");
        if let Some(first) = asked.first() {
            assert_eq!(
                (first.id.as_str(), first.tool.id.as_str(), first.tool.name.as_str()),
                ("0", "t", "execute")
            );
            assert!(!first.carries_reason && !first.carries_args);
        }
        assert_eq!(withdrawn(&events), if name == "taken back" { vec!["0"] } else { vec![] }, "{name}");
    }
}

/// CONTRACT 19.13
#[test]
fn a_request_says_what_it_is_about() {
    let near = json!([{"path": "/work-tree/a"}]);
    let diff = json!({"type": "diff", "path": "/work-tree/a", "oldText": "1", "newText": "2"});
    let text = json!({"type": "content", "content": {"type": "text", "text": "in /work-tree"}});
    let begun = update(&json!({
        "sessionUpdate": "tool_call", "toolCallId": "t", "kind": "execute", "title": "Terminal", "name": "Bash",
        "rawInput": {"command": "x"},
    }));
    let prompted = [r#"{"id":1,"result":{}}"#, r#"{"id":2,"result":{"sessionId":"s"}}"#];
    let table = [
        // Kind and rest of the call, arguments and context. Without them it is allowed at once.
        (
            json!({"kind": "execute", "title": "ls", "content": [text]}),
            Some((json!({"title": "ls"}), "ls\nin .")),
        ),
        (
            json!({"kind": "edit", "title": "Edit a", "content": [diff], "locations": near}),
            Some((json!({"title": "Edit a", "changes": [diff]}), "Edit a")),
        ),
        (json!({"kind": "read", "title": "a", "locations": near}), None),
        (
            json!({"kind": "read", "title": "a", "locations": [{"path": "/etc/passwd"}]}),
            Some((json!({"title": "a"}), "a")),
        ),
        (json!({"kind": "search", "title": "a"}), Some((json!({"title": "a"}), "a"))),
        (json!({"kind": "think", "title": "a", "locations": near}), Some((json!({"title": "a"}), "a"))),
    ];
    for (call, expected) in table {
        let mut call = call;
        call["toolCallId"] = "t".into();
        let ask = request(0, &call, &ALL);
        let (writes, events) = drive(&mut *of(Kind::Acp, gated()), &[Line(&ask)]);
        let asked = asked(&events);
        let said =
            asked.first().map(|one| (json!(one.tool.args), one.context.as_deref().unwrap_or_default()));
        assert_eq!(said, expected);
        assert_eq!(chosen(&writes), if expected.is_none() { vec!["ao"] } else { vec![] });
    }
    // What was said of the call before counts, too.
    let ask = request(0, &json!({"toolCallId": "t", "rawInput": {}}), &ALL);
    let steps = [Line(prompted[0]), Line(prompted[1]), Line(&begun), Line(&ask)];
    let (_, events) = drive(&mut *of(Kind::Acp, gated()), &steps);
    let asked = asked(&events);
    assert_eq!((asked[0].tool.name.as_str(), &json!(asked[0].tool.args)), ("Bash", &json!({"command": "x"})));
}

fn begin(agent: &str, result: &Value) -> String {
    let info = json!({"agentInfo": {"name": agent}});
    format!("{}\n{}\n", json!({"id": 1, "result": info}), json!({"id": 2, "result": result}))
}

fn modes(current: &str, offered: &[&str]) -> Value {
    let offered: Vec<Value> = offered.iter().map(|id| json!({"id": id})).collect();
    json!({"sessionId": "s", "modes": {"currentModeId": current, "availableModes": offered}})
}

const CLAUDE: &str = "@agentclientprotocol/claude-agent-acp";
const CODEX: &str = "@agentclientprotocol/codex-acp";

/// CONTRACT 19.13
#[test]
fn the_session_gets_the_mode_in_which_it_asks() {
    const TAKEN: &str = r#"{"id":5,"result":{}}"#;
    const REFUSED: &str = r#"{"id":5,"error":{"code":-32602,"message":"no"}}"#;
    const PROMPTED: &str = "initialize session/new session/prompt session/cancel";
    const SET: &str = "initialize session/new session/set_mode session/cancel";
    const BOTH: &str = "initialize session/new session/set_mode session/prompt session/cancel";
    let refused = "failed: it does not take the mode default, in which it asks: no";
    let table = [
        ("x", modes("default", &["default", "yolo"]), "", PROMPTED, "nothing"),
        ("x", modes("yolo", &["default", "yolo"]), TAKEN, BOTH, "nothing"),
        ("x", modes("yolo", &["default", "yolo"]), "", SET, "nothing"),
        ("x", modes("yolo", &["default", "yolo"]), REFUSED, SET, refused),
        ("x", modes("code", &["code"]), "", PROMPTED, "nothing"),
        ("x", json!({"sessionId": "s"}), "", PROMPTED, "nothing"),
        (CODEX, modes("agent", &["read-only", "agent", "default"]), TAKEN, BOTH, "nothing"),
    ];
    for (agent, result, more, expected, ended) in table {
        let lines = begin(agent, &result) + more;
        let out = play(Kind::Acp, gated(), lines.as_bytes());
        assert_eq!((written(&out).as_str(), end(&out).as_str()), (expected, ended), "{lines}");
        let text = String::from_utf8(out.writes.concat()).expect("UTF-8");
        let mode = if agent == CODEX { "read-only" } else { "default" };
        assert_eq!(text.contains(&format!(r#""modeId":"{mode}""#)), expected != PROMPTED, "{lines}");
        // Nobody is asked: it keeps its mode.
        let out = play(Kind::Acp, task(Approval::FailOnPrompt), lines.as_bytes());
        assert_eq!(written(&out), PROMPTED, "{lines}");
    }
}

/// CONTRACT 19.13
#[test]
fn a_program_that_does_something_unasked_is_ended() {
    let call = |kind: &str, status: &str| {
        update(&json!({
            "sessionUpdate": "tool_call", "toolCallId": "t", "kind": kind, "title": "it", "status": status,
        }))
    };
    let done =
        update(&json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed"}));
    let failed = update(&json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "failed"}));
    let ask = command(0, "x");
    let mode = |id: &str| update(&json!({"sessionUpdate": "current_mode_update", "currentModeId": id}));
    let option = json!([{"id": "model", "currentValue": "m"}, {"id": "mode", "currentValue": "yolo"}]);
    let option = update(&json!({"sessionUpdate": "config_option_update", "configOptions": option}));
    let unasked = "failed: it did this without asking: it; the turn was ended; configure";
    let left = "failed: it left the mode default, in which it asks, for yolo; the turn was ended";
    let known = modes("default", &["default"]);
    let none = json!({"sessionId": "s"});
    let table: Vec<(&str, &Value, Vec<String>, &str)> = vec![
        ("x", &none, vec![call("execute", "pending"), done.clone()], unasked),
        ("x", &known, vec![call("execute", "completed")], unasked),
        ("x", &known, vec![call("edit", "in_progress"), done.clone()], unasked),
        ("x", &known, vec![call("delete", "completed")], unasked),
        ("x", &known, vec![call("read", "completed"), call("other", "completed")], "nothing"),
        ("x", &known, vec![call("execute", "in_progress"), failed], "nothing"),
        ("x", &none, vec![call("execute", "in_progress"), ask, done], "nothing"),
        // It runs harmless commands without a request, as long as it has its mode.
        (CLAUDE, &known, vec![call("execute", "completed")], "nothing"),
        (CLAUDE, &known, vec![call("edit", "completed")], unasked),
        (CLAUDE, &none, vec![call("execute", "completed")], unasked),
        ("x", &known, vec![mode("default"), mode("plan")], "nothing"),
        ("x", &known, vec![mode("yolo")], left),
        ("x", &known, vec![option.clone()], left),
        ("x", &none, vec![mode("yolo"), option], "nothing"),
    ];
    for (agent, result, lines, ended) in table {
        let lines = begin(agent, result) + &lines.join("\n");
        let out = play(Kind::Acp, gated(), lines.as_bytes());
        assert!(end(&out).starts_with(ended), "{lines}: {}", end(&out));
        let cancels = written(&out).matches("session/cancel").count();
        assert_eq!(cancels, if ended == "nothing" { 1 } else { 2 }, "{lines}");
        let out = play(Kind::Acp, task(Approval::DenyInteractive), lines.as_bytes());
        assert_eq!(end(&out), "nothing", "{lines}");
    }
}
