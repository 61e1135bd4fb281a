//! Puts a commit on a branch.
//!
//! Invariant: the commit lands by the compare-and-swap that the runner uses, which expects the HEAD
//! that was judged.

use crate::contract::head::Head;
use crate::contract::ids::{CommitId, StateName};
use crate::contract::lease::Lease;
use crate::contract::message::{Draft, Message};
use crate::contract::waits_for::WaitsFor;
use crate::git::objects::commits::{NewCommit, Stored};
use crate::git::remote::{Move, PATIENCE};
use crate::git::{Repo, Swap};
use crate::runner::authority::Authority;
use crate::words::{error_chain, shell_quote};

use super::answer::newest_answer;
use super::target::{Target, head_words};
use super::{Advice, Onto, Written};
use crate::ops::error::{Error, Kind};

/// The most tries of an attempt that holds the branch. Each lost race is a renewal by its own
/// runner.
const TRIES: u32 = 10;

/// A commit that has landed.
#[derive(Debug)]
pub(super) struct Landed {
    pub(super) before: Target,
    /// The commit, now the branch's HEAD.
    pub(super) commit: Stored,
    /// Advice on the checkout.
    advice: Vec<Advice>,
}

impl Landed {
    /// Returns the public result. The commit declares `state`.
    pub(super) fn written(self, state: StateName) -> Written {
        Written {
            parent: self.before.head.as_ref().map(|head| head.id),
            previous: self.before.meaning.state(),
            branch: self.before.branch,
            commit: self.commit.id,
            waits: WaitsFor::of(&Message::parse(&self.commit.message).trailers)
                .filter(|_| !state.is_working()),
            state,
            advice: self.advice,
        }
    }
}

/// Puts the commit drafted by `compose` on the requested branch.
///
/// Fails if the branch moves meanwhile. The attempt that holds the branch retries instead: its
/// runner may renew the lease at any moment, and the new state must not be lost to that.
pub(super) fn write(
    repo: &Repo,
    authority: &Authority,
    onto: &Onto,
    log: &str,
    compose: impl Fn(&Target) -> Result<Draft, Error>,
) -> Result<Landed, Error> {
    let mut tries = 0;
    loop {
        let before = Target::look(repo, authority, onto)?;
        before.check_no_driver(repo)?;
        before.check_expected(repo, authority, &onto.expected)?;
        let message = compose(&before)?.encode().map_err(|error| {
            Error::usage(format!("could not set the state of {}: {}", before.branch, error_chain(&error)))
        })?;
        let trying = format!("write a commit on {}", before.branch);
        let failed = |error: &dyn std::error::Error| Error::because(&trying, error);
        let expected = before.head.as_ref().map(|head| head.id);
        let tree = before.tree(repo)?;
        before.check_concluded()?;
        let parent = before.parent(repo, authority);
        if let Some(stranger) = before.stranger(repo, tree, parent) {
            return Err(before.overtaken(repo, stranger));
        }
        if let Some(parent) = parent {
            before.check_signed(repo, onto.accept_unsigned, parent)?;
        }
        let parents = parent.as_slice();
        let holder = before.lease().filter(|_| before.held).and_then(Lease::attempt);
        let attempt = holder.and_then(|attempt| authority.credential(attempt));
        let new = repo
            .write_commit(&NewCommit { tree, parents, message: &message, attempt })
            .map_err(|e| failed(&e))?;
        let swap = match expected {
            Some(expected) => {
                let wanted = Move { branch: before.branch.clone(), expected, new, within: None };
                authority.swap(repo, wanted, log)
            }
            None => authority.create(repo, &before.branch, new, log),
        };
        tries += 1;
        match swap? {
            Swap::Won => {
                let along = before.pushed_along(repo, authority, parent);
                let staged = before.staged_along(repo, parent, tree);
                let behind = before.follow(repo, authority, parent, new);
                let commit = repo.commit(new).map_err(|error| failed(&error))?;
                let advice =
                    along.into_iter().chain(staged).chain(behind).chain(before.left_behind()).collect();
                return Ok(Landed { before, commit, advice });
            }
            Swap::Lost { .. } if before.held && tries < TRIES => {}
            Swap::Lost { actual } => return Err(lost(repo, authority, &before, actual)),
        }
    }
}

/// Returns the error for a branch that moved between the look and the swap.
fn lost(repo: &Repo, authority: &Authority, before: &Target, actual: Option<CommitId>) -> Error {
    let branch = &before.branch;
    if actual.is_some_and(|id| repo.commit(id).is_err()) {
        // Fetches it. If that fails the message has less to say.
        drop(authority.head(repo, branch, PATIENCE));
    }
    let now = actual.and_then(|id| repo.commit(id).ok());
    let meaning = now.as_ref().map_or(Head::Unmanaged, |now| Head::read(&now.facts()));
    let found = head_words(actual, &meaning, None);
    let message =
        format!("{branch} moved while its next commit was being written: {found}; nothing was changed");
    let asked = before.head.as_ref().map(|head| head.id.to_string()).unwrap_or_default();
    let answer = actual.and_then(|head| newest_answer(repo, head, &asked));
    let error = Error::new(Kind::Conflict, message);
    let error = answer.into_iter().fold(error, Error::hint);
    error.hint(format!("look with `aynig status --branch {}`, then try again", shell_quote(branch)))
}
