//! RUN_AGENT: a turn of an agent in the worktree (CONTRACT 20.4).

use std::ffi::OsString;
use std::fmt::Write as _;
use std::time::Duration;

use serde_json::json;

use crate::clock;
use crate::contract::ids::CommitId;
use crate::crashpoint::{Point, reach};
use crate::flow::document::RunAgent;
use crate::flow::due::times_parked;
use crate::git::objects::differences::Difference;
use crate::git::objects::digest::sha256;
use crate::model::step::Outcome;
use crate::provider::turn::files;
use crate::provider::{self, Ended, How, Ids, Posture, Provider, Turn, discard_output};
use crate::runner::attempt::environment::own_environment;
use crate::stop::Stop;
use crate::words::first_of;
use crate::workspace::refusal::Refusal;

use super::attempt::{Scene, Work, interrupted, unrecorded};
use super::course::{Carried, Course};
use super::limits::time_left;
use super::policy::{Rules, Violation, summary};
use super::record::{ProviderUsed, Role};
use super::salvage::head_of;
use super::session::{Begun, FORGOTTEN, Session};
use super::{Engine, Stirred};

/// The pause before a later try without a time of its own, in seconds.
const LATER: i64 = 60;

/// How long it waits at most.
const MOST_LATER: i64 = 3600;

