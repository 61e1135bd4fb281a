//! The steps after the validators have ended: golden files are looked at, the worktree is put back, and a report of
//! all is written.

use std::collections::BTreeSet;
use std::path::PathBuf;

use bstr::ByteSlice;
use serde_json::{Value, json};

use super::check::{stderr_of, stdout_of};
use super::{Check, End, KeptFile, Kind, Validation};
use crate::contract::ids::CommitId;
use crate::engine::policy::Violation;
use crate::engine::record::Role;
use crate::flow::document::{OUTCOMES, word};
use crate::fsutil;
use crate::git::objects::differences::{Difference, LINK, SUBMODULE};
use crate::model::step::Outcome;
use crate::workspace::context::Context;
use crate::workspace::refusal::Refusal;
use crate::workspace::{Before, Left};

/// The patch of what was taken back.
const PATCH: &str = "harness_fixture-taken-back.patch";

/// The report of all validators.
const REPORT: &str = "validation_report.json";

/// The most paths that the report names.
const NAMED: usize = 100;

/// The changes that validators left.
pub(super) struct Aftermath {
    pub(super) violations: Vec<Violation>,
    /// Golden files that stay.
    pub(super) goldens: BTreeSet<String>,
    /// Paths that were put back.
    changed: Vec<String>,
    /// Changes of other things than files, in words.
    more: Option<String>,
    /// The workspace, if it was put back.
    pub(super) context: Option<Context>,
}

/// Puts the worktree back, but for golden files that may be proposed. What differs is kept as a patch.
pub(super) fn take_back(
    step: &Validation<'_>,
    before: &Before,
    checks: &mut [Check],
    kept: &mut Vec<KeptFile>,
) -> Result<Aftermath, Refusal> {
    let left = step.workspaces.left_since(step.context, before)?;
    let none = Vec::new();
    let (tree, changes) = match &left {
        Left::Files { tree, changes } => (*tree, changes),
        Left::Nothing | Left::More(_) => (before.files, &none),
    };
    let more = if let Left::More(why) = &left { Some(why.clone()) } else { None };
    let (violations, goldens) = (Vec::new(), BTreeSet::new());
    let mut after = Aftermath { violations, goldens, changed: Vec::new(), more, context: None };
    let mut goldens: Vec<&Difference> = Vec::new();
    for (index, check) in checks.iter_mut().enumerate() {
        let Some(report) = &check.report else { continue };
        if report.goldens.is_empty() {
            continue;
        }
        let may = step.validators.get(index).is_some_and(crate::flow::document::Validator::proposes_goldens);
        match accepted(step, &report.goldens, tree, changes, (may, after.more.as_deref())) {
            Ok(found) => {
                goldens.extend(found);
                after.goldens.extend(report.goldens.iter().cloned());
            }
            Err(why) => check.refuse(&why),
        }
    }
    let owned: Vec<Difference> = goldens.iter().map(|change| (*change).clone()).collect();
    after.violations = step.policy.violations(&owned);
    if !after.violations.is_empty() {
        goldens.clear();
        after.goldens.clear();
    }
    let is_kept = |change: &&Difference| goldens.iter().any(|golden| golden.path == change.path);
    let paths = changes.iter().filter(|change| !is_kept(change)).map(|change| change.path.to_str_lossy());
    after.changed = paths.map(std::borrow::Cow::into_owned).collect();
    if matches!(left, Left::Nothing) {
        return Ok(after);
    }
    let to = step.workspaces.with_changes(before, &goldens)?;
    if to != tree {
        write_patch(step, to, tree, kept)?;
    }
    let back = step.workspaces.take_back(step.context, before, &left, to)?;
    after.context = Some(back.context);
    if let Some(name) = back.rescue {
        let words = after.more.take().unwrap_or_default();
        after.more = Some(format!("{words}; {name} has what was there"));
    }
    Ok(after)
}

