//! The transaction that ends an attempt of the driver: what happened, and the driver's next state (CONTRACT 20.3).
//!
//! Invariant: the next state follows from the ledger as this very operation leaves it. If the ledger moved meanwhile, all
//! of it is worked out anew; if the lease is lost, nothing is written.

use crate::contract::head::Head;
use crate::contract::ids::{AttemptId, CommitId, StateName};
use crate::crashpoint::{Point, reach};
use crate::flow::document::{Act, Flow};
use crate::flow::due::{Due, due, end_word};
use crate::flow::substitution::fill;
use crate::flow::verdict::{status, verdict};
use crate::git::RefChange;
use crate::ledger::{Ledger, LedgerError, Place};
use crate::model::by::By;
use crate::model::decide::{Command, EndedStep, Refusal as Rule, RunEdit, StepStart};
use crate::model::ids::StepId;
use crate::model::limits::number;
use crate::model::run::{RunStatus, Verdict};
use crate::model::state::State;
use crate::model::step::{Opcode, Outcome, Step};
use crate::model::trace::Halted;
use crate::words::{error_chain, shell_quote, shortened};
use crate::workspace::context::Context;
use crate::workspace::refusal::{Refusal, Why};

use super::driver::{DONE, Driver, GATE, Next, STEP};
use super::limits::{halted, paused};
use super::question::{request, required};
use super::record;
use super::{Engine, Moved, remote_of};

/// How much of what a step said of itself is in the subject of the driver's state, in characters.
const MOST_EVIDENCE: usize = 120;

/// How often the end of an attempt is worked out anew.
const TRIES: u32 = 50;

/// The result of an attempt.
#[derive(Debug, Default)]
pub(super) struct Conclusion {
    /// The commands.
    pub(super) commands: Vec<Command>,
    /// The workspace that it changed, with repairs of it in words.
    pub(super) workspace: Option<(Context, Vec<String>)>,
    /// When the driver is due again, in seconds since 1970, and what it waits for. `None`: it follows from the ledger.
    pub(super) parked: Option<(i64, String)>,
    /// The author of an answer to a gate.
    pub(super) by: Option<By>,
    /// A signed answer, which the next state is put on if it is on the driver's newest commit.
    pub(super) answer: Option<(CommitId, CommitId)>,
    /// The words of a state that waits for a person.
    pub(super) note: Option<String>,
    /// The number of the gate whose answer it notes. If that approved work that moved, it is asked about again instead.
    pub(super) answers: Option<u64>,
}

impl Conclusion {
    /// Puts into the driver's next state what this end adds to it. Returns whether the driver is parked: then nothing
    /// follows yet.
    fn shape(&self, after: &State, next: &mut Next) -> bool {
        let parked = self.parked.as_ref().filter(|_| next.state == STEP);
        if let Some((until, why)) = parked {
            next.not_before = Some(*until);
            next.waits_for = None;
            next.subject = format!("flow-step: waits: {why}");
        }
        if let (Some(note), Some(_)) = (&self.note, &next.waits_for) {
            next.subject = format!("{}: {note}", next.state);
        }
        if let Some(words) = ended_step(&self.commands, after) {
            next.subject = with_step(next, &words);
        }
        parked.is_some()
    }
}

/// The holder of the driver.
#[derive(Debug, Clone, Copy)]
pub(super) enum Holder<'a> {
    /// The attempt with this id, which holds the lease.
    Attempt(&'a str),
    /// It has no holder, and a person moves the driver from this commit, or makes one that is gone.
    Person(Option<CommitId>),
}

