//! Reads many objects on several threads.

use std::num::NonZero;
use std::thread;

use crate::git::repo::open::Repo;

/// The most threads. Reading objects is bound by memory, which more threads do not make faster.
const MOST_THREADS: usize = 8;

impl Repo {
    /// Calls `each` with shares of `items`, each on its own thread with its own handle. Returns the results in the order
    /// of the items. A share has at least `least` items, the number from which another thread pays off.
    pub(crate) fn in_shares<T: Send, R: Send>(
        &self,
        items: Vec<T>,
        least: usize,
        each: impl Fn(&Self, Vec<T>) -> R + Sync,
    ) -> Vec<R> {
        let threads = thread::available_parallelism().map_or(1, NonZero::get).min(MOST_THREADS);
        let share = items.len().div_ceil(threads).max(least);
        if items.len() <= share {
            return vec![each(self, items)];
        }
        let mut shares = Vec::new();
        let mut items = items.into_iter();
        while items.len() > 0 {
            shares.push(items.by_ref().take(share).collect::<Vec<T>>());
        }
        let (store, each) = (self.store(), &each);
        thread::scope(|scope| {
            let workers: Vec<_> = shares
                .into_iter()
                .map(|share| {
                    let store = &store;
                    scope.spawn(move || each(&store.handle(), share))
                })
                .collect();
            let ended = workers.into_iter().map(thread::ScopedJoinHandle::join);
            ended.map(|worker| worker.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
        })
    }
}