fn write_patch(
    step: &Validation<'_>,
    from: CommitId,
    to: CommitId,
    kept: &mut Vec<KeptFile>,
) -> Result<(), Refusal> {
    let file = step.evidence.join(PATCH);
    // Git keeps the mode of a file that is there.
    fsutil::replace_private(&file, b"")
        .map_err(|error| Refusal::because("keep what the validators changed", &error))?;
    let written = step.workspaces.repo.write_patch(from, to, &file);
    written.map_err(|error| Refusal::because("keep what the validators changed", &error))?;
    kept.push(KeptFile::new(Role::HarnessFixture, PATCH, "text/x-diff"));
    Ok(())
}

/// The changes that make proposed golden files. The error says why they do not count.
fn accepted<'a>(
    step: &Validation<'_>,
    goldens: &[String],
    tree: CommitId,
    changes: &'a [Difference],
    (may, more): (bool, Option<&str>),
) -> Result<Vec<&'a Difference>, String> {
    if !may {
        return Err(
            "it proposes golden files, which the flow does not let it (`may_propose_goldens`)".to_owned()
        );
    }
    if let Some(why) = more {
        return Err(format!("its golden files could not be kept: {why}"));
    }
    let mut found = Vec::new();
    for golden in goldens {
        match changes.iter().find(|change| change.path == golden.as_bytes()) {
            Some(change) if change.new.is_some_and(|(mode, _)| ![LINK, SUBMODULE].contains(&mode)) => {
                found.push(change);
            }
            None if step.workspaces.repo.file_at(tree, golden).is_ok_and(|file| file.is_some()) => {}
            Some(_) | None => {
                return Err(format!("it proposes {golden}, which is no file in the worktree, or is ignored"));
            }
        }
    }
    Ok(found)
}

impl Check {
    fn refuse(&mut self, why: &str) {
        if self.outcome == Outcome::Completed {
            self.outcome = Outcome::Error;
            self.how = format!("exited with 0, but {why}");
        } else {
            self.how = format!("{}; {why}", self.how);
        }
    }

    fn json(&self, label: &str) -> Value {
        let report = self.report.as_ref();
        json!({
            "name": self.name,
            "kind": self.kind.word(),
            "agent_written": self.kind == Kind::Harness,
            "outcome": word(&OUTCOMES, &self.outcome),
            "exit_code": self.exit_code,
            "how": self.how,
            "elapsed_ms": u64::try_from(self.elapsed.as_millis()).unwrap_or(u64::MAX),
            "stdout": stdout_of(label),
            "stderr": stderr_of(label),
            "report": report.map(|report| &report.value),
            "report_passes": report.and_then(|report| report.passes),
            "report_contradicted": self.is_contradicted(),
        })
    }
}

/// Writes the report of all validators.
pub(super) fn write_report(
    step: &Validation<'_>,
    checks: &[Check],
    after: &Aftermath,
    end: &End,
    kept: &mut Vec<KeptFile>,
) -> Result<PathBuf, Refusal> {
    let outcome = match end {
        End::Outcome(outcome) => word(&OUTCOMES, outcome),
        End::Stopped | End::Unable(_) => "stopped",
    };
    let checks: Vec<Value> = checks
        .iter()
        .enumerate()
        .map(|(index, check)| check.json(&format!("{:02}-{}", index + 1, check.name)))
        .collect();
    let value = json!({
        "outcome": outcome,
        "validators": checks,
        "proposed_goldens": after.goldens,
        "violations": after.violations.iter().map(Violation::json).collect::<Vec<_>>(),
        "taken_back": after.changed.iter().take(NAMED).collect::<Vec<_>>(),
        "taken_back_count": after.changed.len(),
        "taken_back_more": after.more,
    });
    let because =
        |error: &dyn std::error::Error| Refusal::because("write the report of the validators", error);
    let text = serde_json::to_vec_pretty(&value).map_err(|error| because(&error))?;
    fsutil::replace(&step.evidence.join(REPORT), &text).map_err(|error| because(&error))?;
    kept.push(KeptFile::new(Role::ValidationReport, REPORT, "application/json"));
    Ok(PathBuf::from(REPORT))
}
