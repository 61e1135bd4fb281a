//! Codex: `codex app-server`, JSON-RPC without the field `jsonrpc`.
//!
//! `turn/completed` ends the turn. Tokens of a turn are the difference of totals, which run on through resumes.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{Dialect, Out, Rpc, Task, decide, id_text, map_of, number, rpc, some_text, text_of};
use crate::model::approval::Tool;
use crate::model::run::Usage;
use crate::provider::event::{End, Event};
use crate::provider::policy::{Verdict, Wish, is_inside};
use crate::provider::turn::Question;

const INITIALIZE: u64 = 1;
const THREAD: u64 = 2;
const TURN: u64 = 3;
const INTERRUPT: u64 = 4;

/// The most changes of files that are remembered until they are asked about.
const MOST_CHANGES: usize = 256;

pub(super) struct Codex {
    task: Task,
    thread: Option<String>,
    turn: Option<String>,
    /// The totals before this turn.
    before: Option<Usage>,
    /// When the windows that are used up begin anew.
    resets: Option<i64>,
    /// Paths of changes that were announced, by item.
    changes: BTreeMap<String, Vec<String>>,
}

impl Codex {
    pub(super) fn new(task: Task) -> Self {
        Self { task, thread: None, turn: None, before: None, resets: None, changes: BTreeMap::new() }
    }

    fn answered(&mut self, id: u64, value: &Value, out: &mut Out) {
        if let Some(error) = value.get("error") {
            if id != INTERRUPT {
                let message = text_of(error, "message");
                let what = match id {
                    INITIALIZE => "it refuses to begin",
                    THREAD if self.task.session.is_some() => "it cannot continue the session",
                    THREAD => "it cannot begin a session",
                    _ => "it refuses the prompt",
                };
                out.end(End::failed(format!("{what}: {message}")));
            }
            return;
        }
        let result = value.get("result").unwrap_or(&Value::Null);
        match id {
            INITIALIZE if self.thread.is_none() => {
                out.write(&json!({"method": "initialized"}));
                out.write(&self.begin());
            }
            THREAD if self.thread.is_none() => self.opened(result, out),
            TURN => self.turn = result.get("turn").and_then(|turn| some_text(turn, "id")),
            _ => {}
        }
    }

    /// `thread/start` or `thread/resume`.
    fn begin(&self) -> Value {
        let (policy, sandbox, config) = self.task.posture.codex();
        let mut params = Map::new();
        params.insert("cwd".to_owned(), self.task.directory.to_string_lossy().into());
        params.insert("approvalPolicy".to_owned(), policy.into());
        params.insert("sandbox".to_owned(), sandbox.into());
        if let Some(model) = &self.task.model {
            params.insert("model".to_owned(), model.clone().into());
        }
        if let Some(config) = config {
            params.insert("config".to_owned(), config);
        }
        let method = if let Some(session) = &self.task.session {
            params.insert("threadId".to_owned(), session.clone().into());
            "thread/resume"
        } else {
            "thread/start"
        };
        json!({"id": THREAD, "method": method, "params": params})
    }

    fn opened(&mut self, result: &Value, out: &mut Out) {
        let thread = result.get("thread").unwrap_or(&Value::Null);
        let Some(id) = some_text(thread, "id") else {
            out.end(End::failed("it began a session without an id"));
            return;
        };
        out.event(Event::Session(id.clone()));
        out.events.extend(some_text(result, "model").map(Event::Model));
        out.events.extend(some_text(thread, "cliVersion").map(Event::Version));
        let input = json!([{"type": "text", "text": self.task.text()}]);
        self.task.prompt = Vec::new();
        out.write(&json!({"id": TURN, "method": "turn/start", "params": {"threadId": id, "input": input}}));
        self.thread = Some(id);
    }

    fn notified(&mut self, method: &str, params: &Value, out: &mut Out) {
        // Its own subagents have threads, too.
        if let Some(thread) = params.get("threadId").and_then(Value::as_str)
            && self.thread.as_deref() != Some(thread)
        {
            return;
        }
        let delta = || text_of(params, "delta").to_owned();
        match method {
            "item/agentMessage/delta" => out.event(Event::Delta(delta())),
            "item/reasoning/summaryTextDelta" => out.event(Event::ThinkingDelta(delta())),
            "item/started" => self.begun(params.get("item").unwrap_or(&Value::Null), out),
            "item/completed" => Self::done(params.get("item").unwrap_or(&Value::Null), out),
            "thread/tokenUsage/updated" => self.used(params, out),
            "account/rateLimits/updated" => self.limits(params),
            "error" if params.get("willRetry").and_then(Value::as_bool) == Some(true) => {
                let message = params.pointer("/error/message").and_then(Value::as_str);
                out.event(Event::Retry(message.unwrap_or("an error").to_owned()));
            }
            "turn/completed" => self.completed(params.get("turn").unwrap_or(&Value::Null), out),
            _ => {}
        }
    }

