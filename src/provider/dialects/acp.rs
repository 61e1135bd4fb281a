//! The Agent Client Protocol, version 1: Gemini, opencode, and any other agent that speaks it.
//!
//! The answer to `session/prompt` ends the turn. Messages come in pieces; a message ends where something else begins.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::{Dialect, Out, Rpc, Task, decide, id_text, map_of, number, rpc, some_text, text_of};
use crate::model::approval::Tool;
use crate::model::run::Usage;
use crate::provider::event::{End, Event};
use crate::provider::lines::Ending;
use crate::provider::policy::{Verdict, Wish, is_inside};
use crate::provider::turn::Question;

const INITIALIZE: u64 = 1;
const SESSION: u64 = 2;
const MODEL: u64 = 3;
const PROMPT: u64 = 4;

pub(super) struct Acp {
    task: Task,
    session: Option<String>,
    /// The prompt is sent: what comes now belongs to this turn, and not to a session that is loaded.
    is_prompted: bool,
    message: Ending,
    thought: Ending,
    /// The last answer, for programs that report an error as one.
    last: String,
    cost: Option<f64>,
}

impl Acp {
    pub(super) fn new(task: Task) -> Self {
        Self {
            task,
            session: None,
            is_prompted: false,
            message: Ending::default(),
            thought: Ending::default(),
            last: String::new(),
            cost: None,
        }
    }

    fn answered(&mut self, id: u64, value: &Value, out: &mut Out) {
        if let Some(error) = value.get("error") {
            self.refused(id, error, out);
            return;
        }
        let result = value.get("result").unwrap_or(&Value::Null);
        match id {
            INITIALIZE if self.session.is_none() => self.initialized(result, out),
            SESSION if self.session.is_none() => self.opened(result, out),
            MODEL => self.prompt(out),
            PROMPT if self.is_prompted => self.ended(result, out),
            _ => {}
        }
    }

    fn refused(&mut self, id: u64, error: &Value, out: &mut Out) {
        let mut message = text_of(error, "message").to_owned();
        if let Some(details) = error.pointer("/data/details").and_then(Value::as_str) {
            message = format!("{message}: {details}");
        }
        self.flush(out);
        match (id, error.get("code").and_then(Value::as_i64)) {
            (PROMPT, Some(429)) => out.event(Event::Limit { until: None, message }),
            (PROMPT, Some(500..=599)) => out.end(End::Failed { message, outage: true }),
            (PROMPT, _) => out.end(End::failed(message)),
            (MODEL, _) => out.end(End::failed(format!("it does not take the model: {message}"))),
            (SESSION, _) if self.task.session.is_some() => {
                out.end(End::failed(format!("it cannot continue the session: {message}")));
            }
            (SESSION, _) => out.end(End::failed(format!("it cannot begin a session: {message}"))),
            _ => out.end(End::failed(format!("it refuses to begin: {message}"))),
        }
    }

    fn initialized(&self, result: &Value, out: &mut Out) {
        if let Some(version) = result.get("protocolVersion").and_then(Value::as_u64)
            && version != 1
        {
            out.end(End::failed(format!("it speaks version {version} of the protocol, and aynig version 1")));
            return;
        }
        out.events
            .extend(result.get("agentInfo").and_then(|info| some_text(info, "version")).map(Event::Version));
        let directory = self.task.directory.to_string_lossy();
        let mut params = json!({"cwd": directory, "mcpServers": []});
        let can_load =
            result.pointer("/agentCapabilities/loadSession").and_then(Value::as_bool) == Some(true);
        let can_resume = result.pointer("/agentCapabilities/sessionCapabilities/resume").is_some();
        let method = match &self.task.session {
            None => "session/new",
            Some(_) if !can_load && !can_resume => {
                out.end(End::failed("it cannot continue the session: it keeps none"));
                return;
            }
            Some(session) => {
                params["sessionId"] = session.clone().into();
                if can_resume { "session/resume" } else { "session/load" }
            }
        };
        out.write(&json!({"jsonrpc": "2.0", "id": SESSION, "method": method, "params": params}));
    }

