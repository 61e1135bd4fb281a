//! A state by hand that waits until its branch is free (CONTRACT 5.32 to 5.35).
//!
//! Invariant: it is either set at once, by the commit that [`state`] would write, or left beside the branch; never
//! both. A branch has one deferred state at most.

use bstr::ByteSlice;

use crate::clock;
use crate::clock::span;
use crate::contract::cancel::is_cancelled;
use crate::contract::deferred::{Rest, SLOT_KEY, WAKE_KEY};
use crate::contract::head::Head;
use crate::contract::ids::{BranchName, CommitId, StateName};
use crate::contract::layout::{SLOTS, slot_ref};
use crate::contract::lease::Lease;
use crate::contract::message::Message;
use crate::contract::parking::{Parking, parking};
use crate::contract::trailers::Trailer;
use crate::git::objects::commits::NewCommit;
use crate::git::remote::QUESTION;
use crate::git::{RefChange, Repo, Together};
use crate::runner::authority::Authority;
use crate::runner::passes::deliver::{is_delivered, sender, undeliverable, withdrawal};
use crate::runner::survey::{rest, trust};
use crate::words::{error_chain, shell_quote};

use super::state::{compose, slips, state};
use super::target::Target;
use super::{Advice, Expected, Onto, StateRequest, Written};
use crate::ops::error::{Error, Kind};
use crate::ops::patience::Patience;
use crate::ops::settings;

/// How often the branch may move under us before this is given up.
const TRIES: u32 = 5;

/// The outcome.
#[derive(Debug)]
pub enum Placed {
    /// The branch was free, and has the state now.
    Set(Box<Written>),
    /// It was left beside the branch.
    Left(Left),
}

/// A deferred state.
#[derive(Debug)]
pub struct Left {
    /// The branch.
    pub branch: BranchName,
    /// The state.
    pub state: StateName,
    /// The commit of the slot.
    pub commit: CommitId,
    /// The lease that it waits for.
    pub lease: Option<Box<Lease>>,
    /// Whether the same state was waiting there already.
    pub again: bool,
    /// Whether it was waited for, and is delivered.
    pub delivered: bool,
    /// The deferred state whose place it took, since no pass could deliver it.
    pub replaced: Option<Box<Withdrawn>>,
    /// What the user should know besides.
    pub advice: Vec<Advice>,
}

/// A deferred state that was removed.
#[derive(Debug)]
pub struct Withdrawn {
    /// The branch.
    pub branch: BranchName,
    /// The commit of the slot.
    pub slot: CommitId,
    /// What it would have set, in words.
    pub words: String,
    /// Why no pass could deliver it, in words.
    pub stuck: Option<String>,
}

/// Sets a state at once if the branch is free, else leaves it beside the branch. With `wake` it also replaces a parked
/// state, and one that waits for an answer. With `patience`, which began before this, waits until it was delivered.
pub fn when_free(
    repo: &Repo,
    authority: &Authority,
    request: &StateRequest,
    wake: bool,
    mut patience: Option<&mut Patience>,
) -> Result<Placed, Error> {
    let mut tries = 0;
    loop {
        tries += 1;
        let target = Target::look(repo, authority, &request.onto)?;
        target.check_no_driver(repo)?;
        target.check_expected(repo, authority, &request.onto.expected)?;
        let head = head_of(&target)?;
        let branch = target.branch.clone();
        let waiting = authority.slot(repo, &branch)?;
        // First in, first out: an earlier slot is delivered first, if it can be.
        let ahead = match waiting {
            Some(slot) if stranded(repo, authority, &branch, slot)?.is_some() => None,
            waiting => waiting,
        };
        // An attempt owns its branch, and would wait for its own end.
        let is_free = target.held || (ahead.is_none() && rest_of(repo, authority, &target)?.admits(wake));
        if is_free {
            match at_once(repo, authority, request, &target, head) {
                Ok(written) => return Ok(Placed::Set(Box::new(written))),
                Err(error) if error.kind == Kind::Conflict && tries < TRIES => continue,
                Err(error) => return Err(error),
            }
        }
        check_unconditional(&request.onto.expected, authority, &branch)?;
        let (slot, declared) = slot_commit(repo, authority, request, &target, wake)?;
        let advice = || match repo.commit(slot) {
            Ok(kept) => slips(repo, None, &branch, &kept, (&declared, request)),
            Err(_) => Vec::new(),
        };
        let left = |commit, again| Left {
            branch: branch.clone(),
            state: declared.clone(),
            commit,
            lease: target.lease().cloned().map(Box::new),
            again,
            delivered: false,
            replaced: None,
            advice: advice(),
        };
        let mut left = match (ahead, &mut patience) {
            (Some(there), _) if says_the_same(repo, there, slot) => left(there, true),
            (Some(there), Some(patience)) => {
                await_turn(repo, authority, &branch, there, patience)?;
                tries = 0;
                continue;
            }
            (Some(there), None) => return Err(taken(repo, authority, &branch, there)),
            // Another clone may be able to read it.
            (None, _) if waiting.is_some_and(|there| repo.commit(there).is_err()) => {
                return Err(unreadable(authority, &branch, waiting.unwrap_or(slot)));
            }
            (None, patience) => {
                match leave(repo, authority, &branch, (waiting, slot), patience.as_deref_mut())? {
                    Leaving::Left => Left {
                        replaced: waiting.map(|there| Box::new(withdrawn(repo, &branch, there, Some(head)))),
                        ..left(slot, false)
                    },
                    Leaving::Delivered => {
                        return Ok(Placed::Left(Left { delivered: true, ..left(slot, false) }));
                    }
                    Leaving::Lost(_) if tries < TRIES => continue,
                    Leaving::Lost(actual) => {
                        return Err(taken(repo, authority, &branch, actual.unwrap_or(slot)));
                    }
                }
            }
        };
        if let Some(patience) = &mut patience {
            await_end(repo, authority, &branch, left.commit, patience)?;
            left.delivered = true;
        }
        return Ok(Placed::Left(left));
    }
}

