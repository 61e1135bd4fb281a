//! A person stops, pauses or resumes a run, or answers its gate (CONTRACT 20.7).
//!
//! Invariant: what a person decides is an operation of the ledger. The driver is woken in the same transaction if it rests,
//! and made again if it is gone; under a lease its holder hears of it.

use std::time::Duration;

use bstr::ByteSlice;

use crate::clock;
use crate::contract::head::Head;
use crate::contract::ids::CommitId;
use crate::contract::lease::{Lease, Liveness};
use crate::flow::document::Flow;
use crate::flow::due::{Due, due};
use crate::ledger::{Ledger, Place};
use crate::model::by::By;
use crate::model::decide::{Command, RunEdit};
use crate::model::ids::RunId;
use crate::model::run::{RunStatus, Verdict};
use crate::model::step::Opcode;
use crate::workspace::refusal::{Refusal, Why};

use super::conclude::{Conclusion, Holder, follow_up};
use super::driver::{Driver, GATE, Next, STEP};
use super::question::{Given, Weighed};
use super::{Engine, open};

/// What a person wants of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wish {
    /// It begins no step until it is resumed.
    Pause,
    /// It ends.
    Stop,
    /// It goes on, at this step or at the one that is due.
    Resume(Option<String>),
}

/// What became of a wish.
#[derive(Debug)]
pub struct Granted {
    /// The run's status now.
    pub status: RunStatus,
    /// Whether an attempt is under way, which hears of it.
    pub is_leased: bool,
    /// The driver's next state, if it was moved.
    pub next: Option<Next>,
}

/// How long the holder of a lease is waited for that keeps renewing it.
const PATIENCE: Duration = Duration::from_secs(300);

/// The time between two looks at a driver here, and at one of a remote.
const LOOKS: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(1)];

/// How often a wish is tried while the driver moves.
const TRIES: u32 = 20;

