//! Claude Code: `stream-json` both ways, with its control protocol.
//!
//! A tool that the permission mode does not allow by itself is asked about as `can_use_tool`, over the pipe: if this
//! process dies, the question stays unanswered, and the tool does not run. A `result` ends the turn.
//!
//! With a gate each tool is asked about, by a callback before it runs. A request that nobody answers is deferred: the
//! program ends and keeps the call, and asks again when its session is continued. It keeps one call alone, so several
//! are denied.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::held::Held;
use super::{
    DENIED, Dialect, NOBODY, Out, REFUSED, SERVER, Task, UNANSWERED, id_text, map_of, number, object,
    shortened, some_text, text_of, weigh,
};
use crate::model::approval::Tool;
use crate::model::run::Usage;
use crate::provider::event::{End, Event};
use crate::provider::gate::{Request, Resolution};
use crate::provider::policy::{Verdict, Wish, is_inside};

const INITIALIZE: &str = "aynig-initialize";
const INTERRUPT: &str = "aynig-interrupt";

/// The beginning of its error about a session that it does not have.
const UNKNOWN: &str = "No conversation found";

/// The name of our callback before each tool.
const GATE: &str = "gate";

/// The tools by which it asks a person, and not for permission.
const QUESTIONS: [&str; 2] = ["AskUserQuestion", "ExitPlanMode"];

pub(super) struct Claude {
    task: Task,
    is_prompted: bool,
    /// The word of the last error of the service.
    error: Option<String>,
    held: Held<Kept>,
    /// The arguments that were approved before the permission mode asks about the same call.
    approved: BTreeMap<String, Map<String, Value>>,
    /// The last message with tools, and their number.
    calls: (String, usize),
    is_deferred: bool,
}

/// A request, as far as its answer needs it.
#[derive(Clone)]
struct Kept {
    id: Value,
    tool: Tool,
    /// Whether the callback asks, and not the permission mode.
    is_hook: bool,
}

impl Kept {
    fn allow(&self, args: Option<&Map<String, Value>>, out: &mut Out) {
        if self.is_hook {
            self.decide("allow", "It was approved.", args, out);
        } else {
            let input = args.unwrap_or(&self.tool.args);
            respond(&self.id, &json!({"behavior": "allow", "updatedInput": input}), out);
        }
    }

    fn deny(&self, why: &str, ends: bool, out: &mut Out) {
        if self.is_hook {
            self.decide("deny", why, None, out);
            return;
        }
        let mut answer = json!({"behavior": "deny", "message": why});
        if ends {
            answer["interrupt"] = true.into();
        }
        respond(&self.id, &answer, out);
    }

    fn decide(&self, word: &str, why: &str, args: Option<&Map<String, Value>>, out: &mut Out) {
        let mut output = json!({
            "hookEventName": "PreToolUse", "permissionDecision": word, "permissionDecisionReason": why,
        });
        if let Some(args) = args {
            output["updatedInput"] = Value::Object(args.clone());
        }
        respond(&self.id, &json!({"hookSpecificOutput": output}), out);
    }
}

fn respond(id: &Value, answer: &Value, out: &mut Out) {
    let response = json!({"subtype": "success", "request_id": id, "response": answer});
    out.write(&json!({"type": "control_response", "response": response}));
}

/// Its arguments.
pub(super) fn args(task: &Task) -> Vec<String> {
    const FIXED: [&str; 9] = [
        "-p",
        "--input-format",
        "stream-json",
        "--output-format",
        "stream-json",
        "--verbose",
        "--include-partial-messages",
        "--permission-prompt-tool",
        "stdio",
    ];
    let mut args: Vec<String> = FIXED.iter().map(ToString::to_string).collect();
    args.extend(task.posture.claude(task.is_gated).into_iter().map(str::to_owned));
    if let Some(model) = &task.model {
        args.extend(["--model".to_owned(), model.clone()]);
    }
    if let Some((program, rest)) = task.server() {
        let server = json!({"type": "stdio", "command": program, "args": rest});
        let config = json!({"mcpServers": {SERVER: server}}).to_string();
        args.extend(["--mcp-config".to_owned(), config]);
        args.extend(["--allowedTools".to_owned(), format!("mcp__{SERVER}__*")]);
    }
    if let Some(session) = &task.session {
        args.extend(["--resume".to_owned(), session.clone()]);
    }
    args
}

impl Claude {
    pub(super) fn new(task: Task) -> Self {
        Self {
            task,
            is_prompted: false,
            error: None,
            held: Held::default(),
            approved: BTreeMap::new(),
            calls: (String::new(), 0),
            is_deferred: false,
        }
    }

