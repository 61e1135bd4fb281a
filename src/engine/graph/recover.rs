//! Turns that did not record themselves: their attempt was cut off, or their runner was stopped (CONTRACT 22.5).
//!
//! Invariant: each such turn is recorded once, and has read nothing. Its work is saved, and its worktree put back, on the
//! host that has it.

use crate::engine::Engine;
use crate::engine::attempt::{Attempt, Ended};
use crate::engine::kept_end::Fate;
use crate::engine::leases::{ago, cut_off_below, held_below};
use crate::engine::record::Recorder;
use crate::ledger::Ledger;
use crate::model::decide::{Command, EndedTurn, NewArtifact};
use crate::model::ids::{ApprovalId, StepId, TurnId};
use crate::model::node::Node;
use crate::model::run::Usage;
use crate::model::state::State;
use crate::model::step::{Opcode, TurnStatus};
use crate::model::time::Timestamp;
use crate::workspace::Awaited;
use crate::workspace::refusal::{Refusal, Why};

use super::added::record_staged;
use super::hand::Hand;
use super::kept::turn_of;
use super::of::Of;
use super::settle::{Over, of_turn};

/// The details of a turn that was interrupted, and of one that was cut off.
const INTERRUPTED: &str = "its runner was stopped";
const CUT_OFF: &str = "its attempt was cut off";

