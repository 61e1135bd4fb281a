//! After an attempt that was cut off (CONTRACT 20.5): its work is saved, its step is tried again as often as it may be,
//! and the driver goes on.

use bstr::ByteSlice;

use crate::contract::ids::{BranchName, CommitId};
use crate::contract::message::Message;
use crate::flow::due::{Due, due, route};
use crate::ledger::{Ledger, Masks};
use crate::model::decide::{Command, EndedStep, NewArtifact, StepStart};
use crate::model::ids::StepId;
use crate::model::run::RunStatus;
use crate::model::state::State;
use crate::model::step::{Opcode, Outcome, Record};
use crate::model::time::Timestamp;
use crate::workspace::refusal::{Refusal, Why};

use super::attempt::{Attempt, Ended, unrecorded};
use super::conclude::{Conclusion, Holder, STALLED};
use super::record::{self, Recorder, for_ledger};
use super::{Engine, FLOW, now};

/// The trailer that names the attempt that was cut off.
const STALLED_RUN: &str = "dwp-stalled-run";

impl Engine<'_> {
    /// Carries on after an attempt that was cut off. What cannot be done now is handed back, and tried again after a
    /// pause.
    pub fn recover(&self, attempt: &Attempt) -> Result<Ended, Refusal> {
        self.carry_on(attempt).or_else(|refusal| self.before_work(attempt, refusal))
    }

    fn carry_on(&self, attempt: &Attempt) -> Result<Ended, Refusal> {
        let (mut ledger, driver, flow) = self.opened(attempt)?;
        let state = ledger.tip().state.clone();
        let lost = self.lost_attempt(&attempt.branch, attempt.trigger)?;
        let mut conclusion = Conclusion::default();
        if state.workspaces.values().any(|workspace| workspace.name.to_string() == FLOW) {
            let context = self.workspaces.of_run(state.run.id, state.run.slug.as_str(), FLOW)?;
            let context = self.salvage(&ledger, None, context)?;
            conclusion.workspace = Some((context, Vec::new()));
        }
        if state.run.status == RunStatus::Running && !has_ended(&state, &lost) {
            conclusion.commands = match due(&flow, &state.run, &state.steps) {
                Due::Step { step, attempt, .. } => {
                    let id = StepId::parse(&step.id);
                    let id = id.map_err(|error| Refusal::new(Why::Failed, error.to_string()))?;
                    let number = state.run.counts.steps + 1;
                    let is_last = attempt > step.retries;
                    let routed = route(step, Outcome::Error).ok().filter(|_| is_last).map(str::to_owned);
                    let flags = if is_last { vec![STALLED.to_owned()] } else { Vec::new() };
                    let record = Record {
                        cut_off: !is_last,
                        lease: Some(lost),
                        flags,
                        outage: true,
                        ..Record::default()
                    };
                    let why = if is_last {
                        "its attempt was cut off, and no retry is left"
                    } else {
                        "its attempt was cut off"
                    };
                    let at = now()?;
                    let artifacts = self.killed_record(&mut ledger, &id, step.opcode(), (at, why))?;
                    let end = EndedStep {
                        record,
                        artifacts,
                        ..EndedStep::new(number, Outcome::Error, routed, Some(why.to_owned()))
                    };
                    let start = StepStart { id, opcode: step.opcode(), started_at: Some(at) };
                    vec![Command::StartStep(start), Command::EndStep(Box::new(end))]
                }
                // The answer that the attempt was to read is still below it.
                Due::Answer { step, number } => {
                    return self.answer(&mut ledger, &driver, (&flow, step, number), attempt);
                }
                Due::End(_) | Due::Exhausted { .. } | Due::NoRoute | Due::Unknown(_) => Vec::new(),
            };
        }
        let next = self.conclude(&mut ledger, &driver, &flow, Holder::Attempt(&attempt.id), &conclusion)?;
        Ok(Ended::Declared(next))
    }

    /// Seals what an attempt that was cut off left on this host, and makes artifacts of it.
    fn killed_record(
        &self,
        ledger: &mut Ledger<'_>,
        id: &StepId,
        opcode: Opcode,
        (at, why): (Timestamp, &str),
    ) -> Result<Vec<(String, NewArtifact)>, Refusal> {
        let run = ledger.tip().state.run.clone();
        let masks = Masks::of(self.repo, &run.base_sha)?;
        let state = &ledger.tip().state;
        let Some(recorder) = Recorder::killed(&self.directory(run.id), masks, state, id, opcode) else {
            return Ok(Vec::new());
        };
        let files = recorder.end(record::Ended {
            started_at: at,
            ended: Some((at, Outcome::Error)),
            evidence: Some(why.to_owned()),
            exit: None,
            policy_digest: None,
            provider: None,
        });
        let files = files.map_err(|error| unrecorded(&error))?;
        Ok(for_ledger(ledger, None, Outcome::Error, &files))
    }

    /// The run id of the attempt that was cut off.
    fn lost_attempt(&self, branch: &BranchName, trigger: CommitId) -> Result<String, Refusal> {
        let stored = self.repo.commit(trigger);
        let stored = stored.map_err(|error| Refusal::because(&format!("read {branch}"), &error))?;
        let trailers = Message::parse(&stored.message).trailers;
        Ok(trailers.last(STALLED_RUN).map(|id| id.to_str_lossy().into_owned()).unwrap_or_default())
    }
}

/// Whether an attempt had recorded its step before it was cut off.
fn has_ended(state: &State, attempt: &str) -> bool {
    let last = state.steps.values().next_back();
    last.is_some_and(|step| {
        step.record.as_ref().is_some_and(|record| record.lease.as_deref() == Some(attempt))
    })
}
