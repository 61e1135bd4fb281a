//! EVALUATE as a step of a run: gathers what is known, asks the planner, and records the ruling.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::contract::ids::CommitId;
use crate::flow::document::{Act, Evaluate, word_of};
use crate::flow::due::{is_interrupted, was_cut_off};
use crate::flow::ruling::Facts;
use crate::model::run::Usage;
use crate::model::state::State;
use crate::model::step::{Opcode, Outcome, Step};
use crate::provider::{Ids, Provider};
use crate::workspace::refusal::Refusal;

use super::Engine;
use super::agent::{posture, record_policy, until_of_limit};
use super::attempt::{Scene, interrupted};
use super::checking::keep;
use super::course::{Carried, Course};
use super::evaluation::{Chosen, Envelope, Evaluated, Evaluation, Planner, Verdict, choose, evaluate};
use super::policy::Rules;
use super::program::path_in;
use super::prompt::end_of;
use super::record::ProviderUsed;

/// How many steps before it a planner is shown.
const WINDOW: usize = 3;

/// The most that a planner is shown of an agent's answer, and of what validators printed, in bytes. It is the end.
const SHOWN: usize = 16 * 1024;

/// The longest list of changed paths that a planner is shown.
const PATHS: usize = 200;

impl Engine<'_> {
    /// Lets a planner judge.
    pub(super) fn evaluate(&self, scene: &mut Scene<'_, '_>, asked: &Evaluate) -> Result<Course, Refusal> {
        let last_agent = last_agent(scene);
        let environment = self.whole_environment(&scene.work);
        let chosen = match choose(asked, &self.evaluators, last_agent.as_deref(), path_in(&environment)) {
            Ok(chosen) => chosen,
            Err(lacks) => return Ok(Course::Unable(format!("this host lacks {lacks}"))),
        };
        let provider = match chosen {
            Chosen::Agent(name) => match self.provider(name) {
                Ok(provider) => Some(provider),
                Err(why) => return Ok(Course::Unable(why)),
            },
            Chosen::Line(_) | Chosen::Script(_) => None,
        };
        let prompt = self.prompt_text(scene, &asked.prompt)?;
        let requested = Rules::requested(scene.flow, scene.step);
        let effective = requested.clone().of_planner();
        let done = self.asked(scene, asked, (chosen, provider.as_ref(), &effective), &prompt)?;
        keep(scene, &done.kept);
        let ruling = match &done.end {
            Verdict::Ruled(ruling) => ruling.clone(),
            Verdict::Stopped => return interrupted(&scene.work.stop),
            Verdict::Unable(why) => return Ok(Course::Unable(why.clone())),
            Verdict::Later { until, why } => {
                let mut carried = Carried::new(Outcome::Error, why.clone());
                carried.record.provider = provider.map(|provider| provider.name.as_str().to_owned());
                carried.record.usage = usage(&done);
                return Ok(Course::Parked(until_of_limit(*until), Box::new(carried)));
            }
        };
        let mut carried = Carried::new(ruling.outcome, done.evidence.clone());
        carried.provider = provider.map(|provider| ProviderUsed {
            name: provider.name.as_str().to_owned(),
            version: done.turns.last().and_then(|turn| turn.version.clone()),
        });
        carried.record.provider = carried.provider.as_ref().map(|used| used.name.clone());
        carried.record.usage = usage(&done);
        carried.record.flags = ruling.flags.iter().map(|flag| (*flag).to_owned()).collect();
        if let Some(decision) = &done.decision {
            carried.record.blockers = decision.codes().into_iter().map(str::to_owned).collect();
            carried.record.fix_instructions.clone_from(&decision.fix_instructions);
        }
        (carried.record.head, carried.record.tree) = self.here(&scene.work.context)?;
        carried.workspace = Some((scene.work.context.clone(), scene.work.repairs.clone()));
        self.judge_outside(&mut scene.work, &mut carried)?;
        record_policy(&mut scene.work, (&requested, &effective), &mut carried)?;
        Ok(Course::Ended(Box::new(carried)))
    }

    fn asked(
        &self,
        scene: &Scene<'_, '_>,
        asked: &Evaluate,
        (chosen, provider, effective): (Chosen<'_>, Option<&Provider>, &Rules),
        prompt: &str,
    ) -> Result<Evaluated, Refusal> {
        let state = &scene.work.ledger.tip().state;
        let run = state.run.id.to_string();
        let node = scene.work.node().map(|node| node.to_string()).unwrap_or_default();
        let own = self.step_environment(&scene.work, &run);
        let environment = self.whole_environment(&scene.work);
        let ids = Ids { run: &run, node: &node, turn: scene.work.attempt };
        let planner = match (chosen, provider) {
            (Chosen::Line(line), _) => Planner::Line(line),
            (Chosen::Script(script), _) => Planner::Script(script),
            (Chosen::Agent(_), Some(provider)) => {
                Planner::Agent { provider, posture: posture(effective), environment: &own, ids }
            }
            (Chosen::Agent(name), None) => {
                let why = format!("there is no provider {name}");
                return Err(Refusal::new(crate::workspace::refusal::Why::Failed, why));
            }
        };
        let tree = self.here(&scene.work.context)?.1.unwrap_or_default();
        let allowed: Vec<&str> = asked.allowed_next_steps.iter().map(|name| name.name.as_str()).collect();
        let stuck = stuck(state, &tree);
        let facts = Facts {
            allowed: allowed.clone(),
            stuck_on: stuck.iter().map(String::as_str).collect(),
            ..self.facts(scene, &tree)?
        };
        evaluate(&Evaluation {
            workspaces: &self.workspaces,
            context: &scene.work.context,
            base: scene.work.context.base(),
            planner,
            envelope: Envelope {
                run_id: &run,
                workflow_id: &scene.flow.workflow_id,
                step_id: &scene.step.id,
                evaluate_prompt: prompt,
                allowed_next_steps: allowed,
                provenance_window: self.window(scene),
                evidence: self.known(scene, &tree)?,
            },
            facts,
            inputs: &scene.inputs,
            environment: &environment,
            evidence: scene.work.recorder.path(),
            limits: self.bounds(scene),
            stop: &scene.work.stop,
            watchdog: Some(&self.watchdog),
        })
    }

    /// The facts that override a planner, but for what it was allowed and what it is stuck on.
    fn facts(&self, scene: &Scene<'_, '_>, tree: &str) -> Result<Facts<'static>, Refusal> {
        let state = &scene.work.ledger.tip().state;
        let since = since(state);
        let base = self.repo.commit(scene.work.context.base());
        let base = base.map_err(|error| Refusal::because("read the base", &error))?.tree.to_string();
        let any = |is: fn(&crate::model::step::Record) -> bool| {
            since.iter().any(|step| step.record.as_deref().is_some_and(is))
        };
        Ok(Facts {
            policy_violated: since.iter().any(|step| step.outcome == Some(Outcome::KilledPolicy)),
            report_contradicted: any(|record| record.contradicted),
            goldens_open: goldens_open(state),
            nothing_changed: any(|record| record.unchanged) && tree == base,
            partials: partials(state),
            ..Facts::default()
        })
    }

    /// The evidence for a planner besides the last steps.
    fn known(&self, scene: &Scene<'_, '_>, tree: &str) -> Result<Value, Refusal> {
        let because =
            |error: &dyn std::error::Error| Refusal::because("compare the work with its base", error);
        let base = self.repo.commit(scene.work.context.base()).map_err(|error| because(&error))?.tree;
        let tree = CommitId::parse_hex(tree.as_bytes()).unwrap_or(base);
        let changes = self.repo.differences(base, tree).map_err(|error| because(&error))?;
        let paths: Vec<String> = changes.iter().take(PATHS).map(|change| change.path.to_string()).collect();
        let state = &scene.work.ledger.tip().state;
        let validations = |step: &&Step| step.opcode == Opcode::RunValidation && !was_cut_off(step);
        let last = state.steps.values().rev().find(validations);
        let validation = last.map(|step| {
            let record = step.record.as_deref().cloned().unwrap_or_default();
            json!({
                "step_id": step.id.as_str(),
                "outcome": step.outcome.map(word_of),
                "summary": step.evidence,
                "exit_codes": record.exit_codes,
                "failed_cases": record.failed_cases,
                "output": self.failed_output(scene).map(|output| end_of(&output, SHOWN).to_owned()),
                "proposed_goldens": record.goldens,
            })
        });
        Ok(json!({
            "diff": { "changed_files": changes.len(), "paths": paths, "base_sha": scene.work.context.base().to_string() },
            "validation": validation,
        }))
    }

    /// The last steps, the newest last.
    fn window(&self, scene: &Scene<'_, '_>) -> Vec<Value> {
        let steps = scene.work.ledger.tip().state.steps.values().rev();
        let newest: Vec<&Step> = steps.filter(|step| !is_interrupted(step)).take(WINDOW).collect();
        let shown = newest.into_iter().rev().map(|step| {
            let response = self.kept(scene, step, "runner_final_response");
            let response = response.filter(|_| step.opcode == Opcode::RunAgent);
            let record = step.record.as_deref().cloned().unwrap_or_default();
            json!({
                "step_id": step.id.as_str(),
                "opcode": step.opcode,
                "visit": step.visit,
                "attempt": step.attempt,
                "outcome": step.outcome.map(word_of),
                "summary": step.evidence,
                "provider": record.provider,
                "exit_codes": record.exit_codes,
                "failed_cases": record.failed_cases,
                "violations": record.violations,
                "blockers": record.blockers,
                "flags": record.flags,
                "fix_instructions": record.fix_instructions,
                "response": response.map(|text| end_of(&String::from_utf8_lossy(&text), SHOWN).to_owned()),
            })
        });
        shown.collect()
    }
}

