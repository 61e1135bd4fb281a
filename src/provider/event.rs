//! The events of a turn, in the vocabulary of runs.
//!
//! Invariant: an event is one JSON object on one line, of the shared contract's types and without their envelope.

use serde_json::{Map, Value, json};

use super::gate::Request;
use super::turn::Question;
use crate::model::approval::{Answer, Resolution, Tool};
use crate::model::run::Usage;

/// An event of a turn.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Event {
    /// A part of an answer.
    Delta(String),
    /// An answer. The last one of a turn is its final answer.
    Final(String),
    /// A part of what the agent thinks.
    ThinkingDelta(String),
    /// A thought.
    Thinking(String),
    /// A tool that it is about to use.
    Proposed(Tool),
    /// A tool that runs.
    Started {
        /// The tool.
        id: String,
    },
    /// A tool that came to its end.
    Done {
        /// The tool.
        id: String,
        /// Its output, if the program reports that.
        output: Option<Value>,
        /// Why it failed.
        error: Option<String>,
    },
    /// A request for permission, and the answer.
    Approval {
        /// The id of the request.
        id: String,
        /// The id of the tool.
        tool: String,
        /// The request.
        question: Question,
        /// The answer.
        answer: Answer,
        /// Whether it ends the turn.
        fatal: bool,
    },
    /// A request that somebody answers later.
    Asked(Request),
    /// The answer to it.
    Resolved {
        /// The id of the request.
        id: String,
        /// The answer.
        resolution: Resolution,
    },
    /// The program no longer asks.
    Withdrawn {
        /// The id of the request.
        id: String,
    },
    /// The program keeps the call of a request that nobody answered.
    Kept,
    /// A sentence for the agent that its protocol cannot carry.
    Unsaid(String),
    /// Tokens and cost of the turn so far.
    Usage(Usage),
    /// A report of tokens and cost that makes no sense, in words.
    BadUsage(String),
    /// The session.
    Session(String),
    /// The model.
    Model(String),
    /// The version of the program.
    Version(String),
    /// A usage limit.
    Limit {
        /// Its end, in seconds since 1970.
        until: Option<i64>,
        /// The provider's message.
        message: String,
    },
    /// A call of the model failed and is repeated.
    Retry(String),
    /// A line that is no JSON object.
    Foreign(String),
    /// Anything else that people may want to read.
    Log(String),
    /// The last word.
    End(End),
}

/// The last word of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// It came to its end.
    Completed,
    /// It did not.
    Failed {
        /// Why.
        message: String,
        /// Whether the service of the provider did not work.
        outage: bool,
    },
    /// It was interrupted.
    Interrupted,
    /// The program does not have the session that was to be continued, in its words. Nothing was done.
    NoSession(String),
}

impl End {
    /// A failure of the agent itself.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self::Failed { message: message.into(), outage: false }
    }
}

impl Event {
    /// The lines of this event: two for an approval, with the answer.
    pub(crate) fn lines(&self) -> Vec<Value> {
        let one = match self {
            Self::Delta(content) => json!({"type": "message.assistant.delta", "content": content}),
            Self::Final(content) => json!({"type": "message.assistant.final", "content": content}),
            Self::ThinkingDelta(text) => {
                json!({"type": "message.assistant.thinking.delta", "content": text})
            }
            Self::Thinking(text) => json!({"type": "message.assistant.thinking.final", "content": text}),
            Self::Proposed(tool) => json!({"type": "tool.proposed", "tool": tool}),
            Self::Started { id } => json!({"type": "tool.started", "toolId": id}),
            Self::Done { id, output, error } => done(id, output.as_ref(), error.as_deref()),
            Self::Approval { id, tool, question, answer, .. } => {
                return approval(id, tool, question, *answer);
            }
            Self::Asked(Request { id, tool, context, .. }) => requested(id, tool, context.as_deref()),
            Self::Resolved { id, resolution } => {
                json!({"type": "approval.resolved", "approvalId": id, "resolution": resolution})
            }
            Self::Withdrawn { id } => {
                let resolution = json!({"status": Answer::Withdrawn});
                json!({"type": "approval.resolved", "approvalId": id, "resolution": resolution})
            }
            Self::Kept => json!({"type": "node.log", "message": "the tool call is kept for later"}),
            Self::Unsaid(message) => {
                json!({"type": "node.log", "message": format!("for the next prompt: {message}")})
            }
            Self::Usage(usage) => json!({"type": "telemetry.usage", "usage": usage}),
            Self::Session(id) => json!({"type": "session", "sessionId": id}),
            Self::Model(model) => json!({"type": "node.log", "message": format!("model {model}")}),
            Self::Version(text) => json!({"type": "node.log", "message": format!("version {text}")}),
            Self::Limit { until, message } => {
                json!({"type": "limit", "until": until, "message": message})
            }
            Self::Retry(message) => {
                json!({"type": "turn.status", "status": "waiting", "message": message})
            }
            Self::Log(message) | Self::BadUsage(message) | Self::Foreign(message) => {
                json!({"type": "node.log", "message": message})
            }
            Self::End(End::Completed) => json!({"type": "turn.status", "status": "completed"}),
            Self::End(End::Interrupted) => json!({"type": "turn.status", "status": "interrupted"}),
            Self::End(End::Failed { message, .. } | End::NoSession(message)) => {
                json!({"type": "turn.status", "status": "failed", "message": message})
            }
        };
        vec![one]
    }
}

fn done(id: &str, output: Option<&Value>, error: Option<&str>) -> Value {
    let mut result = Map::new();
    result.insert("ok".to_owned(), error.is_none().into());
    if let Some(output) = output {
        result.insert("output".to_owned(), output.clone());
    }
    let mut line = json!({"type": "tool.completed", "toolId": id, "result": result});
    if let (Some(error), Some(line)) = (error, line.as_object_mut()) {
        line.insert("error".to_owned(), json!({"message": error}));
    }
    line
}

fn requested(id: &str, tool: &Tool, context: Option<&str>) -> Value {
    json!({"type": "approval.requested", "approvalId": id, "tool": tool, "context": context})
}

fn approval(id: &str, tool: &str, question: &Question, answer: Answer) -> Vec<Value> {
    let tool = Tool::new(tool, question.tool.clone(), question.args.clone());
    vec![
        requested(id, &tool, question.context.as_deref()),
        json!({"type": "approval.resolved", "approvalId": id, "resolution": {"status": answer}, "by": "policy"}),
    ]
}
