//! Operations on a graph: commands, and the drivers that they wake, in one transaction (CONTRACT 22.2).
//!
//! Invariant: an operation and the wake-ups that follow from it land together or not at all. A driver is moved from
//! exactly the commit that was read; one under a lease is not moved, since the end of that lease reads the ledger anew.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::clock;
use crate::contract::head::Head;
use crate::contract::ids::{BranchName, CommitId, StateName};
use crate::contract::parking::{Parking, parking};
use crate::contract::waits_for::WaitsFor;
use crate::git::remote::PATIENCE;
use crate::git::{RefChange, Repo};
use crate::ledger::history::backwards;
use crate::ledger::{Ledger, LedgerError, Place, Tip};
use crate::model::by::By;
use crate::model::decide::{Command, Decided, Op, RefusalKind};
use crate::model::ids::{NodeId, OpId, RunId};
use crate::model::node::Node;
use crate::model::run::RunKind;
use crate::model::state::State;
use crate::model::step::TurnStatus;
use crate::model::time::Timestamp;
use crate::orch::due::{Due, Rest, due};
use crate::words::{pluralize, shortened};
use crate::workspace::refusal::{Refusal, Why};

use crate::engine::driver::{Driver, IDLE, Next, TURN};
use crate::engine::{Engine, Moved, now, open, remote_of};

/// The operations among which one that was asked for before is looked for.
const REMEMBERED: usize = 1_000;

/// The longest reason in the subject of a driver's state, in characters.
const MOST_SAID: usize = 600;

/// How often an operation is worked out anew.
const TRIES: u32 = 100;

/// A driver that an operation moves.
pub(super) struct Move<'a> {
    pub(super) driver: Driver<'a>,
    pub(super) before: Option<CommitId>,
    pub(super) new: CommitId,
}

impl Move<'_> {
    pub(super) fn change(&self) -> RefChange {
        RefChange { name: self.driver.branch.full_ref(), expected: self.before, new: Some(self.new) }
    }
}

/// The declared state of a driver, as far as it matters for a wake-up.
pub(super) enum Standing {
    /// There is none.
    Missing,
    /// It is under a lease, or its attempt was cut off: whoever ends that reads the ledger.
    Held,
    /// It rests in this state, until this time in seconds since 1970, and waits for a person or not.
    Rests(StateName, Option<i64>, bool),
    /// It declares nothing that can be used.
    Unusable,
}

