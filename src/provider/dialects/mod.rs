//! The dialects: from what a program prints to events, and to what is written to it.
//!
//! Invariant: a dialect is a pure machine. It takes any bytes without a panic, reads by key and never by position, and
//! keeps unknown kinds as a log. A question that it does not understand is refused.

mod acp;
mod claude;
mod codex;
mod held;
mod jsonl;
#[cfg(test)]
mod tests;
mod text;

use std::path::PathBuf;

use serde_json::{Map, Value};

use self::held::{Held, Place};
use super::environment::server;
use super::event::{End, Event};
use super::gate::{Request, Resolution};
use super::name::Kind;
use super::policy::{Verdict, Wish};
use super::turn::{Posture, Question, Turn};
use crate::model::approval::{Answer, Tool};

/// The name of the turn's server of tools.
const SERVER: &str = "aynig";

/// The facts about a turn that a dialect needs.
#[derive(Debug, Clone)]
pub(crate) struct Task {
    pub(crate) directory: PathBuf,
    pub(crate) prompt: Vec<u8>,
    pub(crate) posture: Posture,
    /// Whether requests are answered later.
    pub(crate) is_gated: bool,
    pub(crate) model: Option<String>,
    pub(crate) session: Option<String>,
    /// The command line of the turn's server of tools.
    pub(crate) tools: Option<Vec<String>>,
    /// Whether the prompt is only what is new in the session.
    pub(crate) is_delta: bool,
    pub(crate) run: String,
    pub(crate) node: String,
    pub(crate) turn: String,
}

impl Task {
    pub(crate) fn of(turn: &Turn<'_>) -> Self {
        Self {
            directory: turn.directory.to_owned(),
            prompt: turn.prompt.to_vec(),
            posture: turn.posture,
            is_gated: turn.gate.is_some(),
            model: turn.model.map(str::to_owned).or_else(|| turn.provider.model.clone()),
            session: turn.session.map(str::to_owned),
            tools: server(turn),
            is_delta: turn.is_delta,
            run: turn.ids.run.to_owned(),
            node: turn.ids.node.to_owned(),
            turn: turn.ids.turn.to_owned(),
        }
    }

    /// The program and the arguments of the turn's server of tools.
    fn server(&self) -> Option<(&str, &[String])> {
        self.tools.as_deref()?.split_first().map(|(program, args)| (program.as_str(), args))
    }

    /// Whether a tool is one of that server. It does what is staged, and asks by itself for the rest.
    fn is_own_server(&self, name: &str) -> bool {
        self.tools.is_some() && name == SERVER
    }

    /// A text for people, without the path of the worktree: other hosts have another one.
    fn anywhere(&self, text: &str) -> String {
        text.replace(&*self.directory.to_string_lossy(), ".")
    }

    /// The prompt as text.
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.prompt).into_owned()
    }
}

/// The effects of an input.
#[derive(Debug, Default)]
pub(crate) struct Out {
    /// The events.
    pub(crate) events: Vec<Event>,
    /// The lines to write, in order.
    pub(crate) writes: Vec<Vec<u8>>,
    /// Whether nothing more will be written.
    pub(crate) close: bool,
    /// Whether the line was a JSON object.
    pub(crate) is_message: bool,
}

impl Out {
    fn event(&mut self, event: Event) {
        self.events.push(event);
    }

    fn end(&mut self, end: End) {
        self.events.push(Event::End(end));
    }

    fn log(&mut self, message: impl Into<String>) {
        self.events.push(Event::Log(message.into()));
    }

    /// Writes a line of JSON.
    fn write(&mut self, value: &Value) {
        let mut line = value.to_string().into_bytes();
        line.push(b'\n');
        self.writes.push(line);
    }
}

/// A dialect in the middle of a turn.
pub(crate) trait Dialect: Send {
    /// The first writes.
    fn start(&mut self) -> Out;

