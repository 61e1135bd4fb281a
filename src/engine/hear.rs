//! A live step or turn hears what people decide about its run and its node: a pause, a stop, an interrupt, a deletion
//! (CONTRACT 16.7, 22.9).
//!
//! Invariants: only a running run leaves its step alone, and only a node that is not held its turn. A read that fails changes nothing. Listening
//! ends with the step, and nobody waits for a remote then.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use crate::contract::ids::CommitId;
use crate::contract::layout::FETCHED_RUNS;
use crate::git::Repo;
use crate::git::process::cancel::Interrupt;
use crate::git::remote::QUESTION;
use crate::ledger::tip::ledger_ref;
use crate::ledger::watch::{Heard, Watch};
use crate::ledger::{LedgerError, Place, Tip};
use crate::model::ids::{MessageId, NodeId, RunId};
use crate::model::run::RunStatus;
use crate::orch::due::is_cut;
use crate::stop::{Stop, Subscription};

/// The longest wait for the next look. Moves and the end of the step come before.
const LOOK: Duration = Duration::from_secs(5);

/// The longest wait for a call to a remote that is being ended.
const PATIENCE: Duration = Duration::from_secs(2);

/// A request to a live step from its run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// The run has this status, which is not `running`.
    Status(RunStatus),
    /// The run was deleted.
    Deleted,
    /// The node of the turn is held or gone, or has a message that interrupts.
    Interrupted,
}

/// Whoever listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Live {
    /// A step of a flow.
    Step,
    /// A turn of this node, which reads these items.
    Turn(NodeId, Vec<MessageId>),
}

/// Listens until it is ended or dropped.
#[derive(Debug)]
pub struct Hearing {
    stop: Stop,
    _parent: Subscription,
    shared: Arc<Shared>,
    bell: Sender<()>,
    /// Closed when the listener has ended.
    over: Receiver<()>,
}

#[derive(Debug, Default)]
struct Shared {
    word: OnceLock<Word>,
    is_over: AtomicBool,
    call: Interrupt,
}

impl Hearing {
    /// Listens to the run's ledger, which is decided at `place`, on a thread of its own. What is heard stops the
    /// switch of the step, as does `stop`.
    #[must_use]
    pub fn of(repo: &Repo, place: &Place, run: RunId, live: Live, stop: &Stop) -> Self {
        let (stop, parent) = stop.child();
        let (bell, news) = mpsc::channel();
        let (alive, over) = mpsc::channel();
        let shared = Arc::<Shared>::default();
        let listener = Listener {
            run,
            live,
            place: place.clone(),
            stop: stop.clone(),
            shared: Arc::clone(&shared),
            seen: None,
        };
        let (store, ring) = (repo.store(), bell.clone());
        let thread = thread::Builder::new().name("hearing".to_owned()).spawn(move || {
            let _alive: Sender<()> = alive;
            let repo = store.handle().ended_by(listener.shared.call.clone());
            listener.listen(&repo, (ring, news));
        });
        if let Err(error) = thread {
            tracing::warn!(%error, "no thread to hear of a pause: it counts after the step");
        }
        Self { stop, _parent: parent, shared, bell, over }
    }

    /// The switch of the step.
    #[must_use]
    pub fn stop(&self) -> &Stop {
        &self.stop
    }

    /// Ends it, and returns what was heard.
    #[must_use]
    pub fn end(self) -> Option<Word> {
        self.shared.word.get().copied()
    }
}

impl Drop for Hearing {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        self.shared.call.end_all();
        // A listener that has ended hears no bell.
        self.bell.send(()).ok();
        if self.over.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            tracing::debug!("the call of a remote does not end; it is left to itself");
        }
    }
}

struct Listener {
    run: RunId,
    live: Live,
    place: Place,
    stop: Stop,
    shared: Arc<Shared>,
    /// The ledger's newest commit that was looked at.
    seen: Option<CommitId>,
}

impl Listener {
    fn listen(mut self, repo: &Repo, bell: (Sender<()>, Receiver<()>)) {
        let place = self.place.clone();
        let mut watch = Watch::with_bell(repo, &place, bell);
        while !self.shared.is_over.load(Ordering::Relaxed) {
            match self.look(repo) {
                Ok(None) => {}
                Ok(Some(word)) => {
                    tracing::debug!(?word, run = %self.run, "heard of the run");
                    // The word is there before anybody is stopped by it.
                    if self.shared.word.set(word).is_ok() {
                        self.stop.call_off();
                    }
                    return;
                }
                Err(error) => tracing::debug!(%error, run = %self.run, "the ledger of a live step"),
            }
            if let Heard::Deaf(error) = watch.next(LOOK) {
                tracing::debug!(%error, run = %self.run, "asking for the ledger of a live step");
            }
        }
    }

    /// The request that is in the ledger now.
    fn look(&mut self, repo: &Repo) -> Result<Option<Word>, LedgerError> {
        let Some(head) = repo.read_ref(ledger_ref(self.run).as_str().into())? else {
            return Ok(Some(Word::Deleted));
        };
        let is_first = self.seen.is_none();
        if self.seen != Some(head) {
            let (status, is_cut) = match &self.live {
                Live::Step => (Tip::read_run(repo, self.run, head)?.state.run.status, false),
                Live::Turn(node, read) => {
                    let state = Tip::read(repo, self.run, head)?.state;
                    (state.run.status, is_cut(&state, *node, read))
                }
            };
            self.seen = Some(head);
            if status != RunStatus::Running {
                return Ok(Some(Word::Status(status)));
            }
            if is_cut {
                return Ok(Some(Word::Interrupted));
            }
        }
        Ok((!is_first && self.is_gone(repo)?).then_some(Word::Deleted))
    }

    /// Whether the remote has no ledger of the run. It is asked if the last fetch, of whatever process here, brought none.
    fn is_gone(&self, repo: &Repo) -> Result<bool, LedgerError> {
        let Place::Remote(remote) = &self.place else { return Ok(false) };
        let fetched = format!("{FETCHED_RUNS}{remote}/{}", self.run);
        if repo.read_ref(fetched.as_str().into())?.is_some() {
            return Ok(false);
        }
        Ok(repo.list_refs(remote, &[ledger_ref(self.run).into()], QUESTION)?.is_empty())
    }
}