impl Engine<'_> {
    /// Writes the end, and moves the driver to what follows.
    pub(super) fn conclude(
        &self,
        ledger: &mut Ledger<'_>,
        driver: &Driver<'_>,
        flow: &Flow,
        holder: Holder<'_>,
        conclusion: &Conclusion,
    ) -> Result<Next, Refusal> {
        let mut head = match holder {
            Holder::Attempt(_) => driver.known()?,
            Holder::Person(head) => head,
        };
        let mut lost = None;
        for _ in 0..TRIES {
            let again = conclusion.answers.map(|number| self.outdated(ledger, number)).transpose()?.flatten();
            let conclusion = again.as_ref().unwrap_or(conclusion);
            let expected = self.held(driver, &mut head, holder)?;
            let op = match (&conclusion.by, holder) {
                (Some(by), _) => self.op_by(by.clone())?,
                (None, Holder::Attempt(_)) => self.op()?,
                (None, Holder::Person(_)) => self.op_of_person()?,
            };
            let (mut commands, refs) = match &conclusion.workspace {
                Some((context, repairs)) => self.workspaces.owed(ledger, context, repairs)?,
                None => (Vec::new(), Vec::new()),
            };
            let owed = commands.len();
            commands.extend(conclusion.commands.iter().cloned());
            let after = match ledger.decide(&commands, &op) {
                // It ended meanwhile, and takes no step any more. The work is kept.
                Err(LedgerError::Refused(Rule::Ended(..))) if matches!(holder, Holder::Attempt(_)) => {
                    commands.truncate(owed);
                    ledger.decide(&commands, &op)?.state
                }
                decided => decided?.state,
            };
            let (mut more, mut next) = follow_up(flow, &after);
            self.fill_reason(ledger, &mut more)?;
            if !conclusion.shape(&after, &mut next) {
                commands.extend(more);
            }
            let attempt = match holder {
                Holder::Attempt(id) => AttemptId::parse(id.as_bytes()),
                Holder::Person(_) => None,
            };
            let answer = conclusion.answer.filter(|(on, _)| Some(*on) == expected).map(|(_, answer)| answer);
            // A run that has ended needs no driver.
            let is_moved = expected.is_some() || next.state != DONE;
            let new = is_moved.then(|| driver.commit(answer.or(expected), &next, attempt)).transpose()?;
            let name = driver.branch.full_ref();
            let moved = new.map(|new| RefChange { name, expected, new: Some(new) });
            let beside: Vec<RefChange> = moved.into_iter().chain(refs.iter().cloned()).collect();
            reach(Point::StepDecided);
            match ledger.operate_on_this(&op, &commands, &beside) {
                Ok(_) => {
                    reach(Point::StepEnded);
                    self.note_moved(ledger, driver, (expected, new));
                    self.project(ledger);
                    if let Some((context, _)) = &conclusion.workspace {
                        self.workspaces.settled_with(context, &refs);
                    }
                    return Ok(next);
                }
                Err(error @ (LedgerError::Moved { .. } | LedgerError::Fenced { .. })) => match holder {
                    Holder::Attempt(_) => {
                        head = None;
                        lost = Some(error);
                        ledger.refresh()?;
                    }
                    Holder::Person(_) => {
                        let message = format!("{} is not as it was; nothing was changed", driver.branch);
                        return Err(Refusal::new(Why::Conflict, message));
                    }
                },
                Err(error) => return Err(error.into()),
            }
        }
        Err(self.moving(ledger, driver, lost))
    }

    /// Why an operation lost each race. A work branch that was removed from the remote, or set back there, stays so.
    fn moving(&self, ledger: &Ledger<'_>, driver: &Driver<'_>, lost: Option<LedgerError>) -> Refusal {
        let refusal = |what: &dyn std::fmt::Display| {
            Refusal::new(Why::Conflict, format!("{what} moves all the time; nothing was changed"))
        };
        let Some(LedgerError::Moved { name }) = lost else { return refusal(&driver.branch) };
        let (Place::Remote(remote), Ok(Some(last))) =
            (ledger.place(), self.repo.read_ref(name.as_str().into()))
        else {
            return refusal(&name);
        };
        let there = self.repo.namespace().map(|names| names.there(name.as_str().into()));
        let there = there.map_or_else(|_| name.clone(), |there| there.to_string());
        let message =
            format!("{remote} does not have {there} as last seen, at {}; nothing was changed", last.short());
        Refusal::new(Why::Conflict, message).hint(format!(
            "if it was removed there: `git push {} {last}:{}` puts it back",
            shell_quote(remote.as_str()),
            shell_quote(&there)
        ))
    }

    /// Notes the new commit of a driver, and tells whoever is to hear of it.
    pub(super) fn note_moved(
        &self,
        ledger: &Ledger<'_>,
        driver: &Driver<'_>,
        (before, new): (Option<CommitId>, Option<CommitId>),
    ) {
        let Some(commit) = new else { return };
        driver.note(commit);
        let (branch, remote) = (&driver.branch, remote_of(&driver.place));
        let (previous, run) = (self.state_before(before), &ledger.tip().state);
        (self.moved)(&Moved { branch, remote, commit, previous, run });
    }

    /// The state that a driver had at a commit; of a lease, the one that it was taken for.
    pub(super) fn state_before(&self, head: Option<CommitId>) -> Option<StateName> {
        match Head::read(&self.repo.commit(head?).ok()?.facts()) {
            Head::Working(lease) => lease.origin,
            head => head.state(),
        }
    }

    /// Fills inputs into the reason of a STOP step.
    fn fill_reason(&self, ledger: &Ledger<'_>, commands: &mut [Command]) -> Result<(), Refusal> {
        for command in commands {
            if let Command::EndStep(ended) = command
                && let Some(reason) = &mut ended.evidence
            {
                *reason = fill(reason, &self.inputs(ledger)?, &ledger.tip().state.run.id.to_string());
            }
        }
        Ok(())
    }

    /// Brings the files about the run up to its ledger. The next sync does so, if this fails.
    fn project(&self, ledger: &Ledger<'_>) {
        let directory = self.directory(ledger.tip().state.run.id);
        if let Err(error) = record::project(self.repo, &directory, ledger.tip()) {
            tracing::warn!(error = error_chain(&error), "the files about the run are old");
        }
    }

    /// The commit that the driver is moved from: the holder's.
    pub(super) fn held(
        &self,
        driver: &Driver<'_>,
        head: &mut Option<CommitId>,
        holder: Holder<'_>,
    ) -> Result<Option<CommitId>, Refusal> {
        let Holder::Attempt(id) = holder else { return Ok(*head) };
        // The runner renews the lease meanwhile, so what is known may be old.
        if let Some(known) = head.filter(|known| driver.is_leased_by(*known, id)) {
            return Ok(Some(known));
        }
        *head = driver.ask()?.filter(|asked| driver.is_leased_by(*asked, id));
        if head.is_none() {
            let message =
                format!("the lease of {} was lost, so nothing of this attempt is recorded", driver.branch);
            return Err(Refusal::new(Why::Conflict, message));
        }
        Ok(*head)
    }
}

