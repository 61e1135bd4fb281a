//! The prompt of a turn: blocks, in an order that does not change.
//!
//! Invariant: it follows from the ledger alone. Texts of messages are quoted between lines that no message can contain, so
//! that none of them passes as a text of the run.

use std::fmt::Write as _;

use serde::Serialize;

use super::hand::{described, ends, is_report};
use crate::model::ids::MessageId;
use crate::model::message::{Envelope, Expectation, InboxItem, Item};
use crate::model::node::{CliPermissions, Node, ORCHESTRATOR};
use crate::model::run::{DoneWhen, GlobalMode, Mode};
use crate::model::state::State;

/// A part of a prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Block {
    /// `system`, `role`, `mode` or `task`.
    pub name: &'static str,
    /// Its text.
    pub text: String,
    /// Whether it is sent. A session that is continued gets only what is new in it.
    pub sent: bool,
}

/// The block with the messages of a turn.
pub const TASK: &str = "task";

/// The blocks of a turn of a node that reads these items of its inbox. `notes` are sentences of the program to the agent.
#[must_use]
pub fn blocks(state: &State, node: &Node, read: &[MessageId], notes: &[String]) -> Vec<Block> {
    let role = state.configs.get(&node.id).and_then(|config| config.custom_system_prompt.clone());
    let role = role.filter(|text| !text.trim().is_empty());
    let parts = [
        ("system", Some(system(state, node))),
        ("role", role),
        ("mode", Some(mode(state, node))),
        (TASK, Some(task(state, node, read, notes))),
    ];
    let parts = parts.into_iter().filter_map(|(name, text)| Some((name, text?)));
    parts.map(|(name, text)| Block { name, text: text.trim_end().to_owned(), sent: true }).collect()
}

/// Puts a replay of earlier turns before the messages.
pub fn put_replay(blocks: &mut [Block], pack: &str) {
    for block in blocks.iter_mut().filter(|block| block.name == TASK) {
        block.text = format!(
            "You have begun a new session. Your earlier turns in this run, the oldest first:\n\n{pack}\n\
             The earlier turns end here.\n\n{}",
            block.text
        );
    }
}

/// The prompt as one text.
#[must_use]
pub fn full(blocks: &[Block]) -> String {
    joined(blocks.iter())
}

/// The part of the prompt that is sent. Empty if nothing is.
#[must_use]
pub fn sent(blocks: &[Block]) -> String {
    joined(blocks.iter().filter(|block| block.sent))
}

fn joined<'b>(blocks: impl Iterator<Item = &'b Block>) -> String {
    let texts: Vec<&str> = blocks.map(|block| block.text.as_str()).collect();
    if texts.is_empty() { String::new() } else { texts.join("\n\n") + "\n" }
}

fn system(state: &State, node: &Node) -> String {
    let label = if state.run.label.is_empty() { state.run.slug.to_string() } else { state.run.label.clone() };
    let mut text = format!(
        "You are the agent {} (role {}) in the run {label:?}. Your working directory is a git worktree of your own. \
         Leave your work in its files: it is committed for you when you have finished. Do not push, and do not switch \
         branches.\n",
        node.alias, node.role_template
    );
    let reach: Vec<&Node> = state
        .nodes
        .values()
        .filter(|other| state.edges.values().any(|edge| edge.permits(node.id, other.id)))
        .collect();
    if !reach.is_empty() {
        text += "\nOther agents of this run that you can hand work to:\n";
        for other in reach {
            let reports = is_report(state, node.id, other.id);
            let how = if reports { "reports" } else { "work" };
            let label = shown(&other.label);
            let _infallible =
                writeln!(text, "- {} ({}; role {}): {how}", other.alias, label, other.role_template);
        }
    }
    text.push('\n');
    text + &described(state, node)
}

fn mode(state: &State, node: &Node) -> String {
    let may = node.capabilities;
    let planning = state.run.global_mode == GlobalMode::Planning;
    let mut text = match (planning, may.write_code, may.write_docs) {
        (true, _, true) => "The run is being planned: change files below docs/ and nothing else.".to_owned(),
        (true, _, false) | (false, false, false) => "Change no files.".to_owned(),
        (false, true, true) => "You may change all files.".to_owned(),
        (false, true, false) => "You may change all files except documents (docs/ and *.md).".to_owned(),
        (false, false, true) => "Change documents (docs/ and *.md) and nothing else.".to_owned(),
    };
    if !may.run_commands {
        text += " Run no commands.";
    }
    if may.delegate_only {
        text += " Do not work yourself: hand all work to other agents.";
    }
    if node.permissions.cli_permissions_mode == CliPermissions::Gated {
        text += " A person may be asked before you use a tool.";
    }
    text + &end(state, node)
}

