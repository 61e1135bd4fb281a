//! The operation that ends an attempt of a node's driver, and the driver's next state (CONTRACT 22.3).
//!
//! Invariant: the next state follows from the ledger as this very operation leaves it. If the ledger or another node's
//! driver moved meanwhile, all of it is worked out anew; if the lease is lost, nothing is written.

use serde_json::{Map, json};

use crate::contract::ids::AttemptId;
use crate::crashpoint::{Point, reach};
use crate::engine::agent::until_of_limit;
use crate::engine::attempt::Attempt;
use crate::engine::conclude::Holder;
use crate::engine::driver::{Driver, Next, TURN};
use crate::engine::{Engine, now};
use crate::git::RefChange;
use crate::ledger::{Ledger, LedgerError};
use crate::model::decide::{Command, Decided, EndedTurn, NewArtifact, Op};
use crate::model::ids::{ApprovalId, NodeId, Slug, TurnId};
use crate::model::node::Hold;
use crate::model::run::RunStatus;
use crate::model::step::TurnStatus;
use crate::model::time::Timestamp;
use crate::model::trace::Halted;
use crate::orch::verdict::{Verdict, limit_words, verdict};
use crate::provider::{self, How};
use crate::workspace::context::Context;
use crate::workspace::refusal::{Refusal, Why};

use super::operate::{Move, next_of};
use super::staged::{Act, commands};

/// How often the end of an attempt is worked out anew.
const TRIES: u32 = 100;

/// The result of an attempt of a node's driver.
#[derive(Debug, Default)]
pub(super) struct Over {
    /// The turn.
    pub(super) turn: Option<EndedTurn>,
    /// Turns before it that did not record themselves.
    pub(super) lost: Vec<EndedTurn>,
    /// The artifacts of the turn.
    pub(super) artifacts: Vec<NewArtifact>,
    /// The staged acts of the turn, if it completed.
    pub(super) acts: Vec<Act>,
    /// The workspace that it changed, with repairs of it in words.
    pub(super) workspace: Option<(Context, Vec<String>)>,
    /// When the driver is due again, in seconds since 1970, and what it waits for. `None`: it follows from the ledger.
    pub(super) parked: Option<(i64, String)>,
    /// Why the run pauses.
    pub(super) halt: Option<String>,
    /// The limit of the run by which an act of the turn was refused.
    pub(super) reached: Option<Halted>,
}

/// How a turn ended.
#[derive(Debug, Clone)]
pub(super) struct End {
    pub(super) status: TurnStatus,
    pub(super) detail: Option<String>,
    pub(super) excused: bool,
    pub(super) until: Option<Timestamp>,
    /// The answers of people that its program was given.
    pub(super) heard: Vec<ApprovalId>,
    /// The id of a session that it began.
    pub(super) session: Option<String>,
}

impl End {
    /// The end of a turn whose program ended so. `later` is when an outage allows the next try.
    pub(super) fn of(ended: &provider::Ended, later: Option<Timestamp>) -> Self {
        let at = |second: i64| Timestamp::from_millis(second.saturating_mul(1_000));
        let why = Some(ended.evidence.clone());
        let failed = Self {
            status: TurnStatus::Failed,
            detail: why,
            excused: ended.outage,
            until: later.filter(|_| ended.outage),
            heard: Vec::new(),
            session: None,
        };
        match &ended.how {
            How::Completed => Self { status: TurnStatus::Completed, detail: None, until: None, ..failed },
            // What a parked turn did stays, as that of an interrupted one.
            How::Stopped(_) | How::Parked { .. } => Self { status: TurnStatus::Interrupted, ..failed },
            How::Limited { until: None, .. } => {
                Self { excused: true, until: at(until_of_limit(None)).max(later), ..failed }
            }
            How::Limited { until, .. } => Self { excused: true, until: at(until_of_limit(*until)), ..failed },
            How::Later => Self { excused: true, until: later, ..failed },
            How::Failed | How::TimedOut(_) | How::Idle(_) | How::Asked(_) | How::Unavailable(_) => failed,
        }
    }

    /// It failed for this reason, although the agent came to its end.
    pub(super) fn fails(&mut self, why: String) {
        (self.status, self.detail, self.excused, self.until) = (TurnStatus::Failed, Some(why), false, None);
    }
}

