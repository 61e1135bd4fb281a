//! A person stops, pauses or resumes a run, or answers its gate (CONTRACT 20.7).
//!
//! Invariant: what a person decides is an operation of the ledger. The driver is woken in the same transaction if it rests,
//! and made again if it is gone; under a lease its holder hears of it.

use std::time::Duration;

use bstr::ByteSlice;
use serde_json::Value;

use crate::clock;
use crate::contract::head::Head;
use crate::contract::ids::CommitId;
use crate::contract::lease::{Lease, Liveness};
use crate::flow::document::{Act, Flow};
use crate::flow::due::{Due, due};
use crate::ledger::error::SetBack;
use crate::ledger::{Ledger, Masks, Place};
use crate::model::approval::{Answer, Approval, Resolution};
use crate::model::by::By;
use crate::model::decide::{Command, EndedStep, Op, RunEdit};
use crate::model::ids::{ApprovalId, OpId, RunId, Slug};
use crate::model::run::{Run, RunStatus, Verdict};
use crate::model::state::State;
use crate::model::step::Outcome;
use crate::words::shell_quote;
use crate::workspace::refusal::{Refusal, Why};

use super::answered::answered;
use super::conclude::{Conclusion, Holder, follow_up};
use super::driver::{Driver, GATE, Next, RUN_KEY, STEP};
use super::question::{Given, HEAD, Weighed, closes, name_of, needs_key, newest, request};
use super::signed::Found;
use super::{Engine, FLOW, now, open};

/// A request of a person to a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wish {
    /// It begins no step until it is resumed.
    Pause,
    /// It ends.
    Stop,
    /// It continues, at this step or at the one that is due.
    Resume(Option<String>),
}

/// The result of a request.
#[derive(Debug)]
pub struct Granted {
    /// The run's status now.
    pub status: RunStatus,
    /// Whether an attempt is under way, which hears of it.
    pub is_leased: bool,
    /// The driver's next state, if it was moved.
    pub next: Option<Next>,
    /// The effect of an answer, in sentences.
    pub said: Vec<String>,
}

/// The answer of a person to a gate.
#[derive(Debug, Clone, Copy)]
pub struct Reply<'a> {
    /// Whether it is yes.
    pub approves: bool,
    /// The reason.
    pub comment: Option<&'a str>,
    /// The commit or tree that they looked at.
    pub about: Option<&'a str>,
    /// The question that they answer, if it must be no other one.
    pub asked: Option<ApprovalId>,
}

/// How long the holder of a lease is waited for that keeps renewing it.
const PATIENCE: Duration = Duration::from_secs(300);

/// The time between two looks at a driver here, and at one of a remote.
const LOOKS: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(1)];

/// How often a wish is tried while the driver moves.
const TRIES: u32 = 20;

