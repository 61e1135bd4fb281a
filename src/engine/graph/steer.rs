//! A person interrupts, resets or removes a node, or deletes a run; turns may be under way on any host (CONTRACT 22.9,
//! 22.10, 22.13).

use bstr::BString;

use crate::clock;
use crate::contract::ids::CommitId;
use crate::contract::layout::ARCHIVE;
use crate::contract::lease::{Lease, Liveness};
use crate::engine::Engine;
use crate::engine::driver::Driver;
use crate::git::RefChange;
use crate::ledger::archive::Archived;
use crate::ledger::{Ledger, bring, deletion};
use crate::model::by::By;
use crate::model::decide::{Command, Decided, RunEdit, Steer};
use crate::model::ids::{NodeId, RunId};
use crate::model::node::{ARCHIVED_NODES, Node};
use crate::model::run::RunStatus;
use crate::workspace::refusal::{Refusal, Why};

/// A node that was removed.
#[derive(Debug)]
pub struct RemovedNode {
    /// The run without it.
    pub decided: Decided,
    /// The ref that has its work, where the run is decided. `None` if it has none.
    pub archive: Option<String>,
}

/// The ref that keeps the work of a node that was removed.
fn archived_node(run: RunId, node: &Node) -> BString {
    let id = node.id.to_string();
    format!("{ARCHIVE}{run}/{ARCHIVED_NODES}/{}-{}", node.alias, &id[..8]).into()
}

