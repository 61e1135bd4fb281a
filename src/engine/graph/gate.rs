//! Requests of a turn for approval: each is an operation of its own, and its answer comes from the ledger (CONTRACT 22.12).
//!
//! Invariants: a tool runs only after its run's ledger has an approval of that call. An answer counts as heard only if
//! its program was given it; one that comes too late is kept for the next turn. Nobody waits for a remote when the
//! turn ends. The answer to an act of the agent's hand counts with the turn that carries the act out, and until then for
//! each that asks the same.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::clock::Stopwatch;
use crate::engine::{now, open};
use crate::fsutil::DirectoryWatch;
use crate::git::Repo;
use crate::git::process::cancel::Interrupt;
use crate::ledger::watch::Watch;
use crate::ledger::{Ledger, LedgerError, Masks, Place};
use crate::model::approval::{Answer, Approval};
use crate::model::by::By;
use crate::model::decide::texts::MAX_TEXT;
use crate::model::decide::{Command, Op};
use crate::model::ids::{ApprovalId, NodeId, OpId, RunId};
use crate::provider::gate::{Gate, Reply, Request, Resolution};
use crate::stop::Stop;
use crate::workspace::refusal::{Refusal, Why};

use super::hand::Hand;
use super::staged::Act;

/// The longest wait for the next look. Moves and new requests come before.
const LOOK: Duration = Duration::from_secs(5);

/// The beginning of the ids of requests about acts. No provider's id has it.
const ACT: &str = "act\0";

/// The longest wait for a call to a remote that is being ended.
const PATIENCE: Duration = Duration::from_secs(2);

/// The owner of a turn's requests.
#[derive(Debug, Clone, Copy)]
pub(super) struct Owner {
    pub(super) run: RunId,
    pub(super) node: NodeId,
    /// The longest wait of a request for its answer. The turn is parked then.
    pub(super) wait: Duration,
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
        Self { is_act, request, reply, since: Stopwatch::start(), approval: None, trouble: None }
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
            if let Err(error) = self.answer_known(repo) {
                tracing::debug!(%error, run = %self.owner.run, "the ledger of a turn that waits for an answer");
            }
            if self.park() {
                return;
            }
            let left = self.open.iter().map(|one| self.owner.wait.saturating_sub(one.since.elapsed()));
            watch.next(left.min().unwrap_or(LOOK).min(LOOK));
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
        for mut one in std::mem::take(&mut self.open) {
            if one.approval.is_some() {
                self.open.push(one);
                continue;
            }
            match self.record(repo, &one) {
                Ok(id) => {
                    one.approval = Some(id);
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

    /// The approval of a request: one that is open, one with an answer that no turn has heard, or a new one.
    fn record(&self, repo: &Repo, one: &Open) -> Result<ApprovalId, Refusal> {
        let (node, request) = (self.owner.node, &one.request);
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
        let heard = if one.is_act { Vec::new() } else { lock(&self.known).ids() };
        let masks = Masks::of(repo, &ledger.tip().state.run.base_sha)?;
        let ask = Command::Ask {
            node,
            tool: request.tool.clone(),
            context: request.context.clone(),
            expires_at: None,
            heard: heard.clone(),
        };
        let masked = masks.commands(std::slice::from_ref(&ask));
        let Some(Command::Ask { tool, .. }) = masked.first() else {
            return Err(Refusal::new(Why::Failed, "the request was not recorded"));
        };
        let by = By::Node { node, runner: repo.runner_id().to_owned() };
        let op = Op { id: OpId::random(), at: now()?, by };
        let operated = ledger.operate(&op, &[ask], &[])?;
        let mut known = operated.decided.state.approvals.values();
        let found = known.find(|one| one.asks_for(node, tool) && !heard.contains(&one.id));
        found.map(|one| one.id).ok_or_else(|| Refusal::new(Why::Failed, "the request was not recorded"))
    }

    /// Hands the answers over that the ledger has.
    fn answer_known(&mut self, repo: &Repo) -> Result<(), LedgerError> {
        if self.open.iter().all(|one| one.approval.is_none()) {
            return Ok(());
        }
        let ledger = Ledger::open(repo, self.owner.run)?;
        let approvals = &ledger.tip().state.approvals;
        for one in std::mem::take(&mut self.open) {
            let Some(id) = one.approval else {
                self.open.push(one);
                continue;
            };
            let Some(resolution) = resolution(approvals.get(&id)) else {
                self.open.push(one);
                continue;
            };
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

    /// Parks the turn if an answer is overdue. A request that nobody can see is denied: an answer will never come.
    fn park(&mut self) -> bool {
        let wait = self.owner.wait;
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
