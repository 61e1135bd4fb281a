//! A person changes or deletes a whole graph.

use crate::engine::Engine;
use crate::ledger::Place;
use crate::ledger::archive::archived_ref;
use crate::model::decide::{Command, Decided, RunEdit};
use crate::model::ids::RunId;
use crate::model::run::{GlobalMode, Mode, Run, RunStatus};
use crate::words::shell_quote;

use super::error::Error;
use super::graphs::operate;
use super::inside::persons_only;
use super::limits::{Of, limits};

/// New settings of a run. `None` leaves one as it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Settings<'a> {
    /// Its status.
    pub status: Option<RunStatus>,
    /// A text for people.
    pub label: Option<&'a str>,
    /// AUTO or INTERACTIVE.
    pub mode: Option<Mode>,
    /// PLANNING or IMPLEMENTATION.
    pub global_mode: Option<GlobalMode>,
    /// When it is done: a text, or `validator:NAME`. An empty one states nothing.
    pub done_when: Option<&'a str>,
    /// Bounds, as `NAME=NUMBER`.
    pub limits: &'a [String],
}

/// Changes a run: all of it, in one operation, or nothing.
pub fn set(engine: &Engine<'_>, run: RunId, settings: &Settings<'_>) -> Result<Decided, Error> {
    persons_only("changing a run")?;
    let mut ledger = engine.graph(run)?;
    let limits = limits(ledger.tip().state.run.limits, Of::Run, settings.limits)?;
    let edit = RunEdit {
        limits: Some(limits),
        status: settings.status,
        label: settings.label.map(str::to_owned),
        mode: settings.mode,
        global_mode: settings.global_mode,
        done_when: settings.done_when.map(|when| (!when.is_empty()).then(|| when.to_owned())),
        ..RunEdit::default()
    };
    operate(engine, &mut ledger, Command::SetRun(edit))
}

/// A run that was deleted, and the ref that keeps its ledger.
#[derive(Debug)]
pub struct Deleted {
    /// The run as it was last.
    pub run: Run,
    /// The ref.
    pub archive: String,
    /// The command that shows the archived work of its nodes. If a remote decides the run, they are there.
    pub shows_work: String,
}

/// Deletes a run, and its workspaces on this host.
pub fn delete(engine: &Engine<'_>, run: RunId) -> Result<Deleted, Error> {
    persons_only("deleting a run")?;
    let mut ledger = engine.graph(run)?;
    engine.delete_graph(&mut ledger, &engine.workspaces.options.by)?;
    let archive = archived_ref(run);
    let all = archive.rsplit_once('/').map_or(archive.as_str(), |(place, _)| place);
    let mut shows_work = format!("git for-each-ref {all}/");
    if let Place::Remote(remote) = ledger.place() {
        let there = engine.repo.namespace().unwrap_or_default().there(all.into());
        let copies = shell_quote(format!("{there}/*:{all}/*"));
        shows_work = format!("git fetch {} {copies} && {shows_work}", shell_quote(remote.as_str()));
    }
    Ok(Deleted { run: ledger.tip().state.run.clone(), archive, shows_work })
}
