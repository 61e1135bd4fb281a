//! Codex: `codex app-server`, JSON-RPC without the field `jsonrpc`.
//!
//! `turn/completed` ends the turn. Tokens of a turn are the difference of totals, which run on through resumes.
//!
//! With a gate it asks before each command, patch and tool of a server, over the pipe. Its answers are a yes or a no. A
//! reason, or changed arguments, follow as a message into the turn; one that is not taken is left for the next prompt.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::held::Held;
use super::{
    Dialect, Out, Rpc, SERVER, Task, id_text, map_of, number, plain, rpc, some_text, text_of, weigh,
};
use crate::flow::document::Execution;
use crate::model::approval::Tool;
use crate::model::run::Usage;
use crate::provider::event::{End, Event};
use crate::provider::gate::{Request, Resolution};
use crate::provider::policy::{Verdict, Wish, is_inside};

const INITIALIZE: u64 = 1;
const THREAD: u64 = 2;
const TURN: u64 = 3;
const INTERRUPT: u64 = 4;
/// The first message into the turn. Later ones have the numbers after it.
const STEER: u64 = 5;

/// The longest call of a tool of ours, in seconds. It waits for people as long as the turn does.
const TOOL_SECONDS: u64 = 24 * 60 * 60;

/// The most items that are remembered until they are asked about.
const MOST_ITEMS: usize = 256;

pub(super) struct Codex {
    task: Task,
    thread: Option<String>,
    turn: Option<String>,
    /// The totals before this turn.
    before: Option<Usage>,
    /// When the windows that are used up begin anew.
    resets: Option<i64>,
    /// Patches and calls of servers that were announced and are not done, by their ids.
    items: BTreeMap<String, Value>,
    held: Held<Kept>,
    /// Messages into the turn that it has not taken yet, by the numbers of their requests.
    untaken: BTreeMap<u64, String>,
    /// The number of the next one.
    next: u64,
}

/// A request, as far as its answer needs it.
#[derive(Clone)]
struct Kept {
    id: Value,
    tool: Tool,
    /// Whether it is about a tool of a server.
    is_of_server: bool,
    /// The thread and the turn that ask: a subagent has its own.
    thread: Option<String>,
    turn: Option<String>,
}

impl Kept {
    fn answer(&self, verdict: Verdict, out: &mut Out) {
        let word = match verdict {
            Verdict::Yes => "accept",
            Verdict::No => "decline",
            Verdict::Fail => "cancel",
        };
        let result = match (self.is_of_server, word) {
            (true, "accept") => json!({"action": word, "content": {}}),
            (true, _) => json!({"action": word}),
            (false, _) => json!({"decision": word}),
        };
        out.write(&json!({"id": self.id, "result": result}));
    }
}

impl Codex {
    pub(super) fn new(task: Task) -> Self {
        Self {
            task,
            thread: None,
            turn: None,
            before: None,
            resets: None,
            items: BTreeMap::new(),
            held: Held::default(),
            untaken: BTreeMap::new(),
            next: STEER,
        }
    }

