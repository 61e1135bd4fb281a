//! `aynig flow`: checks and draws flow files.

use std::borrow::Cow;
use std::path::Path;

use serde::Serialize;

use aynig::contract::ids::CommitId;
use aynig::engine::lacking::Lack;
use aynig::flow::fault::{Note, Place, Severity};
use aynig::flow::graph::Graph;
use aynig::flow::{self, Checked, schema};
use aynig::ops::app::{App, Process};
use aynig::ops::error::Error;
use aynig::ops::flow::{against_base, read, uncommitted, unreported};
use aynig::ops::{engine, runs};
use aynig::orch;
use aynig::words::{pluralize, shell_quote};

use super::flow_runs;
use crate::cli::args::{Flow, FlowCheck, FlowGraph, FlowVerb, Format};
use crate::cli::exit::Exit;
use crate::cli::internal::WATCHDOG;
use crate::cli::ui;
use crate::cli::ui::signals::shutdown;
use crate::cli::ui::{BAD, CALL, CARE, GOOD, STRONG, styled, warn};

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
    /// `None`: it was not asked for.
    lacking: Option<Vec<Lacking<'a>>>,
}

/// A fault or a warning in JSON.
#[derive(Debug, Serialize)]
struct Shown<'a> {
    line: usize,
    column: usize,
    what: &'a str,
    instead: &'a str,
}

/// Something that this host lacks, in JSON.
#[derive(Debug, Serialize)]
struct Lacking<'a> {
    line: usize,
    column: usize,
    step: &'a str,
    what: &'a str,
}

/// The hint where there is no such file.
const FIND_RUN: &str =
    "a run is drawn by its slug, the beginning of its id, or its id: `aynig flow list` lists them";

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
    let app = if options.host || options.base.is_some() { Some(App::open(process.clone())?) } else { None };
    let repo = app.as_ref().map(App::repo);
    let (mut base, mut lacking) = (None, None);
    if let Some(flow) = &flow {
        notes.extend(unreported(repo.as_ref().filter(|_| options.host), flow));
        if let (Some(repo), Some(name)) = (&repo, &options.base) {
            let (commit, more) = against_base(repo, flow, name)?;
            base = Some(commit);
            notes.extend(more);
            let file = (&*process.start, &*options.flow_file, &*bytes);
            notes.extend(uncommitted(repo, file, (name, commit))?);
        }
        if let (Some(repo), true) = (&repo, options.host) {
            lacking = Some(engine::open(repo, process, shutdown()?, WATCHDOG, warn)?.lacking(flow));
        }
        notes.sort();
    }
    let faults = notes.iter().filter(|note| note.severity == Severity::Fault).count();
    let lacks = lacking.as_ref().map_or(0, Vec::len);
    let exit = match (faults, lacks) {
        (0, 0) => Exit::Done,
        (0, _) => Exit::Setup,
        (_, _) => Exit::Failed,
    };
    let name = name_of(&options.flow_file);
    if options.json {
        answer_json(name, flow.as_ref(), base, &notes, lacking.as_deref());
        return Ok(exit);
    }
    for note in &notes {
        ui::answer(&line(&name, note));
    }
    for lack in lacking.iter().flatten() {
        ui::answer(&lack_line(&name, lack));
    }
    let warnings = pluralize(notes.len() - faults, "warning");
    let here = match lacks {
        0 => String::new(),
        count => format!(", {} lacking here", pluralize(count, "thing")),
    };
    ui::remark(&if faults > 0 {
        format!("{}: {}, {warnings}{here}", ui::sanitize(&name), pluralize(faults, "fault"))
    } else {
        let steps = pluralize(flow.map_or(0, |flow| flow.steps.len()), "step");
        format!("{}  {}: {steps}, {warnings}{here}", styled(GOOD, "ok"), ui::sanitize(&name))
    });
    if faults > 0 && orch::read::check(&bytes).graph.is_some() {
        ui::remark(&format!("it is a graph: `aynig orch check {}`", shell_quote(&*name)));
    }
    Ok(exit)
}

