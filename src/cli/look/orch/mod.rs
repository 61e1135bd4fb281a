//! `aynig orch`: shows orchestrated runs, and mends their files.

mod artifacts;
mod events;
mod lines;
mod requests;
mod templates;

use serde::Serialize;

use aynig::clock;
use aynig::contract::ids::CommitId;
use aynig::git::Repo;
use aynig::ops::app::App;
use aynig::ops::engine;
use aynig::ops::error::Error;
use aynig::ops::runs::doctor::{Part, Report, examine, examine_drivers};
use aynig::ops::runs::{self, Listed, Projection, Run, RunId, Shown};
use aynig::ops::workspace::outdated;
use aynig::words::{error_chain, pluralize};

use crate::cli::args::{Orch, OrchVerb};
use crate::cli::exit::Exit;
use crate::cli::internal::WATCHDOG;
use crate::cli::ui;
use crate::cli::ui::signals::{self, shutdown};
use crate::cli::ui::{BAD, FAINT, GOOD, STRONG, styled, warn};

/// The words where there are no runs.
const NO_RUNS: &str = "no run is known here: `aynig orch run create --label TEXT` begins a graph, `aynig flow start FILE` a flow";

/// Runs the subcommand.
pub(crate) fn run(app: &App, arguments: &Orch) -> Result<Exit, Error> {
    let (repo, json) = (app.repo(), arguments.json);
    // A repair needs what is here alone.
    if !matches!(arguments.verb, OrchVerb::Doctor(_) | OrchVerb::Rebuild(_) | OrchVerb::Template(_)) {
        let authority = signals::authority(&repo, None)?;
        let troubles = runs::update(&repo, authority.source());
        // Drivers say who has a turn.
        let drivers = match arguments.verb {
            OrchVerb::Show(_) if troubles.is_empty() => authority.refresh(&repo),
            _ => Ok(()),
        };
        let troubles = troubles.into_iter().chain(drivers.err().map(|error| error_chain(&error)));
        troubles.for_each(|trouble| warn(&trouble));
    }
    match &arguments.verb {
        OrchVerb::Run(_) => list(&repo, json),
        OrchVerb::Approvals(options) => requests::requests(&repo, options, json),
        OrchVerb::Artifact(artifact) => artifacts::run(app, &repo, artifact, json),
        OrchVerb::Template(template) => templates::run(&repo, template, json),
        OrchVerb::Show(one) => show(app, &repo, &one.run_name, json),
        OrchVerb::Events(options) => events::events(&repo, options, json),
        OrchVerb::Doctor(one) => doctor(app, &repo, &one.run_name, json),
        OrchVerb::Rebuild(one) => rebuild(&repo, &one.run_name, json),
        OrchVerb::Node(_)
        | OrchVerb::Edge(_)
        | OrchVerb::Approve(_)
        | OrchVerb::Deny(_)
        | OrchVerb::Revoke(_)
        | OrchVerb::Chat(_)
        | OrchVerb::Handoff(_)
        | OrchVerb::Spawn(_)
        | OrchVerb::Roster(_)
        | OrchVerb::Mcp
        | OrchVerb::Done(_)
        | OrchVerb::Check(_)
        | OrchVerb::Schema
        | OrchVerb::Turn
        | OrchVerb::Recover => unreachable!("they change runs"),
    }
}

/// A run of the list in JSON.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row<'a> {
    id: RunId,
    slug: &'a str,
    kind: &'a aynig::model::run::RunKind,
    label: &'a str,
    status: &'static str,
    mode: aynig::model::run::Mode,
    waiting_for: Option<&'a str>,
    created_at: String,
    updated_at: String,
    ledger: CommitId,
}

/// A run that cannot be read.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Unread<'a> {
    id: RunId,
    ledger: CommitId,
    reason: &'a str,
}

fn list(repo: &Repo, json: bool) -> Result<Exit, Error> {
    let all = runs::list(repo)?;
    let good = || all.iter().filter_map(|one| Some((one, one.run.as_ref().ok()?)));
    let bad = || all.iter().filter_map(|one| Some((one, one.run.as_ref().err()?)));
    if json {
        let rows: Vec<Row<'_>> = good().map(|(one, run)| row(one, run)).collect();
        let damaged = bad().map(|(one, why)| Unread { id: one.id, ledger: one.head, reason: why });
        ui::answer_json(&serde_json::json!({ "runs": rows, "damaged": damaged.collect::<Vec<_>>() }));
        return Ok(Exit::Done);
    }
    if ui::room().is_some() && !all.is_empty() {
        ui::answer(&lines::headings());
    }
    let now = clock::wall_millis();
    ui::answer_lines(good().map(|(_, run)| lines::run(run, now)));
    for (one, why) in bad() {
        warn(&format!("run {} cannot be read: {why}", one.id));
    }
    if all.is_empty() {
        ui::remark(&styled(FAINT, NO_RUNS));
    }
    Ok(Exit::Done)
}

