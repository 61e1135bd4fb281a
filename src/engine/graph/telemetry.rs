//! What a live turn reports, as it comes: into the journal of its run on this host (CONTRACT 22.29).
//!
//! Invariants: nothing is decided by it, and none of it is of record. It is bounded, and never slows a turn or fails it:
//! what does not fit is left out. The program's words are text: ids, times and types of the envelope are ours.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::clock;
use crate::git::Repo;
use crate::journal::directory::RunDirectory;
use crate::journal::writer::Writer;
use crate::model::ids::{NodeId, RunId, TurnId};
use crate::model::time::Timestamp;
use crate::provider::Listener;

/// The time between two heartbeats.
const BEAT: Duration = Duration::from_secs(5);

/// How long events are collected for one write.
const GROUP: Duration = Duration::from_millis(50);

/// The most events of one write.
const MOST_AT_ONCE: usize = 100;

/// The most bytes that wait to be written.
const MOST_WAITING: usize = 4 * 1024 * 1024;

/// The most tools whose calls are remembered until they end.
const MOST_TOOLS: usize = 1_000;

/// The longest wait for what was said and is not written when the turn ends.
const PATIENCE: Duration = Duration::from_secs(5);

/// The longest wait for the last write then, which says what was left out.
const LAST: Duration = Duration::from_secs(1);

/// The turn that reports.
#[derive(Debug, Clone, Copy)]
pub(super) struct About {
    pub(super) run: RunId,
    pub(super) node: NodeId,
    pub(super) turn: TurnId,
}

/// Writes what a turn reports until it is dropped.
pub(super) struct Telemetry {
    /// `None` while it is dropped.
    ear: Option<Ear>,
    shared: Arc<Shared>,
    /// Closed when the last event is written.
    over: Receiver<()>,
}

/// Where the reports of a provider come in.
struct Ear {
    to: Sender<String>,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// The bytes that wait.
    waiting: AtomicUsize,
    left_out: AtomicU64,
    /// The deadline has passed: events that are not written yet are dropped and counted.
    is_late: AtomicBool,
}

impl Shared {
    fn leave_out(&self) {
        self.left_out.fetch_add(1, Ordering::Relaxed);
    }
}

impl Telemetry {
    /// Begins, with a sentence about the turn.
    pub(super) fn of(repo: &Repo, directory: &RunDirectory, about: About, what: String) -> Self {
        let (to, lines) = mpsc::channel();
        let (alive, over) = mpsc::channel();
        let shared = Arc::<Shared>::default();
        let (store, directory, counts) = (repo.store(), directory.clone(), Arc::clone(&shared));
        let reports = Reports::of(about);
        // Its time is before that of all that the program says.
        let begun = reports.begun(&what).into_iter().map(|event| reports.enveloped(event)).collect();
        let thread = thread::Builder::new().name("telemetry".to_owned()).spawn(move || {
            write(&store.handle(), &directory, (reports, begun), (&lines, &counts), alive);
        });
        if let Err(error) = thread {
            tracing::warn!(%error, "no thread for what the turn reports; its files have all of it");
        }
        Self { ear: Some(Ear { to, shared: Arc::clone(&shared) }), shared, over }
    }

    /// Where the reports of a provider come in.
    pub(super) fn listener(&self) -> Option<&dyn Listener> {
        self.ear.as_ref().map(|ear| -> &dyn Listener { ear })
    }
}

impl Listener for Ear {
    fn heard(&self, line: &str) {
        let before = self.shared.waiting.fetch_add(line.len(), Ordering::Relaxed);
        if before >= MOST_WAITING || self.to.send(line.to_owned()).is_err() {
            self.shared.waiting.fetch_sub(line.len(), Ordering::Relaxed);
            self.shared.leave_out();
        }
    }
}

impl Drop for Telemetry {
    fn drop(&mut self) {
        self.ear = None;
        let is_busy = |patience| self.over.recv_timeout(patience) == Err(RecvTimeoutError::Timeout);
        if is_busy(PATIENCE) {
            // The process may end soon, and would take the rest along without a word.
            self.shared.is_late.store(true, Ordering::Relaxed);
            if is_busy(LAST) {
                tracing::debug!("the journal is busy; what the turn reported last is not in it");
            }
        }
    }
}