/// The step that commands end, in words: what `aynig run` prints of it.
fn ended_step(commands: &[Command], after: &State) -> Option<String> {
    let mut numbers = commands.iter().filter_map(|command| match command {
        Command::EndStep(ended) => Some(ended.number),
        _ => None,
    });
    let step = after.steps.get(&numbers.next_back()?)?;
    let outcome = end_word(step)?;
    let visit = if step.visit > 1 { format!(" visit {}", step.visit) } else { String::new() };
    let again = if step.attempt > 1 { format!(" attempt {}", step.attempt) } else { String::new() };
    let route = step.route.as_ref().map(|route| format!(" -> {route}")).unwrap_or_default();
    let evidence = shortened(step.evidence.as_deref().unwrap_or_default(), MOST_EVIDENCE);
    let evidence = if evidence.is_empty() { evidence } else { format!(": {evidence}") };
    Some(format!("{} {}{visit}{again} {outcome}{route}{evidence}", step.number, step.id))
}

/// The subject of a state with the step that ended before it. The next step is in those words already.
fn with_step(next: &Next, words: &str) -> String {
    let state = next.state;
    let rest = next.subject.strip_prefix(state).and_then(|rest| rest.strip_prefix(": "));
    match rest.filter(|_| state != STEP || next.not_before.is_some()) {
        Some(rest) => format!("{state}: {words}; {rest}"),
        None => format!("{state}: {words}"),
    }
}

