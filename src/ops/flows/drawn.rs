//! A run drawn over its flow, as it was frozen.

use super::{FlowRun, flow_of, view};
use crate::flow::graph::{Graph, Track};
use crate::git::Repo;
use crate::ledger::Tip;
use crate::ops::app::Process;
use crate::ops::error::Error;
use crate::runner::authority::Authority;

/// Draws a run. `trouble` is told what went wrong with its files on this host.
pub fn drawn(
    repo: &Repo,
    process: &Process,
    authority: &Authority,
    tip: &Tip,
    trouble: &mut dyn FnMut(&str),
) -> Result<Graph, Error> {
    let flow = flow_of(repo, tip)?;
    let FlowRun { run_id, slug, label, status, verdict, place, current_step, words, .. } =
        view::show(repo, process, authority, tip, trouble)?;
    let place = place.word();
    let track = Track { run_id, slug, label, status, verdict, place, current_step, words };
    Ok(Graph::of(&flow).of_run(track, &tip.state.steps))
}