impl Engine<'_> {
    /// Runs an agent.
    pub(super) fn run_agent(&self, scene: &mut Scene<'_, '_>, agent: &RunAgent) -> Result<Course, Refusal> {
        let provider = match self.provider(&agent.agent) {
            Ok(provider) => provider,
            Err(why) => return Ok(Course::Unable(why)),
        };
        let rules = Rules::requested(scene.flow, scene.step);
        let place =
            agent.continues.then(|| self.session_place(&scene.work, &provider, &scene.work.context.head_sha));
        let mut session = place.as_ref().map_or(Begun::New, |place| self.session(scene, place));
        let ended = self.converse(scene, agent, &provider, (&rules, &mut session))?;
        let parked = times_parked(&scene.work.ledger.tip().state.steps, &scene.step.id);
        let came = match outcome(&ended, &scene.work.stop, parked) {
            Ok(came) => came,
            Err(course) => return course,
        };
        let outcome = if let Came::To(outcome) = came { outcome } else { Outcome::Error };
        let mut carried = Carried::new(outcome, ended.evidence.clone());
        if let Some(why) = session.reason() {
            let _infallible = write!(carried.evidence, "; a new session began: {why}");
        }
        carried.model.clone_from(&ended.model);
        carried.exit = ended.exit;
        carried.record.provider = Some(provider.name.as_str().to_owned());
        carried.record.usage = ended.usage;
        carried.record.outage = ended.outage;
        carried.provider =
            Some(ProviderUsed { name: provider.name.as_str().to_owned(), version: ended.version.clone() });
        if let Came::Waits(until) = came {
            self.keep_session(&scene.work, &scene.step.id, None);
            record_turn(&mut scene.work, &ended, &carried, &session)?;
            record_policy(&mut scene.work, (&rules, &rules), &mut carried)?;
            return Ok(Course::Parked(until, Box::new(carried)));
        }
        self.take_work(&mut scene.work, &mut carried, &rules, agent.allow_empty)?;
        let id = ended.session.clone().or_else(|| session.id().map(str::to_owned));
        let kept = place.zip(id).filter(|_| carried.outcome == Outcome::Completed);
        let kept = kept.map(|(place, id)| Session { id, place, terms: None });
        self.keep_session(&scene.work, &scene.step.id, kept);
        let recorded = record_turn(&mut scene.work, &ended, &carried, &session)
            .and_then(|()| record_policy(&mut scene.work, (&rules, &rules), &mut carried));
        // It may have removed its record.
        recorded.or_else(|refusal| if carried.stays { Ok(()) } else { Err(refusal) })?;
        Ok(Course::Ended(Box::new(carried)))
    }

    /// Runs the agent's program in this session; in a new one if the program does not have it any more.
    fn converse(
        &self,
        scene: &mut Scene<'_, '_>,
        agent: &RunAgent,
        provider: &Provider,
        (rules, session): (&Rules, &mut Begun),
    ) -> Result<Ended, Refusal> {
        let text = self.prompt_text(scene, &agent.prompt)?;
        let evidence = scene.work.recorder.path().to_owned();
        let whole = self.whole_prompt(scene, text, &agent.inputs, &evidence.join("inputs"))?;
        let run = scene.work.ledger.tip().state.run.id.to_string();
        let (wall, idle) = self.times(scene);
        let worktree = scene.work.context.worktree_path.clone();
        let stirred = Stirred::new(&worktree);
        let changed = || stirred.has_changed();
        let environment = self.step_environment(&scene.work, &run);
        let node = scene.work.node().map(|node| node.to_string()).unwrap_or_default();
        loop {
            let mut prompt = whole.clone();
            if session.reason().is_some() {
                self.replay(scene, &mut prompt)?;
            }
            let recorder = &mut scene.work.recorder;
            let recorded =
                recorder.write(Role::Prompt, "prompt.md", "text/markdown", true, prompt.as_bytes());
            recorded.map_err(|error| unrecorded(&error))?;
            reach(Point::AgentStarts);
            let ended = provider::run(&Turn {
                provider,
                directory: &worktree,
                prompt: prompt.as_bytes(),
                posture: posture(rules),
                model: agent.model.as_deref(),
                session: session.id(),
                is_delta: false,
                listener: None,
                wall,
                idle,
                environment: &environment,
                ids: Ids { run: &run, node: &node, turn: scene.work.attempt },
                evidence: &evidence,
                changed: &changed,
                stop: &scene.work.stop,
                watchdog: Some(&self.watchdog),
                gate: None,
                tools: None,
            });
            reach(Point::AgentEnded);
            if !ended.has_no_session {
                return Ok(ended);
            }
            discard_output(&evidence);
            *session = Begun::Renewed(FORGOTTEN.to_owned());
        }
    }

    /// The longest time of a step, and the longest without a sign of life.
    pub(super) fn times(&self, scene: &Scene<'_, '_>) -> (Option<Duration>, Option<Duration>) {
        let (step, defaults) = (scene.step, &scene.flow.defaults);
        let left = time_left(scene.flow, &scene.work.ledger.tip().state);
        let least = |one: Option<u64>, other: Option<u64>| {
            one.into_iter().chain(other).min().map(Duration::from_secs)
        };
        let wall = least(step.timeout_seconds, defaults.timeout_seconds);
        (wall.into_iter().chain(left).min(), least(step.idle_seconds, defaults.idle_seconds))
    }

    /// The variables of the programs of a step.
    pub(super) fn step_environment(&self, work: &Work<'_, '_>, run: &str) -> Vec<(OsString, OsString)> {
        let node = work.node().map(|node| node.to_string()).unwrap_or_default();
        let own = [
            ("AYNIG_BIN", self.program.clone().into_os_string()),
            ("AYNIG_ORCH_RUN", run.into()),
            ("AYNIG_ORCH_NODE", node.into()),
            ("AYNIG_ORCH_TURN", work.attempt.into()),
            // This address marks their commits and moves of refs (CONTRACT 15.15).
            ("GIT_AUTHOR_NAME", work.context.name.clone().into()),
            ("GIT_AUTHOR_EMAIL", work.context.address().into()),
            ("GIT_COMMITTER_NAME", work.context.name.clone().into()),
            ("GIT_COMMITTER_EMAIL", work.context.address().into()),
        ];
        let own = own.map(|(name, value)| (OsString::from(name), value));
        self.environment.iter().cloned().chain(own).collect()
    }

    /// The whole environment of the programs of a step, without what would lead git or aynig elsewhere.
    pub(super) fn whole_environment(&self, work: &Work<'_, '_>) -> Vec<(OsString, OsString)> {
        let run = work.ledger.tip().state.run.id.to_string();
        own_environment().into_iter().chain(self.step_environment(work, &run)).collect()
    }

    /// Takes what lies in the worktree onto the work branch, and notes what it is.
    pub(super) fn take_work(
        &self,
        work: &mut Work<'_, '_>,
        carried: &mut Carried,
        rules: &Rules,
        allow_empty: bool,
    ) -> Result<(), Refusal> {
        let before = head_of(&work.context);
        if self.judge_outside(work, carried)? {
            return Ok(());
        }
        let (snapshot, mut repairs) = match self.workspaces.snapshot_of_step(&work.context) {
            Ok(taken) => taken,
            Err(refusal) => {
                // It cannot be committed as it is: what is there is saved in another way.
                let (context, to) = (work.context.clone(), head_of(&work.context));
                let context = self.put_back(context, to, &refusal.message)?;
                carried.outcome = Outcome::Error;
                carried.evidence = refusal.message;
                (carried.record.head, carried.record.tree) = self.here(&context)?;
                carried.workspace = Some((context, work.repairs.clone()));
                return Ok(());
            }
        };
        if snapshot.context.generation != work.context.generation {
            // The files there are saved, but not on the branch.
            let cause = match &snapshot.mended[..] {
                [] => "another command put its worktree back meanwhile".to_owned(),
                mended => mended.join("; "),
            };
            let why = format!("what it left could not be committed: {cause}");
            match carried.outcome {
                Outcome::Completed => (carried.outcome, carried.evidence) = (Outcome::Error, why),
                _ => carried.evidence = format!("{}; {why}", carried.evidence),
            }
        }
        repairs.splice(0..0, work.repairs.iter().cloned());
        let mut changes = self.changed(before, head_of(&snapshot.context))?;
        changes.extend(differing(&work.withheld, &snapshot.withheld));
        let mut broken: Vec<String> = Vec::new();
        for violation in rules.violations(&changes).iter().map(Violation::words) {
            if !broken.contains(&violation) {
                broken.push(violation);
            }
        }
        carried.violated(broken, work.opcode);
        carried.evidence += &withheld_words(&snapshot.withheld);
        carried.evidence += &hidden_words(&snapshot.hidden);
        work.context = snapshot.context.clone();
        (carried.record.head, carried.record.tree) = self.here(&snapshot.context)?;
        let base = self.repo.commit(snapshot.context.base());
        let base = base.map_err(|error| Refusal::because("read the base", &error))?.tree.to_string();
        carried.record.unchanged = !allow_empty && carried.record.tree.as_ref() == Some(&base);
        carried.workspace = Some((snapshot.context, repairs));
        Ok(())
    }
}

