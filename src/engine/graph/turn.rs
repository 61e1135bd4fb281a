//! One attempt of a node's driver: a turn of its agent, from the inbox to the operation that ends it (CONTRACT 22.3).
//!
//! Invariant: only a turn that completed has read its inbox and carries out what its agent staged. Whatever ends a turn
//! otherwise leaves the inbox as it is, so the next turn reads all of it.

use crate::clock::{self, Stopwatch};
use crate::contract::ids::CommitId;
use crate::engine::attempt::{Attempt, Ended, Work, interrupted, name_of, no_driver, unrecorded};
use crate::engine::course::{Carried, Course};
use crate::engine::driver::{Driver, Next};
use crate::engine::hear::{Hearing, Live};
use crate::engine::kept_end::Fate;
use crate::engine::policy::Rules;
use crate::engine::record::{self, Recorder, Role};
use crate::engine::salvage::{head_of, last_turn};
use crate::engine::{Engine, now};
use crate::ledger::{Ledger, Masks};
use crate::model::decide::texts::cut;
use crate::model::decide::{Command, EndedTurn, Finding, NewArtifact};
use crate::model::ids::{MessageId, StepId};
use crate::model::limits::{of_new_node, reached};
use crate::model::message::MAX_MESSAGE;
use crate::model::node::Node;
use crate::model::step::{Opcode, Outcome, TurnStatus};
use crate::model::time::Timestamp;
use crate::orch::due::{Due, after_outage, due};
use crate::provider::{self, How};
use crate::workspace::context::Context;
use crate::workspace::refusal::{Refusal, Why};
use crate::workspace::{Awaited, Begun, unsettled_words};

use super::act;
use super::added::{added, record_staged};
use super::agent::Ran;
use super::answers::answered_of;
use super::hand::Hand;
use super::kept::{KeptTurn, turn_of};
use super::of::Of;
use super::permitted::rules_of;
use super::settle::{End, Over, of_turn};
use super::staged::{Act, commands};
use super::trace::{Footprint, hash_of_patch, trace};

/// How long a turn waits for another one on this host, in seconds.
const BESIDE: i64 = 5;