fn row<'a>(one: &Listed, run: &'a Run) -> Row<'a> {
    Row {
        id: run.id,
        slug: run.slug.as_str(),
        kind: &run.kind,
        label: &run.label,
        status: run.status.word(),
        mode: run.mode,
        waiting_for: run.waiting_for.as_deref(),
        created_at: run.created_at.to_string(),
        updated_at: run.updated_at.to_string(),
        ledger: one.head,
    }
}

/// A run with its state in JSON.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Whole<'a> {
    run: Projection<'a>,
    ledger: CommitId,
    journal: Option<&'a str>,
    directory: String,
}

fn show(app: &App, repo: &Repo, text: &str, json: bool) -> Result<Exit, Error> {
    let shown = runs::show(repo, runs::find(repo, text)?)?;
    let Shown { head, directory, synced, .. } = &shown;
    if let Err(error) = synced {
        warn(&format!("{}; the ledger is shown", error.message));
    }
    let place = directory.path().display().to_string();
    if json {
        let journal = synced.as_ref().ok().map(|synced| synced.journal.as_str());
        let run = shown.projection();
        ui::answer_json(&Whole { run, ledger: *head, journal, directory: place });
    } else {
        lines::show(&shown, &place, &outdated(repo, &app.process, &shown.state));
    }
    Ok(Exit::Done)
}

/// An examination in JSON.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Examined<'a> {
    id: RunId,
    ledger: CommitId,
    operations: usize,
    events: usize,
    faults: Vec<Wrong<'a>>,
}

#[derive(Debug, Serialize)]
struct Wrong<'a> {
    part: &'static str,
    at: &'a str,
    reason: &'a str,
    next: String,
}

fn doctor(app: &App, repo: &Repo, text: &str, json: bool) -> Result<Exit, Error> {
    let id = runs::find(repo, text)?;
    let mut report = examine(repo, id)?;
    // Where drivers stand follows from a ledger that can be read.
    if report.faults.iter().all(|fault| fault.part != Part::Ledger) {
        let engine = engine::open(repo, &app.process, shutdown()?, WATCHDOG, warn)?;
        if let Some(why) = examine_drivers(&engine, id, &mut report)? {
            warn(&ui::sanitize(&format!("the drivers of its nodes were not looked at: {why}")));
        }
    }
    let Report { head, operations, events, faults } = report;
    if json {
        let faults: Vec<Wrong<'_>> = faults
            .iter()
            .map(|fault| Wrong {
                part: fault.part.word(),
                at: &fault.at,
                reason: &fault.why,
                next: fault.next.clone(),
            })
            .collect();
        let exit = if faults.is_empty() { Exit::Done } else { Exit::Failed };
        ui::answer_json(&Examined { id, ledger: head, operations, events, faults });
        return Ok(exit);
    }
    for fault in &faults {
        let words = format!("{}: {}", fault.at, fault.why);
        ui::answer(&format!("{}  {:7}  {}", styled(BAD, "error"), fault.part.word(), ui::sanitize(&words)));
    }
    if let Some(fault) = faults.first() {
        ui::answer(&format!("       next: {}", fault.next));
    }
    let checked = format!("{} with {}", pluralize(operations, "operation"), pluralize(events, "event"));
    let found = pluralize(faults.len(), "fault");
    ui::answer(&if faults.is_empty() {
        format!("{}     {checked}: ledger and files agree", styled(GOOD, "ok"))
    } else {
        format!("{checked}: {found}")
    });
    Ok(if faults.is_empty() { Exit::Done } else { Exit::Failed })
}

/// A rebuilt run in JSON.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Rebuilt {
    id: RunId,
    journal: String,
    last_seq: u64,
    directory: String,
}

fn rebuild(repo: &Repo, text: &str, json: bool) -> Result<Exit, Error> {
    let id = runs::find(repo, text)?;
    let (directory, synced) = runs::rebuild(repo, id)?;
    let place = directory.path().display().to_string();
    if json {
        let (journal, last_seq) = (synced.journal, synced.last_seq);
        ui::answer_json(&Rebuilt { id, journal, last_seq, directory: place });
        return Ok(Exit::Done);
    }
    let count = usize::try_from(synced.last_seq).unwrap_or(usize::MAX);
    ui::answer(&format!("{}  {}", styled(STRONG, ui::sanitize(&place)), pluralize(count, "event")));
    ui::remark(&styled(FAINT, format!("the journal is {} now; its numbers begin anew", synced.journal)));
    Ok(Exit::Done)
}