impl Engine<'_> {
    /// The changes between two commits of the work branch, with those of each commit in between: one that is taken back
    /// later is published, too.
    pub(super) fn changed(&self, before: CommitId, after: CommitId) -> Result<Vec<Difference>, Refusal> {
        let because =
            |error: &dyn std::error::Error| Refusal::because("compare what the step changed", error);
        let commits = self.repo.commits_since(after, before).map_err(|error| because(&error))?;
        let is_one = commits.len() == 1;
        let read = |id: CommitId| self.repo.commit(id).map_err(|error| because(&error));
        let changes = self.repo.differences(read(before)?.tree, read(after)?.tree);
        let mut changes = changes.map_err(|error| because(&error))?;
        // The snapshot alone is what was compared.
        for commit in commits.into_iter().filter(|_| !is_one) {
            let commit = read(commit)?;
            // A merge is compared with the side that it was made on. A commit without a parent brings all that it has.
            let parent = match commit.parents.first() {
                Some(parent) => read(*parent)?.tree,
                None => self.repo.empty_tree().map_err(|error| because(&error))?,
            };
            let more = self.repo.differences(parent, commit.tree);
            changes.extend(more.map_err(|error| because(&error))?);
        }
        Ok(changes)
    }
}

/// The changes of files that are left out of snapshots. One that a commit has taken is among the changes of that.
fn differing(before: &[Difference], after: &[Difference]) -> Vec<Difference> {
    let known = |one: &Difference| before.iter().find(|old| old.path == one.path).and_then(|old| old.new);
    let changed = after.iter().filter(|one| known(one) != one.new);
    changed.map(|one| Difference { old: known(one), ..one.clone() }).collect()
}

/// The most files that are named in the evidence of a step.
const NAMED: usize = 5;

/// The end of a sentence about contents that git does not show.
fn hidden_words(hidden: &[String]) -> String {
    if hidden.is_empty() {
        return String::new();
    }
    format!("; in no commit, since git does not show it: {}", hidden.join(", "))
}

