//! A program that speaks the vocabulary of runs, one JSON object a line.

use serde_json::{Map, Value, json};

use super::held::Held;
use super::{
    DENIED, Dialect, Out, REFUSED, Task, UNANSWERED, id_text, map_of, object, shortened, some_text, text_of,
    weigh,
};
use crate::model::approval::Tool;
use crate::model::run::Usage;
use crate::model::time::Timestamp;
use crate::provider::event::{End, Event};
use crate::provider::gate::{Request, Resolution};
use crate::provider::policy::{Verdict, Wish};

pub(super) struct Jsonl {
    task: Task,
    usage: Usage,
    /// The ids of open requests, as they came.
    held: Held<Value>,
}

impl Jsonl {
    pub(super) fn new(task: Task) -> Self {
        Self { task, usage: Usage::default(), held: Held::default() }
    }

    fn tool(value: &Value) -> Tool {
        let tool = value.get("tool").unwrap_or(&Value::Null);
        Tool::new(
            tool.get("id").map(id_text).unwrap_or_default(),
            text_of(tool, "name"),
            map_of(tool, "args"),
        )
    }

    fn asked(&mut self, value: &Value, out: &mut Out) {
        let Some(id) = value.get("approvalId").cloned() else {
            out.log("approval.requested without approvalId");
            return;
        };
        let request = Request {
            id: id_text(&id),
            tool: Self::tool(value),
            context: some_text(value, "context"),
            carries_reason: true,
            carries_args: true,
        };
        match weigh(&self.task, &mut self.held, out, request, Wish::Other, id.clone()) {
            Some(Verdict::Yes) => resolve(&id, &json!({"status": "approved"}), out),
            Some(Verdict::No | Verdict::Fail) => {
                resolve(&id, &json!({"status": "denied", "reason": DENIED}), out);
            }
            None => {}
        }
    }

    /// Takes a request back. An answer of the program to its own request is none.
    fn withdrawn(&mut self, value: &Value, out: &mut Out) {
        if value.pointer("/resolution/status").and_then(Value::as_str) != Some("withdrawn") {
            out.log(shortened(&value.to_string()));
            return;
        }
        let id = value.get("approvalId").map(id_text).unwrap_or_default();
        if self.held.take(&id).is_some() {
            out.event(Event::Withdrawn { id });
        }
    }

    fn used(&mut self, value: &Value, out: &mut Out) {
        let fields = value.get("usage").unwrap_or(value);
        match serde_json::from_value::<Usage>(fields.clone()) {
            Ok(usage) if !usage.is_sensible() || !FIELDS.iter().any(|name| fields.get(name).is_some()) => {
                out.event(Event::BadUsage(format!("telemetry.usage: it makes no sense: {fields}")));
            }
            Ok(mut usage) => {
                usage.total_tokens =
                    usage.total_tokens.max(usage.prompt_tokens.saturating_add(usage.completion_tokens));
                self.usage = self.usage.plus(&usage);
                out.event(Event::Usage(self.usage));
            }
            Err(error) => out.event(Event::BadUsage(format!("telemetry.usage: {error}"))),
        }
        out.events.extend(some_text(value, "model").map(Event::Model));
    }

    fn status(value: &Value, out: &mut Out) {
        let message = some_text(value, "message").unwrap_or_else(|| "no message".to_owned());
        match text_of(value, "status") {
            "failed" => out.end(End::failed(message)),
            "interrupted" => out.end(End::Interrupted),
            "waiting" => out.event(Event::Retry(message)),
            other => out.log(format!("turn.status {other}")),
        }
    }

    fn done(value: &Value) -> Event {
        let error = value.get("error").filter(|error| !error.is_null());
        let is_bad = value.pointer("/result/ok").and_then(Value::as_bool) == Some(false);
        // A result without a verdict is the output itself.
        let result = value.get("result");
        let output = result.and_then(|result| result.get("output"));
        let output = output.or(result.filter(|result| result.get("ok").is_none()));
        let words = error.map(|error| some_text(error, "message").unwrap_or_else(|| id_text(error)));
        Event::Done {
            id: value.get("toolId").map(id_text).unwrap_or_default(),
            output: output.cloned(),
            error: words.or_else(|| is_bad.then(|| "it failed".to_owned())),
        }
    }
}