    fn begun(&mut self, item: &Value, out: &mut Out) {
        let (kind, id) = (text_of(item, "type"), text_of(item, "id").to_owned());
        let (name, args) = match kind {
            "commandExecution" => ("command", pick(item, &["command", "cwd"])),
            "fileChange" => {
                if self.changes.len() < MOST_CHANGES {
                    self.changes.insert(id.clone(), paths(item));
                }
                ("patch", pick(item, &["changes"]))
            }
            "mcpToolCall" | "dynamicToolCall" => (text_of(item, "tool"), map_of(item, "arguments")),
            _ => return,
        };
        out.event(Event::Proposed(Tool { id, name: name.to_owned(), args }));
    }

    fn done(item: &Value, out: &mut Out) {
        let id = text_of(item, "id").to_owned();
        match text_of(item, "type") {
            "agentMessage" => out.event(Event::Final(text_of(item, "text").to_owned())),
            "reasoning" => {
                let parts = item.get("summary").and_then(Value::as_array).into_iter().flatten();
                let text: Vec<&str> = parts.filter_map(Value::as_str).collect();
                out.event(Event::Thinking(text.join("\n")));
            }
            "commandExecution" | "fileChange" | "mcpToolCall" | "dynamicToolCall" => {
                let status = text_of(item, "status");
                let code = item.get("exitCode").and_then(Value::as_i64).unwrap_or(0);
                let error = match status {
                    "completed" if code == 0 => None,
                    "completed" => Some(format!("exit code {code}")),
                    other => Some(other.to_owned()),
                };
                let output = ["aggregatedOutput", "result", "contentItems"]
                    .iter()
                    .find_map(|key| item.get(key).filter(|value| !value.is_null()));
                out.event(Event::Done { id, output: output.cloned(), error });
            }
            _ => {}
        }
    }

    fn used(&mut self, params: &Value, out: &mut Out) {
        let count = |part: &str| {
            let fields = params.pointer(&format!("/tokenUsage/{part}")).unwrap_or(&Value::Null);
            Usage {
                prompt_tokens: number(fields, "inputTokens"),
                completion_tokens: number(fields, "outputTokens"),
                total_tokens: number(fields, "totalTokens"),
                cost_usd: None,
            }
        };
        let total = count("total");
        // A session that is continued reports its last turn again.
        if params.get("turnId").is_some_and(|turn| turn.as_str() != self.turn.as_deref()) {
            self.before = Some(total);
            return;
        }
        let before = *self.before.get_or_insert_with(|| minus(&total, &count("last")));
        out.event(Event::Usage(minus(&total, &before)));
    }

    fn limits(&mut self, params: &Value) {
        let windows = ["primary", "secondary"].iter().filter_map(|name| params.get("rateLimits")?.get(name));
        let is_used = |window: &&Value| {
            window.get("usedPercent").and_then(Value::as_f64).is_some_and(|percent| percent >= 100.0)
        };
        let ends = windows.filter(is_used).filter_map(|window| window.get("resetsAt")?.as_i64());
        self.resets = ends.max();
    }

    fn completed(&self, turn: &Value, out: &mut Out) {
        if let (Some(ours), Some(theirs)) = (self.turn.as_deref(), turn.get("id").and_then(Value::as_str))
            && ours != theirs
        {
            return;
        }
        let error = turn.get("error").unwrap_or(&Value::Null);
        let message = some_text(error, "message").unwrap_or_else(|| "no reason".to_owned());
        match (text_of(turn, "status"), fault(error)) {
            ("completed", _) => out.end(End::Completed),
            ("interrupted", _) => out.end(End::Interrupted),
            (_, Fault::Limit) => out.event(Event::Limit { until: self.resets, message }),
            (_, Fault::TooMany) => out.event(Event::Limit { until: None, message }),
            (_, Fault::Outage) => out.end(End::Failed { message, outage: true }),
            (_, Fault::Own) => out.end(End::failed(message)),
        }
    }

