//! Carries out EVALUATE: asks a planner, and rules on its answer by the facts.
//!
//! Invariant: the planner changes nothing. A change that it made is taken back, and is a fact against it.

mod answer;
mod ask;
mod choice;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};

use crate::clock::Stopwatch;
use crate::contract::ids::CommitId;
use crate::engine::program::Bounds;
use crate::engine::record::Role;
use crate::engine::script::Values;
use crate::engine::validation::KeptFile;
use crate::flow::document::Script;
use crate::flow::ruling::{Decision, Facts, Ruling, flag_words};
use crate::fsutil;
use crate::provider::{Ended, Ids, Posture, Provider};
use crate::stop::Stop;
use crate::supervise::Watchdog;
use crate::workspace::context::Context;
use crate::workspace::refusal::Refusal;
use crate::workspace::{Before, Left, Workspaces};

use ask::{Heard, Question};

pub use choice::{Chosen, choose};

/// How often a planner is asked.
const TRIES: usize = 2;

/// The patch of what a planner changed.
const PATCH: &str = "harness_fixture-taken-back.patch";

/// The planner's answer, and the resulting outcome.
const DECISION: &str = "planner_decision.json";

/// An EVALUATE step that is due.
pub struct Evaluation<'a> {
    /// The workspaces of the repository.
    pub workspaces: &'a Workspaces<'a>,
    /// The workspace.
    pub context: &'a Context,
    /// The commit that scripts come from.
    pub base: CommitId,
    /// The planner.
    pub planner: Planner<'a>,
    /// The subject of its judgement.
    pub envelope: Envelope<'a>,
    /// The facts. Changes of the planner are added here.
    pub facts: Facts<'a>,
    /// The values of the flow's inputs, for the arguments of a script.
    pub inputs: &'a BTreeMap<String, String>,
    /// The environment of a command, complete.
    pub environment: &'a [(OsString, OsString)],
    /// The directory for everything that is kept. It is there and empty.
    pub evidence: &'a Path,
    /// Limits of the step.
    pub limits: Bounds,
    /// Ends it early.
    pub stop: &'a Stop,
    /// Ends what it started if this process is killed.
    pub watchdog: Option<&'a Watchdog>,
}

/// A planner that can be started.
pub enum Planner<'a> {
    /// A command line for `sh`.
    Line(&'a str),
    /// A script of the base commit.
    Script(&'a Script),
    /// An agent.
    Agent {
        /// Its provider.
        provider: &'a Provider,
        /// Its permissions.
        posture: Posture,
        /// Variables besides those of the provider.
        environment: &'a [(OsString, OsString)],
        /// The ids.
        ids: Ids<'a>,
    },
}

/// The subject of a planner's judgement.
#[derive(Debug, Clone, Serialize)]
pub struct Envelope<'a> {
    /// The run.
    pub run_id: &'a str,
    /// `workflow_id`.
    pub workflow_id: &'a str,
    /// The step.
    pub step_id: &'a str,
    /// The prompt.
    pub evaluate_prompt: &'a str,
    /// The steps that it may propose.
    pub allowed_next_steps: Vec<&'a str>,
    /// The last steps, the newest last.
    pub provenance_window: Vec<Value>,
    /// The difference to the base, the results of the last validation, and whatever else is known.
    pub evidence: Value,
}

/// An evaluation that is over.
#[derive(Debug)]
pub struct Evaluated {
    /// How it ended.
    pub end: Verdict,
    /// A sentence about it.
    pub evidence: String,
    /// The planner's answer. `None` if it could not be read.
    pub decision: Option<Decision>,
    /// The turns of an agent, for usage and sessions.
    pub turns: Vec<Ended>,
    /// Files below the evidence directory.
    pub kept: Vec<KeptFile>,
}

/// How an evaluation ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// With a ruling.
    Ruled(Ruling),
    /// It was stopped. It counts as interrupted.
    Stopped,
    /// This host cannot ask the planner, for this reason.
    Unable(String),
    /// The planner cannot answer now.
    Later {
        /// When it can again, in seconds since 1970, if that is known.
        until: Option<i64>,
        /// The reason.
        why: String,
    },
}