    /// The prompt follows the answer to `initialize`.
    fn initialized(&mut self, value: &Value, out: &mut Out) {
        let response = value.get("response").unwrap_or(&Value::Null);
        if text_of(response, "request_id") != INITIALIZE {
            return;
        }
        if text_of(response, "subtype") == "error" {
            let why = some_text(response, "error").unwrap_or_else(|| "no reason".to_owned());
            out.end(End::failed(format!("it refuses to begin: {why}")));
            return;
        }
        if std::mem::replace(&mut self.is_prompted, true) {
            return;
        }
        // A session that is continued without a prompt begins with the call that it keeps.
        if self.task.is_gated && self.task.session.is_some() && self.task.prompt.is_empty() {
            return;
        }
        let content = self.task.text();
        self.task.prompt = Vec::new();
        let message = json!({"role": "user", "content": content});
        out.write(&json!({
            "type": "user", "message": message, "parent_tool_use_id": null, "session_id": "",
        }));
    }

    fn system(value: &Value, out: &mut Out) {
        match text_of(value, "subtype") {
            "init" => {
                out.events.extend(some_text(value, "session_id").map(Event::Session));
                out.events.extend(some_text(value, "model").map(Event::Model));
                out.events.extend(some_text(value, "claude_code_version").map(Event::Version));
            }
            "api_retry" => {
                let (attempt, most) = (number(value, "attempt"), number(value, "max_retries"));
                out.event(Event::Retry(format!("{}: try {attempt} of {most}", text_of(value, "error"))));
            }
            _ => {}
        }
    }

    fn streamed(value: &Value, out: &mut Out) {
        let event = value.get("event").unwrap_or(&Value::Null);
        let delta = event.get("delta").unwrap_or(&Value::Null);
        if text_of(event, "type") != "content_block_delta" || is_of_subagent(value) {
            return;
        }
        match text_of(delta, "type") {
            "text_delta" => out.event(Event::Delta(text_of(delta, "text").to_owned())),
            "thinking_delta" => out.event(Event::ThinkingDelta(text_of(delta, "thinking").to_owned())),
            _ => {}
        }
    }

    fn assistant(&mut self, value: &Value, out: &mut Out) {
        if let Some(error) = some_text(value, "error") {
            self.error = Some(error);
        }
        for block in blocks(value) {
            match text_of(block, "type") {
                "text" if is_of_subagent(value) => {}
                "text" => out.event(Event::Final(text_of(block, "text").to_owned())),
                "thinking" => out.event(Event::Thinking(text_of(block, "thinking").to_owned())),
                "tool_use" => {
                    let message = value.pointer("/message/id").and_then(Value::as_str).unwrap_or_default();
                    if self.calls.0 != message {
                        self.calls = (message.to_owned(), 0);
                    }
                    self.calls.1 += 1;
                    out.event(Event::Proposed(Tool::new(
                        text_of(block, "id"),
                        text_of(block, "name"),
                        map_of(block, "input"),
                    )));
                }
                _ => {}
            }
        }
    }

    fn results(value: &Value, out: &mut Out) {
        for block in blocks(value).filter(|block| text_of(block, "type") == "tool_result") {
            let is_error = block.get("is_error").and_then(Value::as_bool).unwrap_or(false);
            let content = block.get("content").cloned();
            let words = content.as_ref().map(|content| shortened(&id_text(content))).unwrap_or_default();
            out.event(Event::Done {
                id: text_of(block, "tool_use_id").to_owned(),
                output: content,
                error: is_error.then_some(words),
            });
        }
    }

    fn asked(&mut self, value: &Value, out: &mut Out) {
        let id = value.get("request_id").cloned().unwrap_or(Value::Null);
        let request = value.get("request").unwrap_or(&Value::Null);
        match text_of(request, "subtype") {
            "can_use_tool" => self.permission(id, request, out),
            "hook_callback" if self.task.is_gated => self.hooked(id, request, out),
            subtype => {
                let error = format!("aynig does not answer {subtype}");
                let response = json!({"subtype": "error", "request_id": id, "error": error});
                out.write(&json!({"type": "control_response", "response": response}));
            }
        }
    }

    /// A tool that its permission mode does not allow by itself.
    fn permission(&mut self, id: Value, request: &Value, out: &mut Out) {
        let tool = Tool::new(
            text_of(request, "tool_use_id"),
            text_of(request, "tool_name"),
            map_of(request, "input"),
        );
        if self.approved.get(&tool.id) == Some(&tool.args) {
            self.approved.remove(&tool.id);
            respond(&id, &json!({"behavior": "allow", "updatedInput": tool.args}), out);
            return;
        }
        let kept = Kept { id, tool, is_hook: false };
        self.weighed(kept, some_text(request, "description"), out);
    }