/// Writes until nothing more comes.
fn write(
    repo: &Repo,
    directory: &RunDirectory,
    (mut reports, mut events): (Reports, Vec<Vec<u8>>),
    (lines, shared): (&Receiver<String>, &Shared),
    alive: Sender<()>,
) {
    let mut writer = match Writer::open(repo, directory) {
        Ok(writer) => writer,
        Err(error) => {
            tracing::warn!(%error, run = %reports.about.run, "the journal cannot be written");
            return;
        }
    };
    let mut beat = clock::monotonic() + BEAT;
    let mut is_open = true;
    // The beginning does not wait for what the program says.
    loop {
        if !events.is_empty()
            && let Err(error) = writer.append(&events)
        {
            tracing::debug!(%error, run = %reports.about.run, "events of a live turn are not in the journal");
        }
        events.clear();
        if !is_open {
            break;
        }
        is_open = collect(lines, shared, beat, |line| events.extend(reports.heard(line, shared)));
        if clock::monotonic() >= beat {
            beat = clock::monotonic() + BEAT;
            events.push(reports.enveloped(reports.beat()));
        }
        if !is_open && let Some(event) = reports.left_out(shared.left_out.load(Ordering::Relaxed)) {
            events.push(reports.enveloped(event));
        }
    }
    // Nobody waits until they are on the disk.
    drop(alive);
}

/// Takes lines for one write: none before the next beat, or those that come within a moment. Returns whether more can
/// come.
fn collect(lines: &Receiver<String>, shared: &Shared, beat: Instant, mut take: impl FnMut(&str)) -> bool {
    let mut until = beat;
    for _ in 0..MOST_AT_ONCE {
        let patience = until.saturating_duration_since(clock::monotonic());
        match lines.recv_timeout(patience) {
            Ok(line) => {
                shared.waiting.fetch_sub(line.len(), Ordering::Relaxed);
                take(&line);
                until = until.min(clock::monotonic() + GROUP);
            }
            Err(RecvTimeoutError::Timeout) => return true,
            Err(RecvTimeoutError::Disconnected) => return false,
        }
    }
    true
}

/// An event without its envelope.
type Report = Map<String, Value>;

/// From the vocabulary of providers to events of the contract.
struct Reports {
    about: About,
    /// The calls that have not ended, by the provider's ids.
    tools: BTreeMap<String, Value>,
    /// Whether the answer that is under way came in parts.
    has_parts: bool,
}

impl Reports {
    fn of(about: About) -> Self {
        Self { about, tools: BTreeMap::new(), has_parts: false }
    }

    fn begun(&self, what: &str) -> Vec<Report> {
        vec![self.status("started", None), progress(what)]
    }

    fn beat(&self) -> Report {
        report("node.heartbeat", [])
    }

    fn left_out(&self, events: u64) -> Option<Report> {
        let line = format!("{events} events of the turn are left out here; its files have all of them");
        (events > 0).then(|| log(&line))
    }

    fn status(&self, word: &str, detail: Option<&str>) -> Report {
        let detail = detail.map(|detail| ("detail", detail.into()));
        let fields = [("turnId", json!(self.about.turn)), ("status", word.into())];
        report("turn.status", fields.into_iter().chain(detail))
    }

    fn tool_id(&self, theirs: &str) -> String {
        self.about.turn.call(theirs).to_string()
    }

    /// The events of a line, as they are written. Their time is that of the line.
    fn heard(&mut self, line: &str, shared: &Shared) -> Vec<Vec<u8>> {
        if shared.is_late.load(Ordering::Relaxed) {
            shared.leave_out();
            return Vec::new();
        }
        self.of_line(line).into_iter().map(|event| self.enveloped(event)).collect()
    }

