//! Requests of a turn for approval: each is an operation of its own, and its answer comes from the ledger (CONTRACT 22.12).
//!
//! Invariants: a tool runs only after its run's ledger has an approval of that call, and notes that this turn gets it: so a
//! tool runs once at most by one approval, whoever is killed when. An answer that comes too late is kept for the next turn.
//! Nobody waits for a remote when the turn ends. The answer to an act of the agent's hand counts with the turn that carries
//! the act out, and until then for each that asks the same.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::clock::Stopwatch;
use crate::crashpoint::{Point, reach};
use crate::engine::{now, open, remote_of};
use crate::fsutil::DirectoryWatch;
use crate::git::Repo;
use crate::git::process::cancel::Interrupt;
use crate::ledger::watch::Watch;
use crate::ledger::{Ledger, LedgerError, Masks, Place};
use crate::model::approval::{Answer, Approval, Tool};
use crate::model::by::By;
use crate::model::decide::texts::MAX_TEXT;
use crate::model::decide::{Command, Decided, Op, Refusal as NotDone};
use crate::model::event::Body;
use crate::model::ids::{ApprovalId, NodeId, OpId, RunId, TurnId};
use crate::model::state::State;
use crate::model::time::Timestamp;
use crate::provider::gate::{Gate, Reply, Request, Resolution};
use crate::stop::Stop;
use crate::workspace::refusal::{Refusal, Why};

use super::act::{CREATE_EDGE, SPAWN_NODE};
use super::answers::{Manners, Requested, expire, unsigned};
use super::hand::Hand;
use super::staged::Act;

/// The longest wait for the next look. Moves and new requests come before.
const LOOK: Duration = Duration::from_secs(5);

/// The beginning of the ids of requests about acts. No provider's id has it.
const ACT: &str = "act\0";

/// The longest wait for a call to a remote that is being ended.
const PATIENCE: Duration = Duration::from_secs(2);

/// The owner of a turn's requests.
#[derive(Clone)]
pub(super) struct Owner {
    pub(super) run: RunId,
    pub(super) node: NodeId,
    pub(super) turn: TurnId,
    pub(super) manners: Manners,
}

/// The hand of the turn, whose acts people may have to approve (CONTRACT 22.15).
#[derive(Debug, Clone)]
pub(super) struct Managing {
    pub(super) hand: Hand,
    /// Ends the turn when one of its acts is not answered in time.
    pub(super) stop: Stop,
}

/// Takes the requests of a turn until it is ended or dropped.
pub(super) struct Asking {
    door: Door,
    call: Interrupt,
    is_over: Arc<AtomicBool>,
    /// Closed when the thread has ended.
    over: Receiver<()>,
}

/// Where a program's requests come in.
struct Door {
    to: Sender<(Request, Reply)>,
    bell: Sender<()>,
    known: Arc<Mutex<Known>>,
}

/// The answers so far, by the ids that the provider gave to its requests.
#[derive(Debug, Default)]
struct Known {
    heard: BTreeMap<String, ApprovalId>,
    withdrawn: BTreeSet<String>,
}

impl Known {
    fn ids(&self) -> Vec<ApprovalId> {
        self.heard.values().copied().collect()
    }
}

fn lock(known: &Mutex<Known>) -> std::sync::MutexGuard<'_, Known> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Gate for Door {
    fn asked(&self, request: Request, reply: Reply) {
        // Without its thread the reply is dropped, and the tool denied.
        self.to.send((request, reply)).ok();
        self.bell.send(()).ok();
    }

    fn withdrawn(&self, id: &str) {
        let mut known = lock(&self.known);
        known.heard.remove(id);
        known.withdrawn.insert(id.to_owned());
        drop(known);
        self.bell.send(()).ok();
    }
}