impl Engine<'_> {
    /// Writes the end, and moves the driver to what follows, with the drivers that it wakes.
    pub(super) fn settle(
        &self,
        ledger: &mut Ledger<'_>,
        (driver, node, attempt): (&Driver<'_>, Option<NodeId>, &Attempt),
        over: &Over,
    ) -> Result<Next, Refusal> {
        let op = match node {
            Some(node) => self.op_of_node(node)?,
            None => self.op()?,
        };
        let mut head = driver.known()?;
        for lost in 0..TRIES {
            let expected = self.held(driver, &mut head, Holder::Attempt(&attempt.id))?;
            let (mut commands, refs) = self.commands_of(ledger, node, over, &op)?;
            let before = ledger.tip().state.clone();
            let after = self.decided(ledger, (node, over), &mut commands, &op)?.state;
            let mut next = match node {
                Some(node) => next_of(&after, node, now()?, &self.pauses),
                None => super::operate::removed(),
            };
            if let Some((until, why)) = over.parked.as_ref().filter(|_| next.state == TURN) {
                next.not_before = Some(*until);
                next.subject = format!("{TURN}: waits: {why}");
            }
            let attempt_id = AttemptId::parse(attempt.id.as_bytes());
            let new = driver.commit(expected, &next, attempt_id)?;
            let own = RefChange { name: driver.branch.full_ref(), expected, new: Some(new) };
            let moves = self.woken(ledger, (&before, &after), node)?;
            let woken = moves.iter().map(Move::change);
            let beside: Vec<RefChange> =
                std::iter::once(own).chain(woken).chain(refs.iter().cloned()).collect();
            reach(Point::StepDecided);
            match ledger.operate_on_this(&op, &commands, &beside) {
                Ok(_) => {
                    reach(Point::StepEnded);
                    self.note_moved(ledger, driver, (expected, Some(new)));
                    self.announce(ledger, &moves);
                    if let Some((context, _)) = &over.workspace {
                        self.workspaces.settled_with(context, &refs);
                    }
                    return Ok(next);
                }
                Err(LedgerError::Moved { .. } | LedgerError::Fenced { .. }) => {
                    head = None;
                    ledger.catch_up(lost)?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(Refusal::new(Why::Conflict, format!("{} moves all the time; nothing was changed", driver.branch)))
    }

    /// The commands of an end on the newest known state, and the refs that move with its workspace. A turn whose staged acts
    /// are refused by now has failed.
    fn commands_of(
        &self,
        ledger: &Ledger<'_>,
        node: Option<NodeId>,
        over: &Over,
        op: &Op,
    ) -> Result<(Vec<Command>, Vec<RefChange>), Refusal> {
        let (owed, refs) = match &over.workspace {
            Some((context, repairs)) => self.workspaces.owed(ledger, context, repairs)?,
            None => (Vec::new(), Vec::new()),
        };
        let state = &ledger.tip().state;
        let Some(node) = node.filter(|node| state.nodes.contains_key(node)) else { return Ok((owed, refs)) };
        let (mut all, mut last) = (Vec::new(), Vec::new());
        let mut turn = over.turn.clone();
        match commands(ledger, node, &over.acts, op) {
            // They come first: the ids of what they make follow from their places. What ends the run comes last.
            Ok((mut acts, _)) => {
                if let Some((context, _)) = &over.workspace {
                    self.carry(state, &mut acts, context);
                }
                (last, all) = acts.into_iter().partition(|act| matches!(act, Command::Done { .. }));
            }
            Err(refusal) => {
                if let Some(turn) = &mut turn {
                    turn.status = TurnStatus::Failed;
                    turn.consumed = Vec::new();
                    turn.trace.iter_mut().for_each(|trace| trace.handed.clear());
                    turn.detail = Some(format!("what it staged cannot be carried out: {}", refusal.message));
                }
            }
        }
        if let Some(turn) = &mut turn {
            // A stop ends the session of the turn that it interrupts.
            let is_stopped = state.nodes.get(&node).is_some_and(|node| node.hold == Some(Hold::Stopped));
            turn.session =
                turn.session.take().filter(|_| !is_stopped && state.run.status != RunStatus::Stopped);
        }
        all.extend(owed);
        let has_failed = turn.as_ref().is_some_and(|turn| turn.status != TurnStatus::Completed);
        // What the agent kept belongs to what it staged.
        let artifacts = over.artifacts.iter().filter(|artifact| artifact.id.is_none() || !has_failed);
        all.extend(artifacts.cloned().map(Command::AddArtifact));
        let turns = over.lost.iter().cloned().chain(turn);
        all.extend(turns.map(|turn| Command::EndTurn(Box::new(turn))));
        all.extend(last);
        if let Some(why) = &over.halt {
            let evidence =
                Map::from_iter([("nodeId".to_owned(), json!(node)), ("why".to_owned(), json!(why))]);
            all.push(paused(&state.run.slug, Halted::Stalled { evidence }, why));
        }
        Ok((all, refs))
    }

    /// Decides the commands, with those that follow from them: the run pauses in a loop and at a limit, and one turn before a
    /// loop the agent is warned (CONTRACT 22.18, 22.20).
    fn decided(
        &self,
        ledger: &Ledger<'_>,
        (node, over): (Option<NodeId>, &Over),
        commands: &mut Vec<Command>,
        op: &Op,
    ) -> Result<Decided, Refusal> {
        let decided = ledger.decide(commands, op)?;
        let Some(node) = node else { return Ok(decided) };
        let ended = commands.iter_mut().rev().find_map(|command| match command {
            Command::EndTurn(turn) => Some(turn),
            _ => None,
        });
        let last = decided.state.nodes.get(&node).and_then(|node| node.traces.last());
        let is_traced =
            ended.as_ref().zip(last).is_some_and(|(turn, last)| last.turn == turn.turn.to_string());
        let state = &decided.state;
        let refused = over.reached.clone().filter(|_| state.run.status == RunStatus::Running);
        let verdict = match (verdict(state, node, is_traced, self.stall_repeats), refused) {
            (Verdict::Fine | Verdict::Warn(_), Some(cause)) => {
                Verdict::Pause { why: limit_words(state, &cause), cause }
            }
            (verdict, _) => verdict,
        };
        match (verdict, ended) {
            (Verdict::Fine, _) | (Verdict::Warn(_), None) => return Ok(decided),
            (Verdict::Warn(text), Some(turn)) => turn.unsaid.push(text),
            (Verdict::Pause { cause, why }, _) => {
                commands.push(paused(&decided.state.run.slug, cause, &why));
            }
        }
        Ok(ledger.decide(commands, op)?)
    }
}

/// Pauses a run until a person resumes it.
fn paused(slug: &Slug, cause: Halted, why: &str) -> Command {
    Command::Halt { cause, waits_for: format!("`aynig orch run resume {slug}`: {why}") }
}

/// An artifact of a turn.
pub(super) fn of_turn(artifact: NewArtifact, turn: TurnId) -> NewArtifact {
    NewArtifact { turn: Some(turn), ..artifact }
}
