//! How this host treats requests of nodes: time limits, answers of people and their signatures (CONTRACT 22.36 to 22.38).
//!
//! Invariant: an answer is one operation of the ledger. Where it is signed, the commit of that operation is, so every host
//! that has the ledger can check it.

use std::sync::Arc;
use std::time::Duration;

use crate::contract::ids::RemoteName;
use crate::engine::Engine;
use crate::engine::signed::signature_of;
use crate::git::Repo;
use crate::ledger::tip::Tip;
use crate::ledger::{Ledger, LedgerError};
use crate::model::approval::{Approval, Tool};
use crate::model::by::{By, Signature, Signed};
use crate::model::decide::texts::cut;
use crate::model::decide::{Answered, Command, Decided, Op};
use crate::model::ids::{NodeId, TurnId};
use crate::model::node::{CliPermissions, Node};
use crate::model::state::State;
use crate::provider::AtOnce;
use crate::workspace::refusal::{Refusal, Why};

/// A request that was recorded, for those who are notified.
#[derive(Debug)]
pub struct Requested<'s> {
    /// The remote that decides its run.
    pub remote: Option<&'s RemoteName>,
    /// The run, as its ledger has it.
    pub run: &'s State,
    /// The request.
    pub approval: &'s Approval,
}

/// Hears of each request that this process recorded. It is called from any thread.
pub type Listener = dyn Fn(&Repo, &Requested<'_>) + Send + Sync;

/// How this host treats requests.
#[derive(Clone)]
pub struct Manners {
    /// The longest wait of a turn for an answer: `aynig.approvalWaitSeconds`. It is parked then.
    pub wait: Duration,
    /// The time after which a new request counts as expired: `aynig.approvalExpireSeconds`. `None`: never.
    pub expiry: Option<Duration>,
    /// Whether an answer needs a good signature: `aynig.requireSignedApprovals`.
    pub requires_signed: bool,
    /// Hears of new requests.
    pub listener: Arc<Listener>,
}

/// Records the end of requests of a node whose time is over.
pub(super) fn expire(ledger: &mut Ledger<'_>, node: NodeId, op: &Op) -> Result<(), LedgerError> {
    let mut open = ledger.tip().state.approvals.values();
    if open.any(|one| one.node_id == node && one.is_overdue(op.at)) {
        ledger.operate(op, &[Command::Expire(node)], &[])?;
    }
    Ok(())
}

/// The signature of the operation by which a request was answered, as this host finds it, and the request as that operation
/// left it. `None`: it is not signed. A call that an approval for good covers has the signature of that approval.
#[must_use]
pub fn signature(repo: &Repo, ledger: &Ledger<'_>, approval: &Approval) -> Option<(Signature, Approval)> {
    let id = match &approval.resolved_by {
        Some(By::Policy { grant: Some(grant), .. }) => *grant,
        Some(By::Person { .. }) => approval.id,
        Some(_) | None => return None,
    };
    let commit = ledger.answered_by(id)?;
    let signature = signature_of(repo, commit).signature?;
    let then = Tip::read(repo, ledger.tip().state.run.id, commit).ok()?;
    Some((signature, then.state.approvals.get(&id)?.clone()))
}

/// Why the answer to a request of a node for this tool does not count where signatures are required. What was signed counts,
/// and not what the ledger has by now.
pub(super) fn unsigned(
    repo: &Repo,
    ledger: &Ledger<'_>,
    approval: &Approval,
    tool: &Tool,
) -> Option<&'static str> {
    let Some((signature, signed)) = signature(repo, ledger, approval) else { return Some("not signed") };
    let (node, is_own) = (approval.node_id, signed.id == approval.id);
    let is_it = signed.asks_for(node, tool) && signed.resolution == approval.resolution;
    match signature.state {
        Signed::Good if is_own && is_it => None,
        Signed::Good if !is_own && signed.covers(node, tool) => None,
        Signed::Good => Some("another one than was signed"),
        Signed::Bad => Some("badly signed"),
        Signed::Unknown => Some("signed, which cannot be checked here"),
    }
}

impl Engine<'_> {
    /// Records the end of requests of a node whose time is over, before its next turn is decided.
    pub(super) fn expire_requests(&self, ledger: &mut Ledger<'_>, node: NodeId) -> Result<(), Refusal> {
        Ok(expire(ledger, node, &self.op_of_node(node)?)?)
    }

    /// Carries out the answer of a person to a request. It is signed if git's settings or those of this host require that.
    pub fn answer_request(&self, ledger: &mut Ledger<'_>, answer: Command) -> Result<Decided, Refusal> {
        let signs = self.repo.signs().map_err(|error| Refusal::because("read commit.gpgSign", &error))?;
        let by = &self.workspaces.options.by;
        if !signs && !self.manners.requires_signed {
            return self.operate(ledger, &[answer], by);
        }
        self.repo.check_settings().map_err(|error| Refusal::because("sign the answer", &error))?;
        ledger.sign();
        self.operate(ledger, &[answer], by).map_err(|refusal| match refusal.why {
            Why::Setup => {
                let message = format!("the answer was not signed: {}; nothing was changed", refusal.message);
                Refusal { message, ..refusal }.hint(
                    "`git config user.signingKey KEY` names the key, and `git config gpg.format ssh` is for one of ssh",
                )
            }
            _ => refusal,
        })
    }
}

/// The longest arguments of a request that is only recorded, in bytes of JSON.
const MOST_RECORDED: usize = 8 * 1024;

/// The requests of a node that asks nobody, which its permissions answered. Of long arguments the transcript has the rest.
pub(super) fn answered_of(node: &Node, turn: TurnId, all: &[AtOnce]) -> Vec<Answered> {
    if node.permissions.cli_permissions_mode == CliPermissions::Gated {
        return Vec::new();
    }
    let recorded = |one: &AtOnce| {
        let (mut tool, mut context) = (one.tool.of_turn(turn), one.context.clone());
        let length = serde_json::to_vec(&tool.args).map_or(0, |text| text.len());
        if length > MOST_RECORDED {
            tool.args.clear();
            context = Some(format!("its arguments have {length} bytes; the transcript of the turn has them"));
        }
        context.iter_mut().for_each(|text| cut(text, MOST_RECORDED));
        Answered { tool, context, is_approved: one.is_approved }
    };
    all.iter().map(recorded).collect()
}
