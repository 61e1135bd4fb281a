//! Waits that outlast the absence of a remote (CONTRACT 5.38).
//!
//! Invariant: only questions are repeated. A push is not, since its outcome may be unknown.

use std::time::Duration;

use crate::git::Repo;
use crate::git::process::cancel::{Interrupt, Purpose};
use crate::runner::authority::Authority;
use crate::runner::passes::changes::Changes;

use super::error::{Error, Kind};

/// A wait for changes that reports once that the remote is away, and once that it is back.
#[derive(Debug)]
pub struct Patience {
    /// What is waited for, and for how long.
    pub changes: Changes,
    interrupt: Interrupt,
    warn: fn(&str),
    remark: fn(&str),
    away: bool,
}

impl Patience {
    /// Listens to the branches of `authority` from now on, for `limit` at most.
    pub fn of(
        repo: &Repo,
        authority: &Authority,
        limit: Option<Duration>,
        warn: fn(&str),
        remark: fn(&str),
    ) -> Self {
        let (changes, interrupt) = (Changes::of(repo, authority, limit), repo.interrupt().clone());
        Self { changes, interrupt, warn, remark, away: false }
    }

    /// Passes an answer on. `None` if the remote gave none, unless a signal ended the question.
    pub fn answer<T>(&mut self, found: Result<T, Error>) -> Result<Option<T>, Error> {
        match found {
            Err(error)
                if error.kind == Kind::Remote && !self.interrupt.ends(Purpose::Other, Duration::ZERO) =>
            {
                if !std::mem::replace(&mut self.away, true) {
                    (self.warn)(&format!("{}; asking again", error.message));
                }
                Ok(None)
            }
            Err(error) => Err(error),
            Ok(found) => {
                if std::mem::take(&mut self.away) {
                    (self.remark)("the remote answers again");
                }
                Ok(Some(found))
            }
        }
    }

    /// Looks, at the latest when `due` has passed, until there is an end. `None` once the limit has passed.
    pub fn until<T>(
        &mut self,
        due: impl Fn() -> Option<Duration>,
        mut look: impl FnMut() -> Result<Option<T>, Error>,
    ) -> Result<Option<T>, Error> {
        loop {
            if let Some(end) = self.answer(look())?.flatten() {
                return Ok(Some(end));
            }
            if !self.changes.next(due()) {
                return Ok(None);
            }
        }
    }
}