/// The provider that judges if no planner is named: that of the flow, or of the last agent.
fn last_agent(scene: &Scene<'_, '_>) -> Option<String> {
    let named = scene.flow.defaults.agent.clone();
    let steps = scene.work.ledger.tip().state.steps.values().rev();
    let last = steps.filter_map(|done| match &scene.flow.step(done.id.as_str())?.act {
        Act::RunAgent(agent) => Some(agent.agent.clone()),
        _ => None,
    });
    named.or_else(|| last.into_iter().next())
}

/// Whether a planner judged in this step. An attempt that was cut off judged nothing.
fn is_judged(step: &Step) -> bool {
    step.opcode == Opcode::Evaluate && step.outcome.is_some_and(|outcome| outcome != Outcome::Error)
}

/// The steps since a planner judged last.
fn since(state: &State) -> Vec<&Step> {
    let newest = state.steps.values().rev();
    newest.take_while(|step| !is_judged(step)).collect()
}

/// Whether there are proposed golden files without an approval.
fn goldens_open(state: &State) -> bool {
    let mut open = false;
    for step in state.steps.values() {
        match (step.opcode, step.outcome) {
            (Opcode::Gate, Some(Outcome::GateApproved)) | (Opcode::Rollback, Some(Outcome::Completed)) => {
                open = false;
            }
            _ => open |= step.record.as_deref().is_some_and(|record| !record.goldens.is_empty()),
        }
    }
    open
}

/// How many times in a row the outcome was `partial`.
fn partials(state: &State) -> usize {
    let judged = state.steps.values().rev().filter(|step| is_judged(step));
    judged.take_while(|step| step.outcome == Some(Outcome::Partial)).count()
}

/// The blockers of the last answer, if the worktree is as it was then.
fn stuck(state: &State, tree: &str) -> BTreeSet<String> {
    let last = state.steps.values().rev().find(|step| is_judged(step));
    let same = last.filter(|step| step.tree() == Some(tree)).and_then(|step| step.record.as_deref());
    same.map(|record| record.blockers.clone()).unwrap_or_default()
}

/// The tokens of all turns of a planner.
fn usage(done: &Evaluated) -> Option<Usage> {
    let turns = done.turns.iter().filter_map(|turn| turn.usage);
    turns.reduce(|sum, usage| sum.plus(&usage))
}
