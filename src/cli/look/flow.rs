//! `aynig flow`: checks and draws flow files.

use std::borrow::Cow;
use std::path::Path;

use serde::Serialize;

use aynig::contract::ids::CommitId;
use aynig::flow::fault::{Note, Severity};
use aynig::flow::graph::Graph;
use aynig::flow::{self, Checked, schema};
use aynig::ops::app::{App, Process};
use aynig::ops::error::Error;
use aynig::ops::flow::{against_base, read};
use aynig::words::pluralize;

use crate::cli::args::{Flow, FlowCheck, FlowGraph, FlowVerb, Format};
use crate::cli::exit::Exit;
use crate::cli::ui;
use crate::cli::ui::{BAD, CARE, GOOD, STRONG, styled};

/// The result of a check in JSON.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a> {
    file: Cow<'a, str>,
    workflow_id: Option<&'a str>,
    workflow_version: Option<u64>,
    steps: Option<usize>,
    base: Option<CommitId>,
    faults: Vec<Shown<'a>>,
    warnings: Vec<Shown<'a>>,
}

/// A fault or a warning in JSON.
#[derive(Debug, Serialize)]
struct Shown<'a> {
    line: usize,
    column: usize,
    what: &'a str,
    instead: &'a str,
}

/// Runs the subcommand.
pub(crate) fn run(process: &Process, arguments: &Flow) -> Result<Exit, Error> {
    match &arguments.verb {
        FlowVerb::Check(options) => check(process, options),
        FlowVerb::Graph(options) => graph(process, options),
        FlowVerb::Schema => {
            ui::answer(&schema::text());
            Ok(Exit::Done)
        }
        // Those of runs need a repository.
        _ => unreachable!("`work::flow_runs` has the others"),
    }
}

fn check(process: &Process, options: &FlowCheck) -> Result<Exit, Error> {
    let bytes = read(&process.start, &options.flow_file)?;
    let Checked { flow, mut notes } = flow::check(&bytes);
    let mut base = None;
    if let Some(name) = &options.base {
        let app = App::open(process.clone())?;
        if let Some(flow) = &flow {
            let (commit, more) = against_base(&app.repo(), flow, name)?;
            base = Some(commit);
            notes.extend(more);
            notes.sort();
        }
    }
    let of = |severity| notes.iter().filter(move |note| note.severity == severity);
    let faults = of(Severity::Fault).count();
    let exit = if faults == 0 { Exit::Done } else { Exit::Failed };
    let name = name_of(&options.flow_file);
    if options.json {
        let shown = |note| {
            let Note { place, what, instead, .. }: &Note = note;
            Shown { line: place.line, column: place.column, what, instead }
        };
        ui::answer_json(&Answer {
            file: name,
            workflow_id: flow.as_ref().map(|flow| flow.workflow_id.as_str()),
            workflow_version: flow.as_ref().map(|flow| flow.version),
            steps: flow.as_ref().map(|flow| flow.steps.len()),
            base,
            faults: of(Severity::Fault).map(shown).collect(),
            warnings: of(Severity::Warning).map(shown).collect(),
        });
        return Ok(exit);
    }
    for note in &notes {
        ui::answer(&line(&name, note));
    }
    let warnings = pluralize(notes.len() - faults, "warning");
    ui::remark(&if faults > 0 {
        format!("{}: {}, {warnings}", ui::sanitize(&name), pluralize(faults, "fault"))
    } else {
        let steps = pluralize(flow.map_or(0, |flow| flow.steps.len()), "step");
        format!("{}  {}: {steps}, {warnings}", styled(GOOD, "ok"), ui::sanitize(&name))
    });
    Ok(exit)
}

fn graph(process: &Process, options: &FlowGraph) -> Result<Exit, Error> {
    let Checked { flow, notes } = flow::check(&read(&process.start, &options.flow_file)?);
    let faults = || notes.iter().filter(|note| note.severity == Severity::Fault);
    let name = name_of(&options.flow_file);
    for note in faults() {
        ui::narrate(&line(&name, note));
    }
    if let Some(flow) = &flow {
        let graph = Graph::of(flow);
        let text = match options.format {
            Format::Text => graph.text(),
            Format::Mermaid => graph.mermaid(),
            Format::Dot => graph.dot(),
            Format::Json => ui::json(&graph),
        };
        for line in text.lines() {
            ui::answer(&ui::sanitize(line));
        }
    }
    Ok(if faults().count() == 0 { Exit::Done } else { Exit::Failed })
}

pub(crate) fn name_of(file: &Path) -> Cow<'_, str> {
    if file == Path::new("-") { Cow::Borrowed("<stdin>") } else { file.to_string_lossy() }
}

/// `FILE:LINE:COLUMN: fault: what; what to write instead`.
pub(crate) fn line(file: &str, note: &Note) -> String {
    let Note { place, severity, what, instead } = note;
    let style = match severity {
        Severity::Fault => BAD,
        Severity::Warning => CARE,
    };
    let place = format!("{file}:{}:{}:", place.line, place.column);
    let words = ui::sanitize(&format!("{what}; {instead}"));
    format!(
        "{} {} {words}",
        styled(STRONG, ui::sanitize(&place)),
        styled(style, format!("{}:", severity.word()))
    )
}