impl Engine<'_> {
    /// Opens the ledger of a graph, as the place of decision has it now.
    pub fn graph(&self, run: RunId) -> Result<Ledger<'_>, Refusal> {
        let ledger = open(self.repo, run)?;
        let state = &ledger.tip().state.run;
        if state.kind != RunKind::Graph {
            let message = format!("run {} is a flow, and no graph; nothing was changed", state.slug);
            return Err(Refusal::new(Why::Usage, message).hint("`aynig flow --help` is about flows"));
        }
        Ok(ledger)
    }

    /// Carries out commands on a graph, all or none, and wakes the drivers of nodes that are due by them.
    pub fn operate(
        &self,
        ledger: &mut Ledger<'_>,
        commands: &[Command],
        by: &By,
    ) -> Result<Decided, Refusal> {
        self.operate_beside(ledger, commands, by, &|_| Ok(Vec::new()))
    }

    /// Carries out commands together with other changes of refs, which are worked out for each try.
    pub(super) fn operate_beside(
        &self,
        ledger: &mut Ledger<'_>,
        commands: &[Command],
        by: &By,
        beside: &dyn Fn(&Ledger<'_>) -> Result<Vec<RefChange>, Refusal>,
    ) -> Result<Decided, Refusal> {
        let is_known = self.op.get().is_some();
        let op = self.op_by(by.clone())?;
        for lost in 0..TRIES {
            // Each time: the same request may have been carried out meanwhile, by another process.
            if is_known && let Some(earlier) = earlier(self.repo, ledger.tip(), op.id)? {
                return Ok(earlier);
            }
            let before = ledger.tip().state.clone();
            let after = match ledger.decide(commands, &op) {
                Ok(decided) => decided.state,
                Err(error) => return Err(error.into()),
            };
            let mut moves = self.woken(ledger, (&before, &after), None)?;
            moves.extend(self.started(ledger, &after, commands, &moves)?);
            let mut refs: Vec<RefChange> = moves.iter().map(Move::change).collect();
            refs.extend(beside(ledger)?);
            match ledger.operate_on_this(&op, commands, &refs) {
                // It landed by another process meanwhile.
                Ok(operated) if is_known && operated.decided.events.is_empty() => {
                    let landed = earlier(self.repo, ledger.tip(), op.id)?;
                    return Ok(landed.unwrap_or(operated.decided));
                }
                Ok(operated) => {
                    self.announce(ledger, &moves);
                    return Ok(operated.decided);
                }
                Err(LedgerError::Moved { .. } | LedgerError::Fenced { .. }) => ledger.catch_up(lost)?,
                Err(error) => return Err(error.into()),
            }
        }
        let slug = &ledger.tip().state.run.slug;
        Err(Refusal::new(Why::Conflict, format!("run {slug} moves all the time; nothing was changed"))
            .hint("try again"))
    }

    /// Whether the operation of a request with a key is among the newest of the run.
    ///
    /// # Errors
    /// The key is of another request, or the ledger is damaged.
    pub fn has_carried_out(&self, run: RunId) -> Result<bool, Refusal> {
        let Some(op) = self.op.get() else { return Ok(false) };
        Ok(earlier(self.repo, &crate::ledger::operate::here(self.repo, run)?, op)?.is_some())
    }

    /// The drivers that an operation moves, except the one of `own`: those of nodes that are new or removed, and of nodes that
    /// have a turn by it.
    pub(super) fn woken<'d>(
        &'d self,
        ledger: &Ledger<'_>,
        (before, after): (&State, &State),
        own: Option<NodeId>,
    ) -> Result<Vec<Move<'d>>, Refusal> {
        let at = now()?;
        let gone = before.nodes.values().filter(|node| !after.nodes.contains_key(&node.id));
        let gone = gone.filter(|node| Some(node.id) != own);
        let mut wanted: Vec<(&Node, Next)> = gone.map(|node| (node, removed())).collect();
        for node in after.nodes.values().filter(|node| Some(node.id) != own) {
            let is_new = !before.nodes.contains_key(&node.id);
            let is_due = due(after, node.id, at, &self.pauses);
            let changed = is_due != due(before, node.id, at, &self.pauses);
            let has_turn = !matches!(is_due, Due::Rest(_));
            let next = next_of(after, node.id, at, &self.pauses);
            // Nobody is asked for what is over.
            let is_answered =
                next.waits_for.is_none() && next_of(before, node.id, at, &self.pauses).waits_for.is_some();
            if is_new || (changed && (has_turn || is_answered)) {
                wanted.push((node, next));
            }
        }
        let drivers = wanted.iter().map(|(node, _)| {
            let driver = self.driver_named(ledger, node.alias.as_str())?;
            Ok(Driver { role: after.reserved_role(node.id).map(str::to_owned), ..driver })
        });
        let drivers = drivers.collect::<Result<Vec<_>, Refusal>>()?;
        let heads = self.heads(ledger.place(), &drivers)?;
        let mut moves = Vec::new();
        for (driver, (_, next)) in drivers.into_iter().zip(wanted) {
            let head = heads.get(&driver.branch).copied();
            if !is_behind(&self.standing(head)?, &next) {
                continue;
            }
            let new = driver.commit(head, &next, None)?;
            moves.push(Move { driver, before: head, new });
        }
        Ok(moves)
    }

    /// The newest commits of drivers at the place of decision.
    pub(super) fn heads(
        &self,
        place: &Place,
        drivers: &[Driver<'_>],
    ) -> Result<BTreeMap<BranchName, CommitId>, Refusal> {
        let because = |error: &dyn std::error::Error| Refusal::because("ask for the drivers", error);
        match remote_of(place) {
            _ if drivers.is_empty() => Ok(BTreeMap::new()),
            None => {
                let known = drivers.iter().map(|driver| Ok((driver.branch.clone(), driver.known()?)));
                let known = known.collect::<Result<Vec<_>, Refusal>>()?;
                Ok(known.into_iter().filter_map(|(branch, head)| Some((branch, head?))).collect())
            }
            Some(remote) => {
                let branches: Vec<BranchName> = drivers.iter().map(|driver| driver.branch.clone()).collect();
                let remotes = |error: &dyn std::error::Error| Refusal { why: Why::Remote, ..because(error) };
                let asked =
                    self.repo.ask_remote(remote, &branches, PATIENCE).map_err(|error| remotes(&error))?;
                let missing = asked.iter().filter(|(_, head)| self.repo.commit(**head).is_err());
                let missing: Vec<BranchName> = missing.map(|(branch, _)| branch.clone()).collect();
                if !missing.is_empty() {
                    self.repo.fetch_some(remote, &missing, PATIENCE).map_err(|error| remotes(&error))?;
                }
                Ok(asked.into_iter().collect())
            }
        }
    }

    pub(super) fn standing(&self, head: Option<CommitId>) -> Result<Standing, Refusal> {
        let Some(head) = head else { return Ok(Standing::Missing) };
        let stored = self.repo.commit(head);
        let stored = stored.map_err(|error| Refusal::because("read a driver", &error))?;
        Ok(match Head::read(&stored.facts()) {
            Head::Working(_) => Standing::Held,
            Head::Ready(event) if event.state.is_stalled() => Standing::Held,
            Head::Ready(event) => {
                let until = match parking(&event.message.trailers, clock::wall_seconds()) {
                    Parking::Until(at) => Some(at),
                    Parking::Over => None,
                    Parking::Unreadable(_) => return Ok(Standing::Unusable),
                };
                let waits = WaitsFor::of(&event.message.trailers).is_some();
                Standing::Rests(event.state, until, waits)
            }
            Head::Invalid(_) | Head::Unmanaged => Standing::Unusable,
        })
    }

    /// Notes the drivers that were moved, and reports them to whoever waits for that.
    pub(super) fn announce(&self, ledger: &Ledger<'_>, moves: &[Move<'_>]) {
        for one in moves {
            one.driver.note(one.new);
            (self.moved)(&Moved {
                branch: &one.driver.branch,
                remote: remote_of(&one.driver.place),
                commit: one.new,
                previous: self.state_before(one.before),
                run: &ledger.tip().state,
            });
        }
    }

    /// An operation of a node in its turn.
    pub(super) fn op_of_node(&self, node: NodeId) -> Result<Op, Refusal> {
        self.op_by(By::Node { node, runner: self.repo.runner_id().to_owned() })
    }
}

