//! Carries out RUN_VALIDATION: runs validators in a worktree, and puts the worktree back.
//!
//! Invariant: what a validator prints, writes or leaves running ends with it. The worktree is as it was before, but for
//! golden files that were proposed.

mod report;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::contract::ids::CommitId;
use crate::engine::policy::{Rules, Violation};
use crate::flow::document::Validator;
use crate::model::step::Outcome;
use crate::stop::Stop;
use crate::supervise::Watchdog;
use crate::workspace::Workspaces;
use crate::workspace::context::Context;

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
    /// The command lines of this host, by name (`aynig.validator.<name>`).
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

/// Limits of a step that runs programs.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// The longest time of the step.
    pub wall: Option<Duration>,
    /// The longest time without output and without a change in the worktree.
    pub idle: Option<Duration>,
    /// Time between SIGTERM and SIGKILL.
    pub grace: Duration,
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
    /// What the policy forbids.
    pub violations: Vec<Violation>,
    /// Golden files that were proposed. They are in the worktree.
    pub goldens: BTreeSet<String>,
    /// Files below the evidence directory.
    pub kept: Vec<KeptFile>,
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

/// What kind of program a validator is.
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
    /// What became of it.
    pub outcome: Outcome,
    /// Its exit code, if it exited by itself.
    pub exit_code: Option<i32>,
    /// What became of it, in words.
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
    /// What it is to the step.
    pub role: &'static str,
    /// Its path, below the evidence directory.
    pub path: PathBuf,
    /// Its media type.
    pub media_type: &'static str,
}

impl Validated {
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