impl Engine<'_> {
    /// Carries out a turn of the node of a driver, if one is due, and declares what follows.
    pub fn turn(&self, attempt: &Attempt) -> Result<Ended, Refusal> {
        self.turn_or_rest(attempt).or_else(|refusal| self.before_work(attempt, refusal))
    }

    fn turn_or_rest(&self, attempt: &Attempt) -> Result<Ended, Refusal> {
        let (mut ledger, driver, node) = self.opened_node(attempt)?;
        let mut dropped = None;
        if let Some(node) = node.clone() {
            let of = Of { node, turn: turn_of(&attempt.id)?, attempt, driver: &driver };
            match self.record_kept_turn(&mut ledger, &of)? {
                Fate::Recorded(next) => return Ok(Ended::Declared(next)),
                Fate::Stays(why) => return Ok(Ended::Unable(why)),
                Fate::Dropped(words) => dropped = Some(words),
                Fate::None => {}
            }
        }
        let due_of = |ledger: &Ledger<'_>, node: &Node| {
            now().map(|at| due(&ledger.tip().state, node.id, at, &self.pauses))
        };
        let mut due = node.as_ref().map(|node| due_of(&ledger, node)).transpose()?;
        if let (Some(node), Some(Due::Overdue)) = (&node, &due) {
            ledger.operate(&self.op_of_node(node.id)?, &[Command::Overdue(node.id)], &[])?;
            due = Some(due_of(&ledger, node)?);
        }
        // The end pauses a run whose limit was lowered meanwhile.
        let id = node.as_ref().map(|node| node.id);
        let due = due.filter(|_| reached(&ledger.tip().state, id).is_none());
        let (Some(node), Some(Due::Turn { read })) = (&node, due) else {
            let node = node.map(|node| node.id);
            let settled = self.settle(&mut ledger, (&driver, node, attempt), &Over::default());
            return settled.map(Ended::Declared);
        };
        let node = node.clone();
        let read = self.to_read(&ledger.tip().state, &node, read);
        let of = Of { node, turn: turn_of(&attempt.id)?, attempt, driver: &driver };
        self.take_turn(&mut ledger, &of, (&read, dropped))
    }

    /// The ledger, the driver and the node of a driver's commit. No node: it was removed.
    pub(super) fn opened_node(
        &self,
        attempt: &Attempt,
    ) -> Result<(Ledger<'_>, Driver<'_>, Option<Node>), Refusal> {
        let mut ledger = self.opened_ledger(attempt)?;
        let name = name_of(&attempt.branch);
        let run = &ledger.tip().state.run;
        if Driver::branch_of(&self.run_prefix, &run.slug, &name)? != attempt.branch {
            return Err(no_driver(&attempt.branch));
        }
        let driver = self.driver(&ledger, attempt.branch.clone());
        let find = |ledger: &Ledger<'_>| {
            ledger.tip().state.nodes.values().find(|node| node.alias.as_str() == name).cloned()
        };
        if let Some(node) = find(&ledger) {
            self.expire_requests(&mut ledger, node.id)?;
        }
        let node = find(&ledger);
        Ok((ledger, driver, node))
    }

    /// Carries out a turn that reads these items, after an end that was kept was dropped for this reason.
    fn take_turn(
        &self,
        ledger: &mut Ledger<'_>,
        of: &Of<'_>,
        (read, dropped): (&[MessageId], Option<String>),
    ) -> Result<Ended, Refusal> {
        let (run, name) = (ledger.tip().state.run.clone(), of.node.alias.as_str());
        if let Some((context, why)) = self.noted(&run, name)? {
            let over = Over { halt: Some(why), ..Over::default() };
            let next = self.settle(ledger, (of.driver, Some(of.node.id), of.attempt), &over)?;
            self.workspaces.forget_notes(&context);
            return Ok(Ended::Declared(next));
        }
        if let Some(awaited) = self.workspaces.waits_beside(&run.id.to_string(), name)? {
            return self.waits_for(ledger, of, awaited);
        }
        self.record_lost_turns(ledger, of)?;
        let started = now()?;
        let context = self.workspaces.of_run(run.id, run.slug.as_str(), name)?;
        // The workspace may have been made just now, by this host.
        ledger.reread()?;
        let context = self.salvage(ledger, Some(&of.attempt.id), context)?;
        let (before, mut repairs, outside) = match self.workspaces.snapshot_before_step(&context, None)? {
            Begun::Ready(begun) => *begun,
            Begun::Waits(awaited) => return self.waits_for(ledger, of, awaited),
        };
        if let Some(why) = unsettled_words(&before.context, &before.changes) {
            return Ok(Ended::Unable(why));
        }
        repairs.extend(dropped);
        repairs.extend(before.rescue.as_ref().map(|name| format!("what lay there before: {name}")));
        let withheld = before.withheld;
        let found = before.context.head_sha.clone();
        let (context, notes) = self.take_carried(ledger, before.context, (of.node.id, read))?;
        let id = &of.attempt.id;
        let lease = of.driver.known()?.filter(|known| of.driver.is_leased_by(*known, id));
        self.begin_work(run.id, last_turn(&ledger.tip().state, name), id, &context)?;
        outside.begin();
        let step = StepId::parse(name).map_err(|error| Refusal::new(Why::Failed, error.to_string()))?;
        let masks = Masks::of(self.repo, &run.base_sha)?;
        let state = &ledger.tip().state;
        let recorder = Recorder::begin(&self.directory(run.id), masks, state, &step, Opcode::RunAgent);
        let recorder = recorder.map_err(|error| unrecorded(&error))?;
        let live = Live::Turn(of.node.id, read.to_vec());
        let hearing = Hearing::of(self.repo, ledger.place(), run.id, live, &self.stop);
        let mut work = Work {
            opcode: Opcode::RunAgent,
            attempt: id,
            lease,
            context,
            repairs,
            outside,
            withheld,
            recorder,
            stop: hearing.stop().clone(),
            since: Stopwatch::start(),
            ledger,
        };
        let hand = Hand::of(&self.directory(run.id), of.turn);
        hand.open(of.node.id).map_err(|error| Refusal::because("take what the agent stages", &error))?;
        let began = work.context.clone();
        let ran = self.run_turn(&mut work, of, (read, notes, &found), &hand);
        let ended = ran.and_then(|ran| match ran {
            Ok(ran) => self.end_turn(work, of, (read, started, &began), (ran, &hand)),
            Err(why) => {
                // Its program may have begun. What cannot be put back counts for the next turn.
                self.workspaces.put_back_outside(&work.context, &work.outside)?.recorded?;
                work.recorder.discard();
                self.put_back(work.context, head_of(&began), &why)?;
                self.end_work(run.id, name);
                Ok(Ended::Unable(why))
            }
        });
        drop(hearing);
        hand.discard();
        ended
    }

    /// Ends an attempt that waits for another one on this host, or for a person.
    fn waits_for(&self, ledger: &mut Ledger<'_>, of: &Of<'_>, awaited: Awaited) -> Result<Ended, Refusal> {
        let why = match awaited {
            Awaited::Step(why) => why,
            Awaited::Person(why) => return Ok(Ended::Unable(why)),
        };
        let until = clock::wall_seconds().saturating_add(BESIDE);
        let over = Over { parked: Some((until, why)), ..Over::default() };
        self.settle(ledger, (of.driver, Some(of.node.id), of.attempt), &over).map(Ended::Declared)
    }

    /// Ends a turn whose agent has ended: takes or saves its work, and records it.
    fn end_turn(
        &self,
        mut work: Work<'_, '_>,
        of: &Of<'_>,
        (read, started, began): (&[MessageId], Timestamp, &Context),
        (Ran { ended, mut carried, heard, left, opened }, hand): (Ran, &Hand),
    ) -> Result<Ended, Refusal> {
        let name = of.node.alias.as_str();
        let later = after_outage(&of.node, now()?);
        let mut end = End { heard, ..End::of(&ended, later) };
        if let How::Parked { .. } = ended.how {
            carried.outcome = Outcome::Completed;
        }
        if let How::TimedOut(limit) = ended.how
            && left.is_some_and(|left| left <= limit)
        {
            // It has not failed: it is due again when a person has resumed the run.
            (end.status, carried.outcome) = (TurnStatus::Interrupted, Outcome::Completed);
        }
        if let How::Stopped(_) = ended.how {
            // A signal hands the driver back: the next attempt records it.
            match interrupted(&work.stop)? {
                Course::Halted(_) => carried.outcome = Outcome::Completed,
                _ => return Err(Refusal::new(Why::Failed, "the turn was stopped")),
            }
        }
        let mut acts = self.checked_acts(&work, of, hand, &end);
        if let Err(why) = &acts {
            (carried.outcome, carried.evidence) = (Outcome::Error, why.clone());
            end.fails(why.clone());
        }
        let rules = rules_of(&of.node, work.ledger.tip().state.run.global_mode);
        let is_kept = matches!(end.status, TurnStatus::Completed | TurnStatus::Interrupted);
        let mut taken_back = None;
        if is_kept {
            let allowed = (&rules, head_of(began));
            taken_back = self.take_allowed(&mut work, &mut carried, allowed, acts.as_mut().ok())?;
            end.detail = end.detail.or(taken_back.clone());
            if carried.outcome != Outcome::Completed {
                end.fails(carried.evidence.clone());
            }
        } else if !self.judge_outside(&mut work, &mut carried)? {
            end.detail = Some(carried.evidence.clone());
        }
        let stays = carried.stays;
        if end.status == TurnStatus::Failed && !stays {
            let why = format!("the turn of {name} failed");
            let context = carried.workspace.take().map_or(work.context.clone(), |(context, _)| context);
            work.context = self.put_back(context, head_of(began), &why)?;
            carried.workspace = Some((work.context.clone(), work.repairs.clone()));
        }
        end.session = self.leave_session(&work, (&of.node, end.status), opened, &ended);
        let acts = acts.ok().filter(|_| end.status == TurnStatus::Completed);
        let Work { ledger, recorder, context: place, .. } = work;
        let place_of_files = recorder.path().to_path_buf();
        let mut over = self.over(ledger, of, (read, started), &mut carried, (end, acts, &ended))?;
        over.turn.iter_mut().for_each(|turn| turn.unsaid.extend(taken_back.clone()));
        let left = self.turn_artifacts((ledger, recorder), of, (began, started), &carried, (&over, hand));
        let (artifacts, files) = match left {
            Ok(left) => left,
            // It may have removed its record.
            Err(_) if stays => Default::default(),
            Err(refusal) => return Err(refusal),
        };
        over.artifacts = artifacts;
        // The note is in a file of the agent's hand.
        let op = self.op_of_node(of.node.id)?;
        let after = commands(ledger, of.node.id, &over.acts, &op).ok().map(|(_, after)| after);
        let reached = after.and_then(|after| of_new_node(&after, of.node.id));
        over.reached = hand.limit().filter(|noted| reached.as_ref() == Some(noted));
        if let Some(turn) = &mut over.turn {
            let (id, words) = (turn.turn.to_string(), turn.last_words.as_deref());
            let read = (&ledger.tip().state, &of.node, read);
            turn.trace = Some(Box::new(trace(read, (id, words, &ended), &over.acts, files)));
        }
        let kept = if stays { None } else { self.keep_turn(ledger, of, &over, &place_of_files) };
        self.record_turn_end(ledger, of, &over, (kept, stays), (place, began))
    }

    /// Records the end of a turn. One that the remote does not take stays kept; one that cannot be kept is put back to where it
    /// `began`.
    fn record_turn_end(
        &self,
        ledger: &mut Ledger<'_>,
        of: &Of<'_>,
        over: &Over,
        (kept, stays): (Option<KeptTurn>, bool),
        (place, began): (Context, &Context),
    ) -> Result<Ended, Refusal> {
        let (run, name) = (of.node.run_id, of.node.alias.as_str());
        let moved = (of.driver, Some(of.node.id), of.attempt);
        match (self.until_answered(of.driver, || self.settle(ledger, moved, over)), kept) {
            (Err(refusal), Some(kept)) if refusal.why.is_of_remote() => {
                Ok(Ended::Unable(self.still_kept_turn(of, kept, &refusal)))
            }
            (Err(refusal), None) if refusal.why.is_of_remote() => {
                let why = format!("the end of the turn was not taken: {}", refusal.message);
                if !stays {
                    self.put_back(place, head_of(began), &why)?;
                    self.end_work(run, name);
                }
                Ok(Ended::Unable(why))
            }
            (settled, _) => {
                let next: Next = settled?;
                if over.halt.is_some() {
                    self.workspaces.forget_notes(&place);
                }
                if !stays {
                    self.forget_end(run, name);
                    self.end_work(run, name);
                }
                Ok(Ended::Declared(next))
            }
        }
    }

    /// Takes the work of a turn, without the files that its node may not change, and judges the end of the run that it
    /// declares. Returns what was taken back, in words.
    fn take_allowed(
        &self,
        work: &mut Work<'_, '_>,
        carried: &mut Carried,
        allowed: (&Rules, CommitId),
        acts: Option<&mut Vec<Act>>,
    ) -> Result<Option<String>, Refusal> {
        self.take_work(work, carried, &Rules::default(), true)?;
        if carried.outcome != Outcome::Completed {
            return Ok(None);
        }
        let taken_back = self.take_back_forbidden(work, carried, allowed)?;
        if let Some(acts) = acts {
            self.judge_done(work, carried, acts)?;
        }
        Ok(taken_back)
    }

    /// The acts of a turn, if all of them can be carried out.
    fn checked_acts(
        &self,
        work: &Work<'_, '_>,
        of: &Of<'_>,
        hand: &Hand,
        end: &End,
    ) -> Result<Vec<Act>, String> {
        if end.status != TurnStatus::Completed {
            return Ok(Vec::new());
        }
        let mut acts = hand.read()?;
        act::check(&acts)?;
        // The agent can write the file.
        for act in &mut acts {
            if let Act::Done { finding, .. } = act {
                *finding = Finding::default();
            }
        }
        let mut kept = acts.iter().enumerate().filter(|(_, act)| matches!(act, Act::Artifact { .. }));
        if let Some((at, _)) = kept.find(|(at, _)| hand.content(at + 1).is_err()) {
            return Err(format!("the file that it kept by its act {} is gone", at + 1));
        }
        let refused = |refusal: Refusal| format!("what it staged cannot be carried out: {}", refusal.message);
        let acts = self.with_roles(work.ledger, acts).map_err(refused)?;
        let op = self.op_of_node(of.node.id).map_err(refused)?;
        commands(work.ledger, of.node.id, &acts, &op).map_err(refused)?;
        self.check_approved(work.ledger, of.node.id, &acts).map_err(refused)?;
        Ok(acts)
    }

    /// The end of a turn as commands, as far as they are known before the record is sealed.
    fn over(
        &self,
        ledger: &Ledger<'_>,
        of: &Of<'_>,
        (read, started): (&[MessageId], Timestamp),
        carried: &mut Carried,
        (end, acts, ended): (End, Option<Vec<Act>>, &provider::Ended),
    ) -> Result<Over, Refusal> {
        let halt = carried.take_pause();
        let masks = Masks::of(self.repo, &ledger.tip().state.run.base_sha)?;
        let mut words = ended.final_text.clone();
        if let Some(words) = &mut words {
            masks.text(words);
            words.truncate(words.trim_end().len());
            cut(words, MAX_MESSAGE);
        }
        let turn = EndedTurn {
            consumed: if end.status == TurnStatus::Completed { read.to_vec() } else { Vec::new() },
            last_words: words.filter(|words| !words.trim().is_empty()),
            usage: ended.usage,
            model: ended.model.clone(),
            detail: end.detail,
            excused: end.excused,
            until: end.until,
            heard: end.heard,
            unsaid: ended.unsaid.clone(),
            session: end.session,
            answered: answered_of(&of.node, of.turn, &ended.answered),
            ..EndedTurn::new(of.node.id, of.turn, end.status, started)
        };
        Ok(Over {
            turn: Some(turn),
            acts: acts.unwrap_or_default(),
            workspace: carried.workspace.take(),
            halt,
            ..Over::default()
        })
    }

    /// Seals what a turn left on this host, and makes artifacts of it.
    fn turn_artifacts(
        &self,
        (ledger, mut recorder): (&mut Ledger<'_>, Recorder),
        of: &Of<'_>,
        (began, started_at): (&Context, Timestamp),
        carried: &Carried,
        (over, hand): (&Over, &Hand),
    ) -> Result<(Vec<NewArtifact>, Footprint), Refusal> {
        let status = over.turn.as_ref().map_or(TurnStatus::Failed, |turn| turn.status);
        let head = over.workspace.as_ref().map_or(began, |(context, _)| context);
        let tree = |id: CommitId| self.repo.commit(id).map(|commit| commit.tree);
        let mut left = Footprint::default();
        if let (Ok(old), Ok(new)) = (tree(head_of(began)), tree(head_of(head))) {
            left.tree = new.to_string();
            if old != new {
                let file = recorder.path().join("diff.patch");
                let written = self.repo.write_patch(old, new, &file);
                written.map_err(|error| Refusal::because("write the changes of the turn", &error))?;
                left.diff = hash_of_patch(&file);
                recorder.add(Role::WorkspaceDiff, "diff.patch", "text/x-diff", true);
            }
        }
        record_staged(&mut recorder, hand, status)?;
        let outcome = if status == TurnStatus::Completed { Outcome::Completed } else { Outcome::Error };
        let files = recorder.end(record::Ended {
            started_at,
            ended: Some((now()?, outcome)),
            evidence: Some(carried.evidence.clone()),
            exit: carried.exit,
            policy_digest: None,
            provider: carried.provider.clone(),
        });
        let mut files = files.map_err(|error| unrecorded(&error))?;
        let kept = added(ledger, (of.node.id, of.turn), outcome, &over.acts, &mut files);
        let made = record::for_ledger(ledger, Some(of.node.id), outcome, &files);
        let made = made.into_iter().map(|(_, artifact)| of_turn(artifact, of.turn));
        Ok((made.chain(kept).collect(), left))
    }
}