    /// The events of a line of the vocabulary. What is of record, or concerns this program alone, has none.
    fn of_line(&mut self, line: &str) -> Vec<Report> {
        let Ok(Value::Object(event)) = serde_json::from_str::<Value>(line) else { return Vec::new() };
        let text = |key: &str| event.get(key).and_then(Value::as_str).unwrap_or_default();
        let kind = text("type");
        match kind {
            "message.assistant.delta" => {
                self.has_parts = true;
                vec![report(kind, [("delta", text("content").into())])]
            }
            // The last one is of record when the turn ends.
            "message.assistant.final" => {
                let has_parts = std::mem::take(&mut self.has_parts);
                let whole = || report("message.assistant.delta", [("delta", text("content").into())]);
                if has_parts { Vec::new() } else { vec![whole()] }
            }
            "message.assistant.thinking.delta" => vec![report(kind, [("delta", text("content").into())])],
            "message.assistant.thinking.final" => vec![report(kind, [("content", text("content").into())])],
            "tool.proposed" => self.proposed(event.get("tool").unwrap_or(&Value::Null)),
            "tool.started" => {
                let tool = self.tools.get(text("toolId")).cloned();
                let tool = tool.unwrap_or_else(|| json!({"id": self.tool_id(text("toolId"))}));
                vec![report(kind, [("tool", tool)])]
            }
            "tool.completed" => {
                self.tools.remove(text("toolId"));
                let error = event.get("error").map(|error| ("error", error.clone()));
                let id = ("toolId", self.tool_id(text("toolId")).into());
                let result = ("result", result(event.get("result")));
                vec![report(kind, [id, result].into_iter().chain(error))]
            }
            "turn.status" if text("status") == "waiting" => {
                vec![self.status("waiting", Some(text("message")))]
            }
            "node.log" | "limit" => vec![log(text("message"))],
            _ => Vec::new(),
        }
    }

    fn proposed(&mut self, tool: &Value) -> Vec<Report> {
        let theirs = tool.get("id").and_then(Value::as_str).unwrap_or_default();
        let name = tool.get("name").and_then(Value::as_str).unwrap_or_default();
        let args = tool.get("args").cloned().unwrap_or_else(|| json!({}));
        let tool = json!({"id": self.tool_id(theirs), "name": name, "args": args, "providerId": theirs});
        if self.tools.len() < MOST_TOOLS {
            self.tools.insert(theirs.to_owned(), tool.clone());
        }
        vec![report("tool.proposed", [("tool", tool)]), progress(&format!("uses {name}"))]
    }

    /// An event as it is written.
    fn enveloped(&self, report: Report) -> Vec<u8> {
        let mut event = Map::new();
        event.insert("id".to_owned(), json!(Uuid::new_v4()));
        event.insert("runId".to_owned(), json!(self.about.run));
        event.insert("ts".to_owned(), json!(Timestamp::from_millis(clock::wall_millis())));
        event.insert("nodeId".to_owned(), json!(self.about.node));
        event.extend(report);
        // A map has string keys and no failing parts.
        serde_json::to_vec(&event).unwrap_or_default()
    }
}

fn report(kind: &str, fields: impl IntoIterator<Item = (&'static str, Value)>) -> Report {
    let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value));
    std::iter::once(("type".to_owned(), kind.into())).chain(fields).collect()
}

fn progress(what: &str) -> Report {
    report("node.progress", [("status", "running".into()), ("summary", what.into())])
}

fn log(line: &str) -> Report {
    report("node.log", [("source", "provider".into()), ("line", line.into())])
}

