//! The end of a turn, kept on this host until the remote that decides its run has taken it (CONTRACT 22.30).
//!
//! Invariant: an end is written before it is pushed. It counts only while nothing else was recorded of its node, and is
//! recorded once, by an attempt that holds the driver. So no agent runs again whose end is known here.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::engine::kept_end::{Fate, Left};
use crate::engine::leases::was_held;
use crate::engine::record::for_ledger;
use crate::engine::{Engine, now};
use crate::fsutil;
use crate::ledger::{Ledger, Masks, Place, Tip};
use crate::model::decide::{Command, EndedTurn};
use crate::model::ids::TurnId;
use crate::model::node::Node;
use crate::model::step::{Outcome, TurnStatus};
use crate::model::trace::Halted;
use crate::workspace::refusal::{Refusal, Why};

use super::act;
use super::added::added;
use super::of::Of;
use super::settle::{Over, of_turn};
use super::staged::Act;

/// An end that was kept.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct KeptTurn {
    turn: EndedTurn,
    /// The last turn of the node that was recorded when it was kept.
    before: Option<TurnId>,
    acts: Vec<Act>,
    halt: Option<String>,
    reached: Option<Halted>,
    repairs: Vec<String>,
    /// The commit of the work branch after it, and the number of the worktree.
    head: String,
    generation: u32,
    /// The directory of its files, relative to that of the run.
    files: PathBuf,
    /// Why the remote did not take it.
    refused: Option<String>,
}

impl Engine<'_> {
    /// Keeps the end of a turn whose files are in `files`, if a remote decides its run.
    pub(super) fn keep_turn(
        &self,
        ledger: &Ledger<'_>,
        of: &Of<'_>,
        over: &Over,
        files: &Path,
    ) -> Option<KeptTurn> {
        let state = &ledger.tip().state;
        let (run, node) = (&state.run, state.nodes.get(&of.node.id));
        if *ledger.place() == Place::Here {
            return None;
        }
        let masks = Masks::of(self.repo, &run.base_sha).ok()?;
        let ended = Command::EndTurn(Box::new(over.turn.clone()?));
        let Some(Command::EndTurn(mut turn)) = masks.commands(&[ended]).pop() else { return None };
        // The time until the remote takes it is not the turn's.
        let lived = now().ok()?.millis().saturating_sub(turn.started_at.millis());
        turn.lived = u64::try_from(lived).ok();
        let (context, repairs) = over.workspace.as_ref()?;
        let kept = KeptTurn {
            turn: *turn,
            before: node.and_then(|node| node.turn.as_ref()).map(|last| last.id),
            acts: over.acts.clone(),
            halt: over.halt.clone(),
            reached: over.reached.clone(),
            repairs: repairs.clone(),
            head: context.head_sha.clone(),
            generation: context.generation,
            files: files.strip_prefix(self.directory(run.id).path()).ok()?.to_path_buf(),
            refused: None,
        };
        self.write_end(run.id, of.node.alias.as_str(), &kept).then_some(kept)
    }

    /// Notes that the remote did not take a kept end. Returns why the driver is handed back.
    pub(super) fn still_kept_turn(&self, of: &Of<'_>, kept: KeptTurn, refusal: &Refusal) -> String {
        let kept = KeptTurn { refused: Some(refusal.message.clone()), ..kept };
        self.write_end(of.node.run_id, of.node.alias.as_str(), &kept);
        format!("the end of the turn was not taken, and is kept here: {}", refusal.message)
    }

    /// Records the end that this host kept of the node's last turn, for the attempt that holds the driver.
    pub(super) fn record_kept_turn(&self, ledger: &mut Ledger<'_>, of: &Of<'_>) -> Result<Fate, Refusal> {
        let (run, name) = (ledger.tip().state.run.clone(), of.node.alias.as_str());
        let Ok(text) = fsutil::read_plain_text(self.kept_end(run.id, name)) else { return Ok(Fate::None) };
        let kept = serde_json::from_str::<KeptTurn>(&text).map_err(|error| error.to_string());
        if kept.as_ref().is_ok_and(|kept| is_recorded(&of.node, kept)) {
            self.forget_end(run.id, name);
            return Ok(Fate::None);
        }
        if let Err(why) = self.is_own(ledger, of, kept.as_ref()) {
            let words = format!("a file in the place of a kept end counts for nothing: {why}");
            (self.tell)(&words);
            self.forget_end(run.id, name);
            return Ok(Fate::Dropped(words));
        }
        let kept = kept.and_then(|kept| {
            let acts = self.with_roles(ledger, kept.acts).map_err(|refusal| refusal.message)?;
            Ok(KeptTurn { acts, ..kept })
        });
        let found = match kept {
            Ok(kept) => {
                let found = match follows(ledger, of, &kept) {
                    Ok(turn) => {
                        let left = Left { head: &kept.head, generation: kept.generation, files: &kept.files };
                        let what = format!("the last turn of {name}");
                        self.whole(ledger, (name, &what), &left)?.map(|whole| (turn, whole))
                    }
                    Err(why) => Err(why),
                };
                if let Err(why) = &found {
                    self.record_dropped(ledger, &kept, why)?;
                }
                found.map(|(turn, whole)| (kept, turn, whole))
            }
            Err(why) => Err(why),
        };
        let (kept, turn, (context, mut files)) = match found {
            Ok(found) => found,
            Err(why) => {
                let words = format!("the end of a turn that this host kept is dropped: {why}");
                (self.tell)(&words);
                self.forget_end(run.id, name);
                return Ok(Fate::Dropped(words));
            }
        };
        if let Some(why) = self.unsettled(&run, name)? {
            return Ok(Fate::Stays(why));
        }
        let outcome =
            if kept.turn.status == TurnStatus::Completed { Outcome::Completed } else { Outcome::Error };
        let own = (of.node.id, kept.turn.turn);
        let added = added(ledger, own, outcome, &kept.acts, &mut files);
        let artifacts = for_ledger(ledger, Some(of.node.id), outcome, &files).into_iter();
        let artifacts = artifacts.map(|(_, artifact)| artifact).chain(added);
        let own = kept.turn.turn;
        let again =
            (turn != own).then(|| format!("it is the end of turn {own}, which was recorded as cut off"));
        let late = kept.refused.as_ref().map(|why| format!("it was recorded late: {why}"));
        let detail = kept
            .turn
            .detail
            .iter()
            .cloned()
            .chain(again)
            .chain(late)
            .reduce(|one, more| format!("{one}; {more}"));
        let place = context.clone();
        let mut artifacts: Vec<_> = artifacts.map(|artifact| of_turn(artifact, turn)).collect();
        // Another host may have begun a turn meanwhile.
        let (lost, left) = self.lost_turns(ledger, of, Some(kept.turn.turn))?;
        artifacts.extend(left);
        let over = Over {
            turn: Some(EndedTurn { turn, detail, ..kept.turn.clone() }),
            lost,
            artifacts,
            acts: kept.acts.clone(),
            workspace: Some((context, kept.repairs.clone())),
            halt: kept.halt.clone(),
            reached: kept.reached.clone(),
            ..Over::default()
        };
        match self.settle(ledger, (of.driver, Some(of.node.id), of.attempt), &over) {
            Err(refusal) if refusal.why.is_of_remote() => {
                Ok(Fate::Stays(self.still_kept_turn(of, kept, &refusal)))
            }
            settled => {
                let next = settled?;
                if over.halt.is_some() {
                    self.workspaces.forget_notes(&place);
                }
                self.forget_end(run.id, name);
                self.end_work(run.id, name);
                Ok(Fate::Recorded(next))
            }
        }
    }
}