    fn opened(&mut self, result: &Value, out: &mut Out) {
        let Some(session) = some_text(result, "sessionId").or_else(|| self.task.session.clone()) else {
            out.end(End::failed("it began a session without an id"));
            return;
        };
        out.event(Event::Session(session.clone()));
        let current = result.get("models").and_then(|models| some_text(models, "currentModelId"));
        self.session = Some(session.clone());
        match (&self.task.model, current) {
            (Some(wanted), Some(current)) if *wanted != current => {
                let params = json!({"sessionId": session, "modelId": wanted});
                out.event(Event::Model(wanted.clone()));
                out.write(&json!({
                    "jsonrpc": "2.0", "id": MODEL, "method": "session/set_model", "params": params,
                }));
                return;
            }
            (Some(wanted), None) => {
                out.log(format!("this agent offers no choice of models, so {wanted} is not used"))
            }
            (_, Some(current)) => out.event(Event::Model(current)),
            (None, None) => {}
        }
        self.prompt(out);
    }

    fn prompt(&mut self, out: &mut Out) {
        if self.is_prompted {
            return;
        }
        self.is_prompted = true;
        let prompt = json!([{"type": "text", "text": self.task.text()}]);
        self.task.prompt = Vec::new();
        let params = json!({"sessionId": self.session, "prompt": prompt});
        out.write(&json!({"jsonrpc": "2.0", "id": PROMPT, "method": "session/prompt", "params": params}));
    }

    /// Ends the message that is under way.
    fn flush(&mut self, out: &mut Out) {
        if !self.thought.is_empty() {
            out.event(Event::Thinking(self.thought.take()));
        }
        if !self.message.is_empty() {
            self.last = self.message.take();
            out.event(Event::Final(self.last.clone()));
        }
    }

    fn updated(&mut self, params: &Value, out: &mut Out) {
        let update = params.get("update").unwrap_or(&Value::Null);
        let text = update.pointer("/content/text").and_then(Value::as_str).unwrap_or_default();
        match text_of(update, "sessionUpdate") {
            "agent_message_chunk" => {
                if !self.thought.is_empty() {
                    out.event(Event::Thinking(self.thought.take()));
                }
                self.message.push(text.as_bytes());
                out.event(Event::Delta(text.to_owned()));
            }
            "agent_thought_chunk" => {
                if !self.message.is_empty() {
                    self.flush(out);
                }
                self.thought.push(text.as_bytes());
                out.event(Event::ThinkingDelta(text.to_owned()));
            }
            "tool_call" => {
                self.flush(out);
                out.event(Event::Proposed(tool(update)));
                Self::progress(update, out);
            }
            "tool_call_update" => Self::progress(update, out),
            "usage_update" => {
                let cost = update.pointer("/cost/amount").and_then(Value::as_f64);
                self.cost = cost.or(self.cost);
            }
            _ => {}
        }
    }

    fn progress(update: &Value, out: &mut Out) {
        let id = text_of(update, "toolCallId").to_owned();
        let output = || update.get("rawOutput").or_else(|| update.get("content")).cloned();
        match text_of(update, "status") {
            "in_progress" => out.event(Event::Started { id }),
            "completed" => out.event(Event::Done { id, output: output(), error: None }),
            "failed" => {
                out.event(Event::Done { id, output: output(), error: Some("it failed".to_owned()) });
            }
            _ => {}
        }
    }

    fn asked(&mut self, id: &Value, params: &Value, out: &mut Out) {
        self.flush(out);
        let call = params.get("toolCall").unwrap_or(&Value::Null);
        let Tool { id: tool, name, args } = tool(call);
        let question = Question { tool: name, args, context: some_text(call, "title") };
        let wish = wish(call, &self.task.directory);
        let kinds: &[&str] = match decide(&self.task, out, &id_text(id), &tool, wish, question) {
            Verdict::Yes => &["allow_once", "allow_always"],
            Verdict::No => &["reject_once", "reject_always"],
            Verdict::Fail => &[],
        };
        let options = params.get("options").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let chosen = kinds
            .iter()
            .find_map(|kind| options.iter().find(|option| text_of(option, "kind") == *kind)?.get("optionId"));
        let outcome = match chosen {
            Some(option) => json!({"outcome": "selected", "optionId": option}),
            None => json!({"outcome": "cancelled"}),
        };
        out.write(&json!({"jsonrpc": "2.0", "id": id, "result": {"outcome": outcome}}));
    }