/// Asks the planner, twice if its first answer cannot be used, and rules. An error is one of our own files, or of git.
pub fn evaluate(step: &Evaluation<'_>) -> Result<Evaluated, Refusal> {
    let before = step.workspaces.note(step.context)?;
    let watch = Stopwatch::start();
    let mut done = Evaluated {
        end: Verdict::Stopped,
        evidence: String::new(),
        decision: None,
        turns: Vec::new(),
        kept: Vec::new(),
    };
    let (mut errors, mut early) = (Vec::new(), None);
    for number in 1..=TRIES {
        let left = step.limits.wall.map(|wall| wall.saturating_sub(watch.elapsed()));
        if left == Some(Duration::ZERO) {
            errors.push("the time of the step was over".to_owned());
            break;
        }
        let question = Question { number, error: errors.last().map(String::as_str), left };
        let heard = ask::ask(step, &question, &mut done)
            .map_err(|error| Refusal::because("keep what the planner said", &error))?;
        let read = match heard {
            Heard::Answer(answer) => Decision::read(&answer),
            Heard::Nothing(why) => Err(why),
            Heard::Early(end) => {
                early = Some(end);
                break;
            }
        };
        match read {
            Ok(decision) => {
                done.decision = Some(decision);
                break;
            }
            Err(why) => errors.push(why),
        }
    }
    let changed = take_back(step, &before, &mut done.kept)?;
    if let Some(end) = early {
        done.evidence = match &end {
            Verdict::Unable(why) | Verdict::Later { why, .. } => why.clone(),
            Verdict::Stopped | Verdict::Ruled(_) => "it was stopped".to_owned(),
        };
        done.end = end;
        return Ok(done);
    }
    let facts = Facts { planner_changed_files: !changed.is_empty(), ..step.facts.clone() };
    let ruling = Ruling::of(done.decision.as_ref(), &facts);
    done.evidence = sentence(done.decision.as_ref(), &ruling, &errors);
    write_decision(step, &done, &ruling, &errors, &changed)?;
    done.kept.push(KeptFile::new(Role::PlannerDecision, DECISION, "application/json"));
    done.end = Verdict::Ruled(ruling);
    Ok(done)
}

/// Puts the worktree back. Returns what was changed.
fn take_back(
    step: &Evaluation<'_>,
    before: &Before,
    kept: &mut Vec<KeptFile>,
) -> Result<Vec<String>, Refusal> {
    let left = step.workspaces.left_since(step.context, before)?;
    let changed = match &left {
        Left::Nothing => return Ok(Vec::new()),
        Left::More(why) => vec![why.clone()],
        Left::Files { tree, changes } => {
            let file = step.evidence.join(PATCH);
            // Git keeps the mode of a file that is there.
            let made = fsutil::replace_private(&file, b"");
            made.map_err(|error| Refusal::because("keep what the planner changed", &error))?;
            let written = step.workspaces.repo.write_patch(before.files, *tree, &file);
            written.map_err(|error| Refusal::because("keep what the planner changed", &error))?;
            kept.push(KeptFile::new(Role::HarnessFixture, PATCH, "text/x-diff"));
            let paths = changes.iter().map(|change| change.path.to_string());
            paths.chain(changes.is_empty().then(|| "the index".to_owned())).collect()
        }
    };
    step.workspaces.take_back(step.context, before, &left, before.files)?;
    Ok(changed)
}

/// `the planner says success; needs_human, since proposed golden files wait for an approval`.
fn sentence(decision: Option<&Decision>, ruling: &Ruling, errors: &[String]) -> String {
    let said = match (decision, errors.last()) {
        (Some(decision), _) => format!("the planner says {}", answer::status(decision.status)),
        (None, Some(error)) => format!("the planner gave no answer that can be used: {error}"),
        (None, None) => "the planner gave no answer".to_owned(),
    };
    if ruling.flags.is_empty() {
        return said;
    }
    let facts: Vec<&str> = ruling.flags.iter().map(|flag| flag_words(flag)).collect();
    format!("{said}; {}, since {}", ruling.word(), facts.join(", and "))
}

fn write_decision(
    step: &Evaluation<'_>,
    done: &Evaluated,
    ruling: &Ruling,
    errors: &[String],
    changed: &[String],
) -> Result<(), Refusal> {
    let value = json!({
        "said": done.decision.as_ref().map(answer::json),
        "errors": errors,
        "changed": changed,
        "outcome": ruling.word(),
        "next_step": ruling.next_step,
        "flags": ruling.flags,
    });
    let because = |error: &dyn std::error::Error| Refusal::because("write what the planner said", error);
    let text = serde_json::to_vec_pretty(&value).map_err(|error| because(&error))?;
    fsutil::replace_private(&step.evidence.join(DECISION), &text).map_err(|error| because(&error))
}

impl Evaluation<'_> {
    fn values(&self) -> Values<'_> {
        Values { inputs: self.inputs, run: self.envelope.run_id }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.evidence.join(name)
    }
}