/// The result of a call, with its output as a text.
fn result(given: Option<&Value>) -> Value {
    let is_ok = given.and_then(|result| result.get("ok")).and_then(Value::as_bool).unwrap_or(true);
    let output = given.and_then(|result| result.get("output")).filter(|output| !output.is_null());
    match output {
        None => json!({"ok": is_ok}),
        Some(Value::String(text)) => json!({"ok": is_ok, "output": text}),
        Some(other) => json!({"ok": is_ok, "output": other.to_string()}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reports() -> Reports {
        let id = |number: u128| Uuid::from_u128(number);
        Reports::of(About { run: id(1).into(), node: id(2).into(), turn: id(3).into() })
    }

    /// CONTRACT 22.29
    #[test]
    fn lines_of_providers_become_events_of_the_contract() {
        let mut reports = reports();
        let tool = reports.tool_id("t1");
        let rows = [
            (
                r#"{"type":"message.assistant.delta","content":"a"}"#,
                json!([{"type": "message.assistant.delta", "delta": "a"}]),
            ),
            (r#"{"type":"message.assistant.final","content":"ab"}"#, json!([])),
            (
                r#"{"type":"message.assistant.final","content":"whole"}"#,
                json!([{"type": "message.assistant.delta", "delta": "whole"}]),
            ),
            (
                r#"{"type":"message.assistant.thinking.final","content":"hm"}"#,
                json!([{"type": "message.assistant.thinking.final", "content": "hm"}]),
            ),
            (
                r#"{"type":"tool.proposed","tool":{"id":"t1","name":"Bash","args":{"command":"ls"}}}"#,
                json!([
                    {"type": "tool.proposed", "tool":
                        {"id": tool, "name": "Bash", "args": {"command": "ls"}, "providerId": "t1"}},
                    {"type": "node.progress", "status": "running", "summary": "uses Bash"},
                ]),
            ),
            (
                r#"{"type":"tool.started","toolId":"t1"}"#,
                json!([{"type": "tool.started", "tool":
                    {"id": tool, "name": "Bash", "args": {"command": "ls"}, "providerId": "t1"}}]),
            ),
            (
                r#"{"type":"tool.completed","toolId":"t1","result":{"ok":false,"output":[1]},"error":{"message":"no"}}"#,
                json!([{"type": "tool.completed", "toolId": tool, "result": {"ok": false, "output": "[1]"},
                    "error": {"message": "no"}}]),
            ),
            (
                r#"{"type":"turn.status","status":"waiting","message":"busy"}"#,
                json!([{"type": "turn.status", "turnId": Uuid::from_u128(3), "status": "waiting", "detail": "busy"}]),
            ),
            (
                r#"{"type":"node.log","message":"SET_STATE {}"}"#,
                json!([{"type": "node.log", "source": "provider", "line": "SET_STATE {}"}]),
            ),
            (r#"{"type":"turn.status","status":"completed"}"#, json!([])),
            (r#"{"type":"session","sessionId":"secret"}"#, json!([])),
            (r#"{"type":"telemetry.usage","usage":{}}"#, json!([])),
            ("no JSON", json!([])),
        ];
        for (line, wanted) in rows {
            assert_eq!(json!(reports.of_line(line)), wanted, "{line}");
        }
    }

    #[test]
    fn the_envelope_is_ours() {
        let mut reports = reports();
        let forged =
            r#"{"type":"message.assistant.delta","content":"x","id":"i","runId":"r","nodeId":"n","seq":7}"#;
        let event = reports.of_line(forged).remove(0);
        let event: Value = serde_json::from_slice(&reports.enveloped(event)).expect("JSON");
        assert_eq!(event["nodeId"], json!(Uuid::from_u128(2)));
        assert_eq!(event["runId"], json!(Uuid::from_u128(1)));
        assert!(event.get("seq").is_none() && event["id"] != "i", "{event}");
    }

    #[test]
    fn what_is_late_is_left_out() {
        let (mut reports, shared) = (reports(), Shared::default());
        let line = r#"{"type":"message.assistant.delta","content":"a"}"#;
        assert_eq!(reports.heard(line, &shared).len(), 1);
        shared.is_late.store(true, Ordering::Relaxed);
        assert!(reports.heard(line, &shared).is_empty());
        assert!(reports.heard(line, &shared).is_empty());
        let told = json!(reports.left_out(shared.left_out.load(Ordering::Relaxed)));
        assert_eq!(told["line"], "2 events of the turn are left out here; its files have all of them");
    }

    #[test]
    fn what_does_not_fit_is_left_out() {
        let (to, lines) = mpsc::channel();
        let ear = Ear { to, shared: Arc::default() };
        let line = "x".repeat(MOST_WAITING / 2);
        for _ in 0..5 {
            ear.heard(&line);
        }
        assert_eq!(lines.try_iter().count(), 2);
        assert_eq!(ear.shared.left_out.load(Ordering::Relaxed), 3);
    }
}
