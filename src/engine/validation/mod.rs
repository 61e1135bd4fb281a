//! Carries out RUN_VALIDATION: runs validators in a worktree, and puts the worktree back.
//!
//! Invariant: what a validator prints, writes or leaves running ends with it. The worktree is as it was before, but for
//! golden files that were proposed.

mod aftermath;
mod artifacts;
mod check;
mod report;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::clock::Stopwatch;
use crate::contract::ids::CommitId;
use crate::engine::policy::{self, Rules, Violation};
use crate::engine::program::Bounds;
use crate::engine::record::Role;
use crate::engine::script::Values;
use crate::flow::document::{Runs, Validator};
use crate::fsutil::missing_program;
use crate::model::step::Outcome;
use crate::stop::Stop;
use crate::supervise::Watchdog;
use crate::words::pluralize;
use crate::workspace::Workspaces;
use crate::workspace::context::Context;
use crate::workspace::refusal::Refusal;

use check::{Found, PYTHON, check, find_harness};

pub use report::{MAX_REPORT, Report};

/// A RUN_VALIDATION step that is due.
#[derive(Debug)]
pub struct Validation<'a> {
    /// The workspaces of the repository.
    pub workspaces: &'a Workspaces<'a>,
    /// The workspace.
    pub context: &'a Context,
    /// The commit that scripts come from.
    pub base: CommitId,
    /// The validators, in their order.
    pub validators: &'a [Validator],
    /// The values of the flow's inputs. Optional ones without a value are empty.
    pub inputs: &'a BTreeMap<String, String>,
    /// The command lines of this host, by [`setting_name`] (`aynig.validator.<name>`).
    pub builtins: &'a BTreeMap<String, String>,
    /// The environment of the validators, complete.
    pub environment: &'a [(OsString, OsString)],
    /// The directory for everything that is kept. It is there and empty.
    pub evidence: &'a Path,
    /// Limits of the step.
    pub limits: Bounds,
    /// The policy in force. Golden files obey it.
    pub policy: &'a Rules,
    /// Ends it early.
    pub stop: &'a Stop,
    /// Ends what it started if this process is killed.
    pub watchdog: Option<&'a Watchdog>,
}

/// A validation that is over.
#[derive(Debug)]
pub struct Validated {
    /// How it ended.
    pub end: End,
    /// A sentence about it.
    pub evidence: String,
    /// The validators that were run, in their order.
    pub checks: Vec<Check>,
    /// Prohibitions of the policy.
    pub violations: Vec<Violation>,
    /// Golden files that were proposed. They are in the worktree.
    pub goldens: BTreeSet<String>,
    /// Files below the evidence directory.
    pub kept: Vec<KeptFile>,
    /// The report of all validators, below the evidence directory. `None` if nothing was run.
    pub report: Option<PathBuf>,
    /// The workspace, if it was put back to what it was before.
    pub context: Option<Context>,
}

/// How a step of this room ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// With this outcome.
    Outcome(Outcome),
    /// It was stopped. It counts as interrupted.
    Stopped,
    /// This host has not what it needs, named here. Nothing was run.
    Unable(Vec<String>),
}

/// The kind of a validator's program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A command line of the host.
    Builtin,
    /// A script of the base commit.
    Script,
    /// A program that an agent has written.
    Harness,
}

impl Kind {
    /// The word in files.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Builtin => "builtin",
            Self::Script => "script",
            Self::Harness => "harness",
        }
    }
}

/// A validator that was run.
#[derive(Debug)]
pub struct Check {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: Kind,
    /// Its outcome.
    pub outcome: Outcome,
    /// Its exit code, if it exited by itself.
    pub exit_code: Option<i32>,
    /// Its outcome in words.
    pub how: String,
    /// How long it ran.
    pub elapsed: Duration,
    /// Its report.
    pub report: Option<Report>,
}

