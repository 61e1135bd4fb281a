//! Compares a run's ledger with itself, and the files of the run with the ledger.

use crate::contract::ids::CommitId;
use crate::engine::Engine;
use crate::engine::graph::standing::Astray;
use crate::git::Repo;
use crate::journal;
use crate::ledger::check::Fault as Difference;
use crate::ledger::{self, Ledger, LedgerError, Tip, held};
use crate::model::ids::RunId;
use crate::model::run::RunKind;
use crate::ops::error::Error;

/// The part of a run that a fault is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Its ledger.
    Ledger,
    /// Its files on this host.
    Journal,
    /// The branch of a node, which runners carry on.
    Driver,
}

impl Part {
    /// The word in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ledger => "ledger",
            Self::Journal => "journal",
            Self::Driver => "driver",
        }
    }

    /// The next step after a fault.
    fn next(self, run: RunId) -> String {
        match self {
            Self::Ledger => {
                format!("git log -p {}   # shows what was written, and by whom", ledger::tip::ledger_ref(run))
            }
            Self::Journal => format!("aynig orch rebuild {run}"),
            Self::Driver => format!("aynig orch node start {run} ALIAS"),
        }
    }
}

/// Something that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Where it is.
    pub part: Part,
    /// The commit or the file.
    pub at: String,
    /// What is wrong.
    pub why: String,
    /// The next step.
    pub next: String,
}

/// What an examination found.
#[derive(Debug)]
pub struct Report {
    /// The newest commit of the ledger.
    pub head: CommitId,
    /// How many operations were replayed.
    pub operations: usize,
    /// How many events.
    pub events: usize,
    /// What is wrong.
    pub faults: Vec<Fault>,
}

/// Examines a run. Its files are only compared if the ledger they are made from is whole.
pub fn examine(repo: &Repo, run: RunId) -> Result<Report, Error> {
    let directory = super::directory(repo, run)?;
    let head = super::head(repo, run)?.ok_or_else(|| LedgerError::Unknown(run.to_string()))?;
    let checked = ledger::check::check(repo, run, head)?;
    let of = |part: Part| move |Difference { at, why }| Fault { part, at, why, next: part.next(run) };
    let mut faults: Vec<Fault> = checked.faults.into_iter().map(of(Part::Ledger)).collect();
    if faults.is_empty() {
        let state = Tip::read_whole(repo, run, head)?.state;
        let compared = super::synced(repo, &directory)
            .and_then(|_| journal::check::check(&directory, &checked.operations, &state));
        match compared {
            Ok(found) => faults.extend(found.into_iter().map(of(Part::Journal))),
            Err(error) => {
                let at = directory.path().display().to_string();
                let (part, why) = (Part::Journal, Error::from(error).message);
                faults.push(Fault { part, at, why, next: part.next(run) });
            }
        }
    }
    let held = held::held(repo, run).ok().flatten();
    faults.extend(held.map(|held| Fault {
        part: Part::Ledger,
        at: held.remote.to_string(),
        why: held.words,
        next: held.next.join("; "),
    }));
    let events = checked.operations.iter().map(|operation| operation.events.len()).sum();
    Ok(Report { head, operations: checked.operations.len(), events, faults })
}

/// Adds the drivers of a graph that are not where its ledger says, as the place of decision has both (CONTRACT 22.1). Returns
/// why that cannot be asked.
pub fn examine_drivers(
    engine: &Engine<'_>,
    run: RunId,
    report: &mut Report,
) -> Result<Option<String>, Error> {
    if Ledger::open(engine.repo, run)?.tip().state.run.kind != RunKind::Graph {
        return Ok(None);
    }
    let ledger = match engine.graph(run) {
        Err(refusal) if refusal.why.is_of_remote() => return Ok(Some(refusal.message)),
        ledger => ledger?,
    };
    let astray = match engine.astray(&ledger) {
        Err(refusal) if refusal.why.is_of_remote() => return Ok(Some(refusal.message)),
        astray => astray?,
    };
    report.faults.extend(astray.into_iter().map(|Astray { branch, alias, why }| Fault {
        part: Part::Driver,
        at: branch.to_string(),
        why,
        next: format!("aynig orch node start {} {alias}", ledger.tip().state.run.slug),
    }));
    Ok(None)
}