impl Engine<'_> {
    /// Carries on after an attempt of a node's driver that was cut off.
    pub fn recover_turn(&self, attempt: &Attempt) -> Result<Ended, Refusal> {
        self.carry_on_node(attempt).or_else(|refusal| self.before_work(attempt, refusal))
    }

    fn carry_on_node(&self, attempt: &Attempt) -> Result<Ended, Refusal> {
        let (mut ledger, driver, node) = self.opened_node(attempt)?;
        let run = ledger.tip().state.run.clone();
        let mut over = Over::default();
        let id = node.as_ref().map(|node| node.id);
        if let Some(node) = &node {
            let name = node.alias.as_str();
            if let Some(Awaited::Step(why)) = self.workspaces.waits_beside(&run.id.to_string(), name)? {
                // That ends by itself.
                return Ok(Ended::Unable(why));
            }
            let of = Of { node: node.clone(), turn: turn_of(&attempt.id)?, attempt, driver: &driver };
            match self.record_kept_turn(&mut ledger, &of)? {
                Fate::Recorded(next) => return Ok(Ended::Declared(next)),
                Fate::Stays(why) => return Ok(Ended::Unable(why)),
                Fate::None | Fate::Dropped(_) => {}
            }
            (over.lost, over.artifacts) = self.lost_turns(&mut ledger, &of, None)?;
            let found = match self.workspaces.find(format!("{}/{name}", run.slug).as_ref()) {
                // Nothing lies here.
                Err(refusal) if refusal.why == Why::NotFound => None,
                found => Some(found?),
            };
            if let Some(context) = found {
                over.workspace = Some((self.salvage(&ledger, None, context)?, Vec::new()));
            }
        }
        self.settle(&mut ledger, (&driver, id, attempt), &over).map(Ended::Declared)
    }

    /// Records the turns whose runners were stopped, below the commit that caused this attempt.
    pub(super) fn record_lost_turns(&self, ledger: &mut Ledger<'_>, of: &Of<'_>) -> Result<(), Refusal> {
        let (lost, left) = self.interrupted_turns(ledger, of, None)?;
        if lost.is_empty() {
            return Ok(());
        }
        let turns = lost.into_iter().map(|turn| Command::EndTurn(Box::new(turn)));
        let commands: Vec<Command> = left.into_iter().map(Command::AddArtifact).chain(turns).collect();
        ledger.operate(&self.op_of_node(of.node.id)?, &commands, &[])?;
        Ok(())
    }

    /// The turns of a node below the commit that caused this attempt, other than `but`, that did not record themselves, and
    /// what they left on this host.
    pub(super) fn lost_turns(
        &self,
        ledger: &mut Ledger<'_>,
        of: &Of<'_>,
        but: Option<TurnId>,
    ) -> Result<(Vec<EndedTurn>, Vec<NewArtifact>), Refusal> {
        let name = of.node.alias.as_str();
        // The end of a turn may have been recorded just now.
        let node = &ledger.tip().state.nodes.get(&of.node.id).unwrap_or(&of.node).clone();
        let (mut turns, mut artifacts) = self.interrupted_turns(ledger, of, but)?;
        let lost = cut_off_below(self.repo, of.attempt.trigger);
        let lost = lost.and_then(|held| Some((TurnId::parse(&held.attempt)?, held.lived)));
        let is_new = |turn| !is_recorded(node, turn) && but != Some(turn);
        if let Some((turn, lived)) = lost.filter(|(turn, _)| is_new(*turn)) {
            let started = ago(lived)?;
            let noted = self.noted(&ledger.tip().state.run, name)?;
            let noted = noted.map(|(_, words)| format!("; {words}")).unwrap_or_default();
            let why = format!("{CUT_OFF}{noted}");
            let (usage, left) = self.left_by_killed(ledger, node, turn, (started, &why))?;
            artifacts.extend(left);
            let heard = heard_by(&ledger.tip().state, turn);
            turns.push(unrecorded_turn(node, turn, started, (TurnStatus::Failed, why), (usage, heard)));
        }
        Ok((turns, artifacts))
    }

    fn interrupted_turns(
        &self,
        ledger: &mut Ledger<'_>,
        of: &Of<'_>,
        but: Option<TurnId>,
    ) -> Result<(Vec<EndedTurn>, Vec<NewArtifact>), Refusal> {
        let node = &of.node;
        let mut lost = held_below(self.repo, of.attempt.trigger);
        lost.retain(|held| held.is_interrupted);
        // Turns before the last recorded one are recorded as well.
        let known = node.turn.as_ref().map(|last| last.id.to_string());
        lost.truncate(
            lost.iter().position(|held| Some(&held.attempt) == known.as_ref()).unwrap_or(lost.len()),
        );
        let (mut turns, mut artifacts) = (Vec::new(), Vec::new());
        for held in lost.into_iter().rev() {
            let Some(turn) = TurnId::parse(&held.attempt).filter(|turn| but != Some(*turn)) else { continue };
            let started = ago(held.lived)?;
            let (usage, left) = self.left_by_killed(ledger, node, turn, (started, INTERRUPTED))?;
            artifacts.extend(left);
            let how = (TurnStatus::Interrupted, INTERRUPTED.to_owned());
            let heard = heard_by(&ledger.tip().state, turn);
            turns.push(unrecorded_turn(node, turn, started, how, (usage, heard)));
        }
        Ok((turns, artifacts))
    }

    /// Seals what a turn left on this host. Returns what it is known to have used, and its artifacts.
    fn left_by_killed(
        &self,
        ledger: &mut Ledger<'_>,
        node: &Node,
        turn: TurnId,
        (started, why): (Timestamp, &str),
    ) -> Result<(Option<Usage>, Vec<NewArtifact>), Refusal> {
        let name = node.alias.as_str();
        // The files of another one are on its host.
        if self.marked(ledger.tip().state.run.id, name) != Some(turn.to_string()) {
            return Ok((None, Vec::new()));
        }
        let step = StepId::parse(name).map_err(|error| Refusal::new(Why::Failed, error.to_string()))?;
        let hand = Hand::of(&self.directory(ledger.tip().state.run.id), turn);
        let staged = |recorder: &mut Recorder| record_staged(recorder, &hand, TurnStatus::Failed);
        let (usage, left) =
            self.killed_record(ledger, (&step, Opcode::RunAgent, u64::MAX), (started, why), staged)?;
        hand.discard();
        let of_node = |artifact| NewArtifact { node: Some(node.id), ..of_turn(artifact, turn) };
        Ok((usage, left.into_iter().map(|(_, artifact)| of_node(artifact)).collect()))
    }
}

fn is_recorded(node: &Node, turn: TurnId) -> bool {
    node.turn.as_ref().is_some_and(|last| last.id == turn)
}

/// The answers that a turn got. Nobody knows whether its program had them, so none counts for another turn.
fn heard_by(state: &State, turn: TurnId) -> Vec<ApprovalId> {
    let all = state.approvals.values().filter(|approval| approval.heard_by == Some(turn));
    all.map(|approval| approval.id).collect()
}

/// A turn that did not record itself.
fn unrecorded_turn(
    node: &Node,
    turn: TurnId,
    started_at: Timestamp,
    (status, detail): (TurnStatus, String),
    (usage, heard): (Option<Usage>, Vec<ApprovalId>),
) -> EndedTurn {
    EndedTurn { usage, detail: Some(detail), heard, ..EndedTurn::new(node.id, turn, status, started_at) }
}