impl Check {
    /// Whether its report says that all is well, and it failed.
    #[must_use]
    pub fn is_contradicted(&self) -> bool {
        self.outcome != Outcome::Completed
            && self.report.as_ref().is_some_and(|report| report.passes == Some(true))
    }
}

/// A file that a step leaves for the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptFile {
    /// Its role.
    pub role: Role,
    /// Its path, below the evidence directory.
    pub path: PathBuf,
    /// Its media type.
    pub media_type: &'static str,
}

impl KeptFile {
    pub(crate) fn new(role: Role, path: impl Into<PathBuf>, media_type: &'static str) -> Self {
        Self { role, path: path.into(), media_type }
    }
}

/// The name of a setting for a validator or a planner: git's names of settings have no `_`, and capital letters are the
/// same as small ones.
#[must_use]
pub fn setting_name(name: &str) -> String {
    name.replace('_', "-").to_ascii_lowercase()
}

/// The missing items of this host for these validators, in words: command lines, and the programs with which they begin.
/// Programs are searched in `path`, a value of `PATH`.
#[must_use]
pub fn lacking(validators: &[Validator], builtins: &BTreeMap<String, String>, path: &OsStr) -> Vec<String> {
    let words = |validator: &Validator| {
        let (name, key) = (&validator.name, setting_name(&validator.name));
        match (&validator.runs, builtins.get(&key)) {
            (Runs::Builtin, None) => {
                Some(format!("the validator {name} (`git config aynig.validator.{key} COMMAND`)"))
            }
            (Runs::Builtin, Some(line)) => lacking_program(&format!("aynig.validator.{key}"), line, path),
            (Runs::Harness { .. } | Runs::Script(_), _) => None,
        }
    };
    validators.iter().filter_map(words).collect()
}

/// The program of a setting's command line if this host lacks it, in words. A relative path belongs to the worktree, so it
/// is not looked at.
#[must_use]
pub fn lacking_program(setting: &str, line: &str, path: &OsStr) -> Option<String> {
    let missing = missing_program(line, None, path)?;
    let (program, why) = (missing.program(), missing.why());
    Some(format!(
        "{program}, which {setting} runs ({program} {why}; install it, or `git config {setting} COMMAND`)"
    ))
}

/// Runs the validators, and puts the worktree back. An error is one of our own files, or of git: what is in the worktree
/// then stays there.
pub fn validate(step: &Validation<'_>) -> Result<Validated, Refusal> {
    let lacking = step.lacking();
    if !lacking.is_empty() {
        let evidence = format!("this host lacks {}", lacking.join(", "));
        return Ok(Validated::ended(End::Unable(lacking), evidence));
    }
    let before = step.workspaces.note(step.context)?;
    let (watch, mut checks, mut kept) = (Stopwatch::start(), Vec::new(), Vec::new());
    let mut is_stopped = false;
    for (index, validator) in step.validators.iter().enumerate() {
        let left = step.limits.wall.map(|wall| wall.saturating_sub(watch.elapsed()));
        is_stopped |= step.stop.cause().is_some();
        if is_stopped {
            break;
        }
        if left == Some(Duration::ZERO) {
            checks.push(Check::not_run(validator));
            continue;
        }
        let label = format!("{:02}-{}", index + 1, validator.name);
        let because = |error: std::io::Error| Refusal::because(&format!("keep what {label} left"), &error);
        let (done, files, stopped) = check(step, validator, left, &label).map_err(because)?;
        kept.extend(files);
        checks.push(done);
        is_stopped |= stopped;
    }
    let after = aftermath::take_back(step, &before, &mut checks, &mut kept)?;
    let worst = checks.iter().map(|check| check.outcome).max_by_key(|outcome| badness(*outcome));
    let mut outcome = worst.unwrap_or(Outcome::Completed);
    let mut evidence = sentence(&checks);
    if !after.violations.is_empty() {
        outcome = Outcome::KilledPolicy;
        evidence = format!("{evidence}; {}", policy::sentence(&after.violations));
    }
    if !after.goldens.is_empty() {
        evidence = format!("{evidence}; {}", pluralize(after.goldens.len(), "proposed golden file"));
    }
    let end = if is_stopped { End::Stopped } else { End::Outcome(outcome) };
    let report = aftermath::write_report(step, &checks, &after, &end, &mut kept)?;
    let (violations, goldens, context) = (after.violations, after.goldens, after.context);
    Ok(Validated { end, evidence, checks, violations, goldens, kept, report: Some(report), context })
}