    fn ended(&mut self, result: &Value, out: &mut Out) {
        self.flush(out);
        let counts = result.pointer("/_meta/quota/token_count");
        let reported = result.get("usage").filter(|usage| usage.is_object());
        if let Some(mut usage) = reported.or(counts).and_then(usage) {
            // The cost runs on through resumes, and this one began before.
            usage.cost_usd = self.cost.filter(|_| self.task.session.is_none());
            out.event(Event::Usage(usage));
        }
        // One adapter reports errors of the service as a message, and says only by this that no model answered.
        let is_empty = result.get("usage").is_some_and(Value::is_null) && counts.is_none_or(Value::is_null);
        match text_of(result, "stopReason") {
            "end_turn" if is_empty => {
                let message = std::mem::take(&mut self.last);
                out.end(End::failed(format!("no model answered: {}", message.trim())));
            }
            "end_turn" => out.end(End::Completed),
            "cancelled" => out.end(End::Interrupted),
            other => out.end(End::failed(format!("it stopped: {other}"))),
        }
    }
}

fn tool(call: &Value) -> Tool {
    let name = some_text(call, "name").or_else(|| some_text(call, "kind"));
    let mut args = map_of(call, "rawInput");
    if args.is_empty()
        && let Some(title) = some_text(call, "title")
    {
        args = Map::from_iter([("title".to_owned(), title.into())]);
    }
    Tool { id: text_of(call, "toolCallId").to_owned(), name: name.unwrap_or_else(|| "tool".to_owned()), args }
}

fn wish(call: &Value, directory: &Path) -> Wish {
    match text_of(call, "kind") {
        "read" | "search" | "think" => Wish::Read,
        "edit" => {
            let list = |key: &str| call.get(key).and_then(Value::as_array).into_iter().flatten();
            let paths: Vec<&str> = list("locations")
                .chain(list("content").filter(|part| text_of(part, "type") == "diff"))
                .filter_map(|place| place.get("path")?.as_str())
                .collect();
            let is_ours = !paths.is_empty() && paths.iter().all(|path| is_inside(path, directory));
            if is_ours { Wish::Write } else { Wish::Other }
        }
        _ => Wish::Other,
    }
}

fn usage(value: &Value) -> Option<Usage> {
    let fields = value.as_object()?;
    let of = |names: [&str; 2]| {
        names.iter().find_map(|name| fields.get(*name)).and_then(Value::as_u64).unwrap_or(0)
    };
    let prompt = of(["inputTokens", "input_tokens"])
        .saturating_add(number(value, "cachedReadTokens"))
        .saturating_add(number(value, "cachedWriteTokens"));
    let completion = of(["outputTokens", "output_tokens"]);
    let total = of(["totalTokens", "total_tokens"]).max(prompt.saturating_add(completion));
    Some(Usage { prompt_tokens: prompt, completion_tokens: completion, total_tokens: total, cost_usd: None })
}

impl Dialect for Acp {
    fn start(&mut self) -> Out {
        let mut out = Out::default();
        let client = json!({"name": "aynig", "version": env!("CARGO_PKG_VERSION")});
        let files = json!({"readTextFile": false, "writeTextFile": false});
        let params = json!({
            "protocolVersion": 1,
            "clientCapabilities": {"fs": files, "terminal": false},
            "clientInfo": client,
        });
        out.write(&json!({"jsonrpc": "2.0", "id": INITIALIZE, "method": "initialize", "params": params}));
        out
    }

    fn line(&mut self, line: &[u8]) -> Out {
        let mut out = Out::default();
        match rpc(line, &mut out) {
            Some(Rpc::Notice { method, params }) if method == "session/update" && self.is_prompted => {
                self.updated(&params, &mut out);
            }
            Some(Rpc::Request { id, method, params }) if method == "session/request_permission" => {
                self.asked(&id, &params, &mut out);
            }
            Some(Rpc::Request { id, method, .. }) => {
                let error = json!({"code": -32601, "message": format!("aynig does not answer {method}")});
                out.write(&json!({"jsonrpc": "2.0", "id": id, "error": error}));
            }
            Some(Rpc::Answer { id, value }) => self.answered(id, &value, &mut out),
            Some(Rpc::Notice { .. }) | None => {}
        }
        out
    }

    fn eof(&mut self) -> Out {
        let mut out = Out::default();
        self.flush(&mut out);
        out
    }

    fn interrupt(&mut self) -> Out {
        let mut out = Out::default();
        if let Some(session) = &self.session {
            let params = json!({"sessionId": session});
            out.write(&json!({"jsonrpc": "2.0", "method": "session/cancel", "params": params}));
        }
        out
    }
}
