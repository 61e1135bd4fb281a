//! Acts that a person has to approve: an agent's command asks, and the turn records the question (CONTRACT 22.15).
//!
//! Invariant: of a node that has to ask, no turn makes a node or an edge without an approval of exactly that in the
//! ledger. The turn asks, and not the agent's command: that one may have neither network nor credentials.

use std::sync::mpsc;
use std::time::Duration;

use crate::clock::Stopwatch;
use crate::engine::Engine;
use crate::fsutil::DirectoryWatch;
use crate::ledger::{Ledger, Masks};
use crate::model::approval::{Answer, Approval, Tool};
use crate::model::decide::Command;
use crate::model::ids::{NodeId, TurnId};
use crate::model::node::{CliPermissions, Node};
use crate::model::state::State;
use crate::workspace::refusal::{Refusal, Why};
use serde_json::{Map, Value};

use super::hand::Ask;
use super::staged::Act;

/// The longest time without a look at the answer.
const LOOK: Duration = Duration::from_millis(500);

/// How much longer than the turn an agent's command waits.
const PATIENCE: Duration = Duration::from_secs(30);

/// The answer to an act.
#[derive(Debug, Clone, PartialEq)]
pub enum Heard {
    /// It may be done.
    Approved,
    /// It may be done with these arguments instead.
    Modified(Map<String, Value>),
    /// It may not, for this reason.
    Denied(Option<String>),
    /// Nobody has answered yet. The turn ends, and another one begins with the answer.
    Waits,
}

impl Engine<'_> {
    /// Asks people about an act of a node in its live turn on this host, and waits for the answer. `after` is the state that
    /// the act leads to.
    pub fn ask_people(
        &self,
        ledger: &Ledger<'_>,
        of: (NodeId, TurnId),
        act: &Act,
        after: &State,
    ) -> Result<Heard, Refusal> {
        let Some((name, args)) = act.managing() else { return Ok(Heard::Approved) };
        let hand = self.hand(ledger, of)?;
        let context = match act {
            Act::Spawn { node, .. } => after.node_named(&node.alias).map(rights),
            Act::Edge { .. } | Act::Handoff { .. } | Act::Artifact { .. } | Act::Done { .. } => None,
        };
        let tool = Tool::new("", name, args);
        let (bell, news) = mpsc::channel();
        // Where files cannot be watched the looks are enough.
        let ring = bell.clone();
        let _watch = DirectoryWatch::of(hand.path(), move || {
            ring.send(()).ok();
        });
        let asked = hand.ask(&Ask { tool, context });
        let asked = asked.map_err(|error| Refusal::because("ask a person", &error))?;
        let since = Stopwatch::start();
        while since.elapsed() < self.manners.wait.saturating_add(PATIENCE) {
            if let Some(answer) = hand.answered(&asked) {
                return Ok(match (answer.status, answer.modified_args) {
                    (Answer::Approved, _) => Heard::Approved,
                    (Answer::Modified, Some(args)) => Heard::Modified(args),
                    (Answer::Expired, _) => Heard::Waits,
                    (Answer::Denied | Answer::Modified | Answer::Withdrawn, _) => {
                        Heard::Denied(answer.reason)
                    }
                });
            }
            if !hand.is_open() {
                break;
            }
            news.recv_timeout(LOOK).ok();
        }
        let message = "the turn took no answer; nothing was staged";
        Err(Refusal::new(Why::Failed, message).hint("end the turn; the next one asks again"))
    }
}

/// The rights of a node that does not exist yet, for the person who decides.
fn rights(node: &Node) -> String {
    let may = node.capabilities;
    let all = [
        (may.write_code, "change code"),
        (may.write_docs, "change documents"),
        (may.run_commands, "run commands"),
    ];
    let words: Vec<&str> = all.into_iter().filter(|(may, _)| *may).map(|(_, words)| words).collect();
    let may = if words.is_empty() { "change nothing".to_owned() } else { words.join(", ") };
    let asks = match node.permissions.cli_permissions_mode {
        CliPermissions::Gated => "its tools are asked for",
        CliPermissions::Skip => "its tools are not asked for",
    };
    format!("it may {may}; {asks}")
}