fn head_of(target: &Target) -> Result<CommitId, Error> {
    target.head.as_ref().map(|head| head.id).ok_or_else(|| {
        Error::failed(format!("{} has no commit yet, so nothing waits for it", target.branch))
            .hint("without `--when-free` the state is its first commit")
    })
}

/// Sets the state on the HEAD that was seen.
fn at_once(
    repo: &Repo,
    authority: &Authority,
    request: &StateRequest,
    target: &Target,
    head: CommitId,
) -> Result<Written, Error> {
    let expected = Expected { commit: Some(head.to_string()), state: request.onto.expected.state.clone() };
    let branch = Some(&target.branch).filter(|_| !target.inside).or(request.onto.branch.as_ref());
    let onto = Onto { expected, branch: branch.cloned(), ..request.onto.clone() };
    state(repo, authority, &StateRequest { onto, wanted: request.wanted.clone() })
}

/// Why no pass can deliver the slot. HEAD is read after the slot: its sender may have seen a newer one than we.
fn stranded(
    repo: &Repo,
    authority: &Authority,
    branch: &BranchName,
    slot: CommitId,
) -> Result<Option<String>, Error> {
    let head = authority.head(repo, branch, QUESTION)?;
    Ok(undeliverable(repo, branch, head, slot))
}

fn withdrawn(repo: &Repo, branch: &BranchName, slot: CommitId, head: Option<CommitId>) -> Withdrawn {
    let stuck = undeliverable(repo, branch, head, slot);
    Withdrawn { branch: branch.clone(), slot, words: state_of(repo, slot), stuck }
}

/// Removes the deferred state of a branch.
pub fn withdraw(repo: &Repo, authority: &Authority, onto: &Onto) -> Result<Withdrawn, Error> {
    let target = Target::look(repo, authority, onto)?;
    target.check_expected(repo, authority, &onto.expected)?;
    let (branch, head) = (&target.branch, &target.head);
    let look = format!("look with `aynig status {}`", shell_quote(branch));
    let Some(slot) = authority.slot_name(repo, branch)? else {
        return Err(
            Error::failed(format!("no deferred state waits for {branch}; nothing was changed")).hint(look)
        );
    };
    let gone = |how: &str| {
        Error::new(Kind::Conflict, format!("{} was {how}; nothing was changed", state_of(repo, slot)))
            .hint(look.clone())
    };
    // A killed runner may have left the slot behind its delivery.
    // Fetches its commit, if it is one.
    authority.slot(repo, branch).ok();
    if let (Ok(kept), Some(head)) = (repo.commit(slot), head)
        && is_delivered(repo, &kept, head.id)
    {
        return Err(gone("delivered already"));
    }
    let change = RefChange { name: slot_ref(branch), expected: Some(slot), new: None };
    match authority.swap_together(repo, branch, &[change], "aynig: withdraw state")? {
        Together::Won => Ok(withdrawn(repo, branch, slot, head.as_ref().map(|head| head.id))),
        Together::Lost { .. } => Err(gone("delivered or replaced meanwhile")),
    }
}