    fn answered(&mut self, id: u64, value: &Value, out: &mut Out) {
        if id >= STEER {
            let words = self.untaken.remove(&id);
            out.events.extend(words.filter(|_| value.get("error").is_some()).map(Event::Unsaid));
            return;
        }
        if let Some(error) = value.get("error") {
            if id != INTERRUPT {
                let message = text_of(error, "message");
                if id == THREAD && self.task.session.is_some() {
                    out.end(End::NoSession(message.to_owned()));
                    return;
                }
                let what = match id {
                    INITIALIZE => "it refuses to begin",
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
        let (policy, sandbox, config) = self.task.posture.codex(self.task.is_gated);
        let mut params = Map::new();
        params.insert("cwd".to_owned(), self.task.directory.to_string_lossy().into());
        params.insert("approvalPolicy".to_owned(), policy.into());
        params.insert("sandbox".to_owned(), sandbox.into());
        if self.task.is_gated {
            params.insert("approvalsReviewer".to_owned(), "user".into());
        }
        if let Some(model) = &self.task.model {
            params.insert("model".to_owned(), model.clone().into());
        }
        let mut config = config.unwrap_or_default();
        if let Some((program, args)) = self.task.server() {
            config["mcp_servers"][SERVER] = json!({
                "command": program, "args": args, "tool_timeout_sec": TOOL_SECONDS,
            });
        }
        if !config.is_null() {
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
        if self.task.is_gated
            && let Err(why) = self.confirmed(result)
        {
            let next = "nobody would be asked, so the turn was not begun; look at what this host requires of Codex, \
                        or use another version of it";
            out.end(End::failed(format!("it does not ask before each tool: {why}; {next}")));
            return;
        }
        let input = json!([{"type": "text", "text": self.task.text()}]);
        self.task.prompt = Vec::new();
        out.write(&json!({"id": TURN, "method": "turn/start", "params": {"threadId": id, "input": input}}));
        self.thread = Some(id);
    }

    /// Whether it took over the policy by which it asks.
    fn confirmed(&self, result: &Value) -> Result<(), String> {
        let said = |key: &str| result.get(key).filter(|value| !value.is_null());
        let shown = |value: Option<&Value>| value.map_or_else(|| "nothing".to_owned(), Value::to_string);
        let policy = said("approvalPolicy");
        if policy.and_then(Value::as_str) != Some("untrusted") {
            return Err(format!("for approvalPolicy \"untrusted\" it answers {}", shown(policy)));
        }
        let reviewer = said("approvalsReviewer");
        if reviewer.is_some_and(|reviewer| reviewer != "user") {
            return Err(format!("for approvalsReviewer \"user\" it answers {}", shown(reviewer)));
        }
        let sandbox = said("sandbox").and_then(|sandbox| sandbox.get("type"));
        let writes = self.task.posture.execution == Execution::WorkspaceWrite;
        match sandbox.and_then(Value::as_str) {
            Some("readOnly") => Ok(()),
            Some("workspaceWrite") if writes => Ok(()),
            _ => {
                let asked = self.task.posture.codex(true).1;
                Err(format!("for the sandbox \"{asked}\" it answers {}", shown(sandbox)))
            }
        }
    }

    /// What subagents of its own announce counts, too: they ask as well.
    fn announced(&mut self, method: &str, params: &Value, out: &mut Out) {
        let item = params.get("item").unwrap_or(&Value::Null);
        let id = text_of(item, "id");
        match (method, text_of(item, "type")) {
            ("item/started", "fileChange" | "mcpToolCall") if self.items.len() < MOST_ITEMS => {
                self.items.insert(id.to_owned(), item.clone());
            }
            ("item/completed", _) => drop(self.items.remove(id)),
            ("item/fileChange/patchUpdated", _) => {
                if let (Some(item), Some(changes)) =
                    (self.items.get_mut(text_of(params, "itemId")), params.get("changes"))
                {
                    item["changes"] = changes.clone();
                }
            }
            ("serverRequest/resolved", _) => {
                let id = params.get("requestId").map(id_text).unwrap_or_default();
                if self.held.take(&id).is_some() {
                    out.event(Event::Withdrawn { id });
                }
            }
            _ => {}
        }
    }

    fn notified(&mut self, method: &str, params: &Value, out: &mut Out) {
        self.announced(method, params, out);
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
            "item/started" => Self::begun(params.get("item").unwrap_or(&Value::Null), out),
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

    fn begun(item: &Value, out: &mut Out) {
        let (kind, id) = (text_of(item, "type"), text_of(item, "id").to_owned());
        let (name, args) = match kind {
            "commandExecution" => ("command", pick(item, &["command", "cwd"])),
            "fileChange" => ("patch", pick(item, &["changes"])),
            "mcpToolCall" => {
                let name = full_name(text_of(item, "server"), text_of(item, "tool"));
                out.event(Event::Proposed(Tool::new(id, name, map_of(item, "arguments"))));
                return;
            }
            "dynamicToolCall" => (text_of(item, "tool"), map_of(item, "arguments")),
            _ => return,
        };
        out.event(Event::Proposed(Tool::new(id, name, args)));
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

    fn completed(&mut self, turn: &Value, out: &mut Out) {
        if let (Some(ours), Some(theirs)) = (self.turn.as_deref(), turn.get("id").and_then(Value::as_str))
            && ours != theirs
        {
            return;
        }
        self.leave(out);
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

    fn asked(&mut self, id: Value, method: &str, params: &Value, out: &mut Out) {
        let (tool, wish, context) = match method {
            "item/commandExecution/requestApproval" => self.command(params),
            "item/fileChange/requestApproval" => self.patch(params),
            "mcpServer/elicitation/request" => self.call(params),
            _ => {
                let error = json!({"code": -32601, "message": format!("aynig does not answer {method}")});
                out.write(&json!({"id": id, "error": error}));
                return;
            }
        };
        let request = Request {
            id: id_text(&id),
            tool: tool.clone(),
            context,
            carries_reason: true,
            carries_args: false,
        };
        let is_of_server = method == "mcpServer/elicitation/request";
        let (thread, turn) = (some_text(params, "threadId"), some_text(params, "turnId"));
        let kept = Kept { id, tool, is_of_server, thread, turn };
        if let Some(verdict) = weigh(&self.task, &mut self.held, out, request, wish, kept.clone()) {
            kept.answer(verdict, out);
        }
    }

    /// A command. One that a person could not judge is not asked about.
    fn command(&self, params: &Value) -> (Tool, Wish, Option<String>) {
        let mut args = pick(params, &["command", "cwd", "networkApprovalContext", "additionalPermissions"]);
        // The worktree has another path on each host, and an answer counts on all of them.
        let is_here = |cwd: &str| Path::new(cwd) == self.task.directory;
        if args.get("cwd").and_then(Value::as_str).is_some_and(is_here) {
            args.remove("cwd");
        }
        // Input for a command that runs has another kind, and no field that is known to have all of it.
        let is_known = matches!(text_of(params, "kind"), "" | "command");
        let is_clear =
            is_known && (args.contains_key("command") || args.contains_key("networkApprovalContext"));
        let wish = if self.task.is_gated && !is_clear { Wish::Person } else { Wish::Other };
        let tool = Tool::new(text_of(params, "itemId"), "command", args);
        (tool, wish, some_text(params, "reason"))
    }

    /// A patch, with its changes as they were announced. Without them, and with a root for later writes, a person could
    /// not judge it, so it is not asked about.
    fn patch(&self, params: &Value) -> (Tool, Wish, Option<String>) {
        let id = text_of(params, "itemId");
        let item = self.items.get(id).unwrap_or(&Value::Null);
        let paths = paths(item);
        let has_root = params.get("grantRoot").is_some_and(|root| !root.is_null());
        let wish = match paths.as_slice() {
            _ if self.task.is_gated && has_root => Wish::Person,
            [] if self.task.is_gated => Wish::Person,
            [] => Wish::Other,
            paths if paths.iter().all(|path| is_inside(path, &self.task.directory)) => Wish::Write,
            _ => Wish::Other,
        };
        let tool = Tool::new(id, "patch", pick(item, &["changes"]));
        (tool, wish, some_text(params, "reason"))
    }

    /// A tool of a server, or a question of one.
    fn call(&self, params: &Value) -> (Tool, Wish, Option<String>) {
        let meta = params.get("_meta").unwrap_or(&Value::Null);
        let is_tool = text_of(meta, "codex_approval_kind") == "mcp_tool_call";
        let (server, name) = (text_of(params, "serverName"), text_of(meta, "tool_name"));
        let args = map_of(meta, "tool_params");
        let is_it = |item: &Value| {
            text_of(item, "server") == server
                && text_of(item, "tool") == name
                && map_of(item, "arguments") == args
        };
        let found = self.items.iter().find(|(_, item)| is_it(item));
        let id = found.map(|(id, _)| id.clone()).unwrap_or_default();
        let wish = match is_tool {
            true if self.task.is_own_server(server) => Wish::Read,
            true => Wish::Other,
            false => Wish::Person,
        };
        let name = if is_tool { full_name(server, name) } else { "elicitation".to_owned() };
        (Tool::new(id, name, args), wish, some_text(params, "message"))
    }

    /// Sends a sentence into the turn that asked. If it is not taken there, it is left for the next prompt.
    fn tell(&mut self, kept: &Kept, words: String, out: &mut Out) {
        let (Some(thread), Some(turn)) = (&kept.thread, &kept.turn) else {
            out.event(Event::Unsaid(words));
            return;
        };
        let input = json!([{"type": "text", "text": words}]);
        let params = json!({"threadId": thread, "expectedTurnId": turn, "input": input});
        out.log(format!("said into the turn: {words}"));
        out.write(&json!({"id": self.next, "method": "turn/steer", "params": params}));
        self.untaken.insert(self.next, words);
        self.next += 1;
    }

    /// The turn ends: what it has not taken is left for the next prompt.
    fn leave(&mut self, out: &mut Out) {
        out.events.extend(std::mem::take(&mut self.untaken).into_values().map(Event::Unsaid));
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

/// A tool of a server by the name that says whose it is.
fn full_name(server: &str, tool: &str) -> String {
    format!("mcp__{server}__{tool}")
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
            Some(Rpc::Request { id, method, params }) => self.asked(id, &method, &params, &mut out),
            Some(Rpc::Answer { id, value }) => self.answered(id, &value, &mut out),
            None => {}
        }
        out
    }

    fn eof(&mut self) -> Out {
        let mut out = Out::default();
        self.leave(&mut out);
        out
    }

    fn answer(&mut self, id: &str, resolution: &Resolution) -> Out {
        let mut out = Out::default();
        let Some(kept) = self.held.take(id) else { return out };
        let (verdict, words) = plain(&kept.tool, resolution);
        // The sentence first: the turn waits for the answer, so it is there to take the sentence.
        if let Some(words) = words {
            self.tell(&kept, words, &mut out);
        }
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
        if let (Some(thread), Some(turn)) = (&self.thread, &self.turn) {
            let params = json!({"threadId": thread, "turnId": turn});
            out.write(&json!({"id": INTERRUPT, "method": "turn/interrupt", "params": params}));
        }
        out
    }
}
