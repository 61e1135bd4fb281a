//! One attempt of a driver: from what is due to the transaction that ends it (CONTRACT 20.3).

use std::collections::BTreeMap;

use crate::clock::{self, Stopwatch};
use crate::contract::ids::{BranchName, CommitId, RemoteName};
use crate::flow;
use crate::flow::document::{Act, Flow, Gate, Step};
use crate::flow::due::{Due, LIMITED, PARKED, due, route};
use crate::flow::ruling::EVALUATOR_FAILED;
use crate::git::objects::differences::Difference;
use crate::journal::JournalError;
use crate::ledger::fetch::fetch;
use crate::ledger::{Ledger, LedgerError, Masks};
use crate::model::decide::{Command, EndedStep, NewArtifact, RunEdit, StepStart};
use crate::model::ids::{NodeId, RunId, StepId};
use crate::model::run::RunStatus;
use crate::model::step::{Opcode, Outcome, Record};
use crate::model::time::Timestamp;
use crate::stop::{Cause, Stop};
use crate::workspace::context::Context;
use crate::workspace::refusal::{Refusal, Why};
use crate::workspace::{Awaited, Begun, Outside, unsettled_words};

use super::conclude::{Conclusion, Holder};
use super::course::{Carried, Course};
use super::driver::{Driver, Next, run_of};
use super::hear::{Hearing, Live};
use super::kept_end::Fate;
use super::limits::{halted, time_left};
use super::question::settled;
use super::record::{self, Recorder, for_ledger};
use super::salvage::head_of;
use super::{Engine, FLOW, frozen_content, frozen_file, now, open};

/// How long a step waits for another one on this host, in seconds.
const BESIDE: i64 = 5;

/// An attempt of a driver, from the environment of its command.
#[derive(Debug, Clone)]
pub struct Attempt {
    /// The branch.
    pub branch: BranchName,
    /// The run id of its lease.
    pub id: String,
    /// The commit that caused it.
    pub trigger: CommitId,
    /// The remote that decides it.
    pub remote: Option<RemoteName>,
}

/// How an attempt ended, for the runner.
#[derive(Debug)]
pub enum Ended {
    /// The driver has its next state.
    Declared(Next),
    /// This host cannot do what is due.
    Unable(String),
}

/// A step that is over, before it is recorded.
struct Over {
    number: u64,
    started: Timestamp,
    /// The commit of the work branch before it.
    before: String,
    context: Context,
    recorder: Recorder,
    course: Course,
    /// What was saved before it, in words.
    saved: Option<String>,
}

/// The ledger, the workspace and the record of a step, or of a turn of a node, under way.
pub(super) struct Work<'a, 'r> {
    pub(super) ledger: &'a mut Ledger<'r>,
    /// Its kind. A turn of a node runs an agent.
    pub(super) opcode: Opcode,
    /// The run id of the driver's lease.
    pub(super) attempt: &'a str,
    /// The commit of that lease.
    pub(super) lease: Option<CommitId>,
    /// The workspace, with nothing in it that is not on its branch. It has the name of the flow, or of the node.
    pub(super) context: Context,
    /// Repairs of it in words.
    pub(super) repairs: Vec<String>,
    /// Hooks, settings and refs before it.
    pub(super) outside: Outside,
    /// Files that looked like keys before it.
    pub(super) withheld: Vec<Difference>,
    /// Its files on this host.
    pub(super) recorder: Recorder,
    /// Ends it early.
    pub(super) stop: Stop,
    /// Since its beginning.
    pub(super) since: Stopwatch,
}

impl Work<'_, '_> {
    /// The node whose workspace it is.
    pub(super) fn node(&self) -> Option<NodeId> {
        let mut nodes = self.ledger.tip().state.nodes.values();
        nodes.find(|node| node.alias.as_str() == self.context.name).map(|node| node.id)
    }
}

/// A step of a flow under way.
pub(super) struct Scene<'a, 'r> {
    pub(super) flow: &'a Flow,
    pub(super) step: &'a Step,
    /// The values of the flow's inputs.
    pub(super) inputs: BTreeMap<String, String>,
    pub(super) work: Work<'a, 'r>,
}

