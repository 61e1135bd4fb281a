//! The requests of a program that are answered later.
//!
//! Invariant: an id is asked once. An answer that was given to one request is never used for another one.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::model::approval::Tool;

/// The most requests of one turn. Later ones are denied.
pub(super) const MOST: usize = 16_384;

/// Where a request stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// It is made for the first time.
    New,
    /// The request was made before.
    Again,
    /// Its id was used for another request, or there were too many.
    Spent,
}

/// Open requests in the order in which they were made, with what their answers need.
#[derive(Debug)]
pub(super) struct Held<T> {
    open: Vec<(String, T)>,
    /// The ids that were used, each with a hash of its tool.
    known: BTreeMap<String, u64>,
}

impl<T> Default for Held<T> {
    fn default() -> Self {
        Self { open: Vec::new(), known: BTreeMap::new() }
    }
}

impl<T> Held<T> {
    /// Notes that an id is in use.
    pub(super) fn place(&mut self, id: &str, tool: &Tool) -> Place {
        let mut hasher = DefaultHasher::new();
        (&tool.id, &tool.name, serde_json::to_string(&tool.args).unwrap_or_default()).hash(&mut hasher);
        let hash = hasher.finish();
        match self.known.get(id) {
            Some(before) if *before == hash => Place::Again,
            Some(_) => Place::Spent,
            None if self.known.len() >= MOST => Place::Spent,
            None => {
                self.known.insert(id.to_owned(), hash);
                Place::New
            }
        }
    }

    /// Keeps a request open.
    pub(super) fn keep(&mut self, id: &str, what: T) {
        self.open.push((id.to_owned(), what));
    }

    /// Takes a request that is answered or withdrawn.
    pub(super) fn take(&mut self, id: &str) -> Option<T> {
        let at = self.open.iter().position(|(open, _)| open == id)?;
        Some(self.open.remove(at).1)
    }

    /// Takes all.
    pub(super) fn take_all(&mut self) -> Vec<T> {
        std::mem::take(&mut self.open).into_iter().map(|(_, what)| what).collect()
    }
}
