//! The dialects against streams of the real programs: whole, cut, doubled, reordered and garbled.

mod acp;
mod codex;
mod gated;

use std::fmt::Write;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{Out, Task, args, of};
use crate::flow::document::{Approval, Execution};
use crate::model::run::Usage;
use crate::provider::event::{End, Event};
use crate::provider::lines::{Line, Lines};
use crate::provider::name::Kind;
use crate::provider::turn::Posture;

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/providers")
}

fn stream(name: &str) -> Vec<u8> {
    let path = directory().join(format!("{name}.jsonl"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn kind(name: &str) -> Kind {
    match name.split('-').next() {
        Some("claude") => Kind::Claude,
        Some("codex") => Kind::Codex,
        _ => Kind::Acp,
    }
}

fn task(approval: Approval) -> Task {
    Task {
        directory: PathBuf::from("/work-tree"),
        prompt: b"write hi".to_vec(),
        posture: Posture { approval, ..Posture::default() },
        is_gated: false,
        model: None,
        session: None,
        tools: None,
        is_delta: false,
        run: "r".to_owned(),
        node: "n".to_owned(),
        turn: "t".to_owned(),
    }
}

/// Plays a stream. Returns all that came of it.
fn play(kind: Kind, task: Task, bytes: &[u8]) -> Out {
    let mut dialect = of(kind, task);
    let mut all = Out::default();
    let mut lines = Lines::default();
    let mut outs = vec![dialect.start()];
    for line in lines.push(bytes).into_iter().chain(lines.end()) {
        let Line::Whole(line) = line else { panic!("a line that is too long") };
        outs.push(dialect.line(&line));
    }
    outs.push(dialect.interrupt());
    outs.push(dialect.eof());
    for out in outs {
        all.events.extend(out.events);
        all.writes.extend(out.writes);
    }
    all
}

fn end(out: &Out) -> String {
    let end = out.events.iter().find_map(|event| match event {
        Event::End(End::Completed) => Some("completed".to_owned()),
        Event::End(End::Interrupted) => Some("interrupted".to_owned()),
        Event::End(End::NoSession(message)) => Some(format!("no session: {message}")),
        Event::End(End::Failed { message, outage: true }) => Some(format!("outage: {message}")),
        Event::End(End::Failed { message, outage: false }) => Some(format!("failed: {message}")),
        Event::Limit { until, message } => {
            let short: String = message.chars().take(12).collect();
            Some(format!("limit until {until:?}: {short}"))
        }
        _ => None,
    });
    end.unwrap_or_else(|| "nothing".to_owned())
}

fn last<'a, T>(out: &'a Out, pick: impl Fn(&'a Event) -> Option<T>) -> Option<T> {
    out.events.iter().rev().find_map(pick)
}

fn answer(out: &Out) -> Option<&str> {
    last(out, |event| match event {
        Event::Final(text) => Some(text.as_str()),
        _ => None,
    })
}

fn used(out: &Out) -> Option<Usage> {
    last(out, |event| match event {
        Event::Usage(usage) => Some(*usage),
        _ => None,
    })
}

fn usage(prompt: u64, completion: u64, total: u64, cost: Option<f64>) -> Option<Usage> {
    Some(Usage { prompt_tokens: prompt, completion_tokens: completion, total_tokens: total, cost_usd: cost })
}

/// The methods and answers that were written, shortened.
fn written(out: &Out) -> String {
    let mut words = String::new();
    for line in &out.writes {
        let value: Value = serde_json::from_slice(line).expect("JSON");
        let decided =
            ["/result/decision", "/result/action", "/result/outcome/optionId", "/result/outcome/outcome"]
                .iter()
                .chain(&[
                    "/response/response/behavior",
                    "/response/subtype",
                    "/request/subtype",
                    "/method",
                    "/type",
                ])
                .find_map(|pointer| value.pointer(pointer)?.as_str());
        write!(words, "{} ", decided.unwrap_or("?")).expect("a text");
    }
    words.trim_end().to_owned()
}

#[test]
fn whole_streams() {
    use Approval::{BoundedAutoApprove as Auto, DenyInteractive as Deny, FailOnPrompt as Ask};
    let table: [(&str, Approval, &str, &str, Option<&str>); 24] = [
        ("claude-gated-approved", Auto, "completed", "initialize user allow interrupt", Some("Done.")),
        ("claude-gated-approved", Deny, "completed", "initialize user deny interrupt", Some("Done.")),
        ("claude-gated-denied", Deny, "completed", "initialize user deny interrupt", Some("Done.")),
        (
            "claude-gated-denied-interrupt",
            Ask,
            "interrupted",
            "initialize user deny interrupt",
            Some("I will run a command."),
        ),
        ("claude-interrupted-sigterm-in-model", Ask, "nothing", "initialize interrupt", None),
        ("claude-resumed", Ask, "completed", "initialize interrupt", Some("Second answer.")),
        ("claude-error-429", Ask, "limit until None: API Error: R", "initialize interrupt", None),
        (
            "claude-no-credentials",
            Ask,
            "failed: Not logged in · Please run /login",
            "initialize interrupt",
            None,
        ),
        (
            "claude-resume-unknown",
            Ask,
            "failed: No conversation found with session ID: bab4fcd9-4ade-4935-8fd5-41334c753c95",
            "initialize interrupt",
            None,
        ),
        ("codex-gated-approved", Auto, "completed", CODEX[0], Some("Done.")),
        ("codex-gated-denied", Deny, "completed", CODEX[1], Some("Done.")),
        ("codex-gated-cancel", Ask, "interrupted", CODEX[2], Some("I will run a command.")),
        // The files of the patch are in the worktree.
        ("codex-gated-patch-approved", Ask, "completed", CODEX[0], Some("Done.")),
        ("codex-mcp-on-request", Auto, "completed", CODEX[0], Some("Spawned.")),
        ("codex-usage-limit", Ask, "limit until Some(1795335428): You’ve hit y", CODEX[3], None),
        ("codex-error-429", Ask, "limit until None: exceeded ret", CODEX[3], None),
        ("codex-resumed", Ask, "completed", CODEX[3], Some("after")),
        ("acp-gemini-gated-approved", Auto, "completed", &acp("proceed_once"), Some("Done.")),
        ("acp-gemini-gated-denied", Deny, "completed", &acp("cancel"), Some("Done.")),
        ("acp-gemini-gated-denied", Ask, "completed", &acp("cancelled"), Some("Done.")),
        ("acp-claude-gated-approved", Auto, "completed", &acp("allow-once"), Some("Done.")),
        ("acp-claude-gated-denied", Deny, "completed", &acp("reject"), Some("Done.")),
        ("acp-opencode-gated-approved", Auto, "completed", &acp("once"), Some("Done.")),
        (
            "acp-codex-error-429",
            Ask,
            "failed: no model answered: exceeded retry limit, last status: 429 Too Many Requests",
            "initialize session/new session/prompt session/cancel",
            Some("exceeded retry limit, last status: 429 Too Many Requests\n\n"),
        ),
    ];
    for (name, approval, expected, writes, text) in table {
        let out = play(kind(name), task(approval), &stream(name));
        assert_eq!((end(&out).as_str(), written(&out).as_str()), (expected, writes), "{name} {approval:?}");
        if text.is_some() {
            assert_eq!(answer(&out), text, "{name}");
        }
    }
}

const CODEX: [&str; 4] = [
    "initialize initialized thread/start turn/start accept turn/interrupt",
    "initialize initialized thread/start turn/start decline turn/interrupt",
    "initialize initialized thread/start turn/start cancel turn/interrupt",
    "initialize initialized thread/start turn/start turn/interrupt",
];

fn acp(answer: &str) -> String {
    format!("initialize session/new session/prompt {answer} session/cancel")
}

/// CONTRACT 19.8
#[test]
fn tokens_are_those_of_the_turn() {
    for (name, expected) in [
        ("claude-gated-approved", usage(28, 14, 42, Some(0.000_277_8))),
        // The totals of the session are twice that.
        ("claude-resumed", usage(14, 7, 21, Some(0.000_138_9))),
        ("codex-gated-approved", usage(22, 14, 36, None)),
        ("codex-resumed", usage(11, 7, 18, None)),
        ("codex-usage-limit", None),
        ("acp-gemini-gated-approved", usage(22, 14, 36, None)),
        ("acp-claude-gated-approved", usage(28, 14, 42, Some(0.000_277_8))),
        ("acp-opencode-gated-approved", usage(11, 7, 18, None)),
    ] {
        let out = play(kind(name), task(Approval::BoundedAutoApprove), &stream(name));
        assert_eq!(used(&out), expected, "{name}");
        // A line that comes twice does not count twice.
        let doubled: Vec<u8> = stream(name)
            .split_inclusive(|byte| *byte == b'\n')
            .flat_map(|line| [line, line])
            .flatten()
            .copied()
            .collect();
        let out = play(kind(name), task(Approval::BoundedAutoApprove), &doubled);
        assert_eq!(used(&out), expected, "{name} doubled");
    }
}

#[test]
fn what_happened_is_told_in_one_vocabulary() {
    for name in [
        "claude-gated-approved",
        "codex-gated-approved",
        "acp-claude-gated-approved",
        "acp-opencode-gated-approved",
    ] {
        let out = play(kind(name), task(Approval::BoundedAutoApprove), &stream(name));
        let has = |what: &str| {
            let all = out.events.iter().flat_map(Event::lines);
            let count = all.filter(|line| line["type"] == what).count();
            assert!(count > 0, "{name} has no {what}");
        };
        for what in [
            "message.assistant.delta",
            "message.assistant.final",
            "message.assistant.thinking.delta",
            "message.assistant.thinking.final",
            "tool.proposed",
            "tool.completed",
            "approval.requested",
            "approval.resolved",
            "telemetry.usage",
            "turn.status",
            "session",
        ] {
            has(what);
        }
        let tool = out.events.iter().find_map(|event| match event {
            Event::Proposed(tool) => Some(tool.id.clone()),
            _ => None,
        });
        assert!(tool.is_some_and(|id| id.ends_with("fixed01")), "{name}");
        assert!(
            last(&out, |event| match event {
                Event::Version(text) => Some(text),
                _ => None,
            })
            .is_some()
        );
    }
}

#[test]
fn a_session_is_continued() {
    let continued = || Task { session: Some("s-1".to_owned()), ..task(Approval::FailOnPrompt) };
    assert!(args(Kind::Claude, &continued()).ends_with(&["--resume".to_owned(), "s-1".to_owned()]));
    let text = |out: &Out| String::from_utf8(out.writes.concat()).expect("UTF-8");
    let out = play(Kind::Codex, continued(), &stream("codex-resumed"));
    assert!(text(&out).contains(r#""method":"thread/resume""#) && text(&out).contains(r#""threadId":"s-1""#));
    let out = play(Kind::Acp, continued(), &stream("acp-claude-gated-approved"));
    assert!(
        text(&out).contains(r#""method":"session/resume""#) && text(&out).contains(r#""sessionId":"s-1""#)
    );
    let out = play(Kind::Acp, continued(), br#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}"#);
    assert_eq!(end(&out), "no session: the program keeps none");
    let error = br#"{"id":1,"result":{}}
{"id":2,"error":{"code":-32600,"message":"no rollout found"}}"#;
    let out = play(Kind::Codex, continued(), error);
    assert_eq!(end(&out), "no session: no rollout found");
    let out = play(Kind::Claude, continued(), &stream("claude-resume-unknown"));
    assert!(end(&out).starts_with("no session: No conversation found"), "{}", end(&out));
    let unknown = br#"{"type":"session.unknown","message":"gone"}"#;
    assert_eq!(end(&play(Kind::Jsonl, continued(), unknown)), "no session: gone");
    assert_eq!(end(&play(Kind::Jsonl, task(Approval::FailOnPrompt), unknown)), "nothing");
}

/// CONTRACT 22.27
#[test]
fn a_program_hears_whether_its_prompt_is_whole() {
    for (is_delta, word) in [(false, "full"), (true, "delta")] {
        let task = Task { is_delta, ..task(Approval::FailOnPrompt) };
        let out = play(Kind::Jsonl, task, b"");
        let text = String::from_utf8(out.writes.concat()).expect("UTF-8");
        assert!(text.contains(&format!(r#""promptKind":"{word}""#)), "{text}");
    }
}

#[test]
fn a_session_that_is_continued_counts_each_turn_alone() {
    for (name, wanted) in [
        ("claude-resumed", usage(14, 7, 21, Some(0.000_138_9))),
        ("codex-resumed", usage(11, 7, 18, None)),
        // Its cost runs on, and began before.
        ("acp-claude-gated-approved", usage(28, 14, 42, None)),
    ] {
        let continued = Task { session: Some("s-1".to_owned()), ..task(Approval::FailOnPrompt) };
        let out = play(kind(name), continued, &stream(name));
        assert_eq!(used(&out), wanted, "{name}");
    }
}

#[test]
fn the_model_is_chosen() {
    let named = Task { model: Some("m-1".to_owned()), ..task(Approval::FailOnPrompt) };
    assert!(args(Kind::Claude, &named).join(" ").contains("--model m-1"));
    let out = play(Kind::Acp, named.clone(), &stream("acp-gemini-gated-approved"));
    let text = String::from_utf8(out.writes.concat()).expect("UTF-8");
    assert!(
        text.contains(r#""method":"session/set_model""#) && text.contains(r#""modelId":"m-1""#),
        "{text}"
    );
    let out = play(Kind::Codex, named, &stream("codex-resumed"));
    assert!(String::from_utf8(out.writes.concat()).expect("UTF-8").contains(r#""model":"m-1""#));
}

/// CONTRACT 22.17
#[test]
fn each_program_gets_the_tools_of_the_turn() {
    let line = ["env", "-i", "A=b", "/bin/aynig", "orch", "mcp"].map(str::to_owned).to_vec();
    let with = |is_gated| Task { tools: Some(line.clone()), is_gated, ..task(Approval::FailOnPrompt) };
    let text = |out: &Out| String::from_utf8(out.writes.concat()).expect("UTF-8");
    let given = args(Kind::Claude, &with(false));
    let config =
        given.iter().position(|arg| arg == "--mcp-config").map(|at| &given[at + 1]).expect("it is given");
    let config: serde_json::Value = serde_json::from_str(config).expect("JSON");
    let server = &config["mcpServers"]["aynig"];
    assert_eq!(server["command"], "env");
    assert_eq!(server["args"], serde_json::json!(line[1..]));
    assert!(given.join(" ").contains("--allowedTools mcp__aynig__*"));
    assert!(!args(Kind::Claude, &task(Approval::FailOnPrompt)).join(" ").contains("mcp"));

    let codex = text(&play(Kind::Codex, with(false), br#"{"id":1,"result":{}}"#));
    assert!(codex.contains(r#""mcp_servers":{"aynig":{"command":"env","args":["-i","A=b""#), "{codex}");
    let acp = br#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}"#;
    let acp = text(&play(Kind::Acp, with(false), acp));
    assert!(acp.contains(r#""mcpServers":[{"name":"aynig","command":"env","args":["-i""#), "{acp}");

    // They are not asked for: what they do is staged.
    let ask = |tool: &str| {
        format!(
            r#"{{"type":"control_request","request_id":"q","request":{{"subtype":"can_use_tool","tool_name":"{tool}","tool_use_id":"t","input":{{}}}}}}"#
        )
    };
    for (tool, task, allowed) in [
        ("mcp__aynig__handoff", with(true), true),
        ("mcp__aynig__handoff", with(false), true),
        ("mcp__aynig_x__handoff", with(true), false),
        ("mcp__aynig__handoff", Task { is_gated: true, ..task(Approval::FailOnPrompt) }, false),
    ] {
        let out = play(Kind::Claude, task, ask(tool).as_bytes());
        assert_eq!(text(&out).contains(r#""behavior":"allow""#), allowed, "{tool}: {}", text(&out));
    }
}

/// CONTRACT 19.5
#[test]
fn edits_are_allowed_where_files_may_be_written() {
    let ask = |path: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":7,"method":"session/request_permission","params":{{"toolCall":{{"toolCallId":"t","kind":"edit","locations":[{{"path":"{path}"}}]}},"options":[{{"optionId":"y","kind":"allow_once"}},{{"optionId":"n","kind":"reject_once"}}]}}}}"#
        )
    };
    let read_only = Posture { execution: Execution::ReadOnly, ..Posture::default() };
    for (path, posture, answer) in [
        ("/work-tree/src/a.rs", Posture::default(), "y"),
        ("/work-tree/../etc/a", Posture::default(), "cancelled"),
        ("/etc/passwd", Posture::default(), "cancelled"),
        ("/work-tree/src/a.rs", read_only, "cancelled"),
        ("/etc/passwd", Posture { approval: Approval::DenyInteractive, ..Posture::default() }, "n"),
    ] {
        let task = Task { posture, ..task(Approval::FailOnPrompt) };
        let out = play(Kind::Acp, task, ask(path).as_bytes());
        assert_eq!(written(&out), format!("initialize {answer}"), "{path} {posture:?}");
    }
}

/// A small generator, so that a failure is the same again.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("a number") % most.max(1)
    }
}

#[test]
fn damaged_streams_are_no_panic() {
    const JUNK: [&[u8]; 8] = [
        b"\0",
        b"\xff\xfe",
        b"{",
        b"}\n",
        b"null",
        b"[[[[[[",
        b"\n{\"id\":2}\n",
        b"\n{\"type\":\"result\"}\n",
    ];
    let mut dice = Dice(7);
    let mut count = 0;
    for entry in std::fs::read_dir(directory()).expect("a directory") {
        let path = entry.expect("an entry").path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".jsonl")) else {
            continue;
        };
        count += 1;
        let whole = stream(name);
        let lines: Vec<&[u8]> = whole.split_inclusive(|byte| *byte == b'\n').collect();
        let mut damaged: Vec<Vec<u8>> = vec![lines.iter().rev().flat_map(|line| line.to_vec()).collect()];
        for _ in 0..40 {
            damaged.push(whole[..dice.below(whole.len())].to_vec());
            damaged.push(whole[dice.below(whole.len())..].to_vec());
            let mut shuffled = lines.clone();
            for at in (1..shuffled.len()).rev() {
                shuffled.swap(at, dice.below(at + 1));
            }
            damaged.push(shuffled.concat());
            let mut garbled = whole.clone();
            for _ in 0..20 {
                let at = dice.below(garbled.len());
                let junk = JUNK[dice.below(JUNK.len())];
                garbled.splice(at..at, junk.iter().copied());
            }
            damaged.push(garbled);
        }
        for bytes in damaged {
            for other in [kind(name), Kind::Jsonl] {
                let out = play(other, task(Approval::BoundedAutoApprove), &bytes);
                assert!(out.writes.iter().all(|line| line.ends_with(b"\n")), "{name}");
            }
        }
    }
    assert!(count > 20);
}

/// CONTRACT 19.3
#[test]
fn the_vocabulary_comes_as_it_goes() {
    let lines = br#"{"type":"session","sessionId":"s"}
{"type":"message.assistant.thinking.delta","content":"h"}
{"type":"tool.proposed","tool":{"id":1,"name":"command","args":{"cmd":"ls"}}}
{"type":"tool.completed","toolId":1,"result":{"ok":false},"error":{"message":"no"}}
{"type":"approval.requested","approvalId":"a-1","tool":{"id":"2","name":"rm","args":{}},"context":"why"}
{"type":"telemetry.usage","usage":{"promptTokens":3,"completionTokens":4},"model":"m"}
{"type":"telemetry.usage","usage":{"promptTokens":1,"completionTokens":1,"totalTokens":2,"costUsd":0.5}}
{"type":"of the future","x":1}
plain words
{"type":"message.assistant.final","content":"done","runId":"ignored"}
"#;
    let out = play(Kind::Jsonl, task(Approval::DenyInteractive), lines);
    assert_eq!((end(&out).as_str(), answer(&out)), ("completed", Some("done")));
    assert_eq!(used(&out), usage(4, 5, 9, Some(0.5)));
    let text = String::from_utf8(out.writes.concat()).expect("UTF-8");
    let written: Vec<&str> = text.lines().collect();
    assert_eq!(
        written[0],
        r#"{"kind":"prompt","prompt":"write hi","promptKind":"full","turnId":"t","runId":"r","nodeId":"n"}"#
    );
    assert!(written[1].starts_with(
        r#"{"type":"approval.resolved","approvalId":"a-1","resolution":{"status":"denied","reason":"#
    ));
    let is_log = |event: &&Event| matches!(event, Event::Log(_) | Event::Foreign(_));
    let logs: Vec<&Event> = out.events.iter().filter(is_log).collect();
    assert_eq!(logs.len(), 2, "{logs:?}");
    for (line, expected) in [
        (r#"{"type":"limit","until":1795335428,"message":"daily"}"#, "limit until Some(1795335428): daily"),
        (
            r#"{"type":"limit","until":"2026-11-22T08:17:08Z","message":"daily"}"#,
            "limit until Some(1795335428): daily",
        ),
        (r#"{"type":"limit"}"#, "limit until None: a usage limi"),
        (r#"{"type":"turn.status","status":"failed","message":"no"}"#, "failed: no"),
        (r#"{"type":"message.assistant.delta","content":"x"}"#, "nothing"),
        ("[]", "nothing"),
    ] {
        let out = play(Kind::Jsonl, task(Approval::FailOnPrompt), line.as_bytes());
        assert_eq!(end(&out), expected, "{line}");
    }
}