/// Finds an operation by its id among the newest ones. Returns its events, and the state as it is now.
fn earlier(repo: &Repo, tip: &Tip, op: OpId) -> Result<Option<Decided>, Refusal> {
    let Tip { id, state, .. } = tip;
    for earlier in backwards(repo, state.run.id, *id).take(REMEMBERED) {
        let earlier = earlier?;
        if earlier.op != op && earlier.op.has_key_of(op) {
            let message = "another request had this key before; nothing was changed";
            let refusal = Refusal::new(Why::Conflict, message).hint("give each request a key of its own");
            return Err(Refusal { rule: Some((RefusalKind::Conflict, "key_reused")), ..refusal });
        }
        if earlier.op == op {
            return Ok(Some(Decided {
                events: earlier.events,
                state: state.clone(),
                changed: BTreeSet::new(),
            }));
        }
    }
    Ok(None)
}

/// Whether a driver has to be moved to `next`.
pub(super) fn is_behind(standing: &Standing, next: &Next) -> bool {
    match standing {
        Standing::Held => false,
        Standing::Missing | Standing::Unusable => true,
        Standing::Rests(state, until, waits) => {
            let as_next = (next.state, next.not_before, next.waits_for.is_some());
            (state.as_str(), *until, *waits) != as_next
        }
    }
}