/// A tool as the ledger has it.
fn masked(masks: &Masks, node: NodeId, tool: Tool) -> Tool {
    let ask = Command::Ask {
        node,
        tool: tool.clone(),
        context: None,
        expires_at: None,
        heard: Vec::new(),
        turn: None,
    };
    match masks.commands(&[ask]).pop() {
        Some(Command::Ask { tool, .. }) => tool,
        Some(_) | None => tool,
    }
}

/// Whether an answer allows exactly this.
fn allows(approval: &Approval, tool: &Tool) -> bool {
    let Some(answer) = &approval.resolution else { return false };
    let same = |args: &Map<String, Value>| {
        let act = |args: &Map<String, Value>| Act::of_tool(&tool.name, args.clone());
        act(args).is_ok_and(|allowed| act(&tool.args) == Ok(allowed))
    };
    approval.tool.name == tool.name
        && match (answer.status, &answer.modified_args) {
            (Answer::Approved, _) => same(&approval.tool.args),
            (Answer::Modified, Some(args)) => same(args),
            (Answer::Denied | Answer::Modified | Answer::Expired | Answer::Withdrawn, _) => false,
        }
}

impl Engine<'_> {
    /// Refuses acts of a turn that a person had to approve, and has not, by the ledger as it is known here now.
    pub(super) fn check_approved(
        &self,
        known: &Ledger<'_>,
        node: NodeId,
        acts: &[Act],
    ) -> Result<(), Refusal> {
        if acts.iter().all(|act| act.managing().is_none()) {
            return Ok(());
        }
        // The questions were operations of their own.
        let ledger = Ledger::open(self.repo, known.tip().state.run.id)?;
        let state = &ledger.tip().state;
        let asks = |node: &Node| node.permissions.agent_management_requires_approval;
        if !state.nodes.get(&node).is_some_and(asks) {
            return Ok(());
        }
        let masks = Masks::of(self.repo, &state.run.base_sha)?;
        for (name, args) in acts.iter().filter_map(Act::managing) {
            let tool = masked(&masks, node, Tool::new("", name, args));
            if !state.approvals.values().any(|one| one.node_id == node && allows(one, &tool)) {
                return Err(Refusal::new(Why::Failed, format!("nobody approved its {name}")));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::approval::Resolution;
    use crate::model::time::Timestamp;
    use serde_json::json;
    use uuid::Uuid;

    fn object(value: Value) -> Map<String, Value> {
        match value {
            Value::Object(map) => map,
            other => panic!("{other}"),
        }
    }

    fn asked(args: Value) -> Tool {
        Tool::new("", "create_edge", object(args))
    }

    /// CONTRACT 22.15
    #[test]
    fn an_answer_allows_what_was_asked_and_nothing_else() {
        let (one, two) = (json!({"from": "a", "to": "b"}), json!({"to": "c", "from": "a"}));
        let more = json!({"from": "a", "to": "b", "x": 1});
        for (status, asks, modified, does, allowed) in [
            (Some(Answer::Approved), &one, None, &one, true),
            (Some(Answer::Approved), &one, None, &two, false),
            (Some(Answer::Approved), &more, None, &one, false),
            (Some(Answer::Modified), &one, Some(&two), &two, true),
            (Some(Answer::Modified), &one, Some(&two), &one, false),
            (Some(Answer::Modified), &one, None, &one, false),
            (Some(Answer::Denied), &one, None, &one, false),
            (Some(Answer::Expired), &one, None, &one, false),
            (Some(Answer::Withdrawn), &one, None, &one, false),
            (None, &one, None, &one, false),
        ] {
            let resolution = status.map(|status| Resolution {
                status,
                modified_args: modified.map(|args: &Value| object(args.clone())),
                reason: None,
            });
            let approval = Approval {
                id: Uuid::nil().into(),
                node_id: Uuid::nil().into(),
                tool: asked(asks.clone()),
                context: None,
                requested_at: Timestamp::from_millis(0).expect("a time"),
                expires_at: None,
                consents: Vec::new(),
                resolution,
                resolved_by: None,
                always: None,
                heard_by: None,
            };
            assert_eq!(allows(&approval, &asked(does.clone())), allowed, "{status:?} {asks} {does}");
        }
    }
}
