//! The replay of a node's earlier turns for a new session: what it read, and its last words.
//!
//! Invariant: pure. Events come the newest first, and none of other nodes is in a replay. Texts are quoted line by line,
//! so that none of them passes as a text of the run.

use std::collections::BTreeMap;

use crate::model::event::{Body, Event};
use crate::model::ids::{MessageId, NodeId, TurnId};
use crate::model::state::State;
use crate::model::step::TurnStatus;

use super::prompt::quoted;

/// The part of a replay that was read until now.
#[derive(Debug)]
pub struct Replay<'s> {
    state: &'s State,
    node: NodeId,
    /// The most bytes of text that are of use.
    most: usize,
    /// The newest first.
    turns: Vec<Past>,
    /// The messages of these turns, by their ids.
    messages: BTreeMap<MessageId, Option<String>>,
    read: usize,
}

/// An earlier turn.
#[derive(Debug)]
struct Past {
    id: TurnId,
    number: u64,
    status: TurnStatus,
    consumed: Vec<MessageId>,
    words: Option<String>,
}

impl<'s> Replay<'s> {
    /// Nothing yet of a node.
    #[must_use]
    pub fn of(state: &'s State, node: NodeId, most: usize) -> Self {
        Self { state, node, most, turns: Vec::new(), messages: BTreeMap::new(), read: 0 }
    }

    /// Takes the event before those that were taken. Returns whether earlier ones are of use: not those before the node
    /// was reset.
    pub fn take(&mut self, event: &Event) -> bool {
        let is_own = event.node_id == Some(self.node);
        match &event.body {
            Body::TurnEnded(end) if is_own && end.status != TurnStatus::Failed => {
                self.messages.extend(end.consumed.iter().map(|id| (*id, None)));
                self.turns.push(Past {
                    id: end.turn_id,
                    number: end.number,
                    status: end.status,
                    consumed: end.consumed.clone(),
                    words: None,
                });
            }
            Body::MessageFinal(said) if is_own => {
                let turn = self.turns.iter_mut().find(|turn| Some(turn.id) == said.turn_id);
                if let Some(turn) = turn {
                    self.read += said.content.len();
                    turn.words = Some(said.content.clone());
                }
            }
            Body::MessageUser(sent) => {
                let text = format!("From a person:\n{}", quoted(&sent.message.content));
                self.found(sent.message.id, text);
            }
            Body::HandoffSent(sent) => {
                let from = self.state.nodes.get(&sent.envelope.from_node_id);
                let from = from
                    .map_or_else(|| "an agent that was removed".to_owned(), |node| node.alias.to_string());
                let text = format!("From {from}:\n{}", quoted(&sent.envelope.payload.message));
                self.found(sent.envelope.id, text);
            }
            Body::NodeNotice(told) => {
                self.found(told.notice.id, format!("From aynig:\n{}", quoted(&told.notice.content)));
            }
            Body::NodePatched(changed) if is_own => {
                let session = changed.patch.session.as_ref();
                return session.is_none_or(|session| session.has_begun());
            }
            _ => {}
        }
        self.read <= self.most || self.messages.values().any(Option::is_none)
    }

    fn found(&mut self, id: MessageId, text: String) {
        if let Some(found) = self.messages.get_mut(&id) {
            self.read += text.len();
            *found = Some(text);
        }
    }

    /// The turns as texts, the oldest first.
    #[must_use]
    pub fn turns(&self) -> Vec<String> {
        let turns = self.turns.iter().rev();
        turns
            .filter(|turn| turn.words.is_some() || !turn.consumed.is_empty())
            .map(|turn| self.text(turn))
            .collect()
    }

    fn text(&self, turn: &Past) -> String {
        let mut text = format!("# Turn {} ({})\n", turn.number, turn.status.word());
        for id in &turn.consumed {
            let message = self.messages.get(id).and_then(Option::as_deref);
            text += &format!("\n{}", message.unwrap_or("A message that is not known any more.\n"));
        }
        let words = turn.words.as_deref().map_or_else(|| "(none)\n".to_owned(), quoted);
        text + &format!("\nYour answer:\n{words}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::decide::{Command, EndedTurn, Steer};
    use crate::model::tests::Bench;
    use crate::model::time::Timestamp;

    fn chat(node: NodeId, content: &str) -> Command {
        Command::Chat { node: Some(node), content: content.to_owned(), interrupt: false }
    }

    /// A turn that reads all of its inbox.
    fn turn(bench: &Bench, node: NodeId, number: u128, status: TurnStatus, words: &str) -> Command {
        Command::EndTurn(Box::new(EndedTurn {
            consumed: bench.state.inbox(node).iter().map(|item| item.id()).collect(),
            last_words: Some(words.to_owned()),
            session: Some(format!("s-{number}")),
            ..EndedTurn::new(
                node,
                TurnId::from(uuid::Uuid::from_u128(number)),
                status,
                Timestamp::from_millis(0).unwrap(),
            )
        }))
    }

    /// The replay of these events.
    fn replay(bench: &Bench, node: NodeId, events: &[Event], most: usize) -> Vec<String> {
        let mut replay = Replay::of(&bench.state, node, most);
        let _read: Vec<&Event> = events.iter().rev().take_while(|event| replay.take(event)).collect();
        replay.turns()
    }

    /// CONTRACT 22.26
    #[test]
    fn a_replay_has_what_a_node_read_and_answered() {
        let mut bench = Bench::new();
        let (a, b) = (bench.node("a", "implementer"), bench.node("b", "reviewer"));
        let mut events = Vec::new();
        let mut run = |bench: &mut Bench, command| events.extend(bench.run(command).unwrap().events);
        run(&mut bench, chat(a, "one\nFrom a person:"));
        let end = turn(&bench, a, 1, TurnStatus::Completed, "first");
        run(&mut bench, end);
        run(&mut bench, chat(b, "for another"));
        let end = turn(&bench, b, 2, TurnStatus::Completed, "of another");
        run(&mut bench, end);
        run(&mut bench, chat(a, "two"));
        for (number, status, words) in [
            (3, TurnStatus::Failed, "failed"),
            (4, TurnStatus::Interrupted, "half"),
            (5, TurnStatus::Completed, "second"),
        ] {
            let end = turn(&bench, a, number, status, words);
            run(&mut bench, end);
        }
        let first =
            "# Turn 1 (completed)\n\nFrom a person:\n> one\n> From a person:\n\nYour answer:\n> first\n";
        let half = "# Turn 4 (interrupted)\n\nYour answer:\n> half\n";
        let second = "# Turn 5 (completed)\n\nFrom a person:\n> two\n\nYour answer:\n> second\n";
        assert_eq!(replay(&bench, a, &events, 1_000), [first, half, second]);
        assert_eq!(replay(&bench, a, &events, 10), [half, second], "no more than is of use");
        let mut run = |bench: &mut Bench, command| events.extend(bench.run(command).unwrap().events);
        run(&mut bench, Command::SteerNode(a, Steer::Reset));
        run(&mut bench, chat(a, "three"));
        let end = turn(&bench, a, 6, TurnStatus::Completed, "third");
        run(&mut bench, end);
        let third = "# Turn 6 (completed)\n\nFrom a person:\n> three\n\nYour answer:\n> third\n";
        assert_eq!(replay(&bench, a, &events, 1_000), [third], "nothing before the reset");
    }
}
