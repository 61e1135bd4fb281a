//! A person stops, pauses or resumes a run, or answers its gate (CONTRACT 20.7).
//!
//! Invariant: what a person decides is an operation of the ledger. The driver is woken in the same transaction if it rests;
//! under a lease its holder hears of it.

use crate::contract::head::Head;
use crate::contract::ids::{BranchName, CommitId};
use crate::flow::document::Flow;
use crate::ledger::{Ledger, LedgerError};
use crate::model::decide::{Command, RunEdit};
use crate::model::ids::RunId;
use crate::model::run::{RunStatus, Verdict};
use crate::workspace::refusal::{Refusal, Why};

use super::conclude::{Conclusion, Holder};
use super::driver::{Driver, Next};
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

impl Engine<'_> {
    /// Carries out what a person wants.
    pub fn grant(&self, run: RunId, wish: &Wish) -> Result<Granted, Refusal> {
        let mut ledger = open(self.repo, run)?;
        let flow = self.frozen(&ledger)?;
        let edit = edit(&ledger, &flow, wish)?;
        self.person(&mut ledger, &flow, &[Command::SetRun(edit)])
    }

    /// Answers the gate that is open.
    pub fn answer_gate(&self, run: RunId, approves: bool, comment: Option<&str>) -> Result<Granted, Refusal> {
        let mut ledger = open(self.repo, run)?;
        let flow = self.frozen(&ledger)?;
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

    /// Carries out commands of a person, and moves the driver to what follows, unless an attempt has it.
    pub(super) fn person(
        &self,
        ledger: &mut Ledger<'_>,
        flow: &Flow,
        commands: &[Command],
    ) -> Result<Granted, Refusal> {
        let branch = Driver::branch_of(&self.run_prefix, &ledger.tip().state.run.slug)?;
        let driver = self.driver(ledger, branch);
        let conclusion = Conclusion { commands: commands.to_vec(), ..Conclusion::default() };
        for _ in 0..TRIES {
            let head = driver.ask()?;
            match head {
                Some(head) if !self.is_leased(&driver.branch, head) => {
                    match self.conclude(ledger, &driver, flow, Holder::Person(head), &conclusion) {
                        Err(refusal) if refusal.why == Why::Conflict => ledger.refresh()?,
                        done => return Ok(granted(ledger, false, Some(done?))),
                    }
                }
                Some(_) | None => {
                    ledger.operate(&self.op_of_person()?, commands, &[]).map_err(refused)?;
                    // An attempt that ends now may not have heard of it.
                    if driver.ask()? == head {
                        return Ok(granted(ledger, head.is_some(), None));
                    }
                }
            }
        }
        Err(Refusal::new(Why::Conflict, format!("{} moves all the time; try again", driver.branch)))
    }

    fn is_leased(&self, branch: &BranchName, head: CommitId) -> bool {
        let stored = self.repo.commit(head);
        let stored =
            stored.inspect_err(|error| tracing::debug!(%branch, %error, "the driver cannot be read"));
        stored.is_ok_and(|stored| matches!(Head::read(&stored.facts()), Head::Working(_)))
    }
}

/// How often a wish is tried while the driver moves.
const TRIES: u32 = 20;

fn granted(ledger: &Ledger<'_>, is_leased: bool, next: Option<Next>) -> Granted {
    Granted { status: ledger.tip().state.run.status, is_leased, next }
}

fn refused(error: LedgerError) -> Refusal {
    error.into()
}

fn edit(ledger: &Ledger<'_>, flow: &Flow, wish: &Wish) -> Result<RunEdit, Refusal> {
    let run = &ledger.tip().state.run;
    let usage = |words: String| Err(Refusal::new(Why::Usage, format!("{words}; nothing was changed")));
    Ok(match wish {
        Wish::Pause => RunEdit { status: Some(RunStatus::Paused), ..RunEdit::default() },
        Wish::Stop => {
            if run.status.is_ended() {
                return usage(format!("run {} has ended: {}", run.slug, run.status.word()));
            }
            RunEdit {
                status: Some(RunStatus::Stopped),
                waiting_for: Some(None),
                termination: Some(Some("stopped".to_owned())),
                verdict: Some(Some(Verdict::Stopped)),
                ..RunEdit::default()
            }
        }
        Wish::Resume(from) => {
            if let Some(from) = from
                && flow.step(from).is_none()
            {
                return usage(format!("the flow has no step {from}"));
            }
            let last = ledger.tip().state.steps.values().next_back();
            // A run whose last step has no route goes on with that step.
            let again = last.filter(|last| last.ended_at.is_some() && last.route.is_none());
            let at = from.clone().or_else(|| again.map(|last| last.id.to_string()));
            if run.status == RunStatus::Completed && from.is_none() {
                return usage(format!("run {} is completed: `--from STEP` says where it goes on", run.slug));
            }
            RunEdit {
                status: Some(RunStatus::Running),
                waiting_for: Some(None),
                termination: Some(None),
                verdict: Some(None),
                counted_from: Some(run.counts.steps),
                continues_at: at.map(Some),
                ..RunEdit::default()
            }
        }
    })
}