    /// Any tool, before it runs. One that cannot be understood is denied: an error would let it run.
    fn hooked(&mut self, id: Value, request: &Value, out: &mut Out) {
        let input = request.get("input").unwrap_or(&Value::Null);
        let tool = Tool::new(
            text_of(input, "tool_use_id"),
            text_of(input, "tool_name"),
            map_of(input, "tool_input"),
        );
        let is_ours = text_of(request, "callback_id") == GATE
            && text_of(input, "hook_event_name") == "PreToolUse"
            && !(id.is_null() || tool.id.is_empty() || tool.name.is_empty());
        let kept = Kept { id, tool, is_hook: true };
        if is_ours {
            let context = input.pointer("/tool_input/description").and_then(Value::as_str);
            self.weighed(kept, context.map(str::to_owned), out);
        } else {
            kept.deny("aynig does not understand this request.", false, out);
        }
    }

    fn weighed(&mut self, kept: Kept, context: Option<String>, out: &mut Out) {
        let is_question = QUESTIONS.contains(&kept.tool.name.as_str());
        let wish = if is_question { Wish::Person } else { self.wish(&kept.tool) };
        let why = if is_question { NOBODY } else { DENIED };
        let request = Request {
            id: id_text(&kept.id),
            tool: kept.tool.clone(),
            context,
            carries_reason: true,
            carries_args: true,
        };
        match weigh(&self.task, &mut self.held, out, request, wish, kept.clone()) {
            Some(Verdict::Yes) => kept.allow(None, out),
            Some(Verdict::No) => kept.deny(why, false, out),
            Some(Verdict::Fail) => kept.deny(why, true, out),
            None => {}
        }
    }

    /// With a gate each tool asks, so those that only read in the directory must be told apart.
    fn wish(&self, tool: &Tool) -> Wish {
        let server = tool.name.strip_prefix("mcp__").and_then(|rest| rest.split_once("__"));
        if server.is_some_and(|(server, _)| self.task.is_own_server(server)) {
            return Wish::Read;
        }
        let is_near = |key: &str| {
            let text = tool.args.get(key).filter(|value| !value.is_null()).map(Value::as_str);
            text.is_none_or(|path| path.is_some_and(|path| is_inside(path, &self.task.directory)))
        };
        let is_read = match tool.name.as_str() {
            "Read" | "Grep" | "LS" | "NotebookRead" => {
                is_near("file_path") && is_near("path") && is_near("notebook_path") && is_near("glob")
            }
            "Glob" => is_near("path") && is_near("pattern"),
            // They change its own list of work.
            "TodoWrite" | "TaskCreate" | "TaskGet" | "TaskList" | "TaskUpdate" | "ToolSearch" => true,
            _ => false,
        };
        if self.task.is_gated && is_read { Wish::Read } else { Wish::Other }
    }

    fn result(&self, value: &Value, out: &mut Out) {
        out.events.extend(some_text(value, "session_id").map(Event::Session));
        if let Some(usage) = usage(value) {
            out.event(Event::Usage(usage));
        }
        let is_error = value.get("is_error").and_then(Value::as_bool).unwrap_or(false);
        let terminal = text_of(value, "terminal_reason");
        if text_of(value, "subtype") == "success" && !is_error {
            if terminal == "tool_deferred" {
                out.event(Event::Kept);
            } else {
                out.event(Event::Final(text_of(value, "result").to_owned()));
            }
            out.end(End::Completed);
            return;
        }
        if terminal.starts_with("aborted") {
            out.end(End::Interrupted);
            return;
        }
        let error = value.pointer("/errors/0").and_then(Value::as_str).map(str::to_owned);
        let message = some_text(value, "result")
            .or(error)
            .unwrap_or_else(|| format!("{} {terminal}", text_of(value, "subtype")).trim_end().to_owned());
        if self.task.session.is_some() && number(value, "num_turns") == 0 && message.starts_with(UNKNOWN) {
            out.end(End::NoSession(message));
            return;
        }
        match value.get("api_error_status").and_then(Value::as_u64) {
            Some(429) => out.event(Event::Limit { until: None, message }),
            Some(status) => out.end(End::Failed { message, outage: status >= 500 }),
            None => {
                let error = self.error.as_deref();
                let is_dead = matches!(error, Some("unknown" | "overloaded" | "server_error"));
                out.end(End::Failed { message, outage: terminal == "api_error" && is_dead });
            }
        }
    }
}