impl Engine<'_> {
    /// Carries out what is due in the run of a driver. What fails before a program was started is no failure of the
    /// step: the driver is handed back.
    pub fn attempt(&self, attempt: &Attempt) -> Result<Ended, Refusal> {
        self.carry_out(attempt).or_else(|refusal| self.before_work(attempt, refusal))
    }

    /// Hands the driver back after an error, unless this attempt has begun its work.
    pub(super) fn before_work(&self, attempt: &Attempt, refusal: Refusal) -> Result<Ended, Refusal> {
        match run_of(self.repo, attempt.trigger) {
            Ok(Some(run)) if !self.has_begun((run, &name_of(&attempt.branch)), &attempt.id) => {
                let next = refusal.hints.last().map(|hint| format!("; {hint}")).unwrap_or_default();
                Ok(Ended::Unable(format!("{}{next}", refusal.message)))
            }
            Ok(_) | Err(_) => Err(refusal),
        }
    }

    fn carry_out(&self, attempt: &Attempt) -> Result<Ended, Refusal> {
        let (mut ledger, driver, flow) = self.opened(attempt)?;
        let holder = Holder::Attempt(&attempt.id);
        if ledger.tip().state.run.status == RunStatus::Running {
            let state = ledger.tip().state.clone();
            match due(&flow, &state.run, &state.steps) {
                Due::Step { step, .. } => {
                    if let Some((context, why)) = self.noted(&state.run, FLOW)? {
                        let commands = paused(&ledger, Some(why)).into_iter().collect();
                        let conclusion = Conclusion { commands, ..Conclusion::default() };
                        let next = self.conclude(&mut ledger, &driver, &flow, holder, &conclusion)?;
                        self.workspaces.forget_notes(&context);
                        return Ok(Ended::Declared(next));
                    }
                    if let Some(awaited) = self.workspaces.waits_beside(&state.run.id.to_string(), FLOW)? {
                        return self.waits(&mut ledger, &driver, &flow, attempt, awaited);
                    }
                    return self.step(&mut ledger, &driver, (&flow, step), attempt);
                }
                Due::Answer { step, number } => {
                    return self.answer(&mut ledger, &driver, (&flow, step, number), attempt);
                }
                Due::End(_) | Due::Exhausted { .. } | Due::NoRoute | Due::Unknown(_) => {}
            }
        }
        self.record_interrupted(&mut ledger, &flow, attempt.trigger)?;
        let next = self.conclude(&mut ledger, &driver, &flow, holder, &Conclusion::default())?;
        Ok(Ended::Declared(next))
    }

    /// The ledger, the driver and the flow of the run that a driver's commit belongs to.
    pub(super) fn opened(&self, attempt: &Attempt) -> Result<(Ledger<'_>, Driver<'_>, Flow), Refusal> {
        let branch = &attempt.branch;
        let ledger = self.opened_ledger(attempt)?;
        if Driver::branch_of(&self.run_prefix, &ledger.tip().state.run.slug, FLOW)? != *branch {
            return Err(no_driver(branch));
        }
        let driver = self.driver(&ledger, branch.clone());
        let flow = self.frozen(&ledger)?;
        Ok((ledger, driver, flow))
    }

    /// The ledger of the run that a driver's commit belongs to.
    pub(super) fn opened_ledger(&self, attempt: &Attempt) -> Result<Ledger<'_>, Refusal> {
        let run = run_of(self.repo, attempt.trigger)
            .map_err(|error| Refusal::because(&format!("read the history of {}", attempt.branch), &error))?
            .ok_or_else(|| no_driver(&attempt.branch))?;
        match (open(self.repo, run), &attempt.remote) {
            // Another host made it.
            (Err(LedgerError::Unknown(_)), Some(remote)) => {
                let fetched = fetch(self.repo, remote)?;
                match fetched.refused.into_iter().find(|(refused, _)| *refused == run) {
                    Some((_, why)) => Err(why),
                    None => open(self.repo, run),
                }
            }
            (opened, _) => opened,
        }
        .map_err(Refusal::from)
    }

    /// The flow of a run, as it was frozen.
    pub fn frozen(&self, ledger: &Ledger<'_>) -> Result<Flow, Refusal> {
        let file = frozen_file(self.repo, ledger)?;
        let checked = flow::check(&file);
        let fault = checked.notes.iter().find(|note| note.severity == flow::fault::Severity::Fault);
        match (checked.flow, fault) {
            (Some(flow), None) => Ok(flow),
            (_, fault) => {
                let why = fault.map_or_else(|| "it cannot be read".to_owned(), |note| note.what.clone());
                let message =
                    format!("the flow of run {} is faulty here: {why}", ledger.tip().state.run.slug);
                Err(Refusal::new(Why::Failed, message).hint(
                    "this version of aynig reads flows in another way than the one that started the run",
                ))
            }
        }
    }

    /// Carries out a step and ends it.
    fn step(
        &self,
        ledger: &mut Ledger<'_>,
        driver: &Driver<'_>,
        (flow, step): (&Flow, &Step),
        attempt: &Attempt,
    ) -> Result<Ended, Refusal> {
        if let Act::Gate(gate) = &step.act {
            return self.open_gate(ledger, driver, (flow, step, gate), attempt);
        }
        let dropped = match self.record_kept(ledger, driver, flow, &attempt.id)? {
            Fate::Recorded(next) => return Ok(Ended::Declared(next)),
            Fate::Stays(why) => return Ok(Ended::Unable(why)),
            Fate::Dropped(words) => Some(words),
            Fate::None => None,
        };
        let has_lost = self.record_interrupted(ledger, flow, attempt.trigger)?;
        let started = now()?;
        let run = ledger.tip().state.run.clone();
        let number = run.counts.steps + 1;
        let context = self.workspaces.of_run(run.id, run.slug.as_str(), FLOW)?;
        if let Err(refusal) = (self.vets)(flow, &frozen_file(self.repo, ledger)?, context.base()) {
            return Ok(Ended::Unable(refusal.message));
        }
        let context = self.salvage(ledger, Some(&attempt.id), context)?;
        if has_lost && halted(flow, &ledger.tip().state).is_some() {
            let conclusion = Conclusion { workspace: Some((context, Vec::new())), ..Conclusion::default() };
            let next = self.conclude(ledger, driver, flow, Holder::Attempt(&attempt.id), &conclusion)?;
            return Ok(Ended::Declared(next));
        }
        // What a person left there is not the work of the step.
        let (before, mut repairs, mut outside) =
            match self.workspaces.snapshot_before_step(&context, settled(&ledger.tip().state))? {
                Begun::Ready(begun) => *begun,
                Begun::Waits(awaited) => return self.waits(ledger, driver, flow, attempt, awaited),
            };
        repairs.extend(dropped);
        let saved = before.rescue.as_ref().map(|name| format!("what lay there before: {name}"));
        if let Some(why) = unsettled_words(&before.context, &before.changes) {
            return Ok(Ended::Unable(why));
        }
        let inputs = self.inputs(ledger)?;
        let (context, withheld) = (before.context, before.withheld);
        let id = &attempt.id;
        let lease = driver.known()?.filter(|known| driver.is_leased_by(*known, id));
        self.begin_work(run.id, run.counts.steps, id, &context)?;
        if matches!(step.act, Act::Rollback) {
            outside.clear()
        } else {
            outside.begin()
        }
        let step_id = id_of(step)?;
        let masks = Masks::of(self.repo, &run.base_sha)?;
        let state = &ledger.tip().state;
        let recorder = Recorder::begin(&self.directory(run.id), masks, state, &step_id, step.opcode());
        let recorder = recorder.map_err(|error| unrecorded(&error))?;
        let hearing = Hearing::of(self.repo, ledger.place(), run.id, Live::Step, &self.stop);
        let stop = hearing.stop().clone();
        let work = Work {
            ledger,
            opcode: step.opcode(),
            attempt: id,
            lease,
            context,
            repairs,
            outside,
            withheld,
            recorder,
            stop,
            since: Stopwatch::start(),
        };
        let mut scene = Scene { flow, step, inputs, work };
        let before = scene.work.context.head_sha.clone();
        let course = self.act(&mut scene);
        let course = self.judged(&mut scene.work, course)?;
        let mut course = within_limit(&scene, course);
        if let Course::Ended(carried) | Course::Parked(_, carried) = &mut course {
            carried.record.before = Some(before.clone());
        }
        let Work { context, recorder, .. } = scene.work;
        if let Some(word) = hearing.end() {
            tracing::debug!(?word, "the run is to rest");
        }
        self.end(
            ledger,
            driver,
            (flow, step),
            attempt,
            Over { number, started, before, context, recorder, course, saved },
        )
    }

    /// Ends an attempt that waits for another step on this host, or for a person.
    fn waits(
        &self,
        ledger: &mut Ledger<'_>,
        driver: &Driver<'_>,
        flow: &Flow,
        attempt: &Attempt,
        awaited: Awaited,
    ) -> Result<Ended, Refusal> {
        let why = match awaited {
            Awaited::Step(why) => why,
            Awaited::Person(why) => return Ok(Ended::Unable(why)),
        };
        let until = clock::wall_seconds().saturating_add(BESIDE);
        let conclusion = Conclusion { parked: Some((until, why)), ..Conclusion::default() };
        self.conclude(ledger, driver, flow, Holder::Attempt(&attempt.id), &conclusion).map(Ended::Declared)
    }

    /// Asks the question of a gate.
    fn open_gate(
        &self,
        ledger: &mut Ledger<'_>,
        driver: &Driver<'_>,
        (flow, step, gate): (&Flow, &Step, &Gate),
        attempt: &Attempt,
    ) -> Result<Ended, Refusal> {
        let run = ledger.tip().state.run.clone();
        if let Some(why) = self.unsettled(&run, FLOW)? {
            return Ok(Ended::Unable(why));
        }
        let approvers = match self.approvers(gate) {
            Ok(approvers) => approvers,
            Err(why) => return Ok(Ended::Unable(format!("the gate {}: {why}", step.id))),
        };
        let conclusion = self.gate_opens(ledger, (step, gate, &approvers), run.counts.steps + 1)?;
        if let Err(refusal) = self.record_question(&ledger.tip().state, step, &conclusion) {
            tracing::warn!(refusal.message, "the files of a gate are incomplete");
        }
        let next = self.conclude(ledger, driver, flow, Holder::Attempt(&attempt.id), &conclusion)?;
        Ok(Ended::Declared(next))
    }

    /// Does what a step says.
    fn act(&self, scene: &mut Scene<'_, '_>) -> Result<Course, Refusal> {
        match &scene.step.act {
            Act::RunAgent(agent) => self.run_agent(scene, agent),
            Act::Rollback => self.roll_back(scene),
            Act::RunValidation(validators) => self.run_validation(scene, validators),
            Act::Evaluate(asked) => self.evaluate(scene, asked),
            Act::Gate(_) | Act::Stop { .. } => Ok(Course::Halted("it is no step to carry out".to_owned())),
        }
    }

    /// Ends a step that was carried out.
    fn end(
        &self,
        ledger: &mut Ledger<'_>,
        driver: &Driver<'_>,
        (flow, step): (&Flow, &Step),
        attempt: &Attempt,
        over: Over,
    ) -> Result<Ended, Refusal> {
        let Over { number, started, before, context, recorder, course, saved } = over;
        let run = ledger.tip().state.run.id;
        let holder = Holder::Attempt(&attempt.id);
        let files = recorder.path().to_path_buf();
        let began = Context { head_sha: before, ..context.clone() };
        let place = context.clone();
        let (mut stays, mut pause, mut is_noted) = (false, None, false);
        let mut conclusion = match course {
            Course::Ended(mut carried) => {
                stays = carried.stays;
                if let Some(saved) = saved {
                    carried.evidence = format!("{saved}; {}", carried.evidence);
                }
                (is_noted, pause) = (carried.pause.is_some(), carried.take_pause());
                let artifacts = self.recorded(ledger, recorder, &carried, started);
                // It may have removed its record.
                let artifacts =
                    artifacts.or_else(|refusal| if stays { Ok(Vec::new()) } else { Err(refusal) })?;
                ended(step, (number, started), *carried, artifacts, (ledger, &attempt.id))?
            }
            Course::Unable(why) => {
                recorder.discard();
                let to = head_of(&context);
                self.put_back(context, to, &why)?;
                self.end_work(run, FLOW);
                return Ok(Ended::Unable(why));
            }
            Course::Parked(until, mut carried) => {
                let why = carried.evidence.clone();
                pause = carried.take_pause();
                let to = head_of(&context);
                let context = self.put_back(context, to, &why)?;
                (carried.record.head, carried.record.tree) = self.here(&context)?;
                carried.workspace = Some((context, Vec::new()));
                carried.tries_again(PARKED);
                let artifacts = self.recorded(ledger, recorder, &carried, started)?;
                let ended = ended(step, (number, started), *carried, artifacts, (ledger, &attempt.id))?;
                Conclusion { parked: Some((until, why)), ..ended }
            }
            Course::Halted(why) => {
                recorder.leave().map_err(|error| unrecorded(&error))?;
                let to = head_of(&context);
                let context = self.put_back(context, to, &why)?;
                Conclusion { workspace: Some((context, Vec::new())), ..Conclusion::default() }
            }
        };
        let kept = if stays { None } else { self.keep_end(ledger, (flow, step), &conclusion, &files) };
        conclusion.commands.extend(paused(ledger, pause));
        let concluded =
            self.until_answered(driver, || self.conclude(ledger, driver, flow, holder, &conclusion));
        match (concluded, kept) {
            (Err(refusal), Some(kept)) if refusal.why.is_of_remote() => {
                Ok(Ended::Unable(self.still_kept(run, kept, &refusal)))
            }
            (Err(refusal), None) if refusal.why.is_of_remote() => self.untaken(run, began, stays, &refusal),
            (concluded, _) => {
                let next = concluded?;
                if is_noted {
                    self.workspaces.forget_notes(&place);
                }
                if !stays {
                    self.forget_end(run, FLOW);
                    self.end_work(run, FLOW);
                }
                Ok(Ended::Declared(next))
            }
        }
    }

    /// Hands the driver back if the place of decision did not take the end of a step: the step has not failed. Its work
    /// is saved, and worktree and branch are put back to where it `began`.
    fn untaken(&self, run: RunId, began: Context, stays: bool, refusal: &Refusal) -> Result<Ended, Refusal> {
        let why = format!("the end of the step was not taken: {}", refusal.message);
        if !stays {
            let to = head_of(&began);
            self.put_back(began, to, &why)?;
            self.end_work(run, FLOW);
        }
        Ok(Ended::Unable(why))
    }

    /// Seals what a step left on this host, and makes artifacts of it.
    fn recorded(
        &self,
        ledger: &mut Ledger<'_>,
        mut recorder: Recorder,
        carried: &Carried,
        started_at: Timestamp,
    ) -> Result<Vec<(String, NewArtifact)>, Refusal> {
        let base = CommitId::parse_hex(ledger.tip().state.run.base_sha.as_bytes());
        let base = base.and_then(|base| Some(self.repo.commit(base).ok()?.tree));
        let tree = carried.record.tree.as_ref().and_then(|tree| CommitId::parse_hex(tree.as_bytes()));
        if let (Some(base), Some(tree)) = (base, tree) {
            recorder.write_changes(self.repo, base, tree).map_err(|error| unrecorded(&error))?;
        }
        let files = recorder.end(record::Ended {
            started_at,
            ended: Some((now()?, carried.outcome)),
            evidence: Some(carried.evidence.clone()),
            exit: carried.exit,
            policy_digest: carried.policy.clone(),
            provider: carried.provider.clone(),
        });
        let files = files.map_err(|error| unrecorded(&error))?;
        Ok(for_ledger(ledger, None, carried.outcome, &files))
    }

    /// Puts branch and worktree back to the base.
    fn roll_back(&self, scene: &Scene<'_, '_>) -> Result<Course, Refusal> {
        let mut carried = match self.workspaces.roll_back_of_step(&scene.work.context) {
            Ok(None) => Carried::new(Outcome::Completed, "the worktree was at its base"),
            Ok(Some(remade)) => {
                let saved =
                    remade.rescue.map(|name| format!("; {name} has what was there")).unwrap_or_default();
                let mut carried =
                    Carried::new(Outcome::Completed, format!("the worktree is at its base again{saved}"));
                carried.workspace = Some((remade.context, Vec::new()));
                carried
            }
            Err(refusal) => Carried::new(Outcome::Error, refusal.message),
        };
        let head = carried.workspace.as_ref().map_or(&scene.work.context, |(context, _)| context);
        (carried.record.head, carried.record.tree) = self.here(head)?;
        carried.workspace.get_or_insert((scene.work.context.clone(), scene.work.repairs.clone()));
        Ok(Course::Ended(Box::new(carried)))
    }

    /// The commit and the tree of a workspace, as hex.
    pub(super) fn here(&self, context: &Context) -> Result<(Option<String>, Option<String>), Refusal> {
        let head = head_of(context);
        let stored = self.repo.commit(head);
        let tree = stored.map_err(|error| Refusal::because("read the work branch", &error))?.tree;
        Ok((Some(head.to_string()), Some(tree.to_string())))
    }

    /// The values of a run's inputs.
    pub(super) fn inputs(&self, ledger: &Ledger<'_>) -> Result<BTreeMap<String, String>, Refusal> {
        let frozen = ledger.tip().state.run.flow.iter().flat_map(|flow| flow.inputs.iter());
        let mut inputs = BTreeMap::new();
        for (name, digest) in frozen {
            let value = frozen_content(self.repo, ledger, digest)?;
            inputs.insert(name.clone(), String::from_utf8_lossy(&value).into_owned());
        }
        Ok(inputs)
    }
}