/// Whether the branch is free for a state.
fn rest_of(repo: &Repo, authority: &Authority, target: &Target) -> Result<Rest, Error> {
    let Some(head) = target.head.as_ref().filter(|_| target.lease().is_none()) else { return Ok(Rest::Busy) };
    let Head::Ready(event) = &target.meaning else {
        return Ok(if matches!(target.meaning, Head::Unmanaged) { Rest::Rests } else { Rest::Busy });
    };
    if is_cancelled(event) {
        return Ok(Rest::Rests);
    }
    let from = trust::commands_from(repo, authority, &settings::trust(repo)?)
        .map_err(|error| Error::setup(error_chain(&error)))?;
    let knows_commands =
        from.is_some() || repo.directory_in(head.tree, ".aynig").is_ok_and(|commands| commands.is_some());
    if !knows_commands {
        // A runner with `--commands-from` may have a command for it; one without delivers the state.
        return Ok(Rest::Busy);
    }
    match parking(&event.message.trailers, clock::wall_seconds()) {
        Parking::Until(_) | Parking::Unreadable(_) => Ok(Rest::Waits),
        Parking::Over => Ok(rest::of_state(repo, from.as_ref(), head, &event.state)),
    }
}

/// Refuses to defer a state with a condition: a slot is delivered to whatever HEAD is there then (CONTRACT 5.26).
fn check_unconditional(expected: &Expected, authority: &Authority, branch: &BranchName) -> Result<(), Error> {
    if expected.commit.is_none() && expected.state.is_none() {
        return Ok(());
    }
    let remote = authority.source().map(|remote| format!(" --remote {remote}")).unwrap_or_default();
    let message = format!(
        "{branch} is not free, and a state with --expect or --if-state is not deferred; nothing was changed"
    );
    Err(Error::new(Kind::Conflict, message)
        .hint(format!("`aynig wait {}{remote}` ends when it rests; then the same again", shell_quote(branch)))
        .hint("without --expect and --if-state the state is left beside the branch"))
}

/// Writes the commit of a slot: the message that the state would have, on top of the HEAD that was seen.
fn slot_commit(
    repo: &Repo,
    authority: &Authority,
    request: &StateRequest,
    target: &Target,
    wake: bool,
) -> Result<(CommitId, StateName), Error> {
    let mut draft = compose(repo, authority, request, target, None)?;
    draft.trailers.push(Trailer::new(SLOT_KEY, target.branch.to_string()));
    if wake {
        draft.trailers.push(Trailer::new(WAKE_KEY, "true"));
    }
    let trying = format!("write the deferred state of {}", target.branch);
    let message = draft.encode().map_err(|error| {
        Error::usage(format!("could not set the state of {}: {}", target.branch, error_chain(&error)))
    })?;
    let declared =
        Message::parse(&message).trailers.last("dwp-state").and_then(|state| StateName::parse(state).ok());
    let (Some(declared), Some(head)) = (declared, &target.head) else {
        return Err(Error::new(Kind::Bug, "a deferred state declares none"));
    };
    let new = NewCommit { tree: head.tree, parents: &[head.id], message: &message, attempt: None };
    let slot = repo.write_commit(&new).map_err(|error| Error::because(&trying, &error))?;
    Ok((slot, declared))
}

/// The result of leaving a slot.
enum Leaving {
    /// It waits.
    Left,
    /// It was delivered already.
    Delivered,
    /// Another one was left first.
    Lost(Option<CommitId>),
}

/// Leaves a slot in the place of `before`. If the answer to the push is lost, a runner may have delivered it before we look: whoever takes that
/// for a failure sends it again.
fn leave(
    repo: &Repo,
    authority: &Authority,
    branch: &BranchName,
    (before, slot): (Option<CommitId>, CommitId),
    patience: Option<&mut Patience>,
) -> Result<Leaving, Error> {
    let change = RefChange { name: slot_ref(branch), expected: before, new: Some(slot) };
    let moved = authority.swap_together(repo, branch, &[change], "aynig: defer state");
    if matches!(moved, Ok(Together::Won)) {
        return Ok(Leaving::Left);
    }
    let look = || authority.source().map_or(Ok(None), |_| arrived(repo, authority, branch, slot));
    let found = match patience {
        Some(patience) => patience.until(|| None, || look().map(Some)).map(Option::flatten),
        None => look(),
    };
    match (moved, found) {
        (_, Ok(Some(arrived))) => Ok(arrived),
        (Err(error), _) => {
            let other = |error: &Error| error.message.contains(SLOTS) && error.message.ends_with(" exists");
            let error = Error::from(error);
            Err(if other(&error) {
                error.hint("`aynig clean --deferred` lists those whose branch is gone, and removes them with `--apply`")
            } else {
                error
            })
        }
        (Ok(_), Err(error)) => Err(error),
        (Ok(Together::Lost { actual, .. }), Ok(None)) => Ok(Leaving::Lost(actual)),
        (Ok(Together::Won), Ok(None)) => Ok(Leaving::Left),
    }
}