impl Asking {
    /// Takes the requests of a turn of `owner`, whose run is decided at `place`, on a thread of its own.
    pub(super) fn of(repo: &Repo, place: &Place, owner: Owner, managing: Managing) -> Result<Self, Refusal> {
        let (bell, news) = mpsc::channel();
        let (to, requests) = mpsc::channel();
        let (alive, over) = mpsc::channel();
        let (known, call) = (Arc::<Mutex<Known>>::default(), Interrupt::default());
        let is_over = Arc::<AtomicBool>::default();
        let answerer = Answerer {
            owner,
            place: place.clone(),
            requests,
            known: Arc::clone(&known),
            is_over: Arc::clone(&is_over),
            open: Vec::new(),
            managing,
            taken: BTreeSet::new(),
        };
        let (store, ring, interrupt) = (repo.store(), bell.clone(), call.clone());
        let thread = thread::Builder::new().name("approvals".to_owned()).spawn(move || {
            let _alive: Sender<()> = alive;
            answerer.serve(&store.handle().ended_by(interrupt), (ring, news));
        });
        thread.map_err(|error| Refusal::because("begin a thread for requests", &error))?;
        Ok(Self { door: Door { to, bell, known }, call, is_over, over })
    }

    /// Where the program's requests come in.
    pub(super) fn gate(&self) -> &dyn Gate {
        &self.door
    }

    /// The answers that the program was given.
    pub(super) fn heard(&self) -> Vec<ApprovalId> {
        lock(&self.door.known).ids()
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.call.end_all();
        // A thread that has ended hears no bell.
        self.door.bell.send(()).ok();
        if self.over.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            tracing::debug!("the call of a remote does not end; it is left to itself");
        }
    }
}

/// A request that waits for its answer.
struct Open {
    /// Whether it is about an act of the hand.
    is_act: bool,
    request: Request,
    reply: Reply,
    since: Stopwatch,
    /// Its approval, once the ledger has it.
    approval: Option<ApprovalId>,
    /// When its time is over.
    expires_at: Option<Timestamp>,
    /// The tool as the ledger has it, with secrets masked.
    tool: Option<Tool>,
    /// Why the ledger does not have it.
    trouble: Option<String>,
}

struct Answerer {
    owner: Owner,
    place: Place,
    requests: Receiver<(Request, Reply)>,
    known: Arc<Mutex<Known>>,
    is_over: Arc<AtomicBool>,
    open: Vec<Open>,
    managing: Managing,
    /// The questions of the hand so far.
    taken: BTreeSet<String>,
}

impl Open {
    fn new(is_act: bool, request: Request, reply: Reply) -> Self {
        let since = Stopwatch::start();
        Self { is_act, request, reply, since, approval: None, expires_at: None, tool: None, trouble: None }
    }

    /// The call as the run knows it. An agent can write the file of an act, so no id in that counts.
    fn tool_in(&self, turn: TurnId) -> Tool {
        let Tool { id, name, args, .. } = self.request.tool.clone();
        Tool::new(if self.is_act { String::new() } else { id }, name, args).of_turn(turn)
    }
}

impl Answerer {
    fn serve(mut self, repo: &Repo, bell: (Sender<()>, Receiver<()>)) {
        let place = self.place.clone();
        let ring = bell.0.clone();
        // Where files cannot be watched the looks are enough.
        let _acts = DirectoryWatch::of(self.managing.hand.path(), move || {
            ring.send(()).ok();
        });
        let mut watch = Watch::with_bell(repo, &place, bell);
        while !self.is_over.load(Ordering::Relaxed) {
            let new = self.requests.try_iter().map(|(request, reply)| Open::new(false, request, reply));
            self.open.extend(new);
            self.take_acts();
            let withdrawn = lock(&self.known).withdrawn.clone();
            self.open.retain(|one| !withdrawn.contains(&one.request.id));
            self.record_new(repo);
            if let Err(refusal) = self.answer_known(repo) {
                tracing::debug!(refusal.message, run = %self.owner.run, "the ledger of a turn that waits for an answer");
            }
            if self.park() {
                return;
            }
            let wait = self.owner.manners.wait;
            let left = self.open.iter().map(|one| wait.saturating_sub(one.since.elapsed()));
            let expires = self.open.iter().filter_map(|one| left_until(one.expires_at?));
            watch.next(left.chain(expires).min().unwrap_or(LOOK).min(LOOK));
        }
    }

