//! Drivers of nodes that do not stand where the ledger says, and how they get there (CONTRACT 22.1).

use crate::contract::ids::BranchName;
use crate::engine::attempt::{Attempt, Ended};
use crate::engine::driver::{Driver, TURN};
use crate::engine::{Engine, now};
use crate::ledger::Ledger;
use crate::model::decide::{Command, Steer};
use crate::model::ids::NodeId;
use crate::model::node::Node;
use crate::model::run::RunKind;
use crate::model::state::State;
use crate::workspace::refusal::Refusal;

use super::operate::{Move, Standing, is_behind, next_of};

/// A driver that does not stand where the ledger says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Astray {
    /// The driver.
    pub branch: BranchName,
    /// The alias of its node.
    pub alias: String,
    /// What is wrong with it.
    pub why: String,
}

impl Engine<'_> {
    /// Carries on after an attempt of a driver that was cut off, of a flow or of a node.
    pub fn recover_driver(&self, attempt: &Attempt) -> Result<Ended, Refusal> {
        match self.opened_ledger(attempt) {
            Ok(ledger) if ledger.tip().state.run.kind == RunKind::Graph => self.recover_turn(attempt),
            Ok(_) | Err(_) => self.recover(attempt),
        }
    }

    /// The drivers of a graph, as the place of decision has them, that nobody carries on although their nodes have a turn.
    pub fn astray(&self, ledger: &Ledger<'_>) -> Result<Vec<Astray>, Refusal> {
        let (state, at) = (&ledger.tip().state, now()?);
        let nodes: Vec<&Node> = state.nodes.values().collect();
        let drivers = nodes.iter().map(|node| self.driver_named(ledger, node.alias.as_str()));
        let drivers = drivers.collect::<Result<Vec<_>, Refusal>>()?;
        let heads = self.heads(ledger.place(), &drivers)?;
        let mut astray = Vec::new();
        // A copy of a ledger has no drivers at all.
        if heads.is_empty() {
            return Ok(astray);
        }
        for (node, driver) in nodes.into_iter().zip(drivers) {
            if next_of(state, node.id, at, &self.pauses).state != TURN {
                continue;
            }
            let why = match self.standing(heads.get(&driver.branch).copied())? {
                Standing::Missing => "the driver is missing".to_owned(),
                Standing::Unusable => "the driver declares nothing that can be used".to_owned(),
                Standing::Rests(known, ..) if known.as_str() != TURN => {
                    format!("the driver rests in {known}")
                }
                Standing::Held | Standing::Rests(..) => continue,
            };
            let unread = state.inbox(node.id).len();
            let why = format!("{why}, and the node has {unread} unread");
            astray.push(Astray { branch: driver.branch, alias: node.alias.to_string(), why });
        }
        Ok(astray)
    }

    /// The drivers of nodes that a person starts or changes by these commands, as far as they are not where the ledger says.
    /// A host that could not run a node's provider parked its driver: another provider is tried at once.
    pub(super) fn started<'d>(
        &'d self,
        ledger: &Ledger<'_>,
        after: &State,
        commands: &[Command],
        moves: &[Move<'_>],
    ) -> Result<Vec<Move<'d>>, Refusal> {
        let mut more = Vec::new();
        let started = commands.iter().filter_map(|command| match command {
            Command::SteerNode(id, Steer::Start) | Command::SetNode(id, _) => Some(*id),
            _ => None,
        });
        for id in started {
            more.extend(self.moved_on(ledger, after, id)?);
        }
        let is_new = |one: &Move<'_>| moves.iter().all(|other| other.driver.branch != one.driver.branch);
        more.retain(is_new);
        Ok(more)
    }

    fn moved_on(&self, ledger: &Ledger<'_>, after: &State, id: NodeId) -> Result<Option<Move<'_>>, Refusal> {
        let Some(node) = after.nodes.get(&id) else { return Ok(None) };
        let driver = self.driver_named(ledger, node.alias.as_str())?;
        let driver = Driver { role: after.reserved_role(id).map(str::to_owned), ..driver };
        let next = next_of(after, id, now()?, &self.pauses);
        let before = driver.ask()?;
        if !is_behind(&self.standing(before)?, &next) {
            return Ok(None);
        }
        let new = driver.commit(before, &next, None)?;
        Ok(Some(Move { driver, before, new }))
    }
}
