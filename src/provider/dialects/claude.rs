//! Claude Code: `stream-json` both ways, with its control protocol.
//!
//! A tool that the permission mode does not allow by itself is asked about as `can_use_tool`, over the pipe: if this
//! process dies, the question stays unanswered, and the tool does not run. A `result` ends the turn.

use serde_json::{Value, json};

use super::{
    DENIED, Dialect, NOBODY, Out, Task, decide, id_text, map_of, number, object, shortened, some_text,
    text_of,
};
use crate::model::approval::Tool;
use crate::model::run::Usage;
use crate::provider::event::{End, Event};
use crate::provider::policy::{Verdict, Wish};
use crate::provider::turn::Question;

const INITIALIZE: &str = "aynig-initialize";
const INTERRUPT: &str = "aynig-interrupt";

/// The tools by which it asks a person, and not for permission.
const QUESTIONS: [&str; 2] = ["AskUserQuestion", "ExitPlanMode"];

pub(super) struct Claude {
    task: Task,
    is_prompted: bool,
    /// The word of the last error of the service.
    error: Option<String>,
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
    args.extend(task.posture.claude().into_iter().map(str::to_owned));
    if let Some(model) = &task.model {
        args.extend(["--model".to_owned(), model.clone()]);
    }
    if let Some(session) = &task.session {
        args.extend(["--resume".to_owned(), session.clone()]);
    }
    args
}

impl Claude {
    pub(super) fn new(task: Task) -> Self {
        Self { task, is_prompted: false, error: None }
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
                "tool_use" => out.event(Event::Proposed(Tool {
                    id: text_of(block, "id").to_owned(),
                    name: text_of(block, "name").to_owned(),
                    args: map_of(block, "input"),
                })),
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

    fn asked(&self, value: &Value, out: &mut Out) {
        let id = value.get("request_id").cloned().unwrap_or(Value::Null);
        let request = value.get("request").unwrap_or(&Value::Null);
        let subtype = text_of(request, "subtype");
        if subtype != "can_use_tool" {
            let error = format!("aynig does not answer {subtype}");
            let response = json!({"subtype": "error", "request_id": id, "error": error});
            out.write(&json!({"type": "control_response", "response": response}));
            return;
        }
        let name = text_of(request, "tool_name");
        let is_question = QUESTIONS.contains(&name);
        let question = Question {
            tool: name.to_owned(),
            args: map_of(request, "input"),
            context: some_text(request, "description"),
        };
        let wish = if is_question { Wish::Person } else { Wish::Other };
        let tool = text_of(request, "tool_use_id");
        let why = if is_question { NOBODY } else { DENIED };
        let answer = match decide(&self.task, out, &id_text(&id), tool, wish, question) {
            Verdict::Yes => {
                json!({"behavior": "allow", "updatedInput": Value::Object(map_of(request, "input"))})
            }
            Verdict::No => json!({"behavior": "deny", "message": why}),
            Verdict::Fail => json!({"behavior": "deny", "message": why, "interrupt": true}),
        };
        let response = json!({"subtype": "success", "request_id": id, "response": answer});
        out.write(&json!({"type": "control_response", "response": response}));
    }

    fn result(&self, value: &Value, out: &mut Out) {
        out.events.extend(some_text(value, "session_id").map(Event::Session));
        if let Some(usage) = usage(value) {
            out.event(Event::Usage(usage));
        }
        let is_error = value.get("is_error").and_then(Value::as_bool).unwrap_or(false);
        if text_of(value, "subtype") == "success" && !is_error {
            out.event(Event::Final(text_of(value, "result").to_owned()));
            out.end(End::Completed);
            return;
        }
        let terminal = text_of(value, "terminal_reason");
        if terminal.starts_with("aborted") {
            out.end(End::Interrupted);
            return;
        }
        let error = value.pointer("/errors/0").and_then(Value::as_str).map(str::to_owned);
        let message = some_text(value, "result")
            .or(error)
            .unwrap_or_else(|| format!("{} {terminal}", text_of(value, "subtype")).trim_end().to_owned());
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
        let request = json!({"subtype": "initialize", "hooks": null});
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
            "system" => Self::system(&value, &mut out),
            "stream_event" => Self::streamed(&value, &mut out),
            "assistant" => self.assistant(&value, &mut out),
            "user" => Self::results(&value, &mut out),
            "result" => self.result(&value, &mut out),
            _ => {}
        }
        out
    }

    fn interrupt(&mut self) -> Out {
        let mut out = Out::default();
        let request = json!({"subtype": "interrupt"});
        out.write(&json!({"type": "control_request", "request_id": INTERRUPT, "request": request}));
        out
    }
}