    /// Takes a line, without its end.
    fn line(&mut self, line: &[u8]) -> Out;

    /// The program has closed its output.
    fn eof(&mut self) -> Out {
        Out::default()
    }

    /// Takes the answer to a request. Nothing to do if it is not open.
    fn answer(&mut self, _id: &str, _resolution: &Resolution) -> Out {
        Out::default()
    }

    /// Denies all open requests, since the turn is about to end. `is_parked`: so that they are asked again, if the
    /// protocol has a word for that.
    fn abandon(&mut self, _is_parked: bool) -> Out {
        Out::default()
    }

    /// Interrupts the turn. Nothing to write if the protocol has no word for that.
    fn interrupt(&mut self) -> Out {
        Out::default()
    }
}

/// The dialect of a kind.
pub(crate) fn of(kind: Kind, task: Task) -> Box<dyn Dialect> {
    match kind {
        Kind::Text => Box::new(text::Text::new(task)),
        Kind::Jsonl => Box::new(jsonl::Jsonl::new(task)),
        Kind::Claude => Box::new(claude::Claude::new(task)),
        Kind::Codex => Box::new(codex::Codex::new(task)),
        Kind::Acp => Box::new(acp::Acp::new(task)),
    }
}

/// The arguments of a kind that follow the configured ones.
pub(crate) fn args(kind: Kind, task: &Task) -> Vec<String> {
    match kind {
        Kind::Text | Kind::Jsonl | Kind::Acp => Vec::new(),
        Kind::Claude => claude::args(task),
        Kind::Codex => vec!["app-server".to_owned()],
    }
}

/// Whether programs of a kind ask for permission.
pub(crate) fn can_ask(kind: Kind) -> bool {
    kind != Kind::Text
}

/// Weighs a request. `None`: nothing is answered now, and `kept` is what the later answer needs.
fn weigh<T>(
    task: &Task,
    held: &mut Held<T>,
    out: &mut Out,
    request: Request,
    wish: Wish,
    kept: T,
) -> Option<Verdict> {
    if !task.is_gated {
        let Request { id, tool, context, .. } = request;
        let question = Question { tool: tool.name, args: tool.args, context };
        return Some(decide(task, out, &id, &tool.id, wish, question));
    }
    let verdict = match (held.place(&request.id, &request.tool), wish) {
        (Place::Again, _) => {
            out.log(format!("the request {} came twice", request.id));
            return None;
        }
        (Place::New, Wish::Read) => Verdict::Yes,
        (Place::Spent, _) | (Place::New, Wish::Person) => Verdict::No,
        (Place::New, Wish::Write | Wish::Other) => {
            held.keep(&request.id, kept);
            let context = request.context.map(|words| task.anywhere(&words));
            out.event(Event::Asked(Request { context, ..request }));
            return None;
        }
    };
    let answer = if verdict == Verdict::Yes { Answer::Approved } else { Answer::Denied };
    let Request { id, tool, context, .. } = request;
    let question = Question { tool: tool.name, args: tool.args, context };
    out.event(Event::Approval { id, tool: tool.id, question, answer, fatal: false });
    Some(verdict)
}

/// Answers a request by the posture, and records both.
fn decide(task: &Task, out: &mut Out, id: &str, tool: &str, wish: Wish, question: Question) -> Verdict {
    let verdict = task.posture.answer(wish);
    let answer = if verdict == Verdict::Yes { Answer::Approved } else { Answer::Denied };
    let (id, tool) = (id.to_owned(), tool.to_owned());
    out.event(Event::Approval { id, tool, question, answer, fatal: verdict == Verdict::Fail });
    verdict
}

/// The reason for an agent whose request is denied.
const DENIED: &str =
    "The policy of this run does not permit it, and nobody can be asked. Continue without it.";

/// The reason for an agent whose request was denied without one.
const REFUSED: &str = "It was denied. Do not try it again in another way; continue without it.";

