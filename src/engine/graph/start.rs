//! Makes a graph (CONTRACT 22.1).

use crate::contract::ids::{BranchName, CommitId, RemoteName};
use crate::git::RefChange;
use crate::ledger::masks::{Masks, replicate};
use crate::ledger::{Ledger, Place, runs};
use crate::model::decide::{Command, NewRun, Op, begin};
use crate::model::ids::{RunId, Slug};
use crate::model::run::{GlobalMode, Limits, Mode, Replicate, RunKind, RunStatus};
use crate::workspace::refusal::Refusal;

use super::operate::next_of;
use crate::engine::driver::Driver;
use crate::engine::{Engine, now, remote_of};

/// The parts of a new graph.
#[derive(Debug, Clone)]
pub struct NewGraph {
    /// A text for people.
    pub label: String,
    /// The base: its name, and its commit.
    pub base: (String, CommitId),
    /// AUTO or INTERACTIVE.
    pub mode: Mode,
    /// PLANNING or IMPLEMENTATION.
    pub global_mode: GlobalMode,
    /// When it is done.
    pub done_when: Option<String>,
    /// Its bounds.
    pub limits: Limits,
    /// Whether only runners of its role take the turns of a node.
    pub reserve_role: bool,
    /// Where it is decided.
    pub place: Place,
}

/// A graph that was made.
#[derive(Debug, Clone)]
pub struct Made {
    /// Its id.
    pub run: RunId,
    /// Its short name.
    pub slug: Slug,
    /// Its base, as a full name.
    pub base_ref: String,
    /// The commit of the base.
    pub base_sha: String,
    /// The remote that decides it.
    pub decided_by: Option<RemoteName>,
    /// The contents that its ledger has.
    pub replicate: Replicate,
}

/// Makes the commands for a new run, whose nodes have the ids that follow from this operation.
pub type Commands<'a> = dyn Fn(&NewRun, &Op) -> Result<Vec<Command>, Refusal> + 'a;

impl Engine<'_> {
    /// Makes a graph, with the nodes, edges and messages of `commands`, in one operation.
    pub fn make_graph(&self, graph: &NewGraph, commands: &Commands<'_>) -> Result<Made, Refusal> {
        let (id, slug) = runs::fresh(self.repo)?;
        self.check_run_prefix()?;
        let new = NewRun {
            id,
            slug: slug.clone(),
            kind: RunKind::Graph,
            label: graph.label.clone(),
            mode: graph.mode,
            global_mode: graph.global_mode,
            base_ref: graph.base.0.clone(),
            base_sha: graph.base.1.to_string(),
            decided_by: graph.place.named(self.repo)?,
            done_when: graph.done_when.clone(),
            limits: graph.limits,
            replicate: replicate(self.repo, &graph.place)?,
            status: RunStatus::Running,
            flow: None,
            reserve_role: graph.reserve_role,
        };
        let op = self.op_of_person()?;
        let masks = Masks::of(self.repo, &new.base_sha)?;
        let commands = commands(&masks.new_run(&new), &op)?;
        let state = begin(&masks.new_run(&new), &masks.commands(&commands), &op)
            .map_err(|refusal| Refusal::from(crate::ledger::LedgerError::from(refusal)))?
            .state;
        let at = now()?;
        let (mut refs, mut drivers) = (Vec::new(), Vec::new());
        for node in state.nodes.values() {
            let branch: BranchName = Driver::branch_of(&self.run_prefix, &slug, node.alias.as_str())?;
            let driver = Driver {
                repo: self.repo,
                place: graph.place.clone(),
                run: id,
                kind: RunKind::Graph,
                branch,
                lease_seconds: self.lease_seconds,
                role: state.reserved_role(node.id).map(str::to_owned),
            };
            let first = driver.commit(None, &next_of(&state, node.id, at, &self.pauses), None)?;
            refs.push(RefChange { name: driver.branch.full_ref(), expected: None, new: Some(first) });
            drivers.push((driver, first));
        }
        Ledger::begin(self.repo, graph.place.clone(), (&new, &commands), &op, &refs, &[])?;
        drivers.iter().for_each(|(driver, first)| driver.note(*first));
        Ok(Made {
            run: id,
            slug,
            base_ref: new.base_ref,
            base_sha: new.base_sha,
            decided_by: remote_of(&graph.place).cloned(),
            replicate: new.replicate,
        })
    }
}
