//! A person changes or deletes a whole graph.

use crate::engine::Engine;
use crate::ledger::archive::archived_ref;
use crate::model::decide::{Command, Decided, RunEdit};
use crate::model::ids::RunId;
use crate::model::run::{GlobalMode, Run};

use super::error::Error;
use super::graphs::operate;
use super::inside::persons_only;

/// Changes the label and the mode of a run. `None` leaves one as it is.
pub fn set(
    engine: &Engine<'_>,
    run: RunId,
    label: Option<&str>,
    global_mode: Option<GlobalMode>,
) -> Result<Decided, Error> {
    persons_only("changing a run")?;
    let mut ledger = engine.graph(run)?;
    let edit = RunEdit { label: label.map(str::to_owned), global_mode, ..RunEdit::default() };
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