fn is_of_subagent(value: &Value) -> bool {
    value.get("parent_tool_use_id").is_some_and(|parent| !parent.is_null())
}

fn blocks(value: &Value) -> impl Iterator<Item = &Value> {
    value.pointer("/message/content").and_then(Value::as_array).into_iter().flatten()
}

/// Tokens and cost of this turn. `total_cost_usd` and `modelUsage` run on through resumes.
fn usage(value: &Value) -> Option<Usage> {
    let sum = |models: &serde_json::Map<String, Value>| {
        models.values().fold(Usage::default(), |sum, model| {
            let prompt = ["inputTokens", "cacheReadInputTokens", "cacheCreationInputTokens"]
                .iter()
                .fold(0_u64, |sum, key| sum.saturating_add(number(model, key)));
            let completion = number(model, "outputTokens");
            sum.plus(&Usage {
                prompt_tokens: prompt,
                completion_tokens: completion,
                total_tokens: prompt.saturating_add(completion),
                cost_usd: model.get("costUSD").and_then(Value::as_f64),
            })
        })
    };
    if let Some(models) = value.get("model_usage_since_last_result").and_then(Value::as_object) {
        return Some(sum(models));
    }
    let usage = value.get("usage")?;
    let prompt = ["input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"]
        .iter()
        .fold(0_u64, |sum, key| sum.saturating_add(number(usage, key)));
    let completion = number(usage, "output_tokens");
    let total_tokens = prompt.saturating_add(completion);
    Some(Usage { prompt_tokens: prompt, completion_tokens: completion, total_tokens, cost_usd: None })
}

impl Dialect for Claude {
    fn start(&mut self) -> Out {
        let mut out = Out::default();
        let hooks = self
            .task
            .is_gated
            .then(|| json!({"PreToolUse": [{"matcher": "*", "hookCallbackIds": [GATE], "timeout": 86_400}]}));
        let request = json!({"subtype": "initialize", "hooks": hooks});
        out.write(&json!({"type": "control_request", "request_id": INITIALIZE, "request": request}));
        out
    }

    fn line(&mut self, line: &[u8]) -> Out {
        let mut out = Out::default();
        let Some(object) = object(line, &mut out) else { return out };
        let value = Value::Object(object);
        match text_of(&value, "type") {
            "control_response" => self.initialized(&value, &mut out),
            "control_request" => self.asked(&value, &mut out),
            "control_cancel_request" => {
                let id = value.get("request_id").map(id_text).unwrap_or_default();
                if self.held.take(&id).is_some() {
                    out.event(Event::Withdrawn { id });
                }
            }
            "system" => Self::system(&value, &mut out),
            "stream_event" => Self::streamed(&value, &mut out),
            "assistant" => self.assistant(&value, &mut out),
            "user" => Self::results(&value, &mut out),
            "result" => self.result(&value, &mut out),
            _ => {}
        }
        out
    }

    fn answer(&mut self, id: &str, resolution: &Resolution) -> Out {
        let mut out = Out::default();
        let Some(kept) = self.held.take(id) else { return out };
        let args = match resolution {
            Resolution::Approved => None,
            Resolution::ApprovedWith(args) => Some(args),
            Resolution::Denied { reason } => {
                kept.deny(reason.as_deref().unwrap_or(REFUSED), false, &mut out);
                return out;
            }
            Resolution::Parked => {
                kept.deny(UNANSWERED, true, &mut out);
                return out;
            }
        };
        kept.allow(args, &mut out);
        if kept.is_hook {
            let approved = args.unwrap_or(&kept.tool.args).clone();
            self.approved.insert(kept.tool.id, approved);
        }
        out
    }

    fn abandon(&mut self, is_parked: bool) -> Out {
        let mut out = Out::default();
        let open = self.held.take_all();
        match open.as_slice() {
            [one] if is_parked && one.is_hook && self.calls.1 <= 1 && !self.is_deferred => {
                one.decide("defer", UNANSWERED, None, &mut out);
                self.is_deferred = true;
            }
            open => open.iter().for_each(|kept| kept.deny(UNANSWERED, true, &mut out)),
        }
        out
    }

    fn interrupt(&mut self) -> Out {
        let mut out = Out::default();
        // It ends by itself, and an interrupt could cost it the call.
        if self.is_deferred {
            return out;
        }
        let request = json!({"subtype": "interrupt"});
        out.write(&json!({"type": "control_request", "request_id": INTERRUPT, "request": request}));
        out
    }
}