/// Looks for a slot, and then for its delivery: in the other order one that is delivered in between is missed.
fn arrived(
    repo: &Repo,
    authority: &Authority,
    branch: &BranchName,
    slot: CommitId,
) -> Result<Option<Leaving>, Error> {
    if authority.slot(repo, branch)? == Some(slot) {
        return Ok(Some(Leaving::Left));
    }
    let kept = repo.commit(slot).map_err(|error| Error::because("read the deferred state", &error))?;
    let head = authority.head(repo, branch, QUESTION)?;
    Ok(head.filter(|head| is_delivered(repo, &kept, *head)).map(|_| Leaving::Delivered))
}

fn says_the_same(repo: &Repo, one: CommitId, other: CommitId) -> bool {
    match (repo.commit(one), repo.commit(other)) {
        (Ok(one), Ok(other)) => one.message == other.message,
        (Ok(_) | Err(_), _) => false,
    }
}

/// Waits until another's slot is gone, delivered or not, or can be replaced.
fn await_turn(
    repo: &Repo,
    authority: &Authority,
    branch: &BranchName,
    there: CommitId,
    patience: &mut Patience,
) -> Result<(), Error> {
    tracing::debug!(%branch, "another deferred state is first");
    let is_over = || -> Result<bool, Error> {
        Ok(authority.slot(repo, branch)? != Some(there)
            || stranded(repo, authority, branch, there)?.is_some())
    };
    if patience.until(|| None, || is_over().map(|over| over.then_some(())))?.is_some() {
        return Ok(());
    }
    let waited = span(patience.changes.elapsed().as_secs());
    let message = format!(
        "{}, left by {}, still waits for {branch} after {waited}, so nothing of this call was left there",
        state_of(repo, there),
        sender(repo, there)
    );
    Err(Error::new(Kind::Conflict, message).hint(look_at(branch, there)))
}

/// Waits until a slot is gone. Fails if it was removed without being delivered, or cannot be delivered any more.
fn await_end(
    repo: &Repo,
    authority: &Authority,
    branch: &BranchName,
    slot: CommitId,
    patience: &mut Patience,
) -> Result<(), Error> {
    match patience.until(|| None, || end_of(repo, authority, branch, slot))? {
        Some(Leaving::Delivered) => Ok(()),
        Some(Leaving::Left | Leaving::Lost(_)) => {
            let message = format!("{} was removed before it was delivered to {branch}", state_of(repo, slot));
            Err(Error::new(Kind::Conflict, message))
        }
        None => {
            let waited = span(patience.changes.elapsed().as_secs());
            let message = format!("{} still waits for {branch} after {waited}", state_of(repo, slot));
            Err(Error::new(Kind::Conflict, message).hint(format!(
                "it is delivered when the branch rests; `aynig status {}` shows what it waits for",
                shell_quote(branch)
            )))
        }
    }
}

/// What became of a slot. `None` while it waits.
fn end_of(
    repo: &Repo,
    authority: &Authority,
    branch: &BranchName,
    slot: CommitId,
) -> Result<Option<Leaving>, Error> {
    match arrived(repo, authority, branch, slot)? {
        Some(Leaving::Left) => match stranded(repo, authority, branch, slot)? {
            None => Ok(None),
            Some(why) => {
                let message =
                    format!("{} cannot be delivered to {branch}, and stays: {why}", state_of(repo, slot));
                Err(Error::new(Kind::Conflict, message).hint(withdrawal(branch, authority.source())))
            }
        },
        found => Ok(Some(found.unwrap_or(Leaving::Lost(None)))),
    }
}

/// The error for a branch that another deferred state waits for.
fn taken(repo: &Repo, authority: &Authority, branch: &BranchName, slot: CommitId) -> Error {
    let message = format!(
        "{}, left by {}, waits for {branch} already; nothing was changed",
        state_of(repo, slot),
        sender(repo, slot)
    );
    Error::new(Kind::Conflict, message)
        .hint(format!("`--wait` waits for its turn; {}", look_at(branch, slot)))
        .hint(withdrawal(branch, authority.source()))
}

fn look_at(branch: &BranchName, slot: CommitId) -> String {
    format!("look with `aynig status {}` and `git show {}`", shell_quote(branch), slot.short())
}

/// The error for a branch beside which is something that no clone can take for a deferred state.
fn unreadable(authority: &Authority, branch: &BranchName, slot: CommitId) -> Error {
    let message = format!(
        "the place of a deferred state of {branch} is taken: {} is no commit that can be read; nothing was changed",
        slot.short()
    );
    Error::new(Kind::Conflict, message).hint(withdrawal(branch, authority.source()))
}

/// The state that a slot declares, for messages.
fn state_of(repo: &Repo, slot: CommitId) -> String {
    let message = repo.commit(slot).map(|stored| Message::parse(&stored.message)).unwrap_or_default();
    let state = message.trailers.last("dwp-state").map(|state| state.to_str_lossy().into_owned());
    format!("the deferred state {}", state.unwrap_or_else(|| slot.short()))
}