impl Engine<'_> {
    /// Carries out what a person wants.
    pub fn grant(&self, run: RunId, wish: &Wish) -> Result<Granted, Refusal> {
        let mut ledger = open(self.repo, run)?;
        let flow = self.frozen(&ledger)?;
        let status = ledger.tip().state.run.status;
        if let Wish::Resume(from) = wish {
            let driver = self.driver_of(&ledger)?;
            match (self.lease(driver.ask()?), from) {
                (None, _) => {}
                (Some(lease), Some(_)) if status == RunStatus::Running => {
                    return Err(under_way(&ledger, &lease));
                }
                (Some(_), None) if status == RunStatus::Running => {
                    return Ok(Granted { status, is_leased: true, next: None });
                }
                (Some(_), Some(_)) => {
                    self.wait_for_holder(&driver)?;
                    ledger.refresh()?;
                }
                (Some(_), None) => {}
            }
        }
        let edits = self.edits(&ledger, &flow, wish)?;
        let commands: Vec<Command> = edits.into_iter().map(Command::SetRun).collect();
        // A step that is named is entered next, so no other one may be under way.
        let beside_lease = !matches!(wish, Wish::Resume(Some(_)));
        self.persons(&mut ledger, &flow, &commands, beside_lease)
    }

    /// Answers the gate that is open.
    pub fn answer_gate(&self, run: RunId, approves: bool, comment: Option<&str>) -> Result<Granted, Refusal> {
        let mut ledger = open(self.repo, run)?;
        let flow = self.frozen(&ledger)?;
        self.check_gate_is_open(&ledger, &flow)?;
        let by = self.workspaces.options.by.clone();
        let given = Given { by, approves, comment: comment.map(str::to_owned) };
        match self.weighed(&ledger, &given)? {
            Weighed::Counts(answer) => self.person(&mut ledger, &flow, &[answer]),
            Weighed::Moved(again, refusal) => {
                self.person(&mut ledger, &flow, &again)?;
                Err(refusal)
            }
        }
    }

    /// Refuses an answer to a gate that is due and has asked nothing yet.
    fn check_gate_is_open(&self, ledger: &Ledger<'_>, flow: &Flow) -> Result<(), Refusal> {
        let state = &ledger.tip().state;
        match due(flow, &state.run, &state.steps) {
            Due::Step { step, .. } if step.opcode() == Opcode::Gate && !state.run.status.is_ended() => {
                let message = format!("{} is due, and has asked nothing yet; nothing was changed", step.id);
                Err(Refusal::new(Why::Failed, message).hint("`aynig run` lets it ask"))
            }
            _ => Ok(()),
        }
    }

    /// Carries out commands of a person, and moves the driver to what follows, unless an attempt has it.
    pub(super) fn person(
        &self,
        ledger: &mut Ledger<'_>,
        flow: &Flow,
        commands: &[Command],
    ) -> Result<Granted, Refusal> {
        self.persons(ledger, flow, commands, true)
    }

    /// The same. With `beside_lease` also while an attempt has the driver.
    fn persons(
        &self,
        ledger: &mut Ledger<'_>,
        flow: &Flow,
        commands: &[Command],
        beside_lease: bool,
    ) -> Result<Granted, Refusal> {
        let driver = self.driver_of(ledger)?;
        let conclusion = Conclusion { commands: commands.to_vec(), ..Conclusion::default() };
        for _ in 0..TRIES {
            let head = driver.ask()?;
            if let Some(lease) = self.lease(head) {
                if !beside_lease {
                    return Err(under_way(ledger, &lease));
                }
                ledger.operate(&self.op_of_person()?, commands, &[]).map_err(Refusal::from)?;
                // An attempt that ends now may not have heard of it.
                if driver.ask()? == head {
                    return Ok(granted(ledger, true, None));
                }
                continue;
            }
            if let Some(next) = self.rests(ledger, flow, commands, head)? {
                return Ok(granted(ledger, false, Some(next)));
            }
            match self.conclude(ledger, &driver, flow, Holder::Person(head), &conclusion) {
                Err(refusal) if refusal.why == Why::Conflict => ledger.refresh()?,
                done => return Ok(granted(ledger, false, Some(done?))),
            }
        }
        Err(Refusal::new(Why::Conflict, format!("{} moves all the time; try again", driver.branch)))
    }

    /// The state of a driver that already says what follows, if nothing is to change: a gate that is open.
    fn rests(
        &self,
        ledger: &Ledger<'_>,
        flow: &Flow,
        commands: &[Command],
        head: Option<CommitId>,
    ) -> Result<Option<Next>, Refusal> {
        let state = match head.map(|head| self.repo.commit(head)) {
            Some(Ok(stored)) => match Head::read(&stored.facts()) {
                Head::Ready(event) => event.state.to_string(),
                _ => return Ok(None),
            },
            Some(Err(_)) | None => return Ok(None),
        };
        let before = &ledger.tip().state;
        let after = ledger.decide(commands, &self.op_of_person()?)?;
        let (more, next) = follow_up(flow, before);
        let is_open = next.waits_for.is_some() && [GATE, STEP].contains(&state.as_str());
        Ok((after.events.is_empty() && more.is_empty() && is_open).then_some(next))
    }

    /// The driver of the run of a ledger.
    pub(super) fn driver_of(&self, ledger: &Ledger<'_>) -> Result<Driver<'_>, Refusal> {
        let branch = Driver::branch_of(&self.run_prefix, &ledger.tip().state.run.slug)?;
        Ok(self.driver(ledger, branch))
    }

    /// The lease at the head of a driver.
    fn lease(&self, head: Option<CommitId>) -> Option<Lease> {
        let stored = self.repo.commit(head?);
        let stored = stored.inspect_err(|error| tracing::debug!(%error, "the driver cannot be read"));
        match Head::read(&stored.ok()?.facts()) {
            Head::Working(lease) => Some(lease),
            _ => None,
        }
    }

    /// Waits until whoever carries a step out has heard that the run does not go on, and has given the driver back.
    pub(super) fn wait_for_holder(&self, driver: &Driver<'_>) -> Result<(), Refusal> {
        let begun = clock::monotonic();
        let look = LOOKS[usize::from(driver.place != Place::Here)];
        let mut is_told = false;
        while let Some(lease) = self.lease(driver.ask()?) {
            let runner = lease.runner.to_str_lossy();
            let is_over = matches!(lease.liveness(clock::wall_seconds()), Liveness::Expired { .. });
            if is_over || begun.elapsed() > PATIENCE || self.stop.cause().is_some() {
                let why = if is_over { "is gone" } else { "works on" };
                let message = format!("{runner}, which carries a step out, {why}; nothing was changed");
                return Err(Refusal::new(Why::Conflict, message)
                    .hint("`aynig run` takes over from a host that is gone; then do this again"));
            }
            if !is_told {
                is_told = true;
                (self.tell)(&format!(
                    "waiting for {runner}, which carries a step out, and ends it in seconds"
                ));
            }
            clock::pause(look);
        }
        Ok(())
    }

    fn edits(&self, ledger: &Ledger<'_>, flow: &Flow, wish: &Wish) -> Result<Vec<RunEdit>, Refusal> {
        let run = &ledger.tip().state.run;
        let refused = |words: String| Refusal::new(Why::Failed, format!("{words}; nothing was changed"));
        let to = |status| RunEdit { status: Some(status), ..RunEdit::default() };
        Ok(match wish {
            Wish::Pause if run.status == RunStatus::Paused => Vec::new(),
            Wish::Pause if run.status.is_ended() => {
                return Err(refused(format!("run {} has ended: {}", run.slug, run.status.word()))
                    .hint(format!("`aynig flow resume {}` carries it on", run.slug)));
            }
            Wish::Pause => {
                let why = format!("{} paused it", self.name());
                vec![RunEdit { waiting_for: Some(Some(why)), ..to(RunStatus::Paused) }]
            }
            Wish::Stop if run.status.is_ended() => {
                return Err(refused(format!("run {} has ended: {}", run.slug, run.status.word())).hint(
                    format!("`aynig flow show {}` shows how, and what can be done with it", run.slug),
                ));
            }
            Wish::Stop => {
                vec![RunEdit {
                    waiting_for: Some(None),
                    termination: Some(Some("stopped".to_owned())),
                    verdict: Some(Some(Verdict::Stopped)),
                    ..to(RunStatus::Stopped)
                }]
            }
            Wish::Resume(from) => {
                if let Some(from) = from
                    && flow.step(from).is_none()
                {
                    let steps: Vec<&str> = flow.steps.iter().map(|step| step.id.as_str()).collect();
                    let message = format!("the flow has no step {from}; nothing was changed");
                    return Err(
                        Refusal::new(Why::Usage, message).hint(format!("it has {}", steps.join(", ")))
                    );
                }
                if run.status == RunStatus::Running && from.is_none() {
                    return Ok(Vec::new());
                }
                let last = ledger.tip().state.steps.values().next_back();
                // A run whose last step has no route goes on with that step.
                let again = last.filter(|last| last.ended_at.is_some() && last.route.is_none());
                let at = from.clone().or_else(|| again.map(|last| last.id.to_string()));
                if run.termination.as_deref() == Some("completed") && from.is_none() {
                    let why = format!("run {} has reached its end, so a step has to be named", run.slug);
                    return Err(refused(why).hint(format!("`aynig flow resume {} --from STEP`", run.slug)));
                }
                vec![RunEdit {
                    waiting_for: Some(None),
                    termination: Some(None),
                    verdict: Some(None),
                    counted_from: Some(run.counts.steps),
                    continues_at: at.map(Some),
                    ..to(RunStatus::Running)
                }]
            }
        })
    }

    /// The name of the person who typed the command.
    pub(super) fn name(&self) -> String {
        match &self.workspaces.options.by {
            By::Person { name, .. } => name.clone(),
            other => other.runner().to_owned(),
        }
    }
}

fn under_way(ledger: &Ledger<'_>, lease: &Lease) -> Refusal {
    let slug = &ledger.tip().state.run.slug;
    let message =
        format!("{} carries out a step of run {slug}; nothing was changed", lease.runner.to_str_lossy());
    Refusal::new(Why::Conflict, message)
        .hint(format!("pause it first: `aynig flow pause {slug}`; then do this again"))
}

fn granted(ledger: &Ledger<'_>, is_leased: bool, next: Option<Next>) -> Granted {
    Granted { status: ledger.tip().state.run.status, is_leased, next }
}