    /// Takes the new questions of the hand.
    fn take_acts(&mut self) {
        for (name, ask) in self.managing.hand.asks() {
            if Act::of_tool(&ask.tool.name, ask.tool.args.clone()).is_err()
                || !self.taken.insert(name.clone())
            {
                continue;
            }
            let Managing { hand, stop } = self.managing.clone();
            let request = Request {
                id: format!("{ACT}{name}"),
                tool: ask.tool,
                context: ask.context,
                carries_reason: true,
                carries_args: true,
            };
            let reply = Reply::new(move |resolution| {
                if resolution == Resolution::Parked {
                    // The turn ends before the agent can go on.
                    stop.call_off();
                }
                if let Err(error) = hand.answer(&name, &resolution.recorded()) {
                    tracing::warn!(%error, "the answer to an agent was not written");
                }
            });
            self.open.push(Open::new(true, request, reply));
        }
    }

    /// Records the requests that the ledger does not have. A refused one is denied; an unreachable remote is tried again.
    fn record_new(&mut self, repo: &Repo) {
        let (known, new): (Vec<Open>, Vec<Open>) =
            std::mem::take(&mut self.open).into_iter().partition(|one| one.approval.is_some());
        self.open = known;
        for mut one in new {
            match self.record(repo, &one) {
                Ok(recorded) => {
                    (one.approval, one.expires_at) = (Some(recorded.id), recorded.expires_at);
                    one.tool = Some(recorded.tool);
                    self.open.push(one);
                }
                Err(refusal) if refusal.why.is_of_remote() || refusal.why == Why::Conflict => {
                    one.trouble = Some(refusal.message);
                    self.open.push(one);
                }
                Err(refusal) => one.reply.send(Resolution::Denied { reason: Some(refusal.message) }),
            }
        }
    }

    /// The approval of a request, with the time limit of an open one: one that is open, one with an answer that no turn has
    /// heard, or a new one. No other request of this turn has it, unless it is an act.
    fn record(&self, repo: &Repo, one: &Open) -> Result<Approval, Refusal> {
        let (node, turn, request) = (self.owner.node, self.owner.turn, &one.request);
        // An answer to it would be one to an act, which people decide by what the act really does.
        if !one.is_act && [SPAWN_NODE, CREATE_EDGE].contains(&request.tool.name.as_str()) {
            let message =
                format!("{} is no tool of the program: `aynig orch` requests it", request.tool.name);
            return Err(Refusal::new(Why::Usage, message));
        }
        // A person decides by what the ledger shows. Nothing of it may be cut off.
        if serde_json::to_vec(&request.tool.args).is_ok_and(|text| text.len() > MAX_TEXT) {
            let message = format!(
                "the arguments of {} are longer than {MAX_TEXT} bytes, so nobody can be asked about them; \
                 do it in smaller steps",
                request.tool.name
            );
            return Err(Refusal::new(Why::Usage, message));
        }
        let mut ledger = open(repo, self.owner.run)?;
        let mut heard = Vec::new();
        if !one.is_act {
            heard.extend(lock(&self.known).ids());
            heard.extend(self.open.iter().filter_map(|one| one.approval));
        }
        let masks = Masks::of(repo, &ledger.tip().state.run.base_sha)?;
        let ask = Command::Ask {
            node,
            tool: one.tool_in(turn),
            context: context(request),
            expires_at: self.owner.manners.expiry.map(after).transpose()?,
            heard: heard.clone(),
            // An approval for good covers tools, and no acts.
            turn: (!one.is_act).then_some(turn),
        };
        let masked = masks.commands(std::slice::from_ref(&ask));
        let Some(Command::Ask { tool, .. }) = masked.first() else {
            return Err(Refusal::new(Why::Failed, "the request was not recorded"));
        };
        let operated = ledger.operate(&self.op(repo)?, &[ask], &[])?;
        let found = meant(&operated.decided.state, (node, turn), tool, &heard)
            .ok_or_else(|| Refusal::new(Why::Failed, "the request was not recorded"))?;
        if found.is_open() && is_new(&operated.decided, found.id) {
            let remote = remote_of(&self.place);
            (self.owner.manners.listener)(
                repo,
                &Requested { remote, run: &operated.decided.state, approval: found },
            );
        }
        let expires_at = found.expires_at.filter(|_| found.is_open());
        Ok(Approval { expires_at, ..found.clone() })
    }

    /// An operation of the node.
    fn op(&self, repo: &Repo) -> Result<Op, Refusal> {
        let by = By::Node { node: self.owner.node, runner: repo.runner_id().to_owned() };
        Ok(Op { id: OpId::random(), at: now()?, by })
    }