fn answer_json(
    file: Cow<'_, str>,
    flow: Option<&flow::document::Flow>,
    base: Option<CommitId>,
    notes: &[Note],
    lacking: Option<&[Lack]>,
) {
    let of = |severity| {
        let of_severity = notes.iter().filter(move |note| note.severity == severity);
        let shown = |note| {
            let Note { place, what, instead, .. }: &Note = note;
            Shown { line: place.line, column: place.column, what, instead }
        };
        of_severity.map(shown).collect()
    };
    let lack = |lack| {
        let Lack { place, step, what }: &Lack = lack;
        Lacking { line: place.line, column: place.column, step, what }
    };
    ui::answer_json(&Answer {
        file,
        workflow_id: flow.map(|flow| flow.workflow_id.as_str()),
        workflow_version: flow.map(|flow| flow.version),
        steps: flow.map(|flow| flow.steps.len()),
        base,
        faults: of(Severity::Fault),
        warnings: of(Severity::Warning),
        lacking: lacking.map(|all| all.iter().map(lack).collect()),
    });
}

fn graph(process: &Process, options: &FlowGraph) -> Result<Exit, Error> {
    let named = options.drawn.to_str().filter(|name| is_run_name(name));
    let app = || App::open(process.clone());
    let is_file = options.drawn == Path::new("-") || process.start.join(&options.drawn).exists();
    if let (false, Ok(app), Some(name)) = (is_file, app(), named) {
        draw(&flow_runs::drawn(&app, name)?, options.format);
        return Ok(Exit::Done);
    }
    let read = read(&process.start, &options.drawn);
    // A name without extension and directory can only mean a run.
    let may_be_run = options.drawn.extension().is_none() && options.drawn.components().count() == 1;
    let read = match read {
        Err(_) if !is_file && may_be_run => {
            let name = options.drawn.display();
            Err(Error::failed(format!("there is no run {name}, and no file of this name")).hint(FIND_RUN))
        }
        Err(error) if !is_file => Err(error.hint(FIND_RUN)),
        read => read,
    };
    let Checked { flow, notes } = flow::check(&read?);
    if let (true, Some(name)) = (is_file, named)
        && let Some(run) = app().ok().and_then(|app| runs::find(&app.repo(), name).ok())
    {
        ui::remark(&format!("this is the file {name}; `aynig flow graph {run}` draws the run"));
    }
    let faults = || notes.iter().filter(|note| note.severity == Severity::Fault);
    let name = name_of(&options.drawn);
    for note in faults() {
        ui::narrate(&line(&name, note));
    }
    if let Some(flow) = &flow {
        draw(&Graph::of(flow), options.format);
    }
    Ok(if faults().count() == 0 { Exit::Done } else { Exit::Failed })
}

/// Whether a text may name a run: the beginning of an id.
fn is_run_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-') && text != "-"
}

fn draw(graph: &Graph, format: Format) {
    let text = match format {
        Format::Text => graph.text(),
        Format::Mermaid => graph.mermaid(),
        Format::Dot => graph.dot(),
        Format::Json => ui::json(graph),
    };
    for line in text.lines() {
        ui::answer(&ui::sanitize(line));
    }
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
    located(file, *place, styled(style, format!("{}:", severity.word())), &format!("{what}; {instead}"))
}

/// `FILE:LINE:COLUMN: host: step: what; what to type`.
fn lack_line(file: &str, lack: &Lack) -> String {
    located(file, lack.place, styled(CALL, "host:"), &format!("{}: {}", lack.step, lack.what))
}

fn located(file: &str, place: Place, kind: String, words: &str) -> String {
    let place = format!("{file}:{}:{}:", place.line, place.column);
    format!("{} {kind} {}", styled(STRONG, ui::sanitize(&place)), ui::sanitize(words))
}