impl Engine<'_> {
    /// Whether an end was kept by this host, as far as that can be known: agents run with the account of their user. It is
    /// one of a run that a remote decides, of a turn that this host held, and makes nothing that nobody approved.
    fn is_own(
        &self,
        ledger: &Ledger<'_>,
        of: &Of<'_>,
        kept: Result<&KeptTurn, &String>,
    ) -> Result<(), String> {
        let Ok(kept) = kept else { return Ok(()) };
        if *ledger.place() == Place::Here {
            return Err("this repository decides the run, so no end is kept".to_owned());
        }
        if kept.turn.node != of.node.id {
            return Err("it is of another node".to_owned());
        }
        if !was_held(self.repo, of.attempt.trigger, &kept.turn.turn.to_string()) {
            return Err("this host held no such turn".to_owned());
        }
        act::check(&kept.acts)?;
        self.check_approved(ledger, of.node.id, &kept.acts).map_err(|refusal| refusal.message)
    }

    /// Records a turn whose kept end is dropped as interrupted, with what it used, unless the ledger has it.
    fn record_dropped(&self, ledger: &mut Ledger<'_>, kept: &KeptTurn, why: &str) -> Result<(), Refusal> {
        let (tip, turn) = (ledger.tip(), &kept.turn);
        let whole = Tip::read_whole(self.repo, tip.state.run.id, tip.id)?;
        if whole.state.turns.values().any(|one| one.end.turn_id == turn.turn) {
            return Ok(());
        }
        let dropped = EndedTurn {
            status: TurnStatus::Interrupted,
            consumed: Vec::new(),
            last_words: None,
            detail: Some(format!("its end was kept, and dropped: {why}")),
            excused: true,
            session: None,
            trace: None,
            ..turn.clone()
        };
        ledger.operate(&self.op_of_node(turn.node)?, &[Command::EndTurn(Box::new(dropped))], &[])?;
        Ok(())
    }
}

/// Whether the ledger has the end: the remote took it, and its answer was lost. That another host recorded the turn as
/// cut off does not count.
fn is_recorded(node: &Node, kept: &KeptTurn) -> bool {
    let last = node.turn.as_ref().filter(|last| last.id == kept.turn.turn);
    last.is_some_and(|last| last.status == kept.turn.status.word())
}

/// The id under which a kept end is recorded, if nothing else was recorded of its node since. One that is recorded as cut
/// off gets that of the attempt that records it now.
fn follows(ledger: &Ledger<'_>, of: &Of<'_>, kept: &KeptTurn) -> Result<TurnId, String> {
    let last = of.node.turn.as_ref();
    let turn = match last.map(|last| last.id) {
        last if last == kept.before => kept.turn.turn,
        Some(last) if last == kept.turn.turn => of.turn,
        Some(_) | None => return Err("another turn was recorded since".to_owned()),
    };
    let inbox = ledger.tip().state.inbox(of.node.id);
    let is_there = |id| inbox.iter().any(|item| item.id() == id);
    if kept.turn.consumed.iter().all(|id| is_there(*id)) {
        Ok(turn)
    } else {
        Err("messages that it read are gone".to_owned())
    }
}

/// The id of the turn of an attempt.
pub(super) fn turn_of(attempt: &str) -> Result<TurnId, Refusal> {
    TurnId::parse(attempt)
        .ok_or_else(|| Refusal::new(Why::Usage, format!("{attempt} is no id of an attempt")))
}