/// The consequences of a state of a run: further commands, and the driver's next state.
pub(super) fn follow_up(flow: &Flow, state: &State) -> (Vec<Command>, Next) {
    let run = &state.run;
    // An open gate stays open while its run rests.
    let open = state.steps.values().next_back();
    let open = open.filter(|step| step.ended_at.is_none() && step.opcode == Opcode::Gate);
    let gate_number = open.map(|step| step.number);
    let rests = |state, subject: String| Next { state, subject, gate: gate_number, ..Next::default() };
    match run.status {
        RunStatus::Running => {}
        RunStatus::Queued | RunStatus::Paused => {
            let next = rests(GATE, "flow-gate: the run is paused".to_owned());
            let waits_for = Some(format!("`aynig flow resume {}`", run.slug));
            return (Vec::new(), Next { waits_for, ..next });
        }
        ended => return (Vec::new(), rests(DONE, format!("flow-done: {}", ended.word()))),
    }
    let (commands, words) = match due(flow, run, &state.steps) {
        Due::Step { step, visit, attempt } => {
            if let Some(halted) = halted(flow, state) {
                return halted;
            }
            let again = if attempt > 1 { format!(", attempt {attempt}") } else { String::new() };
            let visit = if visit > 1 { format!(" (visit {visit}{again})") } else { again };
            return (Vec::new(), rests(STEP, format!("flow-step: {}{visit}", step.id)));
        }
        Due::Answer { step, number } => return (Vec::new(), gate(state, &step.id, number)),
        Due::Exhausted { step, visits } => {
            let bound = number(step.max_visits);
            let limit = format!("max_visits of {}", step.id);
            let cause = Halted::Limit { node_id: None, limit, value: number(visits), bound };
            return paused(state, cause, format!("{} was entered {visits} times", step.id));
        }
        Due::End(stop) => {
            let verdict = verdict(state);
            let mut commands = Vec::new();
            let reason = stop.and_then(|stop| match &stop.act {
                Act::Stop { reason } => reason.clone(),
                _ => None,
            });
            if let Some(id) = stop.and_then(|stop| StepId::parse(&stop.id).ok()) {
                let number = run.counts.steps + 1;
                commands.push(Command::StartStep(StepStart { id, opcode: Opcode::Stop, started_at: None }));
                let end = EndedStep::new(number, Outcome::Completed, None, reason);
                commands.push(Command::EndStep(Box::new(end)));
            }
            commands.push(end("completed".to_owned(), verdict));
            (commands, verdict.word().to_owned())
        }
        Due::NoRoute => {
            let last = state.steps.values().next_back();
            let (verdict, why) =
                last.map_or((Verdict::Failed, "error".to_owned()), |last| unrouted(flow, state, last));
            (vec![end(why.clone(), verdict)], why)
        }
        Due::Unknown(name) => {
            let why = format!("error: the flow has no step {name}");
            (vec![end(why.clone(), Verdict::Failed)], why)
        }
    };
    (commands, rests(DONE, format!("flow-done: {words}")))
}

/// The verdict and the termination of a run whose last step has no route.
fn unrouted(flow: &Flow, state: &State, last: &Step) -> (Verdict, String) {
    let Some(outcome) = last.outcome else { return (Verdict::Failed, "error".to_owned()) };
    if last
        .record
        .as_ref()
        .is_some_and(|record| record.lease.is_some() && record.flags.iter().any(|flag| flag == STALLED))
    {
        return (Verdict::Stalled, format!("error: {} was cut off, and no retry is left", last.id));
    }
    let why = flow.step(last.id.as_str()).map(|step| crate::flow::due::route(step, outcome));
    let why = match why {
        Some(Err(why)) => why,
        Some(Ok(_)) | None => "no route".to_owned(),
    };
    // No step of a flow may lead to an end that looks well.
    let verdict = match verdict(state) {
        Verdict::Succeeded | Verdict::Stopped => Verdict::Failed,
        other => other,
    };
    (verdict, format!("error: {why}"))
}

/// The flag of a step whose retries are used up.
pub(super) const STALLED: &str = "stalled";

fn end(termination: String, verdict: Verdict) -> Command {
    Command::SetRun(RunEdit {
        status: Some(status(verdict)),
        waiting_for: Some(None),
        termination: Some(Some(termination)),
        verdict: Some(Some(verdict)),
        ..RunEdit::default()
    })
}

/// The driver's state while a gate is open.
fn gate(state: &State, step: &str, number: u64) -> Next {
    let approval = request(state, number);
    let deadline =
        approval.and_then(|approval| approval.expires_at).map(|at| at.millis().div_euclid(1000) + 1);
    let is_answered = approval.is_some_and(|approval| approval.resolution.is_some());
    if is_answered {
        return Next { state: STEP, subject: format!("flow-step: {step} was answered"), ..Next::default() };
    }
    let waits_for = Some(format!("an approval: `aynig flow approve {}`", state.run.slug));
    let name = if deadline.is_some() { STEP } else { GATE };
    let so_far = approval
        .filter(|approval| !approval.consents.is_empty())
        .map(|approval| format!(", {} of {} given so far", approval.consents.len(), required(approval)));
    let so_far = so_far.unwrap_or_default();
    Next {
        state: name,
        subject: format!("{name}: {step} waits for an approval{so_far}"),
        not_before: deadline,
        waits_for,
        gate: Some(number),
        prefer: None,
    }
}
