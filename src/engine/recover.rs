//! After an attempt that was cut off (CONTRACT 20.5): its work is saved, its step is tried again as often as it may be,
//! and the driver continues.

use std::time::Duration;

use serde_json::{Map, json};

use crate::contract::head::Head;
use crate::contract::ids::CommitId;
use crate::contract::message::Message;
use crate::contract::unable::{handed_back, reason, unable};
use crate::flow::document::{Flow, Step};
use crate::flow::due::{Due, due, route, times_cut_off};
use crate::ledger::{Ledger, Masks};
use crate::model::decide::{Command, EndedStep, NewArtifact};
use crate::model::ids::StepId;
use crate::model::run::{RunStatus, Usage};
use crate::model::state::State;
use crate::model::step::{Opcode, Outcome, Record};
use crate::model::time::Timestamp;
use crate::model::trace::Halted;
use crate::workspace::Awaited;
use crate::workspace::refusal::{Refusal, Why};

use super::attempt::{Attempt, Ended, id_of, unrecorded};
use super::conclude::{Conclusion, Holder, STALLED};
use super::driver::{MOST_READ, Next, run_of};
use super::kept_end::Fate;
use super::leases::{CUT_OFF, ago, cut_off_below, lost_step};
use super::limits::paused;
use super::record::{self, Recorder, for_ledger};
use super::{Engine, FLOW, now};

/// How often in a row it is tried to carry on before a person is asked.
const MOST_TIMES: usize = 3;

/// The known usage of an attempt, and its artifacts.
type Left = (Option<Usage>, Vec<(String, NewArtifact)>);