/// The order of outcomes, the best first.
fn badness(outcome: Outcome) -> usize {
    let order = [
        Outcome::Completed,
        Outcome::Error,
        Outcome::KilledIdle,
        Outcome::KilledTimeout,
        Outcome::KilledPolicy,
    ];
    order.iter().position(|one| *one == outcome).unwrap_or(order.len())
}

/// A sentence about validators: those that failed.
fn sentence(checks: &[Check]) -> String {
    let failed: Vec<String> = checks
        .iter()
        .filter(|check| check.outcome != Outcome::Completed)
        .map(|check| format!("{} {}", check.name, check.how))
        .collect();
    match (failed.as_slice(), checks.len()) {
        ([], count) => format!("{} passed", pluralize(count, "validator")),
        (failed, 1) => failed.join("; "),
        (failed, count) => format!("{} of {count} validators failed: {}", failed.len(), failed.join("; ")),
    }
}

impl Validation<'_> {
    fn values(&self) -> Values<'_> {
        Values { inputs: self.inputs, run: &self.context.run_id }
    }

    fn line_of(&self, name: &str) -> Option<&str> {
        self.builtins.get(&setting_name(name)).map(String::as_str)
    }

    /// The missing items of this host. A harness may come to be only by a validator before it: its interpreter counts if it is
    /// there already.
    fn lacking(&self) -> Vec<String> {
        let mut lacking = lacking(self.validators, self.builtins, self.path());
        let needs_python = |validator: &Validator| {
            let path = match &validator.runs {
                Runs::Harness { script: Some(script), .. } => self.values().entrypoint(script).ok(),
                Runs::Harness { script: None, .. } => Some(validator.name.clone()),
                Runs::Builtin | Runs::Script(_) => None,
            };
            path.is_some_and(|path| {
                matches!(find_harness(&self.context.worktree_path, &path), Found::Python(_))
            })
        };
        if self.validators.iter().any(needs_python) && self.python().is_none() {
            lacking.push(format!("{PYTHON} in its PATH"));
        }
        lacking
    }
}

impl Check {
    fn not_run(validator: &Validator) -> Self {
        Self {
            name: validator.name.clone(),
            kind: check::kind(validator),
            outcome: Outcome::KilledTimeout,
            exit_code: None,
            how: "was not run: the time of the step was over".to_owned(),
            elapsed: Duration::ZERO,
            report: None,
        }
    }
}

impl Validated {
    fn ended(end: End, evidence: String) -> Self {
        let (checks, violations, kept) = (Vec::new(), Vec::new(), Vec::new());
        let goldens = BTreeSet::new();
        Self { end, evidence, checks, violations, goldens, kept, report: None, context: None }
    }

    /// The exit codes, by the names of the validators.
    #[must_use]
    pub fn exit_codes(&self) -> BTreeMap<String, i32> {
        self.checks.iter().filter_map(|check| Some((check.name.clone(), check.exit_code?))).collect()
    }

    /// The ids of cases that failed.
    #[must_use]
    pub fn failed_cases(&self) -> BTreeSet<String> {
        let reports = self.checks.iter().filter_map(|check| check.report.as_ref());
        reports.flat_map(|report| report.failed.iter().cloned()).collect()
    }

    /// Whether a report says that all is well, and its validator failed.
    #[must_use]
    pub fn is_contradicted(&self) -> bool {
        self.checks.iter().any(Check::is_contradicted)
    }
}