/// How the run ends, for a node that may end it.
fn end(state: &State, node: &Node) -> String {
    let run = &state.run;
    if !ends(state, node) {
        return String::new();
    }
    let mut text = "\n".to_owned();
    if run.mode == Mode::Auto && node.role_template == ORCHESTRATOR {
        text += "The mode of the run is AUTO: whenever nothing is under way, a message of aynig tells its first \
                 orchestrator to go on, until the run ends.\n";
    }
    match run.done_when.as_deref().and_then(DoneWhen::parse) {
        Some(DoneWhen::Text(when)) => {
            text += "The run is done when this is so:\n";
            text += &quoted(when);
        }
        Some(DoneWhen::Validator(name)) => {
            let _infallible = writeln!(
                text,
                "The run is done when the validator {name} accepts the files of your worktree."
            );
        }
        None => {}
    }
    text
}

fn task(state: &State, node: &Node, read: &[MessageId], notes: &[String]) -> String {
    let mut text = String::new();
    for note in notes {
        let _infallible = writeln!(text, "Note: {note}\n");
    }
    for (handoff, wait) in &node.waits {
        let to = state.nodes.get(&wait.to).map_or("a removed agent", |to| to.alias.as_str());
        let _infallible = writeln!(text, "You wait for an answer of {to} to your hand-off {handoff}.\n");
    }
    let inbox = state.inbox(node.id);
    let read: Vec<&InboxItem> = inbox.iter().filter(|item| read.contains(&item.id())).copied().collect();
    let _infallible = writeln!(text, "Your new messages, in the order to read them: {}.", read.len());
    for item in read {
        text.push('\n');
        match &item.item {
            Item::Message(message) => {
                let _infallible = writeln!(text, "From a person ({}):", message.id);
                text += &quoted(&message.content);
            }
            Item::Handoff(envelope) => text += &handoff(state, envelope),
            Item::Notice(notice) => {
                let _infallible = writeln!(text, "From aynig ({}):", notice.id);
                text += &quoted(&notice.content);
            }
        }
    }
    text
}

fn handoff(state: &State, envelope: &Envelope) -> String {
    let sender = state.nodes.get(&envelope.from_node_id);
    let waits = sender.is_some_and(|node| node.waits.contains_key(&envelope.id));
    let from = sender.map_or_else(|| "an agent that was removed".to_owned(), |node| node.alias.to_string());
    let payload = &envelope.payload;
    let mut text = format!("From {from} ({}):\n", envelope.id);
    text += &quoted(&payload.message);
    if let Some(structured) = &payload.structured {
        let json = serde_json::Value::Object(structured.clone()).to_string();
        let _infallible = writeln!(text, "Data: {json}");
    }
    for artifact in &payload.artifacts {
        let _infallible =
            writeln!(text, "Attached ({}): {}", shown(&artifact.kind), shown(&artifact.reference));
    }
    if let Some(status) = &payload.status {
        let word = if status.ok { "ok" } else { "failed" };
        let why = status.reason.as_deref().map(|why| format!(": {}", shown(why))).unwrap_or_default();
        let _infallible = writeln!(text, "Status: {word}{why}");
    }
    let response = payload.response.as_ref();
    match response.map(|response| response.expectation) {
        Some(Expectation::Required) if !waits => {
            let _infallible = writeln!(text, "{from} does not wait for an answer any more");
        }
        Some(Expectation::Required) => {
            let _infallible = writeln!(
                text,
                "It waits for your answer: hand one on to {from} with --reply-to {}",
                envelope.id
            );
        }
        Some(Expectation::Optional) => {
            let _infallible = writeln!(text, "You may answer it with --reply-to {}", envelope.id);
        }
        Some(Expectation::None) | None => {}
    }
    if let Some(answered) = response.and_then(|response| response.reply_to.as_deref()) {
        let _infallible = writeln!(text, "It answers {}", shown(answered));
    }
    text
}

/// A text of others, each line with a mark before it.
pub(super) fn quoted(text: &str) -> String {
    let is_end = |c: char| matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}');
    text.replace("\r\n", "\n").split(is_end).fold(String::new(), |all, line| all + "> " + line + "\n")
}

/// A short text of others on one line.
fn shown(text: &str) -> String {
    text.split(char::is_control).collect::<Vec<_>>().join(" ")
}