/// The name of the flow or the node that a driver belongs to.
pub(super) fn name_of(branch: &BranchName) -> String {
    let name = branch.to_string();
    name.rsplit('/').next().unwrap_or_default().to_owned()
}

/// The refusal for a branch that drives nothing.
pub(super) fn no_driver(branch: &BranchName) -> Refusal {
    Refusal::new(Why::Usage, format!("{branch} drives no run; nothing was changed"))
        .hint("`aynig orch run list` lists the runs")
}

/// A step that the flow's limit of time ended has not failed: its work stays, and the step is due again.
fn within_limit(scene: &Scene<'_, '_>, course: Course) -> Course {
    let Course::Ended(mut carried) = course else { return course };
    let left = time_left(scene.flow, &scene.work.ledger.tip().state);
    let is_over = left.is_some_and(|left| scene.work.since.elapsed() >= left);
    let is_ended = carried.outcome == Outcome::KilledTimeout
        || carried.record.flags.iter().any(|flag| flag == EVALUATOR_FAILED);
    if is_over && is_ended {
        carried.evidence = format!("the time of the flow was used up: {}", carried.evidence);
        carried.tries_again(LIMITED);
    }
    Course::Ended(carried)
}

/// The end of a step that was stopped: the run rests, or this process ends.
pub(super) fn interrupted(stop: &Stop) -> Result<Course, Refusal> {
    match stop.cause() {
        Some(Cause::CalledOff) => Ok(Course::Halted("the run is to rest".to_owned())),
        Some(Cause::Signal(_) | Cause::Panic) | None => {
            let message = "the step was interrupted; the next attempt puts its worktree back";
            Err(Refusal::new(Why::Failed, message))
        }
    }
}