    /// Hands the answers over that the ledger has.
    fn answer_known(&mut self, repo: &Repo) -> Result<(), Refusal> {
        if self.open.iter().all(|one| one.approval.is_none()) {
            return Ok(());
        }
        let mut ledger = Ledger::open(repo, self.owner.run)?;
        let op = self.op(repo)?;
        expire(&mut ledger, self.owner.node, &op)?;
        for mut one in std::mem::take(&mut self.open) {
            let answer = one.approval.and_then(|id| {
                let resolution = resolution(ledger.tip().state.approvals.get(&id))?;
                Some((id, resolution))
            });
            let Some((id, resolution)) = answer else {
                self.open.push(one);
                continue;
            };
            if lock(&self.known).withdrawn.contains(&one.request.id) {
                continue;
            }
            if matches!(resolution, Resolution::Approved | Resolution::ApprovedWith(_)) {
                if let Some(why) = one.tool.as_ref().and_then(|tool| self.unsigned(repo, &ledger, id, tool)) {
                    if !one.is_act {
                        lock(&self.known).heard.insert(one.request.id.clone(), id);
                    }
                    one.reply.send(Resolution::Denied { reason: Some(why) });
                    continue;
                }
                // An act is carried out by the operation that ends the turn, and so once.
                let heard = if one.is_act { Ok(()) } else { self.hear(&mut ledger, id, &op) };
                match heard {
                    Ok(()) => {}
                    // Another turn has got it: this call is one of its own.
                    Err(LedgerError::Refused(NotDone::HeardBefore | NotDone::NoApproval(_))) => {
                        (one.approval, one.expires_at) = (None, None);
                        self.open.push(one);
                        continue;
                    }
                    Err(LedgerError::Refused(why)) => {
                        one.reply.send(Resolution::Denied { reason: Some(why.to_string()) });
                        continue;
                    }
                    Err(error) => {
                        one.trouble = Some(error.to_string());
                        self.open.push(one);
                        continue;
                    }
                }
            }
            // The request may be withdrawn at the same time.
            let mut known = lock(&self.known);
            if !known.withdrawn.contains(&one.request.id) {
                if !one.is_act {
                    known.heard.insert(one.request.id.clone(), id);
                }
                one.reply.send(resolution);
            }
        }
        Ok(())
    }

    /// Why an answer does not count on this host, which requires signatures.
    fn unsigned(&self, repo: &Repo, ledger: &Ledger<'_>, id: ApprovalId, tool: &Tool) -> Option<String> {
        let approval =
            ledger.tip().state.approvals.get(&id).filter(|_| self.owner.manners.requires_signed)?;
        let how = unsigned(repo, ledger, approval, tool)?;
        tracing::warn!(approval = %id, how, "an answer does not count: aynig.requireSignedApprovals is set");
        Some(format!("the answer to it is {how}, and signed answers alone count here"))
    }

    /// Notes that this turn gets an answer, before its program does.
    fn hear(&self, ledger: &mut Ledger<'_>, approval: ApprovalId, op: &Op) -> Result<(), LedgerError> {
        let turn = self.owner.turn;
        let known = ledger.tip().state.approvals.get(&approval);
        if known.is_some_and(|one| one.heard_by == Some(turn)) {
            return Ok(());
        }
        let op = Op { id: OpId::random(), ..op.clone() };
        ledger.operate(&op, &[Command::Hear { approval, turn }], &[])?;
        reach(Point::AnswerHeard);
        Ok(())
    }

    /// Parks the turn if an answer is overdue. A request that nobody can see is denied: an answer will never come.
    fn park(&mut self) -> bool {
        let wait = self.owner.manners.wait;
        for one in std::mem::take(&mut self.open) {
            if one.since.elapsed() < wait {
                self.open.push(one);
            } else if one.approval.is_some() {
                one.reply.send(Resolution::Parked);
                return true;
            } else {
                let why = one.trouble.unwrap_or_else(|| "nobody could be asked".to_owned());
                one.reply.send(Resolution::Denied { reason: Some(format!("nobody was asked: {why}")) });
            }
        }
        false
    }
}