impl Engine<'_> {
    /// Interrupts the turn of a node.
    pub fn interrupt_node(&self, ledger: &mut Ledger<'_>, id: NodeId, by: &By) -> Result<Decided, Refusal> {
        let (node, driver) = self.driver_at(ledger, id)?;
        if !self.has_live_turn(&driver)? {
            let (slug, alias) = (&ledger.tip().state.run.slug, &node.alias);
            let message = format!("{alias} has no turn under way; nothing was changed");
            return Err(Refusal::new(Why::Failed, message)
                .hint(format!("`aynig orch node stop {slug} {alias}` keeps it from beginning one")));
        }
        self.operate(ledger, &[Command::SteerNode(id, Steer::Interrupt)], by)
    }

    /// Lets the next turn of a node begin a new session.
    pub fn reset_node(&self, ledger: &mut Ledger<'_>, id: NodeId, by: &By) -> Result<Decided, Refusal> {
        let (node, driver) = self.driver_at(ledger, id)?;
        if self.has_live_turn(&driver)? {
            let (slug, alias) = (&ledger.tip().state.run.slug, &node.alias);
            let message = format!("{alias} has a turn under way, in its session; nothing was changed");
            return Err(Refusal::new(Why::Conflict, message)
                .hint(format!("`aynig orch node interrupt {slug} {alias}` ends it; then again")));
        }
        self.operate(ledger, &[Command::SteerNode(id, Steer::Reset)], by)
    }

    /// Removes a node, whose work is archived where the run is decided. A turn of it is ended first.
    pub fn remove_node(&self, ledger: &mut Ledger<'_>, id: NodeId, by: &By) -> Result<RemovedNode, Refusal> {
        let (node, driver) = self.driver_at(ledger, id)?;
        if self.has_live_turn(&driver)? {
            self.operate(ledger, &[Command::SteerNode(id, Steer::Stop)], by)?;
            self.wait_for_holder(&driver).map_err(|refusal| {
                let message = format!("{} is stopped, and not removed: {}", node.alias, refusal.message);
                Refusal { message, ..refusal }
            })?;
            ledger.refresh()?;
        }
        let name = archived_node(ledger.tip().state.run.id, &node);
        let archive = |ledger: &Ledger<'_>| {
            let work = self.work_of(ledger, &node)?;
            let change = |work| RefChange { name: name.clone(), expected: None, new: Some(work) };
            Ok(work.map(change).into_iter().collect())
        };
        let decided = self.operate_beside(ledger, &[Command::RemoveNode(id)], by, &archive)?;
        let archive = self.work_of(ledger, &node)?.map(|_| name.to_string());
        Ok(RemovedNode { decided, archive })
    }

    /// The newest commit of a node's work. `None` if there is none, or if no host that can be reached has it.
    fn work_of(&self, ledger: &Ledger<'_>, node: &Node) -> Result<Option<CommitId>, Refusal> {
        let state = &ledger.tip().state;
        let workspace = state.workspaces.get(&node.alias);
        let head = workspace.and_then(|workspace| CommitId::parse_hex(workspace.head_sha.as_bytes()));
        let Some(head) = head else { return Ok(None) };
        if let Err(error) = bring(self.repo, ledger.place(), &state.run, &[head]) {
            tracing::warn!(%error, alias = %node.alias, "the work of a node that is removed stays where it is");
            return Ok(None);
        }
        let handle = format!("{}/{}", state.run.slug, node.alias);
        let here = self.workspaces.find(handle.as_ref()).ok();
        let tip = here.and_then(|context| self.repo.branch_head(&context.branch()).ok().flatten());
        Ok(Some(tip.filter(|tip| self.repo.descends(*tip, head)).unwrap_or(head)))
    }

    /// Deletes a graph, after its workspaces on this host were removed. Refused while a turn is under way.
    pub fn delete_graph(&self, ledger: &mut Ledger<'_>, by: &By) -> Result<Archived, Refusal> {
        self.check_rests(ledger)?;
        if matches!(ledger.tip().state.run.status, RunStatus::Running | RunStatus::Paused) {
            // No turn begins meanwhile.
            let edit = RunEdit { status: Some(RunStatus::Stopped), ..RunEdit::default() };
            self.operate(ledger, &[Command::SetRun(edit)], by)?;
            ledger.refresh()?;
            self.check_rests(ledger)?;
        }
        let state = &ledger.tip().state;
        for node in state.nodes.values() {
            let handle = format!("{}/{}", state.run.slug, node.alias);
            let found = self.workspaces.find(handle.as_ref());
            match found.and_then(|context| self.workspaces.remove(&context)) {
                // A deletion that was killed may have left a removal, which is finished now.
                Ok(_) | Err(Refusal { why: Why::NotFound, .. }) => {}
                Err(refusal) => {
                    let message =
                        format!("run {} is stopped, and not deleted: {}", state.run.slug, refusal.message);
                    return Err(Refusal { message, ..refusal });
                }
            }
        }
        Ok(deletion::delete(self.repo, state.run.id, &self.op_by(by.clone())?, false)?)
    }

    /// Refuses while a turn of the run is under way.
    fn check_rests(&self, ledger: &Ledger<'_>) -> Result<(), Refusal> {
        let run = &ledger.tip().state.run;
        for node in ledger.tip().state.nodes.values() {
            let driver = self.driver_named(ledger, node.alias.as_str())?;
            if let Some(lease) = self.live_turn(&driver)? {
                let message = format!("{} has a turn under way; nothing was deleted", node.alias);
                return Err(Refusal::new(Why::Conflict, message).hint(match self.left_words(&lease) {
                    Some(gone) => format!("{gone}; then delete it"),
                    None => format!("`aynig orch run stop {}` ends it in seconds; then again", run.slug),
                }));
            }
        }
        Ok(())
    }

    fn driver_at(&self, ledger: &Ledger<'_>, id: NodeId) -> Result<(Node, Driver<'_>), Refusal> {
        let state = &ledger.tip().state;
        let unknown = || Refusal::new(Why::NotFound, format!("run {} has no node {id}", state.run.slug));
        let node = state.nodes.get(&id).ok_or_else(unknown)?;
        Ok((node.clone(), self.driver_named(ledger, node.alias.as_str())?))
    }

    /// Whether a turn is under way, on any host.
    fn has_live_turn(&self, driver: &Driver<'_>) -> Result<bool, Refusal> {
        self.live_turn(driver).map(|lease| lease.is_some())
    }

    /// The lease of the turn that a driver is under.
    fn live_turn(&self, driver: &Driver<'_>) -> Result<Option<Lease>, Refusal> {
        let lease = self.lease(driver.ask()?);
        Ok(lease.filter(|lease| matches!(lease.liveness(clock::wall_seconds()), Liveness::Live { .. })))
    }
}