/// The end of a sentence about files that look like keys.
fn withheld_words(files: &[Difference]) -> String {
    if files.is_empty() {
        return String::new();
    }
    let named = first_of(files.iter().map(|one| &one.path), NAMED);
    format!("; left out of the snapshot, since it looks like a key: {named}")
}

/// The part of a policy that a provider gets.
pub(super) fn posture(effective: &Rules) -> Posture {
    Posture {
        execution: effective.execution,
        network: Some(effective.network).filter(|allowed| !allowed),
        approval: effective.approval,
    }
}

/// Names what a turn left, and writes down what else is known of it.
pub(super) fn record_turn(
    work: &mut Work<'_, '_>,
    ended: &Ended,
    carried: &Carried,
    session: &Begun,
) -> Result<(), Refusal> {
    let recorder = &mut work.recorder;
    recorder.add(Role::RunnerTranscript, files::TRANSCRIPT, "text/plain", true);
    recorder.add(Role::RunnerStderr, files::STDERR, "text/plain", false);
    recorder.add(Role::RunnerFinalResponse, files::FINAL, "text/markdown", false);
    let argv: Vec<String> = ended.argv.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let metadata = json!({
        "provider": carried.provider.as_ref().map(|provider| &provider.name),
        "version": ended.version,
        "model": ended.model,
        "session": session.word(),
        "session_reason": session.reason(),
        "argv": argv,
        "exit_code": ended.exit,
        "usage": ended.usage,
        "elapsed_ms": u64::try_from(ended.elapsed.as_millis()).unwrap_or(u64::MAX),
    });
    let written = recorder.write(
        Role::RunnerMetadata,
        "runner_metadata.json",
        "application/json",
        true,
        metadata.to_string().as_bytes(),
    );
    written.map_err(|error| unrecorded(&error))
}

/// Writes down the policy of a step: as it was asked for, and as it was in force.
pub(super) fn record_policy(
    work: &mut Work<'_, '_>,
    (requested, effective): (&Rules, &Rules),
    carried: &mut Carried,
) -> Result<(), Refusal> {
    carried.policy = Some(sha256(effective.json().to_string().as_bytes()));
    let text = summary(requested, effective, &carried.record.violations).to_string();
    let written = work.recorder.write(
        Role::PolicySummary,
        "policy_summary.json",
        "application/json",
        true,
        text.as_bytes(),
    );
    written.map_err(|error| unrecorded(&error))
}

/// When a step is tried again after a usage limit, in seconds since 1970: the reported time, at least a minute and at
/// most a week from now; without one, a quarter of an hour from now.
pub(super) fn until_of_limit(until: Option<i64>) -> i64 {
    let later = |seconds: i64| clock::wall_seconds().saturating_add(seconds);
    until.unwrap_or_else(|| later(15 * LATER)).clamp(later(LATER), later(7 * 86_400))
}

/// The pause before another try of a step whose program exited with 75, in seconds: a minute, and each time in a row twice as long.
fn later(parked: u32) -> i64 {
    LATER.saturating_mul(1_i64.checked_shl(parked.min(16)).unwrap_or(1)).min(MOST_LATER)
}

/// The result of a turn.
enum Came {
    /// Its step ends so.
    To(Outcome),
    /// It is tried again at this time, in seconds since 1970.
    Waits(i64),
}

/// The result of a turn, or another course of its step.
fn outcome(ended: &Ended, stop: &Stop, parked: u32) -> Result<Came, Result<Course, Refusal>> {
    Ok(match &ended.how {
        How::Completed => Came::To(Outcome::Completed),
        How::Failed => Came::To(Outcome::Error),
        How::TimedOut(_) => Came::To(Outcome::KilledTimeout),
        How::Idle(_) => Came::To(Outcome::KilledIdle),
        // Steps have no gate.
        How::Asked(_) | How::Parked { .. } => Came::To(Outcome::KilledPolicy),
        How::Limited { until, .. } => Came::Waits(until_of_limit(*until)),
        How::Later => Came::Waits(clock::wall_seconds().saturating_add(later(parked))),
        How::Unavailable(why) => return Err(Ok(Course::Unable(why.clone()))),
        How::Stopped(_) => return Err(interrupted(stop)),
    })
}