    fn asked(&self, id: &Value, method: &str, params: &Value, out: &mut Out) {
        let item = text_of(params, "itemId");
        let mut question = Question {
            tool: "command".to_owned(),
            args: pick(params, &["command", "cwd"]),
            context: some_text(params, "reason"),
        };
        let mut wish = Wish::Other;
        let words = match method {
            "item/commandExecution/requestApproval" => ["accept", "decline", "cancel"],
            "item/fileChange/requestApproval" => {
                let paths = self.changes.get(item).map_or(&[][..], Vec::as_slice);
                let is_inside = |path: &String| is_inside(path, &self.task.directory);
                if !paths.is_empty() && paths.iter().all(is_inside) {
                    wish = Wish::Write;
                }
                "patch".clone_into(&mut question.tool);
                question.args = Map::from_iter([("paths".to_owned(), json!(paths))]);
                ["accept", "decline", "cancel"]
            }
            "mcpServer/elicitation/request" => {
                let meta = params.get("_meta").unwrap_or(&Value::Null);
                let is_tool = text_of(meta, "codex_approval_kind") == "mcp_tool_call";
                wish = if is_tool { Wish::Other } else { Wish::Person };
                question.tool = some_text(meta, "tool_name").unwrap_or_else(|| "elicitation".to_owned());
                question.args = map_of(meta, "tool_params");
                question.context = some_text(params, "message");
                ["accept", "decline", "cancel"]
            }
            _ => {
                let error = json!({"code": -32601, "message": format!("aynig does not answer {method}")});
                out.write(&json!({"id": id, "error": error}));
                return;
            }
        };
        let word = match decide(&self.task, out, &id_text(id), item, wish, question) {
            Verdict::Yes => words[0],
            Verdict::No => words[1],
            Verdict::Fail => words[2],
        };
        let result = match (method, word) {
            ("mcpServer/elicitation/request", "accept") => json!({"action": word, "content": {}}),
            ("mcpServer/elicitation/request", _) => json!({"action": word}),
            _ => json!({"decision": word}),
        };
        out.write(&json!({"id": id, "result": result}));
    }
}

/// Why a turn failed.
enum Fault {
    Limit,
    TooMany,
    Outage,
    Own,
}

fn fault(error: &Value) -> Fault {
    match error.get("codexErrorInfo") {
        Some(Value::String(word)) if word == "usageLimitExceeded" => Fault::Limit,
        Some(Value::String(word)) if word.contains("verloaded") || word.contains("nternalServer") => {
            Fault::Outage
        }
        Some(Value::Object(fields)) => {
            let status = fields.values().find_map(|value| value.get("httpStatusCode"));
            match status.and_then(Value::as_u64) {
                Some(429) => Fault::TooMany,
                Some(400..=499) => Fault::Own,
                Some(_) | None => Fault::Outage,
            }
        }
        _ => Fault::Own,
    }
}

fn pick(value: &Value, keys: &[&str]) -> Map<String, Value> {
    let found = |key: &&str| Some(((*key).to_owned(), value.get(key).filter(|it| !it.is_null())?.clone()));
    keys.iter().filter_map(found).collect()
}

fn paths(item: &Value) -> Vec<String> {
    let changes = item.get("changes").and_then(Value::as_array).into_iter().flatten();
    let both = |change: &Value| {
        [
            some_text(change, "path"),
            change.pointer("/kind/move_path").and_then(Value::as_str).map(str::to_owned),
        ]
    };
    changes.flat_map(both).flatten().collect()
}

fn minus(one: &Usage, two: &Usage) -> Usage {
    Usage {
        prompt_tokens: one.prompt_tokens.saturating_sub(two.prompt_tokens),
        completion_tokens: one.completion_tokens.saturating_sub(two.completion_tokens),
        total_tokens: one.total_tokens.saturating_sub(two.total_tokens),
        cost_usd: None,
    }
}

impl Dialect for Codex {
    fn start(&mut self) -> Out {
        let mut out = Out::default();
        let client = json!({"name": "aynig", "title": "aynig", "version": env!("CARGO_PKG_VERSION")});
        let params = json!({"clientInfo": client, "capabilities": {"experimentalApi": true}});
        out.write(&json!({"id": INITIALIZE, "method": "initialize", "params": params}));
        out
    }

    fn line(&mut self, line: &[u8]) -> Out {
        let mut out = Out::default();
        match rpc(line, &mut out) {
            Some(Rpc::Notice { method, params }) => self.notified(&method, &params, &mut out),
            Some(Rpc::Request { id, method, params }) => self.asked(&id, &method, &params, &mut out),
            Some(Rpc::Answer { id, value }) => self.answered(id, &value, &mut out),
            None => {}
        }
        out
    }

    fn interrupt(&mut self) -> Out {
        let mut out = Out::default();
        if let (Some(thread), Some(turn)) = (&self.thread, &self.turn) {
            let params = json!({"threadId": thread, "turnId": turn});
            out.write(&json!({"id": INTERRUPT, "method": "turn/interrupt", "params": params}));
        }
        out
    }
}
