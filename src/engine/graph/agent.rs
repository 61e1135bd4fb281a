//! Runs the agent of a node in its turn (CONTRACT 22.3, 22.26).
//!
//! Invariant: the prompt is on the disk before any of it is sent.

use std::ffi::OsString;
use std::time::Duration;

use crate::crashpoint::{Point, reach};
use crate::engine::agent::{posture, record_turn};
use crate::engine::attempt::Work;
use crate::engine::course::Carried;
use crate::engine::policy::Rules;
use crate::engine::record::ProviderUsed;
use crate::engine::{Engine, Stirred};
use crate::flow::document::Execution;
use crate::model::ids::{ApprovalId, MessageId, TurnId};
use crate::model::limits::time_left;
use crate::model::node::{CliPermissions, EdgeManagement, Node};
use crate::model::step::Outcome;
use crate::provider::{self, How, Ids, Posture, Provider, Tools, Turn, discard_output};
use crate::supervise::Worked;
use crate::words::pluralize;
use crate::workspace::refusal::{Refusal, Why};

use super::gate::{Asking, Managing, Owner, cannot_ask};
use super::hand::Hand;
use super::of::Of;
use super::permitted::rules_of;
use super::session::Opened;
use super::telemetry::{About, Telemetry};

/// The least time of a turn.
const LEAST: Duration = Duration::from_secs(1);

/// The agent's program has ended.
pub(super) struct Ran {
    pub(super) ended: provider::Ended,
    pub(super) carried: Carried,
    /// The answers of people that it was given.
    pub(super) heard: Vec<ApprovalId>,
    /// The time that the limits of run and node left to it.
    pub(super) left: Option<Duration>,
    pub(super) opened: Opened,
}

impl Engine<'_> {
    /// Runs the agent on its inbox, in its session, with `notes` for it. The turn `found` this commit on the work branch.
    /// The inner error says why this host cannot.
    pub(super) fn run_turn(
        &self,
        work: &mut Work<'_, '_>,
        of: &Of<'_>,
        (read, notes, found): (&[MessageId], Vec<String>, &str),
        hand: &Hand,
    ) -> Result<Result<Ran, String>, Refusal> {
        let state = &work.ledger.tip().state;
        // Lost turns of it may have been recorded just now.
        let node = &state.nodes.get(&of.node.id).unwrap_or(&of.node).clone();
        let Some(config) = state.configs.get(&node.id).cloned() else {
            return Ok(Err(format!("{} has no configuration", node.alias)));
        };
        let provider = match self.provider(config.provider_name.as_str()) {
            Ok(provider) => provider,
            Err(why) => return Ok(Err(why)),
        };
        let asking = match self.asking(work, node, &provider, hand)? {
            Ok(asking) => asking,
            Err(why) => return Ok(Err(why)),
        };
        let mode = work.ledger.tip().state.run.global_mode;
        let run = work.ledger.tip().state.run.id.to_string();
        let (id, worktree) = (node.id.to_string(), work.context.worktree_path.clone());
        let evidence = work.recorder.path().to_owned();
        let stirred = Stirred::new(&worktree);
        let worked = Worked::new(&provider::leash(work.attempt));
        let changed = || stirred.has_changed() || worked.has_worked();
        // A turn of no time at all would do nothing.
        let left = time_left(&work.ledger.tip().state, node.id).map(|left| left.max(LEAST));
        let environment: Vec<(OsString, OsString)> = self.step_environment(work, &run);
        let tools = Tools {
            program: self.program.clone(),
            args: ["-C".into(), worktree.clone().into(), "orch".into(), "mcp".into()].to_vec(),
        };
        let mut opened = self.open_session(work, (node, of.turn, read), &config, (&provider, found));
        let telemetry = self.telemetry(of, read.len());
        let ended = loop {
            let prompt = self.write_prompt(work, (node, read, &notes), &mut opened)?;
            reach(Point::AgentStarts);
            let ended = provider::run(&Turn {
                provider: &provider,
                directory: &worktree,
                prompt: prompt.text.as_bytes(),
                posture: posture_of(node, &rules_of(node, mode)),
                model: config.model.as_deref(),
                session: opened.begun.id(),
                is_delta: prompt.is_delta,
                listener: telemetry.listener(),
                wall: left,
                idle: None,
                environment: &environment,
                ids: Ids { run: &run, node: &id, turn: work.attempt },
                evidence: &evidence,
                changed: &changed,
                stop: &work.stop,
                gate: asking.as_ref().filter(|_| is_gated(node)).map(Asking::gate),
                tools: Some(&tools),
                watchdog: Some(&self.watchdog),
            });
            reach(Point::AgentEnded);
            if !ended.has_no_session {
                break ended;
            }
            discard_output(&evidence);
            opened.forget();
        };
        drop(telemetry);
        if let How::Unavailable(why) = &ended.how {
            return Ok(Err(why.clone()));
        }
        let outcome = if ended.how == How::Completed { Outcome::Completed } else { Outcome::Error };
        let mut carried = Carried::new(outcome, ended.evidence.clone());
        carried.model.clone_from(&ended.model);
        carried.exit = ended.exit;
        carried.provider =
            Some(ProviderUsed { name: provider.name.as_str().to_owned(), version: ended.version.clone() });
        record_turn(work, &ended, &carried, &opened.begun)?;
        let heard = asking.as_ref().map(Asking::heard).unwrap_or_default();
        Ok(Ok(Ran { ended, carried, heard, left, opened }))
    }

    fn telemetry(&self, of: &Of<'_>, read: usize) -> Telemetry {
        let about = About { run: of.node.run_id, node: of.node.id, turn: of.turn };
        let what = format!("reads {}", pluralize(read, "item"));
        Telemetry::of(self.repo, &self.directory(about.run), about, what)
    }

    /// Takes the requests of a node's program and hand. The inner error says why this host cannot run it.
    fn asking(
        &self,
        work: &Work<'_, '_>,
        node: &Node,
        provider: &Provider,
        hand: &Hand,
    ) -> Result<Result<Option<Asking>, String>, Refusal> {
        if is_gated(node) && !provider.can_ask() {
            let slug = &work.ledger.tip().state.run.slug;
            let set = format!("aynig orch node set {slug} {} --permissions skip", node.alias);
            return Ok(Err(format!("{} (`{set}`)", cannot_ask(provider.name.as_str()))));
        }
        let manages = node.capabilities.edge_management != EdgeManagement::None
            && node.permissions.agent_management_requires_approval;
        if !is_gated(node) && !manages {
            return Ok(Ok(None));
        }
        let run = work.ledger.tip().state.run.id;
        let turn = TurnId::parse(work.attempt)
            .ok_or_else(|| Refusal::new(Why::Usage, format!("{} is no id of an attempt", work.attempt)))?;
        let owner = Owner { run, node: node.id, turn, manners: self.manners.clone() };
        let managing = Managing { hand: hand.clone(), stop: work.stop.clone() };
        Asking::of(self.repo, work.ledger.place(), owner, managing).map(|asking| Ok(Some(asking)))
    }
}

/// Whether the tools of a node are asked for.
fn is_gated(node: &Node) -> bool {
    node.permissions.cli_permissions_mode == CliPermissions::Gated
}

/// The posture of a node's program. One that may run no commands is started read-only.
fn posture_of(node: &Node, rules: &Rules) -> Posture {
    let posture = posture(rules);
    if node.capabilities.run_commands {
        posture
    } else {
        Posture { execution: Execution::ReadOnly, ..posture }
    }
}
