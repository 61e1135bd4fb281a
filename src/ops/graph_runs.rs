//! A person changes or deletes a whole graph.

use crate::engine::Engine;
use crate::ledger::archive::archived_ref;
use crate::model::decide::{Command, Decided, RunEdit};
use crate::model::ids::RunId;
use crate::model::run::{GlobalMode, Run};

use super::error::Error;
use super::graphs::operate;
use super::inside::persons_only;
use super::limits::{Of, limits};

/// Changes the label, the mode and the limits of a run. `None`, and a limit that is not named, stay as they are.
pub fn set(
    engine: &Engine<'_>,
    run: RunId,
    label: Option<&str>,
    global_mode: Option<GlobalMode>,
    given: &[String],
) -> Result<Decided, Error> {
    persons_only("changing a run")?;
    let mut ledger = engine.graph(run)?;
    let limits = limits(ledger.tip().state.run.limits, Of::Run, given)?;
    let label = label.map(str::to_owned);
    let edit = RunEdit { label, global_mode, limits: Some(limits), ..RunEdit::default() };
    operate(engine, &mut ledger, Command::SetRun(edit))
}

/// A run that was deleted, and the ref that keeps its ledger.
#[derive(Debug)]
pub struct Deleted {
    /// The run as it was last.
    pub run: Run,
    /// The ref.
    pub archive: String,
}

/// Deletes a run, and its workspaces on this host.
pub fn delete(engine: &Engine<'_>, run: RunId) -> Result<Deleted, Error> {
    persons_only("deleting a run")?;
    let mut ledger = engine.graph(run)?;
    engine.delete_graph(&mut ledger, &engine.workspaces.options.by)?;
    Ok(Deleted { run: ledger.tip().state.run.clone(), archive: archived_ref(run) })
}