/// The command that pauses a run for this reason, unless it rests already.
fn paused(ledger: &Ledger<'_>, why: Option<String>) -> Option<Command> {
    let why = why.filter(|_| ledger.tip().state.run.status == RunStatus::Running)?;
    let status = Some(RunStatus::Paused);
    Some(Command::SetRun(RunEdit { status, waiting_for: Some(Some(why)), ..RunEdit::default() }))
}

/// The error for a record that cannot be written.
pub(super) fn unrecorded(error: &JournalError) -> Refusal {
    Refusal::because("write the record of the step", error)
}

pub(super) fn id_of(step: &Step) -> Result<StepId, Refusal> {
    StepId::parse(&step.id).map_err(|error| Refusal::new(Why::Failed, error.to_string()))
}

/// The commands that record a step.
fn ended(
    step: &Step,
    (number, started): (u64, Timestamp),
    carried: Carried,
    artifacts: Vec<(String, NewArtifact)>,
    (ledger, attempt): (&Ledger<'_>, &str),
) -> Result<Conclusion, Refusal> {
    let id = id_of(step)?;
    let node = ledger.tip().state.nodes.keys().next().copied();
    let Carried { outcome, evidence, record, model, workspace, .. } = carried;
    let end = EndedStep {
        number,
        outcome,
        route: route(step, outcome).ok().filter(|_| !record.cut_off).map(str::to_owned),
        evidence: Some(evidence),
        record: Record { lease: Some(attempt.to_owned()), ..record },
        artifacts,
        usage_of: node.map(|node| (node, model)),
    };
    let start = StepStart { id, opcode: step.opcode(), started_at: Some(started) };
    let commands = vec![Command::StartStep(start), Command::EndStep(Box::new(end))];
    Ok(Conclusion { commands, workspace, ..Conclusion::default() })
}
