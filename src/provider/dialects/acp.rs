//! The Agent Client Protocol, version 1: Gemini, opencode, and any other agent that speaks it.
//!
//! The answer to `session/prompt` ends the turn. Messages come in pieces; a message ends where something else begins.
//!
//! With a gate the session gets the mode in which the program asks, if it offers one. The protocol does not oblige a
//! program to ask, so one that did something unasked is ended. Its answers are a yes or a no; the rest is left for the
//! next prompt.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::held::{self, Held};
use super::{
    Dialect, Out, Rpc, SERVER, Task, id_text, map_of, number, plain, rpc, some_text, text_of, weigh,
};
use crate::model::approval::Tool;
use crate::model::run::Usage;
use crate::provider::event::{End, Event};
use crate::provider::gate::{Request, Resolution};
use crate::provider::lines::Ending;
use crate::provider::policy::{Verdict, Wish, is_inside};

const INITIALIZE: u64 = 1;
const SESSION: u64 = 2;
const MODEL: u64 = 3;
const PROMPT: u64 = 4;
const MODE: u64 = 5;

/// The most calls of tools that are remembered until they are done.
const MOST_CALLS: usize = 256;

/// Programs, each with the mode in which it runs a command without a request only if that changes nothing.
const SAFE: [(&str, &str); 2] =
    [("@agentclientprotocol/claude-agent-acp", "default"), ("@agentclientprotocol/codex-acp", "read-only")];

/// The mode of other programs in which they ask.
const DEFAULT: &str = "default";

/// The mode in which they change nothing.
const PLAN: &str = "plan";

/// How far the mode is known in which the program asks.
#[derive(Debug)]
enum Mode {
    /// It offers none, or nobody is asked.
    Unknown,
    /// The session has another one.
    Due,
    /// It was told to take it.
    Sent,
    /// The session has it.
    Taken,
}

/// A request, as far as its answer needs it.
#[derive(Clone)]
struct Kept {
    id: Value,
    tool: Tool,
    /// The options that allow it, and that deny it.
    yes: Option<Value>,
    no: Option<Value>,
}