impl Engine<'_> {
    /// Continues with what the place of decision has, although operations are gone there. Returns words about it.
    pub fn accept(&self, run: RunId) -> Result<Option<String>, Refusal> {
        let back = Ledger::open(self.repo, run)?.accept()?;
        let words = |SetBack { slug, remote, there, kept, .. }: SetBack| {
            format!(
                "run {slug} is at {} again, as {remote} has it; `git log {kept}` shows what it was",
                there.short()
            )
        };
        Ok(back.map(words))
    }

    /// Carries out what a person wants.
    pub fn grant(&self, run: RunId, wish: &Wish) -> Result<Granted, Refusal> {
        let mut ledger = open(self.repo, run)?;
        let flow = self.frozen(&ledger)?;
        let status = ledger.tip().state.run.status;
        let mut lost = Vec::new();
        if let Wish::Resume(from) = wish {
            let driver = self.driver_of(&ledger)?;
            let head = driver.ask()?;
            if head.is_none() && status == RunStatus::Running {
                lost = self.lost_with_driver(&mut ledger, &flow)?;
            }
            match (self.lease(head), from) {
                (None, _) => {}
                (Some(lease), Some(_)) if status == RunStatus::Running => {
                    return Err(under_way(&ledger, &lease));
                }
                (Some(lease), None) if status == RunStatus::Running => {
                    let said = vec![self.holder_words(&ledger, &lease)];
                    return Ok(Granted { status, is_leased: true, next: None, said });
                }
                (Some(_), Some(_)) => {
                    self.wait_for_holder(&driver).map_err(|refusal| {
                        let message = format!("{}; nothing was changed", refusal.message);
                        Refusal { message, ..refusal }
                    })?;
                    ledger.refresh()?;
                }
                (Some(_), None) => {}
            }
        }
        let edits = self.edits(&ledger, &flow, wish)?;
        let mut commands = lost;
        if let Wish::Resume(Some(from)) = wish {
            commands.extend(self.withdrawn(&ledger.tip().state, &flow, from)?);
        }
        commands.extend(edits.into_iter().map(Command::SetRun));
        // A step that is named is entered next, so no other one may be under way.
        let beside_lease = !matches!(wish, Wish::Resume(Some(_)));
        let conclusion = Conclusion { commands, ..Conclusion::default() };
        self.persons(&mut ledger, &flow, &conclusion, beside_lease)
    }

    /// The commands that end an open gate, for a run that continues at the step `from`. Only a gate is under way without a lease.
    fn withdrawn(&self, state: &State, flow: &Flow, from: &str) -> Result<Vec<Command>, Refusal> {
        let last = state.steps.values().next_back().filter(|last| last.ended_at.is_none());
        let Some((number, step)) = last.and_then(|last| Some((last.number, flow.step(last.id.as_str())?)))
        else {
            return Ok(Vec::new());
        };
        let mut commands = closes(state, step, number, now()?);
        if let Some(approval) = request(state, number).filter(|_| commands.is_empty()) {
            let reason = Some(format!("{} lets the run go on at {from}", self.name()));
            let resolution =
                Resolution { status: Answer::Withdrawn, modified_args: None, reason: reason.clone() };
            commands.push(Command::Answer { approval: approval.id, resolution });
            let route = Some(from.to_owned());
            let ended = EndedStep::new(number, Outcome::GateRejected, route, reason);
            commands.push(Command::EndStep(Box::new(ended)));
        }
        Ok(commands)
    }

    /// Answers the gate that is open.
    pub fn answer_gate(&self, run: RunId, reply: Reply<'_>) -> Result<Granted, Refusal> {
        let mut ledger = open(self.repo, run)?;
        let flow = self.frozen(&ledger)?;
        let approval = self.gate_asked(&ledger, &flow)?.clone();
        if reply.asked.is_some_and(|asked| asked != approval.id) {
            let slug = &ledger.tip().state.run.slug;
            let message = format!("run {slug} asks something else by now; nothing was answered");
            return Err(Refusal::new(Why::Conflict, message)
                .hint(format!("`aynig flow show {slug}` shows its question")));
        }
        not_answered_otherwise(&ledger.tip().state.run.slug, &approval, reply.approves)?;
        self.is_about_all(&mut ledger, &approval, &reply)?;
        let mut given = Given {
            by: self.workspaces.options.by.clone(),
            approves: reply.approves,
            comment: reply.comment.map(str::to_owned),
            keys: Vec::new(),
            about: reply.about.map(|named| self.meant(&approval, named)).transpose()?,
        };
        let answer = self.signed_answer(&ledger, &approval, &mut given)?;
        let commands = match self.weighed(&ledger, &given)? {
            Weighed::Counts(command) => vec![command],
            Weighed::Moved(again, refusal) => {
                self.person(&mut ledger, &flow, &again)?;
                return Err(refusal);
            }
        };
        let by = Some(given.by.clone());
        let mut granted = self.persons(
            &mut ledger,
            &flow,
            &Conclusion { commands, by, answer, ..Conclusion::default() },
            true,
        )?;
        granted.said = answered(&flow, &ledger.tip().state, &approval, &given);
        Ok(granted)
    }

    /// The question of the gate that is open, or was last.
    fn gate_asked<'l>(&self, ledger: &'l Ledger<'_>, flow: &Flow) -> Result<&'l Approval, Refusal> {
        let state = &ledger.tip().state;
        let slug = &state.run.slug;
        let open = newest(state.approvals.values());
        let due = due(flow, &state.run, &state.steps);
        // An answer to an earlier visit is none to this one.
        if let Due::Step { step, .. } = due
            && matches!(step.act, Act::Gate(_))
            && state.run.status == RunStatus::Running
        {
            let message =
                format!("the gate {} of run {slug} is due, and not open yet; nothing was changed", step.id);
            return Err(Refusal::new(Why::Failed, message).hint("`aynig run` opens it"));
        }
        if state.run.status.is_ended()
            && let Some(_) = open.filter(|open| open.resolution.is_none())
        {
            let message = format!("run {slug} has ended: {}; nothing was changed", end_word(&state.run));
            return Err(Refusal::new(Why::Failed, message)
                .hint(format!("`aynig flow resume {slug}` brings it back to its gate")));
        }
        open.ok_or_else(|| {
            let message = format!("run {slug} has no open gate; nothing was changed");
            let next = match state.run.status {
                RunStatus::Paused => format!("it is paused; `aynig flow resume {slug}` carries it on"),
                _ => format!("`aynig flow show {slug}` shows where it stands"),
            };
            Refusal::new(Why::Failed, message).hint(next)
        })
    }

    /// Signs an answer if its gate or git's settings require that. Returns the driver's commit that it is on, and the answer's.
    fn signed_answer(
        &self,
        ledger: &Ledger<'_>,
        approval: &Approval,
        given: &mut Given,
    ) -> Result<Option<(CommitId, CommitId)>, Refusal> {
        let signs = || self.repo.signs().map_err(|error| Refusal::because("read commit.gpgSign", &error));
        if approval.resolution.is_some() || !(needs_key(approval, &given.by) || signs()?) {
            return Ok(None);
        }
        let run = &ledger.tip().state.run;
        let driver = self.driver(ledger, Driver::branch_of(&self.run_prefix, &run.slug, FLOW)?);
        let Some(head) = driver.ask()? else { return Ok(None) };
        let text = |name: &str| approval.tool.args.get(name).and_then(Value::as_str).unwrap_or_default();
        let word = if given.approves { "approved" } else { "rejected" };
        let mut comment = given.comment.as_deref().map(|text| format!("{text}\n\n")).unwrap_or_default();
        Masks::of(self.repo, &run.base_sha)?.text(&mut comment);
        let (gate, seen) = (text("gate"), text(HEAD));
        let message = format!(
            "{gate}: {word}\n\n{comment}{RUN_KEY}: {}\naynig-gate: {gate}\naynig-answer: {word}\naynig-tree: {seen}\n",
            run.id
        );
        let answer = self.sign_answer(head, &message)?;
        let Found { signature: found, keys } = self.signature_of(answer);
        if let By::Person { signature, .. } = &mut given.by {
            *signature = found;
        }
        given.keys = keys;
        Ok(Some((head, answer)))
    }

    /// Carries out commands of a person, and moves the driver to what follows, unless an attempt has it.
    pub(super) fn person(
        &self,
        ledger: &mut Ledger<'_>,
        flow: &Flow,
        commands: &[Command],
    ) -> Result<Granted, Refusal> {
        let conclusion = Conclusion { commands: commands.to_vec(), ..Conclusion::default() };
        self.persons(ledger, flow, &conclusion, true)
    }

    /// Applies a conclusion. With `beside_lease` also while an attempt has the driver.
    fn persons(
        &self,
        ledger: &mut Ledger<'_>,
        flow: &Flow,
        conclusion: &Conclusion,
        beside_lease: bool,
    ) -> Result<Granted, Refusal> {
        let driver = self.driver_of(ledger)?;
        for _ in 0..TRIES {
            let head = driver.ask()?;
            if let Some(lease) = self.lease(head) {
                if !beside_lease {
                    return Err(under_way(ledger, &lease));
                }
                let op = match &conclusion.by {
                    Some(by) => self.op_by(by.clone())?,
                    None => self.op_of_person()?,
                };
                ledger.operate(&op, &conclusion.commands, &[]).map_err(Refusal::from)?;
                // An attempt that ends now may not have heard of it.
                if driver.ask()? == head {
                    let said = is_over(&lease).then(|| self.holder_words(ledger, &lease));
                    return Ok(Granted { said: said.into_iter().collect(), ..granted(ledger, true, None) });
                }
                continue;
            }
            if let Some(head) = head {
                self.record_before_person(ledger, flow, head)?;
            }
            if let Some(next) = self.rests(ledger, flow, &conclusion.commands, head)? {
                return Ok(granted(ledger, false, Some(next)));
            }
            match self.conclude(ledger, &driver, flow, Holder::Person(head), conclusion) {
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
        // Nothing of it is written, so the id of the request is not used up.
        let op = Op { id: OpId::random(), at: now()?, by: self.workspaces.options.by.clone() };
        let after = ledger.decide(commands, &op)?;
        let (more, next) = follow_up(flow, before);
        let is_open = next.waits_for.is_some() && [GATE, STEP].contains(&state.as_str());
        Ok((after.events.is_empty() && more.is_empty() && is_open).then_some(next))
    }

    /// The driver of the flow of a ledger.
    pub(super) fn driver_of(&self, ledger: &Ledger<'_>) -> Result<Driver<'_>, Refusal> {
        self.driver_named(ledger, FLOW)
    }

    /// The driver of the flow or the node with this name.
    pub(super) fn driver_named(&self, ledger: &Ledger<'_>, name: &str) -> Result<Driver<'_>, Refusal> {
        let branch = Driver::branch_of(&self.run_prefix, &ledger.tip().state.run.slug, name)?;
        Ok(self.driver(ledger, branch))
    }

    /// The lease at the head of a driver.
    pub(super) fn lease(&self, head: Option<CommitId>) -> Option<Lease> {
        let stored = self.repo.commit(head?);
        let stored = stored.inspect_err(|error| tracing::debug!(%error, "the driver cannot be read"));
        match Head::read(&stored.ok()?.facts()) {
            Head::Working(lease) => Some(lease),
            _ => None,
        }
    }

    /// Waits until the holder of a step has read that the run rests, and has given the driver back. A refusal says why
    /// it has not; the caller adds what was changed.
    pub(super) fn wait_for_holder(&self, driver: &Driver<'_>) -> Result<(), Refusal> {
        let begun = clock::monotonic();
        let look = LOOKS[usize::from(driver.place != Place::Here)];
        let mut is_told = false;
        while let Some(lease) = self.lease(driver.ask()?) {
            let runner = lease.runner.to_str_lossy();
            let is_over = is_over(&lease);
            if is_over || begun.elapsed() > PATIENCE || self.stop.cause().is_some() {
                let why = if is_over { "is gone" } else { "works on" };
                let message = format!("{runner}, which carries a step out, {why}");
                let skew = if driver.place == Place::Here { 0 } else { self.skew_seconds };
                let from =
                    clock::format_utc(lease.expires_at().saturating_add_unsigned(skew).saturating_add(1));
                let hint = if is_over {
                    format!("`aynig run` takes its step over, from {from} on; then the same again")
                } else {
                    "the same again, once its step has ended".to_owned()
                };
                return Err(Refusal::new(Why::Conflict, message).hint(hint));
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
                return Err(refused(format!("run {} has ended: {}", run.slug, end_word(run)))
                    .hint(format!("`aynig flow resume {}` carries it on", run.slug)));
            }
            Wish::Pause => {
                let why = format!("{} paused it", self.name());
                vec![RunEdit { waiting_for: Some(Some(why)), ..to(RunStatus::Paused) }]
            }
            Wish::Stop if run.status.is_ended() => {
                return Err(refused(format!("run {} has ended: {}", run.slug, end_word(run))).hint(format!(
                    "`aynig flow show {}` shows how, and what can be done with it",
                    run.slug
                )));
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
                // A run whose last step has no route continues with that step.
                let again = last.filter(|last| last.ended_at.is_some() && last.route.is_none());
                let at = from.clone().or_else(|| again.map(|last| last.id.to_string()));
                if run.termination.as_deref() == Some("completed") && from.is_none() {
                    let why = format!("run {} has reached its end, so a step has to be named", run.slug);
                    let steps: Vec<&str> = flow.steps.iter().map(|step| step.id.as_str()).collect();
                    let hint = format!("`aynig flow resume {} --from STEP`; STEP is one of ", run.slug);
                    return Err(refused(why).hint(hint + &steps.join(", ")));
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

/// Refuses an answer to a request that was answered otherwise.
fn not_answered_otherwise(slug: &Slug, approval: &Approval, approves: bool) -> Result<(), Refusal> {
    let word = match approval.resolution.as_ref().map(|resolution| resolution.status) {
        Some(Answer::Denied) if approves => "rejected",
        Some(Answer::Approved) if !approves => "approved",
        _ => return Ok(()),
    };
    let by = approval.resolved_by.as_ref().map_or_else(|| "nobody".to_owned(), name_of);
    let gate = approval.tool.args.get("step").and_then(Value::as_str).unwrap_or("the gate");
    let message = format!("{gate} was {word} already, by {by}; nothing was changed");
    Err(Refusal::new(Why::Conflict, message).hint(format!(
        "`aynig flow resume {slug} --from {}` asks anew, while no step is under way",
        shell_quote(gate)
    )))
}

/// Whether the holder of a lease is gone.
fn is_over(lease: &Lease) -> bool {
    matches!(lease.liveness(clock::wall_seconds()), Liveness::Expired { .. })
}

impl Engine<'_> {
    /// The holder of a live step, for a request that does not move the driver.
    fn holder_words(&self, ledger: &Ledger<'_>, lease: &Lease) -> String {
        let run = &ledger.tip().state.run;
        let (slug, word, runner) = (&run.slug, run.status.word(), lease.runner.to_str_lossy());
        if is_over(lease) {
            format!("run {slug} is {word}; {runner} is gone, and the next `aynig run` takes its step over")
        } else if let Some(gone) = self.left_words(lease) {
            format!("run {slug} is {word}; {gone}; nothing was changed")
        } else {
            format!("run {slug} is {word}, and {runner} carries out a step of it; nothing was changed")
        }
    }

    /// The words about a live lease whose runner on this host is known to be gone.
    pub(super) fn left_words(&self, lease: &Lease) -> Option<String> {
        let end = clock::format_utc(lease.expires_at());
        let is_left = lease.attempt().is_some_and(|attempt| self.repo.is_left_behind(attempt));
        is_left.then(|| {
            format!("its runner on this host is gone; the lease ends at {end}, then `aynig run` takes over")
        })
    }
}

/// How a run ended, in the word of the list.
fn end_word(run: &Run) -> &'static str {
    run.verdict.map_or(run.status.word(), Verdict::word)
}

fn under_way(ledger: &Ledger<'_>, lease: &Lease) -> Refusal {
    let slug = &ledger.tip().state.run.slug;
    let message =
        format!("{} carries out a step of run {slug}; nothing was changed", lease.runner.to_str_lossy());
    Refusal::new(Why::Conflict, message)
        .hint(format!("pause it first: `aynig flow pause {slug}`; then do this again"))
}

fn granted(ledger: &Ledger<'_>, is_leased: bool, next: Option<Next>) -> Granted {
    Granted { status: ledger.tip().state.run.status, is_leased, next, said: Vec::new() }
}
