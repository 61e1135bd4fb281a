//! `aynig doctor`: checks the environment of a runner.
//!
//! Invariant: it changes nothing except the remote's fetched branches. Every finding is `ok`, `warning` or
//! `error`; all but `ok` come with a command to type. A check that fails to run does not stop the others.

mod commands;
mod leftovers;
mod programs;
mod remote;
mod runs;
mod surroundings;
mod unable;

use std::collections::HashSet;

use serde::Serialize;
use serde_json::json;

use aynig::contract::ids::CommitId;
use aynig::git::Repo;
use aynig::ops::app::{App, Process};
use aynig::ops::error::Error;
use aynig::runner::authority::Authority;
use aynig::runner::pluralize;

use crate::cli::args::Doctor;
use crate::cli::exit::Exit;
use crate::cli::ui;
use crate::cli::ui::signals;
use crate::cli::ui::{BAD, CARE, GOOD, styled};

/// The check of settings.
const SETTINGS: &str = "settings";

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Level {
    Ok,
    Warning,
    Error,
}

impl Level {
    fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Finding {
    check: &'static str,
    level: Level,
    text: String,
    next: Option<String>,
}

impl Finding {
    fn ok(check: &'static str, text: impl Into<String>) -> Self {
        Self { check, level: Level::Ok, text: text.into(), next: None }
    }

    fn warning(check: &'static str, text: impl Into<String>, next: impl Into<String>) -> Self {
        Self { check, level: Level::Warning, text: text.into(), next: Some(next.into()) }
    }

    fn error(check: &'static str, text: impl Into<String>, next: impl Into<String>) -> Self {
        Self { level: Level::Error, ..Self::warning(check, text, next) }
    }

    /// The error of a subcommand as a finding.
    fn of(check: &'static str, error: Error) -> Self {
        let next =
            if error.hints.is_empty() { "aynig status --all".to_owned() } else { error.hints.join("; ") };
        Self::error(check, error.message, next)
    }
}

/// Runs the subcommand.
pub(crate) fn run(process: &Process, arguments: &Doctor) -> Result<Exit, Error> {
    let mut findings = surroundings::program(&process.start);
    match App::open(process.clone()) {
        Err(error) => findings.push(Finding::of("repository", error)),
        Ok(app) => {
            let repo = app.repo();
            let damaged = repo.damaged_refs();
            findings.extend(surroundings::repository(&repo));
            // It fetches the branches whose states are then read.
            let looked = remote::check(&repo, arguments.remote.as_ref());
            findings.extend(commands::check(&repo));
            findings.extend(commands::states(&repo, process, &looked));
            let untaken = looked.authority.as_ref().map(|authority| unable::check(&repo, process, authority));
            findings.extend(untaken.unwrap_or_default());
            findings.extend(programs::notify(&repo));
            findings.extend(programs::of_steps(&repo));
            findings.extend(programs::forge(&repo));
            findings.extend(programs::path(&repo));
            findings.extend(looked.findings);
            if let Some(remote) =
                looked.authority.as_ref().and_then(Authority::source).filter(|_| looked.fresh)
            {
                findings.extend(runs::lost(&repo, remote));
            }
            findings.extend(leftovers::check(&repo, process, &damaged));
            findings.extend(runs::moved(&repo, looked.authority.as_ref()));
            findings.extend(runs::check(&repo));
        }
    }
    // Several checks read the same settings. A wrong one has its own finding.
    let wrong: Vec<String> =
        findings.iter().filter(|one| one.check == SETTINGS).map(|one| one.text.clone()).collect();
    findings.retain(|finding| finding.check == SETTINGS || !wrong.contains(&finding.text));
    // They fail by the same damage. One finding is enough.
    let mut errors = HashSet::new();
    findings.retain(|finding| finding.level != Level::Error || errors.insert(finding.text.clone()));
    let count = |level: Level| findings.iter().filter(|finding| finding.level == level).count();
    let (warnings, errors) = (count(Level::Warning), count(Level::Error));
    if arguments.json {
        ui::answer_json(&json!({ "findings": findings }));
    } else {
        for finding in &findings {
            let style = match finding.level {
                Level::Ok => GOOD,
                Level::Warning => CARE,
                Level::Error => BAD,
            };
            let word = styled(style, format!("{:7}", finding.level.word()));
            ui::answer(&format!("{word}  {:10}  {}", finding.check, ui::sanitize(&finding.text)));
            if let Some(next) = &finding.next {
                ui::answer(&format!("         next: {}", ui::sanitize(next)));
            }
        }
        ui::answer(&format!(
            "{}: {}, {}",
            pluralize(findings.len(), "check"),
            pluralize(errors, "error"),
            pluralize(warnings, "warning")
        ));
    }
    Ok(signals::exit(if errors > 0 { Exit::Setup } else { Exit::Done }))
}

/// The commit that is checked out; in a bare repository, the one HEAD's branch is at.
fn head(repo: &Repo) -> Option<CommitId> {
    repo.checkout().and_then(|checkout| repo.checked_out(&checkout)).or_else(|| repo.parse_commit("HEAD"))
}