impl Kept {
    fn answer(&self, verdict: Verdict, out: &mut Out) {
        let chosen = match verdict {
            Verdict::Yes => &self.yes,
            Verdict::No => &self.no,
            Verdict::Fail => &None,
        };
        let outcome = match chosen {
            Some(option) => json!({"outcome": "selected", "optionId": option}),
            None => json!({"outcome": "cancelled"}),
        };
        out.write(&json!({"jsonrpc": "2.0", "id": self.id, "result": {"outcome": outcome}}));
    }
}

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
    /// The name of the program.
    agent: String,
    mode: Mode,
    /// What is known of the calls that are not done, by their ids.
    calls: BTreeMap<String, Value>,
    /// The calls that it asked about.
    asked: BTreeSet<String>,
    held: Held<Kept>,
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
            agent: String::new(),
            mode: Mode::Unknown,
            calls: BTreeMap::new(),
            asked: BTreeSet::new(),
            held: Held::default(),
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
            MODEL if self.session.is_some() => self.set_mode(out),
            MODE if matches!(self.mode, Mode::Sent) => {
                self.mode = Mode::Taken;
                self.prompt(out);
            }
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
            (MODE, _) => {
                let mode = self.asking();
                out.end(End::failed(format!(
                    "it does not take the mode {mode}, in which it asks: {message}"
                )));
            }
            (MODEL, _) => out.end(End::failed(format!("it does not take the model: {message}"))),
            (SESSION, _) if self.task.session.is_some() => {
                out.end(End::NoSession(message));
            }
            (SESSION, _) => out.end(End::failed(format!("it cannot begin a session: {message}"))),
            _ => out.end(End::failed(format!("it refuses to begin: {message}"))),
        }
    }

    fn initialized(&mut self, result: &Value, out: &mut Out) {
        if let Some(version) = result.get("protocolVersion").and_then(Value::as_u64)
            && version != 1
        {
            out.end(End::failed(format!("it speaks version {version} of the protocol, and aynig version 1")));
            return;
        }
        self.agent = result.get("agentInfo").and_then(|info| some_text(info, "name")).unwrap_or_default();
        out.events
            .extend(result.get("agentInfo").and_then(|info| some_text(info, "version")).map(Event::Version));
        let directory = self.task.directory.to_string_lossy();
        let servers: Vec<Value> = (self.task.server().into_iter())
            .map(|(program, args)| json!({"name": SERVER, "command": program, "args": args, "env": []}))
            .collect();
        let mut params = json!({"cwd": directory, "mcpServers": servers});
        let can_load =
            result.pointer("/agentCapabilities/loadSession").and_then(Value::as_bool) == Some(true);
        let can_resume = result.pointer("/agentCapabilities/sessionCapabilities/resume").is_some();
        let method = match &self.task.session {
            None => "session/new",
            Some(_) if !can_load && !can_resume => {
                out.end(End::NoSession("the program keeps none".to_owned()));
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
        if self.task.is_gated {
            let modes = result.get("modes").unwrap_or(&Value::Null);
            let mut offered = modes.get("availableModes").and_then(Value::as_array).into_iter().flatten();
            self.mode = match text_of(modes, "currentModeId") {
                current if current == self.asking() => Mode::Taken,
                _ if offered.any(|mode| text_of(mode, "id") == self.asking()) => Mode::Due,
                _ => Mode::Unknown,
            };
        }
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
        self.set_mode(out);
    }

    /// The mode in which the program asks.
    fn asking(&self) -> &'static str {
        SAFE.iter().find(|(agent, _)| *agent == self.agent).map_or(DEFAULT, |(_, mode)| mode)
    }

    /// The prompt, once the session has the mode.
    fn set_mode(&mut self, out: &mut Out) {
        match self.mode {
            Mode::Unknown | Mode::Taken => self.prompt(out),
            Mode::Sent => {}
            Mode::Due => {
                self.mode = Mode::Sent;
                let params = json!({"sessionId": self.session, "modeId": self.asking()});
                out.write(
                    &json!({"jsonrpc": "2.0", "id": MODE, "method": "session/set_mode", "params": params}),
                );
            }
        }
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
                self.note(update);
                out.event(Event::Proposed(tool(update)));
                self.progress(update, out);
            }
            "tool_call_update" => {
                self.note(update);
                self.progress(update, out);
            }
            "current_mode_update" => self.has_mode(text_of(update, "currentModeId"), out),
            "config_option_update" => {
                let options = update.get("configOptions").and_then(Value::as_array).into_iter().flatten();
                for option in options.filter(|option| text_of(option, "id") == "mode") {
                    self.has_mode(text_of(option, "currentValue"), out);
                }
            }
            "usage_update" => {
                let cost = update.pointer("/cost/amount").and_then(Value::as_f64);
                self.cost = cost.or(self.cost);
            }
            _ => {}
        }
    }

    /// Notes what a message says of a call. Messages say only what is new.
    fn note(&mut self, update: &Value) {
        const KEYS: [&str; 6] = ["name", "kind", "title", "rawInput", "content", "locations"];
        let id = text_of(update, "toolCallId");
        if !self.calls.contains_key(id) {
            if self.calls.len() >= MOST_CALLS {
                return;
            }
            self.calls.insert(id.to_owned(), json!({"toolCallId": id}));
        }
        let Some(call) = self.calls.get_mut(id) else { return };
        for key in KEYS {
            let is_empty = |value: &Value| match value {
                Value::Null => true,
                Value::Object(fields) => fields.is_empty(),
                Value::Array(parts) => parts.is_empty(),
                _ => false,
            };
            if let Some(value) = update.get(key).filter(|value| !is_empty(value)) {
                call[key] = value.clone();
            }
        }
    }

    fn progress(&mut self, update: &Value, out: &mut Out) {
        let id = text_of(update, "toolCallId").to_owned();
        let output = || update.get("rawOutput").or_else(|| update.get("content")).cloned();
        match text_of(update, "status") {
            "in_progress" => out.event(Event::Started { id }),
            "completed" => {
                let call = self.calls.remove(&id).unwrap_or_default();
                let is_asked = self.asked.contains(&id);
                out.event(Event::Done { id, output: output(), error: None });
                if self.task.is_gated && !is_asked && self.does(text_of(&call, "kind")) {
                    let what = some_text(&call, "title").or_else(|| some_text(&call, "name"));
                    let what = what.as_deref().unwrap_or("a tool");
                    self.give_up(&format!("it did this without asking: {what}"), out);
                }
            }
            "failed" => {
                self.calls.remove(&id);
                out.event(Event::Done { id, output: output(), error: Some("it failed".to_owned()) });
            }
            _ => {}
        }
    }

    /// Whether a tool of this kind does something that must be asked about.
    fn does(&self, kind: &str) -> bool {
        let is_safe = matches!(self.mode, Mode::Taken) && SAFE.iter().any(|(agent, _)| *agent == self.agent);
        matches!(kind, "edit" | "delete" | "move") || (kind == "execute" && !is_safe)
    }

    /// The session got a mode in the middle of the turn.
    fn has_mode(&mut self, mode: &str, out: &mut Out) {
        if matches!(self.mode, Mode::Taken) && mode != self.asking() && mode != PLAN {
            let asking = self.asking();
            self.give_up(&format!("it left the mode {asking}, in which it asks, for {mode}"), out);
        }
    }

    /// The program does not ask: the turn ends before it does more.
    fn give_up(&mut self, why: &str, out: &mut Out) {
        let next =
            "the turn was ended; configure this program so that it asks before each tool that does something";
        self.flush(out);
        out.end(End::failed(format!("{why}; {next}")));
        let stop = self.interrupt();
        out.writes.extend(stop.writes);
    }

    fn asked(&mut self, id: Value, params: &Value, out: &mut Out) {
        self.flush(out);
        let call = params.get("toolCall").unwrap_or(&Value::Null);
        self.note(call);
        let call = self.calls.get(text_of(call, "toolCallId")).unwrap_or(call);
        let (tool, mut wish) = (tool(call), wish(call, &self.task));
        let options = params.get("options").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let option = |kinds: &[&str]| {
            let of =
                |kind: &&str| options.iter().find(|option| text_of(option, "kind") == *kind)?.get("optionId");
            kinds.iter().find_map(of).cloned()
        };
        // With a gate an answer is for this call alone.
        let allows: &[&str] =
            if self.task.is_gated { &["allow_once"] } else { &["allow_once", "allow_always"] };
        let (yes, no) = (option(allows), option(&["reject_once", "reject_always"]));
        if self.task.is_gated && yes.is_none() {
            out.log(format!("it does not offer to allow {} once, so it is denied", tool.name));
            wish = Wish::Person;
        }
        let request = Request {
            id: id_text(&id),
            tool: tool.clone(),
            context: context(call),
            carries_reason: false,
            carries_args: false,
        };
        if self.task.is_gated && self.asked.len() < held::MOST {
            self.asked.insert(tool.id.clone());
        }
        let kept = Kept { id, tool, yes, no };
        if let Some(verdict) = weigh(&self.task, &mut self.held, out, request, wish, kept.clone()) {
            kept.answer(verdict, out);
        }
    }

    /// It takes a request back. That is answered, too.
    fn withdrawn(&mut self, params: &Value, out: &mut Out) {
        let id = params.get("requestId").map(id_text).unwrap_or_default();
        if let Some(kept) = self.held.take(&id) {
            let error = json!({"code": -32800, "message": "it was taken back"});
            out.write(&json!({"jsonrpc": "2.0", "id": kept.id, "error": error}));
            out.event(Event::Withdrawn { id });
        }
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

/// The tool of a call. Without arguments it is told by its words, and by what it changes.
fn tool(call: &Value) -> Tool {
    let name = some_text(call, "name").or_else(|| some_text(call, "kind"));
    let mut args = map_of(call, "rawInput");
    if args.is_empty() {
        let title = some_text(call, "title").map(|title| ("title".to_owned(), Value::from(title)));
        let changes: Vec<Value> = parts(call, "content", "diff").cloned().collect();
        let changes = Some(changes).filter(|changes| !changes.is_empty());
        args.extend(title.into_iter().chain(changes.map(|changes| ("changes".to_owned(), changes.into()))));
    }
    Tool::new(text_of(call, "toolCallId"), name.unwrap_or_else(|| "tool".to_owned()), args)
}

/// The parts of a type.
fn parts<'a>(call: &'a Value, key: &str, kind: &'static str) -> impl Iterator<Item = &'a Value> {
    let parts = call.get(key).and_then(Value::as_array).into_iter().flatten();
    parts.filter(move |part| text_of(part, "type") == kind)
}

/// The purpose of a call, in words of the program.
fn context(call: &Value) -> Option<String> {
    let text = |part: &Value| part.pointer("/content/text").and_then(Value::as_str).map(str::to_owned);
    let words: Vec<String> = some_text(call, "title")
        .into_iter()
        .chain(parts(call, "content", "content").filter_map(text))
        .collect();
    Some(words.join("\n")).filter(|words| !words.is_empty())
}

fn wish(call: &Value, task: &Task) -> Wish {
    let locations = call.get("locations").and_then(Value::as_array).into_iter().flatten();
    let places: Vec<&str> = locations
        .chain(parts(call, "content", "diff"))
        .filter_map(|place| place.get("path")?.as_str())
        .collect();
    let is_ours = !places.is_empty() && places.iter().all(|path| is_inside(path, &task.directory));
    match text_of(call, "kind") {
        // A thought can be a subagent.
        "read" | "search" if is_ours || !task.is_gated => Wish::Read,
        "think" if !task.is_gated => Wish::Read,
        "edit" if is_ours => Wish::Write,
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
                self.asked(id, &params, &mut out);
            }
            Some(Rpc::Request { id, method, .. }) => {
                let error = json!({"code": -32601, "message": format!("aynig does not answer {method}")});
                out.write(&json!({"jsonrpc": "2.0", "id": id, "error": error}));
            }
            Some(Rpc::Answer { id, value }) => self.answered(id, &value, &mut out),
            Some(Rpc::Notice { method, params }) if method == "$/cancel_request" => {
                self.withdrawn(&params, &mut out);
            }
            Some(Rpc::Notice { .. }) | None => {}
        }
        out
    }

    fn eof(&mut self) -> Out {
        let mut out = Out::default();
        self.flush(&mut out);
        out
    }

    fn answer(&mut self, id: &str, resolution: &Resolution) -> Out {
        let mut out = Out::default();
        let Some(kept) = self.held.take(id) else { return out };
        let (verdict, words) = plain(&kept.tool, resolution);
        out.events.extend(words.map(Event::Unsaid));
        kept.answer(verdict, &mut out);
        out
    }

    fn abandon(&mut self, _is_parked: bool) -> Out {
        let mut out = Out::default();
        self.held.take_all().iter().for_each(|kept| kept.answer(Verdict::Fail, &mut out));
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