/// The purpose of a request, and what an answer cannot carry.
fn context(request: &Request) -> Option<String> {
    let note = match (request.carries_args, request.carries_reason) {
        (true, true) => None,
        (false, true) => {
            Some("this program cannot take changed arguments: it is denied, and asked to request them")
        }
        (_, false) => Some(
            "this program cannot take changed arguments or a reason: it is denied, and its next prompt has them",
        ),
    };
    let note = note.map(|note| format!("note: {note}"));
    let parts: Vec<String> = request.context.iter().cloned().chain(note).collect();
    (!parts.is_empty()).then(|| parts.join("\n"))
}

/// The approval that a request of a turn was given by an operation: the newest that no turn has heard, else the one that an
/// approval for good answered.
fn meant<'s>(
    state: &'s State,
    (node, turn): (NodeId, TurnId),
    tool: &Tool,
    heard: &[ApprovalId],
) -> Option<&'s Approval> {
    let is_of_turn = |one: &Approval| one.heard_by.is_none_or(|by| by == turn);
    let known = state.approvals.values();
    let fitting = known.filter(|one| one.asks_for(node, tool) && !heard.contains(&one.id) && is_of_turn(one));
    fitting.max_by_key(|one| (one.heard_by.is_none(), one.requested_at))
}

/// Whether an operation made this request.
fn is_new(decided: &Decided, id: ApprovalId) -> bool {
    decided
        .events
        .iter()
        .any(|event| matches!(&event.body, Body::ApprovalRequested(one) if one.approval_id == id))
}

/// The time in this long.
fn after(time: Duration) -> Result<Timestamp, Refusal> {
    let millis = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
    let at = Timestamp::from_millis(now()?.millis().saturating_add(millis));
    at.ok_or_else(|| Refusal::new(Why::Setup, "aynig.approvalExpireSeconds is too long"))
}

/// How long it is until a time. `None`: the clock cannot be read.
fn left_until(at: Timestamp) -> Option<Duration> {
    let millis = at.millis().saturating_sub(now().ok()?.millis());
    Some(Duration::from_millis(u64::try_from(millis).unwrap_or(0)))
}

/// The answer of an approval for its program. `None`: there is none yet.
fn resolution(approval: Option<&Approval>) -> Option<Resolution> {
    let denied = |reason: &str| Some(Resolution::Denied { reason: Some(reason.to_owned()) });
    let Some(approval) = approval else { return denied("the request is gone from the run") };
    let answer = approval.resolution.as_ref()?;
    match (answer.status, &answer.modified_args) {
        (Answer::Approved, _) => Some(Resolution::Approved),
        (Answer::Modified, Some(args)) => Some(Resolution::ApprovedWith(args.clone())),
        (Answer::Denied | Answer::Modified, _) => Some(Resolution::Denied { reason: answer.reason.clone() }),
        (Answer::Expired, _) => denied("nobody answered in time"),
        (Answer::Withdrawn, _) => denied("the request was withdrawn"),
    }
}

/// Why a gated node cannot be run by a provider.
#[must_use]
pub fn cannot_ask(provider: &str) -> String {
    format!(
        "provider {provider} prints plain text and cannot ask for permission; `--permissions skip` lets a node of it run \
         without requests, and `aynig.provider.{provider}.protocol jsonl` is a protocol with requests"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CONTRACT 22.12
    #[test]
    fn people_read_what_an_answer_cannot_carry() {
        let request = |context: Option<&str>, carries_args, carries_reason| Request {
            id: "1".to_owned(),
            tool: Tool::new("t", "command", serde_json::Map::new()),
            context: context.map(str::to_owned),
            carries_reason,
            carries_args,
        };
        for (given, carries_args, carries_reason, said) in [
            (None, true, true, None),
            (Some("why"), true, true, Some("why")),
            (Some("why"), false, true, Some("why\nnote: this program cannot take changed arguments: ")),
            (None, false, false, Some("note: this program cannot take changed arguments or a reason: ")),
        ] {
            let shown = context(&request(given, carries_args, carries_reason));
            let fits =
                shown.as_deref().zip(said).map_or(shown.is_none() && said.is_none(), |(shown, said)| {
                    shown.starts_with(said) && (carries_args || shown.len() > said.len())
                });
            assert!(fits, "{shown:?}");
        }
    }
}