/// The reason for an agent whose request nobody answered before the end of its turn.
const UNANSWERED: &str = "Nobody has answered yet, and the turn ends. It was not run.";

/// The answer to a question of an agent.
const NOBODY: &str = "Nobody can answer questions in this run. Decide yourself, and say what you assumed.";

/// An answer as a protocol carries it that knows a yes and a no alone, and a sentence for the agent about the rest. Other
/// arguments are a no.
fn plain(tool: &Tool, resolution: &Resolution) -> (Verdict, Option<String>) {
    let call = || format!("{} with {}", tool.name, shortened(&Value::Object(tool.args.clone()).to_string()));
    match resolution {
        Resolution::Approved => (Verdict::Yes, None),
        Resolution::ApprovedWith(args) if *args == tool.args => (Verdict::Yes, None),
        Resolution::ApprovedWith(args) => {
            let (call, args) = (call(), Value::Object(args.clone()));
            let words = format!(
                "Your request to use {call} was not run. It is allowed with {args} instead: \
                 request exactly that if you need it."
            );
            (Verdict::No, Some(words))
        }
        Resolution::Denied { reason } => {
            let words =
                reason.as_ref().map(|reason| format!("Your request to use {} was denied: {reason}", call()));
            (Verdict::No, words)
        }
        Resolution::Parked => (Verdict::Fail, None),
    }
}

/// Reads a line as a JSON object. Anything else is noted as foreign.
fn object(line: &[u8], out: &mut Out) -> Option<Map<String, Value>> {
    if let Ok(Value::Object(object)) = serde_json::from_slice(line) {
        out.is_message = true;
        return Some(object);
    }
    let text = String::from_utf8_lossy(line);
    if !text.trim().is_empty() {
        out.event(Event::Foreign(shortened(&text)));
    }
    None
}

/// A message of JSON-RPC.
enum Rpc {
    /// Nothing is answered.
    Notice { method: String, params: Value },
    /// An answer is due.
    Request { id: Value, method: String, params: Value },
    /// The answer to the request with this number.
    Answer { id: u64, value: Value },
}

/// Reads a line as a message of JSON-RPC. Anything else becomes a log.
fn rpc(line: &[u8], out: &mut Out) -> Option<Rpc> {
    let mut object = object(line, out)?;
    let method = object.get("method").and_then(Value::as_str).map(str::to_owned);
    let id = object.get("id").cloned();
    let mut params = || object.remove("params").unwrap_or_default();
    match (method, id) {
        (Some(method), None) => Some(Rpc::Notice { method, params: params() }),
        (Some(method), Some(id)) => Some(Rpc::Request { id, method, params: params() }),
        (None, Some(id)) => Some(Rpc::Answer { id: id.as_u64()?, value: Value::Object(object) }),
        (None, None) => {
            out.log(shortened(&String::from_utf8_lossy(line)));
            None
        }
    }
}

/// The longest line that is kept as a log, in characters. The transcript has all of it.
const LONGEST_LOG: usize = 2_000;

fn shortened(text: &str) -> String {
    match text.char_indices().nth(LONGEST_LOG) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// The text at a key, or "".
fn text_of<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// The text at a key, unless it is missing or empty.
fn some_text(value: &Value, key: &str) -> Option<String> {
    Some(text_of(value, key)).filter(|text| !text.is_empty()).map(str::to_owned)
}

fn number(value: &Value, key: &str) -> u64 {
    value.get(key).and_then(Value::as_u64).unwrap_or(0)
}

/// The object at a key, or an empty one.
fn map_of(value: &Value, key: &str) -> Map<String, Value> {
    value.get(key).and_then(Value::as_object).cloned().unwrap_or_default()
}

/// An id as text, whatever JSON it is.
fn id_text(id: &Value) -> String {
    id.as_str().map_or_else(|| id.to_string(), str::to_owned)
}