impl Engine<'_> {
    /// Carries on after an attempt that was cut off. What cannot be done now is handed back, and tried again after a
    /// pause.
    ///
    /// The third failure in a row for one reason pauses the run.
    pub fn recover(&self, attempt: &Attempt) -> Result<Ended, Refusal> {
        if let Ok(Some(run)) = run_of(self.repo, attempt.trigger)
            && let Some(Awaited::Step(why)) =
                self.workspaces.waits_beside(&run.to_string(), FLOW).unwrap_or_default()
        {
            // That ends by itself.
            return Ok(Ended::Unable(why));
        }
        let ended = self.carry_on(attempt).or_else(|refusal| self.before_work(attempt, refusal))?;
        match ended {
            Ended::Unable(why) if self.times_handed_back(attempt.trigger, &why) + 1 >= MOST_TIMES => {
                let asked = self.ask_person(attempt, &why);
                Ok(asked.ok().flatten().map_or(Ended::Unable(why), Ended::Declared))
            }
            ended => Ok(ended),
        }
    }

    /// How often in a row the driver was handed back for this reason.
    fn times_handed_back(&self, trigger: CommitId, why: &str) -> usize {
        let commits = self.repo.history(trigger).take(MOST_READ).map_while(Result::ok);
        let states = commits.filter(|commit| !matches!(Head::read(&commit.facts()), Head::Working(_)));
        let trailers = states.map(|commit| Message::parse(&commit.message).trailers);
        let why = reason(why);
        let same = trailers.take_while(|trailers| {
            let last = unable(trailers).pop();
            handed_back(trailers) > 0 && last.is_some_and(|last| Some(last.why) == why)
        });
        same.count()
    }

    /// Pauses the run, and says why.
    fn ask_person(&self, attempt: &Attempt, why: &str) -> Result<Option<Next>, Refusal> {
        let (mut ledger, driver, flow) = self.opened(attempt)?;
        let state = &ledger.tip().state;
        if state.run.status != RunStatus::Running {
            return Ok(None);
        }
        let evidence = Map::from_iter([("unable".to_owned(), json!(why))]);
        let (commands, _) = paused(state, Halted::Stalled { evidence }, why.to_owned());
        let conclusion = Conclusion {
            commands,
            note: Some(format!("an attempt was cut off: {why}")),
            ..Conclusion::default()
        };
        self.conclude(&mut ledger, &driver, &flow, Holder::Attempt(&attempt.id), &conclusion).map(Some)
    }

    fn carry_on(&self, attempt: &Attempt) -> Result<Ended, Refusal> {
        let (mut ledger, driver, flow) = self.opened(attempt)?;
        let state = ledger.tip().state.clone();
        let held = cut_off_below(self.repo, attempt.trigger);
        let (lost, lived) = held.map(|held| (held.attempt, held.lived)).unwrap_or_default();
        if !state.run.status.is_ended() {
            match self.record_kept(&mut ledger, &driver, &flow, &attempt.id)? {
                Fate::Recorded(next) => return Ok(Ended::Declared(next)),
                Fate::Stays(why) => return Ok(Ended::Unable(why)),
                Fate::None | Fate::Dropped(_) => {}
            }
        }
        if state.run.status == RunStatus::Running {
            self.record_interrupted(&mut ledger, &flow, attempt.trigger)?;
        }
        let state = ledger.tip().state.clone();
        let mut conclusion = Conclusion::default();
        if state.workspaces.values().any(|workspace| workspace.name.to_string() == FLOW) {
            // Without a workspace nothing lies here.
            let found = match self.workspaces.find(format!("{}/{FLOW}", state.run.slug).as_ref()) {
                Err(refusal) if refusal.why == Why::NotFound => None,
                found => Some(found?),
            };
            if let Some(context) = found {
                conclusion.workspace = Some((self.salvage(&ledger, None, context)?, Vec::new()));
            }
        }
        if state.run.status == RunStatus::Running && !has_ended(&state, &lost) {
            conclusion.commands = match due(&flow, &state.run, &state.steps) {
                Due::Step { step, visit, .. } => {
                    let is_last = times_cut_off(&state.steps, &step.id, visit) >= step.retries;
                    self.cut_off(&mut ledger, step, is_last, (lived, lost))?
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

    /// The commands that record an attempt on this host that had not ended when its driver was removed.
    pub(super) fn lost_with_driver(
        &self,
        ledger: &mut Ledger<'_>,
        flow: &Flow,
    ) -> Result<Vec<Command>, Refusal> {
        let state = ledger.tip().state.clone();
        let Some(lost) = self.begun(state.run.id, state.run.counts.steps) else { return Ok(Vec::new()) };
        match due(flow, &state.run, &state.steps) {
            Due::Step { step, visit, .. } if !has_ended(&state, &lost) => {
                let is_last = times_cut_off(&state.steps, &step.id, visit) >= step.retries;
                let lived = self.seen_for(state.run.id, &step.id);
                self.cut_off(ledger, step, is_last, (lived, lost))
            }
            _ => Ok(Vec::new()),
        }
    }

    /// The commands that record a step whose attempt `lost` was cut off.
    fn cut_off(
        &self,
        ledger: &mut Ledger<'_>,
        step: &Step,
        is_last: bool,
        (lived, lost): (Duration, String),
    ) -> Result<Vec<Command>, Refusal> {
        let why = if is_last {
            format!("{CUT_OFF}, and no retry is left")
        } else {
            format!(
                "{CUT_OFF}, so the step is tried again; what it left stays on its own host, where the next step saves it"
            )
        };
        let noted = self.noted(&ledger.tip().state.run, FLOW)?.map(|(_, words)| format!("; {words}"));
        let why = &format!("{why}{}", noted.unwrap_or_default());
        let (number, started) = (ledger.tip().state.run.counts.steps + 1, ago(lived)?);
        let (usage, artifacts) =
            self.killed_record(ledger, (&id_of(step)?, step.opcode(), number), (started, why), |_| Ok(()))?;
        let record = Record {
            cut_off: !is_last,
            lease: Some(lost),
            flags: is_last.then(|| STALLED.to_owned()).into_iter().collect(),
            outage: true,
            usage,
            ..Record::default()
        };
        let routed = route(step, Outcome::Error).ok().filter(|_| is_last).map(str::to_owned);
        let end = EndedStep {
            record,
            artifacts,
            ..EndedStep::new(number, Outcome::Error, routed, Some(why.clone()))
        };
        lost_step(&ledger.tip().state, step, started, end)
    }

    /// Seals what an attempt that was cut off left on this host, with what `more` adds, and makes artifacts of it. Returns
    /// also what it is known to have used.
    pub(super) fn killed_record(
        &self,
        ledger: &mut Ledger<'_>,
        (step, opcode, number): (&StepId, Opcode, u64),
        (started_at, why): (Timestamp, &str),
        more: impl FnOnce(&mut Recorder) -> Result<(), Refusal>,
    ) -> Result<Left, Refusal> {
        let run = ledger.tip().state.run.clone();
        let masks = Masks::of(self.repo, &run.base_sha)?;
        let directory = self.directory(run.id);
        let killed = Recorder::killed(&directory, masks, (step, opcode), number);
        let Some(mut recorder) = killed else {
            return Ok((None, Vec::new()));
        };
        more(&mut recorder)?;
        let usage = recorder.usage();
        let files = recorder.end(record::Ended {
            started_at,
            ended: Some((now()?, Outcome::Error)),
            evidence: Some(why.to_owned()),
            exit: None,
            policy_digest: None,
            provider: None,
        });
        let files = files.map_err(|error| unrecorded(&error))?;
        Ok((usage, for_ledger(ledger, None, Outcome::Error, &files)))
    }
}

/// Whether an attempt had recorded its step before it was cut off.
fn has_ended(state: &State, attempt: &str) -> bool {
    state.steps.values().next_back().is_some_and(|last| last.is_of_lease(attempt))
}
