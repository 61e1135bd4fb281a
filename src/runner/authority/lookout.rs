//! Looks after leased branches on a remote, so that a request or a forced state is heard in seconds
//! (CONTRACT 10.8).
//!
//! Invariant: one look at a time serves all steps of the run, on a thread of its own. Nobody waits for it: a
//! remote that hangs delays no renewal and no result. It ends with the last step, and so does its call.

use std::collections::HashMap;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::clock;
use crate::contract::ids::{BranchName, CommitId, RemoteName};
use crate::git::process::cancel::Interrupt;
use crate::git::remote::QUESTION;
use crate::git::{Repo, Store};

/// The age of a step at the first look, and the shortest time between two looks.
const FIRST: Duration = Duration::from_secs(2);

/// The longest time between two looks.
const LONGEST: Duration = Duration::from_secs(10);

/// The longest wait for a call that is being ended.
const PATIENCE: Duration = Duration::from_secs(2);

/// A branch that was seen where its keeper did not know it to be; `None` if it is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wake {
    /// The step is over.
    Over,
    /// The branch is here.
    Seen(Option<CommitId>),
}

/// The lookout of a run.
#[derive(Debug, Default)]
pub(crate) struct Lookout(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    posts: HashMap<u64, Post>,
    running: bool,
    /// Ends the current call.
    call: Interrupt,
}

#[derive(Debug)]
struct Post {
    branch: BranchName,
    /// Where the branch was last reported to be.
    told: Option<CommitId>,
    since: Instant,
    looked: Instant,
    wake: Sender<Wake>,
}

impl Post {
    /// When the next look is due: after 2 s, then less and less often.
    fn due(&self) -> Instant {
        let age = self.looked.saturating_duration_since(self.since);
        self.looked + (age / 2).clamp(FIRST, LONGEST)
    }
}

/// A step whose branch is looked after until this is dropped.
#[derive(Debug)]
pub(crate) struct Watched<'a> {
    lookout: &'a Lookout,
    id: u64,
}

impl Lookout {
    /// Looks after the branch of a step whose lease is `lease`.
    pub(crate) fn watch(
        &self,
        store: &Store,
        remote: &RemoteName,
        branch: &BranchName,
        lease: CommitId,
        wake: Sender<Wake>,
    ) -> Watched<'_> {
        let now = clock::monotonic();
        let mut state = self.0.lock();
        let id = state.next;
        state.next += 1;
        if state.posts.is_empty() {
            state.call = Interrupt::default();
        }
        let post = Post { branch: branch.clone(), told: Some(lease), since: now, looked: now, wake };
        state.posts.insert(id, post);
        if !state.running {
            let (shared, store, remote) = (Arc::clone(&self.0), store.clone(), remote.clone());
            let thread = thread::Builder::new().name("lookout".to_owned());
            state.running = thread.spawn(move || shared.run(&store, &remote)).is_ok();
        }
        drop(state);
        self.0.changed.notify_all();
        Watched { lookout: self, id }
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        let shared = &self.lookout.0;
        let mut state = shared.lock();
        state.posts.remove(&self.id);
        if state.posts.is_empty() {
            state.call.end_all();
            shared.changed.notify_all();
            let until = clock::monotonic() + PATIENCE;
            while state.running && state.posts.is_empty() {
                let left = until.saturating_duration_since(clock::monotonic());
                if left.is_zero() {
                    break;
                }
                state = shared.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }
}

/// Marks the thread as ended after a panic.
struct Running<'a>(&'a Shared);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.lock().running = false;
            self.0.changed.notify_all();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, store: &Store, remote: &RemoteName) {
        let _running = Running(self);
        let repo = store.handle();
        loop {
            let mut state = self.lock();
            let Some(due) = state.posts.values().map(Post::due).min() else {
                // Under the lock, so that the next step starts another thread.
                state.running = false;
                self.changed.notify_all();
                return;
            };
            let left = due.saturating_duration_since(clock::monotonic());
            if !left.is_zero() {
                drop(self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner));
                continue;
            }
            let call = state.call.clone();
            let asked: Vec<(u64, BranchName)> =
                state.posts.iter().map(|(id, post)| (*id, post.branch.clone())).collect();
            drop(state);
            let seen = look(&repo, remote, &asked, &call);
            state = self.lock();
            let now = clock::monotonic();
            for (id, branch) in asked {
                let Some(post) = state.posts.get_mut(&id) else { continue };
                post.looked = now;
                let Some(head) = seen.as_ref().map(|seen| seen.get(&branch).copied()) else { continue };
                if head != post.told {
                    post.told = head;
                    // A keeper that has ended is deaf.
                    post.wake.send(Wake::Seen(head)).ok();
                }
            }
        }
    }
}

/// Asks once for all branches, and fetches commits that are not here. `None` if there is no answer.
fn look(
    repo: &Repo,
    remote: &RemoteName,
    asked: &[(u64, BranchName)],
    call: &Interrupt,
) -> Option<HashMap<BranchName, CommitId>> {
    let branches: Vec<BranchName> = asked.iter().map(|(_, branch)| branch.clone()).collect();
    let looked = || {
        let heads = repo.watch_remote(remote, &branches, call, QUESTION)?;
        let unknown: Vec<BranchName> = heads
            .iter()
            .filter(|(_, head)| repo.commit(**head).is_err())
            .map(|(branch, _)| branch.clone())
            .collect();
        if !unknown.is_empty() {
            repo.fetch_watched(remote, &unknown, call, QUESTION)?;
        }
        Ok::<_, crate::git::remote::RemoteError>(heads)
    };
    looked().map_err(|error| tracing::debug!(%error, "the leased branches were not looked at")).ok()
}