/// The state of the driver of a node that was removed.
pub(super) fn removed() -> Next {
    let subject = format!("{IDLE}: the node was removed");
    Next { state: IDLE, subject, ..Next::default() }
}

/// The host that has the session of a node, unless the last turn ended it.
fn warm_host(node: &Node) -> Option<String> {
    let is_left = node.turn.as_ref().is_some_and(|last| last.status != TurnStatus::Failed.word());
    node.session.runner.clone().filter(|_| is_left && node.session.has_begun())
}

/// The state of a node's driver that follows from the ledger.
pub(super) fn next_of(state: &State, id: NodeId, at: Timestamp, pauses: &[Duration]) -> Next {
    let slug = &state.run.slug;
    let alias = state.nodes.get(&id).map(|node| node.alias.to_string()).unwrap_or_default();
    let rests = |words: String, waits_for: Option<String>| Next {
        state: IDLE,
        subject: format!("{IDLE}: {words}"),
        waits_for,
        ..Next::default()
    };
    let later = |when: Timestamp, words: String| {
        let second = when.millis().div_euclid(1_000) + i64::from(when.millis().rem_euclid(1_000) > 0);
        let subject = format!("{TURN}: {words}");
        Next { state: TURN, subject, not_before: Some(second), ..Next::default() }
    };
    match due(state, id, at, pauses) {
        Due::Turn { read } => {
            let items = pluralize(read.len(), "unread item");
            let subject = format!("{TURN}: {alias} has {items}{}", unsaid(state, id));
            let prefer = state.nodes.get(&id).and_then(warm_host);
            Next { state: TURN, subject, prefer, ..Next::default() }
        }
        Due::Later(when) => later(when, format!("{alias} is tried again at {when}{}", failure(state, id))),
        Due::Waits(until) => later(until, format!("{alias} waits for an answer until {until}")),
        Due::Overdue => {
            let subject = format!("{TURN}: {alias} got no answer in time");
            Next { state: TURN, subject, ..Next::default() }
        }
        Due::Rest(Rest::Removed) => removed(),
        Due::Rest(Rest::Run(status)) => {
            rests(format!("the run is {}", status.word()), state.run.waiting_for.clone())
        }
        Due::Rest(Rest::Held(hold)) => {
            rests(format!("{alias} is {}: `aynig orch node start {slug} {alias}`", hold.word()), None)
        }
        Due::Rest(Rest::Failed) => rests(
            format!("{alias} has failed{}", failure(state, id)),
            Some(format!("`aynig orch chat {slug} {alias} TEXT`, or `aynig orch node start {slug} {alias}`")),
        ),
        Due::Rest(Rest::Asks(until)) => {
            let words = format!("{alias} waits for an approval");
            let waits_for = Some("`aynig orch approvals`".to_owned());
            match until {
                Some(until) => Next { waits_for, ..later(until, words) },
                None => rests(words, waits_for),
            }
        }
        Due::Rest(Rest::Nothing) => rests(format!("{alias} has read everything{}", unsaid(state, id)), None),
    }
}

/// The reason of a node's last turn, if that failed, as the end of a sentence.
fn failure(state: &State, id: NodeId) -> String {
    let failed =
        |node: &&Node| node.turn.as_ref().is_some_and(|last| last.status == TurnStatus::Failed.word());
    let node = state.nodes.get(&id).filter(failed).filter(|node| !node.summary.is_empty());
    node.map(|node| format!(": {}", said(&node.summary))).unwrap_or_default()
}

/// The unread notes for the agent of a node about its last turn, as the end of a sentence.
fn unsaid(state: &State, id: NodeId) -> String {
    let unsaid = state.nodes.get(&id).and_then(|node| Some(&node.turn.as_ref()?.unsaid));
    let words = unsaid.map(|unsaid| unsaid.join("; ")).filter(|words| !words.is_empty());
    words.map(|words| format!("; {}", said(&words))).unwrap_or_default()
}

/// A text as a part of a subject. No character is left out: that could join the parts of a secret.
pub(crate) fn said(text: &str) -> String {
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    shortened(&line, MOST_SAID)
}