fn resolve(id: &Value, resolution: &Value, out: &mut Out) {
    out.write(&json!({"type": "approval.resolved", "approvalId": id, "resolution": resolution}));
}

/// The fields of a usage.
const FIELDS: [&str; 4] = ["promptTokens", "completionTokens", "totalTokens", "costUsd"];

/// A time: seconds since 1970, or a timestamp.
fn seconds(value: &Value) -> Option<i64> {
    match value {
        Value::Number(number) => number.as_i64(),
        Value::String(text) => Timestamp::parse(text).map(|time| time.millis().div_euclid(1_000)),
        _ => None,
    }
}

impl Dialect for Jsonl {
    fn start(&mut self) -> Out {
        let mut out = Out::default();
        let mut first = Map::new();
        first.insert("kind".to_owned(), "prompt".into());
        first.insert("prompt".to_owned(), self.task.text().into());
        let kind = if self.task.is_delta { "delta" } else { "full" };
        first.insert("promptKind".to_owned(), kind.into());
        first.insert("turnId".to_owned(), self.task.turn.clone().into());
        first.insert("runId".to_owned(), self.task.run.clone().into());
        first.insert("nodeId".to_owned(), self.task.node.clone().into());
        if let Some(session) = &self.task.session {
            first.insert("sessionId".to_owned(), session.clone().into());
        }
        if let Some(model) = &self.task.model {
            first.insert("model".to_owned(), model.clone().into());
        }
        out.write(&Value::Object(first));
        self.task.prompt = Vec::new();
        out
    }

    fn line(&mut self, line: &[u8]) -> Out {
        let mut out = Out::default();
        let Some(object) = object(line, &mut out) else { return out };
        let value = Value::Object(object);
        let content = || text_of(&value, "content").to_owned();
        match text_of(&value, "type") {
            "message.assistant.delta" => out.event(Event::Delta(content())),
            "message.assistant.final" => {
                out.event(Event::Final(content()));
                out.end(End::Completed);
            }
            "message.assistant.thinking.delta" => out.event(Event::ThinkingDelta(content())),
            "message.assistant.thinking.final" => out.event(Event::Thinking(content())),
            "tool.proposed" => out.event(Event::Proposed(Self::tool(&value))),
            "tool.started" => {
                out.event(Event::Started { id: value.get("toolId").map(id_text).unwrap_or_default() });
            }
            "tool.completed" => out.event(Self::done(&value)),
            "approval.requested" => self.asked(&value, &mut out),
            "approval.resolved" => self.withdrawn(&value, &mut out),
            "telemetry.usage" => self.used(&value, &mut out),
            "turn.status" => Self::status(&value, &mut out),
            "session" => out.events.extend(some_text(&value, "sessionId").map(Event::Session)),
            "session.unknown" if self.task.session.is_some() => {
                let message = some_text(&value, "message").unwrap_or_else(|| "it is unknown".to_owned());
                out.end(End::NoSession(message));
            }
            "limit" => {
                let message = some_text(&value, "message").unwrap_or_else(|| "a usage limit".to_owned());
                out.event(Event::Limit { until: value.get("until").and_then(seconds), message });
            }
            "node.log" => out.log(shortened(text_of(&value, "message"))),
            _ => out.log(shortened(&String::from_utf8_lossy(line))),
        }
        out
    }

    fn answer(&mut self, id: &str, resolution: &Resolution) -> Out {
        let mut out = Out::default();
        let Some(id) = self.held.take(id) else { return out };
        let words = match resolution {
            Resolution::Approved => json!({"status": "approved"}),
            Resolution::ApprovedWith(args) => json!({"status": "modified", "modifiedArgs": args}),
            Resolution::Denied { reason } => {
                json!({"status": "denied", "reason": reason.as_deref().unwrap_or(REFUSED)})
            }
            Resolution::Parked => json!({"status": "denied", "reason": UNANSWERED}),
        };
        resolve(&id, &words, &mut out);
        out
    }

    fn abandon(&mut self, _is_parked: bool) -> Out {
        let mut out = Out::default();
        for id in self.held.take_all() {
            resolve(&id, &json!({"status": "denied", "reason": UNANSWERED}), &mut out);
        }
        out
    }
}
